//! An idle switch: the processor time that it uses, and the delay of a frame that arrives while it
//! is idle.

use super::ends::Ends;
use crate::os;
use anyhow::{Context, anyhow, ensure};
use node::switch::Switch;
use node::switch::run::Until;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Time allowed for the switch to go to sleep after its start.
const SETTLE: Duration = Duration::from_millis(100);
/// Timeout of one frame, in nanoseconds.
const PATIENCE: u64 = 500_000_000;

/// Runs the switch on processor `core` while `work` runs on another processor, if there is one.
fn beside<R>(switch: &Switch, core: usize, work: impl FnOnce() -> anyhow::Result<R>) -> anyhow::Result<R> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let lane = dispatch::spawn_scoped(scope, "switch", || {
            dispatch::pin_to_core(core)?;
            switch.run(None, Until::Stopped, || stop.load(Ordering::Relaxed))
        })?;
        let done = elsewhere(core).and_then(|_pinned| {
            thread::sleep(SETTLE);
            work()
        });
        stop.store(true, Ordering::Relaxed);
        lane.join().map_err(|_| anyhow!("the switch's thread panicked"))?.context("the switch failed")?;
        done
    })
}

fn elsewhere(core: usize) -> anyhow::Result<Option<dispatch::Pinned>> {
    dispatch::other_core(core).map(dispatch::pinned_to_core).transpose().context("cannot pin to another core")
}

/// Returns the processor nanoseconds that this process uses in each of `windows` windows of `ms`
/// milliseconds.
pub fn share(switch: &Switch, windows: u64, ms: u64, core: usize) -> anyhow::Result<Vec<u64>> {
    ensure!(windows > 0, "number of windows: must be at least 1");
    beside(switch, core, || {
        let window = |_| {
            let before = os::process_cpu_ns();
            thread::sleep(Duration::from_millis(ms));
            os::process_cpu_ns() - before
        };
        Ok((0..windows).map(window).collect())
    })
}

/// Returns the delay in nanoseconds of each of `frames` frames, sent one every `pause`
/// microseconds.
pub fn wake(switch: &Switch, ends: &mut Ends, frames: u64, pause: u64, core: usize) -> anyhow::Result<Vec<u64>> {
    ensure!(frames > 0, "number of frames: must be at least 1");
    beside(switch, core, || {
        while ends.take()?.is_some() {}
        let mut one = |number| {
            thread::sleep(Duration::from_micros(pause));
            delay(ends, number)
        };
        (0..frames).map(&mut one).collect()
    })
}

fn delay(ends: &mut Ends, number: u64) -> anyhow::Result<u64> {
    let start = os::monotonic_ns();
    ends.put(number)?;
    loop {
        let came = ends.take()?;
        let waited = os::monotonic_ns() - start;
        if came == Some(number) {
            return Ok(waited);
        }
        ensure!(waited < PATIENCE, "frame {number} did not arrive");
        if dispatch::cores() < 2 {
            thread::yield_now();
        }
    }
}
