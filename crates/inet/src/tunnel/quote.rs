//! Packet that a tunnel sent, as it is quoted in an ICMP error.

use super::config::Kind;
use std::net::IpAddr;
use wire::{Proto, gre, icmp4, icmp6, ip6, udp, vxlan};

/// A packet quoted in an ICMP error.
#[derive(Clone, Copy)]
pub(crate) enum Quote<'a> {
    V4(icmp4::Inner<'a>),
    V6(icmp6::Inner<'a>),
}

impl<'a> Quote<'a> {
    pub(super) fn parse(packet: &'a [u8]) -> Option<Quote<'a>> {
        match ip6::is_version(packet) {
            true => icmp6::Inner::parse(packet).ok().map(Quote::V6),
            false => icmp4::Inner::parse(packet).ok().map(Quote::V4),
        }
    }

    /// Returns the source and destination address of the quoted packet.
    pub(super) fn ends(&self) -> (IpAddr, IpAddr) {
        match self {
            Quote::V4(inner) => (inner.header.src.into(), inner.header.dst.into()),
            Quote::V6(inner) => (inner.header.src.into(), inner.header.dst.into()),
        }
    }

    pub(super) fn proto(&self) -> Proto {
        match self {
            Quote::V4(inner) => inner.header.proto,
            Quote::V6(inner) => inner.upper,
        }
    }

    pub(super) fn payload(&self) -> &'a [u8] {
        match self {
            Quote::V4(inner) => inner.payload,
            Quote::V6(inner) => inner.payload,
        }
    }

    pub(super) fn is_later(&self) -> bool {
        match self {
            Quote::V4(inner) => inner.header.frag_off != 0,
            Quote::V6(inner) => inner.is_later,
        }
    }

    pub(super) fn total_len(&self) -> usize {
        match self {
            Quote::V4(inner) => usize::from(inner.header.total_len),
            Quote::V6(inner) => inner.total_len(),
        }
    }
}

/// Returns the key or VNI of a quoted packet, or `Some(None)` if it has none. Returns `None` if the
/// quote is too short.
pub(super) fn key_in(kind: Kind, payload: &[u8]) -> Option<Option<u32>> {
    match kind {
        Kind::Gif | Kind::EtherIp => Some(None),
        Kind::Gre => gre::Header::parse(payload).ok().map(|header| header.key),
        Kind::Vxlan => vxlan::Header::parse(payload.get(udp::HEADER_LEN..)?).ok().map(|header| Some(header.vni)),
    }
}
