//! Login, the setup of the data connection (PASV, EPSV, PORT, EPRT), and events of the data
//! connection.

use super::super::command::{self, BadEprt};
use super::super::data::Job;
use super::{Cx, DataConnection, GULP, LOGINS_MAX, Login, Session};
use crate::app::Action;
use crate::files::Refusal;
use crate::streams::Ends;
use std::net::{IpAddr, SocketAddr};

impl Session {
    pub(super) fn user(&mut self, name: &[u8], cx: &mut Cx<'_>) {
        let name = name.trim_ascii();
        let is_anonymous = [&b"anonymous"[..], b"ftp"].iter().any(|known| name.eq_ignore_ascii_case(known));
        self.login = Login::Named(is_anonymous);
        // Every user name gets the same reply, so that user names cannot be probed (RFC 2577 6).
        self.reply(cx.now, "331 User name okay, need password.");
    }

    pub(super) fn pass(&mut self, cx: &mut Cx<'_>) {
        match self.login {
            Login::Named(true) => {
                self.login = Login::In;
                cx.counts.logins.bump();
                self.reply(cx.now, "230 User logged in, proceed.");
            }
            Login::Named(false) => {
                self.login = Login::None;
                self.logins += 1;
                cx.counts.logins_refused.bump();
                if self.logins >= LOGINS_MAX {
                    self.say_goodbye(cx, "421 Service not available, closing control connection: too many attempts.");
                } else {
                    self.reply(cx.now, "530 Not logged in.");
                }
            }
            Login::None => self.reply(cx.now, "503 Bad sequence of commands: USER first."),
            Login::In => self.reply(cx.now, "230 User logged in, proceed."),
        }
    }

    pub(super) fn reinitialize(&mut self, cx: &mut Cx<'_>) {
        self.drop_data_connection(cx);
        let mut fresh = Session::new(self.ends, self.began);
        std::mem::swap(&mut fresh.lines, &mut self.lines);
        std::mem::swap(&mut fresh.replies, &mut self.replies);
        (fresh.replies_at, fresh.reply_at, fresh.command_at) = (self.replies_at, self.reply_at, self.command_at);
        (fresh.logins, fresh.errors, fresh.at_eof) = (self.logins, self.errors, self.at_eof);
        *self = fresh;
        self.reply(cx.now, "220 Service ready for new user.");
    }

    // Setup of the data connection.

    /// Cancels the setup of the data connection and closes its listener and connection.
    pub(super) fn drop_data_connection(&mut self, cx: &mut Cx<'_>) {
        match self.way {
            DataConnection::None | DataConnection::Active(_) => {}
            DataConnection::Opening { .. } | DataConnection::Passive => cx.act(Action::Close(cx.listener)),
            DataConnection::Connecting | DataConnection::Open => cx.act(Action::Abort(cx.data)),
        }
        self.way = DataConnection::None;
    }

    pub(super) fn drop_job(&mut self, cx: &mut Cx<'_>) {
        if self.job.take().is_some() {
            self.drop_data_connection(cx);
        }
    }

    pub(super) fn pasv(&mut self, cx: &mut Cx<'_>) {
        if self.only_epsv {
            return self.reply(cx.now, "503 Bad sequence of commands: only EPSV is allowed after EPSV ALL.");
        }
        if self.ends.local.is_ipv6() {
            return self.reply(cx.now, "425 Can't open data connection: PASV is for IPv4, use EPSV.");
        }
        self.open_listener(false, cx);
    }

    /// Handles EPSV (RFC 2428 3); `what` is its argument.
    pub(super) fn epsv(&mut self, what: &[u8], cx: &mut Cx<'_>) {
        let family = if self.ends.local.is_ipv6() { "2" } else { "1" };
        match what.trim_ascii() {
            b"" => self.open_listener(true, cx),
            all if all.eq_ignore_ascii_case(b"ALL") => {
                self.only_epsv = true;
                self.reply(cx.now, "200 Command okay.");
            }
            requested if requested == family.as_bytes() => self.open_listener(true, cx),
            b"1" | b"2" => self.reply(cx.now, &format!("522 Network protocol not supported, use ({family})")),
            requested if requested.iter().all(u8::is_ascii_digit) => {
                self.reply(cx.now, &format!("522 Network protocol not supported, use ({family})"));
            }
            _ => self.reply(cx.now, "501 Syntax error in parameters or arguments: expected a protocol number or ALL."),
        }
    }

    fn open_listener(&mut self, is_extended: bool, cx: &mut Cx<'_>) {
        self.drop_data_connection(cx);
        self.way = DataConnection::Opening { is_extended };
        cx.act(Action::Listen(cx.listener, SocketAddr::new(self.ends.local.ip(), 0)));
    }

    pub(in super::super) fn on_listening(&mut self, at: SocketAddr, cx: &mut Cx<'_>) {
        let DataConnection::Opening { is_extended } = self.way else { return cx.act(Action::Close(cx.listener)) };
        self.way = DataConnection::Passive;
        let text = match self.ends.local.ip() {
            IpAddr::V4(ip) if !is_extended => {
                let ([a, b, c, d], [high, low]) = (ip.octets(), at.port().to_be_bytes());
                format!("227 Entering Passive Mode ({a},{b},{c},{d},{high},{low}).")
            }
            _ => format!("229 Entering Extended Passive Mode (|||{}|)", at.port()),
        };
        self.reply(cx.now, &text);
    }

    pub(in super::super) fn on_listener_failed(&mut self, cx: &mut Cx<'_>) {
        if matches!(self.way, DataConnection::Opening { .. } | DataConnection::Passive) {
            self.way = DataConnection::None;
            self.reply(cx.now, "425 Can't open data connection.");
        }
    }

    pub(super) fn port(&mut self, what: &[u8], cx: &mut Cx<'_>) {
        if self.ends.peer.is_ipv6() {
            return self.reply(cx.now, "522 Network protocol not supported, use (2)");
        }
        match command::host_port(what) {
            Some(to) => self.set_active(to, cx),
            None => self.reply(cx.now, "501 Syntax error in parameters or arguments: expected h1,h2,h3,h4,p1,p2."),
        }
    }

    pub(super) fn eprt(&mut self, what: &[u8], cx: &mut Cx<'_>) {
        let family = if self.ends.peer.is_ipv6() { "2" } else { "1" };
        match command::extended_port(what) {
            Ok(to) if to.is_ipv6() == self.ends.peer.is_ipv6() => self.set_active(to, cx),
            Ok(_) | Err(BadEprt::Protocol) => {
                self.reply(cx.now, &format!("522 Network protocol not supported, use ({family})"));
            }
            Err(BadEprt::Syntax) => {
                self.reply(cx.now, "501 Syntax error in parameters or arguments: expected |protocol|address|port|.")
            }
        }
    }

    fn set_active(&mut self, to: SocketAddr, cx: &mut Cx<'_>) {
        if self.only_epsv {
            return self.reply(cx.now, "503 Bad sequence of commands: only EPSV is allowed after EPSV ALL.");
        }
        // RFC 2577 3: this check prevents bounce attacks, in which PORT directs data to other hosts
        // or services.
        if to.ip() != self.ends.peer.ip() || to.port() < 1024 {
            cx.counts.bounces.bump();
            return self.reply(
                cx.now,
                "504 Command not implemented for that parameter: expected the client's address and a port above 1023.",
            );
        }
        self.drop_data_connection(cx);
        self.way = DataConnection::Active(to);
        self.reply(cx.now, "200 Command okay.");
    }

    // Data connection.

    /// Accepts a data connection if one is expected and if it comes from the client's address.
    pub(in super::super) fn on_data_accepted(&mut self, ends: Ends, cx: &mut Cx<'_>) -> bool {
        if self.way != DataConnection::Passive {
            return false;
        }
        if ends.peer.ip() != self.ends.peer.ip() {
            cx.counts.thefts.bump();
            return false;
        }
        cx.act(Action::Close(cx.listener));
        self.way = DataConnection::Open;
        self.data_at = cx.now;
        true
    }

    pub(in super::super) fn on_data_connected(&mut self, cx: &mut Cx<'_>) {
        self.way = DataConnection::Open;
        self.data_at = cx.now;
    }

    /// Starts the transfer `job` on the data connection that the client has set up; `what` is
    /// appended to the text of the 150 reply.
    pub(super) fn begin(&mut self, job: Job, what: &str, cx: &mut Cx<'_>) {
        self.data_at = cx.now;
        self.job = Some(job);
        if let DataConnection::Active(to) = self.way {
            self.way = DataConnection::Connecting;
            cx.act(Action::Connect(cx.data, SocketAddr::new(self.ends.local.ip(), 0), to));
        }
        self.reply(cx.now, &format!("150 File status okay; about to open data connection{what}."));
        cx.act(Action::Wake(cx.data));
    }

    /// Returns whether the client has set up a data connection; sends reply 425 if not.
    pub(super) fn has_data_connection(&mut self, cx: &mut Cx<'_>) -> bool {
        let has = !matches!(self.way, DataConnection::None | DataConnection::Opening { .. });
        if !has {
            self.reply(cx.now, "425 Can't open data connection: PASV, EPSV, PORT or EPRT first.");
        }
        has
    }

    pub(in super::super) fn data_room(&self) -> usize {
        match &self.job {
            Some(Job::In(_)) if self.way == DataConnection::Open => GULP,
            // Data received during a download is discarded. It is read to detect that the peer has
            // closed the connection.
            Some(Job::Out(_)) if self.way == DataConnection::Open => 4096,
            _ => 0,
        }
    }

    pub(in super::super) fn on_data(&mut self, bytes: &[u8], cx: &mut Cx<'_>) {
        let Some(Job::In(incoming)) = &mut self.job else { return };
        self.data_at = cx.now;
        cx.counts.bytes_in.add(bytes.len() as u64);
        if let Err(why) = incoming.take(bytes) {
            self.fail(why, cx);
        }
    }

    pub(in super::super) fn on_data_eof(&mut self, cx: &mut Cx<'_>) {
        let Some(Job::In(incoming)) = &mut self.job else { return };
        match incoming.finish() {
            Ok(()) => {
                let bytes = incoming.bytes;
                self.finish(bytes, cx);
            }
            Err(why) => self.fail(why, cx),
        }
    }

    /// Prepares the next bytes to send on the data connection. At the end of the data, finishes the
    /// transfer.
    pub(in super::super) fn prepare_data(&mut self, cx: &mut Cx<'_>) {
        let (Some(Job::Out(out)), DataConnection::Open) = (&mut self.job, self.way) else { return };
        match out.prepare() {
            Ok(()) if out.output().is_empty() => {
                let bytes = out.bytes;
                self.finish(bytes, cx);
            }
            Ok(()) => {}
            Err(why) => self.fail(why, cx),
        }
    }

    pub(in super::super) fn data_output(&mut self) -> &[u8] {
        match (&mut self.job, self.way) {
            (Some(Job::Out(out)), DataConnection::Open) => out.output(),
            _ => &[],
        }
    }

    pub(in super::super) fn data_sent(&mut self, n: usize, cx: &mut Cx<'_>) {
        if let Some(Job::Out(out)) = &mut self.job {
            out.advance(n);
            self.data_at = cx.now;
            cx.counts.bytes_out.add(n as u64);
        }
    }

    fn finish(&mut self, bytes: u64, cx: &mut Cx<'_>) {
        (self.job, self.way, self.command_at) = (None, DataConnection::None, cx.now);
        cx.act(Action::Close(cx.data));
        cx.counts.transfers.bump();
        self.reply(cx.now, &format!("226 Closing data connection; {bytes} bytes transferred."));
    }

    /// Ends the transfer after reading or writing the file has failed.
    fn fail(&mut self, why: Refusal, cx: &mut Cx<'_>) {
        cx.counts.transfers_failed.bump();
        self.drop_job(cx);
        self.command_at = cx.now;
        let text = match why {
            Refusal::NoSpace => "452 Requested action not taken",
            _ => "451 Requested action aborted",
        };
        self.reply(cx.now, &format!("{text}: {why}."));
    }

    pub(in super::super) fn on_data_gone(&mut self, cx: &mut Cx<'_>) {
        let was_open = self.way == DataConnection::Open;
        self.way = DataConnection::None;
        if self.job.take().is_some() {
            cx.counts.transfers_failed.bump();
            self.command_at = cx.now;
            let text =
                if was_open { "426 Connection closed; transfer aborted." } else { "425 Can't open data connection." };
            self.reply(cx.now, text);
        }
    }

    pub(super) fn abor(&mut self, cx: &mut Cx<'_>) {
        if self.job.is_some() {
            cx.counts.transfers_aborted.bump();
            self.drop_job(cx);
            self.reply(cx.now, "426 Connection closed; transfer aborted.");
        }
        self.drop_data_connection(cx);
        self.reply(cx.now, "226 Closing data connection.");
    }
}
