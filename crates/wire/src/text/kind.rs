//! By which instructions lines are written and read.

/// A way to write and read lines. All give the same; they differ in speed and in what they ask of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Tables, a byte at a time. Everywhere.
    Portable,
    /// 256-bit vectors on x86-64.
    Avx2,
    /// 512-bit vectors whose bytes move freely (AVX-512 VBMI) on x86-64.
    Avx512,
}

impl Kind {
    /// Every kind, from the plainest to the widest.
    pub const ALL: [Kind; 3] = [Kind::Portable, Kind::Avx2, Kind::Avx512];

    /// The widest that this machine has.
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

    /// Those that this machine has, from the plainest.
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

    /// Its word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Portable => "portable",
            Kind::Avx2 => "avx2",
            Kind::Avx512 => "avx512",
        }
    }
}
