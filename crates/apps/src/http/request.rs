//! Parser for request heads, that is, request lines and header fields (RFC 9112 2.2 to 6). Parses
//! the bytes up to the empty line into a [`Request`], or returns an error with an HTTP status.

use super::{FIELDS_MAX, HEAD_MAX};
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// GET: requests the file.
    Get,
    /// HEAD: requests only the status line and header fields of the answer.
    Head,
    /// Another method of RFC 9110 or RFC 5789, which is not allowed for these files (status 405).
    Other,
}

/// Reason for rejecting a request head. The server answers with the HTTP status of the reason and
/// closes the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bad {
    /// A line does not end with CR LF, or contains a CR or LF that is not part of its end.
    LineEnd,
    /// The first line is not `METHOD SP target SP HTTP/d.d`.
    RequestLine,
    /// Request target in an unsupported form or with invalid characters.
    Target,
    /// A header field is not `name:value`: blank before the colon, empty name, or control
    /// character.
    Field,
    /// A header field is continued on a second line (obsolete line folding).
    Folded,
    /// The Host field is missing, repeated or invalid.
    Host,
    /// Content-Length is invalid, repeated, or combined with Transfer-Encoding.
    Length,
    /// The request target is too long.
    TargetLong,
    /// The request head is too long.
    HeadLong,
    /// The request has a chunked body, whose length is not known in advance (status 411).
    LengthRequired,
    /// The body is longer than [`super::BODY_MAX`].
    BodyLong,
    /// Unknown method.
    Method,
    /// Unknown transfer coding.
    Coding,
    /// The protocol version is not HTTP/1.x.
    Version,
    /// The Expect field has a value other than `100-continue`.
    Expectation,
}

impl Bad {
    /// Returns the status code.
    pub fn status(self) -> u16 {
        match self {
            Bad::LineEnd | Bad::RequestLine | Bad::Target | Bad::Field | Bad::Folded | Bad::Host | Bad::Length => 400,
            Bad::LengthRequired => 411,
            Bad::BodyLong => 413,
            Bad::TargetLong => 414,
            Bad::Expectation => 417,
            Bad::HeadLong => 431,
            Bad::Method | Bad::Coding => 501,
            Bad::Version => 505,
        }
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bad::LineEnd => "invalid line end: expected CR LF",
            Bad::RequestLine => "invalid request line: expected METHOD target HTTP/1.1",
            Bad::Target => "invalid request target",
            Bad::Field => "invalid header field",
            Bad::Folded => "folded header fields are not supported",
            Bad::Host => "expected one Host field",
            Bad::Length => "invalid or ambiguous body length",
            Bad::LengthRequired => "chunked body not supported: expected Content-Length",
            Bad::BodyLong => "request body too long",
            Bad::TargetLong => "request target too long",
            Bad::Expectation => "unsupported Expect value",
            Bad::HeadLong => "request header too long",
            Bad::Method => "unknown method",
            Bad::Coding => "unknown transfer coding",
            Bad::Version => "only HTTP/1.x is supported",
        })
    }
}

/// A parsed request head: request line and header fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    pub method: Method,
    /// The path of the target, percent-decoded; it begins with `/`.
    pub path: Vec<u8>,
    /// The part of the target after the question mark, not decoded.
    pub query: Option<String>,
    /// Set if the version is HTTP/1.1 or a later 1.x.
    pub is_1_1: bool,
    /// Set if the client permits keeping the connection open after the answer.
    pub keep: bool,
    /// Set if the client sent `keep-alive`; an HTTP/1.0 client then expects a Connection field in
    /// the answer.
    pub asked_keep: bool,
    /// Number of bytes of the request body, which follows the head.
    pub body: u64,
    /// Set if the client waits for an interim response (100 Continue) before it sends the body.
    pub expects: bool,
    /// The Range field.
    pub range: Option<String>,
    /// The If-Range field.
    pub if_range: Option<String>,
    /// All If-None-Match fields, joined by commas.
    pub if_none_match: Option<String>,
    /// All If-Match fields, joined by commas.
    pub if_match: Option<String>,
    /// The If-Modified-Since field.
    pub if_modified_since: Option<String>,
    /// The If-Unmodified-Since field.
    pub if_unmodified_since: Option<String>,
}

/// State of the search for the end of a request head, which continues when more bytes arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scan {
    seen: usize,
    /// Offset of the current line in the head.
    line: usize,
}

impl Scan {
    /// Scans the new bytes of `head`, which must start with the bytes of the previous call. Returns
    /// the length of the head, including the empty line at its end, once the head is complete. Each
    /// byte is scanned only once.
    ///
    /// # Errors
    /// `LineEnd` if a line end is invalid, as soon as it arrives; `TargetLong`, `HeadLong`.
    pub fn advance(&mut self, head: &[u8]) -> Result<Option<usize>, Bad> {
        while let Some(&byte) = head.get(self.seen) {
            let is_after_cr = self.seen > 0 && head.get(self.seen - 1) == Some(&b'\r');
            if (byte == b'\n') != is_after_cr {
                return Err(Bad::LineEnd);
            }
            self.seen += 1;
            if byte == b'\n' {
                if self.seen - self.line == 2 {
                    return Ok(Some(self.seen));
                }
                self.line = self.seen;
            }
        }
        if head.len() < HEAD_MAX {
            return Ok(None);
        }
        Err(if self.line == 0 { Bad::TargetLong } else { Bad::HeadLong })
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Methods that exist in RFC 9110 and RFC 5789 but are not allowed for these files.
const METHODS: [&[u8]; 7] = [b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];

/// Header fields that are evaluated after all fields are parsed.
#[derive(Default)]
struct Fields {
    hosts: usize,
    length: Option<u64>,
    coding: Option<Vec<u8>>,
    close: bool,
    keep_alive: bool,
    expects: bool,
}

impl Request {
    /// Parses a complete head, as delimited by [`Scan::advance`].
    ///
    /// # Errors
    /// Reason for rejecting the head.
    pub fn parse(head: &[u8]) -> Result<Request, Bad> {
        let text = head.strip_suffix(b"\r\n\r\n").ok_or(Bad::LineEnd)?;
        let mut lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let (method, target, is_1_1) = request_line(lines.next().unwrap_or_default())?;
        let (path, query) = target_parts(target, method)?;
        let mut request = Request {
            method,
            path,
            query,
            is_1_1,
            keep: is_1_1,
            asked_keep: false,
            body: 0,
            expects: false,
            range: None,
            if_range: None,
            if_none_match: None,
            if_match: None,
            if_modified_since: None,
            if_unmodified_since: None,
        };
        let mut fields = Fields::default();
        for (count, line) in lines.enumerate() {
            if count >= FIELDS_MAX {
                return Err(Bad::HeadLong);
            }
            let (name, value) = field(line)?;
            request.take(&mut fields, &name, value)?;
        }
        request.conclude(fields)
    }

    fn take(&mut self, fields: &mut Fields, name: &str, value: &[u8]) -> Result<(), Bad> {
        // The fields that are used here are ASCII; in other fields RFC 9110 5.5 permits any byte
        // above 127.
        let text = std::str::from_utf8(value).unwrap_or_default();
        match name {
            "host" => {
                fields.hosts += 1;
                let fits = value.iter().all(|b| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(b));
                return if fits { Ok(()) } else { Err(Bad::Host) };
            }
            // A second Content-Length field or a list of lengths, even if they are equal, suggests
            // request smuggling; RFC 9112 6.3 permits rejecting it.
            "content-length" if fields.length.is_some() => return Err(Bad::Length),
            "content-length" => fields.length = Some(length(value)?),
            "transfer-encoding" if fields.coding.is_some() => return Err(Bad::Length),
            "transfer-encoding" => fields.coding = Some(value.to_ascii_lowercase()),
            "connection" => {
                for option in text.split(',').map(str::trim) {
                    fields.close |= option.eq_ignore_ascii_case("close");
                    fields.keep_alive |= option.eq_ignore_ascii_case("keep-alive");
                }
            }
            "expect" if text.eq_ignore_ascii_case("100-continue") => fields.expects = true,
            "expect" => return Err(Bad::Expectation),
            "range" => once(&mut self.range, text)?,
            "if-range" => once(&mut self.if_range, text)?,
            "if-modified-since" => once(&mut self.if_modified_since, text)?,
            "if-unmodified-since" => once(&mut self.if_unmodified_since, text)?,
            "if-none-match" => listed(&mut self.if_none_match, text),
            "if-match" => listed(&mut self.if_match, text),
            _ => {}
        }
        Ok(())
    }

    /// Checks the combination of header fields and derives the properties of the request (RFC 9112
    /// 3.2, 6.1, 6.3, 9.3).
    fn conclude(mut self, fields: Fields) -> Result<Request, Bad> {
        if fields.hosts > 1 || (self.is_1_1 && fields.hosts == 0) {
            return Err(Bad::Host);
        }
        match (fields.coding, fields.length) {
            (None, length) => self.body = length.unwrap_or(0),
            (Some(_), Some(_)) => return Err(Bad::Length),
            (Some(_), None) if !self.is_1_1 => return Err(Bad::Length),
            (Some(coding), None) if coding == b"chunked" => return Err(Bad::LengthRequired),
            (Some(_), None) => return Err(Bad::Coding),
        }
        if self.body > super::BODY_MAX {
            return Err(Bad::BodyLong);
        }
        self.expects = fields.expects && self.body > 0 && self.is_1_1;
        self.asked_keep = fields.keep_alive && !fields.close;
        self.keep = !fields.close && (self.is_1_1 || fields.keep_alive);
        // The final answer is sent without a 100 Continue, so the client may either omit its body
        // or send it (RFC 9110 10.1.1). The server cannot know which, so the connection cannot be
        // reused.
        self.keep &= !self.expects;
        Ok(self)
    }
}

fn once(place: &mut Option<String>, text: &str) -> Result<(), Bad> {
    if place.replace(text.to_owned()).is_some() { Err(Bad::Field) } else { Ok(()) }
}

fn listed(place: &mut Option<String>, text: &str) {
    let list = place.get_or_insert_default();
    if !list.is_empty() {
        list.push(',');
    }
    list.push_str(text);
}

fn length(value: &[u8]) -> Result<u64, Bad> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).map_err(|_| Bad::Length)?;
    if digits { text.parse().map_err(|_| Bad::BodyLong) } else { Err(Bad::Length) }
}

fn request_line(line: &[u8]) -> Result<(Method, &[u8], bool), Bad> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Bad::RequestLine);
    };
    if method.is_empty() || !method.iter().copied().all(is_token) {
        return Err(Bad::RequestLine);
    }
    let is_1_1 = match version {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor] if minor.is_ascii_digit() => *minor >= b'1',
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            return Err(Bad::Version);
        }
        _ => return Err(Bad::RequestLine),
    };
    let method = match method {
        b"GET" => Method::Get,
        b"HEAD" => Method::Head,
        other if METHODS.contains(&other) => Method::Other,
        _ => return Err(Bad::Method),
    };
    Ok((method, target, is_1_1))
}

/// Splits a request target in origin form or absolute form into path and query (RFC 9112 3.2).
fn target_parts(target: &[u8], method: Method) -> Result<(Vec<u8>, Option<String>), Bad> {
    if target.is_empty() || target.iter().any(|b| !b.is_ascii_graphic() || b"\"#<>\\^`{|}".contains(b)) {
        return Err(Bad::Target);
    }
    let text = std::str::from_utf8(target).map_err(|_| Bad::Target)?;
    let local = match text.get(..7) {
        Some(scheme) if scheme.eq_ignore_ascii_case("http://") => {
            let rest = text.get(7..).unwrap_or_default();
            let host_end = rest.find(['/', '?']).unwrap_or(rest.len());
            let (host, local) = rest.split_at(host_end);
            if host.is_empty() || host.contains('@') {
                return Err(Bad::Target);
            }
            local
        }
        _ if text.starts_with('/') => text,
        // The targets `*` and `host:port` are valid only with methods that the server refuses
        // anyway.
        _ if method == Method::Other => return Ok((b"/".to_vec(), None)),
        _ => return Err(Bad::Target),
    };
    let (path, query) = match local.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (local, None),
    };
    let path = if path.is_empty() { "/" } else { path };
    Ok((percent_decoded(path.as_bytes())?, query))
}

/// Decodes percent-encoded bytes (`%41` is `A`). Rejects an encoded `/`, `\` or NUL.
fn percent_decoded(text: &[u8]) -> Result<Vec<u8>, Bad> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(*b).to_digit(16)).ok_or(Bad::Target);
        match (digit()? * 16 + digit()?) as u8 {
            0 | b'/' | b'\\' => return Err(Bad::Target),
            decoded => out.push(decoded),
        }
    }
    Ok(out)
}

/// Splits a line `name:value`. The name is converted to lower case, blanks around the value are
/// removed.
fn field(line: &[u8]) -> Result<(String, &[u8]), Bad> {
    if line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
        return Err(Bad::Folded);
    }
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Bad::Field)?;
    let (name, value) = line.split_at(colon);
    let value = value.get(1..).unwrap_or_default();
    let has_controls = value.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f);
    if name.is_empty() || !name.iter().copied().all(is_token) || has_controls {
        return Err(Bad::Field);
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    Ok((name, value.trim_ascii()))
}
