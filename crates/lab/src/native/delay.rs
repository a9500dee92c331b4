//! Delay that dd's block size adds to a frame, measured frame by frame.
//!
//! ```text
//! writer thread --- a line each 1/rate s ---> pipe -> dd bs=BLOCK -> pipe ---> this thread
//!   records when a line enters                                      records when its end was read
//! ```
//!
//! The writer writes the lines of text that the dummy device of the report ethpipe2013 produces, at
//! a fixed frame rate. Before the clock starts, a block is written and read, so that dd is running
//! and its next block begins with the first counted frame. Frames in a block that is not full at
//! the end are not counted, because only the end of the stream releases them. The writer busy-waits
//! on the clock until its next line is due, which occupies a core.

use super::shell::{dummy, is_installed};
use anyhow::{Context, ensure};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::text::{self, MAX_LINE, SLACK};

/// Bit rate of the wire that determines the frame rate, in bits per second. It is so low that the
/// text passes in time with every block size of the sweep.
pub const WIRE: u64 = 100_000_000;
/// Bytes per frame on the wire outside the frame itself: preamble and gap.
const GAP: usize = 20;
/// Number of bytes written before the clock starts, if dd is absent or does not fill blocks.
const AHEAD: u64 = 4096;
/// Maximum number of bytes per read(2) of the reader.
const READ: usize = 64 << 10;
/// Minimum duration of a trial.
const LEAST: Duration = Duration::from_millis(100);
/// Minimum number of full blocks that dd writes in a trial.
const BLOCKS: u64 = 3;

/// Condition on which dd writes a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocks {
    /// `iflag=fullblock`: dd reads until the block is full.
    Full,
    /// dd writes what one read(2) returned, up to a block.
    AsRead,
}

/// Path between writer and reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Between {
    /// One pipe, without dd.
    Pipe,
    /// dd with this block size, between two pipes.
    Dd(u64, Blocks),
}

/// Delays of frames from the writer to the reader, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Delays {
    /// Median of the delays.
    pub median: f64,
    /// 99th percentile of the delays.
    pub p99: f64,
    /// Number of frames counted.
    pub frames: usize,
}

/// Returns the frame rate, in frames per second, of frames of `size` bytes with FCS at [`WIRE`].
pub fn rate(size: usize) -> f64 {
    WIRE as f64 / ((size + GAP) * 8) as f64
}

/// Returns the text lines of the dummy device of the report ethpipe2013, one for each of its frames
/// of `size` bytes with FCS. All lines have the same length.
fn lines(size: usize) -> anyhow::Result<Vec<Vec<u8>>> {
    let line = |dst: &wire::Mac| {
        let mut line = vec![0; MAX_LINE + SLACK];
        let len = text::encode(&dummy(dst.0, size - 4), None, &mut line).context("cannot encode a frame as a line")?;
        line.truncate(len);
        Ok(line)
    };
    port::pktgen::ROTATION.iter().map(line).collect()
}

/// Returns the number of frames sent in a trial.
fn frames(size: usize, line: u64, between: Between) -> u64 {
    let least = (rate(size) * LEAST.as_secs_f64()) as u64;
    match between {
        Between::Dd(block, Blocks::Full) => least.max((BLOCKS * block).div_ceil(line)),
        _ => least,
    }
}

/// Sends frames of `size` bytes with FCS through `between`, at [`rate`] frames per second, and
/// returns their delays.
///
/// # Errors
/// dd is missing or failed, or a frame was lost.
pub fn trial(size: usize, between: Between) -> anyhow::Result<Delays> {
    let lines = lines(size)?;
    let line = lines[0].len() as u64;
    let count = frames(size, line, between);
    let ahead = if let Between::Dd(block, Blocks::Full) = between { block } else { AHEAD };
    let entered: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
    let go = AtomicBool::new(false);
    let (to, from, dd) = connect(between)?;
    let start = Instant::now();
    let writer = Writer { to, lines: &lines, entered: &entered, go: &go, period: 1.0 / rate(size), start };
    let delays = std::thread::scope(|scope| -> anyhow::Result<Vec<u64>> {
        let writing = dispatch::spawn_scoped(scope, "delay-writer", move || writer.write(ahead))?;
        // The pipe closes when this returns, so that the writer ends too if the reader failed.
        let read = reader(from, &entered, &go, ahead, start);
        let written = writing.join().map_err(|_| anyhow::anyhow!("the writer's thread panicked"))?;
        let delays = read?;
        written?;
        Ok(delays)
    });
    if let Some(mut dd) = dd {
        let status = dd.wait().context("cannot wait for dd")?;
        ensure!(status.success(), "dd failed: {status}");
    }
    let delays = delays?;
    ensure!(delays.len() as u64 == count, "{} of {count} frames arrived", delays.len());
    let whole = match between {
        Between::Dd(block, Blocks::Full) => count * line / block * block / line,
        _ => count,
    };
    percentiles(delays.get(..whole as usize).unwrap_or_default())
}

fn percentiles(delays: &[u64]) -> anyhow::Result<Delays> {
    ensure!(!delays.is_empty(), "no frame was counted: every frame was in a block that was not full");
    let mut sorted = delays.to_vec();
    sorted.sort_unstable();
    let at = |share: usize| sorted[(sorted.len() * share / 100).min(sorted.len() - 1)] as f64 / 1e3;
    Ok(Delays { median: at(50), p99: at(99), frames: sorted.len() })
}

/// Returns the writer's end, the reader's end, and dd if it runs between them.
fn connect(between: Between) -> anyhow::Result<(PipeWriter, PipeReader, Option<Child>)> {
    let (first, to) = io::pipe().context("cannot create a pipe")?;
    let Between::Dd(block, blocks) = between else { return Ok((to, first, None)) };
    ensure!(is_installed("dd"), "dd is not installed");
    let (from, last) = io::pipe().context("cannot create a pipe")?;
    let mut dd = Command::new("dd");
    dd.arg(format!("bs={block}")).arg("status=none").stdin(Stdio::from(first)).stdout(Stdio::from(last));
    if blocks == Blocks::Full {
        dd.arg("iflag=fullblock");
    }
    let child = dd.spawn().context("cannot start dd")?;
    Ok((to, from, Some(child)))
}

struct Writer<'a> {
    to: PipeWriter,
    lines: &'a [Vec<u8>],
    /// Time at which each frame entered, in nanoseconds after `start`.
    entered: &'a [AtomicU64],
    /// Set when the bytes written ahead have arrived.
    go: &'a AtomicBool,
    /// Seconds from one frame to the next.
    period: f64,
    start: Instant,
}

impl Writer<'_> {
    fn write(mut self, ahead: u64) -> anyhow::Result<()> {
        self.to.write_all(&vec![b' '; ahead as usize])?;
        while !self.go.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let begun = Instant::now();
        for (number, (entered, line)) in self.entered.iter().zip(self.lines.iter().cycle()).enumerate() {
            let due = Duration::from_secs_f64(number as f64 * self.period);
            while begun.elapsed() < due {
                std::hint::spin_loop();
            }
            entered.store(self.start.elapsed().as_nanos() as u64, Ordering::Release);
            self.to.write_all(line)?;
        }
        Ok(())
    }
}

/// Reads to the end of the stream; returns the delay of each frame in nanoseconds.
fn reader(
    mut from: PipeReader,
    entered: &[AtomicU64],
    go: &AtomicBool,
    ahead: u64,
    start: Instant,
) -> anyhow::Result<Vec<u64>> {
    let mut buffer = vec![0; READ];
    let mut delays = Vec::with_capacity(entered.len());
    let mut awaited = ahead as usize;
    loop {
        let read = from.read(&mut buffer);
        let now = start.elapsed().as_nanos() as u64;
        let read = match read {
            Ok(read) => read,
            Err(why) => {
                go.store(true, Ordering::Release);
                return Err(why.into());
            }
        };
        if read == 0 {
            go.store(true, Ordering::Release); // a writer that still waits finds the pipe closed
            ensure!(awaited == 0, "the stream ended {awaited} bytes before the first frame");
            return Ok(delays);
        }
        let skipped = awaited.min(read);
        awaited -= skipped;
        if awaited == 0 {
            go.store(true, Ordering::Release);
        }
        for _ in buffer[skipped..read].iter().filter(|byte| **byte == b'\n') {
            let entered = entered.get(delays.len()).context("more frames arrived than were sent")?;
            delays.push(now.saturating_sub(entered.load(Ordering::Acquire)));
        }
    }
}

#[cfg(test)]
mod tests;
