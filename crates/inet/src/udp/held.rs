//! Datagrams of requests that wait for a decision of the application.

use crate::iface::IfaceId;
use crate::requests::{RequestKey, Requests};
use buf::Frame;
use clock::Instant;
use lock::Signal;
use std::sync::Arc;

/// Maximum number of datagrams held for one request.
pub const PACKETS_MAX: usize = 4;
/// Divisor of the pool size: held datagrams may use at most 1/`POOL_SHARE` of the buffers.
pub(super) const POOL_SHARE: usize = 8;

/// Datagrams of one forwarder that wait for a decision.
#[derive(Debug, Default)]
pub(crate) struct HeldDatagrams {
    pub(super) requests: Requests<Vec<(IfaceId, Frame)>>,
    pub(super) packets: usize,
    pub(super) signal: Arc<Signal>,
}

impl HeldDatagrams {
    /// Returns the number of held frames.
    pub(crate) fn len(&self) -> usize {
        self.packets
    }

    /// Wakes the calls that wait for a request.
    pub(crate) fn raise(&self) {
        self.signal.raise();
    }

    /// Removes the requests that have expired, and returns their frames.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Frame> {
        let expired: Vec<Frame> = self.requests.expire(now).into_iter().flatten().map(|(_, frame)| frame).collect();
        self.packets -= expired.len();
        expired
    }

    pub(super) fn take(&mut self, key: &RequestKey) -> Option<Vec<(IfaceId, Frame)>> {
        let taken = self.requests.take(key)?;
        self.packets -= taken.len();
        Some(taken)
    }
}
