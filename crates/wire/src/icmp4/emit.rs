//! Writes ICMP messages. `inet` decides which packets are answered, and how often (RFC 1122 3.2.2,
//! RFC 1812 4.3.2.8).

use super::{HEADER_LEN, ty};
use crate::checksum;
use core::net::Ipv4Addr;

/// The problem that an ICMP error reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Problem {
    /// Destination unreachable (RFC 792).
    Unreachable {
        /// See [`mod@super::unreachable`].
        code: u8,
        /// Next-hop MTU in bytes if `code` is [`super::unreachable::FRAG_NEEDED`] (RFC 1191 4),
        /// otherwise 0.
        next_mtu: u16,
    },
    /// Time exceeded (RFC 792).
    TimeExceeded {
        /// See [`super::time_exceeded`].
        code: u8,
    },
    /// Redirect to a better first hop.
    Redirect {
        /// Packets that are redirected. 0: to the network; 1: to the host; 2 and 3: to the network
        /// or the host, with the quoted packet's type of service only (RFC 792).
        code: u8,
        /// Address of the better first hop.
        gateway: Ipv4Addr,
    },
    /// Parameter problem, code 0.
    ParameterProblem {
        /// Offset of the octet in the quoted header that has the problem.
        pointer: u8,
    },
}

impl Problem {
    fn header(self) -> (u8, u8, [u8; 4]) {
        match self {
            Problem::Unreachable { code, next_mtu } => {
                let [m0, m1] = next_mtu.to_be_bytes();
                (ty::UNREACHABLE, code, [0, 0, m0, m1])
            }
            Problem::TimeExceeded { code } => (ty::TIME_EXCEEDED, code, [0; 4]),
            Problem::Redirect { code, gateway } => (ty::REDIRECT, code, gateway.octets()),
            Problem::ParameterProblem { pointer } => (ty::PARAMETER_PROBLEM, 0, [pointer, 0, 0, 0]),
        }
    }
}

/// Writes an ICMP error that quotes `quoted`, the beginning of the offending packet from its IP
/// header on. Returns the length in bytes.
///
/// The caller must limit `quoted` so that the whole reply has at most 576 bytes (RFC 1812 4.3.2.3).
/// Returns `None` if `out` is too short.
pub fn emit_error(problem: Problem, quoted: &[u8], out: &mut [u8]) -> Option<usize> {
    let (ty, code, rest) = problem.header();
    emit(ty, code, rest, quoted, out)
}

/// Writes an echo message of type [`ty::ECHO_REQUEST`] or [`ty::ECHO_REPLY`]. Returns its length in
/// bytes; `None` if `out` is too short.
pub fn emit_echo(ty: u8, ident: u16, seq: u16, payload: &[u8], out: &mut [u8]) -> Option<usize> {
    let ([i0, i1], [s0, s1]) = (ident.to_be_bytes(), seq.to_be_bytes());
    emit(ty, 0, [i0, i1, s0, s1], payload, out)
}

fn emit(ty: u8, code: u8, rest: [u8; 4], body: &[u8], out: &mut [u8]) -> Option<usize> {
    let len = HEADER_LEN.checked_add(body.len())?;
    let message = out.get_mut(..len)?;
    let (header, room) = message.split_first_chunk_mut::<HEADER_LEN>()?;
    let [r0, r1, r2, r3] = rest;
    *header = [ty, code, 0, 0, r0, r1, r2, r3];
    let total = checksum::sum(header).add(checksum::copy_and_sum(room, body));
    [header[2], header[3]] = total.finish().to_be_bytes();
    Some(len)
}

/// Turns an echo request into its reply in place: type 8 becomes 0 and the checksum is updated (RFC
/// 792, RFC 1624 3).
///
/// Returns `None`, and writes nothing, if the message is not an echo request.
#[inline]
pub fn echo_reply_in_place(message: &mut [u8]) -> Option<()> {
    let header = message.first_chunk_mut::<HEADER_LEN>()?;
    if header[0] != ty::ECHO_REQUEST {
        return None;
    }
    // The sum decreases by 0x0800, so its complement increases by as much, with end-around carry.
    // RFC 1624's equation 3 is not used: for a reply that is all zeros it gives 0x0000, and a sum
    // of zeros alone does not verify.
    let (sum, carry) = u16::from_be_bytes([header[2], header[3]]).overflowing_add(u16::from(ty::ECHO_REQUEST) << 8);
    let sum = sum.wrapping_add(u16::from(carry));
    header[0] = ty::ECHO_REPLY;
    [header[2], header[3]] = sum.to_be_bytes();
    Some(())
}
