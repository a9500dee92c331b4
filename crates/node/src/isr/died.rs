//! Accounting of the frames held by netisr workers that panicked, so that the audit stays exact.
//!
//! A worker can panic only while it processes a chunk of queued frames. By then the stack has
//! counted some frames of the chunk as received, and has queued, sent or dropped some of these. The
//! other frames are freed when the thread unwinds, along with other frames that the stack owned.
//! [`buf::unwound`] counts the frames that unwinding frees, for each thread. The number of frames
//! that were not yet counted as received follows from the stack's counter before the chunk and
//! after the panic.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of restarts of a workstream's worker after a panic. The limit prevents a peer
/// whose frames cause panics from keeping a thread busy with restarts.
pub const RESTARTS_MAX: u64 = 8;

/// Totals over all workers of a host that panicked.
#[derive(Debug, Default)]
pub(crate) struct Died {
    /// Frames in the chunks of these workers when they panicked; netisr counts them as lost.
    in_hand: AtomicU64,
    /// Frames in these chunks that the stack had not counted as received.
    unseen: AtomicU64,
    /// Frames freed while threads unwound.
    ended: AtomicU64,
}

/// Chunk of frames that a worker is processing.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    frames: Cell<u64>,
    received: Cell<u64>,
}

impl Hand {
    /// Records a chunk of `frames` frames that is passed to the stack. `received` is the number of
    /// frames that the stack has counted as received on this thread so far.
    pub(crate) fn take(&self, frames: usize, received: u64) {
        self.frames.set(frames as u64);
        self.received.set(received);
    }

    /// Records that the chunk was processed.
    pub(crate) fn empty(&self) {
        self.frames.set(0);
    }
}

impl Died {
    /// Records that a worker panicked while it processed the chunk `hand`. `received` is the
    /// stack's number of received frames after the panic, and `ended` is the number of frames that
    /// unwinding freed.
    pub(crate) fn note(&self, hand: &Hand, received: u64, ended: u64) {
        let frames = hand.frames.get();
        let seen = if frames == 0 { 0 } else { received.wrapping_sub(hand.received.get()) };
        self.in_hand.fetch_add(frames, Ordering::Relaxed);
        self.unseen.fetch_add(frames.saturating_sub(seen), Ordering::Relaxed);
        self.ended.fetch_add(ended, Ordering::Relaxed);
    }

    /// Returns two corrections for the audit: the number of frames that the stack did not count as
    /// received, and the number of frames that were freed without being counted as dropped. `lost`
    /// is the number of frames that netisr counted as lost.
    pub(crate) fn balance(&self, lost: u64) -> (u64, u64) {
        let left = lost.saturating_sub(self.in_hand.load(Ordering::Relaxed));
        (left + self.unseen.load(Ordering::Relaxed), left + self.ended.load(Ordering::Relaxed))
    }
}
