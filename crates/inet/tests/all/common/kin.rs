//! Tests that run for both families: stations, packets to the host, and packets that the host sent,
//! by family.

use super::packets::{Ip, ether, ip_of};
use super::six::{Ip6, ME6, OTHER6, PEER6, ip6_of};
use super::{EM0, Host, ME, OTHER, PEER};
use linerate_inet::udp::Domain;
use lock::Locks;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::checksum::{self, Partial};
use wire::eth::EtherType;
use wire::{L4Port, Proto, icmp4, icmp6, udp};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kin {
    Four,
    Six,
}

pub const BOTH: [Kin; 2] = [Kin::Four, Kin::Six];

impl Kin {
    pub fn pick<T>(self, four: T, six: T) -> T {
        if self == Kin::Four { four } else { six }
    }

    pub fn domain(self) -> Domain {
        self.pick(Domain::Inet, Domain::Inet6)
    }

    pub fn me(self) -> IpAddr {
        self.pick(ME.ip.into(), ME6.ip.into())
    }

    pub fn peer(self) -> IpAddr {
        self.pick(PEER.ip.into(), PEER6.ip.into())
    }

    pub fn other(self) -> IpAddr {
        self.pick(OTHER.ip.into(), OTHER6.ip.into())
    }

    pub fn any(self) -> IpAddr {
        self.pick(Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into())
    }

    pub fn icmp(self) -> Proto {
        self.pick(Proto::ICMP, Proto::IPV6_ICMP)
    }

    /// Returns the ICMP type of an echo request.
    pub fn request(self) -> u8 {
        self.pick(icmp4::ty::ECHO_REQUEST, icmp6::ty::ECHO_REQUEST)
    }

    /// Returns the ICMP type of an echo reply.
    pub fn reply(self) -> u8 {
        self.pick(icmp4::ty::ECHO_REPLY, icmp6::ty::ECHO_REPLY)
    }

    /// Returns a packet from PEER to this host.
    pub fn packet(self, proto: Proto, payload: impl Into<Vec<u8>>) -> Pkt {
        Pkt { src: self.peer(), dst: self.me(), proto, ttl: 64, tos: 0, payload: payload.into() }
    }

    pub fn udp(self, sport: u16, dport: u16, payload: &[u8]) -> Pkt {
        let mut datagram = vec![0; udp::HEADER_LEN];
        let len = (payload.len() + udp::HEADER_LEN) as u16;
        let header = udp::Header { src: L4Port(sport), dst: L4Port(dport), len, checksum: 0 };
        let pseudo = pseudo(self.peer(), self.me(), Proto::UDP, len.into());
        header.with_checksum(pseudo, payload).emit(datagram.first_chunk_mut().unwrap());
        datagram.extend_from_slice(payload);
        self.packet(Proto::UDP, datagram)
    }

    /// Returns an ICMP message from `from` with its checksum: type, code, the other 4 bytes of the
    /// header, and data.
    pub fn message(self, from: IpAddr, ty: u8, code: u8, rest: [u8; 4], data: &[u8]) -> Pkt {
        let mut message = [&[ty, code, 0, 0][..], &rest, data].concat();
        let seed = match self {
            Kin::Four => Partial::ZERO,
            Kin::Six => pseudo(from, self.me(), Proto::IPV6_ICMP, message.len() as u32),
        };
        let sum = seed.add(checksum::sum(&message)).finish();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        Pkt { src: from, ..self.packet(self.icmp(), message) }
    }

    /// Returns an echo reply from PEER.
    pub fn answer(self, ident: u16, seq: u16, data: &[u8]) -> Pkt {
        let ([i0, i1], [s0, s1]) = (ident.to_be_bytes(), seq.to_be_bytes());
        self.message(self.peer(), self.reply(), 0, [i0, i1, s0, s1], data)
    }
}

pub fn pseudo(src: IpAddr, dst: IpAddr, proto: Proto, len: u32) -> Partial {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Partial::pseudo4(src, dst, proto, len as u16),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Partial::pseudo6(src, dst, proto, len),
        _ => panic!("two families"),
    }
}

/// A packet of either family, without options or extension headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pkt {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub proto: Proto,
    pub ttl: u8,
    pub tos: u8,
    pub payload: Vec<u8>,
}

impl Pkt {
    pub fn bytes(&self) -> Vec<u8> {
        let Pkt { proto, ttl, tos, .. } = *self;
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                Ip::new(src, dst, proto, self.payload.clone()).ttl(ttl).tos(tos).packet()
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                Ip6::new(src, dst, proto, self.payload.clone()).hops(ttl).class(tos).packet()
            }
            _ => panic!("two families"),
        }
    }

    /// Returns the packet in a frame from PEER to this host, or to the multicast group that is its
    /// destination.
    pub fn frame(&self) -> Vec<u8> {
        let ethertype = if self.src.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
        let mac = match self.dst {
            IpAddr::V4(dst) if dst.is_multicast() => wire::Mac::multicast4(dst),
            IpAddr::V6(dst) if dst.is_multicast() => wire::Mac::multicast6(dst),
            _ => ME.mac,
        };
        ether(mac, PEER.mac, ethertype, &self.bytes())
    }

    pub fn of(frame: &[u8]) -> Pkt {
        if wire::ip6::is_version(&frame[14..]) {
            let (_, ip, payload) = ip6_of(frame);
            let (src, dst) = (ip.src.into(), ip.dst.into());
            return Pkt { src, dst, proto: ip.next, ttl: ip.hop_limit, tos: ip.traffic_class, payload };
        }
        let (_, ip, payload) = ip_of(frame);
        let (src, dst) = (ip.src.into(), ip.dst.into());
        Pkt { src, dst, proto: ip.proto, ttl: ip.ttl, tos: ip.tos, payload: payload.to_vec() }
    }
}

impl<L: Locks> Host<L> {
    pub fn receives(&self, packet: &Pkt) {
        self.inject(EM0, packet.frame());
    }

    /// Returns the only packet that `em0` sent.
    #[track_caller]
    pub fn sent_packet(&self) -> Pkt {
        Pkt::of(&self.sent_one(EM0))
    }

    /// Opens a UDP socket of this family only, bound to `l4port` of any address.
    pub fn bound_of(&self, kin: Kin, l4port: u16) -> usize {
        let id = self.stack.udp_open(self.cx(), kin.domain()).unwrap();
        self.stack.udp_bind(self.cx(), id, SocketAddr::from((kin.any(), l4port))).unwrap();
        id
    }
}
