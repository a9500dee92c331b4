//! An FTP client for measurements: anonymous login, one transfer in image mode, then QUIT.
//!
//! ```text
//!  220 -> USER -> PASS -> TYPE I -> EPSV -> connect -> RETR | STOR -> bytes -> 226 -> QUIT -> 221
//! ```
//!
//! Like curl, the client uses extended passive mode (RFC 2428), and it ends a download early by
//! resetting the data connection. The server is not trusted: the length of lines and replies is
//! bounded, and a step that takes too long ends the session. The data connection always goes to the
//! IP address of the control connection's peer.

use super::line::{Line, Lines};
use crate::app::{Accept, Action, App, Chan, Event};
use crate::files::Source;
use crate::streams::{Ends, Failure, StreamOption};
use linerate::stack::Instant;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const CONTROL: Chan = Chan(0);
const DATA: Chan = Chan(1);
/// Any local IPv4 address and port.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// Maximum length of a reply quoted in an error message, in bytes.
const SAID_MAX: usize = 200;
/// Bytes read from the data connection at a time.
const GULP: usize = 128 * 1024;

/// The transfer to run.
#[derive(Debug)]
pub enum Transfer {
    /// Download: reads a file and discards its data, up to a number of bytes.
    Down {
        /// File name on the server.
        path: &'static str,
        /// Number of bytes after which the download is ended early.
        enough: u64,
    },
    /// Upload: writes zeros to a file.
    Up {
        /// File name on the server.
        path: &'static str,
        /// Number of bytes to send.
        bytes: u64,
    },
}

/// Reason why an FTP session failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Trouble {
    /// The server sent a negative reply.
    #[error("{step}: server replied: {reply}")]
    Refused {
        /// Step that the server refused, such as `RETR`.
        step: &'static str,
        /// Text of the reply.
        reply: String,
    },
    /// A connection failed or could not be established.
    #[error("{step}: {which} connection failed: {why}")]
    Broken {
        /// Step during which the connection failed.
        step: &'static str,
        /// Name of the connection that failed: `control` or `data`.
        which: &'static str,
        why: Failure,
    },
    /// The server closed the control connection before the session was complete.
    #[error("{step}: server closed the control connection")]
    Ended {
        /// Step during which the server closed the connection.
        step: &'static str,
    },
    /// No data and no reply arrived within the time limit.
    #[error("{step}: timeout: no progress for {} s", patience.as_secs())]
    Stalled {
        /// Step during which progress stopped.
        step: &'static str,
        /// Time limit that expired.
        patience: Duration,
    },
}

/// Current step of the session, which determines how the server's next reply is handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Connect,
    User,
    Pass,
    Type,
    Passive,
    /// Establishing the data connection.
    Open,
    /// Waiting for the first reply to RETR or STOR.
    Begin,
    Carry,
    Quit,
    Over,
}

impl Step {
    fn word(self) -> &'static str {
        match self {
            Step::Connect => "connecting",
            Step::User => "USER",
            Step::Pass => "PASS",
            Step::Type => "TYPE",
            Step::Passive => "EPSV",
            Step::Open => "opening the data connection",
            Step::Begin | Step::Carry => "transfer",
            Step::Quit => "QUIT",
            Step::Over => "end of the session",
        }
    }
}

/// An FTP client session, which runs one transfer.
#[derive(Debug)]
pub struct Client {
    to: SocketAddr,
    transfer: Transfer,
    source: Source,
    /// Time limit for each step, and during a transfer for the time without progress.
    patience: Duration,
    step: Step,
    lines: Lines,
    /// Reply code of the multi-line reply that is being received.
    inside: Option<[u8; 3]>,
    commands: Vec<u8>,
    sent: usize,
    actions: VecDeque<Action>,
    due: Instant,
    moved: u64,
    /// Set if this client ended the download early.
    is_cut: bool,
    /// Set if either side has closed the data connection.
    data_is_over: bool,
    /// Set if the final reply of the transfer was received.
    is_acknowledged: bool,
    trouble: Option<Trouble>,
}

impl Client {
    /// Creates a session with the server at `to`, starting at `now`.
    pub fn new(to: SocketAddr, transfer: Transfer, patience: Duration, now: Instant) -> Client {
        let bytes = match &transfer {
            Transfer::Down { .. } => 0,
            Transfer::Up { bytes, .. } => (*bytes).min(u64::MAX - 1), // u64::MAX means endless
        };
        Client {
            to,
            transfer,
            source: Source::zeros(bytes),
            patience,
            step: Step::Connect,
            lines: Lines::default(),
            inside: None,
            commands: Vec::new(),
            sent: 0,
            actions: VecDeque::from([Action::Connect(CONTROL, ANY, to)]),
            due: now.after(patience),
            moved: 0,
            is_cut: false,
            data_is_over: false,
            is_acknowledged: false,
            trouble: None,
        }
    }

    /// Returns the number of file bytes received, or accepted for sending by the socket.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Returns the result once the session is over.
    pub fn outcome(&self) -> Option<Result<(), Trouble>> {
        (self.step == Step::Over).then(|| self.trouble.clone().map_or(Ok(()), Err))
    }

    fn say(&mut self, step: Step, command: &str, now: Instant) {
        self.step = step;
        self.due = now.after(self.patience);
        if self.sent >= self.commands.len() {
            self.commands.clear();
            self.sent = 0;
        }
        self.commands.extend_from_slice(command.as_bytes());
        self.commands.extend_from_slice(b"\r\n");
        self.actions.push_back(Action::Wake(CONTROL));
    }

    fn fail(&mut self, trouble: Trouble) {
        if self.step != Step::Over {
            self.trouble = Some(trouble);
            self.actions.push_back(Action::Abort(CONTROL));
            self.end();
        }
    }

    /// Ends the session and closes both connections. Closing a channel that is closed already has
    /// no effect.
    fn end(&mut self) {
        self.step = Step::Over;
        self.due = Instant::NEVER;
        if !self.data_is_over {
            self.data_is_over = true;
            self.actions.push_back(Action::Abort(DATA));
        }
    }

    fn on_control(&mut self, bytes: &[u8], now: Instant) {
        self.lines.push(bytes);
        while self.step != Step::Over {
            match self.lines.next_line() {
                Some(Line::Text(line)) => self.on_line(&line, now),
                Some(Line::TooLong) => self.refuse(b"reply line too long"),
                None if self.lines.is_flood() => self.refuse(b"unterminated reply line"),
                None => return,
            }
        }
    }

    /// Handles multi-line replies: the first line has a code and a hyphen, the last line the same
    /// code and a space (RFC 959 4.2).
    fn on_line(&mut self, line: &[u8], now: Instant) {
        let Some((number, rest)) = line.split_first_chunk::<3>() else {
            return if self.inside.is_none() {
                self.refuse(line)
            };
        };
        match self.inside {
            Some(inside) if inside == *number && rest.first() == Some(&b' ') => self.inside = None,
            Some(_) => return,
            None if !number.iter().all(u8::is_ascii_digit) => return self.refuse(line),
            None if rest.first() == Some(&b'-') => {
                self.inside = Some(*number);
                return;
            }
            None => {}
        }
        self.on_reply(number.first().copied().unwrap_or_default(), line, now);
    }

    fn refuse(&mut self, said: &[u8]) {
        let said = said.get(..SAID_MAX).unwrap_or(said);
        let reply = String::from_utf8_lossy(said).chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        self.fail(Trouble::Refused { step: self.step.word(), reply });
    }

    /// Handles a complete reply. `class` is the first digit of its code, as an ASCII character.
    fn on_reply(&mut self, class: u8, line: &[u8], now: Instant) {
        match (self.step, class) {
            (Step::Connect, b'1') => {} // 120: service ready later; the time limit is not extended
            (Step::Connect, b'2') => self.say(Step::User, "USER anonymous", now),
            (Step::User, b'3') => self.say(Step::Pass, "PASS linerate@", now),
            (Step::User | Step::Pass, b'2') => self.say(Step::Type, "TYPE I", now),
            (Step::Type, b'2') => self.say(Step::Passive, "EPSV", now),
            (Step::Passive, b'2') => match extended_port(line) {
                Some(port) => self.open_data(port, now),
                None => self.refuse(line),
            },
            (Step::Begin, b'1') => self.begin(now),
            (Step::Begin | Step::Carry, b'2') => self.acknowledged(now),
            // Replies 426 and 451 are normal for a download that this client cut short.
            (Step::Begin | Step::Carry, b'4') if self.is_cut => self.acknowledged(now),
            (Step::Quit, b'2') => {
                self.actions.push_back(Action::Close(CONTROL));
                self.end();
            }
            _ => self.refuse(line),
        }
    }

    fn open_data(&mut self, port: u16, now: Instant) {
        self.step = Step::Open;
        self.due = now.after(self.patience);
        self.actions.push_back(Action::Connect(DATA, ANY, SocketAddr::new(self.to.ip(), port)));
    }

    fn on_data_connected(&mut self, now: Instant) {
        let command = match &self.transfer {
            Transfer::Down { path, .. } => format!("RETR {path}"),
            Transfer::Up { path, .. } => format!("STOR {path}"),
        };
        self.say(Step::Begin, &command, now);
    }

    fn begin(&mut self, now: Instant) {
        self.step = Step::Carry;
        self.due = now.after(self.patience);
        if matches!(self.transfer, Transfer::Up { .. }) {
            self.actions.push_back(Action::Wake(DATA));
            self.end_if_all_is_sent(now);
        }
    }

    /// Counts received file bytes, and ends the download once the requested number has arrived.
    fn on_data(&mut self, bytes: usize, now: Instant) {
        self.moved += bytes as u64;
        self.due = now.after(self.patience);
        if let Transfer::Down { enough, .. } = &self.transfer
            && self.moved >= *enough
            && !self.data_is_over
        {
            self.is_cut = true;
            self.data_ended(Action::Abort(DATA), now);
        }
    }

    fn end_if_all_is_sent(&mut self, now: Instant) {
        if self.source.left() == Some(0) && !self.data_is_over {
            self.data_ended(Action::Close(DATA), now);
        }
    }

    fn data_ended(&mut self, how: Action, now: Instant) {
        self.data_is_over = true;
        self.actions.push_back(how);
        self.conclude(now);
    }

    fn acknowledged(&mut self, now: Instant) {
        self.is_acknowledged = true;
        self.conclude(now);
    }

    /// Sends QUIT once the final reply has arrived and the data connection has ended, in either
    /// order.
    fn conclude(&mut self, now: Instant) {
        if self.is_acknowledged && self.data_is_over && matches!(self.step, Step::Begin | Step::Carry) {
            self.say(Step::Quit, "QUIT", now);
        }
    }

    fn broken(&mut self, which: &'static str, why: Failure) {
        self.fail(Trouble::Broken { step: self.step.word(), which, why });
    }
}

/// Parses the L4 port in a 229 reply: `(|||50000|)`, with any delimiter (RFC 2428 3).
fn extended_port(line: &[u8]) -> Option<u16> {
    let open = line.iter().position(|byte| *byte == b'(')?;
    let inside = line.get(open + 1..)?;
    let [first, second, third, rest @ ..] = inside else { return None };
    let end = rest.iter().position(|byte| byte == first)?;
    let is_plain = first.is_ascii_graphic() && !first.is_ascii_digit() && first == second && second == third;
    let port: u16 = std::str::from_utf8(rest.get(..end)?).ok().filter(|_| is_plain)?.parse().ok()?;
    (port != 0 && rest.get(end + 1) == Some(&b')')).then_some(port)
}

impl App for Client {
    fn accept(&mut self, _: Option<Chan>, _: Ends, _: Instant) -> Accept {
        Accept::Refuse(b"") // the client has no listener
    }

    fn on_event(&mut self, chan: Chan, event: Event<'_>, now: Instant) {
        if self.step == Step::Over {
            return;
        }
        match (chan, event) {
            (CONTROL, Event::Connected(_)) => self.actions.push_back(Action::Set(CONTROL, StreamOption::NoDelay(true))),
            (CONTROL, Event::Bytes(bytes)) => self.on_control(bytes, now),
            (CONTROL, Event::Eof) => self.fail(Trouble::Ended { step: self.step.word() }),
            (CONTROL, Event::Gone(why)) => self.broken("control", why),
            (DATA, Event::Connected(_)) if self.step == Step::Open => self.on_data_connected(now),
            (DATA, Event::Bytes(bytes)) => self.on_data(bytes.len(), now),
            (DATA, Event::Eof) if !self.data_is_over => self.data_ended(Action::Close(DATA), now),
            (DATA, Event::Gone(why)) if !self.data_is_over => {
                self.data_is_over = true;
                self.broken("data", why);
            }
            _ => {}
        }
    }

    fn room(&self, chan: Chan) -> usize {
        match chan {
            CONTROL if self.step != Step::Over => self.lines.room(),
            DATA if !self.data_is_over => GULP,
            _ => 0,
        }
    }

    fn output(&mut self, chan: Chan, _: Instant) -> &[u8] {
        match chan {
            CONTROL => self.commands.get(self.sent..).unwrap_or_default(),
            DATA if self.step == Step::Carry && !self.data_is_over => self.source.peek().unwrap_or_default(),
            _ => &[],
        }
    }

    fn sent(&mut self, chan: Chan, n: usize, now: Instant) {
        if chan == CONTROL {
            self.sent = self.sent.saturating_add(n);
            return;
        }
        self.source.advance(n);
        self.moved += n as u64;
        self.due = now.after(self.patience);
        self.end_if_all_is_sent(now);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_timer(&self) -> Option<Instant> {
        (self.step != Step::Over).then_some(self.due)
    }

    fn on_timer(&mut self, now: Instant) {
        if self.step != Step::Over && self.due <= now {
            self.fail(Trouble::Stalled { step: self.step.word(), patience: self.patience });
        }
    }
}

#[cfg(test)]
mod tests;
