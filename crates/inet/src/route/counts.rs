//! Counters of received packets by the route of their destination, while `net.route.counters` is
//! on.

use fib::{IpPrefix, Matched};
use std::collections::HashMap;

/// Maximum number of counted routes. Packets of further ones are not counted.
const COUNTED_MAX: usize = 1 << 21;

/// Received packets whose destination has a route as its longest prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouteCount {
    /// Number of packets. A large TCP segment is one packet.
    pub packets: u64,
    /// Number of bytes of the IP packets.
    pub bytes: u64,
}

/// The counters of the routes of both families. They stay when a route changes or is removed, so
/// that a route that comes back has them.
#[derive(Debug, Default)]
pub(crate) struct RouteCounts(HashMap<Key, RouteCount>);

/// Number of bits of the family, first address and length of a prefix.
type Key = (u8, u128, u8);

fn key<A: Matched>(prefix: IpPrefix<A>) -> Key {
    (A::BITS, A::of(prefix.addr()).to_wide(), prefix.len())
}

impl RouteCounts {
    pub(crate) fn add<A: Matched>(&mut self, prefix: IpPrefix<A>, bytes: usize) {
        let key = key(prefix);
        let is_full = self.0.len() >= COUNTED_MAX;
        if is_full && !self.0.contains_key(&key) {
            return;
        }
        let count = self.0.entry(key).or_default();
        count.packets += 1;
        count.bytes += bytes as u64;
    }

    pub(crate) fn get<A: Matched>(&self, prefix: IpPrefix<A>) -> RouteCount {
        self.0.get(&key(prefix)).copied().unwrap_or_default()
    }
}
