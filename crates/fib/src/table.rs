//! The IPv4 matcher of a router. The first 24 bits of an address index an array. If there are
//! longer prefixes, the lookup continues in one or two groups of 16 entries, which the next 4 and
//! the last 4 bits index.
//!
//! The design follows DIR-24-8 (Gupta, Lin and McKeown, INFOCOM 1998), with two steps of 16 entries
//! in place of one of 256. A single /32 therefore takes 128 bytes instead of 1 kB. Every entry is
//! the complete answer for its addresses, since prefixes are pushed down to the leaves. An entry
//! also contains the length of its prefix, so insertions and removals are the same operation,
//! [`paint`].
//!
//! The default route is stored outside the array, since otherwise each change of it could write all
//! 64 MB.
//!
//! A lookup first reads an array of [codes](Code) with one byte per /24, 16 MB in all. A code is a
//! short form of the entry; entries without a short form have the code [`Code::ASK`]. Memory loads
//! dominate the cost of a lookup, and with a quarter of the memory it takes half the time. Once a
//! next hop does not fit into a byte, codes take two bytes each, 32 MB in all.
//!
//! One thread changes the table while others read it: see [decision
//! 18](../../../../docs/decisions/0018-the-fib-is-changed-under-its-readers.md).
#![allow(clippy::indexing_slicing, reason = "24 bits index 2^24 entries, so the compiler omits the check")]

use super::default::{DefaultRead, DefaultRoute};
use super::entry::{CHUNK, Entry, NextHopId};
use super::groups::{Groups, Spare, is_group, paint};
use super::prefix::Prefix;
use buf::mem::{self, Pages};
use buf::prefetch;
use lock::Pins;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering, fence};

const SLOTS: usize = 1 << 24;

/// Short form of an entry: 0 for no route; otherwise the index of the next hop plus one, if that is
/// below [`Code::ASK`].
trait Code {
    /// Code of all entries that have no short form. The lookup must then read the full entry.
    const ASK: u32;

    fn read(&self) -> u32;
    fn write(&self, code: u32);

    /// Returns the code of an entry.
    fn of(entry: u32) -> u32 {
        if is_group(entry) { Self::ASK } else { (entry & Entry::HOP).min(Self::ASK) }
    }
}

macro_rules! code {
    ($ty:ty, $bits:ty) => {
        impl Code for $ty {
            const ASK: u32 = <$bits>::MAX as u32;

            #[inline(always)]
            fn read(&self) -> u32 {
                u32::from(self.load(Ordering::Relaxed))
            }

            fn write(&self, code: u32) {
                self.store(code as $bits, Ordering::Release);
            }
        }
    };
}

code!(AtomicU8, u8);
code!(AtomicU16, u16);

pub(super) struct Table {
    codes: Box<[AtomicU8; SLOTS]>,
    /// Two-byte codes. Once set, they replace `codes`, which is not updated any more.
    wide: OnceLock<Box<[AtomicU16; SLOTS]>>,
    level24: Box<[AtomicU32; SLOTS]>,
    groups: Groups,
    default: DefaultRoute,
}

impl Table {
    pub(super) fn new(pages: Pages) -> Table {
        Table {
            codes: zeroed(pages),
            wide: OnceLock::new(),
            level24: zeroed(pages),
            groups: Groups::default(),
            default: DefaultRoute::default(),
        }
    }

    /// Computes and writes the codes of the array entries in the range `slots`.
    fn encode(&self, slots: std::ops::Range<usize>) {
        fn write<C: Code>(codes: &[C], entries: &[AtomicU32]) {
            codes.iter().zip(entries).for_each(|(code, entry)| code.write(C::of(entry.load(Ordering::Relaxed))));
        }
        match self.wide.get() {
            None => write(&self.codes[slots.clone()], &self.level24[slots]),
            Some(wide) => write(&wide[slots.clone()], &self.level24[slots]),
        }
    }

    /// Switches to two-byte codes if `entry` is the first that needs one. A reader that still uses
    /// the one-byte codes began its lookup before the switch, so its answer was correct at some
    /// moment of the lookup.
    fn widen(&self, entry: Entry, pages: Pages) {
        if entry.0 & Entry::HOP < AtomicU8::ASK || self.wide.get().is_some() {
            return;
        }
        let wide: Box<[AtomicU16; SLOTS]> = zeroed(pages);
        for ((code, wide), entry) in self.codes.iter().zip(&*wide).zip(&*self.level24) {
            if code.read() != 0 {
                wide.write(AtomicU16::of(entry.load(Ordering::Relaxed)));
            }
        }
        drop(self.wide.set(wide)); // succeeds, since there are no two-byte codes yet
    }

    /// Returns the entry for `dst`. The caller must be pinned.
    #[inline]
    pub(super) fn find(&self, dst: u32) -> Entry {
        loop {
            let default = self.default.read();
            let entry = self.descend(self.level24[slot(dst)].load(Ordering::Acquire), dst);
            if entry != 0 {
                return Entry(entry);
            }
            if self.default.is_still(default) {
                return default.entry();
            }
        }
    }

    /// Prefetches the first load of [`Table::lookup_burst`].
    #[inline(always)]
    pub(super) fn prefetch(&self, dst: u32) {
        match self.wide.get() {
            None => prefetch(&self.codes[slot(dst)]),
            Some(wide) => prefetch(&wide[slot(dst)]),
        }
    }

    /// Looks up many addresses. The caller must be pinned. While one chunk is processed, the codes
    /// of the chunk after the next are prefetched, since a chunk takes less time than a cache miss.
    pub(super) fn lookup_burst(&self, dst: &[u32], out: &mut [Option<NextHopId>]) {
        match self.wide.get() {
            None => self.lookup_by(&self.codes, dst, out),
            Some(wide) => self.lookup_by(wide, dst, out),
        }
    }

    fn lookup_by<C: Code>(&self, codes: &[C; SLOTS], dst: &[u32], out: &mut [Option<NextHopId>]) {
        const AHEAD: usize = 2;
        let fetch = |chunk: &[u32]| chunk.iter().for_each(|dst| prefetch(&codes[slot(*dst)]));
        let mut coming = dst.chunks(CHUNK);
        if dst.len() > CHUNK {
            coming.by_ref().take(AHEAD).for_each(fetch);
        }
        for (dst, out) in dst.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
            if let Some(chunk) = coming.next() {
                fetch(chunk);
            }
            while !self.lookup_chunk(codes, dst, out) {}
        }
    }

    /// Looks up one chunk; returns `false` if the default route changed meanwhile. All codes are
    /// loaded first. The loads are independent, so they overlap. Then the few lookups that need the
    /// full entry continue; a mispredicted branch in this part no longer delays a load of a code.
    ///
    /// These loads are nearly all of the cost; `linerate bench parts` measures them separately. A
    /// random load takes 23 TSC ticks from an array of 64 MB, 19 from 32 MB, 14 from 16 MB, and 7
    /// from 4 MB. 1 M routes have 2 M range boundaries, so no structure for them fits into the L2
    /// cache. Two alternatives were measured with the array of 64 MB. Reading the full entries
    /// without branches takes the same time with the prefix lengths of the Internet's table, and 14
    /// ticks more with 1 M /32 routes. Collecting the groups in a list first takes 3 to 6 ticks
    /// more in both cases.
    #[inline]
    fn lookup_chunk<C: Code>(&self, by: &[C; SLOTS], dst: &[u32], out: &mut [Option<NextHopId>]) -> bool {
        let default = self.default.read();
        // A single loop: storing codes one by one and then reading them as vectors would stall on
        // the stores.
        let fallback = default.entry().0 & Entry::HOP;
        let (mut codes, mut seen) = ([0u32; CHUNK], 0);
        for ((code, out), &dst) in codes.iter_mut().zip(out.iter_mut()).zip(dst) {
            *code = by[slot(dst)].read();
            *out = Entry(if *code == 0 { fallback } else { *code }).hop();
            seen |= *code + 1;
        }
        fence(Ordering::Acquire);
        if seen > C::ASK {
            self.ask_chunk(codes.map(|code| code == C::ASK), dst, out, default);
        }
        self.default.is_still(default)
    }

    /// Looks up the full entries of the addresses for which `asks` is true, because their code is
    /// [`Code::ASK`]. All loads from the array come first, so that they overlap.
    #[inline(never)]
    fn ask_chunk(&self, asks: [bool; CHUNK], dst: &[u32], out: &mut [Option<NextHopId>], default: DefaultRead) {
        let (mut entries, mut requested) = ([0u32; CHUNK], [0usize; CHUNK]);
        let mut n = 0;
        for (at, &asks) in asks.iter().enumerate().take(dst.len()) {
            requested[n] = at;
            n += usize::from(asks);
        }
        for (entry, &at) in entries.iter_mut().zip(&requested[..n]) {
            *entry = self.level24[slot(dst[at])].load(Ordering::Acquire);
        }
        for (&entry, &at) in entries.iter().zip(&requested[..n]) {
            let entry = self.descend(entry, dst[at]);
            out[at] = if entry == 0 { default.entry().hop() } else { Entry(entry).hop() };
        }
    }

    /// Follows references from an entry of the array to the final entry for `dst`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn descend(&self, mut entry: u32, dst: u32) -> u32 {
        if is_group(entry) {
            entry = self.groups.at(entry, nibble28(dst));
            if is_group(entry) {
                entry = self.groups.at(entry, nibble32(dst));
            }
        }
        entry
    }

    /// Sets `entry` for all addresses of `prefix` that no more specific prefix covers. Returns
    /// `None` if this needs a new group and none is left, which cannot happen if `prefix` is
    /// already present.
    pub(super) fn insert(&self, prefix: Prefix, entry: Entry, spare: &mut Spare, pins: &Pins) -> Option<()> {
        let (addr, len) = (prefix.bits(), prefix.len());
        let outer = &self.level24[slot(addr)];
        self.widen(entry, spare.pages);
        match len {
            0 => self.default.set(entry),
            1..=24 => {
                let slots = slot(addr)..slot(addr) + (1 << (24 - len));
                paint(&self.level24[slots.clone()], &self.groups, len, entry);
                self.encode(slots);
            }
            25..=28 => {
                let group = self.groups.open(outer, spare, pins)?;
                let first = nibble28(addr);
                paint(&self.groups.of(group)[first..first + (1 << (28 - len))], &self.groups, len, entry);
                self.encode(slot(addr)..slot(addr) + 1);
            }
            _ => {
                let group = self.groups.open(outer, spare, pins)?;
                let group = self.groups.open(&self.groups.of(group)[nibble28(addr)], spare, pins)?;
                let first = nibble32(addr);
                paint(&self.groups.of(group)[first..first + (1 << (32 - len))], &self.groups, len, entry);
                self.encode(slot(addr)..slot(addr) + 1);
            }
        }
        Some(())
    }

    /// Removes `prefix`; `cover` is the entry of the longest remaining route that contains it.
    pub(super) fn remove(&self, prefix: Prefix, cover: Entry, spare: &mut Spare, pins: &Pins) {
        let cover = cover.beside_default();
        self.insert(prefix, cover, spare, pins); // succeeds, since `prefix` is present and so are its groups
        if prefix.len() > 24 {
            let at = slot(prefix.bits());
            let outer = &self.level24[at];
            let group = outer.load(Ordering::Relaxed);
            if is_group(group) {
                self.groups.close(&self.groups.of(group)[nibble28(prefix.bits())], 28, spare, pins);
                self.groups.close(outer, 24, spare, pins);
            }
            self.encode(at..at + 1);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.codes) + self.wide.get().map_or(0, |wide| size_of_val(&**wide)) + size_of_val(&*self.level24)
    }
}

#[allow(clippy::expect_used, reason = "the slice was created with the length SLOTS")]
fn zeroed<T: mem::Zeroed>(pages: Pages) -> Box<[T; SLOTS]> {
    mem::zeroed(SLOTS, pages).try_into().ok().expect("the length is SLOTS")
}

#[inline(always)]
fn slot(addr: u32) -> usize {
    (addr >> 8) as usize
}

/// Returns bits 24 to 27 of an address, the index into the first group; [`nibble32`] returns bits
/// 28 to 31, the index into the second.
#[inline(always)]
fn nibble28(addr: u32) -> usize {
    (addr >> 4 & 15) as usize
}

#[inline(always)]
fn nibble32(addr: u32) -> usize {
    (addr & 15) as usize
}
