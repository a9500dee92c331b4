//! Use of locks.

/// How often the locks of one part were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockUse {
    /// Which part.
    pub part: &'static str,
    /// How many locks it has.
    pub locks: usize,
    /// How often they were taken, together.
    pub acquisitions: u64,
}
