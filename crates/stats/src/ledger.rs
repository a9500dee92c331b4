//! The cost ledger: ticks by stage, each tick in one stage only.
//!
//! A ledger belongs to one thread. A public call starts a lap ([`Ledger::lap`]), and each
//! [`Lap::mark`] books the ticks since the reading before to a stage. Code that runs within another
//! stage brackets its own marks with [`Lap::nest`] and [`Lap::unnest`]: what it books is not booked
//! to the outer stage a second time.
//!
//! Off (the default) a mark is one predicted branch, which [`Ledger::lap_at`] and [`Lap::mark_at`]
//! share with a tracepoint. The state of the ledger cannot be read on the
//! path, so no code can be chosen by it: the instructions that are timed are those that run
//! untimed. On, a mark costs one reading of the counter and its booking; [`Probe::measure`]
//! measures that, and [`crate::Statement`] subtracts it. Ticks are passed in: this crate reads no
//! clock.

mod statement;
#[cfg(test)]
mod tests;

pub use statement::{Costs, Row, Statement};

use crate::{Counter, trace};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

macro_rules! stages {
    ($( $(#[doc = $sentence:literal])+ $variant:ident = $word:literal ),+ $(,)?) => {
        /// Where ticks can be booked.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Stage { $( $(#[doc = $sentence])+ $variant ),+ }
        impl Stage {
            /// Every stage, in the order of the path.
            pub const ALL: &'static [Stage] = &[$( Stage::$variant ),+];
            /// The stage's word: the module path it books for.
            pub fn word(self) -> &'static str { match self { $( Stage::$variant => $word ),+ } }
            /// The stage's sentence.
            pub fn sentence(self) -> &'static str {
                match self { $( Stage::$variant => concat!($($sentence),+).trim_ascii() ),+ }
            }
        }
    };
}

stages! {
    /// Choosing the port to poll: the loop's own work between two ports.
    Polling = "dispatch.polling",
    /// Taking frames from a port.
    PortRx = "port.rx",
    /// Within port.rx: taking frames from the device's ring.
    PortTake = "port.rx.take",
    /// Within port.rx: buffers from the pool for the device to fill.
    PortRefill = "port.rx.refill",
    /// Polling a port that has no frame.
    PortLook = "port.rx.idle",
    /// Bridge: learning the source and looking up the destination.
    BridgeInput = "bridge.input",
    /// Ethernet input: the burst's frames fetched; of a frame that comes alone its header too.
    LinkInput = "inet.link.ether.input",
    /// IPv4 checks; of a burst the check of the Ethernet header too, which is made in the same
    /// pass.
    Ip4Input = "inet.ip4.input",
    /// FIB lookup; of forwarded packets the rewriting too.
    Ip4Forward = "inet.ip4.forward",
    /// UDP and TCP input: checksum, finding the socket, queueing, TCP's state.
    Demux = "inet.demux",
    /// The socket call itself: descriptor, checks, copy of what is received, TCP's send queue.
    Socket = "socket",
    /// UDP output: buffer, copy of the payload, checksum, header; with cached headers those of IPv4
    /// and Ethernet too.
    UdpOutput = "inet.udp.output",
    /// TCP output: what to send, buffer, checksum, header; with kept headers those of IPv4 and
    /// Ethernet too.
    TcpOutput = "inet.tcp.output",
    /// IPv4 output: route, source address, identification, header, fragments.
    Ip4Output = "inet.ip4.output",
    /// Ethernet output: neighbor, header, and staging for a later burst.
    LinkOutput = "inet.link.ether.output",
    /// Handing frames to a port.
    PortTx = "port.tx",
    /// Within port.tx: buffers that the device is done with, back to the pool.
    PortReclaim = "port.tx.reclaim",
    /// Within port.tx: frames into the device's ring.
    PortFill = "port.tx.fill",
    /// Within port.tx: notifying the device, which for the kernel's is a call that does its work.
    PortKick = "port.tx.kick",
    /// Sending what timers and other threads made ready, at the end of a round over all ports.
    PortFlush = "port.tx.flush",
    /// Timers and aging.
    Timers = "inet.timers",
}

impl Stage {
    /// Of a port's part of a stage: that stage, and how many readings of the counter each booking
    /// of the part has. The first part of a call has two, since [`Ledger::begin`] reads for it.
    fn within(self) -> Option<(Stage, u64)> {
        match self {
            Stage::PortTake => Some((Stage::PortRx, 2)),
            Stage::PortRefill => Some((Stage::PortRx, 1)),
            Stage::PortReclaim => Some((Stage::PortTx, 2)),
            Stage::PortFill | Stage::PortKick => Some((Stage::PortTx, 1)),
            _ => None,
        }
    }
}

const STAGES: usize = Stage::ALL.len();

/// Ticks and units by stage, written by one thread.
#[derive(Debug, Default)]
pub struct Ledger {
    on: AtomicBool,
    /// The counter, known from the first lap on.
    read: OnceLock<fn() -> u64>,
    /// The reading that the next mark counts from; 0: none, and the next mark books nothing.
    last: AtomicU64,
    ticks: [Counter; STAGES],
    units: [Counter; STAGES],
    bookings: [Counter; STAGES],
    readings: Counter,
    /// When it was switched on; 0: it is off.
    since: AtomicU64,
    /// Ticks that it was on before that.
    on_before: Counter,
}

/// The cost of one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageCost {
    /// The stage.
    pub stage: Stage,
    /// Ticks booked, those of the ledger's own readings included.
    pub ticks: u64,
    /// Frames, packets or calls that they were spent on.
    pub units: u64,
    /// Times that ticks were booked: each has the cost of one reading in it.
    pub bookings: u64,
}

impl Ledger {
    /// Switches booking on or off; `now` is a reading of the counter.
    pub fn set_on(&self, on: bool, now: u64) {
        let since = self.since.swap(if on { now.max(1) } else { 0 }, Ordering::Relaxed);
        if since != 0 {
            self.on_before.add(now.wrapping_sub(since));
        }
        if on && since == 0 {
            self.last.store(0, Ordering::Relaxed); // of the time before: nothing counts from it
        }
        if self.on.swap(on, Ordering::Relaxed) != on {
            trace::count_ledger(on);
        }
    }

    /// Private on purpose: code outside cannot choose its path by it.
    #[inline(always)]
    fn is_on(&self) -> bool {
        trace::is_hooked() && self.on.load(Ordering::Relaxed)
    }

    /// Ticks that the ledger was on, up to `now`.
    pub fn on_for(&self, now: u64) -> u64 {
        match self.since.load(Ordering::Relaxed) {
            0 => self.on_before.get(),
            since => self.on_before.get() + now.saturating_sub(since),
        }
    }

    /// Starts a lap with the counter `read`, which is not called when the ledger is off.
    #[inline(always)]
    pub fn lap(&self, read: fn() -> u64) -> Lap<'_> {
        self.lap_at(read, || ())
    }

    /// Starts a lap as [`Ledger::lap`] does, and behind the same branch calls `point`, which fires a
    /// tracepoint.
    #[inline(always)]
    pub fn lap_at(&self, read: fn() -> u64, point: impl FnOnce()) -> Lap<'_> {
        if trace::is_hooked() {
            self.start(read);
            point();
        }
        Lap(self)
    }

    #[cold]
    #[inline(never)]
    fn start(&self, read: fn() -> u64) {
        if self.is_on() {
            self.readings.bump();
            self.last.store(self.read.get_or_init(|| read)(), Ordering::Relaxed);
        }
    }

    /// The lap under way, without a reading.
    #[inline(always)]
    pub fn resume(&self) -> Lap<'_> {
        Lap(self)
    }

    #[cold]
    #[inline(never)]
    fn book_lap(&self, stage: Stage, units: u64) {
        let Some(read) = self.read.get().filter(|_| self.is_on()) else { return };
        let now = read();
        self.book(self.last.load(Ordering::Relaxed), now, stage, units);
        self.last.store(now, Ordering::Relaxed);
    }

    #[inline(always)]
    fn book(&self, last: u64, now: u64, stage: Stage, units: u64) {
        if last != 0 {
            self.ticks[stage as usize].add(now.wrapping_sub(last));
            self.units[stage as usize].add(units);
            self.bookings[stage as usize].bump();
        }
        self.readings.bump();
    }

    #[cold]
    #[inline(never)]
    fn nest(&self) -> u64 {
        let Some(read) = self.read.get() else { return 0 };
        let last = self.last.load(Ordering::Relaxed);
        let now = read();
        self.readings.bump();
        self.last.store(now, Ordering::Relaxed);
        if last == 0 { 0 } else { now.wrapping_sub(last) }
    }

    #[cold]
    #[inline(never)]
    fn unnest(&self, outer: u64) {
        match self.last.load(Ordering::Relaxed) {
            0 => {}
            last => self.last.store(last.wrapping_sub(outer), Ordering::Relaxed),
        }
    }

    /// The counter's reading where a part of a stage begins, for [`Ledger::since`]; 0: the ledger
    /// is off.
    #[inline(always)]
    pub fn begin(&self, read: fn() -> u64) -> u64 {
        if self.is_on() {
            std::hint::cold_path();
            self.readings.bump();
            return read();
        }
        0
    }

    /// Books the ticks since `began` to `stage`, a part of another stage, for `units` frames.
    /// Returns the reading, where the next part begins.
    #[inline(always)]
    pub fn since(&self, began: u64, stage: Stage, units: u64, read: fn() -> u64) -> u64 {
        if self.is_on() {
            std::hint::cold_path();
            let now = read();
            self.book(began, now, stage, units);
            return now;
        }
        0
    }

    /// Costs of all stages that booked anything, in the order of the path.
    pub fn costs(&self) -> impl Iterator<Item = StageCost> + '_ {
        let cost = |&stage: &Stage| StageCost {
            stage,
            ticks: self.ticks[stage as usize].get(),
            units: self.units[stage as usize].get(),
            bookings: self.bookings[stage as usize].get(),
        };
        Stage::ALL.iter().map(cost).filter(|cost| cost.bookings > 0)
    }

    /// Readings of the counter: their cost is the ledger's own.
    pub fn readings(&self) -> u64 {
        self.readings.get()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.set_on(false, 0);
    }
}

/// A stopwatch over the stages of one call or burst. It has no state of its own, and does not
/// reveal whether the ledger is on:
///
/// ```compile_fail,E0599
/// # use linerate_stats::Ledger;
/// # fn ticks() -> u64 { 0 }
/// let ledger = Ledger::default();
/// let lap = ledger.lap(ticks);
/// if lap.is_on() { /* a path of its own */ }
/// ```
/// ```compile_fail,E0624
/// # use linerate_stats::Ledger;
/// if Ledger::default().is_on() { /* a path of its own */ }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lap<'a>(&'a Ledger);

/// Ticks of the outer stage, up to where another began within it.
#[derive(Clone, Copy, Debug)]
#[must_use = "the outer stage loses its ticks without `unnest`"]
pub struct Outer(u64);

impl Lap<'_> {
    /// Books the ticks since the last reading to `stage`, for `units` frames.
    #[inline(always)]
    pub fn mark(self, stage: Stage, units: u64) {
        self.mark_at(stage, units, || ());
    }

    /// Books as [`Lap::mark`] does, and behind the same branch calls `point`, which fires a tracepoint.
    #[inline(always)]
    pub fn mark_at(self, stage: Stage, units: u64, point: impl FnOnce()) {
        if trace::is_hooked() {
            self.0.book_lap(stage, units);
            point();
        }
    }

    /// Begins stages of their own within one that is under way, if any is.
    #[inline(always)]
    pub fn nest(self) -> Outer {
        Outer(if self.0.is_on() { self.0.nest() } else { 0 })
    }

    /// Ends them: the outer stage goes on from the last mark, with the ticks that it had.
    #[inline(always)]
    pub fn unnest(self, outer: Outer) {
        if self.0.is_on() {
            self.0.unnest(outer.0);
        }
    }
}

/// The cost of one reading and its booking, in ticks: what every booking has in it besides the
/// work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe(pub f64);

impl Probe {
    const BATCHES: usize = 33;
    const MARKS: u64 = 256;

    /// Measures it with the counter `read`, as the ledger uses it: marks with nothing between them,
    /// the median of 33 batches of 256.
    pub fn measure(read: fn() -> u64) -> Probe {
        let ledger = Ledger::default();
        ledger.set_on(true, read());
        let batch = |_| {
            let (before, lap) = (ledger.ticks[Stage::Timers as usize].get(), ledger.lap(read));
            (0..Self::MARKS).for_each(|_| std::hint::black_box(lap).mark(Stage::Timers, 1));
            (ledger.ticks[Stage::Timers as usize].get() - before) as f64 / Self::MARKS as f64
        };
        let mut batches: Vec<f64> = (0..Self::BATCHES).map(batch).collect();
        batches.sort_by(f64::total_cmp);
        Probe(batches[Self::BATCHES / 2])
    }
}
