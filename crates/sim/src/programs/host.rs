//! Turns of the programs of one host, and the virtual time that they take.

use clock::{Duration, Instant};
use lock::Up;
use node::Host;
use node::run::Running;

/// Virtual time that one turn of a program takes. If a turn took no time, a stream over a link of
/// unlimited rate would prevent the virtual time from advancing.
pub const TURN: Duration = Duration::from_micros(10);

/// The programs of one host.
pub(crate) struct HostPrograms<'w> {
    running: Running<'w>,
    /// Earliest time of the next turn.
    free_at: Instant,
}

impl<'w> HostPrograms<'w> {
    pub(super) fn new(running: Running<'w>) -> HostPrograms<'w> {
        HostPrograms { running, free_at: Instant::ZERO }
    }

    /// Runs the programs on `host` once, unless the virtual time of their last turn has not passed
    /// yet. Returns the amount of work done.
    pub(crate) fn turn(&mut self, host: &Host<Up>, now: Instant) -> usize {
        if now < self.free_at {
            return 0;
        }
        let done = self.running.turn(host);
        if done > 0 {
            self.free_at = now.after(TURN);
        }
        done
    }

    /// Returns the time of the next turn, assuming that no packets arrive.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let busy = Some(self.free_at).filter(|free_at| *free_at > now);
        let timer = self.running.next_timer().map(|timer| timer.max(self.free_at));
        busy.into_iter().chain(timer).min()
    }

    /// Ends the programs.
    pub(super) fn end(&mut self) {
        self.running.end();
    }
}
