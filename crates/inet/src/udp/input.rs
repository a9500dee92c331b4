//! UDP input: from `ip4::input`, a chunk at a time, to the sockets' receive queues.
//!
//! Three passes over the chunk: check and hash (asking the cache for the bucket), find (asking for the Pcb), deliver. With
//! one socket the passes cost a tick or two; with 100,000 they turn a row of cache misses into one.

use super::{Received, SoError, ends};
use crate::Stack;
use crate::demux::{Addr, Tuple};
use crate::icmp4::Cause;
use crate::iface::IfaceId;
use crate::stack::CHUNK;
use buf::{Burst, Flags, Frame};
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::Ipv4Addr;
use wire::checksum::Partial;
use wire::icmp4::unreachable;
use wire::{L4Port, Proto, ip4, udp};

/// What is known of a datagram between the passes.
#[derive(Clone, Copy)]
struct Seen {
    tuple: Tuple,
    hash: u64,
    pcb: Option<usize>,
    header_len: usize,
    len: usize,
}

impl<L: Locks> Stack<L> {
    /// Takes whole, unfragmented IPv4 packets with UDP in them.
    pub(crate) fn udp_input(&self, cx: Cx, iface: Option<IfaceId>, packets: &mut Burst) {
        let counters = self.count(cx);
        let prefetch = self.knobs.prefetch.on();
        while !packets.is_empty() {
            let mut seen: [Option<Result<Seen, DropReason>>; CHUNK] = [None; CHUNK];
            let n = packets.len().min(CHUNK);
            counters.udp.received.add(n as u64);
            for (packet, slot) in packets.as_slice().iter().zip(&mut seen) {
                let mut checked = self.udp_check(cx, iface, packet);
                if let Ok(seen) = &mut checked {
                    seen.hash = self.udp.hash(&self.udp.first_probe(&seen.tuple));
                    if prefetch && n > 1 {
                        self.udp.prefetch(cx, seen.hash);
                    }
                }
                *slot = Some(checked);
            }
            for seen in seen.iter_mut().flatten().flatten() {
                seen.pcb = self.udp.lookup_hashed(cx, &seen.tuple, seen.hash);
                if prefetch
                    && n > 1
                    && let Some(pcb) = seen.pcb.and_then(|id| self.pcbs.get(id))
                {
                    buf::prefetch(pcb);
                }
            }
            let mut delivered = 0;
            for seen in seen.into_iter().flatten() {
                let Some(packet) = packets.pop() else { break };
                match seen {
                    Ok(seen) => delivered += self.udp_deliver(cx, iface, packet, &seen),
                    Err(why) => self.drop_frame(cx, packet, why),
                }
            }
            counters.udp.delivered.add(delivered);
        }
    }

    /// RFC 768, RFC 1122 4.1.3: lengths, checksum, ends.
    #[inline(always)]
    fn udp_check(&self, cx: Cx, iface: Option<IfaceId>, packet: &Frame) -> Result<Seen, DropReason> {
        let bytes = packet.bytes();
        let Some(ip) = bytes.first_chunk::<20>() else { return Err(DropReason::Ip4Malformed) };
        let ihl = usize::from(ip[0] & 0xf) * 4;
        let segment = bytes.get(ihl..).ok_or(DropReason::Ip4Malformed)?;
        let header = udp::Header::parse(segment).map_err(|_| DropReason::UdpBadLength)?;
        let src = Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]);
        let dst = Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]);
        if header.checksum == 0 {
            self.count(cx).udp.no_checksum.bump();
        } else if !(packet.flags().has(Flags::RX_L4_OK) && self.trusts_port(iface)) {
            let datagram = segment.get(..usize::from(header.len)).ok_or(DropReason::UdpBadLength)?;
            let pseudo = Partial::pseudo4(src, dst, Proto::UDP, header.len);
            if !udp::checksum_ok(pseudo, datagram) {
                return Err(DropReason::UdpBadChecksum);
            }
        }
        if header.dst.0 == 0 {
            return Err(DropReason::UdpPortZero);
        }
        let tuple =
            Tuple { local: Addr::v4(dst), remote: Addr::v4(src), local_port: header.dst, remote_port: header.src };
        Ok(Seen { tuple, hash: 0, pcb: None, header_len: ihl + udp::HEADER_LEN, len: ihl + usize::from(header.len) })
    }

    #[inline(always)]
    fn trusts_port(&self, iface: Option<IfaceId>) -> bool {
        match iface {
            None => true, // loopback
            Some(id) => self.ifaces.get(id).is_some_and(|iface| iface.offload().rx),
        }
    }

    #[inline(always)]
    fn udp_deliver(&self, cx: Cx, iface: Option<IfaceId>, packet: Frame, seen: &Seen) -> u64 {
        let dst = seen.tuple.local.to_v4().unwrap_or(Ipv4Addr::UNSPECIFIED);
        if packet.flags().has(Flags::LINK_BROADCAST) || dst.is_multicast() || dst.is_broadcast() {
            return self.udp_deliver_to_all(cx, iface, packet, seen);
        }
        match seen.pcb {
            Some(id) => u64::from(self.udp_enqueue(cx, id, packet, seen)),
            None => {
                if !self.knobs.udp_blackhole.on() {
                    self.icmp4_error(cx, &packet, Cause::Unreachable(unreachable::PORT));
                }
                self.drop_frame(cx, packet, DropReason::UdpNoSocket);
                0
            }
        }
    }

    /// Queues a datagram at one socket, if it is really for it and has room.
    #[inline(always)]
    fn udp_enqueue(&self, cx: Cx, id: usize, mut packet: Frame, seen: &Seen) -> bool {
        let Some(slot) = self.pcbs.get(id) else {
            self.drop_frame(cx, packet, DropReason::UdpNoSocket);
            return false;
        };
        let mut slot = slot.lock(cx);
        let why = match slot.as_mut() {
            None => DropReason::UdpNoSocket,
            Some(pcb) if !accepts(&pcb.tuple, &seen.tuple) => DropReason::UdpNotPeer,
            Some(pcb) if pcb.shut_read => DropReason::UdpClosed,
            Some(pcb) => {
                packet.truncate(seen.len);
                packet.pull(seen.header_len);
                match pcb.enqueue(cx, id, packet, self.pool.size()) {
                    Ok(()) => return true,
                    Err(back) => packet = back,
                }
                DropReason::UdpBufferFull
            }
        };
        drop(slot);
        self.drop_frame(cx, packet, why);
        false
    }

    /// Broadcasts and multicasts go to every socket that takes them, each but the last in a copy.
    fn udp_deliver_to_all(&self, cx: Cx, iface: Option<IfaceId>, packet: Frame, seen: &Seen) -> u64 {
        let dst = seen.tuple.local.to_v4().unwrap_or(Ipv4Addr::UNSPECIFIED);
        let candidates: Vec<usize> = self.unconnected.lock(cx).get(seen.tuple.local_port).to_vec();
        let connected = seen.pcb.filter(|id| !candidates.contains(id));
        let wanted: Vec<usize> =
            candidates.into_iter().chain(connected).filter(|&id| self.wants(cx, id, iface, dst, &seen.tuple)).collect();
        let Some((last, others)) = wanted.split_last() else {
            self.drop_frame(cx, packet, DropReason::UdpNoSocketBroadcast);
            return 0;
        };
        let mut delivered = 0;
        for &id in others {
            match packet.try_clone() {
                Some(copy) => {
                    self.count(cx).audit.made.bump();
                    delivered += u64::from(self.udp_enqueue_group(cx, id, copy, seen));
                }
                None => self.count(cx).drops.bump(DropReason::UdpNoCopy),
            }
        }
        delivered + u64::from(self.udp_enqueue_group(cx, *last, packet, seen))
    }

    fn udp_enqueue_group(&self, cx: Cx, id: usize, packet: Frame, seen: &Seen) -> bool {
        // `wants` has checked the ends; the local address of a group is not the socket's own.
        let bound = self.pcbs.get(id).and_then(|slot| slot.lock(cx).as_ref().map(|pcb| pcb.tuple.local));
        let tuple = Tuple { local: bound.filter(|l| !l.is_any()).unwrap_or(seen.tuple.local), ..seen.tuple };
        self.udp_enqueue(cx, id, packet, &Seen { tuple, ..*seen })
    }

    fn wants(&self, cx: Cx, id: usize, iface: Option<IfaceId>, dst: Ipv4Addr, tuple: &Tuple) -> bool {
        let Some(slot) = self.pcbs.get(id) else { return false };
        let slot = slot.lock(cx);
        let Some(pcb) = slot.as_ref() else { return false };
        let local_ok = pcb.tuple.local.is_any()
            || pcb.tuple.local == tuple.local
            || !dst.is_multicast() && iface.is_some_and(|id| self.iface_has(cx, id, pcb.tuple.local));
        let remote_ok =
            !pcb.is_connected() || pcb.tuple.remote == tuple.remote && pcb.tuple.remote_port == tuple.remote_port;
        let member_ok = !dst.is_multicast()
            || pcb.groups.iter().any(|(on, group)| *group == dst && iface.is_none_or(|iface| iface == *on));
        local_ok && remote_ok && member_ok
    }

    fn iface_has(&self, cx: Cx, id: IfaceId, addr: Addr) -> bool {
        self.ifaces.get(id).is_some_and(|i| i.addrs.lock(cx).iter().any(|a| Addr::v4(a.addr) == addr))
    }

    /// Hands an ICMP error to the socket that sent the quoted datagram; says whether there is one.
    pub(crate) fn udp_error(&self, cx: Cx, header: &ip4::Header, quoted: &[u8], error: SoError) -> bool {
        let Some(&[s0, s1, d0, d1]) = quoted.first_chunk::<4>() else { return false };
        let tuple = Tuple {
            local: Addr::v4(header.src),
            remote: Addr::v4(header.dst),
            local_port: L4Port(u16::from_be_bytes([s0, s1])),
            remote_port: L4Port(u16::from_be_bytes([d0, d1])),
        };
        let Some(id) = self.udp.lookup(cx, &tuple) else { return false };
        let Some(slot) = self.pcbs.get(id) else { return false };
        let mut slot = slot.lock(cx);
        match slot.as_mut() {
            // Errors about single datagrams are for connected sockets only, as in BSD: others could not tell which.
            Some(pcb) if pcb.is_connected() && accepts(&pcb.tuple, &tuple) => {
                pcb.set_error(cx, id, error);
                true
            }
            Some(pcb) => error == SoError::MessageSize && accepts(&pcb.tuple, &tuple),
            None => false,
        }
    }

    /// Takes the next datagram of socket `id`; `None` if there is none (or no such socket).
    #[inline(always)]
    pub fn udp_recv(&self, cx: Cx, id: usize) -> Option<Received> {
        let frame = self.pcbs.get(id)?.lock(cx).as_mut()?.dequeue()?;
        self.count(cx).audit.consumed.bump();
        let (from, to) = ends(&frame)?;
        Some(Received { frame, from, to })
    }

    /// Copies from the next datagram of socket `id` without taking it: (copied, whole length, sender).
    pub fn udp_peek(&self, cx: Cx, id: usize, into: &mut [u8]) -> Option<(usize, usize, std::net::SocketAddr)> {
        let slot = self.pcbs.get(id)?.lock(cx);
        let frame = slot.as_ref()?.peek()?;
        let n = frame.len().min(into.len());
        for (to, from) in into.iter_mut().zip(frame.bytes()) {
            *to = *from;
        }
        Some((n, frame.len(), ends(frame)?.0))
    }
}

/// Does a socket bound and connected as `pcb` take what came with `packet`?
#[inline(always)]
fn accepts(pcb: &Tuple, packet: &Tuple) -> bool {
    pcb.local_port == packet.local_port
        && (pcb.local.is_any() || pcb.local == packet.local)
        && (pcb.remote_port.0 == 0 || pcb.remote_port == packet.remote_port && pcb.remote == packet.remote)
}
