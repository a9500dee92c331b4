//! What the report did: stock curl against our FTP server, over a TAP.
//!
//! ```text
//! this process                         a child: this program again, in a network namespace of its own
//! Lane -> Child --------- socket ----- child::serve -> one host a configuration, each with its TAP and its thread
//!                                                   -> curl, for a moment, on another core
//! ```
//!
//! A rate is what curl counts from its first byte on. Beside it stands what our host's thread used of its core. No root is
//! needed where user namespaces may be made; where they may not, or curl is missing, the rows say so.

mod child;

pub(crate) use child::{KIND, serve};

use super::{Variant, Way, curl_form, dload, dload_then, word};
use crate::child::{Child, again, numbers};
use crate::native::shell::is_installed;
use crate::result::{Cell, Change, Figure, Row, Sheet};
use crate::run;
use crate::sample::{Sample, Summary};
use crate::study::Options;
use crate::subject::{Reading, Subject};
use crate::timer;
use crate::verdict::NoiseFloor;
use anyhow::{Context, ensure};
use std::cell::RefCell;
use std::rc::Rc;

/// The configurations that curl sees: each costs seconds, and the wishes are told apart more sharply over a pair.
const IDS: [&str; 4] = ["a", "b", "c", "all"];
/// Trials kept: the fewest that give an interval of 95 % and may still lose two.
const KEEP: u32 = 8;
/// How long a transfer lasts.
const LONG_MS: u64 = 280;
/// Where figures are not to be quoted.
const QUICK_MS: u64 = 150;

/// What curl saw.
pub(super) struct Seen {
    pub(super) rows: Vec<Row>,
    pub(super) sheet: Option<Sheet>,
    pub(super) note: Option<String>,
}

/// Downloads and uploads by curl, in turn.
pub(super) fn see(variants: &[Variant], options: &Options) -> anyhow::Result<Seen> {
    let chosen: Vec<&Variant> = variants.iter().filter(|variant| IDS.contains(&variant.id)).collect();
    match start(options.core()) {
        Ok(child) => measured(&chosen, child, options),
        Err(why) => Ok(missing(&chosen, &format!("{why:#}"))),
    }
}

fn start(core: usize) -> anyhow::Result<Child> {
    ensure!(is_installed("curl"), "curl is not installed");
    Child::start_apart(again(KIND, &core.to_string())?)
}

pub(super) fn missing(chosen: &[&Variant], why: &str) -> Seen {
    let ways = [Way::Down, Way::Up].into_iter();
    let row = |(way, variant): (Way, &&Variant)| {
        let row = Row::missing(&id(way, variant.id), &title(way, variant), why);
        with_then(row, way, variant.id)
    };
    let rows = ways.flat_map(|way| chosen.iter().map(move |variant| (way, variant))).map(row).collect();
    Seen { rows, sheet: None, note: None }
}

fn id(way: Way, variant: &str) -> String {
    format!("curl.{}.{variant}", word(way))
}

fn title(way: Way, variant: &Variant) -> String {
    format!("curl {}: {}", if way == Way::Down { "-o /dev/null" } else { "-T -" }, variant.title)
}

fn with_then(row: Row, way: Way, variant: &str) -> Row {
    match dload_then(variant).filter(|_| way == Way::Down) {
        Some(then) => row.then(then, "k"),
        None => row,
    }
}

fn measured(chosen: &[&Variant], child: Child, options: &Options) -> anyhow::Result<Seen> {
    let child = Rc::new(RefCell::new(child));
    let ms = if options.quick { QUICK_MS } else { LONG_MS };
    let keep = if options.quick { 2 } else { KEEP };
    let keep = options.rounds.map_or(keep, |rounds| KEEP.min(rounds.max(1)));
    let run_options = run::Options {
        warmup: u32::from(!options.quick),
        keep,
        cpu: None,
        min_cpu_share: None, // we sleep while curl works
        max_seconds: Some(60.0),
        ..run::Options::default()
    };
    let mut rows = Vec::new();
    let mut lines: Vec<Vec<Cell>> = Vec::new();
    let mut floors = Vec::new();
    for way in [Way::Down, Way::Up] {
        let lane = |id: String, variant: &str| -> Box<dyn Subject> {
            let ask = format!("{} {variant} {ms}", word(way));
            Box::new(Lane { id, ask, child: child.clone() })
        };
        let mut subjects: Vec<_> = chosen.iter().map(|variant| lane(id(way, variant.id), variant.id)).collect();
        subjects.push(lane(id(way, "a again"), "a"));
        let samples = crate::built::interleave(&mut subjects, &run_options, &mut |_| ())?;
        let (base, again) = (samples.first().context("no sample")?, samples.last().context("no sample")?);
        let floor = NoiseFloor::of(base, again)?;
        floors.push(format!("{} {:.1} %", word(way), floor.percent()));
        for (at, (variant, sample)) in chosen.iter().zip(&samples).enumerate() {
            let rates: Vec<f64> = sample.values().into_iter().map(dload).collect();
            let mut row = Row::new(&sample.id, &title(way, variant), Figure::new(&Summary::of(&rates)?, "k"));
            row.vs_previous = (at > 0).then(|| Change::paired(base, sample, &floor)).transpose()?;
            rows.push(with_then(row, way, variant.id));
            lines.push(line(sample)?);
        }
    }
    // Every frame of the hosts is to be accounted for.
    child.borrow_mut().ask("end")?;
    let sheet = Sheet {
        title: "curl over a TAP: the rate in its own form, and what our host's thread used of its core for it"
            .to_owned(),
        head: ["row", "rate", "share of the core", "ticks/byte"].map(str::to_owned).to_vec(),
        rows: lines,
    };
    let note = format!(
        "curl: {} ms a transfer, counted from its first byte; our host on one core, curl and the kernel on another; checksums \
         in software and no virtio header, but for curl.*.all, which leaves checksums and large segments to the kernel; A \
         against A of curl: differences under {} cannot be told from noise",
        ms,
        floors.join(", ")
    );
    Ok(Seen { rows, sheet: Some(sheet), note: Some(note) })
}

/// What a sample's medians say of our side.
fn line(sample: &Sample) -> anyhow::Result<Vec<Cell>> {
    let readings = || sample.trials.iter().map(|trial| trial.reading);
    let median = |values: Vec<f64>| Summary::of(&values).map(|summary| summary.median);
    let rate = median(readings().map(|reading| reading.ops_per_second()).collect())?;
    // A thread that used less than the kernel counts in has used nothing that can be told.
    let cpu = |reading: Reading| reading.cpu_ns.max(1) as f64;
    let share = median(readings().map(|reading| cpu(reading) * 100.0 / reading.wall_ns.max(1) as f64).collect())?;
    let hertz = timer::rate().hz as f64;
    let cost = median(readings().map(|reading| cpu(reading) * hertz / 1e9 / reading.ops.max(1) as f64).collect())?;
    Ok(vec![sample.id.clone().into(), curl_form(rate).into(), format!("{share:.0} %").into(), cost.into()])
}

/// One configuration, one way.
struct Lane {
    id: String,
    ask: String,
    child: Rc<RefCell<Child>>,
}

impl Subject for Lane {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let [ops, wall_ns, cpu_ns] = numbers(&self.child.borrow_mut().ask(&self.ask)?)?;
        ensure!(ops > 0, "curl moved nothing");
        let ticks = (wall_ns as f64 * timer::rate().hz as f64 / 1e9) as u64;
        Ok(Reading { ops, ticks, wall_ns, cpu_ns })
    }
}
