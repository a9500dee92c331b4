//! The exchanges that are open, and the answers that wait in them.

use clock::Instant;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Exchanges open at a time.
pub const EXCHANGES_MAX: usize = 16;
/// Answers that wait in an exchange; later ones are ignored.
pub const ANSWERS_MAX: usize = 256;

/// Kind of an answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The reply.
    Reply,
    /// A router has discarded the request: its TTL was used up.
    TimeExceeded,
    /// The destination cannot be reached: the ICMP or ICMPv6 code.
    Unreachable(u8),
    /// The request does not fit into this MTU.
    TooBig(u32),
    /// Another error.
    Error,
}

/// An answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Time of its arrival.
    pub at: Instant,
    /// Source of the packet.
    pub from: IpAddr,
    /// Sequence number of the request.
    pub seq: u16,
    /// TTL or hop limit with which it came.
    pub ttl: u8,
    /// Bytes of the ICMP message; of an error, those that it quotes of the request.
    pub len: usize,
    /// Reply or error.
    pub kind: Kind,
}

/// The open exchanges of a host.
#[derive(Debug, Default)]
pub(crate) struct Exchanges(pub(super) Vec<(u16, VecDeque<Answer>)>);
