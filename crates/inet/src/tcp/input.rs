//! TCP input. It receives bursts from `ip` and passes segments to connections and listeners, or
//! answers with RST.
//!
//! Consecutive segments for one connection form a run. A run acquires the connection's lock once
//! and is answered once, at its end, as with GRO and stretch ACKs in other systems. Within a run,
//! segments with the same header fields are passed to the core as one segment (`lro`). No data is
//! copied: the frame of an in-order segment is queued for receiving unchanged.

use super::counts;
use super::net::Net;
use super::owner::Owner;
use super::predict::Owes;
use super::queue::OutOfOrder;
use super::{Failure, Kind, Listening, Sock, Stream, core_ends};
use crate::Stack;
use crate::demux::Ends;
use crate::family::{Family, cut_extensions};
use crate::iface::AtOnce;
use crate::iface::{Iface, IfaceId};
use crate::ip::exit::Target;
use crate::zone;
use ::tcp::listen;
use ::tcp::{Dropped, Ecn, Events, IcmpNotice, Reply, Segment, SeqNum, Text};
use buf::{Burst, Flags, Frame};
use lock::{Cx, Locks};
use stats::DropReason;
use wire::ip6::{self, Chain};
use wire::{L4Port, Proto, ip4};

/// Header fields of a valid segment.
#[derive(Default)]
pub(super) struct ParsedSegment<A> {
    pub(super) ends: Ends<A>,
    pub(super) segment: Segment,
    /// Start and end offset of the data in the packet.
    text: (usize, usize),
    /// Interface that received the segment.
    pub(super) came_by: IfaceId,
}

/// Maximum number of data bytes in merged segments, which is the size of the largest packet.
const RUN_MOST: u32 = 65_535;

impl<A: Net> ParsedSegment<A> {
    /// Returns whether following segments may be merged into this one: it has data, and no flag or
    /// option that must be processed alone.
    #[inline]
    fn may_lead(&self) -> bool {
        let Segment { flags, len, options, .. } = &self.segment;
        *len > 0 && *flags == wire::tcp::Flags::ACK && options.sack.is_empty()
    }

    /// Returns whether `next` continues this segment's data with the same header fields. All merged
    /// segments but the last must have the size `piece`.
    #[inline]
    fn goes_on_with(&self, next: &ParsedSegment<A>, piece: u32) -> bool {
        let (a, b) = (&self.segment, &next.segment);
        let flags = wire::tcp::Flags(b.flags.0 & !wire::tcp::Flags::PSH.0);
        flags == a.flags
            && self.ends == next.ends
            && b.seq == a.seq.plus(a.len)
            && b.len > 0
            && b.piece() <= piece
            && a.len + b.len <= RUN_MOST
            && (a.ack, a.window, a.ecn) == (b.ack, b.window, b.ecn)
            && a.options == b.options
    }
}

impl<L: Locks> Stack<L> {
    /// Returns the length in bytes of the longest packet that reaches `peer`: the MTU of the
    /// outgoing interface, or the path MTU if that is smaller.
    pub(super) fn fitting<A: Net>(&self, cx: Cx, peer: A) -> usize {
        let path = A::path_mtu(self, cx, peer);
        let iface = match A::exit(self, cx, peer, None) {
            Ok(exit) if matches!(exit.to, Target::Neighbor(_) | Target::Neighbor6(_)) => self.ifaces.get(exit.iface),
            _ => None,
        };
        iface.map_or(path, |iface| A::mtu(iface).min(path))
    }

    /// Processes an IPv6 packet that contains TCP after the extension headers of `chain`.
    pub(crate) fn tcp_input6(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        mut packet: Frame,
        header: &ip6::Header,
        chain: &Chain,
    ) {
        let len = chain.payload_len(header);
        if !cut_extensions(&mut packet, header, Proto::TCP, chain.offset, len) {
            return self.drop_frame(cx, packet, DropReason::TcpNoMemory);
        }
        let zone = iface.map(|iface| iface.id).or_else(|| self.own_zone6(cx, header.src));
        match iface {
            Some(iface) => self.tcp_input_one::<u128>(cx, iface, packet, zone),
            None => self.tcp_input_all::<u128>(cx, None, &mut Burst::of(packet), zone),
        }
    }

    /// Processes unfragmented TCP packets without extension headers or link-local addresses.
    pub(crate) fn tcp_input<A: Net>(&self, cx: Cx, iface: Option<&Iface<L>>, packets: &mut Burst) {
        self.tcp_input_all::<A>(cx, iface, packets, None);
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn tcp_input_all<A: Net>(&self, cx: Cx, iface: Option<&Iface<L>>, packets: &mut Burst, zone: Option<IfaceId>) {
        let trusted = iface.is_none_or(|iface| iface.offload().rx);
        self.count(cx).tcp.input.received.add(packets.len() as u64);
        let (mut open, mut run, mut next) = (None, Burst::new(), None);
        // While memory is short, each segment is accepted or rejected separately. An application
        // without unread data thus gets one segment, not merged segments that use up the remaining
        // memory.
        let lro = self.sysctls.tcp_lro.on() && self.tcp_shortage() == super::charge::Shortage::None;
        while let Some(packet) = packets.pop() {
            let mut seen = ParsedSegment::<A> { came_by: crate::udp::came_by(iface), ..ParsedSegment::default() };
            match next.take() {
                Some(known) => seen = known,
                None => {
                    if let Err(why) = check(&packet, zone, is_sound(&packet, trusted), &mut seen) {
                        self.drop_frame(cx, packet, why);
                        continue;
                    }
                }
            }
            self.tcp_count_large(cx, &packet, &seen);
            if lro && seen.may_lead() && !packets.is_empty() {
                next = self.tcp_gather(cx, (trusted, zone), &mut seen, packets, &mut run);
            }
            self.tcp_packet(cx, &mut open, &seen, packet, Some(&mut run));
        }
        self.tcp_run_ends(cx, open, AtOnce::Later);
    }

    /// Merges the segments from `packets` that continue `seen` into `run`, and updates `seen` to
    /// cover all of them. Returns the parsed headers of the first valid segment that does not
    /// continue `seen`.
    #[inline(never)]
    fn tcp_gather<A: Net>(
        &self,
        cx: Cx,
        (trusted, zone): (bool, Option<IfaceId>),
        seen: &mut ParsedSegment<A>,
        packets: &mut Burst,
        run: &mut Burst,
    ) -> Option<ParsedSegment<A>> {
        let piece = seen.segment.piece();
        while let Some(packet) = packets.as_slice().first() {
            let mut next = ParsedSegment { came_by: seen.came_by, ..ParsedSegment::default() };
            let checked = check(packet, zone, is_sound(packet, trusted), &mut next);
            if checked.is_ok() && !seen.goes_on_with(&next, piece) {
                return Some(next);
            }
            let Some(mut packet) = packets.pop() else { break };
            match checked {
                Ok(()) => {
                    self.tcp_count_large(cx, &packet, &next);
                    seen.segment.len += next.segment.len;
                    seen.segment.flags = seen.segment.flags | next.segment.flags;
                    seen.segment.gso_size = piece as u16; // the size of the data in each packet
                    packet.truncate(next.text.1);
                    packet.pull(next.text.0);
                    run.put(packet, || self.count_bug(cx)); // has space, since it takes no more packets than arrived
                    if next.segment.piece() < piece || next.segment.has(wire::tcp::Flags::PSH) {
                        return None;
                    }
                }
                Err(why) => self.drop_frame(cx, packet, why),
            }
        }
        None
    }

    /// Processes a single segment.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn tcp_input_one<A: Net>(&self, cx: Cx, iface: &Iface<L>, mut packet: Frame, zone: Option<IfaceId>) {
        self.count(cx).tcp.input.received.bump();
        let mut open = None;
        let mut sound = is_sound(&packet, iface.offload().rx);
        if let Some((ends, expected)) = super::predict::read::<A>(&packet, zone, sound) {
            sound = true;
            open = self.tcp_find(cx, ends);
            if let Some(found) = &mut open {
                match self.tcp_expected(cx, found, &expected, packet) {
                    Ok(Owes::Nothing) => return,
                    Ok(Owes::Segments) => return self.tcp_run_ends(cx, open, AtOnce::Yes),
                    Err(back) => packet = back,
                }
            }
        }
        let mut seen = ParsedSegment::<A> { came_by: iface.id, ..ParsedSegment::default() };
        if let Err(why) = check(&packet, zone, sound, &mut seen) {
            return self.drop_frame(cx, packet, why);
        }
        self.tcp_count_large(cx, &packet, &seen);
        self.tcp_packet(cx, &mut open, &seen, packet, None);
        self.tcp_run_ends(cx, open, AtOnce::Yes);
    }

    /// Counts a large segment as the packets into which it is split on the wire. One of these
    /// packets has been counted before.
    #[inline(always)]
    fn tcp_count_large<A: Net>(&self, cx: Cx, packet: &Frame, seen: &ParsedSegment<A>) {
        if packet.flags().has(Flags::GSO) {
            self.count(cx).tcp.input.received.add(u64::from(seen.segment.segments() - 1));
        }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn tcp_packet<'a, A: Net>(
        &'a self,
        cx: Cx,
        open: &mut Option<Owner<'a, L, A>>,
        seen: &ParsedSegment<A>,
        packet: Frame,
        run: Option<&mut Burst>,
    ) {
        if open.as_ref().is_none_or(|open| open.ends != seen.ends) {
            self.tcp_run_ends(cx, open.take(), AtOnce::Later);
            *open = self.tcp_find(cx, seen.ends);
        }
        let Some(Owner { id, slot, .. }) = open else { return self.tcp_unowned(cx, None, seen, packet, run) };
        let id = *id;
        match slot.as_mut() {
            Some(sock) if matches!(sock.kind, Kind::Stream(_)) => self.tcp_segment(cx, id, sock, seen, packet, run),
            Some(sock) if sock.is_listening() => {
                let spreads = sock.options().reuse_port;
                *open = None; // its lock is acquired again, after the lock of the TIME-WAIT table
                let id = if spreads { self.tcp_spread(cx, id, seen.ends) } else { id };
                self.tcp_unowned(cx, Some(id), seen, packet, run);
            }
            _ => self.tcp_unowned(cx, None, seen, packet, run),
        }
    }

    /// Finds and locks the socket for a segment: the socket of its connection, or a listener.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn tcp_find<A: Net>(&self, cx: Cx, ends: Ends<A>) -> Option<Owner<'_, L, A>> {
        let hash = self.tcp.demux.ends_probe::<A>().hash(ends);
        let id = self
            .tcp
            .demux
            .lookup_hashed(cx, || ends.into(), hash)
            .or_else(|| self.tcp_any_port(cx, ends.local.addr()))?;
        let slot = self.tcp.socks.get(id)?.lock(cx);
        let sock = slot.as_ref()?;
        let own = A::ends_of(sock)?;
        let fits = own.accepts(ends) || own == Ends::default() && sock.is_listening();
        fits.then_some(Owner { ends, id, slot })
    }

    /// Sends the segments that result from a run, when the run ends.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn tcp_run_ends<A: Net>(&self, cx: Cx, open: Option<Owner<'_, L, A>>, at_once: AtOnce) {
        let Some(Owner { id, mut slot, .. }) = open else { return };
        let Some(sock) = slot.as_mut() else { return };
        self.tcp_charge(sock);
        let cx = if let Kind::Stream(stream) = &mut sock.kind { stream.on_time(cx) } else { cx };
        let over = self.tcp_output(cx, id, sock, at_once);
        drop(slot);
        self.tcp_free(cx, id, over);
    }

    /// Processes a segment of a connection.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn tcp_segment<A: Net>(
        &self,
        cx: Cx,
        id: usize,
        sock: &mut Sock<L>,
        seen: &ParsedSegment<A>,
        packet: Frame,
        run: Option<&mut Burst>,
    ) {
        let Kind::Stream(stream) = &mut sock.kind else {
            return self.drop_frame(cx, packet, DropReason::TcpNoConnection);
        };
        let cx = stream.on_time(cx);
        let had_room = stream.has_room();
        stream.has_soft_error = false;
        let before = stream.recv.end();
        stream.dirty = true;
        let counted = self.count(cx);
        let run = run.filter(|run| !run.is_empty());
        let mut gone = false;
        let reply = match self.tcp_refuses(cx, stream, &seen.segment) {
            false => {
                let reply = stream.tcb.on_segment(&seen.segment, cx.now);
                counts::came(&counted.tcp, &mut stream.tcb, &seen.segment, &reply);
                if let Some(why) = reply.dropped {
                    counts::refused(&counted.tcp, &seen.segment, why, stream.tcb.rcv_nxt(), reply.answer.is_some());
                }
                let kept = stream.keep(&counted.tcp.input, reply.text, before, seen, packet);
                if let Some(run) = run {
                    self.tcp_keep_run(cx, stream, &reply, before, seen.text, run);
                }
                if let Text::Accept { len, .. } = reply.text
                    && reply.in_order > len
                {
                    gone = !stream.join(reply.in_order - len);
                }
                match (reply.dropped, kept) {
                    (Some(why), Some(packet)) => self.drop_frame(cx, packet, reason(why)),
                    (_, None) => counted.audit.consumed.bump(), // at least part of its data was accepted
                    (None, packet) => {
                        counted.audit.consumed.bump();
                        drop(packet);
                    }
                }
                reply
            }
            true => {
                let segment = self.tcp_without_text(cx, &seen.segment, packet);
                run.into_iter().flat_map(Burst::drain).for_each(|f| self.drop_frame(cx, f, DropReason::TcpNoMemory));
                let reply = stream.tcb.on_segment(&segment, cx.now);
                counts::noted(&counted.tcp, &mut stream.tcb);
                reply
            }
        };
        self.tcp_count_state(cx, stream, reply.events);
        if reply.acked > 0 {
            stream.send.release(reply.acked);
            stream.last_progress = cx.now;
        }
        if sock.shut_read
            && let Kind::Stream(stream) = &mut sock.kind
        {
            let unread = stream.recv.clear();
            stream.tcb.consumed(unread as u32, cx.now);
        }
        // A writer is notified when the send buffer has space again, not at every acknowledgment.
        let room = matches!(&sock.kind, Kind::Stream(stream) if !had_room && stream.has_room());
        let mut events = Events(reply.events.0 & !Events::WRITABLE.0);
        if room {
            events |= Events::WRITABLE;
        }
        if events.contains(Events::URGENT) {
            counted.tcp.input.urgent.bump();
        }
        if reply.in_order > 0 {
            events |= Events::READABLE;
        }
        if let Some(answer) = &reply.answer {
            self.tcp_answer(cx, sock, answer);
        }
        sock.note(cx, id, events);
        if gone {
            self.tcp_text_is_gone(cx, id, sock);
        }
    }

    /// Resets a connection that has lost acknowledged data, which is a bug. A test build panics.
    #[cold]
    #[inline(never)]
    fn tcp_text_is_gone(&self, cx: Cx, id: usize, sock: &mut Sock<L>) {
        debug_assert!(false, "out-of-order data is missing from the receive queue");
        self.count_bug(cx);
        self.tcp_give_up(cx, sock, Failure::Reset);
        sock.wake(cx, id);
    }

    /// Stores the data of the second and following frames of merged segments.
    #[inline(never)]
    fn tcp_keep_run(
        &self,
        cx: Cx,
        stream: &mut Stream,
        reply: &Reply,
        before: u64,
        text: (usize, usize),
        run: &mut Burst,
    ) {
        let mut from = (text.1 - text.0) as u32;
        for frame in run.drain() {
            let len = frame.len() as u32;
            match reply.dropped {
                Some(why) => self.drop_frame(cx, frame, reason(why)),
                None => {
                    stream.keep_text(reply.text, from, before, frame);
                    self.count(cx).audit.consumed.bump();
                }
            }
            from += len;
        }
    }

    /// Processes segments that have no connection, for a listener or without a socket, one at a
    /// time.
    fn tcp_unowned<A: Net>(
        &self,
        cx: Cx,
        listener: Option<usize>,
        seen: &ParsedSegment<A>,
        packet: Frame,
        run: Option<&mut Burst>,
    ) {
        let Some(run) = run.filter(|run| !run.is_empty()) else {
            return self.tcp_for_listener(cx, listener, seen, packet);
        };
        let mut one = ParsedSegment { segment: seen.segment, ..*seen };
        one.segment.gso_size = 0;
        one.segment.len = (seen.text.1 - seen.text.0) as u32;
        self.tcp_for_listener(cx, listener, &one, packet);
        for packet in run.drain() {
            one.segment.seq = one.segment.seq.plus(one.segment.len);
            one.segment.len = packet.len() as u32;
            one.text = (0, packet.len());
            // The first segment may have created a connection. Without a listener, there is no
            // lookup, since the caller holds the socket's lock.
            let child = listener.and_then(|_| self.tcp_find(cx, seen.ends));
            let child = child.filter(|open| open.slot.as_ref().is_some_and(|sock| !sock.is_listening()));
            let Some(Owner { id, mut slot, .. }) = child else {
                self.tcp_for_listener(cx, listener, &one, packet);
                continue;
            };
            if let Some(sock) = slot.as_mut() {
                self.tcp_segment(cx, id, sock, &one, packet, None);
            }
            self.tcp_run_ends(cx, Some(Owner { ends: seen.ends, id, slot }), AtOnce::Later);
        }
    }

    /// Reports an ICMP error to the connection that sent the quoted segment. Returns whether the
    /// quoted segment is still unacknowledged (RFC 5927 4.1).
    pub(crate) fn tcp_error(&self, cx: Cx, header: &ip4::Header, quoted: &[u8], what: IcmpNotice) -> bool {
        self.tcp_failed(cx, (header.src.to_bits(), header.dst.to_bits()), quoted, what)
    }

    /// Reports an ICMPv6 error to the connection that sent the quoted segment. `iface` is the
    /// interface on which the error arrived, which is the zone of link-local addresses. It is
    /// `None` if this host itself created the error.
    pub(crate) fn tcp_error6(
        &self,
        cx: Cx,
        iface: Option<IfaceId>,
        header: &ip6::Header,
        quoted: &[u8],
        what: IcmpNotice,
    ) -> bool {
        let zone = iface.or_else(|| self.own_zone6(cx, header.src));
        self.tcp_failed(cx, (zone::embed(header.src, zone), zone::embed(header.dst, zone)), quoted, what)
    }

    fn tcp_failed<A: Net>(&self, cx: Cx, (local, remote): (A, A), quoted: &[u8], what: IcmpNotice) -> bool {
        let Some(&[s0, s1, d0, d1, q0, q1, q2, q3]) = quoted.first_chunk::<8>() else { return false };
        let ends = Ends {
            local,
            remote,
            local_port: L4Port(u16::from_be_bytes([s0, s1])),
            remote_port: L4Port(u16::from_be_bytes([d0, d1])),
        };
        let seq = SeqNum(u32::from_be_bytes([q0, q1, q2, q3]));
        let Some(Owner { id, mut slot, .. }) = self.tcp_find(cx, ends) else { return false };
        let Some(sock) = slot.as_mut() else { return false };
        let mut sent = false;
        match &mut sock.kind {
            Kind::Stream(stream) => {
                let is_under_way = seq.at_or_after(stream.tcb.snd_una()) && seq.before(stream.tcb.snd_nxt());
                sent = is_under_way && stream.tcb.state() != ::tcp::State::Closed;
                let events = stream.tcb.on_icmp(what, seq, cx.now);
                counts::noted(&self.count(cx).tcp, &mut stream.tcb);
                stream.dirty = true;
                self.tcp_count_state(cx, stream, events);
                sock.note(cx, id, events);
            }
            Kind::Listening(listening) => {
                let Listening { listener, configs, .. } = &mut **listening;
                let counts = &self.count(cx).tcp.listen;
                let context = listen::Context { config: A::listen_config(configs), counts, now: cx.now, above: None };
                if !listener.on_unreachable(context, &core_ends(ends), seq) {
                    self.count(cx).tcp.pmtu.icmp_refused.bump();
                } else if listening.held.is_some() {
                    sock.wake(cx, id); // wakes callers that wait for the connection
                }
            }
            Kind::Fresh => {}
        }
        let over = self.tcp_output(cx, id, sock, AtOnce::Later);
        drop(slot);
        self.tcp_free(cx, id, over);
        sent
    }
}

impl Stream {
    /// Stores the data that the core accepted. Returns the frame if none of its data was stored.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn keep<A: Net>(
        &mut self,
        counts: &::tcp::counters::In,
        text: Text,
        before: u64,
        seen: &ParsedSegment<A>,
        mut packet: Frame,
    ) -> Option<Frame> {
        let Text::Accept { skip, len, at } = text else { return Some(packet) };
        let (start, end) = seen.text;
        let start = start + skip as usize;
        if at > 0 {
            counts::out_of_order(counts, &seen.segment, skip, len);
            let bytes = packet.bytes().get(start..end).unwrap_or_default();
            let bytes = bytes.get(..len as usize).unwrap_or(bytes);
            self.ooo.get_or_insert_default().insert(before + u64::from(at), bytes);
            return None;
        }
        counts::in_sequence(counts, &seen.segment, skip, len);
        packet.truncate(start + len as usize);
        if packet.pull(start) {
            self.recv.push(packet);
        }
        None
    }

    /// Stores the accepted part of a frame that contains only data. The data begins at offset
    /// `from` of the merged segments.
    fn keep_text(&mut self, text: Text, from: u32, before: u64, mut frame: Frame) {
        let Text::Accept { skip, len, at } = text else { return };
        let (begin, end) = (skip.max(from), (skip + len).min(from + frame.len() as u32));
        if begin >= end {
            return; // outside the accepted range
        }
        frame.truncate((end - from) as usize);
        frame.pull((begin - from) as usize);
        match at {
            0 => self.recv.push(frame),
            at => {
                let place = before + u64::from(at) + u64::from(begin - skip);
                self.ooo.get_or_insert_default().insert(place, frame.bytes());
            }
        }
    }

    /// Moves the `len` bytes of out-of-order data that are now in order to the receive queue.
    /// Returns `false` if any of these bytes are missing.
    #[cold]
    fn join(&mut self, len: u32) -> bool {
        let Some(ooo) = &mut self.ooo else { return false };
        let taken = ooo.take(self.recv.end(), u64::from(len), &mut self.recv);
        if !self.tcb.holds_out_of_order() {
            self.ooo = None::<Box<OutOfOrder>>;
        }
        taken
    }
}

/// Returns whether the checksum needs no verification: either it was left to the port and the
/// packet has not been on a wire, or a `trusted` port has verified it.
#[inline(always)]
pub(super) fn is_sound(packet: &Frame, trusted: bool) -> bool {
    let flags = packet.flags();
    flags.has(Flags::TX_L4_CSUM) || (trusted && flags.has(Flags::RX_L4_OK))
}

/// Checks the lengths and, unless `sound` is set, the checksum, and fills in `seen` (RFC 9293 3.1).
/// `seen` has 130 bytes, so it is passed by reference to avoid a copy.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn check<A: Net>(
    packet: &Frame,
    zone: Option<IfaceId>,
    sound: bool,
    seen: &mut ParsedSegment<A>,
) -> Result<(), DropReason> {
    let bytes = packet.bytes();
    let ip = A::glimpse(bytes, zone).ok_or(A::MALFORMED)?;
    let (start, end) = ip.upper;
    let segment = bytes.get(start..end).ok_or(A::MALFORMED)?;
    let header = wire::tcp::Header::parse(segment).map_err(|_| DropReason::TcpMalformed)?;
    if !sound {
        let pseudo = A::pseudo(ip.src, ip.dst, Proto::TCP, segment.len() as u32);
        if !wire::tcp::checksum_ok(pseudo, segment) {
            return Err(DropReason::TcpBadChecksum);
        }
    }
    if header.src.0 == 0 || header.dst.0 == 0 {
        return Err(DropReason::TcpPortZero);
    }
    if ip.dst.is_for_many() || packet.flags().has(Flags::LINK_BROADCAST) {
        return Err(DropReason::TcpGroup); // RFC 9293 3.9.2.3, MUST-57
    }
    seen.ends = Ends { local: ip.dst, remote: ip.src, local_port: header.dst, remote_port: header.src };
    let options = segment.get(wire::tcp::HEADER_LEN..header.header_len).unwrap_or_default();
    let len = (segment.len() - header.header_len) as u32;
    seen.segment = Segment::parse_bytes(&header, options, len, Ecn::from_bits(ip.tos));
    if let Some(size) = packet.gso_size() {
        seen.segment.gso_size = size;
    }
    seen.text = (start + header.header_len, end);
    Ok(())
}

/// Converts a drop reason of the core into a drop reason of frames.
fn reason(why: Dropped) -> DropReason {
    match why {
        Dropped::NoConnection => DropReason::TcpNoConnection,
        Dropped::BadFlags => DropReason::TcpBadFlags,
        Dropped::Paws => DropReason::TcpPaws,
        Dropped::OutOfWindow | Dropped::TextBeyondWindow => DropReason::TcpOutOfWindow,
        Dropped::ResetInWindow => DropReason::TcpResetChallenged,
        Dropped::ResetOutOfWindow | Dropped::ResetUnacknowledged => DropReason::TcpResetIgnored,
        Dropped::SynInWindow => DropReason::TcpSynChallenged,
        Dropped::SynDuplicate => DropReason::TcpSynDuplicate,
        Dropped::NoAck => DropReason::TcpNoAck,
        Dropped::AckUnsent => DropReason::TcpAckUnsent,
        Dropped::AckTooOld => DropReason::TcpAckTooOld,
        Dropped::AckInHandshake => DropReason::TcpBadHandshake,
        Dropped::TextDuplicate => DropReason::TcpDuplicate,
        Dropped::TextAfterFin => DropReason::TcpAfterFin,
        Dropped::TextAfterClose => DropReason::TcpAfterClose,
        Dropped::ReassemblyFull => DropReason::TcpReassemblyFull,
        Dropped::ResetInTimeWait | Dropped::TimeWaitDuplicate => DropReason::TcpTimeWait,
    }
}

/// Returns the maximum number of data bytes in a segment without options that is sent in a packet
/// of `mtu` bytes.
pub(crate) fn mss_of<A: Family>(mtu: usize) -> u16 {
    mtu.saturating_sub(A::IP_LEN + wire::tcp::HEADER_LEN).clamp(1, usize::from(u16::MAX)) as u16
}
