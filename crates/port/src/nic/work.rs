//! Offloads of the card: verifying received checksums, and inserting and removing VLAN tags.

use crate::offload::{l3_place, l4_place};
use buf::{Flags, Frame};
use wire::checksum::{self, Partial};
use wire::{Proto, eth, ip4, ip6, vlan};

/// Bytes of the two MAC addresses in front of a tag.
const ADDRESSES: usize = 12;

/// Verifies the checksums of a received frame. Returns flags for those that are correct. A frame
/// with a wrong checksum is not dropped here: the host detects and counts it.
pub(super) fn verify(frame: &[u8]) -> Flags {
    let Some((ethertype, l3)) = l3_place(frame) else { return Flags::default() };
    let Some(packet) = frame.get(l3..) else { return Flags::default() };
    let mut found = Flags::default();
    let pseudo = match ethertype {
        eth::EtherType::IPV4 => {
            let Ok(header) = ip4::Header::parse(packet) else { return found };
            if !ip4::header_checksum_ok(packet, header.ihl_len) {
                return found;
            }
            found = Flags::RX_IP_OK;
            let len = header.total_len.wrapping_sub(header.ihl_len as u16);
            Partial::pseudo4(header.src, header.dst, header.proto, len)
        }
        eth::EtherType::IPV6 => {
            let Ok(header) = ip6::Header::parse(packet) else { return found };
            let Some(place) = l4_place(frame) else { return found };
            let proto = if place.field - place.start == 6 { Proto::UDP } else { Proto::TCP };
            Partial::pseudo6(header.src, header.dst, proto, (place.end - place.start) as u32)
        }
        _ => return found,
    };
    match l4_place(frame) {
        Some(place) if is_right(frame, place.start, place.field, place.end, pseudo) => found.with(Flags::RX_L4_OK),
        _ => found,
    }
}

/// Returns whether the transport checksum is correct. A UDP checksum of 0 means that there is none
/// (RFC 768), so it is not verified.
fn is_right(frame: &[u8], start: usize, field: usize, end: usize, pseudo: Partial) -> bool {
    let none = field - start == 6 && frame.get(field..field + 2) == Some(&[0, 0]);
    !none && frame.get(start..end).is_some_and(|segment| pseudo.add(checksum::sum(segment)).finish() == 0)
}

/// Appends `bytes` to `frame` with a tag of VLAN `vid` inserted. Returns `None` if the buffer is
/// too small or `bytes` is not a frame; the contents of `frame` are then unspecified.
pub(super) fn extend_tagged(frame: &mut Frame, bytes: &[u8], vid: u16) -> Option<()> {
    let (addresses, rest) = bytes.split_at_checked(ADDRESSES)?;
    let [high, low] = vid.to_be_bytes();
    frame.extend(addresses)?;
    frame.extend(&[0x81, 0x00, high, low])?;
    frame.extend(rest)
}

/// Appends `bytes` to `frame` without the VLAN tag that they contain. Returns `None`, and leaves
/// `frame` unchanged, if they have no tag of VLAN `vid` or the buffer is too small.
pub(super) fn extend_untagged(frame: &mut Frame, bytes: &[u8], vid: u16) -> Option<()> {
    eth::Header::parse(bytes).ok().filter(|header| header.ethertype.is_tag())?;
    vlan::Tag::parse(bytes.get(eth::HEADER_LEN..)?).ok().filter(|tag| tag.vid == vid)?;
    let (addresses, rest) = (bytes.get(..ADDRESSES)?, bytes.get(ADDRESSES + vlan::TAG_LEN..)?);
    if frame.tailroom() < addresses.len() + rest.len() {
        return None;
    }
    frame.extend(addresses)?;
    frame.extend(rest)
}
