//! Queue of decapsulated packets that wait for input.

use crate::iface::IfaceId;
use buf::Frame;
use lock::{Guarded, Locks};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::icmp4::Problem;

/// The queue, and whether anything was put into it since it was looked at: asked at every poll.
pub(crate) struct Requeue<L: Locks> {
    pub(crate) queue: Guarded<L, VecDeque<(IfaceId, Frame)>>,
    /// Beginnings of packets of our own that did not go, and why, to be told to their sockets.
    pub(super) troubles: Guarded<L, VecDeque<(Problem, Vec<u8>)>>,
    pub(super) some: AtomicBool,
}

impl<L: Locks> Default for Requeue<L> {
    fn default() -> Requeue<L> {
        Requeue { queue: Guarded::default(), troubles: Guarded::default(), some: AtomicBool::new(false) }
    }
}

impl<L: Locks> Requeue<L> {
    /// Returns whether something may be in it.
    #[inline(always)]
    pub(crate) fn has_some(&self) -> bool {
        self.some.load(Ordering::Relaxed)
    }
}
