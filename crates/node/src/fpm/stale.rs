//! Ended connections of a routing engine: when their routes are removed, and the sweeps that remove
//! them.

use clock::Instant;
use inet::fib::{Prefix, Prefix6};
use inet::route::Routes;

/// Number of routes that one step of a sweep looks at.
const SWEPT_AT_ONCE: usize = 64;

/// Ended connections whose routes may still be in the tables.
#[derive(Debug, Default)]
pub(super) struct Stale {
    /// Connections by number, with the times at which their routes are removed.
    ended: Vec<(u8, Instant)>,
    sweep: Option<Sweep>,
}

/// Removal of the routes of one connection.
#[derive(Clone, Copy, Debug, Default)]
struct Sweep {
    generation: u8,
    after: Option<Prefix>,
    after6: Option<Prefix6>,
    is_done: [bool; 2],
}

impl Stale {
    /// Adds connection `generation`, whose routes are removed at `at`.
    pub(super) fn end(&mut self, generation: u8, at: Instant) {
        self.ended.push((generation, at));
    }

    /// Lets the routes of all connections be removed at `now`.
    pub(super) fn end_all(&mut self, now: Instant) {
        self.ended.iter_mut().for_each(|(_, at)| *at = now);
    }

    /// Returns whether routes of connection `generation` may be left.
    pub(super) fn has(&self, generation: u8) -> bool {
        let is_swept = self.sweep.is_some_and(|sweep| sweep.generation == generation);
        is_swept || self.ended.iter().any(|(ended, _)| *ended == generation)
    }

    /// Returns whether no ended connection is left.
    pub(super) fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.sweep.is_none()
    }

    /// Returns the time of the next step of a sweep.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.sweep.is_some() { Some(Instant::ZERO) } else { self.ended.iter().map(|(_, at)| *at).min() }
    }

    /// Continues the sweep, or begins that of the connection whose time is over first. Returns the
    /// number of removed routes.
    pub(super) fn sweep(&mut self, v4: &mut Routes, v6: &mut Routes<u128>) -> usize {
        let Some(mut sweep) = self.sweep.take().or_else(|| self.next()) else { return 0 };
        let [is_done, is_done6] = &mut sweep.is_done;
        let mut removed = 0;
        if !*is_done {
            (removed, sweep.after) = v4.sweep(sweep.generation, sweep.after, SWEPT_AT_ONCE);
            *is_done = sweep.after.is_none();
        } else if !*is_done6 {
            (removed, sweep.after6) = v6.sweep(sweep.generation, sweep.after6, SWEPT_AT_ONCE);
            *is_done6 = sweep.after6.is_none();
        }
        if sweep.is_done != [true; 2] {
            self.sweep = Some(sweep);
        } else if v4.learned_by(sweep.generation) + v6.learned_by(sweep.generation) > 0 {
            // An own route that was added meanwhile can hide a route that the sweep has not
            // reached.
            self.sweep = Some(Sweep { generation: sweep.generation, ..Sweep::default() });
        }
        removed
    }

    fn next(&mut self) -> Option<Sweep> {
        let (first, _) = self.ended.iter().enumerate().min_by_key(|(_, (_, at))| *at)?;
        let (generation, _) = self.ended.remove(first);
        Some(Sweep { generation, ..Sweep::default() })
    }
}
