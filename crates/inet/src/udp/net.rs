//! Cached UDP headers of each family, and the header fields that differ from one datagram to the
//! next.

use super::cache::{Checksum, FOUR, HeaderCache, Kept, SIX};
use super::ends::OfPcb;
use super::pcb::{Pcb, Rest};
use crate::family::Family;
use buf::Flags;
use lock::Locks;
use wire::checksum::{self, Partial};
use wire::{L4Port, ip4, udp};

/// Address family, as used by UDP output with `N` bytes of Ethernet, IP and UDP headers.
pub(super) trait Net<const N: usize>: Family + OfPcb {
    /// Returns the cached headers of a socket.
    fn kept(rest: &mut Rest) -> Option<&mut HeaderCache<Self, N>>;
    /// Stores the cached headers of a socket.
    fn keep(rest: &mut Rest, cache: HeaderCache<Self, N>);
    /// Updates the fields of cached IP headers that differ from one datagram to the next.
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

    #[cfg_attr(not(debug_assertions), inline(always))]
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

impl<A: Net<N>, const N: usize> HeaderCache<A, N> {
    /// Returns whether the cached headers are valid for a datagram of `len` bytes to `dst`.
    /// `chosen` is the source address that the application specified; 0 if the stack selects it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn fits(&self, epoch: u64, chosen: A, dst: A, port: L4Port, len: usize) -> bool {
        self.epoch == epoch
            && self.port == port
            && self.dst == dst
            && self.chosen == chosen
            && len <= usize::from(self.room)
    }

    /// Writes a datagram: the cached headers with their updated fields, and the payload.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn emit(&mut self, bytes: &mut [u8], payload: &[u8]) -> Option<()> {
        let (headers, room) = bytes.split_first_chunk_mut::<N>()?;
        let sum = match self.checksum {
            Checksum::Ours => checksum::sum(payload),
            Checksum::Port | Checksum::Nobody => Partial::ZERO,
        };
        checksum::copy(room, payload);
        let udp_len = (payload.len() + udp::HEADER_LEN) as u16;
        *headers = self.headers;
        A::patch(self, headers, udp_len);
        let [.., len0, len1, sum0, sum1] = headers.as_mut_slice() else { return None };
        [*len0, *len1] = udp_len.to_be_bytes();
        match self.checksum {
            Checksum::Ours => {
                // The length is added twice, since it is in the pseudo header and in the UDP
                // header.
                let sum = self.udp_sum.add(sum).add_u16(udp_len).add_u16(udp_len).finish_nonzero();
                [*sum0, *sum1] = sum.to_be_bytes();
            }
            Checksum::Port => {
                // The checksum field contains the sum of the pseudo header without the final
                // complement, as virtio and BSD's csum_data require.
                let pseudo = !self.udp_sum.add_u16(udp_len).finish();
                [*sum0, *sum1] = pseudo.to_be_bytes();
            }
            Checksum::Nobody => {}
        }
        Some(())
    }
}

impl<L: Locks> Pcb<L> {
    /// Returns the headers cached from the previous datagram, if it was of this family.
    #[inline(always)]
    pub(super) fn cache<A: Net<N>, const N: usize>(&mut self) -> Option<&mut HeaderCache<A, N>> {
        self.rest.as_mut().and_then(|rest| A::kept(rest))
    }
}
