//! What is done with batches of frames.

use crate::Frames;
use crate::grep::Front;
use clock::Instant;
use std::fmt;
use wire::link::LinkType;

/// A command's work on a batch.
///
/// What a stage keeps from one batch to the next is its own. One that keeps nothing can be forked: then batches are worked on by several
/// at once. All batches come to any other one by one, in their order, though what is in front of it and behind it may still be forked.
pub trait Stage: Send {
    /// Removes, changes, adds frames.
    ///
    /// # Errors
    /// Why there is no going on.
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError>;

    /// Its like, to work beside it on other batches, and to count into the same counters; `None` if the order matters to it.
    fn fork(&self) -> Option<Box<dyn Stage>> {
        None
    }

    /// If lines of text can tell it which frames are wanted, and nothing else matters to it: then they need not all be decoded
    /// ([`Input::select`](crate::Input::select)).
    fn front(&self) -> Option<Front> {
        None
    }

    /// After the last batch: frames that were held back, if any.
    ///
    /// # Errors
    /// As [`Stage::run`].
    fn finish(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        let _ = frames;
        Ok(())
    }

    /// The part of it that time matters to, if there is one ([`run_timed`](crate::timed::run_timed)).
    fn timed(&mut self) -> Option<&mut dyn Timed> {
        None
    }

    /// What there is to say at the end, for standard error: what was counted, what was dropped and why.
    fn report(&self) -> Option<String> {
        None
    }

    /// Returns whether frames may come out of it: a stage that only reports has none to write.
    fn passes(&self) -> bool {
        true
    }

    /// Did it look for something and find that it is not so? Then the program's exit code says it.
    fn failed(&self) -> bool {
        false
    }
}

/// What a stage that holds frames, or speaks, by the clock has besides. It is told the time and then run, with an empty batch if need be.
pub trait Timed {
    /// What time it is, until this is called again.
    fn at(&mut self, now: Instant);

    /// When it wants to be run though no frames come.
    fn next_event(&self) -> Option<Instant>;

    /// Frames inside that only wait for their time.
    fn held(&self) -> usize {
        0
    }

    /// Are no more to come for now?
    fn is_full(&self) -> bool {
        false
    }
}

/// Why a stage cannot go on: a sentence.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// Reading or writing.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Anything else.
    #[error("{0}")]
    Other(String),
    /// Something that cannot be done with frames of this link type.
    #[error("{0}")]
    LinkType(BadLink),
}

/// Frames of a link type with which something cannot be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadLink {
    /// Their link type.
    pub link: LinkType,
    /// Which operation is impossible, as in "written as text".
    pub what: &'static str,
}

impl BadLink {
    /// Checks that all of `frames` are Ethernet frames, for an operation that needs their headers.
    ///
    /// # Errors
    /// The first other link type.
    pub fn check(frames: &Frames, what: &'static str) -> Result<(), BadLink> {
        frames.foreign_link().map_or(Ok(()), |link| Err(BadLink { link, what }))
    }
}

impl fmt::Display for BadLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a packet of link type {} has no Ethernet header and cannot be {}", self.link.name(), self.what)
    }
}

impl std::error::Error for BadLink {}

/// Stages in a row.
pub struct Chain(pub Vec<Box<dyn Stage>>);

impl Chain {
    /// Takes the first stage out, if lines of text can do its work ([`Stage::front`]).
    pub fn take_front(&mut self) -> Option<Front> {
        let front = self.0.first()?.front()?;
        self.0.remove(0);
        Some(front)
    }

    /// Those that time matters to.
    pub fn timed(&mut self) -> impl Iterator<Item = &mut dyn Timed> {
        self.0.iter_mut().filter_map(|stage| stage.timed())
    }
}

impl Stage for Chain {
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        self.0.iter_mut().try_for_each(|stage| stage.run(frames))
    }

    fn fork(&self) -> Option<Box<dyn Stage>> {
        let forks: Option<Vec<_>> = self.0.iter().map(|stage| stage.fork()).collect();
        forks.map(|forks| Box::new(Chain(forks)) as Box<dyn Stage>)
    }

    fn finish(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        // What one gives at its end still goes through those behind it.
        let mut held = Frames::new();
        for stage in &mut self.0 {
            stage.run(frames)?;
            stage.finish(&mut held)?;
            frames.append(&held);
            held.clear();
        }
        Ok(())
    }

    fn report(&self) -> Option<String> {
        let said: Vec<String> = self.0.iter().filter_map(|stage| stage.report()).collect();
        (!said.is_empty()).then(|| said.join("\n"))
    }

    fn passes(&self) -> bool {
        self.0.iter().all(|stage| stage.passes())
    }

    fn failed(&self) -> bool {
        self.0.iter().any(|stage| stage.failed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::count::Count;
    use crate::delay::{Delay, Later, Limit};
    use crate::flow::Key;
    use crate::rate::{Bits, Rate};
    use crate::targets::{By, Mirror, Split, Target};
    use crate::top::{Field, Top, TopConfig};
    use crate::units::Rate as Unit;
    use clock::{Clock, Duration, SimClock};
    use proptest::prelude::*;

    fn all() -> Chain {
        let (ms, clock) = (Duration::from_millis(1), Clock::sim(&SimClock::new()));
        let fields = vec![Field::Flow, Field::Vlan, Field::Ip];
        let top = TopConfig { fields, show: 3, table: 2, by_bytes: true, json: false, pass: true };
        Chain(vec![
            Box::new(Mirror::new(Vec::new())),
            Box::new(Split::new(vec![Target::row()], By::BothWays, Key::of_seed(1))),
            Box::new(Later::new(ms, 8)),
            Box::new(Delay::new(ms, ms, 1, Limit::default())),
            Box::new(Rate::new(Unit::Bits(1 << 40), Bits::Wire, None, Limit::default())),
            Box::new(Count::new(clock, true, Some(ms), false, Box::new(|_| Ok(())))),
            Box::new(Top::new(top, Box::new(|_| Ok(())))),
        ])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A frame is any bytes, and each comes through as it was, in its order.
        #[test]
        fn any_frame_passes_all(list in prop::collection::vec(prop::collection::vec(any::<u8>(), 14..200), 0..20), long in 14..=262_144_usize) {
            let mut chain = all();
            let list: Vec<Vec<u8>> = list.into_iter().chain([vec![0x81; long]]).collect();
            let mut frames = Frames::new();
            list.iter().for_each(|frame| assert!(frames.push(frame, Time::None)));
            let mut got: Vec<Vec<u8>> = Vec::new();
            for turn in 0..10 {
                chain.timed().for_each(|stage| stage.at(Instant::from_millis(turn)));
                chain.run(&mut frames).unwrap();
                got.extend(frames.iter().map(|(bytes, _)| bytes.to_vec()));
                frames.clear();
            }
            chain.finish(&mut frames).unwrap();
            prop_assert!(frames.is_empty() && chain.report().is_some());
            prop_assert_eq!(got, list);
        }
    }
}
