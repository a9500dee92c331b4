//! Tunnels: interfaces that send through other networks. gif carries IPv4 and IPv6 packets in IPv4
//! or IPv6 packets (RFC 2003, RFC 4213, RFC 2473). GRE does the same, with a GRE header between the
//! IP headers (RFC 2784, RFC 2890, RFC 7676). EtherIP (RFC 3378) and VXLAN (RFC 7348) carry
//! Ethernet frames and therefore use ARP and neighbor discovery.
//!
//! ```text
//!  out  a packet to a gif or GRE iface (no neighbor lookup), or a frame to any other (no port):
//!       tunnel::output    prepends headers in place, calls ip4 or ip6::output; limits nesting
//!  in   a packet for this host from ip4 or ip6 (or from udp, if it has no socket):
//!       tunnel::input     finds the tunnel by addresses and key, applies ECN, pulls headers
//!       tunnel::requeue   queues the packet with its iface (never processed directly)
//!       Stack::poll       passes it to link::ether | ip4 | ip6, as if it came from a port
//!  ICMP error about a packet of a tunnel: tunnel::relay reports to the inner sender (RFC 2003 4)
//! ```
//! A packet is decapsulated only if it belongs to a configured tunnel and comes from the remote
//! address of that tunnel. An inner IPv6 packet also requires that the interface has an IPv6
//! address. Instead of the encapsulation limit in each packet (RFC 2473 4.1.1), the local sysctl
//! `net.link.gif.max_nesting` limits the nesting. A tunnel cannot be a bridge member.

mod config;
mod ecn;
mod input;
mod output;
mod quote;
mod relay;
mod requeue;
mod table;
mod trouble;

pub use config::{Config, DontFragment, Kind, Unchecked};
pub(crate) use requeue::Requeue;
pub(crate) use table::Tunnels;

use crate::Stack;
use crate::family::Family;
use crate::iface::{IfaceAddr, IfaceId, IfaceKind, Offload};
use crate::ip::exit::{Exit, Target};
use crate::ip4::pmtu::{self, LARGEST};
use crate::route::{RouteError, Via};
use clock::Instant;
use fib::Prefix;
use lock::{Cx, Locks};
use std::net::{IpAddr, Ipv4Addr};
use table::{OuterRoute, Tunnel};
use wire::{Mac, ip6, vxlan};

/// Reason for which a tunnel configuration was rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The interface is not a tunnel, or it is a tunnel of another kind.
    NotATunnel,
    /// An outer address is not a unicast address, or is valid only on a single link.
    BadEnd(IpAddr),
    /// One outer address is IPv4 and the other IPv6.
    BadFamily,
    /// The VNI has more than 24 bits.
    BadVni,
    /// This interface has the same outer addresses and the same key or VNI, so received packets
    /// would be ambiguous.
    Taken(IfaceId),
}

/// Minimum MTU of a tunnel in bytes: every IPv4 link can carry 68 bytes (RFC 791 3.2).
const MTU_MIN: usize = 68;
/// Path MTU in bytes that is assumed for a tunnel without a route: the MTU of Ethernet.
const USUAL_PATH: usize = 1500;
/// Path MTU in bytes if the remote address is this host itself: the MTU of `lo0`.
const LOOPBACK_PATH: usize = 16_384;

impl<L: Locks> Stack<L> {
    /// Adds a tunnel interface, which is up and has no addresses. Returns `None` if there are
    /// already [`crate::iface::IFACES_MAX`] interfaces. Tunnels that carry Ethernet frames use
    /// `mac` as their MAC address. If an interface of this name was removed before, it is restored
    /// with its number.
    pub fn add_tunnel(&self, cx: Cx, name: &str, kind: Kind, mac: Mac) -> Option<IfaceId> {
        let link = if kind.is_ethernet() { IfaceKind::Ethernet } else { IfaceKind::Tunnel };
        let mac = if kind.is_ethernet() { mac } else { Mac::ZERO };
        let mtu = (USUAL_PATH - Config::new(kind).overhead()) as u16;
        let id = match self.ifaces.bring_back(name, mac, |iface| iface.tunnel == Some(kind)) {
            Some(iface) => iface.id,
            None => self.ifaces.add(|id| {
                let iface = crate::iface::Iface::new(id, name, link, mac, mtu, Offload::default());
                iface.tunnelling(kind)
            })?,
        };
        self.tunnels.lock(cx).set(id, Config::new(kind));
        self.size_tunnel(cx, id);
        Some(id)
    }

    /// Returns the configuration of tunnel `id`; `None` if it is not a tunnel.
    pub fn tunnel(&self, cx: Cx, id: IfaceId) -> Option<Config> {
        self.tunnels.lock(cx).get(id).map(|tunnel| tunnel.config)
    }

    /// Sets the configuration of a tunnel. Its MTU is derived from the path, unless the MTU was set
    /// explicitly.
    ///
    /// # Errors
    ///
    /// [`Refused`]; the configuration is then unchanged.
    pub fn set_tunnel(&self, cx: Cx, id: IfaceId, config: Config) -> Result<(), Refused> {
        let iface = self.ifaces.get(id).filter(|iface| iface.tunnel == Some(config.kind)).ok_or(Refused::NotATunnel)?;
        if let Some(&bad) = [config.local, config.remote].iter().find(|addr| !is_end(addr)) {
            return Err(Refused::BadEnd(bad));
        }
        if config.is_whole() && config.local.is_ipv6() != config.remote.is_ipv6() {
            return Err(Refused::BadFamily);
        }
        if config.vni > vxlan::VNI_MAX {
            return Err(Refused::BadVni);
        }
        let mut tunnels = self.tunnels.lock(cx);
        if let Some(other) = tunnels.rival(id, &config) {
            return Err(Refused::Taken(other));
        }
        tunnels.set(id, config);
        drop(tunnels);
        self.size_tunnel(cx, id);
        if iface.kind == IfaceKind::Ethernet {
            self.announce_all(cx, id);
        }
        Ok(())
    }

    /// Sets a tunnel's MTU explicitly, so that it is no longer derived from the path.
    pub fn set_tunnel_mtu(&self, cx: Cx, id: IfaceId, mtu: u16) {
        if let Some(tunnel) = self.tunnels.lock(cx).get_mut(id) {
            (tunnel.fixed_mtu, tunnel.narrowed) = (Some(mtu), None);
        }
        self.size_tunnel(cx, id);
    }

    /// Returns the MTU that was set explicitly for a tunnel; `None` if it is derived from the path.
    pub fn tunnel_mtu(&self, cx: Cx, id: IfaceId) -> Option<u16> {
        self.tunnels.lock(cx).get(id).and_then(|tunnel| tunnel.fixed_mtu)
    }

    /// Sets a tunnel's MTU to the explicit value if there is one. Otherwise derives it from the
    /// path (RFC 2003 5.1).
    #[inline(never)]
    fn size_tunnel(&self, cx: Cx, id: IfaceId) {
        let Some((config, fixed)) = self.tunnels.lock(cx).get(id).map(|tunnel| (tunnel.config, tunnel.fixed_mtu))
        else {
            return;
        };
        let path =
            self.tunnel_route(cx, config.remote).filter(|way| way.iface != id).map_or(USUAL_PATH, |way| way.path);
        let mtu = fixed.map_or(path.saturating_sub(config.overhead()), usize::from).max(MTU_MIN);
        if let Some(iface) = self.ifaces.get(id) {
            iface.set_mtu(mtu.min(LARGEST - config.overhead()) as u16);
            self.changed();
        }
    }

    /// Returns the route to a tunnel's remote address; `None` if there is no route.
    fn tunnel_route(&self, cx: Cx, remote: IpAddr) -> Option<OuterRoute> {
        match remote {
            IpAddr::V4(remote) => self.route_to_end::<u32>(cx, remote.to_bits()),
            IpAddr::V6(remote) => self.route_to_end::<u128>(cx, remote.to_bits()),
        }
    }

    fn route_to_end<F: Family>(&self, cx: Cx, remote: F) -> Option<OuterRoute> {
        let epoch = self.epoch(); // read before the lookups, so that a concurrent change makes the result stale
        let exit: Exit<F::Addr> = F::exit(self, cx, remote, None).ok()?;
        let link = F::mtu(self.ifaces.get(exit.iface)?);
        let (path, station) = match exit.to {
            Target::Here => (LOOPBACK_PATH, None),
            Target::Station(mac) => (link, Some(mac)),
            Target::Neighbor(_) | Target::Neighbor6(_) => {
                (link.min(F::path_mtu(self, cx, remote)), self.neighbor_at::<F>(cx, &exit))
            }
        };
        Some(OuterRoute { epoch, iface: exit.iface, path, station })
    }

    /// Lowers a tunnel's MTU for ten minutes after a router has reported a smaller path MTU.
    fn narrow_tunnel(&self, cx: Cx, id: IfaceId, mtu: usize) {
        let (Some(iface), mtu) = (self.ifaces.get(id), mtu.max(MTU_MIN)) else { return };
        if mtu < iface.mtu() {
            iface.set_mtu(mtu as u16);
            self.tunnels.lock(cx).narrowed(id, cx.now.after(pmtu::AGE));
            self.count(cx).tunnel.narrowed.bump();
            self.changed();
        }
    }

    /// Restores the MTUs that were lowered ten minutes ago. Returns the time at which the next MTU
    /// must be restored.
    pub(crate) fn poll_tunnels(&self, cx: Cx) -> Instant {
        let mut tunnels = self.tunnels.lock(cx);
        let next = tunnels.next_deadline();
        if cx.now < next {
            return next; // the usual case
        }
        let due = tunnels.take_due(cx.now);
        drop(tunnels);
        due.into_iter().for_each(|id| self.size_tunnel(cx, id));
        self.tunnels.lock(cx).next_deadline()
    }

    /// Adds a point-to-point address to a tunnel: `addr` is this host's address, and `peer` is the
    /// only neighbor. Also adds a route to `peer`.
    ///
    /// # Errors
    ///
    /// [`RouteError`] if the FIB is full.
    pub fn add_peer(&self, cx: Cx, id: IfaceId, addr: Ipv4Addr, peer: Ipv4Addr) -> Result<(), RouteError> {
        self.add_addr(cx, id, IfaceAddr { addr, len: 32 })?;
        if let Ok(host) = Prefix::new(peer, 32) {
            self.add_route(cx, host, Via::Link(id))?;
        }
        if let Some(tunnel) = self.tunnels.lock(cx).get_mut(id) {
            tunnel.peers.retain(|(own, _)| *own != addr);
            tunnel.peers.push((addr, peer)); // limited by the number of addresses
        }
        Ok(())
    }

    /// Returns the remote address that belongs to the point-to-point address `addr`.
    pub fn peer(&self, cx: Cx, id: IfaceId, addr: Ipv4Addr) -> Option<Ipv4Addr> {
        let tunnels = self.tunnels.lock(cx);
        tunnels.get(id)?.peers.iter().find(|(own, _)| *own == addr).map(|(_, peer)| *peer)
    }

    /// Returns this host's address on the point-to-point link whose remote address is `peer`.
    pub(crate) fn own_towards(&self, cx: Cx, id: IfaceId, peer: Ipv4Addr) -> Option<Ipv4Addr> {
        let tunnels = self.tunnels.lock(cx);
        tunnels.get(id)?.peers.iter().find(|(_, other)| *other == peer).map(|(own, _)| *own)
    }

    /// Removes the remote address that belongs to the removed point-to-point address `addr`, and
    /// the route to it.
    pub(crate) fn forget_peer(&self, cx: Cx, id: IfaceId, addr: Ipv4Addr) {
        let Some(peer) = self.peer(cx, id, addr) else { return };
        if let Some(tunnel) = self.tunnels.lock(cx).get_mut(id) {
            tunnel.peers.retain(|(own, _)| *own != addr);
        }
        if let Ok(host) = Prefix::new(peer, 32) {
            let mut routes = self.routes.lock(cx);
            if routes.get(host) == Some(Via::Link(id)) {
                routes.remove(host);
            }
        }
    }

    /// Removes a tunnel with its addresses, routes and queued packets. Returns `false` if there is
    /// no such tunnel.
    pub fn remove_tunnel(&self, cx: Cx, id: IfaceId) -> bool {
        self.iface(id).is_some_and(|iface| iface.tunnel.is_some()) && self.remove_iface(cx, id)
    }

    /// Removes an interface with its addresses and routes, and drops its queued packets. Returns
    /// `false` if the interface does not exist or is `lo0`.
    #[inline(never)]
    pub fn remove_iface(&self, cx: Cx, id: IfaceId) -> bool {
        let Some(iface) = self.iface(id).filter(|iface| iface.kind != IfaceKind::Loopback) else { return false };
        self.set_up(cx, id, false);
        for addr in iface.addrs(cx) {
            self.remove_addr(cx, id, addr.addr);
        }
        self.stop_autoconf(cx, iface);
        iface.six.lock(cx).advertiser = None;
        for addr in iface.addrs6(cx) {
            self.remove_addr6(cx, id, addr.addr);
        }
        self.routes.lock(cx).forget_iface(id);
        self.six.routes.lock(cx).forget_iface(id);
        self.tunnels.lock(cx).remove(id);
        self.set_output(cx, id, None);
        self.separate(iface);
        iface.set_gone(true);
        self.changed();
        true
    }
}

/// Returns whether `addr` may be an outer address of a tunnel. An unspecified address is allowed
/// and means that the address is not set. A link-local address is not allowed, since its link would
/// be unknown.
fn is_end(addr: &IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => {
            addr.is_unspecified() || !(addr.is_multicast() || addr.octets()[0] == 0 || addr.octets()[0] >= 240)
        }
        IpAddr::V6(addr) => !(addr.is_multicast() || ip6::is_link_local(*addr) || ip6::is_v4_mapped(*addr)),
    }
}

impl Tunnel {
    fn new(iface: IfaceId, config: Config) -> Tunnel {
        let (sent, expected) = (0, None);
        Tunnel { iface, config, fixed_mtu: None, narrowed: None, sent, expected, way: None, peers: Vec::new() }
    }
}
