//! Ancillary data of sent and received datagrams: addresses, interface, time to live and type of
//! service (RFC 3542 6).
//!
//! A datagram is queued with its headers in front, and its ancillary data is read from these
//! headers when the application receives it. The headers have no field for the receiving interface.
//! On delivery, the number of this interface therefore replaces the payload length in an IPv6
//! header. In an IPv4 header, it replaces the total length if the socket requests
//! [`AncillaryKind::PacketInfo`].

use crate::iface::IfaceId;
use buf::Frame;
use std::net::IpAddr;

/// Address and interface of a datagram (`in_pktinfo`, `in6_pktinfo`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketInfo {
    /// Destination address of a received packet. For sending, the source address; if it is
    /// unspecified, the stack selects the source address.
    pub addr: IpAddr,
    /// Receiving interface of a received packet; `None` if unknown. For sending, the outgoing
    /// interface; `None` selects the interface of the route.
    pub iface: Option<IfaceId>,
}

/// Ancillary data of a datagram. On receipt, it contains the items that the socket requests. For
/// sending, it overrides the socket's options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ancillary {
    /// Address and interface (`IP_PKTINFO`, `IPV6_PKTINFO`).
    pub info: Option<PacketInfo>,
    /// Time to live or hop limit (`IP_TTL`, `IPV6_HOPLIMIT`).
    pub ttl: Option<u8>,
    /// Type of service or traffic class (`IP_TOS`, `IPV6_TCLASS`).
    pub tos: Option<u8>,
}

impl Ancillary {
    /// Returns ancillary data for sending from the source address `addr`, through the interface of
    /// the route.
    pub fn source(addr: IpAddr) -> Ancillary {
        Ancillary { info: Some(PacketInfo { addr, iface: None }), ..Ancillary::default() }
    }
}

/// Kind of ancillary data that a socket can request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AncillaryKind {
    /// Address and interface (`IP_PKTINFO`, `IPV6_RECVPKTINFO`).
    PacketInfo,
    /// Time to live or hop limit (`IP_RECVTTL`, `IPV6_RECVHOPLIMIT`).
    Ttl,
    /// Type of service or traffic class (`IP_RECVTOS`, `IPV6_RECVTCLASS`).
    Tos,
}

impl AncillaryKind {
    pub(super) fn bit(self) -> Reception {
        match self {
            AncillaryKind::PacketInfo => Reception::INFO,
            AncillaryKind::Ttl => Reception::TTL,
            AncillaryKind::Tos => Reception::TOS,
        }
    }
}

/// Flags that control the processing of received datagrams: one byte, in the Pcb's first cache
/// line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reception(u8);

impl Reception {
    /// Flag that is set if the socket is shut down for reading.
    pub(crate) const SHUT: Reception = Reception(1);
    pub(crate) const INFO: Reception = Reception(1 << 1);
    pub(crate) const TTL: Reception = Reception(1 << 2);
    pub(crate) const TOS: Reception = Reception(1 << 3);

    /// Returns whether any bit of `other` is set.
    #[inline(always)]
    pub(crate) fn has(self, other: Reception) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns whether received datagrams are queued without changes.
    #[inline(always)]
    pub(crate) fn is_usual(self) -> bool {
        !self.has(Reception(Reception::SHUT.0 | Reception::INFO.0))
    }

    pub(crate) fn set(&mut self, other: Reception, on: bool) {
        self.0 = if on { self.0 | other.0 } else { self.0 & !other.0 };
    }
}

/// Length in bytes of the interface number in front of an IPv4 packet of a raw socket.
pub(crate) const NOTE: usize = 2;

/// Value stored instead of an interface number in IPv4 datagrams that were received before the
/// socket requested [`AncillaryKind::PacketInfo`].
pub(super) const UNKNOWN: IfaceId = IfaceId(u16::MAX);

/// Stores the interface number in the total length field of a received IPv4 datagram's header.
/// Headers of IPv6 datagrams and raw packets already contain the number. Returns `false` if the
/// header cannot be modified.
#[cold]
pub(crate) fn note_iface(datagram: &mut Frame, iface: IfaceId) -> bool {
    let pulled = datagram.l3_bytes().len() - datagram.len();
    if pulled == NOTE || wire::ip6::is_version(datagram.l3_bytes()) {
        return true;
    }
    if !datagram.make_own() {
        return false;
    }
    datagram.rewind_to_l3();
    let written = datagram.bytes_mut().get_mut(2..4).map(|field| field.copy_from_slice(&iface.0.to_be_bytes()));
    datagram.pull(pulled) && written.is_some()
}
