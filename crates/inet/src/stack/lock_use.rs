//! Use of locks.

/// Use of the locks of one part of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockUse {
    /// Name of the part.
    pub part: &'static str,
    /// Number of its locks.
    pub locks: usize,
    /// Number of acquisitions, of all of them.
    pub acquisitions: u64,
}
