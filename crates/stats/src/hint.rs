//! Hints to the compiler.

/// Marks the path on which it is called as unlikely, like `std::hint::cold_path` of Rust 1.95. The
/// compiler weights branches by their calls of cold functions before it inlines them.
#[cold]
#[inline(always)]
pub fn cold_path() {}
