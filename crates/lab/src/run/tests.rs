use super::*;
use crate::subject;
use std::cell::RefCell;
use std::rc::Rc;

/// Simulated machine, on which every trial takes a second; `steals` lists the kept trials (from 0)
/// during which one tick is stolen.
#[derive(Default)]
struct Scripted {
    requested: u64,
    stolen: u64,
    steals: Vec<u64>,
    /// Numbers of the kept trials (from 0) after which the core is slow.
    slow: Vec<u64>,
    settled: u64,
    /// Round from which on the processor is gone.
    gone: Option<u32>,
    rounds: u32,
}

impl Host for Scripted {
    fn elapsed(&mut self) -> Duration {
        Duration::from_secs(self.requested / 2)
    }

    fn place(&mut self) -> Result<(), String> {
        self.rounds += 1;
        if self.gone.is_some_and(|round| self.rounds > round) { Err("core 1 is gone".to_owned()) } else { Ok(()) }
    }

    /// Called before and after each kept trial.
    fn steal(&mut self) -> u64 {
        if self.requested % 2 == 1 && self.steals.contains(&(self.requested / 2)) {
            self.stolen += 1;
        }
        self.requested += 1;
        self.stolen
    }

    fn warm_up(&mut self) {
        self.settled += 1;
    }

    fn is_slow(&mut self) -> bool {
        self.slow.contains(&(self.settled - 1))
    }
}

fn reading(ticks: u64) -> Reading {
    Reading { ops: 1, ticks, wall_ns: 1_000_000, cpu_ns: 1_000_000 }
}

/// Log of events: a capital letter is a build, a small one a trial. The n-th event takes n ticks.
type Log = Rc<RefCell<String>>;

fn side(name: &'static str, log: &Log) -> Side {
    let log = Rc::clone(log);
    Side::new(name, move || {
        log.borrow_mut().push_str(&name.to_uppercase());
        let log = Rc::clone(&log);
        Ok(subject::from_fn(name, move || {
            log.borrow_mut().push_str(name);
            Ok(reading(log.borrow().len() as u64))
        }))
    })
}

fn run(options: &Options, host: &mut Scripted) -> (Vec<Sample>, String) {
    let log = Log::default();
    let samples = rounds(&[side("a", &log), side("b", &log)], options, host);
    let log = log.borrow().clone();
    (samples, log)
}

fn options(keep: u32, warmup: u32, trials: u32) -> Options {
    Options { keep, warmup, trials, ..Options::default() }
}

/// Every round builds both sides; the order of one round is reversed in the next, and the turns of
/// a round alternate.
#[test]
fn every_round_builds_each_side_anew() {
    let (samples, log) = run(&options(4, 1, 2), &mut Scripted::default());
    assert_eq!(log.len(), 4 * 8, "{log}");
    let rounds: Vec<&str> = log.as_bytes().chunks(8).map(|round| std::str::from_utf8(round).unwrap()).collect();
    for pair in rounds.chunks(2) {
        let both: Vec<&str> = pair.to_vec();
        assert!(both == ["ABbaabba", "BAabbaab"] || both == ["BAabbaab", "ABbaabba"], "{log}");
    }
    for sample in &samples {
        assert_eq!((sample.trials.len(), sample.values().len()), (8, 4), "two trials a build are one value");
        assert!(sample.trials.iter().map(|trial| trial.round).eq([0, 0, 1, 1, 2, 2, 3, 3]));
    }
}

#[test]
fn one_by_one_a_side_is_freed_before_the_next_is_built() {
    let options = Options { alive: Alive::OneByOne, ..options(2, 1, 2) };
    let (samples, log) = run(&options, &mut Scripted::default());
    assert!(log == "AaaaBbbbBbbbAaaa" || log == "BbbbAaaaAaaaBbbb", "{log}");
    assert!(samples.iter().all(|sample| sample.values().len() == 2));
}

#[test]
fn the_order_of_several_sides_varies() {
    let log = Log::default();
    let names = ["a", "b", "c", "d"];
    let sides = names.map(|name| side(name, &log));
    rounds(&sides, &options(40, 0, 1), &mut Scripted::default());
    let log = log.borrow();
    let builds: std::collections::BTreeSet<String> =
        log.as_bytes().chunks(8).map(|round| String::from_utf8_lossy(&round[..4]).into_owned()).collect();
    assert!(builds.len() > 12, "{builds:?}");
    for pair in log.as_bytes().chunks(16) {
        assert!(pair[..4].iter().eq(pair[8..12].iter().rev()), "a round is followed by its reverse");
    }
}

#[test]
fn a_trial_with_steal_is_dropped_and_repeated_in_its_round() {
    let (samples, _) = run(&options(2, 0, 1), &mut Scripted { steals: vec![1], ..Scripted::default() });
    let dropped: Vec<usize> = samples.iter().map(|sample| sample.dropped.len()).collect();
    assert_eq!(dropped.iter().sum::<usize>(), 1);
    let disturbed = samples.iter().find_map(|sample| sample.dropped.first()).unwrap();
    assert_eq!((disturbed.disturbed, disturbed.round), (Some(Disturbance::Steal), 0));
    assert!(samples.iter().all(|sample| sample.trials.len() == 2 && !sample.noisy));
}

#[test]
fn a_short_trial_is_repeated_if_the_core_is_slow_at_its_end() {
    let (samples, _) = run(&options(2, 0, 1), &mut Scripted { slow: vec![1, 2], ..Scripted::default() });
    let dropped: Vec<_> = samples.iter().flat_map(|sample| &sample.dropped).map(|trial| trial.disturbed).collect();
    assert_eq!(dropped, [Some(Disturbance::Slow); 2]);
    assert!(samples.iter().all(|sample| sample.trials.len() == 2 && !sample.noisy));
    let long = Side::new("long", || {
        Ok(subject::from_fn("long", || Ok(Reading { wall_ns: 60_000_000, cpu_ns: 60_000_000, ..reading(1) })))
    });
    let samples = rounds(&[long], &options(2, 0, 1), &mut Scripted { slow: vec![0, 1], ..Scripted::default() });
    assert!(samples[0].dropped.is_empty(), "the end of a long trial says nothing about its whole");
}

#[test]
fn a_little_steal_does_not_disturb_a_long_trial() {
    let long = Side::new("long", || {
        Ok(subject::from_fn("long", || Ok(Reading { wall_ns: 1_001_000_000, cpu_ns: 1_001_000_000, ..reading(1) })))
    });
    let samples = rounds(&[long], &options(2, 0, 1), &mut Scripted { steals: (0..9).collect(), ..Scripted::default() });
    assert!(samples[0].dropped.is_empty() && samples[0].trials.len() == 2, "a tick is less than 1 %");
}

#[test]
fn beyond_the_allowance_disturbed_trials_are_kept_and_the_sample_is_noisy() {
    let options = Options { replacements: 2, ..options(3, 0, 1) };
    let (samples, _) = run(&options, &mut Scripted { steals: (0..100).collect(), ..Scripted::default() });
    assert!(samples.iter().all(|sample| sample.noisy && sample.trials.len() == 3 && sample.dropped.len() == 2));
    assert!(samples[0].trials.iter().all(|trial| trial.disturbed == Some(Disturbance::Steal)));
}

#[test]
fn a_preempted_thread_and_a_clock_step_are_detected() {
    let options = Options::default();
    let lost = Reading { cpu_ns: 960_000, ..reading(1) };
    assert_eq!(disturbance(&lost, false, &options), Some(Disturbance::CpuShare));
    assert_eq!(disturbance(&Reading { cpu_ns: 970_000, ..lost }, false, &options), None);
    assert_eq!(disturbance(&lost, false, &options.clone().waiting()), None);
    // In 3 us the cost of reading the clocks must not matter.
    assert_eq!(disturbance(&Reading { wall_ns: 3_000, cpu_ns: 200, ..lost }, false, &options), None);
    let second = timer::rate().hz;
    assert_eq!(disturbance(&Reading { ticks: second, ..reading(1) }, false, &options), Some(Disturbance::Clock));
    // A counter that went backwards is detected.
    assert_eq!(disturbance(&Reading { ticks: 0, ..reading(1) }, false, &options), Some(Disturbance::Clock));
    assert_eq!(disturbance(&Reading { ticks: 0, wall_ns: 3_000, ..reading(1) }, false, &options), None);
    let whole = Reading { ticks: second / 1000, ..reading(1) };
    assert_eq!(disturbance(&whole, false, &options), None);
}

#[test]
fn the_time_limit_ends_the_run_between_rounds_with_the_reason() {
    let options = Options { max_seconds: Some(6.0), ..options(30, 0, 1) };
    let (samples, _) = run(&options, &mut Scripted::default());
    assert_eq!((samples[0].trials.len(), samples[1].trials.len()), (3, 3));
    assert_eq!(samples[0].cut.as_deref(), Some("time limit of 6 s"));
    for limit in [0.0, -1.0, f64::NAN] {
        let options = Options { max_seconds: Some(limit), ..options.clone() };
        let samples = run(&options, &mut Scripted::default()).0;
        assert!(samples[0].failed.as_ref().is_some_and(|why| why.contains("before the first round")), "{samples:?}");
    }
    assert_eq!(seconds(f64::INFINITY), Duration::MAX);
}

#[test]
fn a_core_that_disappears_ends_the_run_with_partial_results() {
    let (samples, _) = run(&options(30, 0, 1), &mut Scripted { gone: Some(5), ..Scripted::default() });
    assert!(samples.iter().all(|sample| sample.values().len() == 5 && sample.failed.is_none()));
    assert_eq!(samples[0].cut.as_deref(), Some("core 1 is gone"));
}

/// Returns a side with `times` failing trials, from call `first` on.
fn failing(first: u32, times: u32) -> Side {
    let count = Rc::new(std::cell::Cell::new(0));
    Side::new("f", move || {
        let count = Rc::clone(&count);
        Ok(subject::from_fn("f", move || {
            let n = count.replace(count.get() + 1);
            anyhow::ensure!(n < first || n >= first + times, "no route");
            Ok(reading(7))
        }))
    })
}

#[test]
fn a_failed_trial_discards_its_round_which_is_repeated() {
    let log = Log::default();
    let samples = rounds(&[side("a", &log), failing(2, 1)], &options(6, 0, 1), &mut Scripted::default());
    for sample in &samples {
        assert_eq!((sample.values().len(), sample.failed.clone()), (6, None), "{sample:?}");
        assert!(sample.trials.iter().map(|trial| trial.round).eq(0..6), "pairs stay aligned");
    }
    assert!(samples[0].dropped.iter().all(|trial| trial.disturbed == Some(Disturbance::Round)));
}

#[test]
fn a_side_that_keeps_failing_is_left_out() {
    let log = Log::default();
    let samples = rounds(&[side("a", &log), failing(2, 1000)], &options(6, 0, 1), &mut Scripted::default());
    assert_eq!((samples[0].values().len(), samples[0].failed.clone()), (6, None));
    assert_eq!(samples[1].failed.as_deref(), Some("trial of f failed: no route"));
    let none = Side::new("n", || -> anyhow::Result<Box<dyn Subject>> { bail!("no memory") });
    let samples = rounds(&[none, side("a", &log)], &options(3, 0, 1), &mut Scripted::default());
    assert_eq!(samples[0].failed.as_deref(), Some("build of n failed: no memory"));
    assert_eq!(samples[1].values().len(), 3);
}

#[test]
fn real_subjects_on_this_machine_pinned() {
    let spin = |n: u64| {
        move || Ok(subject::measure(n, || (0..n).fold(1u64, |a, b| std::hint::black_box(a.wrapping_mul(b | 1)))))
    };
    let side = Side::new("spin", move || Ok(subject::from_fn("spin", spin(20_000))));
    let options = Options { cpu: crate::os::current_cpu(), ..options(10, 1, 3) };
    let samples = interleave(&[side.clone(), side.twin()], &options).unwrap();
    assert!(samples.iter().all(|sample| sample.values().len() == 10 && sample.summary().unwrap().median > 0.0));
    assert_eq!((samples[0].id.as_str(), samples[1].id.as_str()), ("spin", "spin (twin)"));
}

#[test]
fn a_nonexistent_core_is_an_error() {
    for cpu in [1023, 1 << 20] {
        let options = Options { cpu: Some(cpu), ..Options::default() };
        assert!(interleave(&[], &options).is_err());
    }
}
