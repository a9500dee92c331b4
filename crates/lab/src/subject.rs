//! Subjects of a measurement, which do the same work at every trial, and the readings of a trial.
//!
//! [`measure`] reads the tick counter directly before and after the work, so `ticks` is the work
//! alone, less the timer's own cost. `wall_ns` and `cpu_ns` include a few hundred nanoseconds of
//! clock readings. They serve to detect disturbed trials, not to measure the work. Pass results to
//! [`std::hint::black_box`] inside the closure, or the compiler may move work out of it.

use serde::{Deserialize, Serialize};

use crate::{os, timer, tsc};

/// A subject that can be measured repeatedly.
pub trait Subject {
    /// Returns the name of the subject in results: `<area>.<what>`, no spaces.
    fn id(&self) -> &str;

    /// Runs one trial, which performs the work once, and returns its reading.
    ///
    /// # Errors
    /// The work failed; the runner then repeats the round.
    fn trial(&mut self) -> anyhow::Result<Reading>;
}

impl<T: Subject + ?Sized> Subject for Box<T> {
    fn id(&self) -> &str {
        (**self).id()
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        (**self).trial()
    }
}

/// Readings of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Number of operations in the trial, such as frames, calls or bytes.
    pub ops: u64,
    /// TSC ticks of the measured region, less the timer's cost.
    pub ticks: u64,
    /// Wall-clock time in nanoseconds (CLOCK_MONOTONIC).
    pub wall_ns: u64,
    /// Processor time of this thread in nanoseconds (CLOCK_THREAD_CPUTIME_ID).
    pub cpu_ns: u64,
}

impl Reading {
    /// Returns the ticks per operation; NaN without operations.
    pub fn ticks_per_op(&self) -> f64 {
        if self.ops == 0 { f64::NAN } else { self.ticks as f64 / self.ops as f64 }
    }

    /// Returns the operations per second of wall-clock time.
    pub fn ops_per_second(&self) -> f64 {
        self.ops as f64 * 1e9 / self.wall_ns.max(1) as f64
    }
}

/// Runs `work`, which does `ops` operations, and returns the readings of the clocks.
pub fn measure<T>(ops: u64, work: impl FnOnce() -> T) -> Reading {
    let timer_cost = timer::cost();
    let cpu = os::thread_cpu_ns();
    let wall = os::monotonic_ns();
    let start = tsc::now();
    let done = work();
    let end = tsc::now();
    let wall_ns = os::monotonic_ns() - wall;
    let cpu_ns = os::thread_cpu_ns() - cpu;
    std::hint::black_box(done);
    Reading { ops, ticks: end.saturating_sub(start).saturating_sub(timer_cost), wall_ns, cpu_ns }
}

/// Returns a subject that runs a closure as its trial.
pub fn from_fn<F>(id: impl Into<String>, trial: F) -> Box<dyn Subject>
where
    F: FnMut() -> anyhow::Result<Reading> + 'static,
{
    Box::new(FromFn { id: id.into(), trial })
}

struct FromFn<F> {
    id: String,
    trial: F,
}

impl<F: FnMut() -> anyhow::Result<Reading>> Subject for FromFn<F> {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        (self.trial)()
    }
}

#[cfg(test)]
mod tests;
