//! A bridge between cards with descriptor rings, as in the report bridge2004: one core polls two or
//! four ports.
//!
//! Frames arrive over each port's wire and leave by its partner's: ports 0 and 1 exchange frames,
//! as do 2 and 3. A turn of the loop polls each port as the em driver does: bursts of 32 frames, at
//! most [`ROUND`] frames, go through the bridge into the other ports' rings. At the end of a turn
//! the doorbells for these frames are written, and completed descriptors are cleaned up. The turns
//! are timed. Between two turns, untimed, the wires are fed and emptied and the cards stepped, on
//! the same core. Cache lines that are evicted there add to the cost of the next turn, as on a
//! machine that does other work.

mod costs;
mod loops;
mod memory;
mod paced;
mod setup;
mod stall;
#[cfg(test)]
mod tests;

pub use costs::NicCosts;
pub use loops::NicLoops;
pub use memory::last_level_cache;
pub use paced::NicPaced;
pub use setup::NicSetup;
pub use stall::{NicStall, stall};

use super::bridge::{station, table};
use crate::subject::{Reading, Subject};
use crate::{os, timer, tsc};
use anyhow::{Context, ensure};
use bridge::{Bridge, BridgeConfig, Key, Member, PortNo};
use buf::{Burst, Frame, Pool, PoolConfig};
use clock::{Duration, Instant, Random};
use costs::Totals;
use port::nic::bus::Bus;
use port::nic::card::{RxEngine, TxEngine};
use port::nic::driver::{RxDriver, TxDriver};
use port::nic::wire::{RxEnd, TxEnd};
use port::nic::{self, Nic, Parts};
use port::{RxHalf, TxHalf};
use std::sync::Arc;
use std::time::Duration as Wait;

/// Settings of the first rung of the report bridge2004: the unmodified em driver, polled, with
/// frames in no cache.
pub const FIRST: &str = "dma=cold";
/// Settings of the last rung of the report bridge2004: all tweaks together.
pub const FINAL: &str = "dma=cold rx_tail_batch=64 tx_tail_batch=64 tx_flush=poll tx_rs_every=32 pool=stack refill=stack \
     parse=late rx_ring=2048 pages=2m prefetch=4";

/// Number of frames taken from a ring at a time.
const BURST: usize = 32;
/// Maximum number of frames that a turn takes from a port (when the report bridge2004 was written,
/// kern.polling.burst_max was 150).
pub const ROUND: usize = 128;
/// Length of a frame in bytes, without FCS: 64 on the wire.
const LEN: usize = 60;
/// Number of MAC addresses at all ports together, as in `bench bridge`.
const STATIONS: usize = 1000;
/// Approximate frames of a trial, unless the settings override it.
const FRAMES: usize = 32 << 10;
/// Turns between two checks of the registers (kern.polling.reg_frac).
const CHECK_EVERY: u64 = 20;
/// Nanoseconds between two frames of a port: 600,000 frames per second, as in the report
/// bridge2004.
const GAP_NS: u64 = 1667;

/// Receiving half of a card, and the wire that feeds it.
struct Comes {
    port: PortNo,
    wire: TxEnd,
    engine: RxEngine,
    rx: RxDriver,
    nic: Arc<Nic>,
}

/// Sending half of a card, and the wire from which its frames are removed.
struct Leaves {
    port: PortNo,
    tx: TxDriver,
    engine: TxEngine,
    wire: RxEnd,
}

/// A bridge between cards, with the wires that feed the cards; or the part of it that belongs to
/// one of several loops.
pub struct NicRig {
    id: String,
    setup: NicSetup,
    bridge: Bridge,
    comes: Vec<Comes>,
    leaves: Vec<Leaves>,
    /// Frames to send, for each port of the bridge.
    out: Vec<Burst>,
    burst: Burst,
    far_pool: Pool,
    random: Random,
    /// Bus shared by all cards of the bridge.
    bus: Arc<Bus>,
    now: Instant,
    turns: u64,
    /// Set when the first buffers have been posted.
    posted: bool,
    /// Number of frames sent to the cards.
    fed: u64,
    /// Number of frames that came back from the cards.
    back: u64,
    /// The drivers' buffers. This field is dropped last, because a pool whose frames outlive it is
    /// never unmapped.
    pool: Pool,
}

impl NicRig {
    /// Creates a rig with the given settings: see [`NicSetup`].
    ///
    /// # Errors
    /// A setting is invalid, or memory cannot be allocated.
    pub fn new(id: &str, words: &str) -> anyhow::Result<NicRig> {
        NicRig::shared(id, 1, words)?.pop().context("no loop created")
    }

    /// Creates the bridge of [`NicRig::new`] with its cards shared among `loops` loops, one or two.
    /// With four ports, each of two loops has two ports that exchange frames. With two ports, each
    /// of two loops has one direction: the receiving half of one card and the sending half of the
    /// other. Each loop has its own replica of the bridge, with all addresses learned, and its own
    /// pool, which belongs to the thread that first runs the loop.
    ///
    /// # Errors
    /// As [`NicRig::new`].
    fn shared(id: &str, loops: usize, words: &str) -> anyhow::Result<Vec<NicRig>> {
        let mut setup: NicSetup = words.parse().with_context(|| id.to_owned())?;
        ensure!((1..=2).contains(&loops), "{id}: number of loops '{loops}': must be 1 or 2");
        setup.rest /= loops;
        let (mut rigs, bus) = (Vec::new(), Arc::new(Bus::default()));
        for at in 0..loops {
            let id = if loops == 1 { id.to_owned() } else { format!("{id}.{at}") };
            let pool = Pool::new(&setup.pool(setup.ports.div_ceil(loops))?)?;
            rigs.push(NicRig::bare(id, at, &setup, &bus, pool)?);
        }
        for port in 0..setup.ports {
            let [comes, leaves] = setup.loops_of(port, loops);
            let (near, far) = nic::wire(1024);
            let (name, pool) = (format!("em{port}"), rigs[comes].pool.clone());
            let parts = nic::assemble_on(&bus, &name, setup.settings()?, 1500, Some(near), &pool);
            let Parts { rx, tx, card, nic, .. } = parts.map_err(|why| anyhow::anyhow!("{id}: {why}"))?;
            let port = port as PortNo;
            rigs[comes].comes.push(Comes { port, wire: far.tx, engine: card.rx, rx, nic });
            rigs[leaves].leaves.push(Leaves { port, tx, engine: card.tx, wire: far.rx });
        }
        Ok(rigs)
    }

    /// Creates a bridge with all addresses learned, without cards.
    fn bare(id: String, seed: usize, setup: &NicSetup, bus: &Arc<Bus>, pool: Pool) -> anyhow::Result<NicRig> {
        let far_pool = Pool::new(&PoolConfig { buffers: setup.ports * 1024, ..PoolConfig::default() })?;
        let mut bridge = Bridge::new(BridgeConfig { fdb: table(STATIONS) });
        let now = Instant::from_millis(1000);
        for _ in 0..setup.ports {
            let port = bridge.add(Member::default()).context("cannot add a port to the bridge")?;
            for n in 0..STATIONS / setup.ports {
                bridge.fdb_mut().learn(Key::new(0, station(port, n)), port, false, now);
            }
        }
        Ok(NicRig {
            id,
            setup: setup.clone(),
            bridge,
            comes: Vec::new(),
            leaves: Vec::new(),
            out: (0..setup.ports).map(|_| Burst::new()).collect(),
            burst: Burst::new(),
            far_pool,
            random: Random::new(seed as u64),
            bus: bus.clone(),
            now,
            turns: 0,
            posted: false,
            fed: 0,
            back: 0,
            pool,
        })
    }

    /// Returns the costs of a frame in registers, write-backs and bus clocks. They are counted over
    /// some turns, so they are exact.
    ///
    /// # Errors
    /// A frame was lost.
    pub fn costs(&mut self) -> anyhow::Result<NicCosts> {
        self.run(self.warming())?;
        let (before, fed) = (self.totals(), self.fed);
        // The number of turns is such that every periodic action occurs a whole number of times.
        self.run(2 * CHECK_EVERY as usize * self.a_turn())?;
        let card = self.comes.first().context("no card to measure")?;
        Ok(self.totals().since(&before).per_frame(self.fed - fed, &card.nic))
    }

    fn totals(&self) -> Totals {
        Totals::of(self.comes.iter().map(|card| &*card.nic))
    }

    /// Returns the number of frames of a turn.
    fn a_turn(&self) -> usize {
        self.comes.len() * self.setup.feed
    }

    /// Returns the number of warm-up frames before a trial, which bring the rig's data back into
    /// the cache after other subjects have used it.
    fn warming(&self) -> usize {
        let rings: usize = self.comes.iter().map(|card| card.nic.settings.rings().0).sum();
        (self.setup.frames / 4).max(rings)
    }

    /// Passes about `frames` frames; returns the ticks of the timed part.
    fn run(&mut self, frames: usize) -> anyhow::Result<u64> {
        let mut ticks = 0;
        for _ in 0..frames.div_ceil(self.a_turn()) {
            self.arrive(self.setup.feed)?;
            let start = tsc::now();
            self.turn();
            ticks += tsc::now().saturating_sub(start).saturating_sub(timer::cost());
            self.leave();
        }
        Ok(ticks)
    }

    /// Sends frames to each port, and has its card receive them.
    fn arrive(&mut self, frames: usize) -> anyhow::Result<()> {
        self.now = self.now.after(Duration::from_nanos(GAP_NS * frames as u64));
        self.offer(frames)?;
        self.comes.iter_mut().for_each(|card| _ = card.engine.step(self.now));
        Ok(())
    }

    /// Puts frames on the wire of each port.
    fn offer(&mut self, frames: usize) -> anyhow::Result<()> {
        self.post();
        let stations = STATIONS / self.setup.ports;
        for card in &mut self.comes {
            let (here, there) = (card.port, card.port ^ 1);
            let mut burst = Burst::new();
            self.far_pool.get_burst_of(frames, LEN, &mut burst);
            for frame in burst.as_mut_slice() {
                let (dst, src) = (self.random.index(stations), self.random.index(stations));
                let addresses = [station(there, dst).0, station(here, src).0];
                frame.bytes_mut()[..12].copy_from_slice(addresses.as_flattened());
            }
            ensure!(card.wire.send(&mut burst, self.now) == frames, "{}: the wire is full", self.id);
            self.fed += frames as u64;
        }
        Ok(())
    }

    /// Posts the first buffers, on the thread that will own the pool.
    fn post(&mut self) {
        if !std::mem::replace(&mut self.posted, true) {
            self.lay_to_rest();
            for card in &mut self.comes {
                card.rx.rx_burst(&mut self.burst, BURST, self.now);
            }
        }
    }

    /// Prepares the pool. First writes to every buffer once, so that no page fault occurs later.
    /// Then shuffles the buffers, and gives the configured number of them (`rest=`) in equal shares
    /// to the transmit sides of the simulated NICs. There they stay until they are exchanged for
    /// buffers of transmitted frames.
    fn lay_to_rest(&mut self) {
        if self.setup.rest == 0 {
            return;
        }
        let all = self.pool.stats().buffers;
        let mut frames: Vec<Frame> = std::iter::from_fn(|| self.pool.get()).take(all).collect();
        for at in (1..frames.len()).rev() {
            frames.swap(at, self.random.index(at + 1));
        }
        for frame in &mut frames {
            if let Some(bytes) = frame.append(LEN) {
                bytes.fill(0);
            }
            frame.truncate(0);
        }
        let share = self.setup.rest / self.leaves.len().max(1);
        for card in &mut self.leaves {
            card.engine.rest(frames.drain(..share.min(frames.len())));
        }
    }

    /// Runs a turn of the loop: the timed part.
    #[inline(never)]
    fn turn(&mut self) {
        self.turns += 1;
        self.forward();
        if self.turns.is_multiple_of(CHECK_EVERY) {
            for card in self.comes.iter().filter(|card| !card.nic.settings.intr.on()) {
                card.nic.check_status();
            }
        }
    }

    fn forward(&mut self) {
        for at in 0..self.comes.len() {
            self.poll(at);
        }
        for card in &mut self.leaves {
            card.tx.poll(self.now); // as at the end of em_poll
        }
    }

    /// Polls one port, as part of a turn of the loop.
    fn poll(&mut self, at: usize) {
        if self.sleeps(at) {
            return;
        }
        let port = self.comes[at].port;
        for _ in 0..ROUND / BURST {
            let got = self.comes[at].rx.rx_burst(&mut self.burst, BURST, self.now);
            if got == 0 {
                return;
            }
            self.bridge.input(port, &mut self.burst, self.now, &mut self.out);
            for card in &mut self.leaves {
                let out = &mut self.out[usize::from(card.port)];
                if !out.is_empty() {
                    card.tx.tx_burst(out, self.now);
                }
            }
            if got < BURST {
                return;
            }
        }
    }

    /// Returns whether a port with interrupts has no pending interrupt. The kernel is queried, as a
    /// sleeping thread would do.
    fn sleeps(&self, at: usize) -> bool {
        let fd = self.comes[at].rx.wait_fd();
        fd.is_some_and(|fd| dispatch::wait_readable(&[fd], Some(Wait::ZERO)).is_ok_and(|woken| woken != [true]))
    }

    /// Steps the cards' sending halves, and takes the frames that arrived over the wires.
    fn leave(&mut self) {
        self.leaves.iter_mut().for_each(|card| _ = card.engine.step(self.now));
        self.collect();
    }

    /// Takes the frames that arrived over the wires.
    fn collect(&mut self) {
        let mut burst = Burst::new();
        for card in &mut self.leaves {
            while let Some(frame) = card.wire.take(self.now) {
                self.back += 1;
                if burst.room() == 0 {
                    burst.clear();
                }
                burst.put(frame, || {}); // there is room
            }
            burst.clear();
        }
    }

    /// Returns the number of frames for which the cards had no descriptor.
    fn missed(&self) -> u64 {
        self.comes.iter().map(|card| card.nic.missed()).sum()
    }

    /// Checks that every frame is accounted for.
    ///
    /// # Errors
    /// A frame is missing or was dropped; the error gives the counts.
    fn audit(&self) -> anyhow::Result<()> {
        let (id, fed, back, missed) = (&self.id, self.fed, self.back, self.missed());
        let held = self.comes.iter().map(|card| card.rx.held()).sum::<usize>();
        let held = held + self.leaves.iter().map(|card| card.tx.held()).sum::<usize>();
        ensure!(
            fed == back + missed + held as u64,
            "{id}: {back} of {fed} frames returned, {missed} missed, {held} held"
        );
        let dropped = self.bridge.drops().nonzero();
        ensure!(
            dropped.is_empty() && self.bridge.audit().holds(),
            "{id}: frames dropped or unaccounted for: {dropped:?}"
        );
        ensure!(self.out.iter().all(Burst::is_empty), "{id}: a transmit ring was full");
        Ok(())
    }
}

impl Subject for NicRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        self.run(self.warming())?;
        let (wall, cpu, before) = (os::monotonic_ns(), os::thread_cpu_ns(), self.back);
        let ticks = self.run(self.setup.frames)?;
        let (wall_ns, cpu_ns) = (os::monotonic_ns() - wall, os::thread_cpu_ns() - cpu);
        self.audit()?;
        let missed = self.missed();
        ensure!(missed == 0, "{}: {missed} frames missed", self.id);
        Ok(Reading { ops: self.back - before, ticks, wall_ns, cpu_ns })
    }
}
