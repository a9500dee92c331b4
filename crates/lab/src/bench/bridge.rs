//! `linerate bench bridge`: what a frame costs that is forwarded by its addresses, and the parts of that.

mod idle;
mod lanes;
mod ports;
#[cfg(test)]
mod tests;

use crate::env::Environment;
use crate::result::{Beside, Figure, Report, Row};
use crate::rigs::{BridgeRig, FdbRig, NIC_FINAL, NIC_FIRST, NicRig, PoolRig, RingRig};
use crate::run;
use crate::sample::Sample;
use crate::study::{self, Options, Progress, Steps};
use crate::subject::Subject;
use anyhow::Context;

/// 64 and 1518 on the wire, without FCS.
const SHORT: usize = 60;
const LONG: usize = 1514;

/// Rows between in-memory ports: identifier, addresses, bytes of a frame, frames of a burst, title.
const FRAMES: [(&str, usize, usize, usize, &str); 4] = [
    ("bridge.1k.burst32", 1000, SHORT, 32, "learning bridge, 64-byte frames, 1,000 addresses, burst 32"),
    ("bridge.100k.burst32", 100_000, SHORT, 32, "the same with 100,000 addresses"),
    ("bridge.1k.burst1", 1000, SHORT, 1, "1,000 addresses, one frame at a time"),
    ("bridge.1k.1518", 1000, LONG, 32, "1,000 addresses, burst 32, 1518-byte frames"),
];
/// Addresses in the table of `fdb.64k`.
const ADDRESSES: usize = 1 << 16;

/// The figures.
///
/// # Errors
/// A rig could not be built, or lost a frame.
pub fn bridge(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let env = Environment::detect(); // before the trials: their load is ours
    let run_options = options.run(30);
    let mut steps = Steps::new(7, progress);
    let mut notes = vec![
        "in-memory ports (rings); stations known, in random order; one core; ticks of the TSC a frame, its way through both rings included. No \
         row of these has the kernel beside it: it has no such ports, and between devices its own work on them would be compared with none. \
         It is the peer of *.forward, over devices"
            .to_owned(),
    ];
    steps.next("A against A: the noise floor");
    let floor = study::floor(&mut BridgeRig::new("floor", 1000, SHORT, 32)?, &run_options)?;
    steps.next("frames");
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for (id, stations, len, burst, _) in FRAMES {
        subjects.push(Box::new(BridgeRig::new(id, stations, len, burst)?));
    }
    let samples = run::interleave(&mut subjects, &run_options, &mut |_| ())?;
    let mut rows = rows_of(&samples, &FRAMES.map(|(.., title)| title))?;
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
        vec![Box::new(FdbRig::new("fdb.64k", ADDRESSES)?), Box::new(PoolRig::new()?), Box::new(RingRig::new()?)];
    let titles = [
        "an address looked up among 65,536, bursts of 32, random order",
        "a buffer taken from its pool and given back, 32 at a time",
        "a frame through a ring, 32 at a time, both ends on one core",
    ];
    rows.extend(rows_of(&run::interleave(&mut parts, &run_options, &mut |_| ())?, &titles)?);
    drop(parts);
    steps.next("between devices of the kernel");
    let forward = ports::rows(&options.run(12), options.core())?;
    rows.extend(forward.rows);
    let peers = forward.peers;
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
