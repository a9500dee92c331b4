//! Services of a host: kinds, L4 ports, and text format.

use std::fmt;
use std::str::FromStr;
use wire::L4Port;

macro_rules! service_kinds {
    ($(#[$first_doc:meta])* $first:ident = ($first_word:literal, $first_port:literal, $first_over:ident);
     $($(#[$doc:meta])* $kind:ident = ($word:literal, $port:literal, $over:ident);)*) => {
        /// Kind of a service of a host: the value of `kind` in a file, and of `--service`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub enum ServiceKind {
            $(#[$first_doc])*
            #[default]
            $first,
            $($(#[$doc])* $kind,)*
        }

        impl ServiceKind {
            /// All kinds of services.
            pub const ALL: &[ServiceKind] = &[ServiceKind::$first, $(ServiceKind::$kind,)*];
            /// Names of all kinds, in one string separated by commas.
            pub const WORDS: &str = concat!($first_word, $(", ", $word,)*);
            /// Names of all kinds of services.
            pub(super) const ALL_WORDS: &[&str] = &[$first_word, $($word,)*];

            /// Returns (name, usual L4 port, transport).
            const fn facts(self) -> (&'static str, u16, Over) {
                match self {
                    ServiceKind::$first => ($first_word, $first_port, Over::$first_over),
                    $(ServiceKind::$kind => ($word, $port, Over::$over),)*
                }
            }
        }
    };
}

/// Transport of a service.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    /// UDP: the crate `node` itself runs the service ([`crate::service`]).
    Udp,
    /// TCP: a program runs the service ([`crate::run::Programs`]).
    Tcp,
}

service_kinds! {
    /// Sends each datagram back (RFC 862).
    Echo = ("echo", 7, Udp);
    /// Reads and discards datagrams (RFC 863).
    Discard = ("discard", 9, Udp);
    /// Server for iperf3 clients, over TCP.
    Iperf3 = ("iperf3", 5201, Tcp);
    /// Server for `linerate netperf`, over TCP.
    Netserver = ("netserver", 12_865, Tcp);
}

impl ServiceKind {
    /// Returns the name of the kind.
    pub fn word(self) -> &'static str {
        self.facts().0
    }

    /// Returns the L4 port on which the service usually listens (RFC 862, RFC 863, or the default
    /// of the program).
    pub fn usual_port(self) -> L4Port {
        L4Port(self.facts().1)
    }

    /// Returns whether this is a UDP service, which the crate `node` runs itself.
    pub fn is_datagrams(self) -> bool {
        self.facts().2 == Over::Udp
    }
}

impl FromStr for ServiceKind {
    type Err = String;
    fn from_str(word: &str) -> Result<ServiceKind, String> {
        let found = ServiceKind::ALL.iter().copied().find(|kind| kind.word() == word);
        found.ok_or_else(|| format!("expected one of {}", ServiceKind::WORDS))
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
    /// Kind of the service.
    pub kind: ServiceKind,
    /// L4 port on which the service listens.
    pub port: L4Port,
}

impl FromStr for ServiceConfig {
    type Err = String;
    /// Parses `echo` or `echo:7007`.
    fn from_str(text: &str) -> Result<ServiceConfig, String> {
        let (kind, port) = text.split_once(':').map_or((text, None), |(kind, port)| (kind, Some(port)));
        let bad = || format!("expected one of {}, optionally with a port as in echo:7", ServiceKind::WORDS);
        let kind: ServiceKind = kind.parse().map_err(|_| bad())?;
        let given = port.map(|port| port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)).transpose()?;
        Ok(ServiceConfig { kind, port: given.map_or(kind.usual_port(), L4Port) })
    }
}
