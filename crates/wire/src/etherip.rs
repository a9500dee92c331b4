//! EtherIP: an Ethernet frame in an IP packet, protocol 97 (RFC 3378).
//!
//! The header is a version and twelve zero bits; the frame after it has no FCS.

use crate::{Layer, Malformed};

#[cfg(test)]
mod tests;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 2;

/// The header: version 3, the rest reserved and zero (RFC 3378 3).
pub const HEADER: [u8; HEADER_LEN] = [0x30, 0];

/// Checks the header at the start of an IP payload.
///
/// # Errors
/// The header is truncated, has another version, or has reserved bits set: such packets must be
/// discarded (RFC 3378 3).
pub fn check(payload: &[u8]) -> Result<(), Malformed> {
    match payload.first_chunk::<HEADER_LEN>() {
        None => Err(Malformed::truncated(Layer::EtherIp, HEADER_LEN, payload.len())),
        Some(&HEADER) => Ok(()),
        Some(&[first, _]) if first >> 4 != 3 => Err(Malformed::BadVersion { layer: Layer::EtherIp, found: first >> 4 }),
        Some(&header) => Err(Malformed::BadFlags { layer: Layer::EtherIp, found: u16::from_be_bytes(header) }),
    }
}
