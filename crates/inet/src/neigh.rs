//! The neighbor table: (iface, address) to MAC address and state.
//!
//! ```text
//!              asked          answered             max_age             used: asked again, unicast
//!   (nothing) ------> Incomplete ------> Reachable ------> Stale ------------------------------> Probe
//!                       | no answer in maxtries seconds          answered: Reachable | no answer: removed
//! ```
//! Packets wait in an Incomplete entry, at most `maxhold` of them, oldest dropped first (RFC 1122 2.3.2.2). Permanent
//! entries are set by hand. The table is bounded: of those that are Stale or that nobody here has ever sent to, the idle
//! ones, the one unused longest goes for a new one. They stand in a queue of their own, so that a flood which keeps the
//! table full costs a few comparisons a packet and not a walk through the table. Neighbors in use and permanent ones are
//! not in it: a flood of strangers neither pushes them out nor, as it makes room for the next itself, keeps new ones out.
//!
//! A scan of an attached subnet resolves addresses that no host has (RFC 6583). Its cost is bounded in three ways:
//!
//! - Incomplete entries fill at most half of the table; beyond that the oldest is removed for a new one.
//! - In a full table an Incomplete entry that has gone a second without an answer is removed before an idle one is, and
//!   any Incomplete entry is removed for a host that has sent us something (RFC 6583 7).
//! - All waiting packets together occupy at most [`SHARE`] of the buffer pool, and less when fewer than [`RESERVE`] of its
//!   buffers are free: these are for ARP, neighbor discovery and other frames. Beyond that the packet of the oldest
//!   Incomplete entry is dropped for a new packet. The entry stays, so that a late answer still resolves it.
//!
//! ARP and neighbor discovery have a table each, of the same making: what advertisements do to an entry is in `advert`.

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

/// What the table is keyed by besides the link: IPv4 addresses (ARP) or IPv6 addresses (neighbor discovery), in a table each.
pub trait Address: Copy + Eq + Ord + Hash + Debug {}

impl Address for Ipv4Addr {}
impl Address for Ipv6Addr {}

/// How sure an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Asked, not answered.
    Incomplete,
    /// Answered not long ago.
    Reachable,
    /// Answered long ago, not used since.
    Stale,
    /// Answered long ago, in use, being asked again.
    Probe,
    /// Set by hand.
    Permanent,
}

/// One neighbor.
#[derive(Debug)]
pub struct Entry {
    /// Its MAC address (zero while Incomplete).
    pub mac: Mac,
    /// Its state.
    pub state: State,
    /// When it was last confirmed or asked.
    pub since: Instant,
    /// Requests sent without an answer.
    pub tries: u32,
    /// When it was last used for sending; [`Instant::ZERO`]: never.
    pub used: Instant,
    pending: VecDeque<Frame>,
    place: Option<Place>, // in the queue of the idle
    serial: u64,          // in the queues of the Incomplete
}

/// Where an entry stands among the idle: when it was last used, and in the order in which they came.
type Place = (Instant, u64);

impl Entry {
    fn new(mac: Mac, state: State, now: Instant, used: Instant) -> Entry {
        Entry { mac, state, since: now, tries: 0, used, pending: VecDeque::new(), place: None, serial: 0 }
    }

    /// Returns whether the entry can be evicted for a new one. Incomplete entries have a queue of their own.
    fn is_idle(&self) -> bool {
        self.state == State::Stale || self.state == State::Reachable && self.used == Instant::ZERO
    }
}

/// An entry, for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor<A = Ipv4Addr> {
    /// The link it is on.
    pub iface: IfaceId,
    /// Its address.
    pub addr: A,
    /// Its MAC address.
    pub mac: Mac,
    /// Its state.
    pub state: State,
    /// Packets waiting for it.
    pub pending: usize,
    /// Since when it has this state.
    pub since: Instant,
}

/// What to do with a packet for a neighbor.
#[derive(Debug)]
pub enum Resolved {
    /// Send it there.
    To(Frame, Mac),
    /// The packet is queued; the first for an address starts its resolution. Packets dropped to make room are in
    /// [`Table::take_ended`].
    Waits {
        /// Send an ARP request.
        ask: bool,
    },
    /// No room for another entry.
    Full(Frame),
}

/// What [`Table::expire`] found.
#[derive(Debug)]
pub enum Expired<A = Ipv4Addr> {
    /// Ask (again): the MAC address is that of a neighbor to be asked directly.
    Ask(IfaceId, A, Option<Mac>),
    /// Given up: these packets go nowhere.
    Dead(IfaceId, A, VecDeque<Frame>),
    /// Its answer has become old.
    Aged,
}

/// What the sender of an ARP packet taught us.
#[derive(Debug)]
pub enum Learned {
    /// Nothing: not known and not asked for.
    Ignored,
    /// Nothing new.
    Same,
    /// An entry got an address, or another one than before; these packets can go now.
    Changed {
        /// What had waited for it.
        pending: VecDeque<Frame>,
        /// It had another address before.
        moved: bool,
        /// There was no entry before.
        created: bool,
    },
    /// The entry was set by hand and stays.
    Permanent,
}

/// How the table behaves: read from the knobs each time.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Entries at most.
    pub limit: usize,
    /// Packets that may wait in one entry.
    pub hold: usize,
    /// Packets that may wait in all entries; 0: [`SHARE`] of the pool.
    pub hold_all: usize,
    /// Requests before giving up.
    pub tries: u32,
    /// How long an answer is good for.
    pub max_age: Duration,
}

const RETRY: Duration = Duration::from_secs(1);
/// Least time between two walks through the table, which a scan would otherwise cause for every packet.
const WALK: Duration = Duration::from_millis(10);
/// One part in this many of the pool is the most that waiting packets occupy.
pub const SHARE: usize = 8;
/// One part in this many of the pool is kept free of waiting packets.
pub const RESERVE: usize = 16;

/// The idle entries' keys, unused longest first.
struct Idle<A> {
    queue: BTreeMap<Place, (IfaceId, A)>,
    came: u64,
}

impl<A: Address> Idle<A> {
    fn new() -> Idle<A> {
        Idle { queue: BTreeMap::new(), came: 0 }
    }

    /// Puts `entry` where it belongs: behind the idle ones that were used as long ago, or out of the queue.
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

/// Keys of the Incomplete entries by serial number: the longest unresolved first.
struct Asked<A> {
    all: BTreeMap<u64, (Instant, (IfaceId, A))>,
    /// Entries with queued packets.
    holding: BTreeMap<u64, (IfaceId, A)>,
    serial: u64,
}

impl<A: Address> Asked<A> {
    fn new() -> Asked<A> {
        Asked { all: BTreeMap::new(), holding: BTreeMap::new(), serial: 0 }
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

/// The neighbors of one stack.
pub struct Table<A = Ipv4Addr> {
    entries: HashMap<(IfaceId, A), Entry, Keyed>,
    idle: Idle<A>,
    asked: Asked<A>,
    next: Instant,
    held: usize,
    evicted: u64,
    ended: Vec<(Frame, DropReason)>,
}

impl<A: Address> Table<A> {
    /// An empty table with its hash key.
    pub fn new(key: Key) -> Table<A> {
        let entries = HashMap::with_hasher(Keyed(key));
        let (idle, asked) = (Idle::new(), Asked::new());
        Table { entries, idle, asked, next: Instant::NEVER, held: 0, evicted: 0, ended: Vec::new() }
    }

    /// The MAC address of a neighbor good for sending now.
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

    /// Finds the MAC address for a packet, or keeps the packet until there is one. `pool` is where packets come from.
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
            self.idle.take_out(entry); // whatever it was, it is in use now
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
        let room = if self.asked.all.len() >= most { self.displace() } else { true };
        if !room || self.entries.len() >= rules.limit && !self.make_room(now) {
            return Resolved::Full(frame);
        }
        let mut entry = Entry { tries: 1, ..Entry::new(Mac::ZERO, State::Incomplete, now, now) };
        entry.serial = self.asked.add(key, now);
        self.entries.insert(key, entry);
        self.hold(key, frame, rules, pool);
        self.next = self.next.min(now.after(RETRY));
        Resolved::Waits { ask: true }
    }

    /// Adds a packet to those that wait in an Incomplete entry, within the bounds of the entry and of the table.
    fn hold(&mut self, key: (IfaceId, A), frame: Frame, rules: Rules, pool: &Pool) {
        let Some(entry) = self.entries.get_mut(&key) else {
            debug_assert!(false, "an entry that was found or made has gone");
            return self.ended.push((frame, DropReason::Bug));
        };
        let overflow = if entry.pending.len() >= rules.hold { entry.pending.pop_front() } else { None };
        entry.pending.push_back(frame);
        self.asked.holding.insert(entry.serial, key);
        match overflow {
            Some(oldest) => self.ended.push((oldest, DropReason::NeighQueueFull)),
            None => self.held += 1,
        }
        let most = self.hold_most(rules, pool);
        while self.held > most && self.drop_oldest() {}
    }

    /// Packets that may wait now: the share of the pool, less what its reserve lacks.
    fn hold_most(&self, rules: Rules, pool: &Pool) -> usize {
        let stats = pool.stats();
        let share = if rules.hold_all == 0 { stats.buffers / SHARE } else { rules.hold_all };
        let live = usize::try_from(stats.live()).unwrap_or(usize::MAX);
        let lacking = (live + stats.buffers / RESERVE).saturating_sub(stats.buffers);
        share.min(self.held.saturating_sub(lacking)).max(1)
    }

    /// Drops the first packet of the longest unresolved entry; `false` if none is queued.
    fn drop_oldest(&mut self) -> bool {
        let Some(first) = self.asked.holding.first_entry() else { return false };
        let Some(entry) = self.entries.get_mut(first.get()) else {
            debug_assert!(false, "a neighbor with packets has no entry");
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

    /// Makes room for one entry: an Incomplete one that has gone a second without an answer, else the idle one that is
    /// unused longest, else any Incomplete one.
    fn make_room(&mut self, now: Instant) -> bool {
        let silent = self.asked.all.first_key_value().is_some_and(|(_, (asked, _))| now >= asked.after(RETRY));
        if silent && self.displace() {
            return true;
        }
        let oldest = self.idle.queue.pop_first();
        let removed = oldest.is_some_and(|(_, key)| self.entries.remove(&key).is_some());
        self.evicted += u64::from(removed);
        removed || self.displace()
    }

    /// Removes the longest unresolved entry with its packets.
    fn displace(&mut self) -> bool {
        let Some((serial, &(_, (iface, addr)))) = self.asked.all.first_key_value() else { return false };
        let serial = *serial;
        let Some(pending) = self.remove(iface, addr) else {
            debug_assert!(false, "an unresolved neighbor has no entry");
            self.asked.all.remove(&serial); // or it would be in the way of all others
            return false;
        };
        self.evicted += 1;
        self.ended.extend(pending.into_iter().map(|frame| (frame, DropReason::NeighDisplaced)));
        true
    }

    /// Packets that [`Table::resolve`] and [`Table::learn`] gave up, with the reasons; the caller drops and counts them.
    #[inline]
    pub fn take_ended(&mut self) -> Vec<(Frame, DropReason)> {
        std::mem::take(&mut self.ended)
    }

    /// How many entries have gone to make room since last asked.
    pub fn take_evicted(&mut self) -> u64 {
        std::mem::take(&mut self.evicted)
    }

    /// Notes who has `addr`. Creates an entry only if `create` (a packet addressed to us: RFC 826's merge flag).
    pub fn learn(&mut self, iface: IfaceId, addr: A, mac: Mac, create: bool, now: Instant, rules: Rules) -> Learned {
        if let Some(entry) = self.entries.get_mut(&(iface, addr)) {
            if entry.state == State::Permanent {
                return if entry.mac == mac { Learned::Same } else { Learned::Permanent };
            }
            let (was, had) = (entry.state, entry.mac);
            self.asked.take_out(entry);
            (entry.mac, entry.state, entry.since, entry.tries) = (mac, State::Reachable, now, 0);
            self.idle.place((iface, addr), entry);
            self.next = self.next.min(now.after(rules.max_age));
            let pending = std::mem::take(&mut entry.pending);
            self.held -= pending.len();
            if had == mac && matches!(was, State::Reachable | State::Probe) {
                return Learned::Same;
            }
            return Learned::Changed { pending, moved: had != mac && was != State::Incomplete, created: false };
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

    /// Sets an entry by hand; what waited for it can go.
    pub fn set(&mut self, iface: IfaceId, addr: A, mac: Mac, now: Instant) -> VecDeque<Frame> {
        let fresh = Entry::new(mac, State::Permanent, now, now);
        self.entries.insert((iface, addr), fresh).map(|old| self.ended(old)).unwrap_or_default()
    }

    /// Removes an entry; what waited for it goes nowhere.
    pub fn remove(&mut self, iface: IfaceId, addr: A) -> Option<VecDeque<Frame>> {
        let entry = self.entries.remove(&(iface, addr))?;
        Some(self.ended(entry))
    }

    fn ended(&mut self, mut entry: Entry) -> VecDeque<Frame> {
        self.idle.take_out(&mut entry);
        self.asked.take_out(&entry);
        self.held -= entry.pending.len();
        entry.pending
    }

    /// Walks the entries whose time may have come, if any can have.
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
                            self.idle.place((iface, addr), entry); // a stranger keeps the place he has
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

    /// When [`Table::expire`] may have something to do.
    pub fn next_deadline(&self) -> Instant {
        self.next
    }

    /// Packets waiting, and those given up that the caller has not taken yet.
    pub fn held(&self) -> usize {
        self.held + self.ended.len()
    }

    /// Ends every wait on `iface`: it went down.
    pub fn flush(&mut self, iface: IfaceId, mut each: impl FnMut(Frame)) {
        let gone: Vec<_> = self.entries.keys().filter(|(i, _)| *i == iface).copied().collect();
        for (iface, addr) in gone {
            self.remove(iface, addr).into_iter().flatten().for_each(&mut each);
        }
    }

    /// Entries that may go to make room.
    pub fn idle(&self) -> usize {
        self.idle.queue.len()
    }

    /// All entries.
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
