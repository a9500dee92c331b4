//! VXLAN: an Ethernet frame in a UDP datagram (RFC 7348 5).
//!
//! [`Header::parse`] takes the UDP payload, and checks the flag for a valid VNI. Reserved bits are
//! ignored, as the RFC requires.

use crate::{L4Port, Layer, Malformed};

#[cfg(test)]
mod tests;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;
/// UDP port assigned by IANA.
pub const PORT: L4Port = L4Port(4789);
/// Maximum VNI, which has 24 bits.
pub const VNI_MAX: u32 = (1 << 24) - 1;

const VNI_VALID: u8 = 0x08;

/// A VXLAN header (RFC 7348 5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// VXLAN network identifier, 24 bits: the overlay network to which the frame belongs.
    pub vni: u32,
}

impl Header {
    /// Parses a VXLAN header.
    ///
    /// # Errors
    /// The header is truncated, or the I flag is not set.
    pub fn parse(payload: &[u8]) -> Result<Header, Malformed> {
        let Some(&[flags, _, _, _, v0, v1, v2, _]) = payload.first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::truncated(Layer::Vxlan, HEADER_LEN, payload.len()));
        };
        if flags & VNI_VALID == 0 {
            return Err(Malformed::BadFlags { layer: Layer::Vxlan, found: flags.into() });
        }
        Ok(Header { vni: u32::from_be_bytes([0, v0, v1, v2]) })
    }

    /// Writes the header; only the low 24 bits of the VNI are written.
    pub fn emit(&self, out: &mut [u8; HEADER_LEN]) {
        let [_, v0, v1, v2] = self.vni.to_be_bytes();
        *out = [VNI_VALID, 0, 0, 0, v0, v1, v2, 0];
    }
}
