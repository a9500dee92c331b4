//! Hints to the compiler.

/// Marks the path on which it is called as unlikely, like `std::hint::cold_path` of Rust 1.95. The
/// compiler gives a branch that calls a cold function a low weight, before it inlines the call.
#[cold]
#[inline(always)]
pub fn cold_path() {}
