//! Receive half of a port of a host.

use crate::capture::Watch;
use clock::Instant;
use inet::iface::IfaceId;
use port::{PortCounts, RxHalf};
use std::sync::Arc;

/// Receive half of a port, and its iface.
pub(crate) struct Receiver {
    pub(crate) iface: IfaceId,
    pub(crate) half: Box<dyn RxHalf>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) counts: Arc<PortCounts>,
    /// Time at which the port last delivered frames.
    pub(crate) gave: Instant,
}
