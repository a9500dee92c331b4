//! Contents of next hops as a routing engine announces them, and the paths that they give to
//! routes.

use inet::fib::Matched;
use inet::iface::IfaceId;
use inet::route::{PATHS_MAX, Path, Via, Via6};
use std::collections::HashMap;
use std::hash::Hasher;
use std::net::IpAddr;
use wire::rtnetlink::{Hop, NextHop};

/// Ifaces by the index of their kernel device.
pub type Links = HashMap<u32, IfaceId>;

/// Address family of a route and its gateways.
pub(super) trait Addressed: Matched {
    /// Returns the target of routes of this family through a gateway; `None` if they cannot use it.
    fn gateway(iface: IfaceId, addr: IpAddr) -> Option<Via<Self::Addr>>;
}

impl Addressed for u32 {
    fn gateway(iface: IfaceId, addr: IpAddr) -> Option<Via> {
        Some(match addr {
            IpAddr::V4(addr) => Via::Gateway(iface, addr),
            IpAddr::V6(addr) => Via::Gateway6(iface, addr), // RFC 8950
        })
    }
}

impl Addressed for u128 {
    fn gateway(iface: IfaceId, addr: IpAddr) -> Option<Via6> {
        if let IpAddr::V6(addr) = addr { Some(Via::Gateway(iface, addr)) } else { None }
    }
}

/// Target of a next hop.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum Content {
    #[default]
    Nothing,
    Blackhole,
    Path(Hop),
    Group(Vec<(u32, u16)>),
}

impl Content {
    pub(super) fn of(to: NextHop<'_>) -> Content {
        match to {
            NextHop::None | NextHop::Multipath(_) => Content::Nothing,
            NextHop::Blackhole => Content::Blackhole,
            NextHop::Path(hop) => Content::Path(hop),
            NextHop::Group(group) => Content::Group(group.members().collect()),
        }
    }
}

/// Numbers of next hops are small and come from the engine, which is trusted.
#[derive(Default)]
pub(super) struct OfNumbers(u64);

impl Hasher for OfNumbers {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Returns the path of a next hop; `None` if its device is none of this host's, or if it is an IPv4
/// gateway for IPv6 routes.
pub(super) fn path<A: Addressed>(hop: Hop, weight: u16, links: &Links) -> Option<Path<A::Addr>> {
    let iface = *links.get(&hop.oif)?;
    let via = match hop.gateway {
        Some(gateway) => A::gateway(iface, gateway)?,
        None => Via::Link(iface),
    };
    Some(Path { via, weight })
}

/// Maximum number of next hops that are read from a route. Some may be those of other devices.
const INLINE_HOPS_MAX: usize = 4 * PATHS_MAX;

/// Returns the next hops of a route that has them itself, with their weights.
pub(super) fn inline_hops(to: NextHop<'_>) -> Vec<(Hop, u16)> {
    match to {
        NextHop::Path(hop) => vec![(hop, 1)],
        NextHop::Multipath(all) => all.paths().take(INLINE_HOPS_MAX).collect(),
        NextHop::None | NextHop::Blackhole | NextHop::Group(_) => Vec::new(),
    }
}

/// Returns the paths that these next hops give to routes.
pub(super) fn inline_paths<A: Addressed>(hops: &[(Hop, u16)], links: &Links) -> Vec<Path<A::Addr>> {
    of_several(hops.iter().filter_map(|(hop, weight)| path::<A>(*hop, *weight, links)).collect())
}

/// Returns the paths of a set: those that send packets, as many as a set can have, or else a single
/// one that drops them.
pub(super) fn of_several<G>(mut paths: Vec<Path<G>>) -> Vec<Path<G>> {
    if paths.len() > 1 {
        let sends = |path: &Path<G>| path.via.iface().is_some();
        if paths.iter().any(sends) {
            paths.retain(sends);
        }
        let most = if paths.iter().any(sends) { PATHS_MAX } else { 1 };
        paths.truncate(most);
    }
    if let [only] = paths.as_mut_slice() {
        only.weight = 1; // so that equal targets are equal
    }
    paths
}
