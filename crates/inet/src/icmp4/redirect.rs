//! Redirects received (RFC 1122 3.2.2.2): routes to single hosts that a gateway told us of.
//!
//! Believed only where `net.inet.icmp.accept_redirects` is on, from the gateway in use, for another on the same link, about a
//! packet of ours. What is believed becomes a route of 32 bits that lives ten minutes (FreeBSD's `redirtimeout`), one
//! of at most 256: the oldest goes for a new one. A route set by hand is neither replaced nor taken away.

use crate::Stack;
use crate::fib::Prefix;
use crate::iface::Iface;
use crate::route::Via;
use clock::{Duration, Instant};
use lock::{Cx, Locks};
use stats::DropReason;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use wire::icmp4::Inner;

/// So long a redirect is believed.
pub(crate) const AGE: Duration = Duration::from_secs(600);
/// So many at a time.
const LIMIT: usize = 256;

/// A route that a redirect made.
#[derive(Clone, Copy)]
struct Made {
    host: Prefix,
    via: Via,
    since: Instant,
}

/// The routes that redirects made, the oldest first.
#[derive(Default)]
pub(crate) struct Redirects(VecDeque<Made>);

impl Redirects {
    fn has(&self, host: Prefix, via: Via) -> bool {
        self.0.iter().any(|made| (made.host, made.via) == (host, via))
    }

    /// Notes a route; gives the one that has to go for it.
    fn note(&mut self, new: Made) -> Option<Made> {
        self.0.retain(|made| made.host != new.host);
        let oldest = if self.0.len() >= LIMIT { self.0.pop_front() } else { None };
        self.0.push_back(new);
        oldest
    }

    fn take_aged(&mut self, now: Instant) -> Option<Made> {
        self.0.pop_front_if(|made| now.since(made.since) >= AGE)
    }

    fn next_deadline(&self) -> Instant {
        self.0.front().map_or(Instant::NEVER, |made| made.since.after(AGE))
    }
}

impl<L: Locks> Stack<L> {
    pub(super) fn redirected(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        from: Ipv4Addr,
        gateway: Ipv4Addr,
        inner: &Inner<'_>,
    ) -> DropReason {
        let Some(iface) = iface.filter(|_| self.knobs.accept_redirects.on()) else {
            return DropReason::IcmpRedirectIgnored;
        };
        let current = self.ways.lookup(cx, inner.header.dst).map(|hop| hop.via);
        let on_link = iface.addrs(cx).iter().any(|addr| addr.contains(gateway)) && !self.is_own(cx, gateway);
        let believed = current == Some(Via::Gateway(iface.id, from)) && on_link && self.is_own(cx, inner.header.src);
        match Prefix::new(inner.header.dst, 32) {
            Ok(host) if believed && self.reroute(cx, host, Via::Gateway(iface.id, gateway)) => DropReason::IcmpConsumed,
            _ => DropReason::IcmpRedirectIgnored,
        }
    }

    /// Sends packets to `host` another way for a while; `false` if its route was set by hand, or the FIB is full: no reason
    /// to do more than go on by the old way.
    fn reroute(&self, cx: Cx, host: Prefix, via: Via) -> bool {
        let mut redirects = self.redirects.lock(cx);
        let there = self.routes.lock(cx).get(host);
        if there.is_some_and(|there| !redirects.has(host, there)) || self.add_route(cx, host, via).is_err() {
            return false;
        }
        let counters = &self.count(cx).icmp4;
        counters.redirects_accepted.bump();
        if let Some(oldest) = redirects.note(Made { host, via, since: cx.now }) {
            self.forget_redirect(cx, oldest);
            counters.redirects_evicted.bump();
        }
        self.redirects_due.store(redirects.next_deadline().nanos(), Ordering::Relaxed);
        true
    }

    /// Takes the route away, unless it leads elsewhere by now.
    fn forget_redirect(&self, cx: Cx, made: Made) {
        if self.routes.lock(cx).get(made.host) == Some(made.via) {
            self.remove_route(cx, made.host);
        }
    }

    /// Ends the routes that have had their time; says when the next has.
    pub(crate) fn poll_redirects(&self, cx: Cx) -> Instant {
        let due = Instant::from_nanos(self.redirects_due.load(Ordering::Relaxed));
        if cx.now < due {
            return due;
        }
        let mut redirects = self.redirects.lock(cx);
        while let Some(aged) = redirects.take_aged(cx.now) {
            self.forget_redirect(cx, aged);
            self.count(cx).icmp4.redirects_aged.bump();
        }
        let next = redirects.next_deadline();
        self.redirects_due.store(next.nanos(), Ordering::Relaxed);
        next
    }
}
