//! A port's missing offloads, done in software between the host and the port: checksums, and large segments cut up.
//!
//! Frames arrive as a host gives them to its port and leave as the port can send them, in order. What a large segment is cut
//! into, and the port does not take at once, waits here; until it has gone nothing more is taken, so that no more than one
//! large segment is ever under the knife.

use super::gso::Cutter;
use crate::{Caps, PortCounts, TxHalf};
use buf::{Burst, Flags, Frame, Pool};
use clock::{Duration, Instant};
use std::sync::Arc;

/// How soon a port that took nothing is asked again.
const RETRY: Duration = Duration::from_micros(50);

/// What stands in for a port's offloads.
#[derive(Debug)]
pub struct Soft {
    /// What the port does not do.
    missing: Flags,
    pool: Pool,
    counts: Arc<PortCounts>,
    cutting: Option<Cutter>,
    /// Ready for the port, which has not taken it yet.
    ready: Burst,
}

impl Soft {
    /// For a port that can `caps`; pieces of large segments get buffers of `pool`.
    pub fn new(caps: &Caps, pool: Pool, counts: Arc<PortCounts>) -> Soft {
        let mut missing = Flags::TX_WORK;
        for (can, work) in
            [(caps.tx_ip_csum, Flags::TX_IP_CSUM), (caps.tx_l4_csum, Flags::TX_L4_CSUM), (caps.tso_max > 0, Flags::GSO)]
        {
            missing = if can { missing.without(work) } else { missing };
        }
        Soft { missing, pool, counts, cutting: None, ready: Burst::new() }
    }

    /// Is there something to do before the port gets `frames`?
    #[inline(always)]
    pub fn has_work(&self, frames: &[Frame]) -> bool {
        frames.iter().any(|frame| frame.flags().any(self.missing)) || self.is_behind()
    }

    /// Does something wait here?
    #[inline(always)]
    pub fn is_behind(&self) -> bool {
        !self.ready.is_empty() || self.cutting.is_some()
    }

    /// Takes frames from the front of `from` and hands them to the port; says how many were taken.
    #[inline(never)]
    pub fn tx_burst(&mut self, half: &mut dyn TxHalf, from: &mut Burst, now: Instant) -> usize {
        let mut taken = 0;
        while self.poll(half, now) {
            let Some(frame) = from.pop() else { break };
            taken += 1;
            self.take(frame);
            // Those that need nothing go along, as far as the next that does.
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
        }); // the caller has asked for the room
    }

    /// Goes on with what waits; true when nothing does any more.
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

    /// Cuts as many pieces as there is room for.
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
                // The rest is lost, as on any link that is full: TCP sends it again.
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

    /// When to come again for what waits.
    pub fn next_event(&self, now: Instant) -> Option<Instant> {
        self.is_behind().then(|| now.after(RETRY))
    }
}

#[cfg(test)]
mod tests;
