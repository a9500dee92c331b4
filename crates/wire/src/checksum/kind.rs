//! Checksum implementations. The best one for the machine is selected once at run time and kept in
//! an atomic; measurements can select another one.

use super::partial::Partial;
use super::scalar;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::simd;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use core::{error, fmt, str::FromStr};

/// An implementation of the checksum. All give the same result; they differ in speed and in the CPU
/// features they require.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// 16 bits at a time (RFC 1071 4.1).
    Generic16 = 1,
    /// 64 bits at a time, with end-around carry; available everywhere.
    Word64,
    /// 128-bit vectors on aarch64.
    Neon,
    /// 256-bit vectors on x86-64.
    Avx2,
    /// 512-bit vectors with a masked tail (AVX-512F and BW) on x86-64.
    Avx512,
}

impl Kind {
    /// All implementations, from the simplest to the widest vectors.
    pub const ALL: [Kind; 5] = [Kind::Generic16, Kind::Word64, Kind::Neon, Kind::Avx2, Kind::Avx512];

    /// Returns the implementations that this machine can run, simplest first; [`super::sum`] uses
    /// the last one.
    pub fn available() -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(|kind| kind.is_available())
    }

    /// Returns whether this machine can run this kind.
    pub fn is_available(self) -> bool {
        match self {
            Kind::Generic16 | Kind::Word64 => true,
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => simd::has_neon(),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => simd::has_avx2(),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => simd::has_avx512(),
            #[allow(unreachable_patterns, reason = "other architectures have fewer arms above")]
            _ => false,
        }
    }

    /// Returns the name, as accepted and printed by commands.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Generic16 => "generic16",
            Kind::Word64 => "word64",
            Kind::Neon => "neon",
            Kind::Avx2 => "avx2",
            Kind::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Error: this machine or this build does not support the requested [`Kind`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unavailable;

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("checksum implementation not available on this machine; available:")?;
        Kind::available().try_for_each(|kind| write!(f, " {kind}"))
    }
}

impl error::Error for Unavailable {}

impl FromStr for Kind {
    type Err = Unavailable;

    fn from_str(word: &str) -> Result<Kind, Unavailable> {
        Kind::ALL.into_iter().find(|kind| kind.name() == word).ok_or(Unavailable)
    }
}

/// Number of the selected [`Kind`]; 0 until first use. Relaxed ordering suffices: every value leads
/// to the same sum.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// Returns the implementation that [`super::sum`] uses for long inputs.
#[inline]
pub fn kind() -> Kind {
    match CHOSEN.load(Relaxed) {
        1 => Kind::Generic16,
        2 => Kind::Word64,
        3 => Kind::Neon,
        4 => Kind::Avx2,
        5 => Kind::Avx512,
        _ => detect(),
    }
}

/// Makes [`super::sum`] use `kind` from now on, in all threads; for measurements.
pub fn select(kind: Kind) -> Result<(), Unavailable> {
    if !kind.is_available() {
        return Err(Unavailable);
    }
    CHOSEN.store(kind as u8, Relaxed);
    Ok(())
}

#[cold]
fn detect() -> Kind {
    let best = Kind::available().last().unwrap_or(Kind::Word64);
    CHOSEN.store(best as u8, Relaxed);
    best
}

/// Sums with the selected implementation. This function is out of line so that only the short path
/// is inlined everywhere.
#[inline(never)]
pub(super) fn sum_long(bytes: &[u8]) -> Partial {
    sum_with(kind(), bytes)
}

/// Sums with the given implementation, at any length. Falls back to [`Kind::Word64`] if the machine
/// does not support it.
#[cfg_attr(not(debug_assertions), inline(always))]
pub fn sum_with(kind: Kind, bytes: &[u8]) -> Partial {
    Partial(match kind {
        Kind::Generic16 => scalar::generic16(bytes),
        #[cfg(target_arch = "aarch64")]
        Kind::Neon => simd::neon(bytes),
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => simd::avx2(bytes),
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => simd::avx512(bytes),
        _ => scalar::word64(bytes),
    })
}
