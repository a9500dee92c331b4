//! bridge2004: a polled bridge of two and of four ports, and what each of eleven tweaks to the cards' driver gives.
//!
//! [`crate::rigs::NicRig`] is the machine. The ladder takes one tweak after the other ([`steps`]); each is tried alone, too, against the
//! first rung; and each rung is run by two loops on two cores ([`cores`]). The report says that the bottleneck moves from the bus to memory, and from there to the processor's cycles: every rung is
//! measured with frames in memory (`dma=cold`) and in the cache (`dma=copy`), which tells memory from cycles, and registers are counted.

mod climb;
mod cores;
mod sheets;
mod steps;

use crate::env::Environment;
use crate::result::{Beside, Report};
use crate::rigs::{NIC_ROUND, NicRig};
use crate::run;
use crate::built::Steps;
use crate::study::{self, Options, Progress};

/// The bridges of the report: ports, cycles a frame (2.8 GHz over 1.2 and 1.6 million frames a second).
const THEN: [(usize, f64); 2] = [(2, 2333.0), (4, 1750.0)];

/// Where a frame that a card has received is when the driver reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dma {
    /// In memory, and in no cache: as a bus master of those years left it.
    Cold,
    /// In the processor's cache.
    Copy,
}

impl Dma {
    fn word(self) -> &'static str {
        match self {
            Dma::Cold => "cold",
            Dma::Copy => "copy",
        }
    }

    fn other(self) -> Dma {
        match self {
            Dma::Cold => Dma::Copy,
            Dma::Copy => Dma::Cold,
        }
    }
}

/// The ladder with frames in memory.
///
/// # Errors
/// A rig could not be built, or lost a frame.
pub fn bridge2004(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    study(Dma::Cold, options, progress)
}

/// The ladder with frames in the cache.
///
/// # Errors
/// As [`bridge2004`].
pub fn bridge2004_in_cache(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    study(Dma::Copy, options, progress)
}

fn study(dma: Dma, options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let env = Environment::detect(); // before the trials: their load is ours
    let frames = if options.quick { "frames=4096" } else { "frames=32768" };
    let quick = run::Options { warmup: 1, ..options.run(20) };
    let run_options = if options.quick { quick } else { options.run(20) };
    let mut said = crate::built::Steps::new(1 + (climb::PARTS + cores::PARTS) * THEN.len(), progress);
    said.next("A against A: the noise floor");
    let last = steps::last(4).words;
    let words = format!("{last} ports=2 dma={} {frames}", dma.word());
    let floor = crate::built::floor(Box::new(NicRig::new("floor", &words)?), &run_options)?;
    let (mut rows, mut sheets, mut notes) = (Vec::new(), Vec::new(), notes(dma));
    let (mut ends, mut two_loops) = (Vec::new(), Vec::new());
    for (ports, then) in THEN {
        let climbed = climb::climb(ports, dma, frames, &run_options, &mut said)?;
        rows.extend(climbed.rows(then, &floor)?);
        sheets.push(sheets::costs(&climbed)?);
        sheets.push(sheets::where_it_goes(&climbed)?);
        notes.push(climbed.distances());
        let base = format!("ports={ports} dma={} {frames}", dma.word());
        let two = cores::climb(ports, &base, &climbed.steps, dispatch::cores(), &run_options, &mut said)?;
        two_loops.extend(two.rows(&floor)?);
        sheets.push(two.sheet(&floor)?);
        ends.push(climbed);
    }
    rows.extend(two_loops);
    sheets.push(sheets::then_and_now(&ends, &THEN)?);
    notes.extend(ends.iter().map(sheets::remark).collect::<anyhow::Result<Vec<_>>>()?);
    let baseline = "the rung before (alone.*: first; t8.*, t11.*: t10; two.*: one loop, same rung)".to_owned();
    let beside = Beside { baseline: Some(baseline), sheets, texts: Vec::new() };
    let name = "repro bridge2004".to_owned();
    Ok(Report { name, env, noise_floor: floor, rows, peers: Vec::new(), notes, beside: Some(beside), version: crate::result::VERSION, samples: Vec::new() })
}

fn notes(dma: Dma) -> Vec<String> {
    let place = match dma {
        Dma::Cold => {
            "dma=cold: the card puts what it has written out of all caches, as PCI did; a card of today writes into the last-level cache, \
             which is nearer to --dma copy. Descriptors stay in the cache either way, and so do buffers that the card has sent, which T4 and T5 take from: \
             what those two saved is not to be seen here"
        }
        Dma::Copy => {
            "dma=copy: frames are in the cache when the driver reads them, as a card of today leaves them (--dma cold: in memory)"
        }
    };
    vec![
        format!(
            "one operation: a 64-byte frame (60 without FCS) from one port to another, each port receiving and sending, 0 with 1 and 2 with \
             3; {NIC_ROUND} frames a port and turn of the loop; 1000 known addresses in random order; ordinary user, no privilege"
        ),
        "timed: rx_burst of the driver, Bridge::input, tx_burst, and at the end of a turn the announcing and cleaning up (em_poll); not timed: \
         the cards' own work and the wires, which run on the same core between two turns"
            .to_owned(),
        place.to_owned(),
        "registers: a write takes 204 ns, a read 875 ns (mmio_test, 2005), spun away; both are asked every 20 turns as polling did \
         (reg_frac). The bus is counted in its clocks and not waited for: one PCI-X bus, 64 bits, 100 MHz, under all cards"
            .to_owned(),
        "then: FreeBSD 4.7, a Xeon of 2.8 GHz, cycles; now: TSC ticks, timer cost subtracted. Which of its tweaks gave what the report does \
         not say; its figures are with all of them"
            .to_owned(),
        "t8.*: the last rung with interrupts: the kernel is asked by poll(2) whether there was one, ICR read; that the processor was \
         interrupted (its trap, a sleeping thread's waking) is not in it. At 600,000 frames a second and port ITR 0 lets every frame \
         interrupt, 125 us every 75"
            .to_owned(),
        "t11.*: the processor waits for neither the bus nor what a card fetches, so that its ticks stay; what a bus carries is in the sheet \
         (bus clocks, bus allows). The report: 700,000 frames a port with both, 600,000 without, prefetch unsupported"
            .to_owned(),
        "missed in 2 ms: frames without a descriptor, of those that come at 600,000 a second and port while nobody polls; virtual time, exact"
            .to_owned(),
        "two.*: the loops' rates added up, against one loop that has all ports, trial by trial; what one of them does untimed (its cards) may \
         run beside what is timed of the other. Each loop has a replica of the bridge and a pool of its own; with four ports it has two that \
         exchange frames, with two a direction: the one card's receiving half, the other's sending half"
            .to_owned(),
    ]
}
