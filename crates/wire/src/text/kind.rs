//! Implementations of the text format for different instruction sets.

/// An implementation of the text format. All give the same result; they differ in speed and in the
/// CPU features they require.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Tables, one byte at a time; available everywhere.
    Portable,
    /// 256-bit vectors on x86-64.
    Avx2,
    /// 512-bit vectors with byte permutations (AVX-512 VBMI) on x86-64.
    Avx512,
}

impl Kind {
    /// All implementations, from the simplest to the widest vectors.
    pub const ALL: [Kind; 3] = [Kind::Portable, Kind::Avx2, Kind::Avx512];

    /// Returns the implementation with the widest vectors that this machine supports.
    #[inline]
    pub fn best() -> Kind {
        #[cfg(target_arch = "x86_64")]
        {
            use super::simd;
            if simd::has_vbmi() {
                return Kind::Avx512;
            }
            if simd::has_avx2() {
                return Kind::Avx2;
            }
        }
        Kind::Portable
    }

    /// Returns the implementations that this machine supports, simplest first.
    pub fn available() -> impl Iterator<Item = Kind> {
        let best = Kind::best();
        let narrower = move |kind: &Kind| match kind {
            Kind::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => super::simd::has_avx2(),
            _ => *kind == best,
        };
        Kind::ALL.into_iter().filter(narrower)
    }

    /// Returns the name, as printed in tables of results.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Portable => "portable",
            Kind::Avx2 => "avx2",
            Kind::Avx512 => "avx512",
        }
    }
}
