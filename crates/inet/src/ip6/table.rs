//! The routes of IPv6, as who configures a host sees them.

use crate::Stack;
use crate::fib::Prefix6;
use crate::route::{Route6, RouteError, Via6};
use lock::{Cx, Locks};
use std::net::Ipv6Addr;

impl<L: Locks> Stack<L> {
    /// Adds or replaces a route; says where it led before.
    ///
    /// # Errors
    /// [`RouteError`]; nothing has changed then.
    pub fn add_route6(&self, cx: Cx, prefix: Prefix6, via: Via6) -> Result<Option<Via6>, RouteError> {
        if matches!(via, Via6::Local(_) | Via6::Broadcast(_) | Via6::Paths(_)) {
            return Err(RouteError::BadVia);
        }
        let before = self.six.routes.lock(cx).insert(prefix, via);
        self.rerouted();
        before
    }

    /// Removes a route; says where it led.
    pub fn remove_route6(&self, cx: Cx, prefix: Prefix6) -> Option<Via6> {
        let led = self.six.routes.lock(cx).remove(prefix);
        self.rerouted();
        led
    }

    /// Where the route to exactly `prefix` leads.
    pub fn route6_at(&self, cx: Cx, prefix: Prefix6) -> Option<Via6> {
        self.six.routes.lock(cx).get(prefix)
    }

    /// All routes of IPv6, in order of their prefixes.
    pub fn routes6(&self, cx: Cx) -> Vec<Route6> {
        self.six.routes.lock(cx).iter().collect()
    }

    /// The route that packets to `dst` take.
    pub fn route6_to(&self, cx: Cx, dst: Ipv6Addr) -> Option<Route6> {
        self.six.routes.lock(cx).explain(dst)
    }
}
