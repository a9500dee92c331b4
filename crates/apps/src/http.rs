//! A small static HTTP/1.1 server (RFC 9110, RFC 9112): GET and HEAD of the files of a [`Root`], nothing else.
//!
//! ```text
//!  bytes -> conn: one request at a time; what is pipelined behind it waits in the socket
//!        -> request::Request::parse   strict: what two parsers could read differently is refused, and the connection ends
//!        -> answer::answer            conditions, ranges, the file
//!        -> head, then the body from where it lies
//! ```
//! Strict means: no bare CR or LF, no folded field, no blank before a colon, one Host, one Content-Length, no
//! Transfer-Encoding but `chunked` and not even that with a body we would have to read (411). A `Root` with `/dev/zero`
//! serves zeros without end, or `?bytes=N` of them, for benchmarks.
//!
//! Limits: connections, connections of one address, head size, requests of one connection, and time: for a head to be
//! complete, for the next request, for the reader to take something.

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
use clock::Instant;
use conn::{Conn, Status};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

pub use request::{Bad, Method, Request};

/// Bytes of a request's head.
pub const HEAD_MAX: usize = 16 * 1024;
/// Fields of a request's head.
pub const FIELDS_MAX: usize = 100;
/// Bytes of a request's body that are read away so that the connection can go on.
pub const BODY_MAX: u64 = 64 * 1024;

/// What is served, and the limits.
#[derive(Clone, Debug)]
pub struct Config {
    /// The files.
    pub root: Root,
    /// What time it is, for the Date field; `None`: there is no such field (RFC 9110 6.6.1 permits that without a clock).
    pub wall: Option<Wall>,
    /// Connections at a time.
    pub conns_max: usize,
    /// Connections of one address at a time.
    pub conns_per_peer: usize,
    /// Requests on one connection.
    pub requests_max: u32,
    /// From the first byte of a head to its last; from the last byte of an answer to the next request.
    pub head_time: Duration,
    /// For a reader to take something.
    pub send_time: Duration,
}

impl Config {
    /// The usual limits.
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
    /// The HTTP server.
    pub struct HttpCounts at "apps.http" {
        /// Connections taken.
        accepted,
        /// Connections turned away: too many.
        refused,
        /// Connections reset to make room for another: they were idle for longest.
        evicted,
        /// Requests answered with the thing asked for, or with 304 or a redirection.
        answered,
        /// Requests answered with an error that the connection survives.
        unserved,
        /// Requests that are none: answered with 4xx or 5xx, and the connection ended.
        malformed,
        /// Connections ended: the head did not come in time.
        head_late,
        /// Connections ended: no request for long.
        idle,
        /// Connections ended: nothing of the answer was taken for long.
        stalled,
        /// Connections reset: a file became shorter while it was sent.
        cut_short,
    }
}

/// The server: see the module.
#[derive(Debug)]
pub struct Http {
    config: Config,
    /// What happened.
    pub counts: HttpCounts,
    conns: Slots<Seat>,
    actions: VecDeque<Action>,
    check: Option<Instant>,
}

/// A connection and its peer.
#[derive(Debug)]
struct Seat(IpAddr, Conn);

impl Connection for Seat {
    fn peer(&self) -> IpAddr {
        self.0
    }

    fn moved(&self) -> Instant {
        self.1.since()
    }
}

impl Http {
    /// A server.
    pub fn new(config: Config) -> Http {
        let conns = Slots::new(config.conns_max);
        Http { config, counts: HttpCounts::default(), conns, actions: VecDeque::new(), check: None }
    }

    /// Connections open now.
    pub fn conns(&self) -> usize {
        self.conns.len()
    }

    /// Does what follows from the connection's state after something happened to it.
    fn settle(&mut self, chan: Chan) {
        let Some(Seat(_, conn)) = self.conns.get(chan.0) else { return };
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
        let place = if room == Room::None { None } else { self.conns.insert(Seat(peer, Conn::new(now))).ok() };
        let Some(at) = place else {
            self.counts.refused.bump();
            return Accept::Refuse(
                b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n",
            );
        };
        self.counts.accepted.bump();
        // Answers are written whole: waiting for more to fill a segment only delays their ends.
        self.actions.push_back(Action::Set(Chan(at), StreamOption::NoDelay(true)));
        self.settle(Chan(at));
        if let Room::Of(old) = room { Accept::Replace(Chan(old), Chan(at)) } else { Accept::Take(Chan(at)) }
    }

    fn on_event(&mut self, chan: Chan, event: Event<'_>, now: Instant) {
        let Some(Seat(_, conn)) = self.conns.get_mut(chan.0) else { return };
        match event {
            Event::Bytes(bytes) => conn.on_bytes(bytes, &self.config, &self.counts, now),
            Event::Eof => conn.on_eof(),
            Event::Gone(_) => drop(self.conns.remove(chan.0)),
            Event::Connected(_) | Event::Listening(_) | Event::Bound(_) | Event::Datagram(..) | Event::Info(_) => {}
        }
        self.settle(chan);
    }

    fn room(&self, chan: Chan) -> usize {
        self.conns.get(chan.0).map_or(0, |Seat(_, conn)| conn.room())
    }

    fn output(&mut self, chan: Chan, now: Instant) -> &[u8] {
        let is_broken = self.conns.get_mut(chan.0).is_some_and(|Seat(_, conn)| conn.output(now).is_err());
        if is_broken {
            self.settle(chan);
        }
        self.conns.get_mut(chan.0).and_then(|Seat(_, conn)| conn.output(now).ok()).unwrap_or_default()
    }

    fn sent(&mut self, chan: Chan, n: usize, now: Instant) {
        if let Some(Seat(_, conn)) = self.conns.get_mut(chan.0) {
            conn.sent(n, &self.config, &self.counts, now);
        }
        self.settle(chan);
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
            self.conns.iter().filter(|(_, Seat(_, conn))| conn.deadline(config) <= now).map(|(at, _)| at).collect();
        for at in late {
            if let Some(Seat(_, conn)) = self.conns.get_mut(at) {
                conn.on_late(&self.config, &self.counts, now);
                self.actions.push_back(if conn.is_stuck() { Action::Abort(Chan(at)) } else { Action::Wake(Chan(at)) });
                if conn.is_stuck() {
                    self.conns.remove(at);
                }
            }
            self.settle(Chan(at));
        }
        self.check = self.conns.iter().map(|(_, Seat(_, conn))| conn.deadline(&self.config)).min();
    }
}

#[cfg(test)]
mod tests;
