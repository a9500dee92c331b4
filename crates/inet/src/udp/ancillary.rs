//! Ancillary data of datagrams: addresses, iface, time to live and type of service, received and sent (RFC 3542 6).
//!
//! A datagram waits with its headers in front, so that all of this can be read from them on receipt. IPv4 headers
//! have no field for the iface: with [`AncillaryKind::PacketInfo`] its number replaces the total length on delivery,
//! as it replaces IPv6's payload length on any delivery.

use crate::iface::IfaceId;
use buf::Frame;
use std::net::IpAddr;

/// Address and iface of a datagram (`in_pktinfo`, `in6_pktinfo`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketInfo {
    /// Received: the destination address, as it stood on the wire. Sent: the source address; unspecified: the stack's choice.
    pub addr: IpAddr,
    /// The iface by which it came, or by which it has to leave; `None`: unknown, or that of the route.
    pub iface: Option<IfaceId>,
}

/// Ancillary data of one datagram. Received: what the socket's options request. Sent: what replaces the socket's options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ancillary {
    /// `IP_PKTINFO`, `IPV6_PKTINFO`.
    pub info: Option<PacketInfo>,
    /// `IP_TTL`, `IPV6_HOPLIMIT`.
    pub ttl: Option<u8>,
    /// `IP_TOS`, `IPV6_TCLASS`.
    pub tos: Option<u8>,
}

impl Ancillary {
    /// Returns the data of a datagram to be sent from `addr`, by the iface of the route.
    pub fn source(addr: IpAddr) -> Ancillary {
        Ancillary { info: Some(PacketInfo { addr, iface: None }), ..Ancillary::default() }
    }
}

/// Kind of ancillary data that a socket receives if it requests it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AncillaryKind {
    /// `IP_PKTINFO`, `IPV6_RECVPKTINFO`.
    PacketInfo,
    /// `IP_RECVTTL`, `IPV6_RECVHOPLIMIT`.
    Ttl,
    /// `IP_RECVTOS`, `IPV6_RECVTCLASS`.
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

/// Handling of datagrams that arrive, as bits in a byte of the Pcb's first cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reception(u8);

impl Reception {
    /// Reading was shut down.
    pub(crate) const SHUT: Reception = Reception(1);
    pub(crate) const INFO: Reception = Reception(1 << 1);
    pub(crate) const TTL: Reception = Reception(1 << 2);
    pub(crate) const TOS: Reception = Reception(1 << 3);

    /// Returns whether any bit of `other` is set.
    #[inline(always)]
    pub(crate) fn has(self, other: Reception) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns whether datagrams are queued as they are.
    #[inline(always)]
    pub(crate) fn is_usual(self) -> bool {
        !self.has(Reception(Reception::SHUT.0 | Reception::INFO.0))
    }

    pub(crate) fn set(&mut self, other: Reception, on: bool) {
        self.0 = if on { self.0 | other.0 } else { self.0 & !other.0 };
    }
}

/// Bytes in front of an IPv4 packet that a raw socket has received: the number of the iface.
pub(crate) const NOTE: usize = 2;

/// Stands for no iface where a number is noted: datagrams that came before the option was set.
pub(super) const UNKNOWN: IfaceId = IfaceId(u16::MAX);

/// Notes the iface in the header of an IPv4 datagram whose payload alone is left, in place of the total length; an IPv6
/// datagram has it already, and so has a raw socket's packet. `false` if the header cannot be written.
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
