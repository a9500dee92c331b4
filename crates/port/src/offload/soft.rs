//! Software fallback for offloads that a port lacks: computing checksums and splitting large
//! segments.
//!
//! The host passes frames as if the port had all offloads. They are passed to the port in the same
//! order, in a form that the port can send. Pieces of a large segment that the port does not accept
//! at once wait here. Until they are sent, no more frames are accepted, so at most one large
//! segment is being split at any time.

use super::gso::Cutter;
use crate::{Caps, PortCounts, TxHalf};
use buf::{Burst, Flags, Frame, Pool};
use clock::{Duration, Instant};
use std::sync::Arc;

/// Time before frames are offered again to a port that accepted none.
const RETRY: Duration = Duration::from_micros(50);

/// Software offloads for one port.
#[derive(Debug)]
pub struct Soft {
    /// Flags of the offloads that the port lacks.
    missing: Flags,
    pool: Pool,
    counts: Arc<PortCounts>,
    cutting: Option<Cutter>,
    /// Frames that are ready but that the port has not accepted yet.
    ready: Burst,
}

impl Soft {
    /// Creates the fallback for a port with the capabilities `caps`; pieces of large segments use
    /// buffers of `pool`.
    pub fn new(caps: &Caps, pool: Pool, counts: Arc<PortCounts>) -> Soft {
        let mut missing = Flags::TX_WORK;
        for (can, work) in
            [(caps.tx_ip_csum, Flags::TX_IP_CSUM), (caps.tx_l4_csum, Flags::TX_L4_CSUM), (caps.tso_max > 0, Flags::GSO)]
        {
            missing = if can { missing.without(work) } else { missing };
        }
        Soft { missing, pool, counts, cutting: None, ready: Burst::new() }
    }

    /// Returns whether `frames` need software offloads before the port can send them, or whether
    /// earlier frames are waiting.
    #[inline(always)]
    pub fn has_work(&self, frames: &[Frame]) -> bool {
        frames.iter().any(|frame| frame.flags().any(self.missing)) || self.is_behind()
    }

    /// Returns whether frames or pieces of a large segment are waiting here.
    #[inline(always)]
    pub fn is_behind(&self) -> bool {
        !self.ready.is_empty() || self.cutting.is_some()
    }

    /// Takes frames from the front of `from`, performs their offloads and passes them to the port.
    /// Returns the number of frames taken.
    #[inline(never)]
    pub fn tx_burst(&mut self, half: &mut dyn TxHalf, from: &mut Burst, now: Instant) -> usize {
        let mut taken = 0;
        while self.poll(half, now) {
            let Some(frame) = from.pop() else { break };
            taken += 1;
            self.take(frame);
            // Takes further frames too, up to the next large segment.
            while self.cutting.is_none() && self.ready.room() > 0 {
                let Some(frame) = from.pop() else { break };
                taken += 1;
                self.take(frame);
            }
        }
        taken
    }

    fn take(&mut self, mut frame: Frame) {
        let work = frame.flags();
        if work.has(Flags::GSO) && self.missing.has(Flags::GSO) {
            match Cutter::new(frame) {
                Ok(cutter) => {
                    self.counts.tx.segmented.bump();
                    self.cutting = Some(cutter);
                }
                Err(_) => self.counts.tx.malformed.bump(),
            }
            return;
        }
        let open = work.any(Flags::TX_IP_CSUM.with(Flags::TX_L4_CSUM)) && work.any(self.missing);
        if open && super::complete(&mut frame).is_none() {
            return self.counts.tx.malformed.bump();
        }
        self.counts.tx.held.add(1);
        let tx = &self.counts.tx;
        self.ready.put(frame, || {
            tx.held.sub(1);
            tx.bugs.bump();
        }); // the caller has checked the free slots
    }

    /// Passes waiting frames to the port. Returns true if none are left.
    pub fn poll(&mut self, half: &mut dyn TxHalf, now: Instant) -> bool {
        loop {
            self.cut();
            if self.ready.is_empty() {
                return self.cutting.is_none();
            }
            let taken = half.tx_burst(&mut self.ready, now);
            self.counts.tx.held.sub(taken as u64);
            if !self.ready.is_empty() {
                return false;
            }
        }
    }

    /// Splits as many pieces off the pending large segment as `ready` has free slots.
    fn cut(&mut self) {
        let tx = &self.counts.tx;
        while let Some(cutter) = &mut self.cutting
            && self.ready.room() > 0
        {
            match cutter.cut(&self.pool) {
                Some(piece) => {
                    tx.segments.bump();
                    tx.held.add(1);
                    self.ready.put(piece, || {
                        tx.held.sub(1);
                        tx.bugs.bump();
                    });
                }
                // The rest of the segment is lost, as on a congested link: TCP retransmits it.
                None => {
                    tx.no_buffer.bump();
                    self.cutting = None;
                    return;
                }
            }
            if cutter.is_done() {
                self.cutting = None;
            }
        }
    }

    /// Returns the time at which waiting frames are passed to the port again; `None` if none are
    /// waiting.
    pub fn next_event(&self, now: Instant) -> Option<Instant> {
        self.is_behind().then(|| now.after(RETRY))
    }
}

#[cfg(test)]
mod tests;
