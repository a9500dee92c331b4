//! The rows `xdp.forward`, `packet.forward`, `tap.forward`: a switch between devices of the kernel, the port's bare loop, the kernel's bridge.

use crate::native::forward::{Bench, FRAMES, Forward, Kind, LoopCosts, Part, Who};
use crate::result::{Figure, Peer, Row, Sheet};
use crate::run;
use crate::sample::{Ratio, Sample};
use crate::subject::Subject;
use anyhow::Context;
use std::cell::RefCell;
use std::rc::Rc;

/// What came of them.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub rows: Vec<Row>,
    pub peers: Vec<Peer>,
    pub notes: Vec<String>,
    pub sheets: Vec<Sheet>,
}

/// Runs with the ledger on: behind the trials, so that it is in none of them.
const LEDGER_RUNS: u64 = 8;

/// One kind of port.
struct Contest {
    kind: Kind,
    name: &'static str,
    whole: &'static str,
    looped: &'static str,
}

const CONTESTS: [Contest; 3] = [
    Contest {
        kind: Kind::Xdp,
        name: "xdp.forward",
        whole: "learning bridge between veths by xdp:, 64-byte frames, from a packet socket to the far device",
        looped: "of that, the loop: receive, bridge, send; the kernel's part of sending included",
    },
    Contest { kind: Kind::Packet, name: "packet.forward", whole: "the same by packet:", looped: "of that, the loop" },
    Contest {
        kind: Kind::Tap,
        name: "tap.forward",
        whole: "the same between TAP devices by tap:",
        looped: "of that, the loop",
    },
];

/// The kernel's bridge, as a peer for every row.
pub(super) type Kernel = Result<Rc<RefCell<Bench>>, String>;

/// Starts it.
pub(super) fn kernel() -> Kernel {
    start(Who::Kernel)
}

fn start(who: Who) -> Kernel {
    Bench::start(who).map(|bench| Rc::new(RefCell::new(bench))).map_err(|why| format!("{why:#}"))
}

/// Measures them, or says why not.
///
/// # Errors
/// A frame was lost.
pub(super) fn rows(kernel: &Kernel, options: &run::Options, core: usize) -> anyhow::Result<Rows> {
    // The measuring thread sleeps while its children work, each of which tells its own share.
    let options = run::Options { cpu: None, ..options.clone() };
    let mut out = Rows::default();
    for contest in &CONTESTS {
        contest.hold(kernel, &options, core, &mut out)?;
    }
    out.notes.push(
        "forward: all on one core, a round after the other: frames are sent by sendmmsg from 1,000 stations, passed on, counted by the \
         far device; the figure is the first two, .loop the second alone. kernel: its bridge over such veths, which works within the \
         generator's call. packet: the time until a block is retired (up to 1 ms) is not counted. bare.xdp sends back to where it \
         came from; bare.tap has two devices each way"
            .to_owned(),
    );
    Ok(out)
}

impl Contest {
    fn hold(&self, kernel: &Kernel, options: &run::Options, core: usize, out: &mut Rows) -> anyhow::Result<()> {
        let (name, inner) = (self.name, format!("{}.loop", self.name));
        let (ours, bare) = match (start(Who::Ours(self.kind)), start(Who::Bare(self.kind))) {
            (Ok(ours), Ok(bare)) => (ours, bare),
            (Err(why), _) | (_, Err(why)) => {
                let why = format!("skipped: {why}");
                out.rows.push(Row::missing(name, self.whole, &why));
                out.rows.push(Row::missing(&inner, self.looped, &why));
                return Ok(());
            }
        };
        let looped = Forward::new(&inner, &ours, Part::Loop, core);
        let bridge = looped.bridge();
        let mut subjects: Vec<Box<dyn Subject>> = vec![
            Box::new(Forward::new(name, &ours, Part::Whole, core)),
            Box::new(Forward::new(&format!("bare.{name}"), &bare, Part::Whole, core)),
            Box::new(looped),
            Box::new(Forward::new(&format!("bare.{inner}"), &bare, Part::Loop, core)),
        ];
        match kernel {
            Ok(kernel) => {
                subjects.push(Box::new(Forward::new(&format!("kernel.{name}"), kernel, Part::Whole, core)));
            }
            Err(why) => out.notes.push(format!("{name}: without kernel: skipped: {why}")),
        }
        let samples = run::interleave(&mut subjects, options, &mut |_| ())?;
        let [whole, bare_whole, looped, bare_looped, theirs @ ..] = samples.as_slice() else {
            anyhow::bail!("no samples of {name}")
        };
        out.rows.push(Row::new(name, self.whole, Figure::ticks(whole)?));
        out.rows.push(Row::new(&inner, self.looped, Figure::ticks(looped)?));
        out.peers.push(Peer::new("bare", bare_whole, whole)?);
        for theirs in theirs {
            out.peers.push(Peer::new("kernel", theirs, whole)?);
        }
        out.peers.push(Peer::new("bare", bare_looped, looped)?);
        out.notes.push(self.parts(looped, bare_looped, *bridge.borrow())?);
        out.sheets.push(self.stages(&ours, core, [looped, bare_looped])?);
        out.notes.extend(samples.iter().filter(|sample| sample.noisy).map(|sample| format!("{}: noisy", sample.id)));
        Ok(())
    }

    /// Where the loop's ticks go, by its ledger.
    fn stages(&self, ours: &RefCell<Bench>, core: usize, [looped, bare]: [&Sample; 2]) -> anyhow::Result<Sheet> {
        let LoopCosts { stages, readings, probes } = ours.borrow_mut().costs(LEDGER_RUNS * FRAMES, core)?;
        let (all, without) = (looped.summary()?.median, bare.summary()?.median);
        let booked: f64 = stages.iter().filter(|stage| !stage.within).map(|stage| stage.ticks).sum();
        let row = |stage: String, ticks: f64, what: &str| vec![stage.into(), ticks.into(), what.into()];
        let mut rows: Vec<Vec<_>> = Vec::new();
        for stage in stages {
            rows.push(row(stage.stage, stage.ticks, if stage.within { "within port.rx, port.tx" } else { "" }));
        }
        rows.push(row("all stages".to_owned(), booked, "without the ledger's own readings"));
        rows.push(row("readings of the counter".to_owned(), probes, "subtracted from the stages"));
        rows.push(row("the loop, ledger off".to_owned(), all, "its trials, above"));
        rows.push(row("bare loop".to_owned(), without, "receive, swap, send: no pool, no frames, no bridge"));
        let title = format!(
            "{}: where our loop's ticks go, a frame; from {} frames with the ledger on, {readings:.2} readings of the counter a frame. What bare's \
             loop has of it too: taking from the ring, filling the other, the kernel's call",
            self.name,
            LEDGER_RUNS * FRAMES
        );
        Ok(Sheet { title, head: ["stage", "ticks", ""].map(str::to_owned).to_vec(), rows })
    }

    /// What of the loop is ours.
    fn parts(&self, ours: &Sample, bare: &Sample, [ticks, frames]: [u64; 2]) -> anyhow::Result<String> {
        let (all, without) = (ours.summary()?.median, bare.summary()?.median);
        let ratio = Ratio::paired(&ours.values(), &bare.values()).context("a ratio")?;
        let bridge = ticks as f64 / frames.max(1) as f64;
        Ok(format!(
            "{}: of {all:.0} ticks a frame in our loop {bridge:.0} are Bridge::input's and {:.0} are more than bare's {without:.0}; \
             cost over bare {:.3} [{:.3}, {:.3}]; the kernel's copies and calls are in both",
            self.name,
            all - without,
            ratio.median,
            ratio.lo,
            ratio.hi
        ))
    }
}
