//! What lanes tell each other of what they have seen: news from one replica of the bridge to the others.
//!
//! ```text
//!  Bridge::take_announced   a lane's news, at each of its turns, into a ring for each other lane: addresses into one, the rest into another
//!  Bridge::hear             the other lane's turn; a worker may have slept for hours
//! ```
//! A ring that is full loses what is newest, counted. Whom it was for finds that noted beside the ring when it comes to its turn, and forgets what
//! it has by hearsay ([`Bridge::miss`]) and asks for it again ([`Bridge::say_again`]): then there is room.

use bridge::{About, Bridge, News};
use buf::ring::{Consumer, Producer, ring};
use clock::Instant;
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};

/// Addresses that may wait for a lane.
const ADDRESSES: usize = 1024;
/// Other news that may wait for a lane.
const NEWS: usize = 256;

stats::counters! {
    /// What a lane told other lanes, and heard.
    pub struct NewsCounts at "bridge.news" {
        /// News lost: there was no room for them, or they were too long; told again later.
        lost,
        /// Times that what was heard of addresses was forgotten, as news had been lost.
        missed_addresses,
        /// Times that listeners to groups were not gone by for a while, as news had been lost.
        missed_ports,
    }
}

/// Was something lost on this way that its reader has not noticed yet? And is it asked to say all again?
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

/// The way to another lane.
struct Mouth {
    addresses: Producer<News>,
    ports: Producer<News>,
    missed: Arc<Missed>,
}

/// The way from another lane.
struct Ear {
    addresses: Consumer<News>,
    ports: Consumer<News>,
    missed: Arc<Missed>,
}

/// With room for so many addresses and so much else.
fn way(addresses: usize, other: usize) -> (Mouth, Ear) {
    let ((to_addresses, addresses), (to_ports, ports)) = (ring(addresses), ring(other));
    let missed = Arc::<Missed>::default();
    let mouth = Mouth { addresses: to_addresses, ports: to_ports, missed: missed.clone() };
    (mouth, Ear { addresses, ports, missed })
}

impl Mouth {
    /// `false`: it is lost.
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

    /// Does the other lane ask for all again? Once.
    fn is_to_say_again(&self) -> bool {
        let again = &self.missed.again;
        again.load(Ordering::Relaxed) && again.swap(false, Ordering::AcqRel)
    }
}

impl Ear {
    /// Says whether addresses were forgotten, whoever had told of them.
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

/// A lane's way to all others, for news.
#[derive(Default)]
pub struct Newswire {
    to: Vec<Mouth>,
    from: Vec<Ear>,
    pub counts: NewsCounts,
}

impl Newswire {
    /// One for each of so many lanes.
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

    /// Tells the others what this lane's replica has seen, and the replica what the others have.
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
