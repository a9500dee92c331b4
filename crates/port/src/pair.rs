//! `pair:NAME`: two ports of one process, connected back to back by two rings. They are opened one
//! after the other, with the same name.
//!
//! Frames are passed by value: when the receiving host drops a frame or sends it on, the buffer
//! returns to the sender's pool. An eventfd wakes a sleeping reader. If the reader polls instead,
//! the only cost for the sender is a memory fence of about 20 clock ticks per burst.

use crate::os::event::Event;
use crate::{Caps, Port, PortCounts, RxHalf, TxHalf};
use buf::ring::{Consumer, Producer, ring};
use buf::{Burst, Flags, Frame};
use clock::Instant;
use lock::Doorbell;
use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Wakes the reader of a ring or channel.
pub(crate) struct EventDoorbell {
    doorbell: Doorbell,
    event: Event,
}

impl EventDoorbell {
    #[inline]
    fn wake(&self) {
        self.doorbell.wake(0, || self.event.raise());
    }
}

/// The sender's side of a doorbell; `None` if no file descriptor was available, in which case the
/// reader polls. Dropping it wakes the reader. It is dropped after the sending end of the ring, so
/// the reader then detects that the ring is closed.
pub(crate) struct Ringer(Option<Arc<EventDoorbell>>);

impl Ringer {
    #[inline(always)]
    pub(crate) fn wake(&self) {
        if let Some(doorbell) = &self.0 {
            doorbell.wake();
        }
    }
}

impl Drop for Ringer {
    fn drop(&mut self) {
        self.wake();
    }
}

/// The reader's side of a doorbell. Without a file descriptor, the reader polls.
pub(crate) struct Sleeper {
    doorbell: Option<Arc<EventDoorbell>>,
    /// True after the reader has announced a sleep, until the wakeup for it has been consumed.
    announced: Cell<bool>,
}

/// Creates both sides of a doorbell.
pub(crate) fn doorbell() -> (Ringer, Sleeper) {
    let doorbell = Event::new().ok().map(|event| Arc::new(EventDoorbell { doorbell: Doorbell::default(), event }));
    (Ringer(doorbell.clone()), Sleeper { doorbell, announced: Cell::new(false) })
}

impl Sleeper {
    /// Clears the event if a wakeup has arrived since a sleep was announced. Called before each
    /// read.
    #[inline(always)]
    pub(crate) fn answer(&self) {
        if self.announced.get() {
            self.clear();
        }
    }

    #[cold]
    fn clear(&self) {
        if let Some(doorbell) = &self.doorbell
            && doorbell.doorbell.is_rung()
            && doorbell.event.clear()
        {
            self.announced.set(false); // if not, the sender is about to raise the event, and the next call clears it
        }
    }

    /// Announces that the reader is about to sleep, and returns the descriptor to sleep on. The
    /// next wakeup then raises the event, which is raised at once if `is_ready` returns true.
    pub(crate) fn announce(&self, is_ready: impl FnOnce() -> bool) -> Option<BorrowedFd<'_>> {
        let doorbell = self.doorbell.as_ref()?;
        if !self.announced.replace(true) {
            doorbell.doorbell.announce(u64::MAX);
        }
        if is_ready() {
            doorbell.wake();
        }
        Some(doorbell.event.fd())
    }
}

struct RingRx {
    ring: Consumer<Frame>,
    sleeper: Sleeper,
    counts: Arc<PortCounts>,
    /// True if senders omit checksums, because frames in memory cannot be corrupted.
    csum: bool,
}

struct RingTx {
    ring: Producer<Frame>,
    doorbell: Ringer,
    counts: Arc<PortCounts>,
}

/// Creates two connected ports: each receives what the other sends. Each ring holds `slots` frames.
pub fn pair(name: &str, slots: usize, caps: Caps) -> (Port, Port) {
    let ((left_tx, right_rx), (right_tx, left_rx)) = (joined(slots), joined(slots));
    (end(name, left_rx, left_tx, caps), end(name, right_rx, right_tx, caps))
}

type Sending = (Producer<Frame>, Ringer);
type Receiving = (Consumer<Frame>, Sleeper);

/// Creates a ring with its doorbell.
fn joined(slots: usize) -> (Sending, Receiving) {
    let ((tx, rx), (ringer, sleeper)) = (ring(slots), doorbell());
    ((tx, ringer), (rx, sleeper))
}

fn end(name: &str, (rx, sleeper): Receiving, (tx, ringer): Sending, caps: Caps) -> Port {
    let counts = Arc::new(PortCounts::default());
    Port {
        name: name.to_string(),
        spec: format!("pair:{name}"),
        caps,
        rx: Box::new(RingRx { ring: rx, sleeper, counts: counts.clone(), csum: caps.rx_csum }),
        tx: Box::new(RingTx { ring: tx, doorbell: ringer, counts: counts.clone() }),
        counts,
        nic: None,
    }
}

impl RingRx {
    /// Marks the checksums of a frame as verified if the sender omitted them.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn vouch(&self, frame: &mut Frame) {
        if self.csum && frame.flags().has(Flags::TX_L4_CSUM) {
            // `TX_L4_CSUM` stays set: a router that forwards the frame through a port without the
            // offload must fill in the checksum.
            frame.set_flags(frame.flags().with(Flags::RX_L4_OK));
        }
    }

    #[inline(always)]
    fn count(&self, frames: usize, bytes: usize) -> usize {
        self.counts.rx.frames.add(frames as u64);
        self.counts.rx.bytes.add(bytes as u64);
        self.counts.rx.idle.add(u64::from(frames == 0));
        frames
    }

    #[inline(never)]
    fn rx_many(&mut self, into: &mut Burst, most: usize) -> usize {
        let before = into.len();
        let frames = self.ring.pop_burst(into, most);
        let came = into.as_mut_slice().get_mut(before..).unwrap_or_default();
        if self.csum {
            came.iter_mut().for_each(|frame| self.vouch(frame));
        }
        self.count(frames, came.iter().map(|frame| frame.len()).sum())
    }
}

impl RxHalf for RingRx {
    /// Receives frames. If only one frame is received, a separate path is used, which costs 70
    /// instructions instead of the 128 of a burst of one.
    fn rx_burst(&mut self, into: &mut Burst, most: usize, _now: Instant) -> usize {
        self.sleeper.answer();
        if self.ring.ready().min(most) != 1 || into.room() == 0 {
            return self.rx_many(into, most);
        }
        let Some(mut frame) = self.ring.pop() else { return 0 };
        self.vouch(&mut frame);
        let bytes = frame.len();
        into.put(frame, || self.counts.rx.bugs.bump()); // `most` is limited to the free slots
        self.count(1, bytes)
    }

    /// Announces that the reader is about to sleep. The next frame then raises the event, as do
    /// frames that are already waiting.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.sleeper.announce(|| self.ring.level() > 0 || self.ring.is_closed())
    }

    fn is_gone(&self) -> bool {
        self.ring.is_closed()
    }

    fn held(&self) -> usize {
        self.ring.level()
    }
}

impl RingTx {
    #[inline(never)]
    fn tx_many(&mut self, from: &mut Burst) -> usize {
        let before = from.bytes();
        let frames = self.ring.push_burst(from);
        self.counts.tx.frames.add(frames as u64);
        self.counts.tx.bytes.add((before - from.bytes()) as u64);
        self.counts.tx.bursts.add(u64::from(frames > 0));
        if frames > 0 {
            self.doorbell.wake();
        }
        frames
    }
}

impl RingTx {
    /// Drops frames that are sent after the other end has been closed.
    #[cold]
    fn lose(&mut self, from: &mut Burst) -> usize {
        let lost = from.len();
        from.clear();
        self.counts.tx.errors.add(lost as u64);
        lost
    }
}

impl TxHalf for RingTx {
    fn tx_burst(&mut self, from: &mut Burst, now: Instant) -> usize {
        if self.ring.is_closed() {
            return self.lose(from);
        }
        if from.len() != 1 {
            return self.tx_many(from);
        }
        let Some(frame) = from.pop() else { return 0 };
        match self.tx_one(frame, now) {
            Ok(()) => 1,
            Err(frame) => {
                from.put(frame, || self.counts.tx.bugs.bump()); // cannot fail: the frame was taken from `from`
                0
            }
        }
    }

    fn tx_one(&mut self, frame: Frame, _now: Instant) -> Result<(), Frame> {
        let bytes = frame.len() as u64;
        if self.ring.is_closed() {
            self.counts.tx.errors.bump();
            return Ok(()); // the frame is dropped
        }
        self.ring.push(frame)?;
        self.counts.tx.frames.bump();
        self.counts.tx.bytes.add(bytes);
        self.counts.tx.bursts.bump();
        self.doorbell.wake();
        Ok(())
    }

    fn is_gone(&self) -> bool {
        self.ring.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use buf::{Pool, PoolConfig};

    #[test]
    fn frames_pass_between_the_ends_until_the_ring_is_full() {
        let pool = Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap();
        let (mut a, mut b) = pair("p", 8, Caps::PLAIN);
        let mut burst = Burst::new();
        pool.get_burst(10, &mut burst);
        burst.as_mut_slice().iter_mut().enumerate().for_each(|(i, f)| f.extend(&[i as u8; 60]).unwrap());
        assert_eq!(a.tx.tx_burst(&mut burst, Instant::ZERO), 8);
        assert_eq!(burst.len(), 2, "frames that were not accepted stay");
        let mut got = Burst::new();
        assert_eq!(b.rx.held(), 8);
        assert_eq!(b.rx.rx_burst(&mut got, 5, Instant::ZERO), 5);
        assert_eq!(got.as_slice()[4].bytes(), [4u8; 60]);
        assert_eq!((a.counts.tx.frames.get(), b.counts.rx.bytes.get()), (8, 300));
        drop(a);
        assert!(b.rx.is_gone());
        assert_eq!(b.rx.rx_burst(&mut got, 32, Instant::ZERO), 3, "frames sent before the close can still be received");
        drop((burst, got));
        assert_eq!(pool.stats().live(), 0);
    }

    /// Checks that a reader can sleep on its end: waiting frames, new frames and the close of the
    /// peer raise the event.
    #[test]
    fn a_sleeping_reader_is_woken_by_frames_and_by_closing() {
        use crate::os::is_readable;
        let pool = Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap();
        let (mut a, mut b) = pair("p", 8, Caps::PLAIN);
        let frame = || {
            let mut frame = pool.get().unwrap();
            frame.extend(&[1; 60]).unwrap();
            Burst::of(frame)
        };
        let mut got = Burst::new();
        for _ in 0..3 {
            assert!(!is_readable(b.rx.wait_fd().unwrap()), "no frame has arrived");
            assert_eq!(b.rx.rx_burst(&mut got, 32, Instant::ZERO), 0, "an empty poll changes nothing");
            a.tx.tx_burst(&mut frame(), Instant::ZERO);
            assert!(is_readable(b.rx.wait_fd().unwrap()), "a frame arrived while the reader slept");
            assert_eq!(b.rx.rx_burst(&mut got, 32, Instant::ZERO), 1);
            a.tx.tx_burst(&mut frame(), Instant::ZERO);
            assert!(is_readable(b.rx.wait_fd().unwrap()), "a frame arrived before the reader slept");
            assert_eq!(b.rx.rx_burst(&mut got, 32, Instant::ZERO), 1);
        }
        assert!(!is_readable(b.rx.wait_fd().unwrap()));
        let Port { tx, .. } = a;
        drop(tx);
        assert!(is_readable(b.rx.wait_fd().unwrap()) && b.rx.is_gone());
    }

    #[test]
    fn single_frames_are_counted_and_stay_with_the_sender_when_full() {
        let pool = Pool::new(&PoolConfig { buffers: 512, ..PoolConfig::default() }).unwrap();
        let (mut a, mut b) = pair("p", 2, Caps { rx_csum: true, ..Caps::PLAIN });
        let one = |byte: u8| {
            let mut frame = pool.get().unwrap();
            frame.extend(&[byte; 60]).unwrap();
            frame.set_flags(Flags::TX_L4_CSUM);
            Burst::of(frame)
        };
        assert_eq!((a.tx.tx_burst(&mut one(1), Instant::ZERO), a.tx.tx_burst(&mut one(2), Instant::ZERO)), (1, 1));
        let mut third = one(3);
        assert_eq!((a.tx.tx_burst(&mut third, Instant::ZERO), third.len()), (0, 1), "the ring is full");
        let mut got = Burst::new();
        for byte in 1..=2 {
            assert_eq!(b.rx.rx_burst(&mut got, 1, Instant::ZERO), 1);
            let frame = got.pop().unwrap();
            assert_eq!((frame.bytes(), frame.flags().has(Flags::RX_L4_OK)), (&[byte; 60][..], true));
        }
        assert_eq!(b.rx.rx_burst(&mut got, 1, Instant::ZERO), 0);
        assert_eq!(a.tx.tx_burst(&mut third, Instant::ZERO), 1);
        pool.get_burst(256, &mut got);
        assert_eq!((b.rx.rx_burst(&mut got, 32, Instant::ZERO), b.rx.held()), (0, 1), "the burst has no free slot");
        got.clear();
        assert_eq!(b.rx.rx_burst(&mut got, 32, Instant::ZERO), 1);
        let (tx, rx) = (&a.counts.tx, &b.counts.rx);
        assert_eq!((tx.frames.get(), tx.bytes.get(), tx.bursts.get()), (3, 180, 3));
        assert_eq!((rx.frames.get(), rx.bytes.get(), rx.idle.get()), (3, 180, 2));
        drop(got);
        assert_eq!(pool.stats().live(), 0);
    }
}
