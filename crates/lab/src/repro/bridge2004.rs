//! bridge2004: a polled bridge of two and of four ports, and the gain by each of eleven tweaks to
//! the cards' driver.
//!
//! [`crate::rigs::NicRig`] models the machine. The ladder applies one tweak after the other
//! ([`steps`]). Each tweak is also measured alone, against the first rung. Each rung is also run
//! with the bus waited for ([`paced`]), and with two loops on two cores ([`cores`]). According to
//! the report, the bottleneck moves from the bus to memory, and from there to the processor's
//! cycles. Every rung is therefore measured with frames and buffers in memory and in the cache
//! ([`memory`]), which separates memory from cycles. Register accesses and bus clocks are counted.

mod climb;
mod cores;
mod memory;
mod paced;
mod sheets;
mod steps;

use crate::result::{Report, Row, Sheet};
use crate::rigs::NIC_ROUND;
use crate::run::{self, Alive};
use crate::study::{Options, Progress, Study};
use cores::Alone;
use memory::{Dma, WorkingSet};
use paced::Then;
use steps::HugePages;

/// Bridges of the report: ports, and cycles per frame (2.8 GHz divided by 1.2 and 1.6 million
/// frames per second).
const THEN: [(usize, f64); 2] = [(2, 2333.0), (4, 1750.0)];
/// Rates of these bridges in the report, in thousand frames per second and port, without T11 and
/// with it.
const RATES: [Then; 2] = [Then { without: 600.0, with: Some(700.0) }, Then { without: 400.0, with: None }];

/// Runs the ladder with frames in memory.
///
/// # Errors
/// A rig could not be built, or lost a frame.
pub fn bridge2004(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    study(Dma::Cold, options, progress)
}

/// Runs the ladder with frames in the cache.
///
/// # Errors
/// As [`bridge2004`].
pub fn bridge2004_in_cache(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    study(Dma::Copy, options, progress)
}

/// Rounds of the ladder: building a cold rig takes 50 ms, and a round builds about thirty.
const ROUNDS: u32 = 10;

fn study(dma: Dma, options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let frames = if options.quick { "frames=4096" } else { "frames=16384" };
    // A rig warms up by itself. Thirty rigs at once would take 2 GiB and evict each other from the
    // cache.
    let usual = run::Options { warmup: 0, trials: 2, alive: Alive::OneByOne, ..options.run(ROUNDS) };
    let parts = (climb::PARTS + paced::PARTS + cores::PARTS) * THEN.len();
    let mut study = Study::new("repro bridge2004", usual, parts, progress);
    let set = WorkingSet::detect();
    let pages = HugePages::detect(&set.words(Dma::Cold))?;
    notes(&set.note(dma)).into_iter().for_each(|note| study.note(note));
    let mut ends = Vec::new();
    for (bridge, rate) in THEN.into_iter().zip(RATES) {
        match ladder(&mut study, bridge, rate, (dma, set, &pages), frames, options) {
            Ok(climbed) => ends.push(climbed),
            Err(why) => {
                let (id, title) = (format!("p{}", bridge.0), format!("{} ports: the ladder", bridge.0));
                study.rows([Row::missing(&id, &title, &format!("{why:#}"))]);
            }
        }
    }
    if ends.len() == THEN.len() {
        let sheet = sheets::then_and_now(&ends, &THEN)?;
        study.beside().sheets.push(sheet);
    }
    let baseline = "the rung before (alone.*: first; t8.*: t10; bus.t11.*: the rung that differs in it alone; two.*: one loop, same rung)";
    study.beside().baseline = Some(baseline.to_owned());
    Ok(study.finish())
}

/// Measures one bridge: the ladder, with the bus waited for, and with two loops.
fn ladder(
    study: &mut Study<'_>,
    (ports, then): (usize, f64),
    rate: Then,
    place: (Dma, WorkingSet, &HugePages),
    frames: &str,
    options: &Options,
) -> anyhow::Result<climb::Climbed> {
    let alone = if options.quick { Alone::LeftOut } else { Alone::Measured };
    let run_options = study.options();
    let climbed = climb::climb(study, ports, place, frames, &run_options)?;
    study.rows(climbed.rows(then)?);
    let base = format!("ports={ports} {} {frames}", place.1.words(place.0));
    let paced = paced::climb(study, ports, &base, &climbed.steps, &run_options)?;
    study.rows(paced.rows(rate)?);
    let two = cores::climb(study, ports, &base, &climbed.steps, (dispatch::cores(), alone), &run_options)?;
    study.rows(two.rows()?);
    let sheets: [Sheet; 3] = [sheets::where_it_goes(&climbed, &paced)?, sheets::costs(&climbed)?, two.sheet()?];
    study.beside().sheets.extend(sheets);
    study.note(climbed.distances());
    study.note(climbed.without_effect()?);
    sheets::remark(&climbed, &paced, two.last()?.as_ref())?.into_iter().for_each(|note| study.note(note));
    study.note(sheets::faster_bus(&paced, rate, ports)?);
    Ok(climbed)
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
        "bus.*: one PCI-X bus, 64 bits, 100 MHz, under all cards, which wait for it (bus_pace). The processor's \
         turns take their time on this machine, the bus takes its clocks, and both work at the same time: while the \
         processor works on the frames of one turn, the bus moves those of the next. In all other rows the bus is \
         counted and not waited for"
            .to_owned(),
        "then: FreeBSD 4.7, a Xeon of 2.8 GHz, cycles; now: TSC ticks, timer cost subtracted. The report does not \
         give the gain of each tweak; its figures are with all of them"
            .to_owned(),
        "t8.*: the last rung with interrupts: poll(2) checks for one, and ICR is read; the cost of interrupting the \
         processor (the trap, waking a sleeping thread) is not included. At 600,000 frames a second and port ITR 0 \
         lets every frame interrupt, 125 us every 75"
            .to_owned(),
        "bus.t11.*: the processor waits for neither the bus nor what a card fetches, so that T11 is measured where the bus is waited for. The \
         report: 700,000 frames a port with both, 600,000 without, prefetch unsupported"
            .to_owned(),
        "missed in 2 ms: frames without a descriptor, of those that arrive at 600,000 a second and port while no \
         port is polled; virtual time, exact"
            .to_owned(),
        "two.*: the loops' rates added up, against one loop that has all ports, trial by trial; untimed work of one \
         loop (its cards) may run beside timed work of the other. Each loop has a replica of the bridge and a pool \
         of its own; with four ports it has two that exchange frames, with two a direction: the one card's \
         receiving half, the other's sending half. Each tweak alone is left out with --quick"
            .to_owned(),
    ]
}
