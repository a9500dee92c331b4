//! Open exchanges of echo requests, and their queued answers.

use clock::Instant;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Maximum number of open exchanges.
pub const EXCHANGES_MAX: usize = 16;
/// Maximum number of queued answers of an exchange. Further answers are ignored until one is read.
pub const ANSWERS_MAX: usize = 256;

/// Kind of an answer to an echo request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Echo reply.
    Reply,
    /// A router discarded the request because its TTL expired.
    TimeExceeded,
    /// The destination is unreachable; the value is the ICMP or ICMPv6 code.
    Unreachable(u8),
    /// The request exceeds the MTU of a link; the value is that MTU.
    TooBig(u32),
    /// Any other ICMP error.
    Error,
}

/// An answer to an echo request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Arrival time.
    pub at: Instant,
    /// Source address of the received packet.
    pub from: IpAddr,
    /// Sequence number of the request.
    pub seq: u16,
    /// TTL or hop limit of the received packet.
    pub ttl: u8,
    /// Length of the ICMP message in bytes; for an error, the length of the quoted part of the
    /// request.
    pub len: usize,
    /// Kind of the answer.
    pub kind: Kind,
}

/// Open exchanges of a host, each with its identifier and its queued answers.
#[derive(Debug, Default)]
pub(crate) struct Exchanges(pub(super) Vec<(u16, VecDeque<Answer>)>);
