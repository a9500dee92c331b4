//! Raw and ICMP sockets: datagram sockets ([`Pcb`]) for protocols other than UDP.
//!
//! A raw socket receives a copy of each packet of its protocol for this host, before the stack
//! processes it. IPv4 packets include their header, IPv6 packets do not (RFC 3542 3). An ICMP
//! socket, as in Linux, only sends echo requests and receives the replies; its port is the
//! identifier of the requests. Raw and ICMP sockets have the queue, options and addresses of a UDP
//! socket. For a protocol without raw sockets, the cost per packet is the test of one bit.

mod input;
mod output;
mod sockets;

pub(crate) use input::cut_options;
pub(crate) use output::Upper;
pub(crate) use sockets::{CONNECTED, RawSockets};
pub use sockets::{IcmpFilter, RawKind, RawState, SEND_ONLY, SOCKETS_MAX};

use crate::Stack;
use crate::demux::Addr;
use crate::ends::{Domain, SockEnds};
use crate::udp::{BindError, Options, Pcb};
use lock::{Cx, Locks};
use sockets::Entry;
use std::net::SocketAddr;
use wire::{L4Port, Proto, icmp6};

impl<L: Locks> Stack<L> {
    /// Opens a raw or ICMP socket. Returns its number, or `None` if there are too many sockets. An
    /// IPv6 socket of these kinds never receives IPv4 packets.
    pub fn raw_open(&self, cx: Cx, domain: Domain, kind: RawKind) -> Option<usize> {
        let checksum_at = (kind == RawKind::Raw(Proto::IPV6_ICMP) && domain == Domain::Inet6).then_some(CHECKSUM_AT);
        let header_included = kind == RawKind::Raw(SEND_ONLY) && domain == Domain::Inet;
        let state = RawState { kind, header_included, checksum_at, filter: IcmpFilter::PASS_ALL };
        let options = Options { v6only: true, ..Options::default() };
        let local_port = match kind {
            RawKind::Icmp => L4Port(0),
            RawKind::Raw(proto) => L4Port(proto.0.into()),
        };
        let mut pcb = Pcb::new(domain, options, self.sysctls.udp_recvspace.get() as usize);
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

    /// Removes a socket that is being closed.
    pub(crate) fn raw_close(&self, cx: Cx, id: usize) {
        let mut entries = self.raw.entries.lock(cx);
        entries.retain(|entry| entry.id != id);
        self.raw.note(&entries);
    }

    /// Binds a raw or ICMP socket. The port of an ICMP socket is the identifier of its requests; 0
    /// selects a free identifier.
    ///
    /// # Errors
    /// [`BindError`]; the socket is then unchanged.
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

/// Offset of the checksum in an ICMPv6 message, in bytes.
const CHECKSUM_AT: u16 = 2;
const _: () = assert!((CHECKSUM_AT as usize) < icmp6::HEADER_LEN);
