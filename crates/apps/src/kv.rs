//! A small in-memory key-value server for Redis clients, with limits on all memory.
//!
//! ```text
//!  bytes -> resp::Requests    pipelined requests, one at a time
//!        -> command::answer   command, arity and memory checks; runs the command at once or, after
//!                             MULTI, in a transaction: strings | lists | members | keys | scan |
//!                             server | connection | transaction
//!        -> store::Store      keys under a keyed hash, values with their costs, sorted deadlines
//!  resp::Replies -> bytes     requests of a client that does not read stay in its buffer, then in
//!                             its socket
//! ```
//!
//! Limits exist for clients, clients per address, keys, bytes of keys and values (`-OOM`), bytes
//! per request, and bytes buffered for all clients together. If the buffers exceed their limit, the
//! client that uses the most buffer space is disconnected, provided that it uses more than an equal
//! share of the limit. There is only one database, without persistence or replication.

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
use conn::{Conn, Status};
use linerate::stack::Instant;
use linerate::wire::hash::Key;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

pub use server::Facts;
pub use store::Bounds;

/// Default L4 port of Redis.
pub const PORT: u16 = 6379;
/// Maximum number of expired keys that are removed in one sweep.
const SWEEP: usize = 1000;

/// Limits of the server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Limits on the number of keys, and on the bytes of keys and values.
    pub bounds: Bounds,
    /// Limits on a request.
    pub limits: Limits,
    /// Maximum number of clients.
    pub clients_max: usize,
    /// Maximum number of clients from one IP address.
    pub clients_per_peer: usize,
    /// Maximum number of bytes of requests and replies buffered for all clients together.
    pub buffers_max: usize,
    /// Maximum number of bytes of replies buffered per client.
    pub replies_max: usize,
    /// Time without activity after which a client is disconnected.
    pub idle: Duration,
    /// Secret key for the hash tables, so that clients cannot choose colliding keys.
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
    /// Counters of the key-value server.
    pub struct KvCounts at "apps.kv" {
        /// Clients accepted.
        accepted,
        /// Clients refused because no slot was free, or because their address had too many
        /// connections.
        refused,
        /// Clients reset to free a slot for a new client, because they had been idle for longest.
        evicted,
        /// Requests processed.
        requests,
        /// Requests refused because of an unknown command, invalid arguments or the wrong type of
        /// value.
        unserved,
        /// Requests refused because the limit on keys or bytes was reached.
        full,
        /// Clients disconnected because they sent malformed RESP.
        malformed,
        /// Clients disconnected because they were idle for too long.
        idle,
        /// Clients reset because their requests and replies used too much buffer space.
        greedy,
    }
}

/// Reason for refusing a request. The texts are the same as in the redis.io command reference,
/// since clients compare them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Unknown command: its name and first arguments.
    Unknown(String, String),
    /// Unknown subcommand of this command.
    Subcommand(&'static str, String),
    /// Wrong number of arguments.
    Arity(&'static str),
    /// The value of the key has a type on which the command cannot operate.
    WrongType,
    /// Invalid combination of options or arguments.
    Syntax,
    /// The argument is not a 64-bit integer.
    NotInteger,
    /// A count that is negative or not a number.
    NotPositive,
    /// The argument is not a floating-point number.
    NotFloat,
    /// The sum of a score and its increment is not a number (infinity minus infinity).
    NotScore,
    /// A limit of a score range is not a number.
    NotRange,
    /// Option LIMIT without option BYSCORE.
    Limit,
    /// The result of an increment or decrement exceeds 64 bits.
    Overflow,
    /// Invalid expiry time in this command.
    Expire(&'static str),
    /// The string would exceed its maximum length.
    TooLong,
    /// `SELECT` of a database other than 0, the only one.
    Database,
    /// The limit on the number or the bytes of keys and values is reached.
    Full,
    /// MULTI inside a transaction.
    Nested,
    /// EXEC or DISCARD without MULTI.
    NoTransaction(&'static str),
    /// WATCH inside a transaction.
    WatchInside,
    /// HELLO, which may change the protocol version, inside a transaction.
    NotInside,
    /// EXEC of a transaction in which a request was refused.
    Aborted,
    /// The transaction has too many requests or bytes.
    Transaction,
    /// The client watches too many keys.
    Watches,
    /// Protocol version that is not a number.
    ProtocolNumber,
    /// Protocol version other than 2 and 3.
    Protocol,
    /// Invalid HELLO option.
    HelloOption(String),
    /// AUTH with a user other than the default user.
    Password,
    /// AUTH with only a password, although no password is configured.
    NoPassword,
    /// Client or library name that contains invalid bytes or is too long.
    Name(&'static str),
    /// Unknown attribute of CLIENT SETINFO.
    Attribute(String),
    /// Invalid cursor.
    Cursor,
    /// Matching the pattern takes too long.
    Pattern,
}

impl Refusal {
    /// Returns the refusal of an unknown command; quotes its name and first arguments, up to 128
    /// bytes each.
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

/// A key-value server with its store and its client connections.
#[derive(Debug)]
pub struct Kv {
    config: Config,
    pub counts: KvCounts,
    store: store::Store,
    conns: Slots<Conn>,
    roster: roster::Roster,
    /// Number of bytes buffered for all clients together.
    buffers: usize,
    actions: VecDeque<Action>,
    check: Option<Instant>,
    since: Option<Instant>,
}

impl Kv {
    /// Creates an empty server.
    pub fn new(config: Config) -> Kv {
        let (store, conns) = (store::Store::new(config.bounds, config.key), Slots::new(config.clients_max));
        let counts = KvCounts::default();
        let roster = roster::Roster::default();
        Kv { config, counts, store, conns, roster, buffers: 0, actions: VecDeque::new(), check: None, since: None }
    }

    /// Returns the number of connected clients.
    pub fn clients(&self) -> usize {
        self.conns.len()
    }

    /// Returns the number of keys.
    pub fn keys(&self) -> usize {
        self.store.len()
    }

    /// Returns the number of bytes charged for keys and values.
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

    /// Applies `change` to the connection of a channel, processes its pending requests, and closes
    /// the connection if required.
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

    /// Disconnects the client that uses the most buffer space, even if another client caused the
    /// excess. Otherwise idle clients with full buffers would block the others.
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
        // Each reply is written in one piece, so Nagle's algorithm would only delay its last
        // segment.
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
