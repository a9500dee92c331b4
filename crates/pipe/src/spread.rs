//! Work spread over threads, its results in the order in which it came.
//!
//! ```text
//! source (the caller's thread) -> work -> worker 0..n -> results -> sink (a thread), in order
//! ```
//!
//! At most three pieces for each worker are under way, so a slow sink stops the source, and what waits for its turn is bounded.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

/// Whose turn it is, for work that must be done in order though others do it.
#[derive(Debug, Default)]
pub struct Turns {
    next: Mutex<u64>,
    changed: Condvar,
}

/// Locks what nobody panics while holding; and if somebody did, what is inside is still whole.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turns {
    /// Does `work` when all pieces in front of piece `number` have done theirs. Each piece must come, once.
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

/// Takes pieces from `source` until it has no more, lets `jobs` workers work on them, and gives the results to `sink`: in the pieces' order
/// if `ordered`, as they come otherwise.
///
/// # Errors
/// The first error of the source, of a worker or of the sink; what is under way then is not waited for by the sink.
pub fn spread<P: Send, R: Send, E: Send + From<io::Error>, W>(
    jobs: usize,
    ordered: bool,
    mut source: impl FnMut() -> Result<Option<P>, E>,
    worker: impl Fn() -> W + Sync,
    mut sink: impl FnMut(R) -> Result<(), E> + Send,
) -> Result<(), E>
where
    W: FnMut(u64, P) -> Result<R, E>,
{
    let jobs = jobs.max(1);
    let over = AtomicBool::new(false);
    let (give, take) = mpsc::sync_channel::<(u64, P)>(jobs);
    let (done, results) = mpsc::sync_channel::<(u64, Result<R, E>)>(jobs);
    let take = Mutex::new(take);
    let (worker, take, over) = (&worker, &take, &over);
    thread::scope(|scope| {
        for number in 0..jobs {
            let done = done.clone();
            dispatch::spawn_scoped(scope, &format!("pipe{number}"), move || {
                let mut work = worker();
                loop {
                    let piece = lock(take).recv();
                    let Ok((number, piece)) = piece else { return };
                    // Also when all is over: a piece that does not come would be waited for.
                    let result = work(number, piece);
                    if done.send((number, result)).is_err() {
                        over.store(true, Relaxed);
                    }
                }
            })?;
        }
        drop(done);
        let last = dispatch::spawn_scoped(scope, "pipe-out", move || {
            let mut early: BTreeMap<u64, Result<R, E>> = BTreeMap::new();
            let mut next = 0;
            for (number, result) in results {
                early.insert(number, result);
                while let Some(result) = early.remove(&next).or_else(|| match ordered {
                    true => None,
                    false => early.pop_first().map(|(_, result)| result),
                }) {
                    next += 1;
                    if let Err(why) = result.and_then(&mut sink) {
                        over.store(true, Relaxed);
                        return Err(why);
                    }
                }
            }
            Ok(())
        })?;
        let mut number = 0;
        let mut fed = Ok(());
        while !over.load(Relaxed) {
            match source() {
                Ok(Some(piece)) => {
                    if give.send((number, piece)).is_err() {
                        break;
                    }
                    number += 1;
                }
                Ok(None) => break,
                Err(why) => {
                    fed = Err(why);
                    break;
                }
            }
        }
        drop(give);
        match last.join() {
            Ok(sunk) => sunk.and(fed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
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
                    // Later pieces are quicker.
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
    fn results_are_in_order_whoever_was_first() {
        for jobs in [1, 2, 5] {
            assert_eq!(counted(jobs, true, 70, 0).unwrap(), (0..70).collect::<Vec<_>>());
            let mut any = counted(jobs, false, 70, 0).unwrap();
            any.sort_unstable();
            assert_eq!(any, (0..70).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_error_ends_it() {
        assert_eq!(counted(3, true, 1 << 40, 0).unwrap_err().to_string(), "77");
        assert_eq!(counted(3, true, 1 << 40, 10).unwrap_err().to_string(), "full");
    }
}
