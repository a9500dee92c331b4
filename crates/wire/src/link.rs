//! Link headers other than Ethernet in capture files, and the Ethernet header that replaces each of
//! them.
//!
//! ```text
//! NULL  LOOP   address family (4 bytes)                                       BSD loopback
//! RAW  IPV4  IPV6                                                             tun devices
//! SLL          type, ARPHRD, address length, address (8), protocol            tcpdump -i any
//! SLL2         protocol, 0, interface, ARPHRD, type, address length, address (8)
//! ```
//!
//! The numbers are those of the registry of link types (draft-ietf-opsawg-pcaplinktype). The
//! payload after a link header is the same as after an Ethernet header with the corresponding
//! EtherType. Once the header has been replaced, all code for Ethernet frames can process the
//! packet.

use crate::Mac;
use crate::eth::{self, EtherType};

/// A supported kind of link header, with its number in the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkType {
    /// Ethernet (1).
    Ethernet,
    /// BSD loopback: the address family in the byte order of the capturing machine (0).
    Null,
    /// OpenBSD loopback: the address family in network byte order (108).
    Loop,
    /// An IP packet of either version (101; 12 and 14 in old files).
    Raw,
    /// An IPv4 packet (228).
    Ip4,
    /// An IPv6 packet (229).
    Ip6,
    /// Linux's "any" device (113).
    Sll,
    /// Linux's "any" device, with interface numbers (276).
    Sll2,
}

impl LinkType {
    /// Returns the link type with this number in the registry; `None` if it is not supported.
    pub const fn of(number: u16) -> Option<LinkType> {
        Some(match number {
            1 => LinkType::Ethernet,
            0 => LinkType::Null,
            108 => LinkType::Loop,
            101 | 12 | 14 => LinkType::Raw,
            228 => LinkType::Ip4,
            229 => LinkType::Ip6,
            113 => LinkType::Sll,
            276 => LinkType::Sll2,
            _ => return None,
        })
    }

    /// Returns the name in the registry, without the prefix LINKTYPE_.
    pub const fn name(self) -> &'static str {
        match self {
            LinkType::Ethernet => "ETHERNET",
            LinkType::Null => "NULL",
            LinkType::Loop => "LOOP",
            LinkType::Raw => "RAW",
            LinkType::Ip4 => "IPV4",
            LinkType::Ip6 => "IPV6",
            LinkType::Sll => "LINUX_SLL",
            LinkType::Sll2 => "LINUX_SLL2",
        }
    }

    /// Returns the length of the link header in bytes.
    pub const fn header_len(self) -> usize {
        match self {
            LinkType::Ethernet => eth::HEADER_LEN,
            LinkType::Null | LinkType::Loop => 4,
            LinkType::Raw | LinkType::Ip4 | LinkType::Ip6 => 0,
            LinkType::Sll => 16,
            LinkType::Sll2 => 20,
        }
    }

    /// Returns the Ethernet header that replaces the link header of `packet`. Its destination is
    /// zero. Its source is the address in the header of a Linux "any" device, if present, otherwise
    /// zero. Its EtherType is that of the payload. Returns `None` if the packet is shorter than its
    /// link header.
    pub fn ethernet_header(self, packet: &[u8]) -> Option<eth::Header> {
        let half = |at: usize| packet.get(at..)?.first_chunk::<2>().copied().map(u16::from_be_bytes);
        let version = || match packet.first()? >> 4 {
            4 => Some(EtherType::IPV4),
            6 => Some(EtherType::IPV6),
            _ => Some(EtherType(0)),
        };
        let address = |len: Option<u16>, at: usize| match (len, packet.get(at..).and_then(|rest| rest.first_chunk())) {
            (Some(6), Some(mac)) => Mac(*mac),
            _ => Mac::ZERO,
        };
        if packet.len() < self.header_len() {
            return None;
        }
        let (src, ethertype) = match self {
            LinkType::Ethernet => return eth::Header::parse(packet).ok(),
            LinkType::Null | LinkType::Loop => (Mac::ZERO, family(*packet.first_chunk()?)),
            LinkType::Raw => (Mac::ZERO, version()?),
            LinkType::Ip4 => (Mac::ZERO, EtherType::IPV4),
            LinkType::Ip6 => (Mac::ZERO, EtherType::IPV6),
            LinkType::Sll => (address(half(4), 6), EtherType(half(14)?)),
            LinkType::Sll2 => (address(packet.get(11).copied().map(u16::from), 12), EtherType(half(0)?)),
        };
        Some(eth::Header { dst: Mac::ZERO, src, ethertype })
    }
}

/// Returns the EtherType for an address family, which is read in the byte order that gives the
/// smaller number. 2 is IPv4 on all systems; IPv6 is 10 on Linux, 24 on NetBSD and OpenBSD, 28 on
/// FreeBSD, 30 on Darwin.
fn family(bytes: [u8; 4]) -> EtherType {
    match u32::from_be_bytes(bytes).min(u32::from_le_bytes(bytes)) {
        2 => EtherType::IPV4,
        10 | 24 | 28 | 30 => EtherType::IPV6,
        _ => EtherType(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_link_header_has_an_ethernet_header() {
        let of = |link: LinkType, packet: &[u8]| {
            let header = link.ethernet_header(packet).unwrap();
            assert_eq!(header.dst, Mac::ZERO);
            (header.src, header.ethertype)
        };
        let mac = Mac([2, 0, 0, 0, 0, 7]);
        for (bytes, ethertype) in [
            ([2, 0, 0, 0], EtherType::IPV4),
            ([0, 0, 0, 2], EtherType::IPV4),
            ([30, 0, 0, 0], EtherType::IPV6),
            ([0, 0, 0, 24], EtherType::IPV6),
            ([1, 1, 1, 1], EtherType(0)),
        ] {
            assert_eq!(of(LinkType::Null, &bytes), (Mac::ZERO, ethertype));
            assert_eq!(of(LinkType::Loop, &bytes), (Mac::ZERO, ethertype));
        }
        assert_eq!(of(LinkType::Raw, &[0x45]), (Mac::ZERO, EtherType::IPV4));
        assert_eq!(of(LinkType::Raw, &[0x60]), (Mac::ZERO, EtherType::IPV6));
        let sll = [0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 7, 0, 0, 0x86, 0xdd];
        assert_eq!(of(LinkType::Sll, &sll), (mac, EtherType::IPV6));
        let sll2 = [8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 7, 0, 0];
        assert_eq!(of(LinkType::Sll2, &sll2), (mac, EtherType::IPV4));
        assert_eq!((LinkType::of(105), LinkType::Raw.ethernet_header(&[])), (None, None));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_handled(number in 0..300_u16, bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(link) = LinkType::of(number) {
                let header = link.ethernet_header(&bytes);
                let first = if link == LinkType::Raw { 1 } else { link.header_len() };
                prop_assert_eq!(header.is_some(), bytes.len() >= first);
            }
        }
    }
}
