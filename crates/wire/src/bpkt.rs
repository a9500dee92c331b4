//! Binary records of one frame each, in the two formats of ethpipe's raw devices (`*.bpkt`).
//!
//! ```text
//! v1  magic 0x3776, length, frame                u16 LE, u16 LE
//! v2  magic 0x3776, length, stamp, frame         u16 LE, u16 LE, u64 LE
//! ```
//!
//! The stamp has the same fields as the time stamp of a text line, in another order: ticks in the
//! low 48 bits, register number and reset flag in the last byte. Both forms have the same magic
//! number. [`Form::guess`] distinguishes them by the position of the second record.

use crate::text::{MIN_FRAME, Stamp};
use alloc::vec::Vec;
use core::fmt;

/// Maximum length in bytes of a frame in a record, which has a 16-bit length field.
pub const MAX_FRAME: usize = 65_535;

/// Magic number in the first two bytes of every record: `76 37` (little-endian).
pub const MAGIC: u16 = 0x3776;

/// Form of a record: with or without a time stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Version 1, without a stamp.
    V1,
    /// Version 2, with a stamp.
    V2,
}

impl Form {
    /// Returns the number of bytes before the frame.
    pub const fn header(self) -> usize {
        match self {
            Form::V1 => 4,
            Form::V2 => 12,
        }
    }

    /// Guesses the form of the records at the start of `bytes`. In the right form, each record
    /// begins where the previous one ends. Checking a single position is not enough, because a
    /// frame may contain the magic number. If both forms fit, returns the form with more valid
    /// records, or V2 if both have equally many. Returns `None` if more bytes are needed, or if
    /// neither form fits.
    pub fn guess(bytes: &[u8], at_end: bool) -> Option<Form> {
        let [v1, v2] = [Form::V1, Form::V2].map(|form| form.walk(bytes, at_end));
        match (v1.fits, v2.fits) {
            (true, false) => Some(Form::V1),
            (false, true) => Some(Form::V2),
            // Both forms lead to an invalid record. The form with more valid records before it is
            // chosen, unless both have equally many.
            (false, false) if v1.records == v2.records => None,
            (true, true) if !at_end && v1.records.min(v2.records) < ENOUGH => None,
            _ => Some(if v1.records > v2.records { Form::V1 } else { Form::V2 }),
        }
    }

    /// Counts consecutive valid records, up to `ENOUGH`.
    fn walk(self, bytes: &[u8], at_end: bool) -> Walk {
        let (mut rest, mut records) = (bytes, 0);
        while records < ENOUGH {
            match parse(self, rest) {
                Ok(Some(record)) => (rest, records) = (rest.get(record.used..).unwrap_or_default(), records + 1),
                Ok(None) => {
                    let begins = rest.first().is_none_or(|first| *first == MAGIC.to_le_bytes()[0]);
                    return Walk { records, fits: begins && (rest.is_empty() || !at_end) };
                }
                Err(_) => return Walk { records, fits: false },
            }
        }
        Walk { records, fits: true }
    }
}

/// Number of consecutive valid records after which the form counts as certain.
const ENOUGH: usize = 8;

/// Result of reading bytes as records of one form.
struct Walk {
    records: usize,
    /// True if no record was invalid.
    fits: bool,
}

/// Reason why bytes are not a valid record. Reading then ends, because the start of the next record
/// is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadRecord {
    /// The magic number is wrong. Contains the value found.
    Magic(u16),
    /// The frame length is outside the allowed range. Contains the value found.
    Length(u16),
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadRecord::Magic(found) => write!(f, "record magic is 0x{found:04x}, not 0x{MAGIC:04x}"),
            BadRecord::Length(len) => write!(f, "frame of {len} bytes: must be {MIN_FRAME} to {MAX_FRAME}"),
        }
    }
}

impl core::error::Error for BadRecord {}

/// A record at the start of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// The frame, without FCS.
    pub frame: &'a [u8],
    /// Time stamp of the frame; `None` in form V1.
    pub stamp: Option<Stamp>,
    /// Length of the whole record in bytes.
    pub used: usize,
}

/// Returns the length field if the magic number is correct.
fn header(bytes: &[u8]) -> Option<u16> {
    let (magic, rest) = bytes.split_first_chunk::<2>()?;
    let len = rest.first_chunk::<2>()?;
    (u16::from_le_bytes(*magic) == MAGIC).then_some(u16::from_le_bytes(*len))
}

/// Parses the record at the start of `bytes`; returns `None` if it is incomplete.
///
/// # Errors
/// Wrong magic number, or a length outside [`MIN_FRAME`]..=[`MAX_FRAME`].
pub fn parse(form: Form, bytes: &[u8]) -> Result<Option<Record<'_>>, BadRecord> {
    let Some(magic) = bytes.first_chunk::<2>() else { return Ok(None) };
    let magic = u16::from_le_bytes(*magic);
    if magic != MAGIC {
        return Err(BadRecord::Magic(magic));
    }
    let Some(field) = header(bytes) else { return Ok(None) };
    let len = usize::from(field);
    if !(MIN_FRAME..=MAX_FRAME).contains(&len) {
        return Err(BadRecord::Length(field));
    }
    let stamp = match form {
        Form::V1 => None,
        Form::V2 => match bytes.get(4..).and_then(<[u8]>::first_chunk::<8>) {
            None => return Ok(None),
            Some(bits) => Some(stamp_of(u64::from_le_bytes(*bits))),
        },
    };
    let used = form.header() + len;
    Ok(bytes.get(form.header()..used).map(|frame| Record { frame, stamp, used }))
}

/// Decodes the time stamp of a V2 record. Its bit fields, from the lowest: `val_low` 32 bits,
/// `val_high` 16, reserved 8, reserved 4, register 3, reset 1.
fn stamp_of(bits: u64) -> Stamp {
    Stamp::at((bits >> 60) as u8 & 7, bits >> 63 == 1, bits & Stamp::TICKS)
}

fn bits_of(stamp: Stamp) -> u64 {
    stamp.ticks() | u64::from(stamp.register()) << 60 | u64::from(stamp.reset()) << 63
}

/// Appends a record. Returns false, and appends nothing, if the frame is longer than [`MAX_FRAME`]
/// or shorter than [`MIN_FRAME`].
pub fn emit(form: Form, frame: &[u8], stamp: Option<Stamp>, out: &mut Vec<u8>) -> bool {
    if !(MIN_FRAME..=MAX_FRAME).contains(&frame.len()) {
        return false;
    }
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&(frame.len() as u16).to_le_bytes());
    if form == Form::V2 {
        out.extend_from_slice(&bits_of(stamp.unwrap_or_default()).to_le_bytes());
    }
    out.extend_from_slice(frame);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bit_layout_is_that_of_ethpipe() {
        let mut out = Vec::new();
        assert!(emit(Form::V2, &[0xab; 60], Some(Stamp::at(1, true, 0x0102_0304_0506)), &mut out));
        assert_eq!(out[..12], [0x76, 0x37, 60, 0, 6, 5, 4, 3, 2, 1, 0, 0x90]);
        assert!(!emit(Form::V1, &[0; 13], None, &mut out));
        assert_eq!(out.len(), 72);
    }

    #[test]
    fn the_form_is_guessed_from_the_second_record() {
        for form in [Form::V1, Form::V2] {
            let mut out = Vec::new();
            emit(form, &[1; 60], None, &mut out);
            assert_eq!(Form::guess(&out, true), Some(form));
            assert_eq!(Form::guess(&out[..10], false), None);
            emit(form, &[2; 99], None, &mut out);
            assert_eq!(Form::guess(&out, false), Some(form));
        }
        assert_eq!(Form::guess(b"DDDDDDDD", true), None);
    }

    #[test]
    fn a_magic_within_a_frame_is_not_a_record() {
        for form in [Form::V1, Form::V2] {
            let mut out = Vec::new();
            emit(form, &[0; 14], None, &mut out);
            let mut second = [0; 60];
            second[4..6].copy_from_slice(&MAGIC.to_le_bytes());
            for (at, byte) in [(6, 0), (6, 14)] {
                second[at] = byte;
                let mut out = out.clone();
                emit(form, &second, None, &mut out);
                emit(form, &[3; 60], None, &mut out);
                assert_eq!(Form::guess(&out, false), Some(form), "{form:?} {byte}");
            }
        }
    }

    #[test]
    fn a_corrupt_stream_still_has_a_form() {
        for form in [Form::V1, Form::V2] {
            let mut out = Vec::new();
            emit(form, &[1; 60], None, &mut out);
            emit(form, &[2; 60], None, &mut out);
            out.extend(b"and no more");
            assert_eq!(Form::guess(&out, true), Some(form));
        }
    }

    #[test]
    fn invalid_records_are_rejected_with_a_reason() {
        assert_eq!(parse(Form::V1, b"zz..").unwrap_err().to_string(), "record magic is 0x7a7a, not 0x3776");
        let short = [0x76, 0x37, 13, 0];
        assert_eq!(parse(Form::V1, &short), Err(BadRecord::Length(13)));
    }

    proptest! {
        #[test]
        fn records_round_trip(frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 14..200), any::<u64>()), 1..5), cut in 0..50_usize) {
            for form in [Form::V1, Form::V2] {
                let mut out = Vec::new();
                let stamp = |bits: u64| (form == Form::V2).then(|| stamp_of(bits));
                for (frame, bits) in &frames {
                    prop_assert!(emit(form, frame, stamp(*bits), &mut out));
                }
                let mut rest = &out[..];
                for (frame, bits) in &frames {
                    let record = parse(form, rest).unwrap().unwrap();
                    prop_assert_eq!(record, Record { frame, stamp: stamp(*bits), used: form.header() + frame.len() });
                    let short = &rest[..record.used - 1 - cut % record.used];
                    prop_assert_eq!(parse(form, short), Ok(None));
                    rest = &rest[record.used..];
                }
            }
        }

        #[test]
        fn arbitrary_bytes_are_handled(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            for form in [Form::V1, Form::V2] {
                let _ = parse(form, &bytes);
            }
            let _ = Form::guess(&bytes, true);
        }
    }
}
