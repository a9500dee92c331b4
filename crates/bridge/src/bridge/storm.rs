//! Storm control: how many frames that go to several ports are taken from one port, by a bucket for each class.
//!
//! A frame that would be flooded asks the bucket of its class at the port through which it came: broadcasts, multicasts, frames for
//! unknown addresses. What the bucket has not is dropped by name. Frames for one known port ask nobody. Replicas that take frames of
//! one port share its [`Buckets`].

use super::Bridge;
use super::flood::Class;
use crate::PortNo;
use clock::Instant;
use stats::DropReason;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Frames a second, and how many at once after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Frames a second, up to a thousand million; 0: none at all.
    pub per_second: u32,
    /// At once; at least 1 is meant.
    pub burst: u32,
}

/// What is taken from a port; `None`: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Storm {
    /// Broadcasts.
    pub broadcast: Option<Rate>,
    /// Frames for other groups, snooped ones among them.
    pub multicast: Option<Rate>,
    /// Frames for addresses that nobody knows.
    pub unknown: Option<Rate>,
}

/// A bucket as the time at which it is full again: a frame puts it off by its share of a second, and none passes that would put it off
/// further than the burst.
#[derive(Debug, Clone)]
struct Bucket {
    /// Nanoseconds.
    share: u64,
    most: u64,
    full_at: Arc<AtomicU64>,
}

impl Bucket {
    /// `None`: nothing passes.
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

/// A port's buckets; clones are the same ones.
#[derive(Debug, Clone, Default)]
pub struct Buckets {
    storm: Storm,
    /// Of each [`Class`].
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
    /// What is taken from a port of frames that go to several: a [`Storm`], or buckets that other replicas take from as well.
    pub fn set_storm(&mut self, port: PortNo, buckets: impl Into<Buckets>) {
        if let Some(extra) = self.extra_mut(port) {
            extra.buckets = buckets.into();
        }
    }

    /// That.
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
