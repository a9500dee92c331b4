//! Replies as bytes that wait to be sent.

use std::fmt;
use std::io::Write;

/// Bytes of memory that are kept when nothing waits.
const KEPT: usize = 16 * 1024;

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// RESP2, from which each connection starts.
    #[default]
    Two,
    /// RESP3, after HELLO 3.
    Three,
}

/// Replies that wait. Beyond `most` bytes nothing more is taken in, and the connection cannot be kept: [`Replies::is_over`].
#[derive(Debug)]
pub struct Replies {
    bytes: Vec<u8>,
    sent: usize,
    most: usize,
    is_over: bool,
    /// Protocol version of the replies that follow.
    pub version: Version,
}

impl Replies {
    /// None, of at most `most` bytes.
    pub fn new(most: usize) -> Replies {
        Replies { bytes: Vec::new(), sent: 0, most, is_over: false, version: Version::Two }
    }

    /// What is to be sent.
    pub fn waiting(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// Bytes held.
    pub fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Was there more to say than may wait? What waits then is not whole.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The first `n` bytes that waited are sent.
    pub fn sent(&mut self, n: usize) {
        self.sent = self.sent.saturating_add(n);
        if self.sent >= self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
            self.sent = 0;
        }
    }

    /// Parts of something that is no reply of RESP, all of them or none.
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

    /// `+OK`.
    pub fn ok(&mut self) {
        self.put(&[b"+OK\r\n"]);
    }

    /// A line; it must have no line end in it.
    pub fn line(&mut self, line: &str) {
        self.put(&[b"+", line.as_bytes(), b"\r\n"]);
    }

    /// An error, its first word the kind. Line ends in it become blanks.
    pub fn error(&mut self, why: impl fmt::Display) {
        let mut line = format!("-{why}").into_bytes();
        line.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
        self.put(&[&line, b"\r\n"]);
    }

    /// An integer.
    pub fn integer(&mut self, n: i64) {
        self.number(b":", n);
    }

    /// How many of something, as an integer.
    pub fn count(&mut self, n: usize) {
        self.integer(i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        let mut digits = [0; 20];
        self.put(&[b"$", decimal(bytes.len() as i64, &mut digits), b"\r\n", bytes, b"\r\n"]);
    }

    /// A double: of RESP2 a bulk string; an integer has no point.
    pub fn double(&mut self, number: f64) {
        let text = number_text(number);
        match self.version {
            Version::Two => self.bulk(text.as_bytes()),
            Version::Three => self.put(&[b",", text.as_bytes(), b"\r\n"]),
        }
    }

    /// A double as a bulk string in both versions, as the SCAN commands have it.
    pub fn bulk_double(&mut self, number: f64) {
        self.bulk(number_text(number).as_bytes());
    }

    /// A text for people: of RESP2 a bulk string, of RESP3 a verbatim string.
    pub fn text(&mut self, text: &str) {
        let mut digits = [0; 20];
        match self.version {
            Version::Two => self.bulk(text.as_bytes()),
            // Its length includes the format and the colon.
            Version::Three => {
                let len = decimal(text.len() as i64 + 4, &mut digits);
                self.put(&[b"=", len, b"\r\ntxt:", text.as_bytes(), b"\r\n"]);
            }
        }
    }

    /// No bulk string.
    pub fn nil(&mut self) {
        self.null(b"$-1\r\n");
    }

    /// No array.
    pub fn nil_array(&mut self) {
        self.null(b"*-1\r\n");
    }

    /// RESP3 has one null for all types.
    fn null(&mut self, of_two: &[u8]) {
        self.put(&[if self.version == Version::Three { b"_\r\n" } else { of_two }]);
    }

    /// A map: so many pairs of replies follow; of RESP2 an array.
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            Version::Two => self.array(2 * pairs),
            Version::Three => self.number(b"%", pairs as i64),
        }
    }

    /// A set: so many replies follow; of RESP2 an array.
    pub fn set(&mut self, n: usize) {
        match self.version {
            Version::Two => self.array(n),
            Version::Three => self.number(b"~", n as i64),
        }
    }

    /// Pairs of a name and a number: of RESP2 one array of both in turn, of RESP3 an array of
    /// pairs.
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

    /// An array: so many replies follow.
    pub fn array(&mut self, n: usize) {
        self.number(b"*", n as i64);
    }

    fn number(&mut self, mark: &[u8], n: i64) {
        let mut digits = [0; 20];
        self.put(&[mark, decimal(n, &mut digits), b"\r\n"]);
    }
}

/// A number's digits.
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
    // Into memory nothing fails.
    let _ = match score.abs() {
        size if size.is_infinite() || size == 0.0 || (1e-5..1e17).contains(&size) => write!(text, "{score}"),
        // As stock writes it: an exponent has its sign.
        _ => {
            let text_of = format!("{score:e}");
            let (digits, exponent) = text_of.split_once('e').unwrap_or((&text_of, "0"));
            let sign = if exponent.starts_with('-') { '-' } else { '+' };
            write!(text, "{digits}e{sign}{}", exponent.trim_start_matches('-'))
        }
    };
    String::from_utf8(text).unwrap_or_default()
}
