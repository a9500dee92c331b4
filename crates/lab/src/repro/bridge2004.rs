//! bridge2004: a polled bridge with two and with four ports, and the gain from each of eleven
//! tweaks, which are changes to the driver of the network cards.
//!
//! [`crate::rigs::NicRig`] models the machine. The ladder is a series of configurations, called
//! rungs, each of which adds one tweak to the rung before ([`steps`]). Each tweak is also measured
//! alone, against the first rung. Each rung is also run with a processor that waits for the
//! modelled bus ([`paced`]), and with two loops on two cores ([`cores`]). According to the report,
//! the bottleneck moves from the bus to memory, and from there to the processor's cycles. Every
//! rung is therefore measured with frames and buffers in memory and in the cache ([`memory`]),
//! which separates memory from cycles. Register accesses and bus clocks are counted.

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

/// Bridges of the report: (number of ports, cycles per frame). The cycles are 2.8 GHz divided by
/// 1.2 and 1.6 million frames per second.
const THEN: [(usize, f64); 2] = [(2, 2333.0), (4, 1750.0)];
/// Rates of these bridges in the report, in thousand frames per second and port, without the tweak
/// T11 (a faster bus) and with it.
const RATES: [Then; 2] = [Then { without: 600.0, with: Some(700.0) }, Then { without: 400.0, with: None }];

/// Measures the ladder of tweaks, with frames in memory and not in the cache.
///
/// # Errors
/// A rig could not be built, or lost a frame.
pub fn bridge2004(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    study(Dma::Cold, options, progress)
}

/// Measures the ladder of tweaks, with frames in the cache.
///
/// # Errors
/// As [`bridge2004`].
pub fn bridge2004_in_cache(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    study(Dma::Copy, options, progress)
}

/// Number of rounds of the ladder. A round builds about thirty rigs; a rig with frames in memory
/// takes 50 ms to build.
const ROUNDS: u32 = 10;

fn study(dma: Dma, options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let frames = if options.quick { "frames=4096" } else { "frames=16384" };
    // There is no warm-up trial, since a rig warms up by itself. There is one rig at a time, since
    // thirty rigs would need 2 GiB and evict each other from the cache.
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

/// Measures the bridge with `ports` ports: its ladder without waits for the bus, with waits for the
/// bus, and with two loops.
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
    sheets::warning(&climbed, &paced, two.last()?.as_ref())?.into_iter().for_each(|note| study.note(note));
    study.note(sheets::faster_bus(&paced, rate, ports)?);
    Ok(climbed)
}

fn notes(place: &str) -> Vec<String> {
    vec![
        format!(
            "one operation: a 64-byte frame (60 without FCS) forwarded between ports 0 and 1 or 2 and 3, every port receives and sends; \
             {NIC_ROUND} frames per port and turn of the loop; 1000 known addresses in random order; unprivileged user"
        ),
        "timed: rx_burst of the driver, Bridge::input, tx_burst, and em_poll (doorbells and cleanup) at the end of a turn; not timed: \
         the work of cards and wires, which runs on the same core between two turns"
            .to_owned(),
        place.to_owned(),
        "registers: the processor waits 204 ns for a write, 875 ns for a read (mmio_test, 2005); ICR and STATUS are read every 20 turns, \
         as with FreeBSD's polling (reg_frac)"
            .to_owned(),
        "bus.*: all cards share one PCI-X bus (64 bits, 100 MHz) and wait for it (bus_pace). A turn takes the \
         time of this machine's processor, a transfer that of the modelled bus, and both run in parallel: while the \
         processor handles the frames of one turn, the bus moves those of the next. In all other rows bus clocks are \
         counted, but nothing waits for the bus"
            .to_owned(),
        "then: FreeBSD 4.7, a Xeon of 2.8 GHz, cycles; now: TSC ticks, timer cost subtracted. The report does not \
         give the gain of each tweak; its figures include all of them"
            .to_owned(),
        "t8.*: the last rung with interrupts: poll(2) checks for one, and ICR is read; the cost of interrupting the \
         processor (the trap, waking a sleeping thread) is not included. At 600,000 frames per second and port, ITR 0 \
         gives an interrupt per frame, 125 us one per 75 frames"
            .to_owned(),
        "bus.t11.*: T11 changes only the bus and the fetches of a card, so it is measured in the rows that wait for the bus. The \
         report: 700,000 frames per port with both, 600,000 without, prefetch unsupported"
            .to_owned(),
        "missed in 2 ms: frames that find no descriptor while no port is polled, at 600,000 frames per second and \
         port; virtual time, exact"
            .to_owned(),
        "two.*: sum of both loops' rates, paired with one loop that has all ports; untimed work of one loop (its \
         cards) may run in parallel with timed work of the other. Each loop has its own replica of the bridge and \
         its own pool. With four ports, each loop has two ports that exchange frames; with two ports, each loop has \
         one direction: the receiving half of one card, the sending half of the other. --quick omits alone.*"
            .to_owned(),
    ]
}
