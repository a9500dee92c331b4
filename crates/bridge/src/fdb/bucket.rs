//! Buckets of four entries, one cache line each, and the insertion of new entries.

use super::{COLD, Fdb, Key};
use crate::PortNo;

pub(super) const WAYS: usize = 4;

/// A bucket of one cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Bucket {
    /// Keys of the four entries; 0 marks a free slot.
    pub(super) keys: [u64; WAYS],
    pub(super) places: [Place; WAYS],
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) port: PortNo,
    /// Bits 0 and 1: [`Kind`](super::Kind). Bits 2 to 6: number of the window of the last move,
    /// modulo 32; an entry that moved is unlikely to remain in the table for 32 windows. Bit 7:
    /// [`HEARD`]. Bits 8 to 15: number of moves in that window.
    pub(super) bits: u16,
    /// Time of the last frame from the address, in units of 2^26 ns.
    pub(super) seen: u32,
}

pub(super) const LEARNED: u16 = 0;
pub(super) const STICKY: u16 = 1;
pub(super) const STATIC: u16 = 2;
pub(super) const OWN: u16 = 3;
/// Flag: the last frame from the address was reported by another replica.
pub(super) const HEARD: u16 = 1 << 7;
/// Mask for the number of a window in which moves are counted: numbers are modulo 32.
pub(super) const WINDOWS: u32 = 31;

impl Place {
    #[inline(always)]
    pub(super) fn kind(&self) -> u16 {
        self.bits & 3
    }

    /// Returns whether the entry counts towards the address limit of its port. Configured entries
    /// do not.
    pub(super) fn is_shared(&self) -> bool {
        self.kind() < STATIC
    }

    /// Returns the number of moves in the window with the number `window` (modulo 32).
    pub(super) fn moves(&self, window: u32) -> u8 {
        if u32::from(self.bits >> 2) & WINDOWS == window { (self.bits >> 8) as u8 } else { 0 }
    }
}

impl Bucket {
    /// Searches the bucket for `key`. Compares all four keys with a single branch, because the
    /// position of an entry is not predictable.
    #[inline(always)]
    pub(super) fn find(&self, key: Key) -> Option<usize> {
        let [a, b, c, d] = self.keys.map(|there| u32::from(there == key.0));
        let found = a | b << 1 | c << 2 | d << 3;
        (found != 0).then_some(found.trailing_zeros() as usize)
    }

    pub(super) fn set(&mut self, way: usize, key: Key, place: Place) {
        if let (Some(there), Some(at)) = (self.keys.get_mut(way), self.places.get_mut(way)) {
            (*there, *at) = (key.0, place);
        }
    }
}

impl Fdb {
    /// Adds a new entry to one of its two buckets. If the table or both buckets are full, the new
    /// entry replaces the longest idle entry of the two buckets, if that entry has expired or may
    /// be evicted. Returns `false` if no entry can be replaced.
    pub(super) fn put(&mut self, key: Key, hash: u64, place: Place) -> bool {
        let both = self.both(hash);
        if self.len < self.most
            && let Some(at) = self.room_in(both).or_else(|| self.make_room(both))
            && let Some(bucket) = self.buckets.get_mut(at)
            && let Some(way) = bucket.keys.iter().position(|key| *key == 0)
        {
            bucket.set(way, key, place);
            self.len += 1;
            self.shares.came(&place);
            return true;
        }
        // An event from another replica may be older than the entry.
        let since = |there: &Place| (place.seen.wrapping_sub(there.seen) as i32).max(0) as u32;
        let idle = |there: &Place| if there.kind() == LEARNED { since(there) } else { 0 };
        let ways = both.into_iter().flat_map(|at| (0..WAYS).map(move |way| (at, way)));
        let used =
            |at: &(usize, usize)| self.buckets.get(at.0).and_then(|b| b.keys.get(at.1)).is_some_and(|key| *key != 0);
        let coldest = ways.filter(used).filter_map(|at| Some((idle(self.place(at)?), at))).max();
        let (timeout, cold) = (self.timeout_units, (self.timeout_units / COLD).max(1));
        let Some((idle, at)) = coldest.filter(|(idle, _)| *idle >= cold) else { return false };
        if let Some(before) = self.place(at).copied() {
            self.shares.went(&before);
        }
        if let Some(bucket) = self.buckets.get_mut(at.0) {
            bucket.set(at.1, key, place);
        }
        self.shares.came(&place);
        *if idle >= timeout { &mut self.counts.aged } else { &mut self.counts.evicted } += 1;
        true
    }

    /// Returns the first of two buckets that has a free slot.
    pub(super) fn room_in(&self, both: [usize; 2]) -> Option<usize> {
        both.into_iter().find(|at| self.buckets.get(*at).is_some_and(|bucket| bucket.keys.contains(&0)))
    }

    /// Moves an entry out of one of two full buckets into the entry's other bucket. Returns the
    /// bucket that now has a free slot. In a half-full table, this is needed for a few addresses in
    /// a thousand.
    #[cold]
    pub(super) fn make_room(&mut self, both: [usize; 2]) -> Option<usize> {
        for (at, way) in both.into_iter().flat_map(|at| (0..WAYS).map(move |way| (at, way))) {
            let (key, place) = (*self.buckets.get(at)?.keys.get(way)?, *self.place((at, way))?);
            let other =
                self.both(self.hash(Key(key), self.cluster(place.port))).into_iter().find(|other| *other != at)?;
            if let Some(free) = self.room_in([other; 2])
                && let Some(bucket) = self.buckets.get_mut(free)
                && let Some(empty) = bucket.keys.iter().position(|key| *key == 0)
            {
                bucket.set(empty, Key(key), place);
                self.buckets.get_mut(at)?.set(way, Key(0), place);
                return Some(at);
            }
        }
        None
    }
}
