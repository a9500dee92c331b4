use super::*;

#[test]
fn the_strategies_agree_on_a_span() {
    let clocks = Strategy::ALL.map(Clock::live);
    let before: Vec<Instant> = clocks.iter().map(Clock::now).collect();
    std::thread::sleep(Duration::from_millis(30));
    let spans: Vec<f64> =
        clocks.iter().zip(&before).map(|(clock, start)| clock.now().since(*start).as_secs_f64()).collect();
    for span in &spans {
        assert!((span / spans[0] - 1.0).abs() < 0.02, "spans {spans:?}");
    }
}

#[test]
fn a_live_clock_never_runs_backwards() {
    for strategy in Strategy::ALL {
        let clock = Clock::live(strategy);
        let mut last = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last, "{strategy}: {now:?} after {last:?}");
            last = now;
        }
    }
}

#[test]
fn a_simulated_clock_moves_only_on_request() {
    let sim = SimClock::new();
    let clock = Clock::sim(&sim);
    assert_eq!(clock.now(), Instant::ZERO);
    assert_eq!(clock.strategy(), None);
    sim.advance(Duration::from_millis(5));
    assert_eq!(clock.now(), Instant::from_millis(5));
    sim.advance_to(Instant::from_millis(3));
    assert_eq!(clock.now(), Instant::from_millis(5), "time does not run backwards");
}

#[test]
fn instants_saturate_instead_of_wrapping() {
    assert_eq!(Instant::NEVER.after(Duration::from_secs(1)), Instant::NEVER);
    assert_eq!(Instant::ZERO.since(Instant::from_millis(1)), Duration::ZERO);
    assert_eq!(Instant::from_millis(u64::MAX), Instant::NEVER);
}

#[test]
fn strategy_names_match_the_setting() {
    let words = ["timespec", "timespec-tsc", "ns", "tsc"];
    assert_eq!(words.map(|word| word.parse::<Strategy>().unwrap()), Strategy::ALL);
    assert_eq!(Strategy::ALL.map(|strategy| strategy.to_string()), words);
    assert!("sundial".parse::<Strategy>().unwrap_err().to_string().contains("timespec, timespec-tsc, ns or tsc"));
}

#[test]
fn timespec_and_nanoseconds_differ_in_representation_and_not_in_source() {
    let (a, b) = (Strategy::TscTimespec, Strategy::NsDivision);
    assert_eq!((a.source(), b.source()), (TimeSource::Tsc, TimeSource::Tsc));
    assert_eq!((a.representation(), b.representation()), (Representation::Timespec, Representation::Nanoseconds));
    assert_eq!(Strategy::ALL.map(Strategy::divides), [false, false, true, false]);
    assert_eq!(Strategy::Timespec.source(), TimeSource::Kernel);
}

#[test]
fn a_clock_reports_the_strategy_that_it_uses() {
    for strategy in Strategy::ALL {
        let expected = if tsc::invariant() { strategy } else { Strategy::Timespec };
        assert_eq!(Clock::live(strategy).strategy(), Some(expected));
    }
}

#[test]
fn ticks_become_the_same_time_in_both_representations() {
    // Test values: up to a year at the highest rate, one tick less than a second, a second, and
    // single ticks.
    for hertz in [25_000_000, 2_299_998_112, 2_600_000_000, 5_000_000_000u64] {
        for ticks in [0, 1, 2, 999, hertz - 1, hertz, hertz + 1, 3600 * hertz + hertz / 3, 365 * 86_400 * hertz] {
            let exact = (u128::from(ticks) * 1_000_000_000 / u128::from(hertz)) as u64;
            assert_eq!(live::divided(ticks, hertz), exact, "{ticks} ticks at {hertz} Hz");
            let (secs, nanos) = live::timespec(ticks, live::scale(hertz));
            assert!(nanos < 1_000_000_000, "{nanos}");
            let short = exact - (secs * 1_000_000_000 + u64::from(nanos));
            // The scale is rounded down, which causes an error of less than one part in 2^31 here,
            // plus two nanoseconds of rounding.
            assert!(short <= (exact >> 31) + 2, "{ticks} ticks at {hertz} Hz: {short} ns short");
        }
    }
}
