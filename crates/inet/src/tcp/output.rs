//! TCP output: sends the segments that `Tcb::poll_segment` returns as frames.
//!
//! Most segments use the headers of the previous one: the Ethernet and IP headers are cached with
//! their checksums, which are valid while the stack's epoch is unchanged. The headers are prepended
//! to the buffer of the send queue, which is lent to the frame. Nothing else is written, since the
//! checksum of the payload was computed when the payload was copied into the buffer. All other
//! segments pass through the layers one by one ([`Family::send`]).
//!
//! With TSO on the interface, data is sent in large segments of up to 64 KiB. A large segment
//! passes through this code once and is one frame for the port. A whole buffer of the send queue is
//! lent to the frame. The rest of a partly sent buffer is copied.

use super::counts;
use super::headers::{Headers, LINK, NO_QUEUE, PEERS};
use super::net::Net;
use super::queue::{Range, SendQueue};
use super::{Kind, Options, Sock, Stream};
use crate::Stack;
use crate::demux::{Addr, Ends};
use crate::ends::SockEnds;
use crate::family::{Family, Head};
use crate::iface::AtOnce;
use crate::iface::{Iface, IfaceKind};
use crate::ip::exit::Target;
use ::tcp::time_wait;
use ::tcp::{Ecn, Events, Out, Tcb};
use buf::{Flags, Frame};
use lock::{Cx, Locks};
use stats::{DropReason, Stage, trace};
use wire::Proto;
use wire::checksum::{self, Partial};
use wire::eth;

/// Returns the length in bytes of the link and network headers of a family.
#[inline(always)]
pub(super) const fn lower<A: Family>() -> usize {
    LINK + A::IP_LEN
}

/// IP header fields that depend on a socket's options.
#[derive(Clone, Copy, Debug)]
pub(super) struct IpOptions {
    ttl: u8,
    tos: u8,
}

impl IpOptions {
    pub(super) fn of<A: Family, L: Locks>(options: &Options, stack: &Stack<L>) -> IpOptions {
        IpOptions { ttl: options.ttl.unwrap_or_else(|| A::ttl(stack)), tos: options.tos & !3 }
    }
}

/// Converts addresses and ports from the core's type.
pub(super) fn sock_ends(ends: &::tcp::Ends) -> SockEnds {
    SockEnds::between(Addr(ends.local), Addr(ends.remote), ends.local_port, ends.remote_port)
}

/// A segment about to be sent.
struct Leaving<'a> {
    out: &'a Out,
    /// Frame with the data, and the checksum of the data if it is known.
    text: (Frame, Option<Partial>),
    /// True if no other segment follows. This segment then need not be staged at its interface.
    alone: bool,
}

/// Cleanup that a socket needs after its lock is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Over {
    /// No cleanup: the socket continues to exist.
    No,
    /// The connection is in TIME-WAIT, and its record is stored in a separate table. The process
    /// has not closed the socket.
    Late,
    /// The connection has ended, and the process has closed the socket.
    Gone,
    /// Like `Gone`, but the socket is also in the table of L4 ports.
    GoneBound,
}

impl Over {
    pub(super) fn gone(is_bound: bool) -> Over {
        if is_bound { Over::GoneBound } else { Over::Gone }
    }
}

impl<L: Locks> Stack<L> {
    /// Sends the segments that are due, sets the timer, and returns the cleanup that the socket
    /// needs. Must be called after each change of the connection, before the lock is released.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn tcp_output(&self, cx: Cx, id: usize, sock: &mut Sock<L>, at_once: AtOnce) -> Over {
        let Kind::Stream(stream) = &mut sock.kind else { return Over::No };
        match (std::mem::take(&mut stream.dirty), sock.is_six()) {
            (false, _) => Over::No,
            (true, false) => self.tcp_output_stream::<u32>(cx, id, sock, at_once),
            (true, true) => self.tcp_output_stream::<u128>(cx, id, sock, at_once),
        }
    }

    #[inline(never)]
    fn tcp_output_stream<A: Net>(&self, cx: Cx, id: usize, sock: &mut Sock<L>, at_once: AtOnce) -> Over {
        let Some(ends) = A::ends_of(sock) else { return Over::No };
        let is_bound = sock.place.is_bound();
        let Kind::Stream(stream) = &mut sock.kind else { return Over::No };
        let is_new = stream.headers.queue == NO_QUEUE;
        if L::SHARED && stream.tcb.is_all_acknowledged() && (is_new || stream.tcb.not_sent() > 0) {
            // The connection moves to this thread's queue. Segments cannot overtake others, since
            // there is no unacknowledged data.
            stream.headers.queue = self.queue_number(cx) as u16;
        }
        let lap = self.resume(cx);
        let outer = lap.nest();
        self.tcp_count_state(cx, stream, Events::NONE);
        let short = at_once == AtOnce::Yes && self.tcp_send_next(cx, ends, stream)
            || self.tcp_send_bare_next(cx, ends, stream, sock.options.as_deref(), at_once);
        if !short && !stream.tcb.has_output() {
            counts::noted(&self.count(cx).tcp, &mut stream.tcb);
        } else if !short {
            let options = match &sock.options {
                Some(options) => IpOptions::of::<A, L>(options, self),
                None => IpOptions { ttl: A::ttl(self), tos: 0 },
            };
            self.tcp_flush(cx, ends, stream, &options, at_once);
        }
        self.tcp_arm(cx, id, stream);
        lap.mark(Stage::TcpOutput, 0);
        lap.unnest(outer);
        if stream.found
            && let Some(left) = stream.tcb.remains()
        {
            let counts = &self.count(cx).tcp.time_wait;
            let mut late = self.tcp.late.lock(cx);
            self.with_tcp_config(cx, |config| {
                late.insert(time_wait::Context { config, counts, now: cx.now }, &super::core_ends(ends), &left);
            });
            drop(late);
            stream.found = false;
            if !sock.orphan {
                return Over::Late;
            }
        }
        // Another thread may have returned `Over::gone` already, and not removed the socket yet.
        let is_gone = sock.orphan && (stream.tcb.state() == ::tcp::State::Closed || !stream.found);
        match is_gone && !std::mem::replace(&mut stream.freed, true) {
            true => Over::gone(is_bound),
            false => Over::No,
        }
    }

    #[inline(never)]
    fn tcp_flush<A: Net>(&self, cx: Cx, ends: Ends<A>, stream: &mut Stream, options: &IpOptions, at_once: AtOnce) {
        let (mut staged, mut out) = (false, Out::default());
        while stream.tcb.has_output() {
            let (most, spare) = self.tcp_largest(cx, stream);
            if !stream.tcb.poll_into(cx.now, most, &mut out) {
                break;
            }
            // A segment that is sent alone goes directly to the port.
            let alone = at_once == AtOnce::Yes && !staged && !stream.tcb.has_output();
            let text = self.tcp_payload(cx, &mut stream.send, &out, spare);
            let gone =
                text.and_then(|text| self.tcp_emit(cx, ends, stream, Leaving { out: &out, text, alone }, options));
            if gone.is_none() {
                stream.tcb.on_not_sent(&out, cx.now);
                self.count(cx).tcp.output.not_sent.bump();
                break; // no buffer is free: the timer causes a retry
            }
            staged |= !alone;
        }
        counts::noted(&self.count(cx).tcp, &mut stream.tcb);
        if staged && at_once == AtOnce::Yes {
            self.tcp_hand_over(cx, &stream.headers);
        }
    }

    /// Returns the maximum number of data bytes in the next segment; 0 selects the MSS. Also
    /// returns a buffer for the segment if the segment is large and must be copied.
    #[inline]
    fn tcp_largest(&self, cx: Cx, stream: &mut Stream) -> (u32, Option<Frame>) {
        if stream.headers.has_ethernet_limits() || stream.tcb.not_sent() <= u32::from(stream.tcb.mss()) {
            return (0, None);
        }
        let (rest, front) = stream.send.rest_of_piece_at(next_text(&stream.tcb));
        let rest = (rest as u32).min(stream.headers.most_text());
        if front {
            return (rest, None);
        }
        if !stream.headers.tso || rest <= u32::from(stream.tcb.mss()) {
            return (0, None);
        }
        let spare = self.large_buffer(cx);
        (if spare.is_some() { rest } else { 0 }, spare)
    }

    /// Flushes the transmit queue of a connection, or all queues of this thread if that queue is
    /// unknown.
    fn tcp_hand_over(&self, cx: Cx, headers: &Headers) {
        let iface = self.ifaces.get(headers.iface);
        match iface.filter(|iface| iface.kind == IfaceKind::Ethernet && iface.tunnel.is_none()) {
            Some(iface) if !headers.are_stale(self.epoch()) => {
                self.flush_stage(cx, &mut iface.queues.at(|| headers.queue()).lock(cx));
            }
            _ => self.flush(cx),
        }
    }

    /// Sends one segment of a connection.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn tcp_emit<A: Net>(
        &self,
        cx: Cx,
        ends: Ends<A>,
        stream: &mut Stream,
        Leaving { out, text: (frame, sum), alone }: Leaving<'_>,
        options: &IpOptions,
    ) -> Option<()> {
        let counters = self.count(cx);
        let lap = counters.ledger.resume();
        counters.audit.made.bump();
        counts::left(&counters.tcp, &stream.tcb, out);
        // The first segment of a connection also takes the fast path if the neighbor is resolved.
        if stream.headers.are_stale(self.epoch()) {
            self.tcp_keep_headers(cx, ends, &mut stream.headers, options);
        }
        if stream.headers.epoch == self.epoch() && stream.headers.takes(out) {
            let frame = stream.headers.emit(ends, out, frame, sum)?;
            lap.mark(Stage::TcpOutput, 1);
            self.tcp_stage::<A>(cx, &stream.headers, frame, alone);
            return Some(());
        }
        let queue = stream.headers.queue();
        self.sending_by(cx, queue, || self.tcp_send_layered(cx, ends, out, frame, sum, options));
        lap.mark(Stage::TcpOutput, 1);
        if alone {
            self.flush(cx);
        }
        Some(())
    }

    /// Returns a frame with the segment's data, and the checksum of the data if it is known.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn tcp_payload(
        &self,
        cx: Cx,
        queue: &mut SendQueue,
        out: &Out,
        spare: Option<Frame>,
    ) -> Option<(Frame, Option<Partial>)> {
        if out.text_len == 0 {
            return Some((self.buffer_for(cx, 0)?, Some(Partial::ZERO)));
        }
        if let Range::Front(index) = queue.locate(out.text_at, out.text_len)
            && let Some(lent) = queue.lend(index, out.text_len)
        {
            return Some(lent);
        }
        let mut frame = match spare {
            Some(frame) => frame,
            None => self.buffer_for(cx, out.text_len as usize)?,
        };
        let sum = queue.copy(out.text_at, out.text_len, &mut frame)?;
        Some((frame, sum))
    }

    /// Returns a buffer for `len` bytes: from the pool, or a large one.
    pub(super) fn buffer_for(&self, cx: Cx, len: usize) -> Option<Frame> {
        if self.pool.headroom() + len > self.pool.size() {
            return self.large_buffer(cx);
        }
        let frame = self.pool.get()?;
        trace::buffer_made(|| self.pool.number());
        Some(frame)
    }

    /// Sends a segment through the layers one by one.
    #[inline(never)]
    fn tcp_send_layered<A: Net>(
        &self,
        cx: Cx,
        ends: Ends<A>,
        out: &Out,
        mut frame: Frame,
        sum: Option<Partial>,
        options: &IpOptions,
    ) {
        let (src, dst) = (ends.local, ends.remote);
        let exit = match A::exit(self, cx, dst, None) {
            Ok(exit) => exit,
            Err(_) => {
                A::counts(self.count(cx)).no_route.bump();
                return self.drop_frame(cx, frame, A::NO_ROUTE);
            }
        };
        let partial = !matches!(exit.to, Target::Here)
            && (out.is_large() || self.ifaces.get(exit.iface).is_some_and(|iface| iface.offload().tx_l4));
        if out.is_large() {
            frame.set_gso_size(out.mss);
        }
        let sum = text_sum(partial, sum, &frame);
        let len = wire::tcp::HEADER_LEN + out.options.len();
        let Some(head) = frame.push_n(len) else {
            return self.drop_as_bug(cx, frame, "no headroom for the headers");
        };
        write_header(head, ends, out);
        let total = len as u32 + out.text_len;
        let pseudo = A::pseudo(src, dst, Proto::TCP, total);
        let field = match partial {
            true => !pseudo.finish(),
            false => pseudo.add(checksum::sum(head)).add(sum).finish(),
        };
        if let Some(place) = head.get_mut(16..18) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        let (tos, ports) = (options.tos | out.ecn.bits(), [ends.local_port, ends.remote_port]);
        let ttl = options.ttl;
        let head = Head { src, dst, proto: Proto::TCP, tos, ttl, df: true, has_header: false, ports };
        // A segment that cannot be sent is dropped and counted in `send`. The retransmission timer
        // causes it to be sent again.
        let _ = A::send(self, cx, frame, &head, &exit, partial, AtOnce::Later);
    }

    /// Sends a segment that belongs to no connection: an RST, a challenge ACK, or a listener's
    /// SYN-ACK.
    #[inline(never)]
    pub(super) fn tcp_send_bare<A: Net>(&self, cx: Cx, ends: Ends<A>, out: &Out, options: &IpOptions) {
        let Some(frame) = self.make_frame(cx) else { return };
        counts::left_bare(&self.count(cx).tcp, out);
        let mut headers = Headers { queue: self.queue_number(cx) as u16, ..Headers::default() };
        self.tcp_keep_headers(cx, ends, &mut headers, options);
        if headers.are_stale(self.epoch()) || !headers.takes(out) {
            return self.tcp_send_layered(cx, ends, out, frame, Some(Partial::ZERO), options);
        }
        if let Some(frame) = headers.emit(ends, out, frame, Some(Partial::ZERO)) {
            self.tcp_stage::<A>(cx, &headers, frame, false);
        }
    }

    /// Passes a segment with all its headers to the interface. If `alone` is set, passes it
    /// directly to the port.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn tcp_stage<A: Net>(&self, cx: Cx, headers: &Headers, frame: Frame, alone: bool) {
        A::counts(self.count(cx)).sent.add(1);
        match self.ifaces.get(headers.iface) {
            Some(iface) if alone => self.stage_alone(cx, iface, headers.queue(), frame),
            Some(iface) => {
                self.stage_locked(cx, iface, &mut iface.queues.at(|| headers.queue()).lock(cx), frame);
            }
            None => self.drop_frame(cx, frame, DropReason::TxNoPort),
        }
    }

    /// Caches the headers for segments to this peer, if its MAC address is known.
    pub(super) fn tcp_keep_headers<A: Net>(&self, cx: Cx, ends: Ends<A>, headers: &mut Headers, options: &IpOptions) {
        let epoch = self.epoch();
        let place = ends.remote.addr().0 as usize % PEERS;
        if let Some(known) = self.tcp.peers.lock(cx).0.get(place)
            && known.epoch == epoch
            && A::leads(&known.bytes, ends, options.tos, options.ttl)
        {
            *headers = Headers { queue: headers.queue, ..*known };
            A::make_own(&mut headers.bytes, self, ends);
            return;
        }
        self.tcp_make_headers(cx, ends, headers, options);
        if headers.epoch == epoch
            && let Some(known) = self.tcp.peers.lock(cx).0.get_mut(place)
        {
            *known = *headers;
        }
    }

    #[inline(never)]
    fn tcp_make_headers<A: Net>(&self, cx: Cx, ends: Ends<A>, headers: &mut Headers, options: &IpOptions) {
        let epoch = self.epoch(); // read before the lookups, so that a concurrent change makes the headers stale
        let Ok(exit) = A::exit(self, cx, ends.remote, None) else { return };
        let Some(iface) = self.ifaces.get(exit.iface).filter(|iface| iface.tunnel.is_none()) else { return };
        let Some(mac) = self.neighbor_at::<A>(cx, &exit) else { return };
        if self.pool.headroom() < lower::<A>() + wire::tcp::HEADER_LEN + wire::tcp::MAX_OPTIONS_LEN {
            return;
        }
        let (src, dst, ports) = (ends.local, ends.remote, [ends.local_port, ends.remote_port]);
        let (tos, ttl) = (options.tos, options.ttl);
        let head = Head { src, dst, proto: Proto::TCP, tos, ttl, df: true, has_header: false, ports };
        let Some((link, network)) = headers.bytes.split_first_chunk_mut::<LINK>() else { return };
        eth::Header { dst: mac, src: iface.mac, ethertype: A::ETHERTYPE }.emit(link);
        let Some(ip_sum) = A::emit(self, &head, network) else { return };
        headers.ip_sum = ip_sum.folded();
        headers.pseudo = A::pseudo(src, dst, Proto::TCP, 0).folded();
        headers.fill::<A, L>(epoch, iface, self.sysctls.tcp_tso.on());
    }
}

impl Headers {
    /// Sets the interface properties and the epoch of the cached headers.
    fn fill<A: Family, L: Locks>(&mut self, epoch: u64, iface: &Iface<L>, tso: bool) {
        self.ip_len = A::IP_LEN as u8;
        self.iface = iface.id;
        self.mtu = A::mtu(iface) as u32;
        self.offload = iface.offload().tx_l4;
        self.tso = iface.offload().tso && tso;
        self.epoch = epoch;
    }

    /// Writes the headers below TCP into a buffer that has exactly their length.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn emit_lower<A: Family>(&self, segment_len: u16, ecn: Ecn, into: &mut [u8]) {
        if let (Some(into), Some(from)) = (into.get_mut(..lower::<A>()), self.bytes.get(..lower::<A>())) {
            into.copy_from_slice(from);
            let ip = into.get_mut(LINK..).unwrap_or_default();
            A::finish(ip, Partial::from_folded(self.ip_sum), segment_len, ecn.bits());
        }
    }

    /// Prepends all headers to a segment and returns the frame.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn emit<A: Net>(&self, ends: Ends<A>, out: &Out, mut frame: Frame, sum: Option<Partial>) -> Option<Frame> {
        let sum = text_sum(self.offload, sum, &frame);
        let options = out.options.as_slice();
        let segment_len = (wire::tcp::HEADER_LEN + options.len()) as u16 + out.text_len as u16;
        let head = frame.push_n(lower::<A>() + wire::tcp::HEADER_LEN + options.len())?;
        let (below, segment) = head.split_at_mut_checked(lower::<A>())?;
        self.emit_lower::<A>(segment_len, out.ecn, below);
        write_header(segment, ends, out);
        let pseudo = self.pseudo_of(segment_len);
        let field = match self.offload {
            true => !pseudo.finish(),
            false => pseudo.add(checksum::sum(segment)).add(sum).finish(),
        };
        segment.get_mut(16..18)?.copy_from_slice(&field.to_be_bytes());
        if self.offload {
            frame.set_flags(Flags::TX_L4_CSUM);
        }
        if self.tso && out.is_large() {
            frame.set_gso_size(out.mss);
        }
        Some(frame)
    }
}

/// Returns the checksum of the data in a frame without headers; zero if the port computes it.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn text_sum(is_ports: bool, known: Option<Partial>, text: &Frame) -> Partial {
    match (is_ports, known) {
        (true, _) => Partial::ZERO,
        (false, Some(sum)) => sum,
        (false, None) => checksum::sum(text.bytes()),
    }
}

/// Writes the TCP header and its options, with a zero checksum field. `head` must have exactly the
/// length of the header with its options.
#[cfg_attr(not(debug_assertions), inline(always))]
fn write_header<A>(head: &mut [u8], ends: Ends<A>, out: &Out) {
    let header = wire::tcp::Header {
        src: ends.local_port,
        dst: ends.remote_port,
        seq: out.seq.0,
        ack: out.ack.0,
        header_len: wire::tcp::HEADER_LEN + out.options.len(),
        flags: out.flags,
        window: out.window,
        checksum: 0,
        urgent: out.urgent,
    };
    if let Some((fixed, options)) = head.split_first_chunk_mut() {
        header.emit(fixed);
        if let (Ok(room), Some(twelve)) = (<&mut [u8; 12]>::try_from(&mut *options), out.options.as_twelve()) {
            *room = *twelve;
        } else if options.len() == out.options.len() {
            options.copy_from_slice(out.options.as_slice());
        }
    }
}

/// Returns the offset of the next unsent data in the send queue.
fn next_text(tcb: &Tcb) -> u32 {
    tcb.snd_nxt().since_or_zero(tcb.snd_una())
}

impl<L: Locks> Stack<L> {
    /// Frees a socket that has ended. Its lock must not be held.
    #[inline(always)]
    pub(super) fn tcp_free(&self, cx: Cx, id: usize, over: Over) {
        if over != Over::No {
            self.tcp_free_ended(cx, id, over);
        }
    }

    #[inline(never)]
    fn tcp_free_ended(&self, cx: Cx, id: usize, over: Over) {
        match over {
            Over::No => {}
            Over::Late => {
                let Some(slot) = self.tcp.socks.get(id) else { return };
                let slot = slot.lock(cx);
                // The process may have closed the socket in the meantime, and opened another one
                // that has the same number.
                let Some(sock) = slot.as_ref().filter(|sock| sock.is_late()) else { return };
                sock.ends().tuples().for_each(|tuple| self.tcp.demux.remove(cx, &tuple, id));
                self.with_tcp_wheel(cx, |wheel| wheel.cancel(id as u32));
            }
            Over::Gone => {
                self.with_tcp_wheel(cx, |wheel| wheel.cancel(id as u32));
                let Some(sock) = self.tcp.socks.remove(cx, id) else { return };
                self.tcp_unfind(cx, id, sock.ends(), false);
                if let Kind::Stream(place) = sock.kind {
                    self.tcp_keep_place(cx, place);
                }
            }
            Over::GoneBound => {
                // The socket is removed from the tables while it still has its number: the next
                // socket with this number may need the same port.
                let ends = self.tcp.socks.get(id).and_then(|slot| slot.lock(cx).as_ref().map(|sock| sock.ends()));
                ends.into_iter().for_each(|ends| self.tcp_unfind(cx, id, ends, true));
                self.with_tcp_wheel(cx, |wheel| wheel.cancel(id as u32));
                if let Some(Sock { kind: Kind::Stream(place), .. }) = self.tcp.socks.remove(cx, id) {
                    self.tcp_keep_place(cx, place);
                }
            }
        }
    }

    /// Sends `answer`, a segment of a connection that is not part of its data stream: for example a
    /// RST or a challenge ACK.
    pub(super) fn tcp_answer(&self, cx: Cx, sock: &Sock<L>, answer: &Out) {
        match sock.ends() {
            SockEnds::V4(ends) => self.tcp_send_bare(cx, ends, answer, &IpOptions::of::<u32, L>(sock.options(), self)),
            SockEnds::V6(ends) => self.tcp_send_bare(cx, ends, answer, &IpOptions::of::<u128, L>(sock.options(), self)),
            SockEnds::Both(_) => {} // a connection is not dual-stack
        }
    }
}
