//! `mirror` and `split`: write frames to files and ports in addition to, or instead of, the rest of
//! the pipeline.

use crate::flow::{Flow, Key, word};
use crate::run::Sink;
use crate::stage::StageError;
use crate::{Frames, Stage};
use std::fmt::Write;
use std::io;

/// Destination of frames: a file, a port or the rest of the pipeline.
pub struct Target {
    name: String,
    /// Output for frames; `None` for the rest of the pipeline, or for a target that failed.
    sink: Option<Box<dyn Sink + Send>>,
    /// True if the target is the rest of the pipeline.
    is_row: bool,
    written: u64,
    lost: u64,
    why: Option<String>,
}

impl Target {
    /// Creates a target that writes to `sink`, the file or port called `name`.
    pub fn new(name: &str, sink: Box<dyn Sink + Send>) -> Target {
        Target { name: name.to_owned(), sink: Some(sink), is_row: false, written: 0, lost: 0, why: None }
    }

    /// Creates the target for the rest of the pipeline.
    pub fn row() -> Target {
        Target { name: "-".to_owned(), sink: None, is_row: true, written: 0, lost: 0, why: None }
    }

    /// Writes frames. As in tee(1), a target that fails receives no more frames, while the other
    /// targets continue.
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

    /// Ends the target after the last frame ([`Sink::end`]).
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

/// Returns the error of writing to a pipe that has no reader.
fn gone() -> StageError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

/// Stage that copies each frame to every target.
pub struct Mirror {
    targets: Vec<Target>,
}

impl Mirror {
    /// Creates a stage that copies each frame to all of `targets` and passes it on.
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

    /// Returns whether a target failed. As in tee(1), the whole program then fails.
    fn failed(&self) -> bool {
        self.targets.iter().any(|target| target.why.is_some())
    }
}

/// Property of a frame that selects its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Five-tuple of an IP packet, or MAC addresses and EtherType of any other frame.
    Flow,
    /// The same property as for `Flow`, but both directions of a flow go to the same target.
    BothWays,
    /// Destination MAC address.
    Dst,
    /// Source MAC address.
    Src,
    /// VLAN identifier of the outermost tag.
    Vlan,
    /// No property is used. Frames go to the targets in turn.
    Round,
}

/// Stage that sends each frame to one of several targets.
pub struct Split {
    targets: Vec<Target>,
    batches: Vec<Frames>,
    by: By,
    key: Key,
    turn: u64,
}

impl Split {
    /// Creates a stage that sends each frame to one of `targets`, selected by a hash of the
    /// property `by` with `key`.
    pub fn new(targets: Vec<Target>, by: By, key: Key) -> Split {
        let batches = targets.iter().map(|_| Frames::new()).collect();
        Split { targets, batches, by, key, turn: 0 }
    }

    /// Returns the index of the target of `frame`.
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
            // The high bits of the hash select the target, which avoids the bias of a modulo
            // operation.
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
        // When no target is left, the pipeline ends.
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
