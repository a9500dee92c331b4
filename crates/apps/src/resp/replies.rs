//! Buffer of replies to send to a client.

use std::fmt;
use std::io::Write;

/// Capacity in bytes that the buffer keeps when it is empty.
const KEPT: usize = 16 * 1024;

/// Protocol version that a client uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// RESP2, the initial version of each connection.
    #[default]
    Two,
    /// RESP3, after HELLO 3.
    Three,
}

/// Buffer of replies with a maximum size of `most` bytes. A reply that would exceed it is not
/// added; the connection must then be closed (see [`Replies::is_over`]).
#[derive(Debug)]
pub struct Replies {
    bytes: Vec<u8>,
    sent: usize,
    most: usize,
    is_over: bool,
    /// Protocol version in which the following replies are written.
    pub version: Version,
}

impl Replies {
    /// Creates an empty buffer that holds at most `most` bytes.
    pub fn new(most: usize) -> Replies {
        Replies { bytes: Vec::new(), sent: 0, most, is_over: false, version: Version::Two }
    }

    /// Returns the bytes that are still to be sent.
    pub fn waiting(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// Returns the capacity of the buffer in bytes.
    pub fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns whether a reply would have exceeded the limit; the buffered replies are then
    /// incomplete.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Removes the first `n` bytes after they were sent.
    pub fn sent(&mut self, n: usize) {
        self.sent = self.sent.saturating_add(n);
        if self.sent >= self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
            self.sent = 0;
        }
    }

    /// Adds the concatenation of `parts`, which need not be RESP, unless it would exceed the limit.
    #[inline]
    pub fn put(&mut self, parts: &[&[u8]]) {
        let more: usize = parts.iter().map(|part| part.len()).sum();
        if self.is_over || self.bytes.len() - self.sent + more > self.most {
            self.is_over = true;
            return;
        }
        if self.sent > KEPT && self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
    }

    /// Adds `+OK`.
    pub fn ok(&mut self) {
        self.put(&[b"+OK\r\n"]);
    }

    /// Adds a simple string; `line` must not contain a line end.
    pub fn line(&mut self, line: &str) {
        self.put(&[b"+", line.as_bytes(), b"\r\n"]);
    }

    /// Adds an error, whose first word is the error code, such as `ERR`. Line ends in the text are
    /// replaced by blanks.
    pub fn error(&mut self, why: impl fmt::Display) {
        let mut line = format!("-{why}").into_bytes();
        line.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
        self.put(&[&line, b"\r\n"]);
    }

    pub fn integer(&mut self, n: i64) {
        self.number(b":", n);
    }

    /// Adds a number of elements as an integer.
    pub fn count(&mut self, n: usize) {
        self.integer(i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// Adds a bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        let mut digits = [0; 20];
        self.put(&[b"$", decimal(bytes.len() as i64, &mut digits), b"\r\n", bytes, b"\r\n"]);
    }

    /// Adds a floating-point number; in RESP2 it is a bulk string. Integral values have no decimal
    /// point.
    pub fn double(&mut self, number: f64) {
        let text = number_text(number);
        match self.version {
            Version::Two => self.bulk(text.as_bytes()),
            Version::Three => self.put(&[b",", text.as_bytes(), b"\r\n"]),
        }
    }

    /// Adds a floating-point number as a bulk string in both versions, as the SCAN commands
    /// require.
    pub fn bulk_double(&mut self, number: f64) {
        self.bulk(number_text(number).as_bytes());
    }

    /// Adds a text for human readers: in RESP2 a bulk string, in RESP3 a verbatim string.
    pub fn text(&mut self, text: &str) {
        let mut digits = [0; 20];
        match self.version {
            Version::Two => self.bulk(text.as_bytes()),
            // The length includes the format `txt` and the colon.
            Version::Three => {
                let len = decimal(text.len() as i64 + 4, &mut digits);
                self.put(&[b"=", len, b"\r\ntxt:", text.as_bytes(), b"\r\n"]);
            }
        }
    }

    /// Adds the null bulk string.
    pub fn nil(&mut self) {
        self.null(b"$-1\r\n");
    }

    /// Adds the null array.
    pub fn nil_array(&mut self) {
        self.null(b"*-1\r\n");
    }

    /// Adds a null: in RESP2 the bytes `of_two`, in RESP3 its single null type.
    fn null(&mut self, of_two: &[u8]) {
        self.put(&[if self.version == Version::Three { b"_\r\n" } else { of_two }]);
    }

    /// Starts a map; `pairs` pairs of replies must follow. In RESP2 it is an array.
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            Version::Two => self.array(2 * pairs),
            Version::Three => self.number(b"%", pairs as i64),
        }
    }

    /// Starts a set; `n` replies must follow. In RESP2 it is an array.
    pub fn set(&mut self, n: usize) {
        match self.version {
            Version::Two => self.array(n),
            Version::Three => self.number(b"~", n as i64),
        }
    }

    /// Adds pairs of a name and a score: in RESP2 as one flat array, in RESP3 as an array of pairs.
    pub fn scored<'n>(&mut self, pairs: impl ExactSizeIterator<Item = (&'n [u8], f64)>) {
        match self.version {
            Version::Two => self.array(2 * pairs.len()),
            Version::Three => self.array(pairs.len()),
        }
        for (name, number) in pairs {
            if self.version == Version::Three {
                self.array(2);
            }
            self.bulk(name);
            self.double(number);
        }
    }

    /// Starts an array; `n` replies must follow.
    pub fn array(&mut self, n: usize) {
        self.number(b"*", n as i64);
    }

    fn number(&mut self, mark: &[u8], n: i64) {
        let mut digits = [0; 20];
        self.put(&[mark, decimal(n, &mut digits), b"\r\n"]);
    }
}

/// Formats a number as decimal digits into the buffer `digits`; returns the used part.
pub fn decimal(n: i64, digits: &mut [u8; 20]) -> &[u8] {
    let (mut at, mut rest) = (digits.len(), n.unsigned_abs());
    loop {
        at = at.saturating_sub(1);
        if let Some(digit) = digits.get_mut(at) {
            *digit = b'0' + (rest % 10) as u8;
        }
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        at = at.saturating_sub(1);
        if let Some(digit) = digits.get_mut(at) {
            *digit = b'-';
        }
    }
    digits.get(at..).unwrap_or_default()
}

fn number_text(score: f64) -> String {
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = match score.abs() {
        size if size.is_infinite() || size == 0.0 || (1e-5..1e17).contains(&size) => write!(text, "{score}"),
        // As in stock Redis, an exponent always has a sign.
        _ => {
            let text_of = format!("{score:e}");
            let (digits, exponent) = text_of.split_once('e').unwrap_or((&text_of, "0"));
            let sign = if exponent.starts_with('-') { '-' } else { '+' };
            write!(text, "{digits}e{sign}{}", exponent.trim_start_matches('-'))
        }
    };
    String::from_utf8(text).unwrap_or_default()
}
