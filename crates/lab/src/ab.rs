//! `linerate ab`: one workload, with the hosts set one way and another, in turns: which is better, by how much, and what was done differently.
//!
//! The figures come from trials with the cost ledger off. One more trial of each, with it on, says where the ticks went and what was
//! counted: where the two differ is why.

use crate::env::Environment;
use crate::ministat;
use crate::netperf::Place;
use crate::netperf::Seen;
use crate::result::{Beside, Cell, Change, Figure, Report, Row, Sheet};
use crate::rigs::{NetperfRig, Work};
use crate::run;
use crate::sample::{Sample, Summary};
use crate::study::{Options, Progress, Steps};
use crate::subject::Subject;
use crate::verdict::NoiseFloor;
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};

/// Counters shown: those that differ most.
const MOST_COUNTERS: usize = 24;
/// A counter that moved less often than this is no reason.
const LEAST: f64 = 0.001;
/// Counters that differ by less are taken for the same.
const SAME: f64 = 0.02;

/// One of the two.
#[derive(Debug, Clone)]
pub struct Variant {
    /// What is set, as it was asked.
    pub words: String,
    /// Where the ends stand, and how they are set.
    pub place: Place,
    /// What they do.
    pub work: Work,
}

/// A against B.
///
/// # Errors
/// A test that failed, frames unaccounted for, a port that cannot be had.
pub fn ab(variants: &[Variant; 2], options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let env = Environment::detect(); // before the trials: their load is ours
    let mut steps = Steps::new(3, progress);
    let run_options = run::Options { min_cpu_share: None, cpu: options.core, max_seconds: None, ..options.run(20) };
    let rig = |at: usize, ledger: bool| {
        let Variant { place, work, .. } = &variants[at];
        NetperfRig::new(["a", "b"][at], Place { ledger, ..place.clone() }, work.clone())
    };
    steps.next("A against A: the noise floor");
    let [a, again] = run::against_itself(&mut rig(0, false), &run_options, &mut |_| ())?;
    let floor = NoiseFloor::of(&a, &again)?;
    steps.next("A and B, in turns");
    let mut subjects: Vec<Box<dyn Subject>> = vec![Box::new(rig(0, false)), Box::new(rig(1, false))];
    let samples = run::interleave(&mut subjects, &run_options, &mut |_| ())?;
    let [a, b] = samples.as_slice() else { anyhow::bail!("no samples") };
    steps.next("where the ticks went");
    let spent = [Spent::of(rig(0, true), &variants[0].work)?, Spent::of(rig(1, true), &variants[1].work)?];

    let row = |at: usize, sample: &Sample| -> anyhow::Result<Row> {
        let Variant { words, work, .. } = &variants[at];
        let rates = Summary::of(&work.rates(sample))?;
        Ok(Row::new(&sample.id, words, Figure::new(&rates, work.unit())))
    };
    let mut rows = vec![row(0, a)?, row(1, b)?];
    rows[1].vs_previous = Some(Change::paired(a, b, &floor)?);
    let each = variants[0].work.each().1;
    let sheets = vec![stages(&spent, each), counters(&spent, each)];
    let texts = vec![ministat_text(&variants[0].work, a, b)?];
    let notes = vec![format!(
        "A and B in turns, {} trials of each; each trial makes its hosts anew; the ledger's trials are others: its readings cost",
        run_options.keep
    )];
    let beside = Some(Beside { baseline: None, sheets, texts });
    Ok(Report { name: "ab".to_owned(), env, noise_floor: floor, rows, peers: Vec::new(), notes, beside })
}

/// What an operation (of a stream: 1000 bytes) took and moved.
struct Spent {
    /// Ticks by stage.
    stages: BTreeMap<String, f64>,
    counters: BTreeMap<String, f64>,
}

impl Spent {
    fn of(mut rig: NetperfRig, work: &Work) -> anyhow::Result<Spent> {
        let ops = rig.trial()?.ops as f64 / work.each().0;
        let Seen { netisr, counters, stages, switches } = rig.seen();
        let also = [
            ("netisr.directly", netisr.directly),
            ("netisr.queued", netisr.queued),
            ("netisr.refused", netisr.refused),
            ("netisr.wakeups", netisr.wakeups),
            ("switches.voluntary", switches[0]),
            ("switches.involuntary", switches[1]),
        ];
        let also = also.into_iter().map(|(name, count)| (name.to_owned(), count));
        let counters = counters.iter().map(|(name, count)| (name.clone(), *count)).chain(also);
        Ok(Spent {
            stages: stages.iter().map(|(stage, (ticks, _))| ((*stage).to_owned(), *ticks as f64 / ops)).collect(),
            counters: counters.map(|(name, count)| (name, count as f64 / ops)).collect(),
        })
    }
}

/// Names of both, each with A's value and B's.
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

fn stages(spent: &[Spent; 2], each: &str) -> Sheet {
    let mut rows = beside([&spent[0].stages, &spent[1].stages]);
    rows.sort_by(|(_, x), (_, y)| (y[1] - y[0]).abs().total_cmp(&(x[1] - x[0]).abs()));
    sheet(format!("the cost ledger: ticks for {each}, all hosts together, what differs most first"), "stage", rows)
}

/// By how much of the larger the two differ.
fn differ([a, b]: [f64; 2]) -> f64 {
    let larger = a.max(b);
    if larger > 0.0 { (a - b).abs() / larger } else { 0.0 }
}

fn counters(spent: &[Spent; 2], each: &str) -> Sheet {
    let mut rows = beside([&spent[0].counters, &spent[1].counters]);
    rows.retain(|(_, both)| both[0].max(both[1]) >= LEAST && differ(*both) > SAME);
    rows.sort_by(|(_, x), (_, y)| differ(*y).total_cmp(&differ(*x)).then(y[1].max(y[0]).total_cmp(&x[1].max(x[0]))));
    rows.truncate(MOST_COUNTERS);
    sheet(format!("counters that differ, for {each}"), "counter", rows)
}

fn ministat_text(work: &Work, a: &Sample, b: &Sample) -> anyhow::Result<Vec<String>> {
    let options = ministat::options::Options::parse(&[], 74).map_err(|why| anyhow::anyhow!("ministat: {why:?}"))?;
    let set = |name: &str, sample: &Sample| {
        ministat::dataset::DataSet::new(name.as_bytes(), &work.rates(sample)).context("ministat wants three samples")
    };
    let text = ministat::report(&options, &[set("A", a)?, set("B", b)?]);
    Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netperf::{Isr, Over};
    use apps::netperf::{self, Length, Test};
    use dispatch::netisr::Mode;

    fn variant(words: &str, dispatch: Mode) -> Variant {
        let isr = Some(Isr { workstreams: 1, dispatch });
        let length = Length::Count(200); // however slow the machine is
        let options = netperf::Options { length, ..netperf::Options::new(Test::TcpRr) };
        Variant {
            words: words.to_owned(),
            place: Place { isr, ..Place::new(Over::Router) },
            work: Work::Netperf(options),
        }
    }

    fn row<'s>(sheet: &'s Sheet, name: &str) -> Option<&'s [Cell]> {
        sheet.rows.iter().map(Vec::as_slice).find(|row| row[0] == Cell::Text(name.to_owned()))
    }

    #[test]
    fn what_differs_is_told_and_what_does_not_is_not() {
        let variants = [variant("direct", Mode::Direct), variant("queued", Mode::Deferred)];
        let options = Options { quick: true, rounds: Some(6), core: None };
        let report = ab(&variants, &options, &mut |_| ()).unwrap();
        assert_eq!(report.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(
            report.rows.iter().all(|row| row.now.as_ref().is_some_and(|now| now.median > 0.0 && now.unit == "trans/s"))
        );
        assert!(report.rows[0].vs_previous.is_none() && report.rows[1].vs_previous.is_some());
        let beside = report.beside.unwrap();
        let [stages, counters] = beside.sheets.as_slice() else { panic!("two tables") };
        assert!(stages.rows.len() > 3 && stages.title.contains("an operation"), "{stages:?}");
        // A request and a response pass the router: both queued, or neither.
        let queued = row(counters, "netisr.queued").unwrap();
        assert!(queued[1] == Cell::Number(0.0) && matches!(queued[2], Cell::Number(n) if n >= 2.0), "{queued:?}");
        assert!(row(counters, "netisr.directly").is_some());
        assert_eq!(row(counters, "inet.tcp.in.received"), None, "as many segments either way");
        assert_eq!(&beside.texts[0][..2], ["x A", "+ B"]);
    }

    #[test]
    fn of_nothing_and_nothing_nothing_differs() {
        assert_eq!((differ([0.0, 0.0]), differ([1.0, 1.0]), differ([0.0, 3.0])), (0.0, 0.0, 1.0));
        let one = BTreeMap::from([("x".to_owned(), 1.0)]);
        let two = BTreeMap::from([("y".to_owned(), 2.0)]);
        assert_eq!(beside([&one, &two]), [("x".to_owned(), [1.0, 0.0]), ("y".to_owned(), [0.0, 2.0])]);
    }
}
