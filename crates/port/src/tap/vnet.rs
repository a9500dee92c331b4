//! `struct virtio_net_hdr` (virtio 1.2, 5.1.6), in the machine's byte order as a legacy TAP has it.

use crate::os::tun::VNET_HDR_LEN;

/// `flags`: the checksum at csum_start + csum_offset is open.
pub const NEEDS_CSUM: u8 = 1;
/// `flags`: the checksum has been verified.
pub const DATA_VALID: u8 = 2;
/// `gso_type`: one frame as it is.
pub const GSO_NONE: u8 = 0;
/// `gso_type`: a large TCP segment over IPv4.
pub const GSO_TCPV4: u8 = 1;
/// `gso_type`, beside another: with CWR, for the first piece only.
pub const GSO_ECN: u8 = 0x80;

/// The header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub flags: u8,
    pub gso_type: u8,
    pub hdr_len: u16,
    pub gso_size: u16,
    pub csum_start: u16,
    pub csum_offset: u16,
}

impl Header {
    /// Nothing special.
    pub const NONE: Header =
        Header { flags: 0, gso_type: GSO_NONE, hdr_len: 0, gso_size: 0, csum_start: 0, csum_offset: 0 };

    pub fn parse(&[flags, gso_type, h0, h1, g0, g1, s0, s1, o0, o1]: &[u8; VNET_HDR_LEN]) -> Header {
        Header {
            flags,
            gso_type,
            hdr_len: u16::from_ne_bytes([h0, h1]),
            gso_size: u16::from_ne_bytes([g0, g1]),
            csum_start: u16::from_ne_bytes([s0, s1]),
            csum_offset: u16::from_ne_bytes([o0, o1]),
        }
    }

    pub fn emit(&self) -> [u8; VNET_HDR_LEN] {
        let [h0, h1] = self.hdr_len.to_ne_bytes();
        let [g0, g1] = self.gso_size.to_ne_bytes();
        let [s0, s1] = self.csum_start.to_ne_bytes();
        let [o0, o1] = self.csum_offset.to_ne_bytes();
        [self.flags, self.gso_type, h0, h1, g0, g1, s0, s1, o0, o1]
    }
}
