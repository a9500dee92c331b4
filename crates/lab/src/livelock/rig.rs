//! Two cards with their drivers, the simulated world at both ends of their wires, and the
//! processor's time.
//!
//! The processor's time is the machine's time without the time taken by the world: [`Rig::step`]
//! offers the frames that are due, steps both cards, counts the frames that arrived, and subtracts
//! the time it took. A gap of more than [`GAP`] between two clock readings means that the machine
//! ran something else, since no single piece of work here takes that long; it is subtracted too. On
//! virtual time the world takes no time, and drivers and registers take what is charged for them.

use super::{Mode, Options, Timing};
use anyhow::Context;
use bridge::{Bridge, BridgeConfig, Key, Member};
use buf::{BURST_MAX, Burst, Pool, PoolConfig, PoolLocks};
use clock::{Clock, Instant, Strategy};
use port::nic::{self, Card, End, Nic, RxDriver, Settings, TxDriver};
use port::{RxHalf, Spec, TxHalf};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use wire::Mac;

/// Number of descriptors in each ring, large enough for the frames that arrive while the processor
/// does other work.
pub const RING: u64 = 2048;
/// Minimum gap between two clock readings, in nanoseconds, that is taken as time in which the
/// machine ran something else.
pub const GAP: u64 = 100_000;
/// Cost on virtual time, in nanoseconds, of the driver's work per frame without register accesses.
const DRIVER: u64 = 60;
/// Cost on virtual time, in nanoseconds, of a poll that finds no frame.
const LOOK: u64 = 40;
/// Length of a frame in bytes, without FCS.
const LEN: usize = 60;
const SOURCE: Mac = Mac([2, 0, 0, 0, 0, 1]);
const SINK: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// The processor's time, live or virtual.
#[derive(Debug, Clone)]
pub struct Time(Rc<Source>);

#[derive(Debug)]
enum Source {
    Live { clock: Clock, subtracted: Cell<u64>, last: Cell<u64>, gaps: Cell<u64> },
    Virtual(Cell<u64>),
}

impl Time {
    /// Returns a clock of the given kind, at zero if virtual.
    pub fn of(timing: Timing) -> Time {
        let cell = || Cell::new(0);
        Time(Rc::new(match timing {
            Timing::Virtual => Source::Virtual(cell()),
            Timing::Live => {
                let clock = Clock::live(Strategy::TscScaled);
                Source::Live { clock, subtracted: cell(), last: cell(), gaps: cell() }
            }
        }))
    }

    /// Returns the processor's time in nanoseconds. Subtracts gaps longer than [`GAP`].
    pub fn now(&self) -> u64 {
        match self.0.as_ref() {
            Source::Virtual(now) => now.get(),
            Source::Live { clock, subtracted, last, gaps } => {
                let mut now = clock.now().nanos().saturating_sub(subtracted.get());
                let passed = now.saturating_sub(last.get());
                if passed > GAP {
                    subtracted.set(subtracted.get() + passed);
                    gaps.set(gaps.get() + 1);
                    now = last.get();
                }
                last.set(now);
                now
            }
        }
    }

    /// Returns the processor's time as an instant.
    pub fn instant(&self) -> Instant {
        Instant::from_nanos(self.now())
    }

    /// Returns the number of gaps subtracted.
    pub fn gaps(&self) -> u64 {
        match self.0.as_ref() {
            Source::Virtual(_) => 0,
            Source::Live { gaps, .. } => gaps.get(),
        }
    }

    /// Spends `ns`: busy-waits on live time, advances virtual time.
    pub fn spend(&self, ns: u64) {
        match self.0.as_ref() {
            Source::Virtual(now) => now.set(now.get() + ns),
            Source::Live { .. } => {
                let until = self.now() + ns;
                while self.now() < until {
                    std::hint::spin_loop();
                }
            }
        }
    }

    /// Advances virtual time; does nothing on live time, where the work itself takes time.
    fn charge(&self, ns: u64) {
        if let Source::Virtual(now) = self.0.as_ref() {
            now.set(now.get() + ns);
        }
    }

    /// Runs `work`, which receives the current time, without adding its duration to the processor's
    /// time.
    fn outside(&self, work: impl FnOnce(Instant)) {
        let now = self.now();
        work(Instant::from_nanos(now));
        if let Source::Live { clock, subtracted, .. } = self.0.as_ref() {
            subtracted.set(clock.now().nanos().saturating_sub(now));
        }
    }
}

/// Counts of frames and interrupts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// The processor's time in nanoseconds.
    pub ns: u64,
    /// Frames that the generator put onto the first wire.
    pub offered: u64,
    /// Frames that the bridge forwarded, as counted at the end of the second wire.
    pub forwarded: u64,
    /// Frames that the receiving card missed because it had no free descriptor.
    pub missed: u64,
    /// Frames dropped because the input queue was full.
    pub queue_full: u64,
    /// Number of interrupts delivered.
    pub interrupts: u64,
}

/// The simulated world: both ends of the wires, and the cards.
struct World {
    source: End,
    sink: End,
    em0: Card,
    em1: Card,
    pool: Pool,
    burst: Burst,
    /// Offered rate in frames per second.
    rate: f64,
    /// Time at which the current rate began, and the number of frames offered before.
    since: u64,
    before: u64,
    offered: u64,
    forwarded: u64,
}

impl World {
    fn step(&mut self, now: Instant) {
        let due = self.before + ((now.nanos() - self.since) as f64 * self.rate / 1e9) as u64;
        while self.offered < due {
            self.make((due - self.offered).min(64) as usize);
            if self.burst.is_empty() {
                break;
            }
            self.offered += self.source.send(&mut self.burst, now) as u64;
            self.burst.clear();
            self.em0.step(now);
        }
        self.em0.step(now);
        self.em1.step(now);
        while self.sink.take(&mut self.burst, BURST_MAX, now) > 0 {
            self.forwarded += self.burst.len() as u64;
            self.burst.clear();
        }
    }

    fn make(&mut self, n: usize) {
        self.pool.get_burst(n, &mut self.burst);
        for frame in self.burst.as_mut_slice() {
            let Some(bytes) = frame.append(LEN) else { continue };
            bytes.fill(0);
            for (to, from) in bytes.iter_mut().zip(SINK.0.into_iter().chain(SOURCE.0).chain([0x08, 0x00])) {
                *to = from;
            }
        }
    }
}

/// The processor, its ports and the world.
pub struct Rig {
    pub time: Time,
    /// Card that receives the frames.
    pub em0: Arc<Nic>,
    em1: Arc<Nic>,
    rx: RxDriver,
    tx: TxDriver,
    bridge: Bridge,
    out: Vec<Burst>,
    world: World,
    cost: u64,
    read_ns: u64,
    write_ns: u64,
    /// Nanoseconds charged so far for registers and frames.
    charged: u64,
}

/// Returns the settings of one card. On virtual time register accesses are charged instead of
/// busy-waited.
fn settings(words: &str) -> anyhow::Result<Settings> {
    let settings = Settings::default();
    let spec = Spec::parse(&format!("nic({words}):em"))?;
    spec.port.options().for_each(|(option, value)| settings.preset(option, value));
    Ok(settings)
}

impl Rig {
    pub fn new(mode: Mode, options: &Options, time: Time) -> anyhow::Result<Rig> {
        let pool = |buffers| Pool::new(&PoolConfig { buffers, locks: PoolLocks::Owner, ..PoolConfig::default() });
        let (host, pool) = (pool(8192)?, pool(8192)?);
        let intr = match mode {
            Mode::Interrupts => ",intr=on".to_owned(),
            Mode::Moderated => format!(",intr=on,itr_us={}", options.itr_us),
            Mode::Clock | Mode::Adaptive | Mode::Wakeup => String::new(),
        };
        let registers = if matches!(*time.0, Source::Virtual(_)) { ",reg_read_ns=0,reg_write_ns=0" } else { "" };
        let common = format!("rx_ring={RING},tx_ring={RING},pause=off,bus=off{registers}");
        let [(near0, source), (near1, sink)] = [nic::wire(nic::WIRE_SLOTS), nic::wire(nic::WIRE_SLOTS)];
        let em0 = nic::assemble("em0", settings(&format!("{common}{intr}"))?, 1500, Some(near0), &host)?;
        let em1 = nic::assemble("em1", settings(&common)?, 1500, Some(near1), &host)?;
        let mut bridge = Bridge::new(BridgeConfig::default());
        for _ in 0..2 {
            bridge.add(Member::default()).context("cannot add a port to the bridge")?;
        }
        bridge.fdb_mut().learn(Key::new(0, SINK), 1, false, time.instant());
        let defaults = Settings::default();
        let world = World {
            source,
            sink,
            em0: em0.card,
            em1: em1.card,
            pool,
            burst: Burst::new(),
            rate: 0.0,
            since: time.now(),
            before: 0,
            offered: 0,
            forwarded: 0,
        };
        Ok(Rig {
            time,
            em0: em0.nic,
            em1: em1.nic,
            rx: em0.rx,
            tx: em1.tx,
            bridge,
            out: vec![Burst::new(), Burst::new()],
            world,
            cost: options.cost_ns,
            read_ns: defaults.reg_read_ns.get(),
            write_ns: defaults.reg_write_ns.get(),
            charged: 0,
        })
    }

    /// Offers `rate` frames per second from now on.
    pub fn offer(&mut self, rate: f64) {
        let world = &mut self.world;
        (world.since, world.before, world.rate) = (self.time.now(), world.offered, rate);
    }

    /// Steps the world up to the current time.
    pub fn step(&mut self) {
        let world = &mut self.world;
        self.time.outside(|now| world.step(now));
    }

    /// Charges for a poll that found nothing.
    pub fn idle(&self) {
        self.time.charge(LOOK);
    }

    /// Takes up to `most` frames from the receiving card.
    pub fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let n = self.rx.rx_burst(burst, most, self.time.instant());
        self.charge();
        n
    }

    /// Returns whether the receiving card has frames that were not taken yet.
    pub fn has_frames(&self) -> bool {
        self.rx.held() > 0
    }

    /// Spends the cost of an interrupt that wakes a sleeping loop: one register read.
    pub fn wake(&self) {
        self.time.spend(self.read_ns);
    }

    /// Checks for errors and the link state.
    pub fn check_status(&mut self) {
        self.em0.check_status();
        self.charge();
    }

    /// Processes frames: spends the extra work, forwards them by the bridge, and sends them.
    pub fn process(&mut self, burst: &mut Burst) {
        let now = self.time.instant();
        self.time.spend(self.cost * burst.len() as u64);
        self.bridge.input(0, burst, now, &mut self.out);
        if let Some(out) = self.out.get_mut(1) {
            self.tx.tx_burst(out, now);
        }
        self.charge();
    }

    /// Writes the sending card's pending doorbell and reclaims buffers.
    pub fn flush(&mut self) {
        self.tx.poll(self.time.instant());
        self.charge();
    }

    /// Charges virtual time for registers and frames since the last call.
    fn charge(&mut self) {
        let of = |nic: &Nic| {
            let c = &nic.counts;
            let writes = c.rx_doorbells.get() + c.tx_doorbells.get() + c.register_writes.get();
            let frames = c.rx_frames.get() + c.tx_frames.get();
            c.register_reads.get() * self.read_ns + writes * self.write_ns + frames * DRIVER
        };
        let all = of(&self.em0) + of(&self.em1);
        self.time.charge(all - std::mem::replace(&mut self.charged, all));
    }

    /// Returns the counts. The caller owns the input queue and passes the number of frames that
    /// were dropped because it was full.
    pub fn tally(&self, queue_full: u64) -> Tally {
        Tally {
            ns: self.time.now(),
            offered: self.world.offered,
            forwarded: self.world.forwarded,
            missed: self.em0.missed(),
            queue_full,
            interrupts: self.em0.interrupts(),
        }
    }

    /// Returns the number of frames that have left the first wire and not yet entered the second.
    pub fn held(&self) -> u64 {
        (self.rx.held() + self.tx.held() + self.out.iter().map(Burst::len).sum::<usize>()) as u64
    }
}
