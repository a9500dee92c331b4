//! Headers that a socket keeps from one datagram to the next: Ethernet, IP and UDP, with their checksum sums.

use super::Rest;
use super::net::Net;
use crate::iface::{IfaceId, LOOPBACK};
use buf::Flags;
use wire::checksum::{self, Partial};
use wire::eth;
use wire::{L4Port, ip4, ip6, udp};

/// Bytes of the three headers of IPv4.
pub(super) const FOUR: usize = eth::HEADER_LEN + ip4::HEADER_LEN + udp::HEADER_LEN;
/// Bytes of the three headers of IPv6.
pub(super) const SIX: usize = eth::HEADER_LEN + ip6::HEADER_LEN + udp::HEADER_LEN;

/// Headers of the datagram before, good for the next if nothing has changed: `N` bytes, of the family whose addresses have
/// the bits `A`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderCache<A, const N: usize> {
    pub(super) epoch: u64, // 0: nothing kept
    pub(super) chosen: A,  // the sender's choice of a source; 0: the stack's
    pub(super) dst: A,
    pub(super) port: L4Port,
    pub(super) iface: IfaceId,
    pub(super) id: u16,   // of IPv4
    pub(super) room: u16, // the longest payload that needs no fragments
    pub(super) flags: Flags,
    pub(super) checksum: Checksum,
    pub(super) headers: [u8; N],
    pub(super) ip_sum: Partial, // of IPv4
    pub(super) udp_sum: Partial,
}

/// Computation of the UDP checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Checksum {
    /// This host.
    Ours,
    /// The port.
    Port,
    /// Nobody.
    Nobody,
}

impl<A: Default, const N: usize> Default for HeaderCache<A, N> {
    fn default() -> HeaderCache<A, N> {
        HeaderCache {
            epoch: 0,
            chosen: A::default(),
            dst: A::default(),
            port: L4Port(0),
            iface: LOOPBACK,
            id: 0,
            room: 0,
            flags: Flags::default(),
            checksum: Checksum::Ours,
            headers: [0; N],
            ip_sum: Partial::ZERO,
            udp_sum: Partial::ZERO,
        }
    }
}

impl<A: Net<N>, const N: usize> HeaderCache<A, N> {
    /// Returns whether the headers are those of a datagram of `len` bytes to `dst` from `chosen`, or
    /// from the stack's choice if that is 0.
    #[inline(always)]
    pub(super) fn fits(&self, epoch: u64, chosen: A, dst: A, port: L4Port, len: usize) -> bool {
        self.epoch == epoch
            && self.port == port
            && self.dst == dst
            && self.chosen == chosen
            && len <= usize::from(self.room)
    }

    /// Writes a datagram: the kept headers, with what differs from one to the next, and the payload.
    #[inline(always)]
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
                // The length stands in the pseudo header and in the header.
                let sum = self.udp_sum.add(sum).add_u16(udp_len).add_u16(udp_len).finish_nonzero();
                [*sum0, *sum1] = sum.to_be_bytes();
            }
            Checksum::Port => {
                // The field holds the pseudo header's sum, not complemented (as virtio and BSD's csum_data want it).
                let pseudo = !self.udp_sum.add_u16(udp_len).finish();
                [*sum0, *sum1] = pseudo.to_be_bytes();
            }
            Checksum::Nobody => {}
        }
        Some(())
    }
}

/// Headers that a socket has kept, of the family that it last sent.
#[derive(Clone, Debug, Default)]
pub(crate) enum Kept {
    /// None.
    #[default]
    Nothing,
    /// Of IPv4.
    V4(HeaderCache<u32, FOUR>),
    /// Of IPv6.
    V6(Box<HeaderCache<u128, SIX>>),
}

impl Rest {
    /// Forgets the kept headers.
    pub(super) fn forget_headers(&mut self) {
        self.kept = Kept::Nothing;
    }
}
