//! Writes the frames that a port receives into a pipe as lines, without copying them.
//!
//! Lines are encoded from the port's buffers directly into memory. The pages are then moved into
//! the pipe ([`Pages`]). Moving pages pays off for large amounts only, so a few lines are written
//! with write(2).

use crate::os::{Kept, Pages};
use crate::ports::PortSource;
use crate::run::RunError;
use std::fs::File;
use std::io::Write;
use wire::text::{self, Kind, MAX_FRAME, MAX_LINE, MIN_FRAME, SLACK, STAMP, Stamp};

/// Size of the page buffer in bytes: one huge page.
const ROOM: usize = 2 << 20;
/// Number of bytes moved into the pipe at once. It is small, so that the reader of the pipe can
/// start while more lines are encoded, and finds the bytes in a CPU cache.
const PIECE: usize = 256 * 1024;
/// Number of frames encoded at once; their lines fit into an empty buffer if no frame is longer
/// than [`LONG`].
const AT_ONCE: usize = 32;
/// Maximum length, in bytes, of a frame that is encoded together with others; longer frames are
/// encoded one at a time.
const LONG: usize = 16 * 1024;
const _: () = assert!(AT_ONCE * (text::len(LONG) + STAMP) + SLACK <= ROOM);
const _: () = assert!(MAX_LINE + SLACK <= ROOM);
/// Length in bytes of the longest line that a frame received from a port can have.
const LONGEST: usize = text::len(u16::MAX as usize) + STAMP;
/// Minimum number of bytes for which pages are moved into the pipe. For fewer bytes, a copy is
/// cheaper than new pages.
const WORTH: usize = 64 * 1024;

/// Writes the frames that `source` receives to `out` as lines, until the source ends. If `stamped`,
/// each line begins with the arrival time.
///
/// # Errors
/// Errors of reading the port and of writing the pipe.
pub fn lines(source: &mut PortSource, out: &File, stamped: bool) -> Result<(), RunError> {
    let counter = source.counter().clone();
    let kind = Kind::best();
    let mut pages = Pages::new(ROOM)?;
    let mut used = 0;
    while let Some((burst, now)) = source.burst()? {
        let full = burst.room() == 0;
        let stamp = stamped.then(|| Stamp::arrival(counter.ticks(now)));
        // Long frames are encoded one at a time.
        let at_once = if burst.as_slice().iter().any(|frame| frame.len() > LONG) { 1 } else { AT_ONCE };
        for frames in burst.as_slice().chunks(at_once) {
            let most: usize = frames.iter().map(|frame| text::len(frame.len()) + STAMP).sum();
            if used >= PIECE || used + most + SLACK > pages.room().len() {
                pages.send(out, used)?;
                used = 0;
                if most + SLACK > pages.room().len() {
                    pages.reopen()?;
                }
            }
            let room = pages.room().get_mut(used..).unwrap_or_default();
            used += text::encode_lines(kind, frames.iter().map(|frame| (frame.bytes(), stamp)), room);
        }
        let refused = burst.as_slice().iter().filter(|frame| !(MIN_FRAME..=MAX_FRAME).contains(&frame.len())).count();
        burst.clear();
        source.refuse(refused as u64);
        // No more frames are queued, and the reader of the pipe may be waiting, so write the lines
        // now.
        if !full && used < WORTH {
            write(out, pages.room().get(..used).unwrap_or_default())?;
            used = 0;
        } else if !full {
            pages.send(out, used)?;
            used = 0;
        }
    }
    Ok(pages.send(out, used)?)
}

fn write(mut out: &File, bytes: &[u8]) -> Result<(), RunError> {
    Ok(out.write_all(bytes)?)
}

/// Lines that are encoded once and written repeatedly. The report ethpipe2013 measures the reading
/// speed of the ethpipe device in this way.
#[derive(Debug)]
pub struct Static {
    lines: Kept,
    /// Total length of the lines in bytes; `count` is the number of lines.
    len: usize,
    count: u64,
}

impl Static {
    /// Encodes frames of `source` until there are at least 1 MiB of lines or `most` lines, or until
    /// `source` ends. At 1 MiB, lines are added until their number is a multiple of ten, the number
    /// of destinations that pktgen uses in turn. The sequence of destinations then continues when
    /// the lines repeat.
    ///
    /// # Errors
    /// Errors of reading the port.
    pub fn new(source: &mut PortSource, most: u64) -> Result<Static, RunError> {
        const LINES: usize = 1 << 20;
        const TURNS: u64 = port::pktgen::ROTATION.len() as u64;
        let mut pages = Pages::new(LINES + (TURNS as usize + 1) * LONGEST + SLACK)?;
        let enough = |len: usize, count: u64| count >= most || (len >= LINES && count.is_multiple_of(TURNS));
        let (mut len, mut count) = (0, 0);
        while !enough(len, count) {
            let Some((burst, _)) = source.burst()? else { break };
            for frame in burst.drain() {
                if !enough(len, count) {
                    let room = pages.room().get_mut(len..).unwrap_or_default();
                    len += text::encode(frame.bytes(), None, room).unwrap_or(0);
                    count += 1;
                }
            }
        }
        Ok(Static { lines: pages.keep(), len, count })
    }

    /// Writes the lines repeatedly until `left` lines have been written (`u64::MAX`: no limit) or
    /// `stop` returns true.
    ///
    /// # Errors
    /// Errors of writing the pipe.
    pub fn write(&self, out: &File, mut left: u64, stop: fn() -> bool) -> Result<(), RunError> {
        while left >= self.count && self.count > 0 && !stop() {
            self.lines.send(out, 0, self.len)?;
            left = if left == u64::MAX { left } else { left - self.count };
        }
        if left < self.count && !stop() {
            let bytes = self.lines.bytes().get(..self.len).unwrap_or_default();
            let end = match usize::try_from(left).ok().and_then(|left| left.checked_sub(1)) {
                None => 0,
                Some(last) => memchr::memchr_iter(b'\n', bytes).nth(last).map_or(self.len, |newline| newline + 1),
            };
            self.lines.send(out, 0, end)?;
        }
        Ok(())
    }
}
