//! IPv4 input: the checks of the fast path, and the slow path behind [`crate::ip`], to `udp`, `tcp`, `icmp4`, `igmp`, or
//! `ip4::forward`.
//!
//! Each packet ends as a delivery, a forward, a held fragment, or a drop. Checks follow RFC 1122 3.2.1 and RFC 1812 5.2.
//! Source routes are dropped, not followed.

mod forward;
pub mod frag;
pub(crate) mod ident;
pub(crate) mod output;
pub mod pmtu;
pub mod reass;
mod source;

pub(crate) use output::Outgoing;
pub use output::OutputError;

use crate::Stack;
use crate::ends::Domain;
use crate::fib::NextHopId;
use crate::icmp4::Cause;
use crate::iface::{Iface, IfaceId};
use crate::ip::{Input, Opened, link_len};
use crate::neigh;
use crate::route::{Adjacency, Hop, Via};
use crate::stack::{CHUNK, Odd, OwnFilter};
use buf::{Burst, Flags, Frame};
use lock::{Cx, Guarded, Locks};
use reass::{Expired, Outcome};
use stats::{DropReason, Lap, Stage};
use std::net::Ipv4Addr;
use wire::eth::{self, EtherType};
use wire::ip4::{self, Opt};
use wire::{Mac, Malformed, Proto};

/// Where a packet that passed its checks goes.
enum Destination {
    /// To what the FIB says.
    Unicast,
    /// To everybody on the link: 255.255.255.255.
    Broadcast,
    /// To a group.
    Multicast,
}

impl<L: Locks> Stack<L> {
    /// A chunk in which some packets are not plain: those are looked at one by one, those that are `framed` by the link layer first.
    #[inline(never)]
    fn ip4_input_mixed(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        framed: bool,
        packets: &mut Burst,
        odd: Odd,
        lap: Lap<'_>,
    ) {
        let (n, mut udp) = (packets.len() as u64, Burst::new());
        let (mut six, lost) = (Burst::new(), || self.count_bug(cx));
        odd.sort(packets, lost, |mut packet| {
            if let Some(iface) = iface.filter(|_| framed) {
                if eth::is_between(packet.bytes(), iface.mac, EtherType::IPV6) && iface.speaks6() {
                    six.put(packet, lost); // no more than came
                    return None;
                }
                packet = self.ether_odd(cx, iface, packet)?;
            }
            self.count(cx).ip4.received.bump();
            match self.ip4_check(cx, iface, &mut packet) {
                Err(why) => self.drop_frame(cx, packet, why),
                Ok((_, Destination::Unicast)) => return Some(packet),
                Ok((header, Destination::Broadcast)) => self.ip4_deliver(cx, iface, packet, &header, &mut udp),
                Ok((header, Destination::Multicast)) => self.ip4_group(cx, iface, packet, &header, &mut udp),
            }
            None
        });
        if let Some(iface) = iface.filter(|_| !six.is_empty()) {
            self.ip_input::<u128>(cx, Some(iface), Some(iface.mac), &mut six, lap);
        }
        lap.mark(Stage::Ip4Input, n);
        let (mut dst, mut ids) = ([0; CHUNK], [None; CHUNK]);
        for (packet, dst) in packets.as_slice().iter().zip(&mut dst) {
            *dst = ip4::Glance::of(packet.bytes()).map_or(0, |header| header.dst().to_bits());
        }
        let pinned = self.ways.pin(cx);
        self.ways.lookup_chunk(&pinned, dst.get(..packets.len()).unwrap_or_default(), &mut ids);
        if self.ways.has_paths() {
            self.choose_paths::<u32>(cx, &pinned, packets, &mut ids);
        }
        self.ip4_route(cx, iface, packets, &ids, udp, lap);
    }

    /// A chunk that goes different ways: each run of packets with the same next hop by itself. `udp` holds datagrams
    /// for this host that have been found already.
    #[inline(never)]
    fn ip4_route(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packets: &mut Burst,
        ids: &[Option<NextHopId>],
        mut udp: Burst,
        lap: Lap<'_>,
    ) {
        let n = packets.len() as u64;
        let (mut run, mut way) = (Burst::new(), None);
        for (packet, id) in packets.drain().zip(ids) {
            if way != *id {
                self.ip4_run(cx, iface, &mut run, way, &mut udp);
                way = *id;
            }
            run.put(packet, || self.count_bug(cx)); // no more than came
        }
        self.ip4_run(cx, iface, &mut run, way, &mut udp);
        lap.mark(Stage::Ip4Forward, n);
        let n = udp.len() as u64;
        self.udp_input::<u32>(cx, iface, &mut udp);
        lap.mark(Stage::Demux, n);
    }

    /// Packets with the same next hop: here, onward, or nowhere.
    fn ip4_run(&self, cx: Cx, iface: Option<&Iface<L>>, run: &mut Burst, way: Option<NextHopId>, udp: &mut Burst) {
        if run.is_empty() {
            return;
        }
        let hop = way.and_then(|id| self.ways.hop(&self.ways.pin(cx), id));
        if !matches!(hop.map(|hop| hop.via), Some(Via::Local(_) | Via::Broadcast(_))) {
            return self.ip_forward::<u32>(cx, iface, run, hop.as_ref());
        }
        let broadcast = matches!(hop.map(|hop| hop.via), Some(Via::Broadcast(_)));
        for mut packet in run.drain() {
            if broadcast {
                // What makes a broadcast is its destination: a router delivers a directed one in a frame for us alone.
                packet.set_flags(packet.flags().with(Flags::LINK_BROADCAST));
            }
            match ip4::Header::parse(packet.bytes()) {
                Ok(header) => self.ip4_deliver(cx, iface, packet, &header, udp),
                Err(_) => self.drop_frame(cx, packet, DropReason::Ip4Malformed),
            }
        }
    }

    /// RFC 1122 3.2.1, RFC 1812 5.2.2: is this a packet that may be looked at further? Cuts link padding off.
    fn ip4_check(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packet: &mut Frame,
    ) -> Result<(ip4::Header, Destination), DropReason> {
        let header = ip4::Header::parse(packet.bytes()).map_err(|malformed| match malformed {
            Malformed::BadVersion { .. } => DropReason::Ip4BadVersion,
            _ => DropReason::Ip4Malformed,
        })?;
        let trusted = packet.flags().has(Flags::RX_IP_OK) && iface.is_none_or(|iface| iface.offload().rx);
        if !trusted && !ip4::header_checksum_ok(packet.bytes(), header.ihl_len) {
            return Err(DropReason::Ip4BadChecksum);
        }
        packet.truncate(usize::from(header.total_len));
        let (src, dst) = (u32::from(header.src), u32::from(header.dst));
        if let Some(iface) = iface {
            // 0/8, 127/8, multicast, 240/4 and broadcast cannot be the source of anything (RFC 1812 5.3.7).
            let first = src >> 24;
            if first == 0 || first == 127 || first >= 224 {
                return Err(DropReason::Ip4MartianSource);
            }
            // LAND and La Tierra: nothing that comes from a wire was sent by us, or by everybody.
            if src == dst || self.own.now().may_have(src) && self.is_own(cx, header.src) {
                return Err(DropReason::Ip4OwnSource);
            }
            if !self.source_is_valid(cx, iface.id, header.src) {
                return Err(DropReason::Ip4InvalidSource);
            }
        }
        let destination = match dst >> 24 {
            224..=239 => Destination::Multicast,
            255 if dst == u32::MAX => Destination::Broadcast,
            0 | 240..=255 => return Err(DropReason::Ip4MartianDestination),
            127 if iface.is_some() => return Err(DropReason::Ip4MartianDestination),
            _ => Destination::Unicast,
        };
        if header.ihl_len > ip4::HEADER_LEN {
            self.check_options(cx, &header, packet)?;
        }
        Ok((header, destination))
    }

    /// RFC 1122 3.2.1.8, RFC 7126: malformed options and source routes end the packet; the others are ignored. The sender is told of
    /// the former (RFC 1812 4.3.3.5, RFC 1122 3.2.2.5), if the packet was for us to deal with.
    #[cold]
    fn check_options(&self, cx: Cx, header: &ip4::Header, packet: &Frame) -> Result<(), DropReason> {
        if let Err(fault) = ip4::check_options(packet.bytes().get(..header.ihl_len).unwrap_or_default()) {
            if self.knobs.forwarding.on() || self.is_own(cx, header.dst) {
                self.icmp4_error(cx, packet, Cause::Parameter(fault.octet));
            }
            return Err(DropReason::Ip4BadOptions);
        }
        let routed = |option| matches!(option, Ok(Opt::Lsrr(_) | Opt::Ssrr(_)));
        if header.options(packet.bytes()).any(routed) { Err(DropReason::Ip4SourceRoute) } else { Ok(()) }
    }

    fn ip4_group(&self, cx: Cx, iface: Option<&Iface<L>>, packet: Frame, header: &ip4::Header, udp: &mut Burst) {
        let groups = self.groups.lock(cx);
        let member = match iface {
            Some(iface) => groups.is_member(iface.id, header.dst),
            None => groups.is_member_anywhere(header.dst),
        };
        drop(groups);
        if member {
            self.ip4_deliver(cx, iface, packet, header, udp);
        } else {
            self.drop_frame(cx, packet, DropReason::Ip4NotMember);
        }
    }

    /// Hands a packet for this host to its protocol; UDP is collected, to be taken as a burst.
    fn ip4_deliver(&self, cx: Cx, iface: Option<&Iface<L>>, mut packet: Frame, header: &ip4::Header, udp: &mut Burst) {
        let group = header.dst.is_multicast() || header.dst.is_broadcast();
        if packet.flags().has(Flags::LINK_BROADCAST) && !group && !self.is_broadcast(cx, header.dst) {
            return self.drop_frame(cx, packet, DropReason::Ip4LinkBroadcast);
        }
        let mut header = *header;
        if header.is_fragment() {
            match self.ip4_reassemble(cx, &header, packet) {
                Some((whole, whole_header)) => (packet, header) = (whole, whole_header),
                None => return,
            }
        }
        self.count(cx).ip4.delivered.bump();
        if self.raw.has(Domain::Inet, header.proto) {
            self.raw_input(cx, iface, &packet, &header);
        }
        match header.proto {
            Proto::UDP => {
                if let Err(packet) = udp.push(packet) {
                    self.drop_frame(cx, packet, DropReason::UdpBufferFull); // a burst holds more than a chunk
                }
            }
            Proto::TCP => self.tcp_input::<u32>(cx, iface, &mut Burst::of(packet)),
            Proto::ICMP => self.icmp4_input(cx, iface, packet, &header),
            Proto::IGMP => self.igmp_input(cx, iface, packet, &header),
            Proto::IPIP | Proto::IPV6 | Proto::GRE | Proto::ETHERIP => self.tunnel_input(cx, packet, &header),
            proto => self.unknown_protocol(cx, packet, proto),
        }
    }

    fn ip4_reassemble(&self, cx: Cx, header: &ip4::Header, fragment: Frame) -> Option<(Frame, ip4::Header)> {
        let counters = self.count(cx);
        counters.ip4.fragments_received.bump();
        let mut ended = Vec::new();
        let outcome =
            self.reassembly.lock(cx).input(header, fragment, cx.now, &mut |frame, why| ended.push((frame, why)));
        ended.into_iter().for_each(|(frame, why)| self.drop_frame(cx, frame, why));
        match outcome {
            Outcome::Held => None,
            Outcome::Dropped(frame, why) => {
                self.drop_frame(cx, frame, why);
                None
            }
            Outcome::Complete(whole) => {
                counters.ip4.reassembled.bump();
                match ip4::Header::parse(whole.bytes()) {
                    Ok(header) => Some((whole, header)),
                    Err(_) => {
                        self.drop_frame(cx, whole, DropReason::Ip4Malformed);
                        None
                    }
                }
            }
        }
    }

    pub(crate) fn poll_reassembly(&self, cx: Cx) {
        let due = self.reassembly.lock(cx).next_deadline();
        if due.is_none_or(|due| cx.now < due) {
            return;
        }
        let mut ended = Vec::new();
        self.reassembly.lock(cx).expire(cx.now, &mut |expired| ended.push(expired));
        for expired in ended {
            let frame = match expired {
                Expired::First(frame) => {
                    self.reassembly_timed_out(cx, &frame);
                    frame
                }
                Expired::Later(frame) => frame,
            };
            self.drop_frame(cx, frame, DropReason::FragTimeout);
        }
    }

    /// Is `dst` a broadcast address of a link of ours?
    pub(crate) fn is_broadcast(&self, cx: Cx, dst: Ipv4Addr) -> bool {
        dst.is_broadcast() || matches!(self.ways.lookup(cx, dst).map(|hop| hop.via), Some(Via::Broadcast(_)))
    }
}

impl Input for u32 {
    const NOT_FORWARDING: DropReason = DropReason::Ip4NotForwarding;

    #[inline(always)]
    fn is_spoken<L: Locks>(_: &Iface<L>) -> bool {
        true
    }

    #[inline(always)]
    fn is_router<L: Locks>(stack: &Stack<L>) -> bool {
        stack.knobs.forwarding.on()
    }

    #[inline(always)]
    fn open(packet: &mut Frame, station: Option<Mac>, trusted: bool, own: OwnFilter) -> Option<Opened<u32>> {
        let bytes = match station {
            None => packet.bytes().first_chunk::<{ ip4::HEADER_LEN }>()?.as_slice(),
            Some(mac) => {
                let headers = packet.bytes().first_chunk::<{ eth::HEADER_LEN + ip4::HEADER_LEN }>()?;
                headers.get(eth::HEADER_LEN..).filter(|_| eth::is_between(headers, mac, EtherType::IPV4))?
            }
        };
        let header = ip4::Glance::of(bytes)?;
        let len = usize::from(header.total_len());
        let (src, dst) = (header.src().to_bits(), header.dst().to_bits());
        let flags = packet.flags();
        // Upwards `open_link` checks what is in a frame.
        let fits = len >= ip4::HEADER_LEN && (station.is_some() || len <= packet.len());
        let sound = (trusted && flags.has(Flags::RX_IP_OK)) || header.checksum_ok();
        let plain =
            header.is_plain() && fits && sound && is_host(src) && is_host(dst) && src != dst && !own.may_have(src);
        if !plain || flags.has(Flags::LINK_BROADCAST) {
            return None;
        }
        let opened = match station {
            None => {
                packet.truncate(len);
                true
            }
            Some(_) => packet.open_link(eth::HEADER_LEN, len),
        };
        opened.then_some(Opened { proto: header.proto(), src, dst })
    }

    #[inline(always)]
    fn is_usable<L: Locks>(_: &Stack<L>, _: Cx, _: IfaceId, _: u32) -> bool {
        true
    }

    fn invalid_sources<L: Locks>(stack: &Stack<L>, cx: Cx, iface: &Iface<L>, packets: &Burst) -> Odd {
        stack.doubtful_sources(cx, iface, packets)
    }

    #[inline(always)]
    fn is_valid_source<L: Locks>(stack: &Stack<L>, cx: Cx, iface: IfaceId, src: u32) -> bool {
        stack.source_is_valid(cx, iface, Ipv4Addr::from_bits(src))
    }

    fn input_odd<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: Option<&Iface<L>>,
        framed: bool,
        packets: &mut Burst,
        odd: Odd,
        lap: Lap<'_>,
    ) {
        stack.ip4_input_mixed(cx, iface, framed, packets, odd, lap);
    }

    #[inline(always)]
    fn opened(packet: &Frame) -> Option<Opened<u32>> {
        let header = ip4::Glance::of(packet.bytes())?;
        Some(Opened { proto: header.proto(), src: header.src().to_bits(), dst: header.dst().to_bits() })
    }

    fn input_opened<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packets: &mut Burst,
        ids: &[Option<NextHopId>],
        lap: Lap<'_>,
    ) {
        stack.ip4_route(cx, iface, packets, ids, Burst::new(), lap);
    }

    #[inline(always)]
    fn passable(packet: &Frame, mtu: usize) -> Option<u32> {
        let header = ip4::Glance::of(packet.bytes())?;
        let room = link_len(packet) <= mtu && packet.headroom() >= eth::HEADER_LEN;
        let room = room && header.ihl_len() == ip4::HEADER_LEN; // options may want to be written in
        (room && header.ttl() > 1 && !packet.flags().has(Flags::LINK_BROADCAST)).then(|| header.dst().to_bits())
    }

    #[inline(always)]
    fn take_hop(packet: &mut Frame) {
        ip4::decrement_ttl(packet.bytes_mut());
    }

    #[inline(always)]
    fn pass_on(packet: &mut Frame, mtu: usize, link: Adjacency) -> bool {
        let write = |header: &mut [u8; eth::HEADER_LEN], packet: &mut [u8; ip4::HEADER_LEN]| {
            link.write(header);
            ip4::take_hop(packet)
        };
        packet.push_link_if(mtu, write) || forward::pass_on_large(packet, mtu, link)
    }

    fn forward_slow<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        from: Option<&Iface<L>>,
        packet: Frame,
        hop: Option<&Hop>,
    ) -> bool {
        stack.forward_slow(cx, from, packet, hop)
    }

    #[inline(always)]
    fn neighbors<L: Locks>(stack: &Stack<L>) -> &Guarded<L, neigh::Table> {
        &stack.neighbors
    }

    fn neighbor_rules<L: Locks>(stack: &Stack<L>) -> neigh::Rules {
        stack.neigh_rules()
    }

    fn ask<L: Locks>(stack: &Stack<L>, cx: Cx, iface: &Iface<L>, next: Ipv4Addr) {
        stack.arp_ask(cx, iface, next, None);
    }
}

/// Not 0/8, 127/8, multicast, 240/4 or broadcast.
#[inline(always)]
fn is_host(addr: u32) -> bool {
    addr.wrapping_sub(1 << 24) < 223 << 24 && addr ^ 127 << 24 >= 1 << 24
}
