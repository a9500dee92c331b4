//! A loop that passes frames between two ports through a function.

use super::OpenPort;
use crate::Error;
use ::port::offload::soft::Soft;
use ::port::{Env, PortCounts, Spec};
use buf::{Burst, Pool, PoolConfig};
use clock::{Clock, Duration, Instant};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use wire::Mac;

/// Number of buffers of a relay.
const BUFFERS: usize = 4096;
/// Maximum number of frames received from a port at once.
const BURST: usize = 32;
/// Maximum time between two checks of the end condition.
const IDLE: Duration = Duration::from_millis(10);
/// Longest sleep if a port has no descriptor or a full transmit queue.
const POLLED: Duration = Duration::from_micros(50);

/// Direction of a frame through a [`Relay`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Towards {
    /// From the left port to the right one.
    Right,
    /// From the right port to the left one.
    Left,
}

/// Decision about a frame in a [`Relay`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// The frame is sent through the other port.
    Pass,
    /// The frame is dropped, and counted in [`Relay::dropped`].
    Drop,
}

/// One side: a port, and the frames that wait to be sent through it.
struct Side {
    port: OpenPort,
    soft: Soft,
    waiting: Burst,
}

/// Two ports, and a loop that passes the frames of each to the other through a function, which may
/// change or drop them.
pub struct Relay {
    sides: [Side; 2],
    clock: Clock,
    dropped: u64,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [left, right] = &self.sides;
        f.debug_struct("Relay").field("left", &left.port).field("right", &right.port).finish_non_exhaustive()
    }
}

fn open(spec: &str, pool: &Pool) -> Result<Side, Error> {
    let failed = |why: node::AddPortError| Error::Port { port: spec.to_owned(), why: Box::new(why) };
    let parsed = Spec::parse(spec).map_err(|why| failed(why.into()))?;
    let env = Env { pool: pool.clone(), pairs: super::pairs(), mac: Mac::ZERO, unit: 0 };
    let port = ::port::open(&parsed, &env).map_err(|why| failed(why.into()))?;
    let soft = Soft::new(&port.caps, pool.clone(), port.counts.clone());
    Ok(Side { port, soft, waiting: Burst::new() })
}

impl Side {
    /// Sends as many of the waiting frames as the port accepts.
    fn flush(&mut self, now: Instant) {
        let tx = self.port.tx.as_mut();
        match self.soft.has_work(self.waiting.as_slice()) || self.soft.is_behind() {
            true => _ = self.soft.tx_burst(tx, &mut self.waiting, now),
            false => _ = tx.tx_burst(&mut self.waiting, now),
        }
        tx.poll(now);
    }
}

/// Passes a burst from one side to the other. Returns the numbers of frames received and dropped.
fn pass(from: &mut Side, to: &mut Side, now: Instant, mut decide: impl FnMut(&mut [u8]) -> Verdict) -> (usize, u64) {
    let (mut burst, mut dropped) = (Burst::new(), 0);
    let frames = from.port.rx.rx_burst(&mut burst, BURST.min(to.waiting.room()), now);
    for mut frame in burst.drain() {
        // The bytes of a lent frame still belong to its sender, so `decide` gets a copy.
        let is_own = !frame.is_lent() || frame.make_own();
        if is_own && decide(frame.bytes_mut()) == Verdict::Pass {
            to.waiting.put(frame, || dropped += 1); // the burst is limited to the free slots
        } else {
            dropped += 1;
        }
    }
    to.flush(now);
    (frames, dropped)
}

impl Relay {
    /// Opens the ports `left` and `right`, such as `tap:tap0` and `pair:cable`.
    ///
    /// # Errors
    /// Returns [`Error::Port`] for a specification that is not valid, or a port that cannot be
    /// opened.
    pub fn open(left: &str, right: &str) -> Result<Relay, Error> {
        let specs: Vec<_> = [left, right].iter().filter_map(|spec| Spec::parse(spec).ok()).collect();
        let mut config = PoolConfig { buffers: BUFFERS, ..PoolConfig::default() };
        ::port::fit_pool(&mut config, &specs);
        let pool = Pool::new(&config).map_err(|why| Error::rejected(format!("buffers for {left} and {right}"), why))?;
        let sides = [open(left, &pool)?, open(right, &pool)?];
        Ok(Relay { sides, clock: Clock::live(clock::Strategy::default()), dropped: 0 })
    }

    /// Receives a burst from each port, and passes each frame to `decide`, which may change its
    /// bytes but not its length. Returns the number of frames received.
    pub fn step(&mut self, mut decide: impl FnMut(Towards, &mut [u8]) -> Verdict) -> usize {
        let now = self.clock.now();
        let [left, right] = &mut self.sides;
        let (to_right, dropped) = pass(left, right, now, |frame| decide(Towards::Right, frame));
        let (to_left, also_dropped) = pass(right, left, now, |frame| decide(Towards::Left, frame));
        self.dropped += dropped + also_dropped;
        to_right + to_left
    }

    /// Runs the relay until `is_over` returns true or both ports have ended, and sleeps while no
    /// frames arrive.
    pub fn run(&mut self, mut decide: impl FnMut(Towards, &mut [u8]) -> Verdict, mut is_over: impl FnMut() -> bool) {
        while !is_over() && self.sides.iter().any(|side| !side.port.rx.is_gone()) {
            if self.step(&mut decide) == 0 {
                self.sleep();
            }
        }
    }

    fn sleep(&self) {
        let [left, right] = &self.sides;
        // While one port accepts no frames, frames that arrive at the other port stay there, so
        // that port is not watched.
        let open = [(left, right), (right, left)]
            .into_iter()
            .filter(|(from, to)| !from.port.rx.is_gone() && to.waiting.room() > 0);
        let fds: Vec<Option<BorrowedFd<'_>>> = open.map(|(from, _)| from.port.rx.wait_fd()).collect();
        let is_polled = fds.iter().any(Option::is_none) || self.sides.iter().any(|side| !side.waiting.is_empty());
        let fds: Vec<BorrowedFd<'_>> = fds.into_iter().flatten().collect();
        let now = self.clock.now();
        let events = self.sides.iter().flat_map(|side| {
            [side.port.rx.next_event(), side.port.tx.next_event(), side.soft.next_event(now)].into_iter().flatten()
        });
        let event = events.map(|event| event.since(now)).min().unwrap_or(IDLE);
        let most = if is_polled { POLLED } else { IDLE }.min(event);
        let _ = dispatch::wait_readable(&fds, Some(most)); // a failure costs a turn
    }

    /// Returns the number of frames that were not passed on: those for which the function returned
    /// [`Verdict::Drop`], and those that could not be copied because no buffer was free.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the counters of the left and the right port.
    pub fn counts(&self) -> [&Arc<PortCounts>; 2] {
        let [left, right] = &self.sides;
        [&left.port.counts, &right.port.counts]
    }
}
