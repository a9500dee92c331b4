//! A frame as a line of text, in the forms of ethpipe (ethpipe2013).
//!
//! ```text
//! F1                   DDDDDDDDDDDD SSSSSSSSSSSS TTTT HH HH ... HH
//! F2  0000000007735940 DDDDDDDDDDDD SSSSSSSSSSSS TTTT HH HH ... HH
//! F0  0000000007735940 00000000 DDDDDDDDDDDD SSSSSSSSSSSS TTTT HH ...
//! ```
//!
//! Destination, source, EtherType and then each byte by itself, in upper-case hexadecimal without the FCS; one line is one frame.
//! A frame of `n` bytes is a line of [`len`]`(n)` = 31 + 3 (n - 14) bytes: 169 for what is 64 bytes on the wire, 4531 for 1518.
//! F2 puts a [`Stamp`] of 16 digits in front; F0, an early form of it, has eight more digits that say nothing, and is only read.
//!
//! What is written is always as above. What is read may have spaces and tabs anywhere, or none, and digits of either case; only a first
//! word of exactly 16 digits, which no F1 line has as it is written, makes a line F2. Lines as they are written are read several
//! times faster than others: with vector instructions where the machine has them ([`Kind`]).

mod kind;
mod needle;
mod portable;
#[cfg(target_arch = "x86_64")]
mod simd;
mod slow;
mod stamp;
#[cfg(test)]
mod tests;

pub use kind::Kind;
pub use needle::Needle;
pub use slow::{BadLine, Why};
pub use stamp::Stamp;

/// The shortest frame that has a line: an Ethernet header.
pub const MIN_FRAME: usize = 14;
/// The longest frame: what a capture records of a packet at most (libpcap's MAXIMUM_SNAPLEN).
pub const MAX_FRAME: usize = 262_144;
/// The longest line that is written, newline included.
pub const MAX_LINE: usize = len(MAX_FRAME) + STAMP;
/// The longest line that is read as a frame, newline excluded: spaces may stand anywhere, but not without end.
pub const MAX_READ: usize = 1024 * 1024;
/// How far vector stores may reach behind what they write. With less room behind it a line or a frame is written slowly.
pub const SLACK: usize = 64;

/// What a stamp and its space add to a line.
pub const STAMP: usize = 17;
/// `DDDDDDDDDDDD SSSSSSSSSSSS TTTT`
pub const HEADER: usize = 30;

/// The length of the F1 line of a frame of `frame` bytes (FCS excluded), newline included.
#[inline]
pub const fn len(frame: usize) -> usize {
    HEADER + 1 + 3 * frame.saturating_sub(MIN_FRAME)
}

/// Writes `frame` and a newline at the front of `out`; returns the length of the line, or `None` if the frame is shorter than
/// [`MIN_FRAME`], longer than [`MAX_FRAME`], or the line does not fit. Up to [`SLACK`] bytes behind the line may be overwritten.
#[inline]
pub fn encode(frame: &[u8], stamp: Option<Stamp>, out: &mut [u8]) -> Option<usize> {
    encode_with(Kind::best(), frame, stamp, out)
}

/// [`encode`] by the given kind; one that the machine lacks is answered by [`Kind::Portable`].
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

/// What stands at the front of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A line with a frame of `len` bytes, and its stamp if it has one; `used` bytes of the text, newline included.
    Frame {
        /// Bytes of the frame.
        len: usize,
        /// The time field of an F2 or F0 line.
        stamp: Option<Stamp>,
        /// Bytes of the text.
        used: usize,
    },
    /// A line with nothing on it.
    Blank {
        /// Bytes of the text.
        used: usize,
    },
    /// A line that is no frame.
    Bad {
        /// What is wrong, and in which column.
        why: BadLine,
        /// Bytes of the text.
        used: usize,
    },
    /// A line whose end is not there yet.
    Partial,
}

/// Reads the line at the front of `text` into the front of `frame`. Up to [`SLACK`] bytes behind the frame may be overwritten.
/// A frame longer than `frame` is a bad line. More than [`MAX_READ`] bytes without a newline are a bad line that uses all of them.
#[inline]
pub fn next(text: &[u8], frame: &mut [u8]) -> Next {
    next_with(Kind::best(), text, frame)
}

/// [`next`] by the given kind; one that the machine lacks is answered by [`Kind::Portable`].
#[inline]
pub fn next_with(kind: Kind, text: &[u8], frame: &mut [u8]) -> Next {
    // In an F1 line the 17th byte is a digit of the source.
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

/// Where frames are put one behind the other.
pub trait Arena {
    /// Room for the next frame: [`MAX_FRAME`] bytes and [`SLACK`] behind them, or nothing when it is full.
    fn room(&mut self) -> &mut [u8];
    /// What was written there is a frame of `len` bytes, with such a time field.
    fn commit(&mut self, len: usize, stamp: Option<Stamp>);
}

/// Reads lines at the front of `text` for as long as they are as [`encode`] writes them and `into` is not full: what [`next`] reads one by
/// one, without asking anew for each what the machine can do. Returns how many bytes they had, and how many they were.
#[inline]
pub fn decode_lines(kind: Kind, text: &[u8], into: &mut impl Arena) -> (usize, u64) {
    #[cfg(target_arch = "x86_64")]
    if kind == Kind::Avx512 && simd::has_vbmi() {
        return simd::avx512::decode_lines(text, into);
    }
    read_lines(text, into, |line, frame| canonical(kind, line, frame))
}

#[inline(always)]
fn read_lines(
    text: &[u8],
    into: &mut impl Arena,
    canonical: impl Fn(&[u8], &mut [u8]) -> Option<(usize, usize)>,
) -> (usize, u64) {
    let (mut from, mut lines) = (0, 0);
    while let Some(rest) = text.get(from..) {
        let (stamp, line) = match rest.split_first_chunk::<STAMP>() {
            Some((front, line)) if front[STAMP - 1] == b' ' => match portable::read_stamp(front) {
                Some(stamp) => (Some(stamp), line),
                None => break,
            },
            _ => (None, rest),
        };
        let Some((used, len)) = canonical(line, into.room()) else { break };
        into.commit(len, stamp);
        from += rest.len() - line.len() + used;
        lines += 1;
    }
    (from, lines)
}

/// Writes a line for each of `frames` at the front of `out`, as [`encode`] does; one that can have none, or for which there is no room, is left out.
/// Returns how many bytes were written.
#[inline]
pub fn encode_lines<'a>(kind: Kind, frames: impl Iterator<Item = (&'a [u8], Option<Stamp>)>, out: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if kind == Kind::Avx512 && simd::has_vbmi() {
        return simd::avx512::encode_lines(frames, out);
    }
    write_lines(frames, out, |frame, stamp, out| encode_with(kind, frame, stamp, out))
}

#[inline(always)]
fn write_lines<'a>(
    frames: impl Iterator<Item = (&'a [u8], Option<Stamp>)>,
    out: &mut [u8],
    encode: impl Fn(&[u8], Option<Stamp>, &mut [u8]) -> Option<usize>,
) -> usize {
    let mut end = 0;
    for (frame, stamp) in frames {
        end += encode(frame, stamp, out.get_mut(end..).unwrap_or_default()).unwrap_or(0);
    }
    end
}

/// The length of the F1 line at the front of `text`, newline included, if its spaces stand where [`encode`] puts them and nowhere else:
/// then words of more than two characters are in its header alone. What its other characters are is not looked at.
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

/// Steps over lines at the front of `text` that have the [`shape`], and tells `each` where a line begins, how long it is, and its header;
/// ends at the line of which `each` says `false`. Returns where that line begins, or the first one that has another shape or no end.
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

/// A line exactly as [`encode`] writes it, but for the case of its digits: bytes used and the frame's length.
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
