//! Communication between switch threads: requests for a thread's lock, wake-ups, and frames for a
//! port of another thread. [`super::sync`] exchanges learned addresses.

use super::lock_requests::LockRequests;
use buf::ring::{Consumer, Producer, ring};
use buf::{Burst, Frame};
#[cfg(loom)]
use loom::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};
use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, PoisonError};
#[cfg(not(loom))]
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// Maximum number of frames queued for a port of another thread.
const FRAMES: usize = 1024;

/// Wake-up handle of a switch thread, used to request its lock, or after frames were queued for it.
#[derive(Debug, Clone)]
pub struct Call(Arc<Rings>);

/// Pipe through which a byte wakes the thread.
#[derive(Debug)]
struct Rings {
    lock_requests: LockRequests,
    reader: PipeReader,
    writer: PipeWriter,
}

impl Rings {
    fn ring(&self) {
        // Writing fails only if the reading end is closed.
        let _ = (&self.writer).write(&[0]);
    }
}

impl Call {
    pub fn new() -> io::Result<Call> {
        let (reader, writer) = io::pipe()?;
        Ok(Call(Arc::new(Rings { lock_requests: LockRequests::default(), reader, writer })))
    }

    /// Requests that the thread release its lock, and runs `take`, which acquires it. The request
    /// ends when `take` returns.
    pub fn ask<R>(&self, take: impl FnOnce() -> R) -> R {
        self.0.lock_requests.request(|| self.0.ring(), take)
    }

    /// Returns whether a thread waits for the lock.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.0.lock_requests.is_pending()
    }

    /// Wakes the thread if it sleeps. Writes at most one byte per sleep, so that the pipe never
    /// fills.
    #[inline]
    pub fn wake(&self) {
        self.0.lock_requests.wake(|| self.0.ring());
    }

    /// Returns the descriptor that becomes readable when the thread is woken.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.reader.as_fd()
    }

    /// Runs `sleep`, which must poll the descriptor passed to it, unless `stay` returns true
    /// because there is work. `stay` runs after the sleep has been announced to other threads, so
    /// that no wake-up is lost.
    pub fn sleep<'a, R>(&'a self, stay: impl FnOnce() -> bool, sleep: impl FnOnce(BorrowedFd<'a>) -> R) -> Option<R> {
        let rung = || drop((&self.0.reader).read(&mut [0])); // blocks until the byte arrives
        self.0.lock_requests.sleep(stay, || sleep(self.0.reader.as_fd()), rung)
    }
}

/// Transport of frames to a port of another thread.
enum Route {
    /// A ring that only one other thread fills.
    Ring(Producer<Frame>),
    /// A queue that all workers fill.
    Queue(Arc<Outbox<Frame>>),
}

/// Sending end for frames to a port of another thread.
pub struct RemotePort {
    way: Route,
    to: usize,
    /// Number of frames dropped because the workers' queue was full.
    pub full: u64,
}

impl RemotePort {
    /// Creates a ring to thread `to`, and returns its sending and its receiving end.
    pub fn ring(to: usize) -> (RemotePort, Arrivals<Frame>) {
        let (ring, arrivals) = ring(FRAMES);
        (RemotePort { way: Route::Ring(ring), to, full: 0 }, Arrivals::Ring(arrivals))
    }

    /// Creates the sending end of a worker for the queue to thread `to`.
    pub fn queue(to: usize, queue: &Arc<Outbox<Frame>>) -> RemotePort {
        RemotePort { way: Route::Queue(queue.clone()), to, full: 0 }
    }

    /// Moves as many frames of `out` as fit into the ring or queue, and wakes the other thread.
    /// Frames that do not fit into a ring stay in `out`. Frames that do not fit into the workers'
    /// queue are dropped and counted. If they were kept, another worker might send later frames of
    /// the same flow first, which would reorder the flow.
    pub fn send(&mut self, out: &mut Burst, calls: &[Call]) {
        let sent = match &mut self.way {
            Route::Ring(ring) => ring.push_from(|| out.pop()),
            Route::Queue(queue) => {
                let sent = queue.push(out.len(), || out.pop());
                self.full += out.len() as u64;
                out.clear();
                sent
            }
        };
        if sent > 0
            && let Some(call) = calls.get(self.to)
        {
            call.wake();
        }
    }
}

/// Frames from other threads for a port of this thread.
pub enum Arrivals<T> {
    /// Ring from one thread.
    Ring(Consumer<T>),
    /// Queue from all workers.
    Queue(Arc<Outbox<T>>),
}

impl<T> Arrivals<T> {
    /// Returns the number of queued frames.
    pub fn level(&self) -> usize {
        match self {
            Arrivals::Ring(ring) => ring.level(),
            Arrivals::Queue(queue) => queue.level.load(Ordering::Acquire),
        }
    }

    /// Removes up to `most` frames, oldest first, and passes them to `into`. Returns their number.
    pub fn pop_into(&mut self, most: usize, into: impl FnMut(T)) -> usize {
        match self {
            Arrivals::Ring(ring) => ring.pop_into(most, into),
            Arrivals::Queue(queue) => queue.pop_into(most, into),
        }
    }
}

/// Queue of frames that workers send through a port. All workers share it, because a flow may move
/// between workers, and one ring per worker would then reorder it. The lock is taken once per
/// burst.
#[derive(Debug)]
pub struct Outbox<T> {
    frames: Mutex<VecDeque<T>>,
    level: AtomicUsize,
}

impl<T> Default for Outbox<T> {
    fn default() -> Outbox<T> {
        Outbox { frames: Mutex::new(VecDeque::new()), level: AtomicUsize::new(0) }
    }
}

impl<T> Outbox<T> {
    /// Queues up to `len` frames from `next`, as many as fit. Returns their number.
    pub(super) fn push(&self, len: usize, next: impl FnMut() -> Option<T>) -> usize {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let n = len.min(FRAMES - frames.len().min(FRAMES));
        frames.extend(std::iter::from_fn(next).take(n));
        self.level.store(frames.len(), Ordering::Release);
        n
    }

    fn pop_into(&self, most: usize, into: impl FnMut(T)) -> usize {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let n = frames.len().min(most);
        frames.drain(..n).for_each(into);
        self.level.store(frames.len(), Ordering::Release);
        n
    }
}
