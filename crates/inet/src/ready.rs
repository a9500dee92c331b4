//! Queue of sockets that became readable, which a poller reads.

use lock::{Cx, Guarded, Locks, Signal};
use std::collections::VecDeque;

/// Flag in the socket numbers of a [`ReadySet`] and in descriptors. It is set for TCP sockets and
/// clear for datagram sockets.
pub const SOCK_BIT: usize = 1 << 30;

/// Queue of the sockets that became readable.
#[derive(Debug)]
pub struct ReadySet<L: Locks> {
    ready: Guarded<L, Ready>,
    /// Signal that is raised when the set becomes non-empty.
    pub signal: Signal,
}

/// Content of a [`ReadySet`]. A datagram socket is queued each time it becomes readable. A stream
/// is queued at most once, since otherwise its peer would control the length of the queue.
#[derive(Debug, Default)]
struct Ready {
    queue: VecDeque<u32>,
    /// Bit set of the streams in the queue, by number.
    streams: Vec<u64>,
}

impl Ready {
    /// Marks a stream as queued. Returns `false` if it was queued already.
    #[inline]
    fn enter(&mut self, id: usize) -> bool {
        let at = id & !SOCK_BIT;
        if at / 64 >= self.streams.len() {
            self.streams.resize(at / 64 + 1, 0);
        }
        let Some(word) = self.streams.get_mut(at / 64) else { return false };
        let fresh = *word & 1 << (at % 64) == 0;
        *word |= 1 << (at % 64);
        fresh
    }

    #[inline]
    fn pop(&mut self) -> Option<usize> {
        let id = self.queue.pop_front()? as usize;
        if id & SOCK_BIT != 0 {
            let at = id & !SOCK_BIT;
            if let Some(word) = self.streams.get_mut(at / 64) {
                *word &= !(1 << (at % 64));
            }
        }
        Some(id)
    }
}

impl<L: Locks> Default for ReadySet<L> {
    fn default() -> Self {
        ReadySet { ready: Guarded::default(), signal: Signal::default() }
    }
}

impl<L: Locks> ReadySet<L> {
    /// Removes and returns the next socket that became readable.
    #[inline]
    pub fn pop(&self, cx: Cx) -> Option<usize> {
        self.ready.lock(cx).pop()
    }

    /// Moves up to `most` sockets that became readable into `into`.
    pub fn pop_many(&self, cx: Cx, most: usize, into: &mut Vec<usize>) {
        let mut ready = self.ready.lock(cx);
        let n = most.min(ready.queue.len());
        into.extend((0..n).map_while(|_| ready.pop()));
    }

    pub(crate) fn push(&self, cx: Cx, id: usize) {
        let mut ready = self.ready.lock(cx);
        if id & SOCK_BIT != 0 && !ready.enter(id) {
            return;
        }
        ready.queue.push_back(id as u32);
        drop(ready);
        self.signal.raise();
    }
}
