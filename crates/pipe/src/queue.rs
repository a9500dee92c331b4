//! Bounded queue of frames that wait for their time, in order.

use crate::{About, Frames, Time};
use clock::Instant;
use port::pcap::Section;
use std::collections::VecDeque;
use std::sync::Arc;

/// Behavior when the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Full {
    /// Stop reading the input until there is space. The program that writes the input then blocks.
    #[default]
    Wait,
    /// Drop new frames and count them.
    Drop,
}

/// Limit of the size of a queue.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Maximum memory of the queued frames, in bytes.
    pub bytes: usize,
    /// Behavior when the maximum is reached.
    pub full: Full,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { bytes: 64 << 20, full: Full::Wait }
    }
}

/// Approximate memory overhead per frame in bytes.
const EACH: usize = 64;

#[derive(Debug)]
struct Waiting {
    due: Instant,
    frame: Box<[u8]>,
    wire_len: usize,
    time: Time,
    about: About,
}

#[derive(Debug)]
pub struct Queue {
    waiting: VecDeque<Waiting>,
    section: Option<Arc<Section>>,
    bytes: usize,
    limit: Limit,
    passed: u64,
    dropped: u64,
    left: u64,
}

impl Queue {
    pub fn new(limit: Limit) -> Queue {
        Queue { waiting: VecDeque::new(), section: None, bytes: 0, limit, passed: 0, dropped: 0, left: 0 }
    }

    /// Appends a copy of the frame at `index` of `frames`, to be sent at `due`. Returns false if
    /// the frame was dropped, because the queue is full and configured as [`Full::Drop`].
    pub fn push(&mut self, frames: &Frames, index: usize, due: Instant) -> bool {
        let Some((frame, time)) = frames.get(index) else { return false };
        if self.limit.full == Full::Drop && self.bytes + frame.len() + EACH > self.limit.bytes {
            self.dropped += 1;
            return false;
        }
        self.bytes += frame.len() + EACH;
        if index == 0 && frames.section().is_some() {
            self.section = frames.section().cloned();
        }
        let (about, wire_len) = (frames.about(index).clone(), frames.wire_len(index));
        self.waiting.push_back(Waiting { due, frame: frame.into(), wire_len, time, about });
        true
    }

    /// Returns the due time of the first frame, and its original length in bytes.
    pub fn first(&self) -> Option<(Instant, usize)> {
        self.waiting.front().map(|first| (first.due, first.wire_len))
    }

    /// Moves the first frame to the end of `frames`.
    pub fn pop(&mut self, frames: &mut Frames) {
        frames.describe(self.section.as_ref());
        if let Some(Waiting { frame, time, about, .. }) = self.waiting.pop_front() {
            self.bytes -= frame.len() + EACH;
            self.passed += 1;
            frames.push_about(&frame, time, &about);
        }
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_full(&self) -> bool {
        self.limit.full == Full::Wait && self.bytes >= self.limit.bytes
    }

    /// Removes the waiting frames when the program is stopped, and counts them as left over.
    pub fn clear(&mut self) {
        self.left += self.waiting.len() as u64;
        self.waiting.clear();
        self.bytes = 0;
    }

    /// Returns a report, which begins with the name `stage`, if frames were dropped or left over.
    pub fn report(&self, stage: &str) -> Option<String> {
        let Queue { passed, dropped, left, .. } = self;
        (dropped + left > 0).then(|| {
            format!("{stage}: {passed} frames passed, {dropped} dropped (queue full), {left} still queued at the end")
        })
    }
}
