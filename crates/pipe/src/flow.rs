//! Determines the flow of a frame, and hashes flows to numbers that the sender of the frames cannot
//! predict.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::eth::{self, EtherType};
use wire::{Mac, Proto, ip4, ip6, vlan};

/// Maximum number of VLAN tags that are parsed per frame.
const TAGS: usize = 4;

/// Header fields of a frame that distinguish flows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flow {
    /// Destination MAC address.
    pub dst: Mac,
    /// Source MAC address.
    pub src: Mac,
    /// VLAN identifier of the outermost tag; `None` for an untagged frame.
    pub vlan: Option<u16>,
    /// EtherType of the payload, after all VLAN tags.
    pub ethertype: EtherType,
    /// Addresses, protocol and ports; `None` for a frame that is not IP.
    pub ip: Option<Ip>,
}

/// Addresses, protocol and ports of an IP packet; IPv4 addresses are mapped into IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ip {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Transport protocol, after IPv6 extension headers.
    pub proto: Proto,
    /// Source and destination port of TCP, UDP and SCTP. `None` for other protocols, and for all
    /// fragments, the first included, so that the fragments of a datagram stay in one flow.
    pub ports: Option<(u16, u16)>,
}

impl Flow {
    /// Returns the flow of a frame, or `None` for a frame shorter than an Ethernet header.
    pub fn of(frame: &[u8]) -> Option<Flow> {
        let header = eth::Header::parse(frame).ok()?;
        let mut flow = Flow { dst: header.dst, src: header.src, vlan: None, ethertype: header.ethertype, ip: None };
        let mut rest = frame.get(eth::HEADER_LEN..)?;
        for _ in 0..TAGS {
            if !flow.ethertype.is_tag() {
                break;
            }
            let Ok(tag) = vlan::Tag::parse(rest) else { return Some(flow) };
            flow.vlan = flow.vlan.or(Some(tag.vid));
            flow.ethertype = tag.ethertype;
            rest = rest.get(vlan::TAG_LEN..).unwrap_or_default();
        }
        flow.ip = match flow.ethertype {
            EtherType::IPV4 => four(rest),
            EtherType::IPV6 => six(rest),
            _ => None,
        };
        Some(flow)
    }

    /// Returns the flow with its endpoints sorted, so that both directions give the same flow.
    #[must_use]
    pub fn symmetric(mut self) -> Flow {
        if self.src > self.dst {
            std::mem::swap(&mut self.src, &mut self.dst);
        }
        if let Some(ip) = &mut self.ip {
            let (from, to) = ip.ports.unwrap_or_default();
            if (ip.src, from) > (ip.dst, to) {
                std::mem::swap(&mut ip.src, &mut ip.dst);
                ip.ports = ip.ports.map(|(from, to)| (to, from));
            }
        }
        self
    }
}

fn four(packet: &[u8]) -> Option<Ip> {
    let header = ip4::Header::parse(packet).ok()?;
    let ports = if header.is_fragment() { None } else { ports(header.proto, header.payload(packet)) };
    Some(Ip { src: header.src.to_ipv6_mapped(), dst: header.dst.to_ipv6_mapped(), proto: header.proto, ports })
}

fn six(packet: &[u8]) -> Option<Ip> {
    let header = ip6::Header::parse(packet).ok()?;
    // If an extension header is truncated or malformed, the walk ends before it.
    let (chain, _) = ip6::Chain::walk_far(&header, packet);
    let is_whole = chain.fragment.is_none_or(|fragment| fragment.is_atomic());
    let ports = if is_whole { ports(chain.upper, chain.payload(&header, packet)) } else { None };
    Some(Ip { src: header.src, dst: header.dst, proto: chain.upper, ports })
}

/// Returns the ports of TCP, UDP or SCTP, which are the first four bytes of `payload`.
fn ports(proto: Proto, payload: &[u8]) -> Option<(u16, u16)> {
    let &[a, b, c, d] = payload.first_chunk::<4>()?;
    matches!(proto, Proto::TCP | Proto::UDP | Proto::SCTP)
        .then(|| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Formats an IPv6 address. An IPv4-mapped address is formatted as IPv4.
pub fn show(address: Ipv6Addr) -> String {
    address.to_ipv4_mapped().map_or_else(|| address.to_string(), |four: Ipv4Addr| four.to_string())
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = match self.ports {
            Some((from, to)) => (format!(".{from}"), format!(".{to}")),
            None => Default::default(),
        };
        let proto = self.proto.name().map_or_else(|| format!("proto {}", self.proto.0), str::to_owned);
        write!(f, "{}{from} > {}{to} {proto}", show(self.src), show(self.dst))
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ip {
            Some(ip) => ip.fmt(f),
            None => write!(f, "{} > {} {:04X}", self.src, self.dst, self.ethertype.0),
        }
    }
}

/// Secret key of the hash from flows to numbers. It is random, or derived from a seed for
/// reproducible numbers.
#[derive(Clone, Copy, Debug)]
pub struct Key(u64, u64);

impl Key {
    /// Returns a random, secret key.
    pub fn random() -> Key {
        let state = RandomState::new();
        Key(state.hash_one(0_u8) | 1, state.hash_one(1_u8))
    }

    /// Returns a key derived from `seed`. The same seed gives the same key.
    pub fn of_seed(seed: u64) -> Key {
        Key(scatter(seed) | 1, scatter(scatter(seed)))
    }

    /// Returns the keyed hash of `words`.
    pub fn number(self, words: impl IntoIterator<Item = u64>) -> u64 {
        let folded = words.into_iter().fold(self.1, |sum, word| mix(sum ^ word, self.0) ^ sum.rotate_left(23));
        mix(folded ^ self.1, self.0)
    }

    /// Returns the keyed hash of a flow. It covers the five-tuple of an IP packet, or the MAC
    /// addresses and EtherType of any other frame.
    pub fn of_flow(self, flow: &Flow) -> u64 {
        match &flow.ip {
            Some(ip) => {
                let (from, to) = ip.ports.unwrap_or_default();
                let (src, dst) = (u128::from(ip.src), u128::from(ip.dst));
                let last = u64::from(ip.proto.0) << 32 | u64::from(from) << 16 | u64::from(to);
                self.number([(src >> 64) as u64, src as u64, (dst >> 64) as u64, dst as u64, last])
            }
            None => self.number([word(flow.src), word(flow.dst), u64::from(flow.ethertype.0)]),
        }
    }
}

/// Returns a MAC address as a 48-bit number, its first byte the most significant.
pub fn word(mac: Mac) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Computes one step of splitmix64, which maps similar inputs, including 0, to unrelated outputs.
pub(crate) fn scatter(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Returns the XOR of the two halves of the 128-bit product of `a` and `b`.
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::generate::{Gen, GenConfig};
    use crate::run::Source;
    use proptest::prelude::*;

    /// Returns a UDP frame from port `from` of 10.0.0.`a` to port `to` of 10.0.0.`b`.
    pub fn udp(a: u8, from: u16, b: u8, to: u16) -> Vec<u8> {
        let addr = |host, port| std::net::SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
        let mac = |host| Mac([2, 0, 0, 0, 0, host]);
        let mut source = Gen::new(GenConfig {
            size: 64,
            count: 1,
            loops: 1,
            mbps: None,
            tick_ns: 8,
            dst: vec![mac(b)],
            src: mac(a),
            ethertype: EtherType::IPV4,
            udp: Some((addr(a, from), addr(b, to))),
        })
        .unwrap();
        let mut frames = crate::Frames::new();
        source.read(&mut frames).unwrap();
        frames.get(0).unwrap().0.to_vec()
    }

    #[test]
    fn flow_is_parsed_after_vlan_tags() {
        let mut frame = udp(1, 7, 2, 9);
        assert_eq!(Flow::of(&frame).unwrap().to_string(), "10.0.0.1.7 > 10.0.0.2.9 UDP");
        frame.splice(12..12, [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]);
        let flow = Flow::of(&frame).unwrap();
        assert_eq!((flow.vlan, flow.to_string().as_str()), (Some(5), "10.0.0.1.7 > 10.0.0.2.9 UDP"));
        frame.truncate(15);
        assert_eq!(Flow::of(&frame).unwrap().ip, None);
    }

    #[test]
    fn fragments_have_no_ports() {
        let mut first = udp(1, 7, 2, 9);
        first[20] = 0x20;
        assert_eq!(Flow::of(&first).unwrap().ip.unwrap().ports, None);
    }

    #[test]
    fn symmetric_flow_is_equal_in_both_directions() {
        let key = Key::of_seed(3);
        let there = Flow::of(&udp(1, 7, 2, 9)).unwrap();
        let back = Flow::of(&udp(2, 9, 1, 7)).unwrap();
        assert_ne!(key.of_flow(&there), key.of_flow(&back));
        assert_eq!(key.of_flow(&there.symmetric()), key.of_flow(&back.symmetric()));
    }

    #[test]
    fn flow_numbers_are_uniform_and_keyed() {
        let of = |key: Key| -> Vec<u64> {
            (0..4000_u16).map(|port| key.of_flow(&Flow::of(&udp(1, port, 2, 9)).unwrap()) % 8).collect()
        };
        for key in [Key::random(), Key::of_seed(0), Key::of_seed(1)] {
            let numbers = of(key);
            for bin in 0..8 {
                let here = numbers.iter().filter(|number| **number == bin).count();
                assert!((400..600).contains(&here), "{key:?} {bin}: {here}");
            }
        }
        assert_ne!(of(Key::of_seed(1)), of(Key::of_seed(2)));
    }

    proptest! {
        #[test]
        fn any_frame_has_a_flow(frame in prop::collection::vec(any::<u8>(), 14..200)) {
            let flow = Flow::of(&frame).unwrap();
            prop_assert_eq!(flow.symmetric().symmetric(), flow.symmetric());
            let _ = (flow.to_string(), Key::random().of_flow(&flow));
        }
    }
}
