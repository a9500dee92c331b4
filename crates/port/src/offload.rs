//! Checksum offload: locates the checksum that a host left to its port, and computes it if the
//! device cannot.
//!
//! A frame flagged `TX_L4_CSUM` contains the pseudo header's sum in its TCP or UDP checksum field,
//! folded and not complemented, as in Linux (`CHECKSUM_PARTIAL`) and virtio (`NEEDS_CSUM`). Such a
//! checksum is called open. The sum over the segment then includes that field, so the checksum can
//! be completed without the addresses.

pub mod gso;
#[cfg(target_os = "linux")]
pub(crate) mod large;
pub mod soft;
#[cfg(target_os = "linux")]
pub(crate) mod virtio;

use buf::{Flags, Frame};
use wire::checksum::{self, Partial};
use wire::{Proto, eth, ip4, ip6, vlan};

/// Handling of open checksums in frames received from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RxCsum {
    /// The port completes the checksums.
    Complete,
    /// The port marks the checksums as verified and leaves them open (`TX_L4_CSUM`). They are
    /// completed when the frame is sent through a port that requires it.
    #[default]
    Trust,
    /// The kernel completes the checksums. They are then verified like those of any other frame.
    Off,
}

/// Position of an open checksum, as byte offsets from the start of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct L4Place {
    /// First byte of the transport header.
    pub start: usize,
    /// First byte of the checksum field.
    pub field: usize,
    /// One past the last byte that the checksum covers.
    pub end: usize,
}

/// Offset of the checksum in a TCP header.
const TCP_FIELD: usize = 16;

/// Returns the position of the TCP or UDP checksum in an Ethernet frame with at most two VLAN tags;
/// `None` if there is no complete TCP or UDP segment.
pub fn l4_place(frame: &[u8]) -> Option<L4Place> {
    let (ethertype, l3) = l3_place(frame)?;
    let packet = frame.get(l3..)?;
    let (proto, start, end) = match ethertype {
        eth::EtherType::IPV4 => {
            let header = ip4::Header::parse(packet).ok().filter(|header| !header.is_fragment())?;
            (header.proto, l3 + header.ihl_len, l3 + usize::from(header.total_len))
        }
        eth::EtherType::IPV6 => {
            let header = ip6::Header::parse(packet).ok()?;
            let chain = ip6::Chain::walk(&header, packet).ok().filter(|chain| chain.fragment.is_none())?;
            (chain.upper, l3 + chain.offset, l3 + ip6::HEADER_LEN + usize::from(header.payload_len))
        }
        _ => return None,
    };
    let field = start
        + match proto {
            Proto::TCP => TCP_FIELD,
            Proto::UDP => 6,
            _ => return None,
        };
    (field + 2 <= end && end <= frame.len()).then_some(L4Place { start, field, end })
}

/// Returns the EtherType and the offset of the network header.
pub(crate) fn l3_place(frame: &[u8]) -> Option<(eth::EtherType, usize)> {
    let mut ethertype = eth::Header::parse(frame).ok()?.ethertype;
    let mut at = eth::HEADER_LEN;
    for _ in 0..2 {
        if !ethertype.is_tag() {
            break;
        }
        ethertype = vlan::Tag::parse(frame.get(at..)?).ok()?.ethertype;
        at += vlan::TAG_LEN;
    }
    Some((ethertype, at))
}

/// Recognizes a checksum that the sender's kernel left open, on devices that do not report it: the
/// checksum field then contains the pseudo header's sum. A completed checksum has this value by
/// chance once in 65,536 times, and completing it again results in the same value.
#[cfg(target_os = "linux")]
#[inline]
pub(crate) fn note_open(frame: &mut Frame, rx_csum: RxCsum) {
    if is_open(frame.bytes()) != Some(true) {
        return;
    }
    frame.set_flags(frame.flags().with(Flags::RX_L4_OK).with(Flags::TX_L4_CSUM));
    if rx_csum == RxCsum::Complete {
        let _ = complete(frame); // cannot fail, because the position is known
    }
}

/// Returns whether the TCP or UDP checksum field contains the pseudo header's sum; `None` if there
/// is no such field.
#[cfg(target_os = "linux")]
fn is_open(frame: &[u8]) -> Option<bool> {
    let place = l4_place(frame)?;
    let (ethertype, l3) = l3_place(frame)?;
    let (packet, len) = (frame.get(l3..)?, place.end - place.start);
    let pseudo = if ethertype == eth::EtherType::IPV4 {
        let header = ip4::Header::parse(packet).ok()?;
        Partial::pseudo4(header.src, header.dst, header.proto, len as u16) // fits: packets have up to 65,535 bytes
    } else {
        let header = ip6::Header::parse(packet).ok()?;
        let proto = if place.field - place.start == TCP_FIELD { Proto::TCP } else { Proto::UDP };
        Partial::pseudo6(header.src, header.dst, proto, len as u32)
    };
    let field: &[u8; 2] = frame.get(place.field..)?.first_chunk()?;
    Some(u16::from_be_bytes(*field) == open_field(pseudo))
}

/// Completes the open checksum at `place`. Returns `None`, without a change, if `place` lies
/// outside the frame.
pub fn complete_l4(frame: &mut [u8], place: L4Place) -> Option<()> {
    let sum = checksum::sum(frame.get(place.start..place.end)?).finish_nonzero();
    frame.get_mut(place.field..place.field + 2)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// Returns the contents of the checksum field while the checksum is open: the pseudo header's sum,
/// not complemented.
pub fn open_field(pseudo: Partial) -> u16 {
    !pseudo.finish()
}

/// Fills in the IPv4 header checksum. Returns `None` if there is no complete IPv4 header.
pub fn fill_ip(frame: &mut [u8]) -> Option<()> {
    let (ethertype, at) = l3_place(frame)?;
    let header = ip4::Header::parse(frame.get(at..)?).ok().filter(|_| ethertype == eth::EtherType::IPV4)?;
    ip4::fill_checksum(frame.get_mut(at..at + header.ihl_len)?);
    Some(())
}

/// Computes the checksums that the frame's flags request. Returns `None` if the frame's headers do
/// not allow it.
pub fn complete(frame: &mut Frame) -> Option<()> {
    let requested = frame.flags().has(Flags::TX_IP_CSUM) || frame.flags().has(Flags::TX_L4_CSUM);
    if requested && !frame.make_own() {
        return None; // the buffer is on loan, and none is free for a copy
    }
    if frame.flags().has(Flags::TX_IP_CSUM) {
        fill_ip(frame.bytes_mut())?;
    }
    if frame.flags().has(Flags::TX_L4_CSUM) {
        let place = l4_place(frame.bytes())?;
        complete_l4(frame.bytes_mut(), place)?;
    }
    frame.set_flags(frame.flags().without(Flags::TX_IP_CSUM).without(Flags::TX_L4_CSUM));
    Some(())
}

#[cfg(test)]
pub(crate) mod tests;
