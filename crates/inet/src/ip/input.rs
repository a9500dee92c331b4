//! IP input on the fast path, from the link layer to the transport protocols or to forwarding.
//!
//! A chunk of packets is parsed in place. One burst lookup in the FIB determines which packets are
//! delivered and which are forwarded, since the FIB also contains the host's own addresses. A chunk
//! with only one protocol and one next hop is passed on as a whole.

use super::Input;
use crate::Stack;
use crate::iface::Iface;
use crate::route::{Hop, Via};
use crate::stack::{CHUNK, OwnFilter, SlowFrames};
use buf::{Burst, Frame};
use fib::NextHopId;
use lock::{Cx, Locks, Pinned};
use stats::{DropReason, Lap, Stage};
use wire::{Mac, Proto};

/// Protocols of the packets in a chunk, as the bitwise AND and OR of their protocol numbers. This
/// takes two instructions per packet and shows whether all packets have the same protocol.
#[derive(Clone, Copy)]
struct Protos {
    all: u8,
    any: u8,
}

impl Protos {
    const NONE: Protos = Protos { all: u8::MAX, any: 0 };

    #[inline(always)]
    fn note(&mut self, proto: Proto) {
        self.all &= proto.0;
        self.any |= proto.0;
    }

    #[inline(always)]
    fn are(self, proto: Proto) -> bool {
        self.all == proto.0 && self.any == proto.0
    }
}

impl<L: Locks> Stack<L> {
    /// Processes up to a chunk of packets. `iface` is the receiving interface; `None` for loopback.
    /// If `station` is set, the packets still have their Ethernet header, and the fast path accepts
    /// only those with this destination; source addresses are not validated then. Checking the
    /// headers of both layers together, and updating the frame only once, reduces the cost of a
    /// routed frame by a sixth.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn ip_input<F: Input>(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        station: Option<Mac>,
        packets: &mut Burst,
        lap: Lap<'_>,
    ) {
        let n = packets.len().min(CHUNK);
        if n == 0 {
            return;
        }
        if station.is_none() && iface.is_some_and(|iface| !F::is_spoken(iface)) {
            return packets.drain().for_each(|packet| self.drop_frame(cx, packet, DropReason::EtherUnknownType));
        }
        let trusted = iface.is_none_or(|iface| iface.offload().rx);
        let own = if iface.is_some() { F::own(self).now() } else { OwnFilter::NONE };
        let (mut dst, mut slow) = ([F::default(); CHUNK], SlowFrames::default());
        let mut protos = Protos::NONE;
        for (at, (packet, dst)) in packets.as_mut_slice().iter_mut().zip(&mut dst).enumerate() {
            match F::open(packet, station, trusted, own) {
                Some(opened) => {
                    protos.note(opened.proto);
                    *dst = opened.dst;
                }
                None => slow.add(at),
            }
        }
        if let Some(iface) = iface.filter(|_| station.is_none() && self.validates::<F>()) {
            slow = slow.or(self.invalid_sources::<F>(cx, iface, packets));
        }
        if slow.any() {
            return F::input_slow(self, cx, iface, station.is_some(), packets, slow, lap);
        }
        F::counts(self.count(cx)).received.add(n as u64);
        lap.mark(Stage::Ip4Input, n as u64);
        self.ip_dispatch(cx, iface, packets, dst.get(..n).unwrap_or_default(), protos, lap);
    }

    /// Delivers or forwards up to a chunk of packets that [`Input::open`] accepted. `dst` are their
    /// destinations.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn ip_dispatch<F: Input>(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packets: &mut Burst,
        dst: &[F],
        protos: Protos,
        lap: Lap<'_>,
    ) {
        let (n, reader, counts) = (packets.len(), F::routes_reader(self), F::counts(self.count(cx)));
        let mut ids = [None; CHUNK];
        let pinned = reader.pin(cx); // keeps the next hops in `ids` valid until the chunk is processed
        self.count_routes(cx, &pinned, packets.as_slice(), dst);
        let mut common = reader.lookup_chunk(&pinned, dst, &mut ids);
        if reader.has_paths() {
            common = self.choose_paths::<F>(cx, &pinned, packets, &mut ids);
        }
        match common.map(|hop| (hop.via, hop)) {
            Some((Via::Local(_), hop)) if protos.are(Proto::UDP) && self.is_for_sockets(cx, &hop, dst) => {
                counts.delivered.add(n as u64);
                lap.mark(Stage::Ip4Forward, n as u64);
                self.udp_input::<F>(cx, iface, packets);
                lap.mark(Stage::Demux, n as u64);
            }
            Some((Via::Local(_), hop)) if protos.are(Proto::TCP) && self.is_for_sockets(cx, &hop, dst) => {
                counts.delivered.add(n as u64);
                lap.mark(Stage::Ip4Forward, n as u64);
                self.tcp_input::<F>(cx, iface, packets);
                lap.mark(Stage::Demux, n as u64);
            }
            Some((Via::Gateway(..) | Via::Gateway6(..) | Via::Link(_), hop)) => {
                self.ip_forward::<F>(cx, iface, packets, Some(&hop));
                lap.mark(Stage::Ip4Forward, n as u64);
            }
            None => self.ip_through_gateways::<F>(cx, iface, packets, &ids, &pinned, lap),
            _ => F::input_opened(self, cx, iface, packets, &ids, lap),
        }
    }

    /// Forwards packets with different next hops. Packets at the front take the fast path, up to
    /// the first packet that needs the slow path. This packet and all packets after it take the
    /// slow path.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn ip_through_gateways<F: Input>(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packets: &mut Burst,
        ids: &[Option<NextHopId>],
        pinned: &Pinned<'_>,
        lap: Lap<'_>,
    ) {
        let n = packets.len();
        let passed = self.forward_through_gateways::<F>(cx, iface, packets, ids, pinned);
        lap.mark(Stage::Ip4Forward, passed as u64);
        if passed < n {
            F::input_opened(self, cx, iface, packets, ids.get(passed..).unwrap_or_default(), lap);
        }
    }

    /// Returns whether the fast path can deliver these packets to sockets: no raw socket receives
    /// copies, and the host may use all of the destination addresses, which belong to one
    /// interface.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn is_for_sockets<F: Input>(&self, cx: Cx, hop: &Hop<F::Addr>, dst: &[F]) -> bool {
        let Via::Local(iface) = hop.via else { return false };
        // `before` is written only if the value changes: reading 16 bytes that were just written in
        // two parts would stall the processor.
        let mut before = None;
        let mut is_usable = |dst: F| {
            before == Some(dst) || {
                before = Some(dst);
                F::is_usable(self, cx, iface, dst)
            }
        };
        !self.raw.has_transport(F::DOMAIN) && dst.iter().all(|dst| is_usable(*dst))
    }

    /// Processes a single packet without a link header.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn ip_input_one<F: Input>(&self, cx: Cx, iface: &Iface<L>, mut packet: Frame, lap: Lap<'_>) {
        let counts = F::counts(self.count(cx));
        let opened = F::open(&mut packet, None, iface.offload().rx, F::own(self).now());
        let Some(opened) = opened.filter(|opened| self.is_valid_source(cx, iface.id, opened.src)) else {
            return F::input_slow(self, cx, Some(iface), false, &mut Burst::of(packet), SlowFrames::FIRST, lap);
        };
        counts.received.bump();
        lap.mark(Stage::Ip4Input, 1);
        let pinned = F::routes_reader(self).pin(cx);
        self.count_routes(cx, &pinned, std::slice::from_ref(&packet), &[opened.dst]);
        let hop = self.route_lookup(cx, &pinned, opened.dst);
        let hop = hop.and_then(|hop| self.choose_path::<F>(cx, &pinned, hop, &packet));
        match hop {
            Some(hop @ Hop { via: Via::Local(_), .. })
                if matches!(opened.proto, Proto::TCP | Proto::UDP) && self.is_for_sockets(cx, &hop, &[opened.dst]) =>
            {
                counts.delivered.bump();
                lap.mark(Stage::Ip4Forward, 1);
                match opened.proto {
                    Proto::TCP => self.tcp_input_one::<F>(cx, iface, packet, None),
                    _ => self.udp_input_one::<F>(cx, iface, packet),
                }
                lap.mark(Stage::Demux, 1);
            }
            Some(hop @ Hop { via: Via::Gateway(..) | Via::Gateway6(..) | Via::Link(_), .. }) => {
                self.ip_forward::<F>(cx, Some(iface), &mut Burst::of(packet), Some(&hop));
                lap.mark(Stage::Ip4Forward, 1);
            }
            _ => {
                let id = hop.map(|hop| hop.id);
                F::input_opened(self, cx, Some(iface), &mut Burst::of(packet), &[id], lap);
            }
        }
    }
}
