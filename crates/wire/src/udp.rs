//! UDP: ports, length, checksum (RFC 768).
//!
//! [`Header::parse`] takes what follows the IP header and vouches for the length; the checksum needs the IP addresses
//! and is checked by [`checksum_ok`] with a pseudo header the caller makes.

use crate::checksum::{self, Partial};
use crate::{L4Port, Layer, Malformed};

#[cfg(test)]
mod tests;

/// Bytes of a UDP header.
pub const HEADER_LEN: usize = 8;

/// A UDP header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Header {
    /// Source port; 0 when no answer is wanted.
    pub src: L4Port,
    /// Destination port.
    pub dst: L4Port,
    /// Bytes of header and payload.
    pub len: u16,
    /// The checksum as found; 0 means "not computed", which only IPv4 allows (RFC 768, RFC 8200 8.1).
    pub checksum: u16,
}

impl Header {
    /// Reads a header and checks 8 <= `len` <= `segment.len()`. Bytes after `len` are not the datagram's.
    #[inline(always)] // as tcp::Header::parse
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

    /// Reads a header whose length has been checked before.
    #[inline(always)]
    pub const fn read(h: &[u8; HEADER_LEN]) -> Header {
        Header {
            src: L4Port(u16::from_be_bytes([h[0], h[1]])),
            dst: L4Port(u16::from_be_bytes([h[2], h[3]])),
            len: u16::from_be_bytes([h[4], h[5]]),
            checksum: u16::from_be_bytes([h[6], h[7]]),
        }
    }

    /// The payload within the segment this header was parsed from.
    #[inline]
    pub fn payload<'a>(&self, segment: &'a [u8]) -> &'a [u8] {
        segment.get(HEADER_LEN..usize::from(self.len)).unwrap_or_default()
    }

    /// Writes the header with `checksum` as it stands.
    #[inline]
    pub fn emit(&self, out: &mut [u8; HEADER_LEN]) {
        let [s0, s1] = self.src.0.to_be_bytes();
        let [d0, d1] = self.dst.0.to_be_bytes();
        let [l0, l1] = self.len.to_be_bytes();
        let [c0, c1] = self.checksum.to_be_bytes();
        *out = [s0, s1, d0, d1, l0, l1, c0, c1];
    }

    /// This header with the checksum for `payload` under `pseudo`; never 0 (RFC 768: zero is sent as all ones).
    #[inline]
    pub fn with_checksum(mut self, pseudo: Partial, payload: &[u8]) -> Header {
        let header = pseudo.add_u16(self.src.0).add_u16(self.dst.0).add_u16(self.len);
        self.checksum = header.add(checksum::sum(payload)).finish_nonzero();
        self
    }
}

/// Whether a datagram (header and payload, exactly `len` bytes) verifies under its pseudo header.
///
/// A checksum of 0 is answered like any other; ask [`Header::checksum`] first where the family allows "none".
#[inline(always)]
pub fn checksum_ok(pseudo: Partial, datagram: &[u8]) -> bool {
    pseudo.add(checksum::sum(datagram)).verifies()
}
