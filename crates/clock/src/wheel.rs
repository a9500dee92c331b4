//! A timer wheel with one deadline per key, for hundreds of thousands of keys.
//!
//! A key is a small number, usually the index of a connection in its table. Time is divided into
//! granules of equal length. A deadline is stored in one of 64 slots on one of eleven levels. The
//! level is the number of the highest group of six bits in which the granule number of the deadline
//! differs from the current granule number. Every `u64` therefore has a slot, and all keys on a
//! level are due before all keys on the next. When the time of a slot has come, its keys are moved
//! to lower levels. Keys of the current granule are in a heap, which makes the wheel exact: a key
//! expires at its deadline, neither early nor a granule late.
//!
//! Moving a deadline to a later time, or cancelling it, writes one word: the key stays in its slot
//! and is checked once when the time of the slot has come. A connection that moves its
//! retransmission timer with every ACK therefore changes slots once per timeout. (With Linux's
//! `mod_timer`, it changes slots once per ACK.) The price is that [`Wheel::next`] may return a time
//! that is too early.
//!
//! | operation | cost |
//! |---|---|
//! | set later, cancel | one store: 5 ns for random keys out of 200,000 |
//! | set earlier, or set anew | O(1); O(log n) for n keys in the current granule |
//! | next | reads at most eleven words |
//! | expire | a key moves at most ten times, rarely more than twice: 130 ns from set to expiry |

mod near;
#[cfg(test)]
mod tests;

use crate::{Duration, Instant};
use alloc::boxed::Box;
use alloc::vec::Vec;
use near::Near;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = u64::BITS.div_ceil(BITS) as usize;

/// Index that means the end of a list.
const NONE: u32 = u32::MAX;

/// Position of a key: level * 64 + slot, or one of the constants below.
type Place = u16;
const NOWHERE: Place = Place::MAX;
const NEAR: Place = Place::MAX - 1;

/// State of one key, in half a cache line.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Time at which the key expires; [`Instant::NEVER`] if no deadline is set.
    deadline: Instant,
    /// Deadline for which the key was put into its slot. It is never later than `deadline`.
    filed: Instant,
    next: u32,
    /// Previous key in the slot's list. For a key in the heap, its position in the heap.
    prev: u32,
    place: Place,
}

const IDLE: Entry = Entry { deadline: Instant::NEVER, filed: Instant::NEVER, next: NONE, prev: NONE, place: NOWHERE };

/// Timer wheel: one deadline per key.
#[derive(Debug)]
pub struct Wheel {
    shift: u32,
    /// Number of the current granule of time.
    now: u64,
    entries: Vec<Entry>,
    /// First key of each slot.
    heads: Box<[u32; LEVELS * SLOTS]>,
    occupied: [u64; LEVELS],
    /// Slot whose keys are being moved to other slots, until it is empty. No key is put into it
    /// meanwhile.
    open: Option<Place>,
    near: Near,
    armed: usize,
}

impl Wheel {
    /// Creates a wheel without deadlines. `granularity` is rounded up to a power of two of
    /// nanoseconds. It determines how many keys share a slot, not the precision of the wheel.
    pub fn new(granularity: Duration) -> Wheel {
        let ns = u64::try_from(granularity.as_nanos()).unwrap_or(u64::MAX).clamp(1, 1 << 40);
        Wheel {
            shift: ns.next_power_of_two().trailing_zeros(),
            now: 0,
            entries: Vec::new(),
            heads: Box::new([NONE; LEVELS * SLOTS]),
            occupied: [0; LEVELS],
            open: None,
            near: Near::default(),
            armed: 0,
        }
    }

    /// Sets or moves the deadline of `key`. [`Instant::NEVER`] cancels it.
    ///
    /// Memory grows with the largest key, by 32 bytes per key. A key below the largest one needs no
    /// allocation.
    #[inline]
    pub fn set(&mut self, key: u32, at: Instant) {
        let index = key as usize;
        if index >= self.entries.len() {
            if at == Instant::NEVER {
                return;
            }
            self.entries.resize(index + 1, IDLE);
        }
        let entry = &mut self.entries[index];
        self.armed = self.armed + usize::from(at != Instant::NEVER) - usize::from(entry.deadline != Instant::NEVER);
        entry.deadline = at;
        if at < entry.filed {
            self.unfile(key);
            self.file(key);
        }
    }

    /// Cancels the deadline of `key`; does nothing if there is none.
    #[inline]
    pub fn cancel(&mut self, key: u32) {
        self.set(key, Instant::NEVER);
    }

    /// Returns the deadline of `key`; [`Instant::NEVER`] if none is set.
    pub fn deadline(&self, key: u32) -> Instant {
        self.entries.get(key as usize).map_or(Instant::NEVER, |entry| entry.deadline)
    }

    /// Returns the number of keys with a deadline.
    pub fn armed(&self) -> usize {
        self.armed
    }

    /// Returns the earliest instant at which a key may be due. Call [`Wheel::expire`] then. The
    /// instant may be too early, but never too late.
    pub fn next(&self) -> Instant {
        if self.armed == 0 {
            return Instant::NEVER; // keys still filed are cancelled
        }
        if self.open.is_some() {
            return Instant::from_nanos(self.now << self.shift);
        }
        let filed = self.first_slot().map_or(Instant::NEVER, |(start, _)| Instant::from_nanos(start << self.shift));
        self.near.first().map_or(filed, |(near, _)| near.min(filed))
    }

    /// Calls `due` for each key that is due at `now`, in the order of their granules, and clears
    /// its deadline. Checks at most `limit` keys, including cancelled ones. Returns true if more
    /// keys may be due, so that a further call is needed.
    pub fn expire(&mut self, now: Instant, limit: usize, mut due: impl FnMut(u32)) -> bool {
        let granule = now.nanos() >> self.shift;
        let mut left = limit;
        loop {
            while let Some(key) = self.first_open() {
                if left == 0 {
                    return true;
                }
                left -= 1;
                self.unfile(key);
                self.file(key);
            }
            while let Some((filed, key)) = self.near.first().filter(|(filed, _)| *filed <= now) {
                if left == 0 {
                    return true;
                }
                left -= 1;
                self.unfile(key);
                let entry = &mut self.entries[key as usize];
                debug_assert!(filed <= entry.deadline);
                if entry.deadline <= now {
                    entry.deadline = Instant::NEVER;
                    self.armed -= 1;
                    due(key);
                } else {
                    self.file(key);
                }
            }
            match self.first_slot().filter(|(start, _)| *start <= granule) {
                Some((start, place)) => self.open(start, place),
                None => break,
            }
        }
        self.now = self.now.max(granule);
        false
    }

    /// Returns the earliest slot that contains keys, as its first granule and its index.
    fn first_slot(&self) -> Option<(u64, usize)> {
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        let slot = self.occupied[level].trailing_zeros() as usize;
        let shift = BITS * level as u32;
        let above = self.now.checked_shr(shift + BITS).map_or(0, |it| it << (shift + BITS));
        Some((above | (slot as u64) << shift, level * SLOTS + slot))
    }

    /// Begins to move the keys of a slot to other slots, one by one, because the time of the slot
    /// has come.
    fn open(&mut self, start: u64, place: usize) {
        self.now = start;
        self.occupied[place / SLOTS] &= !(1 << (place % SLOTS));
        self.open = Some(place as Place);
    }

    /// Returns the next key of the open slot. Closes the slot after its last key.
    fn first_open(&mut self) -> Option<u32> {
        let key = self.heads[self.open? as usize];
        if key == NONE {
            self.open = None;
            return None;
        }
        Some(key)
    }

    /// Puts a key into the slot for its deadline. The key must not be in a slot already.
    fn file(&mut self, key: u32) {
        let entry = &mut self.entries[key as usize];
        if entry.deadline == Instant::NEVER {
            return;
        }
        entry.filed = entry.deadline;
        let granule = entry.deadline.nanos() >> self.shift;
        if granule <= self.now {
            entry.place = NEAR;
            return self.near.push(entry.filed, key, &mut self.entries);
        }
        let level = (granule ^ self.now).ilog2() / BITS;
        let slot = (granule >> (BITS * level)) as usize % SLOTS;
        self.occupied[level as usize] |= 1 << slot;
        self.link(key, (level as usize * SLOTS + slot) as Place);
    }

    fn link(&mut self, key: u32, place: Place) {
        let head = core::mem::replace(&mut self.heads[place as usize], key);
        if let Some(second) = self.entries.get_mut(head as usize) {
            second.prev = key;
        }
        let entry = &mut self.entries[key as usize];
        (entry.next, entry.prev, entry.place) = (head, NONE, place);
    }

    /// Removes a key from its slot's list or from the heap.
    fn unfile(&mut self, key: u32) {
        let Entry { next, prev, place, .. } = self.entries[key as usize];
        match place {
            NOWHERE => return,
            NEAR => self.near.remove(prev, &mut self.entries),
            place => {
                if let Some(after) = self.entries.get_mut(next as usize) {
                    after.prev = prev;
                }
                match self.entries.get_mut(prev as usize) {
                    Some(before) => before.next = next,
                    None => self.heads[place as usize] = next,
                }
                if next == NONE && prev == NONE {
                    self.occupied[place as usize / SLOTS] &= !(1 << (place as usize % SLOTS));
                }
            }
        }
        let entry = &mut self.entries[key as usize];
        (entry.filed, entry.next, entry.prev, entry.place) = (Instant::NEVER, NONE, NONE, NOWHERE);
    }
}
