//! Characters of a header compared. Every x86-64 has SSE2: nothing is asked of the machine, and no call stands in the way of inlining.

use super::super::HEADER;
use std::arch::x86_64::*;

/// A bit for each character of `header` that is the one of which `character` is full.
#[inline(always)]
pub(in super::super) fn equal(header: &[u8; HEADER], character: &[u8; 16]) -> u32 {
    // SAFETY: SSE2 is there; 16 bytes of 16, and of thirty those from the front on and from the fourteenth on.
    unsafe {
        let character = _mm_loadu_si128(character.as_ptr().cast());
        let first = _mm_loadu_si128(header.as_ptr().cast());
        let second = _mm_loadu_si128(header.as_ptr().add(HEADER - 16).cast());
        let bits = |chars| _mm_movemask_epi8(_mm_cmpeq_epi8(chars, character)) as u32;
        bits(first) | bits(second) << (HEADER - 16)
    }
}
