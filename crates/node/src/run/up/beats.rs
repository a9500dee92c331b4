//! Numbers of rounds, by which the main thread sees that all threads run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of rounds of a thread that has ended.
const ENDED: u64 = u64::MAX;

/// Counters of the rounds of all threads.
#[derive(Default)]
pub(super) struct Beats(Mutex<Vec<Arc<AtomicU64>>>);

/// Counter of the rounds of a thread. Dropping it ends the counting.
pub(super) struct Beat(Arc<AtomicU64>);

/// Values of all counters at an earlier time.
#[derive(Default)]
pub(super) struct Seen(Vec<u64>);

impl Beats {
    /// Returns the counter for another thread.
    pub(super) fn add(&self) -> Beat {
        let beat = Arc::new(AtomicU64::new(0));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(beat.clone());
        Beat(beat)
    }
}

impl Beat {
    /// Counts a round.
    pub(super) fn note(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.0.store(ENDED, Ordering::Relaxed);
    }
}

impl Seen {
    /// Returns whether each thread that has not ended has run a round since this function last
    /// returned true.
    pub(super) fn have_all_run(&mut self, beats: &Beats) -> bool {
        let beats = beats.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now: Vec<u64> = beats.iter().map(|beat| beat.load(Ordering::Relaxed)).collect();
        let have_all = now.iter().enumerate().all(|(at, now)| *now == ENDED || self.0.get(at) != Some(now));
        if have_all {
            self.0 = now;
        }
        have_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_stands_still_is_seen() {
        let (beats, mut seen) = (Beats::default(), Seen::default());
        let (one, other) = (beats.add(), beats.add());
        assert!(seen.have_all_run(&beats));
        one.note();
        assert!(!seen.have_all_run(&beats), "the other one has not run");
        other.note();
        assert!(seen.have_all_run(&beats));
        assert!(!seen.have_all_run(&beats));
        drop(other);
        one.note();
        assert!(seen.have_all_run(&beats), "the other one has ended");
    }
}
