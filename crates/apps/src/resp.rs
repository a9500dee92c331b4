//! RESP2 and RESP3, the protocols of Redis clients (redis.io, "Redis serialization protocol
//! specification"), with limits on memory. Requests are the same in both versions; RESP3 adds maps,
//! sets, doubles and a single null type to the replies. The server side supports both versions, the
//! parser for clients only RESP2.
//!
//! ```text
//!  received bytes -> Requests        one request at a time: an array of bulk strings, or a line of
//!                                    words ("inline")
//!  Replies -> bytes to send          lines, errors, integers, bulk strings, arrays
//!  bytes of a server -> reply::first returns the length and content of the first complete reply
//! ```
//!
//! No byte is scanned twice, even if a request arrives in small pieces. Malformed requests and
//! requests beyond the [`Limits`] return [`Bad`]. After such an error the parser cannot find the
//! start of the next request, so the connection must be closed. The texts of [`Bad`] are those that
//! clients expect.

mod inline;
pub mod replies;
pub mod reply;
#[cfg(test)]
mod tests;

use std::fmt;

pub use replies::{Replies, Version};

/// Maximum length in bytes of a line that contains a number of arguments or the length of an
/// argument.
const COUNT_LINE: usize = 32;
/// Number of bytes that may be buffered beyond the start of the current argument.
const AHEAD: usize = 16 * 1024;

/// Limits on one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum length of an argument in bytes.
    pub bulk: usize,
    /// Maximum number of arguments.
    pub args: usize,
    /// Maximum length of an inline request in bytes.
    pub line: usize,
    /// Maximum length of a whole request in bytes.
    pub request: usize,
}

impl Default for Limits {
    /// Returns limits that are lower than those of stock Redis, which permits 512 MB per argument
    /// and a million arguments: too much memory for an unauthenticated client.
    fn default() -> Limits {
        Limits { bulk: 1 << 20, args: 65_536, line: 64 * 1024, request: 8 << 20 }
    }
}

/// Reason why received bytes are not accepted as a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bad {
    /// The inline request is longer than [`Limits::line`].
    Line,
    /// An inline request has unbalanced quotes.
    Quotes,
    /// The line with the number of arguments is too long.
    CountLine,
    /// The number of arguments is invalid or too large.
    Count,
    /// This byte was received where a bulk string (`$`) must start.
    Expected(u8),
    /// The line with the length of a bulk string is too long.
    LengthLine,
    /// The length of a bulk string is invalid or too large.
    Length,
    /// A bulk string is not followed by a line end.
    End,
    /// All arguments together exceed [`Limits::request`].
    Request,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Bad::Line => f.write_str("too big inline request"),
            Bad::Quotes => f.write_str("unbalanced quotes in request"),
            Bad::CountLine => f.write_str("too big mbulk count string"),
            Bad::Count => f.write_str("invalid multibulk length"),
            Bad::Expected(got) => write!(f, "expected '$', got '{}'", got.escape_ascii()),
            Bad::LengthLine => f.write_str("too big bulk count string"),
            Bad::Length => f.write_str("invalid bulk length"),
            Bad::End => f.write_str("missing CRLF after a bulk string"),
            Bad::Request => f.write_str("too big request"),
        }
    }
}

impl std::error::Error for Bad {}

/// Position of an argument, relative to the first byte of its request.
#[derive(Clone, Copy, Debug)]
struct Span {
    at: u32,
    len: u32,
}

/// The arguments of a request; the first is the command name.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// Returns the number of arguments.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the argument with index `at`; empty if there is no such argument.
    #[inline]
    pub fn get(&self, at: usize) -> &'a [u8] {
        self.spans.get(at).map_or(&[], |span| self.of(*span))
    }

    fn of(&self, span: Span) -> &'a [u8] {
        self.bytes.get(span.at as usize..span.at as usize + span.len as usize).unwrap_or_default()
    }

    /// Returns the arguments from index `n` on.
    pub fn from(&self, n: usize) -> Args<'a> {
        Args { spans: self.spans.get(n..).unwrap_or_default(), ..*self }
    }

    /// Returns an iterator over the arguments.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let args = *self;
        args.spans.iter().map(move |span| args.of(*span))
    }

    /// Returns an iterator over pairs of consecutive arguments; the last argument of an odd number
    /// is omitted.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        let args = *self;
        args.spans.chunks_exact(2).filter_map(move |two| match two {
            [first, second] => Some((args.of(*first), args.of(*second))),
            _ => None,
        })
    }

    /// Copies the arguments into memory of their own, so that they outlive the request.
    pub fn save(&self) -> Saved {
        let mut bytes = Vec::with_capacity(self.bytes());
        let spans = self.spans.iter().map(|span| {
            let at = bytes.len() as u32;
            bytes.extend_from_slice(self.of(*span));
            Span { at, ..*span }
        });
        let spans = spans.collect();
        Saved { bytes: bytes.into_boxed_slice(), spans }
    }

    /// Returns the total length of the arguments in bytes.
    pub fn bytes(&self) -> usize {
        self.spans.iter().map(|span| span.len as usize).sum()
    }
}

/// Copy of the arguments of a request that is executed later.
#[derive(Debug)]
pub struct Saved {
    bytes: Box<[u8]>,
    spans: Box<[Span]>,
}

impl Saved {
    pub fn args(&self) -> Args<'_> {
        Args { bytes: &self.bytes, spans: &self.spans }
    }

    /// Returns the number of bytes of memory in use.
    pub fn held(&self) -> usize {
        size_of::<Saved>() + self.bytes.len() + self.spans.len() * size_of::<Span>()
    }
}

/// Parser that splits received bytes into requests.
#[derive(Debug)]
pub struct Requests {
    limits: Limits,
    held: Vec<u8>,
    /// Offset of the current request in the buffer.
    begin: usize,
    /// Number of parsed bytes of the current request.
    at: usize,
    /// Number of bytes of the current request that are already searched for a line end.
    searched: usize,
    /// Number of arguments still to be parsed; `None` until the request's first line is complete.
    left: Option<usize>,
    /// Length of the current argument in bytes; `None` until the line with its length is complete.
    bulk: Option<usize>,
    spans: Vec<Span>,
    is_whole: bool,
}

impl Requests {
    /// Creates a parser with an empty buffer.
    pub fn new(limits: Limits) -> Requests {
        // Offsets have 32 bits, which limits the length of a request.
        let limits = Limits { request: limits.request.min(1 << 30), ..limits };
        let (held, spans) = (Vec::new(), Vec::new());
        Requests { limits, held, begin: 0, at: 0, searched: 0, left: None, bulk: None, spans, is_whole: false }
    }

    /// Returns the number of bytes of memory in use.
    pub fn held(&self) -> usize {
        self.held.capacity() + self.spans.capacity() * size_of::<Span>()
    }

    /// Returns how many more bytes may be buffered now. The buffer has space for the current
    /// argument or line, and for at least 16 KiB beyond the parsed bytes.
    pub fn room(&self) -> usize {
        let wanted = match self.bulk {
            Some(len) => len + 2 + COUNT_LINE,
            // The first line is incomplete. The buffer must have space for its maximum length and
            // for enough further bytes to detect that it is too long.
            None if self.left.is_none() && self.searched > 0 => self.limits.line + 2,
            None => 0,
        };
        (self.at + wanted.max(AHEAD)).saturating_sub(self.held.len() - self.begin)
    }

    /// Adds received bytes to the buffer.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.begin > self.held.len() / 2 {
            self.held.drain(..self.begin);
            self.begin = 0;
        }
        self.held.extend_from_slice(bytes);
    }

    /// Returns the next request, if it is complete.
    ///
    /// # Errors
    /// [`Bad`]; the bytes that follow cannot be parsed either.
    pub fn next_request(&mut self) -> Result<Option<Args<'_>>, Bad> {
        loop {
            if self.is_whole {
                self.forget();
            }
            if !self.advance()? {
                return Ok(None);
            }
            self.is_whole = true;
            // Empty lines and requests without arguments are ignored.
            if !self.spans.is_empty() {
                break;
            }
        }
        Ok(Some(Args { bytes: self.held.get(self.begin..).unwrap_or_default(), spans: &self.spans }))
    }

    /// Removes the request returned last from the buffer.
    fn forget(&mut self) {
        self.begin += self.at;
        (self.at, self.searched, self.left, self.bulk, self.is_whole) = (0, 0, None, None, false);
        self.spans.clear();
        self.spans.shrink_to(256);
        if self.begin >= self.held.len() {
            self.held.clear();
            self.held.shrink_to(AHEAD);
            self.begin = 0;
        }
    }

    /// Continues to parse the current request; returns whether it is complete.
    fn advance(&mut self) -> Result<bool, Bad> {
        if self.left.is_none() && !self.first_line()? {
            return Ok(false);
        }
        while self.left > Some(0) {
            if !self.argument()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn rest(&self) -> &[u8] {
        self.held.get(self.begin + self.at..).unwrap_or_default()
    }

    /// Consumes the line at the current position. Returns its offset and its length without the
    /// line end, or `None` if it is incomplete.
    fn line(&mut self, most: usize, too_long: Bad) -> Result<Option<(usize, usize)>, Bad> {
        let from = self.at;
        let skip = self.searched.saturating_sub(from);
        let found = self.rest().iter().skip(skip).position(|byte| *byte == b'\n').map(|at| at + skip);
        let len = found.unwrap_or(self.rest().len());
        if len > most {
            return Err(too_long);
        }
        match found {
            Some(len) => {
                self.at = from + len + 1;
                Ok(Some((from, len)))
            }
            None => {
                self.searched = from + len;
                Ok(None)
            }
        }
    }

    fn slice(&self, from: usize, len: usize) -> &[u8] {
        self.held.get(self.begin + from..self.begin + from + len).unwrap_or_default()
    }

    fn first_line(&mut self) -> Result<bool, Bad> {
        let Some(&first) = self.rest().first() else { return Ok(false) };
        if first != b'*' {
            return self.inline();
        }
        let Some((from, len)) = self.line(COUNT_LINE, Bad::CountLine)? else { return Ok(false) };
        let count = number(self.slice(from, len), b'*').ok_or(Bad::Count)?;
        // A negative number of arguments counts as an empty request.
        let count = usize::try_from(count).unwrap_or(0);
        if count > self.limits.args {
            return Err(Bad::Count);
        }
        self.left = Some(count);
        Ok(true)
    }

    /// Splits an inline request into words, which replace the line in the buffer; together they are
    /// never longer than the line.
    fn inline(&mut self) -> Result<bool, Bad> {
        let Some((from, len)) = self.line(self.limits.line, Bad::Line)? else { return Ok(false) };
        let words = inline::words(self.slice(from, len), self.limits.args)?;
        let mut at = from;
        for word in words {
            let place = self.begin + at;
            if let Some(to) = self.held.get_mut(place..place + word.len()) {
                to.copy_from_slice(&word);
            }
            self.spans.push(Span { at: at as u32, len: word.len() as u32 });
            at += word.len();
        }
        self.left = Some(0);
        Ok(true)
    }

    /// Parses the next argument; returns whether it is complete.
    fn argument(&mut self) -> Result<bool, Bad> {
        let len = match self.bulk {
            Some(len) => len,
            None => {
                let Some(&first) = self.rest().first() else { return Ok(false) };
                if first != b'$' {
                    return Err(Bad::Expected(first));
                }
                let Some((from, len)) = self.line(COUNT_LINE, Bad::LengthLine)? else { return Ok(false) };
                let len = number(self.slice(from, len), b'$').and_then(|len| usize::try_from(len).ok());
                let len = len.filter(|len| *len <= self.limits.bulk).ok_or(Bad::Length)?;
                if self.at + len + 2 > self.limits.request {
                    return Err(Bad::Request);
                }
                *self.bulk.insert(len)
            }
        };
        let Some(end) = self.rest().get(len..len + 2) else { return Ok(false) };
        if end != b"\r\n" {
            return Err(Bad::End);
        }
        self.spans.push(Span { at: self.at as u32, len: len as u32 });
        self.at += len + 2;
        (self.bulk, self.left) = (None, self.left.map(|left| left.saturating_sub(1)));
        Ok(true)
    }
}

/// Parses the number in a line that starts with the type byte `mark` and ends with CR.
fn number(line: &[u8], mark: u8) -> Option<i64> {
    integer(line.strip_prefix(&[mark])?.strip_suffix(b"\r")?)
}

/// Parses an integer in the format of Redis: decimal digits with an optional leading `-`, without
/// `+`, blanks or leading zeros.
pub fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', ..] => digits.len() <= 19,
        _ => false,
    };
    if !is_plain {
        return None;
    }
    let mut value: i64 = 0;
    for digit in digits {
        let digit = i64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
        // The value is computed as a negative number, since the range of negative numbers is larger
        // by one.
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    if digits.len() < text.len() { Some(value) } else { value.checked_neg() }
}
