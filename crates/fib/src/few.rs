//! The IPv4 matcher of a host with few routes: a short list of rows, one per route. A lookup
//! compares the address with all rows.
//!
//! An entry of a longer prefix is a larger number. The answer is therefore the largest entry of the
//! matching rows, whatever their order. No branch depends on an address. Stopping at the first
//! match took 18 TSC ticks per lookup with 3 routes and mixed addresses, mostly for mispredicted
//! branches. Comparing all rows takes 2.3 ticks in bursts of 32.
//!
//! A row is one word, which one store changes. The writer then increments the version of the list.
//! A reader compares the version before and after it reads all rows. If the version is the same, at
//! most one row changed meanwhile, and the result was correct before or after that change.
//! Otherwise the reader repeats the lookup; it never waits for a writer.

use super::entry::{CHUNK, Entry, NextHopId};
use super::prefix::Prefix;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Maximum number of routes in the list. The list saves the 80 MB of a table. In bursts of 32, a
/// lookup in the list takes 3 TSC ticks with 3 routes and 6 with 8 routes; a single lookup takes 5
/// and 13. A lookup in the table takes 1.5 ticks if few addresses are in use. With 16 routes, the
/// list would take 7 ticks in bursts and 30 for a single lookup.
pub(super) const FEW: usize = 8;

#[derive(Default)]
pub(super) struct Few {
    rows: [AtomicU64; FEW],
    /// Index after the last row used so far; rows from this index on are empty and are not read.
    used: AtomicUsize,
    version: AtomicU64,
}

/// A row, unpacked into address, mask and entry. An empty row matches every address with "no
/// route".
struct Row {
    addr: u32,
    mask: u32,
    entry: Entry,
}

impl Row {
    const EMPTY: u64 = 0;

    fn word(prefix: Prefix, entry: Entry) -> u64 {
        u64::from(prefix.bits()) << 32 | u64::from(entry.0)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn of(word: u64) -> Row {
        let entry = Entry(word as u32);
        // The entry contains the prefix length plus one. For /0 and for an empty row, all 32 bits
        // of the mask are shifted out.
        let mask = (u64::from(u32::MAX) << (33 - (entry.0 >> Entry::LEN_AT & 63).min(33))) as u32;
        Row { addr: (word >> 32) as u32, mask, entry }
    }

    /// Returns the entry of this row, or 0 if `dst` is not in its prefix. The code has no `if`,
    /// which the compiler would turn into a branch.
    #[inline(always)]
    fn entry_for(&self, dst: u32) -> u32 {
        self.entry.0 & u32::from(dst & self.mask == self.addr).wrapping_neg()
    }
}

impl Few {
    /// Adds a row, or changes the next hop of this prefix; `false` if the list is full.
    pub(super) fn insert(&self, prefix: Prefix, hop: NextHopId) -> bool {
        let entry = Entry::route(prefix.len(), hop);
        let place = self.position(prefix).or_else(|| self.rows.iter().position(|row| is(row, Row::EMPTY)));
        let Some((at, row)) = place.and_then(|at| Some((at, self.rows.get(at)?))) else { return false };
        row.store(Row::word(prefix, entry), Ordering::Release);
        if at >= self.used.load(Ordering::Relaxed) {
            self.used.store(at + 1, Ordering::Release);
        }
        self.changed();
        true
    }

    pub(super) fn remove(&self, prefix: Prefix) {
        if let Some(row) = self.position(prefix).and_then(|at| self.rows.get(at)) {
            row.store(Row::EMPTY, Ordering::Release);
            self.changed();
        }
    }

    #[inline]
    pub(super) fn find(&self, dst: u32) -> Entry {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let found = self.rows().map(|row| row.entry_for(dst)).fold(0, u32::max);
            if self.is_still(version) {
                return Entry(found);
            }
        }
    }

    pub(super) fn lookup_burst(&self, dst: &[u32], out: &mut [Option<NextHopId>]) {
        for (dst, out) in dst.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
            self.lookup_chunk(dst, out);
        }
    }

    /// Looks up one chunk. The outer loop iterates over rows and the inner loop over addresses, so
    /// that the compiler vectorises the inner loop.
    fn lookup_chunk(&self, dst: &[u32], out: &mut [Option<NextHopId>]) {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let mut found = [0; CHUNK];
            for row in self.rows() {
                for (found, &dst) in found.iter_mut().zip(dst) {
                    *found = row.entry_for(dst).max(*found);
                }
            }
            for (out, found) in out.iter_mut().zip(found) {
                *out = Entry(found).hop();
            }
            if self.is_still(version) {
                return;
            }
        }
    }

    #[inline(always)]
    fn rows(&self) -> impl Iterator<Item = Row> {
        let used = self.used.load(Ordering::Acquire);
        self.rows.iter().take(used).map(|row| Row::of(row.load(Ordering::Acquire)))
    }

    #[inline(always)]
    fn is_still(&self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version
    }

    fn changed(&self) {
        self.version.store(self.version.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    fn position(&self, prefix: Prefix) -> Option<usize> {
        let same = |row: &AtomicU64| {
            let word = row.load(Ordering::Relaxed);
            word != Row::EMPTY && Row::word(prefix, Entry(word as u32)) == word && len_of(word) == prefix.len()
        };
        self.rows.iter().position(same)
    }
}

fn is(row: &AtomicU64, word: u64) -> bool {
    row.load(Ordering::Relaxed) == word
}

/// Returns the prefix length of a non-empty row.
fn len_of(word: u64) -> u8 {
    ((word as u32 >> Entry::LEN_AT) as u8).wrapping_sub(1)
}
