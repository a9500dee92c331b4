//! State shared by driver, card and observers: registers, settings, counters.

use super::bus::{self, Bus, Model};
use super::counts::NicCounts;
use super::regs::Status;
use super::settings::Settings;
use super::wire::Side;
use crate::os::event::Event;
use buf::Pool;
use clock::Instant;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A controller: the state shared by its driver, its card and observers.
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
    pub(in crate::nic) side: Option<Arc<Side>>,
    /// The card's link status (STATUS.LU).
    pub(in crate::nic) link_up: AtomicBool,
    /// The card's own buffers, into which it copies frames before they go onto the wire; `None` if
    /// it moves frames without copying them.
    pub(in crate::nic) fifo: Option<Pool>,
}

impl Nic {
    /// Enables interrupts for the causes in `mask`.
    pub(in crate::nic) fn enable_interrupts(&self, mask: u32) -> io::Result<()> {
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
