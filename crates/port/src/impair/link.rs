//! One direction of an impaired link: frames enter it, and leave it at their due time or are
//! dropped.

use crate::offload;
use crate::spec::Percent;
use buf::{Flags, Frame};
use clock::{Duration, Instant, Random};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Parameters of the impairment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Impairment {
    /// Share of frames lost.
    pub loss: Percent,
    /// Share of frames that are duplicated.
    pub dup: Percent,
    /// Share of frames with one bit flipped after their checksums are filled in.
    pub corrupt: Percent,
    /// Share of frames that skip the delay and so overtake earlier frames, by at most `delay`. If
    /// `delay` is zero, no frame overtakes another.
    pub reorder: Percent,
    /// Minimum distance between reordered frames: only every `gap`-th frame may overtake others.
    pub gap: u64,
    /// Delay of every frame.
    pub delay: Duration,
    /// Largest random deviation from `delay`, added or subtracted, uniformly distributed. Jitter
    /// never reorders frames.
    pub jitter: Duration,
    /// Rate limit in bits per second, in which preamble and FCS are not counted; 0 if there is no
    /// limit.
    pub rate: u64,
    /// Maximum number of frames in the link's queue.
    pub limit: usize,
    /// Seed of the pseudo-random numbers.
    pub seed: u64,
}

impl Default for Impairment {
    /// Returns the parameters of a link that passes every frame unchanged and without delay.
    fn default() -> Impairment {
        Impairment {
            loss: Percent::ZERO,
            dup: Percent::ZERO,
            corrupt: Percent::ZERO,
            reorder: Percent::ZERO,
            gap: 1,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate: 0,
            limit: 1000,
            seed: 1,
        }
    }
}

/// Outcome of the frames that entered the link, as increments for the port's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Noted {
    /// Frames that entered the queue.
    pub entered: u64,
    /// Frames lost on purpose.
    pub lost: u64,
    /// Frames lost because the queue was full.
    pub queue_full: u64,
    /// Duplicates created.
    pub duplicated: u64,
    /// Frames corrupted.
    pub corrupted: u64,
    /// Frames that skipped the delay to overtake earlier frames.
    pub reordered: u64,
}

/// A queue that applies an [`Impairment`] to frames.
#[derive(Debug)]
pub struct Link {
    how: Impairment,
    random: Random,
    heap: BinaryHeap<Reverse<Held>>,
    /// Number of the next frame, which keeps frames that are due at the same instant in order.
    seq: u64,
    /// Frames since the last one that skipped the delay.
    since_reorder: u64,
    /// Due time of the last frame that did not skip the delay. Later frames that do not skip it are
    /// never due earlier.
    last: Instant,
    /// End of the transmission of the last frame under the rate limit, in units of 1/`rate` ns. In
    /// this unit every transmission time is a whole number, so rounding errors do not add up.
    busy_until: u128,
}

#[derive(Debug)]
struct Held {
    due: Instant,
    seq: u64,
    frame: Frame,
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        (self.due, self.seq).cmp(&(other.due, other.seq))
    }
}

impl Link {
    /// Creates an empty link.
    pub fn new(how: &Impairment) -> Link {
        Link {
            how: how.clone(),
            random: Random::new(how.seed),
            heap: BinaryHeap::new(),
            seq: 0,
            since_reorder: 0,
            last: Instant::ZERO,
            busy_until: 0,
        }
    }

    /// Returns the number of frames held.
    pub fn held(&self) -> usize {
        self.heap.len()
    }

    /// Returns the time at which the next frame leaves; `None` if the link is empty.
    pub fn next_event(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(held)| held.due)
    }

    /// Removes and returns a frame that is due.
    pub fn leave(&mut self, now: Instant) -> Option<Frame> {
        self.next_event().filter(|due| *due <= now)?;
        self.heap.pop().map(|Reverse(held)| held.frame)
    }

    /// Passes a frame through loss, duplication and corruption, then queues it.
    pub fn enter(&mut self, mut frame: Frame, now: Instant, noted: &mut Noted) {
        if self.happens(self.how.loss) {
            noted.lost += 1;
            return;
        }
        // If no buffer is free, no duplicate is created, and none is counted.
        if self.happens(self.how.dup)
            && let Some(twin) = frame.try_clone()
        {
            noted.duplicated += 1;
            self.hold(twin, now, noted);
        }
        if self.happens(self.how.corrupt) && !self.damage(&mut frame, noted) {
            noted.lost += 1;
            return;
        }
        self.hold(frame, now, noted);
    }

    /// Flips one bit of a frame after its checksums are complete. Checksums left to the port are
    /// filled in first, as in Linux's netem; otherwise they would be computed over the damaged
    /// bytes. Clears the flags of verified checksums. Returns `false` if the checksums cannot be
    /// computed; the frame is then lost. If no buffer is free for a private copy, the frame stays
    /// unchanged.
    fn damage(&mut self, frame: &mut Frame, noted: &mut Noted) -> bool {
        let at = self.random.below(frame.len() as u64 * 8);
        if !frame.make_own() {
            return true;
        }
        if frame.flags().has(Flags::GSO) || offload::complete(frame).is_none() {
            return false;
        }
        frame.set_flags(frame.flags().without(Flags::RX_IP_OK).without(Flags::RX_L4_OK));
        if let Some(byte) = frame.bytes_mut().get_mut((at / 8) as usize) {
            *byte ^= 1 << (at % 8);
            noted.corrupted += 1;
        }
        true
    }

    fn hold(&mut self, frame: Frame, now: Instant, noted: &mut Noted) {
        if self.heap.len() >= self.how.limit {
            noted.queue_full += 1;
            return;
        }
        let sent = self.transmit(frame.len(), now);
        self.since_reorder += 1;
        let due = if self.since_reorder >= self.how.gap && self.happens(self.how.reorder) {
            self.since_reorder = 0;
            noted.reordered += 1;
            sent
        } else {
            self.last = self.last.max(self.delayed(sent));
            self.last
        };
        self.seq += 1;
        noted.entered += 1;
        self.heap.push(Reverse(Held { due, seq: self.seq, frame }));
    }

    /// Schedules the transmission of `len` bytes under the rate limit. Returns the time at which
    /// the frame's last bit has been sent.
    fn transmit(&mut self, len: usize, now: Instant) -> Instant {
        if self.how.rate == 0 {
            return now;
        }
        let rate = u128::from(self.how.rate);
        let start = self.busy_until.max(u128::from(now.nanos()) * rate);
        self.busy_until = start + len as u128 * 8 * 1_000_000_000;
        Instant::from_nanos(u64::try_from(self.busy_until.div_ceil(rate)).unwrap_or(u64::MAX))
    }

    fn delayed(&mut self, sent: Instant) -> Instant {
        if self.how.jitter.is_zero() {
            return sent.after(self.how.delay);
        }
        let jitter = u64::try_from(self.how.jitter.as_nanos()).unwrap_or(u64::MAX);
        let by = Duration::from_nanos(self.random.below(jitter.saturating_mul(2).saturating_add(1)));
        sent.after(self.how.delay.saturating_add(by).saturating_sub(Duration::from_nanos(jitter)))
    }

    /// Returns whether a random event with this probability occurs. Draws no random number if the
    /// probability is zero.
    fn happens(&mut self, chance: Percent) -> bool {
        chance != Percent::ZERO && chance.happens(self.random.bits())
    }
}
