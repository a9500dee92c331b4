//! Replicas: several bridge instances, one per thread, that act as one bridge and exchange events.
//!
//! A replica announces an address when it learns the address or detects that it moved. While frames
//! from the address arrive, the replica announces it again every quarter of the table's timeout.
//! This refreshes the entry in the other replicas and compensates for lost events. An event
//! contains the time at which the frame was received, and the other replicas store that time. An
//! address therefore expires everywhere at the same time, and a replica that slept does not apply
//! an outdated location. Muted ports and multicast messages are announced once, in a separate queue
//! that address events cannot fill.
//!
//! An event that does not fit in its queue is lost and counted ([`Bridge::take_lost_events`]). The
//! other replicas are then notified ([`Bridge::on_events_lost`]). They flush the addresses learned
//! from events, so that frames for these addresses are flooded. The replica whose events were lost
//! announces everything again ([`Bridge::announce_all`]). Until then, another replica may send
//! frames for a moved address to the old port, because it keeps the addresses of frames that it has
//! received itself.

use super::Bridge;
use crate::{Cursor, Key, Kind, Learned, PortNo};
use clock::{Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of queued address events.
const ADDRESSES: usize = 1024;
/// Maximum number of queued events of other kinds.
const EVENTS_MAX: usize = 256;
/// Number of table entries scanned per step for re-announcement.
const PAGE: usize = 64;
/// Minimum time between two re-announcements of the table after lost events.
const SOON: Duration = Duration::from_secs(1);
/// Maximum length of a multicast message in an event, in bytes: the payload of an Ethernet frame.
const LONGEST: usize = 1500;

/// Event that a replica sends to the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncEvent {
    /// A frame from the address was received on the port at the given time.
    At(Key, PortNo, Instant),
    /// A port is muted until the given time.
    Muted(PortNo, Instant),
    /// A multicast report, query or router hello arrived on a port.
    Said(Arc<GroupMessage>),
}

impl SyncEvent {
    /// Returns the queue that the event belongs to.
    pub fn kind(&self) -> EventKind {
        match self {
            SyncEvent::At(..) => EventKind::Addresses,
            SyncEvent::Muted(..) | SyncEvent::Said(_) => EventKind::Ports,
        }
    }
}

/// Class of an event. Each class has a separate queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Locations of addresses.
    Addresses,
    /// Muted ports and multicast messages.
    Ports,
}

/// An IGMP, MLD or PIM message.
#[derive(Debug, PartialEq, Eq)]
pub struct GroupMessage {
    pub(super) from: PortNo,
    pub(super) vid: u16,
    pub(super) ethertype: u16,
    pub(super) packet: Box<[u8]>,
    pub(super) at: Instant,
}

/// Bounded queue of events of one class, with a count of the events that did not fit.
#[derive(Debug)]
struct Queue {
    waiting: VecDeque<SyncEvent>,
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

    fn push(&mut self, events: SyncEvent) {
        if self.room() > 0 {
            self.waiting.push_back(events);
        } else {
            self.unsaid += 1;
        }
    }
}

#[derive(Debug)]
pub(super) struct Announced {
    addresses: Queue,
    ports: Queue,
    /// Position of the re-announcement in the table; `None` between two re-announcements.
    again: Option<Cursor>,
    /// Time when the last re-announcement finished.
    ended: Instant,
    /// True if events were lost. The next re-announcement then does not wait for a quarter of the
    /// timeout.
    soon: bool,
}

impl Announced {
    fn new() -> Announced {
        Announced {
            addresses: Queue::new(ADDRESSES),
            ports: Queue::new(EVENTS_MAX),
            again: None,
            ended: Instant::ZERO,
            soon: false,
        }
    }

    pub fn note(&mut self, key: Key, port: PortNo, learned: Learned, now: Instant) {
        if matches!(learned, Learned::New | Learned::Moved(_)) {
            self.addresses.push(SyncEvent::At(key, port, now));
        }
    }

    pub fn muted(&mut self, port: PortNo, until: Instant) {
        self.ports.push(SyncEvent::Muted(port, until));
    }

    /// Queues a message received on `from` in VLAN `vid`. The message is an IP packet without
    /// padding. If it is longer than `LONGEST`, it is counted as lost.
    pub fn note_message(&mut self, from: PortNo, vid: u16, (ethertype, packet): (u16, &[u8]), at: Instant) {
        if packet.len() <= LONGEST && self.ports.room() > 0 {
            self.ports.push(SyncEvent::Said(Arc::new(GroupMessage {
                from,
                vid,
                ethertype,
                packet: packet.into(),
                at,
            })));
        } else {
            self.ports.unsaid += 1;
        }
    }

    fn of(&mut self, about: EventKind) -> &mut Queue {
        match about {
            EventKind::Addresses => &mut self.addresses,
            EventKind::Ports => &mut self.ports,
        }
    }
}

impl Bridge {
    /// Starts to queue events for other replicas ([`Bridge::take_event`]).
    pub fn announce(&mut self) {
        self.announced = Some(Announced::new());
    }

    /// Returns the next event for the other replicas.
    pub fn take_event(&mut self) -> Option<SyncEvent> {
        let announced = self.announced.as_mut()?;
        announced.ports.waiting.pop_front().or_else(|| announced.addresses.waiting.pop_front())
    }

    /// Returns the number of events lost since the last call. If it is not 0, the caller must call
    /// [`Bridge::on_events_lost`] on all other replicas.
    pub fn take_lost_events(&mut self, about: EventKind) -> u64 {
        self.announced.as_mut().map_or(0, |announced| std::mem::take(&mut announced.of(about).unsaid))
    }

    /// Applies an event from another replica. Ignores events for removed ports, and events about
    /// addresses seen before the last flush.
    pub fn apply_event(&mut self, events: &SyncEvent, now: Instant) {
        let port = match events {
            SyncEvent::At(_, port, _) | SyncEvent::Muted(port, _) => *port,
            SyncEvent::Said(said) => said.from,
        };
        if !self.has(port) {
            return;
        }
        match events {
            SyncEvent::At(_, _, at) if *at < self.forgot => {}
            SyncEvent::At(key, port, at) => {
                let sticky = self.member(*port).is_some_and(|member| member.sticky);
                self.fdb.learn_from_event(*key, *port, sticky, *at, now);
            }
            SyncEvent::Muted(port, until) if now < *until => self.mute_until(*port, *until),
            SyncEvent::Muted(..) => {}
            SyncEvent::Said(said) => self.apply_message(said, now),
        }
    }

    /// Handles the loss of another replica's events. If address events were lost, flushes the
    /// addresses learned from events. Otherwise sends multicast frames to all ports until listeners
    /// have reported again.
    pub fn on_events_lost(&mut self, about: EventKind, now: Instant) {
        match about {
            EventKind::Addresses => drop(self.fdb.flush(|entry| entry.heard && entry.kind == Kind::Learned, now)),
            EventKind::Ports => self.mistrust_listeners(now),
        }
    }

    /// Handles the loss of this replica's events: announces as many muted ports as fit in the
    /// queue, and soon afterwards all addresses in the table.
    pub fn announce_all(&mut self) {
        let Some(announced) = &mut self.announced else { return };
        announced.soon = true;
        let muted = (0..).zip(&self.extras).filter_map(|(port, extra)| Some((port, extra.muted?)));
        muted.take(announced.ports.room()).for_each(|(port, until)| announced.muted(port, until));
    }

    /// Announces the addresses learned by this replica again, one page of the table at a time.
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
            announced.addresses.push(SyncEvent::At(entry.key, entry.port, at));
        }
    }
}
