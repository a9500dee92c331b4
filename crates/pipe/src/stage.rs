//! Stages: operations on batches of frames.

use crate::Frames;
use crate::grep::Front;
use clock::Instant;
use std::fmt;
use wire::link::LinkType;

/// An operation that a pipeline applies to each batch of frames.
///
/// A stage whose work on a batch does not depend on earlier batches can be forked, so that several
/// batches are processed in parallel. Any other stage receives all batches one by one, in order.
/// Stages are forked only if all stages of the pipeline can be forked.
pub trait Stage: Send {
    /// Processes a batch: removes, changes or adds frames.
    ///
    /// # Errors
    /// Reason why the stage cannot continue.
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError>;

    /// Returns a copy that processes other batches in parallel and shares the counters; `None` if
    /// the stage depends on the order of the batches.
    fn fork(&self) -> Option<Box<dyn Stage>> {
        None
    }

    /// Returns the stage as a filter on lines of text if it does nothing but select lines. With the
    /// filter, the other lines need not be decoded ([`Input::select`](crate::Input::select)).
    fn front(&self) -> Option<Front> {
        None
    }

    /// Ends the stage after the last batch. Adds the frames that are still in the stage to
    /// `frames`, and prints its report.
    ///
    /// # Errors
    /// The errors of [`Stage::run`].
    fn finish(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        let _ = frames;
        Ok(())
    }

    /// Returns the additional operations of a stage that depends on time
    /// ([`run_timed`](crate::timed::run_timed)); `None` for any other stage.
    fn timed(&mut self) -> Option<&mut dyn Timed> {
        None
    }

    /// Returns the final report, which the program prints to standard error: counters, and dropped
    /// frames with the reasons.
    fn report(&self) -> Option<String> {
        None
    }

    /// Returns whether the stage passes frames on; false for a stage that only reports.
    fn passes(&self) -> bool {
        true
    }

    /// Returns whether a check of the stage failed. The program then ends with exit code 1.
    fn failed(&self) -> bool {
        false
    }
}

/// Additional operations of a stage that queues frames, or that reports at certain times. The
/// caller sets the time with [`Timed::at`] and then calls [`Stage::run`], with an empty batch if no
/// frames have arrived.
pub trait Timed {
    /// Sets the current time, which is valid until the next call.
    fn at(&mut self, now: Instant);

    /// Returns the next time at which [`Stage::run`] must be called even if no frames have arrived.
    fn next_event(&self) -> Option<Instant>;

    /// Returns the number of frames that are delayed and not yet due.
    fn held(&self) -> usize {
        0
    }

    /// Returns whether the caller must not pass more frames to the stage for now.
    fn is_full(&self) -> bool {
        false
    }
}

/// Reason why a stage cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// Error of reading or writing.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Any other error, as one sentence.
    #[error("{0}")]
    Other(String),
    /// The operation is not possible for frames of this link type.
    #[error("{0}")]
    LinkType(BadLink),
}

/// Error for an operation on frames of an unsupported link type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadLink {
    /// Link type of the frames.
    pub link: LinkType,
    /// Operation as it follows "cannot be" in the error message, such as "written as text".
    pub what: &'static str,
}

impl BadLink {
    /// Checks that all of `frames` are Ethernet frames. The operation `what` needs Ethernet
    /// headers.
    ///
    /// # Errors
    /// Contains the first link type other than Ethernet.
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

/// A sequence of stages, which is itself a stage.
pub struct Chain(pub Vec<Box<dyn Stage>>);

impl Chain {
    /// Removes the first stage if it only selects lines of text, and returns it as a filter
    /// ([`Stage::front`]).
    pub fn take_front(&mut self) -> Option<Front> {
        let front = self.0.first()?.front()?;
        self.0.remove(0);
        Some(front)
    }

    /// Returns the stages that depend on time.
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
        // Frames that a stage adds at the end still have to pass through the stages after it.
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

        /// Arbitrary frames pass unchanged and in order.
        #[test]
        fn any_frame_passes_all_stages(list in prop::collection::vec(prop::collection::vec(any::<u8>(), 14..200), 0..20), long in 14..=262_144_usize) {
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
