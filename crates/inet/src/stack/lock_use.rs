//! Lock statistics.

/// Lock statistics of one part of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockUse {
    /// Name of the part.
    pub part: &'static str,
    /// Number of locks.
    pub locks: usize,
    /// Number of acquisitions of all locks.
    pub acquisitions: u64,
}
