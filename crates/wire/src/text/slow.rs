//! Slow path for lines written by hand or by other programs, with blanks anywhere and digits of
//! either case.

use super::portable::{NONE, value};
use super::result::{BadLine, Next, Why};
use super::sizes::{MAX_FRAME, MAX_READ, MIN_FRAME};
use super::stamp::Stamp;

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
