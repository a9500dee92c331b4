//! Keyed hashing for tables whose keys are chosen by remote hosts.
//!
//! Uses folded multiplication (the construction of wyhash and aHash) with a random 128-bit key per
//! table. An attacker without the key cannot choose addresses that collide. Hashing a connection's
//! four-tuple takes about 5 ticks; SipHash takes about 40.

use core::hash::{BuildHasher, Hasher};

/// Secret key of a hash table.
#[derive(Clone, Copy, Debug)]
pub struct Key(u64, u64);

impl Key {
    /// Returns a random key from the operating system (through the standard library's hasher
    /// seeds).
    #[cfg(feature = "std")]
    pub fn random() -> Key {
        let state = std::hash::RandomState::new();
        Key(state.hash_one(0u8), state.hash_one(1u8) | 1)
    }

    /// Returns a key derived from `seed`, for reproducible simulations.
    pub fn seeded(seed: u64) -> Key {
        Key(fold(seed ^ 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db), fold(seed, 0x8ebc_6af0_9c88_c6e3) | 1)
    }

    /// Hashes two words.
    #[inline(always)]
    pub fn hash2(self, a: u64, b: u64) -> u64 {
        fold(fold(a ^ self.0, b ^ self.1) ^ self.1, 0x9e37_79b9_7f4a_7c15)
    }

    /// Hashes four words.
    #[inline(always)]
    pub fn hash4(self, a: u64, b: u64, c: u64, d: u64) -> u64 {
        fold(fold(a ^ self.0, b ^ self.1) ^ self.1, fold(c ^ self.1, d ^ self.0) ^ 0x9e37_79b9_7f4a_7c15)
    }
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Builder of hashers with this [`Key`], for the maps of the standard library.
#[derive(Clone, Copy, Debug)]
pub struct Keyed(pub Key);

impl BuildHasher for Keyed {
    type Hasher = KeyedHasher;
    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { key: self.0, state: self.0.0 }
    }
}

/// State of a [`Keyed`] hash.
#[derive(Clone, Copy, Debug)]
pub struct KeyedHasher {
    key: Key,
    state: u64,
}

impl Hasher for KeyedHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0u8; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            self.write_u64(u64::from_le_bytes(word) ^ (chunk.len() as u64) << 56);
        }
    }
    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.state = fold(self.state ^ n, self.key.1);
    }
    fn finish(&self) -> u64 {
        fold(self.state, 0x9e37_79b9_7f4a_7c15 ^ self.key.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns, for each bit of the hash, how many of 4096 keys set it.
    fn ones(hash: impl Fn(u64) -> u64) -> Vec<u64> {
        let hashes: Vec<u64> = (0..4096).map(hash).collect();
        (0..64).map(|bit| hashes.iter().map(|hash| hash >> bit & 1).sum()).collect()
    }

    /// Each bit of a hash depends on the key: about half of 4096 keys set it. The permitted
    /// deviation is six standard deviations of 32 keys each.
    #[test]
    fn every_bit_depends_on_the_key() {
        let even = |what: &str, ones: Vec<u64>| {
            assert!(ones.iter().all(|ones| (1856..=2240).contains(ones)), "{what}: {ones:?}");
        };
        for (a, b) in [(0, 0), (0x0a00_0001, 0x0a00_0002), (u64::MAX, 7)] {
            even("hash2", ones(|n| Key::seeded(n).hash2(a, b)));
            even("hash4", ones(|n| Key::seeded(n).hash4(a, b, 80, 40_000)));
            even("Keyed", ones(|n| Keyed(Key::seeded(n)).hash_one((a, b))));
            even("first half", ones(|n| Key(Key::seeded(n).0, 0x1234_5678_9abc_def1).hash2(a, b)));
            even("second half", ones(|n| Key(0x1234_5678_9abc_def1, Key::seeded(n).1).hash2(a, b)));
        }
    }

    /// Numbers that collide under one key are spread under another.
    #[test]
    fn collisions_do_not_outlive_the_key() {
        let bucket = |key: u64, n: u64| Key::seeded(key).hash2(n, 0) % 1024;
        let colliding: Vec<u64> = (0..1 << 20).filter(|n| bucket(1, *n) == 5).take(500).collect();
        assert_eq!(colliding.len(), 500);
        let mut buckets = [0u32; 1024];
        colliding.iter().for_each(|n| buckets[bucket(2, *n) as usize] += 1);
        assert!(*buckets.iter().max().unwrap() <= 8, "{:?}", buckets.iter().max());
    }
}
