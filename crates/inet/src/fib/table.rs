//! The matcher of a router: 24 bits index one array, two groups of 4 bits follow where a longer prefix is.
//!
//! After Gupta, Lin and McKeown's DIR-24-8 (INFOCOM 1998), with two steps of 16 entries in place of one of 256: a lone
//! /32 costs 128 bytes and not 1 kB. Every entry is the whole answer for its addresses (prefixes are pushed down to the
//! leaves) and knows the length of the prefix it came from, so a change is one rule, [`paint`].
//!
//! The default route stands beside the array: it would touch all 64 MB for one route.
#![allow(clippy::indexing_slicing, reason = "24 bits index 2^24 entries: the compiler leaves the check out")]

use super::groups::{Groups, is_group, paint};
use super::prefix::Prefix;
use super::{Advise, CHUNK, Entry, NextHopId};

const SLOTS: usize = 1 << 24;

pub(super) struct Table {
    level24: Box<[u32; SLOTS]>,
    groups: Groups,
    default: Entry,
}

impl Table {
    pub(super) fn new(advise: Advise) -> Table {
        Table { level24: level24(advise), groups: Groups::new(), default: Entry::NONE }
    }

    #[inline]
    pub(super) fn find(&self, dst: u32) -> Entry {
        self.or_default(self.descend(self.level24[slot(dst)], dst))
    }

    pub(super) fn lookup_burst(&self, dst: &[u32], out: &mut [Option<NextHopId>]) {
        for (dst, out) in dst.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
            self.lookup_chunk(dst, out);
        }
    }

    /// All loads of the array first: none waits for another, so they are under way together. Then the few that
    /// found a group go on; a branch guessed wrong there no longer delays a load of the array.
    ///
    /// The cost is these loads: examples/fib_speed.rs prints them alone beside it. Tried, at 1 M routes: going on
    /// without branches, the same with BGP's lengths and 14 ticks more with 1 M /32; collecting the groups in a
    /// list first, 3 to 6 more with either. A compressed table in place of the array would have to fit the L2: a
    /// load from 64 MB costs 23 ticks here, from 32 MB 19, from 16 MB 14, from 4 MB 7, and 1 M routes have 2 M edges.
    #[inline]
    fn lookup_chunk(&self, dst: &[u32], out: &mut [Option<NextHopId>]) {
        let mut entries = [0u32; CHUNK];
        let mut seen = 0;
        for (entry, &dst) in entries.iter_mut().zip(dst) {
            *entry = self.level24[slot(dst)];
            seen |= *entry;
        }
        if is_group(seen) {
            self.descend_chunk(&mut entries, dst);
        }
        for (out, &entry) in out.iter_mut().zip(&entries) {
            *out = self.or_default(entry).hop();
        }
    }

    fn descend_chunk(&self, entries: &mut [u32; CHUNK], dst: &[u32]) {
        for (entry, &dst) in entries.iter_mut().zip(dst) {
            *entry = self.descend(*entry, dst);
        }
    }

    /// From an entry of the array to the answer.
    #[inline(always)]
    fn descend(&self, mut entry: u32, dst: u32) -> u32 {
        if is_group(entry) {
            entry = self.groups.at(entry, nibble28(dst));
            if is_group(entry) {
                entry = self.groups.at(entry, nibble32(dst));
            }
        }
        entry
    }

    #[inline(always)]
    fn or_default(&self, entry: u32) -> Entry {
        if entry == 0 { self.default } else { Entry(entry) }
    }

    pub(super) fn insert(&mut self, prefix: Prefix, entry: Entry) {
        let (addr, len) = (prefix.bits(), prefix.len());
        match len {
            0 => self.default = entry,
            1..=24 => {
                let slots = slot(addr)..slot(addr) + (1 << (24 - len));
                paint(&mut self.level24[slots], &mut self.groups, len, entry);
            }
            25..=28 => {
                let group = self.groups.open(&mut self.level24[slot(addr)]);
                let first = nibble28(addr);
                self.groups.paint_part(group, first..first + (1 << (28 - len)), len, entry);
            }
            _ => {
                let outer = self.groups.open(&mut self.level24[slot(addr)]);
                let group = self.groups.open_inner(outer, nibble28(addr));
                let first = nibble32(addr);
                self.groups.paint_part(group, first..first + (1 << (32 - len)), len, entry);
            }
        }
    }

    /// `cover` is the answer of the longest route left that contains `prefix`.
    pub(super) fn remove(&mut self, prefix: Prefix, cover: Entry) {
        // A default route answers where the array is empty, so what it covers is left empty.
        let cover = if cover.0 < Entry::bound(0) { Entry::NONE } else { cover };
        self.insert(prefix, cover);
        if prefix.len() > 24 {
            let outer = &mut self.level24[slot(prefix.bits())];
            self.groups.close_inner(*outer, nibble28(prefix.bits()));
            self.groups.close(outer, 24);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.level24) + self.groups.bytes()
    }
}

/// The only place the array comes from. `vec![0; _]` asks the system for zeroed pages and touches none.
#[allow(clippy::expect_used, reason = "the length is the constant two words further left")]
fn level24(advise: Advise) -> Box<[u32; SLOTS]> {
    let mut slots: Box<[u32; SLOTS]> = vec![0; SLOTS].try_into().expect("just made with that length");
    advise(&mut slots[..]);
    slots
}

#[inline(always)]
fn slot(addr: u32) -> usize {
    (addr >> 8) as usize
}

/// The bits that make 28 of 24, and 32 of 28.
#[inline(always)]
fn nibble28(addr: u32) -> usize {
    (addr >> 4 & 15) as usize
}

#[inline(always)]
fn nibble32(addr: u32) -> usize {
    (addr & 15) as usize
}
