//! Conversion of text lines with vector instructions. Within the text module only this file and its
//! submodules may use `unsafe`: for loads and stores whose bounds are checked next to them, and for
//! calls of functions that need CPU features, after the features were checked.
#![allow(unsafe_code, reason = "vector loads and target features; each block states why it is sound")]

pub(super) mod avx2;
pub(super) mod avx512;
pub(super) mod sse2;

#[inline(always)]
pub(super) fn has_avx2() -> bool {
    crate::cpu::has_features!("avx2")
}

#[inline(always)]
pub(super) fn has_vbmi() -> bool {
    crate::cpu::has_features!("avx512vbmi", "avx512bw")
}
