//! `http` fetches one file repeatedly over many HTTP/1.0 connections; `httpd` serves the file.
//!
//! A transfer is successful if the answer has status 200 and a body of the announced length; any
//! other outcome is an error. The original also counts an answer with status 404 as a transfer.

use super::{Out, warm_up};
use crate::files::Root;
use crate::http::{Config, Http};
use crate::load::Hosted;
use crate::netperf::session::{FarEnd, Play, Round};
use crate::netperf::sockets::{PATIENCE, Pace, Setup, Sockets, Waits};
use crate::slots::Limits;
use crate::span::{Span, Took};
use crate::streams::Failure;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// Default L4 port of httpd.
const AT: u16 = 80;
/// Maximum length in bytes of an answer's status line and header fields together.
const HEAD_MAX: usize = 4096;
/// Number of bytes read at a time.
const READ: usize = 64 << 10;
/// Path of the requested file. It has 1 KiB, like the file that the original server sends.
pub const PATH: &str = "/dev/zero?bytes=1024";
/// Maximum number of concurrent connections, equal to the server's limit per address.
pub const CLIENTS_MAX: usize = 256;

/// The tool `http`. The original uses one process or thread per connection; this implementation
/// serves all connections on one thread ([`transfer`] is for callers that use several).
pub struct Fetch<'o> {
    /// Number of concurrent connections, at most [`CLIENTS_MAX`].
    pub at_a_time: usize,
    /// Duration for which files are fetched.
    pub time: Duration,
    pub path: &'o str,
    /// Destination of the output.
    pub out: Out<'o>,
    /// Number of transfers, and duration of the run; `None` until the run is complete.
    pub done: Option<(u64, Took)>,
}

impl std::fmt::Debug for Fetch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetch").field("path", &self.path).field("at_a_time", &self.at_a_time).finish_non_exhaustive()
    }
}

/// A connection for one transfer, which sends the request and reads the complete answer.
struct Conn<F> {
    fd: F,
    is_open: bool,
    sent: usize,
    head: Vec<u8>,
    /// Number of bytes of the body still to be received; `None` until the header fields are
    /// complete.
    left: Option<u64>,
}

/// Progress of a connection in a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    Nothing,
    Some,
    Whole,
    Wrong,
}

impl<F: Copy> Conn<F> {
    fn new(fd: F) -> Conn<F> {
        Conn { fd, is_open: false, sent: 0, head: Vec::new(), left: None }
    }

    fn turn<S: Sockets<Fd = F>>(&mut self, sockets: &mut S, request: &[u8], buffer: &mut [u8]) -> Came {
        match self.go_on(sockets, request, buffer) {
            Ok(came) => came,
            Err(Failure::Again) => Came::Nothing,
            Err(_) => Came::Wrong,
        }
    }

    fn go_on<S: Sockets<Fd = F>>(
        &mut self,
        sockets: &mut S,
        request: &[u8],
        buffer: &mut [u8],
    ) -> Result<Came, Failure> {
        if !self.is_open {
            sockets.connected(self.fd)?;
            self.is_open = true;
        }
        if let Some(rest) = request.get(self.sent..).filter(|rest| !rest.is_empty()) {
            self.sent += sockets.send(self.fd, rest)?;
            return Ok(Came::Some);
        }
        let n = sockets.recv(self.fd, buffer)?;
        if n == 0 {
            return Ok(if self.left == Some(0) { Came::Whole } else { Came::Wrong });
        }
        Ok(self.take(buffer.get(..n).unwrap_or_default()))
    }

    /// Processes received bytes of the answer.
    fn take(&mut self, bytes: &[u8]) -> Came {
        let body = match self.left {
            Some(left) => Some(left.checked_sub(bytes.len() as u64)),
            None => {
                self.head.extend_from_slice(bytes.get(..bytes.len().min(HEAD_MAX)).unwrap_or_default());
                let end = self.head.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
                if end.is_none() && self.head.len() >= HEAD_MAX {
                    return Came::Wrong;
                }
                // All bytes after the header fields belong to the body.
                end.map(|end| {
                    let before = self.head.len() - bytes.len().min(HEAD_MAX);
                    let body = (before + bytes.len()).saturating_sub(end) as u64;
                    length(self.head.get(..end).unwrap_or_default())?.checked_sub(body)
                })
            }
        };
        match body {
            None => Came::Some,
            Some(None) => Came::Wrong,
            Some(left) => {
                self.left = left;
                Came::Some
            }
        }
    }
}

/// Performs one transfer on a connected stream by blocking calls; returns whether it was complete.
pub fn transfer(stream: &mut (impl Read + Write), path: &str) -> bool {
    let (mut conn, mut buffer) = (Conn::new(()), vec![0; READ]);
    if stream.write_all(request(path).as_bytes()).is_err() {
        return false;
    }
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return conn.left == Some(0),
            Ok(n) if conn.take(buffer.get(..n).unwrap_or_default()) == Came::Some => {}
            Ok(_) => return false,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.0\r\n\r\n")
}

/// Prints the two lines of the tool's result: transfers and errors per second.
///
/// # Errors
/// Errors of writing to `out`.
pub fn print_rates(out: Out<'_>, transfers: u64, errors: u64, seconds: f64) -> io::Result<()> {
    writeln!(out, "{:.0} transfers/second", transfers as f64 / seconds)?;
    writeln!(out, "{:.0} errors/second", errors as f64 / seconds)
}

/// Returns the value of Content-Length in an answer, given its status line and header fields;
/// `None` if the field is missing or invalid, or if the status is not 200.
fn length(head: &[u8]) -> Option<u64> {
    let head = str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?;
    let field = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim())
    })?;
    if status == "200" { field.parse().ok() } else { None }
}

impl Play for Fetch<'_> {
    type Far = Httpd;

    fn near<S: Sockets>(&mut self, sockets: &mut S, round: Round<'_, S>, at: SocketAddr) -> anyhow::Result<()> {
        let setup = Setup { nodelay: true, waits: Waits::Never, ..Setup::default() };
        let request = request(self.path);
        let (mut buffer, mut open) = (vec![0; READ], Vec::<Conn<S::Fd>>::with_capacity(self.at_a_time));
        let (mut transfers, mut errors) = (0u64, 0u64);
        warm_up(sockets, round, at, &setup)?;
        let span = Span::begin(|| round(sockets, Pace::Go));
        let start = span.start();
        let (mut now, mut moved_at) = (start, start);
        while now.since(start) < self.time && !dispatch::stop_requested() {
            let mut went_on = false;
            while open.len() < self.at_a_time {
                match sockets.connect(at, &setup) {
                    Ok(fd) => open.push(Conn::new(fd)),
                    Err(_) => {
                        errors += 1;
                        break; // all local L4 ports are in use at the moment
                    }
                }
            }
            open.retain_mut(|conn| {
                let came = conn.turn(sockets, request.as_bytes(), &mut buffer);
                went_on |= came != Came::Nothing;
                let over = matches!(came, Came::Whole | Came::Wrong);
                if over {
                    sockets.close(conn.fd);
                    *if came == Came::Whole { &mut transfers } else { &mut errors } += 1;
                }
                !over
            });
            now = round(sockets, if went_on { Pace::Go } else { Pace::Wait });
            if went_on {
                moved_at = now;
            }
            anyhow::ensure!(now.since(moved_at) < PATIENCE, "timeout: no progress for {} seconds", PATIENCE.as_secs());
        }
        open.iter().for_each(|conn| sockets.close(conn.fd));
        let took = span.end(round(sockets, Pace::Go));
        self.done = Some((transfers, took));
        Ok(print_rates(self.out, transfers, errors, took.seconds)?)
    }
}

/// httpd, the far end of http: our HTTP server with only the built-in files.
#[derive(Debug)]
pub struct Httpd;

impl FarEnd for Httpd {
    type End<S: Sockets> = Hosted<Http, S>;

    const PORT: u16 = AT;

    const CONNECTIONS: usize = 1024;

    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, limits: Limits) -> Result<(Hosted<Http, S>, u16), Failure> {
        let Limits { most, per_peer } = limits;
        let config = Config { conns_max: most, conns_per_peer: per_peer, ..Config::new(Root::devices()) };
        Hosted::open(sockets, at, Http::new(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conn() -> Conn<()> {
        Conn::new(())
    }

    #[test]
    fn an_answer_is_complete_at_its_content_length() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        for cut in 0..answer.len() {
            let mut conn = conn();
            for part in [&answer[..cut], &answer[cut..]] {
                assert!(part.is_empty() || conn.take(part) == Came::Some);
            }
            assert_eq!(conn.left, Some(0), "cut at {cut}");
        }
        let mut short = conn();
        assert!(short.take(&answer[..answer.len() - 1]) == Came::Some && short.left == Some(1));
        assert!(short.take(b"o!") == Came::Wrong, "more than it said");
    }

    /// The request received, and an answer read a few bytes at a time.
    struct Told(Vec<u8>, &'static [u8]);

    impl Read for Told {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = self.1.len().min(7).min(into.len());
            into[..n].copy_from_slice(&self.1[..n]);
            self.1 = &self.1[n..];
            Ok(n)
        }
    }

    impl Write for Told {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn blocking_transfers_succeed_only_if_complete() {
        let mut reported = Told(Vec::new(), b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        assert!(transfer(&mut reported, "/five"));
        assert_eq!(reported.0, b"GET /five HTTP/1.0\r\n\r\n");
        for answer in [
            &b""[..],
            b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            b"HTTP/1.0 404 No\r\nContent-Length: 0\r\n\r\n",
        ] {
            assert!(!transfer(&mut Told(Vec::new(), answer), "/"));
        }
    }

    #[test]
    fn malformed_answers_are_errors() {
        for answer in [
            &b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"\xff\xfe\r\n\r\n",
            &[b'x'; HEAD_MAX],
        ] {
            assert!(conn().take(answer) == Came::Wrong);
        }
        assert!(conn().take(b"HTTP/1.1 200 OK\r\n") == Came::Some);
    }
}
