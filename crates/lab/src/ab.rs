//! `linerate ab`: compares one workload under two settings, in interleaved trials.
//!
//! Reports the faster side, the ratio, and the counters and stages that differ. The ratio comes
//! from trials without the cost ledger, the stack's own accounting of ticks by processing stage.
//! For workloads with hosts, each side runs one more trial with the ledger. The ticks by stage and
//! the counters of these two trials explain the ratio.

pub mod workload;

use crate::ministat;
use crate::result::{Cell, Report, Sheet};
use crate::run;
use crate::sample::Sample;
use crate::side::Side;
use crate::study::{Group, Options, Progress, Study, Unit};
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum number of counters shown, those with the largest difference first.
const MOST_COUNTERS: usize = 24;
/// Counters below this number per operation on both sides are not shown.
const LEAST: f64 = 0.001;
/// Relative difference up to which two counters are treated as equal.
const SAME: f64 = 0.02;

/// One of the two sides of the comparison: the workload with one set of settings.
pub struct Variant {
    /// The settings, as given by the user.
    pub words: String,
    /// Builder of the measured subject.
    pub side: Side,
    /// Unit in which the result is reported.
    pub unit: Unit,
    /// Number of trials per build, and where they run.
    pub trials: Trials,
    /// Time limit of a trial, unless [`Options::limit`] is set; `None` for a command line, which
    /// has no limit.
    pub patience: Option<Duration>,
    /// Function that runs a trial with the cost ledger on; `None` if the workload has no hosts.
    pub spent: Option<Box<dyn Fn() -> anyhow::Result<Spent>>>,
}

/// Number of trials per build (one construction of the measured subject), and where they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trials {
    /// A warm-up and five trials of the same subject, on one core.
    Rig,
    /// Five trials, each of which creates its hosts; on one core if one thread drives both ends.
    Hosts {
        /// Set if one thread drives both ends.
        one_thread: bool,
    },
    /// One trial of a command line, on any core.
    Command,
}

impl Trials {
    /// Adapts the runner's options `usual` to trials of this kind: sets the warm-up, the number of
    /// trials and the pinning.
    pub(crate) fn options(self, usual: run::Options) -> run::Options {
        match self {
            Trials::Rig => usual,
            Trials::Hosts { one_thread } => {
                let cpu = usual.cpu.filter(|_| one_thread);
                run::Options { warmup: 0, cpu, ..usual.waiting() }
            }
            Trials::Command => run::Options { cpu: None, ..usual.one_trial().waiting() },
        }
    }
}

/// Ticks and counts per operation, or per 1000 bytes of a stream, from a trial with the cost
/// ledger.
#[derive(Debug, Clone, Default)]
pub struct Spent {
    /// Unit that the counts refer to: `an operation`, `1000 bytes`.
    pub each: &'static str,
    /// Ticks per unit in each processing stage, by stage name, from the cost ledger.
    pub stages: BTreeMap<String, f64>,
    /// Count per unit of each counter, by counter name.
    pub counters: BTreeMap<String, f64>,
}

/// Compares A with B.
///
/// # Errors
/// Returns no error: a row that could not be measured states the reason instead.
pub fn ab(variants: [Variant; 2], options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let usual = variants[0].trials.options(options.run(20));
    let patience = options.limit.or(variants[0].patience);
    let run_options = run::Options { cpu: options.core.or(usual.cpu), max_seconds: None, patience, ..usual };
    let mut study = Study::new("ab", run_options.clone(), 2, progress);
    study.part("A, its twin and B, interleaved");
    let [a, b] = &variants;
    let group = study.compare([&a.side, &b.side].map(Side::clone).into());
    study.rows([group.row(a.side.id(), &a.words, a.unit), group.against(b.side.id(), &b.words, b.unit, a.side.id())]);
    study.part("cost by stage");
    if let [Some(of_a), Some(of_b)] = [&a.spent, &b.spent] {
        match of_a().and_then(|of_a| Ok([of_a, of_b()?])) {
            Ok(spent) => study.beside().sheets = vec![stages(&spent), counters(&spent)],
            Err(why) => study.note(format!("no cost ledger: {why:#}")),
        }
    }
    match ministat_text(&group, &variants) {
        Ok(text) => study.beside().texts.push(text),
        Err(why) => study.note(format!("no ministat: {why:#}")),
    }
    study.note(format!(
        "A, a twin of A (the same settings, for the noise floor) and B are interleaved, {} builds of each, {} trials per build; the cost ledger is measured in separate trials, since it slows them",
        run_options.keep, run_options.trials
    ));
    Ok(study.finish())
}

/// Returns every name that is in at least one of the maps, with its value in A and in B; a missing
/// value is 0.
fn beside(both: [&BTreeMap<String, f64>; 2]) -> Vec<(String, [f64; 2])> {
    let names: BTreeSet<&String> = both.iter().flat_map(|of| of.keys()).collect();
    let value = |of: &BTreeMap<String, f64>, name: &String| of.get(name).copied().unwrap_or_default();
    names.into_iter().map(|name| (name.clone(), both.map(|of| value(of, name)))).collect()
}

fn sheet(title: String, first: &str, rows: Vec<(String, [f64; 2])>) -> Sheet {
    let head = [first, "A", "B", "B - A"].map(str::to_owned).to_vec();
    let row = |(name, [a, b]): (String, [f64; 2])| vec![name.into(), a.into(), b.into(), Cell::Number(b - a)];
    Sheet { title, head, rows: rows.into_iter().map(row).collect() }
}

fn stages(spent: &[Spent; 2]) -> Sheet {
    let mut rows = beside([&spent[0].stages, &spent[1].stages]);
    rows.sort_by(|(_, x), (_, y)| (y[1] - y[0]).abs().total_cmp(&(x[1] - x[0]).abs()));
    let title = format!("cost ledger: ticks for {}, all hosts together, largest difference first", spent[0].each);
    sheet(title, "stage", rows)
}

/// Returns the difference of the two values as a share of the larger.
fn differ([a, b]: [f64; 2]) -> f64 {
    let larger = a.max(b);
    if larger > 0.0 { (a - b).abs() / larger } else { 0.0 }
}

fn counters(spent: &[Spent; 2]) -> Sheet {
    let mut rows = beside([&spent[0].counters, &spent[1].counters]);
    rows.retain(|(_, both)| both[0].max(both[1]) >= LEAST && differ(*both) > SAME);
    rows.sort_by(|(_, x), (_, y)| differ(*y).total_cmp(&differ(*x)).then(y[1].max(y[0]).total_cmp(&x[1].max(x[0]))));
    rows.truncate(MOST_COUNTERS);
    sheet(format!("counters that differ, for {}", spent[0].each), "counter", rows)
}

fn ministat_text(group: &Group, variants: &[Variant; 2]) -> anyhow::Result<Vec<String>> {
    let options = ministat::options::Options::parse(&[], 74).map_err(|why| anyhow::anyhow!("{why:?}"))?;
    let set = |name: &str, variant: &Variant| {
        let sample: Sample = group.sample(variant.side.id());
        let values: Vec<f64> = sample.values().into_iter().map(variant.unit.of).collect();
        ministat::dataset::DataSet::new(name.as_bytes(), &values).context("at least three values are needed")
    };
    let head = "ministat of the figures of all builds, without pairing; the valid verdict is in the row";
    let text = ministat::report(&options, &[set("A", &variants[0])?, set("B", &variants[1])?]);
    Ok(std::iter::once(head.to_owned()).chain(String::from_utf8_lossy(&text).lines().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netperf::{Isr, Over, Place};
    use crate::rigs::Work;
    use apps::netperf::{self, Length, Test};
    use dispatch::netisr::Mode;

    fn variant(id: &'static str, words: &str, dispatch: Mode) -> Variant {
        let isr = Some(Isr { workstreams: 1, dispatch });
        let length = Length::Count(200); // a fixed count, independent of the machine's speed
        let options = netperf::Options { length, ..netperf::Options::new(Test::TcpRr) };
        let place = Place { isr, ..Place::new(Over::Router) };
        workload::hosts(id, words, place, Work::Netperf(options))
    }

    fn row<'s>(sheet: &'s Sheet, name: &str) -> Option<&'s [Cell]> {
        sheet.rows.iter().map(Vec::as_slice).find(|row| row[0] == Cell::Text(name.to_owned()))
    }

    #[test]
    fn differences_are_shown_and_equal_counters_are_not() {
        let variants = [variant("a", "direct", Mode::Direct), variant("b", "queued", Mode::Deferred)];
        let options = Options { quick: true, rounds: Some(6), ..Options::default() };
        let report = ab(variants, &options, &mut |_| ()).unwrap();
        assert_eq!(report.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(
            report.rows.iter().all(|row| row.now.as_ref().is_some_and(|now| now.median > 0.0 && now.unit == "trans/s"))
        );
        assert!(report.rows[0].vs_previous.is_none() && report.rows[1].vs_previous.is_some());
        let beside = report.beside.unwrap();
        let [stages, counters] = beside.sheets.as_slice() else { panic!("two tables") };
        assert!(stages.rows.len() > 3 && stages.title.contains("an operation"), "{stages:?}");
        // A request and a response cross the router: it queues both or neither.
        let queued = row(counters, "netisr.queued").unwrap();
        assert!(queued[1] == Cell::Number(0.0) && matches!(queued[2], Cell::Number(n) if n >= 2.0), "{queued:?}");
        assert!(row(counters, "netisr.directly").is_some());
        assert_eq!(row(counters, "inet.tcp.in.received"), None, "as many segments either way");
        assert!(beside.texts[0][0].contains("the valid verdict is in the row"), "{:?}", beside.texts[0]);
        assert_eq!(&beside.texts[0][1..3], ["x A", "+ B"]);
    }

    #[test]
    fn differences_are_relative_and_zero_for_equal_values() {
        assert_eq!((differ([0.0, 0.0]), differ([1.0, 1.0]), differ([0.0, 3.0])), (0.0, 0.0, 1.0));
        let one = BTreeMap::from([("x".to_owned(), 1.0)]);
        let two = BTreeMap::from([("y".to_owned(), 2.0)]);
        assert_eq!(beside([&one, &two]), [("x".to_owned(), [1.0, 0.0]), ("y".to_owned(), [0.0, 2.0])]);
    }
}
