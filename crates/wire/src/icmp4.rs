//! ICMP for IPv4: echo and errors (RFC 792, RFC 1122 3.2.2).
//!
//! [`Message::parse`] takes an IP payload, and checks length and checksum. In an ICMP error it also
//! checks that the quoted packet has its header and at least 8 bytes after it (RFC 792 "64 bits of
//! data"). This module does not look up the connection to which an error refers. [`Inner`] is
//! passed to `inet::demux`, which finds the connection and checks sequence numbers (RFC 5927).

use crate::checksum;
use crate::ip4;
use crate::{Layer, Malformed};
use core::net::Ipv4Addr;

pub use emit::{Problem, echo_reply_in_place, emit_echo, emit_error};

mod emit;
#[cfg(test)]
mod tests;

/// Length in bytes of every ICMP header: type, code, checksum and four bytes that depend on the
/// type.
pub const HEADER_LEN: usize = 8;
/// Minimum number of payload bytes that an error must quote (RFC 792).
pub const MIN_QUOTED_PAYLOAD: usize = 8;

/// ICMP type numbers.
pub mod ty {
    /// Echo reply (RFC 792).
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable (RFC 792).
    pub const UNREACHABLE: u8 = 3;
    /// Source quench (deprecated by RFC 6633).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect (RFC 792).
    pub const REDIRECT: u8 = 5;
    /// Echo request (RFC 792).
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded (RFC 792).
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem (RFC 792).
    pub const PARAMETER_PROBLEM: u8 = 12;
}

/// Codes of destination unreachable (RFC 792, RFC 1122 3.2.2.1, RFC 1812 5.2.7.1).
pub mod unreachable {
    /// The network is unreachable.
    pub const NET: u8 = 0;
    /// The host is unreachable.
    pub const HOST: u8 = 1;
    /// The protocol is unreachable.
    pub const PROTOCOL: u8 = 2;
    /// The port is unreachable.
    pub const PORT: u8 = 3;
    /// Fragmentation needed and DF set. The message contains the next-hop MTU (RFC 1191 4).
    pub const FRAG_NEEDED: u8 = 4;
    /// The source route failed.
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
    /// Type of the message.
    pub ty: u8,
    /// Code within the type.
    pub code: u8,
    /// Checksum as received.
    pub checksum: u16,
    /// Four bytes that depend on the type.
    pub rest: [u8; 4],
}

impl Header {
    /// Parses the first 8 bytes; fails only if there are fewer.
    #[inline]
    pub fn parse(message: &[u8]) -> Result<Header, Malformed> {
        let Some(&[ty, code, c0, c1, r0, r1, r2, r3]) = message.first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::truncated(Layer::Icmp4, HEADER_LEN, message.len()));
        };
        Ok(Header { ty, code, checksum: u16::from_be_bytes([c0, c1]), rest: [r0, r1, r2, r3] })
    }

    /// Returns the two 16-bit words of `rest`.
    #[inline]
    const fn words(&self) -> (u16, u16) {
        let [a, b, c, d] = self.rest;
        (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
    }
}

/// The packet quoted in an ICMP error. It was sent by this host, or is claimed to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inner<'a> {
    /// IPv4 header of the quoted packet. Its total length is as sent, and may exceed the quoted
    /// bytes.
    pub header: ip4::Header,
    /// Quoted bytes after the header: at least 8, and at most the payload of the original packet.
    pub payload: &'a [u8],
}

impl<'a> Inner<'a> {
    /// Parses a quoted packet. Fails with [`Malformed`] if the header is incomplete or fewer than 8
    /// bytes follow it.
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

/// An ICMP message with a verified checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// A request to send the data back.
    EchoRequest {
        /// Identifier chosen by the sender.
        ident: u16,
        /// Sequence number of the request.
        seq: u16,
        /// Data to be returned unchanged.
        payload: &'a [u8],
    },
    /// The reply to an echo request.
    EchoReply {
        /// Identifier of the request.
        ident: u16,
        /// Sequence number of the request.
        seq: u16,
        /// Data of the request.
        payload: &'a [u8],
    },
    /// Destination unreachable (RFC 792).
    Unreachable {
        /// See [`mod@unreachable`].
        code: u8,
        /// Next-hop MTU, meaningful for [`unreachable::FRAG_NEEDED`]; 0 from routers older than RFC
        /// 1191.
        next_mtu: u16,
        /// Packet that caused the error.
        inner: Inner<'a>,
    },
    /// Time exceeded (RFC 792).
    TimeExceeded {
        /// See [`time_exceeded`].
        code: u8,
        /// Packet that caused the error.
        inner: Inner<'a>,
    },
    /// Redirect to a better first hop.
    Redirect {
        /// Packets that are redirected. 0: to the network; 1: to the host; 2 and 3: to the network
        /// or the host, with the quoted packet's type of service only (RFC 792).
        code: u8,
        /// Address of the better first hop.
        gateway: Ipv4Addr,
        /// Packet that caused the redirect.
        inner: Inner<'a>,
    },
    /// Parameter problem (RFC 792).
    ParameterProblem {
        /// Offset of the octet in the quoted header that has the problem (code 0).
        pointer: u8,
        /// Packet that caused the error.
        inner: Inner<'a>,
    },
    /// Source quench: ignored (RFC 6633 3), so its contents are not parsed.
    SourceQuench,
    /// A message of any other type.
    Other {
        /// Type of the message.
        ty: u8,
        /// Code within the type.
        code: u8,
    },
}

impl<'a> Message<'a> {
    /// Parses a whole message and verifies its checksum. `message` is the IP payload without
    /// padding.
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
