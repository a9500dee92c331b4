use super::*;

#[test]
fn the_three_strategies_agree_on_a_span() {
    let clocks = [Strategy::Timespec, Strategy::NsDivision, Strategy::TscScaled].map(Clock::live);
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
    for strategy in [Strategy::Timespec, Strategy::NsDivision, Strategy::TscScaled] {
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
fn a_simulated_clock_moves_only_when_told() {
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
fn strategies_are_named_as_the_knob_spells_them() {
    for word in ["timespec", "ns", "tsc"] {
        assert_eq!(word.parse::<Strategy>().unwrap().to_string(), word);
    }
    assert!("sundial".parse::<Strategy>().unwrap_err().to_string().contains("timespec, ns or tsc"));
}
