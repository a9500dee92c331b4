//! Fast path of TCP. It handles expected received segments, from the packet to the reader
//! ([`::tcp::Expected`]), and ordinary sent segments, from the send call to the port
//! ([`::tcp::Next`]).
//!
//! For nearly every segment of an undisturbed connection, the 52 bytes of headers at fixed offsets
//! are sufficient. Therefore the fast path builds neither a [`Segment`](::tcp::Segment) of 90 bytes
//! nor a reply, and skips the output step if nothing must be sent. If the fast path declines a
//! segment, it has changed nothing, and the segment continues in `input` with the socket already
//! found. Accepted segments are counted as in `input`.

use super::headers::Headers;
use super::net::Net;
use super::output::{IpOptions, lower, text_sum};
use super::owner::Owner;
use super::{Kind, Options, Stream, counts};
use crate::Stack;
use crate::demux::Ends;
use crate::iface::AtOnce;
use crate::iface::IfaceId;
use ::tcp::{Bare, Ecn, Ended, Events, Expected, Next, SeqNum, Taken, Timestamps};
use buf::{Flags, Frame};
use lock::{Cx, Locks};
use stats::{Stage, trace};
use wire::Proto;
use wire::checksum::Partial;
use wire::tcp::Timestamped;

/// Returns the combined length in bytes of an IP header without options and a TCP header with
/// padded timestamps.
#[inline(always)]
const fn headers<A: Net>() -> usize {
    A::IP_LEN + Timestamped::LEN
}

/// Parses an ordinary IP packet that was received on the link of `zone`. Returns its addresses,
/// ports and contents if [`Expected`] can represent them and the checksum is correct. `sound` is
/// set if the checksum was verified before.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn read<A: Net>(packet: &Frame, zone: Option<IfaceId>, sound: bool) -> Option<(Ends<A>, Expected)> {
    let bytes = packet.bytes();
    let (ip, segment) = (A::glimpse(bytes, zone)?, bytes.get(A::IP_LEN..)?);
    let header = Timestamped::parse(segment)?;
    let fin = header.flags.contains(wire::tcp::Flags::FIN);
    let plain = header.flags.0 & !(wire::tcp::Flags::PSH.0 | wire::tcp::Flags::FIN.0) == wire::tcp::Flags::ACK.0;
    if !plain || ip.tos & 3 != 0 || packet.flags().has(Flags::GSO) {
        return None;
    }
    if !sound {
        let pseudo = A::pseudo(ip.src, ip.dst, Proto::TCP, segment.len() as u32);
        if !wire::tcp::checksum_ok(pseudo, segment) {
            return None;
        }
    }
    let Timestamped { src, dst, seq, ack, window, val, ecr, .. } = header;
    let ends = Ends { local: ip.dst, remote: ip.src, local_port: dst, remote_port: src };
    let len = (segment.len() - Timestamped::LEN) as u32;
    Some((ends, Expected { seq: SeqNum(seq), ack: SeqNum(ack), window, len, fin, timestamps: Timestamps { val, ecr } }))
}

/// Output that a connection must produce after a received segment.
pub(super) enum Owes {
    /// Nothing must be sent now, and the timer is set.
    Nothing,
    /// An ACK must be sent, or data for which there was no space in the window before.
    Segments,
}

impl<L: Locks> Stack<L> {
    /// Processes a segment of the connection `open`, if the segment was expected.
    ///
    /// # Errors
    ///
    /// The packet, if the segment was not expected.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn tcp_expected<A: Net>(
        &self,
        cx: Cx,
        open: &mut Owner<'_, L, A>,
        seg: &Expected,
        mut packet: Frame,
    ) -> Result<Owes, Frame> {
        let id = open.id;
        let Some(sock) = open.slot.as_mut() else { return Err(packet) };
        let is_its = A::ends_of(sock) == Some(open.ends);
        let Kind::Stream(stream) = &mut sock.kind else { return Err(packet) };
        if sock.shut_read || !is_its || self.tcp_memory() >= self.tcp_memory_limit() / 2 {
            return Err(packet);
        }
        let cx = stream.on_time(cx);
        let had_room = stream.has_room();
        let Some(Taken { acked }) = stream.tcb.on_expected(seg, cx.now) else {
            return if self.tcp_ends(cx, open, seg) { Ok(Owes::Segments) } else { Err(packet) };
        };
        stream.has_soft_error = false;
        let counted = self.count(cx);
        counted.audit.consumed.bump();
        counts::expected(&counted.tcp, &mut stream.tcb, seg, acked);
        if acked > 0 {
            stream.send.release(acked);
            stream.last_progress = cx.now;
        }
        if seg.len > 0 && packet.pull(headers::<A>()) {
            stream.recv.push(packet);
        }
        // A reader is notified of data; a writer is notified only when the send buffer has space
        // again.
        let news = seg.len > 0 || !had_room && stream.has_room();
        let owes = stream.tcb.has_output();
        stream.dirty |= owes;
        if !owes {
            self.tcp_arm(cx, id, stream);
            self.tcp_charge_stream(stream);
        }
        if news {
            sock.wake(cx, id);
        }
        Ok(if owes { Owes::Segments } else { Owes::Nothing })
    }

    /// Processes a segment that ends the socket's connection or one direction of it, if this
    /// segment was expected ([`Tcb::on_end`](::tcp::Tcb::on_end)).
    #[inline(never)]
    fn tcp_ends<A: Net>(&self, cx: Cx, open: &mut Owner<'_, L, A>, seg: &Expected) -> bool {
        let id = open.id;
        let Some(sock) = open.slot.as_mut() else { return false };
        let Kind::Stream(stream) = &mut sock.kind else { return false };
        let had_room = stream.has_room();
        let Some(Ended { acked, measured, mut events }) = stream.tcb.on_end(seg, cx.now) else { return false };
        (stream.has_soft_error, stream.dirty) = (false, true);
        let counted = self.count(cx);
        counted.audit.consumed.bump();
        counts::ended(&counted.tcp, &mut stream.tcb, seg, acked, measured);
        self.tcp_count_state(cx, stream, events);
        if acked > 0 {
            stream.send.release(acked);
            stream.last_progress = cx.now;
        }
        if had_room || !stream.has_room() {
            events = Events(events.0 & !Events::WRITABLE.0);
        }
        sock.note(cx, id, events);
        true
    }

    /// Sends written data if it is simply the next data of the stream
    /// ([`Tcb::next_text`](::tcp::Tcb::next_text)). The data is sent from the buffer into which it
    /// was written, with the cached headers, directly to the port. Returns `false` if the slow path
    /// is needed.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn tcp_send_next<A: Net>(&self, cx: Cx, ends: Ends<A>, stream: &mut Stream) -> bool {
        let Some(len) = stream.tcb.next_text() else { return false };
        if stream.headers.are_stale(self.epoch()) || headers::<A>() + len as usize > stream.headers.mtu() {
            return false;
        }
        let Some(iface) = self.ifaces.get(stream.headers.iface()) else { return false };
        let Some((mut frame, sum)) = stream.send.lend_all(len) else { return false };
        if frame.headroom() < lower::<A>() + Timestamped::LEN {
            return false;
        }
        let counters = self.count(cx);
        counters.audit.made.bump();
        counts::next_left(&counters.tcp, len);
        let next = stream.tcb.send_next(len, cx.now);
        let sum = text_sum(stream.headers.offload(), sum, &frame);
        let flags = wire::tcp::Flags::ACK | wire::tcp::Flags::PSH;
        stream.headers.emit_next(ends, &next, flags, &mut frame, sum);
        counts::noted(&counters.tcp, &mut stream.tcb);
        A::counts(counters).sent.add(1);
        counters.ledger.resume().mark(Stage::TcpOutput, 1);
        self.stage_alone(cx, iface, stream.headers.queue(), frame);
        true
    }
}

impl<L: Locks> Stack<L> {
    /// Sends a single ACK or FIN without data, if nothing else must be sent
    /// ([`Tcb::next_bare`](::tcp::Tcb::next_bare)). Returns `false` if the slow path is needed.
    #[inline(never)]
    pub(super) fn tcp_send_bare_next<A: Net>(
        &self,
        cx: Cx,
        ends: Ends<A>,
        stream: &mut Stream,
        options: Option<&Options>,
        at_once: AtOnce,
    ) -> bool {
        let Some(bare) = stream.tcb.next_bare() else { return false };
        if stream.headers.are_stale(self.epoch()) {
            let options = IpOptions::of::<A, L>(options.unwrap_or(&super::NO_OPTIONS), self);
            self.tcp_keep_headers(cx, ends, &mut stream.headers, &options);
            if stream.headers.are_stale(self.epoch()) {
                return false;
            }
        }
        let (iface, queue) = (self.ifaces.get(stream.headers.iface()), stream.headers.queue());
        let Some(iface) = iface else { return false };
        let room = lower::<A>() + Timestamped::LEN;
        let Some(mut frame) = self.pool.get().filter(|frame| frame.headroom() >= room) else { return false };
        trace::buffer_made(|| self.pool.number());
        let counters = self.count(cx);
        counters.audit.made.bump();
        counts::bare_left(&counters.tcp, bare);
        let next = stream.tcb.send_bare(bare, cx.now);
        let flags = match bare {
            Bare::Ack => wire::tcp::Flags::ACK,
            Bare::Fin => wire::tcp::Flags::ACK | wire::tcp::Flags::FIN,
        };
        stream.headers.emit_next(ends, &next, flags, &mut frame, Partial::ZERO);
        counts::noted(&counters.tcp, &mut stream.tcb);
        A::counts(counters).sent.add(1);
        counters.ledger.resume().mark(Stage::TcpOutput, 1);
        match at_once {
            AtOnce::Yes => self.stage_alone(cx, iface, queue, frame),
            AtOnce::Later => self.stage_locked(cx, iface, &mut iface.queues.at(|| queue).lock(cx), frame),
        }
        true
    }
}

impl Headers {
    /// Prepends the headers of `next` to its data. `text` is the checksum of the data. The caller
    /// has checked the headroom.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn emit_next<A: Net>(&self, ends: Ends<A>, next: &Next, flags: wire::tcp::Flags, frame: &mut Frame, text: Partial) {
        let segment_len = (Timestamped::LEN + frame.len()) as u16;
        let pseudo = self.pseudo_of(segment_len);
        let Some(head) = frame.push_n(lower::<A>() + Timestamped::LEN) else { return };
        let Some((below, upper)) = head.split_at_mut_checked(lower::<A>()) else { return };
        self.emit_lower::<A>(segment_len, Ecn::NotEct, below);
        let Ok(upper) = upper.try_into() else { return };
        let header = Timestamped {
            src: ends.local_port,
            dst: ends.remote_port,
            seq: next.seq.0,
            ack: next.ack.0,
            flags,
            window: next.window,
            val: next.timestamps.val,
            ecr: next.timestamps.ecr,
        };
        header.emit(upper, |sum| match self.offload() {
            true => !pseudo.finish(),
            false => pseudo.add(sum).add(text).finish(),
        });
        if self.offload() {
            frame.set_flags(Flags::TX_L4_CSUM);
        }
    }
}
