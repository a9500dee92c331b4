//! Ring buffer for a thread's samples: one writer (the signal handler), one reader (the collector).
//!
//! A record is its length followed by its words. A record that does not fit is not written, and the
//! caller counts it. Every word is atomic, so the ring is safe Rust, and a signal handler may write
//! it: no lock, no allocation, no loop longer than the record.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A ring buffer of words. Indices only grow; a word's position is its index modulo the capacity.
#[derive(Debug)]
pub(super) struct Ring {
    words: Box<[AtomicU64]>,
    written: AtomicUsize,
    read: AtomicUsize,
}

impl Ring {
    /// Creates a ring of `words` words, at least one.
    pub fn new(words: usize) -> Ring {
        let words = (0..words.max(1)).map(|_| AtomicU64::new(0)).collect();
        Ring { words, written: AtomicUsize::new(0), read: AtomicUsize::new(0) }
    }

    fn place(&self, index: usize) -> Option<&AtomicU64> {
        self.words.get(index % self.words.len())
    }

    /// Writes a record; returns false if it does not fit. Called by the single writer only.
    pub fn push(&self, record: &[u64]) -> bool {
        let written = self.written.load(Ordering::Relaxed);
        let free = self.words.len() - (written - self.read.load(Ordering::Acquire));
        if record.len() + 1 > free {
            return false;
        }
        for (offset, word) in std::iter::once(record.len() as u64).chain(record.iter().copied()).enumerate() {
            if let Some(place) = self.place(written + offset) {
                place.store(word, Ordering::Relaxed);
            }
        }
        self.written.store(written + record.len() + 1, Ordering::Release);
        true
    }

    /// Moves the oldest record to `into`; returns false if there is none. Called by the single
    /// reader only.
    pub fn pop(&self, into: &mut Vec<u64>) -> bool {
        into.clear();
        let read = self.read.load(Ordering::Relaxed);
        if read == self.written.load(Ordering::Acquire) {
            return false;
        }
        let word = |index| self.place(index).map_or(0, |place| place.load(Ordering::Relaxed));
        let length = word(read) as usize;
        into.extend((1..=length).map(|offset| word(read + offset)));
        self.read.store(read + length + 1, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_stay_in_order_across_the_wrap_and_oversized_ones_are_rejected() {
        let (ring, mut got) = (Ring::new(8), Vec::new());
        assert!(!ring.pop(&mut got));
        for round in 0..20u64 {
            assert!(ring.push(&[round, 1]) && ring.push(&[round, 2, 3]));
            assert!(!ring.push(&[9]), "seven of eight words are used, two are needed");
            assert!(ring.push(&[]), "one is");
            assert!(ring.pop(&mut got) && got == [round, 1]);
            assert!(ring.pop(&mut got) && got == [round, 2, 3]);
            assert!(ring.pop(&mut got) && got.is_empty());
            assert!(!ring.pop(&mut got));
        }
        assert!(!ring.push(&[0; 8]), "larger than the ring");
    }

    #[test]
    fn one_thread_writes_while_another_reads() {
        let ring = Ring::new(64);
        let (mut sum, mut refused) = (0u64, 0u64);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                (1..=20_000u64).filter(|n| !ring.push(&[*n, n ^ 0xff, 7][..1 + (*n % 3) as usize])).sum::<u64>()
            });
            let mut record = Vec::new();
            let mut done = false;
            while !done {
                // read first, so that everything written before is popped below
                done = writer.is_finished();
                while ring.pop(&mut record) {
                    assert_eq!(record.len() as u64, 1 + record[0] % 3);
                    assert!(record.get(1).is_none_or(|word| *word == record[0] ^ 0xff));
                    sum += record[0];
                }
            }
            refused = writer.join().unwrap();
        });
        assert_eq!(sum + refused, 20_000 * 20_001 / 2);
    }
}
