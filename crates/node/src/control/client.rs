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

/// A connection to a control socket, for one command after the other.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    shown: String,
    /// A request failed: the answer to it may still come.
    is_broken: bool,
}

impl Client {
    /// Connects to the server at `url` (`unix:///path` or a path).
    ///
    /// # Errors
    /// [`ControlError`]: no server, or one of another user, which only root accepts.
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

    /// Sends one command and waits for its answer, each step at most `timeout`.
    ///
    /// # Errors
    /// [`ControlError`], after which the client takes no more requests. A refusal is no error but an [`Answer`].
    pub fn request(&mut self, words: &[String], json: bool, timeout: Duration) -> Result<Answer, ControlError> {
        let line = line_of(words, json)?;
        if self.is_broken {
            let why = "a request failed before".to_string();
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

/// Sends one command to the server at `url` over a connection of its own: [`Client::connect`] and
/// [`Client::request`].
///
/// # Errors
/// [`ControlError`].
pub fn request(url: &str, words: &[String], json: bool, timeout: Duration) -> Result<Answer, ControlError> {
    line_of(words, json)?; // before a connection is made for it
    Client::connect(url)?.request(words, json, timeout)
}

/// The line of a command.
fn line_of(words: &[String], json: bool) -> Result<String, ControlError> {
    let line = if json { "-j ".to_string() } else { String::new() } + &line::join(words);
    if line.chars().any(|c| c.is_control() && c != '\t') {
        return Err(ControlError::BadWord);
    }
    Ok(line + "\n")
}

/// Returns whether user `own` accepts answers of a host that user `uid` runs. A user accepts its own hosts and
/// root's; root accepts all.
pub(super) fn is_trusted(uid: u32, own: u32) -> bool {
    uid == own || uid == 0 || own == 0
}

fn exchange(reader: &mut BufReader<UnixStream>, line: &str, timeout: Duration) -> io::Result<Answer> {
    let timeout = timeout.max(Duration::from_millis(1)); // zero would mean for ever
    reader.get_ref().set_read_timeout(Some(timeout))?;
    reader.get_ref().set_write_timeout(Some(timeout))?;
    // A server that has no room answers and closes before it has read: the answer still counts.
    let sent = reader.get_mut().write_all(line.as_bytes());
    read_answer(reader, sent)
}

/// Reads an answer; `sent` is the error of the request, which counts where there is none.
pub(crate) fn read_answer(reader: &mut impl BufRead, sent: io::Result<()>) -> io::Result<Answer> {
    let mut head = Vec::new();
    let got = reader.by_ref().take(64).read_until(b'\n', &mut head);
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
