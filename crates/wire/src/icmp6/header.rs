//! Length of the header, and the checksum.

use crate::Proto;
use crate::checksum::{self, Partial};
use core::net::Ipv6Addr;

/// Length in bytes of every ICMPv6 header: type, code, checksum and four bytes that depend on the
/// type.
pub const HEADER_LEN: usize = 8;

/// Returns the checksum over a whole message, including its checksum field. The result is 0 if that
/// field is correct.
pub fn checksum_of(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> u16 {
    Partial::pseudo6(src, dst, Proto::IPV6_ICMP, message.len() as u32).add(checksum::sum(message)).finish()
}

/// Fills in the checksum of a whole message. Returns `None` if the message is too short to contain
/// a checksum.
pub fn fill_checksum(src: Ipv6Addr, dst: Ipv6Addr, message: &mut [u8]) -> Option<()> {
    message.get_mut(2..4)?.fill(0);
    let sum = checksum_of(src, dst, message);
    message.get_mut(2..4)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}
