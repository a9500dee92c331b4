use super::*;
use crate::subject;

/// Every trial takes a second of this machine's time; `steals` lists the trials (from 0) during which one tick is stolen.
#[derive(Default)]
struct Scripted {
    asked: u64,
    stolen: u64,
    steals: Vec<u64>,
}

impl Host for Scripted {
    fn elapsed(&mut self) -> Duration {
        Duration::from_secs(self.asked / 2)
    }

    /// Asked before and after each kept trial.
    fn steal(&mut self) -> u64 {
        if self.asked % 2 == 1 && self.steals.contains(&(self.asked / 2)) {
            self.stolen += 1;
        }
        self.asked += 1;
        self.stolen
    }
}

fn reading(ticks: u64) -> Reading {
    Reading { ops: 1, ticks, wall_ns: 1_000_000, cpu_ns: 1_000_000 }
}

fn ids(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Runs two lanes and returns the order they were asked in, too. The n-th trial takes n ticks.
fn run(options: &Options, host: &mut Scripted) -> (Vec<Sample>, String) {
    let mut asked = String::new();
    let mut trial = |lane| {
        asked.push(['A', 'B'][lane]);
        Ok(reading(asked.len() as u64))
    };
    let samples = rounds(&ids(&["a", "b"]), &mut trial, options, host, &mut |_| ()).unwrap();
    (samples, asked)
}

#[test]
fn the_order_is_abba_and_the_warm_up_is_thrown_away() {
    let options = Options { warmup: 1, keep: 3, ..Options::default() };
    let (samples, asked) = run(&options, &mut Scripted::default());
    assert_eq!(asked, "ABBAABBA");
    assert_eq!(samples[0].values(), [4.0, 5.0, 8.0]);
    assert_eq!(samples[1].values(), [3.0, 6.0, 7.0]);
    assert!(samples.iter().all(|sample| sample.trials.iter().map(|trial| trial.round).eq(0..3)));
}

#[test]
fn a_stolen_trial_is_dropped_and_made_again_in_its_round() {
    let options = Options { warmup: 0, keep: 2, ..Options::default() };
    let (samples, asked) = run(&options, &mut Scripted { steals: vec![1], ..Scripted::default() });
    assert_eq!(asked, "ABBBA");
    assert_eq!((samples[1].values(), samples[1].dropped.len()), (vec![3.0, 4.0], 1));
    assert_eq!(samples[1].dropped[0].disturbed, Some(Disturbance::Steal));
    assert!(samples[0].dropped.is_empty() && samples.iter().all(|sample| !sample.noisy));
}

#[test]
fn past_the_allowance_disturbed_trials_are_kept_and_the_sample_is_noisy() {
    let options = Options { warmup: 0, keep: 3, replacements: 2, ..Options::default() };
    let (samples, asked) = run(&options, &mut Scripted { steals: (0..100).collect(), ..Scripted::default() });
    assert_eq!(asked, "AAABBBBAAB");
    assert!(samples.iter().all(|sample| sample.noisy && sample.trials.len() == 3 && sample.dropped.len() == 2));
    assert!(samples[0].trials.iter().all(|trial| trial.disturbed == Some(Disturbance::Steal)));
}

#[test]
fn a_thread_that_lost_its_processor_is_seen() {
    let options = Options::default();
    let lost = Reading { cpu_ns: 960_000, ..reading(1) };
    assert_eq!(disturbance(&lost, false, &options), Some(Disturbance::CpuShare));
    assert_eq!(disturbance(&Reading { cpu_ns: 970_000, ..lost }, false, &options), None);
    assert_eq!(disturbance(&lost, false, &Options { min_cpu_share: None, ..options.clone() }), None);
    // In 3 us the clocks' own cost decides nothing.
    assert_eq!(disturbance(&Reading { wall_ns: 3_000, cpu_ns: 200, ..lost }, false, &options), None);
}

#[test]
fn the_time_limit_ends_the_run_between_rounds() {
    let options = Options { warmup: 0, keep: 30, max_seconds: Some(6.0), ..Options::default() };
    let (samples, _) = run(&options, &mut Scripted::default());
    assert_eq!((samples[0].trials.len(), samples[1].trials.len()), (3, 3));
    for limit in [0.0, -1.0, f64::NAN] {
        let options = Options { max_seconds: Some(limit), ..options.clone() };
        assert_eq!(run(&options, &mut Scripted::default()).0[0].trials.len(), 0);
    }
    assert_eq!(seconds(f64::INFINITY), Duration::MAX);
}

#[test]
fn progress_is_told_once_a_round() {
    let mut told = Vec::new();
    let options = Options { warmup: 1, keep: 2, ..Options::default() };
    let mut host = Scripted { steals: vec![0], ..Scripted::default() };
    rounds(&ids(&["a"]), &mut |_| Ok(reading(1)), &options, &mut host, &mut |p| told.push((p.done, p.of, p.dropped)))
        .unwrap();
    assert_eq!(told, [(1, 3, 0), (2, 3, 1), (3, 3, 1)]);
}

#[test]
fn a_failed_trial_names_its_subject() {
    let mut subjects = [subject::from_fn("udp.send", || anyhow::bail!("no route"))];
    let error = interleave(&mut subjects, &Options::default(), &mut |_| ()).unwrap_err();
    assert_eq!(format!("{error:#}"), "trial of udp.send: no route");
}

#[test]
fn real_subjects_on_this_machine_pinned() {
    let spin = |n: u64| {
        move || Ok(subject::measure(n, || (0..n).fold(1u64, |a, b| std::hint::black_box(a.wrapping_mul(b | 1)))))
    };
    let mut subjects = [subject::from_fn("spin.a", spin(20_000)), subject::from_fn("spin.b", spin(20_000))];
    let options = Options { keep: 10, cpu: crate::os::current_cpu(), ..Options::default() };
    let samples = interleave(&mut subjects, &options, &mut |_| ()).unwrap();
    assert!(samples.iter().all(|sample| sample.trials.len() == 10 && sample.summary().unwrap().median > 0.0));
    let [a, again] = against_itself(subjects[0].as_mut(), &options, &mut |_| ()).unwrap();
    assert_eq!((a.id.as_str(), again.id.as_str()), ("spin.a", "spin.a again"));
    assert_eq!(a.trials.len(), again.trials.len());
}

#[test]
fn a_processor_that_is_not_there_is_an_error() {
    for cpu in [1023, 1 << 20] {
        let options = Options { cpu: Some(cpu), ..Options::default() };
        assert!(interleave(&mut [], &options, &mut |_| ()).is_err());
    }
}
