//! The report's own measurement: stock curl against our FTP server, over a TAP.
//!
//! ```text
//! this process               a child: this program again, in a network namespace of its own
//! Hosts -> Child -- socket -- child::serve -> one host per configuration, with a TAP and thread
//!                                          -> curl, for a moment, on another core
//! ```
//!
//! The rate is the one that curl reports, counted from its first byte on. The table also has the
//! share of its core that our host's thread used. Where user namespaces may be created, root is not
//! needed. Each round starts the child anew. A failed session invalidates its round, which is
//! repeated. If the sessions of a configuration keep failing, its row states the reason. If curl or
//! namespaces are missing, all rows state the reason.

mod child;

pub(crate) use child::{KIND, serve};

use super::{K, Variant, Way, curl_form, dload_then, word};
use crate::child::{Child, again, numbers};
use crate::native::shell::is_installed;
use crate::result::{Cell, Row, Sheet};
use crate::run;
use crate::sample::{Sample, Summary};
use crate::side::{Shared, Side};
use crate::study::{Options, Study};
use crate::subject::{Reading, from_fn};
use crate::timer;
use anyhow::ensure;
use std::cell::RefCell;
use std::rc::Rc;

/// Configurations that are measured with curl. There are few, since each takes seconds, and the
/// rows over a pair of ports show the other improvements more precisely.
const IDS: [&str; 4] = ["a", "b", "c", "all"];
/// Number of rounds: the minimum for a verdict.
const KEEP: u32 = 8;
/// Duration of a transfer, in milliseconds.
const LONG_MS: u64 = 280;
/// Duration of a transfer in quick runs, in milliseconds. Their figures are too imprecise to
/// publish.
const QUICK_MS: u64 = 150;

/// Function that sends a command to the child and returns its answer.
type Ask = Box<dyn FnMut(&str) -> anyhow::Result<String>>;

/// Process that runs the hosts, accessed through a function that sends a command and returns the
/// answer. When this is dropped, the hosts end and check that every frame is accounted for.
pub(super) struct Hosts {
    ask: Ask,
    /// Errors reported by the hosts at their end, such as frames that are unaccounted for.
    complaints: Rc<RefCell<Vec<String>>>,
}

impl Hosts {
    pub(super) fn new(
        ask: impl FnMut(&str) -> anyhow::Result<String> + 'static,
        complaints: &Rc<RefCell<Vec<String>>>,
    ) -> Hosts {
        Hosts { ask: Box::new(ask), complaints: Rc::clone(complaints) }
    }

    /// Runs one session of curl.
    fn session(&mut self, order: &str) -> anyhow::Result<Reading> {
        let [ops, wall_ns, cpu_ns] = numbers(&(self.ask)(order)?)?;
        ensure!(ops > 0, "curl transferred no data");
        let ticks = (wall_ns as f64 * timer::rate().hz as f64 / 1e9) as u64;
        Ok(Reading { ops, ticks, wall_ns, cpu_ns })
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if let Err(why) = (self.ask)("end") {
            self.complaints.borrow_mut().push(format!("{why:#}"));
        }
    }
}

/// Measures downloads and uploads by curl, in turns. Adds rows and notes to `study`, and returns
/// the table printed with them.
pub(super) fn rows(study: &mut Study<'_>, variants: &[Variant], options: &Options) -> Sheet {
    let chosen: Vec<&Variant> = variants.iter().filter(|variant| IDS.contains(&variant.id)).collect();
    let (core, complaints) = (options.core(), Rc::new(RefCell::new(Vec::new())));
    let hosts = Shared::new({
        let complaints = Rc::clone(&complaints);
        move || {
            let mut child = start(core)?;
            Ok(Hosts::new(move |order: &str| child.ask(order), &complaints))
        }
    });
    let ms = if options.quick { QUICK_MS } else { LONG_MS };
    let keep = options.rounds.unwrap_or(KEEP).min(if options.quick { 2 } else { KEEP });
    let usual = study.options().one_trial().waiting(); // this thread sleeps while curl works
    let sheet = measured(study, &chosen, &hosts, run::Options { keep, cpu: None, ..usual }, ms);
    if let Some(why) = complaints.borrow().last() {
        study.note(format!("curl's hosts, at the end: {why}"));
    }
    sheet
}

fn start(core: usize) -> anyhow::Result<Child> {
    ensure!(is_installed("curl"), "curl is not installed");
    Child::start_apart(again(KIND, &core.to_string())?)
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

/// Measures downloads and uploads of `ms` milliseconds.
pub(super) fn measured(
    study: &mut Study<'_>,
    chosen: &[&Variant],
    hosts: &Shared<Hosts>,
    options: run::Options,
    ms: u64,
) -> Sheet {
    let (mut lines, mut floors) = (Vec::new(), Vec::new());
    for way in [Way::Down, Way::Up] {
        let side = |variant: &&Variant| {
            let (id, order) = (id(way, variant.id), format!("{} {} {ms}", word(way), variant.id));
            let (hosts, name) = (hosts.clone(), id.clone());
            Side::new(id, move || {
                let (hosts, order) = (hosts.get()?, order.clone());
                Ok(from_fn(name.clone(), move || hosts.borrow_mut().session(&order)))
            })
        };
        let group = study.compare_with(chosen.iter().map(side).collect(), options.clone());
        floors.push(match group.floor.n {
            0 => format!("{}: no noise floor, so no comparison", word(way)),
            _ => format!("{} {:.1} %", word(way), group.floor.percent()),
        });
        let base = id(way, "a");
        study.rows(chosen.iter().map(|variant| {
            let (id, title) = (id(way, variant.id), title(way, variant));
            let row = if id == base { group.row(&id, &title, K) } else { group.against(&id, &title, K, &base) };
            with_then(row, way, variant.id)
        }));
        lines.extend(chosen.iter().map(|variant| line(&group.sample(&id(way, variant.id)))));
    }
    study.note(format!(
        "curl: {ms} ms per transfer, from its first byte; our host on one core, curl and the kernel on another; checksums in software \
         and no virtio header, except curl.*.all, which leaves checksums and large segments to the kernel; noise floors: {}",
        floors.join(", ")
    ));
    Sheet {
        title: "curl over a TAP: rate as printed by curl, CPU share of our host's thread, and rounds lost by failed sessions"
            .to_owned(),
        head: ["row", "rate", "share of the core", "ticks/byte", "failed"].map(str::to_owned).to_vec(),
        rows: lines,
    }
}

/// Returns the table's row of a sample: its medians, and the number of its sessions that failed.
fn line(sample: &Sample) -> Vec<Cell> {
    let cells: [Cell; 3] = match medians(sample) {
        Ok((rate, share, cost)) if sample.failed.is_none() => {
            [curl_form(rate).into(), format!("{share:.0} %").into(), cost.into()]
        }
        _ => ["-".into(), "-".into(), "-".into()],
    };
    let failed = Cell::from(sample.failures.len() as u64);
    [Cell::from(sample.id.as_str())].into_iter().chain(cells).chain([failed]).collect()
}

/// Returns the medians of three figures: bytes per second, the share of its core that our host's
/// thread used, in per cent, and that thread's ticks per byte.
fn medians(sample: &Sample) -> anyhow::Result<(f64, f64, f64)> {
    let readings = || sample.trials.iter().map(|trial| trial.reading);
    let median = |values: Vec<f64>| Summary::of(&values).map(|summary| summary.median);
    let rate = median(readings().map(|reading| reading.ops_per_second()).collect())?;
    // Processor time below the resolution of the kernel's accounting reads as 0; 1 ns is used
    // instead.
    let cpu = |reading: Reading| reading.cpu_ns.max(1) as f64;
    let share = median(readings().map(|reading| cpu(reading) * 100.0 / reading.wall_ns.max(1) as f64).collect())?;
    let hertz = timer::rate().hz as f64;
    let cost = median(readings().map(|reading| cpu(reading) * hertz / 1e9 / reading.ops.max(1) as f64).collect())?;
    Ok((rate, share, cost))
}
