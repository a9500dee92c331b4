//! Types of pcapng blocks, and contents of packet blocks (draft-ietf-opsawg-pcapng-04, sections 3
//! and 4).

use super::error::Fault;
use super::options::{Numbers, packet_option};
use super::record::{Direction, LINKTYPE_ETHERNET, Record};
use super::section::Interface;
use std::ops::Range;

/// Block type of a Section Header Block. It has the same value in either byte order.
pub const SECTION: u32 = 0x0a0d_0d0a;
/// Block type of an Interface Description Block.
pub const INTERFACE: u32 = 1;
/// Block type of a Packet Block, which is obsolete.
pub const OLD_PACKET: u32 = 2;
/// Block type of a Simple Packet Block.
pub const SIMPLE_PACKET: u32 = 3;
/// Block type of an Enhanced Packet Block.
pub const PACKET: u32 = 6;
/// Byte-order magic of a section.
pub const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Record of a packet block. Its data is given as a range of the block's body.
#[derive(Clone, Debug)]
pub struct InterfaceBlock {
    pub record: Record<'static>,
    pub data: Range<usize>,
}

/// Parses the body of a packet block of type `ty`.
///
/// Appends the block's options to `copied`. The data does not include the FCS, if the interface
/// declares one.
pub fn packet(
    numbers: Numbers,
    ty: u32,
    body: &[u8],
    known: &[Interface],
    last_ns: u64,
    copied: &mut Vec<u8>,
) -> Result<InterfaceBlock, Fault> {
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
    let options = if ty == SIMPLE_PACKET { &[] } else { options };
    let flags = numbers.option(options, 2).filter(|value| value.len() == 4);
    let flags = flags.and_then(|value| numbers.u32(value, 0)).unwrap_or(0);
    let direction = match flags & 3 {
        1 => Direction::Inbound,
        2 => Direction::Outbound,
        _ => Direction::Unknown,
    };
    let from = copied.len();
    numbers.copy_options(options, packet_option, copied);
    let fcs = match flags >> 5 & 15 {
        0 => interface.fcs_len,
        fcs => fcs,
    };
    clear_fcs_flag(copied.get_mut(from..).unwrap_or_default());
    let stripped = Stripped::of(interface.linktype, fcs, captured, orig_len);
    let (end, orig_len) = (end - stripped.captured, stripped.orig_len);
    let ts_ns = ts.map_or(last_ns, |(high, low)| interface.nanos(u64::from(high) << 32 | u64::from(low)));
    let linktype = interface.linktype;
    let record = Record { ts_ns, orig_len, linktype, interface: id, direction, ..Record::default() };
    Ok(InterfaceBlock { record, data: start..end })
}

fn short(body: &[u8]) -> Fault {
    Fault::Length { len: body.len() as u64, what: "too short for a block of this type" }
}

/// Sets the FCS length in the flags of a packet's little-endian options to 0. Called after the FCS
/// has been removed.
fn clear_fcs_flag(mut options: &mut [u8]) {
    const FCS: u32 = 0x1e0;
    while let Some(&[code, code_high, len, len_high]) = options.first_chunk() {
        let code = u16::from_le_bytes([code, code_high]);
        let len = usize::from(u16::from_le_bytes([len, len_high]));
        let (value, rest) = options.split_at_mut((4 + len.next_multiple_of(4)).min(options.len()));
        if let (2, Some(flags)) = (code, value.get_mut(4..).and_then(|value| value.first_chunk_mut::<4>())) {
            *flags = (u32::from_le_bytes(*flags) & !FCS).to_le_bytes();
        }
        options = rest;
    }
}

/// Lengths of a packet without its FCS.
pub struct Stripped {
    /// Number of bytes of the FCS at the end of the captured data.
    pub captured: usize,
    /// Original length of the packet without the FCS, in bytes.
    pub orig_len: u32,
}

impl Stripped {
    /// Computes the lengths for an FCS of `fcs` bytes. A truncated capture may contain a part of
    /// the FCS, or none of it.
    pub fn of(linktype: u16, fcs: u32, captured: u32, orig_len: u32) -> Stripped {
        if linktype != LINKTYPE_ETHERNET || fcs == 0 {
            return Stripped { captured: 0, orig_len };
        }
        let missing = orig_len.saturating_sub(captured);
        let there = fcs.saturating_sub(missing).min(captured);
        let orig_len = orig_len.saturating_sub(fcs).max(captured - there);
        Stripped { captured: there as usize, orig_len }
    }
}
