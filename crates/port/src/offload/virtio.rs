//! `struct virtio_net_hdr` (virtio 1.2, 5.1.6), in native byte order as for a legacy TAP and a
//! packet socket. Headers of received frames are converted to frame flags, and flags of frames to
//! send are converted to headers.

use super::{L4Place, RxCsum, gso};
use crate::os::tun::VNET_HDR_LEN;
use buf::{Flags, Frame};
use wire::eth::EtherType;
use wire::tcp;

/// Bit of `flags`: the checksum at csum_start + csum_offset is open.
pub const NEEDS_CSUM: u8 = 1;
/// Bit of `flags`: the checksum has been verified.
pub const DATA_VALID: u8 = 2;
/// Value of `gso_type`: a single packet that must not be split.
pub const GSO_NONE: u8 = 0;
/// Value of `gso_type`: a large TCP segment over IPv4.
pub const GSO_TCPV4: u8 = 1;
/// Value of `gso_type`: a large TCP segment over IPv6.
pub const GSO_TCPV6: u8 = 4;
/// Bit of `gso_type`, combined with another value: the segment has the TCP flag CWR set, which only
/// the first piece keeps.
pub const GSO_ECN: u8 = 0x80;

/// Fields of the `virtio_net_hdr` in front of a frame.
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
    /// Header without any requests.
    pub const NONE: Header =
        Header { flags: 0, gso_type: GSO_NONE, hdr_len: 0, gso_size: 0, csum_start: 0, csum_offset: 0 };

    /// Returns the header with its offsets moved by `n` bytes, for a packet with `n` more bytes in
    /// front. An unused offset is 0, and stays 0 if `n` is negative.
    pub fn moved_by(self, n: i16) -> Header {
        Header {
            hdr_len: self.hdr_len.saturating_add_signed(n),
            csum_start: self.csum_start.saturating_add_signed(n),
            ..self
        }
    }

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

/// Applies the header of a received frame: completes its checksum or sets its flags. Returns `None`
/// if the header is inconsistent or uses a feature that was not negotiated. `largest` is the length
/// of the longest large segment accepted (0 if none are accepted).
pub fn understand(header: &Header, frame: &mut Frame, rx_csum: RxCsum, largest: usize) -> Option<()> {
    match header.gso_type & !GSO_ECN {
        GSO_NONE => {}
        GSO_TCPV4 | GSO_TCPV6 if frame.len() <= largest && header.gso_size > 0 => {
            frame.set_gso_size(header.gso_size);
            gso::places(frame)?;
        }
        _ => return None, // other types are never negotiated
    }
    if header.flags & NEEDS_CSUM != 0 {
        let start = usize::from(header.csum_start);
        let place = L4Place { start, field: start + usize::from(header.csum_offset), end: frame.len() };
        if place.field + 2 > frame.len() {
            return None;
        }
        // In a tunnelled packet the innermost checksum is open, and only the virtio header locates
        // it.
        let outermost = super::l4_place(frame.bytes()).is_some_and(|own| own.start == start);
        if rx_csum == RxCsum::Trust && outermost {
            frame.set_flags(frame.flags().with(Flags::TX_L4_CSUM));
        } else {
            super::complete_l4(frame.make_own().then(|| frame.bytes_mut())?, place)?;
        }
    }
    if header.flags & (NEEDS_CSUM | DATA_VALID) != 0 {
        // DATA_VALID does not cover the IPv4 header checksum (virtio 1.2, 5.1.6.4), which may be
        // wrong in a bridged frame.
        frame.set_flags(frame.flags().with(Flags::RX_L4_OK));
    }
    Some(())
}

/// Prepares a frame for sending: computes the checksums that the kernel does not compute, and
/// returns a header that requests the remaining offloads. If `csum` is true, the kernel computes
/// TCP and UDP checksums and splits large segments. Returns `None` if the frame's headers do not
/// allow the requested offloads.
pub fn prepare(frame: &mut Frame, csum: bool) -> Option<Header> {
    let l4 = frame.flags().has(Flags::TX_L4_CSUM);
    let large = frame.gso_size();
    if large.is_some() && !l4 {
        return None; // the kernel splits only segments with an open checksum
    }
    if !csum || !l4 {
        super::complete(frame)?;
        return Some(Header::NONE);
    }
    if frame.flags().has(Flags::TX_IP_CSUM) {
        super::fill_ip(frame.bytes_mut())?;
        frame.set_flags(frame.flags().without(Flags::TX_IP_CSUM));
    }
    let place = super::l4_place(frame.bytes())?;
    // The kernel would include bytes after the packet in the checksum, so Ethernet padding is
    // removed.
    frame.truncate(place.end);
    let header = Header {
        flags: NEEDS_CSUM,
        csum_start: place.start as u16, // a frame's headers lie within its first 64 KiB
        csum_offset: (place.field - place.start) as u16,
        ..Header::NONE
    };
    let Some(gso_size) = large else { return Some(header) };
    let (l4, text) = gso::places(frame)?;
    if frame.len() - text <= usize::from(gso_size) {
        return Some(header); // the payload fits into one packet
    }
    let reduced = frame.bytes().get(l4 + 13).is_some_and(|flags| tcp::Flags(*flags).contains(tcp::Flags::CWR));
    let is_six = super::l3_place(frame.bytes()).is_some_and(|(ethertype, _)| ethertype == EtherType::IPV6);
    let gso_type = if is_six { GSO_TCPV6 } else { GSO_TCPV4 } | if reduced { GSO_ECN } else { 0 };
    Some(Header { gso_type, gso_size, hdr_len: text as u16, ..header })
}
