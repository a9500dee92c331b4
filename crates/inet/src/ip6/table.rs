//! Functions with which the control plane adds, removes and lists IPv6 routes.

use crate::Stack;
use crate::route::{Path, Route6, RouteError, Via6};
use fib::Prefix6;
use lock::{Cx, Locks};
use std::net::Ipv6Addr;

impl<L: Locks> Stack<L> {
    /// Adds or replaces the route to `prefix`. Returns its previous target; `None` if there was no
    /// route.
    ///
    /// # Errors
    ///
    /// [`RouteError`] if the table is full or `via` is not a permitted target. Nothing has changed
    /// then. The target of a local route, [`Via6::Local`], is permitted.
    pub fn add_route6(&self, cx: Cx, prefix: Prefix6, via: Via6) -> Result<Option<Via6>, RouteError> {
        if matches!(via, Via6::Broadcast(_) | Via6::Paths(_)) {
            return Err(RouteError::BadVia);
        }
        let before = self.six.routes.lock(cx).insert(prefix, via);
        self.rerouted();
        before
    }

    /// Adds a multipath route to `prefix`, or replaces the existing route with it. Each flow uses
    /// one of the paths (RFC 2992). Returns the previous target.
    ///
    /// # Errors
    /// [`RouteError`] if a table is full or there are no paths.
    pub fn add_paths6(&self, cx: Cx, prefix: Prefix6, paths: &[Path<Ipv6Addr>]) -> Result<Option<Via6>, RouteError> {
        let before = self.six.routes.lock(cx).insert_paths(prefix, paths);
        self.rerouted();
        before
    }

    /// Returns the paths of a multipath route; empty if `via` is any other target.
    pub fn paths6(&self, cx: Cx, via: Via6) -> Vec<Path<Ipv6Addr>> {
        match via {
            Via6::Paths(set) => self.six.routes.lock(cx).paths(set).to_vec(),
            _ => Vec::new(),
        }
    }

    /// Removes the own route to exactly `prefix`. Returns its target; `None` if there was none.
    pub fn remove_route6(&self, cx: Cx, prefix: Prefix6) -> Option<Via6> {
        let led = self.six.routes.lock(cx).remove(prefix);
        self.rerouted();
        led
    }

    /// Returns the target of the own route to exactly `prefix`; `None` if there is none.
    pub fn route6_at(&self, cx: Cx, prefix: Prefix6) -> Option<Via6> {
        self.six.routes.lock(cx).get(prefix)
    }

    /// Returns all IPv6 routes, ordered by prefix.
    pub fn routes6(&self, cx: Cx) -> Vec<Route6> {
        self.six.routes.lock(cx).iter().collect()
    }

    /// Returns the route that this host's packets to `dst` take. For a multipath route, returns the
    /// path selected for that destination.
    pub fn route6_to(&self, cx: Cx, dst: Ipv6Addr) -> Option<Route6> {
        let route = self.six.routes.lock(cx).explain(dst)?;
        let Via6::Paths(set) = route.via else { return Some(route) };
        let pinned = self.six.ways.pin(cx);
        let via = self.six.ways.would_choose(&pinned, set, self.own_hash(dst.to_bits()), cx.now)?;
        Some(Route6 { via, ..route })
    }
}
