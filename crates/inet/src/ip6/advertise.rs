//! A router's advertisements of itself (RFC 4861 6.2), on ifaces that were told to, while the host forwards IPv6.
//!
//! Each says for how long this is a default router, the link's MTU, our MAC address, and the prefixes that addresses set by hand put on
//! the link: of those with 64 bits hosts may make addresses (RFC 4862). One goes out at random times, and soon after a solicitation; a
//! flood of those makes no more than one in three seconds. Who stops being a router says so with a lifetime of 0.

use crate::Stack;
use crate::iface::{Iface, IfaceId, IfaceKind};
use crate::ip6::addr::{IfaceAddr6, Origin, Refused6};
use clock::{Duration, Instant};
use lock::{Cx, Locks};
use stats::DropReason;
use wire::icmp6::nd::{self, Options, PrefixInfo, RouterAdvert};
use wire::{Mac, ip6};

/// Prefixes that one advertisement has at most.
const PREFIXES_MAX: usize = 16;
/// The first three follow each other within this time (RFC 4861 10, MAX_INITIAL_RTR_ADVERT_INTERVAL).
const INITIAL: (u32, Duration) = (3, Duration::from_secs(16));
/// Least pause between two (MIN_DELAY_BETWEEN_RAS).
const LEAST_PAUSE: Duration = Duration::from_secs(3);
/// An answer to a solicitation leaves within this time (MAX_RA_DELAY_TIME).
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Time after which it is looked whether this is a router, with a link-local address that is certain.
const NOT_READY: Duration = Duration::from_secs(1);
/// What the stack's secret is used for.
const MOMENT: u64 = 0x7261_3631;

/// What a router says of itself, and how often; times in seconds, with the names of rtadvd.conf(5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advertising {
    /// For how long it is a default router (rltime); 0: it is none.
    pub lifetime: u16,
    /// Longest pause between two advertisements (maxinterval); the least is a third of it.
    pub max_interval: u16,
    /// For how long prefixes are on the link, and addresses of them are valid (vltime).
    pub valid: u32,
    /// For how long addresses are preferred (pltime).
    pub preferred: u32,
}

impl Default for Advertising {
    /// RFC 4861 6.2.1.
    fn default() -> Advertising {
        Advertising { lifetime: 1800, max_interval: 600, valid: 2_592_000, preferred: 604_800 }
    }
}

impl Advertising {
    /// Checks the values against each other and against RFC 4861 6.2.1.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), &'static str> {
        if !(4..=1800).contains(&self.max_interval) {
            return Err("maxinterval is from 4 to 1800 seconds");
        }
        if self.lifetime != 0 && !(self.max_interval..=9000).contains(&self.lifetime) {
            return Err("rltime is 0, or from maxinterval to 9000 seconds");
        }
        if self.preferred > self.valid {
            return Err("pltime is at most vltime");
        }
        Ok(())
    }
}

/// The state of an iface that advertises.
#[derive(Debug)]
pub(crate) struct Advertiser {
    what: Advertising,
    /// Time of the next advertisement.
    due: Instant,
    /// Time of the last one.
    last: Option<Instant>,
    /// How many there were.
    sent: u32,
}

impl Advertiser {
    /// Notes one that is sent now; the next follows by a number that was drawn.
    fn sent(&mut self, drawn: u64, now: Instant) {
        self.sent = self.sent.saturating_add(1);
        self.last = Some(now);
        let longest = Duration::from_secs(u64::from(self.what.max_interval));
        let least = (longest / 3).max(LEAST_PAUSE).min(longest);
        let pause = least + within(longest - least, drawn);
        let (first, soon) = INITIAL;
        self.due = now.after(if self.sent < first { pause.min(soon) } else { pause });
    }

    /// Notes a solicitation, which is answered after a moment that was drawn, but no sooner than may be.
    fn asked(&mut self, drawn: u64, now: Instant) {
        let at = now.after(within(ANSWER_WITHIN, drawn));
        let at = self.last.map_or(at, |last| at.max(last.after(LEAST_PAUSE)));
        self.due = self.due.min(at);
    }
}

/// A part of `longest`.
fn within(longest: Duration, drawn: u64) -> Duration {
    Duration::from_nanos(drawn % (longest.as_nanos() as u64 + 1))
}

impl<L: Locks> Iface<L> {
    /// What it advertises, if it does.
    pub fn advertising(&self, cx: Cx) -> Option<Advertising> {
        self.six.lock(cx).advertiser.as_ref().map(|of| of.what)
    }
}

impl<L: Locks> Stack<L> {
    /// Lets an iface advertise this router, or stop it, which it says to the link. On an iface that is no Ethernet it changes nothing.
    ///
    /// # Errors
    /// [`Refused6`] as [`Stack::add_link_local`]; nothing has changed then.
    pub fn set_advertising(&self, cx: Cx, id: IfaceId, what: Option<Advertising>) -> Result<(), Refused6> {
        let Some(iface) = self.ifaces.get(id).filter(|iface| iface.kind == IfaceKind::Ethernet) else { return Ok(()) };
        let Some(what) = what else {
            self.stop_advertising(cx, iface);
            return Ok(());
        };
        self.add_link_local(cx, id)?;
        let due = cx.now.after(within(ANSWER_WITHIN, self.draw(cx, iface)));
        iface.six.lock(cx).advertiser = Some(Advertiser { what, due, last: None, sent: 0 });
        self.six.due_at(due);
        Ok(())
    }

    /// Says on every iface that advertises that this is a router no more (RFC 4861 6.2.5): the host ends.
    pub fn end_advertising(&self, cx: Cx) {
        if self.six.is_on() {
            self.ifaces.iter().for_each(|iface| self.stop_advertising(cx, iface));
            self.flush(cx);
        }
    }

    fn stop_advertising(&self, cx: Cx, iface: &Iface<L>) {
        let Some(Advertiser { what, sent, .. }) = iface.six.lock(cx).advertiser.take() else { return };
        if sent > 0 {
            self.advertise(cx, iface, Advertising { lifetime: 0, ..what });
        }
    }

    fn draw(&self, cx: Cx, iface: &Iface<L>) -> u64 {
        self.secret.hash2(cx.now.nanos(), u64::from(iface.id.0) << 32 | MOMENT)
    }

    /// Takes a router solicitation (RFC 4861 6.1.1, 6.2.6).
    pub(crate) fn router_solicited(
        &self,
        cx: Cx,
        iface: &Iface<L>,
        header: &ip6::Header,
        options: Options<'_>,
    ) -> DropReason {
        if header.src.is_unspecified() && options.source_link().is_some() {
            return DropReason::NdMalformed;
        }
        let drawn = self.draw(cx, iface);
        let mut six = iface.six.lock(cx);
        let Some(advertiser) = six.advertiser.as_mut().filter(|_| self.knobs.forwarding6.on()) else {
            self.count(cx).nd.ignored.bump();
            return DropReason::NdIgnored;
        };
        advertiser.asked(drawn, cx.now);
        self.six.due_at(advertiser.due);
        self.count(cx).nd.router_solicits_received.bump();
        DropReason::NdConsumed
    }

    /// Advertises when it is time. Returns the time at which to come again.
    pub(crate) fn poll_advertising(&self, cx: Cx, iface: &Iface<L>) -> Instant {
        let due = iface.six.lock(cx).advertiser.as_ref().map_or(Instant::NEVER, |of| of.due);
        if due > cx.now {
            return due;
        }
        let is_ready = self.knobs.forwarding6.on() && iface.link_local6(cx).is_some();
        let drawn = self.draw(cx, iface);
        let (what, next) = {
            let mut six = iface.six.lock(cx);
            let Some(advertiser) = &mut six.advertiser else { return Instant::NEVER };
            if !is_ready {
                advertiser.due = cx.now.after(NOT_READY);
                return advertiser.due;
            }
            advertiser.sent(drawn, cx.now);
            (advertiser.what, advertiser.due)
        };
        self.advertise(cx, iface, what);
        next
    }

    /// Sends one advertisement to all nodes; none while the link-local address is not certain.
    fn advertise(&self, cx: Cx, iface: &Iface<L>, what: Advertising) {
        let Some(src) = iface.link_local6(cx) else { return };
        let of = |own: &IfaceAddr6| own.origin == Origin::Manual && own.len < 128 && !ip6::is_link_local(own.addr);
        let mut prefixes: Vec<_> = iface.addrs6(cx).iter().filter(|own| of(own)).map(|own| own.prefix()).collect();
        prefixes.sort_unstable_by_key(|prefix| (prefix.addr(), prefix.len()));
        prefixes.dedup();
        // As many as a small buffer holds, too.
        let fit = self.pool.size().saturating_sub(nd::ROUTER_ADVERT_LEN) / nd::PREFIX_LEN;
        prefixes.truncate(PREFIXES_MAX.min(fit));
        let info = |prefix: &crate::fib6::Prefix6| PrefixInfo {
            len: prefix.len(),
            on_link: true,
            autonomous: prefix.len() == 64,
            valid: what.valid,
            preferred: what.preferred,
            prefix: prefix.addr(),
        };
        let prefixes: Vec<_> = prefixes.iter().map(info).collect();
        let hop_limit = self.knobs.hop_limit6.get() as u8;
        let mtu = iface.mtu() as u32;
        let emit = |link: Option<Mac>, out: &mut [u8]| {
            let advert = RouterAdvert { hop_limit, lifetime: what.lifetime, link, mtu, prefixes: &prefixes };
            advert.emit((src, ip6::ALL_NODES), out)
        };
        let len = nd::ROUTER_ADVERT_LEN + prefixes.len() * nd::PREFIX_LEN;
        self.nd_send(cx, iface, (src, ip6::ALL_NODES), len, emit);
        self.count(cx).nd.router_adverts_sent.bump();
    }
}
