//! SipHash: a keyed hash that reveals nothing about its key (Aumasson, Bernstein 2012).
//!
//! SipHash-2-4 computes values that peers receive and must not be able to predict (initial sequence
//! numbers, ports, cookies). SipHash-1-3, at about half the cost, computes the initial values of
//! the port table. Table indices, which peers never receive, use a cheaper hash in `table`.
//! Messages consist of whole 64-bit words.

/// 128-bit secret key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub u64, pub u64);

/// Prints a placeholder instead of the key.
impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// Returns the SipHash-2-4 of `words`, the pseudo-random function.
    pub fn sip24(self, words: &[u64]) -> u64 {
        hash::<2, 4>(self, words)
    }

    /// Returns the SipHash-1-3 of `words`, for tables.
    pub fn sip13(self, words: &[u64]) -> u64 {
        hash::<1, 3>(self, words)
    }

    /// Derives a key for another purpose. The original key cannot be computed from the derived one.
    #[must_use]
    pub fn derive(self, purpose: u64) -> Key {
        Key(self.sip24(&[purpose, 0]), self.sip24(&[purpose, 1]))
    }
}

struct State([u64; 4]);

impl State {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn rounds<const N: usize>(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        for _ in 0..N {
            a = a.wrapping_add(b);
            b = b.rotate_left(13) ^ a;
            a = a.rotate_left(32);
            c = c.wrapping_add(d);
            d = d.rotate_left(16) ^ c;
            a = a.wrapping_add(d);
            d = d.rotate_left(21) ^ a;
            c = c.wrapping_add(b);
            b = b.rotate_left(17) ^ c;
            c = c.rotate_left(32);
        }
        self.0 = [a, b, c, d];
    }

    #[inline(always)]
    fn absorb<const N: usize>(&mut self, word: u64) {
        self.0[3] ^= word;
        self.rounds::<N>();
        self.0[0] ^= word;
    }
}

#[inline]
fn hash<const C: usize, const D: usize>(Key(k0, k1): Key, words: &[u64]) -> u64 {
    let mut state = State([
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ]);
    words.iter().for_each(|word| state.absorb::<C>(*word));
    // The message length in bytes, modulo 256.
    state.absorb::<C>((words.len() as u64).wrapping_mul(8) << 56);
    state.0[2] ^= 0xff;
    state.rounds::<D>();
    state.0[0] ^ state.0[1] ^ state.0[2] ^ state.0[3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hasher;

    #[test]
    fn the_authors_vectors() {
        let key = Key(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        let words = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(key.sip24(&[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(key.sip24(&words[..1]), 0x93f5_f579_9a93_2462);
        assert_eq!(key.sip24(&words), 0x3f2a_cc7f_57c2_9bdb);
    }

    #[test]
    #[allow(deprecated)] // the standard library's keyed SipHash-2-4 is an oracle here
    fn matches_the_standard_library() {
        for seed in 0..50u64 {
            let words: Vec<u64> =
                (0..seed % 9).map(|n| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed << 50).collect();
            let mut oracle = std::hash::SipHasher::new_with_keys(seed << 7, !seed);
            words.iter().for_each(|word| oracle.write(&word.to_le_bytes()));
            assert_eq!(Key(seed << 7, !seed).sip24(&words), oracle.finish());
            let mut oracle = std::hash::DefaultHasher::new();
            words.iter().for_each(|word| oracle.write(&word.to_le_bytes()));
            assert_eq!(Key(0, 0).sip13(&words), oracle.finish());
        }
    }

    #[test]
    fn a_key_does_not_print_itself() {
        assert_eq!(format!("{:?}", Key(1, 2)), "Key(..)");
    }

    #[test]
    fn derived_keys_differ() {
        let key = Key(1, 2);
        assert!(key.derive(0) != key && key.derive(0) != key.derive(1) && key.derive(1) == key.derive(1));
    }
}
