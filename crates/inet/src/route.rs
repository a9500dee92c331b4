//! Routes: the FIB, the next hops it points at, and what is known of each without asking again.
//!
//! A host's own addresses are routes too (to a `Local` hop), as are its broadcast addresses: one lookup says whether a
//! packet is delivered, forwarded or dropped. Next hops are shared: a million routes through eight gateways are eight.

use crate::fib::{Fib, FibFull, NextHopId, Prefix};
use crate::iface::IfaceId;
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Where a route leads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Via {
    /// To this host: an address of `iface`.
    Local(IfaceId),
    /// To everybody on the link of `iface`.
    Broadcast(IfaceId),
    /// To a neighbor on the link of `iface`: the destination itself.
    Link(IfaceId),
    /// To a gateway on the link of `iface`.
    Gateway(IfaceId, Ipv4Addr),
    /// Nowhere: answered with host unreachable.
    Reject,
    /// Nowhere, silently.
    Blackhole,
}

/// The answer to "where next?", by value.
#[derive(Clone, Copy, Debug)]
pub struct Hop {
    /// Where it leads.
    pub via: Via,
    /// Which next hop this is, for [`Routes::remember`].
    pub id: NextHopId,
    /// The Ethernet header of the last packet that went to this gateway, good while `epoch` is the stack's.
    pub adjacency: [u8; 14],
    /// When the adjacency was found; 0: never.
    pub epoch: u64,
}

/// A route, for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Which destinations.
    pub prefix: Prefix,
    /// Where they go.
    pub via: Via,
}

/// Why a route was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// The table is full.
    Full(FibFull),
    /// More different next hops than can be numbered.
    TooManyNextHops,
}

/// The routes of one stack.
pub struct Routes {
    fib: Fib,
    hops: Vec<Hop>,
    by_via: HashMap<Via, NextHopId>,
    /// What [`Routes::lookup_again`] has found, while the routes are as they were: a place for an address by its last bits, so that
    /// our own and a peer's do not push each other out.
    found: [Option<(Ipv4Addr, NextHopId)>; FOUND],
}

/// Addresses whose next hop is remembered.
const FOUND: usize = 8;

impl Default for Routes {
    fn default() -> Routes {
        // The table of a router with many routes is read at random: huge pages spare it a page walk a lookup.
        let fib = Fib::new().with_huge_pages();
        Routes { fib, hops: Vec::new(), by_via: HashMap::new(), found: [None; FOUND] }
    }
}

impl Routes {
    /// Adds or replaces the route to `prefix`; says where it led before.
    ///
    /// # Errors
    /// [`RouteError`]; nothing has changed then.
    pub fn insert(&mut self, prefix: Prefix, via: Via) -> Result<Option<Via>, RouteError> {
        let id = match self.by_via.get(&via) {
            Some(&id) => id,
            None => {
                let id = u32::try_from(self.hops.len()).ok().and_then(NextHopId::new);
                let id = id.ok_or(RouteError::TooManyNextHops)?;
                self.hops.push(Hop { via, id, adjacency: [0; 14], epoch: 0 });
                self.by_via.insert(via, id);
                id
            }
        };
        self.found = [None; FOUND];
        let before = self.fib.insert(prefix, id).map_err(RouteError::Full)?;
        Ok(before.and_then(|id| self.hop(id)).map(|hop| hop.via))
    }

    /// Removes the route to `prefix`; says where it led.
    pub fn remove(&mut self, prefix: Prefix) -> Option<Via> {
        self.found = [None; FOUND];
        let id = self.fib.remove(prefix)?;
        self.hop(id).map(|hop| hop.via)
    }

    /// Where the route to exactly `prefix` leads.
    pub fn get(&self, prefix: Prefix) -> Option<Via> {
        self.hop(self.fib.get(prefix)?).map(|hop| hop.via)
    }

    /// The next hop numbered `id`.
    #[inline(always)]
    pub fn hop(&self, id: NextHopId) -> Option<&Hop> {
        self.hops.get(id.index())
    }

    /// Where packets to `dst` go.
    #[inline(always)]
    pub fn lookup(&self, dst: Ipv4Addr) -> Option<Hop> {
        self.hop(self.fib.lookup(dst)?).copied()
    }

    /// [`Routes::lookup`] where the address is nearly always one of the few of before, as it is at a host: with three routes it
    /// costs 60 instructions less.
    #[inline(always)]
    pub fn lookup_again(&mut self, dst: Ipv4Addr) -> Option<Hop> {
        let place = self.found.get_mut(dst.to_bits() as usize % FOUND)?;
        let id = match *place {
            Some((before, id)) if before == dst => id,
            _ => {
                let id = self.fib.lookup(dst)?;
                *place = Some((dst, id));
                id
            }
        };
        self.hop(id).copied()
    }

    /// Where packets to each of `dst` go, in `ids`; the hop itself if it is the same for all, as at a host or behind one
    /// gateway it is. None is looked up when there are fewer `ids` than destinations.
    #[inline(always)]
    pub fn lookup_chunk(&self, dst: &[u32], ids: &mut [Option<NextHopId>]) -> Option<Hop> {
        let (&first, _) = dst.split_first()?;
        let ids = ids.get_mut(..dst.len())?;
        if dst.iter().fold(0, |differs, dst| differs | dst ^ first) == 0 {
            ids.fill(self.fib.lookup(Ipv4Addr::from(first)));
        } else {
            self.fib.lookup_burst(dst, ids);
        }
        let first = *ids.first()?;
        if ids.iter().all(|id| *id == first) { self.hop(first?).copied() } else { None }
    }

    /// The route that packets to `dst` take, with its prefix.
    pub fn explain(&self, dst: Ipv4Addr) -> Option<Route> {
        let (prefix, id) = self.fib.lookup_prefix(dst)?;
        Some(Route { prefix, via: self.hop(id)?.via })
    }

    /// Keeps the Ethernet header for a gateway.
    pub fn remember(&mut self, id: NextHopId, adjacency: [u8; 14], epoch: u64) {
        if let Some(hop) = self.hops.get_mut(id.index()) {
            (hop.adjacency, hop.epoch) = (adjacency, epoch);
        }
    }

    /// All routes, in order of their prefixes.
    pub fn iter(&self) -> impl Iterator<Item = Route> + '_ {
        self.fib.iter().filter_map(|(prefix, id)| Some(Route { prefix, via: self.hop(id)?.via }))
    }

    /// How many routes.
    pub fn len(&self) -> usize {
        self.fib.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes the tables take.
    pub fn bytes(&self) -> usize {
        self.fib.bytes() + self.hops.capacity() * size_of::<Hop>()
    }
}
