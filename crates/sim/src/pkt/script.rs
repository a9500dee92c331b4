//! What a script is when it has been read: events in order, each with its time.

use super::PktError;
use super::icmp;
use std::net::Ipv4Addr;
use std::str::FromStr;
use wire::tcp::Flags;

/// Address families of a script's sockets and of its packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpVersion {
    /// `ipv4`: sockets of `AF_INET`, packets of IPv4.
    V4,
    /// `ipv4-mapped-ipv6`: sockets of `AF_INET6` with mapped addresses, packets of IPv4.
    Mapped,
    /// `ipv6`: sockets of `AF_INET6`, packets of IPv6.
    V6,
}

impl IpVersion {
    /// All versions.
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
        found.ok_or_else(|| format!("'{text}' is no IP version: expected ipv4, ipv4-mapped-ipv6 or ipv6"))
    }
}

/// A whole script.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Script {
    /// `--name=value`, in order.
    pub(super) flags: Vec<(usize, String, String)>,
    pub(super) events: Vec<Event>,
}

impl Script {
    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the script's own `--ip_version`.
    ///
    /// # Errors
    /// [`PktError`]: its value is no version.
    pub fn ip_version(&self) -> Result<Option<IpVersion>, PktError> {
        let last = self.flags.iter().rev().find(|(_, name, _)| name == "ip_version");
        last.map(|(line, _, value)| {
            value.parse().map_err(|_| PktError::at(*line, format!("--ip_version={value}: not a value for it")))
        })
        .transpose()
    }

    /// Returns the versions in which the script holds: all, unless it names one. One that names `ipv4` is about packets of
    /// IPv4, whichever sockets they are for.
    ///
    /// # Errors
    /// As [`Script::ip_version`].
    pub fn ip_versions(&self) -> Result<&'static [IpVersion], PktError> {
        Ok(match self.ip_version()? {
            None => &IpVersion::ALL,
            Some(IpVersion::V4) => &[IpVersion::V4, IpVersion::Mapped],
            Some(IpVersion::Mapped) => &[IpVersion::Mapped],
            Some(IpVersion::V6) => &[IpVersion::V6],
        })
    }
}

/// Something that is done, or expected.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Event {
    pub line: usize,
    pub when: When,
    pub what: Action,
}

/// When, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    /// After the start.
    At(i64),
    /// After the event before.
    After(i64),
    /// Between two instants after the start.
    Within(i64, i64),
    /// Between two instants after the event before.
    AfterWithin(i64, i64),
    /// Whenever.
    Any,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Action {
    /// A packet for our host.
    In(Packet),
    /// A packet that our host is to send.
    Out(Packet),
    /// A call.
    Call(Call),
    /// Assertions about `TCP_INFO`.
    Code(String),
    /// What a shell would do.
    Command(String),
    /// Counters' changes since the line before of this kind: none but these.
    Counters(Vec<(String, i64)>),
}

/// A packet as a script states it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Packet {
    pub ip: Ip,
    /// Source and destination, where they are stated.
    pub ports: Option<(u16, u16)>,
    pub body: Body,
}

/// What is stated of the IP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Ip {
    /// The ECN bits.
    pub ecn: Option<u8>,
    /// ECT(0) or ECT(1).
    pub ect01: bool,
    /// The whole TOS, or traffic class.
    pub tos: Option<u8>,
    /// TTL, or hop limit.
    pub ttl: Option<u8>,
    /// IPv6's flow label.
    pub flow_label: Option<u32>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Body {
    Tcp(Tcp),
    /// Bytes of payload.
    Udp(u16),
    Icmp(Icmp),
}

/// A TCP segment in the script's numbers: both sides begin where the script says, most often at 0.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Tcp {
    pub flags: Flags,
    pub seq: u32,
    pub len: u32,
    pub ack: Option<u32>,
    pub win: Option<u16>,
    pub urgent: u16,
    /// `None`: `<...>`.
    pub options: Option<Vec<Opt>>,
}

/// A TCP option.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Opt {
    Eol,
    Nop,
    Mss(u16),
    WindowScale(u8),
    SackOk,
    Sack(Vec<(u32, u32)>),
    Timestamps(u32, u32),
    Raw(u8, Vec<u8>),
    /// As they stand, lengths that lie too.
    Bytes(Vec<u8>),
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Icmp {
    /// Type and code.
    pub words: icmp::Words,
    /// The sequence number quoted, where it is stated.
    pub seq: Option<u32>,
    /// A UDP datagram is quoted, of so many bytes of payload.
    pub udp: Option<u16>,
}

/// A call and what is to come of it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Call {
    pub name: String,
    pub args: Vec<Expr>,
    /// When it is to return, if not at once.
    pub until: Option<i64>,
    pub returns: Expr,
    pub errno: Option<String>,
}

/// An argument.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Expr {
    Ellipsis,
    Int(i64),
    Word(String),
    Str(String),
    Addr(Ipv4Addr),
    /// `a | b`.
    Or(Vec<Expr>),
    /// `[a, b]`.
    List(Vec<Expr>),
    /// `{a, b}`.
    Braces(Vec<Expr>),
    /// `name = value`, the name without what stands in its parentheses.
    Field(String, Box<Expr>),
    /// `name(a, b)`.
    Apply(String, Vec<Expr>),
}

impl Expr {
    /// The field called `name` of a structure.
    pub fn field(&self, name: &str) -> Option<&Expr> {
        let Expr::Braces(parts) = self else { return None };
        parts.iter().find_map(|part| match part {
            Expr::Field(field, value) if field == name => Some(value.as_ref()),
            _ => None,
        })
    }
}
