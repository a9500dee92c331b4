//! Cached headers of a socket's previous datagram: Ethernet, IP and UDP, with their checksums.

use crate::iface::{IfaceId, LOOPBACK};
use buf::Flags;
use wire::checksum::Partial;
use wire::eth;
use wire::{L4Port, ip4, ip6, udp};

/// Total length in bytes of the Ethernet, IPv4 and UDP headers.
pub(super) const FOUR: usize = eth::HEADER_LEN + ip4::HEADER_LEN + udp::HEADER_LEN;
/// Total length in bytes of the Ethernet, IPv6 and UDP headers.
pub(super) const SIX: usize = eth::HEADER_LEN + ip6::HEADER_LEN + udp::HEADER_LEN;

/// Headers of the previous datagram, for reuse if nothing has changed. They have `N` bytes. `A` is
/// the integer type of the family's addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderCache<A, const N: usize> {
    pub(super) epoch: u64, // 0 if the cache is empty
    pub(super) chosen: A,  // source address given by the sender; 0 if the stack selects it
    pub(super) dst: A,
    pub(super) port: L4Port,
    pub(super) iface: IfaceId,
    pub(super) id: u16,   // IPv4 only
    pub(super) room: u16, // maximum payload in bytes without fragmentation
    pub(super) flags: Flags,
    pub(super) checksum: Checksum,
    pub(super) headers: [u8; N],
    pub(super) ip_sum: Partial, // IPv4 only
    pub(super) udp_sum: Partial,
}

/// Component that computes the UDP checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Checksum {
    /// This host computes the checksum.
    Ours,
    /// The port computes the checksum.
    Port,
    /// The checksum is not computed and is sent as 0.
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

/// Cached headers of a socket, for the address family of its last sent datagram.
#[derive(Clone, Debug, Default)]
pub(crate) enum Kept {
    #[default]
    Nothing,
    V4(HeaderCache<u32, FOUR>),
    V6(Box<HeaderCache<u128, SIX>>),
}
