//! The routing tables that an engine changes, and what its next hops and routes of both families
//! have in common.

use super::paths::{Addressed, Links};
use clock::Instant;
use inet::fib::{AddrBits, IpPrefix, Prefix, Prefix6};
use inet::route::{ObjectId, Path, RouteError, Routes};
use std::collections::HashMap;

/// Locked routing tables of a stack, with what the engine needs to change them.
pub struct Tables<'t> {
    /// IPv4 routes.
    pub v4: &'t mut Routes,
    /// IPv6 routes.
    pub v6: &'t mut Routes<u128>,
    /// Ifaces of the host.
    pub links: &'t Links,
    /// Current time.
    pub now: Instant,
}

impl std::fmt::Debug for Tables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").field("v4", &self.v4.len()).field("v6", &self.v6.len()).finish_non_exhaustive()
    }
}

/// Destination of a route of either family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum To {
    V4(Prefix),
    V6(Prefix6),
}

/// Family-specific parts of the engine.
pub(super) trait Family: Addressed {
    fn routes<'a>(tables: &'a mut Tables<'_>) -> &'a mut Routes<Self>;
    fn objects(objects: &mut Objects) -> &mut Option<ObjectId>;
    fn orphans(orphans: &mut Orphans) -> &mut OrphansOf<Self>;
    fn to(prefix: IpPrefix<Self>) -> To;
    /// Returns whether the prefix is link-local, loopback or multicast, whose packets need no
    /// route.
    fn is_special(prefix: IpPrefix<Self>) -> bool;
}

impl Family for u32 {
    fn routes<'a>(tables: &'a mut Tables<'_>) -> &'a mut Routes {
        tables.v4
    }

    fn objects(objects: &mut Objects) -> &mut Option<ObjectId> {
        &mut objects.v4
    }

    fn orphans(orphans: &mut Orphans) -> &mut OrphansOf<u32> {
        &mut orphans.v4
    }

    fn to(prefix: Prefix) -> To {
        To::V4(prefix)
    }

    fn is_special(prefix: Prefix) -> bool {
        let first = prefix.addr().octets()[0];
        prefix.len() >= 4 && first >= 224 || prefix.len() >= 8 && first == 127
    }
}

impl Family for u128 {
    fn routes<'a>(tables: &'a mut Tables<'_>) -> &'a mut Routes<u128> {
        tables.v6
    }

    fn objects(objects: &mut Objects) -> &mut Option<ObjectId> {
        &mut objects.v6
    }

    fn orphans(orphans: &mut Orphans) -> &mut OrphansOf<u128> {
        &mut orphans.v6
    }

    fn to(prefix: Prefix6) -> To {
        To::V6(prefix)
    }

    fn is_special(prefix: Prefix6) -> bool {
        let addr = prefix.addr();
        prefix.len() >= 8 && addr.is_multicast() || prefix.len() >= 10 && addr.is_unicast_link_local()
    }
}

/// Objects of the stack's tables that a next hop has, one for each family whose routes use it.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) v4: Option<ObjectId>,
    pub(super) v6: Option<ObjectId>,
}

/// Objects of former connections by their paths. A next hop of the current connection with the same
/// paths takes one over, so that its routes do not change.
pub(super) type OrphansOf<A> = HashMap<Vec<Path<<A as AddrBits>::Addr>>, ObjectId>;

/// Objects of former connections, of both families.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    pub(super) v4: OrphansOf<u32>,
    pub(super) v6: OrphansOf<u128>,
}

/// Reason why a next hop gives a route no path.
pub(super) enum Absent {
    /// It was not announced.
    Unknown,
    /// None of its paths leads through an iface of this host.
    Unusable,
    Error(RouteError),
}
