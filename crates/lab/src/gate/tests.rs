use super::*;
use crate::result::Row;
use crate::result::tests::example;

fn figure(median: f64, spread: f64, unit: &str) -> Figure {
    Figure { median, lo: median * (1.0 - spread), hi: median * (1.0 + spread), n: 30, unit: unit.into(), range: None }
}

/// Returns a run with these rows, on a machine that is fit.
fn run(rows: &[(&str, f64, f64, &str)]) -> Report {
    let (mut report, _) = example();
    report.env.cores = 2;
    report.env.load = [0.1; 3];
    report.env.tsc_invariant = true;
    report.env.build.debug_assertions = false;
    report.env.build.opt_level = "3".into();
    report.env.governor = "performance".into();
    report.noise_floor = NoiseFloor { ratio: 1.0, lo: 0.995, hi: 1.005, n: 30 };
    report.rows = rows.iter().map(|(id, at, spread, unit)| Row::new(id, id, figure(*at, *spread, unit))).collect();
    report
}

fn outcome(before: &[(&str, f64, f64, &str)], now: &[&[(&str, f64, f64, &str)]]) -> Outcome {
    let runs: Vec<Report> = now.iter().map(|rows| run(rows)).collect();
    judge(&run(before), &runs, 5.0).outcome
}

#[test]
fn each_outcome_has_its_exit_code() {
    assert_eq!(
        [Outcome::Fine, Outcome::Regression, Outcome::Inconclusive, Outcome::Unfit].map(|of| of as u8),
        [0, 1, 2, 3]
    );
}

#[test]
fn costs_and_rates_are_better_in_opposite_ways() {
    let (ticks, rate) = (("a", 100.0, 0.01, "ticks/op"), ("b", 10.0, 0.01, "GB/s"));
    assert_eq!(outcome(&[ticks, rate], &[&[ticks, rate]]), Outcome::Fine);
    let slower = ("a", 120.0, 0.01, "ticks/op");
    assert_eq!(outcome(&[ticks, rate], &[&[slower, rate][..]; 2]), Outcome::Regression);
    assert_eq!(outcome(&[slower, rate], &[&[ticks, rate]]), Outcome::Fine, "faster");
    assert_eq!(outcome(&[ticks, rate], &[&[ticks, ("b", 8.0, 0.01, "GB/s")][..]; 2]), Outcome::Regression);
    assert_eq!(outcome(&[ticks, rate], &[&[ticks, ("b", 12.0, 0.01, "GB/s")]]), Outcome::Fine);
}

#[test]
fn changes_within_the_tolerance_pass_and_at_its_edge_are_inconclusive() {
    let before = ("a", 100.0, 0.002, "ticks/op");
    assert_eq!(outcome(&[before], &[&[("a", 103.0, 0.002, "ticks/op")]]), Outcome::Fine);
    assert_eq!(outcome(&[before], &[&[("a", 105.0, 0.02, "ticks/op")]]), Outcome::Inconclusive);
    assert_eq!(outcome(&[before], &[&[("a", 108.0, 0.002, "ticks/op")][..]; 2]), Outcome::Regression);
}

#[test]
fn a_regression_must_be_slower_in_every_run() {
    let (before, slow) = ([("a", 100.0, 0.01, "ticks/op")], [("a", 130.0, 0.01, "ticks/op")]);
    assert_eq!(outcome(&before, &[&slow, &slow]), Outcome::Regression);
    assert_eq!(outcome(&before, &[&slow]), Outcome::Inconclusive, "one run confirms nothing");
    assert_eq!(outcome(&before, &[&slow, &before]), Outcome::Fine);
    let wide = [("a", 110.0, 0.2, "ticks/op")];
    assert_eq!(outcome(&before, &[&slow, &wide]), Outcome::Inconclusive);
    assert!(judge(&run(&before), &[run(&slow)], 5.0).wants_another_run());
    assert!(!judge(&run(&before), &[run(&before)], 5.0).wants_another_run());
}

#[test]
fn missing_rows_are_inconclusive_and_new_rows_are_listed() {
    let (a, b) = (("a", 100.0, 0.01, "ticks/op"), ("b", 10.0, 0.01, "GB/s"));
    assert_eq!(outcome(&[a, b], &[&[a]]), Outcome::Inconclusive);
    assert_eq!(outcome(&[a], &[&[a, b]]), Outcome::Fine);
    assert_eq!(outcome(&[a], &[&[("a", 100.0, 0.01, "us")]]), Outcome::Inconclusive, "another unit");
    assert_eq!(outcome(&[a], &[]), Outcome::Inconclusive);
    assert_eq!(outcome(&[], &[&[]]), Outcome::Inconclusive, "nothing at all is no success");
    let text = judge(&run(&[a, b]), &[run(&[a, ("c", 1.0, 0.1, "us")])], 5.0).text();
    assert!(text.ends_with("inconclusive: gone: b; repeat with more trials (--rounds), or add a run\n"), "{text}");
    assert!(text.lines().nth(3).is_some_and(|line| line.starts_with('c') && line.ends_with("new")), "{text}");
}

#[test]
fn an_unfit_machine_is_reported_with_the_reason() {
    let row = [("a", 100.0, 0.01, "ticks/op")];
    type Spoil = fn(&mut Report);
    let spoiled: [(Spoil, &str); 6] = [
        (|run| run.env.cpu = "another".into(), "cpu differs: another; baseline: "),
        (|run| run.env.cores = 8, "processors differ: 8; baseline: 2"),
        (|run| run.env.tsc_hz += run.env.tsc_hz / 50 + 100, "TSC rate differs: "),
        (|run| run.noise_floor.hi = 1.2, "the noise floor of 20.0 % exceeds the tolerance of 5 %"),
        (|run| run.env.load[0] = 7.0, "the machine is busy: load 7.00 on 2 processors"),
        (|run| run.env.build.debug_assertions = true, "not a benchmark build"),
    ];
    for (spoil, why) in spoiled {
        let mut now = run(&row);
        spoil(&mut now);
        let gate = judge(&run(&row), &[now], 5.0);
        assert_eq!(gate.outcome, Outcome::Unfit, "{why}");
        assert!(gate.unfit.iter().any(|said| said.contains(why)), "{why}: {:?}", gate.unfit);
    }
}

#[test]
fn differences_from_the_baseline_are_noted() {
    let row = [("a", 100.0, 0.01, "ticks/op")];
    let same = judge(&run(&row), &[run(&row)], 5.0);
    assert_eq!((same.outcome, same.notes), (Outcome::Fine, Vec::new()));
    let mut now = run(&row);
    now.env.build.git_rev = "0123456".into();
    now.env.kernel = "7.0".into();
    now.rows[0].title = "another thing".into();
    let mut before = run(&row);
    before.env.measured_beside = true;
    let gate = judge(&before, &[now.clone(), now], 5.0);
    assert_eq!((gate.outcome, gate.notes.len()), (Outcome::Fine, 4), "once for both runs: {:?}", gate.notes);
    for part in [
        "note: kernel differs: 7.0; baseline: ",
        "note: revision differs: 0123456; baseline: ",
        "note: row a: title 'another thing', in the baseline 'a'\n",
        "note: baseline: another linerate is measuring",
    ] {
        assert!(gate.text().contains(part), "{part}: {}", gate.text());
    }
    let mut before = run(&row);
    before.env.build.debug_assertions = true;
    let gate = judge(&before, &[run(&row)], 5.0);
    assert!(
        gate.outcome == Outcome::Unfit && gate.unfit[0].contains("debug assertions of the build differ"),
        "{:?}",
        gate.unfit
    );
}

#[test]
fn json_has_the_outcome_and_every_row() {
    let row = [("a", 100.0, 0.01, "ticks/op")];
    let json: serde_json::Value =
        serde_json::from_str(&judge(&run(&row), &[run(&row)], 5.0).to_json().unwrap()).unwrap();
    assert_eq!((json["outcome"].as_str(), json["rows"][0]["says"].as_str()), (Some("fine"), Some("holds")));
}
