//! The asking end: one request, one answer, in a given time.

use super::{ANSWER_MAX, line};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// What the server answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Done, or refused?
    pub ok: bool,
    /// The output, or why not.
    pub text: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Not a place where a control socket can be.
    #[error("{0}: not a control socket's place: expected unix:///path/to/socket or /path/to/socket")]
    BadUrl(String),
    /// Nobody there.
    #[error("{path}: {error}: is a host running with --control {path}?")]
    Connect {
        /// Path of the socket.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// No answer in time.
    #[error("{path}: no answer within {seconds} s: is the host stopped?")]
    Timeout {
        /// Path of the socket.
        path: String,
        /// Seconds waited.
        seconds: f64,
    },
    /// The connection ended early, or what came is no answer.
    #[error("{path}: {why}: is it a control socket of linerate's?")]
    Broken {
        /// Path of the socket.
        path: String,
        /// Description of the fault.
        why: String,
    },
    /// The host runs as another user, whose answers are not to be trusted.
    #[error("{path}: user {uid} serves it, not you (user {own}) or root: run the command as that user")]
    Foreign {
        /// Path of the socket.
        path: String,
        /// User id of the process that serves the socket.
        uid: u32,
        /// Our own.
        own: u32,
    },
    /// A word that no line can carry.
    #[error("a word with a line break or another control character cannot be sent")]
    BadWord,
}

/// The path in `unix:///path`, `unix://path` or a plain path.
///
/// # Errors
/// [`ControlError::BadUrl`].
pub fn path_of(url: &str) -> Result<PathBuf, ControlError> {
    let path = match url.split_once("://") {
        Some(("unix", path)) => path,
        Some(_) => return Err(ControlError::BadUrl(url.to_string())),
        None => url,
    };
    if path.is_empty() { Err(ControlError::BadUrl(url.to_string())) } else { Ok(PathBuf::from(path)) }
}

/// Asks the server at `url` (`unix:///path` or a path) one thing and waits for the answer, each step at most `timeout`.
///
/// # Errors
/// [`ControlError`]. An answer that says no is an [`Answer`]. A socket of another user is an error, but for root.
pub fn request(url: &str, words: &[String], json: bool, timeout: Duration) -> Result<Answer, ControlError> {
    let path = path_of(url)?;
    let mut line = if json { "-j ".to_string() } else { String::new() };
    line += &line::join(words);
    if line.chars().any(|c| c.is_control() && c != '\t') {
        return Err(ControlError::BadWord);
    }
    line.push('\n');
    let shown = path.display().to_string();
    let stream = UnixStream::connect(&path).map_err(|error| ControlError::Connect { path: shown.clone(), error })?;
    let own = port::os::own_uid();
    let uid =
        port::os::peer_uid(stream.as_fd()).map_err(|error| ControlError::Connect { path: shown.clone(), error })?;
    if !is_trusted(uid, own) {
        return Err(ControlError::Foreign { path: shown, uid, own });
    }
    exchange(stream, &line, timeout).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            ControlError::Timeout { path: shown, seconds: timeout.as_secs_f64() }
        }
        _ => ControlError::Broken { path: shown, why: error.to_string() },
    })
}

/// Returns whether user `own` accepts answers of a host that user `uid` runs. A user accepts its own hosts and
/// root's; root accepts all.
pub(super) fn is_trusted(uid: u32, own: u32) -> bool {
    uid == own || uid == 0 || own == 0
}

fn exchange(stream: UnixStream, line: &str, timeout: Duration) -> io::Result<Answer> {
    let timeout = timeout.max(Duration::from_millis(1)); // zero would mean for ever
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    // A server that has no room answers and closes before it has read: the answer still counts.
    let sent = (&stream).write_all(line.as_bytes());
    let mut reader = BufReader::new(&stream);
    let mut head = Vec::new();
    let got = (&mut reader).take(64).read_until(b'\n', &mut head);
    if head.is_empty() {
        sent?;
        got?;
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "the connection ended without an answer"));
    }
    let (ok, bytes) = parse_head(&head).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "not an answer"))?;
    let mut body = Vec::new();
    reader.take(bytes).read_to_end(&mut body)?;
    if (body.len() as u64) < bytes {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "the answer was cut short"));
    }
    let text = String::from_utf8(body).map_err(|_| io::Error::new(ErrorKind::InvalidData, "the answer is not text"))?;
    Ok(Answer { ok, text })
}

fn parse_head(head: &[u8]) -> Option<(bool, u64)> {
    let head = std::str::from_utf8(head).ok()?.strip_suffix('\n')?;
    let (word, bytes) = head.split_once(' ')?;
    let ok = match word {
        "ok" => true,
        "error" => false,
        _ => return None,
    };
    Some((ok, bytes.parse().ok().filter(|bytes| *bytes <= ANSWER_MAX as u64)?))
}
