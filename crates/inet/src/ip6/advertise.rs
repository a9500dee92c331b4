//! Router advertisements sent by a router (RFC 4861 6.2), on interfaces that have the option
//! `advertise`, while the host forwards IPv6.
//!
//! An advertisement contains the router lifetime, the MTU, the MAC address and the prefixes of the
//! configured addresses. Prefixes of 64 bits have the autonomous flag, which permits hosts to
//! create addresses from them (RFC 4862). Advertisements are sent at random intervals and in reply
//! to solicitations, at most one in three seconds. When advertising ends, a last advertisement with
//! the lifetime 0 is sent.

mod state;

pub(crate) use state::Advertiser;
pub use state::Advertising;
use state::{REPLY_DELAY_MAX, up_to};

use crate::Stack;
use crate::iface::{Iface, IfaceId, IfaceKind};
use crate::ip6::ifaddr::{IfaceAddr6, Origin, Refused6};
use clock::{Duration, Instant};
use fib::Prefix6;
use lock::{Cx, Locks};
use stats::DropReason;
use wire::icmp6::nd::{self, Options, PrefixInfo, RouterAdvert};
use wire::{Mac, ip6};

/// Maximum number of prefixes in an advertisement.
const PREFIXES_MAX: usize = 16;
/// Constant that is added to the input of the hashes in this module, so that they differ from other
/// hashes with the same secret.
const HASH_DOMAIN: u64 = 0x7261_3631;
/// Interval at which a host that is not ready to advertise checks again whether it is ready. It is
/// ready if it forwards IPv6 and the link-local address is valid.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl<L: Locks> Iface<L> {
    /// Returns the configuration of router advertisements on this interface; `None` if none are
    /// sent.
    pub fn advertising(&self, cx: Cx) -> Option<Advertising> {
        self.six.lock(cx).advertiser.as_ref().map(|advertiser| advertiser.config)
    }
}

impl<L: Locks> Stack<L> {
    /// Starts or stops router advertisements on an interface. When they stop, a last advertisement
    /// with the lifetime 0 is sent. Has no effect on an interface that is not Ethernet.
    ///
    /// # Errors
    /// [`Refused6`] if the interface has no link-local address and none can be added.
    /// Advertisements are not started then.
    #[inline(never)]
    pub fn set_advertising(&self, cx: Cx, id: IfaceId, config: Option<Advertising>) -> Result<(), Refused6> {
        let Some(iface) = self.ifaces.get(id).filter(|iface| iface.kind == IfaceKind::Ethernet) else { return Ok(()) };
        let Some(config) = config else {
            self.stop_advertising(cx, iface);
            return Ok(());
        };
        self.add_link_local(cx, id)?;
        let due = cx.now.after(up_to(REPLY_DELAY_MAX, self.random_of(cx, iface)));
        iface.six.lock(cx).advertiser = Some(Advertiser { config, due, last: None, sent: 0 });
        self.six.due_at(due);
        Ok(())
    }

    /// Stops router advertisements on all interfaces. Called before the host ends (RFC 4861 6.2.5).
    pub fn end_advertising(&self, cx: Cx) {
        if self.six.is_on() {
            self.ifaces.iter().for_each(|iface| self.stop_advertising(cx, iface));
            self.flush(cx);
        }
    }

    #[inline(never)]
    fn stop_advertising(&self, cx: Cx, iface: &Iface<L>) {
        let Some(Advertiser { config, sent, .. }) = iface.six.lock(cx).advertiser.take() else { return };
        if sent > 0 {
            self.advertise(cx, iface, Advertising { lifetime: 0, ..config });
        }
    }

    /// Returns a random number for a timer. It is reproducible if the stack has a seed.
    fn random_of(&self, cx: Cx, iface: &Iface<L>) -> u64 {
        self.secret.hash2(cx.now.nanos(), u64::from(iface.id.0) << 32 | HASH_DOMAIN)
    }

    /// Processes a router solicitation (RFC 4861 6.1.1, 6.2.6). Returns the drop reason for
    /// its frame.
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
        let random = self.random_of(cx, iface);
        let mut six = iface.six.lock(cx);
        let Some(advertiser) = six.advertiser.as_mut().filter(|_| self.sysctls.forwarding6.on()) else {
            self.count(cx).nd.ignored.bump();
            return DropReason::NdIgnored;
        };
        advertiser.on_solicit(random, cx.now);
        self.six.due_at(advertiser.due);
        self.count(cx).nd.router_solicits_received.bump();
        DropReason::NdConsumed
    }

    /// Sends an advertisement if one is due. Returns the time of the next one.
    pub(crate) fn poll_advertising(&self, cx: Cx, iface: &Iface<L>) -> Instant {
        let due = iface.six.lock(cx).advertiser.as_ref().map_or(Instant::NEVER, |advertiser| advertiser.due);
        if due > cx.now {
            return due;
        }
        let is_ready = self.sysctls.forwarding6.on() && iface.link_local6(cx).is_some();
        let random = self.random_of(cx, iface);
        let (config, next) = {
            let mut six = iface.six.lock(cx);
            let Some(advertiser) = &mut six.advertiser else { return Instant::NEVER };
            if !is_ready {
                advertiser.due = cx.now.after(RETRY_INTERVAL);
                return advertiser.due;
            }
            advertiser.on_sent(random, cx.now);
            (advertiser.config, advertiser.due)
        };
        self.advertise(cx, iface, config);
        next
    }

    /// Sends an advertisement to all nodes, if the link-local address is valid.
    fn advertise(&self, cx: Cx, iface: &Iface<L>, config: Advertising) {
        let Some(src) = iface.link_local6(cx) else { return };
        let has_prefix =
            |own: &&IfaceAddr6| own.origin == Origin::Manual && own.len < 128 && !ip6::is_link_local(own.addr);
        let mut prefixes: Vec<_> = iface.addrs6(cx).iter().filter(has_prefix).map(|own| own.prefix()).collect();
        prefixes.sort_unstable_by_key(|prefix| (prefix.addr(), prefix.len()));
        prefixes.dedup();
        // If the buffers are small, fewer prefixes fit.
        let room = self.pool.size() - self.pool.headroom();
        let fit = room.saturating_sub(nd::ROUTER_ADVERT_LEN) / nd::PREFIX_LEN;
        prefixes.truncate(PREFIXES_MAX.min(fit));
        let info = |prefix: &Prefix6| PrefixInfo {
            len: prefix.len(),
            on_link: true,
            autonomous: prefix.len() == 64,
            valid: config.valid,
            preferred: config.preferred,
            prefix: prefix.addr(),
        };
        let prefixes: Vec<_> = prefixes.iter().map(info).collect();
        let hop_limit = self.sysctls.hop_limit6.get() as u8;
        let mtu = iface.mtu() as u32;
        let emit = |link: Option<Mac>, out: &mut [u8]| {
            let advert = RouterAdvert { hop_limit, lifetime: config.lifetime, link, mtu, prefixes: &prefixes };
            advert.emit((src, ip6::ALL_NODES), out)
        };
        let len = nd::ROUTER_ADVERT_LEN + prefixes.len() * nd::PREFIX_LEN;
        self.nd_send(cx, iface, (src, ip6::ALL_NODES), len, emit);
        self.count(cx).nd.router_adverts_sent.bump();
    }
}
