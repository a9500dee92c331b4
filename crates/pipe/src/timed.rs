//! Runs a pipeline in which some stage queues frames or reports at certain times, even while no
//! input arrives.
//!
//! ```text
//! source (a thread that may block) -> a few batches -> stages, with the time -> sink
//! ```

use crate::Frames;
use crate::run::{RunError, Sink, Source, finish};
use crate::stage::{Chain, Stage};
use clock::{Clock, Duration, Instant};
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;

/// Maximum time between two checks for a request to stop.
const NAP: Duration = Duration::from_millis(50);
/// Time before an event during which the thread does not sleep, because a sleep may end late by
/// about this time.
const AWAKE: Duration = Duration::from_micros(100);
/// Maximum number of batches that are read before the stages process them.
const AHEAD: usize = 4;

/// A source running in its own thread.
struct Reader<S> {
    batches: Receiver<Frames>,
    spare: mpsc::Sender<Frames>,
    thread: JoinHandle<(S, Result<(), RunError>)>,
}

impl<S: Source + Send + 'static> Reader<S> {
    fn start(mut source: S) -> io::Result<Reader<S>> {
        let (give, batches) = mpsc::sync_channel(AHEAD);
        let (spare, emptied) = mpsc::channel::<Frames>();
        let thread = dispatch::spawn_worker("pipe-in", None, move |_| {
            loop {
                let mut frames = emptied.try_recv().unwrap_or_default();
                match source.read(&mut frames) {
                    Ok(true) if give.send(frames).is_ok() => {}
                    Ok(_) => return (source, Ok(())),
                    Err(why) => return (source, Err(why)),
                }
            }
        })?;
        Ok(Reader { batches, spare, thread })
    }

    /// Ends the thread and returns the source. Returns `None` if the source is blocked in a read,
    /// because it cannot be stopped then.
    fn end(self) -> Option<(S, Result<(), RunError>)> {
        // Closing the channels stops a source that has more frames.
        drop((self.batches, self.spare));
        for _ in 0..200 {
            if self.thread.is_finished() {
                return self.thread.join().ok();
            }
            if sleep(Duration::from_millis(1)).is_err() {
                break;
            }
        }
        None
    }
}

/// Moves frames as [`run`](crate::run::run) does, but sets the time of the stages that depend on it
/// ([`Timed`](crate::stage::Timed)). When the source ends, frames that are queued in stages are
/// still written at their due times. When `stop` returns true, they are not written. Also returns
/// the source, unless it is still blocked in a read.
///
/// # Errors
/// The errors of `run`.
pub fn run_timed<S: Source + Send + 'static>(
    source: S,
    stages: &mut Chain,
    sink: &mut dyn Sink,
    clock: &Clock,
    stop: impl Fn() -> bool,
) -> (Result<(), RunError>, Option<S>) {
    let reader = match Reader::start(source) {
        Ok(reader) => reader,
        Err(why) => return (Err(why.into()), None),
    };
    let moved = pump(&reader, stages, sink, clock, &stop).and_then(|()| finish(stages, sink));
    match reader.end() {
        Some((source, read)) => (moved.and(read), Some(source)),
        None => (moved, None),
    }
}

fn pump<S: Source + Send + 'static>(
    reader: &Reader<S>,
    stages: &mut Chain,
    sink: &mut dyn Sink,
    clock: &Clock,
    stop: &impl Fn() -> bool,
) -> Result<(), RunError> {
    let (mut over, mut nothing) = (false, Frames::new());
    while !stop() {
        if over && stages.timed().all(|stage| stage.held() == 0) {
            break;
        }
        let next = stages.timed().filter_map(|stage| stage.next_event()).min();
        let waits = over || stages.timed().any(|stage| stage.is_full());
        let left = next.map_or(NAP, |at| at.since(clock.now()).saturating_sub(AWAKE).min(NAP));
        let came = if waits { sleep(left)? } else { reader.batches.recv_timeout(left) };
        let now = clock.now();
        match came {
            Ok(mut frames) => {
                step(stages, sink, &mut frames, now)?;
                // Sending fails if the reader has ended. It no longer needs the buffer then.
                let _ = reader.spare.send(frames);
            }
            Err(RecvTimeoutError::Timeout) if next.is_some_and(|at| at <= now) => {
                step(stages, sink, &mut nothing, now)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => over = true,
        }
    }
    Ok(())
}

/// Sleeps for `long` and returns a timeout error, as a receive operation would.
fn sleep(long: Duration) -> io::Result<Result<Frames, RecvTimeoutError>> {
    if !long.is_zero() {
        dispatch::wait_readable(&[], Some(long))?;
    }
    Ok(Err(RecvTimeoutError::Timeout))
}

fn step(stages: &mut Chain, sink: &mut dyn Sink, frames: &mut Frames, now: Instant) -> Result<(), RunError> {
    stages.timed().for_each(|stage| stage.at(now));
    stages.run(frames)?;
    if !frames.is_empty() {
        sink.write(frames)?;
    }
    frames.clear();
    Ok(())
}

#[cfg(test)]
mod tests;
