//! Finds the offset of a packet's upper layer without checking the headers in front of it. Hashes,
//! field access and filters use it; the input path of hosts does not.

use crate::{Proto, ip4, ip6};

/// Maximum number of IPv6 extension headers skipped. Captures may have more than a host accepts
/// ([`ip6::MAX_EXTENSIONS`]).
const CHAIN_MAX: usize = 64;

/// Position of a packet's upper layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Upper {
    /// Protocol of the upper layer; for a later fragment, the protocol in the Fragment header.
    pub proto: u8,
    /// Offset of the upper layer.
    pub at: usize,
    /// Fragment information; `None` if the packet is not a fragment.
    pub fragment: Option<Fragment>,
}

/// Fragment information of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fragment {
    pub id: u32,
    pub is_first: bool,
}

/// Finds the upper layer of an IPv4 packet; `None` if the header is incomplete.
#[inline]
pub(crate) fn upper4(packet: &[u8]) -> Option<Upper> {
    let [first, _, _, _, id_high, id_low, high, low, _, proto, ..] = *packet.first_chunk::<{ ip4::HEADER_LEN }>()?;
    let at = (usize::from(first & 0x0f) * 4).max(ip4::HEADER_LEN);
    let (more, offset) = (high & 0x20 != 0, u16::from_be_bytes([high & 0x1f, low]));
    let fragment = Fragment { id: u16::from_be_bytes([id_high, id_low]).into(), is_first: offset == 0 };
    Some(Upper { proto, at, fragment: (more || offset != 0).then_some(fragment) })
}

/// Finds the upper layer of an IPv6 packet, after its extension headers. If the chain of headers is
/// truncated, returns the last position that was reached.
#[inline]
pub(crate) fn upper6(packet: &[u8]) -> Option<Upper> {
    let proto = *packet.get(6)?;
    let upper = Upper { proto, at: ip6::HEADER_LEN, fragment: None };
    Some(if is_extension(proto) { behind(packet, upper) } else { upper })
}

/// Returns whether `proto` is an IPv6 extension header in IANA's registry (RFC 7045), except ESP,
/// which encrypts its contents.
#[inline]
fn is_extension(proto: u8) -> bool {
    matches!(
        Proto(proto),
        Proto::HOP_BY_HOP
            | Proto::ROUTING
            | Proto::FRAGMENT
            | Proto::DEST_OPTIONS
            | Proto::AUTH
            | Proto::MOBILITY
            | Proto::HIP
            | Proto::SHIM6
    )
}

#[cold]
fn behind(packet: &[u8], mut upper: Upper) -> Upper {
    for _ in 0..CHAIN_MAX {
        if !is_extension(upper.proto) {
            break;
        }
        let header = packet.get(upper.at..).and_then(|rest| rest.first_chunk());
        let Some([next, len, high, low, i, j, k, l]) = header.copied() else { break };
        let len = usize::from(len);
        upper.at += match Proto(upper.proto) {
            Proto::FRAGMENT => 8,
            Proto::AUTH => (len + 2) * 4, // RFC 4302 2.2
            _ => (len + 1) * 8,           // RFC 8200 4.3
        };
        if Proto(upper.proto) == Proto::FRAGMENT {
            let word = u16::from_be_bytes([high, low]);
            let (id, is_first, is_whole) = (u32::from_be_bytes([i, j, k, l]), word & 0xfff8 == 0, word & 0xfff9 == 0);
            // Offset 0 without more fragments is a whole packet (RFC 6946).
            upper.fragment = (!is_whole).then_some(Fragment { id, is_first });
            if !is_first {
                upper.proto = next;
                break;
            }
        }
        upper.proto = next;
    }
    upper
}
