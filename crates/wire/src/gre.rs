//! GRE: a packet of any protocol after an IP header (RFC 2784), with the key and sequence number of
//! RFC 2890.
//!
//! [`Header::parse`] takes the bytes after the IP header, and checks version, reserved bits and
//! length. The checksum also covers the payload; [`checksum_ok`] verifies it. The routing field of
//! RFC 1701 is rejected, as RFC 2784 2.3 requires.

use crate::checksum;
use crate::eth::EtherType;
use crate::{Layer, Malformed};

#[cfg(test)]
mod tests;

/// Length in bytes of a header without checksum, key and sequence number.
pub const HEADER_LEN: usize = 4;
/// Length in bytes of a header with all optional fields.
pub const MAX_HEADER_LEN: usize = 16;

const CHECKSUM: u16 = 0x8000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
/// Flags of RFC 1701: routing, strict source route and recursion. A packet in which one is set must
/// be discarded (RFC 2784 2.3).
const REFUSED: u16 = 0x4c00;
const VERSION: u16 = 0x0007;

/// A GRE header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// Protocol of the payload.
    pub protocol: EtherType,
    /// True if a checksum over header and payload is present.
    pub has_checksum: bool,
    /// Key that identifies a flow between two tunnel ends (RFC 2890 2.1); `None` if absent.
    pub key: Option<u32>,
    /// Sequence number of the packet in its flow (RFC 2890 2.2); `None` if absent.
    pub sequence: Option<u32>,
}

impl Header {
    /// Parses a GRE header.
    ///
    /// # Errors
    /// The header is truncated, has another version, or has bits set that RFC 2784 2.3 forbids.
    /// Other reserved bits are ignored.
    pub fn parse(packet: &[u8]) -> Result<Header, Malformed> {
        let Some(&[f0, f1, p0, p1]) = packet.first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::truncated(Layer::Gre, HEADER_LEN, packet.len()));
        };
        let flags = u16::from_be_bytes([f0, f1]);
        if flags & VERSION != 0 {
            return Err(Malformed::BadVersion { layer: Layer::Gre, found: (flags & VERSION) as u8 });
        }
        if flags & REFUSED != 0 {
            return Err(Malformed::BadFlags { layer: Layer::Gre, found: flags });
        }
        let len = len_of(flags);
        let Some(mut rest) = packet.get(HEADER_LEN..len) else {
            return Err(Malformed::truncated(Layer::Gre, len, packet.len()));
        };
        let mut word = |there: bool| {
            let (word, after) = rest.split_first_chunk::<4>().filter(|_| there)?;
            rest = after;
            Some(u32::from_be_bytes(*word))
        };
        let has_checksum = word(flags & CHECKSUM != 0).is_some();
        let (key, sequence) = (word(flags & KEY != 0), word(flags & SEQUENCE != 0));
        Ok(Header { protocol: EtherType(u16::from_be_bytes([p0, p1])), has_checksum, key, sequence })
    }

    fn flags(&self) -> u16 {
        let bit = |on: bool, bit| if on { bit } else { 0 };
        bit(self.has_checksum, CHECKSUM) | bit(self.key.is_some(), KEY) | bit(self.sequence.is_some(), SEQUENCE)
    }

    /// Returns the length of the header in bytes.
    pub fn header_len(&self) -> usize {
        len_of(self.flags())
    }

    /// Writes the header at the start of `packet`; the checksum, if any, covers all of `packet`.
    ///
    /// Returns `None`, and writes nothing, if `packet` is shorter than the header.
    pub fn emit(&self, packet: &mut [u8]) -> Option<()> {
        let header = packet.get_mut(..self.header_len())?;
        let (fixed, mut rest) = header.split_first_chunk_mut::<HEADER_LEN>()?;
        let ([f0, f1], [p0, p1]) = (self.flags().to_be_bytes(), self.protocol.0.to_be_bytes());
        *fixed = [f0, f1, p0, p1];
        for word in [self.has_checksum.then_some(0), self.key, self.sequence].into_iter().flatten() {
            let (room, after) = rest.split_first_chunk_mut::<4>()?;
            *room = u32::to_be_bytes(word);
            rest = after;
        }
        if self.has_checksum {
            let sum = checksum::sum(packet).finish().to_be_bytes();
            packet.get_mut(4..6)?.copy_from_slice(&sum);
        }
        Some(())
    }
}

fn len_of(flags: u16) -> usize {
    HEADER_LEN + 4 * (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize
}

/// Returns whether the checksum of a whole GRE packet is correct (RFC 2784 2.1). The packet must
/// have one.
pub fn checksum_ok(packet: &[u8]) -> bool {
    checksum::sum(packet).verifies()
}
