//! The IPv6 matcher: a trie with 4 address bits per step. A jump skips the steps at which no other
//! route branches off.
//!
//! An entry at depth d (bits matched so far, a multiple of 4) is the complete answer for its
//! addresses, as in [`super::table`], or refers to
//!
//! - a group: 16 entries at depth d + 4, which are one cache line;
//! - a jump: a prefix longer than d, an entry for the addresses in it, and the answer for all
//!   others. If the length of the prefix is not a multiple of 4, the entry for the addresses in it
//!   is an answer, not a reference. A jump with a prefix of up to 63 bits takes four words; a
//!   longer one takes the 16 words of a group.
//!
//! A single route is one jump, whatever its length. With up to `FEW` routes, the root of the trie
//! is one entry. The first route beyond this number replaces the entry, permanently, by an array
//! that the first 24 address bits index. The array reserves 64 MB, of which the routes of the
//! Internet use a few pages. The parts below the former root entry are not freed, since readers may
//! still use them; they are small. The default route is stored outside the trie.
//!
//! One thread changes the trie while others read it. New parts are filled before a single store
//! publishes them. Replaced parts are reused when no pinned reader can use them any more ([decision
//! 18](../../../../docs/decisions/0018-the-fib-is-changed-under-its-readers.md)).
#![allow(clippy::indexing_slicing, reason = "24 bits index 2^24 entries, 4 bits index 16")]

use super::default::DefaultRoute;
use super::entry::{CHUNK, Entry, NextHopId};
use super::groups::{Below, Groups, IN_QUARTER, Spare, is_group, paint};
use super::matcher::Matcher;
use super::prefix::{AddrBits, Prefix6};
use buf::mem;
use buf::prefetch;
use lock::Pins;
use stats::hint::cold_path;
use std::hint::select_unpredictable;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Maximum number of routes of a trie whose root is one entry.
const FEW: usize = 16;
const ROOT_BITS: u8 = 24;
const STEP: u8 = 4;

/// Flag in a reference to a jump of 16 words.
const LONG: u32 = 1 << 30;
/// Flag in a reference to a jump of 4 words.
const SHORT: u32 = 1 << 29;
/// Layout of a long jump, in words: 4 words of address bits (key), the prefix length, 2 entries.
const LONG_LEN: usize = 4;
const LONG_ENTRIES: Range<usize> = 5..7;
/// Layout of a short jump, in words: 2 words of address bits (key) followed by a one bit, then 2
/// entries.
const SHORT_ENTRIES: Range<usize> = 2..4;
/// Indices of the two entries of a jump: `HIT` for the addresses in its prefix, `MISS` for all
/// others.
const HIT: usize = 0;
const MISS: usize = 1;

#[derive(Default)]
pub struct Trie {
    /// Root entry while there are few routes and no array.
    few: AtomicU32,
    root: OnceLock<Box<[AtomicU32]>>,
    groups: Groups,
    default: DefaultRoute,
}

impl Below for Trie {
    #[inline(always)]
    fn below(&self, entry: u32) -> &[AtomicU32] {
        if is_jump(entry) { self.jump(entry).entries } else { self.groups.of(entry) }
    }
}

/// A jump, unpacked into its prefix and its two entries.
#[derive(Clone, Copy)]
struct Jump<'a> {
    key: u128,
    len: u8,
    entries: &'a [AtomicU32],
}

impl Jump<'_> {
    fn hit(&self) -> u32 {
        self.entries[HIT].load(Ordering::Relaxed)
    }

    fn miss(&self) -> u32 {
        self.entries[MISS].load(Ordering::Relaxed)
    }
}

#[inline(always)]
fn is_jump(entry: u32) -> bool {
    entry & (LONG | SHORT) != 0
}

impl Matcher<u128> for Trie {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn find(&self, dst: u128) -> Entry {
        loop {
            let default = self.default.read();
            let (entry, depth) = self.begin(dst);
            let entry = self.descend(entry, depth, dst);
            if entry != 0 {
                return Entry(entry);
            }
            if self.default.is_still(default) {
                return default.entry();
            }
        }
    }

    fn lookup_burst(&self, dst: &[u128], out: &mut [Option<NextHopId>]) {
        for (dst, out) in dst.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
            while !self.lookup_chunk(dst, out) {}
        }
    }

    fn has_room(_: Prefix6, spare: &Spare) -> bool {
        spare.has(8)
    }

    fn insert(
        &self,
        prefix: Prefix6,
        hop: NextHopId,
        routes: &crate::stored::RouteMap<u128>,
        spare: &mut Spare,
        pins: &Pins,
    ) {
        if self.root.get().is_none() && routes.len() > FEW {
            let root = mem::zeroed(1 << ROOT_BITS, spare.pages);
            for (prefix, stored) in routes {
                self.change(Some(&root), spare, pins).insert_at(*prefix, Entry::route(prefix.len(), stored.hop));
            }
            drop(self.root.set(root)); // succeeds, since there is no array yet
        }
        let root = self.root.get().map(|root| &**root);
        self.change(root, spare, pins).insert_at(prefix, Entry::route(prefix.len(), hop));
    }

    fn remove(&self, prefix: Prefix6, cover: Entry, spare: &mut Spare, pins: &Pins) {
        self.change(self.root.get().map(|root| &**root), spare, pins).remove_at(prefix, cover.beside_default());
    }

    fn bytes(&self) -> usize {
        self.root.get().map_or(0, |root| size_of_val(&**root))
    }
}

impl Trie {
    fn change<'a>(&'a self, root: Option<&'a [AtomicU32]>, spare: &'a mut Spare, pins: &'a Pins) -> Change<'a> {
        Change { trie: self, root, spare, pins }
    }

    /// Returns the root entry for an address, and its depth.
    #[inline(always)]
    fn begin(&self, dst: u128) -> (u32, u8) {
        match self.root.get() {
            None => (self.few.load(Ordering::Acquire), 0),
            Some(root) => (root[slot(dst)].load(Ordering::Acquire), ROOT_BITS),
        }
    }

    #[inline(always)]
    fn descend(&self, mut entry: u32, mut depth: u8, dst: u128) -> u32 {
        while is_group(entry) {
            (entry, depth) = self.step(entry, self.groups.from(entry), depth, dst);
        }
        entry
    }

    /// Returns the jump that an entry refers to.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn jump(&self, entry: u32) -> Jump<'_> {
        let word = |words: &[AtomicU32], at: usize| words[at].load(Ordering::Relaxed);
        if entry & SHORT != 0 {
            let words = &self.groups.from(entry)[..IN_QUARTER];
            let marked = u64::from(word(words, 0)) << 32 | u64::from(word(words, 1));
            let key = u128::from(marked & marked.wrapping_sub(1)) << 64;
            return Jump { key, len: 63 - marked.trailing_zeros() as u8, entries: &words[SHORT_ENTRIES] };
        }
        let words = self.groups.of(entry);
        let key = (0..LONG_LEN).fold(0, |key, at| key << 32 | u128::from(word(words, at)));
        Jump { key, len: word(words, LONG_LEN) as u8, entries: &words[LONG_ENTRIES] }
    }

    /// Takes one step: returns the next entry for the address `dst`, and its depth. `words` are the
    /// words to which `entry` refers. Groups and short jumps share a code path without branches,
    /// since these would often be mispredicted.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn step(&self, entry: u32, words: &[AtomicU32], depth: u8, dst: u128) -> (u32, u8) {
        if entry & LONG != 0 {
            cold_path();
            let Jump { key, len, entries } = self.jump(entry);
            let at = if (dst ^ key).zeros() >= len { HIT } else { MISS };
            return (entries[at].load(Ordering::Acquire), len);
        }
        let word = |at: usize| u64::from(words[at].load(Ordering::Relaxed));
        let marked = word(0) << 32 | word(1);
        // The lowest one bit marks the end of the key. Differences at that bit and below are
        // ignored.
        let differs = (dst >> 64) as u64 ^ marked;
        let in_jump = SHORT_ENTRIES.start + usize::from(differs > marked ^ marked.wrapping_sub(1));
        let is_short = entry & SHORT != 0;
        let at = select_unpredictable(is_short, in_jump, nibble(dst, depth));
        let below = select_unpredictable(is_short, 63u8.wrapping_sub(marked.trailing_zeros() as u8), depth + STEP);
        (words[at].load(Ordering::Acquire), below)
    }

    /// Looks up a chunk, one step of all addresses at a time, so that their cache misses overlap.
    /// Returns `false` if the default route changed meanwhile.
    #[inline]
    fn lookup_chunk(&self, dst: &[u128], out: &mut [Option<NextHopId>]) -> bool {
        let default = self.default.read();
        let (mut entries, mut depths, mut open) = ([0u32; CHUNK], [0u8; CHUNK], 0u32);
        let mut words: [&[AtomicU32]; CHUNK] = [&[]; CHUNK];
        for (at, &dst) in dst.iter().enumerate().take(CHUNK) {
            (entries[at], depths[at]) = self.begin(dst);
            if is_group(entries[at]) {
                open |= 1 << at;
                words[at] = self.fetch(entries[at]);
            }
        }
        while open != 0 {
            let mut left = open;
            while left != 0 {
                let at = left.trailing_zeros() as usize % CHUNK;
                left &= left - 1;
                (entries[at], depths[at]) = self.step(entries[at], words[at], depths[at], dst[at]);
                if is_group(entries[at]) {
                    words[at] = self.fetch(entries[at]);
                } else {
                    open &= !(1 << at);
                }
            }
        }
        for (out, entry) in out.iter_mut().zip(entries) {
            *out = if entry == 0 { default.entry().hop() } else { Entry(entry).hop() };
        }
        self.default.is_still(default)
    }

    /// Returns the words that an entry refers to, and prefetches the first of them.
    #[inline(always)]
    fn fetch(&self, entry: u32) -> &[AtomicU32] {
        let words = self.groups.from(entry);
        words.first().map(prefetch);
        words
    }
}

/// A change of the trie in progress. Only one thread changes a trie.
struct Change<'a> {
    trie: &'a Trie,
    root: Option<&'a [AtomicU32]>,
    spare: &'a mut Spare,
    pins: &'a Pins,
}

impl<'a> Change<'a> {
    /// Returns the root entries that `prefix` covers, or the one that contains it, and their depth.
    /// `prefix` must not be the default route.
    fn beginning(&self, prefix: Prefix6) -> (&'a [AtomicU32], u8) {
        let Some(root) = self.root else { return (std::slice::from_ref(&self.trie.few), 0) };
        let first = slot(prefix.bits());
        (&root[first..first + (1 << ROOT_BITS.saturating_sub(prefix.len()))], ROOT_BITS)
    }

    fn insert_at(&mut self, prefix: Prefix6, entry: Entry) {
        if prefix.len() == 0 {
            return self.trie.default.set(entry);
        }
        let (slots, depth) = self.beginning(prefix);
        if prefix.len() <= depth {
            return paint(slots, self.trie, prefix.len(), entry);
        }
        // `Fib::insert` has checked that enough words are available.
        let done = self.insert(&slots[0], depth, prefix, entry);
        debug_assert!(done.is_some(), "no free words for {prefix:?}");
    }

    fn remove_at(&mut self, prefix: Prefix6, cover: Entry) {
        if prefix.len() == 0 {
            return self.trie.default.set(Entry::NONE);
        }
        let (slots, depth) = self.beginning(prefix);
        if prefix.len() <= depth {
            return paint(slots, self.trie, prefix.len(), cover);
        }
        self.remove(&slots[0], depth, prefix, cover);
    }

    /// Sets `answer` for all addresses of `prefix` that no more specific prefix covers. `slot` is
    /// the entry at `depth` from which the change begins. Returns `None` if there is not enough
    /// memory.
    fn insert(&mut self, slot: &AtomicU32, depth: u8, prefix: Prefix6, answer: Entry) -> Option<()> {
        let (key, len, now) = (prefix.bits(), prefix.len(), slot.load(Ordering::Relaxed));
        if len <= depth {
            paint(std::slice::from_ref(slot), self.trie, len, answer);
            return Some(());
        }
        if !is_group(now) {
            let lone = self.make_jump(prefix, answer.0, now)?;
            slot.store(lone, Ordering::Release);
            return Some(());
        }
        if !is_jump(now) {
            let inside = self.trie.groups.of(now);
            return match len >= depth + STEP {
                true => self.insert(&inside[nibble(key, depth)], depth + STEP, prefix, answer),
                false => {
                    paint(&inside[nibbles(prefix, depth)], self.trie, len, answer);
                    Some(())
                }
            };
        }
        let other = self.trie.jump(now);
        let common = (key ^ other.key).zeros().min(len).min(other.len);
        if common == other.len && (len == other.len || other.len.is_multiple_of(STEP)) {
            return self.insert(&other.entries[HIT], other.len, prefix, answer);
        }
        if common == len && len.is_multiple_of(STEP) {
            // Replaces the existing jump by a jump for `prefix` that leads to a copy of it.
            let (hit, miss) = (other.hit(), other.miss());
            let inner = self.make_jump(Prefix6::masked(other.key, other.len), hit, miss)?;
            paint(self.trie.below(inner), self.trie, len, answer);
            let outer = self.make_jump(prefix, inner, miss)?;
            slot.store(outer, Ordering::Release);
            self.retire(now);
            return Some(());
        }
        self.split(slot, depth, common - common % STEP)?;
        self.insert(slot, depth, prefix, answer)
    }

    /// Divides the jump to which `slot` at `depth` refers, by inserting a group at depth `at`. The
    /// answer for every address stays the same.
    fn split(&mut self, slot: &AtomicU32, depth: u8, at: u8) -> Option<()> {
        let now = slot.load(Ordering::Relaxed);
        let jump = self.trie.jump(now);
        let (prefix, hit, miss) = (Prefix6::masked(jump.key, jump.len), jump.hit(), jump.miss());
        let group = self.spare.take(&self.trie.groups, self.pins)?;
        let inside = self.trie.groups.of(group);
        inside.iter().for_each(|entry| entry.store(miss, Ordering::Relaxed));
        let below = if prefix.len() > at + STEP { self.make_jump(prefix, hit, miss)? } else { hit };
        inside[nibbles(prefix, at)].iter().for_each(|entry| entry.store(below, Ordering::Relaxed));
        let new = if at == depth { group } else { self.make_jump(Prefix6::masked(jump.key, at), group, miss)? };
        slot.store(new, Ordering::Release);
        self.retire(now);
        Some(())
    }

    fn make_jump(&mut self, prefix: Prefix6, hit: u32, miss: u32) -> Option<u32> {
        let (key, len, trie) = (prefix.bits(), prefix.len(), self.trie);
        let store = |words: &[AtomicU32], values: &[u32]| {
            words.iter().zip(values).for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
        };
        if len < 64 {
            let marked = (key >> 64) as u64 | 1 << (63 - len);
            let group = self.spare.take_quarter(&trie.groups, self.pins)?;
            store(trie.groups.from(group), &[(marked >> 32) as u32, marked as u32, hit, miss]);
            return Some(group | SHORT);
        }
        let group = self.spare.take(&trie.groups, self.pins)?;
        let [k0, k1, k2, k3] = [96, 64, 32, 0].map(|shift| (key >> shift) as u32);
        store(trie.groups.of(group), &[k0, k1, k2, k3, u32::from(len), hit, miss]);
        Some(group | LONG)
    }

    /// Frees the group or jump to which an entry referred.
    fn retire(&mut self, entry: u32) {
        if entry & SHORT != 0 {
            self.spare.retire_quarter(entry, self.pins);
        } else {
            self.spare.retire(entry, self.pins);
        }
    }

    /// Sets `cover` for all addresses of `prefix` that no more specific prefix covers. `slot` is
    /// the entry at `depth` from which the change begins.
    fn remove(&mut self, slot: &AtomicU32, depth: u8, prefix: Prefix6, cover: Entry) {
        let (key, len, now) = (prefix.bits(), prefix.len(), slot.load(Ordering::Relaxed));
        if len <= depth {
            return paint(std::slice::from_ref(slot), self.trie, len, cover);
        }
        if !is_group(now) {
            return;
        }
        if is_jump(now) {
            let jump = self.trie.jump(now);
            self.remove(&jump.entries[HIT], jump.len, prefix, cover); // `prefix` begins with the prefix of this jump
        } else if len >= depth + STEP {
            self.remove(&self.trie.groups.of(now)[nibble(key, depth)], depth + STEP, prefix, cover);
        } else {
            paint(&self.trie.groups.of(now)[nibbles(prefix, depth)], self.trie, len, cover);
        }
        self.tidy(slot, depth);
    }

    /// Removes the group or jump to which `slot` refers, if lookups have the same results without
    /// it.
    fn tidy(&mut self, slot: &AtomicU32, depth: u8) {
        let now = slot.load(Ordering::Relaxed);
        let shorter = if is_jump(now) { self.without_jump(now) } else { self.without_group(now, depth) };
        if let Some(shorter) = shorter.filter(|_| !self.spare.is_full()) {
            slot.store(shorter, Ordering::Release);
            self.retire(now);
        }
    }

    /// Returns the entry that can replace the jump `entry`; `None` if the jump is needed. It is not
    /// needed if its two entries are equal, or if its hit entry is a jump with the same miss entry.
    fn without_jump(&self, entry: u32) -> Option<u32> {
        let jump = self.trie.jump(entry);
        let (hit, miss) = (jump.hit(), jump.miss());
        (hit == miss || self.is_jump_that_misses(hit, miss)).then_some(hit)
    }

    /// Returns the entry that can replace the group `entry` at `depth`; `None` if the group is
    /// needed. It is not needed if all of its entries are equal and belong to a prefix that covers
    /// the group. One of them may instead be a jump that has the common entry as its miss entry.
    fn without_group(&self, entry: u32, depth: u8) -> Option<u32> {
        let inside = self.trie.groups.of(entry);
        let load = |entry: &AtomicU32| entry.load(Ordering::Relaxed);
        let (first, second) = (load(&inside[0]), load(&inside[1]));
        let usual = if is_group(first) { second } else { first };
        if usual >= Entry::bound(depth) {
            return None;
        }
        let mut others = inside.iter().map(load).filter(|entry| *entry != usual);
        match (others.next(), others.next()) {
            (None, _) => Some(usual),
            (Some(only), None) => Some(only).filter(|only| self.is_jump_that_misses(*only, usual)),
            _ => None,
        }
    }

    fn is_jump_that_misses(&self, entry: u32, miss: u32) -> bool {
        is_group(entry) && is_jump(entry) && self.trie.jump(entry).miss() == miss
    }
}

#[inline(always)]
fn slot(addr: u128) -> usize {
    (addr >> (128 - ROOT_BITS)) as usize
}

/// Returns the 4 address bits that follow the first `depth` bits.
#[inline(always)]
fn nibble(addr: u128, depth: u8) -> usize {
    let half = if depth < 64 { (addr >> 64) as u64 } else { addr as u64 };
    (half << (depth % 64) >> (64 - STEP)) as usize
}

/// Returns the range of entries of a group at `depth` that `prefix` covers. The prefix must begin
/// with the address bits that lead to the group.
fn nibbles(prefix: Prefix6, depth: u8) -> Range<usize> {
    let first = nibble(prefix.bits(), depth);
    first..first + (1 << (depth + STEP).saturating_sub(prefix.len()))
}
