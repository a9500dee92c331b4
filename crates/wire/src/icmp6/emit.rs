//! Writes ICMPv6 messages. `inet` decides which packets are answered, and how often (RFC 4443 2.4).

use super::header::{HEADER_LEN, checksum_of};
use super::ty;
use crate::checksum::update16;
use core::net::Ipv6Addr;

/// The problem that an ICMPv6 error reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Problem {
    /// Destination unreachable (RFC 4443 3.1).
    Unreachable {
        /// See [`mod@super::unreachable`].
        code: u8,
    },
    /// Packet too big (RFC 4443 3.2).
    TooBig {
        /// MTU of the next link in bytes.
        mtu: u32,
    },
    /// Time exceeded (RFC 4443 3.3).
    TimeExceeded {
        /// See [`super::time_exceeded`].
        code: u8,
    },
    /// Parameter problem (RFC 4443 3.4).
    Parameter {
        /// See [`super::parameter`].
        code: u8,
        /// Byte offset of the problem in the quoted packet.
        pointer: u32,
    },
}

impl Problem {
    fn header(self) -> (u8, u8, u32) {
        match self {
            Problem::Unreachable { code } => (ty::UNREACHABLE, code, 0),
            Problem::TooBig { mtu } => (ty::TOO_BIG, 0, mtu),
            Problem::TimeExceeded { code } => (ty::TIME_EXCEEDED, code, 0),
            Problem::Parameter { code, pointer } => (ty::PARAMETER_PROBLEM, code, pointer),
        }
    }
}

/// Writes an ICMPv6 error, with checksum, that quotes `quoted`, the beginning of the offending
/// packet from its IPv6 header on. Returns the length in bytes.
///
/// The caller must limit `quoted` so that the whole packet has at most [`super::MAX_ERROR`] bytes.
/// Returns `None` if `out` is too short.
pub fn emit_error(problem: Problem, (src, dst): (Ipv6Addr, Ipv6Addr), quoted: &[u8], out: &mut [u8]) -> Option<usize> {
    let (ty, code, word) = problem.header();
    emit((ty, code, word), (src, dst), quoted, out)
}

/// Writes an echo message of type [`ty::ECHO_REQUEST`] or [`ty::ECHO_REPLY`]. Returns its length in
/// bytes; `None` if `out` is too short.
pub fn emit_echo(
    ty: u8,
    (ident, seq): (u16, u16),
    (src, dst): (Ipv6Addr, Ipv6Addr),
    payload: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    emit((ty, 0, u32::from(ident) << 16 | u32::from(seq)), (src, dst), payload, out)
}

pub(super) fn emit(
    (ty, code, word): (u8, u8, u32),
    (src, dst): (Ipv6Addr, Ipv6Addr),
    body: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let len = HEADER_LEN.checked_add(body.len())?;
    let message = out.get_mut(..len)?;
    let (header, room) = message.split_first_chunk_mut::<HEADER_LEN>()?;
    let [w0, w1, w2, w3] = word.to_be_bytes();
    *header = [ty, code, 0, 0, w0, w1, w2, w3];
    room.copy_from_slice(body);
    let sum = checksum_of(src, dst, message).to_be_bytes();
    message.get_mut(2..4)?.copy_from_slice(&sum);
    Some(len)
}

/// Turns an echo request into its reply in place: type 128 becomes 129, and the checksum is updated
/// (RFC 1624 3). The caller may swap the packet's addresses, which does not change the checksum,
/// but may not replace them.
///
/// Returns `None`, and writes nothing, if the message is not an echo request.
pub fn echo_reply_in_place(message: &mut [u8]) -> Option<()> {
    let header = message.first_chunk_mut::<HEADER_LEN>()?;
    if header[0] != ty::ECHO_REQUEST {
        return None;
    }
    let code = u16::from(header[1]);
    let (old, new) = (u16::from(ty::ECHO_REQUEST) << 8 | code, u16::from(ty::ECHO_REPLY) << 8);
    let sum = update16(u16::from_be_bytes([header[2], header[3]]), old, new);
    (header[0], header[1]) = (ty::ECHO_REPLY, 0);
    [header[2], header[3]] = sum.to_be_bytes();
    Some(())
}
