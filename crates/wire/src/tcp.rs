//! The TCP header: ports, sequence numbers, flags, window, options (RFC 9293 3.1).
//!
//! [`Header::parse`] takes the bytes after the IP header, and checks the data offset. The checksum
//! also covers the IP addresses; [`checksum_ok`] verifies it. Sequence numbers are plain `u32`
//! here; the crate `tcp` has a type for their circular order.

use crate::checksum::{self, Partial};
use crate::{L4Port, Layer, Malformed};
use core::fmt;
use core::ops::BitOr;

pub use options::{MAX_OPTIONS_LEN, Opt, OptionWriter, Options, SackBlocks};
pub use timestamped::Timestamped;

mod options;
#[cfg(test)]
mod tests;
mod timestamped;

/// Length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;

/// Control bits, with the values that they have in the flags byte of the header, at offset 13 (RFC
/// 9293 3.1, RFC 3168 6.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push function.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgment field is significant.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer field is significant.
    pub const URG: Flags = Flags(0x20);
    /// ECN-Echo (RFC 3168 6.1).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion Window Reduced (RFC 3168 6.1).
    pub const CWR: Flags = Flags(0x80);

    /// Returns whether all flags in `other` are set.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether any flag in `other` is set.
    #[inline]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Flags {
    type Output = Flags;
    #[inline]
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// Prints the flags with the letters and in the order of tcpdump, or `none` if no flag is set.
impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: [(Flags, char); 8] = [
            (Flags::FIN, 'F'),
            (Flags::SYN, 'S'),
            (Flags::RST, 'R'),
            (Flags::PSH, 'P'),
            (Flags::ACK, '.'),
            (Flags::URG, 'U'),
            (Flags::ECE, 'E'),
            (Flags::CWR, 'W'),
        ];
        if self.0 == 0 {
            return f.write_str("none");
        }
        let mut set = LETTERS.iter().filter(|(flag, _)| self.contains(*flag));
        set.try_for_each(|(_, letter)| fmt::Write::write_char(f, *letter))
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

/// A TCP header without its options; see [`Header::options`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// Source port of the segment.
    pub src: L4Port,
    /// Destination port of the segment.
    pub dst: L4Port,
    /// Sequence number of the segment.
    pub seq: u32,
    /// Acknowledgment number, significant with [`Flags::ACK`].
    pub ack: u32,
    /// Header length in bytes, including options: 20 to 60, a multiple of 4.
    pub header_len: usize,
    /// Control bits.
    pub flags: Flags,
    /// Window field, not scaled.
    pub window: u16,
    /// Checksum as received.
    pub checksum: u16,
    /// Urgent pointer, significant with [`Flags::URG`].
    pub urgent: u16,
}

impl Header {
    /// Parses a header. Checks that 20 <= data offset <= `segment.len()`. Reserved bits are
    /// ignored.
    // Always inlined. Otherwise the header is returned through memory and read in wider words than
    // it was written, and each read of this kind stalls.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn parse(segment: &[u8]) -> Result<Header, Malformed> {
        let Some(h) = segment.first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::truncated(Layer::Tcp, HEADER_LEN, segment.len()));
        };
        let header_len = usize::from(h[12] >> 4) * 4;
        if header_len < HEADER_LEN {
            return Err(Malformed::BadHeaderLen { layer: Layer::Tcp, len: header_len as u16 });
        }
        if header_len > segment.len() {
            return Err(Malformed::truncated(Layer::Tcp, header_len, segment.len()));
        }
        Ok(Header {
            src: L4Port(u16::from_be_bytes([h[0], h[1]])),
            dst: L4Port(u16::from_be_bytes([h[2], h[3]])),
            seq: u32::from_be_bytes([h[4], h[5], h[6], h[7]]),
            ack: u32::from_be_bytes([h[8], h[9], h[10], h[11]]),
            header_len,
            flags: Flags(h[13]),
            window: u16::from_be_bytes([h[14], h[15]]),
            checksum: u16::from_be_bytes([h[16], h[17]]),
            urgent: u16::from_be_bytes([h[18], h[19]]),
        })
    }

    /// Returns the payload within the segment from which this header was parsed.
    #[inline]
    pub fn payload<'a>(&self, segment: &'a [u8]) -> &'a [u8] {
        segment.get(self.header_len..).unwrap_or_default()
    }

    /// Returns the options of the segment from which this header was parsed.
    #[inline]
    pub fn options<'a>(&self, segment: &'a [u8]) -> Options<'a> {
        Options::new(segment.get(HEADER_LEN..self.header_len).unwrap_or_default())
    }

    /// Writes the 20 fixed bytes. The field `checksum` is written as it is, reserved bits as zero.
    ///
    /// The caller then appends options with [`OptionWriter`] and calls [`fill_checksum`] on the
    /// whole segment.
    #[inline]
    pub fn emit(&self, out: &mut [u8; HEADER_LEN]) {
        let [s0, s1] = self.src.0.to_be_bytes();
        let [d0, d1] = self.dst.0.to_be_bytes();
        let [q0, q1, q2, q3] = self.seq.to_be_bytes();
        let [a0, a1, a2, a3] = self.ack.to_be_bytes();
        let [w0, w1] = self.window.to_be_bytes();
        let [c0, c1] = self.checksum.to_be_bytes();
        let [u0, u1] = self.urgent.to_be_bytes();
        let offset = ((self.header_len / 4) as u8) << 4;
        #[rustfmt::skip]
        let bytes = [
            s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3,
            offset, self.flags.0, w0, w1, c0, c1, u0, u1,
        ];
        *out = bytes;
    }
}

/// Returns whether the checksum of a whole segment with its pseudo header is correct (RFC 9293 3.1,
/// MUST-3).
#[inline(always)]
pub fn checksum_ok(pseudo: Partial, segment: &[u8]) -> bool {
    pseudo.add(checksum::sum(segment)).verifies()
}

/// Computes and writes the checksum of a whole segment (RFC 9293 3.1, MUST-2). Does nothing if it
/// is shorter than 20 bytes.
#[inline]
pub fn fill_checksum(pseudo: Partial, segment: &mut [u8]) {
    if let Some(h) = segment.first_chunk_mut::<HEADER_LEN>() {
        [h[16], h[17]] = [0, 0];
    }
    let sum = pseudo.add(checksum::sum(segment)).finish();
    if let Some(h) = segment.first_chunk_mut::<HEADER_LEN>() {
        [h[16], h[17]] = sum.to_be_bytes();
    }
}
