//! The neighbor table: (iface, address) to MAC address and state.
//!
//! ```text
//!              asked          answered             max_age             used: asked again, unicast
//!   (nothing) ------> Incomplete ------> Reachable ------> Stale ------------------------------> Probe
//!                       | no answer in maxtries seconds          answered: Reachable | no answer: removed
//! ```
//! Packets wait in an Incomplete entry, at most `maxhold` of them, oldest dropped first (RFC 1122 2.3.2.2). Permanent
//! entries are set by hand. The table is bounded: of those that are Stale or that nobody here has ever sent to, the one
//! unused longest goes for a new one. Neighbors in use and permanent ones stay: a flood of strangers neither pushes them
//! out nor, as it makes room for the next itself, keeps new ones out; and Incomplete ones have at most half of the table, so
//! that a scan cannot either (RFC 6583's advice for ND).

use crate::hash::{Key, Keyed};
use crate::iface::IfaceId;
use buf::Frame;
use clock::{Duration, Instant};
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use wire::Mac;

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
}

/// An entry, for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// The link it is on.
    pub iface: IfaceId,
    /// Its address.
    pub addr: Ipv4Addr,
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
    /// It waits; the first of a kind also asks.
    Waits {
        /// Send an ARP request.
        ask: bool,
        /// The oldest packet had to go.
        overflow: Option<Frame>,
    },
    /// No room for another entry.
    Full(Frame),
}

/// What [`Table::expire`] found.
#[derive(Debug)]
pub enum Expired {
    /// Ask (again): the MAC address is that of a neighbor to be asked directly.
    Ask(IfaceId, Ipv4Addr, Option<Mac>),
    /// Given up: these packets go nowhere.
    Dead(IfaceId, Ipv4Addr, VecDeque<Frame>),
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
    /// Requests before giving up.
    pub tries: u32,
    /// How long an answer is good for.
    pub max_age: Duration,
}

const RETRY: Duration = Duration::from_secs(1);

/// The neighbors of one stack.
pub struct Table {
    entries: HashMap<(IfaceId, Ipv4Addr), Entry, Keyed>,
    next: Instant,
    held: usize,
    incomplete: usize,
    evicted: u64,
}

impl Table {
    /// An empty table with its hash key.
    pub fn new(key: Key) -> Table {
        Table { entries: HashMap::with_hasher(Keyed(key)), next: Instant::NEVER, held: 0, incomplete: 0, evicted: 0 }
    }

    /// The MAC address of a neighbor good for sending now.
    #[inline]
    pub fn lookup(&mut self, iface: IfaceId, addr: Ipv4Addr, now: Instant) -> Option<Mac> {
        let entry = self.entries.get_mut(&(iface, addr))?;
        match entry.state {
            State::Reachable | State::Permanent | State::Probe => {
                entry.used = now;
                Some(entry.mac)
            }
            State::Incomplete | State::Stale => None,
        }
    }

    /// Finds the MAC address for a packet, or keeps the packet until there is one.
    pub fn resolve(&mut self, iface: IfaceId, addr: Ipv4Addr, frame: Frame, now: Instant, rules: Rules) -> Resolved {
        if let Some(entry) = self.entries.get_mut(&(iface, addr)) {
            entry.used = now;
            return match entry.state {
                State::Reachable | State::Permanent | State::Probe => Resolved::To(frame, entry.mac),
                State::Stale => {
                    (entry.state, entry.tries, entry.since) = (State::Probe, 0, now);
                    self.next = self.next.min(now);
                    Resolved::To(frame, entry.mac)
                }
                State::Incomplete => {
                    let overflow = if entry.pending.len() >= rules.hold { entry.pending.pop_front() } else { None };
                    self.held += usize::from(overflow.is_none());
                    entry.pending.push_back(frame);
                    Resolved::Waits { ask: false, overflow }
                }
            };
        }
        if self.incomplete >= rules.limit / 2 || self.entries.len() >= rules.limit && !self.make_room() {
            return Resolved::Full(frame);
        }
        let pending = VecDeque::from([frame]);
        self.held += 1;
        self.incomplete += 1;
        let entry = Entry { mac: Mac::ZERO, state: State::Incomplete, since: now, tries: 1, used: now, pending };
        self.entries.insert((iface, addr), entry);
        self.next = self.next.min(now.after(RETRY));
        Resolved::Waits { ask: true, overflow: None }
    }

    /// Makes room for one entry among those that nobody needs: Stale ones and those never sent to, the one unused
    /// longest first.
    ///
    /// An Incomplete entry holds packets and ends by itself within `maxtries` seconds, so it is not taken.
    fn make_room(&mut self) -> bool {
        let idle = |e: &Entry| e.state == State::Stale || e.state == State::Reachable && e.used == Instant::ZERO;
        let oldest = self.entries.iter().filter(|(_, e)| idle(e)).min_by_key(|(_, e)| (e.used, e.since));
        let removed = oldest.map(|(key, _)| *key).is_some_and(|key| self.entries.remove(&key).is_some());
        self.evicted += u64::from(removed);
        removed
    }

    /// How many entries have gone to make room since last asked.
    pub fn take_evicted(&mut self) -> u64 {
        std::mem::take(&mut self.evicted)
    }

    /// Notes who has `addr`. Creates an entry only if `create` (a packet addressed to us: RFC 826's merge flag).
    pub fn learn(
        &mut self,
        iface: IfaceId,
        addr: Ipv4Addr,
        mac: Mac,
        create: bool,
        now: Instant,
        rules: Rules,
    ) -> Learned {
        if let Some(entry) = self.entries.get_mut(&(iface, addr)) {
            if entry.state == State::Permanent {
                return if entry.mac == mac { Learned::Same } else { Learned::Permanent };
            }
            let (was, had) = (entry.state, entry.mac);
            (entry.mac, entry.state, entry.since, entry.tries) = (mac, State::Reachable, now, 0);
            self.next = self.next.min(now.after(rules.max_age));
            let pending = std::mem::take(&mut entry.pending);
            self.held -= pending.len();
            self.incomplete -= usize::from(was == State::Incomplete);
            if had == mac && matches!(was, State::Reachable | State::Probe) {
                return Learned::Same;
            }
            return Learned::Changed { pending, moved: had != mac && was != State::Incomplete, created: false };
        }
        if !create || (self.entries.len() >= rules.limit && !self.make_room()) {
            return Learned::Ignored;
        }
        let (used, pending) = (Instant::ZERO, VecDeque::new());
        let entry = Entry { mac, state: State::Reachable, since: now, tries: 0, used, pending };
        self.entries.insert((iface, addr), entry);
        self.next = self.next.min(now.after(rules.max_age));
        Learned::Changed { pending: VecDeque::new(), moved: false, created: true }
    }

    /// Sets an entry by hand; what waited for it can go.
    pub fn set(&mut self, iface: IfaceId, addr: Ipv4Addr, mac: Mac, now: Instant) -> VecDeque<Frame> {
        let fresh = Entry { mac, state: State::Permanent, since: now, tries: 0, used: now, pending: VecDeque::new() };
        self.entries.insert((iface, addr), fresh).map(|old| self.ended(old)).unwrap_or_default()
    }

    /// Removes an entry; what waited for it goes nowhere.
    pub fn remove(&mut self, iface: IfaceId, addr: Ipv4Addr) -> Option<VecDeque<Frame>> {
        let entry = self.entries.remove(&(iface, addr))?;
        Some(self.ended(entry))
    }

    fn ended(&mut self, entry: Entry) -> VecDeque<Frame> {
        self.held -= entry.pending.len();
        self.incomplete -= usize::from(entry.state == State::Incomplete);
        entry.pending
    }

    /// Walks the entries whose time may have come, if any can have.
    pub fn expire(&mut self, now: Instant, rules: Rules, mut each: impl FnMut(Expired)) {
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
        self.next = next;
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

    /// Packets waiting.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Ends every wait on `iface`: it went down.
    pub fn flush(&mut self, iface: IfaceId, mut each: impl FnMut(Frame)) {
        let gone: Vec<_> = self.entries.keys().filter(|(i, _)| *i == iface).copied().collect();
        for (iface, addr) in gone {
            self.remove(iface, addr).into_iter().flatten().for_each(&mut each);
        }
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = Neighbor> + '_ {
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
