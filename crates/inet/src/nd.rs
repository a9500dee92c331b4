//! Neighbor discovery (RFC 4861, RFC 4862): address resolution and duplicate address detection.
//!
//! A received message updates the neighbor table. Its frame is then consumed; an answer is sent in
//! a separate frame. The hop limit of a message must be 255, which proves that it was sent on this
//! link (7.1). Unsolicited messages create no entry: a station is stored, in state Stale, only if
//! it solicits one of our addresses from an address on the link. Router advertisements are ignored
//! on interfaces without `accept_rtadv` ([`crate::ip6::autoconf`]), so that a flood of them cannot
//! fill a table on such an interface (CVE-2010-4669, CVE-2011-2393).

mod redirect;

use crate::Stack;
use crate::iface::{Iface, IfaceId, IfaceKind};
use crate::ip6::autoconf::RouterLoss;
use crate::ip6::{AddrState, DefaultRouter, Outgoing6};
use crate::neigh::{self, Expired, Learned, Neighbor};
use crate::route::Via6;
use buf::Frame;
use clock::Duration;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::Ipv6Addr;
use wire::icmp6::nd::{self, Advert, Message, Options};
use wire::{Mac, Proto, ip6};

/// Required hop limit. A message with this hop limit was not forwarded by a router (RFC 4861 7.1).
const HOPS: u8 = 255;

impl<L: Locks> Stack<L> {
    /// Processes a neighbor discovery message. Returns the drop reason for its frame.
    pub(crate) fn nd_input(&self, cx: Cx, iface: &Iface<L>, header: &ip6::Header, message: &Message<'_>) -> DropReason {
        if header.hop_limit != HOPS {
            return DropReason::NdHopLimit;
        }
        match *message {
            Message::Solicit { target, options } => self.solicited(cx, iface, header, target, options),
            Message::Advert { advert, options } => self.advertised(cx, iface, header, &advert, options),
            Message::RouterAdvert { preference, lifetime, other_config, options, .. } => {
                let until = cx.now.after(Duration::from_secs(u64::from(lifetime)));
                let router = DefaultRouter {
                    addr: header.src,
                    preference,
                    until,
                    is_unreachable: false,
                    has_other_config: other_config,
                };
                self.router_advertised(cx, iface, router, options)
            }
            Message::RouterSolicit { options } => self.router_solicited(cx, iface, header, options),
            Message::Redirect { target, dst, options } => {
                self.redirected6(cx, iface, header.src, (target, dst), options)
            }
        }
    }

    /// Checks a router advertisement (RFC 4861 6.1.2), processes it and records the router's MAC
    /// address.
    fn router_advertised(&self, cx: Cx, iface: &Iface<L>, router: DefaultRouter, options: Options<'_>) -> DropReason {
        let link = options.source_link();
        if !ip6::is_link_local(router.addr) || link.is_some_and(|mac| !is_anothers(iface, mac)) {
            return DropReason::NdMalformed;
        }
        let why = self.accept_rtadv(cx, iface, router, options);
        match link {
            Some(mac) if why == DropReason::NdConsumed => self.learn_neighbor(cx, iface, router.addr, mac),
            _ => why,
        }
    }

    /// Stores the source link-layer address of a solicitation or advertisement in an entry in state
    /// Stale (RFC 4861 7.2.3), and sends the packets that were held for the neighbor.
    fn learn_neighbor(&self, cx: Cx, iface: &Iface<L>, addr: Ipv6Addr, mac: Mac) -> DropReason {
        let rules = self.neigh_rules6();
        let mut neighbors = self.six.neighbors.lock(cx);
        let learned = neighbors.solicited_by(iface.id, addr, mac, true, cx.now, rules);
        self.count(cx).neigh.evicted.add(neighbors.take_evicted());
        let ended = neighbors.take_ended();
        drop(neighbors);
        self.end_all(cx, ended);
        if self.learned6(cx, iface, (addr, mac), learned) { DropReason::NdConsumed } else { DropReason::NdStatic }
    }

    /// Processes a neighbor solicitation for `target` (RFC 4861 7.2.3, RFC 4862 5.4.3).
    fn solicited(
        &self,
        cx: Cx,
        iface: &Iface<L>,
        header: &ip6::Header,
        target: Ipv6Addr,
        options: Options<'_>,
    ) -> DropReason {
        let counters = &self.count(cx).nd;
        counters.solicits_received.bump();
        let probe = header.src.is_unspecified();
        let link = options.source_link();
        let to_group = header.dst == ip6::solicited_node(target);
        if probe && (link.is_some() || !to_group) || link.is_some_and(|mac| !is_anothers(iface, mac)) {
            return DropReason::NdMalformed; // RFC 4861 7.1.1
        }
        // A sender that is not on the link is not a neighbor and gets no answer (CVE-2008-2476, RFC
        // 5942 4).
        let near = |addr| iface.on_link6(cx, addr) || self.via6(cx, addr) == Some(Via6::Link(iface.id));
        if !probe && !near(header.src) {
            return DropReason::NdIgnored;
        }
        // As in ARP, solicitations for addresses that only a local route covers are ignored.
        let Some(own) = iface.addr6(cx, target) else { return DropReason::NdIgnored };
        match own.state {
            AddrState::Tentative(..) if probe => {
                self.duplicated(cx, iface, target); // both stations probe: neither may use the address
                return DropReason::NdConflict;
            }
            AddrState::Tentative(..) | AddrState::Duplicated => return DropReason::NdIgnored,
            AddrState::Valid => {}
        }
        let why = link.map_or(DropReason::NdConsumed, |mac| self.learn_neighbor(cx, iface, header.src, mac));
        // RFC 4861 7.2.4: the answer goes to all nodes if the sender has no address.
        let dst = if probe { ip6::ALL_NODES } else { header.src };
        let router = self.sysctls.forwarding6.on();
        let advert = Advert { router, solicited: !probe, replaces: true, target };
        self.nd_send(cx, iface, (target, dst), nd::NEIGHBOR_LEN, |mac, out| {
            nd::emit_advert(advert, mac, (target, dst), out)
        });
        self.count(cx).nd.adverts_sent.bump();
        why
    }

    /// Processes a neighbor advertisement for `advert.target` (RFC 4861 7.2.5, RFC 4862 5.4.4).
    fn advertised(
        &self,
        cx: Cx,
        iface: &Iface<L>,
        header: &ip6::Header,
        advert: &Advert,
        options: Options<'_>,
    ) -> DropReason {
        self.count(cx).nd.adverts_received.bump();
        let link = options.target_link();
        let bad = link.is_some_and(|mac| !is_anothers(iface, mac));
        if bad || header.src.is_unspecified() || header.dst.is_multicast() && advert.solicited {
            return DropReason::NdMalformed; // RFC 4861 7.1.2
        }
        match iface.addr6(cx, advert.target).map(|own| own.state) {
            Some(AddrState::Tentative(..)) => {
                self.duplicated(cx, iface, advert.target);
                return DropReason::NdConflict;
            }
            Some(_) => {
                self.count(cx).nd.conflicts.bump();
                return DropReason::NdConflict;
            }
            None => {}
        }
        let learned = self.six.neighbors.lock(cx).advertised(iface.id, advert, link, cx.now, self.neigh_rules6());
        let known = !matches!(learned, Learned::Ignored);
        if !self.learned6(cx, iface, (advert.target, link.unwrap_or(Mac::ZERO)), learned) {
            return DropReason::NdStatic;
        }
        if known && !advert.router {
            self.router_lost(cx, iface, advert.target, RouterLoss::NoRouter);
        }
        if known { DropReason::NdConsumed } else { DropReason::NdIgnored }
    }

    /// Counts the change `learned` of a neighbor entry and sends the packets that were held for the
    /// neighbor. Returns `false` if the entry is permanent and was not changed.
    fn learned6(&self, cx: Cx, iface: &Iface<L>, (addr, mac): (Ipv6Addr, Mac), learned: Learned) -> bool {
        match learned {
            Learned::Changed { pending, moved, created } => {
                self.changed();
                self.answered::<u128>(cx, iface.id, addr);
                let counters = &self.count(cx).neigh;
                counters.created.add(u64::from(created));
                counters.moved.add(u64::from(moved));
                counters.resolved.add(u64::from(!created && !moved));
                self.send_pending(cx, iface.id, mac, pending);
                true
            }
            Learned::Permanent => false,
            Learned::Ignored | Learned::Same => true,
        }
    }

    /// Marks a tentative address as a duplicate, because another station uses it.
    #[cold]
    fn duplicated(&self, cx: Cx, iface: &Iface<L>, addr: Ipv6Addr) {
        let mut six = iface.six.lock(cx);
        let Some(own) = six.addrs.iter_mut().find(|own| own.addr == addr) else { return };
        own.state = AddrState::Duplicated;
        let own = *own;
        drop(six);
        self.count(cx).nd.duplicates.bump();
        self.replace_duplicate(cx, iface, own);
        self.changed();
    }

    /// Sends a neighbor solicitation for `addr`: by unicast to `addr` if `directly` is set,
    /// otherwise to the solicited-node group of `addr`.
    pub(crate) fn nd_ask(&self, cx: Cx, iface: &Iface<L>, addr: Ipv6Addr, directly: bool) {
        let Some(src) = self.source6_for(cx, iface, addr) else { return };
        let dst = if directly { addr } else { ip6::solicited_node(addr) };
        self.nd_send(cx, iface, (src, dst), nd::NEIGHBOR_LEN, |mac, out| nd::emit_solicit(addr, mac, (src, dst), out));
        self.count(cx).nd.solicits_sent.bump();
    }

    /// Sends a solicitation for duplicate address detection (RFC 4862 5.4.2).
    pub(crate) fn nd_probe(&self, cx: Cx, iface: &Iface<L>, addr: Ipv6Addr) {
        let (src, dst) = (Ipv6Addr::UNSPECIFIED, ip6::solicited_node(addr));
        self.nd_send(cx, iface, (src, dst), nd::NEIGHBOR_LEN, |_, out| nd::emit_solicit(addr, None, (src, dst), out));
        self.count(cx).nd.probes_sent.bump();
    }

    /// Sends a router solicitation (RFC 4861 6.3.7).
    pub(crate) fn solicit_routers(&self, cx: Cx, iface: &Iface<L>) {
        let own = iface.link_local6(cx);
        let (src, dst) = (own.unwrap_or(Ipv6Addr::UNSPECIFIED), ip6::ALL_ROUTERS);
        let emit =
            |mac: Option<Mac>, out: &mut [u8]| nd::emit_router_solicit(mac.filter(|_| own.is_some()), (src, dst), out);
        self.nd_send(cx, iface, (src, dst), nd::NEIGHBOR_LEN, emit);
        self.count(cx).nd.router_solicits_sent.bump();
    }

    /// Sends a message of at most `len` bytes, written by `emit`.
    pub(crate) fn nd_send(
        &self,
        cx: Cx,
        iface: &Iface<L>,
        (src, dst): (Ipv6Addr, Ipv6Addr),
        len: usize,
        emit: impl FnOnce(Option<Mac>, &mut [u8]) -> Option<usize>,
    ) {
        let Some(mut frame) = self.make_frame(cx) else { return }; // the pool counts its allocation failures
        let mac = (iface.kind == IfaceKind::Ethernet).then_some(iface.mac);
        let written = frame.append(len).and_then(|room| emit(mac, room));
        let Some(len) = written else {
            return self.drop_as_bug(cx, frame, "the message does not fit its new frame");
        };
        frame.truncate(len);
        let out = Outgoing6 { src: Some(src), iface: Some(iface.id), ..Outgoing6::new(dst, Proto::IPV6_ICMP, HOPS) };
        let _ = self.ip6_output(cx, frame, &out); // `ip6_output` counts errors
    }

    pub(crate) fn poll_neighbors6(&self, cx: Cx) {
        {
            let mut neighbors = self.six.neighbors.lock(cx);
            self.count(cx).neigh.evicted.add(neighbors.take_evicted());
            if cx.now < neighbors.next_deadline() {
                return;
            }
        }
        let mut events = Vec::new();
        self.six.neighbors.lock(cx).expire(cx.now, self.neigh_rules6(), |event| events.push(event));
        for event in events {
            match event {
                Expired::Aged => self.changed(),
                Expired::Ask(id, addr, known) => {
                    if let Some(iface) = self.ifaces.get(id) {
                        self.nd_ask(cx, iface, addr, known.is_some());
                    }
                }
                Expired::Dead(id, addr, pending) => {
                    self.changed();
                    self.silent::<u128>(cx, id, addr);
                    self.count(cx).neigh.failed.bump();
                    self.neighbor_failed(cx, pending);
                    if let Some(iface) = self.ifaces.get(id) {
                        self.router_lost(cx, iface, addr, RouterLoss::Unreachable);
                    }
                }
            }
        }
    }

    pub(crate) fn neigh_rules6(&self) -> neigh::Rules {
        neigh::Rules {
            limit: self.sysctls.neigh6_limit.get() as usize,
            hold: self.sysctls.neigh6_queue.get() as usize,
            hold_all: self.sysctls.neigh6_queue_all.get() as usize,
            tries: self.sysctls.neigh6_tries.get() as u32,
            max_age: Duration::from_secs(self.sysctls.neigh6_reachable.get() as u64),
        }
    }

    /// Adds a permanent neighbor entry and sends the packets that were held for it.
    pub fn set_neighbor6(&self, cx: Cx, id: IfaceId, addr: Ipv6Addr, mac: Mac) {
        let pending = self.six.neighbors.lock(cx).set(id, addr, mac, cx.now);
        self.changed();
        self.answered::<u128>(cx, id, addr);
        self.send_pending(cx, id, mac, pending);
        self.flush(cx);
    }

    /// Removes a neighbor. Returns `false` if there is none with this address.
    pub fn remove_neighbor6(&self, cx: Cx, id: IfaceId, addr: Ipv6Addr) -> bool {
        let pending = self.six.neighbors.lock(cx).remove(id, addr);
        self.changed();
        let known = pending.is_some();
        pending.into_iter().flatten().for_each(|frame| self.drop_frame(cx, frame, DropReason::NeighTimeout));
        known
    }

    /// Returns all IPv6 neighbors.
    pub fn neighbors6(&self, cx: Cx) -> Vec<Neighbor<Ipv6Addr>> {
        let mut all: Vec<_> = self.six.neighbors.lock(cx).iter().collect();
        all.sort_by_key(|n| (n.iface, n.addr));
        all
    }

    /// Removes all neighbors of an interface that goes down. Appends the packets held for them to
    /// `ended`.
    pub(crate) fn end_waits6(&self, cx: Cx, id: IfaceId, ended: &mut Vec<Frame>) {
        self.six.neighbors.lock(cx).flush(id, |frame| ended.push(frame));
    }
}

/// Returns whether `mac` is the unicast address of another station.
fn is_anothers<L: Locks>(iface: &Iface<L>, mac: Mac) -> bool {
    mac.is_unicast() && mac != Mac::ZERO && mac != iface.mac
}
