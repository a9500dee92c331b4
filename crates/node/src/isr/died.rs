//! What netisr's workers had in hand when they died, so that the balance holds to the frame.
//!
//! A worker that panics is in the middle of a chunk: some of its frames the stack has counted as received, and has queued, sent or dropped
//! some of those; the others end as the thread unwinds, and with them what the stack had in hand. Each frame that ends so is counted by its
//! thread ([`buf::unwound`]), and what the stack had not counted as received yet is known from its own count before and after.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often the work of a workstream is begun again after a panic. More than a few are not chance, and whoever sends the frame that nobody
/// can stand is not to keep a thread busy with dying.
pub const RESTARTS_MAX: u64 = 8;

/// All of a host's workers that died.
#[derive(Debug, Default)]
pub(crate) struct Died {
    /// Frames in their hands, which netisr counts as lost.
    in_hand: AtomicU64,
    /// Of those, not counted by the stack.
    unseen: AtomicU64,
    /// Frames that ended as threads unwound.
    ended: AtomicU64,
}

/// A living worker's chunk.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    frames: Cell<u64>,
    received: Cell<u64>,
}

impl Hand {
    /// So many frames are given to the stack, which has counted `received` on this thread.
    pub(crate) fn take(&self, frames: usize, received: u64) {
        self.frames.set(frames as u64);
        self.received.set(received);
    }

    /// All of them have gone through.
    pub(crate) fn empty(&self) {
        self.frames.set(0);
    }
}

impl Died {
    /// A worker died with `hand`; the stack has counted `received` by now, and `ended` frames ended meanwhile.
    pub(crate) fn note(&self, hand: &Hand, received: u64, ended: u64) {
        let frames = hand.frames.get();
        let seen = if frames == 0 { 0 } else { received.wrapping_sub(hand.received.get()) };
        self.in_hand.fetch_add(frames, Ordering::Relaxed);
        self.unseen.fetch_add(frames.saturating_sub(seen), Ordering::Relaxed);
        self.ended.fetch_add(ended, Ordering::Relaxed);
    }

    /// Of `lost`, as netisr counts, what the stack never saw; and all that ended without its knowing.
    pub(crate) fn balance(&self, lost: u64) -> (u64, u64) {
        let left = lost.saturating_sub(self.in_hand.load(Ordering::Relaxed));
        (left + self.unseen.load(Ordering::Relaxed), left + self.ended.load(Ordering::Relaxed))
    }
}
