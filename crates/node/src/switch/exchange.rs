//! How lanes meet: being called to the lock, being woken, frames for a port of another lane, what was learned.

use bridge::{Bridge, Key, PortNo};
use buf::Frame;
use buf::ring::{Consumer, Producer, ring};
use clock::Instant;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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

/// What replicas tell each other: whose address was learned at which port.
type News = (Key, PortNo);
/// News that may wait for a lane; what has no room is said again later ([`bridge::Bridge::announce_again`]).
const NEWS: usize = 1024;

/// A lane's way to all others, for news.
#[derive(Default)]
pub struct Grapevine {
    to: Vec<Producer<News>>,
    from: Vec<Consumer<News>>,
}

impl Grapevine {
    /// One for each of so many lanes.
    pub fn among(lanes: usize) -> Vec<Grapevine> {
        let mut all: Vec<Grapevine> = (0..lanes).map(|_| Grapevine::default()).collect();
        for one in 0..lanes {
            for other in (0..lanes).filter(|other| *other != one) {
                let (to, from) = ring(NEWS);
                if let Some(lane) = all.get_mut(one) {
                    lane.to.push(to);
                }
                if let Some(lane) = all.get_mut(other) {
                    lane.from.push(from);
                }
            }
        }
        all
    }

    /// Tells the others what this lane's replica has learned, and the replica what the others have.
    pub fn exchange(&mut self, bridge: &mut Bridge, own: &[PortNo], now: Instant) {
        for from in &mut self.from {
            from.pop_into(NEWS, |(key, port)| bridge.hear(key, port, now));
        }
        bridge.announce_again(own, now);
        while let Some(news) = bridge.take_announced() {
            self.to.iter_mut().for_each(|to| _ = to.push(news));
        }
    }
}

/// The way to a port of another lane.
pub struct Away {
    ring: Producer<Frame>,
    to: usize,
}

/// Frames from another lane for a port of ours.
pub type Arrivals = Consumer<Frame>;

impl Away {
    /// Both ends.
    pub fn new(to: usize) -> (Away, Arrivals) {
        let (ring, arrivals) = ring(FRAMES);
        (Away { ring, to }, arrivals)
    }

    /// Sends the frames of `out` as far as there is room; says how many.
    pub fn send(&mut self, out: &mut buf::Burst, calls: &[Call]) -> usize {
        let sent = self.ring.push_from(|| out.pop());
        if sent > 0
            && let Some(call) = calls.get(self.to)
        {
            call.wake();
        }
        sent
    }
}
