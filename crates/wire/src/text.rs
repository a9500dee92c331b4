//! Frames as lines of text, in the formats of the program ethpipe.
//!
//! ```text
//! F1                   DDDDDDDDDDDD SSSSSSSSSSSS TTTT HH HH ... HH
//! F2  0000000007735940 DDDDDDDDDDDD SSSSSSSSSSSS TTTT HH HH ... HH
//! F0  0000000007735940 00000000 DDDDDDDDDDDD SSSSSSSSSSSS TTTT HH ...
//! ```
//!
//! A line in format F1 consists of destination, source and EtherType, followed by each byte
//! separately, in upper-case hexadecimal without the FCS. One line is one frame. A frame of `n`
//! bytes without FCS is a line of [`len`]`(n)` = 31 + 3 (n - 14) bytes: 169 for 64 bytes on the
//! wire with FCS, 4531 for 1518. Format F2 begins with a [`Stamp`] of 16 digits. F0, an early form
//! of F2, has eight more digits without meaning. It is read, but never written.
//!
//! Lines are always written in this canonical form. Lines that are read may have spaces and tabs
//! anywhere, or none, and digits of either case. A line is F2 only if its first word has exactly 16
//! digits, which no F1 line in canonical form has. Lines in canonical form are read several times
//! faster than others: with vector instructions if the machine has them ([`Kind`]).

mod batch;
mod kind;
mod needle;
mod portable;
mod result;
#[cfg(target_arch = "x86_64")]
mod simd;
mod sizes;
mod slow;
mod stamp;
#[cfg(test)]
mod tests;

pub use batch::Arena;
pub use kind::Kind;
pub use needle::Needle;
pub use result::{BadLine, Next, Why};
pub use sizes::{HEADER, MAX_FRAME, MAX_LINE, MAX_READ, MIN_FRAME, SLACK, STAMP, len};
pub use stamp::Stamp;

use batch::{read_lines, write_lines};

/// Writes `frame` and a newline to the start of `out`. Returns the length of the line, or `None` if
/// the frame is shorter than [`MIN_FRAME`] or longer than [`MAX_FRAME`], or the line does not fit.
/// Up to [`SLACK`] bytes after the line may be overwritten.
#[inline]
pub fn encode(frame: &[u8], stamp: Option<Stamp>, out: &mut [u8]) -> Option<usize> {
    encode_with(Kind::best(), frame, stamp, out)
}

/// Writes a line as [`encode`] does, with the given implementation. Falls back to
/// [`Kind::Portable`] if the machine does not support it.
#[inline]
pub fn encode_with(kind: Kind, frame: &[u8], stamp: Option<Stamp>, out: &mut [u8]) -> Option<usize> {
    if !(MIN_FRAME..=MAX_FRAME).contains(&frame.len()) {
        return None;
    }
    let Some(stamp) = stamp else { return plain(kind, frame, out) };
    let (front, rest) = out.split_first_chunk_mut::<STAMP>()?;
    *front = portable::stamp(stamp);
    Some(STAMP + plain(kind, frame, rest)?)
}

#[inline]
fn plain(kind: Kind, frame: &[u8], out: &mut [u8]) -> Option<usize> {
    let whole = len(frame.len());
    #[cfg(target_arch = "x86_64")]
    if out.len() >= whole + SLACK {
        match kind {
            Kind::Avx512 if simd::has_vbmi() => return Some(simd::avx512::encode(frame, out)),
            Kind::Avx2 if simd::has_avx2() && frame.len() >= simd::avx2::LEAST => {
                return Some(simd::avx2::encode(frame, out));
            }
            _ => {}
        }
    }
    let _ = kind;
    portable::encode(frame, out.get_mut(..whole)?);
    Some(whole)
}

/// Parses the first line of `text` into the start of `frame`. Up to [`SLACK`] bytes after the frame
/// may be overwritten. A line whose frame is longer than `frame` is reported as bad. If there is no
/// newline within [`MAX_READ`] bytes, these bytes and one more are consumed as a bad line.
#[inline]
pub fn next(text: &[u8], frame: &mut [u8]) -> Next {
    next_with(Kind::best(), text, frame)
}

/// Parses a line as [`next`] does, with the given implementation. Falls back to [`Kind::Portable`]
/// if the machine does not support it.
#[inline]
pub fn next_with(kind: Kind, text: &[u8], frame: &mut [u8]) -> Next {
    // In an F1 line the 17th byte is a digit of the source address.
    let stamped = text.get(STAMP - 1) == Some(&b' ');
    if !stamped {
        if let Some((used, len)) = canonical(kind, text, frame) {
            return Next::Frame { len, stamp: None, used };
        }
    } else if let Some((stamp, rest)) = text.split_first_chunk::<STAMP>()
        && let Some(stamp) = portable::read_stamp(stamp)
        && let Some((used, len)) = canonical(kind, rest, frame)
    {
        return Next::Frame { len, stamp: Some(stamp), used: STAMP + used };
    }
    slow::next(text, frame)
}

/// Parses lines at the start of `text`, as long as they have the form that [`encode`] writes and
/// `into` has space. The result is the same as with repeated calls of [`next`], but the CPU
/// features are checked only once. Returns the number of bytes consumed and the number of lines.
#[inline]
pub fn decode_lines(kind: Kind, text: &[u8], into: &mut impl Arena) -> (usize, u64) {
    #[cfg(target_arch = "x86_64")]
    if kind == Kind::Avx512 && simd::has_vbmi() {
        return simd::avx512::decode_lines(text, into);
    }
    read_lines(text, into, |line, frame| canonical(kind, line, frame))
}

/// Writes a line for each of `frames` to the start of `out`, as [`encode`] does. Frames of invalid
/// length, and frames for which `out` has no space left, are skipped. Returns the number of bytes
/// written.
#[inline]
pub fn encode_lines<'a>(kind: Kind, frames: impl Iterator<Item = (&'a [u8], Option<Stamp>)>, out: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if kind == Kind::Avx512 && simd::has_vbmi() {
        return simd::avx512::encode_lines(frames, out, |frame, stamp, out| {
            encode_with(Kind::Avx512, frame, stamp, out)
        });
    }
    write_lines(frames, out, |frame, stamp, out| encode_with(kind, frame, stamp, out))
}

/// Returns the length of the F1 line at the start of `text`, including the newline. The line must
/// have spaces exactly where [`encode`] writes them, so that words of more than two characters
/// occur only in its header. Other characters are not checked. Returns `None` for any other line.
#[inline]
pub fn shape(kind: Kind, text: &[u8]) -> Option<usize> {
    match kind {
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 if simd::has_vbmi() => simd::avx512::shape(text),
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 if simd::has_avx2() => simd::avx2::shape(text),
        _ => portable::shape(text),
    }
}

/// Iterates over the lines at the start of `text` that have the [`shape`] of F1 lines. Calls `each`
/// with the offset, the length and the header of each line, and stops when `each` returns `false`.
/// Returns the offset of the line at which it stopped. This is the line for which `each` returned
/// `false`, or the first line that has another shape or no newline.
#[inline]
pub fn each_line(kind: Kind, text: &[u8], mut each: impl FnMut(usize, usize, &[u8; HEADER]) -> bool) -> usize {
    #[cfg(target_arch = "x86_64")]
    if kind == Kind::Avx512 && simd::has_vbmi() {
        return simd::avx512::each_line(text, each);
    }
    let mut at = 0;
    while let Some(rest) = text.get(at..)
        && let (Some(len), Some(header)) = (shape(kind, rest), rest.first_chunk::<HEADER>())
        && each(at, len, header)
    {
        at += len;
    }
    at
}

/// Parses a line of exactly the form that [`encode`] writes, except that digits may have either
/// case. Returns the number of bytes consumed and the length of the frame.
#[inline]
fn canonical(kind: Kind, text: &[u8], frame: &mut [u8]) -> Option<(usize, usize)> {
    match kind {
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 if simd::has_vbmi() => simd::avx512::decode(text, frame),
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 if simd::has_avx2() => simd::avx2::decode(text, frame),
        _ => portable::decode(text, frame),
    }
}
