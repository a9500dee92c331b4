//! The cost ledger: ticks per stage, summing to a total, with the rest printed as unexplained.
//!
//! Off (the default) a [`Lap`] costs one predicted branch a mark. On, it costs one counter read per stage and burst,
//! which is why the ledger states its own cost. Ticks are handed in: this crate reads no clock.

use crate::Counter;
use std::sync::atomic::{AtomicBool, Ordering};

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
        }
    };
}

stages! {
    /// When to look at which port: a polling loop's own work, and what others asked of it between two turns.
    Polling = "dispatch.polling",
    /// Taking frames from a port.
    PortRx = "port.rx",
    /// Of that: out of the device's ring.
    PortTake = "port.rx.take",
    /// Of that: buffers from the pool for the device to fill.
    PortRefill = "port.rx.refill",
    /// Looking at a port that has nothing.
    PortLook = "port.rx.idle",
    /// Where a frame is to go, by its addresses.
    BridgeInput = "bridge.input",
    /// Ethernet input and the choice of protocol.
    LinkInput = "inet.link.ether.input",
    /// IPv4 checks and the choice between delivery and forwarding.
    Ip4Input = "inet.ip4.input",
    /// FIB lookup and rewriting of forwarded packets.
    Ip4Forward = "inet.ip4.forward",
    /// Finding the socket and queueing the datagram.
    Demux = "inet.demux",
    /// The socket call itself: descriptor, checks, copy of the payload.
    Socket = "socket",
    /// UDP header and checksum.
    UdpOutput = "inet.udp.output",
    /// TCP: what to send, headers and checksum.
    TcpOutput = "inet.tcp.output",
    /// IPv4 header, route, neighbor, link header.
    Ip4Output = "inet.ip4.output",
    /// Handing frames to a port.
    PortTx = "port.tx",
    /// Of that: buffers that the device is done with, back to the pool.
    PortReclaim = "port.tx.reclaim",
    /// Of that: frames into the device's ring.
    PortFill = "port.tx.fill",
    /// Of that: telling the device, which for the kernel's is a call that does its work.
    PortKick = "port.tx.kick",
    /// What time or others have made ready to be sent, at the end of a round over all ports.
    PortFlush = "port.tx.flush",
    /// Timers and aging.
    Timers = "inet.timers",
}

const STAGES: usize = Stage::ALL.len();

/// Ticks and units per stage, one writer.
#[derive(Debug, Default)]
pub struct Ledger {
    on: AtomicBool,
    ticks: [Counter; STAGES],
    units: [Counter; STAGES],
    marks: Counter,
}

/// What one stage has cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageCost {
    /// Which stage.
    pub stage: Stage,
    /// TSC ticks booked.
    pub ticks: u64,
    /// Frames, packets or calls they were spent on.
    pub units: u64,
}

impl Ledger {
    /// Switches booking on or off.
    pub fn set_on(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Is booking on?
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Starts a lap with the counter `read`, which is not called when the ledger is off.
    #[inline(always)]
    pub fn lap(&self, read: fn() -> u64) -> Lap<'_> {
        Lap { ledger: self, last: if self.is_on() { read() } else { 0 }, read }
    }

    /// The counter's reading where a stage begins, for [`Ledger::since`]; 0: the ledger is off.
    #[inline(always)]
    pub fn begin(&self, read: fn() -> u64) -> u64 {
        if self.is_on() { read() } else { 0 }
    }

    /// Books the ticks since `began` to `stage`, for `units` frames; for who cannot hold a [`Lap`] meanwhile. The reading, where the next begins.
    #[inline(always)]
    pub fn since(&self, began: u64, stage: Stage, units: u64, read: fn() -> u64) -> u64 {
        if self.is_on() { self.book(began, stage, units, read) } else { 0 }
    }

    #[cold]
    fn book(&self, began: u64, stage: Stage, units: u64, read: fn() -> u64) -> u64 {
        let now = read();
        if began != 0 {
            self.ticks[stage as usize].add(now.wrapping_sub(began));
            self.units[stage as usize].add(units);
        }
        self.marks.bump();
        now
    }

    /// Costs of all stages that booked anything.
    pub fn costs(&self) -> impl Iterator<Item = StageCost> + '_ {
        Stage::ALL
            .iter()
            .map(|&stage| StageCost {
                stage,
                ticks: self.ticks[stage as usize].get(),
                units: self.units[stage as usize].get(),
            })
            .filter(|cost| cost.units > 0)
    }

    /// How many times the counter was read for booking: times the cost of a read, the ledger's own price.
    pub fn marks(&self) -> u64 {
        self.marks.get()
    }
}

/// A stopwatch that runs along one burst and books each stage as it passes.
#[derive(Debug)]
pub struct Lap<'a> {
    ledger: &'a Ledger,
    last: u64,
    read: fn() -> u64,
}

impl Lap<'_> {
    /// Does anybody want to know?
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.ledger.is_on()
    }

    /// Books the ticks since the last mark to `stage`, for `units` frames.
    #[inline(always)]
    pub fn mark(&mut self, stage: Stage, units: u64) {
        if self.ledger.is_on() {
            self.book(stage, units);
        }
    }

    #[cold]
    fn book(&mut self, stage: Stage, units: u64) {
        self.last = self.ledger.book(self.last, stage, units, self.read);
    }
}
