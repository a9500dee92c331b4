//! Session table of a NAT44 translator. Sessions are looked up by their inside or outside 5-tuple,
//! and expire in the order of their last use.
//!
//! The sessions of a class share one timeout, so a list in order of last use is also in order of
//! expiry. One map contains both 5-tuples of each session, which differ in their local addresses.
//! It uses the standard library's keyed hash. When the table is full, the session that has been
//! idle longest in the class with the lowest priority is ended. A flood of half-open connections
//! therefore ends half-open connections first.

use super::config::{Config, Timeouts};
use clock::{Duration, Instant};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use wire::edit::{Side, Upper};
use wire::tcp::Flags;

/// 5-tuple of a session on one side of the translator. It consists of the local end, which is the
/// inside host or the outside address, and the remote end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tuple {
    pub proto: Upper,
    pub addr: Ipv4Addr,
    pub port: u16,
    pub remote: Ipv4Addr,
    pub remote_port: u16,
}

/// Class of sessions with the same timeout. The classes are listed in the order in which their
/// sessions are evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    /// TCP connections that are not open yet or are closed.
    Transitory,
    Echo,
    Udp,
    /// TCP connections that both sides have opened and that are not closed.
    Established,
}

const CLASSES: [Class; 4] = [Class::Transitory, Class::Echo, Class::Udp, Class::Established];

impl Class {
    fn timeout(self, timeouts: &Timeouts) -> Duration {
        match self {
            Class::Transitory => timeouts.transitory,
            Class::Echo => timeouts.icmp,
            Class::Udp => timeouts.udp,
            Class::Established => timeouts.tcp,
        }
    }
}

/// Kinds of segments that one side of a TCP connection has sent.
#[derive(Clone, Copy, Debug, Default)]
struct Activity {
    any: bool,
    fin: bool,
}

/// Index in the linked lists that means "no session".
const NIL: u32 = u32::MAX;

#[derive(Debug)]
struct Session {
    inside: Tuple,
    outside: Tuple,
    class: Class,
    last: Instant,
    from_inside: Activity,
    from_outside: Activity,
    reset: bool,
    before: u32,
    behind: u32,
}

/// Ends of the linked list of a class, which contains its sessions in order of last use.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

#[derive(Debug)]
pub struct Table {
    sessions: Vec<Session>,
    free: Vec<u32>,
    /// Index of each session in `sessions`, by its inside tuple and by its outside tuple.
    at: HashMap<Tuple, u32>,
    lists: [List; CLASSES.len()],
    /// Secret that determines where the search for a free port starts, so that an attacker outside
    /// cannot predict the port.
    secret: RandomState,
    limit: usize,
    ports: RangeInclusive<u16>,
    timeouts: Timeouts,
    outside: Ipv4Addr,
}

/// Maximum number of ports tried for a new session, which bounds the cost of a packet when most
/// ports are in use.
const TRIES: u32 = 256;

impl Table {
    pub fn new(config: &Config) -> Table {
        Table {
            sessions: Vec::new(),
            free: Vec::new(),
            at: HashMap::new(),
            lists: [List { first: NIL, last: NIL }; CLASSES.len()],
            secret: RandomState::new(),
            limit: config.limit.clamp(1, NIL as usize - 1),
            ports: config.ports.clone(),
            timeouts: config.timeouts,
            outside: config.between.outside,
        }
    }

    pub fn len(&self) -> usize {
        self.sessions.len() - self.free.len()
    }

    /// Looks up a session by its inside or outside tuple. Returns the session's index and its other
    /// tuple.
    pub fn find(&self, tuple: &Tuple) -> Option<(u32, Tuple)> {
        let at = *self.at.get(tuple)?;
        let session = self.sessions.get(at as usize)?;
        Some((at, if session.inside == *tuple { session.outside } else { session.inside }))
    }

    /// Creates a session for the tuple `inside`. Returns its outside port, and whether another
    /// session was evicted for it; `None` if no port is free.
    pub fn insert(&mut self, inside: Tuple, flags: Flags, now: Instant) -> Option<(u16, bool)> {
        let port = self.free_port(&inside)?;
        let evicted = self.len() >= self.limit && self.evict();
        let outside = Tuple { addr: self.outside, port, ..inside };
        let class = match inside.proto {
            Upper::Tcp => Class::Transitory,
            Upper::Udp => Class::Udp,
            _ => Class::Echo,
        };
        let (from_inside, from_outside) = (Activity::default(), Activity::default());
        let session = Session {
            inside,
            outside,
            class,
            last: now,
            from_inside,
            from_outside,
            reset: false,
            before: NIL,
            behind: NIL,
        };
        let at = match self.free.pop() {
            Some(at) => {
                *self.sessions.get_mut(at as usize)? = session;
                at
            }
            None => {
                self.sessions.push(session);
                self.sessions.len() as u32 - 1
            }
        };
        self.at.insert(inside, at);
        self.at.insert(outside, at);
        self.link(at);
        self.saw(at, Side::Src, flags, now);
        Some((port, evicted))
    }

    /// Records a packet of session `at` that was sent from inside (`Src`) or outside (`Dst`).
    /// Restarts the session's timeout and tracks the state of a TCP connection.
    pub fn saw(&mut self, at: u32, from: Side, flags: Flags, now: Instant) {
        self.unlink(at);
        if let Some(session) = self.sessions.get_mut(at as usize) {
            session.last = now;
            if session.inside.proto == Upper::Tcp {
                session.follow(from, flags);
            }
        }
        self.link(at);
    }

    /// Ends the sessions that have timed out, and returns their number.
    pub fn expire(&mut self, now: Instant) -> u64 {
        let mut expired = 0;
        for class in CLASSES {
            let timeout = class.timeout(&self.timeouts);
            while let Some(first) = self.first(class)
                && self.sessions.get(first as usize).is_some_and(|session| now.since(session.last) >= timeout)
            {
                self.remove(first);
                expired += 1;
            }
        }
        expired
    }

    /// Returns an outside port for a new session; `None` if none of the ports tried is free. The
    /// port of the inside end is preferred. If it is not configured or in use, the port comes from
    /// the same range, 1 to 1023 or 1024 to 65535 (RFC 4787 REQ-3), or from all configured ports if
    /// none is in this range. For one inside end, the search starts at the same port for all remote
    /// ends, so that the inside end mostly keeps one outside port.
    fn free_port(&self, inside: &Tuple) -> Option<u16> {
        let is_free = |port: u16| {
            let outside = Tuple { addr: self.outside, port, ..*inside };
            !self.at.contains_key(&outside)
        };
        if self.ports.contains(&inside.port) && is_free(inside.port) {
            return Some(inside.port);
        }
        let kind = if inside.port < 1024 { 1..=1023 } else { 1024..=u16::MAX };
        let (mut least, mut most) = (*self.ports.start().max(kind.start()), *self.ports.end().min(kind.end()));
        if least > most {
            (least, most) = (*self.ports.start(), *self.ports.end());
        }
        let count = u32::from(most.checked_sub(least)?) + 1;
        let begin = self.secret.hash_one((inside.proto, inside.addr, inside.port)) % u64::from(count);
        let port = |tried: u32| least + ((begin as u32 + tried) % count) as u16;
        (0..TRIES.min(count)).map(port).find(|port| is_free(*port))
    }

    fn evict(&mut self) -> bool {
        let idle = CLASSES.into_iter().find_map(|class| self.first(class));
        idle.inspect(|at| self.remove(*at)).is_some()
    }

    fn remove(&mut self, at: u32) {
        self.unlink(at);
        if let Some(session) = self.sessions.get(at as usize) {
            self.at.remove(&session.inside);
            self.at.remove(&session.outside);
            self.free.push(at);
        }
    }

    fn first(&self, class: Class) -> Option<u32> {
        self.lists.get(class as usize).map(|list| list.first).filter(|at| *at != NIL)
    }

    /// Appends session `at` to the list of its class.
    fn link(&mut self, at: u32) {
        let Some(session) = self.sessions.get_mut(at as usize) else { return };
        let Some(list) = self.lists.get_mut(session.class as usize) else { return };
        (session.before, session.behind) = (list.last, NIL);
        let last = std::mem::replace(&mut list.last, at);
        match self.sessions.get_mut(last as usize) {
            Some(last) => last.behind = at,
            None => list.first = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(session) = self.sessions.get(at as usize) else { return };
        let (before, behind, class) = (session.before, session.behind, session.class);
        let Some(list) = self.lists.get_mut(class as usize) else { return };
        match self.sessions.get_mut(before as usize) {
            Some(before) => before.behind = behind,
            None => list.first = behind,
        }
        match self.sessions.get_mut(behind as usize) {
            Some(behind) => behind.before = before,
            None => list.last = before,
        }
    }
}

impl Session {
    /// Tracks whether a TCP connection is established (RFC 5382 5). A connection is established if
    /// both sides have sent a segment, at most one has sent a FIN, and neither has sent a RST. A
    /// connection whose SYN was not seen counts too. A SYN from either side restarts a closed
    /// connection.
    fn follow(&mut self, from: Side, flags: Flags) {
        let over = self.reset || (self.from_inside.fin && self.from_outside.fin);
        if over && flags.contains(Flags::SYN) {
            (self.from_inside, self.from_outside, self.reset) = (Activity::default(), Activity::default(), false);
        }
        let seen = if from == Side::Src { &mut self.from_inside } else { &mut self.from_outside };
        seen.any |= !flags.contains(Flags::RST);
        seen.fin |= flags.contains(Flags::FIN);
        self.reset |= flags.contains(Flags::RST);
        let both = self.from_inside.any && self.from_outside.any;
        let over = self.reset || (self.from_inside.fin && self.from_outside.fin);
        self.class = if both && !over { Class::Established } else { Class::Transitory };
    }
}
