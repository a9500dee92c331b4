//! IP protocol numbers: IPv4's Protocol field and IPv6's Next Header share one registry.

use core::fmt;

/// An IP protocol number (RFC 791 3.1 "Protocol", RFC 8200 3 "Next Header"; values from the IANA
/// registry).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Proto(pub u8);

impl Proto {
    /// IPv6 Hop-by-Hop Options header (RFC 8200 4.3).
    pub const HOP_BY_HOP: Proto = Proto(0);
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: Proto = Proto(1);
    /// IGMP (RFC 2236, RFC 3376).
    pub const IGMP: Proto = Proto(2);
    /// IPv4 in IP (RFC 2003).
    pub const IPIP: Proto = Proto(4);
    /// TCP (RFC 9293).
    pub const TCP: Proto = Proto(6);
    /// UDP (RFC 768).
    pub const UDP: Proto = Proto(17);
    /// IPv6 in IP (RFC 4213).
    pub const IPV6: Proto = Proto(41);
    /// IPv6 Routing header (RFC 8200 4.4).
    pub const ROUTING: Proto = Proto(43);
    /// IPv6 Fragment header (RFC 8200 4.5).
    pub const FRAGMENT: Proto = Proto(44);
    /// GRE (RFC 2784).
    pub const GRE: Proto = Proto(47);
    /// IPsec Encapsulating Security Payload (RFC 4303).
    pub const ESP: Proto = Proto(50);
    /// IPsec Authentication Header (RFC 4302).
    pub const AUTH: Proto = Proto(51);
    /// ICMP for IPv6 (RFC 4443).
    pub const IPV6_ICMP: Proto = Proto(58);
    /// IPv6 "no next header" (RFC 8200 4.7).
    pub const NO_NEXT: Proto = Proto(59);
    /// IPv6 Destination Options header (RFC 8200 4.6).
    pub const DEST_OPTIONS: Proto = Proto(60);
    /// OSPF (RFC 2328, RFC 5340).
    pub const OSPF: Proto = Proto(89);
    /// PIM (RFC 7761).
    pub const PIM: Proto = Proto(103);
    /// VRRP (RFC 9568).
    pub const VRRP: Proto = Proto(112);
    /// IPv6 Mobility Header (RFC 6275 6.1).
    pub const MOBILITY: Proto = Proto(135);
    /// Host Identity Protocol (RFC 7401 5.1).
    pub const HIP: Proto = Proto(139);
    /// Shim6 (RFC 5533 5.1).
    pub const SHIM6: Proto = Proto(140);
    /// Ethernet in IP (RFC 3378).
    pub const ETHERIP: Proto = Proto(97);
    /// SCTP (RFC 9260).
    pub const SCTP: Proto = Proto(132);

    /// Returns the usual name of the protocol, if known.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Proto::HOP_BY_HOP => "HBH",
            Proto::ICMP => "ICMP",
            Proto::IGMP => "IGMP",
            Proto::IPIP => "IPIP",
            Proto::TCP => "TCP",
            Proto::UDP => "UDP",
            Proto::IPV6 => "IPv6",
            Proto::ROUTING => "RT6",
            Proto::FRAGMENT => "frag",
            Proto::GRE => "GRE",
            Proto::ESP => "ESP",
            Proto::AUTH => "AH",
            Proto::IPV6_ICMP => "ICMP6",
            Proto::NO_NEXT => "no next header",
            Proto::DEST_OPTIONS => "DSTOPT",
            Proto::ETHERIP => "EtherIP",
            Proto::SCTP => "SCTP",
            _ => return None,
        })
    }
}

impl From<u8> for Proto {
    #[inline]
    fn from(number: u8) -> Self {
        Proto(number)
    }
}

impl fmt::Display for Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "proto {}", self.0),
        }
    }
}
