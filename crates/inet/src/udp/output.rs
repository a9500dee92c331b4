//! UDP output: from the socket's payload to a staged frame.
//!
//! The usual datagram goes where the one before went. Its Ethernet, IPv4 and UDP headers are kept in the Pcb as 42 bytes
//! with their checksum sums, good while the stack's epoch stands still; sending then is a copy of the payload, a copy
//! of the headers, and four patched fields. Everything else (first datagram, other destination, a neighbor not yet known,
//! fragments, multicast, loopback) goes layer by layer through `ip4::output`, as does everything when the knob
//! `net.inet.udp.header_cache` is off.

use super::{Pcb, SoError};
use crate::Stack;
use crate::counters::Counters;
use crate::iface::{IfaceId, LOOPBACK};
use crate::ip4::Outgoing;
use crate::ip4::output::{OutputError, Target};
use crate::stack::AtOnce;
use buf::{Flags, Frame};
use lock::{Cx, Locks};
use stats::{DropReason, Lap, Stage, trace};
use std::hint::cold_path;
use std::net::{Ipv4Addr, SocketAddr};
use wire::checksum::{self, Partial};
use wire::eth::{self, EtherType};
use wire::{L4Port, Proto, ip4, udp};

/// Why a datagram was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// No such socket.
    NoSocket,
    /// No destination given, and not connected.
    NoDestination,
    /// A destination given, and connected.
    Connected,
    /// A destination of a family that is not spoken here, or port 0.
    BadDestination,
    /// Longer than a datagram can be.
    TooLong,
    /// No buffer free.
    NoBuffer,
    /// A broadcast address, without the broadcast option.
    Broadcast,
    /// A source address that is not this host's.
    BadSource,
    /// Writing was shut down.
    Shut,
    /// No port free to bind to.
    NoPorts,
    /// What an earlier datagram met.
    Earlier(SoError),
    /// IPv4 could not send it.
    Output(OutputError),
}

const HEADERS: usize = eth::HEADER_LEN + ip4::HEADER_LEN + udp::HEADER_LEN;

/// The headers of the datagram before, good for the next if nothing has changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderCache {
    epoch: u64,       // 0: nothing kept
    chosen: Ipv4Addr, // the sender's choice of a source; unspecified: the stack's
    dst: Ipv4Addr,
    port: L4Port,
    iface: IfaceId,
    id: u16,
    room: u16, // the longest payload that needs no fragments
    flags: Flags,
    checksum: Checksum,
    headers: [u8; HEADERS],
    ip_sum: Partial,
    udp_sum: Partial,
}

/// Who computes the UDP checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Checksum {
    Ours,
    Port,
    Nobody,
}

impl Default for HeaderCache {
    fn default() -> HeaderCache {
        HeaderCache {
            epoch: 0,
            chosen: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::UNSPECIFIED,
            port: L4Port(0),
            iface: LOOPBACK,
            id: 0,
            room: 0,
            flags: Flags::default(),
            checksum: Checksum::Ours,
            headers: [0; HEADERS],
            ip_sum: Partial::ZERO,
            udp_sum: Partial::ZERO,
        }
    }
}

impl HeaderCache {
    /// Keeps nothing.
    pub(crate) fn forget(&mut self) {
        self.epoch = 0;
    }

    /// Returns whether the headers are those of a datagram of `len` bytes to `dst` from `chosen`, or
    /// from the stack's choice if that is unspecified.
    #[inline(always)]
    fn fits(&self, epoch: u64, chosen: Ipv4Addr, dst: Ipv4Addr, port: L4Port, len: usize) -> bool {
        self.epoch == epoch
            && self.port == port
            && self.dst == dst
            && self.chosen == chosen
            && len <= usize::from(self.room)
    }

    /// A datagram: the kept headers, with what differs from one to the next, and the payload.
    #[inline(always)]
    fn emit(&mut self, bytes: &mut [u8], payload: &[u8]) -> Option<()> {
        let (headers, room) = bytes.split_first_chunk_mut::<HEADERS>()?;
        let sum = match self.checksum {
            Checksum::Ours => checksum::sum(payload),
            Checksum::Port | Checksum::Nobody => Partial::ZERO,
        };
        checksum::copy(room, payload);
        let udp_len = (payload.len() + udp::HEADER_LEN) as u16;
        let total_len = udp_len + ip4::HEADER_LEN as u16;
        *headers = self.headers;
        [headers[16], headers[17]] = total_len.to_be_bytes();
        [headers[38], headers[39]] = udp_len.to_be_bytes();
        self.id = self.id.wrapping_add(1);
        [headers[18], headers[19]] = self.id.to_be_bytes();
        if !self.flags.has(Flags::TX_IP_CSUM) {
            let ip = self.ip_sum.add_u16(total_len).add_u16(self.id).finish();
            [headers[24], headers[25]] = ip.to_be_bytes();
        }
        match self.checksum {
            Checksum::Ours => {
                // The length stands in the pseudo header and in the header.
                let sum = self.udp_sum.add(sum).add_u16(udp_len).add_u16(udp_len).finish_nonzero();
                [headers[40], headers[41]] = sum.to_be_bytes();
            }
            Checksum::Port => {
                // The field holds the pseudo header's sum, not complemented (as virtio and BSD's csum_data want it).
                let pseudo = !self.udp_sum.add_u16(udp_len).finish();
                [headers[40], headers[41]] = pseudo.to_be_bytes();
            }
            Checksum::Nobody => {}
        }
        Some(())
    }
}

/// The payload of a datagram: bytes to be copied, or a frame that already holds them.
pub(crate) enum Payload<'a> {
    Bytes(&'a [u8]),
    Frame(Frame),
}

impl<L: Locks> Stack<L> {
    /// Sends `payload` from socket `id` to `dst`, or to where it is connected.
    ///
    /// # Errors
    /// [`SendError`].
    #[inline(always)]
    pub fn udp_send(&self, cx: Cx, id: usize, payload: &[u8], dst: Option<&SocketAddr>) -> Result<usize, SendError> {
        let counters = self.count(cx);
        let lap = counters.ledger.lap_at(clock::tsc::ticks, || trace::sendto_start(id, payload.len()));
        let slot = self.pcbs.get(id).ok_or(SendError::NoSocket)?;
        let mut slot = slot.lock(cx);
        let pcb = slot.as_mut().ok_or(SendError::NoSocket)?;
        let (addr, port) = destination(pcb, dst)?;
        if let Some(cache) = pcb.cache()
            && cache.fits(self.epoch(), Ipv4Addr::UNSPECIFIED, addr, port, payload.len())
        {
            lap.mark(Stage::Socket, 1);
            return self.send_cached(cx, counters, cache, payload, lap);
        }
        cold_path();
        drop(slot);
        lap.mark(Stage::Socket, 1);
        self.send_layered(cx, id, Payload::Bytes(payload), (Ipv4Addr::UNSPECIFIED, addr), port, AtOnce::Yes)
    }

    /// Sends `payload` from socket `id` to `dst` with the source address `src`, which must be one of this
    /// host's, as IP_SENDSRCADDR and IP_PKTINFO choose it: an answer leaves from the address that was asked
    /// (RFC 1122 4.1.3.5). An unspecified `src` leaves the choice to the stack; so does a broadcast or
    /// multicast address, which is no source (RFC 1122 3.2.1.3).
    ///
    /// # Errors
    /// [`SendError`]; [`SendError::BadSource`] for an address that is not this host's.
    pub fn udp_send_from(
        &self,
        cx: Cx,
        id: usize,
        payload: &[u8],
        dst: &SocketAddr,
        src: Ipv4Addr,
    ) -> Result<usize, SendError> {
        let chosen = if src.is_multicast() || self.is_broadcast(cx, src) { Ipv4Addr::UNSPECIFIED } else { src };
        let slot = self.pcbs.get(id).ok_or(SendError::NoSocket)?;
        let mut slot = slot.lock(cx);
        let pcb = slot.as_mut().ok_or(SendError::NoSocket)?;
        let (addr, port) = destination(pcb, Some(dst))?;
        let lap = self.lap(cx);
        if let Some(cache) = pcb.cache()
            && cache.fits(self.epoch(), chosen, addr, port, payload.len())
        {
            lap.mark(Stage::Socket, 1);
            return self.send_cached(cx, self.count(cx), cache, payload, lap);
        }
        drop(slot);
        lap.mark(Stage::Socket, 1);
        if !chosen.is_unspecified() && !self.is_local(cx, chosen) {
            return Err(SendError::BadSource);
        }
        self.send_layered(cx, id, Payload::Bytes(payload), (chosen, addr), port, AtOnce::Yes)
    }

    /// Sends several payloads to one destination; says how many were sent before the first that was not.
    ///
    /// # Errors
    /// [`SendError`] of the first, if none was sent.
    pub fn udp_send_burst<'a>(
        &self,
        cx: Cx,
        id: usize,
        payloads: impl Iterator<Item = &'a [u8]>,
        dst: Option<&SocketAddr>,
    ) -> Result<usize, SendError> {
        let lap = self.lap(cx);
        let mut sent = 0;
        let mut payloads = payloads.peekable();
        while payloads.peek().is_some() {
            match self.burst_cached(cx, id, &mut payloads, dst, lap) {
                Ok(n) => sent += n,
                Err(error) if sent == 0 => return Err(error),
                Err(_) => return Ok(sent),
            }
            let Some(payload) = payloads.next() else { break };
            // What the kept headers did not fit goes the long way, and leaves headers for the rest.
            let one = self.with_pcb(cx, id, |pcb| destination(pcb, dst)).unwrap_or(Err(SendError::NoSocket));
            match one.and_then(|(addr, port)| {
                self.send_layered(cx, id, Payload::Bytes(payload), (Ipv4Addr::UNSPECIFIED, addr), port, AtOnce::Later)
            }) {
                Ok(_) => sent += 1,
                Err(error) if sent == 0 => return Err(error),
                Err(_) => break,
            }
        }
        self.flush(cx);
        Ok(sent)
    }

    /// Sends payloads while the kept headers fit: one socket lock and one iface lock for all of them.
    fn burst_cached<'a>(
        &self,
        cx: Cx,
        id: usize,
        payloads: &mut std::iter::Peekable<impl Iterator<Item = &'a [u8]>>,
        dst: Option<&SocketAddr>,
        lap: Lap<'_>,
    ) -> Result<usize, SendError> {
        let slot = self.pcbs.get(id).ok_or(SendError::NoSocket)?;
        let mut slot = slot.lock(cx);
        let pcb = slot.as_mut().ok_or(SendError::NoSocket)?;
        let (addr, port) = destination(pcb, dst)?;
        let epoch = self.epoch();
        let Some(cache) = pcb.cache() else { return Ok(0) };
        let Some(iface) = self.ifaces.get(cache.iface) else { return Ok(0) };
        let mut stage = iface.stage.lock(cx);
        lap.mark(Stage::Socket, 1);
        let mut sent = 0;
        while let Some(payload) = payloads.peek() {
            if !cache.fits(epoch, Ipv4Addr::UNSPECIFIED, addr, port, payload.len()) {
                break;
            }
            let frame = match self.cached_frame(self.count(cx), cache, payload) {
                Ok(frame) => frame,
                Err(error) if sent == 0 => return Err(error),
                Err(_) => break,
            };
            trace::buffer_made(|| self.pool.number());
            self.stage_locked(cx, iface, &mut stage, frame);
            payloads.next();
            sent += 1;
        }
        let counters = self.count(cx);
        counters.udp.sent.add(sent as u64);
        counters.udp.header_cached.add(sent as u64);
        counters.ip4.sent.add(sent as u64);
        lap.mark(Stage::UdpOutput, sent as u64);
        Ok(sent)
    }

    /// Sends a payload that is in a frame already (with headroom for the headers).
    ///
    /// # Errors
    /// [`SendError`]; the frame is dropped then.
    pub fn udp_send_frame(
        &self,
        cx: Cx,
        id: usize,
        frame: Frame,
        dst: Option<&SocketAddr>,
    ) -> Result<usize, SendError> {
        let lap = self.lap(cx);
        self.count(cx).audit.made.bump();
        let found = self.with_pcb(cx, id, |pcb| destination(pcb, dst)).unwrap_or(Err(SendError::NoSocket));
        match found {
            Ok((addr, port)) => {
                lap.mark(Stage::Socket, 1);
                self.send_layered(cx, id, Payload::Frame(frame), (Ipv4Addr::UNSPECIFIED, addr), port, AtOnce::Yes)
            }
            Err(error) => {
                self.drop_frame(cx, frame, DropReason::UdpClosed);
                Err(error)
            }
        }
    }

    /// The short way: payload, kept headers, out.
    #[inline(always)]
    fn send_cached(
        &self,
        cx: Cx,
        counters: &Counters,
        cache: &mut HeaderCache,
        payload: &[u8],
        lap: Lap<'_>,
    ) -> Result<usize, SendError> {
        let frame = self.cached_frame(counters, cache, payload)?;
        lap.mark_at(Stage::UdpOutput, 1, || trace::buffer_made(|| self.pool.number()));
        counters.udp.sent.bump();
        counters.udp.header_cached.bump();
        counters.ip4.sent.bump();
        match self.ifaces.get(cache.iface) {
            Some(iface) => self.stage_at_once(cx, counters, iface, frame, lap),
            None => self.drop_frame(cx, frame, DropReason::TxNoPort),
        }
        Ok(payload.len())
    }

    #[inline(always)]
    fn cached_frame(&self, counters: &Counters, cache: &mut HeaderCache, payload: &[u8]) -> Result<Frame, SendError> {
        let mut frame = self.pool.get_of(HEADERS, payload.len()).ok_or(SendError::NoBuffer)?;
        counters.audit.made.bump();
        if cache.emit(frame.bytes_mut(), payload).is_none() {
            return Err(headers_do_not_fit(counters));
        }
        frame.set_flags(cache.flags);
        Ok(frame)
    }

    /// The slow path, layer by layer, from the chosen source (unspecified: the stack's choice); keeps the
    /// headers for the next datagram where it can.
    #[inline(never)]
    fn send_layered(
        &self,
        cx: Cx,
        id: usize,
        payload: Payload<'_>,
        (chosen, dst): (Ipv4Addr, Ipv4Addr),
        port: L4Port,
        at_once: AtOnce,
    ) -> Result<usize, SendError> {
        match (self.prepare(cx, id, &payload, chosen, dst), payload) {
            (Ok(to), payload) => self.send_prepared(cx, id, payload, to, port, at_once),
            (Err(error), Payload::Bytes(_)) => Err(error),
            (Err(error), Payload::Frame(frame)) => {
                self.drop_frame(cx, frame, DropReason::UdpClosed);
                Err(error)
            }
        }
    }

    /// Checks, binds if need be, and finds the source address.
    fn prepare(
        &self,
        cx: Cx,
        id: usize,
        payload: &Payload<'_>,
        chosen: Ipv4Addr,
        dst: Ipv4Addr,
    ) -> Result<Prepared, SendError> {
        let len = match payload {
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Frame(frame) => frame.len(),
        };
        if len > self.longest_payload() {
            return Err(SendError::TooLong);
        }
        let (bound, options) = self.with_pcb(cx, id, |pcb| (pcb.is_bound(), pcb.options)).ok_or(SendError::NoSocket)?;
        if !bound {
            let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
            self.udp_bind(cx, id, any).map_err(|_| SendError::NoPorts)?;
        }
        let iface = options.multicast_iface.filter(|_| dst.is_multicast());
        let exit = self.exit_for(cx, dst, iface).map_err(SendError::Output)?;
        if matches!(exit.to, Target::Station(_)) && !dst.is_multicast() && !options.broadcast {
            return Err(SendError::Broadcast);
        }
        let local = self.with_pcb(cx, id, |pcb| pcb.ends()).ok_or(SendError::NoSocket)?;
        let bound = if chosen.is_unspecified() { Ipv4Addr::from_bits(local.local) } else { chosen };
        let src = match bound.is_unspecified() || bound.is_multicast() || bound.is_broadcast() {
            false => bound,
            true => self.source_towards(cx, dst, iface).map_err(SendError::Output)?,
        };
        if !matches!(exit.to, Target::Here) && (src.is_loopback() || dst.is_loopback() || dst.is_unspecified()) {
            return Err(SendError::Output(OutputError::NoRoute)); // RFC 1122 3.2.1.3 (g): never on a wire
        }
        Ok(Prepared { dst, chosen, src, src_port: local.local_port, options, iface: exit.iface, to: exit.to })
    }

    fn send_prepared(
        &self,
        cx: Cx,
        id: usize,
        payload: Payload<'_>,
        to: Prepared,
        port: L4Port,
        at_once: AtOnce,
    ) -> Result<usize, SendError> {
        let mut frame = match payload {
            Payload::Frame(frame) => frame,
            Payload::Bytes(bytes) => self.frame_of(cx, bytes)?,
        };
        let len = frame.len();
        let offload = self.ifaces.get(to.iface).map(|iface| iface.offload()).unwrap_or_default();
        let fits = len + ip4::HEADER_LEN + udp::HEADER_LEN <= self.ifaces.get(to.iface).map_or(0, |i| i.mtu());
        let looped = matches!(to.to, Target::Here);
        let by_port = offload.tx_l4 && fits && !looped && self.knobs.udp_checksum.on();
        let header = udp::Header { src: to.src_port, dst: port, len: (len + udp::HEADER_LEN) as u16, checksum: 0 };
        let pseudo = Partial::pseudo4(to.src, to.dst, Proto::UDP, header.len);
        let header = if by_port {
            udp::Header { checksum: !pseudo.finish(), ..header }
        } else if self.knobs.udp_checksum.on() {
            header.with_checksum(pseudo, frame.bytes())
        } else {
            header
        };
        match frame.push::<{ udp::HEADER_LEN }>() {
            Some(room) => header.emit(room),
            None => {
                self.drop_as_bug(cx, frame, "a frame that was made for a packet has no room for its headers");
                return Err(SendError::NoBuffer);
            }
        }
        let multicast = to.dst.is_multicast();
        let out = Outgoing {
            src: Some(to.src),
            tos: to.options.tos,
            df: to.options.dont_fragment,
            iface: Some(to.iface).filter(|_| matches!(to.to, Target::Station(_))),
            partial_l4: by_port,
            at_once,
            ..Outgoing::new(to.dst, Proto::UDP, self.ttl(&to.options, multicast))
        };
        let comes_back = match to.to {
            Target::Station(_) if multicast => {
                to.options.multicast_loop && self.groups.lock(cx).is_member(to.iface, to.dst)
            }
            Target::Station(_) => true, // a broadcast is for everybody on the link, this host too (BSD's if_simloop)
            Target::Neighbor(_) | Target::Here => false,
        };
        if comes_back {
            self.loop_copy(cx, &frame, &out, to.src);
        }
        if out.ttl == 0 {
            self.drop_frame(cx, frame, DropReason::Ip4TtlZero); // RFC 1112 6.1: stays in the host
            return Ok(len);
        }
        let lap = self.resume(cx);
        lap.mark(Stage::UdpOutput, 1);
        self.ip4_output(cx, frame, &out).map_err(SendError::Output)?;
        self.count(cx).udp.sent.bump();
        if self.knobs.header_cache.on() && fits {
            self.keep_headers(cx, id, &to, port);
            lap.mark(Stage::UdpOutput, 0);
        }
        Ok(len)
    }

    fn longest_payload(&self) -> usize {
        self.knobs.udp_maxdgram.get().min(self.knobs.udp_sendspace.get()) as usize
    }

    fn ttl(&self, options: &super::Options, multicast: bool) -> u8 {
        match (multicast, options.ttl) {
            (true, _) => options.multicast_ttl,
            (false, Some(ttl)) => ttl,
            (false, None) => self.knobs.ttl.get() as u8,
        }
    }

    /// A frame that holds `bytes`, of the pool's size or, for a datagram longer than that, of its own.
    fn frame_of(&self, cx: Cx, bytes: &[u8]) -> Result<Frame, SendError> {
        let mut frame = if bytes.len() + self.pool.headroom() <= self.pool.size() {
            self.make_frame(cx).ok_or(SendError::NoBuffer)?
        } else {
            self.make_large_frame(cx).ok_or(SendError::NoBuffer)?
        };
        if frame.extend(bytes).is_none() {
            self.drop_as_bug(cx, frame, "a frame that was made for a message has no room for it");
            return Err(SendError::TooLong);
        }
        Ok(frame)
    }

    /// This host's own sockets get a copy of what it sends to its groups and to everybody.
    fn loop_copy(&self, cx: Cx, datagram: &Frame, out: &Outgoing, src: Ipv4Addr) {
        let Some(mut copy) = datagram.try_clone() else {
            return self.udp_no_copy(cx);
        };
        self.count(cx).audit.made.bump();
        copy.mark_l3();
        let header = ip4::Header::new(src, out.dst, out.proto, copy.len());
        match (header, copy.push::<{ ip4::HEADER_LEN }>()) {
            (Some(header), Some(room)) => {
                ip4::Header { ttl: out.ttl, df: false, ..header }.emit(room);
                copy.mark_l3();
                self.loop_back(cx, copy);
            }
            _ => self.drop_frame(cx, copy, DropReason::UdpNoCopy),
        }
    }

    /// Builds the headers for the next datagram to the same place, if its MAC address is known.
    fn keep_headers(&self, cx: Cx, id: usize, to: &Prepared, port: L4Port) {
        let epoch = self.epoch(); // before anything is looked up: a change meanwhile makes the headers stale, not wrong
        let Some(iface) = self.ifaces.get(to.iface).filter(|iface| iface.tunnel.is_none()) else { return };
        let mac = match to.to {
            Target::Here => return,
            Target::Station(_) => return, // sockets here get copies: the long way
            Target::Neighbor(next) => match self.neighbors.lock(cx).lookup(to.iface, next, cx.now) {
                Some(mac) => mac,
                None => return,
            },
        };
        let offload = iface.offload();
        let mtu = iface.mtu().min(self.path_mtus.lock(cx).get(to.dst, cx.now));
        if self.pool.headroom() < HEADERS {
            return;
        }
        let Some(room) = mtu.checked_sub(ip4::HEADER_LEN + udp::HEADER_LEN) else { return };
        let room = room.min(self.longest_payload()).min(self.pool.size() - self.pool.headroom()); // longer: a large frame
        let Some(header) = ip4::Header::new(to.src, to.dst, Proto::UDP, 0) else { return };
        let df = to.options.dont_fragment;
        let header = ip4::Header { total_len: 0, ttl: self.ttl(&to.options, false), tos: to.options.tos, df, ..header };
        let mut headers = [0u8; HEADERS];
        let Some((link, rest)) = headers.split_first_chunk_mut::<{ eth::HEADER_LEN }>() else { return };
        eth::Header { dst: mac, src: iface.mac, ethertype: EtherType::IPV4 }.emit(link);
        let Some((network, rest)) = rest.split_first_chunk_mut::<{ ip4::HEADER_LEN }>() else { return };
        header.emit(network);
        [network[10], network[11]] = [0, 0];
        let ip_sum = checksum::header20(network);
        let Some(transport) = rest.first_chunk_mut::<{ udp::HEADER_LEN }>() else { return };
        udp::Header { src: to.src_port, dst: port, len: 0, checksum: 0 }.emit(transport);
        let pseudo = Partial::pseudo4(to.src, to.dst, Proto::UDP, 0);
        let who = match (self.knobs.udp_checksum.on(), offload.tx_l4) {
            (false, _) => Checksum::Nobody,
            (true, true) => Checksum::Port,
            (true, false) => Checksum::Ours,
        };
        let mut flags = Flags::default();
        if offload.tx_ip {
            flags = flags.with(Flags::TX_IP_CSUM);
        }
        let udp_sum = match who {
            Checksum::Ours => pseudo.add(checksum::sum(transport)),
            _ => pseudo,
        };
        if who == Checksum::Port {
            flags = flags.with(Flags::TX_L4_CSUM);
        }
        let start = self.secret.hash4(u64::from(u32::from(to.src)), u64::from(u32::from(to.dst)), epoch, id as u64);
        let cache = HeaderCache {
            epoch,
            chosen: to.chosen,
            dst: to.dst,
            port,
            iface: to.iface,
            id: start as u16,
            room: room.min(usize::from(u16::MAX)) as u16,
            flags,
            checksum: who,
            headers,
            ip_sum,
            udp_sum,
        };
        self.with_pcb(cx, id, |pcb| pcb.keep(cache));
    }
}

/// Where a socket's next datagram goes: to `dst`, or to where it is connected.
#[inline(always)]
fn destination<L: Locks>(pcb: &mut Pcb<L>, dst: Option<&SocketAddr>) -> Result<(Ipv4Addr, L4Port), SendError> {
    if pcb.error.is_some() || pcb.shut_write {
        cold_path();
        return Err(match pcb.error.take() {
            Some(error) => SendError::Earlier(error),
            None => SendError::Shut,
        });
    }
    let peer = pcb.ends();
    match dst {
        None if pcb.is_connected() => Ok((Ipv4Addr::from_bits(peer.remote), peer.remote_port)),
        None => Err(SendError::NoDestination),
        Some(_) if pcb.is_connected() => Err(SendError::Connected),
        Some(SocketAddr::V4(dst)) if dst.port() != 0 => Ok((*dst.ip(), L4Port(dst.port()))),
        Some(_) => Err(SendError::BadDestination),
    }
}

/// A destination with its way there and a source address.
struct Prepared {
    dst: Ipv4Addr,
    /// The sender's choice of a source; unspecified: the stack's.
    chosen: Ipv4Addr,
    src: Ipv4Addr,
    src_port: L4Port,
    options: super::Options,
    iface: IfaceId,
    to: Target,
}

/// A frame that was requested with room for headers has none: tests fail, a release build counts the frame.
#[cold]
#[inline(never)]
fn headers_do_not_fit(counters: &Counters) -> SendError {
    debug_assert!(false, "a frame that was made for a datagram has no room for its headers");
    counters.drops.bump(DropReason::Bug);
    SendError::NoBuffer
}
