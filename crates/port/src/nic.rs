//! `nic:NAME`: an in-memory Ethernet controller with descriptor rings, modelled on Intel's 8254x
//! (FreeBSD's em).
//!
//! The driver ([`RxDriver`], [`TxDriver`]) is written as for hardware: it posts buffers and frames
//! in rings, announces them to the card by writing a tail register, and finds completed descriptors
//! by a bit that the card writes back into memory. Polling does not read registers. The card
//! ([`Card`]) owns the other side of the rings and one end of a [`wire`](mod@wire). Each
//! optimization described in the report bridge2004 is a setting ([`settings`]). The card counts the
//! operations that the optimizations save ([`counts`]). The costs of register accesses and bus
//! transfers are modelled from published measurements ([`bus`]).
//!
//! A live port runs its card inside the driver's calls. A measurement runs the card outside the
//! timed section, possibly on another thread: rings and registers are thread-safe. Not modelled:
//! jumbo frames in several descriptors, multicast filters, the EEPROM, per-frame interrupt delays
//! (RDTR, TIDV).

pub mod bus;
pub mod card;
pub mod counts;
pub mod driver;
mod live;
pub mod regs;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod wire;
mod work;

pub use card::Card;
pub use counts::NicCounts;
pub use driver::{RxDriver, TxDriver};
pub use regs::Status;
pub use settings::{SettingError, Settings};
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

/// Default number of frames that a wire holds in each direction: as many as the largest ring.
pub const WIRE_SLOTS: usize = 4096;
/// Length of the Ethernet header and a VLAN tag.
const LINK: usize = 14 + 4;

/// State shared by driver, card and observers: registers, settings, counters.
#[derive(Debug)]
pub struct Nic {
    /// Name of the port.
    pub name: String,
    /// Settings of the card and its driver.
    pub settings: Settings,
    /// Counters of the card and its driver.
    pub counts: NicCounts,
    pub(in crate::nic) bus: Arc<Bus>,
    /// This card's end of the wire; `None` if the card is not connected.
    pub(in crate::nic) side: Option<Arc<wire::Side>>,
    /// The card's link status (STATUS.LU).
    pub(in crate::nic) link_up: AtomicBool,
    /// The card's own buffers, into which it copies frames before they go onto the wire; `None` if
    /// it moves frames without copying them.
    pub(in crate::nic) fifo: Option<Pool>,
}

/// Reasons why a port cannot be created.
#[derive(Debug)]
pub enum NicError {
    /// The longest frame does not fit in the pool's buffers.
    SmallBuffers {
        /// Number of bytes that a frame needs.
        need: usize,
        /// Number of bytes in a buffer after its headroom.
        have: usize,
    },
    /// The card's own memory could not be allocated.
    Fifo(PoolError),
    /// The event for interrupts could not be created.
    Event(io::Error),
}

impl fmt::Display for NicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NicError::SmallBuffers { need, have } => {
                write!(
                    f,
                    "frames of up to {need} bytes do not fit in the pool's buffers of {have} bytes: raise pool.data"
                )
            }
            NicError::Fifo(error) => write!(f, "cannot allocate the card's memory: {error}"),
            NicError::Event(error) => write!(f, "cannot create the interrupt event: {error}"),
        }
    }
}

impl std::error::Error for NicError {}

/// A card and its driver, as separate parts, for a caller that runs the card itself.
#[derive(Debug)]
pub struct Parts {
    /// The driver's receiving half.
    pub rx: RxDriver,
    /// The driver's transmitting half.
    pub tx: TxDriver,
    /// The card; its owner calls [`Card::step`].
    pub card: Card,
    /// State shared by driver and card.
    pub nic: Arc<Nic>,
    /// Capabilities of the port.
    pub caps: Caps,
    /// Counters of the port.
    pub counts: Arc<PortCounts>,
}

/// Creates a card with `settings` on a bus of its own, and a driver that posts buffers of `pool`.
/// `end` is the card's end of a wire; without a wire the link is down.
///
/// # Errors
/// The pool's buffers are too short for `mtu`, or memory or an event for the card cannot be
/// allocated.
pub fn assemble(name: &str, settings: Settings, mtu: u16, end: Option<End>, pool: &Pool) -> Result<Parts, NicError> {
    assemble_on(&Arc::default(), name, settings, mtu, end, pool)
}

/// Creates a card as [`assemble`] does, on `bus`, which several cards may share.
///
/// # Errors
/// The same errors as [`assemble`].
pub fn assemble_on(
    bus: &Arc<Bus>,
    name: &str,
    settings: Settings,
    mtu: u16,
    mut end: Option<End>,
    pool: &Pool,
) -> Result<Parts, NicError> {
    let (need, have) = (usize::from(mtu) + LINK, pool.size().saturating_sub(pool.headroom()));
    if need > have {
        return Err(NicError::SmallBuffers { need, have });
    }
    let caps = caps(&settings, mtu);
    let fifo = fifo(&settings, need, pool.headroom())?;
    let side = end.as_ref().map(|end| end.rx.near());
    if let (Some(end), Some(side)) = (&mut end, &side) {
        end.tx.set_pace(settings.bits_a_second());
        side.waits.store(settings.pauses(), Ordering::Relaxed);
    }
    let (rx_size, tx_size) = settings.rings();
    let (rx_driver, rx_card) = buf::ring::desc::descriptors(rx_size);
    let (tx_driver, tx_card) = buf::ring::desc::descriptors(tx_size);
    let link_up = AtomicBool::new(end.is_some());
    let counts = NicCounts::default();
    let nic = Arc::new(Nic { name: name.to_string(), settings, counts, bus: bus.clone(), side, link_up, fifo });
    if nic.settings.intr.on() {
        nic.enable_interrupts(regs::RXT0 | regs::RXO | regs::LSC).map_err(NicError::Event)?;
    }
    let (tx_end, rx_end) = end.map_or((None, None), |end| (Some(end.tx), Some(end.rx)));
    let counts = Arc::new(PortCounts::default());
    let card = Card::new(nic.clone(), rx_card, rx_end, tx_card, tx_end);
    let rx = RxDriver::new(nic.clone(), rx_driver, pool.clone(), counts.clone());
    let tx = TxDriver::new(nic.clone(), tx_driver, counts.clone());
    Ok(Parts { rx, tx, card, nic, caps, counts })
}

/// Opens a live port, which runs the card inside the driver's calls.
///
/// # Errors
/// The same errors as [`assemble`].
pub fn open(name: &str, settings: Settings, mtu: u16, end: Option<End>, pool: &Pool) -> Result<Port, NicError> {
    let Parts { rx, tx, card, nic, caps, counts } = assemble(name, settings, mtu, end, pool)?;
    let (rx, tx) = live::halves(rx, tx, card);
    let spec = format!("nic:{name}");
    Ok(Port { name: name.to_string(), spec, caps, rx: Box::new(rx), tx: Box::new(tx), counts, nic: Some(nic) })
}

fn caps(settings: &Settings, mtu: u16) -> Caps {
    let large = settings.tso.on();
    let csum = large || settings.csum.on();
    let tso_max = if large { u32::from(u16::MAX) } else { 0 };
    Caps { mtu, tx_ip_csum: csum, tx_l4_csum: csum, rx_csum: settings.csum.on(), tso_max, lro: false }
}

/// Creates the card's own buffers. Returns `None` if the card moves frames without copying them.
fn fifo(settings: &Settings, data: usize, headroom: usize) -> Result<Option<Pool>, NicError> {
    if settings.dma.get() == settings::MOVE && !settings.tso.on() && !settings.vlan.on() {
        return Ok(None);
    }
    let headroom = u16::try_from(headroom).unwrap_or(0);
    let config = PoolConfig { buffers: WIRE_SLOTS + 512, data, headroom, ..PoolConfig::default() };
    Pool::new(&config).map(Some).map_err(NicError::Fifo)
}

impl Nic {
    fn enable_interrupts(&self, mask: u32) -> io::Result<()> {
        if let Some(side) = &self.side {
            side.interrupts.moderate(self.settings.itr_us.get());
            side.interrupts.enable(mask, Event::new()?);
            self.counts.register_writes.add(2); // writes of ITR and IMS
        }
        Ok(())
    }

    /// Reads STATUS and ICR, as a polling driver does periodically (POLL_AND_CHECK_STATUS in
    /// FreeBSD). Called by the receiving thread.
    pub fn check_status(&self) -> Status {
        self.counts.register_reads.add(2);
        self.access(2 * bus::REGISTER_READ, 2 * self.settings.reg_read_ns.get());
        let cause = self.side.as_ref().map_or(0, |side| side.interrupts.read_cause());
        Status { link_up: self.is_up(), cause }
    }

    /// Returns whether a peer is connected to the other end of the wire.
    pub fn is_up(&self) -> bool {
        self.link_up.load(Ordering::Relaxed)
    }

    /// Returns the number of interrupts delivered so far.
    pub fn interrupts(&self) -> u64 {
        self.side.as_ref().map_or(0, |side| side.interrupts.count())
    }

    /// Returns the number of frames lost on reception because no descriptor was free, or because
    /// the wire filled up while this end was not polled.
    pub fn missed(&self) -> u64 {
        self.counts.missed.get() + self.side.as_ref().map_or(0, |side| side.overrun.get())
    }

    /// Returns the bus model used for counting clocks; `None` if they are not counted.
    pub fn bus_model(&self) -> Option<Model> {
        Bus::model(&self.settings)
    }

    /// Returns the counters per frame, as lines of text.
    pub fn show(&self) -> String {
        let link = if self.is_up() { "up" } else { "down" };
        let (missed, interrupts) = (self.missed(), self.interrupts());
        let head = format!("{}: link {link}, missed {missed}, interrupts {interrupts}\n", self.name);
        head + &self.counts.show(self.bus_model())
    }

    /// Models register accesses: occupies the bus for `clocks`, and makes the processor wait for
    /// `ns` nanoseconds.
    #[inline(always)]
    pub(in crate::nic) fn access(&self, clocks: u64, ns: u64) {
        self.bus.occupy(&self.settings, clocks);
        bus::wait(ns);
    }

    pub(in crate::nic) fn interrupt(&self, cause: u32, now: Instant) {
        if let Some(side) = &self.side {
            side.interrupts.raise(cause, now);
        }
    }
}
