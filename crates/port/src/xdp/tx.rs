//! The transmitting half: sends frames to the device.
//!
//! Frames of the port's own pool are sent without a copy. The kernel owns their buffers until they
//! are sent; the buffers are freed with the next burst or poll. Other frames are copied into
//! buffers of the port's pool. One call notifies the kernel of a whole burst. Frames that the
//! kernel does not take at once stay in the ring, and the port notifies the kernel again a little
//! later.

use crate::os::bpf::Redirect;
use crate::os::xdp::frames::{FrameTx, Kicked, More};
use crate::{PortCounts, TxHalf, offload};
use buf::{Burst, Flags, Frame};
use clock::{Duration, Instant, tsc};
use stats::Stage;
use std::sync::Arc;
use wire::eth;

/// Time before the kernel is notified again of frames that it has not taken, or of buffers that it
/// has not returned.
const SOON: Duration = Duration::from_micros(100);
/// Time before the kernel is notified again while the device is down.
const LATER: Duration = Duration::from_millis(10);
/// Maximum number of buffers for one frame: the kernel's default `MAX_SKB_FRAGS`.
const PARTS_MAX: usize = 17;

pub(super) struct XdpTx {
    frames: FrameTx,
    counts: Arc<PortCounts>,
    longest: usize,
    /// Buffers of sent frames, collected so that they are freed together.
    home: Burst,
    /// Time at which the kernel is notified again; `None` if no frame is held.
    again: Option<Instant>,
    down: bool,
    _redirect: Arc<Redirect>,
}

/// Decision on how a frame is sent, or that it is dropped.
enum Fate {
    Send,
    /// The frame is sent as a copy, in this number of buffers of the port's pool.
    Copy(usize),
    /// The frame is not sent, but dropped and counted.
    Drop,
}

impl XdpTx {
    pub(super) fn new(frames: FrameTx, counts: Arc<PortCounts>, longest: usize, redirect: Arc<Redirect>) -> XdpTx {
        XdpTx { frames, counts, longest, home: Burst::new(), again: None, down: false, _redirect: redirect }
    }

    /// Frees the buffers that the kernel has completed.
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
        if self.frames.accepts(frame) {
            return Fate::Send;
        }
        let parts = frame.len().div_ceil(self.frames.part());
        if parts > PARTS_MAX {
            tx.too_large.bump();
            return Fate::Drop;
        }
        Fate::Copy(parts)
    }

    /// Puts frames into the ring, up to the first frame that does not fit.
    fn stage(&mut self, from: &mut Burst) -> usize {
        let (mut taken, mut frames, mut bytes) = (0, 0, 0);
        while let Some(frame) = from.as_mut_slice().first_mut() {
            let len = frame.len();
            let sent = match self.judge(frame) {
                Fate::Drop => false,
                Fate::Copy(parts) => {
                    if self.frames.room(parts) < parts {
                        break;
                    }
                    let Some(sent) = self.send_copy(from.as_slice(), parts) else { break };
                    sent
                }
                Fate::Send => {
                    if self.frames.room(1) == 0 {
                        break;
                    }
                    let Some(frame) = from.pop() else { break };
                    taken += 1;
                    // The push cannot fail, because the caller has checked the free entries of the
                    // ring, and `judge` the pool.
                    let sent = self.frames.send(frame, More::No).is_ok();
                    self.counts.tx.errors.add(u64::from(!sent));
                    (frames, bytes) = (frames + u64::from(sent), bytes + if sent { len as u64 } else { 0 });
                    continue;
                }
            };
            drop(from.pop());
            taken += 1;
            (frames, bytes) = (frames + u64::from(sent), bytes + if sent { len as u64 } else { 0 });
        }
        self.counts.tx.frames.add(frames);
        self.counts.tx.bytes.add(bytes);
        self.counts.tx.bursts.add(u64::from(taken > 0));
        taken
    }

    /// Sends a copy of the first frame of `frames`, in `parts` buffers of the port's pool. Returns
    /// whether the copy could be sent; `None` if not enough buffers are free.
    #[cold]
    fn send_copy(&mut self, frames: &[Frame], parts: usize) -> Option<bool> {
        let frame = frames.first()?;
        let (part, mut copies) = (self.frames.part(), Burst::new());
        if self.frames.pool().get_burst(parts, &mut copies) < parts {
            return None;
        }
        let mut rest = frame.bytes();
        while let Some(mut copy) = copies.pop() {
            let (now, later) = rest.split_at_checked(part).unwrap_or((rest, &[]));
            rest = later;
            let more = if rest.is_empty() { More::No } else { More::Yes };
            // The data fits into a buffer, and the ring has free entries for all parts. After an
            // error the rest is not sent, because a frame with a missing part would continue into
            // the next frame.
            if copy.extend(now).is_none() || self.frames.send(copy, more).is_err() {
                self.counts.tx.errors.bump();
                return Some(false);
            }
        }
        self.counts.tx.copied.bump();
        Some(true)
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

    /// Drops all frames of `from`. Called when the device is down and the ring is full, because the
    /// frames would otherwise wait forever.
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
