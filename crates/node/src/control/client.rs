//! Client of a control socket. Sends requests and waits for each answer, with a timeout.

use super::{ANSWER_MAX, line};
use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Answer of the server to one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Set if the command succeeded.
    pub ok: bool,
    /// Output of the command, or the error message.
    pub text: String,
}

/// Reason why a request received no answer.
#[derive(Debug)]
pub enum ControlError {
    /// The address is not a valid address of a control socket.
    BadUrl(String),
    /// No server listens at the path.
    Connect {
        /// Path of the socket.
        path: String,
        /// Error reported by the system.
        error: io::Error,
    },
    /// The server did not answer within the timeout.
    Timeout {
        /// Path of the socket.
        path: String,
        /// Seconds spent waiting for the answer.
        seconds: f64,
    },
    /// The connection ended early, or the answer is malformed.
    Broken {
        /// Path of the socket.
        path: String,
        /// Description of the fault.
        why: String,
    },
    /// The host runs as another user, so its answers are not trusted.
    Foreign {
        /// Path of the socket.
        path: String,
        /// User id of the process that serves the socket.
        uid: u32,
        /// User id of this process.
        own: u32,
    },
    /// A word contains a control character, so it cannot be sent in a line.
    BadWord,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlError::BadUrl(text) => write!(
                f,
                "'{text}': not the address of a control socket: expected unix:///path/to/socket or /path/to/socket"
            ),
            ControlError::Connect { path, error } => {
                write!(f, "{path}: {error}: check that a host runs with --control {path}")
            }
            ControlError::Timeout { path, seconds } => {
                write!(f, "{path}: no answer within {seconds} s: check that the host is not suspended")
            }
            ControlError::Broken { path, why } => {
                write!(f, "{path}: {why}: check that it is a control socket of linerate")
            }
            ControlError::Foreign { path, uid, own } => write!(
                f,
                "{path}: the host runs as user {uid}, not as user {own} or root: run the command as user {uid}"
            ),
            ControlError::BadWord => {
                f.write_str("a command must not contain a line break or another control character")
            }
        }
    }
}

impl std::error::Error for ControlError {}

/// Returns the path in `unix:///path`, `unix://path` or a plain path.
///
/// # Errors
/// Returns [`ControlError::BadUrl`].
pub fn path_of(url: &str) -> Result<PathBuf, ControlError> {
    let path = match url.split_once("://") {
        Some(("unix", path)) => path,
        Some(_) => return Err(ControlError::BadUrl(url.to_string())),
        None => url,
    };
    if path.is_empty() { Err(ControlError::BadUrl(url.to_string())) } else { Ok(PathBuf::from(path)) }
}

/// Connection to a control socket, for any number of commands.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    shown: String,
    /// Set after a failed request, because its answer may still arrive.
    is_broken: bool,
}

impl Client {
    /// Connects to the server at `url` (`unix:///path` or a path).
    ///
    /// # Errors
    /// Returns a [`ControlError`] if there is no server, or if the user that runs the server is not
    /// trusted. A user trusts only itself and root; root trusts all users.
    pub fn connect(url: &str) -> Result<Client, ControlError> {
        let path = path_of(url)?;
        let shown = path.display().to_string();
        let failed = |error| ControlError::Connect { path: shown.clone(), error };
        let stream = UnixStream::connect(&path).map_err(failed)?;
        let (own, uid) = (port::os::own_uid(), port::os::peer_uid(stream.as_fd()).map_err(failed)?);
        if !is_trusted(uid, own) {
            return Err(ControlError::Foreign { path: shown, uid, own });
        }
        Ok(Client { stream: BufReader::new(stream), shown, is_broken: false })
    }

    /// Sends one command and waits for its answer. Each read and write waits at most `timeout`.
    ///
    /// # Errors
    /// Returns a [`ControlError`], after which the client accepts no more requests. An error
    /// reported by the server is not a `ControlError` but an [`Answer`].
    pub fn request(&mut self, words: &[String], json: bool, timeout: Duration) -> Result<Answer, ControlError> {
        let line = line_of(words, json)?;
        if self.is_broken {
            let why = "an earlier request failed".to_string();
            return Err(ControlError::Broken { path: self.shown.clone(), why });
        }
        let answer = exchange(&mut self.stream, &line, timeout);
        self.is_broken = answer.is_err();
        answer.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                ControlError::Timeout { path: self.shown.clone(), seconds: timeout.as_secs_f64() }
            }
            _ => ControlError::Broken { path: self.shown.clone(), why: error.to_string() },
        })
    }
}

/// Sends one command to the server at `url` over a new connection, with [`Client::connect`] and
/// [`Client::request`].
///
/// # Errors
/// Returns a [`ControlError`].
pub fn request(url: &str, words: &[String], json: bool, timeout: Duration) -> Result<Answer, ControlError> {
    line_of(words, json)?; // checks the words before connecting
    Client::connect(url)?.request(words, json, timeout)
}

/// Returns the request line of a command.
fn line_of(words: &[String], json: bool) -> Result<String, ControlError> {
    let line = if json { "-j ".to_string() } else { String::new() } + &line::join(words);
    if line.chars().any(|c| c.is_control() && c != '\t') {
        return Err(ControlError::BadWord);
    }
    Ok(line + "\n")
}

/// Returns whether user `own` trusts the answers of a host that user `uid` runs. A user trusts only
/// hosts run by the same user or by root; root trusts all hosts.
pub(super) fn is_trusted(uid: u32, own: u32) -> bool {
    uid == own || uid == 0 || own == 0
}

fn exchange(reader: &mut BufReader<UnixStream>, line: &str, timeout: Duration) -> io::Result<Answer> {
    let timeout = timeout.max(Duration::from_millis(1)); // zero would mean no timeout
    reader.get_ref().set_read_timeout(Some(timeout))?;
    reader.get_ref().set_write_timeout(Some(timeout))?;
    // A server with too many clients answers and closes the connection before it reads the request.
    // Its answer is then used despite the failed write.
    let sent = reader.get_mut().write_all(line.as_bytes());
    read_answer(reader, sent)
}

/// Reads an answer. `sent` is the result of sending the request; its error is returned if there is
/// no answer.
pub(crate) fn read_answer(reader: &mut impl BufRead, sent: io::Result<()>) -> io::Result<Answer> {
    let mut head = Vec::new();
    let got = reader.by_ref().take(64).read_until(b'\n', &mut head);
    if head.is_empty() {
        sent?;
        got?;
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "connection closed without an answer"));
    }
    let (ok, bytes) = parse_head(&head).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "malformed answer"))?;
    let mut body = Vec::new();
    reader.take(bytes).read_to_end(&mut body)?;
    if (body.len() as u64) < bytes {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "answer truncated"));
    }
    let text =
        String::from_utf8(body).map_err(|_| io::Error::new(ErrorKind::InvalidData, "answer is not UTF-8 text"))?;
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
