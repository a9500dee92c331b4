//! From a host to the device.
//!
//! Frames of the port's own pool go as they are: their buffers are the kernel's until it is done with them, and come home
//! with the next burst or poll. Others are copied into a buffer of the pool. One call tells the kernel of a whole burst. What
//! it does not take at once stays in the ring, and is offered again a little later.

use crate::os::bpf::Redirect;
use crate::os::xdp::frames::{FrameTx, Kicked};
use crate::{PortCounts, TxHalf, offload};
use buf::{Burst, Flags, Frame};
use clock::{Duration, Instant, tsc};
use stats::Stage;
use std::sync::Arc;
use wire::eth;

/// How soon the kernel is asked again for what it has not taken or not given back.
const SOON: Duration = Duration::from_micros(100);
/// The same while the device is down.
const LATER: Duration = Duration::from_millis(10);

pub(super) struct XdpTx {
    frames: FrameTx,
    counts: Arc<PortCounts>,
    longest: usize,
    /// Buffers on their way home.
    home: Burst,
    /// When to ask again; nothing is held without.
    again: Option<Instant>,
    down: bool,
    _redirect: Arc<Redirect>,
}

/// What is to become of a frame.
enum Fate {
    Send,
    /// From a buffer of ours.
    Copy,
    /// It cannot be sent, and is counted.
    Drop,
}

impl XdpTx {
    pub(super) fn new(frames: FrameTx, counts: Arc<PortCounts>, longest: usize, redirect: Arc<Redirect>) -> XdpTx {
        XdpTx { frames, counts, longest, home: Burst::new(), again: None, down: false, _redirect: redirect }
    }

    /// Brings buffers home that the kernel is done with.
    #[inline]
    fn reclaim(&mut self) {
        while self.frames.away() > 0 && self.frames.reclaim(&mut self.home) > 0 {
            self.home.clear();
        }
    }

    fn judge(&self, frame: &mut Frame) -> Fate {
        let tx = &self.counts.tx;
        if self.frames.is_gone() {
            tx.errors.bump();
            return Fate::Drop;
        }
        if frame.len() > self.longest {
            tx.too_large.bump();
            return Fate::Drop;
        }
        let done = !frame.flags().any(Flags::TX_WORK) || offload::complete(frame).is_some();
        if frame.len() < eth::HEADER_LEN || !done {
            tx.malformed.bump();
            return Fate::Drop;
        }
        if self.frames.accepts(frame) { Fate::Send } else { Fate::Copy }
    }

    /// Puts frames into the ring, up to the first that has no place there.
    fn stage(&mut self, from: &mut Burst) -> usize {
        let (mut taken, mut frames, mut bytes) = (0, 0, 0);
        while let Some(frame) = from.as_mut_slice().first_mut() {
            let fate = self.judge(frame);
            if matches!(fate, Fate::Send | Fate::Copy) && self.frames.room(1) == 0 {
                break;
            }
            let copy = match fate {
                Fate::Copy => {
                    let Some(copy) = self.copy(frame) else { break };
                    Some(copy)
                }
                Fate::Send | Fate::Drop => None,
            };
            let Some(frame) = from.pop() else { break };
            taken += 1;
            if matches!(fate, Fate::Drop) {
                continue;
            }
            let frame = copy.unwrap_or(frame);
            let len = frame.len();
            match self.frames.send(frame) {
                Ok(()) => (frames, bytes) = (frames + 1, bytes + len as u64),
                Err(_) => self.counts.tx.errors.bump(), // its place and its pool were seen to
            }
        }
        self.counts.tx.frames.add(frames);
        self.counts.tx.bytes.add(bytes);
        self.counts.tx.bursts.add(u64::from(taken > 0));
        taken
    }

    /// The same frame in a buffer of our pool; `None` while there is none.
    #[cold]
    fn copy(&self, frame: &Frame) -> Option<Frame> {
        let mut copy = self.frames.pool().get_of(0, frame.len())?;
        copy.bytes_mut().copy_from_slice(frame.bytes());
        self.counts.tx.copied.bump();
        Some(copy)
    }

    fn kick(&mut self, now: Instant) {
        if self.frames.is_gone() {
            self.again = None;
            return;
        }
        let kicked = self.frames.kick();
        self.down = kicked == Kicked::Down;
        let wait = if self.down { LATER } else { SOON };
        self.again = (self.frames.away() > 0 && kicked != Kicked::Gone).then(|| now.after(wait));
    }

    /// The device is down and the ring is full: what comes now ends here, or it would wait for ever.
    #[cold]
    fn refuse(&mut self, from: &mut Burst) -> usize {
        let refused = from.len();
        self.counts.tx.errors.add(refused as u64);
        from.clear();
        refused
    }
}

impl TxHalf for XdpTx {
    fn tx_burst(&mut self, from: &mut Burst, now: Instant) -> usize {
        let ledger = |port: &XdpTx, began, stage, frames: usize| {
            port.counts.ledger.since(began, stage, frames as u64, tsc::ticks)
        };
        let mut began = self.counts.ledger.begin(tsc::ticks);
        let away = self.frames.away();
        self.reclaim();
        began = ledger(self, began, Stage::PortReclaim, away - self.frames.away());
        let mut taken = self.stage(from);
        began = ledger(self, began, Stage::PortFill, taken);
        self.kick(now);
        ledger(self, began, Stage::PortKick, taken);
        if self.down && !from.is_empty() {
            taken += self.refuse(from);
        }
        taken
    }

    fn poll(&mut self, now: Instant) {
        if self.again.is_some_and(|again| again <= now) {
            self.reclaim();
            self.kick(now);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.again
    }

    fn is_gone(&self) -> bool {
        self.frames.is_gone()
    }

    fn why_gone(&self) -> Option<String> {
        self.is_gone().then(|| "the interface is gone".to_string())
    }

    fn held(&self) -> usize {
        self.frames.away()
    }
}
