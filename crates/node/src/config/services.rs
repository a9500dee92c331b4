//! What a host serves: kinds, their L4 ports, and how they are written.

use std::fmt;
use std::str::FromStr;
use wire::L4Port;

macro_rules! service_kinds {
    ($(#[$first_doc:meta])* $first:ident = ($first_word:literal, $first_port:literal, $first_over:ident);
     $($(#[$doc:meta])* $kind:ident = ($word:literal, $port:literal, $over:ident);)*) => {
        /// A service of a host: a value of `kind` in a file and of `--service`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub enum ServiceKind {
            $(#[$first_doc])*
            #[default]
            $first,
            $($(#[$doc])* $kind,)*
        }

        impl ServiceKind {
            /// All kinds.
            pub const ALL: &[ServiceKind] = &[ServiceKind::$first, $(ServiceKind::$kind,)*];
            /// The words of all kinds.
            pub const WORDS: &str = concat!($first_word, $(", ", $word,)*);
            /// The words of all kinds, one by one.
            pub(super) const ALL_WORDS: &[&str] = &[$first_word, $($word,)*];

            /// (word, usual L4 port, transport).
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
    /// Datagrams: `node` serves it ([`crate::service`]).
    Udp,
    /// Streams: a program serves it ([`crate::run::Programs`]).
    Tcp,
}

service_kinds! {
    /// Sends each datagram back (RFC 862).
    Echo = ("echo", 7, Udp);
    /// Reads and discards datagrams (RFC 863).
    Discard = ("discard", 9, Udp);
    /// The server of iperf3's clients.
    Iperf3 = ("iperf3", 5201, Tcp);
    /// The far end of `linerate netperf`.
    Netserver = ("netserver", 12_865, Tcp);
}

impl ServiceKind {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        self.facts().0
    }

    /// Returns its usual L4 port: RFC 862's, RFC 863's, and those of the programs of these names.
    pub fn usual_port(self) -> L4Port {
        L4Port(self.facts().1)
    }

    /// Returns whether it is one of the small services over UDP, which `node` serves itself.
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
        let bad = || format!("expected one of {}, and a port as in echo:7", ServiceKind::WORDS);
        let kind: ServiceKind = kind.parse().map_err(|_| bad())?;
        let given = port.map(|port| port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)).transpose()?;
        Ok(ServiceConfig { kind, port: given.map_or(kind.usual_port(), L4Port) })
    }
}
