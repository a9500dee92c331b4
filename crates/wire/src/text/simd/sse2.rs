//! Comparison of header characters. Every x86-64 CPU has SSE2, so the function needs no feature
//! check and can be inlined.

use super::super::sizes::HEADER;
use core::arch::x86_64::*;

/// Returns a bit for each character of `header` that equals `character`, a vector of 16 copies.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(in super::super) fn equal(header: &[u8; HEADER], character: &[u8; 16]) -> u32 {
    // SAFETY: SSE2 is present; reads all 16 bytes of `character`, and 16 of the thirty bytes of
    // `header`, from the start and from the fifteenth on.
    unsafe {
        let character = _mm_loadu_si128(character.as_ptr().cast());
        let first = _mm_loadu_si128(header.as_ptr().cast());
        let second = _mm_loadu_si128(header.as_ptr().add(HEADER - 16).cast());
        let bits = |chars| _mm_movemask_epi8(_mm_cmpeq_epi8(chars, character)) as u32;
        bits(first) | bits(second) << (HEADER - 16)
    }
}
