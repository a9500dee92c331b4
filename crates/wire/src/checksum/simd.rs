//! Sums with vector instructions. In this crate only this file and `text/simd.rs` with its
//! submodules may use `unsafe`. Here it is used for unaligned vector loads, with bounds from
//! `as_chunks`, and for calls of functions that need CPU features, right after the features were
//! checked.
//!
//! Each 64-bit lane keeps two sums over its words `w`: `all` is the sum of `w`, wrapping; `high` is
//! the sum of `w >> 32`, which cannot overflow. The sum of the low halves is exactly `all - (high
//! << 32)`, so each vector costs a load, a shift and two additions, and no mask. Every function
//! checks whether the CPU has its instructions, and falls back to 64-bit words if not. It is
//! therefore safe to call on any machine.
#![allow(unsafe_code, reason = "vector loads and target features; each block states why it is sound")]

use super::scalar;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::scalar;
    use core::arch::x86_64::*;

    #[inline(always)]
    pub(in crate::checksum) fn has_avx2() -> bool {
        crate::cpu::has_features!("avx2")
    }

    #[inline(always)]
    pub(in crate::checksum) fn has_avx512() -> bool {
        crate::cpu::has_features!("avx512f", "avx512bw")
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(in crate::checksum) fn avx2(bytes: &[u8]) -> u64 {
        if !has_avx2() {
            return scalar::word64(bytes);
        }
        // SAFETY: AVX2 is present, checked one line above.
        unsafe { sum_avx2(bytes) }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(in crate::checksum) fn avx512(bytes: &[u8]) -> u64 {
        if !has_avx512() {
            return scalar::word64(bytes);
        }
        // SAFETY: AVX-512F and BW are present, checked one line above.
        unsafe { sum_avx512(bytes) }
    }

    #[target_feature(enable = "avx2")]
    fn sum_avx2(bytes: &[u8]) -> u64 {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn add(sums: &mut (__m256i, __m256i), bytes: &[u8; 32]) {
            // SAFETY: an unaligned load of the 32 bytes that the reference covers.
            let word = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
            sums.0 = _mm256_add_epi64(sums.0, word);
            sums.1 = _mm256_add_epi64(sums.1, _mm256_srli_epi64::<32>(word));
        }
        let zero = (_mm256_setzero_si256(), _mm256_setzero_si256());
        let (mut even, mut odd) = (zero, zero);
        let (pairs, rest) = bytes.as_chunks::<64>();
        for pair in pairs {
            let (vectors, _) = pair.as_chunks::<32>();
            if let [first, second] = vectors {
                add(&mut even, first);
                add(&mut odd, second);
            }
        }
        let (vectors, rest) = rest.as_chunks::<32>();
        for vector in vectors {
            add(&mut even, vector);
        }
        let all = _mm256_add_epi64(even.0, odd.0);
        let high = _mm256_add_epi64(even.1, odd.1);
        let low = _mm256_sub_epi64(all, _mm256_slli_epi64::<32>(high));
        // SAFETY: a vector and an array of the same 32 bytes; every bit pattern is a valid number.
        let lanes = unsafe { core::mem::transmute::<__m256i, [u64; 4]>(_mm256_add_epi64(low, high)) };
        // The lanes are sums of 32-bit halves: adding them cannot overflow for any slice. The rest
        // is summed as whole words, so it is added with carry.
        scalar::add_carry(lanes.into_iter().sum::<u64>(), scalar::short(rest))
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    fn sum_avx512(bytes: &[u8]) -> u64 {
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn add(sums: &mut (__m512i, __m512i), word: __m512i) {
            sums.0 = _mm512_add_epi64(sums.0, word);
            sums.1 = _mm512_add_epi64(sums.1, _mm512_srli_epi64::<32>(word));
        }
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn load(bytes: &[u8; 64]) -> __m512i {
            // SAFETY: an unaligned load of the 64 bytes that the reference covers.
            unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
        }
        let zero = (_mm512_setzero_si512(), _mm512_setzero_si512());
        let (mut even, mut odd) = (zero, zero);
        let (pairs, rest) = bytes.as_chunks::<128>();
        for pair in pairs {
            let (vectors, _) = pair.as_chunks::<64>();
            if let [first, second] = vectors {
                add(&mut even, load(first));
                add(&mut odd, load(second));
            }
        }
        let (vectors, rest) = rest.as_chunks::<64>();
        for vector in vectors {
            add(&mut even, load(vector));
        }
        let mask = !(u64::MAX << rest.len());
        // SAFETY: `rest` has fewer than 64 bytes and the mask has a bit for each of them: no other
        // byte is read.
        add(&mut odd, unsafe { _mm512_maskz_loadu_epi8(mask, rest.as_ptr().cast()) });
        let all = _mm512_add_epi64(even.0, odd.0);
        let high = _mm512_add_epi64(even.1, odd.1);
        let low = _mm512_sub_epi64(all, _mm512_slli_epi64::<32>(high));
        // `low` and `high` are sums of 32-bit halves: adding all sixteen lanes cannot overflow for
        // any slice.
        _mm512_reduce_add_epi64(_mm512_add_epi64(low, high)) as u64
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{avx2, avx512, has_avx2, has_avx512};

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::scalar;
    use core::arch::aarch64::*;

    #[inline(always)]
    pub(in crate::checksum) fn has_neon() -> bool {
        cfg!(target_feature = "neon")
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(in crate::checksum) fn neon(bytes: &[u8]) -> u64 {
        if !has_neon() {
            return scalar::word64(bytes);
        }
        // SAFETY: NEON is present, checked one line above.
        unsafe { sum_neon(bytes) }
    }

    /// Sums with "pairwise add and accumulate long", which widens and adds a vector in one
    /// instruction.
    #[target_feature(enable = "neon")]
    fn sum_neon(bytes: &[u8]) -> u64 {
        let (mut even, mut odd) = (vdupq_n_u64(0), vdupq_n_u64(0));
        let (pairs, rest) = bytes.as_chunks::<32>();
        for pair in pairs {
            // SAFETY: two unaligned loads of the 32 bytes that the reference covers.
            let (first, second) = unsafe { (vld1q_u8(pair.as_ptr()), vld1q_u8(pair.as_ptr().add(16))) };
            even = vpadalq_u32(even, vreinterpretq_u32_u8(first));
            odd = vpadalq_u32(odd, vreinterpretq_u32_u8(second));
        }
        scalar::add_carry(vaddvq_u64(vaddq_u64(even, odd)), scalar::short(rest))
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) use arm::{has_neon, neon};
