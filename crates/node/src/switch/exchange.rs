//! How lanes meet: being called to the lock, being woken, frames for a port of another lane; for what was seen, [`super::news`].

use super::bell::Bell;
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

/// Frames that may wait for a port of another lane.
const FRAMES: usize = 1024;

/// A lane's bell: who rings it wants the lane's lock, or has sent it frames.
#[derive(Debug, Clone)]
pub struct Call(Arc<Rings>);

/// A bell that rings by a byte in a pipe.
#[derive(Debug)]
struct Rings {
    bell: Bell,
    reader: PipeReader,
    writer: PipeWriter,
}

impl Rings {
    fn ring(&self) {
        // A pipe that cannot be written to is one whose reader is gone.
        let _ = (&self.writer).write(&[0]);
    }
}

impl Call {
    pub fn new() -> io::Result<Call> {
        let (reader, writer) = io::pipe()?;
        Ok(Call(Arc::new(Rings { bell: Bell::default(), reader, writer })))
    }

    /// Has the lane let go of its lock while `take` takes it.
    pub fn ask<R>(&self, take: impl FnOnce() -> R) -> R {
        self.0.bell.ask(|| self.0.ring(), take)
    }

    /// Does somebody wait for the lock?
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.0.bell.is_asked()
    }

    /// Wakes the lane, if it sleeps: one byte for each sleep at most, so that the pipe never fills.
    #[inline]
    pub fn wake(&self) {
        self.0.bell.wake(|| self.0.ring());
    }

    /// What is readable when somebody has rung.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.reader.as_fd()
    }

    /// Sleeps by `sleep`, which is to watch the descriptor that it is given, unless `stay` finds something to do once nobody can miss that
    /// the lane sleeps.
    pub fn sleep<'a, R>(&'a self, stay: impl FnOnce() -> bool, sleep: impl FnOnce(BorrowedFd<'a>) -> R) -> Option<R> {
        let rung = || drop((&self.0.reader).read(&mut [0])); // the byte comes
        self.0.bell.sleep(stay, || sleep(self.0.reader.as_fd()), rung)
    }
}

/// Where frames for a port of another lane go.
enum Way {
    /// A ring of this lane's own.
    Ring(Producer<Frame>),
    /// The workers' common queue.
    Queue(Arc<Outbox<Frame>>),
}

/// The way to a port of another lane.
pub struct Away {
    way: Way,
    to: usize,
    /// Dropped: the workers' queue was full.
    pub full: u64,
}

impl Away {
    /// Both ends of a ring.
    pub fn ring(to: usize) -> (Away, Arrivals<Frame>) {
        let (ring, arrivals) = ring(FRAMES);
        (Away { way: Way::Ring(ring), to, full: 0 }, Arrivals::Ring(arrivals))
    }

    /// A worker's end of a queue.
    pub fn queue(to: usize, queue: &Arc<Outbox<Frame>>) -> Away {
        Away { way: Way::Queue(queue.clone()), to, full: 0 }
    }

    /// Sends the frames of `out` as far as there is room. What does not go into a ring stays in `out`; what does not go into the workers' queue
    /// is dropped, and counted: it would be behind what another worker sends of its flow meanwhile.
    pub fn send(&mut self, out: &mut Burst, calls: &[Call]) {
        let sent = match &mut self.way {
            Way::Ring(ring) => ring.push_from(|| out.pop()),
            Way::Queue(queue) => {
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

/// Frames from other lanes for a port of ours.
pub enum Arrivals<T> {
    /// From one of them.
    Ring(Consumer<T>),
    /// From all workers.
    Queue(Arc<Outbox<T>>),
}

impl<T> Arrivals<T> {
    /// How many there are.
    pub fn level(&self) -> usize {
        match self {
            Arrivals::Ring(ring) => ring.level(),
            Arrivals::Queue(queue) => queue.level.load(Ordering::Acquire),
        }
    }

    /// Takes up to `most`, the oldest first; says how many.
    pub fn pop_into(&mut self, most: usize, into: impl FnMut(T)) -> usize {
        match self {
            Arrivals::Ring(ring) => ring.pop_into(most, into),
            Arrivals::Queue(queue) => queue.pop_into(most, into),
        }
    }
}

/// What workers have decided is to leave through a port: one queue for all of them, since a flow goes from worker to worker and a ring for each
/// would lose its order. The lock is taken once a burst.
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
    /// Takes of `len` that `next` has as many as there is room for; says how many.
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
