//! Hints to the compiler. `stats` has the same function, but this crate has no dependencies.

/// Marks the path on which it is called as unlikely, like `core::hint::cold_path` of Rust 1.95. The
/// compiler gives a branch that calls a cold function a low weight, before it inlines the call.
#[cold]
#[inline(always)]
pub(crate) fn cold_path() {}
