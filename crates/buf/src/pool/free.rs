//! Free buffers of a pool: an array of pointers, or a list linked through the buffers.
#![allow(unsafe_code)] // unsafe: links are stored in buffers, which only the list uses while free

use super::Kind;
use crate::Frame;
use crate::frame::prefetch_buffer;
use stats::Counter;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Free buffers, with counters of those taken and returned.
pub(super) struct Free {
    list: List,
    headroom: usize,
    pub(super) gets: Counter,
    pub(super) puts: Counter,
    pub(super) empty: Counter,
}

enum List {
    Stack(Stack),
    Linked(Option<NonNull<u8>>),
}

/// An array with a slot for every buffer of the pool, so that it never grows. A `Vec`, which may
/// grow, occupied seven registers around every drop of a frame.
struct Stack {
    places: Box<[MaybeUninit<NonNull<u8>>]>,
    len: usize,
}

impl Stack {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn pop(&mut self) -> Option<NonNull<u8>> {
        let len = self.len.checked_sub(1)?;
        let place = self.places.get(len)?;
        self.len = len;
        // SAFETY: the first `len` slots are initialised.
        Some(unsafe { place.assume_init() })
    }

    #[inline(always)]
    fn push(&mut self, buf: NonNull<u8>) {
        if let Some(place) = self.places.get_mut(self.len) {
            place.write(buf);
            self.len += 1;
        }
    }
}

impl Free {
    pub(super) fn new(kind: Kind, headroom: usize, capacity: usize) -> Free {
        let list = match kind {
            Kind::Freelist => List::Linked(None),
            _ => List::Stack(Stack { places: Box::new_uninit_slice(capacity), len: 0 }),
        };
        Free { list, headroom, gets: Counter::default(), puts: Counter::default(), empty: Counter::default() }
    }

    /// Takes a buffer and counts it. If `prefetch_next` is true, also prefetches the next buffer.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn get(&mut self, prefetch_next: bool) -> Option<NonNull<u8>> {
        let buf = self.take()?;
        self.gets.bump();
        if prefetch_next {
            self.prefetch_next();
        }
        Some(buf)
    }

    pub(super) fn get_counted(&mut self, prefetch_next: bool) -> Option<NonNull<u8>> {
        let got = self.get(prefetch_next);
        if got.is_none() {
            self.empty.bump();
        }
        got
    }

    /// Returns a buffer and counts it.
    #[inline(always)]
    pub(super) fn put(&mut self, buf: NonNull<u8>) {
        self.give(buf);
        self.puts.bump();
    }

    /// Takes one buffer for each slot of `into`, or fewer if fewer are free. Returns their number.
    /// Takes the buffers that were returned last, and keeps the order in which they were returned,
    /// so that the copy runs forward through both arrays.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn get_many<T>(&mut self, into: &mut [MaybeUninit<T>], make: impl Fn(NonNull<u8>) -> T) -> usize {
        let List::Stack(stack) = &mut self.list else { return 0 };
        let n = into.len().min(stack.len);
        let rest = stack.len - n;
        let bufs = stack.places.get(rest..stack.len).unwrap_or_default();
        // SAFETY: the first `len` slots are initialised, and these are excluded from `len` below.
        into.iter_mut().zip(bufs).for_each(|(place, buf)| _ = place.write(make(unsafe { buf.assume_init() })));
        stack.len = rest;
        self.gets.add(n as u64);
        n
    }

    /// Returns several buffers and counts them.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn put_many(&mut self, bufs: impl ExactSizeIterator<Item = NonNull<u8>>) {
        self.puts.add(bufs.len() as u64);
        match &mut self.list {
            List::Stack(stack) => {
                let (from, n) = (stack.len, bufs.len());
                if let Some(places) = stack.places.get_mut(from..from + n) {
                    places.iter_mut().zip(bufs).for_each(|(place, buf)| _ = place.write(buf));
                    stack.len += n;
                }
            }
            List::Linked(_) => bufs.for_each(|buf| self.give(buf)),
        }
    }

    /// Returns the buffers of `frames` and counts them, if all frames have the same pool and loan
    /// state and the list is an array. Otherwise changes nothing and returns false.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn put_all(&mut self, frames: &[Frame]) -> bool {
        let (List::Stack(stack), [first, ..]) = (&mut self.list, frames) else { return false };
        let (from, n) = (stack.len, frames.len());
        let Some(places) = stack.places.get_mut(from..from + n) else { return false };
        let mut differs = 0;
        for (place, frame) in places.iter_mut().zip(frames) {
            let (buf, other_way) = frame.way_home(first);
            place.write(buf); // not part of the list until `len` is increased below
            differs |= other_way;
        }
        if differs & Frame::HOME != 0 {
            return false;
        }
        stack.len += n;
        self.puts.add(n as u64);
        true
    }

    /// Removes a free buffer without counting it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn take(&mut self) -> Option<NonNull<u8>> {
        match &mut self.list {
            List::Stack(stack) => stack.pop(),
            List::Linked(head) => {
                let buf = (*head)?;
                // SAFETY: a free buffer's first word contains the link written by `give`; buffers
                // are 64-byte aligned.
                *head = unsafe { buf.cast::<Option<NonNull<u8>>>().read() };
                Some(buf)
            }
        }
    }

    /// Adds a free buffer without counting it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn give(&mut self, buf: NonNull<u8>) {
        match &mut self.list {
            List::Stack(stack) => stack.push(buf),
            List::Linked(head) => {
                // SAFETY: the buffer is free, belongs to this list, is aligned and has at least 64
                // bytes.
                unsafe { buf.cast::<Option<NonNull<u8>>>().write(*head) };
                *head = Some(buf);
            }
        }
    }

    /// Exchanges all free buffers with `other`, another list of the same pool, in constant time and
    /// without counting.
    pub(super) fn exchange(&mut self, other: &mut Free) {
        std::mem::swap(&mut self.list, &mut other.list);
    }

    fn prefetch_next(&self) {
        let next = match &self.list {
            // SAFETY: the first `len` slots are initialised.
            List::Stack(stack) => stack.places.get(stack.len.wrapping_sub(1)).map(|last| unsafe { last.assume_init() }),
            List::Linked(head) => *head,
        };
        if let Some(next) = next {
            prefetch_buffer(next, self.headroom);
        }
    }
}
