//! Output: retransmissions, probes, new data, FIN, pure ACKs (RFC 9293 3.10.2, 3.8.6.2.1; RFC
//! 5681).
//!
//! The host calls `poll_segment` until it returns `None`. Each call checks the windows, Nagle and
//! pacing, builds one segment and records it as sent. If the host then cannot send the segment, it
//! calls [`Tcb::on_not_sent`](crate::Tcb::on_not_sent).

use crate::cc::Congestion;
use crate::pacing;
use crate::rare_events::RareEvents;
use crate::rtt::us_since;
use crate::scoreboard::{Sent, mark};
use crate::segment::OutOptions;
use crate::tcb::{Early, Probe, Rtx, Tail, Tcb};
use crate::{Block, Ecn, EcnMode, Out, SeqNum, State};
use clock::Instant;
use wire::tcp::{Flags, OptionWriter};

/// Bytes of a SACK option with `blocks` blocks, including padding.
const fn sack_len(blocks: u16) -> u16 {
    if blocks == 0 { 0 } else { 4 + 8 * blocks }
}

/// Maximum number of SACK blocks in a segment with timestamps: the options are limited to 40 bytes.
const BLOCKS_WITH_TIMESTAMPS: usize = 3;
const BLOCKS: usize = 4;

impl Tcb {
    /// Returns the next segment to send now and records it as sent. Call it until it returns
    /// `None`, which means that there is no such segment.
    ///
    /// `max_text` is the maximum number of data bytes. A value above the MSS permits large segments
    /// for a port with segmentation offload. The length of their data is then a multiple of
    /// `Out::mss`, unless it ends the queue.
    #[inline]
    pub fn poll_segment(&mut self, now: Instant, max_text: u32) -> Option<Out> {
        let mut out = Out::default();
        self.poll_into(now, max_text, &mut out).then_some(out)
    }

    /// Writes the next segment into `out`; returns `false` if there is none. Returning the segment
    /// by value would copy it five times, and each copy would stall until the narrower stores
    /// before it are complete.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn poll_into(&mut self, now: Instant, max_text: u32, out: &mut Out) -> bool {
        if !self.has_output() {
            return false;
        }
        match self.state {
            State::Closed => return false,
            State::SynSent | State::SynReceived => return put(self.poll_syn(now), out),
            _ => {}
        }
        let sent = match self.is_troubled() {
            true => put(self.poll_troubled(now, max_text), out),
            false => self.state.may_send() && self.poll_new(now, max_text, out),
        };
        sent || self.poll_ack(now, out)
    }

    /// Returns whether [`Tcb::poll_segment`] may return a segment. If `false`, it returns none.
    #[inline(always)]
    pub fn has_output(&self) -> bool {
        self.rcv.ack_now || self.unsent() > 0 || self.fin_waits() || self.snd.syn_due || self.is_troubled()
    }

    /// Returns whether lost data or a probe waits to be sent.
    #[inline(always)]
    pub(crate) fn is_troubled(&self) -> bool {
        self.board.lost().segments > 0 || self.recovery.force_front || self.recovery.probe.is_some()
    }

    #[inline(never)]
    fn poll_troubled(&mut self, now: Instant, max_text: u32) -> Option<Out> {
        if self.state.may_send() {
            if !self.recovery.new_first
                && let Some(out) = self.poll_lost(now)
            {
                return Some(out);
            }
        } else {
            self.recovery.force_front = false;
        }
        if let Some(probe) = self.recovery.probe.take()
            && let Some(out) = self.poll_probe(probe, now)
        {
            return Some(out);
        }
        let mut out = Out::default();
        (self.state.may_send() && self.poll_new(now, max_text, &mut out)).then_some(out)
    }

    /// Builds the SYN or SYN-ACK that is due (RFC 9293 3.5, RFC 7323 2.2, RFC 2018 2, RFC 3168
    /// 6.1.1).
    fn poll_syn(&mut self, now: Instant) -> Option<Out> {
        if !core::mem::take(&mut self.snd.syn_due) {
            return None;
        }
        let answering = self.state == State::SynReceived;
        let again = self.snd.syns > 0;
        self.snd.syns = self.snd.syns.saturating_add(1);
        self.snd.nxt = self.snd.iss.plus(1);
        self.snd.last_at = now;
        let timestamps = self.ts.map(|ts| (self.ts_now(now), ts.recent));
        let scales = self.config.window_scaling && (!answering || self.options.scaling);
        let shift = scales.then_some(self.rcv.wscale);
        let mut flags = if answering { Flags::SYN | Flags::ACK } else { Flags::SYN };
        if self.ecn.on {
            // An unanswered SYN with ECN is retransmitted without it (RFC 3168 6.1.1.1).
            match (answering, again) {
                (true, _) => flags = flags | Flags::ECE,
                (false, false) if self.config.ecn == EcnMode::On => flags = flags | Flags::ECE | Flags::CWR,
                (false, _) => self.ecn.on = false,
            }
        }
        let mut out = crate::answer::bare(self.snd.iss, if answering { self.rcv.nxt } else { SeqNum(0) }, flags);
        out.options = OutOptions::of_syn(self.own_mss(), self.sack, timestamps, shift);
        out.window = self.advertise_on_syn();
        out.retransmission = again;
        if answering {
            self.rcv.wup = self.rcv.nxt;
            self.rcv.ack_now = false;
        }
        self.booked(&out, now);
        if again {
            let cold_events = self.cold_events();
            cold_events.total_retrans = cold_events.total_retrans.wrapping_add(1);
        }
        Some(out)
    }

    /// Builds a retransmission of lost data, if the windows permit it. Lost data precedes new data
    /// (RFC 6675 5 step C).
    fn poll_lost(&mut self, now: Instant) -> Option<Out> {
        let forced = core::mem::take(&mut self.recovery.force_front);
        let front = self.board.front().copied().filter(|front| !front.has(mark::SACKED));
        if forced && let Some(front) = front {
            return Some(self.resend(0, front, now));
        }
        let (index, record) = self.board.next_lost()?;
        let len = record.len().min(self.full_segment().into());
        let fits = self.in_flight().saturating_add(len) <= self.cc.cwnd() && len <= self.recovery.burst();
        if !fits || self.held_by_pace(now) {
            return None;
        }
        // If the peer has shrunk its window, only the first segment is sent into it (RFC 9293
        // 3.8.6).
        if index > 0 && record.start.plus(len).after(self.send_edge()) && record.end.after(self.send_edge()) {
            return None;
        }
        Some(self.resend(index, record, now))
    }

    /// Builds the retransmission of the record at `index`. If its data no longer fits one segment,
    /// the record is split, and only its first part is sent now.
    fn resend(&mut self, index: usize, record: Sent, now: Instant) -> Out {
        let most = u32::from(self.full_segment());
        let mut record = record;
        if record.text_len() > most {
            self.board.split(index, most);
            record.end = record.start.plus(most);
            record.marks &= !(mark::FIN | mark::PSH);
        }
        let stamp = self.ts_now(now);
        self.board.on_resent(index, now);
        self.recovery.on_resent(record.start, record.end, stamp, self.ts_now(record.at));
        if self.recovery.unanswered_since == Instant::NEVER {
            self.recovery.unanswered_since = record.at;
        }
        let mut flags = Flags::ACK;
        if record.has(mark::PSH) {
            flags = flags | Flags::PSH;
        }
        if record.has(mark::FIN) {
            flags = flags | Flags::FIN;
        }
        let mut out = Out::default();
        self.header(record.start, flags, now, &mut out);
        out.text_at = record.start.since(self.snd.una);
        out.text_len = record.text_len();
        out.retransmission = true;
        self.mark_urgent(&mut out);
        if self.timers.rtx_at == Instant::NEVER || self.timers.rtx == Rtx::Persist {
            self.arm_rto(now);
        }
        let cold_events = self.cold_events();
        cold_events.total_retrans = cold_events.total_retrans.wrapping_add(1);
        cold_events.bytes_retrans = cold_events.bytes_retrans.wrapping_add(out.text_len.into());
        self.paced(out.text_len, now);
        self.booked(&out, now);
        out
    }

    fn poll_probe(&mut self, probe: Probe, now: Instant) -> Option<Out> {
        match probe {
            Probe::TailLoss => self.poll_tail_loss(now),
            Probe::Window => Some(self.poll_window_probe(now)),
            Probe::Ask => Some(self.ask(now)),
        }
    }

    /// Builds a tail loss probe (RFC 8985 7.3).
    fn poll_tail_loss(&mut self, now: Instant) -> Option<Out> {
        if !self.state.may_send() || self.board.is_empty() {
            return None;
        }
        let len = self.unsent().min(self.full_segment().into());
        let fits = self.snd.nxt.plus(len).at_or_before(self.send_edge());
        if len > 0 && fits {
            let out = self.send_new(len, now);
            self.on_probed(false);
            return Some(out);
        }
        let index = self.board.last_index()?;
        let last = self.board.back().copied().filter(|last| !last.has(mark::SACKED))?;
        let out = self.resend(index, last, now);
        self.on_probed(true);
        self.arm_rto(now);
        Some(out)
    }

    /// Builds a segment for a window that has been smaller than a full segment for some time (RFC
    /// 9293 3.8.6.2.1, (4)). If the window is closed, builds a window probe.
    fn poll_window_probe(&mut self, now: Instant) -> Out {
        let room = self.send_edge().since_or_zero(self.snd.nxt);
        let len = room.min(self.unsent()).min(self.full_segment().into());
        if len > 0 {
            return self.send_new(len, now);
        }
        self.ask(now)
    }

    /// Builds an ACK to which the peer must reply, since its sequence number has already been
    /// acknowledged.
    fn ask(&mut self, now: Instant) -> Out {
        let mut out = Out::default();
        self.header(self.snd.una.minus(1), Flags::ACK, now, &mut out);
        self.booked(&out, now);
        out
    }

    /// Builds a segment of new data, with the FIN if the data ends the stream. Returns whether it
    /// built a segment.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn poll_new(&mut self, now: Instant, max_text: u32, out: &mut Out) -> bool {
        let unsent = self.unsent();
        if unsent == 0 {
            return self.poll_fin(now, out);
        }
        if !self.is_busy() {
            self.chrono_begin(now);
        }
        let mss = u32::from(self.full_segment());
        let window_room = self.send_edge().since_or_zero(self.snd.nxt);
        if window_room >= mss.min(unsent) {
            self.restart_after_idle(now);
        }
        let in_flight = self.in_flight();
        let cwnd_room = self.cc.cwnd().saturating_sub(in_flight).min(self.recovery.burst());
        let room = cwnd_room.min(window_room);
        // Only the data up to the end of the queue, or up to the first record boundary, may be
        // sent.
        let there = if self.cold_options.is_some() { self.record_there(unsent) } else { unsent };
        let most = there.min(room).min(self.most_at_once(max_text, mss));
        // All of the data is sent if it fits and need not wait; otherwise only full segments are
        // sent.
        let whole = most - most % mss;
        let free = most == there && (whole == most || there < unsent || self.tail_may_go(whole, unsent));
        let len = if free { most } else { whole };
        if len == 0 {
            if cwnd_room < mss.min(unsent) {
                self.snd.limited = true;
            } else {
                if window_room < mss.min(unsent) {
                    self.chrono_window(now);
                }
                if self.board.is_empty() {
                    self.arm_persist(now); // window too small, or short segment delayed
                }
            }
            return false;
        }
        if self.held_by_pace(now) {
            return false;
        }
        let len = if self.config.push_runs > 0 { self.within_run(len, there.min(window_room), cwnd_room) } else { len };
        self.note_usage(in_flight.saturating_add(len), cwnd_room.saturating_sub(len) < mss);
        if self.pmtu.is_some()
            && let Some(probe) = self.mtu_probe(unsent, room, now)
        {
            *out = self.send_mtu_probe(probe, now);
            return true;
        }
        self.send_as(len, mss, now, out);
        true
    }

    #[inline(never)]
    fn send_mtu_probe(&mut self, len: u32, now: Instant) -> Out {
        let mut out = Out::default();
        self.send_as(len, len, now, &mut out);
        self.on_mtu_probe(len, self.snd.nxt);
        out
    }

    /// Returns how many of `len` bytes belong to the current batch (`Config::push_runs`). A new
    /// batch begins when the previous one has been sent. A batch is at most half the congestion
    /// window and at most [`pacing::run`], in whole segments, unless it includes the tail of the
    /// queue (Linux: tcp_cwnd_test, tcp_tso_autosize, tcp_mss_split_point).
    fn within_run(&mut self, len: u32, there: u32, cwnd_room: u32) -> u32 {
        let mss = u32::from(self.full_segment());
        if !self.snd.run.right.after(self.snd.nxt) {
            let next = self.snd.nxt;
            let mut ends = self.cold_options.iter().flat_map(|cold_options| cold_options.ends.iter());
            let part = ends.find(|(end, tail)| end.after(next) && matches!(tail, Tail::Part | Tail::Record));
            let there = part.map_or(there, |(end, _)| there.min(end.since(next)));
            let half = (self.cc.cwnd() / mss / 2).max(1) * mss;
            let least = u32::from(self.config.push_runs) * mss;
            let most = pacing::run(self.pacing_rate(), mss as u16, self.rtt.min()).max(least);
            let most = most.min(half).min(cwnd_room - cwnd_room % mss).max(mss);
            let whole = there - there % mss;
            let run = if most <= there {
                most
            } else if whole == there || there < self.unsent() || self.tail_may_go(whole, there) {
                there
            } else {
                whole
            };
            self.snd.run = Block { left: self.snd.nxt, right: self.snd.nxt.plus(run.max(len.min(mss))) };
        }
        len.min(self.snd.run.right.since(self.snd.nxt))
    }

    /// Records how much of the congestion window is in use, which decides whether the window may
    /// grow. The record applies to one window of data in flight (Linux: tcp_cwnd_validate).
    #[inline]
    pub(crate) fn note_usage(&mut self, flight: u32, limited: bool) {
        let snd = &mut self.snd;
        if limited || flight > snd.flight || snd.una.at_or_after(snd.usage_end) {
            (snd.flight, snd.limited, snd.usage_end) = (flight, limited, snd.nxt);
        }
    }

    /// Returns whether the short segment at the tail of the queue may be sent: Nagle (RFC 9293
    /// 3.7.4) as modified by Minshall. The segment waits while another short segment is
    /// unacknowledged. If corked, it waits for more data.
    #[inline]
    fn tail_may_go(&mut self, whole: u32, unsent: u32) -> bool {
        if self.snd.fin || self.options.flush {
            return true;
        }
        if self.options.cork || self.options.more {
            return false;
        }
        if self.board.len() as u64 + 64 > u64::from(self.config.sent_records) && !self.board.is_empty() {
            self.rare_events |= RareEvents::SCOREBOARD_FULL;
            return false;
        }
        let urgent = self.snd_urgent().is_some_and(|end| end.after(self.snd.nxt));
        let small_under_way = self.snd.small.after(self.snd.una) && whole < unsent;
        self.options.nodelay || urgent || !small_under_way
    }

    /// Builds a FIN without data, if one must be sent (RFC 9293 3.10.4). Returns whether it built
    /// one.
    #[inline(never)]
    fn poll_fin(&mut self, now: Instant, out: &mut Out) -> bool {
        if !self.fin_waits() {
            return false;
        }
        if self.send_edge() == self.snd.nxt && self.board.is_empty() && self.snd.wnd == 0 {
            self.arm_persist(now);
        }
        self.send_as(0, self.full_segment().into(), now, out);
        true
    }

    /// Builds a segment of `len` bytes at SND.NXT, with the FIN if these bytes end the stream. The
    /// scoreboard gets one record per segment on the wire.
    #[inline(never)]
    fn send_new(&mut self, len: u32, now: Instant) -> Out {
        let mut out = Out::default();
        self.send_as(len, self.full_segment().into(), now, &mut out);
        out
    }

    /// Builds a segment as [`Tcb::send_new`] does, with scoreboard records of `mss` bytes. For a
    /// path MTU probe, `mss` is larger than usual.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn send_as(&mut self, len: u32, mss: u32, now: Instant, out: &mut Out) {
        let start = self.snd.nxt;
        let end = start.plus(len);
        let last = end == self.snd.end;
        let fin = last && self.snd.fin;
        let (push, ends_run) = match self.config.push_runs == 0 && !self.has_ends() {
            true => (last || self.snd.push.within(start.plus(1), end.plus(1)), false),
            false => self.pushes(start, end, mss),
        };
        let mut flags = if (push || ends_run) && len > 0 { Flags::ACK | Flags::PSH } else { Flags::ACK };
        if fin {
            flags = flags | Flags::FIN;
        }
        if self.ecn.cwr && len > 0 {
            self.ecn.cwr = false;
            flags = flags | Flags::CWR;
        }
        self.header(start, flags, now, out);
        out.text_at = start.since(self.snd.una);
        out.text_len = len;
        out.mss = mss.min(u16::MAX.into()) as u16;
        if self.ecn.on && len > 0 {
            out.ecn = Ecn::Ect0;
        }
        self.mark_urgent(out);
        self.record(start, len, mss, push, fin, now);
        if !len.is_multiple_of(mss) {
            self.snd.small = end;
        }
        self.snd.nxt = end.plus(u32::from(fin));
        self.snd.last_at = now;
        self.recovery.on_sent(len);
        if self.timers.rtx_at == Instant::NEVER || self.timers.rtx == Rtx::Persist {
            self.arm_rto(now);
        }
        self.arm_tail_loss_on_send(now);
        if len > 0 {
            self.note_answer(now);
        }
        self.counts.bytes_sent = self.counts.bytes_sent.wrapping_add(len.into());
        self.paced(len, now);
        self.booked(out, now);
        if !self.is_busy() || self.options.starved {
            self.chrono_sent(now);
        }
    }

    /// Marks the connection as interactive if our data is sent within the ACK delay, so that data
    /// segments can contain our ACKs.
    #[inline(always)]
    pub(crate) fn note_answer(&mut self, now: Instant) {
        if self.rcv.ato_us > 0 && us_since(now, self.rcv.last_at) < self.rcv.ato_us {
            self.rcv.pingpong = true;
        }
    }

    /// Returns two conditions for setting PSH: whether a write ends within the data, and whether a
    /// batch of several segments ends at `end`. The second condition is not stored, since a
    /// retransmission is a single segment.
    #[cold]
    fn pushes(&mut self, start: SeqNum, end: SeqNum, mss: u32) -> (bool, bool) {
        let (run, exact) = (self.snd.run, self.config.push_runs > 0);
        let mut push = !exact && (end == self.snd.end || self.snd.push.within(start.plus(1), end.plus(1)));
        let ends = &mut self.cold_options().ends;
        while let Some((_, tail)) = ends.front().filter(|front| front.0.at_or_before(end)) {
            push |= *tail != Tail::Part;
            ends.pop_front();
        }
        (push, exact && end == run.right && run.right.since(run.left) > mss)
    }

    /// Returns whether the queue has write boundaries that must be visible on the wire.
    #[inline(always)]
    fn has_ends(&self) -> bool {
        self.cold_options.as_ref().is_some_and(|cold_options| !cold_options.ends.is_empty())
    }

    /// Returns how many of `unsent` bytes belong to the first record in the queue (`MSG_EOR`).
    fn record_there(&mut self, unsent: u32) -> u32 {
        let next = self.snd.nxt;
        let Some(cold_options) = self.cold_options.as_mut().filter(|cold_options| !cold_options.ends.is_empty()) else {
            return unsent;
        };
        while cold_options.ends.front().is_some_and(|front| front.0.at_or_before(next)) {
            cold_options.ends.pop_front();
        }
        let record = cold_options.ends.iter().find(|(_, tail)| *tail == Tail::Record);
        record.map_or(unsent, |(end, _)| end.since(next).min(unsent))
    }

    #[inline(always)]
    pub(crate) fn arm_tail_loss_on_send(&mut self, now: Instant) {
        let reordering = self.timers.early == Early::Reorder && self.timers.early_at != Instant::NEVER;
        if !reordering {
            self.arm_tail_loss(now);
        }
    }

    /// Adds one scoreboard record for each segment into which the port splits the data.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn record(&mut self, start: SeqNum, len: u32, mss: u32, push: bool, fin: bool, now: Instant) {
        let mut marks = if push && len > 0 { mark::PSH } else { 0 };
        if fin {
            marks |= mark::FIN;
        }
        let (mut at, end) = (start, start.plus(len));
        while end.since(at) > mss {
            self.board.push(at, at.plus(mss), 0, now);
            at = at.plus(mss);
        }
        self.board.push(at, end.plus(u32::from(fin)), marks, now);
    }

    /// Restarts the congestion window after more than an RTO without transmission: the old window
    /// no longer describes the path (RFC 5681 4.1).
    #[inline]
    pub(crate) fn restart_after_idle(&mut self, now: Instant) {
        if self.config.idle_restart && self.board.is_empty() {
            let rto = self.rtt.rto_us(0);
            if u64::from(us_since(now, self.snd.last_at)) > rto {
                self.rare_events |= RareEvents::IDLE_RESTART;
                self.cc.on_idle_restart(now.since(self.snd.last_at), self.rtt.rto(0));
                // The initial window may predate an increase of the MSS.
                if self.cc.cwnd() < u32::from(self.snd.mss) {
                    self.cc.set_cwnd(self.snd.mss.into());
                }
                self.snd.last_at = now;
            }
        }
    }

    /// Returns the number of data bytes in a full segment sent now. SACK blocks reduce it (RFC 9293
    /// MUST-16, RFC 6691).
    #[inline]
    fn full_segment(&self) -> u16 {
        if self.ooo.is_none() && self.rcv.dsack.is_none() {
            return self.snd.mss;
        }
        let blocks = self.sack_blocks().1;
        self.snd.mss.saturating_sub(sack_len(blocks as u16)).max(1)
    }

    /// Fills in the header at `seq` with our acknowledgment number, window and options.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn header(&mut self, seq: SeqNum, flags: Flags, now: Instant, out: &mut Out) {
        let flags = if self.ecn.echo { flags | Flags::ECE } else { flags };
        self.options(now, &mut out.options);
        (out.seq, out.ack, out.flags) = (seq, self.rcv.nxt, flags);
        (out.window, out.urgent, out.mss) = (self.advertise(), 0, self.full_segment());
        (out.text_at, out.text_len) = (0, 0);
        (out.ecn, out.retransmission, out.window_update) = (Ecn::NotEct, false, false);
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn options(&self, now: Instant, out: &mut OutOptions) {
        let sacks = self.sack && (self.ooo.is_some() || self.rcv.dsack.is_some());
        match &self.ts {
            None if !sacks => out.clear(),
            Some(ts) if !sacks => out.set_timestamps(self.ts_now(now), ts.recent),
            ts => *out = self.options_with_sack(ts.map(|ts| (self.ts_now(now), ts.recent))),
        }
    }

    #[inline(never)]
    fn options_with_sack(&self, ts: Option<(u32, u32)>) -> OutOptions {
        let mut writer = OptionWriter::new();
        if let Some((val, ecr)) = ts {
            writer = writer.nop().nop().timestamps(val, ecr);
        }
        let (blocks, count) = self.sack_blocks();
        if count > 0 {
            writer = writer.nop().nop().sack(blocks.get(..count).unwrap_or_default());
        }
        OutOptions::from(&writer)
    }

    /// Returns the SACK blocks to send: first the D-SACK, then the ranges that changed last (RFC
    /// 2018 4, RFC 2883 4).
    fn sack_blocks(&self) -> ([(u32, u32); BLOCKS], usize) {
        let mut blocks = [(0, 0); BLOCKS];
        if !self.sack {
            return (blocks, 0);
        }
        let most = if self.ts.is_some() { BLOCKS_WITH_TIMESTAMPS } else { BLOCKS };
        let ranges = self.ooo.iter().flat_map(|ooo| ooo.report());
        let mut count = 0;
        for (slot, Block { left, right }) in blocks.iter_mut().zip(self.rcv.dsack.into_iter().chain(ranges)).take(most)
        {
            *slot = (left.0, right.0);
            count += 1;
        }
        (blocks, count)
    }

    /// Sets URG on `out` if the urgent data ends after its first byte (RFC 9293 3.8.5). The pointer
    /// is the offset of the sequence number after the urgent data (RFC 6093 3.1).
    #[inline(always)]
    fn mark_urgent(&self, out: &mut Out) {
        if let Some(end) = self.snd_urgent().filter(|end| end.after(out.seq)) {
            out.flags = out.flags | Flags::URG;
            out.urgent = end.since(out.seq).min(u16::MAX.into()) as u16;
        }
    }

    /// Builds a pure ACK if one is due. Returns whether it built one.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn poll_ack(&mut self, now: Instant, out: &mut Out) -> bool {
        self.recovery.force_front = false;
        if let Some(Probe::Ask) = self.recovery.probe.take() {
            *out = self.ask(now);
            return true;
        }
        if self.rcv.ack_now {
            let window_update = self.rcv.opens && self.rcv.wup == self.rcv.nxt && self.rcv.dsack.is_none();
            self.ack_alone(now, out);
            out.window_update = window_update;
            return true;
        }
        false
    }

    #[inline(always)]
    fn ack_alone(&mut self, now: Instant, out: &mut Out) {
        let opens = self.rcv.opens && self.rcv.wup == self.rcv.nxt && self.rcv.dsack.is_none();
        self.header(self.snd.nxt, Flags::ACK, now, out);
        out.window_update = opens;
        self.booked(out, now);
    }

    /// Builds a pure ACK and records it as sent.
    pub(crate) fn make_ack(&mut self, now: Instant) -> Out {
        let mut out = Out::default();
        self.ack_alone(now, &mut out);
        out
    }

    /// Updates the counters and timers for `out`, which has been sent.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn booked(&mut self, out: &Out, _now: Instant) {
        let segments = out.segments();
        self.counts.segs_out = self.counts.segs_out.wrapping_add(segments);
        if out.text_len > 0 {
            self.counts.data_segs_out = self.counts.data_segs_out.wrapping_add(segments);
        }
        if out.flags.contains(Flags::ACK) {
            self.ack_left();
        }
    }

    /// Records that an ACK of everything received was sent.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn ack_left(&mut self) {
        self.rcv.wup = self.rcv.nxt;
        self.rcv.ack_now = false;
        self.rcv.opens = false;
        self.rcv.dsack = None;
        self.timers.ack_at = Instant::NEVER;
        self.rcv.quick = self.rcv.quick.saturating_sub(1);
    }
}

/// Copies a rarely sent segment into `out`. Returns whether there was a segment.
fn put(reset: Option<Out>, out: &mut Out) -> bool {
    let Some(reset) = reset else { return false };
    *out = reset;
    true
}
