//! The routes of IPv6: a hash table by (prefix length, prefix), asked from the longest length that any route has to the shortest.
//!
//! A host's own addresses are routes too, as in the FIB of IPv4; link-local ones are not: they belong to an iface and not to the host
//! (RFC 4007 6), and are looked for there. A router has few lengths (a dozen, seldom thirty), so that an answer is as many probes; it is
//! asked under a lock. The table of IPv4, changed under its readers, is for those who forward millions a second
//! ([decision 21](../../../docs/decisions/0021-ipv6-beside-ipv4.md)). Bounded, and the hash keyed.

mod prefix;
#[cfg(test)]
mod tests;

pub use prefix::{Prefix6, PrefixError6};

use crate::iface::IfaceId;
use std::collections::HashMap;
use std::net::Ipv6Addr;
use wire::hash::{Key, Keyed};

/// Routes at most: twice the Internet's table of 2026, which has some 240,000.
pub const LIMIT: usize = 1 << 19;

/// Where a route leads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Via6 {
    /// To this host: an address of this iface.
    Local(IfaceId),
    /// To a neighbor on the link of this iface: the destination itself.
    Link(IfaceId),
    /// To a gateway on the link of this iface.
    Gateway(IfaceId, Ipv6Addr),
    /// Nowhere: answered with no route.
    Reject,
    /// Nowhere: answered with communication administratively prohibited.
    Prohibit,
    /// Nowhere, silently.
    Blackhole,
}

impl Via6 {
    /// The iface it leads to.
    pub fn iface(self) -> Option<IfaceId> {
        match self {
            Via6::Local(id) | Via6::Link(id) | Via6::Gateway(id, _) => Some(id),
            Via6::Reject | Via6::Prohibit | Via6::Blackhole => None,
        }
    }
}

/// A route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route6 {
    /// Which destinations.
    pub prefix: Prefix6,
    /// Where they go.
    pub via: Via6,
}

/// There are as many routes as may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full6;

/// The routes of one stack.
#[derive(Debug)]
pub struct Fib6 {
    routes: HashMap<Prefix6, Via6, Keyed>,
    /// How many routes have each length.
    of_length: [u32; 129],
    /// The lengths that some have, longest first.
    lengths: Vec<u8>,
    limit: usize,
}

impl Fib6 {
    /// None, and room for `limit`.
    pub fn new(key: Key, limit: usize) -> Fib6 {
        Fib6 { routes: HashMap::with_hasher(Keyed(key)), of_length: [0; 129], lengths: Vec::new(), limit }
    }

    /// Adds or replaces the route to `prefix`; says where it led before.
    ///
    /// # Errors
    /// [`Full6`]; nothing has changed then.
    pub fn insert(&mut self, prefix: Prefix6, via: Via6) -> Result<Option<Via6>, Full6> {
        if self.routes.len() >= self.limit && !self.routes.contains_key(&prefix) {
            return Err(Full6);
        }
        let before = self.routes.insert(prefix, via);
        if before.is_none() {
            self.note(prefix.len(), 1);
        }
        Ok(before)
    }

    /// Removes the route to `prefix`; says where it led.
    pub fn remove(&mut self, prefix: Prefix6) -> Option<Via6> {
        let led = self.routes.remove(&prefix)?;
        self.note(prefix.len(), -1);
        Some(led)
    }

    /// One more or one less of a length.
    fn note(&mut self, len: u8, change: i32) {
        let Some(count) = self.of_length.get_mut(usize::from(len)) else { return };
        let was = *count;
        *count = was.saturating_add_signed(change);
        if (was == 0) != (*count == 0) {
            let there = (0..=128u8).rev().zip(self.of_length.iter().rev());
            self.lengths = there.filter(|(_, count)| **count > 0).map(|(len, _)| len).collect();
        }
    }

    /// The route that packets to `dst` take.
    pub fn lookup(&self, dst: Ipv6Addr) -> Option<Route6> {
        self.covering(dst).next()
    }

    /// All routes to `dst`, the longest first: the first one is taken.
    pub fn covering(&self, dst: Ipv6Addr) -> impl Iterator<Item = Route6> + '_ {
        let prefixes = self.lengths.iter().map(move |len| Prefix6::masked(dst, *len));
        prefixes.filter_map(|prefix| self.get(prefix).map(|via| Route6 { prefix, via }))
    }

    /// Where the route to exactly `prefix` leads.
    pub fn get(&self, prefix: Prefix6) -> Option<Via6> {
        self.routes.get(&prefix).copied()
    }

    /// All routes, in order of their prefixes.
    pub fn sorted(&self) -> Vec<Route6> {
        let mut all: Vec<Route6> = self.routes.iter().map(|(&prefix, &via)| Route6 { prefix, via }).collect();
        all.sort_unstable_by_key(|route| route.prefix);
        all
    }

    /// Removes the routes by an iface that is going away.
    pub fn forget_iface(&mut self, id: IfaceId) {
        let gone: Vec<Prefix6> =
            self.routes.iter().filter(|(_, via)| via.iface() == Some(id)).map(|(&prefix, _)| prefix).collect();
        for prefix in gone {
            self.remove(prefix);
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
}
