//! What the report did: stock curl against our FTP server, over a TAP.
//!
//! ```text
//! this process                         a child: this program again, in a network namespace of its own
//! Lane -> Child --------- socket ----- child::serve -> one host a configuration, each with its TAP and its thread
//!                                                   -> curl, for a moment, on another core
//! ```
//!
//! A rate is what curl counts from its first byte on. Beside it stands what our host's thread used of its core. No root is
//! needed where user namespaces may be made. A session that fails is repeated ([`lane::ATTEMPTS`]) and counted; a
//! configuration whose sessions keep failing is a row with the reason, as all are where curl or namespaces are missing.

mod child;
mod lane;

pub(crate) use child::{KIND, serve};

use super::{Variant, Way, curl_form, dload, dload_then, word};
use crate::child::{Child, again};
use crate::native::shell::is_installed;
use crate::result::{Cell, Change, Figure, Row, Sheet};
use crate::run;
use crate::sample::{Sample, Summary};
use crate::study::Options;
use crate::subject::Reading;
use crate::timer;
use crate::verdict::NoiseFloor;
use anyhow::ensure;
pub(super) use lane::Ask;
use lane::{Lane, Outcome, in_turns};
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
    pub(super) notes: Vec<String>,
}

/// Downloads and uploads by curl, in turn.
pub(super) fn see(variants: &[Variant], options: &Options) -> Seen {
    let chosen: Vec<&Variant> = variants.iter().filter(|variant| IDS.contains(&variant.id)).collect();
    let mut child = match start(options.core()) {
        Ok(child) => child,
        Err(why) => return missing(&chosen, &format!("{why:#}")),
    };
    let ask: Ask = Rc::new(RefCell::new(move |order: &str| child.ask(order)));
    let ms = if options.quick { QUICK_MS } else { LONG_MS };
    let mut seen = measured(&chosen, &ask, &run_options(options), ms);
    // The child's hosts account for every frame as they end.
    let ended = (ask.borrow_mut())("end");
    if let Err(why) = ended {
        seen.notes.push(format!("curl's hosts at their end: {why:#}"));
    }
    seen
}

fn run_options(options: &Options) -> run::Options {
    let keep = if options.quick { 2 } else { KEEP };
    run::Options {
        warmup: u32::from(!options.quick),
        keep: options.rounds.map_or(keep, |rounds| KEEP.min(rounds.max(1))),
        cpu: None,
        min_cpu_share: None, // we sleep while curl works
        max_seconds: Some(60.0),
        ..run::Options::default()
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
    Seen { rows, sheet: None, notes: Vec::new() }
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

/// Downloads and uploads of so many milliseconds; `ask` sends an order to the hosts' process and returns its answer.
pub(super) fn measured(chosen: &[&Variant], ask: &Ask, options: &run::Options, ms: u64) -> Seen {
    let (mut rows, mut lines, mut floors, mut failed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for way in [Way::Down, Way::Up] {
        let order = |variant: &str| format!("{} {variant} {ms}", word(way));
        let mut lanes: Vec<Lane> =
            chosen.iter().map(|variant| Lane { id: id(way, variant.id), order: order(variant.id) }).collect();
        lanes.push(Lane { id: id(way, "a again"), order: order("a") });
        let mut outcomes = in_turns(&lanes, ask, options);
        let again = outcomes.pop();
        let base = outcomes.first().and_then(|outcome| outcome.sample.as_ref().ok());
        let again_sample = again.as_ref().and_then(|outcome| outcome.sample.as_ref().ok());
        let floor = base.zip(again_sample).and_then(|(base, again)| NoiseFloor::of(base, again).ok());
        floors.push(match floor {
            Some(floor) => format!("{} {:.1} %", word(way), floor.percent()),
            None => format!("{}: no floor, so nothing is compared", word(way)),
        });
        for (at, (variant, outcome)) in chosen.iter().zip(&outcomes).enumerate() {
            let base = base.filter(|_| at > 0);
            rows.push(with_then(row(way, variant, outcome, base.zip(floor.as_ref())), way, variant.id));
            lines.push(line(&id(way, variant.id), outcome));
        }
        failed.extend(outcomes.iter().chain(&again).filter(|outcome| outcome.failed > 0).map(|outcome| {
            format!("{} {} (the last: {})", outcome.failed, outcome.id, outcome.last.as_deref().unwrap_or("-"))
        }));
    }
    let sheet = Sheet {
        title: "curl over a TAP: the rate in its own form, what our host's thread used of its core for it, and sessions that \
                failed and were repeated"
            .to_owned(),
        head: ["row", "rate", "share of the core", "ticks/byte", "repeated"].map(str::to_owned).to_vec(),
        rows: lines,
    };
    let mut notes = vec![format!(
        "curl: {ms} ms a transfer, counted from its first byte; our host on one core, curl and the kernel on another; checksums \
         in software and no virtio header, but for curl.*.all, which leaves checksums and large segments to the kernel; A \
         against A of curl: differences under {} cannot be told from noise",
        floors.join(", ")
    )];
    if !failed.is_empty() {
        notes.push(format!("curl's sessions that failed: {}", failed.join(", ")));
    }
    Seen { rows, sheet: Some(sheet), notes }
}

/// The row of a configuration: its figure, or why there is none.
fn row(way: Way, variant: &Variant, outcome: &Outcome, base: Option<(&Sample, &NoiseFloor)>) -> Row {
    let title = title(way, variant);
    let of = |sample: &Sample| -> anyhow::Result<Row> {
        let rates: Vec<f64> = sample.values().into_iter().map(dload).collect();
        Ok(Row::new(&outcome.id, &title, Figure::new(&Summary::of(&rates)?, "k")))
    };
    let sample = match &outcome.sample {
        Ok(sample) => sample,
        Err(why) => return Row::missing(&outcome.id, &title, why),
    };
    match of(sample) {
        Ok(mut row) => {
            row.vs_previous = base.and_then(|(base, floor)| Change::paired(base, sample, floor).ok());
            row
        }
        Err(why) => {
            let why = outcome.last.clone().unwrap_or_else(|| format!("{why:#}"));
            Row::missing(&outcome.id, &title, &why)
        }
    }
}

/// The medians of a sample, and what became of its sessions.
fn line(id: &str, outcome: &Outcome) -> Vec<Cell> {
    let medians = outcome
        .sample
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|sample| medians(sample).map_err(|why| format!("{why:#}")));
    let cells: [Cell; 3] = match medians {
        Ok((rate, share, cost)) => [curl_form(rate).into(), format!("{share:.0} %").into(), cost.into()],
        Err(_) => ["-".into(), "-".into(), "-".into()],
    };
    [Cell::from(id)].into_iter().chain(cells).chain([Cell::from(u64::from(outcome.failed))]).collect()
}

/// Bytes a second; the share of the core that our host's thread used, in per cent; its ticks a byte.
fn medians(sample: &Sample) -> anyhow::Result<(f64, f64, f64)> {
    let readings = || sample.trials.iter().map(|trial| trial.reading);
    let median = |values: Vec<f64>| Summary::of(&values).map(|summary| summary.median);
    let rate = median(readings().map(|reading| reading.ops_per_second()).collect())?;
    // A thread that used less than the kernel counts in has used nothing that can be told.
    let cpu = |reading: Reading| reading.cpu_ns.max(1) as f64;
    let share = median(readings().map(|reading| cpu(reading) * 100.0 / reading.wall_ns.max(1) as f64).collect())?;
    let hertz = timer::rate().hz as f64;
    let cost = median(readings().map(|reading| cpu(reading) * hertz / 1e9 / reading.ops.max(1) as f64).collect())?;
    Ok((rate, share, cost))
}
