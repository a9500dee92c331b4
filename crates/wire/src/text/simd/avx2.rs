//! Processes 30 characters at a time: ten frame bytes, each written as a space and two digits (`
//! HH`). Each 128-bit half of a vector processes five of them, because the shuffle instruction
//! cannot move bytes between the halves.
//!
//! The header has a layout of its own, of 32 characters. Both halves of the vector are loaded with
//! its 14 bytes.

use super::super::sizes::{HEADER, MAX_FRAME, MIN_FRAME, len as line_len};
use super::has_avx2;
use core::arch::x86_64::*;

/// Number of frame bytes per step. `CHARS` is the number of characters per step.
const BYTES: usize = 10;
const CHARS: usize = 30;

/// Minimum length in bytes of a frame that this file can write: one vector load.
pub(in super::super) const LEAST: usize = 16;

/// Mask of the spaces in 30 characters of ` HH`.
const SPACES: u32 = {
    let (mut bits, mut at) = (0, 0);
    while at < CHARS {
        bits |= 1 << at;
        at += 3;
    }
    bits
};

/// A shuffle: for each of 32 positions, the index of the source byte within its 128-bit half. The
/// index 0x80 gives a zero byte.
type Shuffle = [u8; 32];
const EMPTY: u8 = 0x80;

/// Shuffle for writing ` HH`: it places the high digits (`which` = 1) or the low ones (2).
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const fn groups(which: usize) -> Shuffle {
    let mut out = [EMPTY; 32];
    let mut at = 0;
    while at < 15 {
        if at % 3 == which {
            out[at] = (at / 3) as u8;
            out[at + 16] = (at / 3) as u8;
        }
        at += 1;
    }
    out
}

/// Shuffle for writing the header: it places the low digits if `low` is true, otherwise the high
/// ones.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const fn header(low: bool) -> Shuffle {
    let mut out = [EMPTY; 32];
    let (mut place, mut byte) = (0, 0);
    while byte < MIN_FRAME {
        if place == 12 || place == 25 {
            place += 1;
        }
        out[place + low as usize] = byte as u8;
        place += 2;
        byte += 1;
    }
    out
}

/// Shuffle for reading the header, 15 characters in each half: the positions of the high and the
/// low digit of each byte, alternately.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const fn header_digits() -> Shuffle {
    let mut out = [EMPTY; 32];
    let mut byte = 0;
    while byte < 7 {
        // First half: 0 2 4 6 8 10, then 13, after a space. Second half: 0 2 4 6 8, then 11 13,
        // after a space.
        let first = 2 * byte + (byte == 6) as usize;
        let second = 2 * byte + (byte >= 5) as usize;
        out[2 * byte] = first as u8;
        out[2 * byte + 1] = first as u8 + 1;
        out[2 * byte + 16] = second as u8;
        out[2 * byte + 17] = second as u8 + 1;
        byte += 1;
    }
    out
}

/// Shuffle for reading ` HH`: the positions of the high and the low digit of each byte,
/// alternately.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const fn digits() -> Shuffle {
    let mut out = [EMPTY; 32];
    let mut at = 0;
    while at < 5 {
        out[2 * at] = 3 * at as u8 + 1;
        out[2 * at + 1] = 3 * at as u8 + 2;
        out[2 * at + 16] = 3 * at as u8 + 1;
        out[2 * at + 17] = 3 * at as u8 + 2;
        at += 1;
    }
    out
}

static GROUP_HIGH: Shuffle = groups(1);
static GROUP_LOW: Shuffle = groups(2);
static HEADER_HIGH: Shuffle = header(false);
static HEADER_LOW: Shuffle = header(true);
static DIGITS: Shuffle = digits();
static HEADER_DIGITS: Shuffle = header_digits();

#[inline]
#[target_feature(enable = "avx2")]
fn load(shuffle: &Shuffle) -> __m256i {
    // SAFETY: reads the 32 bytes that the reference covers.
    unsafe { _mm256_loadu_si256(shuffle.as_ptr().cast()) }
}

/// Converts bytes to digits and spaces. `high` and `low` are the shuffles that place the two digits
/// of each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn spell(bytes: __m256i, high: __m256i, low: __m256i) -> __m256i {
    let digits = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        b'0' as i8, b'1' as i8, b'2' as i8, b'3' as i8, b'4' as i8, b'5' as i8, b'6' as i8, b'7' as i8, b'8' as i8,
        b'9' as i8, b'A' as i8, b'B' as i8, b'C' as i8, b'D' as i8, b'E' as i8, b'F' as i8,
    ));
    let half = _mm256_set1_epi8(15);
    let highs = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half);
    let lows = _mm256_and_si256(bytes, half);
    // At each position at most one of the two is nonzero; at a space both are zero, since a shuffle
    // index of 0x80 gives zero.
    let high_text = _mm256_shuffle_epi8(_mm256_shuffle_epi8(digits, highs), high);
    let low_text = _mm256_shuffle_epi8(_mm256_shuffle_epi8(digits, lows), low);
    let text = _mm256_or_si256(high_text, low_text);
    let empty = _mm256_cmpeq_epi8(text, _mm256_setzero_si256());
    _mm256_or_si256(text, _mm256_and_si256(empty, _mm256_set1_epi8(b' ' as i8)))
}

/// Loads sixteen bytes from `at` into one half and from `at + apart` into the other.
///
/// # Safety
/// `bytes` must have `apart` + 16 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn two(bytes: &[u8], at: usize, apart: usize) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let first = _mm_loadu_si128(bytes.as_ptr().add(at).cast());
        let second = _mm_loadu_si128(bytes.as_ptr().add(at + apart).cast());
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(first), second)
    }
}

/// Table for shuffles: `SHIFT[n..n + 16]` moves byte `n` of a vector to the start.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
static SHIFT: Shuffle = {
    let mut out = [EMPTY; 32];
    let mut at = 0;
    while at < 16 {
        out[at] = at as u8;
        at += 1;
    }
    out
};

/// Loads the bytes from `at` on, by loading the last sixteen bytes and shifting them, so that
/// nothing is read past the end.
///
/// # Safety
/// `bytes` must have at least 16 bytes, and `at` must not be beyond its end.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn last(bytes: &[u8], at: usize) -> __m128i {
    let begin = bytes.len() - 16;
    // SAFETY: guaranteed by the caller; the shift is at most 16, and the table has 32 bytes.
    unsafe {
        if at <= begin {
            return _mm_loadu_si128(bytes.as_ptr().add(at).cast());
        }
        let shift = _mm_loadu_si128(SHIFT.as_ptr().add(at - begin).cast());
        _mm_shuffle_epi8(_mm_loadu_si128(bytes.as_ptr().add(begin).cast()), shift)
    }
}

/// Writes the line of `frame` to `out`, which must have `SLACK` bytes after the line. Returns the
/// line's length.
#[inline]
pub(in super::super) fn encode(frame: &[u8], out: &mut [u8]) -> usize {
    let len = line_len(frame.len());
    assert!(has_avx2() && frame.len() >= LEAST && out.len() >= len + 64);
    // SAFETY: AVX2 is present and the lengths are sufficient, asserted above.
    unsafe { encode_avx2(frame, out) }
    len
}

/// # Safety
/// `out` must have 64 bytes after the line of `frame`, which must have at least 16 bytes.
#[target_feature(enable = "avx2")]
unsafe fn encode_avx2(frame: &[u8], out: &mut [u8]) {
    // SAFETY: the frame has 16 bytes; the line has 31 characters, and 64 bytes after them.
    unsafe {
        // Both halves are loaded with the same 16 bytes.
        let header = _mm256_broadcastsi128_si256(_mm_loadu_si128(frame.as_ptr().cast()));
        let text = spell(header, load(&HEADER_HIGH), load(&HEADER_LOW));
        _mm256_storeu_si256(out.as_mut_ptr().cast(), text);
    }
    let (high, low) = (load(&GROUP_HIGH), load(&GROUP_LOW));
    let (mut at, mut to) = (MIN_FRAME, HEADER);
    while at < frame.len() {
        // SAFETY: there are 21 bytes from `at` on; otherwise `last` reads none after the frame's
        // end.
        let bytes = unsafe {
            if frame.len() - at >= 21 {
                two(frame, at, 5)
            } else {
                let (first, second) = (last(frame, at), last(frame, frame.len().min(at + 5)));
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(first), second)
            }
        };
        let text = spell(bytes, high, low);
        // SAFETY: `to` is within the line, which is followed by 64 bytes; 31 are written.
        unsafe {
            _mm_storeu_si128(out.as_mut_ptr().add(to).cast(), _mm256_castsi256_si128(text));
            _mm_storeu_si128(out.as_mut_ptr().add(to + 15).cast(), _mm256_extracti128_si256::<1>(text));
        }
        at += BYTES;
        to += CHARS;
    }
    // SAFETY: the line's last position.
    unsafe { *out.as_mut_ptr().add(line_len(frame.len()) - 1) = b'\n' };
}

/// Reads a line in canonical form, with digits of either case. Returns the number of bytes consumed
/// and the length of the frame; `None` for any other form, or without a newline.
#[inline]
pub(in super::super) fn decode(text: &[u8], frame: &mut [u8]) -> Option<(usize, usize)> {
    assert!(has_avx2());
    // SAFETY: AVX2 is present, asserted above.
    unsafe { decode_avx2(text, frame) }
}

#[target_feature(enable = "avx2")]
fn decode_avx2(text: &[u8], frame: &mut [u8]) -> Option<(usize, usize)> {
    if text.len() < HEADER + 1 {
        return None;
    }
    // SAFETY: there are 31 characters, checked above.
    let header = values(unsafe { two(text, 0, 15) }, load(&HEADER_BLANK))?;
    store(header, load(&HEADER_DIGITS), 7, frame.get_mut(..MIN_FRAME + 2)?);
    let (take, blank) = (load(&DIGITS), load(&BLANK));
    let (mut from, mut len) = (HEADER, MIN_FRAME);
    loop {
        let left = text.len() - from;
        // SAFETY: there are 31 characters from `from` on; otherwise `last` reads none after the
        // text's end.
        let chars = unsafe {
            if left >= 31 {
                two(text, from, 15)
            } else {
                let (first, second) = (last(text, from), last(text, text.len().min(from + 15)));
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(first), second)
            }
        };
        // Ten bytes without a newline. Nearly all steps are of this kind.
        if let Some(values) = values(chars, blank)
            && let Some(room) = frame.get_mut(len..).filter(|room| room.len() >= BYTES + 3)
        {
            store(values, take, 5, room);
            (from, len) = (from + CHARS, len + BYTES);
            continue;
        }
        let step = Step::of(chars);
        let here = if step.newline == 0 { CHARS } else { step.newline.trailing_zeros() as usize };
        let inside = (1 << here) - 1;
        // A newline must be at the position of a space.
        if here > left
            || step.blank & inside != SPACES & inside
            || step.not_hex & inside != SPACES & inside
            || here % 3 != 0
        {
            return None;
        }
        let (count, room) = (here / 3, frame.get_mut(len..)?);
        if room.len() >= BYTES + 3 {
            store(step.values, take, 5, room);
        } else {
            let mut ten = [0; 16];
            store(step.values, take, 5, &mut ten);
            room.get_mut(..count)?.copy_from_slice(ten.get(..count)?);
        }
        len += count;
        if step.newline != 0 {
            return (len <= MAX_FRAME).then_some((from + here + 1, len));
        }
        from += CHARS;
    }
}

/// AVX2 version of [`super::super::shape`].
#[inline]
pub(in super::super) fn shape(text: &[u8]) -> Option<usize> {
    assert!(has_avx2());
    // SAFETY: AVX2 is present, asserted above.
    unsafe { shape_avx2(text) }
}

#[target_feature(enable = "avx2")]
fn shape_avx2(text: &[u8]) -> Option<usize> {
    let (newlines, spaces) = (_mm256_set1_epi8(b'\n' as i8), _mm256_set1_epi8(b' ' as i8));
    let mut layout = 1 << 12 | 1 << 25;
    let mut from = 0;
    loop {
        let left = text.len() - from;
        let mut copy = [0; 32];
        let front = if left >= 32 {
            text.get(from..from + 32)?
        } else {
            for (place, byte) in copy.iter_mut().zip(text.iter().skip(from)) {
                *place = *byte;
            }
            &copy
        };
        // SAFETY: `front` has 32 bytes in both cases.
        let chars = unsafe { _mm256_loadu_si256(front.as_ptr().cast()) };
        let newline = _mm256_movemask_epi8(_mm256_cmpeq_epi8(chars, newlines)) as u32 & INSIDE;
        let blank = _mm256_movemask_epi8(_mm256_cmpeq_epi8(chars, spaces)) as u32 & INSIDE;
        if newline == 0 {
            if blank != layout || left < CHARS {
                return None;
            }
            (from, layout) = (from + CHARS, SPACES);
            continue;
        }
        let here = newline.trailing_zeros();
        let good = from > 0 && layout >> here & 1 == 1 && (blank ^ layout) & ((1 << here) - 1) == 0;
        return good.then_some(from + here as usize + 1);
    }
}

/// Mask of the low 30 bits, one for each character.
const INSIDE: u32 = (1 << CHARS) - 1;

/// Digit values of 30 characters, 15 in each half of the vector, and masks of the characters that
/// are a newline, a blank, or not a digit.
struct Step {
    values: __m256i,
    newline: u32,
    blank: u32,
    not_hex: u32,
}

impl Step {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn of(chars: __m256i) -> Step {
        // The sixteenth position of the first half is a copy of the first position of the second
        // half.
        let join = |bits: __m256i| {
            let bits = _mm256_movemask_epi8(bits) as u32;
            (bits & 0x7fff) | (bits >> 16 & 0x7fff) << 15
        };
        let lower = _mm256_or_si256(chars, _mm256_set1_epi8(0x20));
        // Signed comparison: bytes of 0x80 and above count as negative, so they are below the
        // ranges.
        let letter = _mm256_and_si256(
            _mm256_cmpgt_epi8(lower, _mm256_set1_epi8(b'a' as i8 - 1)),
            _mm256_cmpgt_epi8(_mm256_set1_epi8(b'f' as i8 + 1), lower),
        );
        let digit = _mm256_and_si256(
            _mm256_cmpgt_epi8(chars, _mm256_set1_epi8(b'0' as i8 - 1)),
            _mm256_cmpgt_epi8(_mm256_set1_epi8(b'9' as i8 + 1), chars),
        );
        let nine = _mm256_and_si256(letter, _mm256_set1_epi8(9));
        Step {
            values: _mm256_add_epi8(_mm256_and_si256(chars, _mm256_set1_epi8(15)), nine),
            newline: join(_mm256_cmpeq_epi8(chars, _mm256_set1_epi8(b'\n' as i8))),
            blank: join(_mm256_cmpeq_epi8(chars, _mm256_set1_epi8(b' ' as i8))),
            not_hex: !join(_mm256_or_si256(letter, digit)) & INSIDE,
        }
    }
}

/// Converts the digits at the positions `take` to bytes, and stores the results of the first half
/// at the start of `room` and those of the second half at offset `half`. Each store writes eight
/// bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn store(values: __m256i, take: __m256i, half: usize, room: &mut [u8]) {
    let pairs = _mm256_shuffle_epi8(values, take);
    let bytes = _mm256_maddubs_epi16(pairs, _mm256_set1_epi16(0x0110));
    let bytes = _mm256_packus_epi16(bytes, bytes);
    assert!(room.len() >= half + 8);
    // SAFETY: eight bytes from the start and from `half` on are present, checked one line above.
    unsafe {
        _mm_storel_epi64(room.as_mut_ptr().cast(), _mm256_castsi256_si128(bytes));
        _mm_storel_epi64(room.as_mut_ptr().add(half).cast(), _mm256_extracti128_si256::<1>(bytes));
    }
}

/// Returns the values of 30 digits, 15 characters in each half, if there is a space wherever
/// `blank` has 0xff and a digit at all other positions. The characters are mapped twice: decimal
/// digits to 0 to 9, then letters to 10 to 15. Each time all other characters are mapped to more
/// than 15, so the minimum of both results is the value.
#[inline]
#[target_feature(enable = "avx2")]
fn values(chars: __m256i, blank: __m256i) -> Option<__m256i> {
    let digit = _mm256_subs_epu8(_mm256_add_epi8(chars, _mm256_set1_epi8((0xff - b'9') as i8)), _mm256_set1_epi8(6));
    let digit = _mm256_sub_epi8(digit, _mm256_set1_epi8(0xf0_u8 as i8));
    let letter =
        _mm256_sub_epi8(_mm256_and_si256(chars, _mm256_set1_epi8(0xdf_u8 as i8)), _mm256_set1_epi8(b'A' as i8));
    let letter = _mm256_adds_epu8(letter, _mm256_set1_epi8(10));
    let values = _mm256_min_epu8(digit, letter);
    let no_digit = _mm256_subs_epu8(values, _mm256_set1_epi8(15));
    let no_space = _mm256_xor_si256(chars, _mm256_set1_epi8(b' ' as i8));
    let wrong = _mm256_blendv_epi8(no_digit, no_space, blank);
    (_mm256_testz_si256(wrong, load(&OWN)) == 1).then_some(values)
}

/// Returns the positions of spaces among 30 characters, 15 in each half, as 0xff for [`values`].
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const fn blanks(header: bool) -> Shuffle {
    let mut out = [0; 32];
    let mut at = 0;
    while at < CHARS {
        if (header && (at == 12 || at == 25)) || (!header && at % 3 == 0) {
            out[at + at / 15] = 0xff;
        }
        at += 1;
    }
    out
}

static HEADER_BLANK: Shuffle = blanks(true);
static BLANK: Shuffle = blanks(false);

/// Mask of all bytes except the sixteenth of each half, which belongs to the next half or step.
static OWN: Shuffle = {
    let mut out = [0xff; 32];
    (out[15], out[31]) = (0, 0);
    out
};
