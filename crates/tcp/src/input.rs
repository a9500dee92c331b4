//! Segment arrival: the steps of RFC 9293 3.10.7.
//!
//! The input is a [`Segment`] of this connection with a verified checksum, the output a [`Reply`].
//! Nothing is sent from here. RSTs and challenge ACKs are part of the reply; `output` builds all
//! other segments.

use crate::answer::reset_for;
use crate::reassembly::{Reassembly, Stored};
use crate::rtt::us_since;
use crate::tcb::Tcb;
use crate::{Block, Dropped, Ecn, EcnMode, Events, Reply, Segment, SeqNum, State, Text};
use alloc::boxed::Box;
use clock::{Duration, Instant};
use wire::tcp::Flags;

/// Age at which TS.Recent becomes invalid (RFC 7323 5.5).
const PAWS_AGE: Duration = Duration::from_secs(24 * 24 * 3600);

impl Tcb {
    /// Processes an arriving segment.
    #[inline]
    pub fn on_segment(&mut self, seg: &Segment, now: Instant) -> Reply {
        self.counts.segs_in = self.counts.segs_in.wrapping_add(seg.segments());
        let mut reply = Reply::default();
        if let Err(why) = self.segment_arrives(seg, now, &mut reply) {
            reply.dropped = Some(why);
        }
        reply
    }

    /// Runs the steps of RFC 9293 3.10.7.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn segment_arrives(&mut self, seg: &Segment, now: Instant, reply: &mut Reply) -> Result<(), Dropped> {
        if seg.has(Flags::SYN) && seg.flags.intersects(Flags::FIN | Flags::RST) {
            return Err(Dropped::BadFlags);
        }
        match self.state {
            State::Closed => {
                reply.answer = crate::answer_to_nobody(seg);
                return Err(Dropped::NoConnection); // 3.10.7.1
            }
            State::SynSent => return self.in_syn_sent(seg, now, reply), // 3.10.7.3
            State::TimeWait => return self.in_time_wait(seg, now, reply),
            _ => {}
        }
        self.check_timestamps(seg, now)?; // RFC 7323 5.3, R1
        self.check_sequence(seg, now)?; // first
        if seg.has(Flags::RST) {
            // Second; third, security, is not implemented (RFC 9293 A.1).
            return self.take_reset(seg, now, reply);
        }
        self.check_syn(seg, now, reply)?; // fourth
        if !seg.has(Flags::ACK) {
            return Err(Dropped::NoAck); // fifth
        }
        self.recovery.heard_at = now;
        if self.state == State::SynReceived {
            self.check_handshake_ack(seg, now, reply)?;
        }
        self.process_ack(seg, now, reply)?;
        self.take_timestamp(seg, now);
        self.take_ecn(seg);
        self.after_fin_acked(now, &mut reply.events);
        if self.state == State::Closed {
            return Ok(());
        }
        self.process_urgent(seg, reply); // sixth
        let text = if seg.len > 0 { self.process_text(seg, now, reply) } else { Ok(()) }; // seventh
        if self.state != State::Closed {
            self.process_fin(seg, now, reply); // eighth
        }
        text
    }

    /// Processes a segment in SYN-SENT (RFC 9293 3.10.7.3).
    #[inline(never)]
    fn in_syn_sent(&mut self, seg: &Segment, now: Instant, reply: &mut Reply) -> Result<(), Dropped> {
        let acks = seg.has(Flags::ACK);
        // First step, including the note on ISS (RFC 9293 3.10.7.3): an ACK is acceptable only if
        // it acknowledges our SYN.
        if acks && !(seg.ack.after(self.snd.iss) && seg.ack.at_or_before(self.snd.nxt)) {
            if !seg.has(Flags::RST) {
                reply.answer = Some(reset_for(seg));
            }
            return Err(Dropped::AckInHandshake);
        }
        if seg.has(Flags::RST) {
            if !acks {
                return Err(Dropped::ResetUnacknowledged);
            }
            self.over();
            reply.events |= Events::REFUSED | Events::CLOSED;
            return Ok(());
        }
        if !seg.has(Flags::SYN) {
            return Err(Dropped::BadFlags); // fifth
        }
        self.recovery.heard_at = now;
        let window = self.advertise_on_syn();
        self.learn_syn(seg, now);
        self.rcv.adv = self.rcv.nxt.plus(window.into());
        if !acks {
            return self.open_simultaneously(seg, now);
        }
        self.ecn.on &= seg.has(Flags::ECE) && !seg.has(Flags::CWR);
        self.measure_handshake(seg, now);
        self.snd.una = seg.ack;
        self.snd.wl2 = seg.ack;
        self.establish(now);
        self.rcv.ack_now = true;
        reply.events |= Events::CONNECTED | Events::WRITABLE;
        self.begin_to_close(now);
        self.process_urgent(seg, reply);
        if seg.len > 0 { self.process_text(seg, now, reply) } else { Ok(()) }
    }

    /// Handles a simultaneous open (RFC 9293 3.5, Figure 7) by sending our SYN again with an ACK of
    /// the peer's SYN.
    fn open_simultaneously(&mut self, seg: &Segment, now: Instant) -> Result<(), Dropped> {
        self.state = State::SynReceived;
        self.ecn.on = self.config.ecn != EcnMode::Off && seg.has(Flags::ECE | Flags::CWR);
        self.snd.syn_due = true;
        self.arm_rto(now);
        Ok(())
    }

    /// Measures the round-trip time of the handshake if our SYN was sent only once, or if the peer
    /// echoed a timestamp.
    fn measure_handshake(&mut self, seg: &Segment, now: Instant) {
        let echoed = seg.options.timestamps.filter(|ts| self.ts.is_some() && ts.ecr != 0);
        let us = match echoed {
            _ if self.snd.syns == 1 => us_since(now, self.snd.last_at),
            Some(ts) => {
                let ms = self.ts_now(now).wrapping_sub(ts.ecr);
                if ms >= 1 << 20 {
                    return; // an implausible echo
                }
                ms.max(1) * 1000
            }
            None => return,
        };
        self.rtt.sample(us, seg.ack, self.snd.nxt, now);
    }

    /// Starts a close that the application requested before the handshake ended (RFC 9293 3.10.4).
    fn begin_to_close(&mut self, _now: Instant) {
        if self.snd.fin && self.state == State::Established {
            self.state = State::FinWait1;
        }
    }

    /// Processes a segment in TIME-WAIT (RFC 9293 3.10.7.4, RFC 1337, RFC 6191).
    #[inline(never)]
    fn in_time_wait(&mut self, seg: &Segment, now: Instant, reply: &mut Reply) -> Result<(), Dropped> {
        if seg.has(Flags::RST) {
            return Err(Dropped::ResetInTimeWait);
        }
        let newer = match (self.ts, seg.options.timestamps) {
            (Some(ts), Some(theirs)) => Some(SeqNum(theirs.val).after(SeqNum(ts.recent))),
            _ => None,
        };
        if seg.has(Flags::SYN) && !seg.has(Flags::ACK) {
            // A newer timestamp or, without timestamps, a higher sequence number indicates a new
            // connection.
            if newer.unwrap_or(false) || (newer != Some(false) && seg.seq.after(self.rcv.nxt)) {
                reply.events |= Events::REUSABLE;
                return Ok(());
            }
            return self.challenge(reply, Dropped::SynInWindow, now);
        }
        self.check_timestamps(seg, now)?;
        if seg.has(Flags::FIN) && seg.text_seq().plus(seg.len).plus(1) == self.rcv.nxt {
            // The peer did not receive our ACK: send it again and restart the 2 MSL timer.
            self.rcv.ack_now = true;
            self.timers.long_at = now.after(self.config.time_wait);
            return Err(Dropped::TimeWaitDuplicate);
        }
        // A repetition of the peer's last ACK is the only acceptable segment. A reply to it would
        // start an ACK loop.
        if seg.seq_len() == 0 && seg.seq == self.rcv.nxt && seg.ack == self.snd.nxt {
            return Err(Dropped::TimeWaitDuplicate);
        }
        self.answer_unacceptable(seg, Dropped::TimeWaitDuplicate, now)
    }

    /// Drops segments with an old timestamp, except RSTs (RFC 7323 5.3, R1). Segments without a
    /// timestamp pass.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn check_timestamps(&mut self, seg: &Segment, now: Instant) -> Result<(), Dropped> {
        let (Some(ts), Some(theirs)) = (self.ts, seg.options.timestamps) else { return Ok(()) };
        let old = SeqNum(theirs.val).before(SeqNum(ts.recent)) && ts.age(now) < PAWS_AGE;
        if !old || seg.has(Flags::RST) {
            return Ok(());
        }
        self.note_duplicate(seg);
        self.answer_unacceptable(seg, Dropped::Paws, now)
    }

    /// Updates TS.Recent from a segment that covers the last ACK we sent (RFC 7323 4.3 (2)).
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn take_timestamp(&mut self, seg: &Segment, now: Instant) {
        if let (Some(ts), Some(theirs)) = (&mut self.ts, seg.options.timestamps) {
            let fresh = SeqNum(theirs.val).at_or_after(SeqNum(ts.recent)) || ts.age(now) >= PAWS_AGE;
            if fresh && seg.seq.at_or_before(self.rcv.wup) {
                ts.take(theirs.val, now);
            }
        }
    }

    /// Returns whether a segment is acceptable: RFC 9293 3.10.7.4, first, extended at both edges of
    /// the window as in Linux.
    ///
    /// The segment must end no earlier than our last ACK and begin no later than the right edge of
    /// the window. Reordered ACKs are therefore not lost, and a closed window admits ACK, URG and
    /// RST (MUST-66).
    #[inline]
    fn is_acceptable(&self, seg: &Segment) -> bool {
        let edge = self.rcv.adv.later(self.rcv.nxt);
        let end = seg.seq.plus(seg.seq_len());
        end.at_or_after(self.rcv.wup) && seg.seq.at_or_before(edge)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn check_sequence(&mut self, seg: &Segment, now: Instant) -> Result<(), Dropped> {
        if self.is_acceptable(seg) {
            return Ok(());
        }
        // This is a retransmission of the SYN that we answered: our SYN-ACK may have been lost.
        if self.state == State::SynReceived && seg.has(Flags::SYN) && seg.seq == self.rcv.irs {
            return Ok(());
        }
        if seg.has(Flags::RST) {
            return Err(Dropped::ResetOutOfWindow);
        }
        self.note_duplicate(seg);
        self.answer_unacceptable(seg, Dropped::OutOfWindow, now)
    }

    /// Records that the data of the segment has already been received, so that a D-SACK reports it
    /// (RFC 2883).
    #[inline(never)]
    fn note_duplicate(&mut self, seg: &Segment) {
        let (left, right) = (seg.text_seq(), seg.text_seq().plus(seg.len));
        if self.sack && seg.len > 0 && left.before(self.rcv.nxt) && right.after(left) {
            self.rcv.dsack = Some(Block { left, right: right.earlier(self.rcv.nxt) });
        }
    }

    /// Processes a RST (RFC 9293 3.10.7.4, second). It resets only if it is exactly at RCV.NXT (RFC
    /// 5961 3.2).
    #[inline(never)]
    fn take_reset(&mut self, seg: &Segment, now: Instant, reply: &mut Reply) -> Result<(), Dropped> {
        if seg.seq != self.rcv.nxt {
            return self.challenge(reply, Dropped::ResetInWindow, now);
        }
        reply.events |= match self.state {
            // The connection returns to LISTEN, since it was not yet passed to the application.
            State::SynReceived if self.options.passive => Events::NONE,
            State::SynReceived => Events::REFUSED,
            _ => Events::RESET,
        };
        reply.events |= Events::CLOSED;
        self.over();
        Ok(())
    }

    /// Checks for a SYN (RFC 9293 3.10.7.4, fourth); a SYN never ends a connection (RFC 5961 4.2).
    #[inline]
    fn check_syn(&mut self, seg: &Segment, now: Instant, reply: &mut Reply) -> Result<(), Dropped> {
        if !seg.has(Flags::SYN) {
            return Ok(());
        }
        if self.state == State::SynReceived && seg.seq == self.rcv.irs {
            if seg.has(Flags::ACK) {
                return Ok(()); // the answer to our SYN in a simultaneous open
            }
            self.snd.syn_due = true;
            return Err(Dropped::SynDuplicate);
        }
        self.challenge(reply, Dropped::SynInWindow, now)
    }

    /// Checks the ACK of our SYN in SYN-RECEIVED (RFC 9293 3.10.7.4, fifth).
    #[inline(never)]
    fn check_handshake_ack(&mut self, seg: &Segment, now: Instant, reply: &mut Reply) -> Result<(), Dropped> {
        if !(seg.ack.after(self.snd.una) && seg.ack.at_or_before(self.snd.nxt)) {
            reply.answer = Some(reset_for(seg));
            return Err(Dropped::AckInHandshake);
        }
        self.measure_handshake(seg, now);
        self.snd.una = seg.ack;
        self.snd.wl1 = seg.seq.minus(1);
        self.establish(now);
        reply.events |= if self.options.passive { Events::ACCEPTABLE } else { Events::CONNECTED };
        reply.events |= Events::WRITABLE;
        self.begin_to_close(now);
        if seg.has(Flags::SYN) {
            // Set directly, because the window of a SYN is not scaled.
            self.snd.wnd = u32::from(seg.window);
            (self.snd.wl1, self.snd.wl2) = (seg.seq.plus(1), seg.ack);
            self.rcv.ack_now = true;
        }
        Ok(())
    }

    /// Processes ECN marks: a mark is echoed on every ACK until the sender sets CWR (RFC 3168
    /// 6.1.3).
    #[inline]
    fn take_ecn(&mut self, seg: &Segment) {
        if !self.ecn.on {
            return;
        }
        if seg.len > 0 && seg.has(Flags::CWR) {
            self.ecn.echo = false;
        }
        if seg.ecn == Ecn::Ce && seg.len > 0 {
            if !self.ecn.echo {
                self.rcv.ack_now = true;
            }
            self.ecn.echo = true;
        }
    }

    /// Changes state when our FIN is acknowledged (RFC 9293 3.10.7.4, fifth).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn after_fin_acked(&mut self, now: Instant, events: &mut Events) {
        if !self.state.is_closing() || !self.snd.una.after(self.snd.end) {
            return;
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                self.await_fin(now);
            }
            State::Closing => self.enter_time_wait(now, events),
            State::LastAck => {
                self.over();
                *events |= Events::CLOSED;
            }
            _ => {}
        }
    }

    /// Limits the time in FIN-WAIT-2 of an orphaned connection, which no process has open (as Linux
    /// and BSD do; RFC 9293 3.6 does not forbid it).
    pub(crate) fn await_fin(&mut self, now: Instant) {
        if self.state == State::FinWait2 && self.options.orphan {
            let requested = self.cold_options.as_ref().and_then(|cold_options| cold_options.linger2);
            self.timers.long_at = now.after(requested.unwrap_or(self.config.fin_timeout));
        }
    }

    fn enter_time_wait(&mut self, now: Instant, events: &mut Events) {
        self.state = State::TimeWait;
        self.timers.clear_rtx();
        self.stop_pace();
        self.timers.long_at = now.after(self.config.time_wait);
        *events |= Events::TIME_WAIT;
    }

    /// Processes URG (RFC 9293 3.10.7.4, sixth; RFC 6093): urgent data stays in the stream, and the
    /// application is notified of its end.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn process_urgent(&mut self, seg: &Segment, reply: &mut Reply) {
        if !seg.has(Flags::URG) || seg.urgent == 0 || !self.state.may_receive() {
            return;
        }
        let mark = seg.text_seq().plus(seg.urgent.into());
        if mark.after(self.rcv.nxt) && (!self.rcv.urgent_on || mark.after(self.cold_events().rcv_urgent)) {
            self.cold_events().rcv_urgent = mark;
            self.rcv.urgent_on = true;
            reply.events |= Events::URGENT;
        }
    }

    /// Processes data by trimming it to the window and determining its position (RFC 9293 3.10.7.4,
    /// seventh).
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn process_text(&mut self, seg: &Segment, now: Instant, reply: &mut Reply) -> Result<(), Dropped> {
        self.counts.data_segs_in = self.counts.data_segs_in.wrapping_add(seg.segments());
        let (start, end) = (seg.text_seq(), seg.text_seq().plus(seg.len));
        let nxt = self.rcv.nxt;
        if start.before(nxt) {
            self.note_duplicate(seg);
        }
        if end.at_or_before(nxt) {
            self.rcv.ack_now = true;
            self.more_quick_acks();
            return Err(Dropped::TextDuplicate);
        }
        if !self.state.may_receive() {
            return Err(Dropped::TextAfterFin);
        }
        if self.options.orphan {
            // No process can read the data, so the connection is reset to inform the peer (RFC 9293
            // 3.6.1, RFC 1122 4.2.2.13).
            reply.answer = Some(reset_for(seg));
            reply.events |= Events::CLOSED;
            self.over();
            return Err(Dropped::TextAfterClose);
        }
        let edge = if self.rcv.fin_came { self.rcv.fin.earlier(self.rcv.adv) } else { self.rcv.adv };
        let (left, right) = (start.later(nxt), end.earlier(edge));
        if !right.after(left) {
            self.rcv.ack_now = true;
            return Err(Dropped::TextBeyondWindow);
        }
        let place = Text::Accept { skip: left.since(start), len: right.since(left), at: left.since(nxt) };
        if left == nxt {
            self.take_in_order(seg, place, right, now, reply);
            return Ok(());
        }
        self.take_out_of_order(left, right, place, reply)
    }

    /// Accepts data that begins at RCV.NXT.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn take_in_order(&mut self, seg: &Segment, place: Text, right: SeqNum, now: Instant, reply: &mut Reply) {
        let nxt = self.rcv.nxt;
        let mut reach = right;
        if let Some(ooo) = &mut self.ooo {
            if self.sack
                && let Some(again) = ooo.held_of(nxt, right)
            {
                self.rcv.dsack = Some(again);
            }
            reach = reach.plus(ooo.join(right));
            // RFC 5681 4.2: a segment that fills a gap is acknowledged at once.
            self.rcv.ack_now = true;
            if ooo.is_empty() {
                self.ooo = None;
            }
        }
        let brought = reach.since(nxt);
        self.rcv.nxt = reach;
        self.rcv.unread = self.rcv.unread.saturating_add(brought);
        self.counts.bytes_received = self.counts.bytes_received.wrapping_add(brought.into());
        reply.text = place;
        reply.in_order = brought;
        reply.events |= Events::READABLE;
        self.time_receiver(seg.len, seg.options.timestamps, now);
        self.schedule_ack(seg.piece(), now);
    }

    /// Accepts data beyond RCV.NXT and requests an immediate ACK (RFC 5681 4.2).
    #[inline(never)]
    fn take_out_of_order(
        &mut self,
        left: SeqNum,
        right: SeqNum,
        place: Text,
        reply: &mut Reply,
    ) -> Result<(), Dropped> {
        self.rcv.ack_now = true;
        let cold_events = self.cold_events();
        cold_events.ooo_packets = cold_events.ooo_packets.wrapping_add(1);
        let most = usize::from(self.config.reassembly_ranges).max(1);
        let ooo = self.ooo.get_or_insert_with(|| Box::new(Reassembly::default()));
        let again = ooo.held_of(left, right).filter(|_| self.sack);
        match ooo.insert(left, right, most) {
            Stored::New => {
                self.rcv.dsack = again.or(self.rcv.dsack);
                reply.text = place;
                Ok(())
            }
            Stored::Duplicate(_) => {
                if self.sack {
                    self.rcv.dsack = Some(Block { left, right });
                }
                Err(Dropped::TextDuplicate)
            }
            Stored::Full => Err(Dropped::ReassemblyFull),
        }
    }

    /// Discards all out-of-order data because the host is out of memory (permitted by RFC 2018 8).
    /// Returns the range discarded.
    pub fn renege(&mut self) -> Option<Block> {
        self.ooo.take().and_then(|mut ooo| ooo.clear())
    }

    /// Processes a FIN (RFC 9293 3.10.7.4, eighth). If data before the FIN is missing, the FIN
    /// takes effect once that data has arrived.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn process_fin(&mut self, seg: &Segment, now: Instant, reply: &mut Reply) {
        if seg.has(Flags::FIN) {
            let at = seg.text_seq().plus(seg.len);
            let behind_all = self.ooo.as_ref().and_then(|ooo| ooo.end()).is_none_or(|end| at.at_or_after(end));
            let due = at.at_or_after(self.rcv.nxt) && at.at_or_before(self.rcv.adv.later(self.rcv.nxt)) && behind_all;
            if self.state.may_receive() && due && !self.rcv.fin_came {
                (self.rcv.fin, self.rcv.fin_came) = (at, true);
            }
            let in_turn = due && at == self.rcv.nxt && !reply.fills_gap();
            let delays = self.config.delay_fin_ack && in_turn && self.state == State::Established;
            // Unless its ACK may be delayed, the FIN is acknowledged at once, even if it is early,
            // or repeated because our ACK was lost.
            self.rcv.ack_now |= !delays;
        }
        if self.rcv.fin_came && self.rcv.fin == self.rcv.nxt && self.state.may_receive() {
            // A segment that fills a gap is acknowledged at once, with or without FIN (RFC 5681
            // 4.2).
            let delays = self.config.delay_fin_ack && self.state == State::Established && !reply.fills_gap();
            self.take_fin(now, &mut reply.events);
            if delays {
                self.delay_ack_of_fin(now);
            }
        }
    }

    #[inline(never)]
    pub(crate) fn take_fin(&mut self, now: Instant, events: &mut Events) {
        self.rcv.nxt = self.rcv.nxt.plus(1);
        self.rcv.adv = self.rcv.adv.later(self.rcv.nxt);
        self.rcv.ack_now = true;
        self.ooo = None;
        *events |= Events::PEER_CLOSED | Events::READABLE;
        match self.state {
            State::Established => self.state = State::CloseWait,
            // Our FIN is not acknowledged; otherwise the state would be FIN-WAIT-2.
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now, events),
            _ => {}
        }
    }
}
