//! What routers advertise to a host: default routers, prefixes on the link, addresses of its own (RFC 4861 6.3, RFC 4862 5.5).
//!
//! ```text
//! accept_rtadv   solicit, again with growing pauses      a router answers                 its lifetimes end
//!   (nothing) -> (waits) --------------------> default route, prefixes, addresses -----------> (waits)
//! ```
//! An iface believes routers when it was told to, and while the host does not forward. A stranger on the link can play the router
//! (RFC 6104); how much he can say is bounded: [`ROUTERS_MAX`], [`PREFIXES_MAX`], an address for each prefix, no less than 1280 bytes of
//! MTU, no end within two hours for an address that was to live longer (RFC 4862 5.5.3 e). Of several default routers the most preferred one
//! (RFC 4191) that answers is used, and stays while it does. A default route that was set by hand stays, too.
//!
//! Hop limits and timers that routers advertise are not taken over: a forged hop limit cuts a host off (CVE-2015-2922), and the knobs have
//! values that do.

use crate::Stack;
use crate::fib6::{Prefix6, Via6};
use crate::iface::{Iface, IfaceId, IfaceKind};
use crate::ip6::addr::{AddrState, IfaceAddr6, Origin, Refused6};
use clock::{Duration, Instant};
use lock::{Cx, Locks};
use stats::DropReason;
use std::cmp::Reverse;
use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;
use wire::icmp6::nd::{Opt, Options, Preference, PrefixInfo};
use wire::{Mac, ip6};

/// Default routers of an iface at most.
pub const ROUTERS_MAX: usize = 16;
/// Prefixes on the link of an iface, and prefixes of its addresses, at most.
pub const PREFIXES_MAX: usize = 16;
/// Bits of the part of an address that the host chooses (RFC 7136, RFC 4291 2.5.1).
const IDENTIFIER_BITS: u8 = 64;
/// Addresses of one prefix that are tried when others have them (RFC 7217 6, IDGEN_RETRIES).
const TRIES_MAX: u8 = 3;
/// What no advertisement shortens an address's rest below (RFC 4862 5.5.3 e).
const TWO_HOURS: Duration = Duration::from_secs(7200);
/// The first solicitation goes out within this time (RFC 4861 10, MAX_RTR_SOLICITATION_DELAY).
const FIRST_WITHIN: Duration = Duration::from_secs(1);
/// Pause after the first solicitation (RTR_SOLICITATION_INTERVAL), which doubles up to [`LONGEST_PAUSE`] (RFC 7559 2).
const FIRST_PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// Solicitations without an answer after which programs wait no longer for a router.
const AWAITED_SOLICITS: u32 = 2;
/// What the stack's secret is used for.
const IDENTIFIER: u64 = 0x7372_3732;

/// A default router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefaultRouter {
    /// Its link-local address.
    pub addr: Ipv6Addr,
    /// How much it is preferred to others.
    pub preference: Preference,
    /// The end of its lifetime.
    pub until: Instant,
    /// It did not answer when asked for its MAC address: others are used, if there are any.
    pub is_silent: bool,
}

/// A prefix that is on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdvertisedPrefix {
    /// The prefix.
    pub prefix: Prefix6,
    /// The end of its lifetime.
    pub until: Instant,
}

/// A prefix of whose addresses this host may have one.
#[derive(Clone, Copy)]
struct Autonomous {
    prefix: Prefix6,
    preferred: u32,
    valid: u32,
}

/// What an iface has heard of routers.
#[derive(Debug)]
pub(crate) struct Autoconf {
    /// Time of the next solicitation; `None`: a router was heard.
    solicit_at: Option<Instant>,
    /// Solicitations sent since a router was heard.
    solicited: u32,
    routers: Vec<DefaultRouter>,
    prefixes: Vec<AdvertisedPrefix>,
}

impl Autoconf {
    fn new(solicit_at: Instant) -> Autoconf {
        Autoconf { solicit_at: Some(solicit_at), solicited: 0, routers: Vec::new(), prefixes: Vec::new() }
    }

    /// Prefixes on the link.
    pub(crate) fn on_link(&self) -> impl Iterator<Item = Prefix6> + '_ {
        self.prefixes.iter().map(|of| of.prefix)
    }

    /// Returns whether the first router may be heard yet.
    pub(crate) fn is_awaited(&self) -> bool {
        self.solicit_at.is_some() && self.solicited <= AWAITED_SOLICITS
    }

    /// Notes what a router says of itself; `false`: there is no place for it.
    fn heard(&mut self, router: DefaultRouter, now: Instant) -> bool {
        let known = self.routers.iter().position(|other| other.addr == router.addr);
        match known {
            Some(at) if router.until <= now => drop(self.routers.remove(at)),
            Some(at) => self.routers.iter_mut().skip(at).take(1).for_each(|of| *of = router),
            None if router.until <= now => {}
            None if self.routers.len() >= ROUTERS_MAX => return false,
            None => self.routers.push(router),
        }
        true
    }

    /// Notes a prefix on the link. Returns its route, if there is one to add or to remove, and whether there was a place.
    fn heard_prefix(&mut self, of: AdvertisedPrefix, now: Instant) -> (Change, bool) {
        let known = self.prefixes.iter().position(|other| other.prefix == of.prefix);
        match known {
            Some(at) if of.until <= now => drop(self.prefixes.remove(at)),
            Some(at) => {
                self.prefixes.iter_mut().skip(at).take(1).for_each(|other| other.until = of.until);
                return (Change::None, true);
            }
            None if of.until <= now => return (Change::None, true),
            None if self.prefixes.len() >= PREFIXES_MAX => return (Change::None, false),
            None => {
                self.prefixes.push(of);
                return (Change::Add(of.prefix), true);
            }
        }
        (Change::Remove(of.prefix), true)
    }

    /// Removes what has ended. Returns the prefixes that are on the link no more, and whether a router has gone.
    fn expire(&mut self, now: Instant) -> (Vec<Prefix6>, bool) {
        let before = self.routers.len();
        self.routers.retain(|of| of.until > now);
        let ended = self.prefixes.iter().filter(|of| of.until <= now).map(|of| of.prefix).collect();
        self.prefixes.retain(|of| of.until > now);
        (ended, self.routers.len() < before)
    }

    /// Time at which the first thing ends or is to be asked.
    fn next(&self) -> Instant {
        let ends = self.routers.iter().map(|of| of.until).chain(self.prefixes.iter().map(|of| of.until));
        ends.chain(self.solicit_at).min().unwrap_or(Instant::NEVER)
    }
}

/// What becomes of the route to a prefix.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    Add(Prefix6),
    Remove(Prefix6),
}

impl<L: Locks> Iface<L> {
    /// Returns whether it was told to believe router advertisements.
    pub fn accepts_rtadv(&self, cx: Cx) -> bool {
        self.speaks6() && self.six.lock(cx).autoconf.is_some()
    }

    /// Default routers it has heard.
    pub fn default_routers(&self, cx: Cx) -> Vec<DefaultRouter> {
        self.six.lock(cx).autoconf.as_ref().map_or(Vec::new(), |autoconf| autoconf.routers.clone())
    }

    /// Prefixes that routers said are on its link.
    pub fn advertised_prefixes(&self, cx: Cx) -> Vec<AdvertisedPrefix> {
        self.six.lock(cx).autoconf.as_ref().map_or(Vec::new(), |autoconf| autoconf.prefixes.clone())
    }
}

impl<L: Locks> Stack<L> {
    /// Lets an iface take addresses and default routers from router advertisements, or forget what it took. On an iface that is no
    /// Ethernet it changes nothing.
    ///
    /// # Errors
    /// [`Refused6`] as [`Stack::add_link_local`]; nothing has changed then.
    pub fn set_accept_rtadv(&self, cx: Cx, id: IfaceId, accept: bool) -> Result<(), Refused6> {
        let Some(iface) = self.ifaces.get(id).filter(|iface| iface.kind == IfaceKind::Ethernet) else { return Ok(()) };
        if accept == iface.accepts_rtadv(cx) {
            return Ok(());
        }
        if accept {
            self.add_link_local(cx, id)?;
            iface.six.lock(cx).autoconf = Some(Autoconf::new(Instant::NEVER));
            self.solicit_again(cx, iface);
        } else {
            self.forget_routers(cx, iface);
        }
        Ok(())
    }

    /// Forgets all that routers said on an iface, which believes them no more.
    pub(crate) fn forget_routers(&self, cx: Cx, iface: &Iface<L>) {
        let Some(autoconf) = iface.six.lock(cx).autoconf.take() else { return };
        iface.advertised_mtu.store(u32::MAX, Ordering::Relaxed);
        for own in iface.addrs6(cx).into_iter().filter(|own| own.origin != Origin::Manual) {
            self.remove_addr6(cx, iface.id, own.addr);
        }
        self.withdraw6(cx, iface, autoconf.on_link().map(|prefix| (prefix, Via6::Link(iface.id))).collect());
        self.choose_router(cx);
    }

    /// Asks for routers anew, after a moment that is drawn (RFC 4861 6.3.7).
    pub(crate) fn solicit_again(&self, cx: Cx, iface: &Iface<L>) {
        let within = FIRST_WITHIN.as_nanos() as u64;
        let wait = self.secret.hash2(cx.now.nanos(), u64::from(iface.id.0) << 32 | IDENTIFIER) % within;
        let at = cx.now.after(Duration::from_nanos(wait));
        if let Some(autoconf) = &mut iface.six.lock(cx).autoconf {
            (autoconf.solicit_at, autoconf.solicited) = (Some(at), 0);
            self.six.due_at(at);
        }
    }

    /// Takes a router advertisement, from a neighbor and well-formed (RFC 4861 6.1.2).
    pub(crate) fn router_advertised(
        &self,
        cx: Cx,
        iface: &Iface<L>,
        router: DefaultRouter,
        options: Options<'_>,
    ) -> DropReason {
        let mut kept = true;
        let mut autonomous = Vec::new();
        let mut changes = Vec::new();
        {
            let mut six = iface.six.lock(cx);
            let Some(autoconf) = six.autoconf.as_mut().filter(|_| !self.knobs.forwarding6.on()) else {
                self.count(cx).nd.ignored.bump();
                return DropReason::NdIgnored;
            };
            kept &= autoconf.heard(router, cx.now);
            if router.until > cx.now && kept {
                autoconf.solicit_at = None;
            }
            for option in options {
                let Opt::Prefix(PrefixInfo { len, on_link, autonomous: is_autonomous, valid, preferred, prefix }) =
                    option
                else {
                    continue;
                };
                // What is of the link anyway, of no host, or cannot be: RFC 4861 6.3.4, RFC 4862 5.5.3 b and c.
                if len > 128 || ip6::is_link_local(prefix) || prefix.is_multicast() || preferred > valid {
                    continue;
                }
                let prefix = Prefix6::masked(prefix, len);
                if on_link {
                    let of = AdvertisedPrefix { prefix, until: end_of(valid, cx.now) };
                    let (change, had_place) = autoconf.heard_prefix(of, cx.now);
                    changes.push(change);
                    kept &= had_place;
                }
                if is_autonomous && len == 128 - IDENTIFIER_BITS {
                    autonomous.push(Autonomous { prefix, preferred, valid });
                }
            }
            self.six.due_at(autoconf.next());
        }
        self.count(cx).nd.router_adverts_received.bump();
        let mtu = options.mtu().filter(|mtu| (1280..=iface.mtu() as u32).contains(mtu));
        if let Some(mtu) = mtu {
            iface.advertised_mtu.store(mtu, Ordering::Relaxed);
        }
        for change in changes {
            let via = Via6::Link(iface.id);
            match change {
                Change::None => {}
                Change::Remove(prefix) => self.withdraw6(cx, iface, vec![(prefix, via)]),
                Change::Add(prefix) if self.route6_at(cx, prefix).is_some() => {}
                Change::Add(prefix) => kept &= self.add_route6(cx, prefix, via).is_ok(),
            }
        }
        for of in autonomous {
            kept &= self.advertised_address(cx, iface, of);
        }
        self.choose_router(cx);
        self.changed();
        self.count(cx).nd.not_kept.add(u64::from(!kept));
        DropReason::NdConsumed
    }

    /// Makes an address of a prefix, or gives the one that there is a new lifetime (RFC 4862 5.5.3 d and e); `false`: there is no place.
    fn advertised_address(&self, cx: Cx, iface: &Iface<L>, of: Autonomous) -> bool {
        let (preferred_until, valid_until) = (end_of(of.preferred, cx.now), end_of(of.valid, cx.now));
        let mut six = iface.six.lock(cx);
        let advertised = |own: &&mut IfaceAddr6| own.origin != Origin::Manual && own.prefix() == of.prefix;
        if let Some(own) = six.addrs.iter_mut().find(advertised) {
            if let Origin::Advertised { preferred_until: preferred, valid_until: valid, .. } = &mut own.origin {
                *preferred = preferred_until;
                let least = cx.now.after(TWO_HOURS);
                if valid_until > least || valid_until > *valid {
                    *valid = valid_until;
                } else if *valid > least {
                    *valid = least;
                }
                self.six.due_at((*valid).min(*preferred));
            }
            return true;
        }
        if of.valid == 0 {
            return true;
        }
        if six.addrs.iter().filter(|own| own.origin != Origin::Manual).count() >= PREFIXES_MAX {
            return false;
        }
        drop(six);
        self.six.due_at(valid_until.min(preferred_until));
        self.add_advertised(cx, iface, of.prefix, Origin::Advertised { tries: 0, preferred_until, valid_until })
    }

    fn add_advertised(&self, cx: Cx, iface: &Iface<L>, prefix: Prefix6, origin: Origin) -> bool {
        let Origin::Advertised { tries, .. } = origin else { return false };
        let addr = self.stable_address(iface, prefix, tries);
        let taken = self.ifaces.iter().any(|other| other.has_addr6(cx, addr));
        let own = IfaceAddr6 { origin, ..IfaceAddr6::new(addr, prefix.len()) };
        !taken && self.add_addr6(cx, iface.id, own).is_ok()
    }

    /// An address of a prefix that is this host's alone and another one under each prefix (RFC 7217 5), so that it does not show where else a
    /// host was. As the MAC addresses, it repeats under a seed.
    fn stable_address(&self, iface: &Iface<L>, prefix: Prefix6, tries: u8) -> Ipv6Addr {
        let network = (prefix.addr().to_bits() >> IDENTIFIER_BITS) as u64;
        let Mac([a, b, c, d, e, f]) = iface.mac;
        let hash =
            |count| self.secret.hash2(network ^ IDENTIFIER, u64::from_be_bytes([a, b, c, d, e, f, count, tries]));
        let identifier = (0..8).map(hash).find(|id| !is_reserved(*id)).unwrap_or(1);
        Ipv6Addr::from_bits(prefix.addr().to_bits() | u128::from(identifier))
    }

    /// Tries another address in place of one that somebody else has (RFC 7217 6); a manual one stays as it is.
    pub(crate) fn replace_duplicate(&self, cx: Cx, iface: &Iface<L>, own: IfaceAddr6) {
        let Origin::Advertised { tries, preferred_until, valid_until } = own.origin else { return };
        if tries < TRIES_MAX {
            self.remove_addr6(cx, iface.id, own.addr);
            let origin = Origin::Advertised { tries: tries + 1, preferred_until, valid_until };
            self.add_advertised(cx, iface, own.prefix(), origin);
        }
    }

    /// Notes that a neighbor does not answer, or says that it is no router (RFC 4861 6.3.6, 7.2.5).
    pub(crate) fn router_lost(&self, cx: Cx, iface: &Iface<L>, addr: Ipv6Addr, gone: bool) {
        {
            let mut six = iface.six.lock(cx);
            let Some(autoconf) = &mut six.autoconf else { return };
            match autoconf.routers.iter_mut().find(|of| of.addr == addr) {
                None => return,
                Some(_) if gone => autoconf.routers.retain(|of| of.addr != addr),
                Some(of) => of.is_silent = true,
            }
        }
        self.choose_router(cx);
    }

    /// Lets the default route lead to the best router, unless it was set by hand.
    pub(crate) fn choose_router(&self, cx: Cx) {
        let up = self.ifaces.iter().filter(|iface| iface.is_up());
        let heard: Vec<_> = up
            .flat_map(|iface| {
                let routers = iface.default_routers(cx);
                routers.into_iter().map(|of| (of, Via6::Gateway(iface.id, of.addr)))
            })
            .collect();
        let mut default_router = self.six.default_router.lock(cx);
        let mut routes = self.six.routes.lock(cx);
        let there = routes.get(Prefix6::DEFAULT);
        if there.is_some() && there != *default_router {
            *default_router = None; // by hand
            return;
        }
        let usable = heard.into_iter().filter(|(of, _)| of.until > cx.now);
        let best = usable.min_by_key(|(of, via)| (of.is_silent, Reverse(of.preference), Some(*via) != there));
        let best = best.map(|(_, via)| via);
        if best == there {
            return;
        }
        let set = match best {
            Some(via) => routes.insert(Prefix6::DEFAULT, via).is_ok(),
            None => routes.remove(Prefix6::DEFAULT).is_some(),
        };
        *default_router = best.filter(|_| set);
        drop(routes);
        drop(default_router);
        self.rerouted();
    }

    /// Asks for routers when it is time, and ends what has ended. Returns the time at which to come again.
    pub(crate) fn poll_autoconf(&self, cx: Cx, iface: &Iface<L>) -> Instant {
        let (ended_prefixes, router_gone, solicit, own_next, ended) = {
            let six = &mut *iface.six.lock(cx);
            let certain = !six.addrs.iter().any(|own| ip6::is_link_local(own.addr) && is_tentative(own));
            let Some(autoconf) = &mut six.autoconf else { return Instant::NEVER };
            let (ended_prefixes, router_gone) = autoconf.expire(cx.now);
            if router_gone && autoconf.routers.is_empty() && autoconf.solicit_at.is_none() {
                (autoconf.solicit_at, autoconf.solicited) = (Some(cx.now), 0);
            }
            let due = autoconf.solicit_at.is_some_and(|at| at <= cx.now);
            let forwards = self.knobs.forwarding6.on();
            if due && (forwards || !certain) {
                autoconf.solicit_at = Some(cx.now.after(FIRST_WITHIN)); // from an address that is ours, a little later
            } else if due {
                autoconf.solicit_at = Some(cx.now.after(pause_after(autoconf.solicited)));
                autoconf.solicited += 1;
            }
            let next = autoconf.next();
            let lives = six.addrs.iter().filter_map(|own| match own.origin {
                Origin::Advertised { preferred_until, valid_until, .. } => {
                    Some((own.addr, preferred_until, valid_until))
                }
                Origin::Manual => None,
            });
            let lives: Vec<_> = lives.collect();
            let ends = lives.iter().flat_map(|(_, preferred, valid)| [*preferred, *valid]);
            let next = ends.filter(|end| *end > cx.now).fold(next, Instant::min);
            let ended: Vec<_> = lives.iter().filter(|(.., valid)| *valid <= cx.now).map(|(addr, ..)| *addr).collect();
            (ended_prefixes, router_gone, due && certain && !forwards, next, ended)
        };
        let changed = router_gone || !ended_prefixes.is_empty() || !ended.is_empty();
        self.withdraw6(cx, iface, ended_prefixes.into_iter().map(|prefix| (prefix, Via6::Link(iface.id))).collect());
        for addr in ended {
            self.remove_addr6(cx, iface.id, addr);
        }
        if solicit {
            self.solicit_routers(cx, iface);
        }
        if changed {
            self.choose_router(cx);
        }
        self.changed(); // an address may be deprecated now
        own_next
    }
}

fn is_tentative(own: &IfaceAddr6) -> bool {
    matches!(own.state, AddrState::Tentative(..))
}

/// The end of a lifetime in seconds, of which the largest number is without end (RFC 4861 4.6.2).
pub(crate) fn end_of(lifetime: u32, now: Instant) -> Instant {
    if lifetime == u32::MAX { Instant::NEVER } else { now.after(Duration::from_secs(u64::from(lifetime))) }
}

/// Pause after so many solicitations and one more.
fn pause_after(solicited: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << solicited.min(16)).min(LONGEST_PAUSE)
}

/// Identifiers that are no single host's (RFC 5453, and the registry it made).
fn is_reserved(identifier: u64) -> bool {
    let anycast = 0xfdff_ffff_ffff_ff80..=0xfdff_ffff_ffff_ffff;
    let ethernet_block = 0x0200_5eff_fe00_0000..=0x0200_5eff_fe00_5213;
    identifier == 0 || anycast.contains(&identifier) || ethernet_block.contains(&identifier)
}
