//! Frames out of lines that come in pieces. Knows no file: bytes go to [`Lines::room`], and [`Lines::next`] finds frames in them.

use wire::text::{self, MAX_FRAME, MAX_READ, Next, SLACK};

/// Bytes asked of a file at once.
const BLOCK: usize = 64 * 1024;
/// Lines that are no frames of which more is kept than their number.
const TOLD: usize = 10;

/// What a line was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A frame: [`Lines::frame`].
    Frame,
    /// No frame.
    Bad,
}

/// Bytes that came, and what was found in them.
#[derive(Debug)]
pub(crate) struct Lines {
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// The frame of the line before `start`, and room for vectors behind it.
    frame: Vec<u8>,
    len: usize,
    /// That frame is to come again.
    again: bool,
    /// Within a line without an end: the rest of it is nothing.
    skipping: bool,
    /// Lines so far.
    lines: u64,
    bad: u64,
    told: Vec<String>,
}

impl Lines {
    pub(crate) fn new() -> Lines {
        Lines {
            // What may wait for the end of its line, a block behind it, and that end where a file lacks it.
            buf: vec![0; MAX_READ + BLOCK + 2],
            start: 0,
            end: 0,
            frame: vec![0; MAX_FRAME + SLACK],
            len: 0,
            again: false,
            skipping: false,
            lines: 0,
            bad: 0,
            told: Vec::new(),
        }
    }

    /// Where bytes that come are to be written, once [`Lines::next`] has given all it can; never empty then.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let most = (self.end + BLOCK).min(self.buf.len() - 1);
        self.buf.get_mut(self.end..most).unwrap_or_default()
    }

    /// So many bytes were written to [`Lines::room`].
    pub(crate) fn came(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buf.len() - 1);
    }

    /// Nothing more will come: the last line may lack its end.
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

    /// Is there nothing left, not even the beginning of a line?
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end && !self.again
    }

    /// The next line that is not blank; `None` if there is no whole one.
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
                    self.tell(&why.to_string());
                    return Some(Line::Bad);
                }
                Next::Partial => return None,
            }
        }
    }

    /// The frame of the line that [`Lines::next`] has found.
    pub(crate) fn frame(&self) -> &[u8] {
        self.frame.get(..self.len).unwrap_or_default()
    }

    /// Gives the last frame once more: there was no place for it.
    pub(crate) fn once_more(&mut self) {
        self.again = true;
    }

    /// The last line is counted as no frame: `why` says what is wrong.
    pub(crate) fn refuse(&mut self, why: &str) {
        self.tell(why);
    }

    fn tell(&mut self, why: &str) {
        self.bad += 1;
        if self.told.len() < TOLD {
            self.told.push(format!("line {}, {why}", self.lines));
        }
    }

    fn skip(&mut self) {
        let end = self.held().iter().position(|byte| *byte == b'\n');
        self.start = end.map_or(self.end, |end| self.start + end + 1);
        self.skipping = end.is_none();
    }

    /// The first lines that are no frames, a sentence each, and how many there were.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let sum = (self.bad > 0).then(|| format!("{} of {} lines are no frames", self.bad, self.lines));
        self.told.iter().cloned().chain(sum).collect()
    }

    /// The first line that is no frame.
    pub(crate) fn first_bad(&self) -> Option<&str> {
        self.told.first().map(String::as_str)
    }
}
