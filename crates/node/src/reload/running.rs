//! The configuration of a host as it is now.

use super::locked;
use crate::Host;
use crate::config::{HostConfig, IfaceConfig, NeighborConfig, RouteConfig};
use crate::origin::Added;
use crate::sysctl;
use inet::fib::{Prefix, Prefix6};
use inet::iface::{Iface, IfaceAddr, IfaceKind};
use inet::ip6::{IfaceAddr6, Origin};
use inet::neigh::State;
use inet::resolvers::ResolverSource;
use inet::route::{Via, Via6};
use inet::sysctls::Sysctls;
use lock::Locks;
use std::collections::BTreeMap;
use std::fmt::Display;
use wire::ip6;

/// Configuration of a host as it is now.
#[derive(Clone, Debug)]
pub struct RunningConfig {
    /// The configuration.
    pub config: HostConfig,
    /// Routes and addresses for which a configuration has no keys, such as routes with several
    /// paths, as commands of `ip`.
    pub other: Vec<String>,
}

impl<L: Locks> Host<L> {
    /// Returns the configuration of the host as it is now: that of its start, with all later
    /// changes. It has no addresses, routes and name servers that DHCP, router advertisements or a
    /// routing engine have added.
    pub fn running_config(&self) -> RunningConfig {
        let cx = self.cx();
        let base = locked(&self.origin.base).clone();
        let mut other = Vec::new();
        let is_own = |kind| matches!(kind, IfaceKind::Loopback | IfaceKind::Mirror);
        let ifaces = self.stack.ifaces().filter(|iface| !is_own(iface.kind));
        let ifaces = ifaces.map(|iface| self.running_iface(iface)).collect();
        for loopback in self.stack.ifaces().filter(|iface| iface.kind == IfaceKind::Loopback) {
            let v4 = loopback.addrs(cx).into_iter().filter(|own| !own.addr.is_loopback());
            other.extend(v4.map(|own| format!("ip addr add {}/{} dev {}", own.addr, own.len, loopback.name)));
            let v6 = loopback.addrs6(cx).into_iter().filter(|own| !own.addr.is_loopback());
            other.extend(v6.map(|own| format!("ip addr add {}/{} dev {}", own.addr, own.len, loopback.name)));
        }
        let mut routes = self.running_routes(&base, &mut other);
        routes.extend(self.running_routes6(&base, &mut other));
        let resolvers = self.stack.resolvers(cx);
        let servers = resolvers.servers.iter().filter(|entry| entry.source == ResolverSource::Configured);
        let domains = resolvers.domains.iter().filter(|entry| entry.source == ResolverSource::Configured);
        let config = HostConfig {
            ifaces,
            routes,
            neighbors: self.running_neighbors(),
            dns: servers.map(|entry| entry.value.ip()).collect(),
            search: domains.map(|entry| entry.value.clone()).collect(),
            sysctl: self.running_sysctls(&base.sysctl),
            ..base
        };
        RunningConfig { config, other }
    }

    fn running_iface(&self, iface: &Iface<L>) -> IfaceConfig {
        let cx = self.cx();
        let added = locked(&self.origin.ifaces).iter().find(|added| added.iface == iface.id).cloned();
        let port = self.ports().into_iter().find(|port| port.iface == iface.id);
        let Added { config, mtu, is_rtadv_implied, .. } = added.unwrap_or_else(|| Added {
            iface: iface.id,
            config: IfaceConfig {
                name: Some(iface.name.clone()),
                ..IfaceConfig::on(port.as_ref().map_or("", |port| &port.spec))
            },
            mtu: iface.mtu() as u16,
            is_rtadv_implied: false,
        });
        let leased = self.dhcp().leased(iface.id);
        let is_configured = |own: &IfaceAddr| leased.as_ref().is_none_or(|leased| leased.addr != Some(own.addr));
        let addrs: Vec<_> = iface.addrs(cx).into_iter().filter(is_configured).collect();
        let peer = addrs.iter().find_map(|own| self.stack.peer(cx, iface.id, own.addr));
        // The stack keeps an address with a remote end without the prefix length of the file.
        let as_given = |own: IfaceAddr| match peer {
            None => own,
            Some(_) => config.addresses.iter().copied().find(|given| given.addr == own.addr).unwrap_or(own),
        };
        let is_given = |own: &IfaceAddr6| config.addresses6.iter().any(|given| given.addr == own.addr);
        let addrs6 = iface.addrs6(cx).into_iter().filter(|own| own.origin == Origin::Manual);
        let is_automatic = |own: &IfaceAddr6| match iface.kind {
            IfaceKind::Ethernet => own.addr == ip6::link_local(iface.mac),
            _ => ip6::is_link_local(own.addr),
        };
        let addrs6 = addrs6.filter(|own| is_given(own) || !is_automatic(own));
        let now = leased.and_then(|leased| leased.mtu).unwrap_or(iface.mtu() as u16);
        let on = iface.offload();
        let offloads = match on == config.offload(iface.capable) {
            true => (config.ip4csum, config.udp4csum, config.tso4, config.rxcsum),
            false => (on.tx_ip, Some(on.tx_l4), Some(on.tso), Some(on.rx)),
        };
        let mtu = match iface.tunnel {
            Some(_) => self.stack.tunnel_mtu(cx, iface.id),
            None if now == mtu => config.mtu,
            None => Some(now),
        };
        IfaceConfig {
            addresses: addrs.iter().copied().map(as_given).collect(),
            addresses6: addrs6.map(|own| IfaceAddr6 { peer: own.peer, ..IfaceAddr6::new(own.addr, own.len) }).collect(),
            accept_rtadv: iface.accepts_rtadv(cx) && !is_rtadv_implied,
            dhcp: self.dhcp().has_client(iface.id),
            advertise: iface.advertising(cx).is_some(),
            down: !iface.is_up(),
            mtu,
            ip4csum: offloads.0,
            udp4csum: offloads.1,
            tso4: offloads.2,
            rxcsum: offloads.3,
            tunnel: iface.tunnel,
            ends: self.stack.tunnel(cx, iface.id).unwrap_or(config.ends),
            peer,
            ..config
        }
    }

    fn running_routes(&self, base: &HostConfig, other: &mut Vec<String>) -> Vec<RouteConfig> {
        let (cx, mut out) = (self.cx(), Vec::new());
        for route in self.stack.routes(cx).into_iter().filter(|route| route.origin.is_own()) {
            let (to, via) = (route.prefix, route.via);
            let leased = via.iface().and_then(|id| self.dhcp().leased(id));
            let is_added = self.came_with_addr(to, via)
                || self.stack.is_redirect(cx, to, via)
                || leased.is_some_and(|leased| leased.routes.contains(&(to, via)));
            // A route of the configuration may be the same as one that was added in another way.
            let is_configured = |route: &RouteConfig| route.is_v4() && route.to == to && !is_host_itself(via);
            if is_added && !base.routes.iter().any(is_configured) {
                continue;
            }
            let dev = via.iface().and_then(|id| self.stack.iface(id)).map(|iface| iface.name.clone());
            match via {
                Via::Gateway(_, gateway) => {
                    out.push(RouteConfig { to, via: Some(gateway), dev, ..RouteConfig::default() });
                }
                Via::Gateway6(_, gateway) if to != Prefix::DEFAULT => {
                    out.push(RouteConfig { to, via6: Some(gateway), dev, ..RouteConfig::default() });
                }
                Via::Gateway6(_, gateway) => {
                    let dev = dev.unwrap_or_default();
                    other.push(format!("ip -4 route add default via inet6 {gateway} dev {dev}"));
                }
                Via::Link(_) => out.push(RouteConfig { to, dev, ..RouteConfig::default() }),
                _ => other.push(in_words(to, via)),
            }
        }
        out
    }

    fn running_routes6(&self, base: &HostConfig, other: &mut Vec<String>) -> Vec<RouteConfig> {
        let cx = self.cx();
        let mut out = Vec::new();
        for route in self.stack.routes6(cx).into_iter().filter(|route| route.origin.is_own()) {
            let (to, via) = (route.prefix, route.via);
            let is_added =
                self.came_with_addr6(to, via) || self.was_advertised(to, via) || self.stack.is_redirect6(cx, to, via);
            let is_configured = |route: &RouteConfig| route.destination6() == Some(to) && !is_host_itself(via);
            if is_added && !base.routes.iter().any(is_configured) {
                continue;
            }
            let dev = via.iface().and_then(|id| self.stack.iface(id)).map(|iface| iface.name.clone());
            let route =
                RouteConfig { to6: Some(to).filter(|to| *to != Prefix6::DEFAULT), dev, ..RouteConfig::default() };
            match via {
                Via6::Gateway(_, gateway) => out.push(RouteConfig { via6: Some(gateway), ..route }),
                Via6::Link(_) => out.push(RouteConfig { to6: Some(to), ..route }),
                _ => other.push(in_words(to, via)),
            }
        }
        out
    }

    /// Returns whether a router on the link has advertised the prefix or itself.
    fn was_advertised(&self, to: Prefix6, via: Via6) -> bool {
        let Some(iface) = via.iface().and_then(|id| self.stack.iface(id)) else { return false };
        match via {
            Via6::Link(_) => iface.advertised_prefixes(self.cx()).iter().any(|known| known.prefix == to),
            Via6::Gateway(_, gateway) if to == Prefix6::DEFAULT => {
                iface.default_routers(self.cx()).iter().any(|router| router.addr == gateway)
            }
            _ => false,
        }
    }

    fn running_neighbors(&self) -> Vec<NeighborConfig> {
        let cx = self.cx();
        let name = |id| self.stack.iface(id).map(|iface| iface.name.clone());
        let v4 = self.stack.neighbors(cx).into_iter().filter(|neighbor| neighbor.state == State::Permanent);
        let v4 = v4.map(|of| NeighborConfig { addr: of.addr.into(), mac: of.mac, dev: name(of.iface) });
        let v6 = self.stack.neighbors6(cx).into_iter().filter(|neighbor| neighbor.state == State::Permanent);
        let v6 = v6.map(|of| NeighborConfig { addr: of.addr.into(), mac: of.mac, dev: name(of.iface) });
        v4.chain(v6).collect()
    }

    /// Returns the sysctls that do not have their defaults, and those of the configuration.
    fn running_sysctls(&self, base: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
        let base = sysctl::canonical(base);
        let own = Sysctls::INFO.iter().filter_map(|info| Some((info, self.stack.sysctls.get(info.name)?)));
        let own = own.filter(|(info, value)| *value != info.default || base.contains_key(info.name));
        let own: Vec<_> = own.map(|(info, value)| (info.name.to_string(), value)).collect();
        base.into_iter().chain(own).collect()
    }

    /// Returns whether the stack added a route together with an address.
    pub fn came_with_addr(&self, prefix: Prefix, via: Via) -> bool {
        let is_local = matches!(via, Via::Local(_) | Via::Broadcast(_));
        let (Via::Link(id) | Via::Local(id)) = via else { return is_local };
        let addrs = self.stack.iface(id).map(|iface| iface.addrs(self.cx())).unwrap_or_default();
        let same = |addr, len| Prefix::new(addr, len) == Ok(prefix);
        let is_peer = |own: &IfaceAddr| self.stack.peer(self.cx(), id, own.addr).is_some_and(|peer| same(peer, 32));
        addrs.iter().any(|own| same(own.addr, own.len) || is_local && same(own.addr, 32) || is_peer(own))
    }

    /// Returns whether the stack added an IPv6 route together with an address.
    pub fn came_with_addr6(&self, prefix: Prefix6, via: Via6) -> bool {
        let (Via6::Link(id) | Via6::Local(id)) = via else { return false };
        let addrs = self.stack.iface(id).map(|iface| iface.addrs6(self.cx())).unwrap_or_default();
        let is_link = matches!(via, Via6::Link(_));
        addrs.iter().any(|own| {
            let on_link = own.prefix() == prefix || own.peer.map(Prefix6::host) == Some(prefix);
            Prefix6::host(own.addr) == prefix || is_link && on_link
        })
    }
}

/// Returns whether packets of a route are for this host.
fn is_host_itself<G>(via: Via<G>) -> bool {
    matches!(via, Via::Local(_) | Via::Broadcast(_))
}

/// Returns the command that adds a route which a configuration cannot contain.
fn in_words<G>(to: impl Display, via: Via<G>) -> String {
    match via {
        Via::Reject => format!("ip route add unreachable {to}"),
        Via::Prohibit => format!("ip route add prohibit {to}"),
        Via::Blackhole => format!("ip route add blackhole {to}"),
        Via::Paths(_) => format!("ip route add {to} nexthop ... (several paths)"),
        _ => format!("ip route add local {to} dev lo0"),
    }
}
