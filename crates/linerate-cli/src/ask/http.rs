//! `http get`: sends an HTTP/1.1 request and prints the body of the response.

use super::job::{Job, PAUSE, State, end_of};
use crate::args::HttpArgs;
use crate::exit::{Exit, Fault, notice};
use crate::running::Works;
use anyhow::Context;
use std::fs::File;
use std::io::{self, Write};

/// Maximum size of the response headers in bytes.
const HEAD_MAX: usize = 64 * 1024;

pub(super) fn run(host: &dyn Works, args: &HttpArgs) -> anyhow::Result<Exit> {
    let rest = args.address.strip_prefix("http://").unwrap_or(&args.address);
    if rest.contains("://") {
        return Err(Fault::usage(format!("{}: expected http://HOST[:PORT]/PATH", args.address)));
    }
    let (authority, path) = rest.split_once('/').map_or((rest, String::new()), |(at, path)| (at, path.to_string()));
    let (name, port) = end_of(authority, 80)?;
    if path.contains(|c: char| c.is_control() || c == ' ') {
        return Err(Fault::usage(format!("{}: invalid character in the path; encode a space as %20", args.address)));
    }
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let mut out: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(File::create(path).with_context(|| path.display().to_string())?),
        None => Box::new(io::stdout()),
    };
    let job = Job::start(host, &["tcp", &name, &port.to_string()], false)?;
    let request = format!(
        "GET /{path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: linerate/{}\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION")
    );
    let mut rest = request.as_bytes();
    let mut answer = Answer::default();
    loop {
        if !rest.is_empty() {
            let taken = job.write(rest)?;
            rest = rest.get(taken..).unwrap_or_default();
        }
        let (state, bytes) = job.read_bytes()?;
        let body = answer.take(&bytes)?;
        if args.head && !answer.shown && answer.head.is_some() {
            answer.shown = true;
            out.write_all(answer.head.as_deref().unwrap_or_default().as_bytes())?;
        }
        out.write_all(&body).context("cannot write the response")?;
        if answer.is_whole() {
            break;
        }
        match state {
            State::Running if dispatch::stop_requested() => anyhow::bail!("interrupted"),
            State::Running if bytes.is_empty() => host.pause(PAUSE),
            State::Running => {}
            State::Done => {
                answer.end()?;
                break;
            }
            State::Failed(why) => anyhow::bail!("{why}"),
        }
    }
    out.flush().context("cannot write the response")?;
    let status = answer.status();
    if status >= 400 {
        notice(&format!("{}: status {status}", args.address));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Fine)
}

/// Response, as far as it has been received.
#[derive(Default)]
struct Answer {
    /// Bytes received so far of the headers or of a chunk's size line.
    pending: Vec<u8>,
    head: Option<String>,
    shown: bool,
    /// Bytes of the body or of the current chunk that are still missing; `None` if the body ends
    /// with the connection.
    left: Option<u64>,
    chunked: bool,
    whole: bool,
}

impl Answer {
    /// Processes received bytes and returns those of the body.
    fn take(&mut self, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
        self.pending.extend(bytes);
        if self.head.is_none() {
            let Some(end) = self.pending.windows(4).position(|four| four == b"\r\n\r\n") else {
                anyhow::ensure!(self.pending.len() < HEAD_MAX, "invalid response: headers exceed {HEAD_MAX} bytes");
                return Ok(Vec::new());
            };
            let head: Vec<u8> = self.pending.drain(..end + 4).collect();
            self.begin(String::from_utf8_lossy(&head).into_owned())?;
        }
        let mut body = Vec::new();
        while self.chunked && !self.whole && self.chunk(&mut body)? {}
        if !self.chunked {
            let n = self.left.map_or(self.pending.len(), |left| self.pending.len().min(left as usize));
            body.extend(self.pending.drain(..n));
            self.left = self.left.map(|left| left - n as u64);
            self.whole = self.left == Some(0);
        }
        Ok(body)
    }

    fn begin(&mut self, head: String) -> anyhow::Result<()> {
        anyhow::ensure!(
            head.starts_with("HTTP/1."),
            "not an HTTP/1 response: '{}'",
            head.lines().next().unwrap_or_default()
        );
        let field = |name: &str| {
            let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
            fields.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_ascii_lowercase())
        };
        self.chunked = field("transfer-encoding").is_some_and(|value| value.ends_with("chunked"));
        if !self.chunked {
            let length = field("content-length").map(|value| value.parse().context("invalid Content-Length"));
            self.left = length.transpose()?;
        }
        self.head = Some(head);
        Ok(())
    }

    /// Processes part of a chunk or its size line; returns `false` if more bytes are needed.
    fn chunk(&mut self, body: &mut Vec<u8>) -> anyhow::Result<bool> {
        if let Some(left) = self.left {
            // The chunk's data and line break.
            let n = self.pending.len().min(left as usize);
            let data = self.pending.drain(..n).collect::<Vec<_>>();
            let (before, after) = (left, left - n as u64);
            let breaks = before.min(2) - after.min(2);
            body.extend(data.get(..data.len() - breaks as usize).unwrap_or_default());
            self.left = (after > 0).then_some(after);
            return Ok(after == 0);
        }
        let Some(end) = self.pending.windows(2).position(|two| two == b"\r\n") else {
            anyhow::ensure!(self.pending.len() < HEAD_MAX, "invalid response: chunk without a size");
            return Ok(false);
        };
        let line: Vec<u8> = self.pending.drain(..end + 2).collect();
        let text = String::from_utf8_lossy(&line);
        let digits = text.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(digits, 16).with_context(|| format!("invalid chunk size '{digits}'"))?;
        anyhow::ensure!(size < 1 << 60, "invalid chunk size '{digits}'");
        self.whole = size == 0;
        self.left = Some(size + 2);
        Ok(!self.whole)
    }

    fn is_whole(&self) -> bool {
        self.whole
    }

    /// Handles the end of the connection.
    fn end(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.head.is_some(), "the server closed the connection without a response");
        anyhow::ensure!(self.left.is_none() && !self.chunked, "the response is truncated");
        Ok(())
    }

    fn status(&self) -> u16 {
        let head = self.head.as_deref().unwrap_or_default();
        head.split_whitespace().nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bodies delimited by length, by chunks and by the end of the connection, received in pieces
    /// of any size.
    #[test]
    fn bodies_end_as_their_headers_state() {
        let by = |rest: &str| format!("HTTP/1.1 200 OK\r\n{rest}");
        let cases = [
            (by("Content-Length: 5\r\n\r\nhello"), "hello", true),
            (by("content-length: 0\r\n\r\n"), "", true),
            (
                by("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nC;x=y\r\n, my friends\r\n0\r\n\r\n"),
                "hello, my friends",
                true,
            ),
            (by("\r\nuntil the end"), "until the end", false),
        ];
        for (text, expected, whole) in &cases {
            for step in [1, 2, 3, 7, 1000] {
                let (mut answer, mut body) = (Answer::default(), Vec::new());
                for part in text.as_bytes().chunks(step) {
                    body.extend(answer.take(part).unwrap());
                }
                assert_eq!(String::from_utf8_lossy(&body), *expected, "{text} by {step}");
                assert_eq!((answer.is_whole(), answer.status()), (*whole, 200));
                assert!(*whole || answer.end().is_ok());
            }
        }
        for bad in ["SSH-2.0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"] {
            assert!(Answer::default().take(bad.as_bytes()).is_err(), "{bad}");
        }
        let mut cut = Answer::default();
        cut.take(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi").unwrap();
        assert!(cut.end().unwrap_err().to_string().contains("truncated"));
    }
}
