//! Raw and ICMP sockets: datagram sockets ([`Pcb`]) of a protocol other than UDP.
//!
//! A raw socket receives a copy of each packet of its protocol for this host, before the stack's own protocol takes it: of IPv4
//! with its header, of IPv6 without (RFC 3542 3). An ICMP socket, as Linux has it, sends echo requests alone; its port is their
//! identifier, and replies to it are its own. Both have UDP's queue, options and ends. A host without raw sockets of a
//! protocol tests one bit for them.

mod input;
mod output;

use crate::Stack;
use crate::demux::Addr;
use crate::ends::{Domain, SockEnds};
use crate::udp::{BindError, Options, Pcb};
use lock::{Cx, Guarded, Locks};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::{L4Port, Proto, icmp6};

pub(crate) use input::cut_options;
pub(crate) use output::Upper;

/// Raw and ICMP sockets of a host: each packet for one of them looks through the list.
pub const SOCKETS_MAX: usize = 1024;

/// `IPPROTO_RAW`: a socket of this protocol only sends.
pub const SEND_ONLY: Proto = Proto(255);

/// Kind of a datagram socket that is not UDP's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RawKind {
    /// `SOCK_DGRAM` of `IPPROTO_ICMP` or `IPPROTO_ICMPV6`: echo requests and their replies.
    Icmp,
    /// `SOCK_RAW` of this protocol.
    Raw(Proto),
}

/// `ICMP6_FILTER` (RFC 3542 3.2): the message types that a raw socket of ICMP or ICMPv6 does not receive, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IcmpFilter([u64; 4]);

impl IcmpFilter {
    /// Passes every type (`ICMP6_FILTER_SETPASSALL`).
    pub const PASS_ALL: IcmpFilter = IcmpFilter([0; 4]);
    /// Passes no type (`ICMP6_FILTER_SETBLOCKALL`).
    pub const BLOCK_ALL: IcmpFilter = IcmpFilter([u64::MAX; 4]);

    /// Returns the filter with `ty` passing (`ICMP6_FILTER_SETPASS`).
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

/// State of a raw or ICMP socket besides that of any datagram socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawState {
    pub(crate) kind: RawKind,
    /// `IP_HDRINCL`: what is sent begins with its IPv4 header.
    pub header_included: bool,
    /// `IPV6_CHECKSUM`: offset of the checksum, which is filled in and verified.
    pub checksum_at: Option<u16>,
    /// `ICMP6_FILTER`.
    pub filter: IcmpFilter,
}

impl RawState {
    /// Returns the kind of the socket.
    pub fn kind(&self) -> RawKind {
        self.kind
    }

    /// Returns whether the socket is of ICMP or ICMPv6, and raw.
    pub fn has_filter(&self) -> bool {
        matches!(self.kind, RawKind::Raw(Proto::ICMP | Proto::IPV6_ICMP))
    }
}

/// Remote port of a raw or ICMP socket that is connected: its protocol has none.
pub(crate) const CONNECTED: L4Port = L4Port(1);

/// One raw or ICMP socket.
#[derive(Clone, Copy, Debug)]
struct Entry {
    id: usize,
    domain: Domain,
    kind: RawKind,
    /// Identifier of an ICMP socket; 0: not bound.
    ident: L4Port,
}

/// The raw and ICMP sockets of a host.
#[derive(Debug)]
pub(crate) struct RawSockets<L: Locks> {
    /// Protocols that have raw sockets, a bit each, of IPv4 and of IPv6.
    wanted: [[AtomicU64; 4]; 2],
    entries: Guarded<L, Vec<Entry>>,
}

impl<L: Locks> Default for RawSockets<L> {
    fn default() -> Self {
        RawSockets { wanted: Default::default(), entries: Guarded::default() }
    }
}

impl<L: Locks> RawSockets<L> {
    /// Returns whether there is a raw socket of `proto`.
    #[inline(always)]
    pub(crate) fn has(&self, domain: Domain, proto: Proto) -> bool {
        let words = self.wanted.get(domain as usize);
        let word = words.and_then(|words| words.get(usize::from(proto.0) / 64));
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (proto.0 % 64) & 1 != 0)
    }

    /// Returns whether there is a raw socket of UDP or TCP of this domain, whose fast paths make no copies: one test for
    /// both.
    #[inline(always)]
    pub(crate) fn has_transport(&self, domain: Domain) -> bool {
        const BOTH: u64 = 1 << Proto::UDP.0 | 1 << Proto::TCP.0;
        let [[first4, ..], [first6, ..]] = &self.wanted;
        let first = if domain == Domain::Inet { first4 } else { first6 };
        first.load(Ordering::Relaxed) & BOTH != 0
    }

    /// Writes down which protocols have raw sockets, after `entries` has changed.
    fn note(&self, entries: &[Entry]) {
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

impl<L: Locks> Stack<L> {
    /// Opens a raw or ICMP socket; `None` when there are too many. A socket of IPv6 takes IPv6 alone.
    pub fn raw_open(&self, cx: Cx, domain: Domain, kind: RawKind) -> Option<usize> {
        let checksum_at = (kind == RawKind::Raw(Proto::IPV6_ICMP) && domain == Domain::Inet6).then_some(CHECKSUM_AT);
        let header_included = kind == RawKind::Raw(SEND_ONLY) && domain == Domain::Inet;
        let state = RawState { kind, header_included, checksum_at, filter: IcmpFilter::PASS_ALL };
        let options = Options { v6only: true, ..Options::default() };
        let local_port = match kind {
            RawKind::Icmp => L4Port(0),
            RawKind::Raw(proto) => L4Port(proto.0.into()),
        };
        let mut pcb = Pcb::new(domain, options, self.knobs.udp_recvspace.get() as usize);
        pcb.set_ends(domain.any(true, local_port));
        pcb.set_raw(state);
        let mut entries = self.raw.entries.lock(cx);
        if entries.len() >= SOCKETS_MAX {
            return None;
        }
        let id = self.pcbs.insert(cx, pcb)?;
        entries.push(Entry { id, domain, kind, ident: L4Port(0) });
        self.raw.note(&entries);
        Some(id)
    }

    /// Forgets a socket that is being closed.
    pub(crate) fn raw_close(&self, cx: Cx, id: usize) {
        let mut entries = self.raw.entries.lock(cx);
        entries.retain(|entry| entry.id != id);
        self.raw.note(&entries);
    }

    /// Binds a raw or ICMP socket; the port of the latter is the identifier of its requests, 0 for any that is free.
    ///
    /// # Errors
    /// [`BindError`]; nothing has changed then.
    pub(crate) fn raw_bind(&self, cx: Cx, id: usize, local: Addr, port: L4Port) -> Result<SocketAddr, BindError> {
        let mut entries = self.raw.entries.lock(cx);
        let entry = *entries.iter().find(|entry| entry.id == id).ok_or(BindError::NoSocket)?;
        let is_free = |ident: L4Port| {
            !entries.iter().any(|other| (other.kind, other.domain, other.ident) == (RawKind::Icmp, entry.domain, ident))
        };
        let draw = |n: u64| L4Port((self.secret.hash2(cx.now.nanos() ^ id as u64, n) >> 16) as u16);
        let local_port = match (entry.kind, port.0) {
            (RawKind::Raw(proto), _) => L4Port(proto.0.into()),
            (RawKind::Icmp, _) if entry.ident.0 != 0 => return Err(BindError::AlreadyBound),
            (RawKind::Icmp, 0) => {
                (0..).map(draw).find(|ident| ident.0 != 0 && is_free(*ident)).ok_or(BindError::NoPorts)?
            }
            (RawKind::Icmp, _) if is_free(port) => port,
            (RawKind::Icmp, _) => return Err(BindError::InUse),
        };
        if let (RawKind::Icmp, Some(entry)) = (entry.kind, entries.iter_mut().find(|entry| entry.id == id)) {
            entry.ident = local_port;
        }
        let bind = |pcb: &mut Pcb<L>| {
            pcb.set_ends(SockEnds::bound(local, local_port));
            pcb.local_addr()
        };
        self.with_pcb(cx, id, bind).ok_or(BindError::NoSocket)
    }
}

/// Offset of the checksum in an ICMPv6 message.
const CHECKSUM_AT: u16 = 2;
const _: () = assert!((CHECKSUM_AT as usize) < icmp6::HEADER_LEN);
