//! Registers of the card that are more than a plain number: interrupt cause, mask and moderation
//! (ICR, IMS, ITR).
//!
//! RDH, RDT, TDH and TDT are the head and tail indices of the descriptor rings
//! ([`buf::ring::desc`]). Ring sizes and the receive and transmit control registers are set once,
//! when the port is opened. The bits are those of section 13.4.17 of the 8254x manual.

use crate::os::event::Event;
use clock::{Duration, Instant};
use stats::Counter;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Bit of ICR: a transmit descriptor was written back.
pub const TXDW: u32 = 1;
/// Bit of ICR: the link status changed.
pub const LSC: u32 = 1 << 2;
/// Bit of ICR: frames were missed.
pub const RXO: u32 = 1 << 6;
/// Bit of ICR: a receive descriptor was written back.
pub const RXT0: u32 = 1 << 7;

/// Contents of ICR, and of STATUS as far as a driver uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// True if there is a peer at the other end of the wire (STATUS.LU).
    pub link_up: bool,
    /// Interrupt causes recorded since ICR was last read.
    pub cause: u32,
}

/// The interrupt line of one card. The card raises it. While the card is not running, the card at
/// the other end of the wire raises it.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    cause: AtomicU32,
    /// Causes for which the line is raised (IMS); 0 if the card is polled.
    mask: AtomicU32,
    itr_us: AtomicU64,
    /// True while the interrupt line is asserted, which it is until ICR is read.
    asserted: AtomicBool,
    /// Earliest time of the next interrupt (ITR).
    next_at: Mutex<Instant>,
    event: OnceLock<Event>,
    /// Number of interrupts delivered, counted under the mutex.
    count: Counter,
}

impl Interrupts {
    /// Returns the event on which a thread can sleep; `None` if interrupts are off.
    pub fn event(&self) -> Option<&Event> {
        self.event.get()
    }

    /// Enables interrupts for the causes in `mask` (IMS).
    pub fn enable(&self, mask: u32, event: Event) {
        let _ = self.event.set(event);
        self.mask.store(mask, Ordering::Release);
    }

    /// Sets the minimum time between two interrupts, in microseconds.
    pub fn moderate(&self, itr_us: u64) {
        self.itr_us.store(itr_us, Ordering::Relaxed);
    }

    /// Returns the number of interrupts delivered so far.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    fn is_wanted(&self) -> bool {
        self.cause.load(Ordering::Acquire) & self.mask.load(Ordering::Acquire) != 0
    }

    /// Records an interrupt cause, and delivers an interrupt if this is allowed.
    pub fn raise(&self, cause: u32, now: Instant) {
        if self.cause.load(Ordering::Relaxed) & cause != cause {
            self.cause.fetch_or(cause, Ordering::AcqRel);
        }
        self.deliver(now);
    }

    /// Asserts the interrupt line if an enabled cause is recorded and moderation allows an
    /// interrupt at `now`.
    pub fn deliver(&self, now: Instant) {
        if !self.is_wanted() || self.is_asserted() {
            return;
        }
        let mut next_at = self.lock();
        if now < *next_at || self.asserted.swap(true, Ordering::AcqRel) {
            return;
        }
        *next_at = now.after(Duration::from_micros(self.itr_us.load(Ordering::Relaxed)));
        self.count.bump();
        if let Some(event) = self.event.get() {
            event.raise();
        }
    }

    /// Returns the time at which an interrupt that moderation holds back is delivered; `None` if
    /// there is none.
    pub fn next_event(&self) -> Option<Instant> {
        (self.is_wanted() && !self.is_asserted()).then(|| *self.lock())
    }

    /// Returns whether the interrupt line is asserted.
    #[inline(always)]
    pub fn is_asserted(&self) -> bool {
        self.asserted.load(Ordering::Acquire)
    }

    /// Reads ICR, which clears it.
    pub fn read_cause(&self) -> u32 {
        if let Some(event) = self.event.get()
            && self.is_asserted()
        {
            event.clear();
        }
        self.asserted.store(false, Ordering::Release);
        self.cause.swap(0, Ordering::AcqRel)
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.next_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
