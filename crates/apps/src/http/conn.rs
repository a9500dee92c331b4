//! One HTTP connection: receives one request at a time and sends one answer at a time.
//!
//! While an answer is being sent, at most [`HEAD_MAX`] bytes of pipelined requests are buffered;
//! the rest stays in the socket. If the connection has to be closed, it is closed after the current
//! answer is complete.

use super::answer::{self, Answer};
use super::request::{Bad, Request, Scan};
use super::{Config, HEAD_MAX, HttpCounts};
use crate::files::Source;
use linerate::stack::Instant;
use std::io;

/// State of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Open,
    /// All answers are sent; the connection can be closed.
    Done,
    /// An answer cannot be completed, for example because the file was truncated; the connection is
    /// reset.
    Broken,
}

/// Maximum length of a body that is sent together with the status line and the header fields, in
/// one send call.
const TOGETHER: usize = 8 * 1024;

/// Maximum number of empty lines before a request.
const EMPTY_LINES: usize = 4;

#[derive(Debug)]
pub(super) struct Conn {
    input: Vec<u8>,
    scan: Scan,
    /// Number of bytes of a request body that are still to be discarded.
    skip: u64,
    out: Vec<u8>,
    out_at: usize,
    body: Option<Source>,
    is_last: bool,
    at_eof: bool,
    is_broken: bool,
    was_stalled: bool,
    requests: u32,
    /// Time when the current wait began: for a request, for the rest of its head, or for the client
    /// to read its answer.
    since: Instant,
}

impl Conn {
    pub(super) fn new(now: Instant) -> Conn {
        Conn {
            input: Vec::new(),
            scan: Scan::default(),
            skip: 0,
            out: Vec::new(),
            out_at: 0,
            body: None,
            is_last: false,
            at_eof: false,
            is_broken: false,
            was_stalled: false,
            requests: 0,
            since: now,
        }
    }

    /// Returns the time of the last activity, or the time when the current wait began.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    pub(super) fn status(&self) -> Status {
        match () {
            () if self.is_broken => Status::Broken,
            () if self.is_sending() => Status::Open,
            // The rest of a partial request can no longer arrive.
            () if self.is_last || self.at_eof => Status::Done,
            () => Status::Open,
        }
    }

    fn is_sending(&self) -> bool {
        self.out_at < self.out.len() || self.body.is_some()
    }

    pub(super) fn room(&self) -> usize {
        if self.is_last { 0 } else { HEAD_MAX.saturating_sub(self.input.len()) }
    }

    pub(super) fn on_bytes(&mut self, bytes: &[u8], config: &Config, counts: &HttpCounts, now: Instant) {
        let had_head = self.has_head();
        self.input.extend_from_slice(bytes);
        if !had_head && self.has_head() && !self.is_sending() && self.skip == 0 {
            self.since = now;
        }
        self.proceed(config, counts, now);
    }

    /// Returns whether a request has begun. Leading empty lines (RFC 9112 2.2) do not count;
    /// otherwise a client could keep the connection open by sending empty lines.
    fn has_head(&self) -> bool {
        self.input.iter().any(|byte| !matches!(byte, b'\r' | b'\n'))
    }

    pub(super) fn on_eof(&mut self) {
        self.at_eof = true;
    }

    /// Answers the next request, if it is complete and no other answer is being sent.
    fn proceed(&mut self, config: &Config, counts: &HttpCounts, now: Instant) {
        while !self.is_sending() && !self.is_last {
            if self.skip > 0 {
                let n = self.input.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
                self.input.drain(..n);
                self.skip -= n as u64;
                if self.skip > 0 {
                    return;
                }
            }
            let answer = match self.next_request() {
                Ok(None) => return,
                Ok(Some(request)) => {
                    self.requests += 1;
                    let may_keep = self.requests < config.requests_max;
                    let answer = answer::answer(&request, may_keep, config, now);
                    if answer.status < 400 {
                        counts.answered.bump()
                    } else {
                        counts.unserved.bump()
                    }
                    // The body of the last request is not skipped: no request is read after it.
                    self.skip = if answer.close { 0 } else { request.body };
                    answer
                }
                Err(bad) => {
                    counts.malformed.bump();
                    answer::refusal(bad, config, now)
                }
            };
            self.begin(answer, now);
        }
    }

    fn next_request(&mut self) -> Result<Option<Request>, Bad> {
        // RFC 9112 2.2: empty lines before a request are skipped, up to EMPTY_LINES.
        for _ in 0..=EMPTY_LINES {
            let Some(end) = self.scan.advance(&self.input)? else { return Ok(None) };
            let head: Vec<u8> = self.input.drain(..end).collect();
            self.scan = Scan::default();
            if head != b"\r\n" {
                return Request::parse(&head).map(Some);
            }
        }
        Err(Bad::RequestLine)
    }

    fn begin(&mut self, answer: Answer, now: Instant) {
        (self.out, self.out_at, self.is_last, self.since) = (answer.head, 0, answer.close, now);
        self.body = answer.body.filter(|body| body.left() != Some(0));
        let is_short = self.body.as_ref().and_then(Source::left).is_some_and(|left| left <= TOGETHER as u64);
        while is_short && let Some(body) = &mut self.body {
            match body.peek() {
                Ok([]) => self.body = None,
                Ok(bytes) => {
                    self.out.extend_from_slice(bytes);
                    let n = bytes.len();
                    body.advance(n);
                }
                Err(_) => return, // the next call of output() returns the error
            }
        }
    }

    /// Returns the bytes to send next.
    pub(super) fn output(&mut self, _now: Instant) -> io::Result<&[u8]> {
        if self.out_at < self.out.len() {
            return Ok(self.out.get(self.out_at..).unwrap_or_default());
        }
        let Some(body) = &mut self.body else { return Ok(&[]) };
        let bytes = body.peek();
        self.is_broken |= bytes.is_err();
        bytes
    }

    pub(super) fn sent(&mut self, n: usize, config: &Config, counts: &HttpCounts, now: Instant) {
        self.since = now;
        if self.out_at < self.out.len() {
            self.out_at = self.out_at.saturating_add(n);
        } else if let Some(body) = &mut self.body {
            body.advance(n);
            if body.left() == Some(0) {
                self.body = None;
            }
        }
        if self.out_at >= self.out.len() && !self.out.is_empty() {
            (self.out, self.out_at) = (Vec::new(), 0);
        }
        self.proceed(config, counts, now);
    }

    pub(super) fn deadline(&self, config: &Config) -> Instant {
        self.since.after(if self.is_sending() { config.send_time } else { config.head_time })
    }

    pub(super) fn on_timeout(&mut self, config: &Config, counts: &HttpCounts, now: Instant) {
        if self.is_sending() {
            counts.stalled.bump();
            self.was_stalled = true;
        } else if !self.has_head() && self.skip == 0 {
            counts.idle.bump();
            self.is_last = true;
        } else {
            counts.head_late.bump();
            let answer = answer::request_timeout(config, now);
            self.begin(answer, now);
        }
    }

    /// Returns whether the time limit expired because the client stopped reading the answer.
    pub(super) fn is_stuck(&self) -> bool {
        self.was_stalled
    }
}
