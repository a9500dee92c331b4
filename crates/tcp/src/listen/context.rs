//! Context of a listener's calls.

use crate::{Config, SeqNum, counters};
use clock::Instant;

/// Arguments common to all calls of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The stack's configuration.
    pub config: &'a Config,
    /// This thread's counters.
    pub counts: &'a counters::Listen,
    /// Current time.
    pub now: Instant,
    /// Last sequence number of the connection in TIME-WAIT that the SYN replaces
    /// ([`crate::time_wait::TimeWaitAction::Reusable`]). The new ISN must be above it, which a
    /// cookie cannot ensure.
    pub above: Option<SeqNum>,
}
