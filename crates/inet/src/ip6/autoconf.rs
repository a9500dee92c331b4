//! Stateless address autoconfiguration of a host: processes router advertisements (RFC 4861 6.3,
//! RFC 4862 5.5).
//!
//! ```text
//!  accept_rtadv                     advertisement               lifetimes end
//!      |          solicit, pauses    |    default route,          |
//!      v            up to 1 h        v    prefixes, addresses     v
//!    (off) ------> soliciting -----------------> configured -----------> soliciting
//! ```
//!
//! Advertisements are processed on interfaces that have the option `accept_rtadv`, but not while
//! the host forwards IPv6 (RFC 4861 6.2.7). Any station on the link can send them (RFC 6104), so
//! their effect is bounded. At most [`state::ROUTERS_MAX`] routers and [`PREFIXES_MAX`] prefixes
//! are accepted, with one address per prefix. The MTU must be at least 1280 bytes. A valid lifetime
//! of more than two hours is not reduced to less than two hours (RFC 4862 5.5.3 e).
//!
//! Advertised name servers and search domains are stored in [`crate::resolvers`].
//!
//! The default route leads to the most preferred router (RFC 4191) that is reachable. Among equally
//! preferred routers, the current one is kept. A configured default route is not replaced.
//!
//! Advertised hop limits and timers are ignored, since a forged hop limit disconnects a host
//! (CVE-2015-2922). Sysctls set these values instead.

pub(crate) mod state;

pub(crate) use state::Autoconf;
pub use state::{AdvertisedPrefix, DefaultRouter, PREFIXES_MAX};
use state::{RouteChange, SOLICIT_DELAY, TableFull, lifetimes};

use crate::Stack;
use crate::iface::{Iface, IfaceId, IfaceKind};
use crate::ip6::ifaddr::{AddrState, IfaceAddr6, Origin, Refused6};
use crate::resolvers::ResolverSource;
use crate::route::Via6;
use clock::{Duration, Instant};
use fib::Prefix6;
use lock::{Cx, Locks};
use stats::DropReason;
use std::cmp::Reverse;
use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;
use wire::icmp6::nd::{Opt, Options, PrefixInfo};
use wire::{Mac, dns, ip6};

/// Length of an interface identifier in bits (RFC 4291 2.5.1, RFC 7136).
const IDENTIFIER_BITS: u8 = 64;
/// Maximum number of further addresses that are tried if an address is a duplicate (RFC 7217 6,
/// IDGEN_RETRIES).
const DAD_RETRIES: u8 = 3;
/// Lower limit to which an advertisement can reduce the remaining valid lifetime of an address (RFC
/// 4862 5.5.3 e).
const TWO_HOURS: Duration = Duration::from_secs(7200);
/// Constant that is added to the input of the hashes in this module, so that they differ from other
/// hashes with the same secret.
const HASH_DOMAIN: u64 = 0x7372_3732;

/// Reason why a default router is no longer used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RouterLoss {
    /// Address resolution failed (RFC 4861 6.3.6).
    Unreachable,
    /// The router sent a neighbor advertisement without the router flag (RFC 4861 7.2.5).
    NoRouter,
}

/// An advertised prefix from which an address is created. The lifetimes are in seconds.
#[derive(Clone, Copy)]
struct AutonomousPrefix {
    prefix: Prefix6,
    preferred: u32,
    valid: u32,
}

impl<L: Locks> Iface<L> {
    /// Returns whether router advertisements are processed on this interface.
    pub fn accepts_rtadv(&self, cx: Cx) -> bool {
        self.has_ip6() && self.six.lock(cx).autoconf.is_some()
    }

    /// Returns the default routers learned on this interface.
    pub fn default_routers(&self, cx: Cx) -> Vec<DefaultRouter> {
        self.six.lock(cx).autoconf.as_ref().map_or(Vec::new(), |autoconf| autoconf.routers.clone())
    }

    /// Returns whether a router on this interface has advertised that DHCPv6 servers provide
    /// configuration other than addresses, such as name servers (O flag).
    pub fn has_other_config(&self, cx: Cx) -> bool {
        self.has_ip6() && self.six.lock(cx).autoconf.as_ref().is_some_and(|autoconf| autoconf.has_other_config)
    }

    /// Returns the on-link prefixes that routers advertised on this interface.
    pub fn advertised_prefixes(&self, cx: Cx) -> Vec<AdvertisedPrefix> {
        self.six.lock(cx).autoconf.as_ref().map_or(Vec::new(), |autoconf| autoconf.prefixes.clone())
    }
}

impl<L: Locks> Stack<L> {
    /// Returns whether a router on any interface has ever advertised that DHCPv6 servers provide
    /// configuration other than addresses. [`Iface::has_other_config`] returns this per interface.
    #[inline(always)]
    pub fn may_want_dhcp6(&self) -> bool {
        self.six.other_config.load(Ordering::Relaxed)
    }

    /// Turns the processing of router advertisements on an interface on or off. Turning it off
    /// removes everything that the advertisements configured. Has no effect on an interface that is
    /// not Ethernet.
    ///
    /// # Errors
    /// [`Refused6`] if the interface has no link-local address and none can be added. Nothing has
    /// changed then.
    pub fn set_accept_rtadv(&self, cx: Cx, id: IfaceId, accept: bool) -> Result<(), Refused6> {
        let Some(iface) = self.ifaces.get(id).filter(|iface| iface.kind == IfaceKind::Ethernet) else { return Ok(()) };
        if accept == iface.accepts_rtadv(cx) {
            return Ok(());
        }
        if accept {
            self.add_link_local(cx, id)?;
            iface.six.lock(cx).autoconf = Some(Autoconf::new());
            self.restart_soliciting(cx, iface);
        } else {
            self.stop_autoconf(cx, iface);
        }
        Ok(())
    }

    /// Removes everything that router advertisements configured on an interface, and ignores
    /// further ones.
    #[inline(never)]
    pub(crate) fn stop_autoconf(&self, cx: Cx, iface: &Iface<L>) {
        let Some(autoconf) = iface.six.lock(cx).autoconf.take() else { return };
        iface.advertised_mtu.store(u32::MAX, Ordering::Relaxed);
        for own in iface.addrs6(cx).into_iter().filter(|own| own.origin != Origin::Manual) {
            self.remove_addr6(cx, iface.id, own.addr);
        }
        self.remove_resolvers(cx, ResolverSource::Advertised(iface.id));
        self.withdraw_prefixes(cx, iface, autoconf.on_link());
        self.select_router(cx);
    }

    /// Starts to solicit routers again after a random delay (RFC 4861 6.3.7), since the interface
    /// may be attached to another link.
    pub(crate) fn restart_soliciting(&self, cx: Cx, iface: &Iface<L>) {
        let delay = self.secret.hash2(cx.now.nanos(), u64::from(iface.id.0) << 32 | HASH_DOMAIN);
        let at = cx.now.after(Duration::from_nanos(delay % SOLICIT_DELAY.as_nanos() as u64));
        if let Some(autoconf) = &mut iface.six.lock(cx).autoconf {
            autoconf.start_soliciting(at);
            self.six.due_at(at);
        }
    }

    /// Processes a router advertisement that passed the checks of RFC 4861 6.1.2. Returns the
    /// drop reason for its frame.
    pub(crate) fn accept_rtadv(
        &self,
        cx: Cx,
        iface: &Iface<L>,
        router: DefaultRouter,
        options: Options<'_>,
    ) -> DropReason {
        let mut autonomous = Vec::new();
        let mut changes = Vec::new();
        let mut has_room;
        {
            let mut six = iface.six.lock(cx);
            let Some(autoconf) = six.autoconf.as_mut().filter(|_| !self.sysctls.forwarding6.on()) else {
                self.count(cx).nd.ignored.bump();
                return DropReason::NdIgnored;
            };
            has_room = autoconf.update_router(router, cx.now).is_ok();
            autoconf.has_other_config |= router.has_other_config;
            if autoconf.has_other_config {
                self.six.other_config.store(true, Ordering::Relaxed);
            }
            for option in options {
                let Opt::Prefix(info) = option else { continue };
                if !is_usable(&info) {
                    continue;
                }
                let prefix = Prefix6::masked(info.prefix.to_bits(), info.len);
                if info.on_link {
                    let entry = AdvertisedPrefix { prefix, until: end_of(info.valid, cx.now) };
                    match autoconf.update_prefix(entry, cx.now) {
                        Ok(change) => changes.push(change),
                        Err(TableFull) => has_room = false,
                    }
                }
                if info.autonomous && info.len == 128 - IDENTIFIER_BITS {
                    autonomous.push(AutonomousPrefix { prefix, preferred: info.preferred, valid: info.valid });
                }
            }
            self.six.due_at(autoconf.next_event(&[], cx.now));
        }
        self.count(cx).nd.router_adverts_received.bump();
        if let Some(mtu) = options.mtu().filter(|mtu| (1280..=iface.mtu() as u32).contains(mtu)) {
            iface.advertised_mtu.store(mtu, Ordering::Relaxed);
        }
        self.update_resolvers(cx, iface.id, options);
        for change in changes {
            match change {
                RouteChange::None => {}
                RouteChange::Remove(prefix) => self.withdraw_prefixes(cx, iface, [prefix]),
                RouteChange::Add(prefix) if self.route6_at(cx, prefix).is_some() => {}
                RouteChange::Add(prefix) => has_room &= self.add_route6(cx, prefix, Via6::Link(iface.id)).is_ok(),
            }
        }
        for prefix in autonomous {
            has_room &= self.configure_address(cx, iface, prefix).is_ok();
        }
        self.select_router(cx);
        self.changed();
        self.count(cx).nd.table_full.add(u64::from(!has_room));
        DropReason::NdConsumed
    }

    /// Stores advertised name servers and search domains (RFC 8106 5.3.1).
    fn update_resolvers(&self, cx: Cx, id: IfaceId, options: Options<'_>) {
        let source = ResolverSource::Advertised(id);
        for option in options {
            match option {
                Opt::Rdnss { lifetime, servers } => {
                    let until = end_of(lifetime, cx.now);
                    servers.iter().for_each(|addr| self.update_name_server(cx, source, addr.into(), until));
                }
                Opt::Dnssl { lifetime, domains } => {
                    let until = end_of(lifetime, cx.now);
                    let domains = dns::names(domains);
                    domains.iter().for_each(|domain| self.update_search_domain(cx, source, domain, until));
                }
                _ => {}
            }
        }
    }

    /// Adds an address with an advertised prefix, or updates the lifetimes of an existing one (RFC
    /// 4862 5.5.3 d, e).
    fn configure_address(&self, cx: Cx, iface: &Iface<L>, new: AutonomousPrefix) -> Result<(), TableFull> {
        let (preferred_until, valid_until) = (end_of(new.preferred, cx.now), end_of(new.valid, cx.now));
        self.six.due_at(valid_until.min(preferred_until));
        let mut six = iface.six.lock(cx);
        for own in &mut six.addrs {
            let has_prefix = own.prefix() == new.prefix;
            let Origin::Advertised { preferred_until: preferred, valid_until: valid, .. } = &mut own.origin else {
                continue;
            };
            if has_prefix {
                *preferred = preferred_until;
                let least = cx.now.after(TWO_HOURS);
                if valid_until > least || valid_until > *valid {
                    *valid = valid_until;
                } else if *valid > least {
                    *valid = least;
                    self.six.due_at(least);
                }
                return Ok(());
            }
        }
        if new.valid == 0 {
            return Ok(());
        }
        if lifetimes(&six.addrs).count() >= PREFIXES_MAX {
            return Err(TableFull);
        }
        drop(six);
        self.add_advertised(cx, iface, new.prefix, Origin::Advertised { dad_counter: 0, preferred_until, valid_until })
    }

    fn add_advertised(&self, cx: Cx, iface: &Iface<L>, prefix: Prefix6, origin: Origin) -> Result<(), TableFull> {
        let Origin::Advertised { dad_counter, .. } = origin else { return Ok(()) };
        let addr = self.stable_address(iface, prefix, dad_counter);
        if self.ifaces.iter().any(|other| other.has_addr6(cx, addr)) {
            return Ok(());
        }
        let own = IfaceAddr6 { origin, ..IfaceAddr6::new(addr, prefix.len()) };
        self.add_addr6(cx, iface.id, own).map_err(|_| TableFull)
    }

    /// Returns an address with a semantically opaque interface identifier (RFC 7217 5). The
    /// identifier is a hash of the prefix, the MAC address and the number of duplicates found, with
    /// the secret of the stack as the key.
    fn stable_address(&self, iface: &Iface<L>, prefix: Prefix6, dad_counter: u8) -> Ipv6Addr {
        let network = (prefix.addr().to_bits() >> IDENTIFIER_BITS) as u64;
        let Mac([a, b, c, d, e, f]) = iface.mac;
        let hash = |n| {
            let key = u64::from_be_bytes([a, b, c, d, e, f, n, dad_counter]);
            self.secret.hash2(network ^ HASH_DOMAIN, key)
        };
        let identifier = (0..8).map(hash).find(|id| !is_reserved(*id)).unwrap_or(1);
        Ipv6Addr::from_bits(prefix.addr().to_bits() | u128::from(identifier))
    }

    /// Replaces an autoconfigured address that is a duplicate by another one (RFC 7217 6). A
    /// manually configured address is not replaced.
    pub(crate) fn replace_duplicate(&self, cx: Cx, iface: &Iface<L>, own: IfaceAddr6) {
        let Origin::Advertised { dad_counter, preferred_until, valid_until } = own.origin else { return };
        if dad_counter < DAD_RETRIES {
            self.remove_addr6(cx, iface.id, own.addr);
            let origin = Origin::Advertised { dad_counter: dad_counter + 1, preferred_until, valid_until };
            if self.add_advertised(cx, iface, own.prefix(), origin).is_err() {
                self.count(cx).nd.table_full.bump();
            }
        }
    }

    /// Updates the default routers after the neighbor `addr` has become unreachable or is no longer
    /// a router.
    pub(crate) fn router_lost(&self, cx: Cx, iface: &Iface<L>, addr: Ipv6Addr, loss: RouterLoss) {
        {
            let mut six = iface.six.lock(cx);
            let Some(autoconf) = &mut six.autoconf else { return };
            let Some(router) = autoconf.routers.iter_mut().find(|entry| entry.addr == addr) else { return };
            match loss {
                RouterLoss::Unreachable => router.is_unreachable = true,
                RouterLoss::NoRouter => autoconf.routers.retain(|entry| entry.addr != addr),
            }
        }
        self.select_router(cx);
    }

    /// Sets the default route to the best router, unless there is a configured default route.
    #[inline(never)]
    pub(crate) fn select_router(&self, cx: Cx) {
        let up = self.ifaces.iter().filter(|iface| iface.is_up());
        let routers: Vec<_> = up
            .flat_map(|iface| {
                let routers = iface.default_routers(cx);
                routers.into_iter().map(|router| (router, Via6::Gateway(iface.id, router.addr)))
            })
            .collect();
        let mut default_router = self.six.default_router.lock(cx);
        let mut routes = self.six.routes.lock(cx);
        let current = routes.get(Prefix6::DEFAULT);
        if current.is_some() && current != *default_router {
            *default_router = None; // the current default route was configured manually
            return;
        }
        let alive = routers.into_iter().filter(|(router, _)| router.until > cx.now);
        let best = alive
            .min_by_key(|(router, via)| (router.is_unreachable, Reverse(router.preference), Some(*via) != current));
        let best = best.map(|(_, via)| via);
        if best == current {
            return;
        }
        let has_changed = match best {
            Some(via) => routes.insert(Prefix6::DEFAULT, via).is_ok(),
            None => routes.remove(Prefix6::DEFAULT).is_some(),
        };
        *default_router = best.filter(|_| has_changed);
        drop(routes);
        drop(default_router);
        self.rerouted();
    }

    /// Sends a router solicitation if one is due, and removes expired routers, prefixes and
    /// addresses. Returns the time of the next event.
    pub(crate) fn poll_autoconf(&self, cx: Cx, iface: &Iface<L>) -> Instant {
        let (expired, solicits, next) = {
            let six = &mut *iface.six.lock(cx);
            let Some(autoconf) = &mut six.autoconf else { return Instant::NEVER };
            let is_link_local_tentative =
                |own: &IfaceAddr6| ip6::is_link_local(own.addr) && matches!(own.state, AddrState::Tentative(..));
            let is_ready =
                iface.is_up() && !self.sysctls.forwarding6.on() && !six.addrs.iter().any(is_link_local_tentative);
            let expired = autoconf.expire(&six.addrs, cx.now);
            let solicits = autoconf.take_due_solicit(is_ready, cx.now);
            (expired, solicits, autoconf.next_event(&six.addrs, cx.now))
        };
        let has_expired = expired.has_router || !expired.prefixes.is_empty() || !expired.addrs.is_empty();
        self.withdraw_prefixes(cx, iface, expired.prefixes);
        for addr in expired.addrs {
            self.remove_addr6(cx, iface.id, addr);
        }
        if solicits {
            self.solicit_routers(cx, iface);
        }
        if has_expired {
            self.select_router(cx);
        }
        self.changed(); // cached source addresses may be deprecated now
        next
    }

    fn withdraw_prefixes(&self, cx: Cx, iface: &Iface<L>, prefixes: impl IntoIterator<Item = Prefix6>) {
        let gone: Vec<_> = prefixes.into_iter().map(|prefix| (prefix, Via6::Link(iface.id))).collect();
        self.withdraw6(cx, &gone);
    }
}

/// Returns whether a prefix option is valid (RFC 4861 6.3.4, RFC 4862 5.5.3 b, c).
fn is_usable(info: &PrefixInfo) -> bool {
    let is_unicast = !ip6::is_link_local(info.prefix) && !info.prefix.is_multicast();
    info.len <= 128 && is_unicast && info.preferred <= info.valid
}

/// Returns the time at which a lifetime in seconds ends. `u32::MAX` means that it never ends (RFC
/// 4861 4.6.2).
fn end_of(lifetime: u32, now: Instant) -> Instant {
    if lifetime == u32::MAX { Instant::NEVER } else { now.after(Duration::from_secs(u64::from(lifetime))) }
}

/// Returns whether an interface identifier is reserved (RFC 5453 and its IANA registry).
fn is_reserved(identifier: u64) -> bool {
    let anycast = 0xfdff_ffff_ffff_ff80..=0xfdff_ffff_ffff_ffff;
    let ethernet_block = 0x0200_5eff_fe00_0000..=0x0200_5eff_fe00_5213;
    identifier == 0 || anycast.contains(&identifier) || ethernet_block.contains(&identifier)
}
