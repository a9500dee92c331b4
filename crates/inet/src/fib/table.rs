//! The matcher of a router: 24 bits index one array, two groups of 4 bits follow where a longer prefix is.
//!
//! After Gupta, Lin and McKeown's DIR-24-8 (INFOCOM 1998), with two steps of 16 entries in place of one of 256: a lone
//! /32 costs 128 bytes and not 1 kB. Every entry is the whole answer for its addresses (prefixes are pushed down to the
//! leaves) and knows the length of the prefix it came from, so a change is one rule, [`paint`].
//!
//! The default route stands beside the array: it would touch all 64 MB for one route.
//!
//! In front stands an array of [codes](Table::code): one byte for each /24, 16 MB in all, that says what the entry says
//! where that is short to say. Where loads are the cost, a quarter of the memory is half the ticks.
#![allow(clippy::indexing_slicing, reason = "24 bits index 2^24 entries: the compiler leaves the check out")]

use super::groups::{Groups, is_group, paint};
use super::prefix::Prefix;
use super::{CHUNK, Entry, NextHopId};
use std::fmt;

const SLOTS: usize = 1 << 24;

/// The code of a /24 for which `level24` must be asked.
const ASK: u8 = u8::MAX;

pub(super) struct Table {
    codes: Box<[u8; SLOTS]>,
    level24: Box<[u32; SLOTS]>,
    groups: Groups,
    default: Entry,
}

impl Table {
    pub(super) fn new(huge_pages: bool) -> Table {
        Table { codes: slots(huge_pages), level24: slots(huge_pages), groups: Groups::new(), default: Entry::NONE }
    }

    /// What one byte can say of an entry: 0 for no route, a next hop below 254 as its index plus one, for the rest [`ASK`].
    fn code(entry: u32) -> u8 {
        if is_group(entry) {
            return ASK;
        }
        Entry(entry).hop().map_or(0, |hop| u8::try_from(hop.index() + 1).unwrap_or(ASK))
    }

    /// Makes the codes of `slots` say what the entries say now.
    fn encode(&mut self, slots: std::ops::Range<usize>) {
        for (code, &entry) in self.codes[slots.clone()].iter_mut().zip(&self.level24[slots]) {
            *code = Table::code(entry);
        }
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

    /// All loads of the codes first: none waits for another, so they are under way together. Then the few that must ask go
    /// on; a branch guessed wrong there no longer delays a load.
    ///
    /// The cost is these loads: examples/fib_speed.rs prints them alone beside it. From 64 MB one costs 23 ticks here, from
    /// 32 MB 19, from 16 MB 14, from 4 MB 7; 1 M routes have 2 M edges, so no structure for them fits the L2. Tried, on
    /// the array of 64 MB: going on without branches, the same with BGP's lengths and 14 ticks more with 1 M /32;
    /// collecting the groups in a list first, 3 to 6 more with either.
    #[inline]
    fn lookup_chunk(&self, dst: &[u32], out: &mut [Option<NextHopId>]) {
        let mut codes = [0u32; CHUNK];
        for (code, &dst) in codes.iter_mut().zip(dst) {
            *code = u32::from(self.codes[slot(dst)]);
        }
        let default = self.default.0 & Entry::HOP;
        let mut seen = 0;
        for (out, code) in out.iter_mut().zip(codes) {
            *out = Entry(if code == 0 { default } else { code }).hop();
            seen |= code + 1;
        }
        if seen > u32::from(ASK) {
            self.ask_chunk(&codes, dst, out);
        }
    }

    /// The same for those whose code does not say it: again all loads first.
    #[inline(never)]
    fn ask_chunk(&self, codes: &[u32; CHUNK], dst: &[u32], out: &mut [Option<NextHopId>]) {
        let (mut entries, mut asked) = ([0u32; CHUNK], [0usize; CHUNK]);
        let mut n = 0;
        for (at, &code) in codes.iter().enumerate().take(dst.len()) {
            asked[n] = at;
            n += usize::from(code == u32::from(ASK));
        }
        for (entry, &at) in entries.iter_mut().zip(&asked[..n]) {
            *entry = self.level24[slot(dst[at])];
        }
        for (&entry, &at) in entries.iter().zip(&asked[..n]) {
            out[at] = self.or_default(self.descend(entry, dst[at])).hop();
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
                paint(&mut self.level24[slots.clone()], &mut self.groups, len, entry);
                self.encode(slots);
            }
            25..=28 => {
                let group = self.groups.open(&mut self.level24[slot(addr)]);
                let first = nibble28(addr);
                self.groups.paint_part(group, first..first + (1 << (28 - len)), len, entry);
                self.codes[slot(addr)] = ASK;
            }
            _ => {
                let outer = self.groups.open(&mut self.level24[slot(addr)]);
                let group = self.groups.open_inner(outer, nibble28(addr));
                let first = nibble32(addr);
                self.groups.paint_part(group, first..first + (1 << (32 - len)), len, entry);
                self.codes[slot(addr)] = ASK;
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
            self.codes[slot(prefix.bits())] = Table::code(*outer);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.codes) + size_of_val(&*self.level24) + self.groups.bytes()
    }
}

/// The only place the arrays come from. `vec![0; _]` asks the system for zeroed pages and touches none.
#[allow(clippy::expect_used, reason = "the length is the constant two words further left")]
fn slots<T: Copy + Default + fmt::Debug>(huge_pages: bool) -> Box<[T; SLOTS]>
where
    Vec<T>: TryInto<Box<[T; SLOTS]>, Error: fmt::Debug>,
{
    let mut slots: Box<[T; SLOTS]> = vec![T::default(); SLOTS].try_into().expect("just made with that length");
    if huge_pages {
        buf::mem::advise_huge(&mut slots[..]);
    }
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
