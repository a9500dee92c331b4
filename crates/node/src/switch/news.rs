//! Exchange of events between switch threads: from one replica of the bridge to the others.
//!
//! ```text
//! Bridge::take_announced   each turn of a thread puts its events into two rings for each other
//!                          thread: addresses into one, everything else into the other
//! Bridge::hear             each turn of the other thread applies them, as of their time: a worker
//!                          may have slept for hours in between
//! ```
//! If a ring is full, new events are lost and counted, and a flag beside the ring is set. The
//! receiver finds the flag in its next turn. It then flushes what it learned through events
//! ([`Bridge::miss`]) and requests that all threads send their events again
//! ([`Bridge::say_again`]); by then it has emptied the rings.

use bridge::{About, Bridge, News};
use buf::ring::{Consumer, Producer, ring};
use clock::Instant;
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of address events queued for a thread.
const ADDRESSES: usize = 1024;
/// Maximum number of other events queued for a thread.
const NEWS: usize = 256;

stats::counters! {
    /// Counters of the event exchange of a thread.
    pub struct NewsCounts at "bridge.news" {
        /// Events lost: no room, or too long; sent again later.
        lost,
        /// Times that addresses learned through events were flushed after lost events.
        missed_addresses,
        /// Times that multicast listeners were ignored for a while after lost events.
        missed_ports,
    }
}

/// Flags of lost events that the receiver has not noticed yet, and of a request to send everything
/// again.
#[derive(Debug, Default)]
struct Missed {
    addresses: AtomicBool,
    ports: AtomicBool,
    again: AtomicBool,
}

impl Missed {
    fn of(&self, about: About) -> &AtomicBool {
        match about {
            About::Addresses => &self.addresses,
            About::Ports => &self.ports,
        }
    }

    fn any(&self) -> bool {
        self.addresses.load(Ordering::Acquire) || self.ports.load(Ordering::Acquire)
    }
}

/// Sending end to another thread.
struct Mouth {
    addresses: Producer<News>,
    ports: Producer<News>,
    missed: Arc<Missed>,
}

/// Receiving end from another thread.
struct Ear {
    addresses: Consumer<News>,
    ports: Consumer<News>,
    missed: Arc<Missed>,
}

/// Creates both ends, with room for this many address events and other events.
fn way(addresses: usize, other: usize) -> (Mouth, Ear) {
    let ((to_addresses, addresses), (to_ports, ports)) = (ring(addresses), ring(other));
    let missed = Arc::<Missed>::default();
    let mouth = Mouth { addresses: to_addresses, ports: to_ports, missed: missed.clone() };
    (mouth, Ear { addresses, ports, missed })
}

impl Mouth {
    /// Queues an event for the other thread. Returns `false` if it is lost.
    fn tell(&mut self, news: &News) -> bool {
        let ring = match news.about() {
            About::Addresses => &mut self.addresses,
            About::Ports => &mut self.ports,
        };
        let told = ring.push(news.clone()).is_ok();
        if !told {
            self.lose(news.about());
        }
        told
    }

    fn lose(&mut self, about: About) {
        self.missed.of(about).store(true, Ordering::Release);
    }

    /// Returns whether the other thread requested everything again, and clears the request.
    fn is_to_say_again(&self) -> bool {
        let again = &self.missed.again;
        again.load(Ordering::Relaxed) && again.swap(false, Ordering::AcqRel)
    }
}

impl Ear {
    /// Receives the events. Returns whether addresses were flushed, from whichever thread they had
    /// come.
    fn hear(&mut self, bridge: &mut Bridge, counts: &NewsCounts, now: Instant) -> bool {
        self.ports.pop_into(NEWS, |news| bridge.hear(&news, now));
        self.addresses.pop_into(ADDRESSES, |news| bridge.hear(&news, now));
        if !self.missed.any() {
            return false;
        }
        let mut forgot = false;
        for (about, times) in [(About::Addresses, &counts.missed_addresses), (About::Ports, &counts.missed_ports)] {
            if self.missed.of(about).swap(false, Ordering::AcqRel) {
                bridge.miss(about, now);
                times.bump();
                self.ask_again();
                forgot |= about == About::Addresses;
            }
        }
        forgot
    }

    fn ask_again(&self) {
        self.missed.again.store(true, Ordering::Release);
    }
}

/// Event exchange of a thread with all others.
#[derive(Default)]
pub struct Newswire {
    to: Vec<Mouth>,
    from: Vec<Ear>,
    pub counts: NewsCounts,
}

impl Newswire {
    /// Creates one for each of `lanes` threads.
    pub fn among(lanes: usize) -> Vec<Newswire> {
        let mut all: Vec<Newswire> = (0..lanes).map(|_| Newswire::default()).collect();
        for one in 0..lanes {
            for other in (0..lanes).filter(|other| *other != one) {
                let (mouth, ear) = way(ADDRESSES, NEWS);
                if let Some(lane) = all.get_mut(one) {
                    lane.to.push(mouth);
                }
                if let Some(lane) = all.get_mut(other) {
                    lane.from.push(ear);
                }
            }
        }
        all
    }

    /// Sends the events of this thread's replica, and applies those of the others.
    pub fn exchange(&mut self, bridge: &mut Bridge, now: Instant) {
        let Newswire { to, from, counts } = self;
        let forgot: u32 = from.iter_mut().map(|ear| u32::from(ear.hear(bridge, counts, now))).sum();
        if forgot > 0 {
            from.iter().for_each(Ear::ask_again);
        }
        for mouth in &*to {
            if mouth.is_to_say_again() {
                bridge.say_again();
            }
        }
        bridge.announce_again(now);
        while let Some(news) = bridge.take_announced() {
            let lost = to.iter_mut().map(|mouth| u64::from(!mouth.tell(&news))).sum();
            counts.lost.add(lost);
        }
        for about in [About::Addresses, About::Ports] {
            let lost = bridge.take_unsaid(about);
            if lost > 0 {
                counts.lost.add(lost);
                to.iter_mut().for_each(|mouth| mouth.lose(about));
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
