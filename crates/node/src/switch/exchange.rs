//! How lanes meet: being called to the lock, being woken, frames for a port of another lane; for what was seen, [`super::news`].

use buf::ring::{Consumer, Producer, ring};
use buf::{Burst, Frame};
use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex};

/// Frames that may wait for a port of another lane.
const FRAMES: usize = 1024;

/// A lane's bell: who rings it wants the lane's lock, or has sent it frames.
#[derive(Debug, Clone)]
pub struct Call(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    /// Who waits for the lock.
    asking: AtomicUsize,
    /// The lane sleeps, or is about to.
    asleep: AtomicBool,
    reader: PipeReader,
    writer: PipeWriter,
}

impl Call {
    pub fn new() -> io::Result<Call> {
        let (reader, writer) = io::pipe()?;
        Ok(Call(Arc::new(Bell { asking: AtomicUsize::new(0), asleep: AtomicBool::new(false), reader, writer })))
    }

    /// Has the lane let go of its lock while `take` takes it.
    pub fn ask<R>(&self, take: impl FnOnce() -> R) -> R {
        self.0.asking.fetch_add(1, Ordering::SeqCst);
        self.wake();
        let taken = take();
        self.0.asking.fetch_sub(1, Ordering::SeqCst);
        taken
    }

    /// Does somebody wait for the lock?
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.0.asking.load(Ordering::Relaxed) > 0
    }

    /// Wakes the lane, if it sleeps: one byte for each sleep at most, so that the pipe never fills.
    #[inline]
    pub fn wake(&self) {
        // What it is to find was stored before; without a fence that store may come after the look, and both miss each other.
        fence(Ordering::SeqCst);
        if self.0.asleep.load(Ordering::SeqCst) && self.0.asleep.swap(false, Ordering::SeqCst) {
            // A pipe that cannot be written to is one whose reader is gone.
            let _ = (&self.0.writer).write(&[0]);
        }
    }

    /// Sleeps by `sleep`, which is to watch the descriptor that it is given, unless `stay` finds something to do once nobody can miss that
    /// the lane sleeps.
    pub fn sleep<'a, R>(&'a self, stay: impl FnOnce() -> bool, sleep: impl FnOnce(BorrowedFd<'a>) -> R) -> Option<R> {
        self.0.asleep.store(true, Ordering::SeqCst);
        let slept =
            if stay() || self.0.asking.load(Ordering::SeqCst) > 0 { None } else { Some(sleep(self.0.reader.as_fd())) };
        if !self.0.asleep.swap(false, Ordering::SeqCst) {
            // Somebody has written, or is about to: the byte comes.
            let _ = (&self.0.reader).read(&mut [0]);
        }
        slept
    }
}

/// Where frames for a port of another lane go.
enum Way {
    /// A ring of this lane's own.
    Ring(Producer<Frame>),
    /// The workers' common queue.
    Queue(Arc<Outbox>),
}

/// The way to a port of another lane.
pub struct Away {
    way: Way,
    to: usize,
    /// Dropped: the workers' queue was full.
    pub late: u64,
}

impl Away {
    /// Both ends of a ring.
    pub fn ring(to: usize) -> (Away, Arrivals) {
        let (ring, arrivals) = ring(FRAMES);
        (Away { way: Way::Ring(ring), to, late: 0 }, Arrivals::Ring(arrivals))
    }

    /// A worker's end of a queue.
    pub fn queue(to: usize, queue: &Arc<Outbox>) -> Away {
        Away { way: Way::Queue(queue.clone()), to, late: 0 }
    }

    /// Sends the frames of `out` as far as there is room. What does not go into a ring stays in `out`; what does not go into the workers' queue
    /// is dropped, and counted: it would be behind what another worker sends of its flow meanwhile.
    pub fn send(&mut self, out: &mut Burst, calls: &[Call]) {
        let sent = match &mut self.way {
            Way::Ring(ring) => ring.push_from(|| out.pop()),
            Way::Queue(queue) => {
                let sent = queue.push(out);
                self.late += out.len() as u64;
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
pub enum Arrivals {
    /// From one of them.
    Ring(Consumer<Frame>),
    /// From all workers.
    Queue(Arc<Outbox>),
}

impl Arrivals {
    /// How many there are.
    pub fn level(&self) -> usize {
        match self {
            Arrivals::Ring(ring) => ring.level(),
            Arrivals::Queue(queue) => queue.level.load(Ordering::SeqCst),
        }
    }

    /// Takes up to `most`, the oldest first; says how many.
    pub fn pop_into(&mut self, most: usize, into: impl FnMut(Frame)) -> usize {
        match self {
            Arrivals::Ring(ring) => ring.pop_into(most, into),
            Arrivals::Queue(queue) => queue.pop_into(most, into),
        }
    }
}

/// What workers have decided is to leave through a port: one queue for all of them, since a flow goes from worker to worker and a ring for each
/// would lose its order. The lock is taken once a burst.
#[derive(Debug, Default)]
pub struct Outbox {
    frames: Mutex<VecDeque<Frame>>,
    level: AtomicUsize,
}

impl Outbox {
    fn push(&self, out: &mut Burst) -> usize {
        let mut frames = super::lock(&self.frames);
        let n = out.len().min(FRAMES - frames.len().min(FRAMES));
        frames.extend(std::iter::from_fn(|| out.pop()).take(n));
        self.level.store(frames.len(), Ordering::SeqCst);
        n
    }

    fn pop_into(&self, most: usize, into: impl FnMut(Frame)) -> usize {
        let mut frames = super::lock(&self.frames);
        let n = frames.len().min(most);
        frames.drain(..n).for_each(into);
        self.level.store(frames.len(), Ordering::SeqCst);
        n
    }
}
