//! Infrequent events that the TCP core detects and the host counts. The core records them in a set,
//! which the host takes after each call.
//!
//! The set is a bit mask, so that a connection without such events costs one comparison with zero
//! per segment.

use crate::counters::Counters;
use core::ops::{BitOr, BitOrAssign};
use stats::Counter;

/// Set of infrequent events that occurred since the set was last taken. It does not count how often
/// an event occurred: the host takes the set after every segment, timer and output call, so that an
/// event rarely occurs twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RareEvents(u32);

macro_rules! rare_events {
    ($($name:ident = $bit:literal: $group:ident.$field:ident,)+) => {
        impl RareEvents {
            $(pub(crate) const $name: RareEvents = RareEvents(1 << $bit);)+

            /// Adds one to the counter of each event in the set.
            #[cold]
            pub fn count(self, counts: &Counters) {
                let each: &[(RareEvents, &Counter)] = &[$((RareEvents::$name, &counts.$group.$field),)+];
                for (note, counter) in each {
                    counter.add(u64::from(self.contains(*note)));
                }
            }
        }
    };
}

rare_events! {
    DUPLICATE_ACK = 0: input.duplicate_acks,
    WINDOW_UPDATE = 1: input.window_updates,
    DSACK = 2: input.dsacks,
    DSACK_OLD = 3: input.dsacks_old,
    SACK_INVALID = 4: input.sacks_invalid,
    INVALID_LIMITED = 5: output.invalid_limited,
    WINDOW_OPENED = 6: output.window_opened,
    WINDOW_CLOSED = 7: output.window_closed,
    LOSS_PROBE = 8: timers.loss_probes,
    LOSS_PROBE_RECOVERY = 9: timers.loss_probe_recoveries,
    REORDER_TIMEOUT = 10: timers.rack,
    SACK_EPISODE = 11: recovery.sack_episodes,
    RENO_EPISODE = 12: recovery.reno_episodes,
    REXMIT_LOST = 13: recovery.rexmits_lost,
    SCOREBOARD_FULL = 14: recovery.scoreboard_overflows,
    RENEGED = 15: recovery.reneged,
    REORDERED = 16: recovery.reordered,
    SPURIOUS_RTO = 17: recovery.spurious_rtos,
    UNDONE_BY_TIMESTAMP = 18: recovery.undone_by_timestamp,
    UNDONE_BY_DSACK = 19: recovery.undone_by_dsack,
    HYSTART_EXIT = 20: recovery.hystart_exits,
    IDLE_RESTART = 21: recovery.idle_restarts,
    ECN_HANDSHAKE = 22: ecn.handshakes,
    ECN_REDUCTION = 23: ecn.reductions,
    MTU_RESEND = 24: pmtu.resends,
    BLACK_HOLE = 25: pmtu.black_holes,
    MTU_LOWERED = 26: pmtu.lowered,
    MTU_PROBE_ACKED = 27: pmtu.probes_acked,
    MTU_PROBE_LOST = 28: pmtu.probes_lost,
    ICMP_REFUSED = 29: pmtu.icmp_refused,
}

impl RareEvents {
    /// Returns whether the set contains no event.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether all of `other` are in the set.
    #[inline]
    pub(crate) const fn contains(self, other: RareEvents) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for RareEvents {
    type Output = RareEvents;
    #[inline]
    fn bitor(self, other: RareEvents) -> RareEvents {
        RareEvents(self.0 | other.0)
    }
}

impl BitOrAssign for RareEvents {
    #[inline]
    fn bitor_assign(&mut self, other: RareEvents) {
        self.0 |= other.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::Described;

    #[test]
    fn each_event_increments_its_own_counter() {
        for bit in 0..30 {
            let counts = Counters::default();
            RareEvents(1 << bit).count(&counts);
            let mut sum = 0;
            counts.visit(&mut |_, _, _, value| sum += value);
            assert_eq!(sum, 1, "bit {bit}");
        }
        let counts = Counters::default();
        RareEvents((1 << 30) - 1).count(&counts);
        let mut moved = 0;
        counts.visit(&mut |_, _, _, value| moved += u32::from(value == 1));
        assert_eq!(moved, 30);
    }
}
