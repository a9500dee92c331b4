//! Ticks: the processor's time-stamp counter, or nanoseconds on architectures without one.
//!
//! A tick is not a core cycle: an invariant TSC runs at one rate whatever the core does (Intel SDM
//! vol. 3, 19.17.1). Reads are fenced on both sides (Intel SDM vol. 2, RDTSC): earlier instructions
//! have finished before the counter is read, and none that follow have started.
// RDTSC and CPUID are intrinsics; both exist on every x86-64 processor and touch no memory.
#![allow(unsafe_code)]

/// Source of ticks, as stored in every result.
#[cfg(target_arch = "x86_64")]
pub const SOURCE: &str = "rdtsc, lfence on both sides";
/// Source of ticks, as stored in every result.
#[cfg(not(target_arch = "x86_64"))]
pub const SOURCE: &str = "clock_gettime(CLOCK_MONOTONIC), one tick = 1 ns";

/// Reads the tick counter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn now() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: SSE2 and the TSC are part of x86-64; Linux leaves RDTSC open to user programs
    // (CR4.TSD clear).
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// Reads the tick counter.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn now() -> u64 {
    crate::os::monotonic_ns()
}

/// Returns the rate reported by CPUID leaf 0x15 (crystal times ratio), if any. Leaf 0x16 is not
/// used: it gives the core's base frequency rounded to a megahertz, which is not the TSC's rate.
#[cfg(target_arch = "x86_64")]
pub fn stated_hz() -> Option<u64> {
    let leaf = cpuid(0x15)?;
    let [denominator, numerator, crystal, _] = leaf.map(u64::from);
    (denominator != 0 && numerator != 0 && crystal != 0).then(|| crystal * numerator / denominator)
}

/// Returns the tick rate: 10^9, since a tick is a nanosecond.
#[cfg(not(target_arch = "x86_64"))]
pub fn stated_hz() -> Option<u64> {
    Some(1_000_000_000)
}

/// Returns whether the counter keeps one rate in every power state: CPUID 0x8000_0007, EDX bit 8.
#[cfg(target_arch = "x86_64")]
pub fn invariant() -> bool {
    cpuid(0x8000_0007).is_some_and(|leaf| leaf[3] & (1 << 8) != 0)
}

/// Returns whether the counter keeps one rate in every power state: always true for
/// CLOCK_MONOTONIC.
#[cfg(not(target_arch = "x86_64"))]
pub fn invariant() -> bool {
    true
}

/// Returns the hypervisor's signature from CPUID leaf 0x4000_0000 ("KVMKVMKVM"), or `None` on bare
/// metal.
#[cfg(target_arch = "x86_64")]
pub fn hypervisor() -> Option<String> {
    let [.., features, _] = cpuid(1)?;
    if features & (1 << 31) == 0 {
        return None;
    }
    let [_, b, c, d] = raw_cpuid(0x4000_0000);
    let bytes: Vec<u8> = [b, c, d].into_iter().flat_map(u32::to_le_bytes).filter(|byte| *byte != 0).collect();
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the hypervisor's signature, which is not available on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub fn hypervisor() -> Option<String> {
    None
}

/// Returns EAX, EBX, ECX and EDX of a leaf, if the processor has that leaf.
#[cfg(target_arch = "x86_64")]
fn cpuid(leaf: u32) -> Option<[u32; 4]> {
    let highest = raw_cpuid(leaf & 0x8000_0000)[0];
    (leaf <= highest).then(|| raw_cpuid(leaf))
}

#[cfg(target_arch = "x86_64")]
fn raw_cpuid(leaf: u32) -> [u32; 4] {
    let answer = core::arch::x86_64::__cpuid(leaf);
    [answer.eax, answer.ebx, answer.ecx, answer.edx]
}
