//! Small TCP services: echo (RFC 862), discard (RFC 863), chargen (RFC 864), and sink.
//!
//! `sink` is discard with a receipt: when the sender shuts down its side, `sink` answers with one
//! line, `N bytes`, which confirms that all data arrived. Echo buffers at most [`ECHO_MAX`] bytes
//! for a peer that does not read; then it stops reading from that peer.

use crate::app::{Accept, Action, App, Chan, Event};
use crate::slots::{Connection, Room, Slots, room};
use crate::streams::Ends;
use linerate::stack::Instant;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

/// Maximum number of bytes that echo buffers per peer.
pub const ECHO_MAX: usize = 64 * 1024;
/// Length of a chargen line in bytes: 72 characters and CR LF.
const LINE: usize = 74;
/// Number of printable ASCII characters, which chargen sends in rotation.
const PRINTING: usize = 95;
/// Number of bytes read at a time by the services that discard data.
const GULP: usize = 128 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Sends received data back.
    Echo,
    Discard,
    /// Sends an endless sequence of characters; discards received data.
    Chargen,
    /// Discards received data and reports its length when the peer shuts down its side.
    Sink,
}

/// Configuration of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    pub kind: Kind,
    /// Maximum number of connections.
    pub conns_max: usize,
    /// Maximum number of connections from one IP address.
    pub conns_per_peer: usize,
    /// Time without activity after which a connection is closed.
    pub idle: Duration,
}

impl Config {
    /// Returns the default limits.
    pub fn new(kind: Kind) -> Config {
        Config { kind, conns_max: 1024, conns_per_peer: 512, idle: Duration::from_secs(300) }
    }
}

stats::counters! {
    /// Counters of a service: echo, discard, chargen or sink.
    pub struct SmallCounts at "apps.small" {
        /// Connections accepted.
        accepted,
        /// Connections refused because no slot was free, or because the client's address had too
        /// many.
        refused,
        /// Connections reset to free a slot for a new one, because they had been idle for longest.
        evicted,
        /// Connections closed because they were idle for too long.
        idle,
        /// Bytes received.
        received,
        /// Bytes sent.
        sent,
    }
}

#[derive(Debug)]
struct Conn {
    peer: IpAddr,
    held: Vec<u8>,
    at: usize,
    received: u64,
    at_eof: bool,
    moved: Instant,
}

impl Conn {
    fn new(peer: IpAddr, now: Instant) -> Conn {
        Conn { peer, held: Vec::new(), at: 0, received: 0, at_eof: false, moved: now }
    }
}

impl Connection for Conn {
    fn peer(&self) -> IpAddr {
        self.peer
    }

    fn moved(&self) -> Instant {
        self.moved
    }
}

/// The service echo, discard, chargen or sink, as selected by [`Kind`].
#[derive(Debug)]
pub struct Small {
    config: Config,
    pub counts: SmallCounts,
    conns: Slots<Conn>,
    actions: VecDeque<Action>,
    pattern: Vec<u8>,
    check: Option<Instant>,
}

impl Small {
    pub fn new(config: Config) -> Small {
        let pattern = if config.kind == Kind::Chargen { pattern() } else { Vec::new() };
        let conns = Slots::new(config.conns_max);
        Small { config, counts: SmallCounts::default(), conns, actions: VecDeque::new(), pattern, check: None }
    }

    fn end(&mut self, chan: Chan, action: Action) {
        if self.conns.remove(chan.0).is_some() {
            self.actions.push_back(action);
        }
    }

    fn on_bytes(&mut self, chan: Chan, bytes: &[u8], now: Instant) {
        let Some(conn) = self.conns.get_mut(chan.0) else { return };
        conn.moved = now;
        conn.received = conn.received.saturating_add(bytes.len() as u64);
        self.counts.received.add(bytes.len() as u64);
        if self.config.kind == Kind::Echo {
            conn.held.extend_from_slice(bytes);
        }
    }

    fn on_eof(&mut self, chan: Chan) {
        let Some(conn) = self.conns.get_mut(chan.0) else { return };
        conn.at_eof = true;
        match self.config.kind {
            Kind::Sink => conn.held = format!("{} bytes\n", conn.received).into_bytes(),
            Kind::Echo if conn.at < conn.held.len() => {}
            _ => self.end(chan, Action::Close(chan)),
        }
    }
}

/// Returns the lines of chargen: all rotations of the 95 printable characters, each truncated to 72
/// characters. The sequence is repeated several times, so that there is always enough data to send.
fn pattern() -> Vec<u8> {
    let line = |first: usize| {
        let characters = (0..LINE - 2).map(move |at| b' ' + ((first + at) % PRINTING) as u8);
        characters.chain(*b"\r\n")
    };
    (0..PRINTING * 16).flat_map(|n| line(n % PRINTING)).collect()
}

impl App for Small {
    fn accept(&mut self, _on: Option<Chan>, ends: Ends, now: Instant) -> Accept {
        let peer = ends.peer.ip();
        let room = room(self.conns.iter(), (self.conns.most(), self.config.conns_per_peer), peer, now);
        if let Room::Of(old) = room {
            self.counts.evicted.bump();
            self.conns.remove(old);
        }
        let place = if room == Room::None { None } else { self.conns.insert(Conn::new(peer, now)).ok() };
        let Some(at) = place else {
            self.counts.refused.bump();
            return Accept::Refuse(b"");
        };
        self.counts.accepted.bump();
        self.check.get_or_insert(now.after(self.config.idle));
        if let Room::Of(old) = room { Accept::Replace(Chan(old), Chan(at)) } else { Accept::Take(Chan(at)) }
    }

    fn on_event(&mut self, chan: Chan, event: Event<'_>, now: Instant) {
        match event {
            Event::Bytes(bytes) => self.on_bytes(chan, bytes, now),
            Event::Eof => self.on_eof(chan),
            Event::Gone(_) => drop(self.conns.remove(chan.0)),
            Event::Connected(_) | Event::Listening(_) | Event::Bound(_) | Event::Datagram(..) | Event::Info(_) => {}
        }
    }

    fn room(&self, chan: Chan) -> usize {
        match (self.config.kind, self.conns.get(chan.0)) {
            (Kind::Echo, Some(conn)) => ECHO_MAX.saturating_sub(conn.held.len()),
            (_, Some(_)) => GULP,
            (_, None) => 0,
        }
    }

    fn output(&mut self, chan: Chan, _now: Instant) -> &[u8] {
        let Some(conn) = self.conns.get(chan.0) else { return &[] };
        let from = if self.config.kind == Kind::Chargen { &self.pattern } else { &conn.held };
        from.get(conn.at..).unwrap_or_default()
    }

    fn sent(&mut self, chan: Chan, n: usize, now: Instant) {
        self.counts.sent.add(n as u64);
        let Some(conn) = self.conns.get_mut(chan.0) else { return };
        conn.moved = now;
        conn.at += n;
        if self.config.kind == Kind::Chargen {
            // The pattern repeats after 95 lines. The position is moved back by whole repetitions,
            // so that at least half of the buffer is always left to send.
            if conn.at >= self.pattern.len() / 2 {
                conn.at %= PRINTING * LINE;
            }
        } else if conn.at >= conn.held.len() {
            conn.held.clear();
            conn.at = 0;
            if conn.at_eof {
                self.end(chan, Action::Close(chan));
            }
        } else if conn.at > ECHO_MAX / 2 {
            conn.held.drain(..conn.at);
            conn.at = 0;
        }
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
            self.conns.iter().filter(|(_, conn)| conn.moved.after(idle) <= now).map(|(at, _)| at).collect();
        for at in stale {
            self.counts.idle.bump();
            self.end(Chan(at), Action::Abort(Chan(at)));
        }
        self.check = self.conns.iter().map(|(_, conn)| conn.moved.after(idle)).min();
    }
}

#[cfg(test)]
mod tests;
