//! IPv6 packets as bytes, and the stations that send them.

use super::packets::ether;
use super::{EM0, EM1, Host};
use clock::Duration;
use linerate_inet::iface::IfaceId;
use linerate_inet::ip6::IfaceAddr6;
use linerate_inet::udp::Domain;
use linerate_inet::zone;
use lock::Locks;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use wire::checksum::Partial;
use wire::eth::{self, EtherType};
use wire::icmp6::{self, Inner, Message, Problem, nd};
use wire::ip6::{self, Chain};
use wire::{L4Port, Mac, Proto, tcp, udp};

/// A station on a link: a MAC address, a global and a link-local IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Six {
    pub mac: Mac,
    pub ip: Ipv6Addr,
    pub near: Ipv6Addr,
}

const fn six(link: u8, host: u8) -> Six {
    let (high, low) = (0xfd00 + link as u16, host as u16);
    Six {
        mac: Mac([2, 0, 0, 0, link, host]),
        ip: Ipv6Addr::new(high, 0, 0, 0, 0, 0, 0, low),
        near: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, (link as u16) << 8 | low),
    }
}

/// The host under test on its first link (fd00::/64) and on its second (fd01::/64), and the other
/// stations on these links.
pub const ME6: Six = six(0, 1);
pub const PEER6: Six = six(0, 2);
pub const OTHER6: Six = six(0, 3);
pub const MY6: Six = six(1, 1);
pub const FAR6: Six = six(1, 2);
/// Addresses that only the local route `::/0` covers.
pub const COVERED6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
pub const COVERED6_TOO: Ipv6Addr = Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 9);
/// An address that is reached through FAR6.
pub const BEYOND6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);

impl<L: Locks> Host<L> {
    /// Creates a host with `em0`, 10.0.0.1/24 and fd00::1/64, whose addresses are valid (not
    /// tentative).
    pub fn six() -> Self {
        Host::new().speaking(&[(EM0, ME6)])
    }

    /// Creates a router with `em0` and `em1`. PEER6 and FAR6 are known neighbors, and BEYOND6 is
    /// routed through FAR6.
    pub fn router6() -> Self {
        Host::router().made_router6()
    }

    /// Creates a router as [`Host::router6`] does, with buffers that have space for a large
    /// segment.
    pub fn roomy_router6() -> Self {
        Host::roomy_router(64).made_router6()
    }

    fn made_router6(self) -> Self {
        let h = self.speaking(&[(EM0, ME6), (EM1, MY6)]);
        h.stack.sysctls.forwarding6.set(1);
        h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
        h.stack.set_neighbor6(h.cx(), EM1, FAR6.ip, FAR6.mac);
        h.route6("2001:db8::/32", linerate_inet::route::Via6::Gateway(EM1, FAR6.ip));
        h.forget_counters();
        h
    }

    /// Creates a host as [`Host::six`] does, with PEER6 and PEER as known neighbors.
    pub fn six_and_neighbors() -> Self {
        let h = Host::six();
        h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
        h.stack.set_neighbor6(h.cx(), EM0, PEER6.near, PEER6.mac);
        h.knows(EM0, super::PEER);
        h.forget_counters();
        h
    }

    /// Creates a host as [`Host::six_and_neighbors`] does, which receives the packets for all
    /// addresses.
    pub fn of_all_addresses6() -> Self {
        let h = Host::six_and_neighbors();
        h.route6("::/0", linerate_inet::route::Via6::Local(linerate_inet::iface::LOOPBACK));
        h.forget_counters();
        h
    }

    fn speaking(self, all: &[(IfaceId, Six)]) -> Self {
        for (id, six) in all {
            self.stack.add_addr6(self.cx(), *id, IfaceAddr6::new(six.ip, 64)).unwrap();
        }
        self.advance_secs(2);
        all.iter().for_each(|(id, _)| drop(self.sent(*id)));
        self.forget_counters();
        self
    }

    pub fn route6(&self, prefix: &str, via: linerate_inet::route::Via6) {
        self.stack.add_route6(self.cx(), prefix.parse().unwrap(), via).unwrap();
    }

    /// Opens an IPv6 UDP socket.
    pub fn open6(&self) -> usize {
        self.stack.udp_open(self.cx(), Domain::Inet6).unwrap()
    }

    /// Opens an IPv6 UDP socket bound to `addr`.
    pub fn bound6(&self, addr: impl Into<SocketAddr>) -> usize {
        let id = self.open6();
        self.stack.udp_bind(self.cx(), id, addr.into()).unwrap();
        id
    }

    /// Returns the frames that `iface` sent, each of which must be an IPv6 packet.
    pub fn sent6(&self, iface: IfaceId) -> Vec<(eth::Header, ip6::Header, Vec<u8>)> {
        self.sent(iface).iter().map(|frame| ip6_of(frame)).collect()
    }

    /// Returns the only IPv6 packet that `iface` sent: link header, header, payload.
    #[track_caller]
    pub fn sent6_one(&self, iface: IfaceId) -> (eth::Header, ip6::Header, Vec<u8>) {
        ip6_of(&self.sent_one(iface))
    }

    /// Advances the time by a second, so that rate limits allow messages again.
    pub fn wait_a_second(&self) {
        self.advance(Duration::from_secs(1));
    }
}

/// Returns the unspecified address with a port.
pub fn any6(l4port: u16) -> SocketAddr {
    (Ipv6Addr::UNSPECIFIED, l4port).into()
}

/// Returns a link-local address on `em0` with a port.
pub fn near(addr: Ipv6Addr, l4port: u16) -> SocketAddr {
    SocketAddrV6::new(addr, l4port, 0, zone::scope_id(EM0)).into()
}

/// Builder of an IPv6 packet.
#[derive(Clone, Debug)]
pub struct Ip6 {
    pub header: ip6::Header,
    pub payload: Vec<u8>,
}

impl Ip6 {
    pub fn new(src: Ipv6Addr, dst: Ipv6Addr, next: Proto, payload: impl Into<Vec<u8>>) -> Ip6 {
        let payload = payload.into();
        let payload_len = payload.len() as u16;
        let header = ip6::Header { traffic_class: 0, flow_label: 0, payload_len, next, hop_limit: 64, src, dst };
        Ip6 { header, payload }
    }

    pub fn hops(mut self, hop_limit: u8) -> Ip6 {
        self.header.hop_limit = hop_limit;
        self
    }

    pub fn class(mut self, class: u8) -> Ip6 {
        self.header.traffic_class = class;
        self
    }

    /// Puts an extension header of this kind in front of the payload: at least 8 bytes, of which
    /// this function writes the first.
    pub fn with(mut self, proto: Proto, extension: &[u8]) -> Ip6 {
        let mut extension = extension.to_vec();
        extension[0] = self.header.next.0;
        self.payload = [extension, self.payload].concat();
        self.header.payload_len = self.payload.len() as u16;
        self.header.next = proto;
        self
    }

    /// Returns bytes `off..off+len` of the payload as a fragment.
    pub fn fragment(&self, id: u32, off: usize, len: usize) -> Ip6 {
        let end = (off + len).min(self.payload.len());
        let more = end < self.payload.len();
        let header = ip6::Fragment { offset: off as u16, more, id }.emit(self.header.next);
        let part = [&header, &self.payload[off..end]].concat();
        let Ip6 { header, .. } = Ip6::new(self.header.src, self.header.dst, Proto::FRAGMENT, part.clone());
        Ip6 { header, payload: part }
    }

    pub fn packet(&self) -> Vec<u8> {
        let mut out = vec![0; ip6::HEADER_LEN];
        self.header.emit(out.first_chunk_mut().unwrap());
        out.extend_from_slice(&self.payload);
        out
    }

    pub fn frame(&self, dst: Mac, src: Mac) -> Vec<u8> {
        ether(dst, src, EtherType::IPV6, &self.packet())
    }

    /// Returns the frame from one station to another on their link.
    pub fn between(&self, from: Six, to: Six) -> Vec<u8> {
        self.frame(to.mac, from.mac)
    }
}

pub fn icmp6(src: Ipv6Addr, dst: Ipv6Addr, emit: impl FnOnce(&mut [u8]) -> Option<usize>) -> Ip6 {
    let mut message = vec![0; 2000];
    let len = emit(&mut message).unwrap();
    message.truncate(len);
    Ip6::new(src, dst, Proto::IPV6_ICMP, message)
}

pub fn ping6(src: Ipv6Addr, dst: Ipv6Addr, payload: &[u8]) -> Ip6 {
    let mut message = vec![0; 8 + payload.len()];
    icmp6::emit_echo(icmp6::ty::ECHO_REQUEST, (7, 1), (src, dst), payload, &mut message).unwrap();
    Ip6::new(src, dst, Proto::IPV6_ICMP, message)
}

/// Returns a UDP datagram with its checksum.
pub fn udp6(src: (Ipv6Addr, u16), dst: (Ipv6Addr, u16), payload: &[u8]) -> Ip6 {
    let header = udp::Header { src: L4Port(src.1), dst: L4Port(dst.1), len: 8 + payload.len() as u16, checksum: 0 };
    let pseudo = Partial::pseudo6(src.0, dst.0, Proto::UDP, header.len.into());
    let mut datagram = vec![0; 8];
    header.with_checksum(pseudo, payload).emit(datagram.first_chunk_mut().unwrap());
    datagram.extend_from_slice(payload);
    Ip6::new(src.0, dst.0, Proto::UDP, datagram)
}

/// Returns a TCP segment with its checksum: a SYN, modified by `change`.
pub fn tcp6(
    src: (Ipv6Addr, u16),
    dst: (Ipv6Addr, u16),
    change: impl FnOnce(&mut tcp::Header),
    options: &[u8],
    text: &[u8],
) -> Ip6 {
    let mut header = tcp::Header {
        src: L4Port(src.1),
        dst: L4Port(dst.1),
        seq: 1000,
        ack: 0,
        header_len: tcp::HEADER_LEN + options.len(),
        flags: tcp::Flags::SYN,
        window: 1000,
        checksum: 0,
        urgent: 0,
    };
    change(&mut header);
    let mut segment = vec![0; tcp::HEADER_LEN];
    header.emit(segment.first_chunk_mut().unwrap());
    segment.extend_from_slice(options);
    segment.extend_from_slice(text);
    tcp::fill_checksum(Partial::pseudo6(src.0, dst.0, Proto::TCP, segment.len() as u32), &mut segment);
    Ip6::new(src.0, dst.0, Proto::TCP, segment)
}

/// Parses the TCP segment in a sent IPv6 packet and checks its checksum: header, options, data.
#[track_caller]
pub fn tcp6_of(header: &ip6::Header, payload: &[u8]) -> (tcp::Header, Vec<u8>, Vec<u8>) {
    assert_eq!(header.next, Proto::TCP);
    let segment = tcp::Header::parse(payload).unwrap();
    let pseudo = Partial::pseudo6(header.src, header.dst, Proto::TCP, payload.len() as u32);
    assert!(tcp::checksum_ok(pseudo, payload), "{header:?}");
    let (options, text) = payload[tcp::HEADER_LEN..].split_at(segment.header_len - tcp::HEADER_LEN);
    (segment, options.to_vec(), text.to_vec())
}

/// Parses the UDP datagram in a sent IPv6 packet and checks its checksum.
#[track_caller]
pub fn udp6_of(header: &ip6::Header, payload: &[u8]) -> (udp::Header, Vec<u8>) {
    assert_eq!(header.next, Proto::UDP);
    let datagram = udp::Header::parse(payload).unwrap();
    let pseudo = Partial::pseudo6(header.src, header.dst, Proto::UDP, datagram.len.into());
    assert!(datagram.checksum != 0 && udp::checksum_ok(pseudo, payload), "{header:?}");
    (datagram, datagram.payload(payload).to_vec())
}

pub fn error6(src: Ipv6Addr, dst: Ipv6Addr, problem: Problem, quoted: &[u8]) -> Ip6 {
    icmp6(src, dst, |out| icmp6::emit_error(problem, (src, dst), quoted, out))
}

/// Returns a neighbor solicitation with the hop limit that it must have.
pub fn solicit(src: Ipv6Addr, dst: Ipv6Addr, target: Ipv6Addr, link: Option<Mac>) -> Ip6 {
    icmp6(src, dst, |out| nd::emit_solicit(target, link, (src, dst), out)).hops(255)
}

pub fn advert(src: Ipv6Addr, dst: Ipv6Addr, advert: nd::Advert, link: Option<Mac>) -> Ip6 {
    icmp6(src, dst, |out| nd::emit_advert(advert, link, (src, dst), out)).hops(255)
}

/// Returns the frame with a solicitation that is sent to the solicited-node group of `target`.
pub fn asks(from: Six, target: Ipv6Addr) -> Vec<u8> {
    let group = ip6::solicited_node(target);
    solicit(from.ip, group, target, Some(from.mac)).frame(Mac::multicast6(group), from.mac)
}

/// Parses the IPv6 packet in a frame.
pub fn ip6_of(frame: &[u8]) -> (eth::Header, ip6::Header, Vec<u8>) {
    let link = eth::Header::parse(frame).unwrap();
    assert_eq!(link.ethertype, EtherType::IPV6, "{}", super::packets::line(frame));
    let header = ip6::Header::parse(&frame[eth::HEADER_LEN..]).unwrap();
    (link, header, header.payload(&frame[eth::HEADER_LEN..]).to_vec())
}

/// Parses the ICMPv6 error in a sent packet: the problem that it reports, and the packet that it
/// quotes.
#[track_caller]
pub fn error_of(header: &ip6::Header, payload: &[u8]) -> (Problem, Vec<u8>) {
    match Message::parse(payload, header.src, header.dst) {
        Ok(Message::Error { problem, inner }) => {
            assert!(Inner::parse(&payload[8..]).is_ok() && inner.payload.len() >= 8);
            assert!(ip6::HEADER_LEN + payload.len() <= icmp6::MAX_ERROR);
            (problem, payload[8..].to_vec())
        }
        other => panic!("{other:?}"),
    }
}

/// Parses the header chain of a sent packet.
pub fn chain_of(header: &ip6::Header, payload: &[u8]) -> Chain {
    let mut packet = vec![0; ip6::HEADER_LEN];
    header.emit(packet.first_chunk_mut().unwrap());
    packet.extend_from_slice(payload);
    Chain::walk(header, &packet).unwrap()
}
