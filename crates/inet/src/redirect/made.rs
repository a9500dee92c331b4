//! Routes created by redirects.

use crate::route::{Via, Via6};
use clock::{Duration, Instant};
use fib::{Prefix, Prefix6};
use lock::{Guarded, Locks};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lifetime of a route created by a redirect.
pub(crate) const AGE: Duration = Duration::from_secs(600);

/// Address family whose routes can be changed by redirects.
pub(crate) trait Redirected: Sized {
    /// Prefix of a single host.
    type Host: Copy + PartialEq;
    /// Next hop of a route.
    type Via: Copy + PartialEq;
}

impl Redirected for u32 {
    type Host = Prefix;
    type Via = Via;
}

impl Redirected for u128 {
    type Host = Prefix6;
    type Via = Via6;
}

/// A route created by a redirect.
#[derive(Clone, Copy)]
pub(super) struct Made<H, V> {
    pub(super) host: H,
    pub(super) via: V,
    pub(super) since: Instant,
}

/// Routes of one address family that redirects created, oldest first.
pub(super) type Queue<F> = VecDeque<Made<<F as Redirected>::Host, <F as Redirected>::Via>>;

/// Routes of one address family that redirects created, with their lock.
pub(crate) struct Redirects<L: Locks, F: Redirected> {
    pub(super) made: Guarded<L, Queue<F>>,
    /// Time in nanoseconds at which the first of these routes expires. It is read without the lock.
    /// While there are no such routes (the usual case), no lock is acquired.
    pub(super) due: AtomicU64,
}

impl<L: Locks, F: Redirected> Default for Redirects<L, F> {
    fn default() -> Redirects<L, F> {
        Redirects { made: Guarded::default(), due: AtomicU64::new(Instant::NEVER.nanos()) }
    }
}

impl<L: Locks, F: Redirected> Redirects<L, F> {
    /// Returns the number of acquisitions of the lock.
    pub(crate) fn acquisitions(&self) -> u64 {
        self.made.acquisitions()
    }

    pub(super) fn set_due(&self, made: &Queue<F>) -> Instant {
        let next = made.front().map_or(Instant::NEVER, |made| made.since.after(AGE));
        self.due.store(next.nanos(), Ordering::Relaxed);
        next
    }
}
