//! A small file service: LOOKUP, GETATTR, READ, WRITE, CREATE and REMOVE on files in memory.
//! Requests and answers are records over TCP.
//!
//! ```text
//!  bytes -> proto::record, proto::request   a malformed record ends the connection
//!        -> tree::Tree::execute             handles, names, bytes; or an RFC 1813 error number
//!        -> proto::answer                   in the order of the requests
//! ```
//!
//! The service is a target for load tests (`linerate fileload`). Its operations are modelled on NFS
//! version 3, but it cannot be mounted. Limits exist for clients, files, total bytes, bytes per
//! file, and output buffered per client. There is no authentication.

pub mod proto;
#[cfg(test)]
mod tests;
mod tree;

use crate::app::{Accept, Action, App, Chan, Event};
use crate::resp::Replies;
use crate::slots::{Connection, Room, Slots, room};
use crate::streams::{Ends, StreamOption};
use linerate::stack::Instant;
use linerate::wire::hash::Key;
use proto::{DATA_MAX, RECORD_MAX, Status};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;
use tree::Tree;

pub use tree::{Bounds, NAME_MAX};

/// Default L4 port of the service, from the dynamic range (RFC 6335: 49152 to 65535).
pub const PORT: u16 = 52_049;
/// Number of buffered answer bytes per client at which the server stops processing that client's
/// requests until it has sent some of them.
const STOP: usize = DATA_MAX;

/// Limits of the service.
#[derive(Clone, Debug)]
pub struct Config {
    /// Limits on the number and the size of files.
    pub bounds: Bounds,
    /// Maximum number of clients; up to 256 KiB of requests and answers are buffered for each.
    pub clients_max: usize,
    /// Maximum number of clients from one IP address.
    pub clients_per_peer: usize,
    /// Time without activity after which a client is disconnected.
    pub idle: Duration,
    /// Secret key for the hash tables, so that peers cannot choose colliding names.
    pub key: Key,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            bounds: Bounds { nodes: 1 << 20, bytes: 256 << 20, file: 16 << 20 },
            clients_max: 1024,
            clients_per_peer: 512,
            idle: Duration::from_secs(300),
            key: Key::random(),
        }
    }
}

stats::counters! {
    /// Counters of the file service.
    pub struct FiledCounts at "apps.filed" {
        /// Clients accepted.
        accepted,
        /// Clients refused because no slot was free, or because their address had too many
        /// connections.
        refused,
        /// Clients reset to free a slot for a new client, because they had been idle for longest.
        evicted,
        /// Requests served.
        requests,
        /// Requests answered with an error: name not found, no space left, or invalid request.
        unserved,
        /// Clients disconnected because they sent a malformed record.
        malformed,
        /// Clients disconnected because they were idle for too long.
        idle,
    }
}

#[derive(Debug)]
struct Conn {
    peer: IpAddr,
    input: Vec<u8>,
    answers: Replies,
    at_eof: bool,
    is_last: bool,
    since: Instant,
}

/// The file service with its files and its client connections.
#[derive(Debug)]
pub struct Filed {
    config: Config,
    pub counts: FiledCounts,
    tree: Tree,
    conns: Slots<Conn>,
    actions: VecDeque<Action>,
    check: Option<Instant>,
}

impl Filed {
    /// Creates a service with an empty directory.
    pub fn new(config: Config) -> Filed {
        let (tree, conns) = (Tree::new(config.bounds, config.key), Slots::new(config.clients_max));
        Filed { config, counts: FiledCounts::default(), tree, conns, actions: VecDeque::new(), check: None }
    }

    /// Returns the number of files and directories.
    pub fn nodes(&self) -> usize {
        self.tree.nodes()
    }

    /// Returns the bytes of memory charged for all files and directories.
    pub fn bytes(&self) -> usize {
        self.tree.bytes()
    }

    /// Applies `change` to the connection of a channel, serves its pending requests, and closes the
    /// connection once all answers are sent.
    fn with(&mut self, chan: Chan, now: Instant, change: impl FnOnce(&mut Conn)) {
        let Some(conn) = self.conns.get_mut(chan.0) else { return };
        change(conn);
        conn.proceed(&mut self.tree, &self.counts, now);
        if (conn.is_last || conn.at_eof) && conn.answers.waiting().is_empty() {
            self.conns.remove(chan.0);
            self.actions.push_back(Action::Close(chan));
        }
    }
}

impl Connection for Conn {
    fn peer(&self) -> IpAddr {
        self.peer
    }

    fn moved(&self) -> Instant {
        self.since
    }
}

impl Conn {
    fn proceed(&mut self, tree: &mut Tree, counts: &FiledCounts, now: Instant) {
        let mut at = 0;
        while !self.is_last && self.answers.waiting().len() < STOP {
            let record = match proto::record(self.input.get(at..).unwrap_or_default()) {
                Ok(None) => break,
                Ok(Some(record)) => record,
                Err(_) => {
                    counts.malformed.bump();
                    self.is_last = true;
                    break;
                }
            };
            at += 4 + record.len();
            let (number, op) = proto::request(record);
            let done = op.ok_or(Status::Invalid).and_then(|op| tree.execute(op, now));
            if done.is_ok() {
                counts.requests.bump()
            } else {
                counts.unserved.bump()
            }
            proto::answer(&mut self.answers, number, done);
        }
        self.input.drain(..at);
    }
}

impl App for Filed {
    fn accept(&mut self, _on: Option<Chan>, ends: Ends, now: Instant) -> Accept {
        let peer = ends.peer.ip();
        let room = room(self.conns.iter(), (self.conns.most(), self.config.clients_per_peer), peer, now);
        if let Room::Of(old) = room {
            self.counts.evicted.bump();
            self.conns.remove(old);
        }
        // A request is processed while fewer than STOP bytes are buffered, so one more answer must
        // fit.
        let answers = Replies::new(STOP + RECORD_MAX + 4);
        let conn = Conn { peer, input: Vec::new(), answers, at_eof: false, is_last: false, since: now };
        let place = if room == Room::None { None } else { self.conns.insert(conn).ok() };
        let Some(at) = place else {
            self.counts.refused.bump();
            return Accept::Refuse(b"");
        };
        self.counts.accepted.bump();
        self.check.get_or_insert(now.after(self.config.idle));
        self.actions.push_back(Action::Set(Chan(at), StreamOption::NoDelay(true)));
        if let Room::Of(old) = room { Accept::Replace(Chan(old), Chan(at)) } else { Accept::Take(Chan(at)) }
    }

    fn on_event(&mut self, chan: Chan, event: Event<'_>, now: Instant) {
        match event {
            Event::Bytes(bytes) => self.with(chan, now, |conn| {
                conn.since = now;
                conn.input.extend_from_slice(bytes);
            }),
            Event::Eof => self.with(chan, now, |conn| conn.at_eof = true),
            Event::Gone(_) => drop(self.conns.remove(chan.0)),
            Event::Connected(_) | Event::Listening(_) | Event::Bound(_) | Event::Datagram(..) | Event::Info(_) => {}
        }
    }

    fn room(&self, chan: Chan) -> usize {
        let room = |conn: &Conn| (RECORD_MAX + 4).saturating_sub(conn.input.len());
        self.conns.get(chan.0).filter(|conn| !conn.is_last).map_or(0, room)
    }

    fn output(&mut self, chan: Chan, _now: Instant) -> &[u8] {
        self.conns.get(chan.0).map_or(&[], |conn| conn.answers.waiting())
    }

    fn sent(&mut self, chan: Chan, n: usize, now: Instant) {
        self.with(chan, now, |conn| {
            conn.since = now;
            conn.answers.sent(n);
        });
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_timer(&self) -> Option<Instant> {
        self.check
    }

    fn on_timer(&mut self, now: Instant) {
        let idle = self.config.idle;
        let stale: Vec<u32> =
            self.conns.iter().filter(|(_, conn)| conn.since.after(idle) <= now).map(|(at, _)| at).collect();
        for at in stale {
            self.counts.idle.bump();
            self.conns.remove(at);
            self.actions.push_back(Action::Abort(Chan(at)));
        }
        self.check = self.conns.iter().map(|(_, conn)| conn.since.after(idle)).min();
    }
}
