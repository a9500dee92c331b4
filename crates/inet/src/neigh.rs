//! Neighbor table: maps (interface, address) to a MAC address and a state.
//!
//! ```text
//!              requested          answered           max_age         used: unicast request
//!   (nothing) -----------> Incomplete ------> Reachable ------> Stale --------------------> Probe
//!                  no answer in maxtries seconds: removed      answered: Reachable, else removed
//! ```
//! Packets wait in an Incomplete entry, at most `maxhold` of them, and the oldest is dropped first
//! (RFC 1122 2.3.2.2). Permanent entries are configured. The size of the table is limited. An entry
//! is idle if it is Stale or if this host has never sent to the neighbor. A new entry evicts the
//! idle entry that has been unused for the longest time. Idle entries are in a separate queue, so
//! that a flood which keeps the table full costs a few comparisons per packet instead of a scan of
//! the table. Permanent neighbors and neighbors in use are not in the queue, so a flood of unknown
//! stations does not evict them. The flood does not keep out new neighbors either, since its own
//! entries are evicted first.
//!
//! A scan of an attached subnet makes this host resolve addresses that do not exist (RFC 6583). The
//! cost of such a scan is limited in three ways:
//!
//! - Incomplete entries fill at most half of the table. Beyond that, a new one replaces the oldest.
//! - In a full table, an Incomplete entry that has had no answer for a second is removed before an
//!   idle one. To store a host that has sent us something, any Incomplete entry is removed (RFC
//!   6583 7).
//! - All waiting packets together occupy at most 1 / [`SHARE`] of the buffer pool, and less when
//!   fewer than 1 / [`RESERVE`] of its buffers are free: these are reserved for ARP, neighbor
//!   discovery and other frames. Beyond that, the packet of the oldest Incomplete entry is dropped
//!   for a new packet. The entry itself stays, so that a late answer still resolves the address.
//!
//! ARP and neighbor discovery each have their own table of this type. The module `advert` defines
//! the effect of neighbor advertisements on an entry.

use crate::iface::IfaceId;
use buf::{Frame, Pool};
use clock::{Duration, Instant};
use stats::DropReason;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::Mac;
use wire::hash::{Key, Keyed};

/// Address type of a table: IPv4 (ARP) or IPv6 (neighbor discovery).
pub trait Address: Copy + Eq + Ord + Hash + Debug {}

impl Address for Ipv4Addr {}
impl Address for Ipv6Addr {}

/// State of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// A request was sent but has not been answered yet.
    Incomplete,
    /// The neighbor was confirmed recently.
    Reachable,
    /// The neighbor was confirmed long ago, and the entry has not been used since.
    Stale,
    /// The neighbor was confirmed long ago; the entry is in use and is being confirmed again.
    Probe,
    /// The entry was set by configuration.
    Permanent,
}

/// An entry of the table.
#[derive(Debug)]
pub struct Entry {
    /// MAC address; zero while Incomplete.
    pub mac: Mac,
    /// State of resolution.
    pub state: State,
    /// Time at which the neighbor was last confirmed or a request was last sent to it.
    pub since: Instant,
    /// Number of requests sent without an answer.
    pub tries: u32,
    /// Time of the last use for sending; [`Instant::ZERO`] if never.
    pub used: Instant,
    pending: VecDeque<Frame>,
    place: Option<Place>, // position in the idle queue; `None` if the entry is not idle
    serial: u64,          // key in the queues of Incomplete entries
}

/// Position in the idle queue: time of last use, then a sequence number.
type Place = (Instant, u64);

impl Entry {
    fn new(mac: Mac, state: State, now: Instant, used: Instant) -> Entry {
        Entry { mac, state, since: now, tries: 0, used, pending: VecDeque::new(), place: None, serial: 0 }
    }

    /// Returns whether the entry can be evicted for a new one. Incomplete entries are in another
    /// queue and are not idle.
    fn is_idle(&self) -> bool {
        self.state == State::Stale || self.state == State::Reachable && self.used == Instant::ZERO
    }
}

/// An entry as listed by commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor<A = Ipv4Addr> {
    /// Interface by which the neighbor is reached.
    pub iface: IfaceId,
    /// IP address.
    pub addr: A,
    /// MAC address; zero while unresolved.
    pub mac: Mac,
    /// State of resolution.
    pub state: State,
    /// Number of packets waiting for the neighbor's MAC address.
    pub pending: usize,
    /// Time of the last change of state, confirmation or request.
    pub since: Instant,
}

/// Outcome of [`Table::resolve`] for a packet.
#[derive(Debug)]
pub enum Resolved {
    /// The packet can be sent to this MAC address.
    To(Frame, Mac),
    /// The packet waits in the entry. The first packet for an address starts the resolution.
    /// [`Table::take_ended`] returns the packets that were dropped to make space.
    Waits {
        /// True if the caller must send a request.
        ask: bool,
    },
    /// The packet must be dropped: the table has no space for another entry.
    Full(Frame),
}

/// An event reported by [`Table::expire`].
#[derive(Debug)]
pub enum Expired<A = Ipv4Addr> {
    /// A request must be sent: by unicast to the MAC address if present, otherwise by broadcast or
    /// multicast.
    Ask(IfaceId, A, Option<Mac>),
    /// Resolution failed, and these packets must be dropped.
    Dead(IfaceId, A, VecDeque<Frame>),
    /// A Reachable entry became Stale.
    Aged,
}

/// Outcome of storing the MAC address from a received message.
#[derive(Debug)]
pub enum Learned {
    /// Nothing was stored, for example because there is no entry and none may be created.
    Ignored,
    /// The entry already had this MAC address.
    Same,
    /// The entry was created or resolved, is no longer Stale, or has another MAC address. The held
    /// packets can be sent.
    Changed {
        /// Packets held for the neighbor.
        pending: VecDeque<Frame>,
        /// True if the entry had another MAC address before.
        moved: bool,
        /// True if there was no entry before.
        created: bool,
    },
    /// The entry is permanent and stays unchanged.
    Permanent,
}

/// Limits of the table. The caller reads them from the sysctls for each operation.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Maximum number of entries.
    pub limit: usize,
    /// Maximum number of packets held in one entry.
    pub hold: usize,
    /// Maximum number of packets held in all entries together; 0 selects 1/[`SHARE`] of the pool.
    pub hold_all: usize,
    /// Number of requests after which resolution fails.
    pub tries: u32,
    /// Time after which a confirmed entry becomes Stale.
    pub max_age: Duration,
}

const RETRY: Duration = Duration::from_secs(1);
/// Minimum time between two scans of the table by [`Table::expire`]. Without it, an attacker who
/// scans a subnet would cause one scan per packet.
const WALK: Duration = Duration::from_millis(10);
/// Divisor of the pool size: held packets occupy at most 1/`SHARE` of the pool.
pub const SHARE: usize = 8;
/// Divisor of the pool size: 1/`RESERVE` of the pool is kept free of held packets.
pub const RESERVE: usize = 16;

/// Keys of the idle entries; the key that has been unused for the longest time is first.
struct Idle<A> {
    queue: BTreeMap<Place, (IfaceId, A)>,
    came: u64,
}

impl<A: Address> Idle<A> {
    fn new() -> Idle<A> {
        Idle { queue: BTreeMap::new(), came: 0 }
    }

    /// Inserts `entry` into the idle queue, after the entries that were last used at the same time.
    /// Removes it from the queue if it is not idle.
    fn place(&mut self, key: (IfaceId, A), entry: &mut Entry) {
        self.take_out(entry);
        if entry.is_idle() {
            self.came += 1;
            entry.place = Some((entry.used, self.came));
            self.queue.insert((entry.used, self.came), key);
        }
    }

    #[inline(always)]
    fn take_out(&mut self, entry: &mut Entry) {
        if let Some(place) = entry.place.take() {
            self.queue.remove(&place);
        }
    }
}

/// Keys of the Incomplete entries by serial number; the entry that has been unresolved for the
/// longest time is first.
struct PendingRequest<A> {
    all: BTreeMap<u64, (Instant, (IfaceId, A))>,
    /// Entries with held packets, by serial number.
    holding: BTreeMap<u64, (IfaceId, A)>,
    serial: u64,
}

impl<A: Address> PendingRequest<A> {
    fn new() -> PendingRequest<A> {
        PendingRequest { all: BTreeMap::new(), holding: BTreeMap::new(), serial: 0 }
    }

    fn add(&mut self, key: (IfaceId, A), now: Instant) -> u64 {
        self.serial += 1;
        self.all.insert(self.serial, (now, key));
        self.serial
    }

    fn take_out(&mut self, entry: &Entry) {
        self.all.remove(&entry.serial);
        self.holding.remove(&entry.serial);
    }
}

/// Neighbor table of a stack.
pub struct Table<A = Ipv4Addr> {
    entries: HashMap<(IfaceId, A), Entry, Keyed>,
    idle: Idle<A>,
    requested: PendingRequest<A>,
    next: Instant,
    held: usize,
    evicted: u64,
    /// Last changes of MAC addresses, at most [`MOVES_MAX`].
    moves: VecDeque<Moved<A>>,
    ended: Vec<(Frame, DropReason)>,
}

/// Number of changes of MAC addresses that a table keeps for [`Table::take_moves`].
const MOVES_MAX: usize = 16;

/// Change of the MAC address of a neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved<A> {
    /// Interface by which the neighbor is reached.
    pub iface: IfaceId,
    /// IP address.
    pub addr: A,
    /// MAC address before the change.
    pub from: Mac,
    /// MAC address after the change.
    pub to: Mac,
}

impl<A: Address> Table<A> {
    /// Creates an empty table that hashes its entries with `key`.
    pub fn new(key: Key) -> Table<A> {
        let entries = HashMap::with_hasher(Keyed(key));
        let (idle, requested) = (Idle::new(), PendingRequest::new());
        Table {
            entries,
            idle,
            requested,
            next: Instant::NEVER,
            held: 0,
            evicted: 0,
            moves: VecDeque::new(),
            ended: Vec::new(),
        }
    }

    /// Returns the MAC address of a neighbor to which a packet can be sent without further action.
    #[inline]
    pub fn lookup(&mut self, iface: IfaceId, addr: A, now: Instant) -> Option<Mac> {
        let entry = self.entries.get_mut(&(iface, addr))?;
        match entry.state {
            State::Reachable | State::Permanent | State::Probe => {
                entry.used = now;
                self.idle.take_out(entry);
                Some(entry.mac)
            }
            State::Incomplete | State::Stale => None,
        }
    }

    /// Returns the MAC address for a packet. If the MAC address is unknown, holds the packet until
    /// it is resolved. `pool` is the pool from which the packets are allocated.
    pub fn resolve(
        &mut self,
        iface: IfaceId,
        addr: A,
        frame: Frame,
        now: Instant,
        rules: Rules,
        pool: &Pool,
    ) -> Resolved {
        let key = (iface, addr);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.used = now;
            self.idle.take_out(entry); // the entry is now in use, whatever its state
            match entry.state {
                State::Reachable | State::Permanent | State::Probe => return Resolved::To(frame, entry.mac),
                State::Stale => {
                    (entry.state, entry.tries, entry.since) = (State::Probe, 0, now);
                    self.next = self.next.min(now);
                    return Resolved::To(frame, entry.mac);
                }
                State::Incomplete => {}
            }
            self.hold(key, frame, rules, pool);
            return Resolved::Waits { ask: false };
        }
        let most = (rules.limit / 2).max(1);
        let room = if self.requested.all.len() >= most { self.displace() } else { true };
        if !room || self.entries.len() >= rules.limit && !self.make_room(now) {
            return Resolved::Full(frame);
        }
        let mut entry = Entry { tries: 1, ..Entry::new(Mac::ZERO, State::Incomplete, now, now) };
        entry.serial = self.requested.add(key, now);
        self.entries.insert(key, entry);
        self.hold(key, frame, rules, pool);
        self.next = self.next.min(now.after(RETRY));
        Resolved::Waits { ask: true }
    }

    /// Adds a packet to an Incomplete entry, within the limits of the entry and of the table.
    fn hold(&mut self, key: (IfaceId, A), frame: Frame, rules: Rules, pool: &Pool) {
        let Some(entry) = self.entries.get_mut(&key) else {
            debug_assert!(false, "the neighbor entry just found or created is missing");
            return self.ended.push((frame, DropReason::Bug));
        };
        let overflow = if entry.pending.len() >= rules.hold { entry.pending.pop_front() } else { None };
        entry.pending.push_back(frame);
        self.requested.holding.insert(entry.serial, key);
        match overflow {
            Some(oldest) => self.ended.push((oldest, DropReason::NeighQueueFull)),
            None => self.held += 1,
        }
        let most = self.hold_most(rules, pool);
        while self.held > most && self.drop_oldest() {}
    }

    /// Returns the maximum number of packets that may be held now: `rules.hold_all` or its default.
    /// The maximum is lower while fewer than 1/[`RESERVE`] of the pool's buffers are free.
    fn hold_most(&self, rules: Rules, pool: &Pool) -> usize {
        let stats = pool.stats();
        let share = if rules.hold_all == 0 { stats.buffers / SHARE } else { rules.hold_all };
        let live = usize::try_from(stats.live()).unwrap_or(usize::MAX);
        let lacking = (live + stats.buffers / RESERVE).saturating_sub(stats.buffers);
        share.min(self.held.saturating_sub(lacking)).max(1)
    }

    /// Drops the first packet of the entry that has been unresolved for the longest time among
    /// those that hold packets. Returns `false` if no packet is held.
    fn drop_oldest(&mut self) -> bool {
        let Some(first) = self.requested.holding.first_entry() else { return false };
        let Some(entry) = self.entries.get_mut(first.get()) else {
            debug_assert!(false, "neighbor with queued packets has no entry");
            first.remove();
            return true;
        };
        if let Some(frame) = entry.pending.pop_front() {
            self.held -= 1;
            self.ended.push((frame, DropReason::NeighShareFull));
        }
        if entry.pending.is_empty() {
            first.remove();
        }
        true
    }

    /// Removes one entry to make room for another: the oldest Incomplete one if it has had no
    /// answer for a second; otherwise the idle one that has been unused for the longest time;
    /// otherwise the oldest Incomplete one. Returns `false` if there is no such entry.
    fn make_room(&mut self, now: Instant) -> bool {
        let silent =
            self.requested.all.first_key_value().is_some_and(|(_, (requested, _))| now >= requested.after(RETRY));
        if silent && self.displace() {
            return true;
        }
        let oldest = self.idle.queue.pop_first();
        let removed = oldest.is_some_and(|(_, key)| self.entries.remove(&key).is_some());
        self.evicted += u64::from(removed);
        removed || self.displace()
    }

    /// Removes the Incomplete entry that has been unresolved for the longest time, and the packets
    /// that it holds.
    fn displace(&mut self) -> bool {
        let Some((serial, &(_, (iface, addr)))) = self.requested.all.first_key_value() else { return false };
        let serial = *serial;
        let Some(pending) = self.remove(iface, addr) else {
            debug_assert!(false, "unresolved neighbor has no entry");
            self.requested.all.remove(&serial); // otherwise it would stay the first key, and no entry could be removed
            return false;
        };
        self.evicted += 1;
        self.ended.extend(pending.into_iter().map(|frame| (frame, DropReason::NeighDisplaced)));
        true
    }

    /// Returns the packets that [`Table::resolve`] and [`Table::learn`] no longer hold, with the
    /// drop reasons. The caller drops and counts them.
    #[inline]
    pub fn take_ended(&mut self) -> Vec<(Frame, DropReason)> {
        std::mem::take(&mut self.ended)
    }

    /// Returns the number of entries evicted since the last call.
    pub fn take_evicted(&mut self) -> u64 {
        std::mem::take(&mut self.evicted)
    }

    /// Returns the last changes of MAC addresses since the last call, the newest first.
    pub fn take_moves(&mut self) -> VecDeque<Moved<A>> {
        std::mem::take(&mut self.moves)
    }

    /// Stores the MAC address of `addr`. Creates an entry only if `create` is set, which is the
    /// case for a packet addressed to this host (the merge flag of RFC 826).
    pub fn learn(&mut self, iface: IfaceId, addr: A, mac: Mac, create: bool, now: Instant, rules: Rules) -> Learned {
        if let Some(entry) = self.entries.get_mut(&(iface, addr)) {
            if entry.state == State::Permanent {
                return if entry.mac == mac { Learned::Same } else { Learned::Permanent };
            }
            let (was, had) = (entry.state, entry.mac);
            self.requested.take_out(entry);
            (entry.mac, entry.state, entry.since, entry.tries) = (mac, State::Reachable, now, 0);
            self.idle.place((iface, addr), entry);
            self.next = self.next.min(now.after(rules.max_age));
            let pending = std::mem::take(&mut entry.pending);
            self.held -= pending.len();
            if had == mac && matches!(was, State::Reachable | State::Probe) {
                return Learned::Same;
            }
            let moved = had != mac && was != State::Incomplete;
            if moved {
                self.moves.truncate(MOVES_MAX - 1);
                self.moves.push_front(Moved { iface, addr, from: had, to: mac });
            }
            return Learned::Changed { pending, moved, created: false };
        }
        if !create || (self.entries.len() >= rules.limit && !self.make_room(now)) {
            return Learned::Ignored;
        }
        let mut entry = Entry::new(mac, State::Reachable, now, Instant::ZERO);
        self.idle.place((iface, addr), &mut entry);
        self.entries.insert((iface, addr), entry);
        self.next = self.next.min(now.after(rules.max_age));
        Learned::Changed { pending: VecDeque::new(), moved: false, created: true }
    }

    /// Sets a permanent entry. Returns the packets held for it, which can now be sent.
    pub fn set(&mut self, iface: IfaceId, addr: A, mac: Mac, now: Instant) -> VecDeque<Frame> {
        let fresh = Entry::new(mac, State::Permanent, now, now);
        self.entries.insert((iface, addr), fresh).map(|old| self.ended(old)).unwrap_or_default()
    }

    /// Removes an entry. Returns the packets held for it, which the caller must drop.
    pub fn remove(&mut self, iface: IfaceId, addr: A) -> Option<VecDeque<Frame>> {
        let entry = self.entries.remove(&(iface, addr))?;
        Some(self.ended(entry))
    }

    fn ended(&mut self, mut entry: Entry) -> VecDeque<Frame> {
        self.idle.take_out(&mut entry);
        self.requested.take_out(&entry);
        self.held -= entry.pending.len();
        entry.pending
    }

    /// Processes the entries that are due and passes the resulting events to `each`. Skips the scan
    /// of the table if no entry can be due.
    pub fn expire(&mut self, now: Instant, rules: Rules, mut each: impl FnMut(Expired<A>)) {
        if now < self.next {
            return;
        }
        let (mut dead, mut next) = (Vec::new(), Instant::NEVER);
        for (&(iface, addr), entry) in &mut self.entries {
            let due = match entry.state {
                State::Permanent | State::Stale => continue,
                State::Reachable => {
                    let due = entry.since.after(rules.max_age);
                    if now < due {
                        due
                    } else {
                        (entry.state, entry.since) = (State::Stale, now);
                        if entry.place.is_none() {
                            self.idle.place((iface, addr), entry); // an entry never used for sending keeps its position
                        }
                        each(Expired::Aged);
                        continue;
                    }
                }
                State::Incomplete | State::Probe => {
                    let due = entry.since.after(RETRY);
                    let ask_now = entry.state == State::Probe && entry.tries == 0;
                    if now < due && !ask_now {
                        due
                    } else if entry.tries >= rules.tries {
                        dead.push((iface, addr));
                        continue;
                    } else {
                        (entry.since, entry.tries) = (now, entry.tries + 1);
                        each(Expired::Ask(iface, addr, (entry.state == State::Probe).then_some(entry.mac)));
                        now.after(RETRY)
                    }
                }
            };
            next = next.min(due);
        }
        self.next = if next == Instant::NEVER { next } else { next.max(now.after(WALK)) };
        for (iface, addr) in dead {
            if let Some(pending) = self.remove(iface, addr) {
                each(Expired::Dead(iface, addr, pending));
            }
        }
    }

    /// Returns the earliest time at which [`Table::expire`] must be called.
    pub fn next_deadline(&self) -> Instant {
        self.next
    }

    /// Returns the number of packets held. This includes the packets that the caller can still
    /// obtain from [`Table::take_ended`].
    pub fn held(&self) -> usize {
        self.held + self.ended.len()
    }

    /// Removes all entries of `iface`, which went down. Passes the packets that they hold to
    /// `each`.
    pub fn flush(&mut self, iface: IfaceId, mut each: impl FnMut(Frame)) {
        let gone: Vec<_> = self.entries.keys().filter(|(i, _)| *i == iface).copied().collect();
        for (iface, addr) in gone {
            self.remove(iface, addr).into_iter().flatten().for_each(&mut each);
        }
    }

    /// Returns the number of entries that can be evicted.
    pub fn idle(&self) -> usize {
        self.idle.queue.len()
    }

    /// Returns all entries.
    pub fn iter(&self) -> impl Iterator<Item = Neighbor<A>> + '_ {
        self.entries.iter().map(|(&(iface, addr), entry)| Neighbor {
            iface,
            addr,
            mac: entry.mac,
            state: entry.state,
            pending: entry.pending.len(),
            since: entry.since,
        })
    }
}

mod advert;
#[cfg(test)]
mod tests;
