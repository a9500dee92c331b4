//! ICMP for IPv4: echo and errors (RFC 792, RFC 1122 3.2.2).
//!
//! [`Message::parse`] takes an IP payload and vouches for length, checksum and, in an error, for the quoted packet: its
//! header and at least 8 bytes after it are there (RFC 792 "64 bits of data"). It does not say whom an error concerns:
//! [`Inner`] goes to `inet::demux`, which finds the Pcb and checks sequence numbers (RFC 5927).

use crate::checksum;
use crate::ip4;
use crate::{Layer, Malformed};
use std::net::Ipv4Addr;

pub use emit::{Problem, echo_reply_in_place, emit_echo, emit_error};

mod emit;
#[cfg(test)]
mod tests;

/// Bytes of every ICMP header: type, code, checksum and four bytes that depend on the type.
pub const HEADER_LEN: usize = 8;
/// Bytes of the original payload that an error must quote (RFC 792).
pub const MIN_QUOTED_PAYLOAD: usize = 8;

/// ICMP type numbers.
pub mod ty {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Source quench (deprecated by RFC 6633).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
}

/// Codes of destination unreachable (RFC 792, RFC 1122 3.2.2.1, RFC 1812 5.2.7.1).
pub mod unreachable {
    /// Network unreachable.
    pub const NET: u8 = 0;
    /// Host unreachable.
    pub const HOST: u8 = 1;
    /// Protocol unreachable.
    pub const PROTOCOL: u8 = 2;
    /// Port unreachable.
    pub const PORT: u8 = 3;
    /// Fragmentation needed and DF set; carries the next-hop MTU (RFC 1191 4).
    pub const FRAG_NEEDED: u8 = 4;
    /// Source route failed.
    pub const SOURCE_ROUTE: u8 = 5;
    /// Communication administratively prohibited.
    pub const ADMIN_PROHIBITED: u8 = 13;
}

/// Codes of time exceeded (RFC 792).
pub mod time_exceeded {
    /// TTL reached zero in transit.
    pub const TTL: u8 = 0;
    /// Fragment reassembly time exceeded.
    pub const REASSEMBLY: u8 = 1;
}

/// The fixed part of any ICMP message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// Message type.
    pub ty: u8,
    /// Code within the type.
    pub code: u8,
    /// Checksum as found.
    pub checksum: u16,
    /// Four bytes whose meaning depends on the type.
    pub rest: [u8; 4],
}

impl Header {
    /// Reads the first 8 bytes and verifies nothing but their being there.
    #[inline]
    pub fn parse(message: &[u8]) -> Result<Header, Malformed> {
        let Some(&[ty, code, c0, c1, r0, r1, r2, r3]) = message.first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::truncated(Layer::Icmp4, HEADER_LEN, message.len()));
        };
        Ok(Header { ty, code, checksum: u16::from_be_bytes([c0, c1]), rest: [r0, r1, r2, r3] })
    }

    /// The two 16-bit words of `rest`.
    #[inline]
    const fn words(&self) -> (u16, u16) {
        let [a, b, c, d] = self.rest;
        (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
    }
}

/// The packet quoted in an ICMP error: ours, or said to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inner<'a> {
    /// Its header; total length is as sent and may exceed what was quoted.
    pub header: ip4::Header,
    /// What was quoted after the header: at least 8 bytes, at most the packet's own.
    pub payload: &'a [u8],
}

impl<'a> Inner<'a> {
    /// Reads a quoted packet: a whole header and 8 bytes after it, or [`Malformed`].
    pub fn parse(quoted: &'a [u8]) -> Result<Inner<'a>, Malformed> {
        let header = ip4::Header::parse_quoted(quoted, Layer::IcmpInner)?;
        let end = usize::from(header.total_len).min(quoted.len());
        let payload = quoted.get(header.ihl_len..end).unwrap_or_default();
        if payload.len() < MIN_QUOTED_PAYLOAD {
            return Err(Malformed::truncated(Layer::IcmpInner, header.ihl_len + MIN_QUOTED_PAYLOAD, end));
        }
        Ok(Inner { header, payload })
    }
}

/// An ICMP message whose checksum verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// "Are you there?"
    EchoRequest {
        /// Identifier.
        ident: u16,
        /// Sequence number.
        seq: u16,
        /// Data to be returned as it is.
        payload: &'a [u8],
    },
    /// The answer.
    EchoReply {
        /// Identifier of the request.
        ident: u16,
        /// Sequence number of the request.
        seq: u16,
        /// Data of the request.
        payload: &'a [u8],
    },
    /// Destination unreachable.
    Unreachable {
        /// See [`mod@unreachable`].
        code: u8,
        /// Next-hop MTU, meaningful for [`unreachable::FRAG_NEEDED`]; 0 from routers older than RFC 1191.
        next_mtu: u16,
        /// The packet it is about.
        inner: Inner<'a>,
    },
    /// Time exceeded.
    TimeExceeded {
        /// See [`time_exceeded`].
        code: u8,
        /// The packet it is about.
        inner: Inner<'a>,
    },
    /// Redirect.
    Redirect {
        /// 0 net, 1 host, 2 and 3 with type of service.
        code: u8,
        /// The better first hop.
        gateway: Ipv4Addr,
        /// The packet it is about.
        inner: Inner<'a>,
    },
    /// Parameter problem.
    ParameterProblem {
        /// Octet of the header with the problem (code 0).
        pointer: u8,
        /// The packet it is about.
        inner: Inner<'a>,
    },
    /// Source quench: to be ignored (RFC 6633 3), so nothing in it is read.
    SourceQuench,
    /// Any other type.
    Other {
        /// Message type.
        ty: u8,
        /// Code within the type.
        code: u8,
    },
}

impl<'a> Message<'a> {
    /// Reads a whole message and verifies its checksum. `message` is the IP payload without padding.
    pub fn parse(message: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let header = Header::parse(message)?;
        if !checksum::sum(message).verifies() {
            return Err(Malformed::BadChecksum { layer: Layer::Icmp4 });
        }
        let body = message.get(HEADER_LEN..).unwrap_or_default();
        let (first, second) = header.words();
        let code = header.code;
        Ok(match header.ty {
            ty::ECHO_REQUEST => Message::EchoRequest { ident: first, seq: second, payload: body },
            ty::ECHO_REPLY => Message::EchoReply { ident: first, seq: second, payload: body },
            ty::UNREACHABLE => Message::Unreachable { code, next_mtu: second, inner: Inner::parse(body)? },
            ty::TIME_EXCEEDED => Message::TimeExceeded { code, inner: Inner::parse(body)? },
            ty::REDIRECT => {
                Message::Redirect { code, gateway: Ipv4Addr::from(header.rest), inner: Inner::parse(body)? }
            }
            ty::PARAMETER_PROBLEM => {
                let [pointer, ..] = header.rest;
                Message::ParameterProblem { pointer, inner: Inner::parse(body)? }
            }
            ty::SOURCE_QUENCH => Message::SourceQuench,
            ty => Message::Other { ty, code },
        })
    }
}
