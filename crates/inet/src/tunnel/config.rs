//! Configuration of a tunnel.

use std::net::{IpAddr, Ipv4Addr};
use wire::eth::{self, EtherType};
use wire::{L4Port, Proto, etherip, gre, ip4, ip6, udp, vxlan};

/// Kind of a tunnel. It determines the headers between the outer IP header and the inner IP or
/// Ethernet header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// No header between the two IP headers (RFC 2003), as in BSD's gif.
    Gif,
    /// GRE header (RFC 2784).
    Gre,
    /// EtherIP header (RFC 3378).
    EtherIp,
    /// UDP and VXLAN headers (RFC 7348).
    Vxlan,
}

impl Kind {
    /// All kinds of tunnels.
    pub const ALL: [Kind; 4] = [Kind::Gif, Kind::Gre, Kind::EtherIp, Kind::Vxlan];

    /// Returns the prefix of interface names of this kind.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Gif => "gif",
            Kind::Gre => "gre",
            Kind::EtherIp => "etherip",
            Kind::Vxlan => "vxlan",
        }
    }

    /// Returns the kind of tunnel for an interface name that consists of a kind's prefix and a
    /// number.
    pub fn of_name(name: &str) -> Option<Kind> {
        let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
        Kind::ALL.into_iter().find(|kind| kind.name() == word && word.len() < name.len())
    }

    /// Returns whether the tunnel carries Ethernet frames rather than IP packets.
    pub fn is_ethernet(self) -> bool {
        matches!(self, Kind::EtherIp | Kind::Vxlan)
    }

    /// Returns the protocol number for the outer IP header. `inside` is the EtherType of the inner
    /// packet.
    pub(crate) fn proto(self, inside: EtherType) -> Proto {
        match self {
            Kind::Gif if inside == EtherType::IPV6 => Proto::IPV6,
            Kind::Gif => Proto::IPIP,
            Kind::Gre => Proto::GRE,
            Kind::EtherIp => Proto::ETHERIP,
            Kind::Vxlan => Proto::UDP,
        }
    }
}

/// Setting of the DF flag of the outer packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DontFragment {
    /// Copied from the inner packet; clear if the inner packet is not IPv4 (RFC 2003 3.1).
    #[default]
    Copy,
    /// Set: outer packets are never fragmented.
    Set,
    /// Clear: outer packets are fragmented if necessary, also by this host.
    Clear,
}

/// Treatment of IPv6 UDP datagrams without a checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unchecked {
    /// Dropped (RFC 8200 8.1).
    #[default]
    Dropped,
    /// Accepted at the L4 port of the tunnel (RFC 6935 5).
    Accepted,
}

/// Configuration of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Kind of the tunnel.
    pub kind: Kind,
    /// Outer source address, which is an address of this host. While it is unspecified, the tunnel
    /// carries no packets.
    pub local: IpAddr,
    /// Outer destination address, of the same family as `local`. It is unspecified if it is not
    /// set.
    pub remote: IpAddr,
    /// GRE: key of sent and received packets; `None` if packets have no key.
    pub key: Option<u32>,
    /// GRE: true if sent packets have a checksum. Received checksums are always verified.
    pub checksum: bool,
    /// GRE: true if sent packets have sequence numbers and late packets are dropped.
    pub sequence: bool,
    /// VXLAN: network identifier, 24 bits.
    pub vni: u32,
    /// VXLAN: destination L4 port of sent packets, and L4 port at which packets are received.
    pub l4port: L4Port,
    /// VXLAN over IPv6: treatment of datagrams without a checksum.
    pub unchecked: Unchecked,
    /// Time to live of the outer packet; `None` selects the sysctl (`net.inet.ip.gifttl` or
    /// `net.inet6.ip6.gifhlim`).
    pub ttl: Option<u8>,
    /// Setting of the DF flag of the outer packet.
    pub df: DontFragment,
}

impl Config {
    /// Creates the configuration of a tunnel of this kind, without outer addresses.
    pub fn new(kind: Kind) -> Config {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let (key, ttl, df, unchecked) = Default::default();
        let (checksum, sequence) = (false, false);
        let (local, remote, vni, l4port) = (nowhere, nowhere, 0, vxlan::PORT);
        Config { kind, local, remote, key, checksum, sequence, vni, l4port, unchecked, ttl, df }
    }

    /// Returns whether the local and the remote outer address are set.
    pub fn is_whole(&self) -> bool {
        !self.local.is_unspecified() && !self.remote.is_unspecified()
    }

    /// Returns the total length in bytes of the headers in front of an inner packet.
    pub fn overhead(&self) -> usize {
        let outer = if self.remote.is_ipv6() { ip6::HEADER_LEN } else { ip4::HEADER_LEN };
        outer
            + match self.kind {
                Kind::Gif => 0,
                Kind::Gre => self.gre(0, EtherType::IPV4).header_len(),
                Kind::EtherIp => etherip::HEADER_LEN + eth::HEADER_LEN,
                Kind::Vxlan => udp::HEADER_LEN + vxlan::HEADER_LEN + eth::HEADER_LEN,
            }
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) fn gre_len(&self) -> usize {
        self.gre(0, EtherType::IPV4).header_len()
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) fn write_gre(&self, sequence: u32, packet: &mut [u8]) -> Option<()> {
        self.gre(sequence, EtherType::IPV4).emit(packet)
    }

    pub(super) fn gre(&self, sequence: u32, protocol: EtherType) -> gre::Header {
        gre::Header {
            protocol,
            has_checksum: self.checksum,
            key: self.key,
            sequence: self.sequence.then_some(sequence),
        }
    }

    /// Returns the key that distinguishes tunnels with the same outer addresses.
    pub(super) fn key(&self) -> Option<u32> {
        match self.kind {
            Kind::Gre => self.key,
            Kind::Vxlan => Some(self.vni),
            Kind::Gif | Kind::EtherIp => None,
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::new(Kind::Gif)
    }
}
