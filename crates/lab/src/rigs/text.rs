//! Payload for streams: every byte is determined by its position, so that received bytes can be
//! checked.

use clock::Random;

/// Period of the text in bytes: a prime, so that a loss of whole segments or pages is detected.
const PERIOD: usize = 4093;

/// Payload text of unlimited length.
#[derive(Debug)]
pub struct Text(Vec<u8>);

impl Text {
    /// Creates a text of which at most `longest` bytes are read at a time.
    pub fn new(longest: usize) -> Text {
        let mut random = Random::new(0);
        let once: Vec<u8> = (0..PERIOD).map(|_| random.bits() as u8).collect();
        Text(once.iter().copied().cycle().take(PERIOD + longest).collect())
    }

    /// Returns the `len` bytes from position `at` on.
    ///
    /// # Panics
    /// If `len` exceeds the maximum given to [`Text::new`].
    #[inline]
    pub fn at(&self, at: u64, len: usize) -> &[u8] {
        let from = (at % PERIOD as u64) as usize;
        &self.0[from..from + len]
    }

    /// Returns whether the first and last bytes of `got` match position `at`; fast enough for the
    /// measured part.
    #[inline]
    pub fn is_likely(&self, at: u64, got: &[u8]) -> bool {
        let edge = got.len().min(8);
        let end = got.len() - edge;
        got[..edge] == *self.at(at, edge) && got[end..] == *self.at(at + end as u64, edge)
    }

    /// Returns whether `got` matches position `at`, byte for byte.
    pub fn is(&self, at: u64, got: &[u8]) -> bool {
        got == self.at(at, got.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_or_misplaced_byte_is_detected() {
        let text = Text::new(2000);
        let mut got = text.at(5000, 2000).to_vec();
        assert!(text.is(5000, &got) && text.is_likely(5000, &got));
        for shift in [1, 1448, 4096, 65_483] {
            assert!(!text.is_likely(5000 + shift, &got), "{shift}");
        }
        got[1000] ^= 1;
        assert!(!text.is(5000, &got) && text.is_likely(5000, &got));
        got[1999] ^= 1;
        assert!(!text.is_likely(5000, &got));
        assert!(text.is(7, &[]) && text.is_likely(7, &[]));
    }
}
