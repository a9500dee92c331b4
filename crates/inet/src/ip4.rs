//! Slow path of IPv4 input, for packets that the fast path in [`crate::ip`] does not accept. It
//! passes them to `udp`, `tcp`, `icmp4`, `igmp`, a tunnel, or `ip4::forward`.
//!
//! Each packet is delivered, forwarded, held as a fragment, or dropped. The checks follow RFC 1122
//! 3.2.1 and RFC 1812 5.2. Packets with a source route option are dropped.

mod forward;
pub mod frag;
pub(crate) mod ident;
mod input;
pub(crate) mod outgoing;
pub(crate) mod output;
pub mod pmtu;
pub mod reass;

pub use crate::ip::exit::OutputError;
pub(crate) use outgoing::Outgoing;

use crate::Stack;
use crate::ends::Domain;
use crate::icmp4::Cause;
use crate::iface::Iface;
use crate::route::Via;
use buf::{Burst, Flags, Frame};
use fib::NextHopId;
use lock::{Cx, Locks};
use reass::{Expired, Outcome};
use stats::{DropReason, Lap, Stage};
use std::net::Ipv4Addr;
use wire::ip4::{self, Opt};
use wire::{Malformed, Proto};

/// Class of the destination address of a packet that passed the checks.
enum Destination {
    /// A unicast address. The FIB determines whether it is an address of this host.
    Unicast,
    /// 255.255.255.255: all hosts on the link.
    Broadcast,
    /// A multicast group.
    Multicast,
}

/// Returns whether a packet may be from a station that has no address yet and requests one from a
/// DHCP server: UDP from 0.0.0.0 to 255.255.255.255 (RFC 1122 3.2.1.3, RFC 2131 4.1).
pub(crate) fn requests_address(src: Ipv4Addr, dst: Ipv4Addr, proto: Proto) -> bool {
    src.is_unspecified() && dst.is_broadcast() && proto == Proto::UDP
}

impl<L: Locks> Stack<L> {
    /// Delivers, forwards or drops the packets of a chunk with several next hops. Consecutive
    /// packets with the same next hop are processed together. `udp` contains the UDP datagrams for
    /// this host that were already found; they are delivered last.
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
            run.put(packet, || self.count_bug(cx)); // cannot overflow: contains only packets of one chunk
        }
        self.ip4_run(cx, iface, &mut run, way, &mut udp);
        lap.mark(Stage::Ip4Forward, n);
        let n = udp.len() as u64;
        self.udp_input::<u32>(cx, iface, &mut udp);
        lap.mark(Stage::Demux, n);
    }

    /// Delivers, forwards or drops packets that all have the next hop `way`. UDP datagrams for this
    /// host are added to `udp`.
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
                // A directed broadcast may arrive in a unicast frame. It is a broadcast because of
                // its destination address, so it is marked here.
                packet.set_flags(packet.flags().with(Flags::LINK_BROADCAST));
            }
            match ip4::Header::parse(packet.bytes()) {
                Ok(header) => self.ip4_deliver(cx, iface, packet, &header, udp),
                Err(_) => self.drop_frame(cx, packet, DropReason::Ip4Malformed),
            }
        }
    }

    /// Checks a packet (RFC 1122 3.2.1, RFC 1812 5.2.2) and removes the padding of the link layer.
    /// Returns the header and the destination class, or the reason to drop the packet.
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
            // 0/8, 127/8, multicast, 240/4 and broadcast are not valid sources (RFC 1812 5.3.7).
            let first = src >> 24;
            let requests_address = requests_address(header.src, header.dst, header.proto);
            if (first == 0 || first == 127 || first >= 224) && !requests_address {
                return Err(DropReason::Ip4MartianSource);
            }
            // A packet from a link cannot have one of our addresses or a broadcast address as its
            // source (LAND and La Tierra attacks). A DHCP request is exempt, since a local route
            // may make its source 0.0.0.0 an address of this host.
            if src == dst || !requests_address && self.own.now().may_have(src) && self.is_own(cx, header.src) {
                return Err(DropReason::Ip4OwnSource);
            }
            if !requests_address && !self.is_valid_source(cx, iface.id, src) {
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

    /// Checks the options (RFC 1122 3.2.1.8, RFC 7126). A packet with malformed options or a source
    /// route is dropped; other options are ignored. An ICMP error about malformed options is sent
    /// if the packet is for us or would be forwarded (RFC 1812 4.3.3.5, RFC 1122 3.2.2.5).
    #[cold]
    fn check_options(&self, cx: Cx, header: &ip4::Header, packet: &Frame) -> Result<(), DropReason> {
        if let Err(fault) = ip4::check_options(packet.bytes().get(..header.ihl_len).unwrap_or_default()) {
            if self.sysctls.forwarding.on() || self.is_own(cx, header.dst) {
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
            self.punt_or_drop(cx, iface, packet, DropReason::Ip4NotMember);
        }
    }

    /// Passes a packet for this host to its protocol; fragments are reassembled first. UDP
    /// datagrams are collected in `udp`, to be processed as a burst.
    fn ip4_deliver(&self, cx: Cx, iface: Option<&Iface<L>>, mut packet: Frame, header: &ip4::Header, udp: &mut Burst) {
        let group = header.dst.is_multicast() || header.dst.is_broadcast();
        if packet.flags().has(Flags::LINK_BROADCAST) && !group && !self.is_broadcast(cx, header.dst) {
            return self.drop_frame(cx, packet, DropReason::Ip4LinkBroadcast);
        }
        let whole;
        let header = match header.is_fragment() {
            false => header,
            true => match self.ip4_reassemble(cx, header, packet) {
                Some(put_together) => {
                    (packet, whole) = put_together;
                    &whole
                }
                None => return,
            },
        };
        self.count(cx).ip4.delivered.bump();
        if self.raw.has(Domain::Inet, header.proto) {
            self.raw_input(cx, iface, &packet, header);
        }
        match header.proto {
            Proto::UDP => {
                if let Err(packet) = udp.push(packet) {
                    self.drop_frame(cx, packet, DropReason::UdpBufferFull); // not reached: more space than a chunk
                }
            }
            Proto::TCP => self.tcp_input::<u32>(cx, iface, &mut Burst::of(packet)),
            Proto::ICMP => self.icmp4_input(cx, iface, packet, header),
            Proto::IGMP => self.igmp_input(cx, iface, packet, header),
            Proto::IPIP | Proto::IPV6 | Proto::GRE | Proto::ETHERIP => {
                if let Some(packet) = self.tunnel_input(cx, packet, header) {
                    self.unknown_protocol(cx, iface, packet, header.proto);
                }
            }
            proto => self.unknown_protocol(cx, iface, packet, proto),
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

    /// Returns whether `dst` is 255.255.255.255 or the broadcast address of one of our links.
    pub(crate) fn is_broadcast(&self, cx: Cx, dst: Ipv4Addr) -> bool {
        dst.is_broadcast() || matches!(self.ways.lookup(cx, dst).map(|hop| hop.via), Some(Via::Broadcast(_)))
    }
}
