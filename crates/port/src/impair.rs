//! `impair(loss=1%,delay=10ms):PORT`: a degraded link, identical in every run with the same seed.
//!
//! Each frame passes these stages in this order: loss, duplication, corruption, the rate limiter's
//! queue, delay. Frames stay in order, except that `reorder` lets a frame skip its delay, as in
//! Linux's netem. No frame waits for another: each leaves `delay` plus or minus `jitter` after the
//! rate limiter has released it. The caller supplies the time. Every loss is counted, so that at
//! any moment frames in = out + held + impaired + queue_full - duplicated (see
//! [`crate::RxCounts::to_host`]). A large segment is split first, so that each frame of the wire is
//! impaired separately. Corruption is applied after checksums are filled in.

mod link;

pub use link::{Impairment, Link};

use crate::offload::gso::Cutter;
use crate::{Port, PortCounts, RxHalf, TxHalf};
use buf::{Burst, Flags, Frame, Pool};
use clock::{Duration, Instant};
use link::Noted;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Directions in which frames are impaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// Received frames only.
    Rx,
    /// Sent frames only.
    #[default]
    Tx,
    /// Both directions, each with its own pseudo-random sequence.
    Both,
}

/// Time before frames are offered again to a port that accepted none.
const RETRY: Duration = Duration::from_micros(50);

/// Wraps `port` in an impairment; large segments are split into buffers of `pool`.
pub fn wrap(impairment: &Impairment, direction: Direction, port: Port, pool: &Pool) -> Port {
    let Port { name, spec, caps, mut rx, mut tx, counts, nic } = port;
    if direction != Direction::Tx {
        // Each direction gets its own seed, so that the two pseudo-random sequences differ.
        let link = Link::new(&Impairment { seed: impairment.seed ^ 0x5851_f42d_4c95_7f2d, ..impairment.clone() });
        rx =
            Box::new(ImpairedRx { inner: rx, link, arrived: Burst::new(), pool: pool.clone(), counts: counts.clone() });
    }
    if direction != Direction::Rx {
        let link = Link::new(impairment);
        let (leaving, pool, counts) = (Burst::new(), pool.clone(), counts.clone());
        tx = Box::new(ImpairedTx { inner: tx, link, leaving, retry: None, pool, counts });
    }
    Port { name, spec: format!("impair:{spec}"), caps, rx, tx, counts, nic }
}

struct ImpairedRx {
    inner: Box<dyn RxHalf>,
    link: Link,
    arrived: Burst,
    pool: Pool,
    counts: Arc<PortCounts>,
}

impl RxHalf for ImpairedRx {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize {
        let most = most.min(into.room());
        self.inner.rx_burst(&mut self.arrived, most, now);
        let mut noted = Noted::default();
        let mut cut = Cut::default();
        for frame in self.arrived.drain() {
            cut.each(frame, &self.pool, |frame| self.link.enter(frame, now, &mut noted));
        }
        let mut out = 0;
        while out < most {
            let Some(frame) = self.link.leave(now) else { break };
            // The push cannot fail, because `most` is limited to the free space of `into`.
            into.put(frame, || self.counts.rx.bugs.bump());
            out += 1;
        }
        let rx = &self.counts.rx;
        rx.impaired.add(noted.lost);
        rx.queue_full.add(noted.queue_full);
        rx.duplicated.add(noted.duplicated);
        rx.corrupted.add(noted.corrupted);
        rx.reordered.add(noted.reordered);
        rx.held.add(noted.entered);
        rx.segmented.add(cut.segmented);
        rx.segments.add(cut.segments);
        rx.no_buffer.add(cut.no_buffer);
        rx.held.sub(out as u64);
        out
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wait_fd()
    }

    fn next_event(&self) -> Option<Instant> {
        earlier(self.link.next_event(), self.inner.next_event())
    }

    fn is_gone(&self) -> bool {
        self.inner.is_gone() && self.link.held() == 0
    }

    fn is_silent(&self) -> bool {
        self.inner.is_silent()
    }

    fn why_gone(&self) -> Option<String> {
        self.inner.why_gone()
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }

    fn held(&self) -> usize {
        self.link.held() + self.inner.held()
    }
}

struct ImpairedTx {
    inner: Box<dyn TxHalf>,
    link: Link,
    /// Frames that are due but that the port has not accepted yet.
    leaving: Burst,
    /// Time at which to offer `leaving` again; `None` if the port has accepted all frames that were
    /// due.
    retry: Option<Instant>,
    pool: Pool,
    counts: Arc<PortCounts>,
}

impl ImpairedTx {
    /// Passes the due frames to the port until the port accepts no more.
    fn release(&mut self, now: Instant) {
        loop {
            while self.leaving.room() > 0 {
                let Some(frame) = self.link.leave(now) else { break };
                self.leaving.put(frame, || self.counts.tx.bugs.bump());
            }
            if self.leaving.is_empty() {
                self.retry = None;
                return;
            }
            let taken = self.inner.tx_burst(&mut self.leaving, now);
            self.counts.tx.held.sub(taken as u64);
            if taken == 0 {
                self.retry = Some(now.after(RETRY));
                return;
            }
        }
    }
}

impl TxHalf for ImpairedTx {
    fn tx_burst(&mut self, from: &mut Burst, now: Instant) -> usize {
        self.release(now);
        if !self.leaving.is_empty() {
            return 0; // the inner port is full, so the host keeps its frames
        }
        let mut noted = Noted::default();
        let mut taken = 0;
        let mut cut = Cut::default();
        for frame in from.drain() {
            cut.each(frame, &self.pool, |frame| self.link.enter(frame, now, &mut noted));
            taken += 1;
        }
        let tx = &self.counts.tx;
        tx.impaired.add(noted.lost);
        tx.queue_full.add(noted.queue_full);
        tx.duplicated.add(noted.duplicated);
        tx.corrupted.add(noted.corrupted);
        tx.reordered.add(noted.reordered);
        tx.held.add(noted.entered);
        tx.segmented.add(cut.segmented);
        tx.segments.add(cut.segments);
        tx.no_buffer.add(cut.no_buffer);
        self.release(now);
        taken
    }

    fn poll(&mut self, now: Instant) {
        self.release(now);
        self.inner.poll(now);
    }

    fn next_event(&self) -> Option<Instant> {
        earlier(self.retry.or_else(|| self.link.next_event()), self.inner.next_event())
    }

    fn is_gone(&self) -> bool {
        self.inner.is_gone()
    }

    fn finish(&mut self) {
        self.inner.finish();
    }

    fn why_gone(&self) -> Option<String> {
        self.inner.why_gone()
    }

    fn held(&self) -> usize {
        self.link.held() + self.leaving.len() + self.inner.held()
    }
}

/// Counters of the large segments split, of the pieces created, and of failures to get a buffer.
#[derive(Default)]
struct Cut {
    segmented: u64,
    segments: u64,
    no_buffer: u64,
}

impl Cut {
    /// Passes `frame` to `link`, split into pieces if it is a large segment.
    fn each(&mut self, frame: Frame, pool: &Pool, mut link: impl FnMut(Frame)) {
        if !frame.flags().has(Flags::GSO) {
            return link(frame);
        }
        let mut cutter = match Cutter::new(frame) {
            Ok(cutter) => cutter,
            Err(frame) => return link(frame),
        };
        self.segmented += 1;
        while !cutter.is_done() {
            let Some(piece) = cutter.cut(pool) else {
                self.no_buffer += 1;
                return;
            };
            self.segments += 1;
            link(piece);
        }
    }
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
