//! The card's registers that are more than a number: the interrupt's cause, mask and moderation (ICR, IMS, ITR).
//!
//! RDH, RDT, TDH and TDT are the ends of the descriptor rings ([`buf::ring::desc`]); ring sizes, receive and transmit control
//! are set once, by the opening. Bits are those of the 8254x manual, 13.4.17.

use crate::os::event::Event;
use clock::{Duration, Instant};
use stats::Counter;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// ICR: a transmit descriptor was written back.
pub const TXDW: u32 = 1;
/// ICR: the link's status changed.
pub const LSC: u32 = 1 << 2;
/// ICR: frames were missed.
pub const RXO: u32 = 1 << 6;
/// ICR: a receive descriptor was written back.
pub const RXT0: u32 = 1 << 7;

/// STATUS, as far as a driver wants it, and ICR as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Is there somebody at the other end of the wire (STATUS.LU)?
    pub link_up: bool,
    /// Causes since ICR was read last.
    pub cause: u32,
}

/// The interrupt of one card: raised by the card, or by what arrives on its wire while nobody steps it.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    cause: AtomicU32,
    /// Causes that interrupt; none: the card is polled.
    mask: AtomicU32,
    itr_us: AtomicU64,
    /// The line is asserted: ICR has not been read since.
    asserted: AtomicBool,
    /// When the next one may come (ITR).
    next_at: Mutex<Instant>,
    event: OnceLock<Event>,
    /// Interrupts delivered; counted under the mutex.
    count: Counter,
}

impl Interrupts {
    /// What a thread can sleep on, if the card interrupts.
    pub fn event(&self) -> Option<&Event> {
        self.event.get()
    }

    /// Makes the card interrupt for the causes in `mask` (IMS).
    pub fn enable(&self, mask: u32, event: Event) {
        let _ = self.event.set(event);
        self.mask.store(mask, Ordering::Release);
    }

    /// Microseconds between two interrupts at least.
    pub fn moderate(&self, itr_us: u64) {
        self.itr_us.store(itr_us, Ordering::Relaxed);
    }

    /// Interrupts delivered so far.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    fn is_wanted(&self) -> bool {
        self.cause.load(Ordering::Acquire) & self.mask.load(Ordering::Acquire) != 0
    }

    /// Something happened.
    pub fn raise(&self, cause: u32, now: Instant) {
        if self.cause.load(Ordering::Relaxed) & cause != cause {
            self.cause.fetch_or(cause, Ordering::AcqRel);
        }
        self.deliver(now);
    }

    /// Asserts the line if there is a cause for it and moderation allows it by now.
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

    /// When a cause that is held back by moderation will interrupt.
    pub fn next_event(&self) -> Option<Instant> {
        (self.is_wanted() && !self.is_asserted()).then(|| *self.lock())
    }

    /// Is the line asserted?
    #[inline(always)]
    pub fn is_asserted(&self) -> bool {
        self.asserted.load(Ordering::Acquire)
    }

    /// ICR, which reading clears.
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
