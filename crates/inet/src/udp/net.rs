//! The headers that UDP keeps of each family, and their fields that differ from one datagram to the next.

use super::Rest;
use super::cache::{FOUR, HeaderCache, Kept, SIX};
use super::ends::OfPcb;
use crate::family::Family;
use buf::Flags;
use wire::ip4;

/// An address family as UDP sends by it, with `N` bytes of Ethernet, IP and UDP headers.
pub(super) trait Net<const N: usize>: Family + OfPcb {
    /// Returns the headers that a socket has kept.
    fn kept(rest: &mut Rest) -> Option<&mut HeaderCache<Self, N>>;
    /// Lets a socket keep headers.
    fn keep(rest: &mut Rest, cache: HeaderCache<Self, N>);
    /// Writes the fields of kept IP headers that differ from one datagram to the next.
    fn patch(cache: &mut HeaderCache<Self, N>, headers: &mut [u8; N], udp_len: u16);
}

impl Net<FOUR> for u32 {
    #[inline(always)]
    fn kept(rest: &mut Rest) -> Option<&mut HeaderCache<u32, FOUR>> {
        if let Kept::V4(cache) = &mut rest.kept { Some(cache) } else { None }
    }

    fn keep(rest: &mut Rest, cache: HeaderCache<u32, FOUR>) {
        rest.kept = Kept::V4(cache);
    }

    #[inline(always)]
    fn patch(cache: &mut HeaderCache<u32, FOUR>, headers: &mut [u8; FOUR], udp_len: u16) {
        let total_len = udp_len + ip4::HEADER_LEN as u16;
        [headers[16], headers[17]] = total_len.to_be_bytes();
        cache.id = cache.id.wrapping_add(1);
        [headers[18], headers[19]] = cache.id.to_be_bytes();
        if !cache.flags.has(Flags::TX_IP_CSUM) {
            let ip = cache.ip_sum.add_u16(total_len).add_u16(cache.id).finish();
            [headers[24], headers[25]] = ip.to_be_bytes();
        }
    }
}

impl Net<SIX> for u128 {
    #[inline(always)]
    fn kept(rest: &mut Rest) -> Option<&mut HeaderCache<u128, SIX>> {
        if let Kept::V6(cache) = &mut rest.kept { Some(cache) } else { None }
    }

    fn keep(rest: &mut Rest, cache: HeaderCache<u128, SIX>) {
        rest.kept = Kept::V6(Box::new(cache));
    }

    #[inline(always)]
    fn patch(_: &mut HeaderCache<u128, SIX>, headers: &mut [u8; SIX], udp_len: u16) {
        [headers[18], headers[19]] = udp_len.to_be_bytes();
    }
}
