//! An FTP server (RFC 959 with 1123, 2389, 2428, 2577, 3659) for anonymous users and the files of a
//! [`Root`].
//!
//! ```text
//!  control bytes -> line::Lines           bounded; removes Telnet commands
//!                -> command::Command      one parsed line
//!                -> session::Session      replies, and control of the data connection
//!  data          -> data::Job             sends a file or a listing, or receives a file
//! ```
//!
//! A session has up to three channels: the control connection, a temporary listener, and a data
//! connection. Commands received during a transfer wait until it ends; only ABOR is executed at
//! once.
//!
//! The module [`client`] contains an FTP client for measurements.
//!
//! As RFC 2577 recommends, PORT and EPRT accept only the client's own address and ports from 1024
//! on, which prevents bounce attacks. A passive listener accepts a single data connection, and only
//! from the client's own address, which prevents others from stealing the data. Login attempts,
//! idle time and sessions per address are limited.
//!
//! [`crate::files::Uploads`] selects which changes of files are permitted: `New` permits new files
//! and directories; `Replace` also permits appending, renaming and removing. LIST and NLST accept a
//! pattern as the last component of a name (RFC 1123 4.1.2.7). The root directory is its own
//! parent.
//!
//! Record structure, block and compressed mode, EBCDIC, unique names (STOU) and SITE are not
//! supported; the server refuses them with reply 502 or 504. The default data port is not supported
//! either, so PASV, EPSV, PORT or EPRT must precede each transfer. Replies use the texts of RFC 959
//! 4.2.1.

pub mod client;
mod command;
mod data;
mod facts;
mod line;
mod session;

use crate::app::{Accept, Action, App, Chan, Event};
use crate::date::Wall;
use crate::files::Root;
use crate::slots::{Room, Slots, room};
use crate::streams::{Ends, StreamOption};
use linerate::stack::Instant;
use session::{Cx, Session};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Number of channels per session.
const CHANS: u32 = 3;

/// Configuration of the server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Files that the server offers.
    pub root: Root,
    /// Wall-clock time that corresponds to time 0 of the host's clock, for the dates in listings.
    pub wall: Wall,
    /// Maximum number of sessions.
    pub sessions_max: usize,
    /// Maximum number of sessions per address.
    pub sessions_per_peer: usize,
    /// Time limit from connecting to login.
    pub login_time: Duration,
    /// Time limit between commands.
    pub idle_time: Duration,
    /// Time limit for establishing a data connection, for a data connection that makes no progress,
    /// and for a client that does not read the replies.
    pub data_time: Duration,
    /// Number of consecutive 5yz (permanent error) replies after which the session is ended.
    pub errors_max: u32,
}

impl Config {
    /// Returns the default limits.
    pub fn new(root: Root) -> Config {
        Config {
            root,
            wall: Wall::default(),
            sessions_max: 256,
            sessions_per_peer: 32,
            login_time: Duration::from_secs(60),
            idle_time: Duration::from_secs(300),
            data_time: Duration::from_secs(60),
            errors_max: 50,
        }
    }
}

stats::counters! {
    /// Counters of the FTP server.
    pub struct FtpCounts at "apps.ftp" {
        /// Sessions started.
        sessions,
        /// Sessions refused because no slot was free, or because the client's address had too many
        /// sessions.
        refused,
        /// Sessions reset to free a slot for a new session, because they had been idle for longest.
        evicted,
        /// Successful logins.
        logins,
        /// Logins refused.
        logins_refused,
        /// Known commands received, whether executed or refused.
        commands,
        /// Unknown commands received.
        unknown,
        /// Lines discarded because they are longer than the longest valid command.
        overlong,
        /// Files and directories created, renamed or removed.
        changes,
        /// PORT and EPRT commands refused because they name another host's address or a port below
        /// 1024.
        bounces,
        /// Data connections refused because they came from a host other than the client.
        thefts,
        /// Transfers finished.
        transfers,
        /// Transfers that failed.
        transfers_failed,
        /// Transfers ended by ABOR.
        transfers_aborted,
        /// Bytes sent on data connections.
        bytes_out,
        /// Bytes received on data connections.
        bytes_in,
        /// Sessions ended because the client did not log in or send a command within the time
        /// limit.
        idle,
        /// Transfers ended because no data connection was established or no data was transferred
        /// within the time limit.
        stalled,
        /// Sessions reset because the client did not read the replies within the time limit.
        deaf,
        /// Sessions ended because of too many consecutive error replies.
        erring,
    }
}

/// An FTP server with its sessions.
#[derive(Debug)]
pub struct Ftp {
    config: Config,
    pub counts: FtpCounts,
    sessions: Slots<Session>,
    actions: VecDeque<Action>,
    check: Option<Instant>,
}

/// Role of a channel within its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Control,
    Listener,
    Data,
}

impl Role {
    fn of(chan: Chan) -> (u32, Role) {
        let role = match chan.0 % CHANS {
            0 => Role::Control,
            1 => Role::Listener,
            _ => Role::Data,
        };
        (chan.0 / CHANS, role)
    }

    fn chan(self, session: u32) -> Chan {
        Chan(session * CHANS + self as u32)
    }
}

impl Ftp {
    pub fn new(config: Config) -> Ftp {
        let sessions = Slots::new(config.sessions_max);
        Ftp { config, counts: FtpCounts::default(), sessions, actions: VecDeque::new(), check: None }
    }

    /// Returns the number of open sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Applies `what` to a session, continues its pending work, and removes the session if it has
    /// ended.
    fn with(&mut self, at: u32, now: Instant, what: impl FnOnce(&mut Session, &mut Cx<'_>)) {
        let Some(session) = self.sessions.get_mut(at) else { return };
        let mut cx = Cx {
            config: &self.config,
            counts: &self.counts,
            actions: &mut self.actions,
            control: Role::Control.chan(at),
            listener: Role::Listener.chan(at),
            data: Role::Data.chan(at),
            now,
        };
        what(session, &mut cx);
        session.proceed(&mut cx);
        if session.is_over() {
            self.sessions.remove(at);
            return;
        }
        let due = session.deadline(&self.config);
        self.check = Some(self.check.map_or(due, |check| check.min(due)));
    }
}

/// Converts IPv4-mapped IPv6 addresses to IPv4, so that `::ffff:1.0.0.2` equals 1.0.0.2.
fn canonical(ends: Ends) -> Ends {
    let plain = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
    Ends { local: plain(ends.local), peer: plain(ends.peer) }
}

impl App for Ftp {
    fn accept(&mut self, on: Option<Chan>, ends: Ends, now: Instant) -> Accept {
        let ends = canonical(ends);
        if let Some(listener) = on {
            let (at, _) = Role::of(listener);
            let mut is_taken = false;
            self.with(at, now, |session, cx| is_taken = session.on_data_accepted(ends, cx));
            return if is_taken { Accept::Take(Role::Data.chan(at)) } else { Accept::Refuse(b"") };
        }
        let limits = (self.sessions.most(), self.config.sessions_per_peer);
        let room = room(self.sessions.iter(), limits, ends.peer.ip(), now);
        if let Room::Of(old) = room {
            self.counts.evicted.bump();
            // The old session's listener and data connection are closed, too.
            self.with(old, now, |session, cx| session.on_control_gone(cx));
        }
        let place = if room == Room::None { None } else { self.sessions.insert(Session::new(ends, now)).ok() };
        let Some(at) = place else {
            self.counts.refused.bump();
            return Accept::Refuse(b"421 Service not available, closing control connection: too many sessions.\r\n");
        };
        self.counts.sessions.bump();
        // With Nagle's algorithm, the last reply of a transfer would wait for the delayed ACK of
        // the first reply, which costs 40 ms per file.
        self.actions.push_back(Action::Set(Role::Control.chan(at), StreamOption::NoDelay(true)));
        self.with(at, now, |session, _| session.greet(now));
        let chan = Role::Control.chan(at);
        if let Room::Of(old) = room { Accept::Replace(Role::Control.chan(old), chan) } else { Accept::Take(chan) }
    }

    fn on_event(&mut self, chan: Chan, event: Event<'_>, now: Instant) {
        let (at, role) = Role::of(chan);
        self.with(at, now, |session, cx| match (role, event) {
            (Role::Control, Event::Bytes(bytes)) => session.on_control(bytes, cx),
            (Role::Control, Event::Eof) => session.on_control_eof(),
            (Role::Control, Event::Gone(_)) => session.on_control_gone(cx),
            (Role::Listener, Event::Listening(place)) => session.on_listening(place, cx),
            (Role::Listener, Event::Gone(_)) => session.on_listener_failed(cx),
            (Role::Data, Event::Connected(_)) => session.on_data_connected(cx),
            (Role::Data, Event::Bytes(bytes)) => session.on_data(bytes, cx),
            (Role::Data, Event::Eof) => session.on_data_eof(cx),
            (Role::Data, Event::Gone(_)) => session.on_data_gone(cx),
            _ => {}
        });
    }

    fn room(&self, chan: Chan) -> usize {
        let (at, role) = Role::of(chan);
        match (role, self.sessions.get(at)) {
            (Role::Control, Some(session)) => session.control_room(),
            (Role::Data, Some(session)) => session.data_room(),
            _ => 0,
        }
    }

    fn output(&mut self, chan: Chan, now: Instant) -> &[u8] {
        let (at, role) = Role::of(chan);
        if role == Role::Data {
            self.with(at, now, |session, cx| session.prepare_data(cx));
        }
        match (role, self.sessions.get_mut(at)) {
            (Role::Control, Some(session)) => session.control_output(),
            (Role::Data, Some(session)) => session.data_output(),
            _ => &[],
        }
    }

    fn sent(&mut self, chan: Chan, n: usize, now: Instant) {
        let (at, role) = Role::of(chan);
        self.with(at, now, |session, cx| match role {
            Role::Control => session.control_sent(n, cx),
            Role::Data => session.data_sent(n, cx),
            Role::Listener => {}
        });
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_timer(&self) -> Option<Instant> {
        self.check
    }

    fn on_timer(&mut self, now: Instant) {
        let config = &self.config;
        let late = self.sessions.iter().filter(|(_, session)| session.deadline(config) <= now);
        let late: Vec<u32> = late.map(|(at, _)| at).collect();
        for at in late {
            self.with(at, now, |session, cx| session.on_timeout(cx));
        }
        self.check = self.sessions.iter().map(|(_, session)| session.deadline(&self.config)).min();
    }
}

#[cfg(test)]
mod tests;
