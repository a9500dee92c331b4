//! The insides of pcapng blocks: interfaces, packets, options (draft-ietf-opsawg-pcapng-04, sections 3 and 4).

use super::{Direction, Fault, Record};
use std::ops::Range;

/// Section Header Block; the same either way round.
pub const SECTION: u32 = 0x0a0d_0d0a;
/// Interface Description Block.
pub const INTERFACE: u32 = 1;
/// Packet Block, obsolete.
pub const OLD_PACKET: u32 = 2;
/// Simple Packet Block.
pub const SIMPLE_PACKET: u32 = 3;
/// Enhanced Packet Block.
pub const PACKET: u32 = 6;
/// The byte-order magic of a section.
pub const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Numbers of a file, in its byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    pub big_endian: bool,
}

impl Numbers {
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn i64(self, bytes: &[u8]) -> Option<i64> {
        let bytes = *bytes.first_chunk()?;
        Some(if self.big_endian { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) })
    }

    /// The first option of that code.
    fn option(self, mut options: &[u8], wanted: u16) -> Option<&[u8]> {
        loop {
            let (code, len) = (self.u16(options, 0)?, usize::from(self.u16(options, 2)?));
            if code == 0 {
                return None;
            }
            let value = options.get(4..4 + len)?;
            if code == wanted {
                return Some(value);
            }
            options = options.get(4 + len.next_multiple_of(4)..)?;
        }
    }
}

/// An interface of a section.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    pub linktype: u16,
    snaplen: u32,
    /// if_tsresol: a negative power of ten, or of two with the top bit set.
    resolution: u8,
    /// if_tsoffset: seconds to add.
    offset_s: i64,
}

impl Interface {
    pub fn parse(numbers: Numbers, body: &[u8]) -> Option<Interface> {
        let options = body.get(8..)?;
        let resolution = numbers.option(options, 9).and_then(|value| value.first().copied());
        let offset_s = numbers.option(options, 14).and_then(|value| numbers.i64(value));
        Some(Interface {
            linktype: numbers.u16(body, 0)?,
            snaplen: numbers.u32(body, 4)?,
            resolution: resolution.unwrap_or(6),
            offset_s: offset_s.unwrap_or(0),
        })
    }

    /// Units of the interface's clock as nanoseconds since 1970, saturating.
    fn nanos(&self, units: u64) -> u64 {
        let power = u32::from(self.resolution & 0x7f);
        let ns = if self.resolution & 0x80 != 0 {
            (u128::from(units) * 1_000_000_000).checked_shr(power).unwrap_or(0)
        } else if power <= 9 {
            u128::from(units) * 10u128.pow(9 - power)
        } else {
            10u128.checked_pow(power - 9).map_or(0, |scale| u128::from(units) / scale)
        };
        let ns = i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// A record whose data lie at a range of the block's body.
#[derive(Clone, Debug)]
pub struct Found {
    pub record: Record<'static>,
    pub data: Range<usize>,
}

/// Reads the body of a packet block of type `ty`.
pub fn packet(numbers: Numbers, ty: u32, body: &[u8], known: &[Interface], last_ns: u64) -> Result<Found, Fault> {
    let word = |at| numbers.u32(body, at).ok_or(short(body));
    let (id, ts, captured, orig_len, start) = match ty {
        SIMPLE_PACKET => {
            let orig_len = word(0)?;
            let snaplen = known.first().map_or(0, |interface| interface.snaplen);
            let captured = if snaplen == 0 { orig_len } else { orig_len.min(snaplen) };
            (0, None, captured, orig_len, 4)
        }
        OLD_PACKET => {
            let id = numbers.u16(body, 0).ok_or(short(body))?;
            (u32::from(id), Some((word(4)?, word(8)?)), word(12)?, word(16)?, 20)
        }
        _ => (word(0)?, Some((word(4)?, word(8)?)), word(12)?, word(16)?, 20),
    };
    let found = usize::try_from(id).ok().and_then(|id| known.get(id));
    let interface = found.ok_or(Fault::UnknownInterface { id, known: known.len() })?;
    let end = usize::try_from(captured).ok().and_then(|len| len.checked_add(start)).filter(|end| *end <= body.len());
    let end = end.ok_or(Fault::Length { len: captured.into(), what: "the packet is longer than its block" })?;
    let options = body.get(end.next_multiple_of(4)..).unwrap_or_default();
    let direction = match numbers.option(options, 2).filter(|_| ty != SIMPLE_PACKET).and_then(|v| numbers.u32(v, 0)) {
        Some(flags) if flags & 3 == 1 => Direction::Inbound,
        Some(flags) if flags & 3 == 2 => Direction::Outbound,
        _ => Direction::Unknown,
    };
    let ts_ns = ts.map_or(last_ns, |(high, low)| interface.nanos(u64::from(high) << 32 | u64::from(low)));
    let record = Record { ts_ns, orig_len, data: &[], linktype: interface.linktype, interface: id, direction };
    Ok(Found { record, data: start..end })
}

fn short(body: &[u8]) -> Fault {
    Fault::Length { len: body.len() as u64, what: "too short for its type of block" }
}
