//! `linerate bench bridge`: the cost of forwarding a frame by its MAC addresses, and of each step
//! of forwarding on its own.

mod idle;
mod lanes;
mod ports;
#[cfg(test)]
mod tests;

use crate::result::Report;
use crate::rigs::{BridgeRig, FdbRig, NIC_FINAL, NIC_FIRST, NicRig, PoolRig, RingRig};
use crate::side::Side;
use crate::study::{Entry, Options, Progress, Study};

/// Length in bytes of a 64-byte Ethernet frame without its FCS.
const SHORT: usize = 60;
/// Length in bytes of a 1518-byte Ethernet frame without its FCS.
const LONG: usize = 1514;

/// Rows measured between in-memory ports: (identifier, number of MAC addresses, frame length in
/// bytes without FCS, frames per burst, title).
const FRAMES: [(&str, usize, usize, usize, &str); 4] = [
    ("bridge.1k.burst32", 1000, SHORT, 32, "learning bridge, 64-byte frames, 1,000 addresses, burst 32"),
    ("bridge.100k.burst32", 100_000, SHORT, 32, "learning bridge, 64-byte frames, 100,000 addresses, burst 32"),
    ("bridge.1k.burst1", 1000, SHORT, 1, "learning bridge, 64-byte frames, 1,000 addresses, burst 1"),
    ("bridge.1k.1518", 1000, LONG, 32, "learning bridge, 1518-byte frames, 1,000 addresses, burst 32"),
];
/// Number of MAC addresses in the table of the row `fdb.64k`.
const ADDRESSES: usize = 1 << 16;

/// Measures all rows of `linerate bench bridge`.
///
/// # Errors
/// Returns no error: a row that could not be measured states the reason instead.
pub fn bridge(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut study = Study::new("bench bridge", options.run(30), 6, progress);
    study.note(
        "in-memory ports (rings); known stations in random order; one core; TSC ticks per frame, both rings \
         included. These rows have no kernel peer: the kernel has no such ports. The kernel is the peer of the \
         *.forward rows, over devices",
    );
    study.part("frames");
    let frames = FRAMES.map(|(id, stations, len, burst, title)| {
        Entry::new(Side::new(id, move || BridgeRig::new(id, stations, len, burst)), title)
    });
    study.compare_entries(frames.into());
    study.part("cards");
    let cards = [
        (
            "nic.first",
            NIC_FIRST,
            "bridge2004's first rung: two NICs, driver work and register accesses included, frames in no cache",
        ),
        ("nic.final", NIC_FINAL, "bridge2004's last rung: two NICs, all tweaks, frames in no cache"),
    ];
    let cards = cards.map(|(id, words, title)| Entry::new(Side::new(id, move || NicRig::new(id, words)), title));
    study.measure_entries(cards.into(), study.options());
    study.part("two cores");
    lanes::row(&mut study);
    study.part("parts");
    let parts = vec![
        Entry::new(
            Side::new("fdb.64k", || FdbRig::new("fdb.64k", ADDRESSES)),
            "address lookup among 65,536 addresses, bursts of 32, random order",
        ),
        Entry::new(Side::new("pool", PoolRig::new), "a buffer taken from its pool and returned, 32 at a time"),
        Entry::new(Side::new("ring", RingRig::new), "a frame through a ring, 32 at a time, both ends on one core"),
    ];
    study.measure_entries(parts, study.options());
    study.part("between devices of the kernel");
    ports::rows(&mut study, &options.run(12), options.core());
    study.part("idle");
    let (windows, wakes) = if options.quick { (4, 500) } else { (12, 1000) };
    idle::rows(&mut study, windows, wakes, options.core());
    Ok(study.finish())
}
