//! The context of a listener's calls.

use crate::{Config, SeqNum, counters};
use clock::Instant;

/// Arguments common to all calls.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The stack's configuration.
    pub config: &'a Config,
    /// This thread's counters.
    pub counts: &'a counters::Listen,
    /// The time.
    pub now: Instant,
    /// Last sequence number of the incarnation in TIME-WAIT that the SYN replaces
    /// ([`crate::time_wait::Late::Reusable`]); the new ISN is above it, which a cookie cannot ensure.
    pub above: Option<SeqNum>,
}
