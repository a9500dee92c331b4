//! RESP2 and RESP3, which Redis clients speak (redis.io, "Redis serialization protocol
//! specification"): both sides, bounded. Requests are the same in both; replies of RESP3 have maps,
//! sets, doubles and one null. A client's side reads RESP2.
//!
//! ```text
//!  bytes as they come -> Requests   one request at a time: an array of bulk strings, or a line of words ("inline")
//!  Replies -> bytes to be sent      lines, errors, integers, bulk strings, arrays
//!  bytes of a server  -> reply::first   how long the first whole reply is, and what it says
//! ```
//! No byte is looked at twice, however small the pieces in which a request comes. What is longer than [`Limits`] permits, and what is
//! no RESP, is [`Bad`]: there is no way back into step, so the connection ends. The words of [`Bad`] are those that clients know.

mod inline;
pub mod replies;
pub mod reply;
#[cfg(test)]
mod tests;

use std::fmt;

pub use replies::{Replies, Version};

/// Bytes of a line that announces a count or a length.
const COUNT_LINE: usize = 32;
/// Bytes that are read ahead of the request that is dealt with.
const AHEAD: usize = 16 * 1024;

/// How much a request may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of an argument.
    pub bulk: usize,
    /// Arguments.
    pub args: usize,
    /// Bytes of an inline request.
    pub line: usize,
    /// Bytes of a whole request.
    pub request: usize,
}

impl Default for Limits {
    /// Stock's are 512 MB an argument and a million of them: more than a stranger should make us hold.
    fn default() -> Limits {
        Limits { bulk: 1 << 20, args: 65_536, line: 64 * 1024, request: 8 << 20 }
    }
}

/// Why bytes are no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bad {
    /// An inline request longer than permitted.
    Line,
    /// Quotes that do not end.
    Quotes,
    /// No line end where an array's length should be.
    CountLine,
    /// An array's length that is no number, or too large.
    Count,
    /// Something else where a bulk string should begin.
    Expected(u8),
    /// No line end where a bulk string's length should be.
    LengthLine,
    /// A bulk string's length that is no number, or too large.
    Length,
    /// No line end behind a bulk string.
    End,
    /// All arguments together are more than permitted.
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
            Bad::End => f.write_str("no line end behind a bulk string"),
            Bad::Request => f.write_str("too big request"),
        }
    }
}

impl std::error::Error for Bad {}

/// Where an argument lies, from the request's first byte.
#[derive(Clone, Copy, Debug)]
struct Span {
    at: u32,
    len: u32,
}

/// The arguments of a request; the first is the command's name.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// How many.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// One of them; nothing where there is none.
    #[inline]
    pub fn get(&self, at: usize) -> &'a [u8] {
        self.spans.get(at).map_or(&[], |span| self.of(*span))
    }

    fn of(&self, span: Span) -> &'a [u8] {
        self.bytes.get(span.at as usize..span.at as usize + span.len as usize).unwrap_or_default()
    }

    /// Without the first `n`.
    pub fn from(&self, n: usize) -> Args<'a> {
        Args { spans: self.spans.get(n..).unwrap_or_default(), ..*self }
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let args = *self;
        args.spans.iter().map(move |span| args.of(*span))
    }

    /// Two at a time; one without its second is left out.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        let args = *self;
        args.spans.chunks_exact(2).filter_map(move |two| match two {
            [first, second] => Some((args.of(*first), args.of(*second))),
            _ => None,
        })
    }

    /// Copies the arguments, so that they outlive the request.
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

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.spans.iter().map(|span| span.len as usize).sum()
    }
}

/// Arguments of a request that is executed later.
#[derive(Debug)]
pub struct Saved {
    bytes: Box<[u8]>,
    spans: Box<[Span]>,
}

impl Saved {
    /// Returns the arguments.
    pub fn args(&self) -> Args<'_> {
        Args { bytes: &self.bytes, spans: &self.spans }
    }

    /// Returns the bytes of memory in use.
    pub fn held(&self) -> usize {
        size_of::<Saved>() + self.bytes.len() + self.spans.len() * size_of::<Span>()
    }
}

/// Requests out of bytes as they come.
#[derive(Debug)]
pub struct Requests {
    limits: Limits,
    held: Vec<u8>,
    /// Where the request begins that is read.
    begin: usize,
    /// Bytes of it that are understood, and that were searched for a line's end.
    at: usize,
    searched: usize,
    /// Arguments yet to come; `None`: its first line.
    left: Option<usize>,
    /// The length of the argument that comes.
    bulk: Option<usize>,
    spans: Vec<Span>,
    is_whole: bool,
}

impl Requests {
    /// None yet.
    pub fn new(limits: Limits) -> Requests {
        // Places are 32 bits wide.
        let limits = Limits { request: limits.request.min(1 << 30), ..limits };
        let (held, spans) = (Vec::new(), Vec::new());
        Requests { limits, held, begin: 0, at: 0, searched: 0, left: None, bulk: None, spans, is_whole: false }
    }

    /// Bytes held.
    pub fn held(&self) -> usize {
        self.held.capacity() + self.spans.capacity() * size_of::<Span>()
    }

    /// Bytes that may come now: what the request under way still wants, and some ahead.
    pub fn room(&self) -> usize {
        let wanted = match self.bulk {
            Some(len) => len + 2 + COUNT_LINE,
            // A first line whose end has not come: as long as it may be, and so much more that it is seen to be too long.
            None if self.left.is_none() && self.searched > 0 => self.limits.line + 2,
            None => 0,
        };
        (self.at + wanted.max(AHEAD)).saturating_sub(self.held.len() - self.begin)
    }

    /// These came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.begin > self.held.len() / 2 {
            self.held.drain(..self.begin);
            self.begin = 0;
        }
        self.held.extend_from_slice(bytes);
    }

    /// The next whole request, if there is one.
    ///
    /// # Errors
    /// [`Bad`]: nothing that comes later can be understood.
    pub fn next_request(&mut self) -> Result<Option<Args<'_>>, Bad> {
        loop {
            if self.is_whole {
                self.forget();
            }
            if !self.advance()? {
                return Ok(None);
            }
            self.is_whole = true;
            // Empty lines and empty arrays ask for nothing.
            if !self.spans.is_empty() {
                break;
            }
        }
        Ok(Some(Args { bytes: self.held.get(self.begin..).unwrap_or_default(), spans: &self.spans }))
    }

    /// The request that was given is done with.
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

    /// Goes on with the request; is it whole?
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

    /// The line that begins here, without its end, if it is whole: then it is behind us.
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
        // A negative count is an empty request.
        let count = usize::try_from(count).unwrap_or(0);
        if count > self.limits.args {
            return Err(Bad::Count);
        }
        self.left = Some(count);
        Ok(true)
    }

    /// Words of a line take the line's place: they are never longer than it.
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

    /// The next argument; is it whole?
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

/// The number behind `mark`, in front of the CR.
fn number(line: &[u8], mark: u8) -> Option<i64> {
    integer(line.strip_prefix(&[mark])?.strip_suffix(b"\r")?)
}

/// An integer as Redis reads and writes it: decimal digits, `-` in front, no `+`, no blank, no zero in front.
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
        // Downwards: there is one more number below zero than above.
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    if digits.len() < text.len() { Some(value) } else { value.checked_neg() }
}
