//! `nic:NAME`: an in-memory Ethernet controller with descriptor rings, modelled on Intel's 8254x
//! (FreeBSD's em).
//!
//! The driver ([`RxDriver`], [`TxDriver`]) is written as for hardware: it posts buffers and frames
//! in rings, announces them to the card by writing a tail register, and finds completed descriptors
//! by a bit that the card writes back into memory. Polling does not read registers. The card
//! ([`Card`]) owns the other side of the rings and one end of a [`wire`](mod@wire). Each
//! optimization described in Gerrit Nagelhout's report of 2004 (bridge2004) is a setting
//! ([`settings`]). The card counts the operations that the optimizations save ([`counts`]). The
//! costs of register accesses and bus transfers are modelled from published measurements ([`bus`]).
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
mod state;
#[cfg(test)]
mod tests;
pub mod wire;
mod work;

pub use card::Card;
pub use counts::NicCounts;
pub use driver::{RxDriver, TxDriver};
pub use regs::Status;
pub use settings::{SettingError, Settings};
pub use state::Nic;
pub use wire::{End, wire};

use crate::{Caps, LINK_LEN, Port, PortCounts};
use buf::{Pool, PoolConfig, PoolError};
use bus::Bus;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Default number of frames that a wire holds in each direction: as many as the largest ring.
pub const WIRE_SLOTS: usize = 4096;

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
    let (need, have) = (usize::from(mtu) + LINK_LEN, pool.size().saturating_sub(pool.headroom()));
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
    if let Some(speed) = nic.settings.bits_a_second() {
        counts.link.set_speed(speed);
    }
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
