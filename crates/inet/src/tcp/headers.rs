//! Headers below TCP that are the same for all segments of a connection.

use super::queue::Sums;
use crate::iface::{IfaceId, LOOPBACK};
use ::tcp::Out;
use wire::checksum::Partial;
use wire::{eth, ip4, ip6};

pub(super) const LINK: usize = eth::HEADER_LEN;
/// Length in bytes of the link header, the IPv4 header and the fixed TCP header together.
const HEADERS: usize = LINK + ip4::HEADER_LEN + wire::tcp::HEADER_LEN;

/// Maximum length in bytes of the headers below TCP: Ethernet and IPv6.
pub(super) const LOWER_MAX: usize = LINK + ip6::HEADER_LEN;

/// Headers and interface properties that are the same for all segments of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headers {
    pub(super) epoch: u64, // epoch in which the headers were built; 0 if not set
    pub(super) iface: IfaceId,
    /// Number of the interface's transmit queue.
    pub(super) queue: u16,
    /// MTU of the interface in bytes.
    pub(super) mtu: u32,
    pub(super) offload: bool,
    /// True if the port accepts large segments.
    pub(super) tso: bool,
    /// Length of the network header in bytes.
    pub(super) ip_len: u8,
    /// Bytes of the link header and the network header.
    pub(super) bytes: [u8; LOWER_MAX],
    /// Folded checksums of the IP header (`ip_sum`) and of the pseudo header (`pseudo`), with the
    /// length fields set to 0.
    pub(super) ip_sum: u16,
    pub(super) pseudo: u16,
}

/// Queue number of a connection that has not sent anything yet.
pub(super) const NO_QUEUE: u16 = u16::MAX;

impl Default for Headers {
    fn default() -> Headers {
        Headers {
            epoch: 0,
            iface: LOOPBACK,
            queue: NO_QUEUE,
            mtu: 0,
            offload: false,
            tso: false,
            ip_len: 0,
            bytes: [0; LOWER_MAX],
            ip_sum: 0,
            pseudo: 0,
        }
    }
}

/// Headers for segments to the most recent peers, selected by a hash of the address. A new
/// connection to a peer starts with the headers of the previous connection.
#[derive(Debug, Default)]
pub(super) struct Peers(pub(super) [Headers; PEERS]);

pub(super) const PEERS: usize = 8;

impl Headers {
    /// Returns whether routes, neighbors or interfaces have changed since the headers were built.
    #[inline]
    pub(super) fn are_stale(&self, epoch: u64) -> bool {
        self.epoch != epoch
    }

    /// Returns whether the interface only accepts segments that fit into an Ethernet frame of usual
    /// size.
    #[inline]
    pub(super) fn has_ethernet_limits(&self) -> bool {
        !self.tso && self.mtu <= 1500 + HEADERS as u32 + 40
    }

    /// Returns the maximum number of data bytes in a packet or large segment, whatever its options.
    #[inline]
    pub(super) fn most_text(&self) -> u32 {
        let packet = if self.tso { u32::from(u16::MAX) } else { self.mtu };
        packet - u32::from(self.ip_len) - (wire::tcp::HEADER_LEN + wire::tcp::MAX_OPTIONS_LEN) as u32
    }

    /// Returns the maximum number of data bytes in a large segment, a multiple of `mss`; 0 if the
    /// interface does not support large segments.
    #[inline]
    pub(super) fn large_text(&self, mss: usize) -> usize {
        if !self.tso {
            return 0;
        }
        let most = self.most_text() as usize;
        if most < 2 * mss { 0 } else { most - most % mss.max(1) }
    }

    /// Returns which side, the stack or the port, computes the checksums of data that is written
    /// now. `epoch` is the current epoch of the stack.
    #[inline]
    pub(super) fn sums(&self, epoch: u64) -> Sums {
        if self.offload && self.epoch == epoch { Sums::Ports } else { Sums::Ours }
    }

    /// Returns whether `out` fits into one packet, or is a large segment that the port splits.
    #[inline]
    pub(super) fn takes(&self, out: &Out) -> bool {
        let len = usize::from(self.ip_len) + wire::tcp::HEADER_LEN + out.options.len() + out.text_len as usize;
        len <= self.mtu as usize || self.tso && out.is_large()
    }

    /// Returns the outgoing interface.
    #[inline]
    pub(super) fn iface(&self) -> IfaceId {
        self.iface
    }

    /// Returns the transmit queue of the interface.
    #[inline]
    pub(super) fn queue(&self) -> usize {
        usize::from(self.queue)
    }

    /// Returns the MTU of the interface.
    #[inline]
    pub(super) fn mtu(&self) -> usize {
        self.mtu as usize
    }

    /// Returns whether the port computes the checksums.
    #[inline]
    pub(super) fn offload(&self) -> bool {
        self.offload
    }

    /// Returns the partial checksum of the pseudo header for a segment of `segment_len` bytes.
    #[inline]
    pub(super) fn pseudo_of(&self, segment_len: u16) -> Partial {
        Partial::from_folded(self.pseudo).add_u16(segment_len)
    }
}
