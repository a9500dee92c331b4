//! What a host serves: kinds, their L4 ports, and how they are written.

use std::fmt;
use std::str::FromStr;
use wire::L4Port;

/// Something that a host does for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ServiceKind {
    /// Sends each datagram back (RFC 862).
    #[default]
    Echo,
    /// Reads datagrams and forgets them (RFC 863).
    Discard,
    /// The end that iperf3's clients measure against.
    Iperf3,
    /// The end that `linerate netperf` asks.
    Netserver,
}

impl ServiceKind {
    const ALL: [ServiceKind; 4] =
        [ServiceKind::Echo, ServiceKind::Discard, ServiceKind::Iperf3, ServiceKind::Netserver];
    /// What is expected where a kind stands.
    pub(super) const WORDS: &str = "echo or discard, iperf3 or netserver";

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            ServiceKind::Echo => "echo",
            ServiceKind::Discard => "discard",
            ServiceKind::Iperf3 => "iperf3",
            ServiceKind::Netserver => "netserver",
        }
    }

    /// Its usual L4 port: RFC 862's, RFC 863's, and those of the programs of these names.
    pub fn usual_port(self) -> L4Port {
        L4Port(match self {
            ServiceKind::Echo => 7,
            ServiceKind::Discard => 9,
            ServiceKind::Iperf3 => 5201,
            ServiceKind::Netserver => 12_865,
        })
    }

    /// Is it one of the small ones over UDP, which `node` serves itself? The others are programs: [`crate::run::Programs`].
    pub fn is_datagrams(self) -> bool {
        matches!(self, ServiceKind::Echo | ServiceKind::Discard)
    }
}

impl FromStr for ServiceKind {
    type Err = String;
    fn from_str(word: &str) -> Result<ServiceKind, String> {
        let found = ServiceKind::ALL.into_iter().find(|kind| kind.word() == word);
        found.ok_or_else(|| format!("expected {}", ServiceKind::WORDS))
    }
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A service of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// What it does.
    pub kind: ServiceKind,
    /// Where it is.
    pub port: L4Port,
}

impl FromStr for ServiceConfig {
    type Err = String;
    /// `echo`, `echo:7007`.
    fn from_str(text: &str) -> Result<ServiceConfig, String> {
        let (kind, port) = text.split_once(':').map_or((text, None), |(kind, port)| (kind, Some(port)));
        let bad = || format!("expected {}, and a port as in echo:7", ServiceKind::WORDS);
        let kind: ServiceKind = kind.parse().map_err(|_| bad())?;
        let given = port.map(|port| port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)).transpose()?;
        Ok(ServiceConfig { kind, port: given.map_or(kind.usual_port(), L4Port) })
    }
}
