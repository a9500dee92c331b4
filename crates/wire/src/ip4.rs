//! IPv4: the header, its checksum, its options (RFC 791 3.1).
//!
//! [`Header::parse`] takes what follows the Ethernet header, padding included, and vouches for version and lengths. It
//! does not verify the checksum: a port may have done that ([`header_checksum_ok`] does), and a quoted
//! packet in an ICMP error is parsed without. Addresses are judged by `inet`, not here.

use crate::checksum;
use crate::{Layer, Malformed};
use std::net::Ipv4Addr;

pub use crate::Proto;
pub use options::{Fault, Opt, Options, Route, Timestamps, check_options};
pub use record::{Scribe, raw_options, record, record_option};

mod options;
mod record;
#[cfg(test)]
mod tests;

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header: an IHL of 15.
pub const MAX_HEADER_LEN: usize = 60;

const DF: u16 = 0x4000;
const MF: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// An IPv4 header without its options, which [`Header::options`] reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// Header length in bytes: 20 to 60, a multiple of 4.
    pub ihl_len: usize,
    /// Type of service: DSCP and ECN (RFC 2474, RFC 3168).
    pub tos: u8,
    /// Bytes of header and payload.
    pub total_len: u16,
    /// Identification, for reassembly.
    pub id: u16,
    /// Don't fragment.
    pub df: bool,
    /// More fragments.
    pub mf: bool,
    /// Fragment offset in bytes, a multiple of 8.
    pub frag_off: u16,
    /// Time to live.
    pub ttl: u8,
    /// Payload protocol.
    pub proto: Proto,
    /// Header checksum as found; [`Header::emit`] computes its own.
    pub checksum: u16,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
}

impl Header {
    /// A header without options for `payload_len` bytes: TTL 64, no fragment, ID 0 with DF set (RFC 6864 4.1).
    ///
    /// `None` when the packet would be longer than 65,535 bytes.
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

    /// Reads a header. What it vouches for: version 4, 20 <= IHL <= total length <= `packet.len()`.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Header, Malformed> {
        let header = Header::parse_quoted(packet, Layer::Ip4)?;
        if usize::from(header.total_len) > packet.len() {
            return Err(Malformed::truncated(Layer::Ip4, usize::from(header.total_len), packet.len()));
        }
        Ok(header)
    }

    /// As [`Header::parse`] for a packet of which only a beginning is here: total length may exceed the bytes.
    #[inline(always)]
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

    /// Part of a fragmented datagram.
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.mf || self.frag_off != 0
    }

    /// The payload within the packet this header was parsed from; Ethernet padding is left out.
    #[inline]
    pub fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        packet.get(self.ihl_len..usize::from(self.total_len)).unwrap_or_default()
    }

    /// The options of the packet this header was parsed from.
    #[inline]
    pub fn options<'a>(&self, packet: &'a [u8]) -> Options<'a> {
        Options::new(packet.get(HEADER_LEN..self.ihl_len).unwrap_or_default())
    }

    /// Writes the 20 fixed bytes with their checksum.
    ///
    /// With options (`ihl_len` above 20) append them and call [`fill_checksum`] on the whole header.
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

/// The fixed header at a glance: what input asks of nearly every packet, from three loads.
///
/// To split a header into its fields and verify its checksum ([`Header::parse`], [`header_checksum_ok`]) takes 93 instructions,
/// most of them for fields that nobody asks for; to see here that it is plain and sound takes about 45 (callgrind).
#[derive(Clone, Copy, Debug)]
pub struct Glance {
    first: u64,  // version to fragment offset, in the order of memory
    second: u64, // TTL, protocol, checksum, source
    dst: u32,
}

impl Glance {
    /// `None` when the fixed header is not all there.
    #[inline(always)]
    pub fn of(packet: &[u8]) -> Option<Glance> {
        let header = packet.first_chunk::<HEADER_LEN>()?; // the one check: of 20 bytes the rest is known
        let (first, rest) = header.split_first_chunk()?;
        let (second, rest) = rest.split_first_chunk()?;
        Some(Glance {
            first: u64::from_le_bytes(*first),
            second: u64::from_le_bytes(*second),
            dst: u32::from_le_bytes(*rest.first_chunk()?),
        })
    }

    /// Version 4, no options, not part of a fragmented datagram.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        const MASK: u64 = u64::from_le_bytes([0xff, 0, 0, 0, 0, 0, 0x3f, 0xff]);
        self.first & MASK == 0x45
    }

    /// Header length in bytes, as it says: 0 to 60.
    #[inline(always)]
    pub fn ihl_len(self) -> usize {
        (self.first as usize & 0x0f) * 4
    }

    /// Bytes of header and payload, as it says.
    #[inline(always)]
    pub fn total_len(self) -> u16 {
        ((self.first >> 16) as u16).swap_bytes()
    }

    /// Whether the checksum of a header without options verifies.
    #[inline(always)]
    pub fn checksum_ok(self) -> bool {
        checksum::words20(self.first, self.second, self.dst).verifies()
    }

    /// Time to live.
    #[inline(always)]
    pub fn ttl(self) -> u8 {
        self.second as u8
    }

    /// Type of service: DSCP and ECN.
    #[inline(always)]
    pub fn tos(self) -> u8 {
        (self.first >> 8) as u8
    }

    /// May it not be fragmented?
    #[inline(always)]
    pub fn df(self) -> bool {
        (self.first >> 48) as u8 & (DF >> 8) as u8 != 0
    }

    /// Payload protocol.
    #[inline(always)]
    pub fn proto(self) -> Proto {
        Proto((self.second >> 8) as u8)
    }

    /// Source address.
    #[inline(always)]
    pub fn src(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(((self.second >> 32) as u32).swap_bytes())
    }

    /// Destination address.
    #[inline(always)]
    pub fn dst(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.dst.swap_bytes())
    }
}

/// Whether the header checksum verifies over the first `ihl_len` bytes (RFC 791 3.1); false when they are not there.
#[inline]
pub fn header_checksum_ok(packet: &[u8], ihl_len: usize) -> bool {
    if ihl_len == HEADER_LEN {
        return packet.first_chunk().is_some_and(|header| checksum::header20(header).verifies());
    }
    packet.get(..ihl_len).is_some_and(|header| checksum::sum(header).verifies())
}

/// Computes and writes the checksum of a whole header, options included. Shorter than 20 bytes: does nothing.
pub fn fill_checksum(header: &mut [u8]) {
    if let Some(h) = header.first_chunk_mut::<HEADER_LEN>() {
        [h[10], h[11]] = [0, 0];
    }
    let sum = checksum::sum(header).finish();
    if let Some(h) = header.first_chunk_mut::<HEADER_LEN>() {
        [h[10], h[11]] = sum.to_be_bytes();
    }
}

/// Takes one from the TTL and mends the checksum (RFC 1812 5.3.1, RFC 1624 3). Returns the new TTL.
///
/// `None`, and nothing is written, when the TTL is 0 already or the header is not all there.
#[inline]
pub fn decrement_ttl(packet: &mut [u8]) -> Option<u8> {
    decrement(packet.first_chunk_mut()?, 0)
}

/// The same for a packet that is to travel on: nothing is written either, and `false` said, where no TTL would be left.
#[inline]
pub fn take_hop(header: &mut [u8; HEADER_LEN]) -> bool {
    decrement(header, 1).is_some()
}

#[inline(always)]
fn decrement(header: &mut [u8; HEADER_LEN], least: u8) -> Option<u8> {
    let word = header.get_mut(8..)?.first_chunk_mut::<4>()?;
    let ttl = word[0].checked_sub(1).filter(|ttl| *ttl >= least)?;
    let proto_and_sum = u32::from_le_bytes(*word) >> 8;
    // The TTL is the high byte of its 16 bits: one less there is 0x0100 more in the sum, which read in little endian is 1; what
    // would be 0xffff is 0 (RFC 1624 3).
    let sum = (proto_and_sum >> 8) + 1;
    let sum = (sum + u32::from(sum >= 0xffff)) & 0xffff;
    *word = (sum << 16 | (proto_and_sum & 0xff) << 8 | u32::from(ttl)).to_le_bytes();
    Some(ttl)
}

/// Replaces the type of service and mends the checksum (RFC 1624 3). `None` when the header is not all there.
pub fn set_tos(packet: &mut [u8], tos: u8) -> Option<()> {
    let h = packet.first_chunk_mut::<HEADER_LEN>()?;
    let old_sum = u16::from_be_bytes([h[10], h[11]]);
    let sum = checksum::update16(old_sum, u16::from_be_bytes([h[0], h[1]]), u16::from_be_bytes([h[0], tos]));
    h[1] = tos;
    [h[10], h[11]] = sum.to_be_bytes();
    Some(())
}
