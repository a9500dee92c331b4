//! Moves frames from a source through stages to a sink.

mod error;

pub use error::RunError;

use crate::input::{Tally, decode_block};
use crate::output::Encoder;
use crate::spread::{Turns, lock, spread};
use crate::stage::Chain;
use crate::{Format, Frames, Input, Output, Stage};
use port::pcap::Section;
use std::sync::{Arc, Mutex};

/// A source of frames.
pub trait Source {
    /// Appends frames to `frames`, which must not be full. Waits for the first frame only, and
    /// returns false when there are no more frames.
    ///
    /// # Errors
    /// Reason why reading failed.
    fn read(&mut self, frames: &mut Frames) -> Result<bool, RunError>;
}

/// A destination of frames.
pub trait Sink {
    /// Writes all frames of a batch.
    ///
    /// # Errors
    /// Reason why writing failed.
    fn write(&mut self, frames: &Frames) -> Result<(), RunError>;

    /// Ends the output after the last frame. Sends frames that are still queued, or writes a file
    /// header that is still missing.
    ///
    /// # Errors
    /// Errors of writing.
    fn end(&mut self) -> Result<(), RunError> {
        Ok(())
    }
}

impl Source for Input {
    fn read(&mut self, frames: &mut Frames) -> Result<bool, RunError> {
        Ok(Input::read(self, frames)?)
    }
}

impl Sink for Output {
    fn write(&mut self, frames: &Frames) -> Result<(), RunError> {
        Output::write(self, frames)
    }

    fn end(&mut self) -> Result<(), RunError> {
        Ok(Output::end(self)?)
    }
}

/// Moves frames from `source` through `stages` to `sink` until `source` has no more frames. Ends
/// early if `stop`, which is checked between two batches, returns true.
///
/// # Errors
/// Reason why the pipeline ended early.
pub fn run(
    source: &mut dyn Source,
    stages: &mut Chain,
    sink: &mut dyn Sink,
    stop: impl Fn() -> bool,
) -> Result<(), RunError> {
    let mut frames = Frames::new();
    let read = loop {
        match if stop() { Ok(false) } else { source.read(&mut frames) } {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(why) => break Err(why),
        }
        stages.run(&mut frames)?;
        sink.write(&frames)?;
        frames.clear();
    };
    // Frames before an error of the input have been written. Frames that are still in the stages,
    // and reports, are written too.
    finish(stages, sink)?;
    read
}

/// Ends the stages, and writes the frames that are still in them to the sink.
pub(crate) fn finish(stages: &mut Chain, sink: &mut dyn Sink) -> Result<(), RunError> {
    let mut frames = Frames::new();
    stages.finish(&mut frames)?;
    if !frames.is_empty() {
        sink.write(&frames)?;
    }
    Ok(())
}

/// Parameters of [`run_spread`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jobs {
    /// Number of worker threads.
    pub jobs: usize,
    /// True to write frames in the order in which they were read. Otherwise frames are written as
    /// soon as they are processed.
    pub ordered: bool,
}

/// Moves frames from `input` to `output` as [`run`] does, but with several threads. Lines are
/// decoded and encoded in parallel, and stages run in parallel if all of them can be forked. `stop`
/// is checked before each block of the input.
///
/// # Errors
/// The errors of [`run`].
pub fn run_spread(
    input: &mut Input,
    stages: &mut Chain,
    output: &mut Output,
    format: Format,
    tick_ns: u64,
    how: Jobs,
    stop: impl Fn() -> bool + Sync,
) -> Result<(), RunError> {
    let text = input.format()?.is_text();
    let forks = stages.fork().is_some();
    let tally = Mutex::new(Tally::default());
    let turns = Turns::default();
    let failed = Mutex::new(None);
    {
        let shared = Mutex::new(&mut *stages);
        let (strict, front) = (input.is_strict(), input.front().cloned());
        // Buffers are reused. Allocating new ones for each piece would cost more than processing
        // the piece.
        let spare = Mutex::new(Vec::<Vec<u8>>::new());
        let recycled = || lock(&spare).pop().unwrap_or_default();
        let source = || -> Result<Option<Piece>, RunError> {
            if stop() {
                return Ok(None);
            }
            let mut read = || -> Result<Option<Piece>, RunError> {
                if text {
                    let mut block = recycled();
                    return Ok(input.read_lines(&mut block)?.then_some(Piece::Lines(block)));
                }
                let mut frames = Frames::new();
                Ok(input.read(&mut frames)?.then_some(Piece::Frames(frames)))
            };
            // Pieces before an error are still processed and written.
            Ok(read().unwrap_or_else(|why| {
                *lock(&failed) = Some(why);
                None
            }))
        };
        let worker = || {
            let mut encoder = Encoder::new(format, tick_ns);
            let mut own = lock(&shared).fork();
            let (shared, turns, front, spare) = (&shared, &turns, front.as_ref(), &spare);
            let mut frames = Frames::new();
            move |number: u64, piece: Piece| -> Result<Encoded, RunError> {
                let mut read = Tally::default();
                match piece {
                    Piece::Frames(came) => frames = came,
                    Piece::Lines(block) => {
                        frames.clear();
                        decode_block(&block, front, &mut frames, &mut read);
                        if strict && read.bad > 0 {
                            frames.truncate(read.good);
                        }
                        lock(spare).push(block);
                    }
                }
                let ran = match own.as_mut() {
                    Some(stages) => stages.run(&mut frames),
                    None => turns.in_turn(number, || lock(shared).run(&mut frames)),
                };
                ran?;
                let mut out = lock(spare).pop().unwrap_or_default();
                let used = encoder.encode(&frames, &mut out)?;
                Ok(Encoded { out, used, read, section: frames.section().cloned() })
            }
        };
        let sink = |Encoded { out, used, read, section }: Encoded| -> Result<(), RunError> {
            let mut tally = lock(&tally);
            tally.append(&read);
            output.write_bytes(out.get(..used).unwrap_or_default(), section.as_ref())?;
            if strict && let Some(bad) = tally.first_bad() {
                return Err(bad.into());
            }
            lock(&spare).push(out);
            Ok(())
        };
        // Stages that cannot be forked receive the pieces in order, so the output is ordered too.
        spread(how.jobs, how.ordered || !forks, source, worker, sink)?;
    }
    input.tally_mut().append(&lock(&tally));
    finish(stages, output)?;
    lock(&failed).take().map_or(Ok(()), Err)
}

enum Piece {
    Lines(Vec<u8>),
    Frames(Frames),
}

/// Encoded output of a piece: the first `used` bytes of `out`.
struct Encoded {
    out: Vec<u8>,
    used: usize,
    read: Tally,
    section: Option<Arc<Section>>,
}
