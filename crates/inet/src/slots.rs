//! Slots for protocol control blocks. A slot is found by its number without a lock, and has its own
//! lock.
//!
//! Chunks of slots are allocated on demand and never move. References to a slot thus need no table
//! lock, and a lookup consists of two dependent loads. There are four chunks of 64 slots, then four
//! of 128, four of 256, and so on, so at most a quarter of the slots is allocated and unused. Freed
//! slots are reused, lowest first, like descriptors.

use lock::{Cx, Guarded, Lock, Locks};
use stats::hint::cold_path;
use std::sync::OnceLock;

const FIRST: usize = 64;
/// Number of consecutive chunks that have the same size.
const ALIKE: usize = 4;
const CHUNKS: usize = 56; // 4 * 64 * (2^14 - 1): four million slots

/// Returns the number of the chunk that contains slot `at`, and the index of the slot in this
/// chunk.
#[cfg_attr(not(debug_assertions), inline(always))]
fn locate(at: usize) -> (usize, usize) {
    let n = at.wrapping_add(FIRST * ALIKE);
    let size = (n | (FIRST * ALIKE)).ilog2() - ALIKE.ilog2(); // log2 of the chunk's size
    let which = (n >> size) & (ALIKE - 1);
    let chunk = (size - FIRST.ilog2()) as usize * ALIKE + which;
    (chunk, n.wrapping_sub((ALIKE | which) << size)) // wraps far out of range for an invalid number
}

/// Content of a slot. An `Option` would encode its tag as an unused value of some field, which can
/// be in any cache line. The tag of this type is at the front, next to the lock.
#[derive(Debug)]
#[repr(u32)]
pub enum Slot<T> {
    /// An empty slot.
    Free,
    /// A slot with a value.
    Used(T),
}

impl<T> Slot<T> {
    /// Returns a reference to the value; `None` if the slot is free.
    #[inline(always)]
    pub fn as_ref(&self) -> Option<&T> {
        match self {
            Slot::Used(value) => Some(value),
            Slot::Free => None,
        }
    }

    /// Returns a mutable reference to the value; `None` if the slot is free.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn as_mut(&mut self) -> Option<&mut T> {
        match self {
            Slot::Used(value) => Some(value),
            Slot::Free => {
                cold_path();
                None
            }
        }
    }

    /// Removes and returns the value.
    fn take(&mut self) -> Option<T> {
        match std::mem::replace(self, Slot::Free) {
            Slot::Used(value) => Some(value),
            Slot::Free => None,
        }
    }
}

/// A slot with its lock. It is aligned to a cache line, so that access to the first fields of the
/// value costs one cache miss.
#[repr(align(64))]
struct Place<L: Locks, T>(Guarded<L, Slot<T>>);

pub(crate) type Locked<'a, L, T> = <<L as Locks>::Lock<Slot<T>> as Lock<Slot<T>>>::Guard<'a>;

type Chunk<L, T> = Box<[Place<L, T>]>;

/// Numbered slots for values of type `T`.
pub struct Slots<L: Locks, T> {
    chunks: [OnceLock<Chunk<L, T>>; CHUNKS],
    free: Guarded<L, Free>,
}

#[derive(Default)]
struct Free {
    next: usize,
    holes: Holes,
}

/// Bitmap of freed slots in several levels. A bit of a higher level marks a non-zero word of the
/// level below. A search tree would require searches, moves and allocations for every connection.
#[derive(Default)]
struct Holes([Vec<u64>; LEVELS]);

const WORD: usize = u64::BITS as usize;
const LEVELS: usize = 4; // for 64^4 slots
const _: () = assert!(WORD.pow(LEVELS as u32) > (FIRST * ALIKE) << (CHUNKS / ALIKE));

impl Holes {
    fn insert(&mut self, mut at: usize) {
        for level in &mut self.0 {
            let word = at / WORD;
            if word >= level.len() {
                level.resize(word + 1, 0);
            }
            let Some(bits) = level.get_mut(word) else { return };
            if std::mem::replace(bits, *bits | 1 << (at % WORD)) != 0 {
                return; // already marked in the higher levels
            }
            at = word;
        }
    }

    /// Removes the lowest freed slot from the bitmap and returns its number; `None` if the bitmap
    /// is empty.
    fn pop_first(&mut self) -> Option<usize> {
        let mut least = 0;
        for level in self.0.iter().rev() {
            let bits = level.get(least).filter(|bits| **bits != 0)?;
            least = least * WORD + bits.trailing_zeros() as usize;
        }
        let mut at = least;
        for level in &mut self.0 {
            let bits = level.get_mut(at / WORD)?;
            *bits &= !(1 << (at % WORD));
            if *bits != 0 {
                break;
            }
            at /= WORD;
        }
        Some(least)
    }
}

/// Allocates a chunk of slots. A chunk of a megabyte or more uses huge pages if available. Without
/// them, with 100,000 sockets used in random order, every datagram would also wait for a page walk.
fn empty_chunk<L: Locks, T>(len: usize) -> Chunk<L, T> {
    let mut places = Vec::with_capacity(len);
    buf::mem::advise_huge(places.spare_capacity_mut());
    places.extend((0..len).map(|_| Place(Guarded::new(Slot::Free))));
    places.into()
}

impl<L: Locks, T> Slots<L, T> {
    /// Creates a table without slots.
    pub fn new() -> Self {
        Slots { chunks: [const { OnceLock::new() }; CHUNKS], free: Guarded::new(Free::default()) }
    }

    /// Stores `value` in the lowest free slot. Returns its number; `None` if all slots are in use.
    pub fn insert(&self, cx: Cx, value: T) -> Option<usize> {
        let mut free = self.free.lock(cx);
        let at = match free.holes.pop_first() {
            Some(hole) => hole,
            None if free.next < FIRST * ALIKE * ((1 << (CHUNKS / ALIKE)) - 1) => {
                free.next += 1;
                free.next - 1
            }
            None => return None,
        };
        let (chunk, place) = locate(at);
        let places = self.chunks.get(chunk)?;
        let places = places.get_or_init(|| empty_chunk(FIRST << (chunk / ALIKE)));
        *places.get(place)?.0.lock(cx) = Slot::Used(value);
        Some(at)
    }

    /// Returns slot `at`; `None` if it was never allocated.
    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<&Guarded<L, Slot<T>>> {
        let (chunk, place) = locate(at);
        self.chunks.get(chunk)?.get()?.get(place).map(|place| &place.0)
    }

    /// Empties slot `at` and returns its value; `None` if it was empty.
    pub fn remove(&self, cx: Cx, at: usize) -> Option<T> {
        let value = self.get(at)?.lock(cx).take();
        if value.is_some() {
            self.free.lock(cx).holes.insert(at);
        }
        value
    }

    /// Calls `f` for every value.
    pub fn for_each(&self, cx: Cx, mut f: impl FnMut(usize, &mut T)) {
        for (at, slot) in self.places().enumerate() {
            if let Some(value) = slot.lock(cx).as_mut() {
                f(at, value);
            }
        }
    }

    /// Returns the number of acquisitions of all locks of this table, and the number of these
    /// locks.
    pub fn locks(&self) -> (u64, usize) {
        let taken = self.places().map(Guarded::acquisitions).sum::<u64>();
        (taken + self.free.acquisitions(), self.places().count() + 1)
    }

    fn places(&self) -> impl Iterator<Item = &Guarded<L, Slot<T>>> {
        self.chunks.iter().filter_map(|chunk| chunk.get()).flatten().map(|place| &place.0)
    }
}

impl<L: Locks, T> Default for Slots<L, T> {
    fn default() -> Self {
        Slots::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn slots_are_consecutive_through_all_chunks() {
        let mut expected = (0, 0);
        for at in 0..100_000 {
            assert_eq!(locate(at), expected, "{at}");
            let (chunk, place) = expected;
            expected = if place + 1 < FIRST << (chunk / ALIKE) { (chunk, place + 1) } else { (chunk + 1, 0) };
        }
        let last = FIRST * ALIKE * ((1 << (CHUNKS / ALIKE)) - 1) - 1;
        assert_eq!((locate(last).0, locate(last + 1).0), (CHUNKS - 1, CHUNKS));
        assert!((0..1000).all(|n| locate(usize::MAX - n).1 >= FIRST || locate(usize::MAX - n).0 >= CHUNKS));
    }

    proptest! {
        #[test]
        fn free_slots_are_a_set_that_returns_its_minimum(steps in prop::collection::vec((any::<bool>(), 0..22u32, any::<usize>()), 1..300)) {
            let (mut holes, mut model) = (Holes::default(), BTreeSet::new());
            for (insert, bits, at) in steps {
                if insert {
                    let at = at & ((1 << bits) - 1);
                    holes.insert(at);
                    model.insert(at);
                } else {
                    prop_assert_eq!(holes.pop_first(), model.pop_first());
                }
            }
            while let Some(least) = model.pop_first() {
                prop_assert_eq!(holes.pop_first(), Some(least));
            }
            prop_assert_eq!(holes.pop_first(), None);
        }
    }

    #[test]
    fn a_socket_with_its_lock_is_one_cache_line() {
        assert_eq!(size_of::<Place<lock::Up, crate::tcp::Sock<lock::Up>>>(), 64);
    }
}
