//! `mirror` and `split`: frames to other places than the end of the row.

use crate::flow::{Flow, Key, word};
use crate::run::Sink;
use crate::stage::StageError;
use crate::{Frames, Stage};
use std::fmt::Write;
use std::io;

/// A place that frames are written to.
pub struct Target {
    name: String,
    /// `None`: the rest of the row, or a place that has gone.
    sink: Option<Box<dyn Sink + Send>>,
    /// Is it the rest of the row?
    is_row: bool,
    written: u64,
    lost: u64,
    why: Option<String>,
}

impl Target {
    /// A file or port that is called `name`.
    pub fn new(name: &str, sink: Box<dyn Sink + Send>) -> Target {
        Target { name: name.to_owned(), sink: Some(sink), is_row: false, written: 0, lost: 0, why: None }
    }

    /// Whatever comes behind in the row.
    pub fn row() -> Target {
        Target { name: "-".to_owned(), sink: None, is_row: true, written: 0, lost: 0, why: None }
    }

    /// One that fails is left alone from then on: the others go on, as tee(1) has it.
    fn write(&mut self, frames: &Frames) {
        if frames.is_empty() {
            return;
        }
        let n = frames.len() as u64;
        match self.sink.as_mut().map(|sink| sink.write(frames)) {
            Some(Ok(())) => self.written += n,
            Some(Err(why)) => {
                self.sink = None;
                self.lost += n;
                self.why = Some(why.to_string());
            }
            None => self.lost += n,
        }
    }

    /// Writes what is still to be written after the last frame.
    fn end(&mut self) {
        if let Some(Err(why)) = self.sink.as_mut().map(|sink| sink.end()) {
            self.sink = None;
            self.why = Some(why.to_string());
        }
    }

    fn say(&self, out: &mut String, what: &str) {
        let Target { name, written, lost, .. } = self;
        let _ = write!(out, "{what} {name}: {written} frames");
        match &self.why {
            Some(why) => _ = write!(out, ", {lost} lost: {why}"),
            None if *lost > 0 => _ = write!(out, ", {lost} lost"),
            None => {}
        }
    }
}

fn report(what: &str, targets: &[Target]) -> Option<String> {
    let mut out = String::new();
    for target in targets {
        if !out.is_empty() {
            out.push('\n');
        }
        target.say(&mut out, what);
    }
    Some(out)
}

/// As when the reader of a pipe has gone.
fn gone() -> StageError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

/// A copy of each frame to each target.
pub struct Mirror {
    targets: Vec<Target>,
}

impl Mirror {
    /// To all of `targets`.
    pub fn new(targets: Vec<Target>) -> Mirror {
        Mirror { targets }
    }
}

impl Stage for Mirror {
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        self.targets.iter_mut().for_each(|target| target.write(frames));
        Ok(())
    }

    fn finish(&mut self, _: &mut Frames) -> Result<(), StageError> {
        self.targets.iter_mut().for_each(Target::end);
        Ok(())
    }

    fn report(&self) -> Option<String> {
        report("mirror", &self.targets)
    }

    /// As tee(1): what a target did not get is a failure of the whole.
    fn failed(&self) -> bool {
        self.targets.iter().any(|target| target.why.is_some())
    }
}

/// What decides where a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The five fields of an IP packet, else addresses and type.
    Flow,
    /// The same, and both directions of a flow to one place.
    BothWays,
    /// Destination address.
    Dst,
    /// Source address.
    Src,
    /// VLAN identifier.
    Vlan,
    /// One after the other.
    Round,
}

/// Each frame to one of several targets.
pub struct Split {
    targets: Vec<Target>,
    batches: Vec<Frames>,
    by: By,
    key: Key,
    turn: u64,
}

impl Split {
    /// Among `targets`, by `by` under `key`.
    pub fn new(targets: Vec<Target>, by: By, key: Key) -> Split {
        let batches = targets.iter().map(|_| Frames::new()).collect();
        Split { targets, batches, by, key, turn: 0 }
    }

    /// The number of the target that `frame` goes to.
    fn place(&mut self, frame: &[u8]) -> usize {
        let number = match (self.by, Flow::of(frame)) {
            (By::Round, _) => {
                self.turn += 1;
                self.turn - 1
            }
            (_, None) => 0,
            (By::Flow, Some(flow)) => self.key.of_flow(&flow),
            (By::BothWays, Some(flow)) => self.key.of_flow(&flow.symmetric()),
            (By::Dst, Some(flow)) => self.key.number([word(flow.dst)]),
            (By::Src, Some(flow)) => self.key.number([word(flow.src)]),
            (By::Vlan, Some(flow)) => self.key.number([flow.vlan.map_or(u64::MAX, u64::from)]),
        };
        let n = self.targets.len().max(1) as u64;
        match self.by {
            By::Round => (number % n) as usize,
            // The high bits of the number, evenly.
            _ => ((u128::from(number) * u128::from(n)) >> 64) as usize,
        }
    }
}

impl Stage for Split {
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        self.batches.iter_mut().for_each(|batch| batch.describe(frames.section()));
        for index in 0..frames.len() {
            let Some((bytes, time)) = frames.get(index) else { break };
            let place = self.place(bytes);
            if let Some(batch) = self.batches.get_mut(place) {
                batch.push_about(bytes, time, frames.about(index));
            }
        }
        frames.clear();
        for (target, batch) in self.targets.iter_mut().zip(&mut self.batches) {
            if target.is_row {
                target.written += batch.len() as u64;
                frames.append(batch);
            } else {
                target.write(batch);
            }
            batch.clear();
        }
        // With nobody left to write to there is nothing to read for.
        if self.targets.iter().all(|target| target.sink.is_none() && !target.is_row) { Err(gone()) } else { Ok(()) }
    }

    fn finish(&mut self, _: &mut Frames) -> Result<(), StageError> {
        self.targets.iter_mut().for_each(Target::end);
        Ok(())
    }

    fn passes(&self) -> bool {
        self.targets.iter().any(|target| target.is_row)
    }

    fn report(&self) -> Option<String> {
        report("split", &self.targets)
    }

    fn failed(&self) -> bool {
        self.targets.iter().any(|target| target.why.is_some())
    }
}

#[cfg(test)]
mod tests;
