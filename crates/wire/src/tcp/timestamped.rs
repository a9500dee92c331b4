//! The header of nearly every segment of a connection: 20 bytes, and the timestamps option padded
//! as in RFC 7323 appendix A. It is read and written as four words. Writing header and options
//! field by field needs many small stores, and the checksum over them would have to wait for these
//! stores.

use super::Flags;
use crate::L4Port;
use crate::checksum::{self, Partial};

/// A TCP header of 32 bytes, with timestamps and no other option. Its urgent pointer is 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Timestamped {
    /// Source port of the segment.
    pub src: L4Port,
    /// Destination port of the segment.
    pub dst: L4Port,
    /// Sequence number of the segment.
    pub seq: u32,
    /// Acknowledgment number, significant with [`Flags::ACK`].
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// Window field, not scaled.
    pub window: u16,
    /// TSval, the sender's timestamp.
    pub val: u32,
    /// TSecr, the echoed timestamp.
    pub ecr: u32,
}

/// Header byte with data offset 8 and reserved bits 0.
const OFFSET: u8 = 0x80;
/// First word of the options: NOP, NOP, kind 8 (timestamps), length 10.
const OPTION: u32 = 0x0101_080a;

impl Timestamped {
    /// Length of the header in bytes.
    pub const LEN: usize = 32;

    /// Parses the header. Returns `None` if the header of the segment has another form. Checksum
    /// and urgent pointer are not checked.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn parse(segment: &[u8]) -> Option<Timestamped> {
        let (words, _) = segment.first_chunk::<{ Timestamped::LEN }>()?.as_chunks();
        let [first, second, third, fourth] = *words.first_chunk()?;
        let [first, second, third, fourth] = [first, second, third, fourth].map(u64::from_be_bytes);
        let [_, _, _, _, offset, flags, w0, w1] = second.to_be_bytes();
        (offset == OFFSET && third as u32 == OPTION).then_some(Timestamped {
            src: L4Port((first >> 48) as u16),
            dst: L4Port((first >> 32) as u16),
            seq: first as u32,
            ack: (second >> 32) as u32,
            flags: Flags(flags),
            window: u16::from_be_bytes([w0, w1]),
            val: (fourth >> 32) as u32,
            ecr: fourth as u32,
        })
    }

    /// Writes the header. `field` receives the sum over the header, and must return the checksum
    /// field.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn emit(&self, out: &mut [u8; Timestamped::LEN], field: impl FnOnce(Partial) -> u16) {
        let ports = u64::from(self.src.0) << 48 | u64::from(self.dst.0) << 32;
        let bits = u64::from(OFFSET) << 24 | u64::from(self.flags.0) << 16 | u64::from(self.window);
        let [first, second, fourth] = [
            ports | u64::from(self.seq),
            u64::from(self.ack) << 32 | bits,
            u64::from(self.val) << 32 | u64::from(self.ecr),
        ];
        let sum = checksum::words([first, second, u64::from(OPTION), fourth]);
        let third = u64::from(field(sum)) << 48 | u64::from(OPTION);
        for (room, word) in out.as_chunks_mut().0.iter_mut().zip([first, second, third, fourth]) {
            *room = word.to_be_bytes();
        }
    }
}
