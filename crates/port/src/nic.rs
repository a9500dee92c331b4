//! `nic:NAME`: an Ethernet controller with descriptor rings, in memory, modelled on Intel's 8254x (FreeBSD's em).
//!
//! The driver ([`RxDriver`], [`TxDriver`]) is written as for hardware: it posts buffers and frames in rings, tells the card how far
//! it has come by writing a tail register, and finds what is done by a bit that the card writes back into memory; it reads no
//! register to poll. The card ([`Card`]) owns the other side of the rings and one end of a [`wire`](mod@wire). What bridge2004 tweaked is a
//! knob each ([`knobs`]), what it saved is counted ([`counts`]), and what a register access or the bus costs is a model with its
//! source ([`bus`]).
//!
//! A live port's card is stepped inside the driver's calls. The laboratory steps it apart from what it times, and it may run on
//! a thread of its own: rings and registers are sound between threads. Not modelled: jumbo frames over several descriptors,
//! multicast filters, the EEPROM, delays of interrupts per frame (RDTR, TIDV).

pub mod bus;
pub mod card;
pub mod counts;
pub mod driver;
pub mod knobs;
mod live;
pub mod regs;
#[cfg(test)]
mod tests;
pub mod wire;
mod work;

pub use card::Card;
pub use counts::NicCounts;
pub use driver::{RxDriver, TxDriver};
pub use knobs::{KnobError, Knobs};
pub use regs::Status;
pub use wire::{End, wire};

use crate::os::event::Event;
use crate::{Caps, Port, PortCounts};
use buf::{Pool, PoolConfig, PoolError};
use bus::{Bus, Model};
use clock::Instant;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Frames that a wire holds in each direction unless it is told otherwise: as many as the largest ring.
pub const WIRE_SLOTS: usize = 4096;
/// The Ethernet header, and a VLAN tag.
const LINK: usize = 14 + 4;

/// What driver, card and those who look at them share: registers, knobs, counters.
#[derive(Debug)]
pub struct Nic {
    /// The port's name.
    pub name: String,
    /// Its knobs.
    pub knobs: Knobs,
    /// Its counters.
    pub counts: NicCounts,
    pub(in crate::nic) bus: Arc<Bus>,
    /// The wire's near end, if there is one.
    pub(in crate::nic) side: Option<Arc<wire::Side>>,
    /// STATUS.LU, as the card has it.
    pub(in crate::nic) link_up: AtomicBool,
    /// The card's own buffers: frames read from memory, on their way to the wire and over it.
    pub(in crate::nic) fifo: Option<Pool>,
}

/// Why there is no such port.
#[derive(Debug)]
pub enum NicError {
    /// The longest frame does not fit in the pool's buffers.
    SmallBuffers {
        /// Bytes needed.
        need: usize,
        /// Bytes a buffer has behind its headroom.
        have: usize,
    },
    /// The card's own memory.
    Fifo(PoolError),
    /// No event to interrupt by.
    Event(io::Error),
}

impl fmt::Display for NicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NicError::SmallBuffers { need, have } => {
                write!(f, "a frame has up to {need} bytes and the pool's buffers have {have}")
            }
            NicError::Fifo(error) => write!(f, "the card's memory: {error}"),
            NicError::Event(error) => write!(f, "an event to interrupt by: {error}"),
        }
    }
}

impl std::error::Error for NicError {}

/// A card and its driver, in parts.
#[derive(Debug)]
pub struct Parts {
    /// The driver's receiving half.
    pub rx: RxDriver,
    /// The driver's transmitting half.
    pub tx: TxDriver,
    /// The card, to be stepped by its owner.
    pub card: Card,
    /// What they share.
    pub nic: Arc<Nic>,
    /// What the port can do.
    pub caps: Caps,
    /// The port's counters.
    pub counts: Arc<PortCounts>,
}

/// Makes a card with `knobs`, on a bus of its own, and its driver, which posts buffers of `pool`;
/// without a wire the link is down.
///
/// # Errors
/// Buffers too small for `mtu`, no memory or no event for the card.
pub fn assemble(name: &str, knobs: Knobs, mtu: u16, end: Option<End>, pool: &Pool) -> Result<Parts, NicError> {
    assemble_on(&Arc::default(), name, knobs, mtu, end, pool)
}

/// Makes a card as [`assemble`] does, on a bus that other cards may share.
///
/// # Errors
/// Those of [`assemble`].
pub fn assemble_on(
    bus: &Arc<Bus>,
    name: &str,
    knobs: Knobs,
    mtu: u16,
    mut end: Option<End>,
    pool: &Pool,
) -> Result<Parts, NicError> {
    let (need, have) = (usize::from(mtu) + LINK, pool.size().saturating_sub(pool.headroom()));
    if need > have {
        return Err(NicError::SmallBuffers { need, have });
    }
    let caps = caps(&knobs, mtu);
    let fifo = fifo(&knobs, need, pool.headroom())?;
    let side = end.as_ref().map(|end| end.rx.near());
    if let (Some(end), Some(side)) = (&mut end, &side) {
        end.tx.set_pace(knobs.bits_a_second());
        side.waits.store(knobs.pauses(), Ordering::Relaxed);
    }
    let (rx_size, tx_size) = knobs.rings();
    let (rx_driver, rx_card) = buf::ring::desc::descriptors(rx_size);
    let (tx_driver, tx_card) = buf::ring::desc::descriptors(tx_size);
    let link_up = AtomicBool::new(end.is_some());
    let counts = NicCounts::default();
    let nic = Arc::new(Nic { name: name.to_string(), knobs, counts, bus: bus.clone(), side, link_up, fifo });
    if nic.knobs.intr.on() {
        nic.enable_interrupts(regs::RXT0 | regs::RXO | regs::LSC).map_err(NicError::Event)?;
    }
    let (tx_end, rx_end) = end.map_or((None, None), |end| (Some(end.tx), Some(end.rx)));
    let counts = Arc::new(PortCounts::default());
    let card = Card::new(nic.clone(), rx_card, rx_end, tx_card, tx_end);
    let rx = RxDriver::new(nic.clone(), rx_driver, pool.clone(), counts.clone());
    let tx = TxDriver::new(nic.clone(), tx_driver, counts.clone());
    Ok(Parts { rx, tx, card, nic, caps, counts })
}

/// Opens a live port: the card is stepped inside the driver's calls.
///
/// # Errors
/// As [`assemble`].
pub fn open(name: &str, knobs: Knobs, mtu: u16, end: Option<End>, pool: &Pool) -> Result<Port, NicError> {
    let Parts { rx, tx, card, nic, caps, counts } = assemble(name, knobs, mtu, end, pool)?;
    let (rx, tx) = live::halves(rx, tx, card);
    let spec = format!("nic:{name}");
    Ok(Port { name: name.to_string(), spec, caps, rx: Box::new(rx), tx: Box::new(tx), counts, nic: Some(nic) })
}

fn caps(knobs: &Knobs, mtu: u16) -> Caps {
    let large = knobs.tso.on();
    let csum = large || knobs.csum.on();
    let tso_max = if large { u32::from(u16::MAX) } else { 0 };
    Caps { mtu, tx_ip_csum: csum, tx_l4_csum: csum, rx_csum: knobs.csum.on(), tso_max, lro: false }
}

/// Buffers of the card's own, unless frames only change hands.
fn fifo(knobs: &Knobs, data: usize, headroom: usize) -> Result<Option<Pool>, NicError> {
    if knobs.dma.get() == knobs::MOVE && !knobs.tso.on() && !knobs.vlan.on() {
        return Ok(None);
    }
    let headroom = u16::try_from(headroom).unwrap_or(0);
    let config = PoolConfig { buffers: WIRE_SLOTS + 512, data, headroom, ..PoolConfig::default() };
    Pool::new(&config).map(Some).map_err(NicError::Fifo)
}

impl Nic {
    fn enable_interrupts(&self, mask: u32) -> io::Result<()> {
        if let Some(side) = &self.side {
            side.interrupts.moderate(self.knobs.itr_us.get());
            side.interrupts.enable(mask, Event::new()?);
            self.counts.register_writes.add(2); // ITR, IMS
        }
        Ok(())
    }

    /// Reads STATUS and ICR, as polling does every now and then (POLL_AND_CHECK_STATUS): for the thread that receives.
    pub fn check_status(&self) -> Status {
        self.counts.register_reads.add(2);
        self.access(2 * bus::REGISTER_READ, 2 * self.knobs.reg_read_ns.get());
        let cause = self.side.as_ref().map_or(0, |side| side.interrupts.read_cause());
        Status { link_up: self.is_up(), cause }
    }

    /// Is there somebody at the other end of the wire, as far as the card knows?
    pub fn is_up(&self) -> bool {
        self.link_up.load(Ordering::Relaxed)
    }

    /// Interrupts delivered so far.
    pub fn interrupts(&self) -> u64 {
        self.side.as_ref().map_or(0, |side| side.interrupts.count())
    }

    /// Frames missed: no descriptor, or nobody who looked at the wire while it filled up.
    pub fn missed(&self) -> u64 {
        self.counts.missed.get() + self.side.as_ref().map_or(0, |side| side.overrun.get())
    }

    /// The bus whose clocks are counted.
    pub fn bus_model(&self) -> Option<Model> {
        Bus::model(&self.knobs)
    }

    /// What it did, per frame, as lines of text.
    pub fn show(&self) -> String {
        let link = if self.is_up() { "up" } else { "down" };
        let (missed, interrupts) = (self.missed(), self.interrupts());
        let head = format!("{}: link {link}, missed {missed}, interrupts {interrupts}\n", self.name);
        head + &self.counts.show(self.bus_model())
    }

    /// Accesses registers: keeps the bus busy for `clocks`, and the processor waits for `ns`.
    #[inline(always)]
    pub(in crate::nic) fn access(&self, clocks: u64, ns: u64) {
        self.bus.occupy(&self.knobs, clocks);
        bus::wait(ns);
    }

    pub(in crate::nic) fn interrupt(&self, cause: u32, now: Instant) {
        if let Some(side) = &self.side {
            side.interrupts.raise(cause, now);
        }
    }
}
