//! A bridge between devices of the kernel, compared with a bare loop over the same kind of ports
//! and with the kernel's own bridge.
//!
//! ```text
//! ours, xdp and packet   packet socket -> left0 ~ left1 -> port, bridge, port -> right1 ~ right0:
//!                        counted, then dropped as unclaimed
//! ours, tap              packet socket -> left -> port, bridge, port -> right: the same
//! bare                   the same path without bridge, `Frame`s and pool: `port::xdp::bare` etc.
//! kernel                 packet socket -> left0 ~ left1 -> the kernel's bridge -> right1 ~ right0
//! kernel.router          the same with addresses at left1 and right1, and the kernel's
//!                        forwarding between them
//! ```
//! `~` is a pair of veths. Devices, generator, loop and sink run in a child process in a network
//! namespace of its own: this program again, which executes commands that it reads as lines. One
//! thread does all of the work in turn: it sends a round of frames, forwards them, and then checks
//! that each was counted by the far device. So the costs of sending and of forwarding are measured
//! separately, and no thread waits for another. Rounds alternate between left to right and right to
//! left. The kernel's bridge works within the generator's call, so it is compared with the whole
//! path of a frame.

mod devices;
mod ends;
mod idle;
mod loops;
mod serve;
#[cfg(test)]
mod tests;

pub(crate) use serve::{KIND, serve};

use crate::child::{self, Child, list, numbers};
use crate::subject::{Reading, Subject};
use anyhow::Context;
use buf::PoolLocks;
use ends::Ends;
use node::switch::Switch;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Type of the ports between which frames are forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `xdp:` ports over veths.
    Xdp,
    /// `packet:` ports over veths.
    Packet,
    /// `tap:`, a port on a TAP device.
    Tap,
}

/// The program or kernel function that forwards the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Our switch with one loop.
    Ours(Kind),
    /// A bare loop over ports of this type, without our switch.
    Bare(Kind),
    /// The kernel's bridge over veths.
    Kernel,
    /// The kernel as a router between veths.
    KernelRouter,
    /// Our switch with two TAP devices, left idle.
    Idle,
}

impl Who {
    const ALL: [Who; 9] = [
        Who::Ours(Kind::Xdp),
        Who::Ours(Kind::Packet),
        Who::Ours(Kind::Tap),
        Who::Bare(Kind::Xdp),
        Who::Bare(Kind::Packet),
        Who::Bare(Kind::Tap),
        Who::Kernel,
        Who::KernelRouter,
        Who::Idle,
    ];

    fn name(self) -> &'static str {
        match self {
            Who::Ours(Kind::Xdp) => "ours.xdp",
            Who::Ours(Kind::Packet) => "ours.packet",
            Who::Ours(Kind::Tap) => "ours.tap",
            Who::Bare(Kind::Xdp) => "bare.xdp",
            Who::Bare(Kind::Packet) => "bare.packet",
            Who::Bare(Kind::Tap) => "bare.tap",
            Who::Kernel => "kernel",
            Who::KernelRouter => "kernel.router",
            Who::Idle => "idle",
        }
    }
}

/// An idle switch with two ports.
pub struct Idle(Asleep);

enum Asleep {
    /// Switch with TAP devices, in a child process.
    Taps(Bench),
    /// Switch with two emulated cards that raise interrupts, in this process. The text is the
    /// reason why TAP devices are unavailable.
    Cards(Box<(Switch, Ends)>, String),
}

impl Idle {
    /// Starts the switch with TAP devices where possible, otherwise with cards.
    ///
    /// # Errors
    /// Memory cannot be allocated.
    pub fn start() -> anyhow::Result<Idle> {
        Bench::start(Who::Idle).map(Idle::taps).or_else(|why| Idle::cards(&format!("{why:#}")))
    }

    fn taps(bench: Bench) -> Idle {
        Idle(Asleep::Taps(bench))
    }

    /// Builds the switch with cards; `why` is the reason why TAP devices are unavailable.
    ///
    /// # Errors
    /// Memory cannot be allocated, or no file descriptor is free.
    fn cards(why: &str) -> anyhow::Result<Idle> {
        let switch = loops::switch(PoolLocks::Light)?;
        let ends = Ends::cards(&switch)?;
        Ok(Idle(Asleep::Cards(Box::new((switch, ends)), why.to_owned())))
    }

    /// Describes the switch's ports.
    pub fn ports(&self) -> String {
        match &self.0 {
            Asleep::Taps(_) => "two TAP devices".to_owned(),
            Asleep::Cards(_, why) => format!("two nic: ports in memory with interrupts (no TAP devices: {why})"),
        }
    }

    /// Returns the processor time, in nanoseconds, that the switch's process used in each of
    /// `windows` windows of `ms` milliseconds without frames. The loop runs on processor `core`.
    ///
    /// # Errors
    /// The switch ended.
    pub fn share(&mut self, windows: u64, ms: u64, core: usize) -> anyhow::Result<Vec<u64>> {
        match &mut self.0 {
            Asleep::Taps(bench) => list(&bench.child.ask(&format!("idle {windows} {ms} {core}"))?),
            Asleep::Cards(both, _) => idle::share(&both.0, windows, ms, core),
        }
    }

    /// Returns the nanoseconds from sending to arrival of each of `frames` frames, sent one every
    /// `pause` microseconds.
    ///
    /// # Errors
    /// A frame was lost.
    pub fn wake(&mut self, frames: u64, pause: u64, core: usize) -> anyhow::Result<Vec<u64>> {
        match &mut self.0 {
            Asleep::Taps(bench) => list(&bench.child.ask(&format!("wake {frames} {pause} {core}"))?),
            Asleep::Cards(both, _) => {
                let (switch, ends) = both.as_mut();
                idle::wake(switch, ends, frames, pause, core)
            }
        }
    }
}

/// Part of a frame's path that the figure covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// From the generator's call until the last frame was handed to the far device.
    Whole,
    /// The loop's part of the path. It includes the kernel's part of the loop's calls, but not the
    /// generator's call.
    Loop,
}

/// Cost of forwarding a number of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Number of forwarded frames.
    pub frames: u64,
    /// Cost of the generator's calls: ticks, wall-clock nanoseconds, processor nanoseconds.
    pub sent: [u64; 3],
    /// Cost of the loop: ticks, wall-clock nanoseconds, processor nanoseconds.
    pub passed: [u64; 3],
    /// Ticks within `Bridge::input`, and the number of frames sampled for them.
    pub bridge: [u64; 2],
}

/// A child process with devices of its own.
#[derive(Debug)]
pub struct Bench {
    child: Child,
}

impl Bench {
    /// Starts the child, which sets up its devices.
    ///
    /// # Errors
    /// A namespace, a device or a privilege is missing; the error states which.
    pub fn start(who: Who) -> anyhow::Result<Bench> {
        Ok(Bench { child: Child::start_apart(child::again(KIND, who.name())?)? })
    }

    /// Forwards at least `frames` frames, in whole rounds, on processor `core`.
    ///
    /// # Errors
    /// A frame was lost.
    pub fn run(&mut self, frames: u64, core: usize) -> anyhow::Result<Run> {
        let answer = self.child.ask(&format!("run {frames} {core}"))?;
        let [frames, s0, s1, s2, p0, p1, p2, b0, b1] = numbers(&answer)?;
        Ok(Run { frames, sent: [s0, s1, s2], passed: [p0, p1, p2], bridge: [b0, b1] })
    }
}

/// Cost of one processing stage of a loop.
#[derive(Debug, Clone, PartialEq)]
pub struct StageCost {
    /// Name of the stage in the ledger.
    pub stage: String,
    /// Ticks of the stage per frame.
    pub ticks: f64,
    /// Set if this stage is a port's share of another stage, whose ticks include it.
    pub within: bool,
}

/// Distribution of a loop's ticks over its stages, per frame.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopCosts {
    /// Costs of the loop by stage.
    pub stages: Vec<StageCost>,
    /// Number of readings of the time-stamp counter, per frame.
    pub readings: f64,
    /// Ticks of these readings, per frame, which are not included in the stages.
    pub probes: f64,
}

impl Bench {
    /// Measures the cost of each stage of our loop over `frames` frames, with the switch's cost
    /// ledger (its own accounting of ticks by stage). The ledger's own readings are subtracted.
    ///
    /// # Errors
    /// A frame was lost, or the loop is not our switch's.
    pub fn costs(&mut self, frames: u64, core: usize) -> anyhow::Result<LoopCosts> {
        let answer = self.child.ask(&format!("costs {frames} {core}"))?;
        let said: serde_json::Value = serde_json::from_str(&answer).context("invalid output of the ledger")?;
        let mut all = Vec::new();
        for (rows, within) in [("stages", false), ("ports", true)] {
            for row in said[rows].as_array().with_context(|| format!("no '{rows}' in the ledger's output"))? {
                let stage = row["stage"].as_str().context("no stage name in the ledger's output")?.to_owned();
                all.push(StageCost {
                    stage,
                    ticks: row["ticks_per_frame"].as_f64().context("no ticks_per_frame in the ledger's output")?,
                    within,
                });
            }
        }
        let frames = said["frames"].as_f64().unwrap_or(1.0).max(1.0);
        let each = |key: &str| {
            Ok::<_, anyhow::Error>(
                said[key].as_f64().with_context(|| format!("no '{key}' in the ledger's output"))? / frames,
            )
        };
        Ok(LoopCosts { stages: all, readings: each("readings")?, probes: each("probes")? })
    }
}

/// Minimum number of frames in a trial, rounded up to whole rounds.
pub(crate) const FRAMES: u64 = 16_384;

/// Subject that measures one part of the path through one forwarder; an operation is a frame.
#[derive(Debug)]
pub struct Forward {
    id: String,
    bench: Rc<RefCell<Bench>>,
    part: Part,
    core: usize,
    /// Sums of the ticks within `Bridge::input` and of the frames sampled for them.
    bridge: Option<Rc<Cell<[u64; 2]>>>,
}

impl Forward {
    /// Creates a subject that runs its trials in `bench`, on processor `core`.
    pub fn new(id: &str, bench: &Rc<RefCell<Bench>>, part: Part, core: usize) -> Forward {
        Forward { id: id.to_owned(), bench: Rc::clone(bench), part, core, bridge: None }
    }

    /// Adds the ticks within `Bridge::input`, and the number of frames sampled for them, to `sum`.
    #[must_use]
    pub fn adding_to(self, sum: &Rc<Cell<[u64; 2]>>) -> Forward {
        Forward { bridge: Some(Rc::clone(sum)), ..self }
    }
}

impl Subject for Forward {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let run = self.bench.borrow_mut().run(FRAMES, self.core).with_context(|| self.id.clone())?;
        if let Some(sum) = &self.bridge {
            let (so_far, [ticks, frames]) = (sum.get(), run.bridge);
            sum.set([so_far[0] + ticks, so_far[1] + frames]);
        }
        let also = if self.part == Part::Whole { run.sent } else { [0; 3] };
        let [ticks, wall_ns, cpu_ns] = std::array::from_fn(|at| run.passed[at] + also[at]);
        Ok(Reading { ops: run.frames, ticks, wall_ns, cpu_ns })
    }
}
