//! Ethernet II: 14 bytes of destination, source and EtherType before each packet (IEEE 802.3 3.2,
//! RFC 894).
//!
//! Frames are as a port delivers them, without preamble and FCS. [`Header::parse`] reads the outer
//! header only: a VLAN tag appears as EtherType [`EtherType::VLAN`] and is parsed by
//! [`crate::vlan`]. An 802.3 length field (below 0x0600) is returned unchanged; see
//! [`EtherType::is_length`].

use crate::hint::cold_path;
use crate::{Layer, Malformed};
use core::net::{Ipv4Addr, Ipv6Addr};
use core::{error, fmt, str::FromStr};

#[cfg(test)]
mod tests;

/// Length of an untagged Ethernet header in bytes.
pub const HEADER_LEN: usize = 14;
/// Minimum length of a frame on a wire, without the FCS, in bytes.
pub const MIN_FRAME_LEN: usize = 60;

/// A 48-bit Ethernet address in transmission order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// `ff:ff:ff:ff:ff:ff`: the broadcast address.
    pub const BROADCAST: Mac = Mac([0xff; 6]);
    /// `00:00:00:00:00:00`: no station; in an ARP request, the unknown address of the target.
    pub const ZERO: Mac = Mac([0; 6]);

    /// Returns whether the group bit is set. The broadcast address counts as multicast.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns whether this is the broadcast address.
    #[inline]
    pub fn is_broadcast(self) -> bool {
        self == Mac::BROADCAST
    }

    /// Returns whether the group bit is clear. [`Mac::ZERO`] counts as unicast here; the caller
    /// decides whether it is valid as a source.
    #[inline]
    pub const fn is_unicast(self) -> bool {
        !self.is_multicast()
    }

    /// Returns the group address of an IPv6 multicast address: 33:33 and the low 32 bits (RFC 2464
    /// 7).
    pub const fn multicast6(group: Ipv6Addr) -> Mac {
        let [.., a, b, c, d] = group.octets();
        Mac([0x33, 0x33, a, b, c, d])
    }

    /// Returns the group address of an IPv4 multicast address: 01:00:5e and the low 23 bits (RFC
    /// 1112 6.4).
    #[inline]
    pub const fn multicast4(group: Ipv4Addr) -> Mac {
        let [_, b, c, d] = group.octets();
        Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// Returns whether this is 01-80-C2-00-00-0X, which a bridge never forwards (IEEE 802.1Q 8.6.3,
    /// table 8-1).
    #[inline]
    pub const fn is_link_local_group(self) -> bool {
        matches!(self.0, [0x01, 0x80, 0xc2, 0, 0, low] if low & 0xf0 == 0)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<[u8; 6]> for Mac {
    #[inline]
    fn from(bytes: [u8; 6]) -> Self {
        Mac(bytes)
    }
}

/// Error: the text is not six two-digit hexadecimal bytes, separated by colons or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadMac;

impl fmt::Display for BadMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an Ethernet address: expected six hexadecimal bytes such as 02:00:00:00:00:01")
    }
}

impl error::Error for BadMac {}

impl FromStr for Mac {
    type Err = BadMac;

    /// Parses the form with colons, or twelve digits without separator; either case.
    fn from_str(text: &str) -> Result<Mac, BadMac> {
        if text.len() == 12 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            let [_, _, mac @ ..] = u64::from_str_radix(text, 16).map_err(|_| BadMac)?.to_be_bytes();
            return Ok(Mac(mac));
        }
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let part = parts.next().ok_or(BadMac)?;
            // from_str_radix alone would accept "+f".
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(BadMac);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| BadMac)?;
        }
        if parts.next().is_some() { Err(BadMac) } else { Ok(Mac(mac)) }
    }
}

/// Type of an Ethernet payload (IEEE 802.3 3.2.6; values from the IEEE registry).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP (RFC 826).
    pub const ARP: EtherType = EtherType(0x0806);
    /// 802.1Q customer tag.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// IPv6 (RFC 2464).
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// 802.1ad service tag.
    pub const QINQ: EtherType = EtherType(0x88a8);
    /// Slow protocols such as LACP (IEEE 802.3 annex 57A).
    pub const SLOW: EtherType = EtherType(0x8809);
    /// LLC frames longer than a length field can express (jumbo frames; draft-ietf-isis-ext-eth).
    pub const LONG_LLC: EtherType = EtherType(0x8870);
    /// LLDP (IEEE 802.1AB).
    pub const LLDP: EtherType = EtherType(0x88cc);

    /// Returns whether the field is an 802.3 length (below 0x0600), followed by an LLC header (IEEE
    /// 802.3 3.2.6).
    #[inline]
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }

    /// Returns whether a VLAN tag follows.
    #[inline]
    pub const fn is_tag(self) -> bool {
        matches!(self, EtherType::VLAN | EtherType::QINQ)
    }

    /// Returns the name that tcpdump prints, for known types.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            EtherType::IPV4 => "IPv4",
            EtherType::ARP => "ARP",
            EtherType::VLAN => "802.1Q",
            EtherType::IPV6 => "IPv6",
            EtherType::QINQ => "802.1Q-QinQ",
            _ => return None,
        })
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:#06x})", self.name().unwrap_or("Unknown"), self.0)
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// Destination address of the frame.
    pub dst: Mac,
    /// Source address of the frame.
    pub src: Mac,
    /// Type of the payload, or an 802.3 length.
    pub ethertype: EtherType,
}

impl Header {
    /// Parses the first 14 bytes of a frame; fails only if there are fewer.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Header, Malformed> {
        let Some(&[d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1]) = frame.first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::truncated(Layer::Eth, HEADER_LEN, frame.len()));
        };
        Ok(Header {
            dst: Mac([d0, d1, d2, d3, d4, d5]),
            src: Mac([s0, s1, s2, s3, s4, s5]),
            ethertype: EtherType(u16::from_be_bytes([t0, t1])),
        })
    }

    /// Writes the header.
    #[inline]
    pub fn emit(&self, out: &mut [u8; HEADER_LEN]) {
        let [d0, d1, d2, d3, d4, d5] = self.dst.0;
        let [s0, s1, s2, s3, s4, s5] = self.src.0;
        let [t0, t1] = self.ethertype.0.to_be_bytes();
        *out = [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1];
    }
}

/// Returns whether `frame` has the EtherType `ethertype`, is addressed to the station `to`, and
/// comes from another station, that is, from a nonzero unicast address other than `to`.
///
/// Equivalent to [`Header::parse`] and comparing the fields, with two loads instead of fourteen.
#[cfg_attr(not(debug_assertions), inline(always))]
pub fn is_between(frame: &[u8], to: Mac, ethertype: EtherType) -> bool {
    let Some(header) = frame.first_chunk::<HEADER_LEN>() else { return false };
    let (Some(dst), Some(rest)) = (header.first_chunk::<8>(), header.last_chunk::<8>()) else { return false };
    let [t0, t1, t2, t3, t4, t5] = to.0;
    // The addresses are in the upper 48 bits of their words and the lower 16 bits are zero, so the
    // shift needs no mask in a register.
    let to = u64::from_le_bytes([0, 0, t0, t1, t2, t3, t4, t5]);
    let (dst, rest) = (u64::from_le_bytes(*dst) << 16, u64::from_le_bytes(*rest));
    let src = rest << 16;
    let type_not_group = u64::from(ethertype.0.swap_bytes()) << 48;
    if dst ^ to | (rest & TYPE_AND_GROUP) ^ type_not_group != 0 {
        cold_path();
        return false;
    }
    if src == 0 || src == to {
        cold_path(); // branches instead of bit operations save ten instructions
        return false;
    }
    true
}

/// Mask for the last eight bytes of a header, little-endian: the EtherType, and the group bit of
/// the source.
const TYPE_AND_GROUP: u64 = 0xffff << 48 | 1;
