//! Stage of a pipeline that keeps the frames selected by a criterion.

use super::fields::Terms;
use super::front::Front;
use super::lines;
use super::matcher::Matcher;
use crate::stage::{BadLink, Stage, StageError};
use crate::{FrameMut, Frames, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::filter::Filter;
use wire::text::{self, Kind, MAX_LINE, MIN_FRAME, SLACK};

/// Selection criterion for frames of any format.
#[derive(Debug, Clone)]
pub enum Judge {
    /// Selects a frame if the line that represents it matches.
    Line(Arc<Matcher>),
    /// Lists of terms. A frame is selected if its fields fulfill all terms of at least one list.
    Fields(Arc<Vec<Terms>>),
    /// A filter expression in the syntax of tcpdump(1).
    Filter(Arc<Filter>),
}

/// Stage that keeps the frames that a [`Judge`] selects.
#[derive(Debug)]
pub struct Grep {
    judge: Judge,
    invert: bool,
    line: Vec<u8>,
    kind: Kind,
    /// Number of frames selected by all copies of the stage together. `most` is the maximum number.
    selected: Arc<AtomicU64>,
    most: Option<u64>,
}

impl Grep {
    /// Creates a stage that keeps the frames that `judge` selects or, with `invert`, the frames
    /// that it does not select. At most `most` frames are kept.
    pub fn new(judge: Judge, invert: bool, most: Option<u64>) -> Grep {
        let line = vec![0; MAX_LINE + SLACK];
        Grep { judge, invert, line, kind: Kind::best(), selected: Arc::default(), most }
    }

    /// Returns the shared counter of selected frames, which is complete after the last batch.
    pub fn selected(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.selected)
    }

    #[inline]
    fn wants(&mut self, frame: &FrameMut<'_>) -> bool {
        let found = match &self.judge {
            Judge::Filter(filter) => {
                filter.matches_captured(frame.bytes(), frame.about().cut as usize + frame.bytes().len())
            }
            Judge::Fields(any) => {
                let wire_len = frame.about().wire_len(frame.bytes().len());
                any.iter().any(|terms| terms.matches(frame.bytes(), wire_len))
            }
            Judge::Line(matcher) => {
                let stamp = if let Time::Stamp(stamp) = frame.time() { Some(stamp) } else { None };
                let bytes = match (frame.bytes(), stamp) {
                    // Only the header is compared, so the rest of the frame is not encoded.
                    (bytes, None) if matcher.has_columns() => bytes.get(..MIN_FRAME).unwrap_or(bytes),
                    (bytes, _) => bytes,
                };
                let len = text::encode_with(self.kind, bytes, stamp, &mut self.line).unwrap_or(0);
                let line = self.line.get(..len).unwrap_or_default();
                lines::matches(matcher, self.kind, line)
            }
        };
        found != self.invert
    }
}

impl Stage for Grep {
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        if matches!(self.judge, Judge::Line(_)) {
            BadLink::check(frames, "matched as a line: use -f, or terms such as 'ip.src=10.0.0.1'")
                .map_err(StageError::LinkType)?;
        }
        let mut left = match self.most {
            None => u64::MAX,
            Some(most) => most.saturating_sub(self.selected.load(Relaxed)),
        };
        let before = left;
        frames.retain(|frame| {
            let keep = left > 0 && self.wants(frame);
            left -= u64::from(keep);
            keep
        });
        self.selected.fetch_add(before - left, Relaxed);
        Ok(())
    }

    fn front(&self) -> Option<Front> {
        match &self.judge {
            Judge::Line(matcher) if self.most.is_none() => {
                Some(Front::new(Arc::clone(matcher), self.invert, Arc::clone(&self.selected)))
            }
            _ => None,
        }
    }

    fn fork(&self) -> Option<Box<dyn Stage>> {
        // A maximum selects the first frames in order, so it requires a single thread.
        if self.most.is_some() {
            return None;
        }
        let (judge, selected) = (self.judge.clone(), Arc::clone(&self.selected));
        let line = vec![0; MAX_LINE + SLACK];
        Some(Box::new(Grep { judge, invert: self.invert, line, kind: self.kind, selected, most: None }))
    }
}
