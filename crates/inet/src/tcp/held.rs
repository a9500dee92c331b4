//! The SYN of a request that waits for a decision of the application.

use ::tcp::{Segment, SeqNum};

/// The SYN of a request, without its frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldSyn {
    pub(super) segment: Segment,
    /// Sequence number that the ISN of the new connection must exceed; `None` unless an old
    /// connection between the same addresses was in TIME-WAIT.
    pub(super) above: Option<SeqNum>,
}
