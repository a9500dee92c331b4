//! A client of a control socket, with its unfinished request and its unread answer.

use super::limits::{ANSWER_MAX, ControlCounts, LINE_MAX, PATIENCE};
use super::line;
use clock::Instant;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// Start of the timeout: the time when the current request line began, or the time of the last
    /// write.
    pub(super) since: Instant,
    last: bool,
}

/// Result of a turn of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// A request was answered, and another may be pending.
    Again,
    /// There is nothing to do until more data arrives or can be written.
    Waits,
    /// The client is finished or must be disconnected.
    Ended,
}

impl Peer {
    pub(super) fn new(stream: UnixStream, now: Instant) -> Peer {
        Peer { stream, input: Vec::new(), output: Vec::new(), written: 0, since: now, last: false }
    }

    /// Returns whether an answer is not yet fully written.
    pub(super) fn is_writing(&self) -> bool {
        self.written < self.output.len()
    }

    /// Returns whether the client is between two requests.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_writing() && self.input.is_empty()
    }

    /// Sends an error as far as possible without blocking, and disconnects the client.
    pub(super) fn refuse(mut self, why: &str) {
        self.reply(Err(why.to_string()));
        // If the socket does not accept the error without blocking, the error is lost.
        let _ = self.stream.write(&self.output);
    }

    /// Performs one step for the client: writes pending output, answers one request, or reads
    /// input.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        counts: &ControlCounts,
        answer: &mut impl FnMut(&[&str], bool) -> Result<String, String>,
    ) -> Turn {
        if self.is_writing() {
            return self.write(now, counts);
        }
        if self.last {
            return Turn::Ended;
        }
        match self.take_line() {
            Some(line) => self.request(&line, counts, answer),
            None => return self.read(now, counts),
        }
        self.write(now, counts)
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = memchr(b'\n', &self.input)?;
        let mut line: Vec<u8> = self.input.drain(..=end).collect();
        line.pop();
        Some(line)
    }

    fn request(
        &mut self,
        line: &[u8],
        counts: &ControlCounts,
        answer: &mut impl FnMut(&[&str], bool) -> Result<String, String>,
    ) {
        if line.len() > LINE_MAX {
            counts.overlong.bump();
            return self.end_with(&format!("request line too long: at most {LINE_MAX} bytes"));
        }
        let words = match line::split(line) {
            Ok(words) => words,
            Err(why) => {
                counts.garbage.bump();
                return self.end_with(&why.to_string());
            }
        };
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        let json = words.first() == Some(&"-j");
        if json {
            words.remove(0);
        }
        let mut result = answer(&words, json);
        if result.as_ref().is_ok_and(|text| text.len() > ANSWER_MAX) {
            result = Err(format!("answer exceeds {ANSWER_MAX} bytes; narrow the request"));
        }
        counts.requests.bump();
        if result.is_err() {
            counts.errors.bump();
        }
        self.reply(result);
    }

    fn reply(&mut self, result: Result<String, String>) {
        let (word, text) = match &result {
            Ok(text) => ("ok", text),
            Err(text) => ("error", text),
        };
        (self.output, self.written) = (format!("{word} {}\n{text}", text.len()).into_bytes(), 0);
    }

    /// Queues an error as the last answer. The client is disconnected once the error is written.
    fn end_with(&mut self, why: &str) {
        self.reply(Err(why.to_string()));
        self.last = true;
        self.input.clear();
    }

    fn read(&mut self, now: Instant, counts: &ControlCounts) -> Turn {
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(0) => Turn::Ended, // an unterminated line is ignored
            Ok(n) => {
                if self.input.is_empty() {
                    self.since = now; // the timeout is for the line, not for each of its bytes
                }
                self.input.extend(chunk.iter().take(n));
                if self.input.len() > LINE_MAX && memchr(b'\n', &self.input).is_none() {
                    counts.overlong.bump();
                    self.end_with(&format!("request line too long: at most {LINE_MAX} bytes"));
                }
                Turn::Again
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Turn::Again,
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.waited(now, counts),
            Err(_) => Turn::Ended,
        }
    }

    fn waited(&mut self, now: Instant, counts: &ControlCounts) -> Turn {
        if self.input.is_empty() || now.since(self.since) < PATIENCE {
            return Turn::Waits;
        }
        counts.silent.bump();
        self.end_with(&format!("incomplete request line: not completed within {} s", PATIENCE.as_secs()));
        Turn::Again
    }

    fn write(&mut self, now: Instant, counts: &ControlCounts) -> Turn {
        while let Some(rest) = self.output.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return Turn::Ended,
                Ok(n) => (self.written, self.since) = (self.written + n, now),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if now.since(self.since) < PATIENCE {
                        return Turn::Waits;
                    }
                    counts.slow.bump();
                    return Turn::Ended;
                }
                Err(_) => return Turn::Ended,
            }
        }
        (self.output, self.written, self.since) = (Vec::new(), 0, now);
        if self.last { Turn::Ended } else { Turn::Again }
    }
}

fn memchr(byte: u8, bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|b| *b == byte)
}
