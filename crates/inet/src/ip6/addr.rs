//! IPv6 addresses of an interface: their origin, duplicate address detection (RFC 4862 5.4), and
//! their multicast groups.
//!
//! ```text
//!            added          dad_count solicitations, no answer       used by another station
//!  (nothing) -----> Tentative --------------------------------> Valid   Tentative ----> Duplicated
//! ```
//! IPv6 is enabled on an interface with its first address. The interface then also gets a
//! link-local address, which is derived from its MAC address (RFC 2464 5) or, on a tunnel, random.
//! Other addresses are configured, or created from an advertised prefix ([`super::autoconf`]).

use crate::Stack;
use crate::iface::{Iface, IfaceId, IfaceKind};
use crate::ip6::autoconf::Autoconf;
use crate::ip6::ifaddr::{ADDRS_MAX, AddrState, IfaceAddr6, Refused6};
use crate::route::{RouteError, Routes, Via6};
use clock::{Duration, Instant};
use fib::Prefix6;
use lock::{Cx, Locks};
use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;
use wire::ip6;

/// Interval between two neighbor solicitations for the same address (RFC 4861 10, RETRANS_TIMER).
pub(crate) const RETRANS: Duration = Duration::from_secs(1);

impl<L: Locks> Iface<L> {
    /// Returns whether the interface has an IPv6 address.
    pub fn has_ip6(&self) -> bool {
        self.speaks6.load(Ordering::Relaxed)
    }

    /// Returns the IPv6 addresses.
    pub fn addrs6(&self, cx: Cx) -> Vec<IfaceAddr6> {
        if self.has_ip6() { self.six.lock(cx).addrs.clone() } else { Vec::new() }
    }

    pub(crate) fn has_addr6(&self, cx: Cx, addr: Ipv6Addr) -> bool {
        self.addr6(cx, addr).is_some()
    }

    pub(crate) fn addr6(&self, cx: Cx, addr: Ipv6Addr) -> Option<IfaceAddr6> {
        if !self.has_ip6() {
            return None;
        }
        self.six.lock(cx).addrs.iter().find(|own| own.addr == addr).copied()
    }

    /// Returns the valid addresses.
    pub(crate) fn valid6(&self, cx: Cx) -> Vec<Ipv6Addr> {
        self.addrs6(cx).into_iter().filter(|own| own.state.is_valid()).map(|own| own.addr).collect()
    }

    /// Returns the link-local address; `None` if there is none or it is not valid.
    pub(crate) fn link_local6(&self, cx: Cx) -> Option<Ipv6Addr> {
        self.valid6(cx).into_iter().find(|addr| ip6::is_link_local(*addr))
    }

    /// Returns our address on the point-to-point link to `peer`; `None` if `peer` is not a remote
    /// address of this interface.
    pub(crate) fn own_towards6(&self, cx: Cx, peer: Ipv6Addr) -> Option<Ipv6Addr> {
        if !self.has_ip6() {
            return None;
        }
        let six = self.six.lock(cx);
        six.addrs.iter().find(|own| own.peer == Some(peer)).map(|own| own.addr)
    }

    /// Returns whether `addr` is on this link.
    pub(crate) fn on_link6(&self, cx: Cx, addr: Ipv6Addr) -> bool {
        if ip6::is_link_local(addr) {
            return true;
        }
        let six = self.six.lock(cx);
        let manual = six.addrs.iter().filter_map(|own| own.on_link());
        let advertised = six.autoconf.iter().flat_map(Autoconf::on_link);
        manual.chain(advertised).any(|prefix| prefix.contains(addr))
    }

    /// Returns the size of the largest IPv6 packet in bytes: the MTU of the interface, or the MTU
    /// from a router advertisement if that is smaller. A tunnel with a smaller MTU still accepts
    /// 1280 bytes and fragments the outer packet (RFC 2473 7.1, RFC 4213 3.2.1).
    pub fn mtu6(&self) -> usize {
        let mtu = self.mtu().min(self.advertised_mtu.load(Ordering::Relaxed) as usize);
        if self.kind == IfaceKind::Tunnel { mtu.max(1280) } else { mtu }
    }
}

impl<L: Locks> Stack<L> {
    /// Adds an address with its routes and starts duplicate address detection. Also adds a
    /// link-local address if the interface has none.
    ///
    /// # Errors
    /// [`Refused6`] if the address was not added. If there is no interface `id`, the call has no
    /// effect.
    #[inline(never)]
    pub fn add_addr6(&self, cx: Cx, id: IfaceId, addr: IfaceAddr6) -> Result<(), Refused6> {
        let Some(iface) = self.ifaces.get(id) else { return Ok(()) };
        let bad = addr.addr.is_multicast()
            || addr.addr.is_unspecified()
            || ip6::is_v4_mapped(addr.addr)
            || addr.addr.is_loopback() && iface.kind != IfaceKind::Loopback
            || addr.peer.is_some_and(|peer| peer.is_multicast() || peer.is_unspecified() || peer == addr.addr);
        if bad || iface.kind == IfaceKind::Mirror {
            return Err(Refused6::NotAHost);
        }
        if iface.kind == IfaceKind::Ethernet && iface.mtu() < 1280 {
            return Err(Refused6::MtuTooSmall);
        }
        self.remove_addr6(cx, id, addr.addr); // the existing address may have another prefix
        let own = own_routes6(iface, &addr);
        let has_room = || self.six.routes.lock(cx).len() + own.len() <= super::ROUTES_MAX;
        if iface.addrs6(cx).len() >= ADDRS_MAX || !has_room() {
            return Err(Refused6::NoRoom);
        }
        let requested = iface.kind == IfaceKind::Ethernet && self.sysctls.dad_count.get() > 0;
        let state = if requested {
            AddrState::Tentative(cx.now, self.sysctls.dad_count.get() as u32)
        } else {
            AddrState::Valid
        };
        self.six.own.add(addr.addr.to_bits());
        // The address is added before its routes. If the routes were added first, the address would
        // briefly be treated as one that only a local route covers, and thus as valid without
        // duplicate address detection.
        let mut six = iface.six.lock(cx);
        iface.unsure6.store(true, Ordering::Release); // until `poll_iface6` has run
        six.addrs.push(IfaceAddr6 { state, ..addr });
        drop(six);
        iface.speaks6.store(true, Ordering::Relaxed);
        self.six.on.store(true, Ordering::Relaxed);
        let inserted = insert_all(&mut self.six.routes.lock(cx), &own);
        if inserted.is_err() {
            self.remove_addr6(cx, id, addr.addr);
            return Err(Refused6::NoRoom);
        }
        self.changed();
        self.listen6(cx, iface, addr.addr);
        self.poll_iface6(cx, iface);
        self.add_link_local(cx, id)
    }

    /// Adds a link-local address to an interface, unless it has one. This enables IPv6 on the
    /// interface.
    ///
    /// # Errors
    /// [`Refused6`] if the address was not added.
    #[inline(never)]
    pub fn add_link_local(&self, cx: Cx, id: IfaceId) -> Result<(), Refused6> {
        let has_near = |iface: &&Iface<L>| !matches!(iface.kind, IfaceKind::Loopback | IfaceKind::Mirror);
        let Some(iface) = self.ifaces.get(id).filter(has_near) else { return Ok(()) };
        if iface.addrs6(cx).iter().any(|own| ip6::is_link_local(own.addr)) {
            return Ok(());
        }
        let addr = match iface.kind {
            IfaceKind::Ethernet => ip6::link_local(iface.mac),
            // An interface without a MAC address gets a random identifier, with the universal bit
            // clear (RFC 4291 2.5.1).
            _ => {
                let drawn = self.secret.hash2(u64::from(id.0), LINK_LOCAL) & !(2 << 56);
                Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(drawn | 1))
            }
        };
        self.add_addr6(cx, id, IfaceAddr6::new(addr, 64))
    }

    /// Removes an address and its routes. Returns `false` if the interface does not have the
    /// address.
    #[inline(never)]
    pub fn remove_addr6(&self, cx: Cx, id: IfaceId, addr: Ipv6Addr) -> bool {
        let Some(iface) = self.ifaces.get(id) else { return false };
        let mut six = iface.six.lock(cx);
        let Some(at) = six.addrs.iter().position(|own| own.addr == addr) else { return false };
        let removed = six.addrs.remove(at);
        let none_left = six.addrs.is_empty();
        drop(six);
        // Until the route is removed, packets for the address are delivered as by a local route.
        self.withdraw6(cx, &own_routes6(iface, &removed));
        self.six.due_at(cx.now); // so that `poll_iface6` updates `unsure6`
        if none_left {
            iface.speaks6.store(false, Ordering::Relaxed);
        }
        self.changed();
        true
    }

    /// Removes the routes `gone` of an address or on-link prefix that was removed. If another
    /// address or on-link prefix of any interface needs a route to the same prefix, its route
    /// replaces the removed one.
    #[inline(never)]
    pub(crate) fn withdraw6(&self, cx: Cx, gone: &[(Prefix6, Via6)]) {
        let connected: Vec<_> = self.ifaces.iter().flat_map(|iface| connected_routes6(cx, iface)).collect();
        let mut routes = self.six.routes.lock(cx);
        for (prefix, via) in gone {
            if routes.get(*prefix) != Some(*via) {
                continue;
            }
            routes.remove(*prefix);
            if let Some((_, other)) = connected.iter().find(|(other, _)| other == prefix) {
                let _ = routes.insert(*prefix, *other); // there is space, since a route was removed
            }
        }
    }

    /// Returns whether the addresses of the host are still being configured: an address is
    /// tentative (RFC 4862 5.4), or an interface with autoconfiguration waits for its first router
    /// advertisement.
    pub fn has_tentative(&self, cx: Cx) -> bool {
        let is_tentative = |own: &IfaceAddr6| matches!(own.state, AddrState::Tentative(..));
        let waits = |iface: &Iface<L>| {
            let six = iface.six.lock(cx);
            six.addrs.iter().any(is_tentative) || six.autoconf.as_ref().is_some_and(Autoconf::is_awaiting_router)
        };
        self.six.is_on() && self.ifaces.iter().any(waits)
    }

    /// Restarts duplicate address detection, router solicitation and MLD reports on an interface.
    /// Called when its port has just been connected.
    pub(crate) fn announce6(&self, cx: Cx, iface: &Iface<L>) {
        if !iface.has_ip6() || iface.kind != IfaceKind::Ethernet {
            return;
        }
        let tries = self.sysctls.dad_count.get() as u32;
        if tries > 0 {
            let mut six = iface.six.lock(cx);
            iface.unsure6.store(true, Ordering::Release);
            six.addrs.iter_mut().for_each(|own| own.state = AddrState::Tentative(cx.now, tries));
        }
        self.restart_soliciting(cx, iface);
        self.mld_report_all(cx, iface);
        self.poll_iface6(cx, iface);
    }

    /// Runs the due IPv6 timers of all interfaces.
    pub(crate) fn poll_ifaces6(&self, cx: Cx) {
        if cx.now.nanos() < self.six.due.load(Ordering::Relaxed) {
            return;
        }
        self.six.due.store(Instant::NEVER.nanos(), Ordering::Relaxed);
        self.ifaces.iter().filter(|iface| iface.has_ip6()).for_each(|iface| self.poll_iface6(cx, iface));
    }

    /// Runs the due IPv6 timers of an interface: sends solicitations for tentative addresses, makes
    /// an address valid if no other station has claimed it, sends MLD reports, and runs the timers
    /// of autoconfiguration and of router advertisements.
    #[inline(never)]
    pub(crate) fn poll_iface6(&self, cx: Cx, iface: &Iface<L>) {
        let (mut ask, mut became, mut next) = (Vec::new(), false, Instant::NEVER);
        let mut six = iface.six.lock(cx);
        for own in &mut six.addrs {
            let AddrState::Tentative(due, left) = own.state else { continue };
            own.state = match left {
                _ if cx.now < due => own.state,
                0 => AddrState::Valid,
                _ => {
                    ask.push(own.addr);
                    AddrState::Tentative(cx.now.after(RETRANS), left - 1)
                }
            };
            match own.state {
                AddrState::Tentative(due, _) => next = next.min(due),
                _ => became = true,
            }
        }
        iface.unsure6.store(six.addrs.iter().any(|own| !own.state.is_valid()), Ordering::Release);
        let report = six.report_due <= cx.now;
        if report {
            six.report_due = Instant::NEVER;
        }
        next = next.min(six.report_due);
        drop(six);
        let next = next.min(self.poll_autoconf(cx, iface)).min(self.poll_advertising(cx, iface));
        self.six.due_at(next);
        ask.into_iter().for_each(|addr| self.nd_probe(cx, iface, addr));
        if became {
            self.changed();
        }
        if report || became {
            self.mld_report_all(cx, iface); // repeated now that there is a valid source address (RFC 3590 4)
        }
    }

    /// Returns whether an interface receives packets to this multicast group.
    pub(crate) fn is_member6(&self, cx: Cx, iface: &Iface<L>, group: Ipv6Addr) -> bool {
        group == ip6::ALL_NODES
            || group == ip6::ALL_ROUTERS && self.sysctls.forwarding6.on()
            || iface.addrs6(cx).iter().any(|own| ip6::solicited_node(own.addr) == group)
            || self.groups.lock(cx).is_member(iface.id, group)
    }
}

/// Constant that is added to the input of the hash for link-local addresses, so that this hash
/// differs from other hashes with the same secret.
const LINK_LOCAL: u64 = 0x6c6c_3631;

/// Returns the routes that an address needs. A link-local address needs none, since it is looked up
/// by interface.
fn own_routes6<L: Locks>(iface: &Iface<L>, addr: &IfaceAddr6) -> Vec<(Prefix6, Via6)> {
    if ip6::is_link_local(addr.addr) {
        return Vec::new();
    }
    let link = match iface.kind {
        IfaceKind::Loopback => None,
        _ => addr.on_link().filter(|prefix| prefix.len() < 128).map(|prefix| (prefix, Via6::Link(iface.id))),
    };
    let peer = addr.peer.map(|peer| (Prefix6::host(peer), Via6::Link(iface.id)));
    let own = (Prefix6::host(addr.addr), Via6::Local(iface.id));
    link.into_iter().chain(peer).chain([own]).collect()
}

/// Returns the routes that an interface's addresses and advertised on-link prefixes need.
fn connected_routes6<L: Locks>(cx: Cx, iface: &Iface<L>) -> Vec<(Prefix6, Via6)> {
    let six = iface.six.lock(cx);
    let of_addrs = six.addrs.iter().flat_map(|own| own_routes6(iface, own));
    let advertised = six.autoconf.iter().flat_map(Autoconf::on_link).map(|prefix| (prefix, Via6::Link(iface.id)));
    of_addrs.chain(advertised).collect()
}

fn insert_all(routes: &mut Routes<u128>, all: &[(Prefix6, Via6)]) -> Result<(), RouteError> {
    all.iter().try_for_each(|(prefix, via)| routes.insert(*prefix, *via).map(drop))
}
