//! Builds the answer to a request: a file, the result of a conditional request (RFC 9110 13.2.2), a
//! range of a file (RFC 9110 14.2), or an error.

use super::range::{Ranged, ranged};
use super::request::{Bad, Method, Request};
use super::{Config, mime};
use crate::date;
use crate::files::{Meta, Name, Refusal, Source};
use linerate::stack::Instant;
use std::fmt::Write;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: Vec<u8>,
    /// Body of the answer; `None` if there is none, such as in the answer to HEAD.
    pub(super) body: Option<Source>,
    /// Set if the connection is closed after this answer.
    pub(super) close: bool,
    pub(super) status: u16,
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        301 => "Moved Permanently",
        304 => "Not Modified",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Unknown",
    }
}

/// Status line and header fields of an answer, under construction.
struct Head {
    text: String,
    status: u16,
}

impl Head {
    fn new(status: u16, config: &Config, now: Instant) -> Head {
        let mut text = format!("HTTP/1.1 {status} {}\r\nServer: linerate\r\n", reason(status));
        if let Some(wall) = config.wall {
            let _ = write!(text, "Date: {}\r\n", date::http(wall.unix_s(now)));
        }
        Head { text, status }
    }

    fn field(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Head {
        let _ = write!(self.text, "{name}: {value}\r\n"); // writing to a String cannot fail
        self
    }

    fn finish(mut self, body: Option<Source>, keep: Keep) -> Answer {
        match keep {
            Keep::Close => drop(self.field("Connection", "close")),
            Keep::Told => drop(self.field("Connection", "keep-alive")),
            Keep::Silent => {}
        }
        self.text.push_str("\r\n");
        Answer { head: self.text.into_bytes(), body, close: matches!(keep, Keep::Close), status: self.status }
    }
}

/// Handling of the connection after the answer: `Close` closes it, `Told` keeps it open and
/// announces this in a Connection field, `Silent` keeps it open without the field.
#[derive(Clone, Copy)]
enum Keep {
    Close,
    Told,
    Silent,
}

impl Keep {
    fn of(request: &Request, may_keep: bool) -> Keep {
        match (request.keep && may_keep, request.is_1_1) {
            (false, _) => Keep::Close,
            (true, false) => Keep::Told,
            (true, true) => Keep::Silent,
        }
    }
}

/// Builds an answer with the text `what` as its body.
fn sentence(mut head: Head, what: impl std::fmt::Display, keep: Keep, with_body: bool) -> Answer {
    let text: Arc<[u8]> = format!("{what}\n").into_bytes().into();
    head.field("Content-Type", "text/plain; charset=utf-8").field("Content-Length", text.len());
    let body = with_body.then(|| Source::bytes(text, 0, u64::MAX));
    head.finish(body, keep)
}

/// Builds the answer to a malformed request.
pub(super) fn refusal(bad: Bad, config: &Config, now: Instant) -> Answer {
    sentence(Head::new(bad.status(), config, now), bad, Keep::Close, true)
}

/// Builds the answer to a request whose header fields did not arrive completely in time.
pub(super) fn request_timeout(config: &Config, now: Instant) -> Answer {
    sentence(Head::new(408, config, now), "request timeout", Keep::Close, true)
}

/// Builds the answer to a request. `may_keep` permits keeping the connection open for another
/// request.
pub(super) fn answer(request: &Request, may_keep: bool, config: &Config, now: Instant) -> Answer {
    let keep = Keep::of(request, may_keep);
    let with_body = request.method != Method::Head;
    if request.method == Method::Other {
        let mut head = Head::new(405, config, now);
        head.field("Allow", "GET, HEAD");
        return sentence(head, "only GET and HEAD are supported", keep, true);
    }
    match find(request, config) {
        Ok(Target::File(name, source, meta)) => of_file(request, &name, source, meta, keep, config, now),
        Ok(Target::Moved(to)) => {
            let mut head = Head::new(301, config, now);
            head.field("Location", to);
            sentence(head, "the path of a directory must end with /", keep, with_body)
        }
        Err(why) => {
            let status = match why {
                Refusal::Escape | Refusal::BadName | Refusal::BadOffset => 400,
                Refusal::Denied | Refusal::NotPlain => 403,
                Refusal::Io | Refusal::NoSpace | Refusal::Pattern => 500,
                Refusal::NotFound | Refusal::NotDirectory | Refusal::NotEmpty | Refusal::Exists => 404,
            };
            sentence(Head::new(status, config, now), why, keep, with_body)
        }
    }
}

enum Target {
    File(Name, Source, Meta),
    Moved(String),
}

fn find(request: &Request, config: &Config) -> Result<Target, Refusal> {
    let mut name = Name::root().join(&request.path)?;
    if config.root.meta(&name)?.is_dir {
        if !request.path.ends_with(b"/") {
            return Ok(Target::Moved(format!("{}/", percent_encoded(name.as_str()))));
        }
        name = name.join(b"index.html")?;
    } else if request.path.ends_with(b"/") {
        return Err(Refusal::NotFound);
    }
    let (source, meta) = config.root.open(&name, 0)?;
    Ok(Target::File(name, source, meta))
}

/// Percent-encodes a path for use in a header field.
fn percent_encoded(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            b if b.is_ascii_alphanumeric() || b"/-._~".contains(&b) => out.push(char::from(b)),
            b => drop(write!(out, "%{b:02X}")),
        }
    }
    out
}

/// Returns a strong validator (ETag) that consists of the modification time in nanoseconds and the
/// length.
fn etag(meta: &Meta) -> Option<String> {
    Some(format!("\"{:x}-{:x}\"", meta.modified_ns?, meta.len?))
}

fn of_file(
    request: &Request,
    name: &Name,
    mut source: Source,
    meta: Meta,
    keep: Keep,
    config: &Config,
    now: Instant,
) -> Answer {
    let (tag, modified_s) = (etag(&meta), meta.modified_s());
    let described = |head: &mut Head| {
        if let Some(tag) = &tag {
            head.field("ETag", tag);
        }
        if let Some(modified_s) = modified_s {
            head.field("Last-Modified", date::http(modified_s));
        }
    };
    if let Some(status) = condition(request, tag.as_deref(), modified_s) {
        let mut head = Head::new(status, config, now);
        described(&mut head);
        if status == 412 {
            return sentence(head, "precondition failed", keep, request.method != Method::Head);
        }
        return head.finish(None, keep);
    }
    let Some(len) = source.left() else { return of_endless(request, source, keep, config, now) };
    let part = match &request.range {
        Some(range) if request.method == Method::Get && if_range(request, tag.as_deref(), modified_s) => {
            ranged(range, len)
        }
        _ => Ranged::Whole,
    };
    let mut head = Head::new(if matches!(part, Ranged::Part(..)) { 206 } else { 200 }, config, now);
    let mut body_len = len;
    match part {
        Ranged::Unsatisfiable => {
            let mut head = Head::new(416, config, now);
            head.field("Content-Range", format_args!("bytes */{len}"));
            return sentence(head, "range beyond the end of the file", keep, true);
        }
        Ranged::Malformed => {
            return sentence(Head::new(400, config, now), "invalid Range field", keep, true);
        }
        Ranged::Part(first, part_len) => {
            let from_there = config.root.open(name, first);
            let Ok((part, _)) = from_there else {
                return sentence(Head::new(500, config, now), "cannot read the file", keep, true);
            };
            source = part;
            source.limit(part_len);
            body_len = part_len;
            head.field("Content-Range", format_args!("bytes {first}-{}/{len}", first + part_len - 1));
        }
        Ranged::Whole => {}
    }
    described(&mut head);
    head.field("Accept-Ranges", "bytes").field("Content-Type", mime::content_type(name.file_name()));
    head.field("Content-Length", body_len);
    // If the file is truncated in the meantime, the answer would be shorter than its
    // Content-Length; the module `conn` then resets the connection.
    head.finish((request.method == Method::Get).then_some(source), keep)
}

/// Answers a request for `/dev/zero`: sends as many zeros as `?bytes=` requests, or zeros until the
/// client disconnects.
fn of_endless(request: &Request, mut source: Source, keep: Keep, config: &Config, now: Instant) -> Answer {
    let requested = request.query.as_deref().and_then(|query| query.strip_prefix("bytes="));
    let bytes = requested.and_then(|digits| digits.parse::<u64>().ok()).filter(|bytes| *bytes < u64::MAX);
    let mut head = Head::new(200, config, now);
    head.field("Content-Type", "application/octet-stream");
    let keep = match bytes {
        Some(bytes) => {
            source.limit(bytes);
            head.field("Content-Length", bytes);
            keep
        }
        None => Keep::Close,
    };
    head.finish((request.method == Method::Get).then_some(source), keep)
}

/// Evaluates the conditions of a request (RFC 9110 13.2.2); returns the status that they require,
/// if any.
fn condition(request: &Request, tag: Option<&str>, modified_s: Option<u64>) -> Option<u16> {
    let date = |text: &Option<String>| text.as_deref().and_then(date::parse_http);
    if let Some(list) = &request.if_match {
        if !matches(list, tag, false) {
            return Some(412);
        }
    } else if let (Some(since), Some(modified)) = (date(&request.if_unmodified_since), modified_s)
        && modified > since
    {
        return Some(412);
    }
    if let Some(list) = &request.if_none_match {
        return matches(list, tag, true).then_some(304);
    }
    if let (Some(since), Some(modified)) = (date(&request.if_modified_since), modified_s)
        && modified <= since
    {
        return Some(304);
    }
    None
}

/// Returns whether `list`, the value of a field such as If-None-Match, contains the entity tag
/// `tag`. `may_be_weak` selects the weak comparison (RFC 9110 8.8.3.2).
fn matches(list: &str, tag: Option<&str>, may_be_weak: bool) -> bool {
    list.split(',').map(str::trim).any(|one| {
        let strong = if may_be_weak { one.strip_prefix("W/").unwrap_or(one) } else { one };
        one == "*" || tag == Some(strong)
    })
}

/// Returns whether the If-Range field (RFC 9110 13.1.5) permits sending only the requested range.
fn if_range(request: &Request, tag: Option<&str>, modified_s: Option<u64>) -> bool {
    match &request.if_range {
        None => true,
        Some(text) if text.starts_with('"') => tag == Some(text),
        Some(text) => date::parse_http(text).is_some_and(|at| Some(at) == modified_s),
    }
}
