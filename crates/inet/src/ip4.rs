//! IPv4 input: from `link::ether` (or the loopback queue) to `udp`, `icmp4`, `igmp`, or `ip4::forward`.
//!
//! Packets arrive with the link header pulled, up to a chunk at a time, and each ends as a delivery, a forward, a held
//! fragment, or a drop. Checks follow RFC 1122 3.2.1 and RFC 1812 5.2. Source routes are dropped, not followed. One FIB
//! lookup decides between "ours" and "onward": a host's own addresses are routes.

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
use crate::iface::Iface;
use crate::route::{Hop, Via};
use crate::stack::{CHUNK, Odd, OwnFilter};
use buf::{Burst, Flags, Frame};
use lock::{Cx, Locks};
use reass::{Expired, Outcome};
use stats::{DropReason, Lap, Stage};
use std::net::Ipv4Addr;
use wire::ip4::{self, Opt};
use wire::{Mac, Malformed, Proto, eth};

/// Which protocol a chunk has, if it has but one: told by two instructions a packet.
#[derive(Clone, Copy)]
struct OneProto {
    first: u8,
    differs: u8,
}

impl OneProto {
    /// `link`: bytes in front of their headers.
    #[inline(always)]
    fn of(packets: &[Frame], link: usize) -> OneProto {
        let header = packets.first().and_then(|packet| ip4::Glance::of(packet.bytes().get(link..)?));
        OneProto { first: header.map_or(0, |header| header.proto().0), differs: 0 }
    }

    #[inline(always)]
    fn note(&mut self, proto: Proto) {
        self.differs |= proto.0 ^ self.first;
    }

    #[inline(always)]
    fn is(self, proto: Proto) -> bool {
        self.differs == 0 && self.first == proto.0
    }
}

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
    /// Takes up to a chunk of packets. `iface`: where they came from; `None` for loopback.
    pub(crate) fn ip4_input(&self, cx: Cx, iface: Option<&Iface<L>>, packets: &mut Burst, lap: Lap<'_>) {
        self.ip4_input_behind(cx, iface, None, packets, lap);
    }

    /// Takes up to a chunk of frames as they came from the port `iface`: `link::ether`'s question and this layer's are asked of a frame
    /// together, and what it is without its link header is written once: a routed frame takes a sixth less time for it. Sources are not
    /// validated here.
    pub(crate) fn ip4_input_framed(&self, cx: Cx, iface: &Iface<L>, frames: &mut Burst, lap: Lap<'_>) {
        self.ip4_input_behind(cx, Some(iface), Some(iface.mac), frames, lap);
    }

    /// `station`: the packets are in Ethernet frames still, those for us are for this station.
    #[inline(always)]
    fn ip4_input_behind(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        station: Option<Mac>,
        packets: &mut Burst,
        lap: Lap<'_>,
    ) {
        let n = packets.len().min(CHUNK);
        if n == 0 {
            return;
        }
        let counters = self.count(cx);
        let trusted = iface.is_none_or(|iface| iface.offload().rx);
        let own = if iface.is_some() { self.own.now() } else { OwnFilter::NONE };
        let (mut dst, mut odd) = ([0; CHUNK], Odd::default());
        let mut proto = OneProto::of(packets.as_slice(), station.map_or(0, |_| eth::HEADER_LEN));
        for (at, (packet, dst)) in packets.as_mut_slice().iter_mut().zip(&mut dst).enumerate() {
            match plain(packet, station, trusted, own) {
                Some(header) => {
                    proto.note(header.proto());
                    *dst = header.dst().to_bits();
                }
                None => odd.add(at),
            }
        }
        if let Some(iface) = iface.filter(|_| station.is_none() && self.knobs.source_validation.on()) {
            odd = odd.or(self.doubtful_sources(cx, iface, packets));
        }
        if odd.any() {
            counters.ip4.received.add((n - odd.count()) as u64);
            return self.ip4_input_mixed(cx, iface, station.is_some(), packets, odd, lap);
        }
        counters.ip4.received.add(n as u64);
        lap.mark(Stage::Ip4Input, n as u64);
        let mut ids = [None; CHUNK];
        let pinned = self.ways.pin(cx); // what `ids` stand for stays it until the chunk is dealt with
        let mut common = self.ways.lookup_chunk(&pinned, dst.get(..n).unwrap_or_default(), &mut ids);
        if self.ways.has_paths() {
            common = self.choose_paths::<u32>(cx, &pinned, packets, &mut ids);
        }
        match common.map(|hop| (hop.via, hop)) {
            Some((Via::Local(_), _)) if proto.is(Proto::UDP) && !self.raw.has_transport4() => {
                counters.ip4.delivered.add(n as u64);
                lap.mark(Stage::Ip4Forward, n as u64);
                self.udp_input(cx, iface, packets);
                lap.mark(Stage::Demux, n as u64);
            }
            Some((Via::Local(_), _)) if proto.is(Proto::TCP) && !self.raw.has_transport4() => {
                counters.ip4.delivered.add(n as u64);
                lap.mark(Stage::Ip4Forward, n as u64);
                self.tcp_input(cx, iface, packets);
                lap.mark(Stage::Demux, n as u64);
            }
            Some((Via::Gateway(..) | Via::Link(_), hop)) => {
                self.ip4_forward(cx, iface, packets, Some(&hop));
                lap.mark(Stage::Ip4Forward, n as u64);
            }
            None => {
                let passed = self.forward_through_gateways(cx, iface, packets, &ids, &pinned);
                lap.mark(Stage::Ip4Forward, passed as u64);
                if passed < n {
                    self.ip4_route(cx, iface, packets, ids.get(passed..).unwrap_or_default(), Burst::new(), lap);
                }
            }
            _ => self.ip4_route(cx, iface, packets, &ids, Burst::new(), lap),
        }
    }

    /// Takes one packet that came by itself.
    pub(crate) fn ip4_input_one(&self, cx: Cx, iface: &Iface<L>, mut packet: Frame, lap: Lap<'_>) {
        let counters = self.count(cx);
        let header = plain(&mut packet, None, iface.offload().rx, self.own.now());
        let Some(header) = header.filter(|header| self.source_is_valid(cx, iface.id, header.src())) else {
            return self.ip4_input_mixed(cx, Some(iface), false, &mut Burst::of(packet), Odd::FIRST, lap);
        };
        counters.ip4.received.bump();
        lap.mark(Stage::Ip4Input, 1);
        let pinned = self.ways.pin(cx);
        let hop = self.way_to(cx, &pinned, header.dst().to_bits());
        let hop = hop.and_then(|hop| self.choose_path::<u32>(cx, &pinned, hop, &packet));
        match hop {
            Some(Hop { via: Via::Local(_), .. })
                if matches!(header.proto(), Proto::TCP | Proto::UDP) && !self.raw.has_transport4() =>
            {
                counters.ip4.delivered.bump();
                lap.mark(Stage::Ip4Forward, 1);
                match header.proto() {
                    Proto::TCP => self.tcp_input_one::<u32>(cx, iface, packet, None),
                    _ => self.udp_input_one(cx, iface, packet),
                }
                lap.mark(Stage::Demux, 1);
            }
            Some(hop @ Hop { via: Via::Gateway(..) | Via::Link(_), .. }) => {
                self.ip4_forward(cx, Some(iface), &mut Burst::of(packet), Some(&hop));
                lap.mark(Stage::Ip4Forward, 1);
            }
            _ => {
                let id = hop.map(|hop| hop.id);
                self.ip4_route(cx, Some(iface), &mut Burst::of(packet), &[id], Burst::new(), lap);
            }
        }
    }

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
        let lost = || self.count_bug(cx);
        odd.sort(packets, lost, |mut packet| {
            if let Some(iface) = iface.filter(|_| framed) {
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
        self.udp_input(cx, iface, &mut udp);
        lap.mark(Stage::Demux, n);
    }

    /// Packets with the same next hop: here, onward, or nowhere.
    fn ip4_run(&self, cx: Cx, iface: Option<&Iface<L>>, run: &mut Burst, way: Option<NextHopId>, udp: &mut Burst) {
        if run.is_empty() {
            return;
        }
        let hop = way.and_then(|id| self.ways.hop(&self.ways.pin(cx), id));
        if !matches!(hop.map(|hop| hop.via), Some(Via::Local(_) | Via::Broadcast(_))) {
            return self.ip4_forward(cx, iface, run, hop.as_ref());
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
            Proto::TCP => self.tcp_input(cx, iface, &mut Burst::of(packet)),
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

/// The longest packet that a link sees of this one: itself, or the pieces that a large segment is cut into.
#[inline(always)]
fn link_len(packet: &Frame) -> usize {
    if packet.flags().has(Flags::GSO) { piece_len(packet) } else { packet.len() }
}

#[cold]
fn piece_len(packet: &Frame) -> usize {
    let headers = |bytes: &[u8]| {
        let ihl = ip4::Glance::of(bytes)?.ihl_len();
        Some(ihl + wire::tcp::Header::parse(bytes.get(ihl..)?).ok()?.header_len)
    };
    match (packet.gso_size(), headers(packet.bytes())) {
        (Some(size), Some(headers)) => packet.len().min(headers + usize::from(size)),
        _ => packet.len(),
    }
}

/// Is this what nearly every packet is: whole, without options, its checksum good, from a host to a host (and its frame from some other
/// station to `station`, if it is in one)? Cuts link header and padding off. For what it does not let through [`Stack::ether_odd`] and
/// [`Stack::ip4_check`] have the last word, and the reason.
#[inline(always)]
fn plain(packet: &mut Frame, station: Option<Mac>, trusted: bool, own: OwnFilter) -> Option<ip4::Glance> {
    let bytes = match station {
        None => packet.bytes().first_chunk::<{ ip4::HEADER_LEN }>()?.as_slice(),
        Some(mac) => {
            let headers = packet.bytes().first_chunk::<{ eth::HEADER_LEN + ip4::HEADER_LEN }>()?;
            headers.get(eth::HEADER_LEN..).filter(|_| eth::is_ip4_between(headers, mac))?
        }
    };
    let header = ip4::Glance::of(bytes)?;
    let len = usize::from(header.total_len());
    let (src, dst) = (header.src().to_bits(), header.dst().to_bits());
    let flags = packet.flags();
    // Upwards `open_link` checks what is in a frame.
    let fits = len >= ip4::HEADER_LEN && (station.is_some() || len <= packet.len());
    let sound = (trusted && flags.has(Flags::RX_IP_OK)) || header.checksum_ok();
    let plain = header.is_plain() && fits && sound && is_host(src) && is_host(dst) && src != dst && !own.may_have(src);
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
    opened.then_some(header)
}

/// Not 0/8, 127/8, multicast, 240/4 or broadcast.
#[inline(always)]
fn is_host(addr: u32) -> bool {
    addr.wrapping_sub(1 << 24) < 223 << 24 && addr ^ 127 << 24 >= 1 << 24
}
