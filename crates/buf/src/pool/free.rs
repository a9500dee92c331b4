//! The free buffers of a pool: an array of pointers, or a list linked through the buffers.
#![allow(unsafe_code)] // an unsafe room: the list's links live in memory that only the list uses while it is free

use super::Kind;
use crate::frame::prefetch;
use stats::Counter;
use std::ptr::NonNull;

/// Free buffers, with counts of what was taken and returned.
pub(super) struct Free {
    list: List,
    headroom: usize,
    pub(super) gets: Counter,
    pub(super) puts: Counter,
    pub(super) empty: Counter,
}

enum List {
    Stack(Vec<NonNull<u8>>),
    Linked(Option<NonNull<u8>>),
}

impl Free {
    pub(super) fn new(kind: Kind, headroom: usize, capacity: usize) -> Free {
        let list = match kind {
            Kind::Freelist => List::Linked(None),
            _ => List::Stack(Vec::with_capacity(capacity)),
        };
        Free { list, headroom, gets: Counter::default(), puts: Counter::default(), empty: Counter::default() }
    }

    /// Takes a buffer for use.
    #[inline(always)]
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

    /// Returns a buffer from use.
    #[inline(always)]
    pub(super) fn put(&mut self, buf: NonNull<u8>) {
        self.give(buf);
        self.puts.bump();
    }

    /// Moves a free buffer out, uncounted.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<NonNull<u8>> {
        match &mut self.list {
            List::Stack(stack) => stack.pop(),
            List::Linked(head) => {
                let buf = (*head)?;
                // SAFETY: a free buffer's first word holds the link that `give` wrote; buffers are 64-byte aligned.
                *head = unsafe { buf.cast::<Option<NonNull<u8>>>().read() };
                Some(buf)
            }
        }
    }

    /// Moves a free buffer in, uncounted.
    #[inline(always)]
    pub(super) fn give(&mut self, buf: NonNull<u8>) {
        match &mut self.list {
            List::Stack(stack) => stack.push(buf),
            List::Linked(head) => {
                // SAFETY: the buffer is free and ours: at least 64 bytes, aligned.
                unsafe { buf.cast::<Option<NonNull<u8>>>().write(*head) };
                *head = Some(buf);
            }
        }
    }

    fn prefetch_next(&self) {
        let next = match &self.list {
            List::Stack(stack) => stack.last().copied(),
            List::Linked(head) => *head,
        };
        if let Some(next) = next {
            // The headers end and the payload begins at the headroom: the line before it and the one at it.
            // SAFETY: the address lies within the buffer; prefetching reads nothing.
            let at = unsafe { next.add(self.headroom).as_ref() };
            prefetch(at);
        }
    }
}
