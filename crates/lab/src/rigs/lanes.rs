//! A switch with four ports and two loops, or two ports and one loop, each loop on its own core;
//! and a switch with two ports, a loop and a worker.
//!
//! The ports' rings are filled, then the loops run until all frames have left, then the far ends of
//! the ports are emptied. Filling and emptying are not measured. A loop's own two ports exchange
//! frames or, with [`Leave::Across`], its frames leave by the other loop's ports.

use super::bridge::station;
use crate::subject::{Reading, Subject};
use crate::{os, tsc};
use anyhow::{Context, anyhow, ensure};
use bridge::{BridgeConfig, FdbConfig, Key, PortNo};
use buf::{Burst, PoolConfig, PoolLocks};
use clock::{Clock, Instant, Random, Strategy};
use node::switch::{Switch, SwitchConfig};
use port::pair::pair;
use port::{Caps, Port, PortCounts};
use std::array;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Number of frames that wait in a port at the beginning of a round.
const RING: usize = 1024;
const ROUNDS: usize = 32;
/// Number of stations behind each port.
const STATIONS: usize = 250;
/// Length of a frame in bytes, without FCS: 64 on the wire.
const LEN: usize = 60;
/// Number of consecutive turns of a loop that move no frame, after which the trial fails.
const MOST_EMPTY: u32 = 2_000_000;

/// Selects the ports by which frames leave the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// By the other port of the loop that received them.
    Same,
    /// By the ports of the other loop.
    Across,
}

/// Far ends of a loop's two ports, through which the rig fills and empties the ports' rings.
struct Outside {
    ends: [Port; 2],
    numbers: [PortNo; 2],
    /// Counts of the switch's ports.
    counts: [Arc<PortCounts>; 2],
    random: Random,
}

/// Barrier at which the loops wait for each other before and after each round.
#[derive(Debug, Default)]
struct Meeting {
    come: AtomicUsize,
    /// Set when one of the loops ended early.
    over: AtomicBool,
    /// Set when all rounds are done.
    done: AtomicBool,
}

impl Meeting {
    /// Waits until all `loops` loops have arrived at the barrier for the `time`-th time, and calls
    /// `meanwhile` repeatedly until then.
    fn wait(&self, loops: usize, time: usize, mut meanwhile: impl FnMut()) -> anyhow::Result<()> {
        self.come.fetch_add(1, Ordering::AcqRel);
        let mut spins = 0u32;
        while self.come.load(Ordering::Acquire) < loops * time {
            ensure!(!self.over.load(Ordering::Relaxed), "the other loop has ended");
            meanwhile();
            spins += 1;
            // If loops share a core, the loop that this one waits for needs the processor.
            if spins.is_multiple_of(4096) {
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

/// Rig of a switch, with each loop and worker on its own core.
pub struct LanesRig {
    id: String,
    switch: Arc<Switch>,
    outsides: Vec<Outside>,
    leave: Leave,
}

impl LanesRig {
    /// Creates a rig with `loops` loops, one or two, of two ports each.
    ///
    /// # Errors
    /// Memory cannot be allocated, or some addresses were not learned.
    pub fn new(id: &str, loops: usize, leave: Leave) -> anyhow::Result<LanesRig> {
        ensure!(
            loops == 2 || leave == Leave::Same,
            "{id}: forwarding to the other loop's ports needs 2 loops, not {loops}"
        );
        LanesRig::with(id, loops, 0, leave)
    }

    /// Creates a rig with one loop of two ports that posts received frames to `workers` workers.
    ///
    /// # Errors
    /// Memory cannot be allocated, or some addresses were not learned.
    pub fn with_workers(id: &str, workers: usize) -> anyhow::Result<LanesRig> {
        LanesRig::with(id, 1, workers, Leave::Same)
    }

    fn with(id: &str, loops: usize, workers: usize, leave: Leave) -> anyhow::Result<LanesRig> {
        // Each trial creates new threads, so the pool has no owner thread.
        let pool = PoolConfig { buffers: 4 * loops * RING, locks: PoolLocks::Light, ..PoolConfig::default() };
        let bridge = BridgeConfig { fdb: FdbConfig { key: wire::hash::Key::seeded(1), ..FdbConfig::new() } };
        let config = SwitchConfig { loops, workers, pool, bridge, ..SwitchConfig::default() };
        let switch = Switch::new(&config, Clock::live(Strategy::TscScaled))?;
        let outsides = (0..loops).map(|number| Outside::new(&switch, number)).collect::<anyhow::Result<_>>()?;
        switch.each_thread(|thread| {
            let now = thread.now();
            for port in 0..2 * loops as PortNo {
                for n in 0..STATIONS {
                    thread.bridge.fdb_mut().learn(Key::new(0, station(port, n)), port, false, now);
                }
            }
        });
        Ok(LanesRig { id: id.to_owned(), switch: Arc::new(switch), outsides, leave })
    }
}

impl LanesRig {
    /// Returns the frames received by each loop's ports.
    pub fn received(&self) -> Vec<u64> {
        let frames = |outside: &Outside| outside.counts.iter().map(|counts| counts.rx.frames.get()).sum();
        self.outsides.iter().map(frames).collect()
    }
}

impl Outside {
    fn new(switch: &Switch, number: usize) -> anyhow::Result<Outside> {
        let pairs: [_; 2] = array::from_fn(|at| pair(&format!("p{}", 2 * number + at), RING, Caps::PLAIN));
        let counts = array::from_fn(|at| pairs[at].0.counts.clone());
        let [(near0, far0), (near1, far1)] = pairs;
        let numbers = [switch.attach(near0, Some(number))?, switch.attach(near1, Some(number))?];
        Ok(Outside { ends: [far0, far1], numbers, counts, random: Random::new(number as u64) })
    }

    /// Fills the ring of each port with frames. The frames of the first port are for stations at
    /// port `to[0]`, those of the second port for stations at port `to[1]`.
    fn fill(&mut self, switch: &Switch, to: [PortNo; 2]) -> anyhow::Result<()> {
        let mut burst = Burst::new();
        for ((end, from), to) in self.ends.iter_mut().zip(self.numbers).zip(to) {
            for n in 1..=RING {
                let mut frame = switch.pool().get().context("no free buffer in the pool")?;
                let (dst, src) = (self.random.index(STATIONS), self.random.index(STATIONS));
                let header = [station(to, dst).0, station(from, src).0].concat();
                frame.append(LEN).context("the frame does not fit into the buffer")?[..12].copy_from_slice(&header);
                ensure!(burst.push(frame).is_ok());
                if burst.room() == 0 || n == RING {
                    end.tx.tx_burst(&mut burst, Instant::ZERO);
                }
            }
        }
        Ok(())
    }

    /// Runs loop `number` until as many frames have left by its ports as were put into their rings.
    /// Returns the start and the end in ticks.
    fn turn(&self, switch: &Switch, number: usize, meeting: &Meeting, round: usize) -> anyhow::Result<[u64; 2]> {
        let mut thread = switch.thread(number).context("the switch has no such loop")?;
        let left = || self.counts.iter().map(|counts| counts.tx.frames.get()).sum::<u64>();
        let (goal, mut last, mut empty) = (left() + 2 * RING as u64, 0, 0);
        meeting.wait(switch.loops(), 2 * round + 1, spin_loop)?;
        let start = tsc::now();
        loop {
            thread.turn();
            let now = left();
            if now == goal {
                break;
            }
            empty = if now == last { empty + 1 } else { 0 };
            last = now;
            ensure!(empty < MOST_EMPTY, "{} frames not sent", goal - now);
        }
        let end = tsc::now();
        // This loop continues until all loops are done, since its frames may leave by ports of the
        // other loop.
        meeting.wait(switch.loops(), 2 * round + 2, || _ = thread.turn())?;
        Ok([start, end])
    }

    fn empty(&mut self) -> usize {
        let (mut burst, mut came) = (Burst::new(), 0);
        for end in &mut self.ends {
            while end.rx.rx_burst(&mut burst, 256, Instant::ZERO) > 0 {
                came += burst.len();
                burst.clear();
            }
        }
        came
    }

    /// Runs all rounds of loop `number`; returns the start and the end of each, in ticks.
    fn rounds(
        &mut self,
        switch: &Switch,
        number: usize,
        leave: Leave,
        meeting: &Meeting,
    ) -> anyhow::Result<Vec<[u64; 2]>> {
        let [a, b] = self.numbers;
        let to = if leave == Leave::Same { [b, a] } else { [a ^ 2, b ^ 2] };
        let mut times = Vec::new();
        for round in 0..ROUNDS {
            self.fill(switch, to)?;
            times.push(self.turn(switch, number, meeting, round)?);
            let came = self.empty();
            ensure!(came == 2 * RING, "{came} of {} frames arrived", 2 * RING);
        }
        Ok(times)
    }
}

/// Result of a loop's thread: its far ends, and the times of its rounds.
type Done = (Outside, anyhow::Result<Vec<[u64; 2]>>);

fn work(mut outside: Outside, switch: &Switch, number: usize, leave: Leave, meeting: &Meeting) -> Done {
    let times = outside.rounds(switch, number, leave, meeting);
    if times.is_err() {
        meeting.over.store(true, Ordering::Relaxed);
    }
    (outside, times)
}

/// Runs the loop of a worker until all rounds are done.
fn decide(switch: &Switch, number: usize, meeting: &Meeting) {
    let Some(mut thread) = switch.thread(number) else { return };
    while !meeting.done.load(Ordering::Relaxed) && !meeting.over.load(Ordering::Relaxed) {
        thread.turn();
    }
}

impl Subject for LanesRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let (wall, loops, leave) = (os::monotonic_ns(), self.outsides.len(), self.leave);
        let meeting = Arc::new(Meeting::default());
        let mut threads = Vec::new();
        for (number, outside) in self.outsides.drain(..).enumerate() {
            let (switch, meeting) = (self.switch.clone(), meeting.clone());
            let job = move |_| work(outside, &switch, number, leave, &meeting);
            threads.push(dispatch::spawn_worker(&format!("loop{number}"), Some(number), job)?);
        }
        let decide_of = |number: usize| {
            let (switch, meeting) = (self.switch.clone(), meeting.clone());
            let job = move |_| decide(&switch, number, &meeting);
            dispatch::spawn_worker(&format!("worker{number}"), Some(number), job)
        };
        let workers = (loops..self.switch.threads()).map(decide_of).collect::<Result<Vec<_>, _>>()?;
        let mut times = Vec::new();
        for thread in threads {
            let (outside, seen) = thread.join().map_err(|_| anyhow!("{}: a loop panicked", self.id))?;
            self.outsides.push(outside);
            times.push(seen);
        }
        meeting.done.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().map_err(|_| anyhow!("{}: a worker panicked", self.id))?;
        }
        let times = times.into_iter().collect::<anyhow::Result<Vec<_>>>().with_context(|| self.id.clone())?;
        let audit = self.switch.audit();
        ensure!(
            audit.holds() && audit.bridge.dropped == 0,
            "{}: frames dropped or unaccounted for: {audit:?}",
            self.id
        );
        let round = |at: usize| {
            let first = times.iter().filter_map(|number| number.get(at)).map(|[start, _]| *start).min();
            let last = times.iter().filter_map(|number| number.get(at)).map(|[_, end]| *end).max();
            Some(last?.saturating_sub(first?))
        };
        let wall_ns = os::monotonic_ns() - wall;
        // The measuring thread sleeps while loops work, so its own processor time is meaningless
        // here.
        let (ops, ticks) = ((loops * ROUNDS * 2 * RING) as u64, (0..ROUNDS).filter_map(round).sum());
        Ok(Reading { ops, ticks, wall_ns, cpu_ns: wall_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_loop_two_loops_and_a_worker_forward_all_frames() {
        let new = |loops, leave| LanesRig::new("lanes", loops, leave).unwrap();
        let rigs = [new(1, Leave::Same), new(2, Leave::Same), new(2, Leave::Across)];
        for (mut rig, loops) in rigs.into_iter().chain([LanesRig::with_workers("lanes", 1).unwrap()]).zip([1, 2, 2, 1])
        {
            for _ in 0..2 {
                let reading = rig.trial().unwrap();
                assert_eq!(reading.ops, (loops * ROUNDS * 2 * RING) as u64);
                assert!(reading.ticks > 0);
            }
        }
        assert!(LanesRig::new("lanes", 1, Leave::Across).is_err());
    }
}
