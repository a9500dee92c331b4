//! Contents of next hops as a routing engine announces them, and the paths that they give to
//! routes.

use inet::fib::Matched;
use inet::iface::IfaceId;
use inet::route::{PATHS_MAX, Path, Via};
use std::collections::HashMap;
use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::rtnetlink::{Hop, NextHop};

/// Ifaces by the index of their kernel device.
pub type Links = HashMap<u32, IfaceId>;

/// Address family of a route and its gateways.
pub(super) trait Addressed: Matched {
    /// Returns the address if it is of this family.
    fn address(addr: IpAddr) -> Option<Self::Addr>;
}

impl Addressed for u32 {
    fn address(addr: IpAddr) -> Option<Ipv4Addr> {
        if let IpAddr::V4(addr) = addr { Some(addr) } else { None }
    }
}

impl Addressed for u128 {
    fn address(addr: IpAddr) -> Option<Ipv6Addr> {
        if let IpAddr::V6(addr) = addr { Some(addr) } else { None }
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

/// Returns the path of a next hop; `None` if its device is none of this host's, or if its gateway
/// is of another family.
pub(super) fn path<A: Addressed>(hop: Hop, weight: u16, links: &Links) -> Option<Path<A::Addr>> {
    let iface = *links.get(&hop.oif)?;
    let via = match hop.gateway {
        Some(gateway) => Via::Gateway(iface, A::address(gateway)?),
        None => Via::Link(iface),
    };
    Some(Path { via, weight })
}

/// Returns the paths of a route that has its next hops itself.
pub(super) fn inline_paths<A: Addressed>(to: NextHop<'_>, links: &Links) -> Vec<Path<A::Addr>> {
    match to {
        NextHop::Path(hop) => path::<A>(hop, 1, links).into_iter().collect(),
        NextHop::Multipath(all) => {
            of_several(all.paths().filter_map(|(hop, weight)| path::<A>(hop, weight, links)).collect())
        }
        NextHop::None | NextHop::Blackhole | NextHop::Group(_) => Vec::new(),
    }
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
