//! The control connection's bytes as lines: bounded, and with Telnet's commands taken out (RFC 1123 4.1.2.10).

/// Bytes of a line: a verb, and the longest name.
pub(super) const LINE_MAX: usize = 1100;
/// Bytes held.
const HELD_MAX: usize = 4 * 1024;
/// Bytes of a line that are thrown away before the sender is taken for a flood.
const FLOOD: usize = 64 * 1024;

const IAC: u8 = 255;
/// WILL, WONT, DO, DONT: an option follows.
const WILL: u8 = 251;

/// A line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Line {
    /// Without its end.
    Text(Vec<u8>),
    /// It was longer than a line can be.
    TooLong,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Telnet {
    #[default]
    Data,
    Command,
    Option,
}

/// Bytes on their way to be lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    held: Vec<u8>,
    /// Bytes in which there is no line end.
    searched: usize,
    skipped: usize,
    telnet: Telnet,
}

impl Lines {
    /// How many more bytes can be taken.
    pub(super) fn room(&self) -> usize {
        HELD_MAX.saturating_sub(self.held.len())
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match (self.telnet, byte) {
                (Telnet::Data, IAC) => self.telnet = Telnet::Command,
                (Telnet::Command, WILL..=254) => self.telnet = Telnet::Option,
                (Telnet::Data, byte) => self.held.push(byte),
                (Telnet::Command, IAC) => {
                    self.held.push(IAC);
                    self.telnet = Telnet::Data;
                }
                (Telnet::Command | Telnet::Option, _) => self.telnet = Telnet::Data,
            }
        }
        // A line that cannot end in time is thrown away as it comes, so that there is room for its end.
        if self.line_end().is_none() && (self.skipped > 0 || self.held.len() > LINE_MAX) {
            self.skipped = self.skipped.saturating_add(self.held.len());
            self.held.clear();
            self.searched = 0;
        }
    }

    /// Is somebody sending a line without end?
    pub(super) fn is_flood(&self) -> bool {
        self.skipped > FLOOD
    }

    fn line_end(&mut self) -> Option<usize> {
        let new = self.held.get(self.searched..).unwrap_or_default();
        match new.iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                self.searched += at;
                Some(self.searched)
            }
            None => {
                self.searched = self.held.len();
                None
            }
        }
    }

    /// Is the next line this verb?
    pub(super) fn next_is(&mut self, verb: &[u8]) -> bool {
        let Some(end) = self.line_end() else { return false };
        let line = self.held.get(..end).unwrap_or_default().trim_ascii();
        self.skipped == 0 && line.eq_ignore_ascii_case(verb)
    }

    pub(super) fn next_line(&mut self) -> Option<Line> {
        let end = self.line_end()?;
        let mut line: Vec<u8> = self.held.drain(..=end).collect();
        self.searched = 0;
        let was_cut = std::mem::take(&mut self.skipped) > 0;
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Some(if was_cut || line.len() > LINE_MAX { Line::TooLong } else { Line::Text(line) })
    }
}
