//! The table of flows.

use super::bounded::SearchPace;
use super::direction::{Both, Direction};
use super::flow::{Decision, Flow, FlowState, Volume};
use super::packet::{Event, Packet};
use clock::{Duration, Instant};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Proto;

/// Times without a packet after which a flow is forgotten. `IDLE_TCP` is for established TCP
/// connections (RFC 5382 5), `IDLE` for other protocols (RFC 4787 4.3), and `IDLE_CLOSED` for flows
/// that are closed, denied, or not established.
const IDLE_TCP: Duration = Duration::from_secs(124 * 60);
const IDLE: Duration = Duration::from_secs(5 * 60);
const IDLE_CLOSED: Duration = Duration::from_secs(30);
/// Number of packets after which a TCP connection counts as established, if both sides have sent at
/// least one: a handshake has three.
const ESTABLISHED: u64 = 3;
/// Value of [`Entry::closed`] once both sides have sent a FIN, or one side an RST.
const CLOSED: Both<bool> = Both { sent: true, received: true };

/// Identification of a flow, the same for both directions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    pub proto: Proto,
    pub station: SocketAddr,
    pub remote: SocketAddr,
}

impl Key {
    pub fn of(packet: &Packet, direction: Direction) -> Key {
        let (station, remote) = match direction {
            Direction::Sent => (packet.source, packet.destination),
            Direction::Received => (packet.destination, packet.source),
        };
        Key { proto: packet.proto, station, remote }
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub decision: Decision,
    /// True if the station sent the first packet.
    pub by_station: bool,
    /// True if the hook must decide again.
    is_stale: bool,
    /// True if a new connection with the same addresses and ports has begun after this one was
    /// closed.
    is_ended: bool,
    name: Option<Arc<str>>,
    started: Instant,
    used: Instant,
    volumes: Both<Volume>,
    /// For each direction: true once a FIN or RST has closed the flow in this direction.
    closed: Both<bool>,
}

impl Entry {
    pub fn new(decision: Decision, by_station: bool, name: Option<Arc<str>>, now: Instant) -> Entry {
        let (volumes, closed) = Default::default();
        let (is_stale, is_ended) = (false, false);
        Entry { decision, by_station, is_stale, is_ended, name, started: now, used: now, volumes, closed }
    }

    fn idle_max(&self, proto: Proto) -> Duration {
        let Both { sent, received } = self.volumes;
        let is_silent = sent.packets == 0 || received.packets == 0;
        let is_established = sent.packets + received.packets >= ESTABLISHED;
        match proto {
            _ if is_silent || self.closed == CLOSED || self.decision != Decision::Allow => IDLE_CLOSED,
            Proto::TCP if is_established => IDLE_TCP,
            Proto::TCP => IDLE_CLOSED,
            _ => IDLE,
        }
    }

    fn is_over(&self, proto: Proto, now: Instant) -> bool {
        self.is_ended || now.since(self.used) >= self.idle_max(proto)
    }

    /// Counts an admitted packet of `len` bytes, and records whether it closes the flow.
    pub fn count(&mut self, packet: &Packet, direction: Direction, len: u64) {
        let volume = self.volumes.get_mut(direction);
        volume.packets += 1;
        volume.bytes += len;
        match packet.event {
            Event::Nothing | Event::Opens => {}
            Event::HalfCloses => *self.closed.get_mut(direction) = true,
            Event::Resets => self.closed = CLOSED,
        }
    }
}

#[derive(Debug)]
pub(super) struct Flows {
    table: HashMap<Key, Entry>,
    most: usize,
    pace: SearchPace,
    generation: u64,
}

impl Flows {
    pub fn new(most: usize) -> Flows {
        Flows { table: HashMap::new(), most, pace: SearchPace::default(), generation: 0 }
    }

    /// Sets the maximum number of flows.
    pub fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// Returns the flow of a packet and records that the flow is in use. Returns `None` if the flow
    /// does not exist or has expired, or if the packet begins a new connection after the flow was
    /// closed. Also returns `None` for a packet from the station if the hook must decide, because a
    /// new decision was requested, or because the station opens a connection in a flow of the other
    /// side.
    pub fn find(&mut self, key: &Key, event: Event, direction: Direction, now: Instant) -> Option<&mut Entry> {
        let entry = self.table.get_mut(key)?;
        let is_next = event == Event::Opens && entry.closed == CLOSED;
        let is_sent = direction == Direction::Sent;
        let needs_hook = is_sent && (entry.is_stale || event == Event::Opens && !entry.by_station);
        if is_next || needs_hook || entry.is_over(key.proto, now) {
            entry.is_ended |= is_next;
            return None;
        }
        entry.used = now;
        Some(entry)
    }

    /// Returns the entry of a flow, even if the flow has expired.
    pub fn get(&mut self, key: &Key) -> Option<&mut Entry> {
        self.table.get_mut(key)
    }

    /// Returns whether the table has the flow `key` and its station opened it. The flow may have
    /// expired.
    pub fn is_by_station(&self, key: &Key) -> bool {
        self.table.get(key).is_some_and(|entry| entry.by_station)
    }

    /// Returns whether the remote end of `key` has opened the same flow as a station. Both ends are
    /// then stations behind the policy.
    pub fn is_reply(&self, key: &Key) -> bool {
        self.is_by_station(&Key { proto: key.proto, station: key.remote, remote: key.station })
    }

    /// Returns whether the flow `key` can be inserted: the table has space, or already has this
    /// flow. Removes expired flows from a full table.
    pub fn has_room(&mut self, key: &Key, now: Instant) -> bool {
        if self.table.len() < self.most || self.table.contains_key(key) {
            return true;
        }
        if self.pace.is_due(now) {
            self.table.retain(|key, entry| !entry.is_over(key.proto, now));
        }
        self.table.len() < self.most
    }

    /// Inserts a flow with the decision that the hook made in `generation`. If the flow exists and
    /// has not expired, it keeps its start time and its counts.
    pub fn insert(&mut self, key: Key, entry: Entry, generation: u64) {
        use std::collections::hash_map::Entry::{Occupied, Vacant};
        let is_stale = generation != self.generation;
        let entry = Entry { is_stale, ..entry };
        match self.table.entry(key) {
            Occupied(mut place) => {
                if place.get().is_over(key.proto, entry.used) {
                    place.insert(entry);
                } else {
                    let old = place.get_mut();
                    (old.decision, old.by_station, old.name) = (entry.decision, entry.by_station, entry.name);
                    (old.used, old.is_stale) = (entry.used, is_stale);
                }
            }
            Vacant(place) => _ = place.insert(entry),
        }
    }

    /// Returns a number that changes with each call of [`Flows::make_stale`].
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Requests new decisions of the hook about the flows that stations opened.
    pub fn make_stale(&mut self) {
        self.generation += 1;
        self.table.values_mut().filter(|entry| entry.by_station).for_each(|entry| entry.is_stale = true);
    }

    /// Returns the flows, oldest first.
    pub fn list(&self, now: Instant) -> Vec<FlowState> {
        let mut all: Vec<_> = self.table.iter().filter(|(key, entry)| !entry.is_over(key.proto, now)).collect();
        all.sort_by_key(|(key, entry)| (entry.started, key.station, key.remote));
        let state = |(key, entry): (&Key, &Entry)| FlowState {
            flow: Flow { protocol: key.proto, source: key.station, destination: key.remote, name: entry.name.clone() },
            decision: entry.decision,
            by_station: entry.by_station,
            sent: entry.volumes.sent,
            received: entry.volumes.received,
            age: now.since(entry.started),
            idle: now.since(entry.used),
        };
        all.into_iter().map(state).collect()
    }
}
