//! A small static HTTP/1.1 server (RFC 9110, RFC 9112): GET and HEAD of the files of a [`Root`].
//!
//! ```text
//!  bytes -> conn: one request at a time; pipelined requests wait in the socket
//!        -> request::Request::parse   strict: ambiguous requests are refused, the connection ends
//!        -> answer::answer            evaluates conditions and ranges, opens the file
//!        -> head, then the body, sent from where it is stored
//! ```
//!
//! Strict parsing means: no bare CR or LF, no folded header fields, no blank before the colon of a
//! field, exactly one Host field, at most one Content-Length field, and no Transfer-Encoding except
//! `chunked`. A request with a chunked body is answered with status 411. For benchmarks, a `Root`
//! with `/dev/zero` serves endless zeros, or N zeros as `/dev/zero?bytes=N`.
//!
//! Limits exist for the number of connections in total and per address, the size of a request head,
//! and the number of requests per connection. Time limits exist for completing a head, for sending
//! the next request, and for reading the answer.

mod answer;
mod conn;
mod mime;
mod range;
mod request;

use crate::app::{Accept, Action, App, Chan, Event};
use crate::date::Wall;
use crate::files::Root;
use crate::slots::{Connection, Room, Slots, room};
use crate::streams::{Ends, StreamOption};
use conn::{Conn, Status};
use linerate::stack::Instant;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

pub use request::{Bad, Method, Request};

/// Maximum length of a request head (request line and header fields) in bytes.
pub const HEAD_MAX: usize = 16 * 1024;
/// Maximum number of header fields of a request.
pub const FIELDS_MAX: usize = 100;
/// Maximum length of a request body in bytes. A body is read and discarded, so that the connection
/// can be kept open.
pub const BODY_MAX: u64 = 64 * 1024;

/// Configuration of the server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Files that the server offers.
    pub root: Root,
    /// Wall-clock time that corresponds to time 0 of the host's clock, for the Date field; `None`
    /// omits the field, as RFC 9110 6.6.1 permits for a server without a clock.
    pub wall: Option<Wall>,
    /// Maximum number of connections.
    pub conns_max: usize,
    /// Maximum number of connections per address.
    pub conns_per_peer: usize,
    /// Maximum number of requests per connection.
    pub requests_max: u32,
    /// Time limit from the first to the last byte of a request head, and from the end of an answer
    /// to the next request.
    pub head_time: Duration,
    /// Time limit for a client that does not read any of its answer.
    pub send_time: Duration,
}

impl Config {
    /// Returns the default limits.
    pub fn new(root: Root) -> Config {
        Config {
            root,
            wall: None,
            conns_max: 1024,
            conns_per_peer: 512,
            requests_max: 100_000,
            head_time: Duration::from_secs(15),
            send_time: Duration::from_secs(30),
        }
    }
}

stats::counters! {
    /// Counters of the HTTP server.
    pub struct HttpCounts at "apps.http" {
        /// Connections accepted.
        accepted,
        /// Connections refused because no slot was free, or because the client's address had too
        /// many.
        refused,
        /// Connections reset to free a slot for a new one, because they had been idle for longest.
        evicted,
        /// Requests answered with the file, with 304 (not modified), or with a redirection.
        answered,
        /// Requests answered with an error status; the connection stays open.
        unserved,
        /// Malformed requests, answered with a 4xx or 5xx status; the connection is closed.
        malformed,
        /// Connections closed because the request head was not complete within the time limit.
        head_late,
        /// Connections closed because no further request began within the time limit.
        idle,
        /// Connections closed because the client did not read its answer within the time limit.
        stalled,
        /// Connections reset because the requested file was truncated while it was being sent.
        cut_short,
    }
}

/// An HTTP server with its connections.
#[derive(Debug)]
pub struct Http {
    config: Config,
    pub counts: HttpCounts,
    conns: Slots<PeerSlot>,
    actions: VecDeque<Action>,
    check: Option<Instant>,
}

/// A connection and its peer.
#[derive(Debug)]
struct PeerSlot(IpAddr, Conn);

impl Connection for PeerSlot {
    fn peer(&self) -> IpAddr {
        self.0
    }

    fn moved(&self) -> Instant {
        self.1.since()
    }
}

impl Http {
    pub fn new(config: Config) -> Http {
        let conns = Slots::new(config.conns_max);
        Http { config, counts: HttpCounts::default(), conns, actions: VecDeque::new(), check: None }
    }

    /// Returns the number of open connections.
    pub fn conns(&self) -> usize {
        self.conns.len()
    }

    /// Updates the timer of a connection, and closes or resets the connection if its state requires
    /// it.
    fn update(&mut self, chan: Chan) {
        let Some(PeerSlot(_, conn)) = self.conns.get(chan.0) else { return };
        let due = conn.deadline(&self.config);
        self.check = Some(self.check.map_or(due, |at| at.min(due)));
        let end = match conn.status() {
            Status::Open => return,
            Status::Done => Action::Close(chan),
            Status::Broken => {
                self.counts.cut_short.bump();
                Action::Abort(chan)
            }
        };
        self.conns.remove(chan.0);
        self.actions.push_back(end);
    }
}

impl App for Http {
    fn accept(&mut self, _on: Option<Chan>, ends: Ends, now: Instant) -> Accept {
        let peer = ends.peer.ip();
        let room = room(self.conns.iter(), (self.conns.most(), self.config.conns_per_peer), peer, now);
        if let Room::Of(at) = room {
            self.counts.evicted.bump();
            self.conns.remove(at);
        }
        let place = if room == Room::None { None } else { self.conns.insert(PeerSlot(peer, Conn::new(now))).ok() };
        let Some(at) = place else {
            self.counts.refused.bump();
            return Accept::Refuse(
                b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n",
            );
        };
        self.counts.accepted.bump();
        // Each answer is written in one piece, so Nagle's algorithm would only delay its last
        // segment.
        self.actions.push_back(Action::Set(Chan(at), StreamOption::NoDelay(true)));
        self.update(Chan(at));
        if let Room::Of(old) = room { Accept::Replace(Chan(old), Chan(at)) } else { Accept::Take(Chan(at)) }
    }

    fn on_event(&mut self, chan: Chan, event: Event<'_>, now: Instant) {
        let Some(PeerSlot(_, conn)) = self.conns.get_mut(chan.0) else { return };
        match event {
            Event::Bytes(bytes) => conn.on_bytes(bytes, &self.config, &self.counts, now),
            Event::Eof => conn.on_eof(),
            Event::Gone(_) => drop(self.conns.remove(chan.0)),
            Event::Connected(_) | Event::Listening(_) | Event::Bound(_) | Event::Datagram(..) | Event::Info(_) => {}
        }
        self.update(chan);
    }

    fn room(&self, chan: Chan) -> usize {
        self.conns.get(chan.0).map_or(0, |PeerSlot(_, conn)| conn.room())
    }

    fn output(&mut self, chan: Chan, now: Instant) -> &[u8] {
        let is_broken = self.conns.get_mut(chan.0).is_some_and(|PeerSlot(_, conn)| conn.output(now).is_err());
        if is_broken {
            self.update(chan);
        }
        self.conns.get_mut(chan.0).and_then(|PeerSlot(_, conn)| conn.output(now).ok()).unwrap_or_default()
    }

    fn sent(&mut self, chan: Chan, n: usize, now: Instant) {
        if let Some(PeerSlot(_, conn)) = self.conns.get_mut(chan.0) {
            conn.sent(n, &self.config, &self.counts, now);
        }
        self.update(chan);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_timer(&self) -> Option<Instant> {
        self.check
    }

    fn on_timer(&mut self, now: Instant) {
        let config = &self.config;
        let late: Vec<u32> =
            self.conns.iter().filter(|(_, PeerSlot(_, conn))| conn.deadline(config) <= now).map(|(at, _)| at).collect();
        for at in late {
            if let Some(PeerSlot(_, conn)) = self.conns.get_mut(at) {
                conn.on_timeout(&self.config, &self.counts, now);
                self.actions.push_back(if conn.is_stuck() { Action::Abort(Chan(at)) } else { Action::Wake(Chan(at)) });
                if conn.is_stuck() {
                    self.conns.remove(at);
                }
            }
            self.update(Chan(at));
        }
        self.check = self.conns.iter().map(|(_, PeerSlot(_, conn))| conn.deadline(&self.config)).min();
    }
}

#[cfg(test)]
mod tests;
