//! IPv6: the fixed header and the chain of extension headers that follows it (RFC 8200 3, 4).
//!
//! [`Header::parse`] takes the bytes after the Ethernet header, padding included, and checks
//! version and payload length. [`Chain::walk`] then finds the upper layer, in one loop of at most
//! [`MAX_EXTENSIONS`] steps (CVE-2020-17442, CVE-2024-38063). Jumbograms (RFC 2675) are not
//! supported: a payload length of 0 means a payload of 0 bytes.

use crate::{Layer, Malformed};
use core::net::Ipv6Addr;

pub use crate::Proto;
pub use addr::{
    ALL_MLD2_ROUTERS, ALL_NODES, ALL_ROUTERS, is_link_local, is_v4_mapped, link_local, scope, solicited_node,
};
pub use extension::{Chain, Extension, Fragment, MAX_EXTENSIONS, Routing};
pub use options::{Opt, Options};

mod addr;
mod extension;
mod options;
#[cfg(test)]
mod tests;

/// Length of the fixed header in bytes.
pub const HEADER_LEN: usize = 40;

/// The fixed IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// DSCP and ECN (RFC 2474, RFC 3168).
    pub traffic_class: u8,
    /// Flow label, 20 bits (RFC 6437).
    pub flow_label: u32,
    /// Number of bytes after this header, including extension headers.
    pub payload_len: u16,
    /// Protocol number of the header or payload that follows.
    pub next: Proto,
    /// Hop limit of the packet.
    pub hop_limit: u8,
    /// Source address of the packet.
    pub src: Ipv6Addr,
    /// Destination address of the packet.
    pub dst: Ipv6Addr,
}

impl Header {
    /// Parses a header. Checks that the version is 6 and that 40 + payload length <=
    /// `packet.len()`.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Header, Malformed> {
        let header = Header::parse_quoted(packet)?;
        let need = HEADER_LEN + usize::from(header.payload_len);
        if need > packet.len() {
            return Err(Malformed::truncated(Layer::Ip6, need, packet.len()));
        }
        Ok(header)
    }

    /// Parses the header of a packet that may be truncated, such as one quoted by an ICMPv6 error.
    #[inline]
    pub fn parse_quoted(packet: &[u8]) -> Result<Header, Malformed> {
        let Some(h) = packet.first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::truncated(Layer::Ip6, HEADER_LEN, packet.len()));
        };
        let first = u32::from_be_bytes([h[0], h[1], h[2], h[3]]);
        if first >> 28 != 6 {
            return Err(Malformed::BadVersion { layer: Layer::Ip6, found: (first >> 28) as u8 });
        }
        Ok(Header {
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0x000f_ffff,
            payload_len: u16::from_be_bytes([h[4], h[5]]),
            next: Proto(h[6]),
            hop_limit: h[7],
            src: address(h, 8),
            dst: address(h, 24),
        })
    }

    /// Returns the payload within the packet from which this header was parsed, without Ethernet
    /// padding.
    #[inline]
    pub fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        packet.get(HEADER_LEN..HEADER_LEN + usize::from(self.payload_len)).unwrap_or_default()
    }

    /// Writes the header, with the low 20 bits of the flow label.
    #[inline]
    pub fn emit(&self, out: &mut [u8; HEADER_LEN]) {
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0x000f_ffff;
        let [l0, l1] = self.payload_len.to_be_bytes();
        let (head, addresses) = out.split_at_mut(8);
        let (src, dst) = addresses.split_at_mut(16);
        let [f0, f1, f2, f3] = first.to_be_bytes();
        head.copy_from_slice(&[f0, f1, f2, f3, l0, l1, self.next.0, self.hop_limit]);
        src.copy_from_slice(&self.src.octets());
        dst.copy_from_slice(&self.dst.octets());
    }
}

/// The fixed header as three words, for access to the fields that nearly every received packet
/// needs.
#[derive(Clone, Copy, Debug)]
pub struct HeaderView {
    first: u64, // version to hop limit
    /// Source address of the packet.
    pub src: u128,
    /// Destination address of the packet.
    pub dst: u128,
}

impl HeaderView {
    /// Loads the fixed header; `None` if it is incomplete, or the version is not 6.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn of(packet: &[u8]) -> Option<HeaderView> {
        let (first, addrs) = packet.first_chunk::<HEADER_LEN>()?.split_first_chunk::<8>()?;
        let (src, dst) = addrs.split_first_chunk::<16>()?;
        let first = u64::from_be_bytes(*first);
        let (src, dst) = (u128::from_be_bytes(*src), u128::from_be_bytes(*dst.first_chunk()?));
        (first >> 60 == 6).then_some(HeaderView { first, src, dst })
    }

    /// Returns DSCP and ECN.
    #[inline(always)]
    pub fn traffic_class(self) -> u8 {
        (self.first >> 52) as u8
    }

    /// Returns the payload length field, unchecked.
    #[inline(always)]
    pub fn payload_len(self) -> u16 {
        (self.first >> 16) as u16
    }

    /// Returns the Next Header field: the upper-layer protocol, or the first extension header.
    #[inline(always)]
    pub fn next(self) -> Proto {
        Proto((self.first >> 8) as u8)
    }

    /// Returns the hop limit.
    #[inline(always)]
    pub fn hop_limit(self) -> u8 {
        self.first as u8
    }
}

/// Returns whether the version field of `packet` is 6.
#[inline(always)]
pub fn is_version(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 6)
}

/// Decrements the hop limit and returns the new value. Returns `None` if the header is incomplete
/// or the hop limit is already 0.
pub fn decrement_hop_limit(packet: &mut [u8]) -> Option<u8> {
    let header = packet.first_chunk_mut::<HEADER_LEN>()?;
    header[7] = header[7].checked_sub(1)?;
    Some(header[7])
}

/// Decrements the hop limit of a packet that is to be forwarded. Returns false, and writes nothing,
/// if the new hop limit would be 0.
#[inline(always)]
pub fn take_hop(header: &mut [u8; HEADER_LEN]) -> bool {
    let is_taken = header[7] > 1;
    header[7] -= u8::from(is_taken);
    is_taken
}

/// Writes DSCP and ECN. Returns `None` if the header is incomplete.
pub fn set_traffic_class(packet: &mut [u8], class: u8) -> Option<()> {
    let header = packet.first_chunk_mut::<HEADER_LEN>()?;
    header[0] = header[0] & 0xf0 | class >> 4;
    header[1] = class << 4 | header[1] & 0xf;
    Some(())
}

/// Returns the address at byte `offset` of a header: 8 for the source, 24 for the destination.
#[inline(always)]
fn address(header: &[u8; HEADER_LEN], offset: usize) -> Ipv6Addr {
    let octets = header.get(offset..).and_then(|bytes| bytes.first_chunk::<16>());
    octets.map_or(Ipv6Addr::UNSPECIFIED, |&octets| Ipv6Addr::from(octets))
}
