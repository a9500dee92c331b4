//! ICMP for IPv6: echo and errors (RFC 4443), and the messages of neighbor discovery in [`nd`] (RFC
//! 4861). MLD is in [`crate::mld`].
//!
//! [`Message::parse`] takes an ICMPv6 message and the addresses of its packet, and checks length
//! and checksum (which covers a pseudo header). In an ICMP error it also checks that the quoted
//! packet has its header, its chain of extension headers, and 8 bytes after them. The caller must
//! check that the hop limit is 255 where required, and that the addresses are valid for the
//! message.

use crate::checksum::{self, Partial};
use crate::ip6::{self, Chain};
use crate::{Layer, Malformed, Proto};
use core::net::Ipv6Addr;

pub use emit::{Problem, echo_reply_in_place, emit_echo, emit_error};
pub use header::{HEADER_LEN, checksum_of, fill_checksum};

mod emit;
mod header;
pub mod nd;
#[cfg(test)]
mod tests;
pub mod ty;

/// Minimum number of payload bytes that an error must quote: both L4 ports, or the header of a
/// tunnel. They identify the socket or tunnel that sent the packet.
pub const MIN_QUOTED_PAYLOAD: usize = 8;
/// Maximum length of an ICMP error in bytes, including its IPv6 header (RFC 4443 2.4 c).
pub const MAX_ERROR: usize = 1280;

/// Codes of destination unreachable (RFC 4443 3.1).
pub mod unreachable {
    /// No route to the destination.
    pub const NO_ROUTE: u8 = 0;
    /// Communication administratively prohibited.
    pub const ADMIN_PROHIBITED: u8 = 1;
    /// Beyond the scope of the source address.
    pub const BEYOND_SCOPE: u8 = 2;
    /// The address is unreachable.
    pub const ADDRESS: u8 = 3;
    /// The port is unreachable.
    pub const PORT: u8 = 4;
}

/// Codes of time exceeded (RFC 4443 3.3).
pub mod time_exceeded {
    /// The hop limit reached zero in transit.
    pub const HOP_LIMIT: u8 = 0;
    /// Fragment reassembly time exceeded.
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of parameter problem (RFC 4443 3.4).
pub mod parameter {
    /// A header field with an invalid value.
    pub const FIELD: u8 = 0;
    /// An unknown Next Header value.
    pub const NEXT_HEADER: u8 = 1;
    /// An unknown IPv6 option.
    pub const OPTION: u8 = 2;
    /// A first fragment without the whole chain of headers (RFC 7112 5).
    pub const CUT_CHAIN: u8 = 3;
}

/// Returns whether an ICMPv6 message of this type is an error.
pub const fn is_error(ty: u8) -> bool {
    ty < 128
}

/// Returns whether an IPv6 packet belongs to neighbor discovery or MLD, which hosts and routers
/// send without a request by an application.
pub fn is_link_upkeep(packet: &[u8]) -> bool {
    let Ok(header) = ip6::Header::parse(packet) else { return false };
    let Ok(chain) = ip6::Chain::walk(&header, packet) else { return false };
    let kind = chain.payload(&header, packet).first();
    let is_it = |kind: &u8| (ty::ROUTER_SOLICIT..=ty::REDIRECT).contains(kind) || crate::mld::is_mld(*kind);
    chain.upper == Proto::IPV6_ICMP && kind.is_some_and(is_it)
}

/// The packet quoted in an ICMPv6 error. It was sent by this host, or is claimed to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inner<'a> {
    /// IPv6 header of the quoted packet. Its payload length is as sent, and may exceed the quoted
    /// bytes.
    pub header: ip6::Header,
    /// Protocol after the extension headers.
    pub upper: Proto,
    /// True if the quoted packet is a fragment other than the first: its payload does not begin
    /// with a header.
    pub is_later: bool,
    /// Quoted bytes of the upper layer: at least 8 bytes.
    pub payload: &'a [u8],
}

impl<'a> Inner<'a> {
    /// Parses a quoted packet, which may end after the first 8 bytes of its upper layer.
    pub fn parse(quoted: &'a [u8]) -> Result<Inner<'a>, Malformed> {
        let header = ip6::Header::parse_quoted(quoted)?;
        let here = quoted.len().saturating_sub(ip6::HEADER_LEN).min(usize::from(header.payload_len));
        let cut = ip6::Header { payload_len: here as u16, ..header };
        let chain = Chain::walk(&cut, quoted)?;
        let payload = chain.payload(&cut, quoted);
        if payload.len() < MIN_QUOTED_PAYLOAD {
            return Err(Malformed::truncated(Layer::IcmpInner, chain.offset + MIN_QUOTED_PAYLOAD, quoted.len()));
        }
        let is_later = chain.fragment.is_some_and(|fragment| fragment.offset != 0);
        Ok(Inner { header, upper: chain.upper, is_later, payload })
    }

    /// Returns the length of the whole packet in bytes, as sent.
    pub fn total_len(&self) -> usize {
        ip6::HEADER_LEN + usize::from(self.header.payload_len)
    }
}

/// An ICMPv6 message with a verified checksum.
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
    /// An error about a packet.
    Error {
        /// The problem that the error reports.
        problem: Problem,
        /// Packet that caused the error.
        inner: Inner<'a>,
    },
    /// A message of neighbor discovery.
    Nd(nd::Message<'a>),
    /// A message of any other type, including MLD.
    Other {
        /// Type of the message.
        ty: u8,
        /// Code within the type.
        code: u8,
    },
}

impl<'a> Message<'a> {
    /// Parses a whole message sent from `src` to `dst`, and verifies its checksum.
    pub fn parse(message: &'a [u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<Message<'a>, Malformed> {
        let Some((&[ty, code, _, _, r0, r1, r2, r3], body)) = message.split_first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::truncated(Layer::Icmp6, HEADER_LEN, message.len()));
        };
        let pseudo = Partial::pseudo6(src, dst, Proto::IPV6_ICMP, message.len() as u32);
        if !pseudo.add(checksum::sum(message)).verifies() {
            return Err(Malformed::BadChecksum { layer: Layer::Icmp6 });
        }
        let (ident, seq) = (u16::from_be_bytes([r0, r1]), u16::from_be_bytes([r2, r3]));
        let word = u32::from_be_bytes([r0, r1, r2, r3]);
        let problem = match ty {
            ty::ECHO_REQUEST => return Ok(Message::EchoRequest { ident, seq, payload: body }),
            ty::ECHO_REPLY => return Ok(Message::EchoReply { ident, seq, payload: body }),
            ty::UNREACHABLE => Problem::Unreachable { code },
            ty::TOO_BIG => Problem::TooBig { mtu: word },
            ty::TIME_EXCEEDED => Problem::TimeExceeded { code },
            ty::PARAMETER_PROBLEM => Problem::Parameter { code, pointer: word },
            ty::ROUTER_SOLICIT..=ty::REDIRECT => return Ok(Message::Nd(nd::Message::parse(ty, code, word, body)?)),
            _ => return Ok(Message::Other { ty, code }),
        };
        Ok(Message::Error { problem, inner: Inner::parse(body)? })
    }
}
