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

/// Content of a [`ReadySet`]. Each socket is queued at most once, so that neither the peers nor a
/// program that does not read the set control the length of the queue.
#[derive(Debug, Default)]
struct Ready {
    queue: VecDeque<u32>,
    /// Bit sets of the datagram sockets and streams in the queue, by number.
    queued: [Vec<u64>; 2],
}

/// Returns the position of a socket in [`Ready::queued`]: the index of the bit set, the index of
/// the word, and the word with only the socket's bit set.
#[inline(always)]
fn place(id: usize) -> (usize, usize, u64) {
    let at = id & !SOCK_BIT;
    (usize::from(id & SOCK_BIT != 0), at / 64, 1 << (at % 64))
}

impl Ready {
    /// Marks a socket as queued. Returns `false` if it was queued already.
    #[inline]
    fn enter(&mut self, id: usize) -> bool {
        let (kind, at, bit) = place(id);
        let Some(words) = self.queued.get_mut(kind) else { return false };
        if at >= words.len() {
            words.resize(at + 1, 0);
        }
        let Some(word) = words.get_mut(at) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    #[inline]
    fn pop(&mut self) -> Option<usize> {
        let id = self.queue.pop_front()? as usize;
        let (kind, at, bit) = place(id);
        if let Some(word) = self.queued.get_mut(kind).and_then(|words| words.get_mut(at)) {
            *word &= !bit;
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
        if !ready.enter(id) {
            return;
        }
        ready.queue.push_back(id as u32);
        drop(ready);
        self.signal.raise();
    }
}
