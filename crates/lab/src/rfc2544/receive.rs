//! Counts received frames: each test frame once, and all other frames separately.
//!
//! The numbers of received frames are bits of a window that ends at the highest number. A frame
//! with a number that has left the window cannot be distinguished from a duplicate, and is counted
//! as lost.

use super::frames::Tag;
use clock::Instant;

/// Maximum distance of a frame from the highest number at which it is still recognized: 128 KiB of
/// bits.
const WINDOW: u64 = 1 << 20;

/// Counts of the frames received at a port during a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Came {
    /// Number of distinct test frames of this trial.
    pub frames: u64,
    /// Frames counted in `frames` that arrived after a frame that was sent later (RFC 4737 3).
    pub reordered: u64,
    /// Test frames of this trial that had been received before.
    pub duplicates: u64,
    /// Test frames too late to be distinguished from duplicates; not in `frames`.
    pub behind: u64,
    /// Number of test frames of earlier trials.
    pub stale: u64,
    /// All other frames: not ours, damaged, or with a number that was never sent.
    pub others: u64,
}

/// Latencies in nanoseconds: minimum and maximum of all frames; median and 99th percentile of an
/// evenly spaced subset of the frames.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Latencies {
    /// Number of frames whose latency was measured.
    pub count: u64,
    min: u64,
    max: u64,
    /// Interval of the frame numbers for which latencies are kept: the latency of a frame is kept
    /// if its number is a multiple of this.
    every: u32,
    kept: Vec<u64>,
}

/// Maximum number of latencies that are kept in a trial; they take 8 MiB.
const KEPT_MAX: u64 = 1 << 20;

impl Latencies {
    /// Prepares for a trial of about `expected` frames.
    pub fn new(expected: u64) -> Latencies {
        let every = u32::try_from(expected.div_ceil(KEPT_MAX)).unwrap_or(u32::MAX).max(1);
        Latencies { every, min: u64::MAX, ..Latencies::default() }
    }

    #[inline]
    fn add(&mut self, number: u32, ns: u64) {
        self.count += 1;
        (self.min, self.max) = (self.min.min(ns), self.max.max(ns));
        if number.is_multiple_of(self.every.max(1)) && (self.kept.len() as u64) < KEPT_MAX {
            self.kept.push(ns);
        }
    }

    /// Returns minimum, median, 99th percentile (nearest rank) and maximum; `None` if no frame
    /// arrived.
    pub fn figures(&mut self) -> Option<[u64; 4]> {
        self.kept.sort_unstable();
        let rank = |percent: usize| self.kept.get((self.kept.len() * percent).div_ceil(100).max(1) - 1).copied();
        Some([self.min, rank(50)?, rank(99)?, self.max])
    }
}

/// Receiver of one direction of a trial.
#[derive(Debug)]
pub struct Receiver {
    trial: u16,
    seen: Box<[u64]>,
    /// One more than the highest number received.
    next: u64,
    /// Counts of the frames received.
    pub came: Came,
    /// Latencies, if they were requested.
    pub latencies: Option<Latencies>,
}

impl Receiver {
    /// Creates a receiver that has received no frames.
    pub fn new(trial: u16, latencies: Option<Latencies>) -> Receiver {
        let seen = vec![0; (WINDOW / 64) as usize].into();
        Receiver { trial, seen, next: 0, came: Came::default(), latencies }
    }

    /// Processes a test frame received at `now`; `sent` is the number of test frames sent so far.
    #[inline]
    pub fn input(&mut self, tag: Tag, sent: u64, now: Instant) {
        let number = u64::from(tag.number);
        if tag.trial != self.trial {
            self.came.stale += 1;
        } else if number >= sent {
            self.came.others += 1;
        } else if number >= self.next {
            let gap = self.next.max((number + 1).saturating_sub(WINDOW))..number;
            gap.for_each(|missing| _ = self.mark(missing, Mark::Clear));
            self.mark(number, Mark::Set);
            self.next = number + 1;
            self.accept(tag, now);
        } else if self.next - number > WINDOW {
            self.came.behind += 1;
        } else if self.mark(number, Mark::Set) {
            self.came.duplicates += 1;
        } else {
            self.came.reordered += 1;
            self.accept(tag, now);
        }
    }

    #[inline]
    fn accept(&mut self, tag: Tag, now: Instant) {
        self.came.frames += 1;
        if let Some(latencies) = &mut self.latencies {
            latencies.add(tag.number, now.since(tag.at).as_nanos() as u64);
        }
    }

    /// Sets or clears a number's bit; returns whether it was set.
    #[inline]
    fn mark(&mut self, number: u64, mark: Mark) -> bool {
        let at = number % WINDOW;
        let Some(word) = self.seen.get_mut((at / 64) as usize) else { return false };
        let bit = 1 << (at % 64);
        let was = *word & bit != 0;
        match mark {
            Mark::Set => *word |= bit,
            Mark::Clear => *word &= !bit,
        }
        was
    }
}

#[derive(Clone, Copy)]
enum Mark {
    Set,
    Clear,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(numbers: &[u32]) -> Came {
        let mut receiver = Receiver::new(1, None);
        for number in numbers {
            receiver.input(Tag { trial: 1, number: *number, at: Instant::ZERO }, 5_000_000, Instant::ZERO);
        }
        receiver.came
    }

    #[test]
    fn each_frame_counts_once_in_any_order() {
        let came = receiver(&[0, 1, 3, 2, 3, 5, 4, 0]);
        assert_eq!(came, Came { frames: 6, reordered: 2, duplicates: 2, ..Came::default() });
    }

    #[test]
    fn the_window_wraps() {
        let window = WINDOW as u32;
        let came = receiver(&[0, 1, window, 2, 0, window + 1, 2 * window, window + 2, window]);
        let [frames, reordered, duplicates, behind] = [7, 2, 0, 2];
        assert_eq!(came, Came { frames, reordered, duplicates, behind, ..Came::default() });
        let all: Vec<u32> = (0..2 * window).chain([window + 5]).collect();
        assert_eq!(receiver(&all), Came { frames: 2 * u64::from(window), duplicates: 1, ..Came::default() });
    }

    #[test]
    fn frames_of_other_trials_or_never_sent_are_not_counted() {
        let mut receiver = Receiver::new(1, Some(Latencies::new(10)));
        let tag = |trial, number| Tag { trial, number, at: Instant::ZERO };
        receiver.input(tag(0, 0), 4, Instant::ZERO);
        receiver.input(tag(1, 4), 4, Instant::ZERO);
        receiver.input(tag(1, 3), 4, Instant::from_micros(2));
        assert_eq!(receiver.came, Came { frames: 1, stale: 1, others: 1, ..Came::default() });
        assert_eq!(receiver.latencies.unwrap().figures(), Some([2000; 4]));
    }

    #[test]
    fn latencies_are_sampled_but_extremes_are_kept() {
        let mut latencies = Latencies::new(4 << 20);
        (0..4 << 20).for_each(|n: u32| latencies.add(n, 10 + u64::from(n == 5) * 90));
        assert_eq!((latencies.kept.len(), latencies.figures()), (1 << 20, Some([10, 10, 10, 100])));
        assert_eq!(Latencies::new(1).figures(), None);
    }
}
