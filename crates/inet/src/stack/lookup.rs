//! Route lookup for packets of IPv4 and IPv6: the next hop, and the path for a flow.

use super::{CHUNK, Stack};
use crate::family::Family;
use crate::iface::{Iface, IfaceId};
use crate::route::{DEAD_FOR, Hop, RouteCount, Via};
use buf::{Burst, Frame};
use fib::NextHopId;
use lock::{Cx, Locks, Pinned};
use std::net::{IpAddr, Ipv4Addr};
use wire::flow;

impl<L: Locks> Stack<L> {
    /// Returns the next hop of packets to `dst`. On a stack with one thread, the address is nearly
    /// always in the route cache, which saves 60 instructions on a host with three routes. With
    /// several threads, the cache would need a lock, which would cost more than the cache saves.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn route_lookup<F: Family>(&self, cx: Cx, pinned: &Pinned<'_>, dst: F) -> Option<Hop<F::Addr>> {
        let reader = F::routes_reader(self);
        if L::SHARED {
            return reader.lookup_within(pinned, dst);
        }
        let (epoch, mut cache) = (self.epoch(), F::route_cache(self).lock(cx));
        let place = cache.entry(dst)?;
        match *place {
            (since, before, Some(id)) if before == dst && since == epoch => reader.hop(pinned, id),
            _ => {
                let hop = reader.lookup_within(pinned, dst)?;
                *place = (epoch, dst, Some(hop.id));
                Some(hop)
            }
        }
    }

    /// Returns the next hop of this host's own packets to `dst`. With a multipath route, all
    /// packets to one destination use the same path.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn route_output<F: Family>(&self, cx: Cx, dst: F) -> Option<Hop<F::Addr>> {
        let reader = F::routes_reader(self);
        let pinned = reader.pin(cx);
        let hop = self.route_lookup(cx, &pinned, dst)?;
        match hop.via {
            Via::Paths(set) => reader.choose(&pinned, set, self.own_hash(dst), cx.now),
            _ => Some(hop),
        }
    }

    /// Returns the path for the packet's flow if `hop` is a path set, otherwise `hop` itself.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn choose_path<F: Family>(
        &self,
        cx: Cx,
        pinned: &Pinned<'_>,
        hop: Hop<F::Addr>,
        packet: &Frame,
    ) -> Option<Hop<F::Addr>> {
        let Via::Paths(set) = hop.via else { return Some(hop) };
        let hash = self.flow_hash::<F>(packet.bytes());
        match F::hop_limit(packet.bytes()).is_some_and(|left| left > 1) {
            true => F::routes_reader(self).choose(pinned, set, hash, cx.now),
            false => F::routes_reader(self).peek(pinned, set, hash, cx.now),
        }
    }

    /// Replaces path sets in `ids` with the path of each packet's flow. Returns the next hop if it
    /// is the same for all packets.
    #[inline(never)]
    pub(crate) fn choose_paths<F: Family>(
        &self,
        cx: Cx,
        pinned: &Pinned<'_>,
        packets: &Burst,
        ids: &mut [Option<NextHopId>; CHUNK],
    ) -> Option<Hop<F::Addr>> {
        let reader = F::routes_reader(self);
        for (id, packet) in ids.iter_mut().zip(packets.as_slice()) {
            if let Some(hop) = id.and_then(|id| reader.hop(pinned, id)) {
                *id = self.choose_path::<F>(cx, pinned, hop, packet).map(|hop| hop.id);
            }
        }
        let (first, rest) = ids.get(..packets.len())?.split_first()?;
        if rest.iter().all(|id| id == first) { reader.hop(pinned, (*first)?) } else { None }
    }

    /// Counts received packets by route, if `net.route.counters` is on.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn count_routes<F: Family>(&self, cx: Cx, pinned: &Pinned<'_>, packets: &[Frame], dst: &[F]) {
        if self.sysctls.route_counters.on() {
            self.count_each_route(cx, pinned, packets, dst);
        }
    }

    #[inline(never)]
    fn count_each_route<F: Family>(&self, cx: Cx, pinned: &Pinned<'_>, packets: &[Frame], dst: &[F]) {
        let (reader, mut counts) = (F::routes_reader(self), self.route_counts.lock(cx));
        for (packet, dst) in packets.iter().zip(dst).filter(|(_, dst)| !dst.is_multicast()) {
            reader.prefix_for(pinned, *dst).into_iter().for_each(|prefix| counts.add(prefix, packet.len()));
        }
    }

    /// Counts a received packet of `len` bytes by route.
    #[inline(never)]
    pub(crate) fn count_route<F: Family>(&self, cx: Cx, dst: F, len: usize) {
        let reader = F::routes_reader(self);
        if let Some(prefix) = reader.prefix_for(&reader.pin(cx), dst).filter(|_| !dst.is_multicast()) {
            self.route_counts.lock(cx).add(prefix, len);
        }
    }

    /// Returns the numbers of received packets and bytes to destinations of the route to exactly
    /// `prefix`, counted while `net.route.counters` was on.
    pub fn route_count<F: fib::Matched>(&self, cx: Cx, prefix: fib::IpPrefix<F>) -> RouteCount {
        self.route_counts.lock(cx).get(prefix)
    }

    /// Returns the hash of a packet's flow: addresses, protocol, and the L4 ports if present. Only
    /// the first fragment contains ports, but all fragments must use the same path. For fragments,
    /// the hash therefore includes only the addresses.
    pub(crate) fn flow_hash<F: Family>(&self, packet: &[u8]) -> u64 {
        self.secret.hash2(F::flow(self.secret, packet).unwrap_or_default(), FLOW)
    }

    /// Returns the hash of an IPv4 flow. `ports` contains both L4 ports as in the packet, or 0 if
    /// there are none.
    pub(crate) fn flow_hash_of(&self, src: Ipv4Addr, dst: Ipv4Addr, proto: u8, ports: u64) -> u64 {
        let both = u64::from(src.to_bits()) << 32 | u64::from(dst.to_bits());
        self.secret.hash2(flow::of(self.secret, both, proto, ports), FLOW)
    }

    /// Returns the hash for this host's own packets, which depends only on the destination.
    pub(crate) fn own_hash<F: Family>(&self, dst: F) -> u64 {
        let dst = dst.to_wide();
        self.secret.hash4((dst >> 64) as u64, dst as u64, 0, OWN)
    }

    /// Marks the paths through a neighbor that did not answer as dead, so that they are avoided for
    /// a time.
    pub(crate) fn silent<F: Family>(&self, cx: Cx, iface: IfaceId, addr: F::Addr) {
        self.mark_gateway::<F>(cx, Via::Gateway(iface, addr), false);
        if let IpAddr::V6(addr) = addr.into() {
            self.mark_gateway::<u32>(cx, Via::Gateway6(iface, addr), false);
        }
    }

    /// Marks a gateway as alive after it answered, unless its iface or link is down or its BFD
    /// session has failed.
    pub(crate) fn answered<F: Family>(&self, cx: Cx, iface: IfaceId, addr: F::Addr) {
        if (self.ways.any_dead() || self.six.ways.any_dead()) && !self.failed.lock(cx).has((iface, addr.into())) {
            self.revived::<F>(cx, iface, addr);
        }
    }

    /// Marks a gateway as alive, unless its iface or link is down.
    pub(crate) fn revived<F: Family>(&self, cx: Cx, iface: IfaceId, addr: F::Addr) {
        self.mark_gateway::<F>(cx, Via::Gateway(iface, addr), true);
        if let IpAddr::V6(addr) = addr.into() {
            self.mark_gateway::<u32>(cx, Via::Gateway6(iface, addr), true);
        }
    }

    fn mark_gateway<F: Family>(&self, cx: Cx, gateway: Via<F::Addr>, is_alive: bool) {
        let reader = F::routes_reader(self);
        if !if is_alive { reader.any_dead() } else { reader.avoids_dead() } {
            return;
        }
        // The lock excludes a change of the link between the check and the mark.
        let mut routes = F::routes(self).lock(cx);
        if gateway.iface().is_some_and(|iface| self.has_live_link(iface)) {
            routes.mark_gateway(gateway, if is_alive { None } else { Some(cx.now.after(DEAD_FOR)) });
            drop(routes);
            self.rerouted(); // for sockets and tunnels that keep the path
        }
    }

    /// Sets whether the link of an iface is up. Routes with several paths avoid those through a
    /// link that is down.
    pub fn set_link(&self, cx: Cx, id: IfaceId, is_up: bool) {
        if let Some(iface) = self.ifaces.get(id) {
            iface.set_link(is_up);
            self.link_changed(cx, iface);
        }
    }

    /// Takes the paths through an iface out of all path sets if it or its link is down, or back in.
    pub(crate) fn link_changed(&self, cx: Cx, iface: &Iface<L>) {
        let is_alive = iface.is_up() && iface.has_link();
        self.routes.lock(cx).set_iface_alive(iface.id, is_alive);
        self.six.routes.lock(cx).set_iface_alive(iface.id, is_alive);
        self.changed();
    }

    /// Returns whether an iface and its link are up. Otherwise its paths stay dead, whatever its
    /// neighbors do.
    fn has_live_link(&self, iface: IfaceId) -> bool {
        self.ifaces.get(iface).is_some_and(|iface| iface.is_up() && iface.has_link())
    }
}

/// Constant that makes these hashes differ from other hashes with the same secret.
const FLOW: u64 = 0x666c_6f77;
const OWN: u64 = 0x006f_776e;
