//! Slow path for lines written by hand or by other programs, with blanks anywhere and digits of
//! either case. Also defines the errors of lines.

use super::portable::{NONE, value};
use super::{MAX_FRAME, MAX_READ, MIN_FRAME, Next, Stamp};
use std::fmt;

/// Reason why a line is not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// A byte that is neither a digit nor a blank.
    NotHex(u8),
    /// An odd number of digits.
    OddDigits,
    /// The frame has fewer bytes than an Ethernet header.
    TooShort(usize),
    /// The frame has more bytes than allowed ([`MAX_FRAME`], or the size of the buffer).
    TooLong,
    /// No newline was found within [`MAX_READ`] bytes.
    NoNewline,
}

/// Reason and position of an error in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadLine {
    /// Position in bytes from the line's start, counted from 1.
    pub column: usize,
    /// Reason for the error.
    pub why: Why,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: ", self.column)?;
        match self.why {
            Why::NotHex(byte) if byte.is_ascii_graphic() => {
                write!(f, "'{}' is not a hexadecimal digit", char::from(byte))
            }
            Why::NotHex(byte) => write!(f, "byte 0x{byte:02x} is not a hexadecimal digit"),
            Why::OddDigits => f.write_str("odd number of hexadecimal digits"),
            Why::TooShort(len) => write!(f, "frame of {len} bytes: must be at least {MIN_FRAME}"),
            Why::TooLong => write!(f, "frame is longer than {MAX_FRAME} bytes"),
            Why::NoNewline => write!(f, "no newline within {MAX_READ} bytes"),
        }
    }
}

impl std::error::Error for BadLine {}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

/// Parses the first line of `text` as [`super::next`] does, in any form.
#[cold]
pub(super) fn next(text: &[u8], frame: &mut [u8]) -> Next {
    let within = text.get(..MAX_READ + 1).unwrap_or(text);
    let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
        if text.len() <= MAX_READ {
            return Next::Partial;
        }
        return Next::Bad { why: BadLine { column: MAX_READ + 1, why: Why::NoNewline }, used: MAX_READ + 1 };
    };
    let used = end + 1;
    match line(text.get(..end).unwrap_or(text), frame) {
        Ok(None) => Next::Blank { used },
        Ok(Some((len, stamp))) => Next::Frame { len, stamp, used },
        Err(why) => Next::Bad { why, used },
    }
}

/// Parses one line without its newline; returns the frame's length and stamp, or `None` if the line
/// is blank.
fn line(text: &[u8], frame: &mut [u8]) -> Result<Option<(usize, Option<Stamp>)>, BadLine> {
    let (stamp, from) = stamp(text);
    let mut half: Option<u8> = None;
    let mut len = 0;
    for (at, byte) in text.iter().enumerate().skip(from) {
        if is_blank(byte) {
            continue;
        }
        let bad = |why| BadLine { column: at + 1, why };
        let digit = value(*byte);
        if digit == NONE {
            return Err(bad(Why::NotHex(*byte)));
        }
        match half.take() {
            None => half = Some(digit),
            Some(high) => {
                let place = frame.get_mut(len).filter(|_| len < MAX_FRAME).ok_or(bad(Why::TooLong))?;
                *place = high << 4 | digit;
                len += 1;
            }
        }
    }
    let at_end = |why| BadLine { column: text.len() + 1, why };
    match (half, len) {
        (Some(_), _) => Err(at_end(Why::OddDigits)),
        (None, 0) if stamp.is_none() => Ok(None),
        (None, len) if len < MIN_FRAME => Err(at_end(Why::TooShort(len))),
        (None, len) => Ok(Some((len, stamp))),
    }
}

/// Returns the stamp of an F2 or F0 line, and the offset of the frame.
fn stamp(text: &[u8]) -> (Option<Stamp>, usize) {
    let (from, first) = word(text, 0);
    if first.len() != 16 || first.iter().any(|digit| value(*digit) == NONE) {
        return (None, 0);
    }
    let bits = first.iter().fold(0_u64, |bits, digit| bits << 4 | u64::from(value(*digit) & 15));
    // The second word of F0 has eight digits and is followed by a destination of 12 digits; no F2
    // line has this layout.
    let (second_at, second) = word(text, from + 16);
    let (_, third) = word(text, second_at + second.len());
    let behind = if second.len() == 8 && third.len() == 12 { second_at + 8 } else { from + 16 };
    (Some(Stamp(bits)), behind)
}

/// Returns the first word at or after `from`, and its offset.
fn word(text: &[u8], from: usize) -> (usize, &[u8]) {
    let rest = text.get(from..).unwrap_or_default();
    let blank = rest.iter().take_while(|byte| is_blank(byte)).count();
    let rest = rest.get(blank..).unwrap_or_default();
    let len = rest.iter().take_while(|byte| !is_blank(byte)).count();
    (from + blank, rest.get(..len).unwrap_or_default())
}
