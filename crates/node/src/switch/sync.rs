//! Exchange of events between switch threads, from one replica of the bridge to the others.
//!
//! ```text
//! Bridge::take_event   each turn of a thread puts its events into two rings for each other
//!                      thread: address events into one ring, all other events into the second
//! Bridge::apply_event  each turn of the other thread applies the events as of the time at which
//!                      they occurred: a worker may have slept for hours in between
//! ```
//! If a ring is full, new events are lost and counted, and a flag next to the ring is set. The
//! receiver reads the flag in its next turn, after it has emptied the rings. It then flushes what
//! it learned through events ([`Bridge::on_events_lost`]), and requests that all threads send their
//! events again ([`Bridge::announce_all`]).

use bridge::{Bridge, EventKind, SyncEvent};
use buf::ring::{Consumer, Producer, ring};
use clock::Instant;
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of address events queued for another thread.
const ADDRESSES: usize = 1024;
/// Maximum number of events other than address events queued for another thread.
const EVENTS_MAX: usize = 256;

stats::counters! {
    /// Counters of the event exchange of a thread.
    pub struct SyncCounts at "bridge.sync" {
        /// Events lost because a ring was full or the event too long; sent again later.
        lost,
        /// Times that addresses learned through events were flushed after lost events.
        missed_addresses,
        /// Times that multicast listeners were ignored for some time after lost events.
        missed_ports,
    }
}

/// Flags for lost events that the receiver has not handled yet, and for a request to send all
/// events again.
#[derive(Debug, Default)]
struct Missed {
    addresses: AtomicBool,
    ports: AtomicBool,
    again: AtomicBool,
}

impl Missed {
    fn of(&self, about: EventKind) -> &AtomicBool {
        match about {
            EventKind::Addresses => &self.addresses,
            EventKind::Ports => &self.ports,
        }
    }

    fn any(&self) -> bool {
        self.addresses.load(Ordering::Acquire) || self.ports.load(Ordering::Acquire)
    }
}

/// Sending end of the rings to another thread.
struct EventSender {
    addresses: Producer<SyncEvent>,
    ports: Producer<SyncEvent>,
    missed: Arc<Missed>,
}

/// Receiving end of the rings from another thread.
struct EventReceiver {
    addresses: Consumer<SyncEvent>,
    ports: Consumer<SyncEvent>,
    missed: Arc<Missed>,
}

/// Creates both ends of the rings from one thread to another, for `addresses` address events and
/// `other` other events.
fn channel(addresses: usize, other: usize) -> (EventSender, EventReceiver) {
    let ((to_addresses, addresses), (to_ports, ports)) = (ring(addresses), ring(other));
    let missed = Arc::<Missed>::default();
    let sender = EventSender { addresses: to_addresses, ports: to_ports, missed: missed.clone() };
    (sender, EventReceiver { addresses, ports, missed })
}

impl EventSender {
    /// Queues an event for the other thread. Returns `false` if it is lost.
    fn send(&mut self, sync: &SyncEvent) -> bool {
        let ring = match sync.kind() {
            EventKind::Addresses => &mut self.addresses,
            EventKind::Ports => &mut self.ports,
        };
        let reported = ring.push(sync.clone()).is_ok();
        if !reported {
            self.lose(sync.kind());
        }
        reported
    }

    fn lose(&mut self, about: EventKind) {
        self.missed.of(about).store(true, Ordering::Release);
    }

    /// Returns whether the other thread has requested that all events be sent again. Clears the
    /// request.
    fn take_resend_request(&self) -> bool {
        let again = &self.missed.again;
        again.load(Ordering::Relaxed) && again.swap(false, Ordering::AcqRel)
    }
}

impl EventReceiver {
    /// Applies the queued events. Returns whether address events were lost; if so, the addresses
    /// learned through events from any thread have been flushed.
    fn receive(&mut self, bridge: &mut Bridge, counts: &SyncCounts, now: Instant) -> bool {
        self.ports.pop_into(EVENTS_MAX, |sync| bridge.apply_event(&sync, now));
        self.addresses.pop_into(ADDRESSES, |sync| bridge.apply_event(&sync, now));
        if !self.missed.any() {
            return false;
        }
        let mut forgot = false;
        for (about, times) in
            [(EventKind::Addresses, &counts.missed_addresses), (EventKind::Ports, &counts.missed_ports)]
        {
            if self.missed.of(about).swap(false, Ordering::AcqRel) {
                bridge.on_events_lost(about, now);
                times.bump();
                self.request_resend();
                forgot |= about == EventKind::Addresses;
            }
        }
        forgot
    }

    fn request_resend(&self) {
        self.missed.again.store(true, Ordering::Release);
    }
}

/// Event exchange of a thread with all others.
#[derive(Default)]
pub struct SyncExchange {
    to: Vec<EventSender>,
    from: Vec<EventReceiver>,
    pub counts: SyncCounts,
}

impl SyncExchange {
    /// Creates one exchange per thread for `threads` threads, connected with each other.
    pub fn among(threads: usize) -> Vec<SyncExchange> {
        let mut all: Vec<SyncExchange> = (0..threads).map(|_| SyncExchange::default()).collect();
        for one in 0..threads {
            for other in (0..threads).filter(|other| *other != one) {
                let (sender, receiver) = channel(ADDRESSES, EVENTS_MAX);
                if let Some(thread) = all.get_mut(one) {
                    thread.to.push(sender);
                }
                if let Some(thread) = all.get_mut(other) {
                    thread.from.push(receiver);
                }
            }
        }
        all
    }

    /// Sends the events of this thread's replica, and applies the events of the other threads.
    pub fn exchange(&mut self, bridge: &mut Bridge, now: Instant) {
        let SyncExchange { to, from, counts } = self;
        let forgot: u32 = from.iter_mut().map(|receiver| u32::from(receiver.receive(bridge, counts, now))).sum();
        if forgot > 0 {
            from.iter().for_each(EventReceiver::request_resend);
        }
        for sender in &*to {
            if sender.take_resend_request() {
                bridge.announce_all();
            }
        }
        bridge.announce_again(now);
        while let Some(sync) = bridge.take_event() {
            let lost = to.iter_mut().map(|sender| u64::from(!sender.send(&sync))).sum();
            counts.lost.add(lost);
        }
        for about in [EventKind::Addresses, EventKind::Ports] {
            let lost = bridge.take_lost_events(about);
            if lost > 0 {
                counts.lost.add(lost);
                to.iter_mut().for_each(|sender| sender.lose(about));
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
