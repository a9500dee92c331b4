//! Conversion of text lines by table lookup, one byte at a time. It works on every machine, and is
//! the reference for the vector code.

use super::sizes::{HEADER, MAX_FRAME, MIN_FRAME, STAMP};
use super::stamp::Stamp;

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// The two hexadecimal digits of each byte.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const PAIRS: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut at = 0;
    while at < 256 {
        pairs[at] = [DIGITS[at >> 4], DIGITS[at & 15]];
        at += 1;
    }
    pairs
};

/// Value in [`VALUES`] of a character that is not a digit.
pub(super) const NONE: u8 = 0xff;

/// Value of each hexadecimal digit, of either case; [`NONE`] for other characters.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut at = 0;
    while at < 16 {
        values[DIGITS[at] as usize] = at as u8;
        values[DIGITS[at].to_ascii_lowercase() as usize] = at as u8;
        at += 1;
    }
    values
};

#[inline]
#[expect(clippy::indexing_slicing, reason = "256 entries, a byte")]
fn pair(byte: u8) -> [u8; 2] {
    PAIRS[usize::from(byte)]
}

/// Returns the value of a hexadecimal digit, or [`NONE`] for another character.
#[inline]
#[expect(clippy::indexing_slicing, reason = "256 entries, a byte")]
pub(super) fn value(digit: u8) -> u8 {
    VALUES[usize::from(digit)]
}

/// Writes the F1 line of `frame`, including the newline, into `out`, which must have its exact
/// length.
pub(super) fn encode(frame: &[u8], out: &mut [u8]) {
    let Some((header, payload)) = frame.split_first_chunk::<MIN_FRAME>() else { return };
    let Some((front, groups)) = out.split_first_chunk_mut::<HEADER>() else { return };
    let places = [0, 2, 4, 6, 8, 10, 13, 15, 17, 19, 21, 23, 26, 28];
    *front = [b' '; HEADER];
    for (byte, at) in header.iter().zip(places) {
        if let Some(digits) = front.get_mut(at..at + 2) {
            digits.copy_from_slice(&pair(*byte));
        }
    }
    let (groups, end) = groups.as_chunks_mut::<3>();
    for (group, byte) in groups.iter_mut().zip(payload) {
        let [high, low] = pair(*byte);
        *group = [b' ', high, low];
    }
    end.fill(b'\n');
}

/// Parses a line in the form that [`encode`] writes, with digits of either case. Returns the number
/// of bytes consumed and the length of the frame, or `None` for a line of any other form.
pub(super) fn decode(text: &[u8], frame: &mut [u8]) -> Option<(usize, usize)> {
    let (front, mut rest) = text.split_first_chunk::<HEADER>()?;
    let (header, mut room) = frame.split_first_chunk_mut::<MIN_FRAME>()?;
    if [front[12], front[25]] != [b' '; 2] {
        return None;
    }
    let digits = front[..12].iter().chain(&front[13..25]).chain(&front[26..]);
    let mut bad = 0;
    let mut digits = digits.map(|digit| value(*digit));
    for byte in header {
        let (high, low) = (digits.next()?, digits.next()?);
        bad |= high | low;
        *byte = high << 4 | low & 15;
    }
    let mut len = MIN_FRAME;
    while let Some((&[b' ', high, low], behind)) = rest.split_first_chunk::<3>() {
        let (byte, left) = core::mem::take(&mut room).split_first_mut()?;
        let (high, low) = (value(high), value(low));
        bad |= high | low;
        *byte = high << 4 | low & 15;
        (rest, room, len) = (behind, left, len + 1);
    }
    let used = HEADER + 3 * (len - MIN_FRAME) + 1;
    (rest.first() == Some(&b'\n') && bad < 16 && len <= MAX_FRAME).then_some((used, len))
}

/// Portable version of [`super::shape`].
pub(super) fn shape(text: &[u8]) -> Option<usize> {
    let (front, mut rest) = text.split_first_chunk::<HEADER>()?;
    let blank = |(at, byte): (usize, &u8)| (*byte == b' ') == matches!(at, 12 | 25) && *byte != b'\n';
    if !front.iter().enumerate().all(blank) {
        return None;
    }
    let mut len = HEADER;
    loop {
        match rest.split_first_chunk::<3>() {
            _ if rest.first() == Some(&b'\n') => return Some(len + 1),
            Some(([b' ', high, low], behind)) if ![*high, *low].iter().any(|c| matches!(c, b' ' | b'\n')) => {
                (rest, len) = (behind, len + 3);
            }
            _ => return None,
        }
    }
}

/// Returns the 16 digits of a stamp and a space.
#[inline]
pub(super) fn stamp(stamp: Stamp) -> [u8; STAMP] {
    let mut out = [b' '; STAMP];
    let (pairs, _) = out.as_chunks_mut::<2>();
    for (place, byte) in pairs.iter_mut().zip(stamp.0.to_be_bytes()) {
        *place = pair(byte);
    }
    out
}

/// Parses the sixteen digits of a stamp and the space after them.
#[inline]
pub(super) fn read_stamp(text: &[u8; STAMP]) -> Option<Stamp> {
    let (bits, bad) = text[..16].iter().fold((0_u64, 0), |(bits, bad), digit| {
        let value = value(*digit);
        (bits << 4 | u64::from(value & 15), bad | value)
    });
    (bad < 16 && text[16] == b' ').then_some(Stamp(bits))
}
