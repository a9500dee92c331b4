//! Reassembly of fragments for this host, used by `ip4` (RFC 791 3.2, RFC 1122 3.3.2) and `ip6`
//! (RFC 8200 4.5). Both families share one table with its limits and timeout, so an attacker cannot
//! occupy more memory by using both.
//!
//! A fragment arrives without its Ethernet header and is held until its datagram is complete, times
//! out or is dropped. Every frame ends exactly once: it is returned in the [`Outcome`], or passed
//! to `ended` with a drop reason. Of the n fragments of a complete datagram, one is returned
//! (`Complete`) and n - 1 end as `FragMerged`.
//!
//! | arriving fragment or state of the datagram | what is dropped | drop reason |
//! |---|---|---|
//! | no payload; MF and length not a multiple of 8; end above 65,535 | fragment | `FragMalformed` |
//! | TCP at offset 8, or the first 16 bytes cut (RFC 1858, 3128) | fragment | `FragMalformed` |
//! | same offset, length, MF and bytes as a held fragment (jolt2) | fragment | `FragDuplicate` |
//! | other overlap with a held fragment (Teardrop, RFC 5722) | datagram, poisoned | `FragOverlap` |
//! | a second fragment without MF, or data after the end | datagram, poisoned | `FragMalformed` |
//! | more fragments or bytes than allowed per datagram | datagram, poisoned | `FragEvicted` |
//! | more datagrams or bytes than allowed | oldest datagram (see below) | `FragEvicted` |
//! | incomplete [`Limits::timeout`] after the first arrival | datagram | `FragTimeout` |
//! | complete, but no buffer of its size is available | datagram | `FragNoBuffer` |
//! | complete, some fragments CE, others Not-ECT (RFC 3168 5.3) | datagram | `FragMalformed` |
//!
//! An end above 65,535 occurs in the Ping of Death attack. An overlap is treated as such even if
//! the overlapping bytes are equal. If the limit per source is exceeded, the oldest datagram of
//! that source is evicted. For IPv6, the same applies to the limit per /64. If a limit for all
//! sources is exceeded, the oldest datagram in the table is evicted.
//!
//! The key of a poisoned datagram stays in the table without frames until its timeout, or until the
//! limits evict it. Fragments that still arrive for it are dropped with the reason for which the
//! datagram was poisoned. This has a disadvantage, known from RFC 4963: if the 16-bit
//! identification of a sender wraps around within the timeout and fragments are lost, the next
//! datagram with the same identification is lost too.
//!
//! This module does not send ICMP time exceeded (the caller sends it for [`Expired::First`]) and
//! does not reassemble forwarded packets. It does not verify transport checksums, so it clears
//! `RX_L4_OK` in a reassembled packet.

mod datagram;
#[cfg(any(test, fuzzing))]
mod fuzz;
#[cfg(test)]
mod tests;

#[cfg(any(test, fuzzing))]
pub use fuzz::fuzz;

pub use datagram::Expired;

use buf::{Frame, Pool, PoolConfig};
use clock::{Duration, Instant};
use datagram::{Datagram, Piece, Verdict};
use stats::DropReason;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use wire::hash::{self, Keyed};
use wire::ip4::Header;
use wire::ip6;

/// Limits of reassembly. In `datagrams` and `per_source`, 0 means 1.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of incomplete datagrams and poisoned keys together.
    pub datagrams: usize,
    /// Maximum number of incomplete datagrams and poisoned keys from one source address.
    pub per_source: usize,
    /// Maximum number of bytes held. A fragment counts as the size of its whole buffer, however
    /// short it is, plus some 50 bytes for its entry.
    pub bytes: usize,
    /// Maximum number of bytes held from one source address, counted as in `bytes`.
    pub bytes_per_source: usize,
    /// Maximum number of fragments of a datagram.
    pub fragments_per_datagram: usize,
    /// Time from the arrival of the first fragment until the datagram is dropped: 60 to 120 s (RFC
    /// 1122 3.3.2). Later fragments do not extend it.
    pub timeout: Duration,
    /// Pool of buffers for datagrams that do not fit into the first fragment's buffer; created when
    /// first needed. A buffer is in use as long as its packet exists, for example until an
    /// application reads it.
    pub large: PoolConfig,
}

impl Default for Limits {
    /// Returns the default limits: 4 MiB and 256 datagrams, of which one source may use a quarter.
    /// A quarter, 1 MiB, is about 470 buffers of 2 KiB, enough for a datagram of 64 KiB in
    /// fragments of 160 bytes.
    fn default() -> Limits {
        Limits {
            datagrams: 256,
            per_source: 64,
            bytes: 4 << 20,
            bytes_per_source: 1 << 20,
            fragments_per_datagram: 1024,
            timeout: Duration::from_secs(60),
            large: PoolConfig { buffers: 64, data: 1 << 16, ..PoolConfig::default() },
        }
    }
}

/// Outcome for a frame that [`Reassembly::input`] processed.
#[derive(Debug)]
pub enum Outcome {
    /// A complete packet. It begins with its IP header, which is marked by `mark_l3`.
    Complete(Frame),
    /// The frame is held until the rest of its datagram arrives.
    Held,
    /// The fragment is rejected. The caller must drop it with this reason.
    Dropped(Frame, DropReason),
}

/// Fragments of incomplete datagrams.
pub struct Reassembly {
    limits: Limits,
    table: HashMap<Key, Entry, Keyed>,
    /// Keys ordered by age, oldest first, which is the order of timeouts and evictions.
    ages: BTreeMap<Age, Key>,
    sources: HashMap<Share, Source, Keyed>,
    opened: u64,
    held: usize,
    bytes: usize,
    comparisons: u64,
    large: Option<Pool>,
}

/// Identity of a datagram: source, destination and identification (RFC 8200 4.5); for IPv4, also
/// the protocol (RFC 791 3.2). IPv4 addresses are stored as IPv4-mapped addresses, which no IPv6
/// packet from a link may contain.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    src: u128,
    dst: u128,
    id: u32,
}

impl Key {
    fn of(header: &Header) -> Key {
        let [src, dst] = [header.src, header.dst].map(|addr| addr.to_ipv6_mapped().to_bits());
        Key { src, dst, id: u32::from(header.proto.0) << 16 | u32::from(header.id) }
    }

    fn of6(header: &ip6::Header, id: u32) -> Key {
        Key { src: header.src.to_bits(), dst: header.dst.to_bits(), id }
    }

    /// Returns the units to which the per-source limits of this datagram apply: the source address
    /// and, for IPv6, its /64.
    fn shares(self) -> impl Iterator<Item = Share> {
        let network = (self.src >> 32 != 0xffff).then_some(Share::Network((self.src >> 64) as u64));
        [Some(Share::Address(self.src)), network].into_iter().flatten()
    }
}

/// Unit to which the per-source limits apply: a source address or, for IPv6, also a /64, since one
/// sender may use all addresses of a /64.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Share {
    Address(u128),
    Network(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Age {
    deadline: Instant,
    serial: u64,
}

struct Entry {
    age: Age,
    state: State,
}

enum State {
    Open(Datagram),
    Poisoned(DropReason),
}

#[derive(Default)]
struct Source {
    ages: BTreeSet<Age>,
    bytes: usize,
}

impl Reassembly {
    /// Creates an empty table. `key` is the secret key of its hash function: a random number on a
    /// host, the seed in a simulation.
    pub fn new(limits: Limits, key: u64) -> Reassembly {
        let keyed = Keyed(hash::Key::seeded(key));
        Reassembly {
            limits: Limits { datagrams: limits.datagrams.max(1), per_source: limits.per_source.max(1), ..limits },
            table: HashMap::with_hasher(keyed),
            ages: BTreeMap::new(),
            sources: HashMap::with_hasher(keyed),
            opened: 0,
            held: 0,
            bytes: 0,
            comparisons: 0,
            large: None,
        }
    }

    /// Processes an IPv4 packet. It must begin with the header that `header` was parsed from, and
    /// the header checksum must have been verified.
    ///
    /// A packet that is not a fragment is returned unchanged as `Complete`. Held frames that end
    /// during the call, of this or other datagrams, are passed to `ended`.
    pub fn input(
        &mut self,
        header: &Header,
        mut frame: Frame,
        now: Instant,
        ended: &mut dyn FnMut(Frame, DropReason),
    ) -> Outcome {
        if !header.is_fragment() {
            return Outcome::Complete(frame);
        }
        let Some(piece) = Piece::of(header, frame.bytes()) else {
            return Outcome::Dropped(frame, DropReason::FragMalformed);
        };
        frame.truncate(usize::from(header.total_len));
        self.take(Key::of(header), piece, frame, now, ended)
    }

    /// Processes an IPv6 packet without padding. `chain` is its chain of extension headers. A
    /// packet that is not a fragment, or a fragment that contains the whole datagram (RFC 6946), is
    /// returned unchanged as `Complete`, even if other fragments with its identification are held.
    pub fn input6(
        &mut self,
        header: &ip6::Header,
        chain: &ip6::Chain,
        frame: Frame,
        now: Instant,
        ended: &mut dyn FnMut(Frame, DropReason),
    ) -> Outcome {
        let Some(fragment) = chain.fragment.filter(|fragment| !fragment.is_atomic()) else {
            return Outcome::Complete(frame);
        };
        match Piece::of6(header, chain, fragment) {
            Some(piece) => self.take(Key::of6(header, fragment.id), piece, frame, now, ended),
            None => Outcome::Dropped(frame, DropReason::FragMalformed),
        }
    }

    fn take(
        &mut self,
        key: Key,
        piece: Piece,
        frame: Frame,
        now: Instant,
        ended: &mut dyn FnMut(Frame, DropReason),
    ) -> Outcome {
        let verdict = match self.table.get(&key).map(|entry| &entry.state) {
            Some(State::Open(datagram)) => datagram.judge(&piece, &frame, &mut self.comparisons),
            Some(&State::Poisoned(why)) => Verdict::Drop(why),
            None => {
                self.open(key, now, ended);
                Verdict::Insert(0)
            }
        };
        match verdict {
            Verdict::Insert(at) => self.hold(key, at, piece, frame, ended),
            Verdict::Drop(why) => Outcome::Dropped(frame, why),
            Verdict::Poison(why) => {
                self.poison(key, why, ended);
                Outcome::Dropped(frame, why)
            }
        }
    }

    /// Removes the datagrams that have timed out, oldest first, and passes their frames to `ended`.
    pub fn expire(&mut self, now: Instant, ended: &mut dyn FnMut(Expired)) {
        while let Some((&age, &key)) = self.ages.first_key_value() {
            if age.deadline > now {
                return;
            }
            if let Some(datagram) = self.close(key) {
                datagram.expire(ended);
            }
        }
    }

    /// Returns the time at which [`Reassembly::expire`] must be called; `None` if nothing is held.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.ages.first_key_value().map(|(age, _)| age.deadline)
    }

    /// Removes all datagrams and passes their frames to `ended` with the reason `why`. Called when
    /// the host shuts down.
    pub fn end_all(&mut self, why: DropReason, ended: &mut dyn FnMut(Frame, DropReason)) {
        while let Some((_, &key)) = self.ages.first_key_value() {
            if let Some(datagram) = self.close(key) {
                datagram.end(why, ended);
            }
        }
    }

    /// Returns the statistics of the large buffers; `None` before their first use.
    pub fn large_stats(&self) -> Option<buf::PoolStats> {
        self.large.as_ref().map(Pool::stats)
    }

    /// Releases this thread's ownership of the pool of large buffers; see [`Pool::release`].
    pub fn release(&self) {
        if let Some(pool) = &self.large {
            pool.release();
        }
    }

    /// Returns the number of frames held, which the audit of frames needs.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns the number of bytes held, counted as in [`Limits::bytes`]. It never exceeds that
    /// limit.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of incomplete datagrams and poisoned keys.
    pub fn datagrams(&self) -> usize {
        self.table.len()
    }

    /// Returns the number of comparisons between arriving and held fragments so far: the cost that
    /// a FragmentSmack attack would increase.
    pub fn comparisons(&self) -> u64 {
        self.comparisons
    }

    /// Adds an entry for a new datagram. First evicts the oldest datagrams of its source while the
    /// source is at its limit, then the oldest of all sources while the table is full.
    fn open(&mut self, key: Key, now: Instant, ended: &mut dyn FnMut(Frame, DropReason)) {
        for share in key.shares() {
            let (limit, _) = self.limits_of(share);
            while self.sources.get(&share).is_some_and(|source| source.ages.len() >= limit) {
                let Some(oldest) = self.oldest_of(share, key) else { break };
                self.evict(oldest, ended);
            }
        }
        while self.table.len() >= self.limits.datagrams {
            let Some(oldest) = self.oldest(key) else { break };
            self.evict(oldest, ended);
        }
        let age = Age { deadline: now.after(self.limits.timeout), serial: self.opened };
        self.opened += 1;
        self.ages.insert(age, key);
        for share in key.shares() {
            self.sources.entry(share).or_default().ages.insert(age);
        }
        self.table.insert(key, Entry { age, state: State::Open(Datagram::default()) });
    }

    /// Stores a fragment in the datagram of `key`, at the index `at` that [`Datagram::judge`]
    /// returned. If the datagram is complete then, reassembles it.
    fn hold(
        &mut self,
        key: Key,
        at: usize,
        piece: Piece,
        frame: Frame,
        ended: &mut dyn FnMut(Frame, DropReason),
    ) -> Outcome {
        let charge = datagram::charge(&frame);
        let room = self.make_room(key, charge, ended);
        let datagram = match self.table.get_mut(&key).map(|entry| &mut entry.state) {
            Some(State::Open(datagram)) if room && datagram.fragments() < self.limits.fragments_per_datagram => {
                datagram
            }
            _ => {
                self.poison(key, DropReason::FragEvicted, ended);
                return Outcome::Dropped(frame, DropReason::FragEvicted);
            }
        };
        datagram.insert(at, piece, frame);
        let whole = datagram.is_whole();
        self.held += 1;
        self.bytes += charge;
        for share in key.shares() {
            self.sources.entry(share).or_default().bytes += charge;
        }
        if whole { self.complete(key, ended) } else { Outcome::Held }
    }

    /// Evicts the oldest datagrams until `charge` more bytes fit. Returns `false` if they do not
    /// fit even though only the datagram of `key` is left.
    fn make_room(&mut self, key: Key, charge: usize, ended: &mut dyn FnMut(Frame, DropReason)) -> bool {
        for share in key.shares() {
            let (_, limit) = self.limits_of(share);
            while self.sources.get(&share).is_some_and(|source| source.bytes + charge > limit) {
                let Some(oldest) = self.oldest_of(share, key) else { return false };
                self.evict(oldest, ended);
            }
        }
        while self.bytes + charge > self.limits.bytes {
            let Some(oldest) = self.oldest(key) else { return false };
            self.evict(oldest, ended);
        }
        true
    }

    fn complete(&mut self, key: Key, ended: &mut dyn FnMut(Frame, DropReason)) -> Outcome {
        let Some(mut datagram) = self.close(key) else { return Outcome::Held };
        match datagram.merge(|| large_buffer(&mut self.large, &self.limits.large)) {
            Ok(whole) => {
                datagram.end(DropReason::FragMerged, ended);
                Outcome::Complete(whole)
            }
            Err(why) => {
                let newest = datagram.take_newest();
                datagram.end(why, ended);
                newest.map_or(Outcome::Held, |frame| Outcome::Dropped(frame, why))
            }
        }
    }

    fn oldest(&self, besides: Key) -> Option<Key> {
        self.ages.values().copied().find(|&key| key != besides)
    }

    /// Returns the maximum number of datagrams and of bytes for a source. A /64 may use half of the
    /// total.
    fn limits_of(&self, share: Share) -> (usize, usize) {
        let limits = &self.limits;
        match share {
            Share::Address(_) => (limits.per_source, limits.bytes_per_source),
            Share::Network(_) => {
                ((limits.datagrams / 2).max(limits.per_source), (limits.bytes / 2).max(limits.bytes_per_source))
            }
        }
    }

    fn oldest_of(&self, share: Share, besides: Key) -> Option<Key> {
        let ages = &self.sources.get(&share)?.ages;
        ages.iter().filter_map(|age| self.ages.get(age)).copied().find(|&key| key != besides)
    }

    fn evict(&mut self, key: Key, ended: &mut dyn FnMut(Frame, DropReason)) {
        if let Some(datagram) = self.close(key) {
            datagram.end(DropReason::FragEvicted, ended);
        }
    }

    /// Poisons the datagram of `key`: drops its held fragments, and those that arrive until its
    /// timeout, with the reason `why`.
    fn poison(&mut self, key: Key, why: DropReason, ended: &mut dyn FnMut(Frame, DropReason)) {
        let Some(entry) = self.table.get_mut(&key) else { return };
        if let State::Open(datagram) = std::mem::replace(&mut entry.state, State::Poisoned(why)) {
            self.uncharge(key, &datagram);
            datagram.end(why, ended);
        }
    }

    /// Removes `key`. Returns its datagram, or `None` if the datagram was poisoned.
    fn close(&mut self, key: Key) -> Option<Datagram> {
        let Entry { age, state } = self.table.remove(&key)?;
        self.ages.remove(&age);
        let datagram = match state {
            State::Open(datagram) => Some(datagram),
            State::Poisoned(_) => None,
        };
        if let Some(datagram) = &datagram {
            self.uncharge(key, datagram);
        }
        for share in key.shares() {
            if let Some(source) = self.sources.get_mut(&share) {
                source.ages.remove(&age);
                if source.ages.is_empty() {
                    self.sources.remove(&share);
                }
            }
        }
        datagram
    }

    fn uncharge(&mut self, key: Key, datagram: &Datagram) {
        self.held -= datagram.fragments();
        self.bytes -= datagram.bytes();
        for share in key.shares() {
            if let Some(source) = self.sources.get_mut(&share) {
                source.bytes -= datagram.bytes();
            }
        }
    }
}

/// Returns an empty frame for a long datagram from `pool`, which is created if needed; `None` if
/// there is no buffer. If the pool cannot be created, the next call tries again.
fn large_buffer(pool: &mut Option<Pool>, config: &PoolConfig) -> Option<Frame> {
    if pool.is_none() {
        *pool = Pool::new(config).ok();
    }
    pool.as_ref()?.get()
}

impl fmt::Debug for Reassembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reassembly({} datagrams, {} frames, {} bytes held)", self.table.len(), self.held, self.bytes)
    }
}
