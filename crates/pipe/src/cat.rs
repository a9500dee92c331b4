//! A port's frames as lines into a pipe, without a copy on the way.
//!
//! Lines are written straight from the port's buffers into memory whose pages then go into the pipe ([`Pages`]). Only much at once is worth
//! that: a few lines are written as anything is.

use crate::os::{Kept, Pages};
use crate::ports::PortSource;
use crate::run::RunError;
use std::fs::File;
use std::io::Write;
use wire::text::{self, Kind, MAX_FRAME, MAX_LINE, MIN_FRAME, SLACK, STAMP, Stamp};

/// A huge page.
const ROOM: usize = 2 << 20;
/// Bytes sent at once: the reader begins while more are written, and finds them in a cache.
const PIECE: usize = 256 * 1024;
/// Frames whose lines have room there, if none is [`LONG`].
const AT_ONCE: usize = 32;
/// Bytes from which on a frame is encoded by itself.
const LONG: usize = 16 * 1024;
const _: () = assert!(AT_ONCE * (text::len(LONG) + STAMP) + SLACK <= ROOM);
const _: () = assert!(MAX_LINE + SLACK <= ROOM);
/// The longest line of a frame that a port receives.
const LONGEST: usize = text::len(u16::MAX as usize) + STAMP;
/// From so many bytes on, pages are given away; below, a copy is cheaper than new pages.
const WORTH: usize = 64 * 1024;

/// Writes the lines of what `source` receives until it is over; with stamps if `stamped`.
///
/// # Errors
/// As reading the port and writing the pipe.
pub fn lines(source: &mut PortSource, out: &File, stamped: bool) -> Result<(), RunError> {
    let counter = source.counter().clone();
    let kind = Kind::best();
    let mut pages = Pages::new(ROOM)?;
    let mut used = 0;
    while let Some((burst, now)) = source.burst()? {
        let full = burst.room() == 0;
        let stamp = stamped.then(|| Stamp::arrival(counter.ticks(now)));
        // Of long frames, one at a time.
        let at_once = if burst.as_slice().iter().any(|frame| frame.len() > LONG) { 1 } else { AT_ONCE };
        for frames in burst.as_slice().chunks(at_once) {
            let most: usize = frames.iter().map(|frame| text::len(frame.len()) + STAMP).sum();
            if used >= PIECE || used + most + SLACK > pages.room().len() {
                pages.send(out, used)?;
                used = 0;
                if most + SLACK > pages.room().len() {
                    pages.renew()?;
                }
            }
            let room = pages.room().get_mut(used..).unwrap_or_default();
            used += text::encode_lines(kind, frames.iter().map(|frame| (frame.bytes(), stamp)), room);
        }
        let refused = burst.as_slice().iter().filter(|frame| !(MIN_FRAME..=MAX_FRAME).contains(&frame.len())).count();
        burst.clear();
        source.refuse(refused as u64);
        // Who reads may be waiting for what there is, if no more is behind it.
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

/// The lines of some frames, made once and written again and again: what ethpipe2013 measured as its device's reading speed.
#[derive(Debug)]
pub struct Static {
    lines: Kept,
    /// Bytes of the lines, and how many there are.
    len: usize,
    count: u64,
}

impl Static {
    /// Lines of the frames that `source` gives, a mebibyte of them, at the most `most`; as many as let ten destinations take their turns when
    /// they come again.
    ///
    /// # Errors
    /// As reading the port.
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

    /// Writes `left` lines, or without end, until `stop`.
    ///
    /// # Errors
    /// As writing the pipe.
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
