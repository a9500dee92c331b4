//! Receive half of a port of a host.

use crate::capture::Watch;
use buf::Burst;
use clock::Instant;
use inet::Stack;
use inet::iface::IfaceId;
use lock::{Cx, Locks};
use port::pcap::Direction;
use port::{PortCounts, RxHalf};
use std::sync::Arc;

/// Receive half of a port, and its iface.
pub(crate) struct Receiver {
    pub(crate) iface: IfaceId,
    /// True if the iface is the mirror of another one.
    pub(crate) is_mirror: bool,
    pub(crate) half: Box<dyn RxHalf>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) counts: Arc<PortCounts>,
    /// Time at which the port last delivered frames.
    pub(crate) gave: Instant,
}

impl Receiver {
    /// Copies a burst for the captures, and removes the frames that the port's policy rejects.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_watched<L: Locks>(&self, stack: &Stack<L>, cx: Cx, burst: &mut Burst) {
        self.watch.keep(self.watch.copy(burst.as_slice()), Direction::Inbound, cx.now);
        if let Some(policy) = self.watch.policy().policy {
            let reject = |frame, why, notice| stack.reject(cx, self.iface, frame, why, notice);
            policy.admit(burst, cx.now, |addr| stack.stays_here(cx, addr), reject);
        }
    }
}
