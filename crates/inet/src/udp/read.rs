//! Reading of datagrams from the sockets' queues.
//!
//! A datagram is returned as its [`Frame`] or as a copy of its payload. A peek copies it and leaves
//! it in the queue. The sender is read from the headers, which are still in front of the payload.
//! IPv4 headers include their options. IPv6 headers are without extension headers and contain the
//! number of the receiving interface instead of the payload length ([`strip6`]).

use super::ancillary::{NOTE, UNKNOWN};
use super::{Ancillary, Domain, PacketInfo, Reception};
use crate::Stack;
use crate::family::cut_extensions;
use crate::iface::IfaceId;
use crate::zone;
use buf::{Burst, Frame};
use lock::{Cx, Locks};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use wire::{L4Port, Proto, ip4, ip6};

/// A datagram removed from a socket's queue.
#[derive(Debug)]
pub struct Received {
    /// Payload of the datagram. The frame begins with its first byte, and the headers are in the
    /// headroom.
    pub frame: Frame,
    /// Source address and port, in the form of the socket's domain.
    pub from: SocketAddr,
    /// Destination address in the packet.
    pub to: IpAddr,
    /// Receiving interface. For IPv4, it is present only if the socket requests it
    /// ([`PacketInfo`]).
    pub iface: Option<IfaceId>,
    /// Time to live or hop limit of the received datagram.
    pub ttl: u8,
    /// Type of service or traffic class of the received datagram.
    pub tos: u8,
    pub(crate) reception: Reception,
    /// True if the queue contains another datagram. If it is false, the pollers of the socket are
    /// notified when the next datagram arrives.
    pub more: bool,
}

impl Received {
    /// Returns the ancillary data that the socket requests.
    pub fn ancillary(&self) -> Ancillary {
        let info = PacketInfo { addr: self.to, iface: self.iface };
        Ancillary {
            info: self.reception.has(Reception::INFO).then_some(info),
            ttl: self.reception.has(Reception::TTL).then_some(self.ttl),
            tos: self.reception.has(Reception::TOS).then_some(self.tos),
        }
    }
}

/// Result of [`Stack::udp_recv_into`](crate::Stack::udp_recv_into).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// A datagram, removed from the queue.
    Datagram {
        /// Number of bytes copied. If the datagram is longer, its rest is discarded.
        copied: usize,
        /// Source address of the datagram.
        from: Sender,
    },
    /// There is no datagram, error or end of input, and the socket is nonblocking.
    Nothing,
    /// Any other case: the socket does not exist, the caller must block, an error is pending, or
    /// input has ended.
    Other,
}

/// Sender of a datagram. This type is smaller than a [`SocketAddr`], whose 32 bytes should be
/// written only once, directly to the destination. Addresses are integers, because reading an
/// address as words after writing it as bytes would stall.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// IPv4 address and port.
    V4(u32, L4Port),
    /// IPv6 address, port and scope id; a scope id of 0 means none.
    V6(u128, L4Port, u32),
}

impl Sender {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn shown(self, domain: Domain) -> Sender {
        match self {
            Sender::V4(addr, port) if domain == Domain::Inet6 => {
                Sender::V6(Ipv4Addr::from_bits(addr).to_ipv6_mapped().to_bits(), port, 0)
            }
            shown => shown,
        }
    }
}

impl From<Sender> for SocketAddr {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn from(sender: Sender) -> SocketAddr {
        match sender {
            Sender::V4(addr, port) => SocketAddrV4::new(Ipv4Addr::from_bits(addr), port.0).into(),
            Sender::V6(addr, port, scope_id) => {
                SocketAddrV6::new(Ipv6Addr::from_bits(addr), port.0, 0, scope_id).into()
            }
        }
    }
}

/// Returns the sender of a received datagram in the form that a socket of `domain` uses.
#[inline(always)]
pub fn sender(frame: &Frame, domain: Domain) -> Option<Sender> {
    Some(ends(frame)?.from.shown(domain))
}

/// Returns the source and destination port of a datagram, which may be truncated.
pub(super) fn ports(quoted: &[u8]) -> Option<(L4Port, L4Port)> {
    let &[s0, s1, d0, d1] = quoted.first_chunk::<4>()?;
    Some((L4Port(u16::from_be_bytes([s0, s1])), L4Port(u16::from_be_bytes([d0, d1]))))
}

/// Values read from the headers in front of a datagram's payload.
pub(crate) struct Headers {
    pub(super) from: Sender,
    pub(super) to: IpAddr,
    ttl: u8,
    tos: u8,
    /// Number of the receiving interface, from the IP header's length field. An IPv6 header always
    /// contains it there, an IPv4 header only if the socket requests it.
    pub(super) noted: IfaceId,
}

#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn ends(frame: &Frame) -> Option<Headers> {
    let Some(headers) = frame.headers::<PLAIN4>() else {
        return ends6(frame).or_else(|| ends_otherwise(frame));
    };
    let &[_, tos, n0, n1, _, _, _, _, ttl, .., s0, s1, s2, s3, d0, d1, d2, d3, p0, p1, _, _, _, _, _, _] = headers;
    let from = Sender::V4(u32::from_be_bytes([s0, s1, s2, s3]), L4Port(u16::from_be_bytes([p0, p1])));
    let noted = IfaceId(u16::from_be_bytes([n0, n1]));
    Some(Headers { from, to: Ipv4Addr::new(d0, d1, d2, d3).into(), ttl, tos, noted })
}

/// Parses the headers in front of an IPv6 payload.
#[inline(always)]
fn ends6(frame: &Frame) -> Option<Headers> {
    let headers = frame.headers::<PLAIN6>()?;
    let (ip, port) = (ip6::HeaderView::of(headers)?, headers.get(ip6::HEADER_LEN..)?.first_chunk()?);
    Some(headers6(ip, L4Port(u16::from_be_bytes(*port))))
}

#[inline(always)]
fn headers6(ip: ip6::HeaderView, port: L4Port) -> Headers {
    let noted = IfaceId(ip.payload_len());
    let scope_id = if ip6::is_link_local(Ipv6Addr::from_bits(ip.src)) { zone::scope_id(noted) } else { 0 };
    let (from, to) = (Sender::V6(ip.src, port, scope_id), Ipv6Addr::from_bits(ip.dst).into());
    Headers { from, to, ttl: ip.hop_limit(), tos: ip.traffic_class(), noted }
}

/// Parses the headers of IPv4 packets with options, and of packets for raw and ICMP sockets, which
/// have no ports.
#[inline(never)]
fn ends_otherwise(frame: &Frame) -> Option<Headers> {
    let (packet, pulled) = (frame.l3_bytes(), frame.l3_bytes().len() - frame.len());
    if pulled == NOTE {
        let header = ip4::HeaderView::of(frame.bytes())?;
        let from = Sender::V4(header.src().to_bits(), L4Port(0));
        let noted = IfaceId(u16::from_be_bytes(*packet.first_chunk()?));
        return Some(Headers { from, to: header.dst().into(), ttl: header.ttl(), tos: header.tos(), noted });
    }
    if let Some(ip) = ip6::HeaderView::of(packet) {
        let port = packet.get(ip6::HEADER_LEN..)?.first_chunk().filter(|_| pulled > ip6::HEADER_LEN);
        return Some(headers6(ip, L4Port(port.map_or(0, |port| u16::from_be_bytes(*port)))));
    }
    let header = packet.first_chunk::<20>()?;
    let ihl = usize::from(header[0] & 0xf) * 4;
    let port = match pulled > ihl {
        true => L4Port(u16::from_be_bytes(*packet.get(ihl..)?.first_chunk::<2>()?)),
        false => L4Port(0),
    };
    let from = Sender::V4(u32::from_be_bytes([header[12], header[13], header[14], header[15]]), port);
    let to = Ipv4Addr::new(header[16], header[17], header[18], header[19]).into();
    let noted = IfaceId(u16::from_be_bytes([header[2], header[3]]));
    Some(Headers { from, to, ttl: header[8], tos: header[1], noted })
}

/// Total length in bytes of an IPv4 header without options and a UDP header.
pub(super) const PLAIN4: usize = ip4::HEADER_LEN + wire::udp::HEADER_LEN;
/// Total length in bytes of an IPv6 header without extension headers and a UDP header.
pub(super) const PLAIN6: usize = ip6::HEADER_LEN + wire::udp::HEADER_LEN;

/// Removes the extension headers of an IPv6 packet and pulls its headers. The upper-layer packet of
/// protocol `proto` is at offset `at` and is `len` bytes long; its first `pulled` bytes are pulled
/// too. The pulled bytes stay in front of the payload, after an IPv6 header whose length field
/// contains the number of the receiving interface. Returns `false` if the packet cannot be
/// modified.
pub(crate) fn strip6(
    packet: &mut Frame,
    header: &ip6::Header,
    (proto, at): (Proto, usize),
    len: usize,
    pulled: usize,
    iface: IfaceId,
) -> bool {
    let cut = cut_extensions(packet, header, proto, at, len) && packet.make_own();
    let place = packet.bytes_mut().get_mut(4..6).map(|place| place.copy_from_slice(&iface.0.to_be_bytes()));
    cut && place.is_some() && packet.pull(ip6::HEADER_LEN + pulled)
}

impl<L: Locks> Stack<L> {
    /// Removes the next datagram of socket `id` and copies it into `into`, as `recvfrom` does.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn udp_recv_into(&self, cx: Cx, id: usize, into: &mut [u8]) -> Read {
        let Some(place) = self.pcbs.get(id) else { return Read::Other };
        let mut slot = place.lock(cx);
        let Some(pcb) = slot.as_mut() else { return Read::Other };
        let Some(frame) = pcb.dequeue() else {
            return if pcb.nonblocking && !pcb.is_readable() { Read::Nothing } else { Read::Other };
        };
        let domain = pcb.domain();
        drop(slot);
        let counters = self.count(cx);
        counters.audit.consumed.bump();
        counters.udp.copied_out.bump();
        let Some(from) = sender(&frame, domain) else { return Read::Other };
        wire::checksum::copy(into, frame.bytes());
        Read::Datagram { copied: frame.len().min(into.len()), from }
    }

    /// Removes and returns the next datagram of socket `id`. Returns `None` if no datagram is
    /// queued or the socket does not exist.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn udp_recv(&self, cx: Cx, id: usize) -> Option<Received> {
        let mut slot = self.pcbs.get(id)?.lock(cx);
        let pcb = slot.as_mut()?;
        let frame = pcb.dequeue()?;
        let (more, domain, reception) = (pcb.peek().is_some(), pcb.domain(), pcb.reception);
        drop(slot);
        self.count(cx).audit.consumed.bump();
        let Headers { from, to, ttl, tos, noted } = ends(&frame)?;
        let is_noted = noted != UNKNOWN && (to.is_ipv6() || reception.has(Reception::INFO));
        let iface = is_noted.then_some(noted);
        Some(Received { frame, from: from.shown(domain).into(), to, iface, ttl, tos, more, reception })
    }

    /// Moves up to `most` datagrams of socket `id` into `into` under one lock, as far as they fit.
    /// Returns the number of datagrams moved.
    pub fn udp_recv_burst(&self, cx: Cx, id: usize, most: usize, into: &mut Burst) -> usize {
        let Some(slot) = self.pcbs.get(id) else { return 0 };
        let mut slot = slot.lock(cx);
        let Some(pcb) = slot.as_mut() else { return 0 };
        let mut taken = 0;
        while taken < most.min(into.room() + taken) {
            let Some(frame) = pcb.dequeue() else { break };
            taken += 1;
            into.put(frame, || {
                taken -= 1;
                self.count_bug(cx);
            });
        }
        drop(slot);
        self.count(cx).audit.consumed.add(taken as u64);
        taken
    }

    /// Copies from the next datagram of socket `id` without removing it. Returns the number of
    /// bytes copied, the length of the datagram, and its sender.
    pub fn udp_peek(&self, cx: Cx, id: usize, into: &mut [u8]) -> Option<(usize, usize, SocketAddr)> {
        let slot = self.pcbs.get(id)?.lock(cx);
        let pcb = slot.as_ref()?;
        let frame = pcb.peek()?;
        let n = frame.len().min(into.len());
        for (to, from) in into.iter_mut().zip(frame.bytes()) {
            *to = *from;
        }
        Some((n, frame.len(), sender(frame, pcb.domain())?.into()))
    }
}
