//! UDP output: from the socket's payload to a staged frame, for IPv4 and IPv6 ([`Net`]).
//!
//! Most datagrams have the same destination as the previous one. The Ethernet, IP and UDP headers
//! are therefore cached in the Pcb, as 42 or 62 bytes with partial checksums. They are valid while
//! the stack's epoch is unchanged. Sending then consists of a copy of the payload, a copy of the
//! headers, and a few changed fields. All other datagrams (the first one, other destinations, an
//! unresolved neighbor, fragments, multicast, loopback) pass through the layers one by one. If the
//! sysctl `net.inet.udp.header_cache` is off, this applies to all datagrams.

use super::cache::{Checksum, FOUR, HeaderCache, SIX};
use super::error::SendError;
use super::net::Net;
use super::to::{To, destination, may_send};
use super::{Ancillary, Options, Pcb};
use crate::counters::Counters;
use crate::demux::Addr;
use crate::family::{Family, Head};
use crate::iface::AtOnce;
use crate::iface::{Iface, IfaceId};
use crate::ip::exit::{Exit, OutputError, Target};
use crate::raw::Upper;
use crate::{Slot, Stack, zone};
use buf::{Flags, Frame};
use lock::{Cx, Locks};
use stats::hint::cold_path;
use stats::{DropReason, Lap, Stage, trace};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::DerefMut;
use wire::checksum;
use wire::eth;
use wire::{L4Port, Proto, udp};

/// The payload of a datagram: bytes that must be copied, or a frame that already contains it.
pub(crate) enum Payload<'a> {
    Bytes(&'a [u8]),
    Frame(Frame),
}

impl Payload<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Payload::Bytes(bytes) => bytes,
            Payload::Frame(frame) => frame.bytes(),
        }
    }
}

/// Destination of a datagram, and the source address that the application specified (`chosen`),
/// which is 0 if the stack selects the source.
#[derive(Clone, Copy)]
struct Between<A> {
    chosen: A,
    dst: A,
    port: L4Port,
    iface: Option<IfaceId>,
    own: Own,
}

impl<A: Family> Between<A> {
    fn to(dst: A, port: L4Port, iface: Option<IfaceId>) -> Between<A> {
        Between { chosen: A::default(), dst, port, iface, own: Own::default() }
    }
}

/// Header fields that are set for a single datagram. This datagram cannot be sent with the socket's
/// cached headers.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Own {
    iface: Option<IfaceId>,
    ttl: Option<u8>,
    tos: Option<u8>,
}

impl<L: Locks> Stack<L> {
    /// Sends `payload` from socket `id` to `dst`, or to the connected peer if `dst` is `None`.
    ///
    /// # Errors
    /// [`SendError`] if the datagram was not sent.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn udp_send(&self, cx: Cx, id: usize, payload: &[u8], dst: Option<&SocketAddr>) -> Result<usize, SendError> {
        let counters = self.count(cx);
        let lap = counters.ledger.lap_at(clock::tsc::ticks, || trace::sendto_start(id, payload.len()));
        let slot = self.pcbs.get(id).ok_or(SendError::NoSocket)?;
        let mut slot = slot.lock(cx);
        let pcb = slot.as_mut().ok_or(SendError::NoSocket)?;
        match destination(pcb, dst)? {
            To::V4(addr, port) => {
                let to = Between::to(addr, port, None);
                if let Some(cache) = pcb.cache::<u32, FOUR>()
                    && cache.fits(self.epoch(), to.chosen, to.dst, port, payload.len())
                {
                    lap.mark(Stage::Socket, 1);
                    return self.send_cached(cx, counters, cache, payload, lap);
                }
                cold_path();
                drop(slot);
                lap.mark(Stage::Socket, 1);
                self.send_layered(cx, id, Payload::Bytes(payload), to, AtOnce::Yes)
            }
            To::V6(dst, port, iface) => {
                self.send_locked::<u128, SIX>(cx, id, slot, payload, Between::to(dst, port, iface), lap)
            }
        }
    }

    /// Sends a datagram of the socket in the locked `slot`. Uses the socket's cached headers if
    /// they are valid for it; otherwise the datagram passes through the layers.
    #[inline(never)]
    fn send_locked<A: Net<N>, const N: usize>(
        &self,
        cx: Cx,
        id: usize,
        mut slot: impl DerefMut<Target = Slot<Pcb<L>>>,
        payload: &[u8],
        to: Between<A>,
        lap: Lap<'_>,
    ) -> Result<usize, SendError> {
        let pcb = slot.as_mut().ok_or(SendError::NoSocket)?;
        lap.mark(Stage::Socket, 1);
        if to.own == Own::default()
            && let Some(cache) = pcb.cache::<A, N>()
            && cache.fits(self.epoch(), to.chosen, to.dst, to.port, payload.len())
        {
            return self.send_cached(cx, self.count(cx), cache, payload, lap);
        }
        drop(slot);
        self.send_layered(cx, id, Payload::Bytes(payload), to, AtOnce::Yes)
    }

    /// Sends a datagram with the cached headers if they are valid for it, otherwise through the
    /// layers.
    fn send_to<A: Net<N>, const N: usize>(
        &self,
        cx: Cx,
        id: usize,
        payload: &[u8],
        to: Between<A>,
        lap: Lap<'_>,
    ) -> Result<usize, SendError> {
        let slot = self.pcbs.get(id).ok_or(SendError::NoSocket)?;
        self.send_locked::<A, N>(cx, id, slot.lock(cx), payload, to, lap)
    }

    /// Sends `payload` from socket `id` to `dst`, or to the connected peer if `dst` is `None`.
    /// `ancillary` overrides the socket's options.
    ///
    /// A source address in `ancillary` must belong to this host. An answer can thus be sent from
    /// the address to which the request was sent (RFC 1122 4.1.3.5). If the source address is
    /// unspecified, or is a broadcast or multicast address, which is not a valid source (RFC 1122
    /// 3.2.1.3), the stack selects the source. An interface in `ancillary` must be the interface of
    /// the route to `dst`.
    ///
    /// # Errors
    /// [`SendError`]; [`SendError::BadSource`] if the source address does not belong to this host
    /// (unless the socket has IP_BINDANY), or is of another family than `dst`;
    /// [`SendError::NoIface`], [`SendError::Invalid`].
    pub fn udp_send_msg(
        &self,
        cx: Cx,
        id: usize,
        payload: &[u8],
        dst: Option<&SocketAddr>,
        ancillary: &Ancillary,
    ) -> Result<usize, SendError> {
        let Ancillary { info, ttl, tos } = *ancillary;
        let out = info.and_then(|info| info.iface);
        let src = info.map(|info| info.addr.to_canonical()).filter(|src| !src.is_unspecified());
        if out.is_some_and(|out| self.iface(out).is_none()) {
            return Err(SendError::NoIface);
        }
        let lap = self.lap(cx);
        let own = Own { iface: out, ttl, tos };
        let seen = |pcb: &mut Pcb<L>| Ok((destination(pcb, dst)?, pcb.options.bind_any));
        let (to, any) = self.with_pcb(cx, id, seen).unwrap_or(Err(SendError::NoSocket))?;
        match to {
            To::V4(dst, port) => {
                let chosen = match src {
                    None => Ipv4Addr::UNSPECIFIED,
                    Some(IpAddr::V4(src)) if src.is_multicast() || self.is_broadcast(cx, src) => Ipv4Addr::UNSPECIFIED,
                    Some(IpAddr::V4(src)) if any || self.is_local(cx, src) => src,
                    Some(_) => return Err(SendError::BadSource),
                };
                if ttl == Some(0) {
                    return Err(SendError::Invalid);
                }
                let to = Between { chosen: chosen.to_bits(), own, ..Between::to(dst, port, None) };
                self.send_to::<u32, FOUR>(cx, id, payload, to, lap)
            }
            To::V6(dst, port, iface) => {
                let zone = zone::split(dst).1;
                if zone.is_some() && out.is_some() && zone != out {
                    return Err(SendError::Invalid);
                }
                let chosen = match src {
                    None => 0,
                    Some(IpAddr::V6(src)) if src.is_multicast() => 0,
                    Some(IpAddr::V6(src)) => zone::embed(src, zone.or(out).or(iface)),
                    Some(IpAddr::V4(_)) => return Err(SendError::BadSource),
                };
                if chosen != 0 && !any && self.owns(cx, Addr(chosen)) != Some(true) {
                    return Err(SendError::BadSource);
                }
                let dst = if zone.is_none() { zone::embed(zone::split(dst).0, out) } else { dst };
                let to = Between { chosen, own, ..Between::to(dst, port, iface) };
                self.send_to::<u128, SIX>(cx, id, payload, to, lap)
            }
        }
    }

    /// Sends several payloads to one destination. Returns the number of payloads sent before the
    /// first failure.
    ///
    /// # Errors
    ///
    /// [`SendError`] of the first payload, if no payload was sent.
    pub fn udp_send_burst<'a>(
        &self,
        cx: Cx,
        id: usize,
        payloads: impl Iterator<Item = &'a [u8]>,
        dst: Option<&SocketAddr>,
    ) -> Result<usize, SendError> {
        let lap = self.lap(cx);
        let found = self.with_pcb(cx, id, |pcb| destination(pcb, dst)).unwrap_or(Err(SendError::NoSocket))?;
        let sent = match found {
            To::V4(addr, port) => self.burst_to::<u32, FOUR>(cx, id, payloads, Between::to(addr, port, None), lap),
            To::V6(dst, port, iface) => {
                self.burst_to::<u128, SIX>(cx, id, payloads, Between::to(dst, port, iface), lap)
            }
        };
        self.flush(cx);
        sent
    }

    fn burst_to<'a, A: Net<N>, const N: usize>(
        &self,
        cx: Cx,
        id: usize,
        payloads: impl Iterator<Item = &'a [u8]>,
        to: Between<A>,
        lap: Lap<'_>,
    ) -> Result<usize, SendError> {
        let mut sent = 0;
        let mut payloads = payloads.peekable();
        while payloads.peek().is_some() {
            match self.burst_cached(cx, id, &mut payloads, to, lap) {
                Ok(n) => sent += n,
                Err(error) if sent == 0 => return Err(error),
                Err(_) => return Ok(sent),
            }
            let Some(payload) = payloads.next() else { break };
            // A payload for which the cached headers are not valid takes the slow path, which
            // caches headers for the next payloads.
            match self.send_layered(cx, id, Payload::Bytes(payload), to, AtOnce::Later) {
                Ok(_) => sent += 1,
                Err(error) if sent == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(sent)
    }

    /// Sends payloads as long as the cached headers are valid for them. Acquires the locks of the
    /// socket and of the interface only once.
    fn burst_cached<'a, A: Net<N>, const N: usize>(
        &self,
        cx: Cx,
        id: usize,
        payloads: &mut std::iter::Peekable<impl Iterator<Item = &'a [u8]>>,
        to: Between<A>,
        lap: Lap<'_>,
    ) -> Result<usize, SendError> {
        let slot = self.pcbs.get(id).ok_or(SendError::NoSocket)?;
        let mut slot = slot.lock(cx);
        let pcb = slot.as_mut().ok_or(SendError::NoSocket)?;
        may_send(pcb)?;
        let epoch = self.epoch();
        let Some(cache) = pcb.cache::<A, N>() else { return Ok(0) };
        let Some(iface) = self.ifaces.get(cache.iface) else { return Ok(0) };
        let mut stage = self.queue_of(cx, iface).lock(cx);
        lap.mark(Stage::Socket, 1);
        let mut sent = 0;
        while let Some(payload) = payloads.peek() {
            if !cache.fits(epoch, to.chosen, to.dst, to.port, payload.len()) {
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
        A::counts(counters).sent.add(sent as u64);
        lap.mark(Stage::UdpOutput, sent as u64);
        Ok(sent)
    }

    /// Sends a payload that is already in a frame with headroom for the headers.
    ///
    /// # Errors
    ///
    /// [`SendError`]; the frame is then freed.
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
        lap.mark(Stage::Socket, 1);
        match found {
            Ok(To::V4(addr, port)) => {
                self.send_layered(cx, id, Payload::Frame(frame), Between::to(addr, port, None), AtOnce::Yes)
            }
            Ok(To::V6(dst, port, iface)) => {
                let to = Between::to(dst, port, iface);
                self.send_layered(cx, id, Payload::Frame(frame), to, AtOnce::Yes)
            }
            Err(error) => {
                self.drop_frame(cx, frame, DropReason::UdpClosed);
                Err(error)
            }
        }
    }

    /// Fast path: sends the payload with the cached headers.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn send_cached<A: Net<N>, const N: usize>(
        &self,
        cx: Cx,
        counters: &Counters,
        cache: &mut HeaderCache<A, N>,
        payload: &[u8],
        lap: Lap<'_>,
    ) -> Result<usize, SendError> {
        let frame = self.cached_frame(counters, cache, payload)?;
        lap.mark_at(Stage::UdpOutput, 1, || trace::buffer_made(|| self.pool.number()));
        counters.udp.sent.bump();
        counters.udp.header_cached.bump();
        A::counts(counters).sent.add(1);
        match self.ifaces.get(cache.iface) {
            Some(iface) => self.stage_at_once(cx, counters, iface, frame, lap),
            None => self.drop_frame(cx, frame, DropReason::TxNoPort),
        }
        Ok(payload.len())
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn cached_frame<A: Net<N>, const N: usize>(
        &self,
        counters: &Counters,
        cache: &mut HeaderCache<A, N>,
        payload: &[u8],
    ) -> Result<Frame, SendError> {
        let mut frame = self.pool.get_of(N, payload.len()).ok_or(SendError::NoBuffer)?;
        counters.audit.made.bump();
        if cache.emit(frame.bytes_mut(), payload).is_none() {
            return Err(headers_do_not_fit(counters));
        }
        frame.set_flags(cache.flags);
        Ok(frame)
    }

    /// Slow path: sends a datagram through the layers, and caches the headers for the next datagram
    /// if possible.
    #[inline(never)]
    fn send_layered<A: Net<N>, const N: usize>(
        &self,
        cx: Cx,
        id: usize,
        payload: Payload<'_>,
        to: Between<A>,
        at_once: AtOnce,
    ) -> Result<usize, SendError> {
        match (self.prepare(cx, id, payload.bytes(), to), payload) {
            (Ok(prepared), payload) => self.send_prepared(cx, id, payload, prepared, to.port, at_once),
            (Err(error), Payload::Bytes(_)) => Err(error),
            (Err(error), Payload::Frame(frame)) => {
                self.drop_frame(cx, frame, DropReason::UdpClosed);
                Err(error)
            }
        }
    }

    /// Checks the datagram, binds the socket if it is not bound, and selects the source address.
    fn prepare<A: Net<N>, const N: usize>(
        &self,
        cx: Cx,
        id: usize,
        payload: &[u8],
        to: Between<A>,
    ) -> Result<Prepared<A, A::Addr>, SendError> {
        let seen = |pcb: &mut Pcb<L>| (pcb.is_bound(), pcb.domain(), *pcb.options, Upper::of(pcb.raw()));
        let (bound, domain, mut options, upper) = self.with_pcb(cx, id, seen).ok_or(SendError::NoSocket)?;
        if payload.len() > self.longest_payload() + if upper == Upper::Udp { 0 } else { udp::HEADER_LEN } {
            return Err(SendError::TooLong);
        }
        upper.check::<A>(payload)?;
        if !bound {
            self.udp_bind(cx, id, domain.unspecified()).map_err(|_| SendError::NoPorts)?;
        }
        let Between { chosen, dst, own: Own { iface: out, ttl, tos }, .. } = to;
        options.ttl = ttl.or(options.ttl);
        options.multicast_ttl = ttl.unwrap_or(options.multicast_ttl);
        options.tos = tos.unwrap_or(options.tos);
        let iface = to.iface.or(options.multicast_iface).filter(|_| dst.is_multicast());
        let exit = A::exit(self, cx, dst, out.or(iface)).map_err(SendError::Output)?;
        if out.is_some_and(|out| out != exit.iface) && !matches!(exit.to, Target::Here) {
            return Err(SendError::Output(OutputError::NoRoute));
        }
        if matches!(exit.to, Target::Station(_)) && !dst.is_multicast() && !options.broadcast {
            return Err(SendError::Broadcast);
        }
        let own = self.with_pcb(cx, id, |pcb| A::ends_of(pcb)).ok_or(SendError::NoSocket)?;
        let own = own.ok_or(SendError::BadDestination)?; // if bound to an address of the other family
        let bound = if chosen == A::default() { own.local } else { chosen };
        let src = match bound == A::default() || bound.is_for_many() {
            false => bound,
            true => match A::source(self, cx, dst, &exit) {
                // A host that still requests its first address by DHCP has no source address (RFC
                // 1122 3.2.1.3 a).
                Err(_) if out.is_some() && dst.is_for_many() && !dst.is_multicast() => A::default(),
                src => src.map_err(SendError::Output)?,
            },
        };
        if !matches!(exit.to, Target::Here) && !A::is_for_links(src, dst) {
            return Err(SendError::Output(OutputError::NoRoute));
        }
        let keeps = to.own == Own::default();
        Ok(Prepared { dst, chosen, src, src_port: own.local_port, options, exit, keeps, upper })
    }

    fn send_prepared<A: Net<N>, const N: usize>(
        &self,
        cx: Cx,
        id: usize,
        payload: Payload<'_>,
        to: Prepared<A, A::Addr>,
        port: L4Port,
        at_once: AtOnce,
    ) -> Result<usize, SendError> {
        let mut frame = match payload {
            Payload::Frame(frame) => frame,
            Payload::Bytes(bytes) => self.frame_of(cx, bytes)?,
        };
        let len = frame.len();
        let iface = self.ifaces.get(to.exit.iface);
        let fits = len + A::IP_LEN + udp::HEADER_LEN <= iface.map_or(0, |iface| iface.mtu());
        let by_port = match to.upper {
            Upper::Udp => self.put_udp_header(cx, &mut frame, iface, fits, &to, port),
            upper => self.fill_in(cx, &mut frame, upper, to.src_port, (to.src, to.dst)).map(|()| false),
        };
        let by_port = match by_port {
            Ok(by_port) => by_port,
            Err(error) => {
                self.drop_frame(cx, frame, DropReason::RawClosed);
                return Err(error);
            }
        };
        let multicast = to.dst.is_multicast();
        let ttl = if multicast { to.options.multicast_ttl } else { to.options.ttl.unwrap_or(A::ttl(self)) };
        let Options { tos, dont_fragment: df, .. } = to.options;
        let ports = [to.src_port, port];
        let (proto, has_header) = (to.upper.proto::<A>(), to.upper == Upper::Included);
        let head = Head { src: to.src, dst: to.dst, proto, tos, ttl, df, has_header, ports };
        let comes_back = match to.exit.to {
            Target::Station(_) if multicast => {
                to.options.multicast_loop && A::accepts_group(self, cx, to.exit.iface, to.dst)
            }
            Target::Station(_) => true, // this host receives its broadcasts (BSD's if_simloop)
            Target::Neighbor(_) | Target::Neighbor6(_) | Target::Here => false,
        };
        if comes_back {
            self.loop_copy(cx, &frame, &head);
        }
        if ttl == 0 && !has_header {
            self.drop_frame(cx, frame, A::TTL_ZERO); // RFC 1112 6.1: with TTL 0, it stays on this host
            return Ok(len);
        }
        let lap = self.resume(cx);
        lap.mark(Stage::UdpOutput, 1);
        A::send(self, cx, frame, &head, &to.exit, by_port, at_once).map_err(SendError::Output)?;
        if to.upper != Upper::Udp {
            self.count(cx).raw.sent.bump();
            return Ok(len);
        }
        self.count(cx).udp.sent.bump();
        if self.sysctls.header_cache.on() && fits && to.keeps {
            self.keep_headers(cx, id, &to, port);
            lap.mark(Stage::UdpOutput, 0);
        }
        Ok(len)
    }

    /// Prepends a UDP header to a payload. Returns whether the port must compute its checksum.
    fn put_udp_header<A: Family>(
        &self,
        cx: Cx,
        frame: &mut Frame,
        iface: Option<&Iface<L>>,
        fits: bool,
        to: &Prepared<A, A::Addr>,
        port: L4Port,
    ) -> Result<bool, SendError> {
        let len = frame.len();
        let looped = matches!(to.exit.to, Target::Here);
        let summed = A::IS_SUMMED || self.sysctls.udp_checksum.on();
        let by_port = iface.is_some_and(|iface| iface.offload().tx_l4) && fits && !looped && summed;
        let header = udp::Header { src: to.src_port, dst: port, len: (len + udp::HEADER_LEN) as u16, checksum: 0 };
        let pseudo = A::pseudo(to.src, to.dst, Proto::UDP, header.len.into());
        let header = match (summed, by_port) {
            (true, true) => udp::Header { checksum: !pseudo.finish(), ..header },
            (true, false) => header.with_checksum(pseudo, frame.bytes()),
            (false, _) => header,
        };
        match frame.push::<{ udp::HEADER_LEN }>() {
            Some(room) => header.emit(room),
            None => return Err(headers_do_not_fit(self.count(cx))),
        }
        Ok(by_port)
    }

    /// Delivers to the sockets of this host a copy of a multicast or broadcast datagram that this
    /// host sends.
    fn loop_copy<A: Family>(&self, cx: Cx, datagram: &Frame, head: &Head<A>) {
        let Some(mut copy) = datagram.try_clone() else {
            return self.udp_no_copy(cx);
        };
        self.count(cx).audit.made.bump();
        let len = copy.len() as u16;
        let written = match head.has_header {
            true => Some(()),
            false => copy.push_n(A::IP_LEN).and_then(|ip| {
                let sum = A::emit(self, &Head { df: false, ..*head }, ip)?;
                A::finish(ip, sum, len, 0);
                Some(())
            }),
        };
        copy.mark_l3();
        match written {
            Some(()) => self.loop_back(cx, copy),
            None => self.drop_frame(cx, copy, DropReason::UdpNoCopy),
        }
    }

    fn longest_payload(&self) -> usize {
        self.sysctls.udp_maxdgram.get().min(self.sysctls.udp_sendspace.get()) as usize
    }

    /// Returns a frame with a copy of `bytes`: from the pool if they fit into its buffers,
    /// otherwise a large frame.
    fn frame_of(&self, cx: Cx, bytes: &[u8]) -> Result<Frame, SendError> {
        let mut frame = if bytes.len() + self.pool.headroom() <= self.pool.size() {
            self.make_frame(cx).ok_or(SendError::NoBuffer)?
        } else {
            self.make_large_frame(cx).ok_or(SendError::NoBuffer)?
        };
        if frame.extend(bytes).is_none() {
            self.drop_as_bug(cx, frame, "the message does not fit its new frame");
            return Err(SendError::TooLong);
        }
        Ok(frame)
    }

    /// Caches headers for the next datagram to the same destination, if the MAC address of the next
    /// hop is known.
    fn keep_headers<A: Net<N>, const N: usize>(&self, cx: Cx, id: usize, to: &Prepared<A, A::Addr>, port: L4Port) {
        let epoch = self.epoch(); // read before the lookups, so that a concurrent change makes the headers stale
        let Some(cache) = self.headers_for(cx, id, to, port, epoch) else { return };
        self.with_pcb(cx, id, |pcb| A::keep(pcb.rest(), cache));
    }

    fn headers_for<A: Net<N>, const N: usize>(
        &self,
        cx: Cx,
        id: usize,
        to: &Prepared<A, A::Addr>,
        port: L4Port,
        epoch: u64,
    ) -> Option<HeaderCache<A, N>> {
        let iface = self.ifaces.get(to.exit.iface).filter(|iface| iface.tunnel.is_none())?;
        // Broadcasts and multicasts need the slow path, since local sockets may receive copies.
        let mac = self.neighbor_at::<A>(cx, &to.exit)?;
        let offload = iface.offload();
        let mtu = A::mtu(iface).min(A::path_mtu(self, cx, to.dst));
        if self.pool.headroom() < N {
            return None;
        }
        let room = mtu.checked_sub(A::IP_LEN + udp::HEADER_LEN)?;
        let room = room.min(self.longest_payload()).min(self.pool.size() - self.pool.headroom()); // longer: slow path
        let mut headers = [0u8; N];
        let (link, rest) = headers.split_first_chunk_mut::<{ eth::HEADER_LEN }>()?;
        eth::Header { dst: mac, src: iface.mac, ethertype: A::ETHERTYPE }.emit(link);
        let Options { tos, dont_fragment: df, ttl, .. } = to.options;
        let (ttl, ports) = (ttl.unwrap_or(A::ttl(self)), [to.src_port, port]);
        let (src, dst, proto, has_header) = (to.src, to.dst, Proto::UDP, false);
        let head = Head { src, dst, proto, tos, ttl, df, has_header, ports };
        let ip_sum = A::emit(self, &head, rest)?;
        let transport = rest.get_mut(A::IP_LEN..)?.first_chunk_mut::<{ udp::HEADER_LEN }>()?;
        udp::Header { src: to.src_port, dst: port, len: 0, checksum: 0 }.emit(transport);
        let pseudo = A::pseudo(to.src, to.dst, Proto::UDP, 0);
        let who = match (A::IS_SUMMED || self.sysctls.udp_checksum.on(), offload.tx_l4) {
            (false, _) => Checksum::Nobody,
            (true, true) => Checksum::Port,
            (true, false) => Checksum::Ours,
        };
        let udp_sum = match who {
            Checksum::Ours => pseudo.add(checksum::sum(transport)),
            _ => pseudo,
        };
        let mut flags = Flags::default();
        if offload.tx_ip && !A::IS_SUMMED {
            flags = flags.with(Flags::TX_IP_CSUM);
        }
        if who == Checksum::Port {
            flags = flags.with(Flags::TX_L4_CSUM);
        }
        let (src, dst) = (to.src.addr().0 as u64, to.dst.addr().0 as u64);
        Some(HeaderCache {
            epoch,
            chosen: to.chosen,
            dst: to.dst,
            port,
            iface: iface.id,
            id: self.secret.hash4(src, dst, epoch, id as u64) as u16,
            room: room.min(usize::from(u16::MAX)) as u16,
            flags,
            checksum: who,
            headers,
            ip_sum,
            udp_sum,
        })
    }
}

/// A destination with its outgoing interface, next hop and source address.
struct Prepared<A, B> {
    dst: A,
    /// Source address that the application specified; 0 if the stack selects it.
    chosen: A,
    src: A,
    src_port: L4Port,
    options: Options,
    exit: Exit<B>,
    /// True if the headers can be cached for the next datagram.
    keeps: bool,
    upper: Upper,
}

/// Reports that a frame does not have the headroom that was requested for it, which is a bug. A
/// test build panics; a release build counts it.
#[cold]
#[inline(never)]
fn headers_do_not_fit(counters: &Counters) -> SendError {
    debug_assert!(false, "no headroom for the headers");
    counters.drops.bump(DropReason::Bug);
    SendError::NoBuffer
}
