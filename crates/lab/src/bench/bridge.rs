//! `linerate bench bridge`: what a frame costs that is forwarded by its addresses, and the parts of that.

mod idle;
mod lanes;
mod ports;

use crate::env::Environment;
use crate::native::forward::{Forward, Part};
use crate::result::{Beside, Figure, Peer, Report, Row};
use crate::rigs::{BridgeRig, FdbRig, NIC_FINAL, NIC_FIRST, NicRig, PoolRig, RingRig};
use crate::run;
use crate::sample::Sample;
use crate::study::{self, Options, Progress, Steps};
use crate::subject::Subject;
use anyhow::Context;

/// 64 and 1518 on the wire, without FCS.
const SHORT: usize = 60;
const LONG: usize = 1514;

/// The figures.
///
/// # Errors
/// A rig could not be built, or lost a frame.
pub fn bridge(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let env = Environment::detect(); // before the trials: their load is ours
    let run_options = options.run(30);
    let mut steps = Steps::new(7, progress);
    let mut notes = vec![
        "in-memory ports (rings); stations known, in random order; one core; ticks of the TSC a frame, its way through both rings included"
            .to_owned(),
    ];
    steps.next("A against A: the noise floor");
    let floor = study::floor(&mut BridgeRig::new("floor", 1000, SHORT, 32)?, &run_options)?;
    steps.next("frames");
    let frames = [
        ("bridge.1k.burst32", 1000, SHORT, 32, "learning bridge, 64-byte frames, 1,000 addresses, burst 32"),
        ("bridge.100k.burst32", 100_000, SHORT, 32, "the same with 100,000 addresses"),
        ("bridge.1k.burst1", 1000, SHORT, 1, "1,000 addresses, one frame at a time"),
        ("bridge.1k.1518", 1000, LONG, 32, "1,000 addresses, burst 32, 1518-byte frames"),
    ];
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for (id, stations, len, burst, _) in frames {
        subjects.push(Box::new(BridgeRig::new(id, stations, len, burst)?));
    }
    let kernel = ports::kernel();
    match &kernel {
        Ok(bench) => {
            let id = format!("kernel.{}", frames[0].0);
            subjects.push(Box::new(Forward::new(&id, bench, Part::Whole, options.core())));
        }
        Err(why) => notes.push(format!("without kernel: skipped: {why}")),
    }
    let samples = run::interleave(&mut subjects, &run_options, &mut |_| ())?;
    let mut rows = rows_of(&samples, &frames.map(|(.., title)| title))?;
    let mut peers = Vec::new();
    if let [ours, _, _, _, theirs] = samples.as_slice() {
        peers.push(Peer::new("kernel", theirs, ours)?);
        notes.push("kernel: its bridge over veths, a packet socket's sendmmsg included".to_owned());
    }
    drop(subjects);
    steps.next("cards");
    let cards = [("nic.first", NIC_FIRST), ("nic.final", NIC_FINAL)];
    let rig = |(id, words)| -> anyhow::Result<Box<dyn Subject>> { Ok(Box::new(NicRig::new(id, words)?)) };
    let mut subjects = cards.into_iter().map(rig).collect::<anyhow::Result<Vec<_>>>()?;
    let titles = [
        "bridge2004's first rung: two nics, their drivers' work and registers included, frames in no cache",
        "its last rung: the same with all tweaks",
    ];
    let samples = run::interleave(&mut subjects, &run_options, &mut |_| ())?;
    rows.extend(rows_of(&samples, &titles)?);
    drop(subjects);
    steps.next("two cores");
    rows.push(lanes::row(&run_options, &mut notes)?);
    steps.next("parts");
    let mut parts: Vec<Box<dyn Subject>> =
        vec![Box::new(FdbRig::new("fdb.64k", 1 << 16)?), Box::new(PoolRig::new()?), Box::new(RingRig::new()?)];
    let titles = [
        "an address looked up among 65,536, bursts of 32, random order",
        "a buffer taken from its pool and given back, 32 at a time",
        "a frame through a ring, 32 at a time, both ends on one core",
    ];
    rows.extend(rows_of(&run::interleave(&mut parts, &run_options, &mut |_| ())?, &titles)?);
    drop(parts);
    steps.next("between devices of the kernel");
    let forward = ports::rows(&kernel, &options.run(12), options.core())?;
    rows.extend(forward.rows);
    peers.extend(forward.peers);
    notes.extend(forward.notes);
    let beside = Beside { sheets: forward.sheets, ..Beside::default() };
    steps.next("idle");
    let (windows, wakes) = if options.quick { (4, 500) } else { (12, 1000) };
    rows.extend(idle::rows(windows, wakes, options.core(), &mut notes)?);
    Ok(Report { name: "bench bridge".to_owned(), env, noise_floor: floor, rows, peers, notes, beside: Some(beside) })
}

fn rows_of(samples: &[Sample], titles: &[&str]) -> anyhow::Result<Vec<Row>> {
    let row = |(sample, title): (&Sample, &&str)| {
        Ok(Row::new(&sample.id, title, Figure::ticks(sample).with_context(|| sample.id.clone())?))
    };
    samples.iter().zip(titles).map(row).collect()
}
