//! Queue of decapsulated packets that wait to be processed.

use crate::iface::IfaceId;
use crate::tunnel::trouble::Trouble;
use buf::Frame;
use lock::{Guarded, Locks};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// Queue of packets, with a flag that is set while the queue may be non-empty. A poll usually reads
/// only the flag.
pub(crate) struct Requeue<L: Locks> {
    pub(crate) queue: Guarded<L, VecDeque<(IfaceId, Frame)>>,
    /// Errors about packets that this host sent. Each is stored with the beginning of the packet,
    /// which identifies the packet's socket.
    pub(super) troubles: Guarded<L, VecDeque<(Trouble, Vec<u8>)>>,
    pub(super) some: AtomicBool,
}

impl<L: Locks> Default for Requeue<L> {
    fn default() -> Requeue<L> {
        Requeue { queue: Guarded::default(), troubles: Guarded::default(), some: AtomicBool::new(false) }
    }
}

impl<L: Locks> Requeue<L> {
    /// Returns whether the queue may be non-empty.
    #[inline(always)]
    pub(crate) fn has_some(&self) -> bool {
        self.some.load(Ordering::Relaxed)
    }
}
