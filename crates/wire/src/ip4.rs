//! IPv4: the header, its checksum and its options (RFC 791 3.1).
//!
//! [`Header::parse`] takes the bytes after the Ethernet header, padding included, and checks
//! version and lengths. It does not verify the checksum, because the port may have done so, and
//! because the checksum of a packet quoted in an ICMP error is not verified. [`header_checksum_ok`]
//! verifies it. `inet` checks the addresses.

use crate::checksum;
use crate::{Layer, Malformed};
use core::net::Ipv4Addr;

pub use crate::Proto;
pub use check::{Fault, check_options};
pub use options::{Opt, Options, Route, Timestamps};
pub use record::{Scribe, raw_options, record, record_option};

mod check;
mod options;
mod record;
#[cfg(test)]
mod tests;

/// Length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// Maximum length of a header in bytes: an IHL of 15.
pub const MAX_HEADER_LEN: usize = 60;

const DF: u16 = 0x4000;
const MF: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// An IPv4 header without its options; see [`Header::options`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// Header length in bytes: 20 to 60, a multiple of 4.
    pub ihl_len: usize,
    /// Type of service: DSCP and ECN (RFC 2474, RFC 3168).
    pub tos: u8,
    /// Length of header and payload in bytes.
    pub total_len: u16,
    /// Identification, for reassembly.
    pub id: u16,
    /// Don't Fragment flag (DF).
    pub df: bool,
    /// More Fragments flag (MF).
    pub mf: bool,
    /// Fragment offset in bytes, a multiple of 8.
    pub frag_off: u16,
    /// Time to live (TTL).
    pub ttl: u8,
    /// Protocol of the payload.
    pub proto: Proto,
    /// Header checksum as received; [`Header::emit`] computes its own.
    pub checksum: u16,
    /// Source address of the packet.
    pub src: Ipv4Addr,
    /// Destination address of the packet.
    pub dst: Ipv4Addr,
}

impl Header {
    /// Returns a header without options for `payload_len` bytes of payload. Its TTL is 64, and its
    /// ID is 0 with DF set (RFC 6864 4.1).
    ///
    /// Returns `None` if the packet would be longer than 65,535 bytes.
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, proto: Proto, payload_len: usize) -> Option<Header> {
        Some(Header {
            ihl_len: HEADER_LEN,
            tos: 0,
            total_len: payload_len.checked_add(HEADER_LEN)?.try_into().ok()?,
            id: 0,
            df: true,
            mf: false,
            frag_off: 0,
            ttl: 64,
            proto,
            checksum: 0,
            src,
            dst,
        })
    }

    /// Parses a header. Checks that the version is 4 and that 20 <= IHL <= total length <=
    /// `packet.len()`.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Header, Malformed> {
        let header = Header::parse_quoted(packet, Layer::Ip4)?;
        if usize::from(header.total_len) > packet.len() {
            return Err(Malformed::truncated(Layer::Ip4, usize::from(header.total_len), packet.len()));
        }
        Ok(header)
    }

    /// Parses a header as [`Header::parse`] does, but accepts a truncated packet: the total length
    /// may exceed the bytes present.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn parse_quoted(packet: &[u8], layer: Layer) -> Result<Header, Malformed> {
        let Some(h) = packet.first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::truncated(layer, HEADER_LEN, packet.len()));
        };
        let ihl_len = usize::from(h[0] & 0x0f) * 4;
        let total_len = u16::from_be_bytes([h[2], h[3]]);
        if h[0] >> 4 != 4 {
            return Err(Malformed::BadVersion { layer, found: h[0] >> 4 });
        }
        if ihl_len < HEADER_LEN {
            return Err(Malformed::BadHeaderLen { layer, len: ihl_len as u16 });
        }
        if ihl_len > packet.len() {
            return Err(Malformed::truncated(layer, ihl_len, packet.len()));
        }
        if usize::from(total_len) < ihl_len {
            return Err(Malformed::BadTotalLen { layer, len: total_len });
        }
        let fragment = u16::from_be_bytes([h[6], h[7]]);
        Ok(Header {
            ihl_len,
            tos: h[1],
            total_len,
            id: u16::from_be_bytes([h[4], h[5]]),
            df: fragment & DF != 0,
            mf: fragment & MF != 0,
            frag_off: (fragment & OFFSET) << 3,
            ttl: h[8],
            proto: Proto(h[9]),
            checksum: u16::from_be_bytes([h[10], h[11]]),
            src: Ipv4Addr::new(h[12], h[13], h[14], h[15]),
            dst: Ipv4Addr::new(h[16], h[17], h[18], h[19]),
        })
    }

    /// Returns whether the packet is a fragment.
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.mf || self.frag_off != 0
    }

    /// Returns the payload within the packet from which this header was parsed, without Ethernet
    /// padding.
    #[inline]
    pub fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        packet.get(self.ihl_len..usize::from(self.total_len)).unwrap_or_default()
    }

    /// Returns the options of the packet from which this header was parsed.
    #[inline]
    pub fn options<'a>(&self, packet: &'a [u8]) -> Options<'a> {
        Options::new(packet.get(HEADER_LEN..self.ihl_len).unwrap_or_default())
    }

    /// Writes the 20 fixed bytes with their checksum.
    ///
    /// If there are options (`ihl_len` above 20), the caller must append them and call
    /// [`fill_checksum`] on the whole header.
    #[inline]
    pub fn emit(&self, out: &mut [u8; HEADER_LEN]) {
        let [l0, l1] = self.total_len.to_be_bytes();
        let [i0, i1] = self.id.to_be_bytes();
        let flags = if self.df { DF } else { 0 } | if self.mf { MF } else { 0 };
        let [f0, f1] = (flags | self.frag_off >> 3).to_be_bytes();
        let [s0, s1, s2, s3] = self.src.octets();
        let [d0, d1, d2, d3] = self.dst.octets();
        let ihl = (self.ihl_len / 4) as u8 & 0x0f;
        #[rustfmt::skip]
        let mut h = [
            0x40 | ihl, self.tos, l0, l1, i0, i1, f0, f1, self.ttl, self.proto.0, 0, 0,
            s0, s1, s2, s3, d0, d1, d2, d3,
        ];
        [h[10], h[11]] = checksum::header20(&h).finish().to_be_bytes();
        *out = h;
    }
}

/// The fixed header as three words, for access to the fields that nearly every received packet
/// needs.
///
/// [`Header::parse`] and [`header_checksum_ok`] together take 93 instructions, most of them for
/// fields that are not needed. Checking with this type that a header is valid, has no options and
/// is not a fragment takes about 45 (callgrind).
#[derive(Clone, Copy, Debug)]
pub struct HeaderView {
    first: u64,  // version to fragment offset, in memory order
    second: u64, // TTL, protocol, checksum, source
    dst: u32,
}

impl HeaderView {
    /// Loads the fixed header; `None` if it is incomplete.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn of(packet: &[u8]) -> Option<HeaderView> {
        let header = packet.first_chunk::<HEADER_LEN>()?; // the only bounds check
        let (first, rest) = header.split_first_chunk()?;
        let (second, rest) = rest.split_first_chunk()?;
        Some(HeaderView {
            first: u64::from_le_bytes(*first),
            second: u64::from_le_bytes(*second),
            dst: u32::from_le_bytes(*rest.first_chunk()?),
        })
    }

    /// Returns whether the packet is version 4, has no options and is not a fragment.
    #[inline(always)]
    pub fn is_unfragmented_without_options(self) -> bool {
        const MASK: u64 = u64::from_le_bytes([0xff, 0, 0, 0, 0, 0, 0x3f, 0xff]);
        self.first & MASK == 0x45
    }

    /// Returns the header length in bytes from the IHL field: 0 to 60, unchecked.
    #[inline(always)]
    pub fn ihl_len(self) -> usize {
        (self.first as usize & 0x0f) * 4
    }

    /// Returns the total length field, unchecked.
    #[inline(always)]
    pub fn total_len(self) -> u16 {
        ((self.first >> 16) as u16).swap_bytes()
    }

    /// Returns whether the checksum of a header without options is correct.
    #[inline(always)]
    pub fn checksum_ok(self) -> bool {
        checksum::words20(self.first, self.second, self.dst).verifies()
    }

    /// Returns the time to live.
    #[inline(always)]
    pub fn ttl(self) -> u8 {
        self.second as u8
    }

    /// Returns the type of service: DSCP and ECN.
    #[inline(always)]
    pub fn tos(self) -> u8 {
        (self.first >> 8) as u8
    }

    /// Returns whether the Don't Fragment flag is set.
    #[inline(always)]
    pub fn df(self) -> bool {
        (self.first >> 48) as u8 & (DF >> 8) as u8 != 0
    }

    /// Returns the protocol of the payload.
    #[inline(always)]
    pub fn proto(self) -> Proto {
        Proto((self.second >> 8) as u8)
    }

    /// Returns the source address.
    #[inline(always)]
    pub fn src(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(((self.second >> 32) as u32).swap_bytes())
    }

    /// Returns the destination address.
    #[inline(always)]
    pub fn dst(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.dst.swap_bytes())
    }
}

/// Returns whether the header checksum over the first `ihl_len` bytes is correct (RFC 791 3.1).
/// Returns false if there are fewer bytes.
#[inline]
pub fn header_checksum_ok(packet: &[u8], ihl_len: usize) -> bool {
    if ihl_len == HEADER_LEN {
        return packet.first_chunk().is_some_and(|header| checksum::header20(header).verifies());
    }
    packet.get(..ihl_len).is_some_and(|header| checksum::sum(header).verifies())
}

/// Computes and writes the checksum of a whole header, including options. Does nothing if it is
/// shorter than 20 bytes.
pub fn fill_checksum(header: &mut [u8]) {
    if let Some(h) = header.first_chunk_mut::<HEADER_LEN>() {
        [h[10], h[11]] = [0, 0];
    }
    let sum = checksum::sum(header).finish();
    if let Some(h) = header.first_chunk_mut::<HEADER_LEN>() {
        [h[10], h[11]] = sum.to_be_bytes();
    }
}

/// Decrements the TTL and updates the checksum (RFC 1812 5.3.1, RFC 1624 3). Returns the new TTL.
///
/// Returns `None`, and writes nothing, if the TTL is already 0 or the header is incomplete.
#[inline]
pub fn decrement_ttl(packet: &mut [u8]) -> Option<u8> {
    decrement(packet.first_chunk_mut()?, 0)
}

/// Decrements the TTL of a packet that is to be forwarded, and updates the checksum, as
/// [`decrement_ttl`] does. Returns false, and writes nothing, if the new TTL would be 0.
#[inline]
pub fn take_hop(header: &mut [u8; HEADER_LEN]) -> bool {
    decrement(header, 1).is_some()
}

#[cfg_attr(not(debug_assertions), inline(always))]
fn decrement(header: &mut [u8; HEADER_LEN], least: u8) -> Option<u8> {
    let word = header.get_mut(8..)?.first_chunk_mut::<4>()?;
    let ttl = word[0].checked_sub(1).filter(|ttl| *ttl >= least)?;
    let proto_and_sum = u32::from_le_bytes(*word) >> 8;
    // The TTL is the high byte of its 16-bit word. Decrementing it adds 0x0100 to the checksum,
    // which is 1 in the little-endian value used here. 0xffff becomes 0 (RFC 1624 3).
    let sum = (proto_and_sum >> 8) + 1;
    let sum = (sum + u32::from(sum >= 0xffff)) & 0xffff;
    *word = (sum << 16 | (proto_and_sum & 0xff) << 8 | u32::from(ttl)).to_le_bytes();
    Some(ttl)
}

/// Replaces the type of service and updates the checksum (RFC 1624 3). Returns `None` if the header
/// is incomplete.
pub fn set_tos(packet: &mut [u8], tos: u8) -> Option<()> {
    let h = packet.first_chunk_mut::<HEADER_LEN>()?;
    let old_sum = u16::from_be_bytes([h[10], h[11]]);
    let sum = checksum::update16(old_sum, u16::from_be_bytes([h[0], h[1]]), u16::from_be_bytes([h[0], tos]));
    h[1] = tos;
    [h[10], h[11]] = sum.to_be_bytes();
    Some(())
}
