//! Tests of the table of rows, and of the output for simulated figures.

use super::*;
use crate::result::{Change, Figure};
use crate::rigs::FtpFacts;
use crate::sample::{Sample, Trial};
use crate::side::Shared;
use crate::subject::Reading;
use crate::verdict::{NoiseFloor, Verdict};
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn rates_have_curls_format() {
    let k = 1024.0;
    let shown =
        [500.0, 99_999.0, 9101.0 * k, 9999.0 * k, 97.66 * k * k, 1205.0 * k * k, 12.29 * k * k * k].map(curl_form);
    assert_eq!(shown, ["500", "99999", "9101k", "9999k", "97.6M", "1205M", "12.2G"]);
}

/// Returns the names of the fields in which two setups differ.
fn changes(now: Setup, before: Setup) -> Vec<&'static str> {
    // Destructured, so that a new field is a compile error here.
    let Setup { locks, clock, pool, checksum, offload, burst } = now;
    let changed = [
        (locks != before.locks, "locks"),
        (clock != before.clock, "clock"),
        (pool != before.pool, "pool"),
        (checksum != before.checksum, "checksum"),
        (offload != before.offload, "offload"),
        (burst != before.burst, "burst"),
    ];
    changed.into_iter().filter(|(changed, _)| *changed).map(|(_, field)| field).collect()
}

/// Each row, the row that it is compared with, and the fields that differ.
const CHANGED: &[(&str, &str, &[&str])] = &[
    ("a", "a", &[]),
    ("b", "a", &["clock"]),
    ("c", "a", &["locks"]),
    ("freelist", "a", &["pool"]),
    ("simd", "a", &["checksum"]),
    ("offload", "a", &["offload"]),
    ("up", "a", &["locks"]),
    ("up.freelist", "up", &["pool"]),
    ("vdso", "a", &["clock"]),
    ("undivided", "b", &["clock"]),
    ("bursts", "a", &["burst"]),
    ("bursts.b", "bursts", &["clock"]),
    ("bursts.c", "bursts", &["locks"]),
    ("all", "a", &["locks", "clock", "pool", "checksum", "offload", "burst"]),
];

#[test]
fn each_row_differs_from_its_baseline_in_one_setting() {
    let all = variants();
    let of = |id: &str| all.iter().find(|variant| variant.id == id).unwrap();
    let listed: Vec<(&str, &str, Vec<&str>)> = all
        .iter()
        .map(|variant| (variant.id, variant.against, changes(variant.setup, of(variant.against).setup)))
        .collect();
    let expected: Vec<(&str, &str, Vec<&str>)> =
        CHANGED.iter().map(|(id, against, fields)| (*id, *against, fields.to_vec())).collect();
    assert_eq!(listed, expected);
    let then: Vec<Option<f64>> = all.iter().map(|variant| dload_then(variant.id)).collect();
    assert_eq!(then[..4], [Some(9101.0), Some(8834.0), Some(8438.0), None]);
}

#[test]
fn b_differs_from_a_in_the_clocks_representation_and_not_in_its_source() {
    use clock::Representation::{Nanoseconds, Timespec};
    let all = variants();
    let clock = |id: &str| all.iter().find(|variant| variant.id == id).unwrap().setup.clock;
    let what = |id: &str| (clock(id).source(), clock(id).representation(), clock(id).divides());
    assert_eq!(what("a"), (TimeSource::Tsc, Timespec, false));
    assert_eq!(what("b"), (TimeSource::Tsc, Nanoseconds, true));
    assert_eq!(what("undivided"), (TimeSource::Tsc, Nanoseconds, false), "the division alone");
    assert_eq!(what("vdso"), (TimeSource::Kernel, Timespec, false), "the source alone");
}

/// Returns the configuration that a host in `setup` uses, and its lock acquisitions per KiB.
fn found(setup: Setup) -> (FtpFacts, f64) {
    const BYTES: u64 = 1 << 20;
    let mut rig = ftp_rig("t", setup, Way::Down, BYTES).unwrap();
    rig.trial().unwrap();
    // The least of several trials: on a busy machine there are more polls, which lock too.
    let taken = (0..3).map(|_| {
        let before = rig.locks().1;
        let carried = rig.trial().unwrap().ops + warm_up(BYTES);
        (rig.locks().1 - before) as f64 * 1024.0 / carried as f64
    });
    let least = taken.fold(f64::INFINITY, f64::min);
    (rig.facts(), least)
}

#[test]
fn a_row_has_no_shares_while_the_process_is_profiled() {
    let _turn = crate::profile::tests::turn();
    let running = crate::profile::start(crate::profile::Options::default()).unwrap();
    let taken = shares::take(&variants()[0], 64 << 10, &Options { quick: true, ..Options::default() });
    drop(running);
    let why = "a: no shares of time: a profile is already running: a process can have one at a time";
    assert_eq!(taken.notes, [why]);
    assert!(taken.locks.is_some() && taken.share(Bucket::Checksum).is_none());
}

#[test]
fn hosts_use_the_settings_of_their_rows() {
    for Variant { id, setup, .. } in variants() {
        let (now, _) = found(setup);
        let clock =
            if clock_missing(setup.clock, tsc::invariant()).is_some() { Strategy::Timespec } else { setup.clock };
        let locks = match setup.locks {
            LockKind::Up => "up",
            LockKind::Light => "light",
            LockKind::Heavy => "heavy",
        };
        let port = (now.offload.tx_l4, now.offload.rx, now.offload.tso);
        assert_eq!((now.locks, now.clock, now.pool), (locks, Some(clock), setup.pool), "{id}");
        assert_eq!((now.checksum, now.burst), (Some(setup.checksum), setup.burst), "{id}");
        assert_eq!(port, (setup.offload, setup.offload, false), "{id}: large segments are another thing");
    }
}

/// With bursts of one size: single frames leave time for polls in between, which lock too.
#[test]
fn all_rows_but_the_freelist_take_locks_equally_often() {
    let taken: Vec<(&str, f64)> =
        variants().iter().map(|variant| (variant.id, found(Setup { burst: BURSTS, ..variant.setup }).1)).collect();
    let base = taken[0].1;
    let (shared, others): (Vec<_>, Vec<_>) = taken.iter().partition(|(id, _)| *id == "freelist");
    // Rows without locks acquire 5 % more: only a shared host checks without a lock whether work is
    // due.
    assert!(base > 1.0 && others.iter().all(|(_, taken)| (taken / base - 1.0).abs() < 0.08), "a KiB: {taken:?}");
    // A zone has a cache for each thread; a list has one lock, acquired for each buffer taken and
    // each returned.
    assert!(shared.iter().all(|(_, taken)| taken / base > 1.5), "a KiB: {taken:?}");
}

#[test]
fn rows_with_an_unavailable_clock_have_the_reason() {
    let all = variants();
    let group = group(&all);
    let missing = |rows: &[Row]| -> Vec<String> {
        rows.iter().filter(|row| row.missing.is_some()).map(|row| row.id.clone()).collect()
    };
    let rows = carry_rows(Way::Down, &all, &group, true);
    assert_eq!((missing(&rows), rows.len()), (Vec::new(), all.len()));
    let rows = carry_rows(Way::Down, &all, &group, false);
    assert_eq!(missing(&rows), ["down.b", "down.undivided", "down.bursts.b", "down.all"]);
    assert_eq!(rows[1].then.as_ref().map(|then| then.median), Some(8834.0), "the report's figure stays");
}

#[test]
fn a_row_without_trials_has_the_reason_and_other_rows_have_figures() {
    let all = variants();
    let mut group = group(&all);
    group.samples[1] = sample("down.b", &[]);
    let rows = carry_rows(Way::Down, &all, &group, true);
    assert_eq!((rows[1].missing.as_deref(), rows[1].now.is_some()), (Some("no values"), false));
    assert!(rows[0].now.is_some() && rows[2].vs_previous.is_some());
    let sheet = beside_rows(&all, &[group], &all.iter().map(|_| Taken::default()).collect::<Vec<_>>());
    assert_eq!(sheet.rows[1][..3], ["b".into(), "-".into(), "-".into()]);
    assert!(sheet.rows.iter().all(|row| row.len() <= sheet.head.len()));
}

/// Returns a sample of trials with the given ticks per byte.
fn sample(id: &str, ticks: &[u64]) -> Sample {
    let reading = |ticks: &u64| Reading { ops: 1000, ticks: ticks * 1000, wall_ns: 1_000_000, cpu_ns: 1_000_000 };
    let trial = |(round, ticks)| Trial { round: round as u32, reading: reading(ticks), disturbed: None };
    let trials = ticks.iter().enumerate().map(trial).collect();
    Sample { trials, ..Sample::new(id) }
}

/// Returns a group of all downloads, two builds each.
fn group(all: &[Variant]) -> Group {
    let samples = all.iter().map(|variant| sample(&format!("down.{}", variant.id), &[4, 5])).collect();
    let floor = NoiseFloor::of(&sample("a", &[4, 5, 4, 5]), &sample("a", &[4, 5, 5, 4])).unwrap();
    Group { samples, floor }
}

/// Returns a row of a run in which each trial took `ticks` per byte.
fn row(id: &str, ticks: f64, vs: Option<f64>) -> Row {
    let figure =
        Figure { median: dload(ticks), lo: dload(ticks), hi: dload(ticks), n: 20, unit: "k".into(), range: None };
    let mut row = Row::new(id, id, figure);
    let change = |ratio: f64| Change {
        ratio,
        lo: ratio - 0.01,
        hi: ratio + 0.01,
        n: 20,
        floor_pct: 1.0,
        verdict: Verdict::Slower,
    };
    row.vs_previous = vs.map(change);
    row
}

#[test]
fn the_reports_figures_are_listed_with_ours() {
    let hertz = timer::rate().hz as f64;
    let ticks = |k: f64| hertz / (k * 1024.0);
    let mut rows = vec![
        row("down.a", ticks(1_000_000.0), None),
        row("down.b", ticks(970_000.0), Some(0.97)),
        row("down.c", ticks(500_000.0), Some(0.5)),
    ];
    rows.push(row("down.undivided", ticks(1_000_000.0), Some(1.25)));
    let sheet = then::and_now(&rows, &[]);
    let word = |cell: &Cell| match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Number(number) => number.to_string(),
    };
    let lines: Vec<Vec<String>> = sheet.rows.iter().map(|line| line.iter().map(word).collect()).collect();
    let line =
        |what: &str| lines.iter().find(|line| line[0].contains(what)).unwrap_or_else(|| panic!("{what}")).clone();
    assert_eq!(line("A: Dload")[1..], ["9101k", "976M"]);
    assert_eq!(line("B against A")[1..], ["0.97x (-3 %)", "0.9700x [0.9600x, 0.9800x] slower"]);
    // 1.25 times as fast without the divisions: they took a fifth of the time.
    assert_eq!(line("divisions")[1..], ["4.2 %", "20.0 % [19.4 %, 20.6 %]"]);
    assert_eq!(line("C: mutex operations")[1..], ["8.5 %", "-"], "not sampled");
}

/// Measures with a simulated process of hosts. `fails` returns the error of a command, from the row
/// and its number among the commands for that row.
fn curls(fails: impl Fn(&str, u32) -> Option<anyhow::Error> + 'static) -> (Report, Sheet) {
    let all = variants();
    let chosen: Vec<&Variant> = all.iter().filter(|variant| ["a", "b", "c"].contains(&variant.id)).collect();
    let (requested, fails): (Rc<RefCell<Vec<String>>>, _) = (Rc::default(), Rc::new(fails));
    let complaints = Rc::default();
    let hosts = Shared::new(move || {
        let (requested, fails) = (Rc::clone(&requested), Rc::clone(&fails));
        let ask = move |order: &str| {
            let row = order.rsplit_once(' ').map_or(order, |(row, _)| row).to_owned();
            let before = requested.borrow().iter().filter(|other| **other == row).count() as u32;
            requested.borrow_mut().push(row.clone());
            fails(&row, before).map_or_else(|| Ok("1000000 1000000 500000".to_owned()), Err)
        };
        Ok(curl::Hosts::new(ask, &complaints))
    });
    let options = run::Options { keep: 8, ..run::Options::default() }.one_trial().waiting();
    let mut show = |_| ();
    let mut study = Study::new("curls", options.clone(), 1, &mut show);
    let sheet = curl::measured(&mut study, &chosen, &hosts, options, 10);
    (study.finish(), sheet)
}

fn moved_nothing() -> anyhow::Error {
    anyhow::anyhow!("curl transferred no data")
}

fn failed(sheet: &Sheet) -> Vec<Cell> {
    sheet.rows.iter().filter_map(|row| row.last().cloned()).collect()
}

#[test]
fn a_failed_session_loses_its_round_and_is_counted() {
    let (report, sheet) = curls(|row, n| (row == "down b" && n < 2).then(moved_nothing));
    assert!(report.rows.iter().all(|row| row.now.as_ref().is_some_and(|now| now.n == 8)), "{:?}", report.rows);
    assert_eq!(failed(&sheet), [0u64, 2, 0, 0, 0, 0].map(Cell::Count));
    let sample = report.samples.iter().find(|sample| sample.id == "curl.down.b").unwrap();
    assert!(sample.failures.iter().all(|why| why.contains("curl transferred no data")), "{sample:?}");
}

#[test]
fn a_row_with_failing_sessions_has_the_reason_and_other_rows_have_figures() {
    let (report, sheet) = curls(|row, n| (row == "up c" && n > 0).then(moved_nothing));
    let missing: Vec<(&str, &str)> =
        report.rows.iter().filter_map(|row| Some((row.id.as_str(), row.missing.as_deref()?))).collect();
    assert_eq!(missing, [("curl.up.c", "trial of curl.up.c failed: curl transferred no data")]);
    let compared = report.rows.iter().filter(|row| row.vs_previous.is_some()).count();
    assert_eq!((report.rows.len(), compared), (6, 3), "b and c down, b up");
    assert_eq!(sheet.rows[5][1..], ["-".into(), "-".into(), "-".into(), Cell::Count(3)]);
}

#[test]
fn without_the_baseline_row_there_are_figures_but_no_comparison() {
    let (report, _) = curls(|row, _| (row == "down a").then(moved_nothing));
    let down: Vec<(bool, bool)> =
        report.rows.iter().take(3).map(|row| (row.now.is_some(), row.vs_previous.is_some())).collect();
    assert_eq!(down, [(false, false), (true, false), (true, false)]);
    assert!(report.notes.iter().any(|note| note.contains("down: no noise floor")), "{:?}", report.notes);
}

#[test]
fn without_curl_its_rows_have_the_reason() {
    let (report, _) = curls(|_, _| Some(anyhow::anyhow!("curl is not installed")));
    let ids: Vec<&str> = report.rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids[..2], ["curl.down.a", "curl.down.b"]);
    assert!(report.rows.iter().all(|row| row.missing.as_ref().is_some_and(|why| why.contains("not installed"))));
    assert_eq!(report.rows[0].then.as_ref().map(|then| then.median), Some(9101.0));
}
