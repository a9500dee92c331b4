//! Raw and ICMP sockets of a host, and the state that they have in addition to a datagram socket.

use crate::ends::Domain;
use lock::{Guarded, Locks};
use std::sync::atomic::{AtomicU64, Ordering};
use wire::{L4Port, Proto};

/// Maximum number of raw and ICMP sockets of a host. The limit exists because each packet for such
/// sockets scans the whole list.
pub const SOCKETS_MAX: usize = 1024;

/// `IPPROTO_RAW`: a socket of this protocol can send but receives nothing.
pub const SEND_ONLY: Proto = Proto(255);

/// Kind of a datagram socket other than UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RawKind {
    /// `SOCK_DGRAM` with `IPPROTO_ICMP` or `IPPROTO_ICMPV6`: echo requests and their replies.
    Icmp,
    /// `SOCK_RAW` of this protocol.
    Raw(Proto),
}

/// `ICMP6_FILTER` (RFC 3542 3.2): bit set of the message types that a raw socket of ICMP or ICMPv6
/// does not receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IcmpFilter([u64; 4]);

impl IcmpFilter {
    /// Passes every type (`ICMP6_FILTER_SETPASSALL`).
    pub const PASS_ALL: IcmpFilter = IcmpFilter([0; 4]);
    /// Passes no type (`ICMP6_FILTER_SETBLOCKALL`).
    pub const BLOCK_ALL: IcmpFilter = IcmpFilter([u64::MAX; 4]);

    /// Returns the filter with `ty` passed (`ICMP6_FILTER_SETPASS`).
    #[must_use]
    pub fn pass(mut self, ty: u8) -> IcmpFilter {
        if let Some(word) = self.0.get_mut(usize::from(ty) / 64) {
            *word &= !(1 << (ty % 64));
        }
        self
    }

    /// Returns the filter with `ty` blocked (`ICMP6_FILTER_SETBLOCK`).
    #[must_use]
    pub fn block(mut self, ty: u8) -> IcmpFilter {
        if let Some(word) = self.0.get_mut(usize::from(ty) / 64) {
            *word |= 1 << (ty % 64);
        }
        self
    }

    /// Returns whether `ty` passes (`ICMP6_FILTER_WILLPASS`).
    pub fn passes(&self, ty: u8) -> bool {
        self.0.get(usize::from(ty) / 64).is_some_and(|word| word >> (ty % 64) & 1 == 0)
    }
}

/// State that a raw or ICMP socket has in addition to the state of a datagram socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawState {
    pub(crate) kind: RawKind,
    /// `IP_HDRINCL`: sent data begins with an IPv4 header.
    pub header_included: bool,
    /// `IPV6_CHECKSUM`: offset in bytes of the checksum that the stack fills in and verifies;
    /// `None` if the stack does neither.
    pub checksum_at: Option<u16>,
    /// `ICMP6_FILTER`: message types that the socket does not receive.
    pub filter: IcmpFilter,
}

impl RawState {
    /// Returns the kind of the socket.
    pub fn kind(&self) -> RawKind {
        self.kind
    }

    /// Returns whether this is a raw socket of ICMP or ICMPv6.
    pub fn has_filter(&self) -> bool {
        matches!(self.kind, RawKind::Raw(Proto::ICMP | Proto::IPV6_ICMP))
    }
}

/// Value stored as the remote port of a connected raw or ICMP socket, since its protocol has no
/// ports.
pub(crate) const CONNECTED: L4Port = L4Port(1);

/// A raw or ICMP socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) id: usize,
    pub(super) domain: Domain,
    pub(super) kind: RawKind,
    /// Identifier of the requests of an ICMP socket; 0 if the socket is not bound.
    pub(super) ident: L4Port,
}

/// Raw and ICMP sockets of a host.
#[derive(Debug)]
pub(crate) struct RawSockets<L: Locks> {
    /// Bit sets of the protocols that have raw sockets, for IPv4 and IPv6.
    wanted: [[AtomicU64; 4]; 2],
    pub(super) entries: Guarded<L, Vec<Entry>>,
}

impl<L: Locks> Default for RawSockets<L> {
    fn default() -> Self {
        RawSockets { wanted: Default::default(), entries: Guarded::default() }
    }
}

impl<L: Locks> RawSockets<L> {
    /// Returns whether `domain` has a raw socket of `proto`.
    #[inline(always)]
    pub(crate) fn has(&self, domain: Domain, proto: Proto) -> bool {
        let words = self.wanted.get(domain as usize);
        let word = words.and_then(|words| words.get(usize::from(proto.0) / 64));
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (proto.0 % 64) & 1 != 0)
    }

    /// Returns whether this domain has a raw socket of UDP or TCP. The fast paths of UDP and TCP
    /// make no copies and cannot be used then. A single test covers both protocols.
    #[inline(always)]
    pub(crate) fn has_transport(&self, domain: Domain) -> bool {
        const BOTH: u64 = 1 << Proto::UDP.0 | 1 << Proto::TCP.0;
        let [[first4, ..], [first6, ..]] = &self.wanted;
        let first = if domain == Domain::Inet { first4 } else { first6 };
        first.load(Ordering::Relaxed) & BOTH != 0
    }

    /// Updates the bit sets of protocols that have raw sockets, after `entries` changed.
    pub(super) fn note(&self, entries: &[Entry]) {
        for (domain, words) in [Domain::Inet, Domain::Inet6].into_iter().zip(&self.wanted) {
            for (word, first) in words.iter().zip((0u8..=255).step_by(64)) {
                let bits = entries.iter().filter(|entry| entry.domain == domain).map(|entry| match entry.kind {
                    RawKind::Raw(SEND_ONLY) | RawKind::Icmp => 0,
                    RawKind::Raw(Proto(proto)) if proto / 64 == first / 64 => 1 << (proto % 64),
                    RawKind::Raw(_) => 0,
                });
                word.store(bits.fold(0, |all, bit: u64| all | bit), Ordering::Relaxed);
            }
        }
    }
}
