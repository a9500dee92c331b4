//! Routes to single hosts that redirects made (RFC 1122 3.2.2.2, RFC 4861 8.3), of either family.
//!
//! A route made by a redirect lasts ten minutes (FreeBSD's `redirtimeout`). There are at most 256 of a
//! family; a new one evicts the oldest. Configured routes are neither replaced nor removed.

use crate::Stack;
use crate::counters::Counters;
use crate::fib::Prefix;
use crate::fib::Prefix6;
use crate::route::Via;
use crate::route::Via6;
use clock::{Duration, Instant};
use lock::{Cx, Guarded, Locks};
use stats::Counter;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lifetime of a route made by a redirect.
pub(crate) const AGE: Duration = Duration::from_secs(600);
/// Maximum number of such routes of a family.
const LIMIT: usize = 256;

/// A route that a redirect made.
#[derive(Clone, Copy)]
struct Made<H, V> {
    host: H,
    via: V,
    since: Instant,
}

/// The routes of a family that redirects made, the oldest first.
type Queue<F> = VecDeque<Made<<F as Redirected>::Host, <F as Redirected>::Via>>;

/// The routes that redirects of a family made.
pub(crate) struct Redirects<L: Locks, F: Redirected> {
    made: Guarded<L, Queue<F>>,
    /// End of the first, in nanoseconds: mostly never, and then no lock is taken.
    due: AtomicU64,
}

impl<L: Locks, F: Redirected> Default for Redirects<L, F> {
    fn default() -> Redirects<L, F> {
        Redirects { made: Guarded::default(), due: AtomicU64::new(Instant::NEVER.nanos()) }
    }
}

impl<L: Locks, F: Redirected> Redirects<L, F> {
    /// Returns how often its lock was taken.
    pub(crate) fn acquisitions(&self) -> u64 {
        self.made.acquisitions()
    }

    fn set_due(&self, made: &Queue<F>) -> Instant {
        let next = made.front().map_or(Instant::NEVER, |made| made.since.after(AGE));
        self.due.store(next.nanos(), Ordering::Relaxed);
        next
    }
}

/// Counters of a family's redirects.
pub(crate) struct Counts<'a> {
    pub(crate) accepted: &'a Counter,
    pub(crate) aged: &'a Counter,
    pub(crate) evicted: &'a Counter,
}

/// A family as redirects change its routes.
pub(crate) trait Redirected: Sized {
    /// The prefix of a single host.
    type Host: Copy + PartialEq;
    /// Next hop of a route.
    type Via: Copy + PartialEq;

    fn redirects<L: Locks>(stack: &Stack<L>) -> &Redirects<L, Self>;
    fn counts(counters: &Counters) -> Counts<'_>;
    fn route_at<L: Locks>(stack: &Stack<L>, cx: Cx, host: Self::Host) -> Option<Self::Via>;
    /// Adds or replaces a route; `false` if the FIB is full.
    fn add<L: Locks>(stack: &Stack<L>, cx: Cx, host: Self::Host, via: Self::Via) -> bool;
    fn remove<L: Locks>(stack: &Stack<L>, cx: Cx, host: Self::Host);
}

impl Redirected for u32 {
    type Host = Prefix;
    type Via = Via;

    fn redirects<L: Locks>(stack: &Stack<L>) -> &Redirects<L, u32> {
        &stack.redirects
    }

    fn counts(counters: &Counters) -> Counts<'_> {
        let of = &counters.icmp4;
        Counts { accepted: &of.redirects_accepted, aged: &of.redirects_aged, evicted: &of.redirects_evicted }
    }

    fn route_at<L: Locks>(stack: &Stack<L>, cx: Cx, host: Prefix) -> Option<Via> {
        stack.route_at(cx, host)
    }

    fn add<L: Locks>(stack: &Stack<L>, cx: Cx, host: Prefix, via: Via) -> bool {
        stack.add_route(cx, host, via).is_ok()
    }

    fn remove<L: Locks>(stack: &Stack<L>, cx: Cx, host: Prefix) {
        stack.remove_route(cx, host);
    }
}

impl Redirected for u128 {
    type Host = Prefix6;
    type Via = Via6;

    fn redirects<L: Locks>(stack: &Stack<L>) -> &Redirects<L, u128> {
        &stack.six.redirects
    }

    fn counts(counters: &Counters) -> Counts<'_> {
        let of = &counters.nd;
        Counts { accepted: &of.redirects_accepted, aged: &of.redirects_aged, evicted: &of.redirects_evicted }
    }

    fn route_at<L: Locks>(stack: &Stack<L>, cx: Cx, host: Prefix6) -> Option<Via6> {
        stack.route6_at(cx, host)
    }

    fn add<L: Locks>(stack: &Stack<L>, cx: Cx, host: Prefix6, via: Via6) -> bool {
        stack.add_route6(cx, host, via).is_ok()
    }

    fn remove<L: Locks>(stack: &Stack<L>, cx: Cx, host: Prefix6) {
        stack.remove_route6(cx, host);
    }
}

impl<L: Locks> Stack<L> {
    /// Routes packets to `host` via `via` for [`AGE`]. Returns `false` if its route is a configured one,
    /// or the FIB is full: the former route works on.
    pub(crate) fn reroute<F: Redirected>(&self, cx: Cx, host: F::Host, via: F::Via) -> bool {
        let redirects = F::redirects(self);
        let mut made = redirects.made.lock(cx);
        let is_made = |there: F::Via| made.iter().any(|made| (made.host, made.via) == (host, there));
        let is_configured = F::route_at(self, cx, host).is_some_and(|there| !is_made(there));
        if is_configured || !F::add(self, cx, host, via) {
            return false;
        }
        let counts = F::counts(self.count(cx));
        counts.accepted.bump();
        made.retain(|made| made.host != host);
        let oldest = if made.len() >= LIMIT { made.pop_front() } else { None };
        made.push_back(Made { host, via, since: cx.now });
        if let Some(oldest) = oldest {
            self.forget_redirect::<F>(cx, oldest);
            counts.evicted.bump();
        }
        redirects.set_due(&made);
        true
    }

    /// Removes the route, unless it has been changed.
    fn forget_redirect<F: Redirected>(&self, cx: Cx, made: Made<F::Host, F::Via>) {
        if F::route_at(self, cx, made.host) == Some(made.via) {
            F::remove(self, cx, made.host);
        }
    }

    /// Removes the routes whose time has ended. Returns the end of the next.
    pub(crate) fn poll_redirects<F: Redirected>(&self, cx: Cx) -> Instant {
        let redirects = F::redirects(self);
        let due = Instant::from_nanos(redirects.due.load(Ordering::Relaxed));
        if cx.now < due {
            return due;
        }
        let mut made = redirects.made.lock(cx);
        while let Some(aged) = made.pop_front_if(|made| cx.now.since(made.since) >= AGE) {
            self.forget_redirect::<F>(cx, aged);
            F::counts(self.count(cx)).aged.bump();
        }
        redirects.set_due(&made)
    }
}
