//! Headers that a socket keeps from one datagram to the next: Ethernet, IP and UDP, with their checksum sums.

use crate::iface::{IfaceId, LOOPBACK};
use buf::Flags;
use wire::checksum::Partial;
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
