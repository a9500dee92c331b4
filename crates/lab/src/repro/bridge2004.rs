//! bridge2004: a polled bridge of two and of four ports, and what each of eleven tweaks to the cards' driver gives.
//!
//! [`crate::rigs::NicRig`] is the machine. The ladder takes one tweak after the other ([`steps`]);
//! each is tried alone, too, against the first rung; each rung is run with the bus waited for
//! ([`paced`]), and by two loops on two cores ([`cores`]). The report says that the bottleneck
//! moves from the bus to memory, and from there to the processor's cycles: every rung is measured
//! with frames and buffers in memory and in the cache ([`memory`]), which separates memory from
//! cycles; register accesses and the bus are counted.

mod climb;
mod cores;
mod memory;
mod paced;
mod sheets;
mod steps;

use crate::env::Environment;
use crate::result::{Beside, Report};
use crate::rigs::{NIC_ROUND, NicRig};
use crate::run;
use crate::study::{self, Options, Progress, Steps};
use cores::Alone;
use memory::{Dma, WorkingSet};
use paced::Then;
use steps::HugePages;

/// The bridges of the report: ports, cycles a frame (2.8 GHz over 1.2 and 1.6 million frames a second).
const THEN: [(usize, f64); 2] = [(2, 2333.0), (4, 1750.0)];
/// Their thousand frames a second and port, without T11 and with it.
const RATES: [Then; 2] = [Then { without: 600.0, with: Some(700.0) }, Then { without: 400.0, with: None }];

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
    let frames = if options.quick { "frames=4096" } else { "frames=16384" };
    let quick = run::Options { warmup: 1, ..options.run(20) };
    let run_options = if options.quick { quick } else { options.run(20) };
    let alone = if options.quick { Alone::LeftOut } else { Alone::Measured };
    let mut said = Steps::new(1 + (climb::PARTS + paced::PARTS + cores::PARTS) * THEN.len(), progress);
    said.next("A against A: the noise floor");
    let set = WorkingSet::detect();
    let pages = HugePages::detect(&set.words(Dma::Cold))?;
    let last = steps::last(4, &pages).words;
    let words = format!("{last} ports=2 {} {frames}", set.words(dma));
    let floor = study::floor(&mut NicRig::new("floor", &words)?, &run_options)?;
    let (mut rows, mut sheets, mut notes) = (Vec::new(), Vec::new(), notes(&set.note(dma)));
    let (mut ends, mut rates, mut two_loops) = (Vec::new(), Vec::new(), Vec::new());
    for ((ports, then), rate) in THEN.into_iter().zip(RATES) {
        let climbed = climb::climb(ports, (dma, set, &pages), frames, &run_options, &mut said)?;
        rows.extend(climbed.rows(then, &floor)?);
        let base = format!("ports={ports} {} {frames}", set.words(dma));
        let paced = paced::climb(ports, &base, &climbed.steps, &run_options, &mut said)?;
        rates.extend(paced.rows(rate, &floor)?);
        let two = cores::climb(ports, &base, &climbed.steps, (dispatch::cores(), alone), &run_options, &mut said)?;
        two_loops.extend(two.rows(&floor)?);
        sheets.extend([sheets::where_it_goes(&climbed, &paced)?, sheets::costs(&climbed)?, two.sheet(&floor)?]);
        notes.push(climbed.distances());
        notes.push(climbed.without_effect(&floor)?);
        notes.extend(sheets::remark(&climbed, &paced, two.last(&floor)?.as_ref())?);
        notes.push(sheets::faster_bus(&paced, rate, ports)?);
        ends.push(climbed);
    }
    rows.extend(rates);
    rows.extend(two_loops);
    sheets.push(sheets::then_and_now(&ends, &THEN)?);
    let baseline = "the rung before (alone.*: first; t8.*: t10; bus.t11.*: the rung that differs in it alone; two.*: one loop, same rung)";
    let beside = Beside { baseline: Some(baseline.to_owned()), sheets, texts: Vec::new() };
    let name = "repro bridge2004".to_owned();
    Ok(Report { name, env, noise_floor: floor, rows, peers: Vec::new(), notes, beside: Some(beside) })
}

fn notes(place: &str) -> Vec<String> {
    vec![
        format!(
            "one operation: a 64-byte frame (60 without FCS) from one port to another, each port receiving and sending, 0 with 1 and 2 with \
             3; {NIC_ROUND} frames a port and turn of the loop; 1000 known addresses in random order; ordinary user, no privilege"
        ),
        "timed: rx_burst of the driver, Bridge::input, tx_burst, and at the end of a turn the announcing and cleaning up (em_poll); not timed: \
         the cards' own work and the wires, which run on the same core between two turns"
            .to_owned(),
        place.to_owned(),
        "registers: a write takes 204 ns, a read 875 ns (mmio_test, 2005), which the processor waits; ICR and STATUS are read every 20 turns \
         as polling did (reg_frac)"
            .to_owned(),
        "bus.*: one PCI-X bus, 64 bits, 100 MHz, under all cards, which wait for it (bus_pace). The processor's turns take the time that they \
         take here, the bus its clocks, both at the same time: while the one works on a turn's frames the other moves those of the next. In \
         all other rows the bus is counted and not waited for"
            .to_owned(),
        "then: FreeBSD 4.7, a Xeon of 2.8 GHz, cycles; now: TSC ticks, timer cost subtracted. Which of its tweaks gave what the report does \
         not say; its figures are with all of them"
            .to_owned(),
        "t8.*: the last rung with interrupts: the kernel is asked by poll(2) whether there was one, ICR read; that the processor was \
         interrupted (its trap, a sleeping thread's waking) is not in it. At 600,000 frames a second and port ITR 0 lets every frame \
         interrupt, 125 us every 75"
            .to_owned(),
        "bus.t11.*: the processor waits for neither the bus nor what a card fetches, so that T11 is measured where the bus is waited for. The \
         report: 700,000 frames a port with both, 600,000 without, prefetch unsupported"
            .to_owned(),
        "missed in 2 ms: frames without a descriptor, of those that come at 600,000 a second and port while nobody polls; virtual time, exact"
            .to_owned(),
        "two.*: the loops' rates added up, against one loop that has all ports, trial by trial; what one of them does untimed (its cards) may \
         run beside what is timed of the other. Each loop has a replica of the bridge and a pool of its own; with four ports it has two that \
         exchange frames, with two a direction: the one card's receiving half, the other's sending half. Each tweak alone is left out with --quick"
            .to_owned(),
    ]
}
