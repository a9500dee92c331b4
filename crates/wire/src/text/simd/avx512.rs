//! Processes 63 characters at a time: first the header and eleven bytes, then 21 bytes as ` HH` in
//! each step.
//!
//! Writing: for each of 64 positions, VPERMB selects the byte, a shift selects its high or low
//! half, and VPSHUFB converts the half to a digit. Reading: VPERMI2B converts each of 64 characters
//! to its value by a table of 128, and VPERMB collects the two values of each byte. Newlines and
//! spaces are found by comparison and must be at the right positions.

use super::super::batch::{Arena, read_lines, write_lines};
use super::super::sizes::{HEADER, MAX_FRAME, MIN_FRAME, len as line_len};
use super::super::stamp::Stamp;
use super::has_vbmi;
use core::arch::x86_64::*;

/// Number of characters in a step.
const STEP: usize = 63;
/// Number of frame bytes in the first step. All other steps process `STEP` / 3 bytes.
const FIRST: usize = MIN_FRAME + (STEP - HEADER) / 3;
const OTHER: usize = STEP / 3;

/// Layout of a step: for each position, the byte of the frame and which of its digits the position
/// contains. The entries of spaces have no meaning.
struct Layout {
    bytes: [u8; 64],
    /// Mask of the positions of high digits.
    high: u64,
    /// Mask of the positions of spaces.
    space: u64,
    /// For each byte, the position of its high digit. `low_at` contains the positions of the low
    /// digits.
    high_at: [u8; 64],
    low_at: [u8; 64],
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const fn layout(header: bool) -> Layout {
    let mut out = Layout { bytes: [0; 64], high: 0, space: 0, high_at: [0; 64], low_at: [0; 64] };
    let (mut place, mut byte) = (0, 0);
    while place < STEP {
        let group = if header && place < HEADER { place == 12 || place == 25 } else { place % 3 == 0 };
        if group {
            out.space |= 1 << place;
            place += 1;
            continue;
        }
        out.high |= 1 << place;
        out.bytes[place] = byte;
        out.bytes[place + 1] = byte;
        out.high_at[byte as usize] = place as u8;
        out.low_at[byte as usize] = place as u8 + 1;
        place += 2;
        byte += 1;
    }
    out
}

static HEAD: Layout = layout(true);
static TAIL: Layout = layout(false);

/// Value of each character below 128; 0x80 for characters that are not digits.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
static VALUES: [u8; 128] = {
    let mut values = [0x80; 128];
    let mut at = 0;
    while at < 10 {
        values[b'0' as usize + at] = at as u8;
        at += 1;
    }
    while at < 16 {
        values[b'A' as usize + at - 10] = at as u8;
        values[b'a' as usize + at - 10] = at as u8;
        at += 1;
    }
    values
};

/// Returns a mask of the low `n` bits.
#[inline(always)]
fn low_bits(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// Writes the line of `frame` to `out`, which must have `SLACK` bytes after the line. Returns the
/// line's length.
#[inline]
pub(in super::super) fn encode(frame: &[u8], out: &mut [u8]) -> usize {
    let len = line_len(frame.len());
    assert!(has_vbmi() && frame.len() >= MIN_FRAME && out.len() >= len + 64);
    // SAFETY: the CPU features are present and the lengths are sufficient, asserted above.
    unsafe { encode_vbmi(frame, out) }
    len
}

/// # Safety
/// `out` must have 64 bytes after the line of `frame`, which must have at least an Ethernet header.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
unsafe fn encode_vbmi(frame: &[u8], out: &mut [u8]) {
    let digits = _mm512_broadcast_i32x4(_mm_setr_epi8(
        b'0' as i8, b'1' as i8, b'2' as i8, b'3' as i8, b'4' as i8, b'5' as i8, b'6' as i8, b'7' as i8, b'8' as i8,
        b'9' as i8, b'A' as i8, b'B' as i8, b'C' as i8, b'D' as i8, b'E' as i8, b'F' as i8,
    ));
    let (spaces, half) = (_mm512_set1_epi8(b' ' as i8), _mm512_set1_epi8(15));
    let mut layout = &HEAD;
    let (mut at, mut to, mut step) = (0, 0, FIRST);
    while at < frame.len() {
        let here = step.min(frame.len() - at);
        // SAFETY: a masked load of `here` bytes, which the frame has from `at` on, and 64 bytes of
        // a static.
        let (bytes, places) = unsafe {
            let bytes = _mm256_maskz_loadu_epi8(low_bits(here) as u32, frame.as_ptr().add(at).cast());
            (bytes, _mm512_loadu_si512(layout.bytes.as_ptr().cast()))
        };
        let spread = _mm512_permutexvar_epi8(places, _mm512_castsi256_si512(bytes));
        let halves = _mm512_mask_blend_epi8(layout.high, spread, _mm512_srli_epi16::<4>(spread));
        let text = _mm512_shuffle_epi8(digits, _mm512_and_si512(halves, half));
        let text = _mm512_mask_blend_epi8(layout.space, text, spaces);
        // SAFETY: `to` is within the line, which is followed by 64 bytes.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().add(to).cast(), text) };
        at += here;
        to += STEP;
        (layout, step) = (&TAIL, OTHER);
    }
    // SAFETY: the line's last position.
    unsafe { *out.as_mut_ptr().add(line_len(frame.len()) - 1) = b'\n' };
}

/// AVX-512 version of [`super::super::encode_lines`]. `one` writes the lines that have a stamp or
/// are at the end of `out`.
#[inline]
pub(in super::super) fn encode_lines<'a>(
    frames: impl Iterator<Item = (&'a [u8], Option<Stamp>)>,
    out: &mut [u8],
    one: impl Fn(&[u8], Option<Stamp>, &mut [u8]) -> Option<usize>,
) -> usize {
    assert!(has_vbmi());
    // SAFETY: the CPU features are present, asserted above.
    unsafe { encode_lines_vbmi(frames, out, one) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn encode_lines_vbmi<'a>(
    frames: impl Iterator<Item = (&'a [u8], Option<Stamp>)>,
    out: &mut [u8],
    one: impl Fn(&[u8], Option<Stamp>, &mut [u8]) -> Option<usize>,
) -> usize {
    write_lines(frames, out, |frame, stamp, out| {
        let len = line_len(frame.len());
        match stamp {
            None if (MIN_FRAME..=MAX_FRAME).contains(&frame.len()) && out.len() >= len + 64 => {
                // SAFETY: CPU features, frame length and output length are sufficient, checked
                // above.
                unsafe { encode_vbmi(frame, out) };
                Some(len)
            }
            _ => one(frame, stamp, out),
        }
    })
}

/// AVX-512 version of [`super::super::decode_lines`].
#[inline]
pub(in super::super) fn decode_lines(text: &[u8], into: &mut impl Arena) -> (usize, u64) {
    assert!(has_vbmi());
    // SAFETY: the CPU features are present, asserted above.
    unsafe { decode_lines_vbmi(text, into) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn decode_lines_vbmi(text: &[u8], into: &mut impl Arena) -> (usize, u64) {
    read_lines(text, into, |line, frame| decode_vbmi(line, frame))
}

/// Reads a line in canonical form, with digits of either case. Returns the number of bytes consumed
/// and the length of the frame; `None` for any other form, or without a newline.
#[inline]
pub(in super::super) fn decode(text: &[u8], frame: &mut [u8]) -> Option<(usize, usize)> {
    assert!(has_vbmi());
    // SAFETY: the CPU features are present, asserted above.
    unsafe { decode_vbmi(text, frame) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn decode_vbmi(text: &[u8], frame: &mut [u8]) -> Option<(usize, usize)> {
    // SAFETY: loads of two halves of a static of 128 bytes.
    let (low_values, high_values) =
        unsafe { (_mm512_loadu_si512(VALUES.as_ptr().cast()), _mm512_loadu_si512(VALUES.as_ptr().add(64).cast())) };
    let (newlines, spaces) = (_mm512_set1_epi8(b'\n' as i8), _mm512_set1_epi8(b' ' as i8));
    let mut layout = &HEAD;
    let (mut from, mut len, mut step) = (0, 0, FIRST);
    loop {
        let left = text.len() - from;
        let there = low_bits(left.min(STEP));
        // SAFETY: a masked load of bytes that the text has from `from` on.
        let chars = unsafe { _mm512_maskz_loadu_epi8(there, text.as_ptr().add(from).cast()) };
        let newline = _mm512_cmpeq_epi8_mask(chars, newlines);
        let here = if newline == 0 { STEP } else { newline.trailing_zeros() as usize };
        let inside = low_bits(here);
        let blank = _mm512_cmpeq_epi8_mask(chars, spaces) & inside;
        let values = _mm512_permutex2var_epi8(low_values, chars, high_values);
        let not_hex = _mm512_movepi8_mask(_mm512_or_si512(values, chars)) & inside;
        if inside & !there != 0 || blank != layout.space & inside || not_hex != blank {
            return None;
        }
        // A newline must be at the position of a space.
        let bytes = if newline == 0 {
            step
        } else if layout.space >> here & 1 == 1 && (from > 0 || here >= HEADER) {
            step - (STEP - here) / 3
        } else {
            return None;
        };
        // SAFETY: two loads of 64 bytes of a static.
        let (high_at, low_at) = unsafe {
            (_mm512_loadu_si512(layout.high_at.as_ptr().cast()), _mm512_loadu_si512(layout.low_at.as_ptr().cast()))
        };
        let high = _mm512_slli_epi16::<4>(_mm512_permutexvar_epi8(high_at, values));
        let low = _mm512_permutexvar_epi8(low_at, values);
        let out = _mm512_castsi512_si256(_mm512_or_si512(high, low));
        let room = frame.get_mut(len..)?;
        if room.len() >= 32 {
            // SAFETY: there is room for 32 bytes, checked one line above.
            unsafe { _mm256_storeu_si256(room.as_mut_ptr().cast(), out) };
        } else if room.len() >= bytes {
            // SAFETY: a masked store of `bytes` bytes, at most 25, for which there is room.
            unsafe { _mm256_mask_storeu_epi8(room.as_mut_ptr().cast(), low_bits(bytes) as u32, out) };
        } else {
            return None;
        }
        len += bytes;
        if newline != 0 {
            return (len <= MAX_FRAME).then_some((from + here + 1, len));
        }
        from += STEP;
        (layout, step) = (&TAIL, OTHER);
    }
}

/// AVX-512 version of [`super::super::shape`].
#[inline]
pub(in super::super) fn shape(text: &[u8]) -> Option<usize> {
    assert!(has_vbmi());
    // SAFETY: the CPU features are present, asserted above.
    unsafe { shape_vbmi(text) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn shape_vbmi(text: &[u8]) -> Option<usize> {
    let (newlines, spaces) = (_mm512_set1_epi8(b'\n' as i8), _mm512_set1_epi8(b' ' as i8));
    let mut layout = HEAD.space;
    let mut from = 0;
    loop {
        let left = text.len() - from;
        let there = low_bits(left.min(STEP));
        // SAFETY: a masked load of bytes that the text has from `from` on.
        let chars = unsafe { _mm512_maskz_loadu_epi8(there, text.as_ptr().add(from).cast()) };
        let newline = _mm512_cmpeq_epi8_mask(chars, newlines);
        let blank = _mm512_cmpeq_epi8_mask(chars, spaces);
        if newline == 0 {
            if blank != layout || left < STEP {
                return None;
            }
            (from, layout) = (from + STEP, TAIL.space);
            continue;
        }
        let here = newline.trailing_zeros() as usize;
        let at_its_place = layout >> here & 1 == 1 && (from > 0 || here >= HEADER);
        return (at_its_place && (blank ^ layout) & low_bits(here) == 0).then_some(from + here + 1);
    }
}

/// AVX-512 version of [`super::super::each_line`].
#[inline]
pub(in super::super) fn each_line(text: &[u8], each: impl FnMut(usize, usize, &[u8; HEADER]) -> bool) -> usize {
    assert!(has_vbmi());
    // SAFETY: the CPU features are present, asserted above.
    unsafe { each_line_vbmi(text, each) }
}

/// Iterates over the lines. Lines usually have the length of the previous line, so the end of each
/// line is predicted from it. The CPU can then start to process the next line before this one is
/// checked.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn each_line_vbmi(text: &[u8], mut each: impl FnMut(usize, usize, &[u8; HEADER]) -> bool) -> usize {
    let (mut at, mut len) = (0, usize::MAX);
    while let Some(rest) = text.get(at..)
        && let Some(header) = rest.first_chunk::<HEADER>()
    {
        if !(len.saturating_add(64) <= rest.len() && is_shaped(rest, len)) {
            match shape_vbmi(rest) {
                Some(found) => len = found,
                None => break,
            }
        }
        if !each(at, len, header) {
            break;
        }
        at += len;
    }
    at
}

/// Returns whether the line at the start of `text` has the shape of an F1 line of `len` bytes.
/// `text` must continue for at least 64 bytes after the line.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn is_shaped(text: &[u8], len: usize) -> bool {
    let (newlines, spaces) = (_mm512_set1_epi8(b'\n' as i8), _mm512_set1_epi8(b' ' as i8));
    assert!(text.len() >= len + 64);
    let (mut from, mut layout, mut wrong) = (0, HEAD.space, 0);
    while len - from > STEP {
        // SAFETY: 64 bytes from `from` on: asserted above, and `from` is within the line.
        let chars = unsafe { _mm512_loadu_si512(text.as_ptr().add(from).cast()) };
        let (newline, blank) = (_mm512_cmpeq_epi8_mask(chars, newlines), _mm512_cmpeq_epi8_mask(chars, spaces));
        wrong |= (newline | (blank ^ layout)) & low_bits(STEP);
        (from, layout) = (from + STEP, TAIL.space);
    }
    // SAFETY: same as for the load in the loop.
    let chars = unsafe { _mm512_loadu_si512(text.as_ptr().add(from).cast()) };
    let (newline, blank) = (_mm512_cmpeq_epi8_mask(chars, newlines), _mm512_cmpeq_epi8_mask(chars, spaces));
    let end = len - from - 1;
    wrong |= (newline ^ (1 << end)) & low_bits(end + 1);
    wrong |= (blank ^ layout) & low_bits(end);
    wrong == 0
}
