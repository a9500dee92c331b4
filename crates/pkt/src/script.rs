//! A parsed script: events in order, each with its time.

use crate::error::PktError;
use crate::icmp;
use std::net::Ipv4Addr;
use std::str::FromStr;
use wire::tcp::Flags;

/// Maximum size in bytes of a script file, and of a shell script that it runs.
pub(crate) const FILE_MAX: u64 = 16 << 20;

/// Address families of a script's sockets and packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpVersion {
    /// `ipv4`: `AF_INET` sockets, IPv4 packets.
    V4,
    /// `ipv4-mapped-ipv6`: `AF_INET6` sockets with mapped addresses, IPv4 packets.
    Mapped,
    /// `ipv6`: `AF_INET6` sockets, IPv6 packets.
    V6,
}

impl IpVersion {
    /// All three versions, in the order of declaration.
    pub const ALL: [IpVersion; 3] = [IpVersion::V4, IpVersion::Mapped, IpVersion::V6];

    /// Returns the value of packetdrill's `--ip_version`.
    pub fn name(self) -> &'static str {
        match self {
            IpVersion::V4 => "ipv4",
            IpVersion::Mapped => "ipv4-mapped-ipv6",
            IpVersion::V6 => "ipv6",
        }
    }
}

impl FromStr for IpVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<IpVersion, String> {
        let found = IpVersion::ALL.into_iter().find(|version| version.name() == text);
        found.ok_or_else(|| format!("unknown IP version '{text}': expected ipv4, ipv4-mapped-ipv6 or ipv6"))
    }
}

/// A complete parsed script.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Script {
    /// Flags `--name=value`, in order, with their line.
    pub(crate) flags: Vec<(usize, String, String)>,
    pub(crate) events: Vec<Event>,
}

impl Script {
    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns whether the script has no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the script's own `--ip_version`.
    ///
    /// # Errors
    /// Returns a [`PktError`] if the value is not a version.
    pub fn ip_version(&self) -> Result<Option<IpVersion>, PktError> {
        let last = self.flags.iter().rev().find(|(_, name, _)| name == "ip_version");
        last.map(|(line, _, value)| {
            value.parse().map_err(|_| PktError::at(*line, format!("--ip_version={value}: invalid value")))
        })
        .transpose()
    }

    /// Returns the versions in which the script can run: all versions, unless the script sets
    /// `--ip_version`. A script for `ipv4` describes IPv4 packets, so it can run with `AF_INET` and
    /// with `AF_INET6` sockets.
    ///
    /// # Errors
    /// Returns the errors of [`Script::ip_version`].
    pub fn ip_versions(&self) -> Result<&'static [IpVersion], PktError> {
        Ok(match self.ip_version()? {
            None => &IpVersion::ALL,
            Some(IpVersion::V4) => &[IpVersion::V4, IpVersion::Mapped],
            Some(IpVersion::Mapped) => &[IpVersion::Mapped],
            Some(IpVersion::V6) => &[IpVersion::V6],
        })
    }
}

/// An action or expectation, with its time.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Event {
    pub line: usize,
    pub when: When,
    pub what: Action,
}

/// Time of an event, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    /// Time relative to the start of the script.
    At(i64),
    /// Time relative to the previous event.
    After(i64),
    /// Range of times relative to the start of the script.
    Within(i64, i64),
    /// Range of times relative to the previous event.
    AfterWithin(i64, i64),
    /// At any time after the previous event.
    Any,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Action {
    /// Packet to our host.
    In(Packet),
    /// Packet expected from our host.
    Out(Packet),
    Call(Call),
    /// Assertions about `TCP_INFO`.
    Code(String),
    /// Shell command in back quotes.
    Command(String),
    /// Counter changes since the previous `counters` line; no other counter may have changed.
    Counters(Vec<(String, i64)>),
}

/// A packet as stated in a script.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Packet {
    pub ip: Ip,
    /// Source and destination port, if stated.
    pub ports: Option<(u16, u16)>,
    pub body: Body,
}

/// Fields of the IP header that the script states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ip {
    /// Value of the ECN bits, if stated.
    pub ecn: Option<u8>,
    /// True if the ECN bits must be ECT(0) or ECT(1).
    pub ect01: bool,
    /// Whole TOS or traffic class byte, if stated.
    pub tos: Option<u8>,
    /// TTL or hop limit, if stated.
    pub ttl: Option<u8>,
    /// Flow label of IPv6, if stated.
    pub flow_label: Option<u32>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Body {
    Tcp(Tcp),
    /// A UDP datagram with a payload of this length in bytes.
    Udp(u16),
    Icmp(Icmp),
}

/// A TCP segment with the script's sequence numbers. They start at the value stated for the SYN,
/// usually 0.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Tcp {
    pub flags: Flags,
    pub seq: u32,
    pub len: u32,
    pub ack: Option<u32>,
    pub win: Option<u16>,
    pub urgent: u16,
    /// Options in order; `None` if the script states `<...>`, which accepts any options.
    pub options: Option<Vec<Opt>>,
}

/// A TCP option.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Opt {
    Eol,
    Nop,
    Mss(u16),
    WindowScale(u8),
    SackOk,
    Sack(Vec<(u32, u32)>),
    Timestamps(u32, u32),
    Raw(u8, Vec<u8>),
    /// Bytes copied verbatim, including incorrect lengths.
    Bytes(Vec<u8>),
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Icmp {
    /// Type and code of the ICMP message, by name.
    pub words: icmp::Words,
    /// Sequence number of the quoted segment, if stated.
    pub seq: Option<u32>,
    /// Payload length of a quoted UDP datagram.
    pub udp: Option<u16>,
}

/// A call and its expected result.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Call {
    pub name: String,
    pub args: Vec<Expr>,
    /// Time in nanoseconds at which the call must return, if it blocks.
    pub until: Option<i64>,
    pub returns: Expr,
    pub errno: Option<String>,
}

/// An argument or the result of a call.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Expr {
    Ellipsis,
    Int(i64),
    Word(String),
    Str(String),
    Addr(Ipv4Addr),
    /// Operands of a bitwise OR, such as `a | b`.
    Or(Vec<Expr>),
    /// List in brackets, such as `[a, b]`.
    List(Vec<Expr>),
    /// Structure in braces, such as `{a, b}`.
    Braces(Vec<Expr>),
    /// Field of a structure, `name = value`. The name does not include a part in parentheses.
    Field(String, Box<Expr>),
    /// Function applied to arguments, such as `name(a, b)`.
    Apply(String, Vec<Expr>),
}

impl Expr {
    /// Returns the field called `name` of a structure.
    pub fn field(&self, name: &str) -> Option<&Expr> {
        let Expr::Braces(parts) = self else { return None };
        parts.iter().find_map(|part| match part {
            Expr::Field(field, value) if field == name => Some(value.as_ref()),
            _ => None,
        })
    }
}
