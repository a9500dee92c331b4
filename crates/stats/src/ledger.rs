//! The cost ledger: CPU ticks spent in each processing stage of a frame's path. Each tick is
//! counted in one stage only.
//!
//! A ledger belongs to one thread. A lap is a stopwatch for one burst of frames or one socket call
//! ([`Ledger::lap`]). Each [`Lap::mark`] adds the ticks since the previous reading to a stage
//! ("books" them). Code that runs within another stage encloses its own marks in [`Lap::nest`] and
//! [`Lap::unnest`], so that its ticks are not also added to the outer stage.
//!
//! When the ledger is off (the default), a mark is one predicted branch, which [`Ledger::lap_at`]
//! and [`Lap::mark_at`] share with a tracepoint. Code that processes frames cannot read the state
//! of the ledger and so cannot branch on it: measured and unmeasured runs execute the same
//! instructions. When the ledger is on, a mark costs one reading of the tick counter and its
//! booking; [`Probe::measure`] measures that cost, and [`crate::Statement`] subtracts it. The
//! caller passes in the ticks: this crate reads no clock. If it also passes their rate
//! ([`Ledger::set_on_with_times`]), one booking of 64 for each stage is kept by its time.

mod samples;
mod statement;
#[cfg(test)]
mod tests;
mod times;

pub use samples::{SAMPLED, STAGE_BOUNDS_NS};
pub use statement::{Costs, Row, Statement};
pub use times::StageTimes;

use crate::{Counter, trace};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use samples::Samples;
use std::boxed::Box;
use std::sync::OnceLock;

macro_rules! stages {
    ($( $(#[doc = $sentence:literal])+ $variant:ident = $word:literal ),+ $(,)?) => {
        /// Stage of a frame's path to which ticks are booked.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Stage { $( $(#[doc = $sentence])+ $variant ),+ }
        impl Stage {
            /// All stages, in the order of the path.
            pub const ALL: &'static [Stage] = &[$( Stage::$variant ),+];
            /// Returns the stage's name: the path of the module that spends the ticks.
            pub fn word(self) -> &'static str { match self { $( Stage::$variant => $word ),+ } }
            /// Returns the stage's description.
            pub fn sentence(self) -> &'static str {
                match self { $( Stage::$variant => concat!($($sentence),+).trim_ascii() ),+ }
            }
        }
    };
}

stages! {
    /// Choosing the port to poll, in a loop between two ports.
    Polling = "dispatch.polling",
    /// Receiving frames from a port.
    PortRx = "port.rx",
    /// Within port.rx: taking frames from the device's ring.
    PortTake = "port.rx.take",
    /// Within port.rx: giving buffers from the pool to the device.
    PortRefill = "port.rx.refill",
    /// Polling a port without frames.
    PortLook = "port.rx.idle",
    /// Bridge: learning the source and looking up the destination.
    BridgeInput = "bridge.input",
    /// Ethernet input: prefetching the frames of a burst, or checking the header of a frame
    /// processed alone. With source validation, the header of every frame is checked here.
    LinkInput = "inet.link.ether.input",
    /// Checks of IPv4 headers. For a burst, this includes the checks of Ethernet headers, which are
    /// made in the same pass.
    Ip4Input = "inet.ip4.input",
    /// FIB lookup; for forwarded packets also the rewriting of headers.
    Ip4Forward = "inet.ip4.forward",
    /// UDP and TCP input: checksum, socket lookup, queueing, TCP state.
    Demux = "inet.demux",
    /// The socket call itself: descriptor lookup, argument checks, copy of received data, TCP send
    /// queue.
    Socket = "socket",
    /// UDP output: buffer, copy of the payload, checksum, UDP header. If the headers of the
    /// previous datagram are reused, also the IPv4 and Ethernet headers.
    UdpOutput = "inet.udp.output",
    /// TCP output: segment selection, buffer, checksum, TCP header. If the headers of the previous
    /// segment are reused, also the IPv4 and Ethernet headers.
    TcpOutput = "inet.tcp.output",
    /// IPv4 output: route, source address, identification, header, fragments.
    Ip4Output = "inet.ip4.output",
    /// Ethernet output: neighbor lookup, header, and queueing for a later burst.
    LinkOutput = "inet.link.ether.output",
    /// Sending frames to a port.
    PortTx = "port.tx",
    /// Within port.tx: returning the buffers of sent frames from the device to the pool.
    PortReclaim = "port.tx.reclaim",
    /// Within port.tx: putting frames into the device's ring.
    PortFill = "port.tx.fill",
    /// Within port.tx: notifying the device. For a kernel device, this is a system call that sends
    /// the frames.
    PortKick = "port.tx.kick",
    /// Sending frames made ready by timers and other threads, at the end of a round over all ports.
    PortFlush = "port.tx.flush",
    /// Timers, and aging of table entries.
    Timers = "inet.timers",
}

impl Stage {
    /// Returns the stage of which this one is a part, such as [`Stage::PortRx`] for
    /// [`Stage::PortTake`], and the number of counter readings per booking of this stage. Returns
    /// `None` for a stage that is not a part of another. The first part of a call has two readings,
    /// because [`Ledger::begin`] takes one of them.
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

/// Ticks by stage, and the number of frames or calls that spent them. Written by one thread.
#[derive(Debug, Default)]
pub struct Ledger {
    on: AtomicBool,
    /// Function that reads the tick counter, set by the first lap.
    read: OnceLock<fn() -> u64>,
    /// Counter reading at the previous mark; 0 if there is none, so that the next mark books
    /// nothing.
    last: AtomicU64,
    ticks: [Counter; STAGES],
    units: [Counter; STAGES],
    bookings: [Counter; STAGES],
    readings: Counter,
    /// Histograms of times; absent until the rate of the tick counter is known.
    samples: OnceLock<Box<Samples>>,
    /// Counter reading at which the ledger was switched on; 0 if it is off.
    since: AtomicU64,
    /// Sum of the ticks for which the ledger was on in earlier periods, which ended before `since`.
    on_before: Counter,
}

/// Cost of one stage, as booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageCost {
    /// Stage of the path that was measured.
    pub stage: Stage,
    /// Ticks booked to the stage, including those of the ledger's own readings.
    pub ticks: u64,
    /// Number of frames, packets or calls that spent the ticks.
    pub units: u64,
    /// Number of bookings, each of which includes the cost of one reading.
    pub bookings: u64,
}

impl Ledger {
    /// Switches booking on or off. `now` is a reading of the tick counter.
    pub fn set_on(&self, on: bool, now: u64) {
        let since = self.since.swap(if on { now.max(1) } else { 0 }, Ordering::Relaxed);
        if since != 0 {
            self.on_before.add(now.wrapping_sub(since));
        }
        if on && since == 0 {
            self.last.store(0, Ordering::Relaxed); // discards a reading from before
        }
        if self.on.swap(on, Ordering::Relaxed) != on {
            trace::count_ledger(on);
        }
    }

    /// Private on purpose: code outside this module must not branch on the state of the ledger.
    #[inline(always)]
    fn is_on(&self) -> bool {
        trace::is_hooked() && self.on.load(Ordering::Relaxed)
    }

    /// Returns the ticks during which the ledger was on, up to `now`.
    pub fn on_for(&self, now: u64) -> u64 {
        match self.since.load(Ordering::Relaxed) {
            0 => self.on_before.get(),
            since => self.on_before.get() + now.saturating_sub(since),
        }
    }

    /// Starts a lap. `read` reads the tick counter; it is not called when the ledger is off.
    #[inline(always)]
    pub fn lap(&self, read: fn() -> u64) -> Lap<'_> {
        self.lap_at(read, || ())
    }

    /// Starts a lap as [`Ledger::lap`] does, and fires a tracepoint by calling `point`. Both share
    /// one branch.
    #[cfg_attr(not(debug_assertions), inline(always))]
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

    /// Returns the lap in progress, without reading the counter.
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

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn book(&self, last: u64, now: u64, stage: Stage, units: u64) {
        if last != 0 {
            self.ticks[stage as usize].add(now.wrapping_sub(last));
            self.units[stage as usize].add(units);
            if self.bookings[stage as usize].get().is_multiple_of(SAMPLED) {
                self.sample(stage, now.wrapping_sub(last), units);
            }
            self.bookings[stage as usize].bump();
        }
        self.readings.bump();
    }

    #[cold]
    #[inline(never)]
    fn sample(&self, stage: Stage, ticks: u64, units: u64) {
        if let Some(samples) = self.samples.get() {
            samples.add(stage as usize, ticks, units);
        }
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

    /// Returns a reading of the counter at the start of a part of a stage, as an argument for
    /// [`Ledger::since`]; 0 if the ledger is off.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn begin(&self, read: fn() -> u64) -> u64 {
        if self.is_on() {
            crate::hint::cold_path();
            self.readings.bump();
            return read();
        }
        0
    }

    /// Books the ticks since the reading `began` to `stage`, which is a part of another stage, for
    /// `units` frames. Returns the new reading, which is the start of the next part.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn since(&self, began: u64, stage: Stage, units: u64, read: fn() -> u64) -> u64 {
        if self.is_on() {
            crate::hint::cold_path();
            let now = read();
            self.book(began, now, stage, units);
            return now;
        }
        0
    }

    /// Returns the costs of all stages with bookings, in the order of the path.
    pub fn costs(&self) -> impl Iterator<Item = StageCost> + '_ {
        let cost = |&stage: &Stage| StageCost {
            stage,
            ticks: self.ticks[stage as usize].get(),
            units: self.units[stage as usize].get(),
            bookings: self.bookings[stage as usize].get(),
        };
        Stage::ALL.iter().map(cost).filter(|cost| cost.bookings > 0)
    }

    /// Returns the number of counter readings so far, from which the ledger's own cost is computed.
    pub fn readings(&self) -> u64 {
        self.readings.get()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.set_on(false, 0);
    }
}

/// A stopwatch over the stages of one call or burst. It only refers to the ledger, and does not
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

/// Ticks that the outer stage had spent when a nested stage began.
#[derive(Clone, Copy, Debug)]
#[must_use = "the outer stage loses its ticks without `unnest`"]
pub struct Outer(u64);

impl Lap<'_> {
    /// Books the ticks since the last reading to `stage`, for `units` frames.
    #[inline(always)]
    pub fn mark(self, stage: Stage, units: u64) {
        self.mark_at(stage, units, || ());
    }

    /// Books like [`Lap::mark`], and fires a tracepoint by calling `point`. Both share one branch.
    #[inline(always)]
    pub fn mark_at(self, stage: Stage, units: u64, point: impl FnOnce()) {
        if trace::is_hooked() {
            self.0.book_lap(stage, units);
            point();
        }
    }

    /// Starts nested stages within the current stage.
    #[inline(always)]
    pub fn nest(self) -> Outer {
        Outer(if self.0.is_on() { self.0.nest() } else { 0 })
    }

    /// Ends the nested stages: the outer stage continues from the last mark, and keeps its earlier
    /// ticks.
    #[inline(always)]
    pub fn unnest(self, outer: Outer) {
        if self.0.is_on() {
            self.0.unnest(outer.0);
        }
    }
}

/// Cost in ticks of one counter reading and its booking. Every booking includes this cost in
/// addition to the measured work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe(pub f64);

impl Probe {
    const BATCHES: usize = 33;
    const MARKS: u64 = 256;

    /// Measures the cost of one mark with `read`, the tick counter of the ledger: the median of 33
    /// batches of 256 marks with no work between them.
    pub fn measure(read: fn() -> u64) -> Probe {
        let ledger = Ledger::default();
        ledger.set_on(true, read());
        let batch = |_| {
            let (before, lap) = (ledger.ticks[Stage::Timers as usize].get(), ledger.lap(read));
            (0..Self::MARKS).for_each(|_| core::hint::black_box(lap).mark(Stage::Timers, 1));
            (ledger.ticks[Stage::Timers as usize].get() - before) as f64 / Self::MARKS as f64
        };
        let mut batches: Vec<f64> = (0..Self::BATCHES).map(batch).collect();
        batches.sort_by(f64::total_cmp);
        Probe(batches[Self::BATCHES / 2])
    }
}
