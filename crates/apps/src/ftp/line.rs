//! Splits the bytes of the control connection into lines of bounded length and removes Telnet
//! commands (RFC 1123 4.1.2.10).

/// Maximum length of a line in bytes, enough for a command with the longest file name.
pub(super) const LINE_MAX: usize = 1100;
/// Maximum number of received bytes buffered.
const HELD_MAX: usize = 4 * 1024;
/// Number of discarded bytes of a single line after which the session is ended.
const FLOOD: usize = 64 * 1024;

const IAC: u8 = 255;
/// Telnet command WILL; the next values are WONT, DO and DONT. Each is followed by an option byte.
const WILL: u8 = 251;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Line {
    /// A complete line, without its line end.
    Text(Vec<u8>),
    /// A line that exceeded the maximum length.
    TooLong,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Telnet {
    #[default]
    Data,
    Command,
    Option,
}

/// Input buffer that is split into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    held: Vec<u8>,
    /// Number of buffered bytes that are known to contain no line end.
    searched: usize,
    skipped: usize,
    telnet: Telnet,
}

impl Lines {
    /// Returns how many more bytes can be buffered.
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
        // An over-long line is discarded as it arrives, so that the buffer has space for the end of
        // the line.
        if self.line_end().is_none() && (self.skipped > 0 || self.held.len() > LINE_MAX) {
            self.skipped = self.skipped.saturating_add(self.held.len());
            self.held.clear();
            self.searched = 0;
        }
    }

    /// Returns whether the peer has sent more than [`FLOOD`] bytes without a line end.
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

    /// Returns whether the next complete line consists only of the command `verb`.
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
