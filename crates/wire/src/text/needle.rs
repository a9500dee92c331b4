//! Search for a word in the headers of F1 lines.

#[cfg(target_arch = "x86_64")]
use super::simd::sse2::equal;
use super::sizes::HEADER;
use alloc::vec::Vec;

/// A word of 1 to [`HEADER`] characters, prepared for a search in many headers.
#[derive(Debug, Clone)]
pub struct Needle {
    word: Vec<u8>,
    /// Last and first character of the word, each with its offset in the word. Comparing these two
    /// excludes most positions.
    probes: [(usize, [u8; 16]); 2],
}

impl Needle {
    /// Prepares a word; returns `None` if it is empty or longer than a header.
    pub fn new(word: &[u8]) -> Option<Needle> {
        let probe = |at: usize| word.get(at).map(|character| (at, [*character; 16]));
        let probes = [probe(word.len().checked_sub(1)?)?, probe(0)?];
        (word.len() <= HEADER).then(|| Needle { word: word.to_vec(), probes })
    }

    /// Returns the characters of the word.
    pub fn word(&self) -> &[u8] {
        &self.word
    }

    /// Returns the positions of the word in a header, as a bit mask: bit `n` is set if the word
    /// begins at offset `n`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn places(&self, header: &[u8; HEADER]) -> u32 {
        let found = self.probes.iter().fold(u32::MAX, |found, (at, character)| found & equal(header, character) >> at);
        let (mut left, mut whole) = (found, 0);
        while left != 0 {
            let at = left.trailing_zeros();
            left &= left - 1;
            let there = header.get(at as usize..).is_some_and(|rest| begins(rest, &self.word));
            whole |= u32::from(there) << at;
        }
        whole
    }
}

/// Returns whether `text` begins with `word`. Compares two halves that may overlap, which needs
/// neither a loop nor a call.
#[cfg_attr(not(debug_assertions), inline(always))]
fn begins(text: &[u8], word: &[u8]) -> bool {
    let Some(text) = text.get(..word.len()) else { return false };
    match word.len() {
        4..=8 => text.first_chunk::<4>() == word.first_chunk() && text.last_chunk::<4>() == word.last_chunk(),
        9..=16 => text.first_chunk::<8>() == word.first_chunk() && text.last_chunk::<8>() == word.last_chunk(),
        _ => text == word,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn equal(header: &[u8; HEADER], character: &[u8; 16]) -> u32 {
    let bit = |(at, here): (usize, &u8)| u32::from(*here == character[0]) << at;
    header.iter().enumerate().map(bit).sum()
}
