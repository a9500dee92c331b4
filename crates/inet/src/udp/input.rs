//! UDP input: from `ip4::input`, a chunk at a time, to the sockets' receive queues.
//!
//! Two passes over the chunk, with the datagrams where they lie: check, strip and hash; deliver. With many sockets the first
//! also asks the cache for the bucket, and one more between them finds the Pcb and asks for its line: that turns a row
//! of cache misses into one. Of 148 ticks a datagram with 100,000 sockets in random order (TSC 2.0 GHz, shared machine)
//! 141 were there with 1000; the misses are the other 7.

use super::{Pcb, Received, SoError, ends};
use crate::demux::Ends4;
use crate::icmp4::Cause;
use crate::iface::Iface;
use crate::slots::Locked;
use crate::stack::{CHUNK, Odd};
use crate::{Slot, Stack};
use buf::{Burst, Flags, Frame};
use lock::{Cx, Guarded, Locks};
use stats::DropReason;
use std::net::Ipv4Addr;
use wire::checksum::Partial;
use wire::icmp4::unreachable;
use wire::{L4Port, Proto, ip4, udp};

/// What the headers of a sound datagram say.
#[derive(Clone, Copy)]
struct Seen {
    ends: Ends4,
    header_len: usize,
    len: usize,
}

/// Where a socket's state is.
type PcbPlace<'a, L> = &'a Guarded<L, Slot<Pcb<L>>>;

/// The socket that a datagram is for, locked: a run of datagrams for one socket takes its lock once.
struct Open<'a, L: Locks> {
    hash: u64, // that it was found by
    id: usize,
    slot: Locked<'a, L, Pcb<L>>,
}

impl Seen {
    /// Is it for one socket only: not for a group, nor for everybody?
    #[inline(always)]
    fn is_for_one(&self, packet: &Frame) -> bool {
        self.ends.local < 224 << 24 && !packet.flags().has(Flags::LINK_BROADCAST)
    }

    /// Leaves the payload; the headers stay in front.
    #[inline(always)]
    fn strip(&self, packet: &mut Frame) {
        packet.truncate(self.len);
        packet.pull(self.header_len);
    }
}

impl<L: Locks> Stack<L> {
    /// Takes whole, unfragmented IPv4 packets with UDP in them.
    pub(crate) fn udp_input(&self, cx: Cx, iface: Option<&Iface<L>>, packets: &mut Burst) {
        let mut chunk = Burst::new();
        while packets.len() > CHUNK {
            chunk.take_some(packets, CHUNK);
            self.udp_input_chunk(cx, iface, &mut chunk);
        }
        self.udp_input_chunk(cx, iface, packets);
    }

    #[inline(always)]
    fn udp_input_chunk(&self, cx: Cx, iface: Option<&Iface<L>>, packets: &mut Burst) {
        let n = packets.len();
        let trusted = trusts_port(iface);
        let ahead = self.udp.is_large() && n > 1 && self.knobs.prefetch.on();
        let probe = self.udp.ends_probe();
        let mut lookups = self.udp.run();
        let (mut hashes, mut ends) = ([0; CHUNK], [Ends4::default(); CHUNK]);
        let (mut odd, mut without_checksum) = (Odd::default(), 0);
        for (at, (packet, (hash, ends))) in
            packets.as_mut_slice().iter_mut().zip(hashes.iter_mut().zip(&mut ends)).enumerate()
        {
            match udp_check(packet, trusted, &mut without_checksum) {
                Ok(seen) if seen.is_for_one(packet) => {
                    seen.strip(packet);
                    (*ends, *hash) = (seen.ends, probe.hash(seen.ends));
                    if ahead {
                        lookups.prefetch(cx, *hash);
                    }
                }
                _ => odd.add(at),
            }
        }
        let mut found = [None; CHUNK];
        if ahead {
            for (found, &hash) in found.iter_mut().zip(&hashes).take(n) {
                *found = lookups.find(cx, hash).and_then(|id| Some((id, self.pcbs.get(id)?)));
                if let Some((_, slot)) = found {
                    buf::prefetch(*slot);
                }
            }
        }
        drop(lookups);
        let counters = self.count(cx);
        counters.udp.received.add(n as u64);
        counters.udp.no_checksum.add(without_checksum);
        let mut delivered = 0;
        let mut open: Option<Open<'_, L>> = None;
        for (at, packet) in packets.drain().enumerate() {
            // Not zipped: with three iterators in a tuple LLVM keeps the frame in memory, 15 instructions a datagram.
            let (Some(&hash), Some(&ends)) = (hashes.get(at), ends.get(at)) else { break };
            if odd.has(at) {
                drop(open.take());
                delivered += self.udp_odd(cx, iface, packet);
                continue;
            }
            if open.as_ref().is_none_or(|open| open.hash != hash) {
                drop(open.take()); // unlocked before the next is locked
                let found = found.get(at).copied().flatten().or_else(|| self.find_pcb(cx, hash, ends));
                open = found.map(|(id, slot)| Open { hash, id, slot: slot.lock(cx) });
            }
            match &mut open {
                Some(open) => match deliver(cx, open.id, &mut open.slot, ends, packet, self.pool.size()) {
                    Ok(()) => delivered += 1,
                    Err((packet, why)) => self.drop_frame(cx, packet, why),
                },
                None => self.udp_no_socket(cx, packet),
            }
        }
        counters.udp.delivered.add(delivered);
    }

    /// Takes a whole, unfragmented IPv4 packet with UDP in it that came by itself.
    #[inline(always)]
    pub(crate) fn udp_input_one(&self, cx: Cx, iface: &Iface<L>, mut packet: Frame) {
        let (counters, mut without_checksum) = (self.count(cx), 0);
        counters.udp.received.bump();
        let seen = udp_check(&packet, trusts_port(Some(iface)), &mut without_checksum);
        counters.udp.no_checksum.add(without_checksum);
        let Some(seen) = seen.ok().filter(|seen| seen.is_for_one(&packet)) else {
            return counters.udp.delivered.add(self.udp_odd(cx, Some(iface), packet));
        };
        seen.strip(&mut packet);
        let hash = self.udp.ends_probe().hash(seen.ends);
        let Some((id, slot)) = self.find_pcb(cx, hash, seen.ends) else { return self.udp_no_socket(cx, packet) };
        match deliver(cx, id, &mut slot.lock(cx), seen.ends, packet, self.pool.size()) {
            Ok(()) => counters.udp.delivered.bump(),
            Err((packet, why)) => self.drop_frame(cx, packet, why),
        }
    }

    #[inline(always)]
    fn find_pcb(&self, cx: Cx, hash: u64, ends: Ends4) -> Option<(usize, PcbPlace<'_, L>)> {
        let id = self.udp.lookup_hashed(cx, || ends.into(), hash)?;
        Some((id, self.pcbs.get(id)?))
    }

    /// A datagram that did not pass its checks ends for the reason that they give; one for many goes to all of them.
    #[inline(never)]
    fn udp_odd(&self, cx: Cx, iface: Option<&Iface<L>>, mut packet: Frame) -> u64 {
        match udp_check(&packet, trusts_port(iface), &mut 0) {
            Ok(seen) => {
                seen.strip(&mut packet);
                self.udp_deliver_to_all(cx, iface, packet, seen.ends)
            }
            Err(why) => {
                self.drop_frame(cx, packet, why);
                0
            }
        }
    }

    #[inline(never)]
    fn udp_no_socket(&self, cx: Cx, mut packet: Frame) {
        packet.rewind_to_l3();
        let Some(packet) = self.vxlan_input(cx, packet) else { return };
        if !self.knobs.udp_blackhole.on() {
            self.icmp4_error(cx, &packet, Cause::Unreachable(unreachable::PORT));
        }
        self.drop_frame(cx, packet, DropReason::UdpNoSocket);
    }

    /// Broadcasts and multicasts go to every socket that takes them, each but the last in a copy.
    fn udp_deliver_to_all(&self, cx: Cx, iface: Option<&Iface<L>>, packet: Frame, ends: Ends4) -> u64 {
        let candidates: Vec<usize> = self.unconnected.lock(cx).get(ends.local_port).to_vec();
        let connected = self.udp.lookup(cx, &ends.into()).filter(|id| !candidates.contains(id));
        let wanted: Vec<usize> =
            candidates.into_iter().chain(connected).filter(|&id| self.wants(cx, id, iface, ends)).collect();
        let Some((last, others)) = wanted.split_last() else {
            self.drop_frame(cx, packet, DropReason::UdpNoSocketBroadcast);
            return 0;
        };
        let mut delivered = 0;
        for &id in others {
            match packet.try_clone() {
                Some(copy) => {
                    self.count(cx).audit.made.bump();
                    delivered += self.udp_enqueue_group(cx, id, copy, ends);
                }
                None => self.udp_no_copy(cx),
            }
        }
        delivered + self.udp_enqueue_group(cx, *last, packet, ends)
    }

    /// A copy that could not be made: booked as made and dropped, so that the reason shows in the audit.
    pub(crate) fn udp_no_copy(&self, cx: Cx) {
        self.count(cx).audit.made.bump();
        self.count(cx).drops.bump(DropReason::UdpNoCopy);
    }

    fn udp_enqueue_group(&self, cx: Cx, id: usize, packet: Frame, ends: Ends4) -> u64 {
        // `wants` has checked the ends; the local address of a group is not the socket's own.
        let bound = self.with_pcb(cx, id, |pcb| pcb.ends().local).filter(|&local| local != 0);
        let ends = Ends4 { local: bound.unwrap_or(ends.local), ..ends };
        let refused = match self.pcbs.get(id) {
            Some(slot) => deliver(cx, id, &mut slot.lock(cx), ends, packet, self.pool.size()),
            None => Err((packet, DropReason::UdpNoSocket)),
        };
        match refused {
            Ok(()) => 1,
            Err((packet, why)) => {
                self.drop_frame(cx, packet, why);
                0
            }
        }
    }

    fn wants(&self, cx: Cx, id: usize, iface: Option<&Iface<L>>, ends: Ends4) -> bool {
        let Some(slot) = self.pcbs.get(id) else { return false };
        let slot = slot.lock(cx);
        let Some(pcb) = slot.as_ref() else { return false };
        let (own, dst) = (pcb.ends(), Ipv4Addr::from_bits(ends.local));
        // Who is bound to one address hears what is sent to that address, as in BSD: not to everybody.
        let local_ok = own.local == 0 || own.local == ends.local;
        let remote_ok = !pcb.is_connected() || own.remote == ends.remote && own.remote_port == ends.remote_port;
        let member_ok = !dst.is_multicast()
            || pcb.groups().iter().any(|(on, group)| *group == dst && iface.is_none_or(|iface| iface.id == *on));
        local_ok && remote_ok && member_ok
    }

    /// Hands an ICMP error to the socket that sent the quoted datagram; says whether there is one.
    pub(crate) fn udp_error(&self, cx: Cx, header: &ip4::Header, quoted: &[u8], error: SoError) -> bool {
        let Some(&[s0, s1, d0, d1]) = quoted.first_chunk::<4>() else { return false };
        let ends = Ends4 {
            local: header.src.to_bits(),
            remote: header.dst.to_bits(),
            local_port: L4Port(u16::from_be_bytes([s0, s1])),
            remote_port: L4Port(u16::from_be_bytes([d0, d1])),
        };
        let Some(id) = self.udp.lookup(cx, &ends.into()) else { return false };
        let Some(slot) = self.pcbs.get(id) else { return false };
        let mut slot = slot.lock(cx);
        match slot.as_mut() {
            // Errors about single datagrams are for connected sockets only, as in BSD: others could not tell which.
            Some(pcb) if pcb.is_connected() && pcb.ends().accepts(ends) => {
                pcb.set_error(cx, id, error);
                true
            }
            Some(pcb) => error == SoError::MessageSize && pcb.ends().accepts(ends),
            None => false,
        }
    }

    /// Takes the next datagram of socket `id`; `None` if there is none (or no such socket).
    #[inline(always)]
    pub fn udp_recv(&self, cx: Cx, id: usize) -> Option<Received> {
        let mut slot = self.pcbs.get(id)?.lock(cx);
        let pcb = slot.as_mut()?;
        let frame = pcb.dequeue()?;
        let more = pcb.peek().is_some();
        drop(slot);
        self.count(cx).audit.consumed.bump();
        let (from, to) = ends(&frame)?;
        Some(Received { frame, from, to, more })
    }

    /// Takes up to `most` datagrams of socket `id` under one lock, as many as fit into `into`; says how many.
    pub fn udp_recv_burst(&self, cx: Cx, id: usize, most: usize, into: &mut Burst) -> usize {
        let Some(slot) = self.pcbs.get(id) else { return 0 };
        let mut slot = slot.lock(cx);
        let Some(pcb) = slot.as_mut() else { return 0 };
        let mut taken = 0;
        while taken < most.min(into.room() + taken) {
            let Some(frame) = pcb.dequeue() else { break };
            drop(into.push(frame)); // there was room
            taken += 1;
        }
        drop(slot);
        self.count(cx).audit.consumed.add(taken as u64);
        taken
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

#[inline(always)]
fn trusts_port<L: Locks>(iface: Option<&Iface<L>>) -> bool {
    iface.is_none_or(|iface| iface.offload().rx) // what came through no iface is this host's own
}

/// Queues a datagram in a socket's place, if it is really for it and has room; gives it back with the reason if not.
#[inline(always)]
fn deliver<L: Locks>(
    cx: Cx,
    id: usize,
    slot: &mut Slot<Pcb<L>>,
    ends: Ends4,
    datagram: Frame,
    buffer_size: usize,
) -> Result<(), (Frame, DropReason)> {
    match slot.as_mut() {
        None => Err((datagram, DropReason::UdpNoSocket)),
        Some(pcb) if !pcb.ends().accepts(ends) => Err((datagram, DropReason::UdpNotPeer)),
        Some(pcb) if pcb.shut_read => Err((datagram, DropReason::UdpClosed)),
        Some(pcb) => pcb.enqueue(cx, id, datagram, buffer_size).map_err(|back| (back, DropReason::UdpBufferFull)),
    }
}

/// RFC 768, RFC 1122 4.1.3: lengths, checksum, ends. Counts those that have no checksum.
#[inline(always)]
fn udp_check(packet: &Frame, trusted: bool, without_checksum: &mut u64) -> Result<Seen, DropReason> {
    let bytes = packet.bytes();
    let ip = ip4::Glance::of(bytes).ok_or(DropReason::Ip4Malformed)?;
    let ihl = ip.ihl_len();
    let segment = bytes.get(ihl..).ok_or(DropReason::Ip4Malformed)?;
    let header = udp::Header::parse(segment).map_err(|_| DropReason::UdpBadLength)?;
    let len = usize::from(header.len);
    let seen = Seen {
        ends: Ends4 {
            local: ip.dst().to_bits(),
            remote: ip.src().to_bits(),
            local_port: header.dst,
            remote_port: header.src,
        },
        header_len: ihl + udp::HEADER_LEN,
        len: ihl + len,
    };
    *without_checksum += u64::from(header.checksum == 0);
    let open = packet.flags().has(Flags::TX_L4_CSUM); // never on a wire: nothing to verify
    if header.checksum != 0 && !open && !(trusted && packet.flags().has(Flags::RX_L4_OK)) {
        let datagram = segment.get(..len).ok_or(DropReason::UdpBadLength)?;
        let pseudo = Partial::pseudo4(ip.src(), ip.dst(), Proto::UDP, header.len);
        if !udp::checksum_ok(pseudo, datagram) {
            return Err(DropReason::UdpBadChecksum);
        }
    }
    if header.dst.0 == 0 { Err(DropReason::UdpPortZero) } else { Ok(seen) }
}
