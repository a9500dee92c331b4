//! Routers and prefixes learned on an interface, with their lifetimes, and the schedule of router
//! solicitations.

use crate::ip6::ifaddr::{IfaceAddr6, Origin};
use clock::{Duration, Instant};
use fib::Prefix6;
use std::net::Ipv6Addr;
use wire::icmp6::nd::Preference;

/// Maximum number of default routers of an interface.
pub const ROUTERS_MAX: usize = 16;
/// Maximum number of advertised on-link prefixes of an interface. The same limit applies to
/// autoconfigured addresses.
pub const PREFIXES_MAX: usize = 16;
/// Maximum delay of the first router solicitation (RFC 4861 10, MAX_RTR_SOLICITATION_DELAY).
pub(super) const SOLICIT_DELAY: Duration = Duration::from_secs(1);
/// Interval after the first solicitation (RFC 4861 10, RTR_SOLICITATION_INTERVAL). The interval
/// doubles after each further solicitation (RFC 7559 2).
const SOLICIT_INTERVAL: Duration = Duration::from_secs(4);
/// Maximum interval between solicitations (RFC 7559 2, MRT).
const SOLICIT_INTERVAL_MAX: Duration = Duration::from_secs(3600);
/// Number of router solicitations whose answers programs wait for. Programs stop waiting for a
/// router when one more solicitation is sent.
const AWAITED_SOLICITS: u32 = 2;

/// A default router (RFC 4861 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefaultRouter {
    /// Link-local address of the router.
    pub addr: Ipv6Addr,
    /// Preference (RFC 4191).
    pub preference: Preference,
    /// Time at which the router lifetime ends.
    pub until: Instant,
    /// True if address resolution of the router failed. Reachable routers are preferred to it.
    pub is_unreachable: bool,
    /// True if the router advertises that DHCPv6 servers provide configuration other than
    /// addresses.
    pub has_other_config: bool,
}

/// An on-link prefix (RFC 4861 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdvertisedPrefix {
    /// On-link prefix.
    pub prefix: Prefix6,
    /// Time at which the valid lifetime ends.
    pub until: Instant,
}

/// Change of the FIB that a prefix option requires.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteChange {
    None,
    Add(Prefix6),
    Remove(Prefix6),
}

/// Expired entries: the on-link prefixes, the addresses, and whether a default router has expired.
pub(super) struct Expired {
    pub(super) has_router: bool,
    pub(super) prefixes: Vec<Prefix6>,
    pub(super) addrs: Vec<Ipv6Addr>,
}

/// Error: a table of [`Autoconf`] is full.
pub(super) struct TableFull;

/// Autoconfiguration state of one interface.
#[derive(Debug)]
pub(crate) struct Autoconf {
    /// Time of the next router solicitation; `None` while there is a router.
    pub(super) solicit_at: Option<Instant>,
    /// Number of router solicitations sent since soliciting was started.
    pub(super) solicits: u32,
    pub(super) routers: Vec<DefaultRouter>,
    pub(super) prefixes: Vec<AdvertisedPrefix>,
    /// True if a router advertised that DHCPv6 servers provide configuration other than addresses
    /// (RFC 4861 4.2, O flag).
    pub(super) has_other_config: bool,
}

impl Autoconf {
    pub(super) fn new() -> Autoconf {
        let (routers, prefixes) = Default::default();
        Autoconf { solicit_at: None, solicits: 0, routers, prefixes, has_other_config: false }
    }

    /// Returns the advertised on-link prefixes.
    pub(crate) fn on_link(&self) -> impl Iterator<Item = Prefix6> + '_ {
        self.prefixes.iter().map(|entry| entry.prefix)
    }

    /// Returns whether programs still wait for the first router advertisement.
    pub(crate) fn is_awaiting_router(&self) -> bool {
        self.solicit_at.is_some() && self.solicits <= AWAITED_SOLICITS
    }

    pub(super) fn start_soliciting(&mut self, at: Instant) {
        (self.solicit_at, self.solicits) = (Some(at), 0);
    }

    /// Adds or updates a default router; removes it if its lifetime has ended.
    pub(super) fn update_router(&mut self, router: DefaultRouter, now: Instant) -> Result<(), TableFull> {
        let (is_alive, is_full) = (router.until > now, self.routers.len() >= ROUTERS_MAX);
        let known = self.routers.iter_mut().find(|entry| entry.addr == router.addr);
        match known {
            Some(entry) if is_alive => *entry = router,
            Some(_) => self.routers.retain(|entry| entry.addr != router.addr),
            None if !is_alive => {}
            None if is_full => return Err(TableFull),
            None => self.routers.push(router),
        }
        if is_alive {
            self.solicit_at = None; // RFC 4861 6.3.7
        }
        Ok(())
    }

    /// Adds or updates an on-link prefix; removes it if its lifetime has ended. Returns the
    /// required change of the FIB.
    pub(super) fn update_prefix(&mut self, new: AdvertisedPrefix, now: Instant) -> Result<RouteChange, TableFull> {
        let (is_alive, is_full) = (new.until > now, self.prefixes.len() >= PREFIXES_MAX);
        let known = self.prefixes.iter_mut().find(|entry| entry.prefix == new.prefix);
        match known {
            Some(entry) if is_alive => entry.until = new.until,
            Some(_) => {
                self.prefixes.retain(|entry| entry.prefix != new.prefix);
                return Ok(RouteChange::Remove(new.prefix));
            }
            None if !is_alive => {}
            None if is_full => return Err(TableFull),
            None => {
                self.prefixes.push(new);
                return Ok(RouteChange::Add(new.prefix));
            }
        }
        Ok(RouteChange::None)
    }

    /// Removes expired routers and prefixes. Returns whether a router has expired, the expired
    /// prefixes, and the expired addresses among `addrs`. Starts to solicit if the last router has
    /// expired.
    pub(super) fn expire(&mut self, addrs: &[IfaceAddr6], now: Instant) -> Expired {
        let before = self.routers.len();
        self.routers.retain(|entry| entry.until > now);
        let has_router = self.routers.len() < before;
        if has_router && self.routers.is_empty() {
            self.start_soliciting(now);
        }
        let is_expired = |entry: &&AdvertisedPrefix| entry.until <= now;
        let prefixes = self.prefixes.iter().filter(is_expired).map(|entry| entry.prefix).collect();
        self.prefixes.retain(|entry| entry.until > now);
        let addrs = lifetimes(addrs).filter(|(_, _, valid)| *valid <= now).map(|(addr, ..)| addr).collect();
        Expired { has_router, prefixes, addrs }
    }

    /// Returns whether a router solicitation must be sent now, and schedules the next one. If
    /// `is_ready` is false, a due solicitation is postponed.
    pub(super) fn take_due_solicit(&mut self, is_ready: bool, now: Instant) -> bool {
        if self.solicit_at.is_none_or(|at| at > now) {
            return false;
        }
        if !is_ready {
            self.solicit_at = Some(now.after(SOLICIT_DELAY));
            return false;
        }
        let interval = SOLICIT_INTERVAL.saturating_mul(1 << self.solicits.min(16));
        self.solicit_at = Some(now.after(interval.min(SOLICIT_INTERVAL_MAX)));
        self.solicits += 1;
        true
    }

    /// Returns the time of the next event: a router solicitation, or the end of a lifetime.
    pub(super) fn next_event(&self, addrs: &[IfaceAddr6], now: Instant) -> Instant {
        let of_addrs = lifetimes(addrs).flat_map(|(_, preferred, valid)| [preferred, valid]);
        let of_tables =
            self.routers.iter().map(|entry| entry.until).chain(self.prefixes.iter().map(|entry| entry.until));
        let ends = of_addrs.chain(of_tables).filter(|end| *end > now);
        ends.chain(self.solicit_at).min().unwrap_or(Instant::NEVER)
    }
}

/// Returns the autoconfigured addresses among `addrs`, each with the end of its preferred lifetime
/// and the end of its valid lifetime.
pub(super) fn lifetimes(addrs: &[IfaceAddr6]) -> impl Iterator<Item = (Ipv6Addr, Instant, Instant)> {
    addrs.iter().filter_map(|own| match own.origin {
        Origin::Advertised { preferred_until, valid_until, .. } => Some((own.addr, preferred_until, valid_until)),
        Origin::Manual => None,
    })
}
