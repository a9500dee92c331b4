//! UDP: ports, length, checksum (RFC 768).
//!
//! [`Header::parse`] takes the bytes after the IP header, and checks the length. The checksum also
//! covers the IP addresses; [`checksum_ok`] verifies it, with a pseudo header from the caller.

use crate::checksum::{self, Partial};
use crate::{L4Port, Layer, Malformed};

#[cfg(test)]
mod tests;

/// Length of a UDP header in bytes.
pub const HEADER_LEN: usize = 8;

/// A UDP header (RFC 768).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Header {
    /// Source port; 0 if no reply is expected.
    pub src: L4Port,
    /// Destination port of the datagram.
    pub dst: L4Port,
    /// Length of header and payload in bytes.
    pub len: u16,
    /// Checksum as received; 0 means "not computed", which only IPv4 allows (RFC 768, RFC 8200
    /// 8.1).
    pub checksum: u16,
}

impl Header {
    /// Parses a header. Checks that 8 <= `len` <= `segment.len()`. Bytes after `len` do not belong
    /// to the datagram.
    #[inline(always)] // see tcp::Header::parse
    pub fn parse(segment: &[u8]) -> Result<Header, Malformed> {
        let Some(h) = segment.first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::truncated(Layer::Udp, HEADER_LEN, segment.len()));
        };
        let header = Header::read(h);
        if usize::from(header.len) < HEADER_LEN {
            return Err(Malformed::BadTotalLen { layer: Layer::Udp, len: header.len });
        }
        if usize::from(header.len) > segment.len() {
            return Err(Malformed::truncated(Layer::Udp, usize::from(header.len), segment.len()));
        }
        Ok(header)
    }

    /// Parses a header whose length was already checked.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub const fn read(h: &[u8; HEADER_LEN]) -> Header {
        Header {
            src: L4Port(u16::from_be_bytes([h[0], h[1]])),
            dst: L4Port(u16::from_be_bytes([h[2], h[3]])),
            len: u16::from_be_bytes([h[4], h[5]]),
            checksum: u16::from_be_bytes([h[6], h[7]]),
        }
    }

    /// Returns the payload within the segment from which this header was parsed.
    #[inline]
    pub fn payload<'a>(&self, segment: &'a [u8]) -> &'a [u8] {
        segment.get(HEADER_LEN..usize::from(self.len)).unwrap_or_default()
    }

    /// Writes the header. The field `checksum` is written as it is.
    #[inline]
    pub fn emit(&self, out: &mut [u8; HEADER_LEN]) {
        let [s0, s1] = self.src.0.to_be_bytes();
        let [d0, d1] = self.dst.0.to_be_bytes();
        let [l0, l1] = self.len.to_be_bytes();
        let [c0, c1] = self.checksum.to_be_bytes();
        *out = [s0, s1, d0, d1, l0, l1, c0, c1];
    }

    /// Returns this header with the checksum filled in, computed over `pseudo`, the header and
    /// `payload`. It is never 0 (RFC 768: zero is sent as all ones).
    #[inline]
    pub fn with_checksum(mut self, pseudo: Partial, payload: &[u8]) -> Header {
        let header = pseudo.add_u16(self.src.0).add_u16(self.dst.0).add_u16(self.len);
        self.checksum = header.add(checksum::sum(payload)).finish_nonzero();
        self
    }
}

/// Returns whether the checksum of a datagram with its pseudo header is correct. `datagram` is
/// header and payload, exactly `len` bytes.
///
/// A checksum of 0 is treated like any other. Where 0 means "not computed" (IPv4), the caller must
/// check [`Header::checksum`] first.
#[inline(always)]
pub fn checksum_ok(pseudo: Partial, datagram: &[u8]) -> bool {
    pseudo.add(checksum::sum(datagram)).verifies()
}
