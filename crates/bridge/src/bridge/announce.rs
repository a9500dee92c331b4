//! Replicas: several bridges that are one tell each other what each has seen.
//!
//! A replica announces an address when it learns it or sees that it moved, and again each quarter of the table's timeout while it sees it
//! itself, so that the others do not forget it and learn what they missed. News say when that was, and who hears them late goes by that:
//! an address is forgotten everywhere when it is by who saw it, and nobody is told where it was by who slept meanwhile. Ports that were muted
//! and what was said about groups are announced once, in a queue of their own that addresses cannot fill.
//!
//! What finds no room is lost, and counted ([`Bridge::take_unsaid`]). Whom it was for is told so ([`Bridge::miss`]) and goes by what it has
//! seen itself: it floods where it went by hearsay. The others say all again ([`Bridge::say_again`]); until then frames for an address that
//! moved may go where the replica itself saw it last.

use super::Bridge;
use crate::{Cursor, Key, Kind, Learned, PortNo};
use clock::{Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;

/// Addresses that wait at most.
const ADDRESSES: usize = 1024;
/// Other news that wait at most.
const NEWS: usize = 256;
/// Entries that are looked at for saying them again, at a time.
const PAGE: usize = 64;
/// The table is said again at most this often, if news are lost.
const SOON: Duration = Duration::from_secs(1);
/// The longest message that is passed on: an Ethernet frame's payload.
const LONGEST: usize = 1500;

/// What a replica tells the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// An address was seen at a port, and when.
    At(Key, PortNo, Instant),
    /// A port is muted until then.
    Muted(PortNo, Instant),
    /// Somebody at a port has said who listens to which groups, or asked.
    Said(Arc<Said>),
}

impl News {
    /// What they are about.
    pub fn about(&self) -> About {
        match self {
            News::At(..) => About::Addresses,
            News::Muted(..) | News::Said(_) => About::Ports,
        }
    }
}

/// What news are about: each of the two waits apart from the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// Where addresses are.
    Addresses,
    /// Muted ports, and what was said at ports.
    Ports,
}

/// A message of IGMP, MLD or PIM.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub(super) from: PortNo,
    pub(super) vid: u16,
    pub(super) ethertype: u16,
    pub(super) packet: Box<[u8]>,
    pub(super) at: Instant,
}

/// News of one kind that wait, up to so many; and how many found no room.
#[derive(Debug)]
struct Queue {
    waiting: VecDeque<News>,
    most: usize,
    unsaid: u64,
}

impl Queue {
    fn new(most: usize) -> Queue {
        Queue { waiting: VecDeque::new(), most, unsaid: 0 }
    }

    fn room(&self) -> usize {
        self.most - self.waiting.len().min(self.most)
    }

    fn push(&mut self, news: News) {
        if self.room() > 0 {
            self.waiting.push_back(news);
        } else {
            self.unsaid += 1;
        }
    }
}

#[derive(Debug)]
pub(super) struct Announced {
    addresses: Queue,
    ports: Queue,
    /// How far the table was said again, and when it was to its end.
    again: Option<Cursor>,
    ended: Instant,
    /// Not only after a quarter: news were lost.
    soon: bool,
}

impl Announced {
    fn new() -> Announced {
        Announced {
            addresses: Queue::new(ADDRESSES),
            ports: Queue::new(NEWS),
            again: None,
            ended: Instant::ZERO,
            soon: false,
        }
    }

    pub fn note(&mut self, key: Key, port: PortNo, learned: Learned, now: Instant) {
        if matches!(learned, Learned::New | Learned::Moved(_)) {
            self.addresses.push(News::At(key, port, now));
        }
    }

    pub fn muted(&mut self, port: PortNo, until: Instant) {
        self.ports.push(News::Muted(port, until));
    }

    /// A message that came through `from` in VLAN `vid`: an IP packet without what stands behind it. One that is too long is lost.
    pub fn said(&mut self, from: PortNo, vid: u16, (ethertype, packet): (u16, &[u8]), at: Instant) {
        if packet.len() <= LONGEST && self.ports.room() > 0 {
            self.ports.push(News::Said(Arc::new(Said { from, vid, ethertype, packet: packet.into(), at })));
        } else {
            self.ports.unsaid += 1;
        }
    }

    fn of(&mut self, about: About) -> &mut Queue {
        match about {
            About::Addresses => &mut self.addresses,
            About::Ports => &mut self.ports,
        }
    }
}

impl Bridge {
    /// From now on what is learned can be taken by [`Bridge::take_announced`].
    pub fn announce(&mut self) {
        self.announced = Some(Announced::new());
    }

    /// What this replica has seen and not told yet.
    pub fn take_announced(&mut self) -> Option<News> {
        let announced = self.announced.as_mut()?;
        announced.ports.waiting.pop_front().or_else(|| announced.addresses.waiting.pop_front())
    }

    /// How many news found no room, since this was asked last. All other replicas are to [`miss`](Bridge::miss) them.
    pub fn take_unsaid(&mut self, about: About) -> u64 {
        self.announced.as_mut().map_or(0, |announced| std::mem::take(&mut announced.of(about).unsaid))
    }

    /// What another replica has seen; of a port that is not there any more, or an address seen before addresses were forgotten here, nothing.
    pub fn hear(&mut self, news: &News, now: Instant) {
        let port = match news {
            News::At(_, port, _) | News::Muted(port, _) => *port,
            News::Said(said) => said.from,
        };
        if !self.has(port) {
            return;
        }
        match news {
            News::At(_, _, at) if *at < self.forgot => {}
            News::At(key, port, at) => {
                let sticky = self.member(*port).is_some_and(|member| member.sticky);
                self.fdb.hear(*key, *port, sticky, *at, now);
            }
            News::Muted(port, until) if now < *until => self.mute_until(*port, *until),
            News::Muted(..) => {}
            News::Said(said) => self.overhear(said, now),
        }
    }

    /// News were lost on their way here: forgets addresses that it only heard of, or sends frames for groups to all until who listens has
    /// said so again.
    pub fn miss(&mut self, about: About, now: Instant) {
        match about {
            About::Addresses => drop(self.fdb.flush(|entry| entry.heard && entry.kind == Kind::Learned, now)),
            About::Ports => self.mistrust_listeners(now),
        }
    }

    /// Another replica has missed news: tells which ports are muted, as far as there is room, and soon the table.
    pub fn say_again(&mut self) {
        let Some(announced) = &mut self.announced else { return };
        announced.soon = true;
        let muted = (0..).zip(&self.extras).filter_map(|(port, extra)| Some((port, extra.muted?)));
        muted.take(announced.ports.room()).for_each(|(port, until)| announced.muted(port, until));
    }

    /// Says again what is seen here, a page at a time.
    pub fn announce_again(&mut self, now: Instant) {
        let quarter = self.fdb.timeout() / 4;
        let Some(announced) = &mut self.announced else { return };
        let pause = if announced.soon { SOON.min(quarter) } else { quarter };
        let from = match announced.again {
            Some(from) => from,
            None if now < announced.ended.after(pause) => return,
            None => {
                announced.soon = false;
                Cursor::default()
            }
        };
        if announced.addresses.room() < PAGE + 4 {
            return;
        }
        let fresh = |entry: &crate::Entry| {
            matches!(entry.kind, Kind::Learned | Kind::Sticky) && !entry.heard && entry.age < quarter
        };
        let page = self.fdb.page(from, PAGE, fresh, now);
        (announced.again, announced.ended) = (page.next, now);
        for entry in &page.entries {
            let at = Instant::from_nanos(now.nanos().saturating_sub(entry.age.as_nanos() as u64));
            announced.addresses.push(News::At(entry.key, entry.port, at));
        }
    }
}
