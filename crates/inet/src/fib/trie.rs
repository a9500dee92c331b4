//! The matcher of IPv6: a trie of 4 bits a step, in which a jump skips what has no branch.
//!
//! An entry at depth d (bits known so far, a multiple of 4) is the whole answer for its addresses, as in
//! [`super::table`], or refers to 16 words that are one cache line:
//!
//! - a group: 16 entries at depth d + 4;
//! - a jump: a prefix longer than d, an entry for the addresses in it, and the answer for all others. A jump whose
//!   length is not a multiple of 4 has an answer, not a reference, for the addresses in it.
//!
//! A lone route is one jump, whatever its length. Up to `FEW` routes the trie begins with one entry; with more, for good,
//! with an array for the first 16 bits, of which the Internet's routes use a few pages. The default route stands beside
//! both. 220,000 routes with the lengths of the Internet's table take some 30 MB.
//!
//! One thread changes the trie while others read it. What is new is filled before one store shows it, and what it
//! replaces is used again when no reader is pinned that may have it ([decision
//! 18](../../../../docs/decisions/0018-the-fib-is-changed-under-its-readers.md)).
#![allow(clippy::indexing_slicing, reason = "16 bits index 2^16 entries, 4 bits index 16")]

use super::default::DefaultRoute;
use super::groups::{Groups, Spare, is_group, is_jump, jump_at, paint};
use super::prefix::{AddrBits, Prefix6};
use super::{CHUNK, Entry, Matcher, NextHopId};
use buf::mem::{self, Pages};
use buf::prefetch;
use lock::Pins;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Routes with which the trie begins with one entry.
const FEW: usize = 16;
const ROOT_BITS: u8 = 16;
const STEP: u8 = 4;

// Words of a jump: its key, its length, the entries.
const LEN: usize = 4;
const HIT: usize = 5;
const MISS: usize = 6;
/// The words of a jump that are entries.
pub(super) const ENTRIES: Range<usize> = HIT..MISS + 1;

#[derive(Default)]
pub struct Trie {
    /// The beginning while there are few routes.
    few: AtomicU32,
    root: OnceLock<Box<[AtomicU32]>>,
    groups: Groups,
    default: DefaultRoute,
}

impl Matcher<u128> for Trie {
    #[inline(always)]
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

    fn is_fetched_ahead(&self) -> bool {
        false // the array's few pages are near
    }

    fn prefetch(&self, _: u128) {}

    fn needs(_: Prefix6) -> usize {
        4
    }

    fn insert(
        &self,
        prefix: Prefix6,
        hop: NextHopId,
        routes: &std::collections::BTreeMap<Prefix6, NextHopId>,
        spare: &mut Spare,
        pins: &Pins,
        pages: Pages,
    ) {
        if self.root.get().is_none() && routes.len() > FEW {
            let root = mem::zeroed_words(1 << ROOT_BITS, pages);
            for (prefix, hop) in routes {
                self.change(Some(&root), spare, pins).insert_at(*prefix, Entry::route(prefix.len(), *hop));
            }
            drop(self.root.set(root)); // there was none
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

    /// Returns the first entry for an address, and its depth.
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
            (entry, depth) = self.step(entry, depth, dst);
        }
        entry
    }

    /// Returns the next entry for an address after one that refers to words, and its depth.
    #[inline(always)]
    fn step(&self, entry: u32, depth: u8, dst: u128) -> (u32, u8) {
        let inside = self.groups.of(entry);
        if !is_jump(entry) {
            return (inside[nibble(dst, depth)].load(Ordering::Acquire), depth + STEP);
        }
        let (key, len) = jump(inside);
        let at = if (dst ^ key).zeros() >= len { HIT } else { MISS };
        (inside[at].load(Ordering::Acquire), len)
    }

    /// Returns the answers for a chunk, a step of all of them at a time: their cache misses are under way together.
    /// `false`: the default route has changed meanwhile.
    #[inline]
    fn lookup_chunk(&self, dst: &[u128], out: &mut [Option<NextHopId>]) -> bool {
        let default = self.default.read();
        let (mut entries, mut depths, mut open) = ([0u32; CHUNK], [0u8; CHUNK], 0u32);
        for (at, &dst) in dst.iter().enumerate().take(CHUNK) {
            (entries[at], depths[at]) = self.begin(dst);
            open |= u32::from(is_group(entries[at])) << at;
            self.fetch(entries[at]);
        }
        while open != 0 {
            let mut left = open;
            while left != 0 {
                let at = left.trailing_zeros() as usize % CHUNK;
                left &= left - 1;
                (entries[at], depths[at]) = self.step(entries[at], depths[at], dst[at]);
                if is_group(entries[at]) {
                    self.fetch(entries[at]);
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

    #[inline(always)]
    fn fetch(&self, entry: u32) {
        if is_group(entry)
            && let Some(first) = self.groups.of(entry).first()
        {
            prefetch(first);
        }
    }
}

/// A change of the trie by its one writer.
struct Change<'a> {
    trie: &'a Trie,
    root: Option<&'a [AtomicU32]>,
    spare: &'a mut Spare,
    pins: &'a Pins,
}

impl<'a> Change<'a> {
    /// Returns the entries at which a prefix that is not the default route begins, and their depth.
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
        for slot in slots {
            // `Fib::insert` has checked that there are enough words.
            let done = self.insert(slot, depth, prefix, entry);
            debug_assert!(done.is_some(), "no words for {prefix:?}");
        }
    }

    fn remove_at(&mut self, prefix: Prefix6, cover: Entry) {
        if prefix.len() == 0 {
            return self.trie.default.set(Entry::NONE);
        }
        let (slots, depth) = self.beginning(prefix);
        slots.iter().for_each(|slot| self.remove(slot, depth, prefix, cover));
    }

    /// Makes `answer` the answer for the addresses of `prefix` that no longer one has, below an entry at `depth`.
    fn insert(&mut self, slot: &AtomicU32, depth: u8, prefix: Prefix6, answer: Entry) -> Option<()> {
        let (key, len, now) = (prefix.bits(), prefix.len(), slot.load(Ordering::Relaxed));
        if len <= depth {
            paint(std::slice::from_ref(slot), &self.trie.groups, len, answer);
            return Some(());
        }
        if !is_group(now) {
            let lone = self.make_jump(prefix, answer.0, now)?;
            slot.store(lone, Ordering::Release);
            return Some(());
        }
        let inside = self.trie.groups.of(now);
        if !is_jump(now) {
            return match len >= depth + STEP {
                true => self.insert(&inside[nibble(key, depth)], depth + STEP, prefix, answer),
                false => {
                    paint(&inside[nibbles(prefix, depth)], &self.trie.groups, len, answer);
                    Some(())
                }
            };
        }
        let (other, other_len) = jump(inside);
        let common = (key ^ other).zeros().min(len).min(other_len);
        if common == other_len && (len == other_len || other_len.is_multiple_of(STEP)) {
            return self.insert(&inside[HIT], other_len, prefix, answer);
        }
        if common == len && len.is_multiple_of(STEP) {
            // A jump to a copy of the jump that is there.
            let (hit, miss) = (inside[HIT].load(Ordering::Relaxed), inside[MISS].load(Ordering::Relaxed));
            let inner = self.make_jump(Prefix6::masked(other, other_len), hit, miss)?;
            paint(&self.trie.groups.of(inner)[ENTRIES], &self.trie.groups, len, answer);
            let outer = self.make_jump(prefix, inner, miss)?;
            slot.store(outer, Ordering::Release);
            self.spare.retire(now, self.pins);
            return Some(());
        }
        self.split(slot, depth, common - common % STEP)?;
        self.insert(slot, depth, prefix, answer)
    }

    /// Puts a group at depth `at` in the way of the jump that `slot` at `depth` refers to; no answer changes.
    fn split(&mut self, slot: &AtomicU32, depth: u8, at: u8) -> Option<()> {
        let groups = &self.trie.groups;
        let now = slot.load(Ordering::Relaxed);
        let words = groups.of(now);
        let (key, len) = jump(words);
        let (hit, miss) = (words[HIT].load(Ordering::Relaxed), words[MISS].load(Ordering::Relaxed));
        let group = self.spare.take(groups, self.pins)?;
        let inside = groups.of(group);
        inside.iter().for_each(|entry| entry.store(miss, Ordering::Relaxed));
        let prefix = Prefix6::masked(key, len);
        let below = if len > at + STEP { self.make_jump(prefix, hit, miss)? } else { hit };
        inside[nibbles(prefix, at)].iter().for_each(|entry| entry.store(below, Ordering::Relaxed));
        let new = if at == depth { group } else { self.make_jump(Prefix6::masked(key, at), group, miss)? };
        slot.store(new, Ordering::Release);
        self.spare.retire(now, self.pins);
        Some(())
    }

    fn make_jump(&mut self, prefix: Prefix6, hit: u32, miss: u32) -> Option<u32> {
        let group = self.spare.take(&self.trie.groups, self.pins)?;
        let words = self.trie.groups.of(group);
        for (at, word) in words[..LEN].iter().enumerate() {
            word.store((prefix.bits() >> (96 - 32 * at)) as u32, Ordering::Relaxed);
        }
        words[LEN].store(u32::from(prefix.len()), Ordering::Relaxed);
        words[HIT].store(hit, Ordering::Relaxed);
        words[MISS].store(miss, Ordering::Relaxed);
        Some(jump_at(group))
    }

    /// Gives the addresses of `prefix` that no longer one has the answer of its cover, below an entry at `depth`.
    fn remove(&mut self, slot: &AtomicU32, depth: u8, prefix: Prefix6, cover: Entry) {
        let (key, len, now) = (prefix.bits(), prefix.len(), slot.load(Ordering::Relaxed));
        if len <= depth {
            return paint(std::slice::from_ref(slot), &self.trie.groups, len, cover);
        }
        if !is_group(now) {
            return;
        }
        let inside = self.trie.groups.of(now);
        if is_jump(now) {
            self.remove(&inside[HIT], jump(inside).1, prefix, cover); // it begins with this jump's prefix
        } else if len >= depth + STEP {
            self.remove(&inside[nibble(key, depth)], depth + STEP, prefix, cover);
        } else {
            paint(&inside[nibbles(prefix, depth)], &self.trie.groups, len, cover);
        }
        self.tidy(slot, depth);
    }

    /// Takes out what `slot` refers to if it makes no difference any more.
    fn tidy(&mut self, slot: &AtomicU32, depth: u8) {
        let now = slot.load(Ordering::Relaxed);
        let inside = self.trie.groups.of(now);
        let shorter = if is_jump(now) { self.without_jump(inside) } else { self.without_group(inside, depth) };
        if let Some(shorter) = shorter.filter(|_| !self.spare.is_behind()) {
            slot.store(shorter, Ordering::Release);
            self.spare.retire(now, self.pins);
        }
    }

    /// Returns what stands for a jump that hits and misses the same, or leads to one that misses the same.
    fn without_jump(&self, words: &[AtomicU32]) -> Option<u32> {
        let (hit, miss) = (words[HIT].load(Ordering::Relaxed), words[MISS].load(Ordering::Relaxed));
        (hit == miss || self.is_jump_that_misses(hit, miss)).then_some(hit)
    }

    /// Returns what stands for a group at `depth` whose entries are all the answer of a prefix that covers it, but for
    /// one that may be a jump which gives that answer where it misses.
    fn without_group(&self, inside: &[AtomicU32], depth: u8) -> Option<u32> {
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
        is_group(entry) && is_jump(entry) && self.trie.groups.of(entry)[MISS].load(Ordering::Relaxed) == miss
    }
}

/// Returns the prefix of a jump, as key and length.
#[inline(always)]
fn jump(words: &[AtomicU32]) -> (u128, u8) {
    let word = |at: usize| u128::from(words[at].load(Ordering::Relaxed));
    (word(0) << 96 | word(1) << 64 | word(2) << 32 | word(3), words[LEN].load(Ordering::Relaxed) as u8)
}

#[inline(always)]
fn slot(addr: u128) -> usize {
    (addr >> (128 - ROOT_BITS)) as usize
}

/// Returns the 4 bits after the first `depth`.
#[inline(always)]
fn nibble(addr: u128, depth: u8) -> usize {
    (addr << depth >> (128 - STEP)) as usize
}

/// Returns the entries of a group at `depth` that are in a prefix, which begins with what leads to the group.
fn nibbles(prefix: Prefix6, depth: u8) -> Range<usize> {
    let first = nibble(prefix.bits(), depth);
    first..first + (1 << (depth + STEP).saturating_sub(prefix.len()))
}
