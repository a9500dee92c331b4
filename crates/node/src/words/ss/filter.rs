//! The filter of `ss`: `state STATE`, `exclude STATE`, and addresses and ports of both ends, in
//! iproute2's words. All of them must hold.

use super::super::parse::Words;
use super::super::sockets::{SockState, Socket};
use super::super::{WordError, parse};
use std::net::{IpAddr, SocketAddr};
use tcp::State;

/// Names of single states, with those of `ss` output.
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
/// Names of several states.
const GROUPS: &[&str] = &["all", "connected", "synchronized", "bucket", "big"];

/// A part of the filter.
#[derive(Clone, Debug)]
enum Part {
    State(String),
    Exclude(String),
    /// Of an end: an address with the length of its prefix, and a port.
    End {
        local: bool,
        addr: Option<(IpAddr, u8)>,
        port: Option<u16>,
    },
    Port {
        local: bool,
        port: u16,
        equal: bool,
    },
}

/// Filter made of the words after the options.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter(Vec<Part>);

impl Filter {
    /// Reads the rest of the line.
    ///
    /// # Errors
    /// A word, state, address or port that is not understood.
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Filter, WordError> {
        let mut parts = Vec::new();
        while let Some(word) = words.take() {
            match word {
                "state" => parts.push(Part::State(state(words.next("a state")?)?)),
                "exclude" => parts.push(Part::Exclude(state(words.next("a state")?)?)),
                "src" | "dst" => parts.push(end(word == "src", words.next("an address, with :PORT if wanted")?)?),
                "sport" | "dport" => {
                    let (equal, value) = match words.next("a port such as :80")? {
                        "=" | "==" | "eq" => (true, words.next("a port such as :80")?),
                        "!=" | "ne" | "neq" => (false, words.next("a port such as :80")?),
                        port => (true, port),
                    };
                    let port = port(value.strip_prefix(':').unwrap_or(value))?;
                    parts.push(Part::Port { local: word == "sport", port, equal });
                }
                "and" | "(" | ")" => {}
                other => {
                    let known = ["state", "exclude", "src", "dst", "sport", "dport", "and"];
                    return Err(WordError::unknown("word", other, known.into_iter()));
                }
            }
        }
        Ok(Filter(parts))
    }

    /// Returns whether the states listed are said here, so that -a and -l do not count.
    pub(super) fn has_state(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::State(_) | Part::Exclude(_)))
    }

    /// Returns whether all parts hold for `socket`.
    pub(super) fn matches(&self, socket: &Socket) -> bool {
        self.0.iter().all(|part| match part {
            Part::State(name) => is_in(socket.state, name),
            Part::Exclude(name) => !is_in(socket.state, name),
            Part::End { local, addr, port } => {
                let end = of(socket, *local);
                addr.is_none_or(|(net, len)| covers(net, len, end.ip())) && port.is_none_or(|port| end.port() == port)
            }
            Part::Port { local, port, equal } => (of(socket, *local).port() == *port) == *equal,
        })
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

/// A state's name, checked; `listen` is `listening`.
fn state(word: &str) -> Result<String, WordError> {
    let word = match word {
        "listen" => "listening",
        "estab" => "established",
        "unconnected" => "closed",
        word => word,
    };
    let known = || STATES.iter().map(|(name, _)| *name).chain(GROUPS.iter().copied());
    known().any(|name| name == word).then(|| word.to_string()).ok_or_else(|| WordError::unknown("state", word, known()))
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

/// `A[/LEN][:PORT]`, `[A6]:PORT`, `*:PORT` or `:PORT`.
fn end(local: bool, word: &str) -> Result<Part, WordError> {
    if let Ok(at) = word.parse::<SocketAddr>() {
        let len = if at.is_ipv6() { 128 } else { 32 };
        return Ok(Part::End { local, addr: Some((at.ip(), len)), port: Some(at.port()) });
    }
    let is_six = word.matches(':').count() > 1;
    let (addr, number) = match word.rsplit_once(':').filter(|_| !is_six) {
        Some((addr, number)) => (addr, Some(port(number)?)),
        None => (word, None),
    };
    if matches!(addr, "" | "*") {
        return Ok(Part::End { local, addr: None, port: number });
    }
    let (addr, len) = match addr.split_once('/') {
        Some((addr, len)) => (addr, Some(len)),
        None => (addr, None),
    };
    let bad =
        || WordError::bad(if local { "src" } else { "dst" }, word, "an address such as 10.0.0.0/8 or 10.0.0.1:80");
    let addr: IpAddr = addr.parse().map_err(|_| bad())?;
    let most = if addr.is_ipv6() { 128 } else { 32 };
    let len = len.map_or(Ok(most), |len| len.parse::<u8>().ok().filter(|len| *len <= most).ok_or_else(bad))?;
    Ok(Part::End { local, addr: Some((addr, len)), port: number })
}

fn port(word: &str) -> Result<u16, WordError> {
    parse::number("port", word, 0, 65_535).map(|port| port as u16)
}
