//! Router ports and other queriers, per VLAN and address family, each with an expiry time.

use super::set::PortSet;
use crate::PortNo;
use clock::{Duration, Instant};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A combination of VLAN and address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Domain {
    pub vid: u16,
    pub six: bool,
}

impl Domain {
    pub fn of(vid: u16, address: IpAddr) -> Domain {
        Domain { vid, six: address.is_ipv6() }
    }
}

/// Maximum number of router ports in all VLANs. Queriers need no limit, because there is at most
/// one per VLAN and address family.
const MOST: usize = 4096;

#[derive(Debug, Clone, Copy)]
struct Other {
    address: IpAddr,
    until: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Routers {
    ports: BTreeMap<(Domain, PortNo), Instant>,
    queriers: BTreeMap<Domain, Other>,
}

impl Routers {
    /// Adds a router port, or extends its lifetime. Returns `false` if the table is full.
    pub fn learn(&mut self, domain: Domain, port: PortNo, until: Instant) -> bool {
        let room = self.ports.len() < MOST || self.ports.contains_key(&(domain, port));
        if room {
            let there = self.ports.entry((domain, port)).or_insert(until);
            *there = until.max(*there);
        }
        room
    }

    /// Stores a querier. If there are several, the one with the lowest address is kept, because it
    /// wins the election (RFC 2236 3). A querier with the unspecified source address (a snooping
    /// switch that queries in place of a router) does not take part in the election.
    pub fn on_query(&mut self, domain: Domain, address: IpAddr, now: Instant, until: Instant) {
        let other = self.queriers.entry(domain).or_insert(Other { address, until });
        let yields = other.until <= now || other.address.is_unspecified() || address <= other.address;
        if yields && !(address.is_unspecified() && other.until > now && !other.address.is_unspecified()) {
            *other = Other { address, until };
        }
    }

    pub fn has_querier(&self, domain: Domain, now: Instant) -> bool {
        self.queriers.get(&domain).is_some_and(|other| now < other.until)
    }

    /// Returns the address of another querier; `None` if there is none, or if it has the
    /// unspecified address.
    pub fn querier(&self, domain: Domain, now: Instant) -> Option<IpAddr> {
        let other = self.queriers.get(&domain).filter(|other| now < other.until)?;
        Some(other.address).filter(|address| !address.is_unspecified())
    }

    pub fn of(&self, domain: Domain, now: Instant) -> PortSet {
        let mut ports = PortSet::default();
        let those = self.ports.range((domain, 0)..=(domain, PortNo::MAX)).filter(|(_, until)| now < **until);
        those.for_each(|((_, port), _)| ports.insert(*port));
        ports
    }

    pub fn ports(&self, now: Instant) -> impl Iterator<Item = (u16, PortNo, Duration)> {
        let alive = self.ports.iter().filter(move |(_, until)| now < **until);
        alive.map(move |((domain, port), until)| (domain.vid, *port, until.since(now)))
    }

    pub fn age(&mut self, now: Instant) {
        self.ports.retain(|_, until| now < *until);
        self.queriers.retain(|_, other| now < other.until);
    }
}
