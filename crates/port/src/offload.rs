//! Checksum work that a host left to its port: where it is, and how to do it where the device cannot.
//!
//! A frame flagged `TX_L4_CSUM` carries in its TCP or UDP checksum field the pseudo header's sum, folded and not
//! complemented, as Linux (`CHECKSUM_PARTIAL`) and virtio (`NEEDS_CSUM`) have it: then the field takes part in the sum
//! and whoever finishes needs no addresses.

pub mod gso;
pub(crate) mod large;
pub mod soft;
pub(crate) mod virtio;

use buf::{Flags, Frame};
use wire::checksum::{self, Partial};
use wire::{Proto, eth, ip4, ip6, vlan};

/// What to do with checksums that the kernel left open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RxCsum {
    /// Close them here.
    Complete,
    /// Mark them verified and leave them open (`TX_L4_CSUM`): what passes the frame on to a wire closes them.
    #[default]
    Trust,
    /// Have the kernel close them, and verify them like any other.
    Off,
}

/// Where an open checksum is: byte offsets from the frame's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct L4Place {
    /// The transport header's first byte.
    pub start: usize,
    /// The checksum field's first byte.
    pub field: usize,
    /// One past the last byte that is summed.
    pub end: usize,
}

/// Offset of the checksum in a TCP header.
const TCP_FIELD: usize = 16;

/// The TCP or UDP checksum of an Ethernet frame, under at most two VLAN tags; `None`: no such thing in there whole.
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

/// The network header's EtherType and offset.
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

/// Recognizes a checksum that the sender's kernel left open, where nothing but the frame's bytes tells: the field holds the pseudo
/// header's sum. That of a frame whose checksum is made does so once in 65,536 times, and closing it makes the same value again.
#[inline]
pub(crate) fn note_open(frame: &mut Frame, rx_csum: RxCsum) {
    if is_open(frame.bytes()) != Some(true) {
        return;
    }
    frame.set_flags(frame.flags().with(Flags::RX_L4_OK).with(Flags::TX_L4_CSUM));
    if rx_csum == RxCsum::Complete {
        let _ = complete(frame); // the place was found
    }
}

/// Whether the TCP or UDP checksum field holds the pseudo header's sum; `None`: there is none.
fn is_open(frame: &[u8]) -> Option<bool> {
    let place = l4_place(frame)?;
    let (ethertype, l3) = l3_place(frame)?;
    let (packet, len) = (frame.get(l3..)?, place.end - place.start);
    let pseudo = if ethertype == eth::EtherType::IPV4 {
        let header = ip4::Header::parse(packet).ok()?;
        Partial::pseudo4(header.src, header.dst, header.proto, len as u16) // within a packet of 65,535 bytes
    } else {
        let header = ip6::Header::parse(packet).ok()?;
        let proto = if place.field - place.start == TCP_FIELD { Proto::TCP } else { Proto::UDP };
        Partial::pseudo6(header.src, header.dst, proto, len as u32)
    };
    let field: &[u8; 2] = frame.get(place.field..)?.first_chunk()?;
    Some(u16::from_be_bytes(*field) == open_field(pseudo))
}

/// Closes the open checksum at `place`; `None` (and no change) if that lies outside the frame.
pub fn complete_l4(frame: &mut [u8], place: L4Place) -> Option<()> {
    let sum = checksum::sum(frame.get(place.start..place.end)?).finish_nonzero();
    frame.get_mut(place.field..place.field + 2)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// What an open checksum field holds: the pseudo header's sum, not complemented.
pub fn open_field(pseudo: Partial) -> u16 {
    !pseudo.finish()
}

/// Fills in the IPv4 header checksum; `None`: no whole IPv4 header in there.
pub fn fill_ip(frame: &mut [u8]) -> Option<()> {
    let (ethertype, at) = l3_place(frame)?;
    let header = ip4::Header::parse(frame.get(at..)?).ok().filter(|_| ethertype == eth::EtherType::IPV4)?;
    ip4::fill_checksum(frame.get_mut(at..at + header.ihl_len)?);
    Some(())
}

/// Does in software what the frame's flags ask of its port; `None`: its headers are not such that it can be done.
pub fn complete(frame: &mut Frame) -> Option<()> {
    let asked = frame.flags().has(Flags::TX_IP_CSUM) || frame.flags().has(Flags::TX_L4_CSUM);
    if asked && !frame.make_own() {
        return None; // lent, and no buffer to write in
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
