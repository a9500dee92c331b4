//! A small key-value server: what Redis clients ask, answered from memory, within bounds.
//!
//! ```text
//!  bytes -> resp::Requests    pipelined requests, one after the other
//!        -> command::answer   name, number of arguments, is there room; then at once or, after
//!                             MULTI, together: strings | lists | members | keys | scan | server |
//!                             connection | transaction
//!        -> store::Store      keys under a keyed hash, each value with what it costs, deadlines in order
//!  resp::Replies -> bytes     while a client does not read, its requests wait: in its buffer, then in its socket
//! ```
//! Bounded: clients, clients of one address, keys, bytes of keys and values (`-OOM`), bytes of a request, bytes that wait for all
//! clients together; who makes the server hold more than its share of those is cut off. No disk, no replicas, one database.

mod command;
mod conn;
mod connection;
mod keys;
mod lists;
mod members;
mod roster;
mod scan;
mod server;
mod store;
mod strings;
#[cfg(test)]
mod tests;
mod transaction;
mod value;

use crate::app::{Accept, Action, App, Chan, Event};
use crate::resp::{Args, Limits};
use crate::slots::{Room, Slots, room};
use crate::streams::{Ends, StreamOption};
use clock::Instant;
use conn::{Conn, Status};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;
use wire::hash::Key;

pub use server::Facts;
pub use store::Bounds;

/// Where Redis listens.
pub const PORT: u16 = 6379;
/// Keys whose time has come that go at a time, before others have their turn.
const SWEEP: usize = 1000;

/// The limits.
#[derive(Clone, Debug)]
pub struct Config {
    /// Keys, and bytes of keys and values.
    pub bounds: Bounds,
    /// Of a request.
    pub limits: Limits,
    /// Clients at a time.
    pub clients_max: usize,
    /// Clients of one address at a time.
    pub clients_per_peer: usize,
    /// Bytes of requests and replies that wait, of all clients together.
    pub buffers_max: usize,
    /// Bytes of replies that wait for one client.
    pub replies_max: usize,
    /// A client that says nothing for so long is let go.
    pub idle: Duration,
    /// The tables' key.
    pub key: Key,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            bounds: Bounds { keys: 1 << 20, bytes: 256 << 20 },
            limits: Limits::default(),
            clients_max: 1024,
            clients_per_peer: 512,
            buffers_max: 64 << 20,
            replies_max: 32 << 20,
            idle: Duration::from_secs(300),
            key: Key::random(),
        }
    }
}

stats::counters! {
    /// The key-value server.
    pub struct KvCounts at "apps.kv" {
        /// Clients taken.
        accepted,
        /// Clients turned away: too many.
        refused,
        /// Clients reset to make room for another: they were idle for longest.
        evicted,
        /// Requests carried out.
        requests,
        /// Requests refused: an unknown command, wrong arguments, a value of another type.
        unserved,
        /// Requests refused: no room for more keys or bytes.
        full,
        /// Clients ended: what they sent is no RESP.
        malformed,
        /// Clients ended: they said nothing for long.
        idle,
        /// Clients reset: too much waited for them.
        greedy,
    }
}

/// Why a request is not carried out. The words are those that clients compare (redis.io, command reference).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No command of that name; its first arguments.
    Unknown(String, String),
    /// No subcommand of this command's of that name.
    Subcommand(&'static str, String),
    /// Too few or too many arguments.
    Arity(&'static str),
    /// The key holds something else.
    WrongType,
    /// Arguments that make no sense together.
    Syntax,
    /// Not an integer of 64 bits.
    NotInteger,
    /// A count below zero, or no number.
    NotPositive,
    /// Not a number.
    NotFloat,
    /// A sum of scores that is no number.
    NotScore,
    /// An end of a range that is no number.
    NotRange,
    /// LIMIT without a range of scores.
    Limit,
    /// A sum beyond 64 bits.
    Overflow,
    /// A time that is none.
    Expire(&'static str),
    /// A text longer than permitted.
    TooLong,
    /// Another database than 0.
    Database,
    /// No room for more.
    Full,
    /// MULTI within a transaction.
    Nested,
    /// EXEC or DISCARD without MULTI.
    NoTransaction(&'static str),
    /// WATCH within a transaction.
    WatchInside,
    /// A command that changes the protocol, within a transaction.
    NotInside,
    /// EXEC of a transaction of which a request was refused.
    Aborted,
    /// A transaction longer than permitted.
    Transaction,
    /// More watched keys than permitted.
    Watches,
    /// A protocol version that is no number.
    ProtocolNumber,
    /// Another protocol version than 2 and 3.
    Protocol,
    /// A word that HELLO does not take, or not so.
    HelloOption(String),
    /// Another user than the default one.
    Password,
    /// A password, and none is needed.
    NoPassword,
    /// A name with bytes that may not stand in it, or too long.
    Name(&'static str),
    /// An attribute that CLIENT SETINFO does not take.
    Attribute(String),
    /// Not a cursor.
    Cursor,
    /// A pattern that takes too long to match.
    Pattern,
}

impl Refusal {
    /// The name and the beginning of the arguments, 128 bytes of each.
    fn unknown(args: &Args<'_>) -> Refusal {
        let text = |bytes: &[u8], most: usize| bytes.get(..most).unwrap_or(bytes).escape_ascii().to_string();
        let mut first = String::new();
        for arg in args.from(1).iter() {
            if first.len() >= 128 {
                break;
            }
            first += &format!("'{}' ", text(arg, 128 - first.len()));
        }
        Refusal::Unknown(text(args.get(0), 128), first)
    }

    fn subcommand(of: &'static str, name: &[u8]) -> Refusal {
        Refusal::Subcommand(of, name.get(..128).unwrap_or(name).escape_ascii().to_string())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unknown(name, args) => {
                write!(f, "ERR unknown command '{name}', with args beginning with: {args}")
            }
            Refusal::Subcommand(of, name) => write!(f, "ERR unknown subcommand '{name}'. Try {of} HELP."),
            Refusal::Arity(name) => {
                write!(f, "ERR wrong number of arguments for '{}' command", name.to_ascii_lowercase())
            }
            Refusal::WrongType => f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value"),
            Refusal::Syntax => f.write_str("ERR syntax error"),
            Refusal::NotInteger => f.write_str("ERR value is not an integer or out of range"),
            Refusal::NotPositive => f.write_str("ERR value is out of range, must be positive"),
            Refusal::NotFloat => f.write_str("ERR value is not a valid float"),
            Refusal::NotScore => f.write_str("ERR resulting score is not a number (NaN)"),
            Refusal::NotRange => f.write_str("ERR min or max is not a float"),
            Refusal::Limit => {
                f.write_str("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
            }
            Refusal::Overflow => f.write_str("ERR increment or decrement would overflow"),
            Refusal::Expire(name) => write!(f, "ERR invalid expire time in '{name}' command"),
            Refusal::TooLong => f.write_str("ERR string exceeds maximum allowed size"),
            Refusal::Database => f.write_str("ERR DB index is out of range"),
            Refusal::Full => f.write_str("OOM command not allowed when used memory > 'maxmemory'."),
            Refusal::Nested => f.write_str("ERR MULTI calls can not be nested"),
            Refusal::NoTransaction(name) => write!(f, "ERR {name} without MULTI"),
            Refusal::WatchInside => f.write_str("ERR WATCH inside MULTI is not allowed"),
            Refusal::NotInside => f.write_str("ERR Command not allowed inside a transaction"),
            Refusal::Aborted => f.write_str("EXECABORT Transaction discarded because of previous errors."),
            Refusal::Transaction => f.write_str("ERR transaction is longer than 65536 requests or 8 MiB"),
            Refusal::Watches => f.write_str("ERR more than 4096 keys or 1 MiB of names are watched"),
            Refusal::ProtocolNumber => f.write_str("ERR Protocol version is not an integer or out of range"),
            Refusal::Protocol => f.write_str("NOPROTO unsupported protocol version"),
            Refusal::HelloOption(word) => write!(f, "ERR Syntax error in HELLO option '{word}'"),
            Refusal::Password => f.write_str("WRONGPASS invalid username-password pair or user is disabled."),
            Refusal::NoPassword => f.write_str(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ),
            Refusal::Name(what) => write!(f, "ERR {what} cannot contain spaces, newlines or special characters."),
            Refusal::Attribute(word) => write!(f, "ERR Unrecognized option '{word}'"),
            Refusal::Cursor => f.write_str("ERR invalid cursor"),
            Refusal::Pattern => f.write_str("ERR the pattern takes too long to match; use SCAN or a shorter one"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The server: see the module.
#[derive(Debug)]
pub struct Kv {
    config: Config,
    /// What happened.
    pub counts: KvCounts,
    store: store::Store,
    conns: Slots<Conn>,
    roster: roster::Roster,
    /// Bytes that wait, of all clients.
    buffers: usize,
    actions: VecDeque<Action>,
    check: Option<Instant>,
    since: Option<Instant>,
}

impl Kv {
    /// A server without keys.
    pub fn new(config: Config) -> Kv {
        let (store, conns) = (store::Store::new(config.bounds, config.key), Slots::new(config.clients_max));
        let counts = KvCounts::default();
        let roster = roster::Roster::default();
        Kv { config, counts, store, conns, roster, buffers: 0, actions: VecDeque::new(), check: None, since: None }
    }

    /// Clients connected now.
    pub fn clients(&self) -> usize {
        self.conns.len()
    }

    /// Keys there are.
    pub fn keys(&self) -> usize {
        self.store.len()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.store.bytes()
    }

    fn facts(&self) -> Facts {
        Facts {
            clients: self.conns.len(),
            clients_max: self.config.clients_max,
            bytes_max: self.config.bounds.bytes,
            since: self.since.unwrap_or_default(),
            requests: self.counts.requests.get(),
            refused: self.counts.refused.get(),
        }
    }

    /// Changes a connection, has it answer what it can, and does what follows.
    fn with(&mut self, chan: Chan, now: Instant, change: impl FnOnce(&mut Conn)) {
        let facts = self.facts();
        let Some(conn) = self.conns.get_mut(chan.0) else { return };
        let before = conn.held();
        change(conn);
        conn.proceed((&mut self.store, &mut self.roster), &facts, &self.counts, now);
        if let Some(client) = self.roster.get_mut(chan.0) {
            client.moved = now;
        }
        conn.session.note(&mut self.roster);
        self.buffers = (self.buffers + conn.held()).saturating_sub(before);
        if conn.is_over() {
            self.cut(chan);
        } else if conn.status() == Status::Done {
            self.end(chan, Action::Close(chan));
        }
        if self.buffers > self.config.buffers_max {
            self.cut_the_largest();
        }
    }

    fn cut(&mut self, chan: Chan) {
        self.counts.greedy.bump();
        self.end(chan, Action::Abort(chan));
    }

    /// Whoever holds most makes room, whoever came last: else those who hold and say nothing would cost the others.
    #[cold]
    fn cut_the_largest(&mut self) {
        let share = self.config.buffers_max / self.config.clients_max.max(1);
        let held = self.conns.iter().map(|(at, conn)| (conn.held(), at)).max();
        if let Some((_, at)) = held.filter(|(held, _)| *held > share) {
            self.cut(Chan(at));
        }
    }

    fn end(&mut self, chan: Chan, action: Action) {
        if self.let_go(chan) {
            self.actions.push_back(action);
        }
    }

    fn let_go(&mut self, chan: Chan) -> bool {
        let Some(mut conn) = self.conns.remove(chan.0) else { return false };
        self.buffers = self.buffers.saturating_sub(conn.held());
        conn.session.unwatch(&mut self.store);
        self.roster.remove(chan.0);
        true
    }
}

impl App for Kv {
    fn accept(&mut self, _on: Option<Chan>, ends: Ends, now: Instant) -> Accept {
        let (config, peer) = (&self.config, ends.peer.ip());
        self.since.get_or_insert(now);
        let conn = Conn::new(peer, config.limits, config.replies_max, now);
        let room = room(self.conns.iter(), (self.conns.most(), config.clients_per_peer), peer, now);
        if let Room::Of(old) = room {
            self.counts.evicted.bump();
            self.let_go(Chan(old));
        }
        let held = conn.held();
        let place = if room == Room::None { None } else { self.conns.insert(conn).ok() };
        let Some(at) = place else {
            self.counts.refused.bump();
            return Accept::Refuse(b"-ERR max number of clients reached\r\n");
        };
        self.buffers += held;
        self.roster.add(at, ends, now);
        self.conns.get_mut(at).into_iter().for_each(|conn| conn.session.at = at);
        self.counts.accepted.bump();
        self.check.get_or_insert(now.after(self.config.idle));
        // Replies are written whole: waiting for more only delays them.
        self.actions.push_back(Action::Set(Chan(at), StreamOption::NoDelay(true)));
        if let Room::Of(old) = room { Accept::Replace(Chan(old), Chan(at)) } else { Accept::Take(Chan(at)) }
    }

    fn on_event(&mut self, chan: Chan, event: Event<'_>, now: Instant) {
        match event {
            Event::Bytes(bytes) => self.with(chan, now, |conn| conn.on_bytes(bytes, now)),
            Event::Eof => self.with(chan, now, Conn::on_eof),
            Event::Gone(_) => drop(self.let_go(chan)),
            Event::Connected(_) | Event::Listening(_) | Event::Bound(_) | Event::Datagram(..) | Event::Info(_) => {}
        }
    }

    fn room(&self, chan: Chan) -> usize {
        self.conns.get(chan.0).map_or(0, Conn::room)
    }

    fn output(&mut self, chan: Chan, _now: Instant) -> &[u8] {
        self.conns.get(chan.0).map_or(&[], Conn::output)
    }

    fn sent(&mut self, chan: Chan, n: usize, now: Instant) {
        self.with(chan, now, |conn| conn.sent(n, now));
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_timer(&self) -> Option<Instant> {
        self.check.into_iter().chain(self.store.next_deadline()).min()
    }

    fn on_timer(&mut self, now: Instant) {
        self.store.sweep(now, SWEEP);
        if self.check.is_none_or(|check| check > now) {
            return;
        }
        let idle = self.config.idle;
        let stale: Vec<u32> =
            self.conns.iter().filter(|(_, conn)| conn.since.after(idle) <= now).map(|(at, _)| at).collect();
        for at in stale {
            self.counts.idle.bump();
            self.end(Chan(at), Action::Abort(Chan(at)));
        }
        self.check = self.conns.iter().map(|(_, conn)| conn.since.after(idle)).min();
    }
}
