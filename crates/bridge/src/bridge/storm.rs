//! Storm control: limits the rate of flooded frames per ingress port, with one token bucket for
//! each class of frames.
//!
//! A flooded frame takes a token from one of three buckets of its ingress port: broadcast,
//! multicast or unknown unicast. Frames over the limit are dropped, with one drop reason for each
//! class. Frames for a known unicast address are not limited. Replicas that receive frames from the
//! same port share its [`Buckets`].

use super::Bridge;
use super::flood::Class;
use crate::PortNo;
use clock::Instant;
use stats::DropReason;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rate limit: frames per second, and burst size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Frames per second, up to 1,000,000,000; 0 blocks all frames.
    pub per_second: u32,
    /// Number of frames allowed at once after a pause; 0 has the same effect as 1.
    pub burst: u32,
}

/// Rate limits of a port; `None` for each class that is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Storm {
    /// Limit of broadcast frames.
    pub broadcast: Option<Rate>,
    /// Limit of multicast frames, including those that snooping restricts to some ports.
    pub multicast: Option<Rate>,
    /// Limit of frames for unknown unicast addresses.
    pub unknown: Option<Rate>,
}

/// A token bucket, stored as the time at which it will be full again. Each frame moves this time
/// forward by the time per frame. A frame is dropped if the bucket would then need more time to
/// fill than a whole burst takes.
#[derive(Debug, Clone)]
struct Bucket {
    /// Time per frame, in nanoseconds.
    share: u64,
    most: u64,
    full_at: Arc<AtomicU64>,
}

impl Bucket {
    /// Creates the bucket of a rate. Returns `None` for a rate of 0, which blocks all frames.
    fn of(rate: Rate) -> Option<Bucket> {
        let share = 1_000_000_000_u64.checked_div(u64::from(rate.per_second))?.max(1);
        Some(Bucket { share, most: share * u64::from(rate.burst.max(1)), full_at: Arc::default() })
    }

    fn take(&self, now: u64) -> bool {
        let put_off = |full_at: u64| {
            let full_at = full_at.max(now).saturating_add(self.share);
            (full_at - now <= self.most).then_some(full_at)
        };
        self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, put_off).is_ok()
    }
}

/// The token buckets of a port. Clones share the same buckets.
#[derive(Debug, Clone, Default)]
pub struct Buckets {
    storm: Storm,
    /// One bucket per [`Class`].
    buckets: [Option<Bucket>; 3],
}

impl From<Storm> for Buckets {
    fn from(storm: Storm) -> Buckets {
        let of = |rate: Option<Rate>| rate.and_then(Bucket::of);
        Buckets { storm, buckets: [of(storm.broadcast), of(storm.multicast), of(storm.unknown)] }
    }
}

impl Buckets {
    fn passes(&self, class: Class, now: Instant) -> bool {
        let [broadcast, multicast, unknown] = &self.buckets;
        let (rate, bucket) = match class {
            Class::Broadcast => (self.storm.broadcast, broadcast),
            Class::Multicast => (self.storm.multicast, multicast),
            Class::Unknown => (self.storm.unknown, unknown),
        };
        rate.is_none() || bucket.as_ref().is_some_and(|bucket| bucket.take(now.nanos()))
    }
}

impl Bridge {
    /// Sets the storm control of a port: either a [`Storm`], or buckets shared with other replicas.
    pub fn set_storm(&mut self, port: PortNo, buckets: impl Into<Buckets>) {
        if let Some(extra) = self.extra_mut(port) {
            extra.buckets = buckets.into();
        }
    }

    /// Returns the rate limits of a port.
    pub fn storm_control(&self, port: PortNo) -> Option<Storm> {
        self.extra(port).map(|extra| extra.buckets.storm)
    }

    pub(super) fn storm(&self, from: PortNo, class: Class, now: Instant) -> Option<DropReason> {
        let passes = self.extra(from).is_none_or(|extra| extra.buckets.passes(class, now));
        (!passes).then_some(match class {
            Class::Broadcast => DropReason::BridgeBroadcastStorm,
            Class::Multicast => DropReason::BridgeMulticastStorm,
            Class::Unknown => DropReason::BridgeUnknownStorm,
        })
    }
}
