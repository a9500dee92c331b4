//! Counts the TCP events that are visible outside the core: received segments with their results,
//! sent segments, entered states and expired timers.
//!
//! A large segment is counted as the packets into which it is split on the wire, and merged
//! segments are counted separately (as Linux does for InSegs and OutSegs).
//!
//! The counters are defined in `tcp::counters`. For an in-order segment, counting costs a few
//! additions. Everything else is counted in branches that exist anyway. A connection is counted as
//! closed when it enters TIME-WAIT, in which only a record of it remains.

use super::{Sock, Stream};
use crate::Stack;
use ::tcp::counters::{Counters, In};
use ::tcp::listen::Refused;
use ::tcp::{Bare, Dropped, Ecn, Events, Expected, Info, Out, Reply, Segment, SeqNum, State, Tcb};
use lock::{Cx, Locks};
use wire::tcp::{Flags, Opt, Options};

/// Kind of the timestamps option (RFC 7323 3.2). Two NOPs precede the option.
const TIMESTAMPS: u8 = 8;
/// Events that end a connection without a close by both sides.
const DROPPED: Events = Events(Events::RESET.0 | Events::REFUSED.0 | Events::TIMED_OUT.0 | Events::UNREACHABLE.0);

/// Counts a received segment: its ACK, SACK and ECN, and the infrequent events of the core.
#[inline]
pub(super) fn came(counts: &Counters, tcb: &mut Tcb, seg: &Segment, reply: &Reply) {
    let (input, acked) = (&counts.input, reply.acked);
    input.resets.add(u64::from(seg.has(Flags::RST)));
    input.acks.add(u64::from(acked > 0));
    input.acked_bytes.add(acked.into());
    counts.timers.rtt_updated.add(u64::from(reply.measured));
    // The condition of BSD's header prediction: the segment contains only an ACK or data, and
    // nothing special (FreeBSD: tcp_do_segment).
    let plain = seg.flags.0 & !Flags::PSH.0 == Flags::ACK.0 && reply.dropped.is_none() && seg.options.sack.is_empty();
    if plain {
        match acked {
            0 => input.predicted_data.add(u64::from(seg.len > 0 && reply.in_order == seg.len)),
            _ => input.predicted_acks.add(u64::from(seg.len == 0 && !tcb.is_recovering())),
        }
    }
    noted(counts, tcb);
    input.sacks.add(u64::from(!seg.options.sack.is_empty()));
    match seg.ecn {
        Ecn::NotEct => {}
        Ecn::Ce => counts.ecn.ce.bump(),
        Ecn::Ect0 => counts.ecn.ect0.bump(),
        Ecn::Ect1 => counts.ecn.ect1.bump(),
    }
}

/// Counts an expected segment as [`came`] and [`in_sequence`] do. The segment acknowledges `acked`
/// bytes.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn expected(counts: &Counters, tcb: &mut Tcb, seg: &Expected, acked: u32) {
    let input = &counts.input;
    if acked > 0 {
        input.acks.bump();
        input.acked_bytes.add(acked.into());
        counts.timers.rtt_updated.bump();
        input.predicted_acks.add(u64::from(seg.len == 0));
    } else {
        input.predicted_data.bump();
    }
    if seg.len > 0 {
        input.in_sequence.bump();
        input.in_sequence_bytes.add(seg.len.into());
    }
    noted(counts, tcb);
}

/// Counts a segment without data that ends a connection or one direction of it, as [`came`] does
/// for other segments. `measured` is set if the segment provided an RTT sample.
pub(super) fn ended(counts: &Counters, tcb: &mut Tcb, seg: &Expected, acked: u32, measured: bool) {
    let input = &counts.input;
    input.acks.add(u64::from(acked > 0));
    input.acked_bytes.add(acked.into());
    counts.timers.rtt_updated.add(u64::from(measured));
    input.predicted_acks.add(u64::from(acked > 0 && !seg.fin));
    noted(counts, tcb);
}

/// Counts the infrequent events that the core recorded ([`::tcp::RareEvents`]).
#[inline]
pub(super) fn noted(counts: &Counters, tcb: &mut Tcb) {
    let notes = tcb.take_notes();
    if !notes.is_empty() {
        notes.count(counts);
    }
}

/// Counts in-order data: `kept` bytes after the first `skip` bytes, which had been received before.
#[inline]
pub(super) fn in_sequence(input: &In, seg: &Segment, skip: u32, kept: u32) {
    input.in_sequence.add(seg.segments().into());
    input.in_sequence_bytes.add(kept.into());
    if kept != seg.len {
        trimmed(input, seg.len, skip, kept);
    }
}

/// Counts out-of-order data.
#[cold]
pub(super) fn out_of_order(input: &In, seg: &Segment, skip: u32, kept: u32) {
    input.out_of_order.add(seg.segments().into());
    input.out_of_order_bytes.add(kept.into());
    trimmed(input, seg.len, skip, kept);
}

/// Counts trimmed data: duplicate data at the front, and data beyond the window at the end.
#[cold]
fn trimmed(input: &In, len: u32, skip: u32, kept: u32) {
    let beyond = len.saturating_sub(skip).saturating_sub(kept);
    if skip > 0 {
        input.partial_duplicates.bump();
        input.partial_duplicate_bytes.add(skip.into());
    }
    if beyond > 0 {
        input.after_window.bump();
        input.after_window_bytes.add(beyond.into());
    }
}

/// Counts a rejected segment, or a segment whose data was rejected. `next` is RCV.NXT. `answered`
/// is set if a segment was sent in response.
#[cold]
pub(super) fn refused(counts: &Counters, seg: &Segment, why: Dropped, next: SeqNum, answered: bool) {
    let (input, len) = (&counts.input, u64::from(seg.len));
    match why {
        Dropped::Paws => input.paws.bump(),
        Dropped::TextDuplicate => duplicate(input, seg),
        Dropped::OutOfWindow if seg.len > 0 && seg.seq.before(next) => duplicate(input, seg),
        // The data begins at the left edge of a closed window (RFC 9293 3.8.6.1).
        Dropped::TextBeyondWindow if seg.seq == next => input.window_probes.bump(),
        Dropped::OutOfWindow | Dropped::TextBeyondWindow if seg.len > 0 => {
            input.after_window.bump();
            input.after_window_bytes.add(len);
        }
        Dropped::ResetInWindow => {
            input.resets_ignored.bump();
            challenged(counts, answered);
        }
        Dropped::SynInWindow => {
            input.syns_challenged.bump();
            challenged(counts, answered);
        }
        Dropped::AckUnsent => {
            input.acks_unsent.bump();
            challenged(counts, answered);
        }
        Dropped::AckTooOld => {
            input.acks_too_old.bump();
            challenged(counts, answered);
        }
        Dropped::TextAfterClose => {
            input.after_close.bump();
            counts.states.aborted_on_data.bump();
        }
        Dropped::ReassemblyFull => input.out_of_order_dropped.bump(),
        _ => {}
    }
}

/// Counts a challenge ACK that a handshake in progress sends in response to a possible attack (RFC
/// 5961 3.2, 4.2).
pub(super) fn challenged_by_listener(counts: &Counters, why: Refused) {
    match why {
        Refused::ResetInWindow => counts.input.resets_ignored.bump(),
        Refused::SynInHandshake => counts.input.syns_challenged.bump(),
        _ => return,
    }
    counts.output.challenges.bump();
}

fn duplicate(input: &In, seg: &Segment) {
    input.duplicates.add(seg.segments().into());
    input.duplicate_bytes.add(seg.len.into());
}

fn challenged(counts: &Counters, answered: bool) {
    match answered {
        true => counts.output.challenges.bump(),
        false => counts.output.challenges_limited.bump(),
    }
}

/// Counts a sent segment of a connection.
#[inline]
pub(super) fn left(counts: &Counters, tcb: &Tcb, out: &Out) {
    let segments = u64::from(out.segments());
    counts.output.sent.add(segments);
    if out.text_len > 0 && !out.retransmission {
        counts.output.data.add(segments);
        counts.output.data_bytes.add(out.text_len.into());
    } else {
        left_otherwise(counts, tcb, out);
    }
}

/// Counts new data sent in one segment, as [`left`] does for any segment.
#[inline(always)]
pub(super) fn next_left(counts: &Counters, len: u32) {
    counts.output.sent.bump();
    counts.output.data.bump();
    counts.output.data_bytes.add(len.into());
}

/// Counts an ordinary ACK or FIN without data, as [`left`] does for any segment.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn bare_left(counts: &Counters, bare: Bare) {
    counts.output.sent.bump();
    match bare {
        Bare::Ack => counts.output.acks.bump(),
        Bare::Fin => counts.output.control.bump(),
    }
}

/// Counts a sent segment without new data.
#[inline(never)]
fn left_otherwise(counts: &Counters, tcb: &Tcb, out: &Out) {
    let output = &counts.output;
    if out.text_len > 0 {
        output.retransmitted.bump();
        output.retransmitted_bytes.add(out.text_len.into());
        if tcb.is_recovering() {
            counts.recovery.rexmits.bump();
            counts.recovery.rexmit_bytes.add(out.text_len.into());
        }
    } else if out.flags.intersects(Flags::SYN | Flags::FIN | Flags::RST) {
        output.control.bump();
    } else if tcb.state().is_synchronized() && out.seq.before(tcb.snd_una()) {
        // RFC 9293 3.8.4, 3.8.6.1: an ACK whose sequence number is before SND.UNA is a keepalive
        // probe, or a window probe if data is queued.
        match tcb.not_sent() {
            0 => output.keepalives.bump(),
            _ => output.window_probes.bump(),
        }
    } else if out.flags.contains(Flags::URG) {
        output.urgent.bump();
    } else if out.window_update {
        output.window_updates.bump();
    } else {
        output.acks.bump();
    }
    let alone = out.options.len() == 12 && out.options.as_slice().get(2) == Some(&TIMESTAMPS);
    if !out.options.is_empty() && !alone && !out.flags.contains(Flags::SYN) {
        left_with_sack(counts, out);
    }
}

fn left_with_sack(counts: &Counters, out: &Out) {
    for option in Options::new(out.options.as_slice()).flatten() {
        let Opt::Sack(blocks) = option else { continue };
        counts.output.sacks.bump();
        // RFC 2883 4: in a D-SACK, the first block is before the ACK or within the second block.
        let mut blocks = blocks.iter().map(|(left, right)| (SeqNum(left), SeqNum(right)));
        let Some((left, right)) = blocks.next() else { continue };
        let within = |(l, r): (SeqNum, SeqNum)| left.at_or_after(l) && right.at_or_before(r);
        if left.before(out.ack) || blocks.next().is_some_and(within) {
            counts.output.dsacks.bump();
        }
    }
}

/// Counts a sent segment that belongs to no connection.
pub(super) fn left_bare(counts: &Counters, out: &Out) {
    let output = &counts.output;
    output.sent.bump();
    if out.flags.contains(Flags::RST) {
        output.resets.bump();
    }
    match out.flags.intersects(Flags::SYN | Flags::FIN | Flags::RST) {
        true => output.control.bump(),
        false => output.acks.bump(),
    }
}

/// Counts a change of state. `events` contains the cause of the change if it was not a close.
#[cold]
pub(super) fn entered(counts: &Counters, stream: &mut Stream, events: Events) {
    let states = &counts.states;
    let (from, to) = (std::mem::replace(&mut stream.counted, stream.tcb.state()), stream.tcb.state());
    if to.is_synchronized() && !from.is_synchronized() {
        states.established.bump();
    }
    match to {
        State::SynSent => states.syn_sent.bump(),
        State::SynReceived => states.syn_received.bump(),
        State::Established => {}
        State::CloseWait => states.close_wait.bump(),
        State::FinWait1 => states.fin_wait_1.bump(),
        State::FinWait2 => states.fin_wait_2.bump(),
        State::Closing => states.closing.bump(),
        State::LastAck => states.last_ack.bump(),
        State::TimeWait => {
            states.time_wait.bump();
            states.closed.bump();
        }
        State::Closed if from == State::TimeWait => {}
        State::Closed => {
            states.closed.bump();
            match events.intersects(DROPPED) {
                true if from.is_synchronized() => states.dropped.bump(),
                true => states.embryonic_dropped.bump(),
                false => {}
            }
        }
    }
    if events.contains(Events::RESET) {
        states.reset.bump();
    }
}

/// Counts an expired timer of a connection. Compares the connection's statistics before and after
/// the expiry to find out which timer it was.
pub(super) fn timed<L: Locks>(counts: &Counters, sock: &Sock<L>, before: &Info, after: &Info, events: Events) {
    let timers = &counts.timers;
    let idle = before.unacked == 0 && before.notsent_bytes == 0;
    let handshake = !before.state.is_synchronized();
    if events.contains(Events::TIMED_OUT) {
        return match () {
            () if sock.options().user_timeout.is_some() => timers.user_dropped.bump(),
            () if handshake || before.unacked > 0 => timers.rexmit_dropped.bump(),
            () if idle => timers.keepalive_dropped.bump(),
            () => timers.persist_dropped.bump(),
        };
    }
    if after.state == State::Closed {
        if before.state == State::FinWait2 {
            timers.fin_wait_2_dropped.bump();
        }
    } else if after.retransmits > before.retransmits {
        timers.rexmit.bump();
    } else if after.probes > before.probes {
        match idle {
            true => timers.keepalive.bump(),
            false => timers.persist.bump(),
        }
    }
}

impl<L: Locks> Stack<L> {
    /// Counts the state of a connection, unless it was counted already.
    #[inline]
    pub(super) fn tcp_count_state(&self, cx: Cx, stream: &mut Stream, events: Events) {
        if stream.tcb.state() != stream.counted {
            entered(&self.count(cx).tcp, stream, events);
        }
    }
}
