//! The wire between two cards: two ends, a ring in each direction, and the speed at which frames
//! are sent.
//!
//! A frame in memory has no FCS. On a wire with limited speed it takes the time of preamble and
//! start (8 bytes), at least 60 bytes of frame, FCS (4) and the gap (12): 672 bits for the shortest
//! frame (IEEE 802.3 clause 4.4.2). A frame arrives at the time at which its last bit arrives. The
//! transmit FIFO keeps the wire busy between two calls of the card's `step`. The other end may be
//! another card, or a test that sends and receives bursts with [`End`].

use super::regs::{Interrupts, RXT0};
use buf::ring::{Consumer, Producer, ring};
use buf::{Burst, Frame};
use clock::Instant;
use stats::Counter;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Size of the transmit FIFO in bytes (the 82540 to 82546 have 64 KiB for both directions, 16 KiB
/// of them for transmission by default).
const FIFO: u64 = 16 << 10;
/// Maximum number of frames moved from the ring to the receiving end's inbox at once.
const INBOX: usize = 64;

/// A frame on the wire, and the time at which its last bit arrives.
#[derive(Debug)]
struct Sent {
    frame: Frame,
    at: Instant,
}

/// State of one end that both ends access.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub interrupts: Interrupts,
    /// True if frames for this end wait while the wire is full; false if they are lost.
    pub waits: AtomicBool,
    /// Number of frames for this end that were lost because the wire was full. The sender
    /// increments it, and this end reports it as missed.
    pub overrun: Counter,
}

/// One end of a wire.
#[derive(Debug)]
pub struct End {
    /// Sending half of the end.
    pub tx: TxEnd,
    /// Receiving half of the end.
    pub rx: RxEnd,
}

/// The sending half of an end.
#[derive(Debug)]
pub struct TxEnd {
    out: Producer<Sent>,
    far: Arc<Side>,
    /// Time at which the last bit sent so far has left, in picoseconds of the clock.
    free_at: u128,
    bits_a_second: Option<u64>,
}

/// The receiving half of an end.
#[derive(Debug)]
pub struct RxEnd {
    from: Consumer<Sent>,
    near: Arc<Side>,
    inbox: VecDeque<Sent>,
}

/// Creates a wire that holds `slots` frames in each direction.
pub fn wire(slots: usize) -> (End, End) {
    let (left_out, right_from) = ring(slots);
    let (right_out, left_from) = ring(slots);
    let (left, right) = (Arc::new(Side::default()), Arc::new(Side::default()));
    let sides = [&left, &right];
    sides.iter().for_each(|side| side.waits.store(true, Ordering::Relaxed));
    let end = |out, from, near: &Arc<Side>, far: &Arc<Side>| End {
        tx: TxEnd { out, far: far.clone(), free_at: 0, bits_a_second: None },
        rx: RxEnd { from, near: near.clone(), inbox: VecDeque::with_capacity(INBOX) },
    };
    (end(left_out, left_from, &left, &right), end(right_out, right_from, &right, &left))
}

/// Returns the number of bits that a frame of `len` bytes (FCS not included) occupies on the wire,
/// including preamble, FCS and gap.
pub fn bits(len: usize) -> u64 {
    (len.max(60) as u64 + 4 + 8 + 12) * 8
}

impl End {
    /// Sends frames from the front of `from` while the wire accepts them. Returns their number.
    pub fn send(&mut self, from: &mut Burst, now: Instant) -> usize {
        self.tx.send(from, now)
    }

    /// Takes up to `most` frames that have arrived. Returns their number.
    pub fn take(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize {
        let most = most.min(into.room());
        let mut taken = 0;
        while taken < most
            && let Some(frame) = self.rx.take(now)
        {
            into.put(frame, || self.rx.near.overrun.bump());
            taken += 1;
        }
        taken
    }
}

impl TxEnd {
    /// Sets the speed in bits per second; `None` means unlimited.
    pub fn set_pace(&mut self, bits_a_second: Option<u64>) {
        self.bits_a_second = bits_a_second;
    }

    /// Returns whether the other end is gone.
    pub fn is_closed(&self) -> bool {
        self.out.is_closed()
    }

    /// Returns whether another frame can be sent. This requires space in the FIFO, and a wire that
    /// either has a free slot or may lose the frame.
    pub fn has_room(&mut self, now: Instant) -> bool {
        let paced = match self.bits_a_second {
            Some(rate) => self.free_at <= now_ps(now) + ps(FIFO * 8, rate),
            None => true,
        };
        paced && (self.out.room() > 0 || !self.far.waits.load(Ordering::Relaxed))
    }

    /// Sends a frame at the speed of the wire. The caller must have checked [`TxEnd::has_room`].
    pub(super) fn push(&mut self, frame: Frame, now: Instant) {
        let mut at = now;
        if let Some(rate) = self.bits_a_second {
            self.free_at = self.free_at.max(now_ps(now)) + ps(bits(frame.len()), rate);
            at = Instant::from_nanos(u64::try_from(self.free_at.div_ceil(1000)).unwrap_or(u64::MAX));
        }
        if self.out.push(Sent { frame, at }).is_err() {
            self.far.overrun.bump();
        }
    }

    /// Raises the interrupt of the card at the other end.
    pub(super) fn ring_far(&self, now: Instant) {
        self.far.interrupts.raise(RXT0, now);
    }

    /// Sends frames from the front of `from` while the wire accepts them. Returns their number.
    pub fn send(&mut self, from: &mut Burst, now: Instant) -> usize {
        let mut sent = 0;
        while self.has_room(now)
            && let Some(frame) = from.pop()
        {
            self.push(frame, now);
            sent += 1;
        }
        if sent > 0 {
            self.ring_far(now);
        }
        sent
    }

    /// Returns the time at which a full FIFO accepts the next frame.
    pub(super) fn next_room(&self) -> Instant {
        let behind = self.bits_a_second.map_or(0, |rate| self.free_at.saturating_sub(ps(FIFO * 8, rate)));
        Instant::from_nanos(u64::try_from(behind.div_ceil(1000)).unwrap_or(u64::MAX))
    }
}

impl RxEnd {
    /// Returns the arrival time of the next frame, which is in the past if the frame has arrived;
    /// `None` if there is no frame.
    pub fn next_at(&mut self) -> Option<Instant> {
        if self.inbox.is_empty() {
            let inbox = &mut self.inbox;
            self.from.pop_into(INBOX, |sent| inbox.push_back(sent));
        }
        self.inbox.front().map(|sent| sent.at)
    }

    /// Takes the next frame that has arrived.
    pub fn take(&mut self, now: Instant) -> Option<Frame> {
        self.next_at().filter(|at| *at <= now)?;
        self.inbox.pop_front().map(|sent| sent.frame)
    }

    /// Returns the number of frames on the wire towards this end.
    pub fn held(&self) -> usize {
        self.inbox.len() + self.from.level()
    }

    /// Returns whether the other end is gone and all of its frames have been taken.
    pub fn is_gone(&self) -> bool {
        self.from.is_closed() && self.held() == 0
    }

    /// Returns whether the other end is gone.
    pub fn is_closed(&self) -> bool {
        self.from.is_closed()
    }

    pub(super) fn near(&self) -> Arc<Side> {
        self.near.clone()
    }
}

fn now_ps(now: Instant) -> u128 {
    u128::from(now.nanos()) * 1000
}

/// Returns the picoseconds that `bits` take at `rate` bits per second: a whole number at 1, 10, 25
/// and 100 Gb/s.
fn ps(bits: u64, rate: u64) -> u128 {
    u128::from(bits) * 1_000_000_000_000 / u128::from(rate)
}
