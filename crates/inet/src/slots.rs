//! Places for protocol control blocks: found by number without a lock, each behind its own.
//!
//! Chunks of 64, 128, 256, ... places appear when they are needed and never move, so a reference into one needs no table
//! lock: the lookup is two dependent loads. A freed place is used again, lowest first, as descriptors are.

use lock::{Cx, Guarded, Locks};
use std::collections::BTreeSet;
use std::sync::OnceLock;

const FIRST: usize = 64;
const CHUNKS: usize = 16; // 64 * (2^16 - 1): four million places

/// Which chunk, and where in it.
#[inline(always)]
fn locate(at: usize) -> (usize, usize) {
    let n = at.saturating_add(FIRST);
    let chunk = (n.ilog2() - FIRST.ilog2()) as usize;
    (chunk, n - (FIRST << chunk))
}

type Chunk<L, T> = Box<[Guarded<L, Option<T>>]>;

/// Numbered places for `T`s.
pub struct Slots<L: Locks, T> {
    chunks: Box<[OnceLock<Chunk<L, T>>]>,
    free: Guarded<L, Free>,
}

#[derive(Default)]
struct Free {
    next: usize,
    holes: BTreeSet<usize>,
}

impl<L: Locks, T> Slots<L, T> {
    /// No places yet.
    pub fn new() -> Self {
        Slots { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(), free: Guarded::new(Free::default()) }
    }

    /// Puts `value` into the lowest free place; `None` when all are taken.
    pub fn insert(&self, cx: Cx, value: T) -> Option<usize> {
        let mut free = self.free.lock(cx);
        let at = match free.holes.pop_first() {
            Some(hole) => hole,
            None if free.next < FIRST * ((1 << CHUNKS) - 1) => {
                free.next += 1;
                free.next - 1
            }
            None => return None,
        };
        let (chunk, place) = locate(at);
        self.chunks
            .get(chunk)?
            .get_or_init(|| (0..FIRST << chunk).map(|_| Guarded::new(None)).collect())
            .get(place)?
            .lock(cx)
            .replace(value);
        Some(at)
    }

    /// The place `at`; `None` if it was never used.
    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<&Guarded<L, Option<T>>> {
        let (chunk, place) = locate(at);
        self.chunks.get(chunk)?.get()?.get(place)
    }

    /// Empties the place `at`.
    pub fn remove(&self, cx: Cx, at: usize) -> Option<T> {
        let value = self.get(at)?.lock(cx).take();
        if value.is_some() {
            self.free.lock(cx).holes.insert(at);
        }
        value
    }

    /// Visits everything.
    pub fn for_each(&self, cx: Cx, mut f: impl FnMut(usize, &mut T)) {
        let slots = self.chunks.iter().filter_map(|chunk| chunk.get()).flatten();
        for (at, slot) in slots.enumerate() {
            if let Some(value) = slot.lock(cx).as_mut() {
                f(at, value);
            }
        }
    }

    /// How often any of its locks was taken, and how many locks there are.
    pub fn locks(&self) -> (u64, usize) {
        let slots = || self.chunks.iter().filter_map(|c| c.get()).flatten();
        (slots().map(Guarded::acquisitions).sum::<u64>() + self.free.acquisitions(), slots().count() + 1)
    }
}

impl<L: Locks, T> Default for Slots<L, T> {
    fn default() -> Self {
        Slots::new()
    }
}
