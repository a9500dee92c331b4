//! Where addresses are: (VLAN, MAC) -> port, with an age.
//!
//! Buckets of four entries, a cache line each. An address has two buckets (two parts of its hash) and stands in the first if that had room
//! when it came: half full, as the table is made at most, 96 of 100 do, and a lookup touches one line.
//!
//! A cluster of ports (bridge_cfg of FreeBSD 4, where each has a table) has addresses of its own: the cluster takes part in the hash,
//! and an entry is in the cluster of its port.

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

/// Addresses of a table, if nobody says otherwise: as many as FreeBSD 4's bridge had places for.
pub const ADDRESSES: usize = 8192;

/// What a table is to be.
#[derive(Debug, Clone, Copy)]
pub struct FdbConfig {
    /// Addresses it holds at most (if_bridge's maxaddr).
    pub most: usize,
    /// How long an address lasts that is not seen again (if_bridge's timeout; IEEE 802.1Q table 8-6 has 300 s).
    pub timeout: Duration,
    /// Its secret.
    pub key: hash::Key,
}

impl FdbConfig {
    /// [`ADDRESSES`], 300 s, a secret of its own.
    pub fn new() -> FdbConfig {
        FdbConfig { most: ADDRESSES, timeout: Duration::from_secs(300), key: hash::Key::random() }
    }
}

impl Default for FdbConfig {
    fn default() -> FdbConfig {
        FdbConfig::new()
    }
}

/// An address in a VLAN, in one word: VLAN in bits 48 to 59, a one above, so that no key is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u64);

const USED: u64 = 1 << 63;

impl Key {
    /// Of `mac` in VLAN `vid` (its low twelve bits).
    #[inline(always)]
    pub fn new(vid: u16, mac: Mac) -> Key {
        let [a, b, c, d, e, f] = mac.0;
        Key::of(vid, u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// Of an address in the low 48 bits of a word, first octet first.
    #[inline(always)]
    pub(crate) fn of(vid: u16, mac: u64) -> Key {
        Key(USED | u64::from(vid & 0xfff) << 48 | mac)
    }

    /// The address.
    pub fn mac(self) -> Mac {
        let [_, _, a, b, c, d, e, f] = self.0.to_be_bytes();
        Mac([a, b, c, d, e, f])
    }

    /// The VLAN.
    pub fn vid(self) -> u16 {
        (self.0 >> 48) as u16 & 0xfff
    }
}

/// How an entry came to be, and what it bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Seen as a source: ages, and follows its station.
    Learned,
    /// The same on a sticky port: does neither.
    Sticky,
    /// Somebody said so: does neither.
    Static,
    /// The bridge's own: frames for it go to the bridge itself, its port is [`LOCAL`], and no port may send from it.
    Local,
}

/// What is known of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Whose.
    pub key: Key,
    /// Where it is.
    pub port: PortNo,
    /// How that is known.
    pub kind: Kind,
    /// How long ago it was seen, to 67 ms.
    pub age: Duration,
    /// Another replica was the last to see it ([`Fdb::hear`]).
    pub heard: bool,
}

/// What learning came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// Known, and here.
    Known,
    /// New.
    New,
    /// It was at this port, and is here now.
    Moved(PortNo),
    /// It was said to be at this port, and stays there; [`LOCAL`]: it is the bridge's own.
    Bound(PortNo),
    /// Its port has as many addresses as it may ([`Fdb::set_limit`]).
    PortFull,
    /// There is no place for it.
    Full,
}

stats::tallies! {
    /// What a table has seen.
    pub struct FdbCounts at "bridge.fdb" {
        /// Addresses learned.
        learned,
        /// Addresses that came through another port than before.
        moved,
        /// Forgotten, not having been seen.
        aged,
        /// Forgotten to make place for another, not having been seen lately.
        evicted,
        /// Not learned: no place.
        full,
        /// Not learned: their port has as many as it may.
        port_full,
    }
}

/// Moves of an address are counted within this time, unless somebody says otherwise.
const WINDOW: Duration = Duration::from_secs(10);

/// Units of age: 67 ms, which wrap after nine years.
#[inline(always)]
fn units(nanos: u64) -> u32 {
    (nanos >> 26) as u32
}

/// No timeout is longer: half of the units.
const FOREVER: Duration = Duration::from_secs(4 * 365 * 86_400);

/// Where an address was seen and when, and in which window that counts as a move; as bits what the entry is to be.
struct Seen {
    port: PortNo,
    bits: u16,
    seen: u32,
    window: u32,
}

fn kind_of(sticky: bool) -> u16 {
    if sticky { STICKY } else { LEARNED }
}

/// The table.
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
    /// The cluster of each port.
    clusters: Box<[u16]>,
    /// There is another cluster than 0.
    clustered: bool,
    counts: FdbCounts,
    /// The next bucket to be swept, and when.
    sweep: usize,
    sweep_at: Instant,
}

/// A sweep through the whole table has so many steps, and a timeout as many.
const STEPS: usize = 64;
/// An entry that was not seen for this part of the timeout may have to make place.
const COLD: u32 = 16;

impl Fdb {
    /// An empty one. Memory is taken now: 32 to 64 bytes an address, for twice as many entries as it may have.
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

    /// Addresses that it may have.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Addresses that it can have: for how many it was made.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets how many it may have, up to its capacity. What is beyond stays until it has aged; new ones find no place before.
    pub fn set_most(&mut self, most: usize) {
        self.most = most.clamp(1, self.capacity);
    }

    /// Sets how long an address is known that is not seen again.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout.min(FOREVER);
        self.timeout_units = units(self.timeout.as_nanos() as u64).max(1);
    }

    /// How long an address is known that is not seen again.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Addresses it knows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it has seen.
    pub fn counts(&self) -> FdbCounts {
        self.counts
    }

    /// The cluster of a port; that of the bridge itself ([`LOCAL`]) is 0.
    #[inline(always)]
    fn cluster(&self, port: PortNo) -> u16 {
        self.clusters.get(usize::from(port)).copied().unwrap_or_default()
    }

    /// Puts a port into a cluster. What was learned there is forgotten; static entries go along, as far as there is place for them.
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

    /// Returns the hash of `key` in a cluster, for [`Fdb::prefetch`] and the look-ups by hash.
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

    /// Asks the cache for the bucket in which it probably stands.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(bucket) = self.buckets.get(hash as usize & self.mask) {
            buf::prefetch(bucket);
        }
    }

    #[inline(always)]
    fn find(&self, key: Key, cluster: u16, hash: u64) -> Option<(usize, usize)> {
        let first = hash as usize & self.mask;
        match self.buckets.get(first)?.find(key) {
            Some(way) if self.is_in((first, way), cluster) => Some((first, way)),
            _ => self.find_more(key, cluster, hash),
        }
    }

    /// In its other bucket, where 4 of 100 stand and what is not known is looked for in vain; or beside the same address of another cluster.
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

    /// At which port an address of cluster 0 is; `None` if it is not known.
    #[inline(always)]
    pub fn lookup(&self, key: Key, now: Instant) -> Option<PortNo> {
        self.lookup_in(0, key, now)
    }

    /// At which port of a cluster an address is; `None` if it is not known there.
    #[inline(always)]
    pub fn lookup_in(&self, cluster: u16, key: Key, now: Instant) -> Option<PortNo> {
        self.lookup_hashed(key, cluster, self.hash(key, cluster), now)
    }

    #[inline(always)]
    pub(crate) fn lookup_hashed(&self, key: Key, cluster: u16, hash: u64, now: Instant) -> Option<PortNo> {
        let place = self.place(self.find(key, cluster, hash)?)?;
        (place.kind() != LEARNED || !self.is_old(place, units(now.nanos()))).then_some(place.port)
    }

    /// The same for up to 32 at once, their cache misses under way together.
    pub fn lookup_burst(&self, keys: &[Key], now: Instant, out: &mut [Option<PortNo>]) {
        let mut hashes = [0; 32];
        for ((key, hash), out) in keys.iter().zip(&mut hashes).zip(out.iter_mut()) {
            *hash = self.hash(*key, 0);
            self.prefetch(*hash);
            *out = None;
        }
        for ((key, hash), out) in keys.iter().zip(hashes).zip(out) {
            *out = self.lookup_hashed(*key, 0, hash, now);
        }
    }

    #[inline(always)]
    fn is_old(&self, place: &Place, now: u32) -> bool {
        now.wrapping_sub(place.seen) >= self.timeout_units
    }

    /// `key` was seen at `port`. `sticky`: if that is new, it stays there.
    #[inline(always)]
    pub fn learn(&mut self, key: Key, port: PortNo, sticky: bool, now: Instant) -> Learned {
        self.learn_hashed(key, self.hash(key, self.cluster(port)), port, sticky, now)
    }

    #[inline(always)]
    pub(crate) fn learn_hashed(&mut self, key: Key, hash: u64, port: PortNo, sticky: bool, now: Instant) -> Learned {
        let seen = units(now.nanos());
        if let Some(at) = self.find(key, self.cluster(port), hash)
            && let Some(place) = self.place_mut(at)
            && place.port == port
        {
            // A line that is only read stays shared; and a store is a store.
            if place.seen != seen {
                place.seen = seen;
                place.bits &= !HEARD;
            }
            return Learned::Known;
        }
        self.learn_more(key, hash, Seen { port, bits: kind_of(sticky), seen, window: self.window(seen) })
    }

    /// Learns from hearsay: another replica saw the address at `port` when it was `at`. What was seen here since stays, as does what somebody said;
    /// and what has aged on its way is no news. Of one unit of age (67 ms) what is heard comes after what was seen.
    pub fn hear(&mut self, key: Key, port: PortNo, sticky: bool, at: Instant, now: Instant) {
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
        self.learn_more(key, hash, Seen { port, bits: kind_of(sticky) | HEARD, seen, window: self.window(now) });
    }

    #[cold]
    fn learn_more(&mut self, key: Key, hash: u64, news: Seen) -> Learned {
        let Seen { port, bits, seen, window } = news;
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

    /// The number of the window in which moves are counted, of 32.
    fn window(&self, now: u32) -> u32 {
        (now / self.window_units) & WINDOWS
    }

    /// Moves of an address are counted within `within`; 10 s at first.
    pub fn set_window(&mut self, within: Duration) {
        self.window_units = units(within.min(FOREVER).as_nanos() as u64).max(1);
    }

    /// Returns the moves of an address of `port`'s cluster within the window of `now` (see [`Fdb::set_window`]); at most 255.
    pub fn moves(&self, key: Key, port: PortNo, now: Instant) -> u8 {
        let cluster = self.cluster(port);
        let place = self.find(key, cluster, self.hash(key, cluster)).and_then(|at| self.place(at));
        place.map_or(0, |place| place.moves(self.window(units(now.nanos()))))
    }

    /// Says where an address is, for good. `false`: there is no place for it.
    pub fn insert_static(&mut self, key: Key, port: PortNo, now: Instant) -> bool {
        self.say(key, Place { port, bits: STATIC, seen: units(now.nanos()) })
    }

    /// Says that an address is the bridge's own ([`Kind::Local`]). `false`: there is no place for it.
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

    /// Forgets an address, in every cluster. `false`: it was not known.
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

    /// Forgets a part of what has aged, if it is time to; all of it within a timeout.
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
