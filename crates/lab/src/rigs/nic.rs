//! A bridge between cards with descriptor rings: bridge2004's machine, a core that polls two or four ports.
//!
//! Frames come over each port's wire and leave by its partner's: 0 and 1 exchange, 2 and 3. A turn of the loop is what a poll of em
//! was: bursts of 32 from a port, at most [`ROUND`] frames, through the bridge, into the other ports' rings; at the end what was put
//! there is announced, and what is done cleaned up. That is timed. Between two turns, and not timed, the wires are fed and emptied and
//! the cards stepped, on the same core: what comes out of a cache meanwhile is in the figure, as on a machine that does something else.

mod costs;
mod halves;
mod setup;
mod stall;
#[cfg(test)]
mod tests;

pub use costs::NicCosts;
pub use halves::NicHalves;
pub use setup::NicSetup;
pub use stall::{NicStall, stall};

use super::bridge::{Random, station, table};
use crate::subject::{Reading, Subject};
use crate::{os, timer, tsc};
use anyhow::{Context, ensure};
use bridge::{Bridge, BridgeConfig, Key, Member, PortNo};
use buf::{Burst, Pool, PoolConfig};
use clock::{Duration, Instant};
use costs::Totals;
use port::nic::{self, End, Parts};
use port::{RxHalf, TxHalf};
use std::time::Duration as Wait;

/// bridge2004's first rung: the driver as em was, polled, its frames in no cache.
pub const FIRST: &str = "dma=cold";
/// Its last: all tweaks together.
pub const FINAL: &str = "dma=cold rx_tail_batch=64 tx_tail_batch=64 tx_flush=poll tx_rs_every=32 pool=stack refill=stack \
     parse=late rx_ring=2048 pages=2m prefetch=4";

/// Frames taken from a ring at a time.
const BURST: usize = 32;
/// Frames that a turn takes from a port at most (kern.polling.burst_max of the report's years: 150).
pub const ROUND: usize = 128;
/// Bytes of a frame: 64 on the wire, without FCS.
const LEN: usize = 60;
/// Addresses at all ports together, as in `bench bridge`.
const STATIONS: usize = 1000;
/// Frames of a trial, about, unless the words say otherwise.
const FRAMES: usize = 32 << 10;
/// Registers are asked every so many turns (kern.polling.reg_frac).
const CHECK_EVERY: u64 = 20;
/// Nanoseconds between two frames of a port: 600,000 a second, the report's.
const GAP_NS: u64 = 1667;

/// A bridge on cards, fed from all sides.
pub struct NicRig {
    id: String,
    setup: NicSetup,
    bridge: Bridge,
    cards: Vec<Parts>,
    /// The far ends of the wires.
    ends: Vec<End>,
    out: Vec<Burst>,
    burst: Burst,
    far_pool: Pool,
    random: Random,
    now: Instant,
    turns: u64,
    /// Frames sent to the cards, and come back from them.
    fed: u64,
    back: u64,
}

impl NicRig {
    /// As the words say: see [`NicSetup`].
    ///
    /// # Errors
    /// A word that is none, or no memory.
    pub fn new(id: &str, words: &str) -> anyhow::Result<NicRig> {
        let setup: NicSetup = words.parse().with_context(|| id.to_owned())?;
        let (rx, tx) = setup.knobs()?.rings();
        let buffers = setup.ports * (rx + tx + 2 * buf::BURST_MAX);
        let pool = Pool::new(&PoolConfig { buffers, kind: setup.pool, pages: setup.pages, ..PoolConfig::default() })?;
        let far_pool = Pool::new(&PoolConfig { buffers: setup.ports * 1024, ..PoolConfig::default() })?;
        let mut bridge = Bridge::new(BridgeConfig { fdb: table(STATIONS) });
        let (mut cards, mut ends) = (Vec::new(), Vec::new());
        let now = Instant::from_millis(1000);
        for at in 0..setup.ports {
            let (near, far) = nic::wire(1024);
            let parts = nic::assemble(&format!("em{at}"), setup.knobs()?, 1500, Some(near), &pool);
            cards.push(parts.map_err(|why| anyhow::anyhow!("{id}: {why}"))?);
            ends.push(far);
            let port = bridge.add(Member::default()).context("a port")?;
            for n in 0..STATIONS / setup.ports {
                bridge.fdb_mut().learn(Key::new(0, station(port, n)), port, false, now);
            }
        }
        let out = (0..setup.ports).map(|_| Burst::new()).collect();
        let (id, random, burst) = (id.to_owned(), Random::new(0), Burst::new());
        let mut rig =
            NicRig { id, setup, bridge, cards, ends, out, burst, far_pool, random, now, turns: 0, fed: 0, back: 0 };
        for card in &mut rig.cards {
            card.rx.rx_burst(&mut rig.burst, BURST, now); // posts the first buffers
        }
        Ok(rig)
    }

    /// What a frame costs in registers, write-backs and the bus: exact, counted over some turns.
    ///
    /// # Errors
    /// A frame was lost.
    pub fn costs(&mut self) -> anyhow::Result<NicCosts> {
        self.run(self.warming())?;
        let (before, fed) = (Totals::of(&self.cards), self.fed);
        // So many turns that all that comes every so often has come a whole number of times.
        self.run(2 * CHECK_EVERY as usize * self.a_turn())?;
        let card = self.cards.first().context("no card")?;
        Ok(Totals::of(&self.cards).since(&before).per_frame(self.fed - fed, &card.nic))
    }

    /// Frames of a turn.
    fn a_turn(&self) -> usize {
        self.setup.ports * self.setup.feed
    }

    /// Frames before a trial: others have had the cache.
    fn warming(&self) -> usize {
        (self.setup.frames / 4).max(self.cards[0].nic.knobs.rings().0 * self.setup.ports)
    }

    /// So many frames, about; ticks of the timed part.
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

    /// Frames come to each port, and its card takes them in.
    fn arrive(&mut self, frames: usize) -> anyhow::Result<()> {
        self.now = self.now.after(Duration::from_nanos(GAP_NS * frames as u64));
        let stations = STATIONS / self.setup.ports;
        for (port, (end, card)) in self.ends.iter_mut().zip(&mut self.cards).enumerate() {
            let (here, there) = (port as PortNo, (port ^ 1) as PortNo);
            let mut burst = Burst::new();
            self.far_pool.get_burst_of(frames, LEN, &mut burst);
            for frame in burst.as_mut_slice() {
                let (dst, src) = (self.random.next(stations), self.random.next(stations));
                let addresses = [station(there, dst).0, station(here, src).0];
                frame.bytes_mut()[..12].copy_from_slice(addresses.as_flattened());
            }
            ensure!(end.send(&mut burst, self.now) == frames, "{}: the wire is full", self.id);
            card.card.rx.step(self.now);
            self.fed += frames as u64;
        }
        Ok(())
    }

    /// A turn of the loop: what is timed.
    #[inline(never)]
    fn turn(&mut self) {
        self.turns += 1;
        self.forward();
        if self.turns.is_multiple_of(CHECK_EVERY) {
            for card in self.cards.iter().filter(|card| !card.nic.knobs.intr.on()) {
                card.nic.check_status();
            }
        }
    }

    fn forward(&mut self) {
        for port in 0..self.cards.len() {
            self.poll(port);
        }
        for card in &mut self.cards {
            card.tx.poll(self.now); // the end of em_poll
        }
    }

    /// One port's share of a turn.
    fn poll(&mut self, port: usize) {
        if self.sleeps(port) {
            return;
        }
        for _ in 0..ROUND / BURST {
            let got = self.cards[port].rx.rx_burst(&mut self.burst, BURST, self.now);
            if got == 0 {
                return;
            }
            self.bridge.input(port as PortNo, &mut self.burst, self.now, &mut self.out);
            for (out, card) in self.out.iter_mut().zip(&mut self.cards) {
                if !out.is_empty() {
                    card.tx.tx_burst(out, self.now);
                }
            }
            if got < BURST {
                return;
            }
        }
    }

    /// Interrupt-driven: the kernel is asked whether there was one, as by a thread that sleeps.
    fn sleeps(&self, port: usize) -> bool {
        let fd = self.cards[port].rx.wait_fd();
        fd.is_some_and(|fd| dispatch::wait_readable(&[fd], Some(Wait::ZERO)).is_ok_and(|woken| woken != [true]))
    }

    /// The cards send, and what came over the wires is taken.
    fn leave(&mut self) {
        let mut burst = Burst::new();
        for (end, card) in self.ends.iter_mut().zip(&mut self.cards) {
            card.card.tx.step(self.now);
            while end.take(&mut burst, buf::BURST_MAX, self.now) > 0 {
                self.back += burst.len() as u64;
                burst.clear();
            }
        }
    }

    /// Frames that cards had no descriptor for.
    fn missed(&self) -> u64 {
        self.cards.iter().map(|card| card.nic.missed()).sum()
    }

    /// Is every frame where it should be?
    ///
    /// # Errors
    /// What is missing.
    fn audit(&self) -> anyhow::Result<()> {
        let (id, fed, back, missed) = (&self.id, self.fed, self.back, self.missed());
        let held: usize = self.cards.iter().map(|card| card.rx.held() + card.tx.held()).sum();
        ensure!(
            fed == back + missed + held as u64,
            "{id}: of {fed} frames {back} came back, {missed} missed, {held} held"
        );
        let dropped = self.bridge.drops().nonzero();
        ensure!(dropped.is_empty() && self.bridge.audit().holds(), "{id}: {dropped:?}");
        ensure!(self.out.iter().all(Burst::is_empty), "{id}: a ring had no room");
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
