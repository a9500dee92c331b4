//! Contents of pcapng blocks: interfaces, packets, options (draft-ietf-opsawg-pcapng-04, sections 3
//! and 4).

use super::{Direction, Fault, Interface, LINKTYPE_ETHERNET, Record};
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

/// Converter of numbers in the byte order of a file.
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

    /// Appends the options that remain valid in another file to `out`, in little-endian byte order
    /// and without the end-of-list option. `form` maps the code of an option to the form of its
    /// value.
    pub fn copy_options(self, mut options: &[u8], form: fn(u16) -> Form, out: &mut Vec<u8>) {
        while let (Some(code @ 1..), Some(len)) = (self.u16(options, 0), self.u16(options, 2)) {
            let len = usize::from(len);
            let Some(value) = options.get(4..4 + len) else { return };
            let form = match form(code) {
                Form::Number if !matches!(len, 4 | 8) => Form::Left, // a number of an invalid width
                form => form,
            };
            let swapped = match form {
                Form::Left => 0,
                Form::Bytes => len,
                Form::Number if self.big_endian => 0,
                Form::Number => len,
                Form::Enterprise if self.big_endian => len.saturating_sub(4),
                Form::Enterprise => len,
            };
            if form != Form::Left {
                out.extend_from_slice(&code.to_le_bytes());
                out.extend_from_slice(&(len as u16).to_le_bytes());
                let (numbers, bytes) = value.split_at(len - swapped);
                out.extend(numbers.iter().rev());
                out.extend_from_slice(bytes);
                out.resize(out.len() + len.next_multiple_of(4) - len, 0);
            }
            options = options.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    /// Returns the value of the first option with the code `wanted`.
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

/// Form of an option's value, for conversion to the other byte order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Bytes whose order the standard defines.
    Bytes,
    /// A single number.
    Number,
    /// An enterprise number of 4 bytes, then bytes.
    Enterprise,
    /// Not copied, because the option is not valid in another file, or because the writer writes
    /// its own.
    Left,
}

/// Returns the form of an option of an Enhanced Packet Block. The hash (3) is not copied, because
/// it covers bytes that may be changed or stripped. The verdict (7) is not copied, because its
/// numbers have no fixed width.
pub fn packet_option(code: u16) -> Form {
    match code {
        2 | 4 | 5 | 6 => Form::Number,
        3 | 7 => Form::Left,
        _ => custom_option(code),
    }
}

/// Returns the form of an option of an Interface Description Block. Resolution (9), FCS length (13)
/// and offset (14) are not copied, because the writer writes its own.
pub fn interface_option(code: u16) -> Form {
    match code {
        8 | 10 | 16 | 17 => Form::Number,
        9 | 13 | 14 => Form::Left,
        _ => custom_option(code),
    }
}

/// Returns the form of an option of a Section Header Block. The application (4) is not copied,
/// because the writer writes its own.
pub fn section_option(code: u16) -> Form {
    if code == 4 { Form::Left } else { custom_option(code) }
}

fn custom_option(code: u16) -> Form {
    match code {
        2988 | 2989 => Form::Enterprise,
        19372 | 19373 => Form::Left, // custom options that must not be copied
        _ => Form::Bytes,
    }
}

impl Interface {
    /// Parses the body of an Interface Description Block.
    pub(super) fn parse(numbers: Numbers, body: &[u8]) -> Option<Interface> {
        let options = body.get(8..)?;
        let first = |code| numbers.option(options, code).and_then(|value| value.first().copied());
        let offset_s = numbers.option(options, 14).and_then(|value| numbers.i64(value));
        let mut copied = Vec::new();
        numbers.copy_options(options, interface_option, &mut copied);
        Some(Interface {
            linktype: numbers.u16(body, 0)?,
            snaplen: numbers.u32(body, 4)?,
            resolution: first(9).unwrap_or(6),
            offset_s: offset_s.unwrap_or(0),
            fcs_len: first(13).map_or(0, u32::from),
            options: copied,
        })
    }

    /// Returns the interface's name (if_name); `None` if it has none.
    pub fn name(&self) -> Option<String> {
        let name = Numbers { big_endian: false }.option(&self.options, 2)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// Returns a description of this interface for an output file. It has no timestamp offset and
    /// no FCS. Its timestamps are in nanoseconds if 64 bits would overflow in the interface's own
    /// unit.
    pub(super) fn writable(&self) -> Interface {
        let keeps = matches!(self.resolution, 0..=9 | 0x80..=0x9d);
        let resolution = if keeps { self.resolution } else { 9 };
        Interface { resolution, offset_s: 0, fcs_len: 0, ..self.clone() }
    }

    /// Converts nanoseconds since 1970 to units of the interface's clock. This is the inverse of
    /// [`Interface::nanos`].
    pub(super) fn units(&self, ns: u64) -> u64 {
        let power = u32::from(self.resolution & 0x7f);
        let units = match self.resolution {
            0x80.. => (u128::from(ns) << power.min(63)).div_ceil(1_000_000_000),
            _ => u128::from(ns) / 10u128.pow(9u32.saturating_sub(power)),
        };
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// Converts units of the interface's clock to nanoseconds since 1970. The result saturates.
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

/// A record whose data is given as a range of the block's body.
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
