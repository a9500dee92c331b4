//! Requests of HTTP clients: as much of HTTP/1.1 (RFC 9112) as a scrape needs. A target with a
//! scheme and a host, which only proxies send, is rejected.

#[cfg(test)]
mod tests;

use crate::text::Format;

/// Maximum size of a request in bytes.
pub(crate) const REQUEST_MAX: usize = 8192;

/// A request that can be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// `/metrics`, in this format.
    Metrics(Format),
    /// `/-/healthy`: whether the process runs.
    Healthy,
    /// `/-/ready`: whether all nodes answer.
    Ready,
}

/// A request, and whether it is for the head of the answer only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parsed {
    pub(crate) request: Request,
    pub(crate) is_head: bool,
}

/// Reason why a request is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestError {
    /// It is not a request of HTTP/1.
    Malformed,
    /// It has more than 8 KiB.
    TooLong,
    /// There is nothing at its path.
    NotFound,
    /// Its method is neither GET nor HEAD.
    Method,
}

impl RequestError {
    /// Returns the status of the answer.
    pub(crate) fn status(self) -> &'static str {
        match self {
            RequestError::Malformed => "400 Bad Request",
            RequestError::TooLong => "431 Request Header Fields Too Large",
            RequestError::NotFound => "404 Not Found",
            RequestError::Method => "405 Method Not Allowed",
        }
    }
}

/// Parses the request at the beginning of `bytes`. Returns `None` if it is not complete yet.
///
/// # Errors
/// Returns a [`RequestError`].
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Parsed>, RequestError> {
    let ends = [&b"\r\n\r\n"[..], b"\n\n"].into_iter().filter_map(|end| find(bytes, end)).min();
    let Some(end) = ends else {
        return if bytes.len() >= REQUEST_MAX { Err(RequestError::TooLong) } else { Ok(None) };
    };
    if end > REQUEST_MAX {
        return Err(RequestError::TooLong);
    }
    let head = bytes.get(..end).and_then(|head| std::str::from_utf8(head).ok()).ok_or(RequestError::Malformed)?;
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(RequestError::Malformed);
    };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return Err(RequestError::Malformed);
    }
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(RequestError::Method),
    };
    let accepts = lines.filter_map(|line| line.split_once(':'));
    let mut accepts = accepts.filter(|(name, _)| name.trim().eq_ignore_ascii_case("accept"));
    let format = match accepts.any(|(_, value)| value.split(',').any(accepts_openmetrics)) {
        true => Format::OpenMetrics,
        false => Format::Prometheus,
    };
    let request = match target.split('?').next() {
        Some("/metrics") => Request::Metrics(format),
        Some("/-/healthy") => Request::Healthy,
        Some("/-/ready") => Request::Ready,
        _ => return Err(RequestError::NotFound),
    };
    Ok(Some(Parsed { request, is_head }))
}

/// Returns whether a media range of an Accept header (RFC 9110 12.5.1) is that of OpenMetrics, with
/// a weight other than 0.
fn accepts_openmetrics(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let is_it = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("application/openmetrics-text"));
    let weights = parts.filter_map(|part| part.split_once('=')).filter(|(name, _)| name.eq_ignore_ascii_case("q"));
    is_it && !weights.map(|(_, weight)| weight).any(|weight| weight.parse() == Ok(0.0))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
