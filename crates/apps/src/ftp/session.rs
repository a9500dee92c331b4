//! One FTP session: the dialogue on the control connection, and the state of the data connection.
//!
//! A transfer needs three things: the address of the data connection (a listener, or an address to
//! connect to), the established data connection, and a transfer command. The data connection may be
//! established before or after the command. The 150 reply is sent when the command is accepted, the
//! 226 reply when the transfer is complete.

mod access;
mod files;

use super::command::Command;
use super::data::{Job, Outgoing};
use super::facts::Facts;
use super::line::{Line, Lines};
use super::{Config, FtpCounts};
use crate::app::{Action, Chan};
use crate::slots::Connection;
use crate::streams::Ends;
use linerate::stack::Instant;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use crate::files::Name;

/// Number of buffered reply bytes at which the session stops processing commands until it has sent
/// some of them.
const REPLIES_MAX: usize = 4 * 1024;
/// Bytes read from a data connection at a time.
const GULP: usize = 128 * 1024;
/// Maximum number of failed logins of a session.
const LOGINS_MAX: u32 = 5;

/// Context of a call: configuration, counters, action queue, and the channels of the session.
pub(super) struct Cx<'a> {
    pub(super) config: &'a Config,
    pub(super) counts: &'a FtpCounts,
    pub(super) actions: &'a mut VecDeque<Action>,
    pub(super) control: Chan,
    pub(super) listener: Chan,
    pub(super) data: Chan,
    pub(super) now: Instant,
}

impl Cx<'_> {
    fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Login {
    None,
    /// USER was received; `true` for the user names of anonymous FTP, `false` for any other name.
    Named(bool),
    In,
}

/// State of the data connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DataConnection {
    None,
    /// The driver is opening a listener; once it is open, reply 227 or 229 is sent.
    Opening {
        is_extended: bool,
    },
    /// The listener is open; waiting for the client to connect.
    Passive,
    /// The server will connect to this address (from PORT or EPRT) when a transfer starts.
    Active(SocketAddr),
    /// The server is connecting to the client.
    Connecting,
    /// The data connection is established.
    Open,
}

/// A session of one FTP client, with its data connection.
#[derive(Debug)]
pub(super) struct Session {
    ends: Ends,
    login: Login,
    logins: u32,
    cwd: Name,
    is_text: bool,
    rest: u64,
    only_epsv: bool,
    facts: Facts,
    /// Old name given by RNFR, for the RNTO command that must follow.
    rename_from: Option<Name>,
    /// Part of a STAT reply that is still to be sent: the rest of its listing, and its last line.
    status: Option<(Outgoing, &'static str)>,
    lines: Lines,
    replies: Vec<u8>,
    replies_at: usize,
    way: DataConnection,
    job: Option<Job>,
    errors: u32,
    began: Instant,
    /// Time of the last command.
    command_at: Instant,
    /// Time when the transfer started or last made progress.
    data_at: Instant,
    /// Time when reply bytes were last sent, or when the oldest unsent reply was queued.
    reply_at: Instant,
    is_closing: bool,
    at_eof: bool,
    is_over: bool,
}

impl Connection for Session {
    fn peer(&self) -> IpAddr {
        self.peer_ip()
    }

    fn moved(&self) -> Instant {
        if self.job.is_some() { self.data_at } else { self.command_at }
    }
}

impl Session {
    pub(super) fn new(ends: Ends, now: Instant) -> Session {
        Session {
            ends,
            login: Login::None,
            logins: 0,
            cwd: Name::root(),
            is_text: true, // RFC 959 5.1: ASCII is the default
            rest: 0,
            only_epsv: false,
            facts: Facts::default(),
            rename_from: None,
            status: None,
            lines: Lines::default(),
            replies: Vec::new(),
            replies_at: 0,
            way: DataConnection::None,
            job: None,
            errors: 0,
            began: now,
            command_at: now,
            data_at: now,
            reply_at: now,
            is_closing: false,
            at_eof: false,
            is_over: false,
        }
    }

    pub(super) fn greet(&mut self, now: Instant) {
        self.reply(now, "220 Service ready for new user: linerate FTP server.");
    }

    pub(super) fn peer_ip(&self) -> IpAddr {
        self.ends.peer.ip()
    }

    /// Returns whether the session has ended and all its channels are closed.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    fn reply(&mut self, now: Instant, text: &str) {
        if self.replies_at >= self.replies.len() {
            self.reply_at = now;
        }
        self.replies.extend_from_slice(text.as_bytes());
        self.replies.extend_from_slice(b"\r\n");
        match text.as_bytes().first() {
            Some(b'5') => self.errors = self.errors.saturating_add(1),
            Some(b'2') => self.errors = 0,
            _ => {}
        }
    }

    // Control connection.

    pub(super) fn control_room(&self) -> usize {
        if self.is_closing { 0 } else { self.lines.room() }
    }

    pub(super) fn on_control(&mut self, bytes: &[u8], cx: &mut Cx<'_>) {
        self.lines.push(bytes);
        if self.lines.is_flood() && !self.is_closing {
            cx.counts.overlong.bump();
            self.say_goodbye(cx, "421 Service not available, closing control connection: unterminated line.");
        }
    }

    pub(super) fn on_control_eof(&mut self) {
        self.at_eof = true;
    }

    pub(super) fn on_control_gone(&mut self, cx: &mut Cx<'_>) {
        self.drop_job(cx);
        self.drop_data_connection(cx);
        self.is_over = true;
    }

    pub(super) fn control_output(&self) -> &[u8] {
        self.replies.get(self.replies_at..).unwrap_or_default()
    }

    pub(super) fn control_sent(&mut self, n: usize, cx: &mut Cx<'_>) {
        self.replies_at = self.replies_at.saturating_add(n);
        self.reply_at = cx.now;
        if self.replies_at >= self.replies.len() {
            self.replies.clear();
            self.replies_at = 0;
        }
    }

    /// Executes the pending commands that can run now. Closes the session once QUIT or an error has
    /// ended it and all replies are sent.
    pub(super) fn proceed(&mut self, cx: &mut Cx<'_>) {
        self.write_status(cx);
        while !self.is_over && !self.is_closing && self.replies.len() < REPLIES_MAX && self.status.is_none() {
            let may_go_on = match &self.job {
                Some(_) => self.lines.next_is(b"ABOR"),
                None => !matches!(self.way, DataConnection::Opening { .. }),
            };
            if !may_go_on {
                break;
            }
            match self.lines.next_line() {
                Some(Line::Text(line)) => {
                    self.command_at = cx.now;
                    self.command(Command::parse(&line), cx);
                }
                Some(Line::TooLong) => {
                    self.command_at = cx.now;
                    cx.counts.overlong.bump();
                    self.reply(cx.now, "500 Syntax error, command unrecognized: line too long.");
                }
                None => break,
            }
            if self.errors > cx.config.errors_max {
                cx.counts.erring.bump();
                self.say_goodbye(cx, "421 Service not available, closing control connection: too many errors.");
            }
        }
        if self.is_over {
            return; // the control connection failed: pending commands are dropped
        }
        if self.at_eof
            && self.job.is_none()
            && self.status.is_none()
            && !matches!(self.way, DataConnection::Opening { .. })
        {
            self.is_closing = true; // the client shut down its side, and its last command is done
        }
        let is_said = self.replies.is_empty();
        if self.is_closing && self.job.is_none() && is_said {
            self.drop_data_connection(cx);
            cx.act(Action::Close(cx.control));
            self.is_over = true;
        } else if !is_said {
            // An event on the data connection may have added a reply.
            cx.act(Action::Wake(cx.control));
        }
    }

    fn say_goodbye(&mut self, cx: &mut Cx<'_>, text: &str) {
        self.drop_job(cx);
        self.status = None;
        self.reply(cx.now, text);
        self.is_closing = true;
    }

    fn command(&mut self, command: Command<'_>, cx: &mut Cx<'_>) {
        use Command as C;
        let now = cx.now;
        let needs_login = !matches!(
            command,
            C::User(_)
                | C::Pass(_)
                | C::Quit
                | C::Rein
                | C::Noop
                | C::Help
                | C::Syst
                | C::Feat
                | C::Opts(_)
                | C::Abor
                | C::NotHere
                | C::Unknown
        );
        match command {
            C::Unknown => cx.counts.unknown.bump(),
            _ => cx.counts.commands.bump(),
        }
        if needs_login && self.login != Login::In {
            return self.reply(now, "530 Not logged in.");
        }
        // RFC 959 4.1.2: a restart marker (from REST) applies to the next command only.
        let rest = std::mem::take(&mut self.rest);
        // RFC 959 4.1.3: RNTO must follow RNFR immediately.
        let rename_from = self.rename_from.take();
        match command {
            C::User(name) => self.user(name, cx),
            C::Pass(_) => self.pass(cx),
            C::Quit => self.say_goodbye(cx, "221 Service closing control connection."),
            C::Rein => self.reinitialize(cx),
            C::Noop => self.reply(now, "200 Command okay."),
            C::Superfluous => self.reply(now, "202 Command not implemented, superfluous at this site."),
            C::Help => self.reply(now, HELP),
            C::Syst => self.reply(now, "215 UNIX Type: L8"),
            C::Stat(name) => self.stat(name, cx),
            C::Feat => self.reply(now, &features(&self.facts)),
            C::Opts(what) => self.set_option(what, cx),
            C::Pwd => self.pwd(cx),
            C::Cwd(name) => self.cwd(name, cx),
            C::Cdup => self.cwd(b"..", cx),
            C::Type(what) => self.set_type(what, cx),
            C::Mode(what) => self.only(
                what,
                b"S",
                "200 Command okay.",
                "504 Command not implemented for that parameter: only stream mode.",
                cx,
            ),
            C::Stru(what) => self.only(
                what,
                b"F",
                "200 Command okay.",
                "504 Command not implemented for that parameter: only file structure.",
                cx,
            ),
            C::Pasv => self.pasv(cx),
            C::Epsv(what) => self.epsv(what, cx),
            C::Port(what) => self.port(what, cx),
            C::Eprt(what) => self.eprt(what, cx),
            C::Size(name) => self.size(name, cx),
            C::Mdtm(name) => self.mdtm(name, cx),
            C::Rest(what) => self.set_rest(what, cx),
            C::List(what) => self.list(what, true, cx),
            C::Nlst(what) => self.list(what, false, cx),
            C::Retr(name) => self.retr(name, rest, cx),
            C::Stor(name) => self.stor(name, rest, cx),
            C::Appe(name) => self.appe(name, cx),
            C::Mlst(name) => self.mlst(name, cx),
            C::Mlsd(name) => self.mlsd(name, cx),
            C::Dele(name) => self.dele(name, cx),
            C::Mkd(name) => self.mkd(name, cx),
            C::Rmd(name) => self.rmd(name, cx),
            C::Rnfr(name) => self.rnfr(name, cx),
            C::Rnto(name) => self.rnto(rename_from, name, cx),
            C::Abor => self.abor(cx),
            C::NotHere => self.reply(now, "502 Command not implemented."),
            C::Unknown => self.reply(now, "500 Syntax error, command unrecognized."),
        }
    }

    // Timeouts.

    pub(super) fn deadline(&self, config: &Config) -> Instant {
        let replies = if self.replies.is_empty() { Instant::NEVER } else { self.reply_at.after(config.data_time) };
        let rest = match (&self.job, self.login) {
            (Some(_), _) => self.data_at.after(config.data_time),
            // Only the time limit for a client that does not read the replies applies.
            (None, _) if self.is_closing => Instant::NEVER,
            (None, Login::In) => self.command_at.after(config.idle_time),
            (None, _) => self.began.after(config.login_time),
        };
        replies.min(rest)
    }

    pub(super) fn on_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.deadline(cx.config) > cx.now {
            return;
        }
        if !self.replies.is_empty() && self.reply_at.after(cx.config.data_time) <= cx.now {
            cx.counts.deaf.bump();
            self.drop_job(cx);
            self.drop_data_connection(cx);
            cx.act(Action::Abort(cx.control));
            self.is_over = true;
        } else if self.job.is_some() {
            cx.counts.stalled.bump();
            cx.counts.transfers_failed.bump();
            let code = match self.way {
                DataConnection::Open => "426 Connection closed; transfer aborted: no progress",
                _ => "425 Can't open data connection: no connection",
            };
            self.drop_job(cx);
            self.drop_data_connection(cx);
            self.command_at = cx.now;
            self.reply(cx.now, &format!("{code} for {} s.", cx.config.data_time.as_secs()));
        } else {
            cx.counts.idle.bump();
            self.say_goodbye(cx, "421 Service not available, closing control connection: idle timeout.");
        }
    }
}

const HELP: &str = "214-The commands are:\r\n \
    USER PASS QUIT REIN NOOP HELP SYST STAT FEAT OPTS PWD CWD CDUP TYPE MODE STRU\r\n \
    PASV EPSV PORT EPRT SIZE MDTM REST LIST NLST MLST MLSD RETR STOR APPE ABOR\r\n \
    MKD RMD DELE RNFR RNTO\r\n\
    214 /dev/zero has no end, /dev/null accepts everything.";

/// Returns the reply to FEAT (RFC 2389 3.2). The feature TVFS means that names form a directory
/// tree (RFC 3659 6).
fn features(facts: &Facts) -> String {
    let mlst = facts.feature();
    format!(
        "211-Extensions:\r\n EPRT\r\n EPSV\r\n MDTM\r\n MLST {mlst}\r\n REST STREAM\r\n SIZE\r\n TVFS\r\n UTF8\r\n211 End"
    )
}
