//! Input of raw and ICMP sockets. Raw sockets receive copies of packets from `ip4` and `ip6`; ICMP
//! sockets receive replies and errors from `icmp4` and `icmp6`.
//!
//! Packets are queued like datagrams, with their headers in front of the data ([`crate::udp`]).
//! IPv6 extension headers are removed first, and so are the IPv4 options of messages for ICMP
//! sockets. A raw IPv4 socket receives the IPv4 header as part of the data. In this case, the
//! number of the receiving interface is stored in front of the header, in [`NOTE`] bytes.

use super::{CONNECTED, RawKind};
use crate::family::Family;
use crate::iface::{Iface, IfaceId};
use crate::udp::{NOTE, OfPcb, Pcb, Reception, SoError, came_by, note_iface, strip6};
use crate::{Stack, zone};
use buf::Frame;
use lock::{Cx, Locks};
use stats::DropReason;
use wire::ip6::{self, Chain};
use wire::{L4Port, Proto, checksum, ip4};

impl<L: Locks> Stack<L> {
    /// Copies an IPv4 packet for this host to the raw sockets of its protocol.
    #[cold]
    #[inline(never)]
    pub(crate) fn raw_input(&self, cx: Cx, iface: Option<&Iface<L>>, packet: &Frame, header: &ip4::Header) {
        let copy = || {
            let mut copy = packet.try_clone()?;
            *copy.push::<NOTE>()? = came_by(iface).0.to_be_bytes();
            copy.mark_l3();
            copy.pull(NOTE).then_some(copy)
        };
        let (local, remote) = (header.dst.to_bits(), header.src.to_bits());
        self.raw_copies::<u32>(cx, header.proto, (local, remote), header.payload(packet.bytes()), copy);
    }

    /// Copies an IPv6 packet for this host to the raw sockets of its protocol. The copy begins
    /// after the last extension header.
    #[cold]
    #[inline(never)]
    pub(crate) fn raw_input6(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packet: &Frame,
        header: &ip6::Header,
        chain: &Chain,
    ) {
        let zone = iface.map(|iface| iface.id).or_else(|| self.own_zone6(cx, header.src));
        let message = chain.payload(header, packet.bytes());
        let copy = || {
            let mut copy = packet.try_clone()?;
            let at = (chain.upper, chain.offset);
            strip6(&mut copy, header, at, message.len(), 0, zone.unwrap_or(came_by(iface))).then_some(copy)
        };
        let ends = (zone::embed(header.dst, zone), zone::embed(header.src, zone));
        self.raw_copies::<u128>(cx, chain.upper, ends, message, copy);
    }

    fn raw_copies<A: Family + OfPcb>(
        &self,
        cx: Cx,
        proto: Proto,
        (local, remote): (A, A),
        message: &[u8],
        copy: impl Fn() -> Option<Frame>,
    ) {
        let counters = self.count(cx);
        let [local_ip, remote_ip] = [local, remote].map(|end| end.addr().with_port(L4Port(0)).ip());
        let entries = self.raw.entries.lock(cx);
        for entry in entries.iter().filter(|entry| entry.kind == RawKind::Raw(proto) && entry.domain == A::DOMAIN) {
            let Some(slot) = self.pcbs.get(entry.id) else { continue };
            let mut slot = slot.lock(cx);
            let Some(pcb) = slot.as_mut() else { continue };
            let Some(own) = A::ends_of(pcb) else { continue };
            let is_for_it = (own.local == A::default() || own.local == local)
                && (!pcb.is_connected() || own.remote == remote)
                && !pcb.is_shut_for_reading()
                && (!local.is_multicast() || pcb.is_open_to(local_ip, remote_ip));
            let Some(state) = pcb.raw().filter(|_| is_for_it) else { continue };
            if state.has_filter() && !message.first().is_some_and(|ty| state.filter.passes(*ty)) {
                continue;
            }
            counters.audit.made.bump();
            if let Some(at) = state.checksum_at {
                let sum = A::pseudo(remote, local, proto, message.len() as u32).add(checksum::sum(message));
                if message.len() < usize::from(at) + 2 || !sum.verifies() {
                    counters.drops.bump(DropReason::RawBadChecksum);
                    continue;
                }
            }
            match copy() {
                None => counters.drops.bump(DropReason::RawNoCopy),
                Some(copy) => self.raw_enqueue(cx, entry.id, pcb, copy),
            }
        }
    }

    fn raw_enqueue(&self, cx: Cx, id: usize, pcb: &mut Pcb<L>, packet: Frame) {
        match pcb.enqueue(cx, id, packet, self.pool.size()) {
            Ok(()) => self.count(cx).raw.delivered.bump(),
            Err(packet) => self.drop_frame(cx, packet, DropReason::RawBufferFull),
        }
    }

    /// Queues an echo reply from `remote` to `local` for the ICMP socket with the identifier of the
    /// reply. Returns the frame of the reply if there is no such socket. `strip` reduces the frame
    /// to a header without options or extension headers, followed by the message.
    pub(crate) fn echo_input<A: Family + OfPcb>(
        &self,
        cx: Cx,
        came_by: IfaceId,
        ident: u16,
        (local, remote): (A, A),
        mut message: Frame,
        strip: impl FnOnce(&mut Frame) -> bool,
    ) -> Option<Frame> {
        let entries = self.raw.entries.lock(cx);
        let is_it = |own: &&super::Entry| own.kind == RawKind::Icmp && own.domain == A::DOMAIN && own.ident.0 == ident;
        let Some(entry) = entries.iter().find(is_it) else { return Some(message) };
        let Some(slot) = self.pcbs.get(entry.id) else { return Some(message) };
        let mut slot = slot.lock(cx);
        let Some(pcb) = slot.as_mut().filter(|_| ident != 0) else { return Some(message) };
        let remote_port = if pcb.is_connected() { CONNECTED } else { L4Port(0) };
        let ends = crate::demux::Ends { local, remote, local_port: L4Port(ident), remote_port };
        if !pcb.accepts(ends) || pcb.is_shut_for_reading() {
            return Some(message);
        }
        let is_bare = !pcb.reception.has(Reception::INFO);
        if strip(&mut message) && (is_bare || note_iface(&mut message, came_by)) {
            self.raw_enqueue(cx, entry.id, pcb, message);
        } else {
            self.drop_frame(cx, message, DropReason::RawNoCopy);
        }
        None
    }

    /// Reports an error about a packet that was sent from `local` to `remote`. The error is
    /// reported to the ICMP socket that sent the echo request `quoted`, or to the raw sockets of
    /// `proto` that are connected to the destination. Returns whether a socket of this host can
    /// have sent the packet.
    pub(crate) fn raw_error<A: Family + OfPcb>(
        &self,
        cx: Cx,
        proto: Proto,
        (local, remote): (A, A),
        quoted: &[u8],
        error: SoError,
    ) -> bool {
        let request = match quoted.first_chunk::<8>() {
            Some(&[ty, 0, _, _, i0, i1, _, _]) if proto == A::ICMP && ty == A::ECHO_REQUEST => {
                u16::from_be_bytes([i0, i1])
            }
            _ => 0,
        };
        let entries = self.raw.entries.lock(cx);
        let mut found = false;
        for entry in entries.iter().filter(|entry| entry.domain == A::DOMAIN) {
            let is_request = entry.kind == RawKind::Icmp && entry.ident.0 == request && request != 0;
            if !is_request && entry.kind != RawKind::Raw(proto) {
                continue;
            }
            let failed = |pcb: &mut Pcb<L>| {
                let Some(own) = A::ends_of(pcb) else { return false };
                let is_its =
                    (own.local == A::default() || own.local == local) && (!pcb.is_connected() || own.remote == remote);
                if is_its && (is_request || pcb.is_connected()) {
                    pcb.set_error(cx, entry.id, error);
                }
                is_its
            };
            found |= self.with_pcb(cx, entry.id, failed).unwrap_or(false);
        }
        found
    }
}

/// Removes the options from an IPv4 packet whose header is pulled. Returns `false` if the packet
/// cannot be modified.
pub(crate) fn cut_options(message: &mut Frame) -> bool {
    let Some(&header) = message.l3_bytes().first_chunk::<{ ip4::HEADER_LEN }>() else { return false };
    if message.l3_bytes().len() - message.len() == ip4::HEADER_LEN {
        return true;
    }
    let Some(room) = message.push::<{ ip4::HEADER_LEN }>() else { return false };
    *room = header;
    room[0] = 0x45;
    message.mark_l3();
    message.pull(ip4::HEADER_LEN)
}
