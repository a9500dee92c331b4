//! Host routes created by redirects (RFC 1122 3.2.2.2, RFC 4861 8.3), for IPv4 and IPv6.
//!
//! A route from a redirect expires after ten minutes (FreeBSD's `redirtimeout`). Each family has at
//! most 256 of these routes; a new one evicts the oldest. Redirects neither replace nor remove
//! configured routes.

mod made;

pub(crate) use made::{AGE, Redirects};

use crate::Stack;
use crate::counters::Counters;
use crate::route::{Via, Via6};
use clock::Instant;
use fib::{Prefix, Prefix6};
use lock::{Cx, Locks};
use made::{Made, Redirected};
use stats::Counter;
use std::sync::atomic::Ordering;

/// Maximum number of redirect routes per family.
const LIMIT: usize = 256;

/// Counters of redirects and of the routes that they created, for one address family.
pub(crate) struct Counts<'a> {
    pub(crate) accepted: &'a Counter,
    pub(crate) aged: &'a Counter,
    pub(crate) evicted: &'a Counter,
}

/// Address family whose routing table can be changed by redirects.
pub(crate) trait Reroutes: Redirected {
    fn redirects<L: Locks>(stack: &Stack<L>) -> &Redirects<L, Self>;
    fn counts(counters: &Counters) -> Counts<'_>;
    fn route_at<L: Locks>(stack: &Stack<L>, cx: Cx, host: Self::Host) -> Option<Self::Via>;
    /// Adds or replaces a route. Returns `false` if the FIB is full.
    fn add<L: Locks>(stack: &Stack<L>, cx: Cx, host: Self::Host, via: Self::Via) -> bool;
    fn remove<L: Locks>(stack: &Stack<L>, cx: Cx, host: Self::Host);
}

impl Reroutes for u32 {
    fn redirects<L: Locks>(stack: &Stack<L>) -> &Redirects<L, u32> {
        &stack.redirects
    }

    fn counts(counters: &Counters) -> Counts<'_> {
        let of = &counters.icmp4;
        Counts { accepted: &of.redirects_accepted, aged: &of.redirects_aged, evicted: &of.redirects_evicted }
    }

    fn route_at<L: Locks>(stack: &Stack<L>, cx: Cx, host: Prefix) -> Option<Via> {
        stack.routes.lock(cx).at(host).map(|route| route.via)
    }

    fn add<L: Locks>(stack: &Stack<L>, cx: Cx, host: Prefix, via: Via) -> bool {
        stack.add_route(cx, host, via).is_ok()
    }

    fn remove<L: Locks>(stack: &Stack<L>, cx: Cx, host: Prefix) {
        stack.remove_route(cx, host);
    }
}

impl Reroutes for u128 {
    fn redirects<L: Locks>(stack: &Stack<L>) -> &Redirects<L, u128> {
        &stack.six.redirects
    }

    fn counts(counters: &Counters) -> Counts<'_> {
        let of = &counters.nd;
        Counts { accepted: &of.redirects_accepted, aged: &of.redirects_aged, evicted: &of.redirects_evicted }
    }

    fn route_at<L: Locks>(stack: &Stack<L>, cx: Cx, host: Prefix6) -> Option<Via6> {
        stack.six.routes.lock(cx).at(host).map(|route| route.via)
    }

    fn add<L: Locks>(stack: &Stack<L>, cx: Cx, host: Prefix6, via: Via6) -> bool {
        stack.add_route6(cx, host, via).is_ok()
    }

    fn remove<L: Locks>(stack: &Stack<L>, cx: Cx, host: Prefix6) {
        stack.remove_route6(cx, host);
    }
}

impl<L: Locks> Stack<L> {
    /// Adds a route to `host` via `via` that expires after [`AGE`]. Returns `false` and changes
    /// nothing if `host` has another route, configured or of a routing engine, or if the FIB is
    /// full.
    pub(crate) fn reroute<F: Reroutes>(&self, cx: Cx, host: F::Host, via: F::Via) -> bool {
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

    /// Returns whether a redirect has created the route to `prefix` via `via`.
    pub fn is_redirect(&self, cx: Cx, prefix: Prefix, via: Via) -> bool {
        self.redirects.made.lock(cx).iter().any(|made| (made.host, made.via) == (prefix, via))
    }

    /// Returns whether a redirect has created the IPv6 route to `prefix` via `via`.
    pub fn is_redirect6(&self, cx: Cx, prefix: Prefix6, via: Via6) -> bool {
        self.six.redirects.made.lock(cx).iter().any(|made| (made.host, made.via) == (prefix, via))
    }

    /// Removes a route that a redirect created, unless the route has been changed since.
    fn forget_redirect<F: Reroutes>(&self, cx: Cx, made: Made<F::Host, F::Via>) {
        if F::route_at(self, cx, made.host) == Some(made.via) {
            F::remove(self, cx, made.host);
        }
    }

    /// Removes expired routes. Returns the time of the next expiry.
    pub(crate) fn poll_redirects<F: Reroutes>(&self, cx: Cx) -> Instant {
        let redirects = F::redirects(self);
        let due = Instant::from_nanos(redirects.due.load(Ordering::Relaxed));
        if cx.now < due {
            return due;
        }
        let mut made = redirects.made.lock(cx);
        while let Some(&aged) = made.front()
            && cx.now.since(aged.since) >= AGE
        {
            made.pop_front();
            self.forget_redirect::<F>(cx, aged);
            F::counts(self.count(cx)).aged.bump();
        }
        redirects.set_due(&made)
    }
}
