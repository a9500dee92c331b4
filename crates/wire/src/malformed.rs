//! Parse errors: one small error type for all parsers of this crate.
//!
//! Each variant is a reason. Its `Display` text is suitable for a log line. Callers map the
//! variants to their drop counters.

use core::{error, fmt};

/// The header in which the error was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layer {
    /// Ethernet header.
    Eth,
    /// 802.1Q tag.
    Vlan,
    /// BPDU, or the LLC header before it.
    Bpdu,
    /// ARP packet.
    Arp,
    /// IPv4 header or packet.
    Ip4,
    /// IPv6 header, extension header or packet.
    Ip6,
    /// ICMP message of IPv4.
    Icmp4,
    /// Packet quoted in an ICMP error.
    IcmpInner,
    /// ICMPv6 message.
    Icmp6,
    /// IGMP message.
    Igmp,
    /// UDP datagram.
    Udp,
    /// TCP segment.
    Tcp,
    /// GRE packet.
    Gre,
    /// VXLAN header.
    Vxlan,
    /// EtherIP header.
    EtherIp,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Layer::Eth => "Ethernet",
            Layer::Vlan => "802.1Q",
            Layer::Bpdu => "BPDU",
            Layer::Arp => "ARP",
            Layer::Ip4 => "IPv4",
            Layer::Ip6 => "IPv6",
            Layer::Icmp4 => "ICMP",
            Layer::IcmpInner => "ICMP quoted packet",
            Layer::Icmp6 => "ICMPv6",
            Layer::Igmp => "IGMP",
            Layer::Udp => "UDP",
            Layer::Tcp => "TCP",
            Layer::Gre => "GRE",
            Layer::Vxlan => "VXLAN",
            Layer::EtherIp => "EtherIP",
        })
    }
}

/// Reason why a parser rejected its input. The type has six bytes and is `Copy`. Lengths are in
/// bytes and saturate at 65,535.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Malformed {
    /// Fewer bytes are present than the header or its length field requires.
    Truncated {
        /// Header in which the error was found.
        layer: Layer,
        /// Number of bytes needed.
        need: u16,
        /// Number of bytes present.
        have: u16,
    },
    /// The version field does not contain the version that the parser supports.
    BadVersion {
        /// Header in which the error was found.
        layer: Layer,
        /// Version in the header.
        found: u8,
    },
    /// The header length field is smaller than the fixed header (IHL, TCP data offset).
    BadHeaderLen {
        /// Header in which the error was found.
        layer: Layer,
        /// Header length as received, converted to bytes.
        len: u16,
    },
    /// The total length is smaller than the header (IPv4 total length, UDP length).
    BadTotalLen {
        /// Header in which the error was found.
        layer: Layer,
        /// Total length as received, in bytes.
        len: u16,
    },
    /// A forbidden flag is set, a required one is not, or an ICMPv6 message of neighbor discovery
    /// has an invalid code or target.
    BadFlags {
        /// Header in which the error was found.
        layer: Layer,
        /// Flags as received, or the ICMPv6 code.
        found: u16,
    },
    /// The checksum is wrong.
    BadChecksum {
        /// Header in which the error was found.
        layer: Layer,
    },
    /// The frame does not have the LLC header of a BPDU, or is not addressed to the bridge group
    /// (IEEE 802.1D-2004 7.12.3).
    BadLlc,
    /// BPDU: the protocol identifier is not 0 (IEEE 802.1D-2004 9.3.4).
    BadBpduProtocol(u16),
    /// BPDU: the type is unknown (IEEE 802.1D-2004 9.3.4).
    BadBpduType(u8),
    /// ARP: hardware type is not Ethernet (RFC 826).
    BadHardwareType(u16),
    /// ARP: protocol type is not IPv4 (RFC 826).
    BadProtocolType(u16),
    /// ARP: hardware or protocol address length is not 6 and 4 (RFC 826).
    BadAddressLen {
        /// `ar$hln` as received.
        hlen: u8,
        /// `ar$pln` as received.
        plen: u8,
    },
    /// ARP: the operation is neither request nor reply.
    BadOperation(u16),
    /// An option has an invalid length: shorter than its own header, past the end, or wrong for its
    /// kind.
    BadOptionLen {
        /// Header in which the error was found.
        layer: Layer,
        /// Type of the option.
        kind: u8,
        /// Length in the option; 0 if the length byte itself is missing.
        len: u8,
    },
    /// A route or timestamp option of IPv4 has an invalid pointer (RFC 791 3.1).
    BadOptionPointer {
        /// Type of the option.
        kind: u8,
        /// Pointer in the option.
        pointer: u8,
    },
    /// IPv6: the packet has more extension headers than this crate accepts.
    TooManyExtensions,
    /// IPv6: a Hop-by-Hop Options header is not the first header, or there is a second Fragment
    /// header (RFC 8200 4.1, 4.5). Contains the protocol number of the header.
    BadExtensionOrder(u8),
}

impl Malformed {
    /// Returns [`Malformed::Truncated`] for lengths given as `usize`.
    #[cold]
    pub(crate) fn truncated(layer: Layer, need: usize, have: usize) -> Malformed {
        Malformed::Truncated { layer, need: saturate(need), have: saturate(have) }
    }
}

fn saturate(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Malformed::Truncated { layer, need, have } => {
                write!(f, "{layer}: truncated, needs {need} bytes and has {have}")
            }
            Malformed::BadVersion { layer, found } => write!(f, "{layer}: unexpected version {found}"),
            Malformed::BadHeaderLen { layer, len } => {
                write!(f, "{layer}: header length {len} is less than the fixed header")
            }
            Malformed::BadTotalLen { layer, len } => {
                write!(f, "{layer}: length field {len} is less than the header length")
            }
            Malformed::BadFlags { layer, found } => write!(f, "{layer}: invalid flags {found:#06x}"),
            Malformed::BadChecksum { layer } => write!(f, "{layer}: checksum is wrong"),
            Malformed::BadLlc => f.write_str("BPDU: invalid LLC header or destination address"),
            Malformed::BadBpduProtocol(found) => write!(f, "BPDU: protocol identifier is {found:#06x}, not 0"),
            Malformed::BadBpduType(found) => write!(f, "BPDU: type {found:#04x} is not supported"),
            Malformed::BadHardwareType(found) => write!(f, "ARP: hardware type {found} is not Ethernet"),
            Malformed::BadProtocolType(found) => write!(f, "ARP: protocol type {found:#06x} is not IPv4"),
            Malformed::BadAddressLen { hlen, plen } => {
                write!(f, "ARP: address lengths are {hlen} and {plen}, not 6 and 4")
            }
            Malformed::BadOperation(found) => write!(f, "ARP: operation {found} is neither request nor reply"),
            Malformed::BadOptionLen { layer, kind, len } => {
                write!(f, "{layer}: option {kind} has invalid length {len}")
            }
            Malformed::BadOptionPointer { kind, pointer } => {
                write!(f, "IPv4: option {kind} has invalid pointer {pointer}")
            }
            Malformed::TooManyExtensions => f.write_str("IPv6: too many extension headers"),
            Malformed::BadExtensionOrder(proto) => write!(f, "IPv6: extension header {proto} is at a wrong position"),
        }
    }
}

impl error::Error for Malformed {}
