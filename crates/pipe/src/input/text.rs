//! Reads lines in blocks, and decodes all lines or only the lines that a filter selects.

use super::error::BadInput;
use super::line;
use super::tally::Tally;
use crate::Frames;
use crate::grep::Front;
use std::io::{self, Read};
use wire::text::MAX_READ;

/// Maximum number of bytes read from the stream at once. It exceeds the default capacity of a pipe,
/// but is small enough for the bytes to be in a CPU cache when they are decoded.
pub const BLOCK: usize = 256 * 1024;

/// Decodes the lines of a block that was read with [`super::Input::read_lines`] into `frames`. If
/// `front` is given, decodes only the lines that it selects.
pub fn decode_block(block: &[u8], front: Option<&Front>, frames: &mut Frames, tally: &mut Tally) {
    let mut rest = block;
    while !rest.is_empty() {
        let mut more = Frames::new();
        let used = decode_selected(rest, front, if frames.is_full() { &mut more } else { frames }, tally);
        frames.append(&more);
        rest = rest.get(used..).unwrap_or_default();
        if used == 0 {
            return;
        }
    }
}

/// Decodes lines as [`line::decode`] does. If `front` is given, decodes only the lines that it
/// selects.
pub(super) fn decode_selected(text: &[u8], front: Option<&Front>, frames: &mut Frames, tally: &mut Tally) -> usize {
    match front {
        Some(front) => front.decode(text, frames, tally),
        None => line::decode(text, frames, tally),
    }
}

/// A reader of lines, with a buffer for one block and the incomplete line before it.
pub(super) struct Text<R> {
    from: R,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    at_end: bool,
    /// True while the rest of an over-long line is discarded.
    skipping: bool,
}

impl<R: Read> Text<R> {
    pub fn new(start: Vec<u8>, from: R) -> Text<R> {
        let end = start.len();
        let mut buf = start;
        buf.resize(BLOCK + MAX_READ + 2, 0);
        Text { from, buf, start: 0, end, at_end: false, skipping: false }
    }

    fn held(&self) -> &[u8] {
        self.buf.get(self.start..self.end).unwrap_or_default()
    }

    /// Calls `decode` with the buffered bytes. `decode` returns the number of bytes consumed; while
    /// this is 0, more bytes are read. Returns false at the end of the stream.
    pub fn read(
        &mut self,
        tally: &mut Tally,
        mut decode: impl FnMut(&[u8], &mut Tally) -> usize,
    ) -> Result<bool, BadInput> {
        loop {
            if self.skipping {
                self.skip();
            } else {
                let used = decode(self.held(), tally);
                // If the last byte consumed is not a newline, `decode` has consumed the beginning
                // of an over-long line. The rest of the line is skipped.
                let cut = used > 0 && self.buf.get(self.start + used - 1) != Some(&b'\n');
                (self.start, self.skipping) = (self.start + used, cut);
                if used > 0 {
                    return Ok(true);
                }
            }
            if self.at_end && self.held().is_empty() {
                return Ok(false);
            }
            self.fill()?;
        }
    }

    /// Skips buffered bytes up to the end of the current line.
    fn skip(&mut self) {
        match memchr::memchr(b'\n', self.held()) {
            Some(end) => (self.start, self.skipping) = (self.start + end + 1, false),
            None => self.start = self.end,
        }
    }

    /// Returns the complete lines in the buffer. Reads more bytes if there are none, and returns
    /// `None` at the end of the stream. Over-long lines are counted in `too_long`. With
    /// `only_lines` they are left out. Otherwise the beginning of each is returned, which is one
    /// byte longer than the maximum length of a line.
    pub fn next_block(&mut self, only_lines: bool, too_long: &mut u64) -> Result<Option<&[u8]>, BadInput> {
        let end = loop {
            if self.skipping {
                self.skip();
            }
            let held = self.held();
            if let Some(last) = memchr::memrchr(b'\n', held)
                && let front @ 1.. = in_bounds(held.get(..=last).unwrap_or(held))
            {
                break self.start + front;
            }
            if held.len() > MAX_READ {
                self.skipping = true;
                *too_long += 1;
                if !only_lines {
                    break self.start + MAX_READ + 1;
                }
                continue;
            }
            if self.at_end && held.is_empty() {
                return Ok(None);
            }
            self.fill()?;
        };
        let block = self.buf.get(self.start..end);
        self.start = end;
        Ok(block)
    }

    /// Reads more bytes into the buffer with one read. At the end of the stream, appends a newline
    /// if the last line has none.
    fn fill(&mut self) -> Result<(), BadInput> {
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let room = self.buf.get_mut(self.end..).unwrap_or_default();
        let most = room.len().min(BLOCK);
        match self.from.read(room.get_mut(..most).unwrap_or_default()) {
            Ok(0) => {
                let open = self.held().last().is_some_and(|last| *last != b'\n');
                if !self.at_end
                    && open
                    && let Some(place) = self.buf.get_mut(self.end)
                {
                    *place = b'\n';
                    self.end += 1;
                }
                self.at_end = true;
            }
            Ok(n) => self.end += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Returns the number of bytes of `lines` before the first over-long line, or of all lines if none
/// is over-long.
pub(super) fn in_bounds(lines: &[u8]) -> usize {
    let mut at = 0;
    while let Some(window) = lines.get(at..).filter(|rest| rest.len() > MAX_READ + 1) {
        match window.get(..=MAX_READ).and_then(|window| memchr::memrchr(b'\n', window)) {
            Some(newline) => at += newline + 1,
            None => return at,
        }
    }
    lines.len()
}
