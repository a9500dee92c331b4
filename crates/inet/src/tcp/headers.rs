//! The headers below TCP's that a connection's segments share.

use super::queue::Sums;
use crate::iface::{IfaceId, LOOPBACK};
use ::tcp::Out;
use wire::checksum::Partial;
use wire::{eth, ip4, ip6};

pub(super) const LINK: usize = eth::HEADER_LEN;
/// Link and IPv4 headers and TCP's fixed one.
const HEADERS: usize = LINK + ip4::HEADER_LEN + wire::tcp::HEADER_LEN;

/// Longest headers below TCP's: Ethernet's and IPv6's.
pub(super) const LOWER_MAX: usize = LINK + ip6::HEADER_LEN;

/// Values that all segments of a connection share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headers {
    pub(super) epoch: u64, // 0: nothing kept
    pub(super) iface: IfaceId,
    /// The queue of the iface's port.
    pub(super) queue: u16,
    /// The longest IP packet that the iface takes.
    pub(super) mtu: u32,
    pub(super) offload: bool,
    /// The port takes large segments.
    pub(super) tso: bool,
    /// Bytes of the network header.
    pub(super) ip_len: u8,
    /// Both headers.
    pub(super) bytes: [u8; LOWER_MAX],
    /// Sums of the IP header and of the pseudo header without lengths, folded.
    pub(super) ip_sum: u16,
    pub(super) pseudo: u16,
}

/// The queue of a connection that has sent nothing yet.
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

/// Headers to peers of IPv4 that were sent to last, each at a place by its address: a connection begins with those of the one before it.
#[derive(Debug, Default)]
pub(super) struct Peers(pub(super) [Headers; PEERS]);

pub(super) const PEERS: usize = 8;

impl Headers {
    /// Returns whether routes, neighbors or ifaces have changed since they were made.
    #[inline]
    pub(super) fn are_stale(&self, epoch: u64) -> bool {
        self.epoch != epoch
    }

    /// Returns whether the iface takes no more at once than a segment of Ethernet.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        !self.tso && self.mtu <= 1500 + HEADERS as u32 + 40
    }

    /// The most text in one packet, or one large segment, with whatever options.
    #[inline]
    pub(super) fn most_text(&self) -> u32 {
        let packet = if self.tso { u32::from(u16::MAX) } else { self.mtu };
        packet - u32::from(self.ip_len) - (wire::tcp::HEADER_LEN + wire::tcp::MAX_OPTIONS_LEN) as u32
    }

    /// The text of a large segment: as many of `mss` bytes as it takes; 0: the iface takes none.
    #[inline]
    pub(super) fn large_text(&self, mss: usize) -> usize {
        if !self.tso {
            return 0;
        }
        let most = self.most_text() as usize;
        if most < 2 * mss { 0 } else { most - most % mss.max(1) }
    }

    /// Returns which side computes the checksums of what is written now, as of `epoch`.
    #[inline]
    pub(super) fn sums(&self, epoch: u64) -> Sums {
        if self.offload && self.epoch == epoch { Sums::Ports } else { Sums::Ours }
    }

    /// Returns whether this segment may take the fast path.
    #[inline]
    pub(super) fn takes(&self, out: &Out) -> bool {
        let len = usize::from(self.ip_len) + wire::tcp::HEADER_LEN + out.options.len() + out.text_len as usize;
        len <= self.mtu as usize || self.tso && out.is_large()
    }

    /// The iface that it leaves by.
    #[inline]
    pub(super) fn iface(&self) -> IfaceId {
        self.iface
    }

    /// Returns the queue of the iface's port.
    #[inline]
    pub(super) fn queue(&self) -> usize {
        usize::from(self.queue)
    }

    /// The longest IP packet that the iface takes.
    #[inline]
    pub(super) fn mtu(&self) -> usize {
        self.mtu as usize
    }

    /// Returns whether the port computes the checksums.
    #[inline]
    pub(super) fn offload(&self) -> bool {
        self.offload
    }

    /// The sum of the pseudo header.
    #[inline]
    pub(super) fn pseudo_of(&self, segment_len: u16) -> Partial {
        Partial::from_folded(self.pseudo).add_u16(segment_len)
    }
}
