//! The matcher of a host: some rows, all of them tried.
//!
//! Entries order by prefix length, so the largest entry of the rows that match is the answer, and the order of the rows
//! does not matter. No branch depends on an address: stopping at the first match cost 18 ticks a lookup with
//! 3 routes and mixed addresses, most of it wrong guesses; this costs 2.3 in bursts of 32.

use super::prefix::{Prefix, mask};
use super::{CHUNK, Entry, NextHopId};

#[derive(Default)]
pub(super) struct Few {
    rows: Vec<Row>,
}

struct Row {
    addr: u32,
    mask: u32,
    entry: Entry,
}

impl Row {
    /// The entry, or 0 if `dst` is not in the prefix. As arithmetic, because from `if` the compiler makes a branch.
    #[inline(always)]
    fn entry_for(&self, dst: u32) -> u32 {
        self.entry.0 & u32::from(dst & self.mask == self.addr).wrapping_neg()
    }
}

impl Few {
    pub(super) fn insert(&mut self, prefix: Prefix, hop: NextHopId) {
        let row = Row { addr: prefix.bits(), mask: mask(prefix.len()), entry: Entry::route(prefix.len(), hop) };
        self.remove(prefix);
        self.rows.push(row);
    }

    pub(super) fn remove(&mut self, prefix: Prefix) {
        if let Some(at) = self.position(prefix) {
            self.rows.swap_remove(at);
        }
    }

    #[inline]
    pub(super) fn find(&self, dst: u32) -> Entry {
        Entry(self.rows.iter().map(|row| row.entry_for(dst)).fold(0, u32::max))
    }

    pub(super) fn lookup_burst(&self, dst: &[u32], out: &mut [Option<NextHopId>]) {
        for (dst, out) in dst.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
            self.lookup_chunk(dst, out);
        }
    }

    /// Row by row over all addresses: the inner loop becomes SIMD.
    fn lookup_chunk(&self, dst: &[u32], out: &mut [Option<NextHopId>]) {
        let mut found = [0; CHUNK];
        for row in &self.rows {
            for (found, &dst) in found.iter_mut().zip(dst) {
                *found = row.entry_for(dst).max(*found);
            }
        }
        for (out, found) in out.iter_mut().zip(found) {
            *out = Entry(found).hop();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>()
    }

    fn position(&self, prefix: Prefix) -> Option<usize> {
        self.rows.iter().position(|row| row.addr == prefix.bits() && row.mask == mask(prefix.len()))
    }
}
