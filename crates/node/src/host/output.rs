//! Output of a stack to the transmit half of a port.

use crate::capture::{PortPolicy, Watch};
use buf::{Burst, Frame};
use clock::Instant;
use inet::iface::Output;
use port::offload::soft::Soft;
use port::pcap::Direction;
use port::{PortCounts, TxHalf};
use std::sync::Arc;

/// Transmit half of a port, as an output of the stack.
pub(super) struct PortOutput {
    pub(super) half: Box<dyn TxHalf>,
    /// Performs in software the offloads that the port does not support.
    pub(super) soft: Soft,
    pub(super) watch: Arc<Watch>,
    pub(super) counts: Arc<PortCounts>,
    /// (generation of the policy, number of frames at the front of the queue that the policy of
    /// this generation has already admitted). These frames are still queued because the port was
    /// full.
    pub(super) admitted: (u64, usize),
}

impl Output for PortOutput {
    #[inline]
    fn output(&mut self, burst: &mut Burst, now: Instant) -> usize {
        if self.watch.is_on() {
            return self.output_watched(burst, now);
        }
        self.transmit(burst, now)
    }

    #[inline]
    fn output_one(&mut self, frame: Frame, now: Instant) -> Result<(), Frame> {
        if self.watch.is_on() {
            let mut burst = Burst::of(frame);
            self.output_watched(&mut burst, now);
            return burst.pop().map_or(Ok(()), Err);
        }
        self.transmit_one(frame, now)
    }

    fn next_event(&self) -> Option<Instant> {
        if self.soft.is_behind() { Some(Instant::ZERO) } else { self.half.next_event() }
    }

    fn poll(&mut self, now: Instant) -> Option<Instant> {
        if self.soft.is_behind() {
            self.soft.poll(self.half.as_mut(), now);
        }
        self.half.poll(now);
        [self.soft.next_event(now), self.half.next_event()].into_iter().flatten().min()
    }
}

impl PortOutput {
    #[inline(always)]
    fn transmit(&mut self, burst: &mut Burst, now: Instant) -> usize {
        if self.soft.has_work(burst.as_slice()) {
            return self.soft.tx_burst(self.half.as_mut(), burst, now);
        }
        self.half.tx_burst(burst, now)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn transmit_one(&mut self, frame: Frame, now: Instant) -> Result<(), Frame> {
        if self.soft.has_work(std::slice::from_ref(&frame)) {
            let mut burst = Burst::of(frame);
            self.soft.tx_burst(self.half.as_mut(), &mut burst, now);
            return burst.pop().map_or(Ok(()), Err);
        }
        self.half.tx_one(frame, now)
    }

    #[cold]
    fn output_watched(&mut self, burst: &mut Burst, now: Instant) -> usize {
        let PortPolicy { policy, generation } = self.watch.policy();
        let judged = if self.admitted.0 == generation { self.admitted.1 } else { 0 };
        let rejected = policy.map_or(0, |policy| policy.limit(burst, judged, now));
        self.counts.tx.over_quota.add(rejected as u64);
        let copies = self.watch.copy(burst.as_slice());
        let taken = self.transmit(burst, now);
        self.admitted = (generation, burst.len());
        self.watch.keep(copies.into_iter().take(taken), Direction::Outbound, now);
        rejected + taken
    }
}
