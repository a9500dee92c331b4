//! What the report did: stock curl against our FTP server, over a TAP.
//!
//! ```text
//! this process                         a child: this program again, in a network namespace of its own
//! Lane -> Worker -------- socket ----- child::serve -> one host a configuration, each with its TAP and its thread
//!                                                   -> curl, for a moment, on another core
//! ```
//!
//! A rate is what curl counts from its first byte on. Beside it stands what our host's thread used of its core. No root is
//! needed where user namespaces may be made; where they may not, or curl is missing, the rows say so.

mod child;

pub use child::child_main_if_asked;

use super::{Variant, Way, curl_form, dload, dload_then, word};
use crate::result::{Cell, Change, Figure, Row, Sheet};
use crate::run;
use crate::sample::{Sample, Summary};
use crate::study::Options;
use crate::subject::{Reading, Subject};
use crate::timer;
use crate::verdict::NoiseFloor;
use anyhow::{Context, bail, ensure};
use port::os::netns;
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

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
    match Worker::start(options.core()) {
        Ok(worker) => measured(&chosen, worker, options),
        Err(why) => Ok(missing(&chosen, &format!("{why:#}"))),
    }
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

fn measured(chosen: &[&Variant], worker: Worker, options: &Options) -> anyhow::Result<Seen> {
    let worker = Rc::new(RefCell::new(worker));
    let ms = if options.quick { QUICK_MS } else { LONG_MS };
    let keep = if options.quick { 2 } else { KEEP };
    let keep = options.rounds.map_or(keep, |rounds| KEEP.min(rounds.max(1) as u32));
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
            Box::new(Lane { id, ask, worker: worker.clone() })
        };
        let mut subjects: Vec<_> = chosen.iter().map(|variant| lane(id(way, variant.id), variant.id)).collect();
        subjects.push(lane(id(way, "a again"), "a"));
        let samples = run::interleave(&mut subjects, &run_options, &mut |_| ())?;
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
    worker.borrow_mut().end()?;
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
    worker: Rc<RefCell<Worker>>,
}

impl Subject for Lane {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let answer = self.worker.borrow_mut().ask(&self.ask)?;
        let numbers: Vec<u64> = answer.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [ops, wall_ns, cpu_ns] = numbers[..] else { bail!("three numbers in {answer:?}") };
        ensure!(ops > 0, "curl moved nothing");
        let ticks = (wall_ns as f64 * timer::rate().hz as f64 / 1e9) as u64;
        Ok(Reading { ops, ticks, wall_ns, cpu_ns })
    }
}

/// The child, as its parent has it.
struct Worker {
    child: Child,
    socket: BufReader<UnixStream>,
}

impl Worker {
    fn start(core: usize) -> anyhow::Result<Worker> {
        ensure!(std::env::var_os(child::ASKED).is_none(), "main must call lab::repro::child_main_if_asked() first");
        netns::available().map_err(anyhow::Error::msg)?;
        let there = Command::new("curl").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        ensure!(there.is_ok_and(|status| status.success()), "curl is not installed");
        let (ours, childs) = UnixStream::pair().context("a socket pair to the child")?;
        // A transfer takes less than a second, and curl ends by itself after that.
        ours.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut command = Command::new("/proc/self/exe"); // also right when the file was replaced meanwhile
        command.env(child::ASKED, core.to_string()).stdin(Stdio::from(OwnedFd::from(childs))).stdout(Stdio::null());
        command.process_group(0); // Ctrl-C is for the parent
        let child = netns::command(&mut command).spawn().context("start this program again in a namespace")?;
        drop(command); // the child's end of the socket: else its death would go unnoticed
        let mut worker = Worker { child, socket: BufReader::new(ours) };
        worker.answer()?;
        Ok(worker)
    }

    fn ask(&mut self, line: &str) -> anyhow::Result<String> {
        writeln!(self.socket.get_mut(), "{line}").context("curl's child is gone")?;
        self.answer()
    }

    /// Ends the hosts; every frame of theirs is to be accounted for.
    fn end(&mut self) -> anyhow::Result<()> {
        self.ask("end").map(|_| ())
    }

    fn answer(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.socket.read_line(&mut line).context("no answer from curl's child")?;
        match line.trim_end_matches('\n').split_once(' ') {
            Some(("done", rest)) => Ok(rest.to_owned()),
            Some(("failed", why)) => bail!("{why}"),
            _ => bail!("curl's child said {line:?}: does main call lab::repro::child_main_if_asked() first?"),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.socket.get_ref().shutdown(std::net::Shutdown::Both); // the child's end of file
        let patience = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill(); // does nothing to one that has been waited for
        let _ = self.child.wait();
    }
}
