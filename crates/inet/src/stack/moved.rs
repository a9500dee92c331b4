//! Neighbors whose MAC addresses have changed.

use super::Stack;
use crate::neigh::Moved;
use lock::{Cx, Locks};
use std::net::IpAddr;

impl<L: Locks> Stack<L> {
    /// Returns the last changes of the MAC addresses of neighbors since the last call, at most 16
    /// of each family, the oldest first. The counter `inet.neigh.moved` counts all.
    pub fn take_moved_neighbors(&self, cx: Cx) -> Vec<Moved<IpAddr>> {
        let v4 = self.neighbors.lock(cx).take_moves().into_iter().rev().map(wide);
        let v6 = self.six.neighbors.lock(cx).take_moves().into_iter().rev().map(wide);
        v4.chain(v6).collect()
    }
}

fn wide<A: Into<IpAddr>>(Moved { iface, addr, from, to }: Moved<A>) -> Moved<IpAddr> {
    Moved { iface, addr: addr.into(), from, to }
}
