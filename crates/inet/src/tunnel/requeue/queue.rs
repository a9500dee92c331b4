//! Queue of decapsulated packets that wait for input.

use crate::iface::IfaceId;
use buf::Frame;
use lock::{Guarded, Locks};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::icmp4::Problem;

/// Queue of packets, with a flag that is set while it may have some: every poll reads the flag alone.
pub(crate) struct Requeue<L: Locks> {
    pub(crate) queue: Guarded<L, VecDeque<(IfaceId, Frame)>>,
    /// Errors about packets of this host, with the beginning of each packet, for its socket.
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
