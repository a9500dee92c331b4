//! A source of frames, each a copy of the template with the varying fields changed.

use super::source::Source;
use super::template::template;
use super::vary::Vary;
use crate::{PortCounts, RxHalf};
use buf::{Burst, Flags, Pool};
use clock::{Duration, Instant};
use std::sync::Arc;

/// The receiving half of the port.
pub(super) struct Generator<V> {
    source: Source,
    variety: V,
    pool: Pool,
    counts: Arc<PortCounts>,
    template: Box<[u8]>,
    made: u64,
    started: Option<Instant>,
}

impl<V: Vary> Generator<V> {
    pub(super) fn new(source: Source, pool: Pool, counts: Arc<PortCounts>) -> Generator<V> {
        let template = template(&source);
        let variety = V::new(&source, &template);
        Generator { source, variety, pool, counts, template, made: 0, started: None }
    }

    /// Returns the number of frames to create now according to the configured rate, at most `most`.
    fn due(&mut self, most: usize, now: Instant) -> usize {
        let left = if self.source.count == 0 { u64::MAX } else { self.source.count - self.made };
        let paced = if self.source.rate == 0 {
            u64::MAX
        } else {
            let since = now.since(*self.started.get_or_insert(now));
            let by_now = (since.as_nanos() * u128::from(self.source.rate) / 1_000_000_000) as u64 + 1;
            by_now.saturating_sub(self.made)
        };
        left.min(paced).min(most as u64) as usize
    }
}

impl<V: Vary> RxHalf for Generator<V> {
    #[inline]
    fn rx_burst(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize {
        let due = self.due(most.min(into.room()), now);
        let (before, len) = (into.len(), self.template.len());
        if self.pool.headroom() + len > self.pool.size() {
            self.counts.rx.malformed.bump();
            return 0;
        }
        let frames = self.pool.get_burst_of(due, len, into);
        if frames < due {
            self.counts.rx.no_buffer.bump();
        }
        let made = into.as_mut_slice().get_mut(before..).unwrap_or_default();
        self.variety.make(made, &self.template);
        if self.source.rx_csum {
            for frame in made {
                frame.set_flags(frame.flags().with(Flags::RX_IP_OK).with(Flags::RX_L4_OK));
            }
        }
        self.made += frames as u64;
        self.counts.rx.frames.add(frames as u64);
        self.counts.rx.bytes.add((frames * len) as u64);
        self.counts.rx.idle.add(u64::from(frames == 0));
        frames
    }

    fn next_event(&self) -> Option<Instant> {
        if self.source.rate == 0 || self.is_gone() {
            return None;
        }
        let ns = u128::from(self.made) * 1_000_000_000 / u128::from(self.source.rate);
        Some(self.started?.after(Duration::from_nanos(ns as u64)))
    }

    fn is_gone(&self) -> bool {
        self.source.count != 0 && self.made >= self.source.count
    }
}
