//! Classes of packets for the control plane: routing protocols, neighbor discovery, link protocols,
//! and packets to the host itself.
//!
//! Each class has a rate limit and a counter of its own where packets are passed to the daemons of
//! a router, so that a flood of one protocol does not end the sessions of another.

use crate::eth::EtherType;
use crate::ip6::Chain;
use crate::{Proto, arp, icmp6, ip4, ip6, mld, vlan};

/// Class of a packet for the control plane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ControlClass {
    /// ARP replies and announcements (RFC 826, RFC 5227).
    Arp,
    /// Neighbor and router discovery of IPv6 (RFC 4861).
    Nd,
    /// IGMP (RFC 3376) and MLD (RFC 3810).
    Igmp,
    /// BGP: TCP port 179 (RFC 4271).
    Bgp,
    /// BFD: UDP ports 3784, 3785, 4784 and 6784 (RFC 5881, RFC 5883, RFC 7130).
    Bfd,
    /// OSPF and OSPFv3: protocol 89 (RFC 2328, RFC 5340).
    Ospf,
    /// IS-IS (ISO/IEC 10589): LLC frames of the OSI network layer.
    Isis,
    /// VRRP: protocol 112 (RFC 9568).
    Vrrp,
    /// PIM: protocol 103 (RFC 7761).
    Pim,
    /// LLDP (IEEE 802.1AB).
    Lldp,
    /// LACP and other slow protocols (IEEE 802.3 annex 57A).
    Lacp,
    /// ICMP and ICMPv6 messages that are in no other class.
    Icmp,
    /// Packets to link-local groups (224.0.0.0/24, ff02::/16) that are in no other class.
    Group,
    /// Packets to the host, and broadcasts, that are in no other class.
    Local,
}

/// Link-layer services of the OSI network layer, as destination and source, with unnumbered
/// information (ISO/IEC 10589 8.4.8).
const OSI: [u8; 3] = [0xfe, 0xfe, 0x03];
/// TCP port of BGP.
const BGP: u16 = 179;
/// UDP ports of BFD: control, echo, multihop, and on the links of an aggregate.
const BFD: [u16; 4] = [3784, 3785, 4784, 6784];

impl ControlClass {
    /// All classes.
    pub const ALL: [ControlClass; 14] = [
        ControlClass::Arp,
        ControlClass::Nd,
        ControlClass::Igmp,
        ControlClass::Bgp,
        ControlClass::Bfd,
        ControlClass::Ospf,
        ControlClass::Isis,
        ControlClass::Vrrp,
        ControlClass::Pim,
        ControlClass::Lldp,
        ControlClass::Lacp,
        ControlClass::Icmp,
        ControlClass::Group,
        ControlClass::Local,
    ];

    /// Returns the name of the class.
    pub const fn name(self) -> &'static str {
        match self {
            ControlClass::Arp => "arp",
            ControlClass::Nd => "nd",
            ControlClass::Igmp => "igmp",
            ControlClass::Bgp => "bgp",
            ControlClass::Bfd => "bfd",
            ControlClass::Ospf => "ospf",
            ControlClass::Isis => "isis",
            ControlClass::Vrrp => "vrrp",
            ControlClass::Pim => "pim",
            ControlClass::Lldp => "lldp",
            ControlClass::Lacp => "lacp",
            ControlClass::Icmp => "icmp",
            ControlClass::Group => "group",
            ControlClass::Local => "local",
        }
    }

    /// Returns the class of a frame that contains no IP packet; `None` if it is not for the control
    /// plane. `payload` follows the Ethernet header; priority tags (VLAN 0) are skipped.
    pub fn of_frame(ethertype: EtherType, payload: &[u8]) -> Option<ControlClass> {
        let (ethertype, tags) = vlan::skip_priority(ethertype, payload);
        let payload = payload.get(tags..)?;
        match ethertype {
            EtherType::ARP => {
                let packet = arp::Packet::parse(payload).ok()?;
                (packet.op == arp::Op::Reply || packet.spa == packet.tpa).then_some(ControlClass::Arp)
            }
            EtherType::LLDP => Some(ControlClass::Lldp),
            EtherType::SLOW => Some(ControlClass::Lacp),
            llc if llc.is_length() || llc == EtherType::LONG_LLC => {
                payload.starts_with(&OSI).then_some(ControlClass::Isis)
            }
            _ => None,
        }
    }

    /// Returns the class of an IP packet that arrived for the host or for a group; `None` if it is
    /// malformed, or for a group that is not link-local, except IGMP, MLD and PIM.
    pub fn of_packet(packet: &[u8]) -> Option<ControlClass> {
        if ip6::is_version(packet) { of_packet6(packet) } else { of_packet4(packet) }
    }
}

fn of_packet4(packet: &[u8]) -> Option<ControlClass> {
    let header = ip4::Header::parse(packet).ok()?;
    let upper = packet.get(header.ihl_len..usize::from(header.total_len).min(packet.len()))?;
    let is_later = header.frag_off != 0;
    let to = match header.dst.octets() {
        [224, 0, 0, _] => To::Near,
        [224..=239, ..] => To::Wide,
        _ => To::Host,
    };
    match header.proto {
        Proto::ICMP if to != To::Wide => Some(ControlClass::Icmp),
        Proto::IGMP => Some(ControlClass::Igmp),
        proto => of_upper(proto, upper, is_later, to),
    }
}

fn of_packet6(packet: &[u8]) -> Option<ControlClass> {
    let header = ip6::Header::parse(packet).ok()?;
    let (chain, walked) = Chain::walk_far(&header, packet);
    walked.ok()?;
    let upper = chain.payload(&header, packet);
    let is_later = chain.fragment.is_some_and(|fragment| fragment.offset != 0);
    let to = match (header.dst.is_multicast(), ip6::scope(header.dst)) {
        (false, _) => To::Host,
        (true, LINK_LOCAL) => To::Near,
        (true, _) => To::Wide,
    };
    match chain.upper {
        Proto::IPV6_ICMP if !is_later => of_icmp6(upper.first().copied()?, to),
        proto => of_upper(proto, upper, is_later, to),
    }
}

/// Destination of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    /// The host itself, or all hosts of the link.
    Host,
    /// A link-local group.
    Near,
    /// Another group.
    Wide,
}

/// Scope of link-local groups (RFC 4291 2.7).
const LINK_LOCAL: u8 = 2;

fn of_icmp6(ty: u8, to: To) -> Option<ControlClass> {
    match ty {
        ty if mld::is_mld(ty) => Some(ControlClass::Igmp),
        _ if to == To::Wide => None,
        icmp6::ty::ROUTER_SOLICIT..=icmp6::ty::REDIRECT => Some(ControlClass::Nd),
        _ => Some(ControlClass::Icmp),
    }
}

/// Returns the class by the upper protocol, which is the same for both families. `is_later` is true
/// for a fragment without the upper protocol's header.
fn of_upper(proto: Proto, upper: &[u8], is_later: bool, to: To) -> Option<ControlClass> {
    let ports = || match upper {
        [a, b, c, d, ..] if !is_later => [u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])],
        _ => [0; 2],
    };
    Some(match proto {
        Proto::PIM => ControlClass::Pim,
        _ if to == To::Wide => return None,
        Proto::OSPF => ControlClass::Ospf,
        Proto::VRRP => ControlClass::Vrrp,
        Proto::TCP if ports().contains(&BGP) => ControlClass::Bgp,
        Proto::UDP if BFD.contains(&ports()[1]) => ControlClass::Bfd,
        _ if to == To::Near => ControlClass::Group,
        _ => ControlClass::Local,
    })
}

#[cfg(test)]
mod tests;
