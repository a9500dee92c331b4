//! Parser of frames in lines that arrive in pieces. The module does no I/O: the caller writes bytes
//! to [`Lines::room`], and [`Lines::next`] finds the frames in them.

use wire::text::{self, MAX_FRAME, MAX_READ, Next, SLACK};

/// Maximum number of bytes in one read.
const BLOCK: usize = 64 * 1024;
/// Maximum number of bad lines reported individually; further ones are only counted.
const TOLD: usize = 10;

/// Kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A frame; [`Lines::frame`] returns it.
    Frame,
    /// A line that is not a frame.
    Bad,
}

/// Buffered bytes, and the frame parsed from them.
#[derive(Debug)]
pub(crate) struct Lines {
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// The last parsed frame, followed by space for vector stores beyond its end.
    frame: Vec<u8>,
    len: usize,
    /// True if the next call of [`Lines::next`] must return the last frame again.
    again: bool,
    /// True while the rest of an over-long line is being discarded.
    skipping: bool,
    /// Number of lines read so far.
    lines: u64,
    bad: u64,
    reported: Vec<String>,
}

impl Lines {
    pub(crate) fn new() -> Lines {
        Lines {
            // Space for an incomplete line, one block after it, and a newline that may be missing
            // at the end of the file.
            buf: vec![0; MAX_READ + BLOCK + 2],
            start: 0,
            end: 0,
            frame: vec![0; MAX_FRAME + SLACK],
            len: 0,
            again: false,
            skipping: false,
            lines: 0,
            bad: 0,
            reported: Vec::new(),
        }
    }

    /// Returns the free space for further bytes. It is never empty after [`Lines::next`] has
    /// returned `None`.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let most = (self.end + BLOCK).min(self.buf.len() - 1);
        self.buf.get_mut(self.end..most).unwrap_or_default()
    }

    /// Records that `bytes` bytes were written to the space that [`Lines::room`] returned.
    pub(crate) fn came(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buf.len() - 1);
    }

    /// Marks the end of the input. Its last line may lack a newline.
    pub(crate) fn close(&mut self) {
        let rest = self.held().last().is_some_and(|last| *last != b'\n');
        if let Some(behind) = self.buf.get_mut(self.end).filter(|_| rest) {
            *behind = b'\n';
            self.end += 1;
        }
    }

    fn held(&self) -> &[u8] {
        self.buf.get(self.start..self.end).unwrap_or_default()
    }

    /// Returns whether no input is buffered, not even a part of a line.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end && !self.again
    }

    /// Parses the next line that is not blank. Returns `None` if there is no complete line.
    pub(crate) fn next(&mut self) -> Option<Line> {
        if std::mem::take(&mut self.again) {
            return Some(Line::Frame);
        }
        loop {
            if self.skipping {
                self.skip();
            }
            let held = self.buf.get(self.start..self.end).unwrap_or_default();
            if held.is_empty() {
                return None;
            }
            let next = text::next(held, &mut self.frame);
            self.lines += u64::from(next != Next::Partial);
            match next {
                Next::Frame { len, used, .. } => {
                    (self.start, self.len) = (self.start + used, len);
                    return Some(Line::Frame);
                }
                Next::Blank { used } => self.start += used,
                Next::Bad { why, used } => {
                    self.start += used;
                    self.skipping = self.buf.get(self.start - 1) != Some(&b'\n');
                    self.warn(&why.to_string());
                    return Some(Line::Bad);
                }
                Next::Partial => return None,
            }
        }
    }

    /// Returns the frame of the line that [`Lines::next`] parsed.
    pub(crate) fn frame(&self) -> &[u8] {
        self.frame.get(..self.len).unwrap_or_default()
    }

    /// Makes [`Lines::next`] return the last frame again, because there was no buffer for it.
    pub(crate) fn once_more(&mut self) {
        self.again = true;
    }

    /// Counts the last line as bad, for the reason `why`.
    pub(crate) fn refuse(&mut self, why: &str) {
        self.warn(why);
    }

    fn warn(&mut self, why: &str) {
        self.bad += 1;
        if self.reported.len() < TOLD {
            self.reported.push(format!("line {}, {why}", self.lines));
        }
    }

    fn skip(&mut self) {
        let end = self.held().iter().position(|byte| *byte == b'\n');
        self.start = end.map_or(self.end, |end| self.start + end + 1);
        self.skipping = end.is_none();
    }

    /// Returns warnings about the first bad lines, one sentence each, and then the total number of
    /// bad lines.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let sum = (self.bad > 0).then(|| format!("{} of {} lines are not valid frames", self.bad, self.lines));
        self.reported.iter().cloned().chain(sum).collect()
    }

    /// Returns the warning about the first bad line; `None` if there is none.
    pub(crate) fn first_bad(&self) -> Option<&str> {
        self.reported.first().map(String::as_str)
    }
}
