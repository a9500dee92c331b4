//! The time-stamp counter (TSC). Its ticks are not core cycles, since a core may run at a higher
//! frequency than its TSC.
//!
//! Uses `unsafe`: `_rdtsc` and `__cpuid` are intrinsics without preconditions on x86-64. On other
//! architectures a tick is a nanosecond of the monotonic clock, and [`invariant`] returns false so
//! that ticks are not scaled.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Reads the counter (in about 23 ticks on the development machine; not ordered with neighbouring
/// instructions).
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: rdtsc has no preconditions; every x86-64 has it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        fallback_nanos()
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn fallback_nanos() -> u64 {
    static BASE: OnceLock<Instant> = OnceLock::new();
    BASE.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Returns whether the counter runs at a constant rate in all power states (CPUID 8000_0007h EDX
/// bit 8).
pub fn invariant() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        #[allow(unused_unsafe)] // `__cpuid` became safe in newer releases
        // SAFETY: cpuid exists on every x86-64; the leaf is first checked against the maximum.
        unsafe {
            __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Returns the ticks per second, measured once per process against the monotonic clock over about
/// 10 ms.
pub fn hertz() -> u64 {
    static HERTZ: OnceLock<u64> = OnceLock::new();
    *HERTZ.get_or_init(|| {
        // The median of three is used, since an interruption between the two clock readings at one
        // end distorts only one measurement.
        let mut rates: Vec<u64> = (0..3).map(|_| rate_over(Duration::from_micros(3300))).collect();
        rates.sort_unstable();
        rates[1].max(1)
    })
}

fn rate_over(span: Duration) -> u64 {
    let (wall, start) = (Instant::now(), ticks());
    while wall.elapsed() < span {
        std::hint::spin_loop();
    }
    let (elapsed, end) = (wall.elapsed(), ticks());
    (end.wrapping_sub(start) as u128 * 1_000_000_000 / elapsed.as_nanos().max(1)) as u64
}
