//! Forwarding table: maps (VLAN, MAC address) to a port, with an age.
//!
//! The table consists of buckets of four entries, one cache line each. An address has two candidate
//! buckets (two parts of its hash) and is stored in the first one if that has a free slot. The
//! table is at most half full; then 96 % of the entries are in their first bucket, and a lookup
//! reads one cache line.
//!
//! A cluster of ports (bridge_cfg of FreeBSD 4, where each cluster has its own table) has its own
//! address space: the cluster is part of the hash, and an entry belongs to the cluster of its port.

mod bucket;
mod list;
mod share;
#[cfg(test)]
mod tests;

use crate::{LOCAL, MAX_PORTS, PortNo};
use bucket::{Bucket, HEARD, LEARNED, OWN, Place, STATIC, STICKY, WAYS, WINDOWS};
use clock::{Duration, Instant};
pub use list::{Cursor, Page};
use share::Shares;
use wire::{Mac, hash};

/// Default capacity of a table, the same as in FreeBSD 4's bridge.
pub const ADDRESSES: usize = 8192;

/// Configuration of a table.
#[derive(Debug, Clone, Copy)]
pub struct FdbConfig {
    /// Maximum number of addresses (if_bridge's maxaddr).
    pub most: usize,
    /// Time for which an address remains known without a frame from it (the timeout of if_bridge;
    /// IEEE 802.1Q table 8-6: 300 s).
    pub timeout: Duration,
    /// Secret key of the hash function.
    pub key: hash::Key,
}

impl FdbConfig {
    /// Returns the default configuration: [`ADDRESSES`] addresses, a timeout of 300 s, and a random
    /// hash key.
    pub fn new() -> FdbConfig {
        FdbConfig { most: ADDRESSES, timeout: Duration::from_secs(300), key: hash::Key::random() }
    }
}

impl Default for FdbConfig {
    fn default() -> FdbConfig {
        FdbConfig::new()
    }
}

/// An address in a VLAN, in one word: the VLAN is in bits 48 to 59, and bit 63 is set, so that no
/// key is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u64);

const USED: u64 = 1 << 63;

impl Key {
    /// Returns the key of `mac` in VLAN `vid`, of which only the low twelve bits are used.
    #[inline(always)]
    pub fn new(vid: u16, mac: Mac) -> Key {
        let [a, b, c, d, e, f] = mac.0;
        Key::of(vid, u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// Returns the key of an address given in the low 48 bits of a word, with the first octet
    /// highest.
    #[inline(always)]
    pub(crate) fn of(vid: u16, mac: u64) -> Key {
        Key(USED | u64::from(vid & 0xfff) << 48 | mac)
    }

    /// Returns the MAC address of the key.
    pub fn mac(self) -> Mac {
        let [_, _, a, b, c, d, e, f] = self.0.to_be_bytes();
        Mac([a, b, c, d, e, f])
    }

    /// Returns the VLAN ID of the key.
    pub fn vid(self) -> u16 {
        (self.0 >> 48) as u16 & 0xfff
    }
}

/// Origin of an entry, which determines whether it expires and whether it can move to another port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Learned from a source address. It expires, and moves to another port with its station.
    Learned,
    /// Learned on a sticky port. It neither expires nor moves.
    Sticky,
    /// Configured by the operator. It neither expires nor moves.
    Static,
    /// The bridge's own address. Its port is [`LOCAL`]: frames for it go to the bridge itself.
    /// Frames from it are dropped at all ports.
    Local,
}

/// An entry of the forwarding table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Address and VLAN.
    pub key: Key,
    /// Port at which the address is reachable.
    pub port: PortNo,
    /// Origin of the entry.
    pub kind: Kind,
    /// Time since the last frame from the address, with a resolution of 67 ms.
    pub age: Duration,
    /// True if the last frame from the address was reported by another replica
    /// ([`Fdb::learn_from_event`]).
    pub heard: bool,
}

/// Result of learning an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// The address was already known at this port.
    Known,
    /// The address is new and was added to the table.
    New,
    /// The address moved here from the given port.
    Moved(PortNo),
    /// The address is bound to the given port and was not moved. If the port is [`LOCAL`], it is
    /// the bridge's own address.
    Bound(PortNo),
    /// The address was not added, because the port has reached its limit ([`Fdb::set_limit`]).
    PortFull,
    /// The address was not added, because the table is full.
    Full,
}

stats::tallies! {
    /// Counters of the forwarding table.
    pub struct FdbCounts at "bridge.fdb" {
        /// Addresses added to the table.
        learned,
        /// Addresses that moved to another port.
        moved,
        /// Entries removed because they timed out.
        aged,
        /// Idle entries evicted to make space for a new address.
        evicted,
        /// Addresses not learned because the table was full.
        full,
        /// Addresses not learned because the port had reached its limit.
        port_full,
    }
}

/// Default length of the window in which moves are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// Converts nanoseconds to units of age (67 ms). The result wraps after nine years.
#[inline(always)]
fn units(nanos: u64) -> u32 {
    (nanos >> 26) as u32
}

/// Maximum timeout: less than half of the range of ages, so that ages can be compared modulo 2^32.
const FOREVER: Duration = Duration::from_secs(4 * 365 * 86_400);

/// Data stored in an entry when a frame from its address arrives: the port, the time, and the flags
/// of a new entry. `window` is the number of the current window for counting moves.
struct LastSeen {
    port: PortNo,
    bits: u16,
    seen: u32,
    window: u32,
}

fn kind_of(sticky: bool) -> u16 {
    if sticky { STICKY } else { LEARNED }
}

/// Forwarding table of a bridge.
#[derive(Debug)]
pub struct Fdb {
    buckets: Box<[Bucket]>,
    mask: usize,
    hash: hash::Key,
    most: usize,
    capacity: usize,
    timeout: Duration,
    timeout_units: u32,
    window_units: u32,
    len: usize,
    shares: Shares,
    /// Cluster of each port.
    clusters: Box<[u16]>,
    /// True if some port is in a cluster other than 0.
    clustered: bool,
    counts: FdbCounts,
    /// Next bucket to check for expired entries.
    sweep: usize,
    /// Time of the next check for expired entries.
    sweep_at: Instant,
}

/// Number of steps per timeout in which the table is checked for expired entries, a part in each
/// step.
const STEPS: usize = 64;
/// An entry may be evicted if it was idle for 1/`COLD` of the timeout.
const COLD: u32 = 16;

impl Fdb {
    /// Returns an empty table. Allocates all of its memory: slots for twice the maximum number of
    /// entries, 32 to 64 bytes per address.
    pub fn new(config: FdbConfig) -> Fdb {
        let most = config.most.clamp(1, 1 << 26);
        let timeout = config.timeout.min(FOREVER);
        let buckets = (2 * most).div_ceil(WAYS).next_power_of_two().max(2);
        Fdb {
            buckets: vec![Bucket::default(); buckets].into_boxed_slice(),
            mask: buckets - 1,
            hash: config.key,
            most,
            capacity: most,
            timeout,
            timeout_units: units(timeout.as_nanos() as u64).max(1),
            window_units: units(WINDOW.as_nanos() as u64),
            len: 0,
            shares: Shares::new(),
            clusters: vec![0; MAX_PORTS].into_boxed_slice(),
            clustered: false,
            counts: FdbCounts::default(),
            sweep: 0,
            sweep_at: Instant::ZERO,
        }
    }

    /// Returns the maximum number of addresses that may be stored.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of addresses for which memory was allocated.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the maximum number of addresses, up to the capacity. Excess entries remain until they
    /// expire; until then, no new entries are added.
    pub fn set_most(&mut self, most: usize) {
        self.most = most.clamp(1, self.capacity);
    }

    /// Sets the time for which an address remains known without a frame from it.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout.min(FOREVER);
        self.timeout_units = units(self.timeout.as_nanos() as u64).max(1);
    }

    /// Returns the time for which an address remains known without a frame from it.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the number of addresses in the table.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the counters of the table.
    pub fn counts(&self) -> FdbCounts {
        self.counts
    }

    /// Returns the cluster of a port; 0 for the bridge itself ([`LOCAL`]).
    #[inline(always)]
    fn cluster(&self, port: PortNo) -> u16 {
        self.clusters.get(usize::from(port)).copied().unwrap_or_default()
    }

    /// Moves a port to a cluster. Flushes the addresses learned at the port, and moves as many of
    /// its static entries to the cluster as fit.
    pub(crate) fn set_cluster(&mut self, port: PortNo, cluster: u16) {
        if self.cluster(port) == cluster {
            return;
        }
        let mut kept = Vec::new();
        for (at, way) in (0..self.buckets.len()).flat_map(|at| (0..WAYS).map(move |way| (at, way))) {
            let Some(bucket) = self.buckets.get(at) else { break };
            let Some((key, place)) = bucket.keys.get(way).zip(bucket.places.get(way)) else { break };
            if *key != 0 && place.port == port {
                kept.extend((place.kind() == STATIC).then_some((Key(*key), *place)));
                self.clear(at, way);
            }
        }
        if let Some(there) = self.clusters.get_mut(usize::from(port)) {
            *there = cluster;
        }
        self.clustered = self.clusters.iter().any(|cluster| *cluster != 0);
        for (key, place) in kept {
            self.say(key, place);
        }
    }

    /// Returns the hash of `key` in a cluster, for [`Fdb::prefetch`] and for lookups.
    #[inline(always)]
    pub(crate) fn hash(&self, key: Key, cluster: u16) -> u64 {
        self.hash.hash2(key.0, u64::from(cluster))
    }

    #[inline(always)]
    fn both(&self, hash: u64) -> [usize; 2] {
        let first = hash as usize & self.mask;
        let second = (hash >> 32) as usize & self.mask;
        [first, if second == first { first ^ 1 } else { second }]
    }

    /// Prefetches the first bucket for a hash.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(bucket) = self.buckets.get(hash as usize & self.mask) {
            buf::prefetch(bucket);
        }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn find(&self, key: Key, cluster: u16, hash: u64) -> Option<(usize, usize)> {
        let first = hash as usize & self.mask;
        match self.buckets.get(first)?.find(key) {
            Some(way) if self.is_in((first, way), cluster) => Some((first, way)),
            _ => self.find_more(key, cluster, hash),
        }
    }

    /// Searches the second bucket, which contains 4 % of the entries. Called for unknown addresses
    /// too. With clusters, searches both buckets, because an address may have another entry in
    /// another cluster.
    #[inline(never)]
    fn find_more(&self, key: Key, cluster: u16, hash: u64) -> Option<(usize, usize)> {
        let [first, second] = self.both(hash);
        if !self.clustered {
            return self.buckets.get(second)?.find(key).map(|way| (second, way));
        }
        let all = [first, second].into_iter().flat_map(|at| (0..WAYS).map(move |way| (at, way)));
        let is_key = |(at, way): (usize, usize)| self.buckets.get(at).and_then(|b| b.keys.get(way)) == Some(&key.0);
        all.filter(|at| is_key(*at)).find(|at| self.is_in(*at, cluster))
    }

    #[inline(always)]
    fn is_in(&self, at: (usize, usize), cluster: u16) -> bool {
        !self.clustered || self.place(at).is_some_and(|place| self.cluster(place.port) == cluster)
    }

    #[inline(always)]
    fn place(&self, at: (usize, usize)) -> Option<&Place> {
        self.buckets.get(at.0)?.places.get(at.1)
    }

    #[inline(always)]
    fn place_mut(&mut self, at: (usize, usize)) -> Option<&mut Place> {
        self.buckets.get_mut(at.0)?.places.get_mut(at.1)
    }

    /// Returns the port of an address in cluster 0; `None` if the address is not known.
    #[inline(always)]
    pub fn lookup(&self, key: Key, now: Instant) -> Option<PortNo> {
        self.lookup_in(0, key, now)
    }

    /// Returns the port of an address in a cluster; `None` if it is not known in the cluster.
    #[inline(always)]
    pub fn lookup_in(&self, cluster: u16, key: Key, now: Instant) -> Option<PortNo> {
        self.lookup_hashed(key, cluster, self.hash(key, cluster), now)
    }

    #[inline(always)]
    pub(crate) fn lookup_hashed(&self, key: Key, cluster: u16, hash: u64, now: Instant) -> Option<PortNo> {
        let place = self.place(self.find(key, cluster, hash)?)?;
        (place.kind() != LEARNED || !self.is_old(place, units(now.nanos()))).then_some(place.port)
    }

    /// Looks up addresses of cluster 0, 32 at a time, so that cache misses overlap. `out` must have
    /// the length of `keys`.
    pub fn lookup_burst(&self, keys: &[Key], now: Instant, out: &mut [Option<PortNo>]) {
        const AT_ONCE: usize = 32;
        for (keys, out) in keys.chunks(AT_ONCE).zip(out.chunks_mut(AT_ONCE)) {
            let mut hashes = [0; AT_ONCE];
            for (key, hash) in keys.iter().zip(&mut hashes) {
                *hash = self.hash(*key, 0);
                self.prefetch(*hash);
            }
            for ((key, hash), out) in keys.iter().zip(hashes).zip(out) {
                *out = self.lookup_hashed(*key, 0, hash, now);
            }
        }
    }

    #[inline(always)]
    fn is_old(&self, place: &Place, now: u32) -> bool {
        now.wrapping_sub(place.seen) >= self.timeout_units
    }

    /// Learns the source of a frame: `key` was received on `port`. If `sticky` is true, a new entry
    /// never moves to another port.
    #[inline(always)]
    pub fn learn(&mut self, key: Key, port: PortNo, sticky: bool, now: Instant) -> Learned {
        self.learn_hashed(key, self.hash(key, self.cluster(port)), port, sticky, now)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn learn_hashed(&mut self, key: Key, hash: u64, port: PortNo, sticky: bool, now: Instant) -> Learned {
        let seen = units(now.nanos());
        if let Some(at) = self.find(key, self.cluster(port), hash)
            && let Some(place) = self.place_mut(at)
            && place.port == port
        {
            // The comparison avoids a store if nothing changes, so that the cache line can remain
            // shared between cores.
            if place.seen != seen {
                place.seen = seen;
                place.bits &= !HEARD;
            }
            return Learned::Known;
        }
        self.learn_more(key, hash, LastSeen { port, bits: kind_of(sticky), seen, window: self.window(seen) })
    }

    /// Learns an address that another replica received on `port` at time `at`. Keeps an entry for
    /// another port if it is configured or sticky. Ignores an event older than the timeout or than
    /// the last frame from the address. Within one unit of age (67 ms), the event is considered
    /// newer than a frame received here.
    pub fn learn_from_event(&mut self, key: Key, port: PortNo, sticky: bool, at: Instant, now: Instant) {
        let cluster = self.cluster(port);
        let (hash, now, seen) = (self.hash(key, cluster), units(now.nanos()), units(at.min(now).nanos()));
        let age = now.wrapping_sub(seen);
        if age >= self.timeout_units {
            return;
        }
        if let Some(at) = self.find(key, cluster, hash)
            && let Some(place) = self.place_mut(at)
        {
            let known = now.wrapping_sub(place.seen);
            let here = place.port == port;
            if known < age || (here && known == age) || (!here && place.kind() != LEARNED) {
                return;
            }
            if here {
                place.seen = seen;
                place.bits |= HEARD;
                return;
            }
        }
        self.learn_more(key, hash, LastSeen { port, bits: kind_of(sticky) | HEARD, seen, window: self.window(now) });
    }

    #[cold]
    fn learn_more(&mut self, key: Key, hash: u64, events: LastSeen) -> Learned {
        let LastSeen { port, bits, seen, window } = events;
        let Some(at) = self.find(key, self.cluster(port), hash) else {
            return self.learn_new(key, hash, Place { port, bits, seen });
        };
        let has_room = self.shares.has_room(port);
        let Some(place) = self.place_mut(at) else { return Learned::Full };
        let before = place.port;
        if place.kind() != LEARNED {
            place.seen = seen;
            return Learned::Bound(before);
        }
        if !has_room {
            self.counts.port_full += 1;
            return Learned::PortFull;
        }
        let moves = u16::from(place.moves(window).saturating_add(1));
        *place = Place { port, bits: moves << 8 | (window as u16) << 2 | bits, seen };
        self.shares.moved(before, port);
        self.counts.moved += 1;
        Learned::Moved(before)
    }

    fn learn_new(&mut self, key: Key, hash: u64, place: Place) -> Learned {
        if !self.shares.has_room(place.port) {
            self.counts.port_full += 1;
            return Learned::PortFull;
        }
        if !self.put(key, hash, place) {
            self.counts.full += 1;
            return Learned::Full;
        }
        self.counts.learned += 1;
        Learned::New
    }

    /// Returns the number, modulo 32, of the window in which moves are counted at time `now`.
    fn window(&self, now: u32) -> u32 {
        (now / self.window_units) & WINDOWS
    }

    /// Sets the length of the window in which moves are counted; it is 10 s initially.
    pub fn set_window(&mut self, within: Duration) {
        self.window_units = units(within.min(FOREVER).as_nanos() as u64).max(1);
    }

    /// Returns how often an address in the cluster of `port` has moved within the current window
    /// (see [`Fdb::set_window`]); at most 255.
    pub fn moves(&self, key: Key, port: PortNo, now: Instant) -> u8 {
        let cluster = self.cluster(port);
        let place = self.find(key, cluster, self.hash(key, cluster)).and_then(|at| self.place(at));
        place.map_or(0, |place| place.moves(self.window(units(now.nanos()))))
    }

    /// Adds a static entry. Returns `false` if the table is full.
    pub fn insert_static(&mut self, key: Key, port: PortNo, now: Instant) -> bool {
        self.say(key, Place { port, bits: STATIC, seen: units(now.nanos()) })
    }

    /// Adds an address of the bridge itself ([`Kind::Local`]). Returns `false` if the table is
    /// full.
    pub fn insert_local(&mut self, key: Key, now: Instant) -> bool {
        self.say(key, Place { port: LOCAL, bits: OWN, seen: units(now.nanos()) })
    }

    fn say(&mut self, key: Key, place: Place) -> bool {
        let cluster = self.cluster(place.port);
        let hash = self.hash(key, cluster);
        let Some(at) = self.find(key, cluster, hash) else { return self.put(key, hash, place) };
        if let Some(there) = self.place_mut(at) {
            let before = std::mem::replace(there, place);
            self.shares.went(&before);
            self.shares.came(&place);
        }
        true
    }

    /// Removes an address from every cluster. Returns `false` if it was not known.
    pub fn remove(&mut self, key: Key) -> bool {
        let mut clusters = if self.clustered { self.clusters.to_vec() } else { Vec::new() };
        clusters.push(0);
        clusters.sort_unstable();
        clusters.dedup();
        let mut known = false;
        for cluster in clusters {
            if let Some((at, way)) = self.find(key, cluster, self.hash(key, cluster)) {
                self.clear(at, way);
                known = true;
            }
        }
        known
    }

    fn clear(&mut self, at: usize, way: usize) {
        if let Some(bucket) = self.buckets.get_mut(at)
            && let (Some(key), Some(place)) = (bucket.keys.get_mut(way), bucket.places.get(way))
        {
            *key = 0;
            self.len -= 1;
            self.shares.went(place);
        }
    }

    /// Removes expired entries in a part of the table, if a step is due. The whole table is checked
    /// once per timeout.
    pub fn poll(&mut self, now: Instant) {
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now.after(self.timeout / STEPS as u32);
        let step = self.buckets.len().div_ceil(STEPS);
        let (from, units) = (self.sweep, units(now.nanos()));
        for at in from..(from + step).min(self.buckets.len()) {
            for way in 0..WAYS {
                let old = self.buckets.get(at).is_some_and(|bucket| {
                    let place = bucket.places.get(way).filter(|place| place.kind() == LEARNED);
                    bucket.keys.get(way) != Some(&0) && place.is_some_and(|place| self.is_old(place, units))
                });
                if old {
                    self.clear(at, way);
                    self.counts.aged += 1;
                }
            }
        }
        self.sweep = if from + step >= self.buckets.len() { 0 } else { from + step };
    }
}
