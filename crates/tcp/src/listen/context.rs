//! The context of a listener's calls.

use crate::{Config, SeqNum, counters};
use clock::Instant;

/// What all calls are given.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The stack's configuration.
    pub config: &'a Config,
    /// This thread's counters.
    pub counts: &'a counters::Listen,
    /// The time.
    pub now: Instant,
    /// Where an incarnation in TIME-WAIT ended whose ends a SYN wants ([`crate::time_wait::Late::Reusable`]): our ISN comes
    /// after it, which a cookie could not see to.
    pub above: Option<SeqNum>,
}
