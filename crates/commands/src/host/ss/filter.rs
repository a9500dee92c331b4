//! Filters of `ss`, in iproute2's syntax: `state STATE`, `exclude STATE`, and conditions on the
//! local and remote address and port.

use super::super::sockets::{SockState, Socket};
use crate::parse;
use grammar::{CommandError, Words};
use std::cmp::Ordering;
use std::net::{IpAddr, SocketAddr};
use tcp::State;

/// Names of single states in a filter, each with its name in the output of `ss`.
const STATES: &[(&str, &str)] = &[
    ("established", "ESTAB"),
    ("syn-sent", "SYN-SENT"),
    ("syn-recv", "SYN-RECV"),
    ("fin-wait-1", "FIN-WAIT-1"),
    ("fin-wait-2", "FIN-WAIT-2"),
    ("time-wait", "TIME-WAIT"),
    ("closed", "UNCONN"),
    ("close-wait", "CLOSE-WAIT"),
    ("last-ack", "LAST-ACK"),
    ("listening", "LISTEN"),
    ("closing", "CLOSING"),
];
/// Names of groups of states.
const GROUPS: &[&str] = &["all", "connected", "synchronized", "bucket", "big"];

/// Comparison of ports: iproute2's spellings, an ordering, and `true` if this ordering is required
/// or `false` if it is excluded.
type Comparison = (&'static [&'static str], Ordering, bool);
const EQUAL: Comparison = (&["=", "==", "eq"], Ordering::Equal, true);
const COMPARISONS: [Comparison; 6] = [
    EQUAL,
    (&["!=", "ne", "neq"], Ordering::Equal, false),
    (&["<", "lt"], Ordering::Less, true),
    (&[">=", "ge", "geq"], Ordering::Less, false),
    (&[">", "gt"], Ordering::Greater, true),
    (&["<=", "le", "leq"], Ordering::Greater, false),
];
/// Maximum nesting of parentheses and negations.
const DEPTH_MAX: usize = 32;

/// A condition on addresses and ports.
#[derive(Clone, Debug)]
enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    /// Condition on the local or remote end: an address with its prefix length, and a port.
    End {
        local: bool,
        addr: Option<(IpAddr, u8)>,
        port: Option<u16>,
    },
    /// Condition on the ordering of the socket's port relative to `port`. The ordering must be
    /// equal to `order` if `holds` is true, and different from `order` if `holds` is false.
    Port {
        local: bool,
        port: u16,
        order: Ordering,
        holds: bool,
    },
}

/// Filter parsed from the words after the options.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    /// Names after `state` (`true`) and `exclude` (`false`), in the order given.
    states: Vec<(bool, String)>,
    condition: Option<Condition>,
}

impl Filter {
    /// Parses the rest of the line: states, and conditions joined by `and` (or nothing), `or` and
    /// `not`, with parentheses.
    ///
    /// # Errors
    /// Returns an error for an invalid word, state, address or port, and for an incomplete
    /// expression.
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Filter, CommandError> {
        let mut filter = Filter::default();
        let mut rest = Vec::new();
        while let Some(word) = words.take() {
            match word {
                "state" => filter.states.push((true, state(words.next("a state")?)?)),
                "exclude" | "excl" => filter.states.push((false, state(words.next("a state")?)?)),
                word => rest.extend(parentheses(word)),
            }
        }
        let mut words = Words::new(&rest);
        if words.peek().is_some() {
            filter.condition = Some(any(&mut words, 0)?);
        }
        // A condition ends before the end of the line only at a parenthesis.
        words.end().map(|()| filter)
    }

    /// Returns whether the filter selects states; if so, -a and -l have no effect.
    pub(super) fn has_state(&self) -> bool {
        !self.states.is_empty()
    }

    /// Returns whether `socket` is in one of the selected states and satisfies the condition.
    pub(super) fn matches(&self, socket: &Socket) -> bool {
        // As in iproute2, a filter that begins with `state` starts with no states selected, and a
        // filter that begins with `exclude` starts with all states selected.
        let begin = self.states.first().is_none_or(|(with, _)| !with);
        let named = |is: bool, (with, name): &(bool, String)| if is_in(socket.state, name) { *with } else { is };
        self.states.iter().fold(begin, named) && self.condition.as_ref().is_none_or(|condition| condition.holds(socket))
    }
}

impl Condition {
    fn holds(&self, socket: &Socket) -> bool {
        match self {
            Condition::All(parts) => parts.iter().all(|part| part.holds(socket)),
            Condition::Any(parts) => parts.iter().any(|part| part.holds(socket)),
            Condition::Not(part) => !part.holds(socket),
            Condition::End { local, addr, port } => {
                let end = of(socket, *local);
                addr.is_none_or(|(net, len)| covers(net, len, end.ip())) && port.is_none_or(|port| end.port() == port)
            }
            Condition::Port { local, port, order, holds } => (of(socket, *local).port().cmp(port) == *order) == *holds,
        }
    }
}

/// Splits a word into parentheses and the text between them.
fn parentheses(word: &str) -> impl Iterator<Item = &str> {
    word.split_inclusive(['(', ')'])
        .flat_map(|part| part.strip_suffix(['(', ')']).map_or([part, ""], |name| [name, &part[name.len()..]]))
        .filter(|part| !part.is_empty())
}

/// Parses conditions joined by `or`.
fn any(words: &mut Words<'_>, depth: usize) -> Result<Condition, CommandError> {
    let mut parts = vec![all(words, depth)?];
    while words.take_if(&["or", "|", "||"]) {
        parts.push(all(words, depth)?);
    }
    Ok(if let [_] = parts[..] { parts.remove(0) } else { Condition::Any(parts) })
}

/// Parses conditions joined by `and`, which may be omitted.
fn all(words: &mut Words<'_>, depth: usize) -> Result<Condition, CommandError> {
    let mut parts = vec![one(words, depth)?];
    loop {
        let said = words.take_if(&["and", "&", "&&"]);
        if !said && matches!(words.peek(), None | Some("or" | "|" | "||" | ")")) {
            return Ok(if let [_] = parts[..] { parts.remove(0) } else { Condition::All(parts) });
        }
        parts.push(one(words, depth)?);
    }
}

fn one(words: &mut Words<'_>, depth: usize) -> Result<Condition, CommandError> {
    if depth > DEPTH_MAX {
        return Err(CommandError::failed(format!("conditions are nested more than {DEPTH_MAX} levels deep")));
    }
    match words.next("a condition such as dport = :80")? {
        "not" | "!" => Ok(Condition::Not(Box::new(one(words, depth + 1)?))),
        "(" => {
            let inner = any(words, depth + 1)?;
            words.next("')'").map(|_| inner)
        }
        word @ ("src" | "dst") => {
            let _ = words.take_if(EQUAL.0);
            end(word == "src", words.next("an address such as 10.0.0.0/8 or 10.0.0.1:80")?)
        }
        word @ ("sport" | "dport") => {
            let said = COMPARISONS.iter().find(|(names, ..)| words.take_if(names));
            let (_, order, holds) = said.unwrap_or(&EQUAL);
            let value = words.next("a port such as :80")?;
            let port = port(value.strip_prefix(':').unwrap_or(value))?;
            Ok(Condition::Port { local: word == "sport", port, order: *order, holds: *holds })
        }
        other => {
            let known = ["state", "exclude", "src", "dst", "sport", "dport", "and", "or", "not", "(", ")"];
            Err(CommandError::unknown("word", other, known.into_iter()))
        }
    }
}

fn of(socket: &Socket, local: bool) -> SocketAddr {
    if local { socket.local } else { socket.peer }
}

fn covers(net: IpAddr, len: u8, addr: IpAddr) -> bool {
    match (net, addr) {
        (IpAddr::V4(net), IpAddr::V4(addr)) => (net.to_bits() ^ addr.to_bits()).leading_zeros() >= u32::from(len),
        (IpAddr::V6(net), IpAddr::V6(addr)) => (net.to_bits() ^ addr.to_bits()).leading_zeros() >= u32::from(len),
        _ => false,
    }
}

/// Checks the name of a state and returns it; `listen` becomes `listening`.
fn state(word: &str) -> Result<String, CommandError> {
    let word = match word {
        "listen" => "listening",
        "estab" => "established",
        "unconnected" => "closed",
        word => word,
    };
    let known = || STATES.iter().map(|(name, _)| *name).chain(GROUPS.iter().copied());
    known()
        .any(|name| name == word)
        .then(|| word.to_string())
        .ok_or_else(|| CommandError::unknown("state", word, known()))
}

fn is_in(state: SockState, name: &str) -> bool {
    let brief = matches!(state, SockState::Tcp(State::TimeWait | State::SynReceived));
    let is_connected = !matches!(state, SockState::Listen | SockState::Tcp(State::Closed));
    match name {
        "all" => true,
        "connected" => is_connected,
        "synchronized" => is_connected && !matches!(state, SockState::Tcp(State::SynSent)),
        "bucket" => brief,
        "big" => !brief,
        name => STATES.iter().any(|(known, word)| *known == name && *word == state.ss()),
    }
}

/// Parses `A[/LEN][:PORT]`, `[A6]:PORT`, `*:PORT` or `:PORT`.
fn end(local: bool, word: &str) -> Result<Condition, CommandError> {
    if let Ok(at) = word.parse::<SocketAddr>() {
        let len = if at.is_ipv6() { 128 } else { 32 };
        return Ok(Condition::End { local, addr: Some((at.ip(), len)), port: Some(at.port()) });
    }
    let is_six = word.matches(':').count() > 1;
    let (addr, number) = match word.rsplit_once(':').filter(|_| !is_six) {
        Some((addr, number)) => (addr, Some(port(number)?)),
        None => (word, None),
    };
    if matches!(addr, "" | "*") {
        return Ok(Condition::End { local, addr: None, port: number });
    }
    let (addr, len) = match addr.split_once('/') {
        Some((addr, len)) => (addr, Some(len)),
        None => (addr, None),
    };
    let bad =
        || CommandError::bad(if local { "src" } else { "dst" }, word, "an address such as 10.0.0.0/8 or 10.0.0.1:80");
    let addr: IpAddr = addr.parse().map_err(|_| bad())?;
    let most = if addr.is_ipv6() { 128 } else { 32 };
    let len = len.map_or(Ok(most), |len| len.parse::<u8>().ok().filter(|len| *len <= most).ok_or_else(bad))?;
    Ok(Condition::End { local, addr: Some((addr, len)), port: number })
}

fn port(word: &str) -> Result<u16, CommandError> {
    parse::number("port", word, 0, 65_535).map(|port| port as u16)
}
