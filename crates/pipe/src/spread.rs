//! Processes pieces of input with several threads and keeps the results in order.
//!
//! ```text
//! worker 0..n:  source (one at a time) -> work -> all results that are next in order -> sink
//! ```
//!
//! There are no dedicated threads for source and sink. Any idle worker reads, and the worker with
//! the piece that is next in order writes. With dedicated threads, a piece of 256 KiB cost five
//! context switches, and two cores needed 1.75 times as long as one. A worker blocks when it is
//! more than three pieces per worker ahead. A slow sink therefore stops the source, and the number
//! of waiting results is bounded.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Lets several threads, each with a piece, run a function one after the other in the order of the
/// pieces.
#[derive(Debug, Default)]
pub struct Turns {
    next: Mutex<u64>,
    changed: Condvar,
}

/// Locks a mutex and ignores poisoning. The data stays consistent because nothing panics while the
/// lock is held.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turns {
    /// Waits until this method has been called for all pieces before `number`, then runs `work`.
    /// The caller must call it exactly once for each piece.
    pub fn in_turn<R>(&self, number: u64, work: impl FnOnce() -> R) -> R {
        let mut next = lock(&self.next);
        while *next != number {
            next = self.changed.wait(next).unwrap_or_else(PoisonError::into_inner);
        }
        drop(next);
        let result = work();
        *lock(&self.next) = number + 1;
        self.changed.notify_all();
        result
    }
}

/// Reads pieces from `source` until it returns `None`, processes them with `jobs` threads, and
/// passes the results to `sink`. If `ordered`, the results are in the order of the pieces,
/// otherwise in the order in which they complete. `worker` is called once per thread and returns
/// the function that processes a piece.
///
/// # Errors
/// The first error of `source`, of a worker or of `sink`. Results that are still being computed at
/// that time are discarded.
pub fn spread<P: Send, R: Send, E: Send + From<io::Error>, W>(
    jobs: usize,
    ordered: bool,
    source: impl FnMut() -> Result<Option<P>, E> + Send,
    worker: impl Fn() -> W + Sync,
    sink: impl FnMut(R) -> Result<(), E> + Send,
) -> Result<(), E>
where
    W: FnMut(u64, P) -> Result<R, E>,
{
    let jobs = jobs.max(1);
    let feed = Mutex::new(Feed { source, next: 0, over: false });
    let line = Line {
        most: 3 * jobs as u64,
        ordered,
        state: Mutex::new(Ready { early: BTreeMap::new(), next: 0, writing: false, failed: None }),
        changed: Condvar::new(),
        over: AtomicBool::new(false),
        sink: Mutex::new(sink),
    };
    let run = || {
        let mut work = worker();
        while let Some((number, piece)) = Feed::take(&feed, &line.over) {
            // An error is passed on like a result, because other workers would otherwise wait for
            // the missing piece.
            line.put(number, piece.and_then(|piece| work(number, piece)));
        }
    };
    thread::scope(|scope| -> io::Result<()> {
        for number in 1..jobs {
            if let Err(why) = dispatch::spawn_scoped(scope, &format!("pipe{number}"), run) {
                line.over.store(true, Relaxed);
                return Err(why);
            }
        }
        run();
        Ok(())
    })?;
    let ready = line.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    ready.failed.map_or(Ok(()), Err)
}

/// The source, and the number of pieces read from it.
struct Feed<S> {
    source: S,
    next: u64,
    over: bool,
}

/// Number of a piece, and the piece or the error of reading it.
type Numbered<P, E> = (u64, Result<P, E>);

impl<S> Feed<S> {
    fn take<P, E>(feed: &Mutex<Feed<S>>, over: &AtomicBool) -> Option<Numbered<P, E>>
    where
        S: FnMut() -> Result<Option<P>, E>,
    {
        let mut feed = lock(feed);
        if feed.over || over.load(Relaxed) {
            return None;
        }
        let piece = (feed.source)().transpose();
        feed.over = !matches!(piece, Some(Ok(_)));
        let number = feed.next;
        feed.next += 1;
        Some((number, piece?))
    }
}

/// Results waiting for the sink.
struct Line<R, E, S> {
    /// Maximum number of pieces by which a worker may be ahead of the next piece to write.
    most: u64,
    ordered: bool,
    state: Mutex<Ready<R, E>>,
    changed: Condvar,
    over: AtomicBool,
    sink: Mutex<S>,
}

struct Ready<R, E> {
    early: BTreeMap<u64, Result<R, E>>,
    next: u64,
    /// True while a worker is writing. This worker also writes the results that other workers add
    /// in the meantime.
    writing: bool,
    failed: Option<E>,
}

impl<R, E, S: FnMut(R) -> Result<(), E>> Line<R, E, S> {
    /// Adds the result of piece `number`. Unless another worker is writing, writes all results that
    /// are next in order.
    fn put(&self, number: u64, result: Result<R, E>) {
        let mut ready = lock(&self.state);
        while number >= ready.next + self.most && !self.over.load(Relaxed) {
            ready = self.changed.wait(ready).unwrap_or_else(PoisonError::into_inner);
        }
        ready.early.insert(number, result);
        if ready.writing {
            return;
        }
        while !self.over.load(Relaxed) {
            let next = ready.next;
            let result = match self.ordered {
                true => ready.early.remove(&next),
                false => ready.early.pop_first().map(|(_, result)| result),
            };
            let Some(result) = result else { break };
            ready.writing = true;
            drop(ready);
            let written = result.and_then(|result| lock(&self.sink)(result));
            ready = lock(&self.state);
            ready.writing = false;
            ready.next += 1;
            if let Err(why) = written {
                ready.failed = Some(why);
                self.over.store(true, Relaxed);
            }
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(jobs: usize, ordered: bool, pieces: u64, full: u64) -> Result<Vec<u64>, io::Error> {
        let mut next = 0;
        let mut got = Vec::new();
        let turns = Turns::default();
        let inside = Mutex::new(Vec::new());
        spread(
            jobs,
            ordered,
            || {
                next += 1;
                Ok((next <= pieces).then_some(next - 1))
            },
            || {
                |number, piece: u64| {
                    assert_eq!(number, piece);
                    // Processing later pieces takes less time.
                    thread::sleep(std::time::Duration::from_micros(200 / (1 + piece % 5)));
                    turns.in_turn(number, || inside.lock().unwrap().push(number));
                    if piece == 77 { Err(io::Error::other("77")) } else { Ok(piece) }
                }
            },
            |result| {
                got.push(result);
                if got.len() as u64 == full { Err(io::Error::other("full")) } else { Ok(()) }
            },
        )?;
        assert!(inside.into_inner().unwrap().is_sorted());
        Ok(got)
    }

    #[test]
    fn results_are_written_in_order() {
        for jobs in [1, 2, 5] {
            assert_eq!(counted(jobs, true, 70, 0).unwrap(), (0..70).collect::<Vec<_>>());
            let mut any = counted(jobs, false, 70, 0).unwrap();
            any.sort_unstable();
            assert_eq!(any, (0..70).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_error_ends_the_run() {
        assert_eq!(counted(3, true, 1 << 40, 0).unwrap_err().to_string(), "77");
        assert_eq!(counted(3, true, 1 << 40, 10).unwrap_err().to_string(), "full");
    }
}
