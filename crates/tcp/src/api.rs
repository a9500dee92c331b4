//! Application calls on a connection: send, close, abort and options (RFC 9293 3.9.1, 3.10).

use crate::State;
use crate::cc::Congestion;
use crate::pacing::{self, Pacer};
use crate::segment::Out;
use crate::tcb::{Tail, Tcb};
use clock::{Duration, Instant};

/// Maximum number of write boundaries stored per connection.
const ENDS_MAX: usize = 1024;

/// Result of a close.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Closed {
    /// RST to send because the application had not read all received data.
    pub reset: Option<Out>,
    /// True if the connection has already ended. The caller can then free it.
    pub over: bool,
}

impl Tcb {
    /// Records that the application appended `bytes` to the send queue. With `push`, they are sent
    /// without waiting for more data.
    pub fn queued(&mut self, bytes: u32, push: bool) {
        self.queued_as(bytes, if push { Tail::Push } else { Tail::More });
    }

    /// Records that the application appended `bytes` to the send queue. `tail` is the kind of
    /// boundary after the last byte, such as the end of a record.
    pub fn queued_as(&mut self, bytes: u32, tail: Tail) {
        if self.snd.fin || !self.state.may_queue() {
            return;
        }
        self.snd.end = self.snd.end.plus(bytes);
        self.options.more = tail == Tail::More;
        self.options.flush = false;
        self.options.starved = false;
        if matches!(tail, Tail::Push | Tail::Record) {
            self.snd.push = self.snd.end;
        }
        if tail == Tail::Record || self.config.push_runs > 0 && tail != Tail::More {
            self.mark_end(tail);
        }
    }

    /// Records that a write ends at the end of the queue. The boundary must be visible to the peer,
    /// by PSH or by the end of a segment.
    #[cold]
    fn mark_end(&mut self, tail: Tail) {
        let end = self.snd.end;
        let ends = &mut self.cold_options().ends;
        if ends.len() == ENDS_MAX {
            ends.pop_back(); // under a flood of small writes, boundaries are merged
        }
        ends.push_back((end, tail));
    }

    /// Records that the application appended `bytes`, the last of which is urgent (`MSG_OOB`).
    pub fn queued_urgent(&mut self, bytes: u32) {
        if self.snd.fin || !self.state.may_queue() || bytes == 0 {
            return;
        }
        self.queued(bytes, true);
        self.cold_events().snd_urgent = self.snd.end;
        self.snd.urgent_on = true;
    }

    /// Bytes queued and not yet acknowledged.
    pub fn send_queue(&self) -> u32 {
        let first = if self.state.is_synchronized() { self.snd.una } else { self.snd.iss.plus(1) };
        self.snd.end.since_or_zero(first)
    }

    /// Bytes queued and not yet sent for the first time (`SIOCOUTQNSD`).
    pub fn not_sent(&self) -> u32 {
        let next = if self.state.is_synchronized() { self.snd.nxt } else { self.snd.iss.plus(1) };
        self.snd.end.since_or_zero(next)
    }

    /// Number of bytes from the first unread byte to the end of urgent data; `None` if the urgent
    /// data has been read (`SIOCATMARK`).
    pub fn urgent_mark(&self) -> Option<u32> {
        let first = self.rcv.nxt.minus(self.rcv.unread);
        let urgent = self.cold_events.as_ref().filter(|_| self.rcv.urgent_on)?.rcv_urgent;
        urgent.after(first).then(|| urgent.since(first))
    }

    /// Closes the send direction: a FIN follows the queued data (RFC 9293 3.10.4; `SHUT_WR`).
    pub fn shutdown_send(&mut self, _now: Instant) {
        if self.snd.fin || !self.state.may_queue() {
            return;
        }
        match self.state {
            State::SynSent => {} // the FIN is sent after the handshake
            State::CloseWait => self.state = State::LastAck,
            State::Established => self.state = State::FinWait1,
            _ => {}
        }
        self.snd.fin = true;
    }

    /// Closes the connection for the application. If received data is unread, the connection is
    /// reset instead (RFC 9293 3.6.1, RFC 2525 2.17).
    pub fn close(&mut self, now: Instant) -> Closed {
        if self.state == State::SynSent || self.state == State::Closed {
            self.over();
            return Closed { reset: None, over: true };
        }
        if self.rcv.unread > 0 && self.state != State::TimeWait {
            return Closed { reset: self.abort(now), over: true };
        }
        self.options.orphan = true;
        self.shutdown_send(now);
        self.await_fin(now);
        Closed { reset: None, over: self.state == State::Closed }
    }

    /// Returns whether the application has closed the send direction.
    pub fn has_shut_send(&self) -> bool {
        self.snd.fin
    }

    /// Aborts the connection at once. Returns the RST for the peer, if the state requires one (RFC
    /// 9293 3.10.5).
    pub fn abort(&mut self, now: Instant) -> Option<Out> {
        let tells = match self.state {
            State::SynReceived | State::Established | State::FinWait1 | State::FinWait2 | State::CloseWait => true,
            // RFC 9293 3.10.5 requires no RST here, but our data may still be in flight.
            State::Closing | State::LastAck => self.snd.una.before(self.snd.end),
            State::Closed | State::SynSent | State::TimeWait => false,
        };
        let reset = tells.then(|| self.make_reset(now));
        self.over();
        reset
    }

    /// Treats `out`, which the host could not send, as lost, so that it is retransmitted.
    pub fn on_not_sent(&mut self, out: &Out, now: Instant) {
        if self.state == State::Closed {
            return;
        }
        if !self.state.is_synchronized() || (out.text_len == 0 && !out.flags.contains(wire::tcp::Flags::FIN)) {
            // A SYN is retransmitted by its timer. A lost ACK is covered by the next segment.
            self.rcv.ack_now |= self.state.is_synchronized();
            return;
        }
        self.board.unsend(out.seq, out.seq.plus(out.text_len));
        self.recovery.force_front = false;
        self.arm_rto(now);
    }

    /// Sets the size of the receive buffer in bytes. `tuned` is true if auto-tuning requested the
    /// size, and false if the application did. The advertised window never shrinks.
    pub fn set_recv_space(&mut self, bytes: u32, tuned: bool) {
        self.rcv.space = bytes.clamp(1, 1 << 30);
        self.rcv.tunable &= tuned;
    }

    /// Size of the receive buffer in bytes.
    pub fn recv_space(&self) -> u32 {
        self.rcv.space
    }

    /// Recommended send buffer size in bytes: twice the congestion window, so that the buffer never
    /// runs empty (Linux: tcp_sndbuf_expand). The host decides whether to use it.
    pub fn send_space_wanted(&self) -> u32 {
        self.cc.cwnd().saturating_mul(2).max(self.config.send_space)
    }

    /// Returns whether the number of unsent bytes is below the limit for a writable socket
    /// (`TCP_NOTSENT_LOWAT`).
    pub fn is_unsent_low(&self) -> bool {
        let limit = self.cold_options.as_ref().and_then(|cold_options| cold_options.notsent_lowat);
        limit.is_none_or(|limit| self.not_sent() < limit)
    }

    /// Turns the Nagle algorithm off or on (`TCP_NODELAY`).
    pub fn set_nodelay(&mut self, on: bool) {
        self.options.nodelay = on;
    }

    /// Permits sending the queued data that the Nagle algorithm or corking currently delays. Data
    /// queued later may be delayed again, as in Linux when `TCP_NODELAY` is set.
    pub fn flush(&mut self) {
        self.options.flush = true;
    }

    /// Turns corking on or off (`TCP_CORK`). While it is on, segments wait until they are full.
    pub fn set_cork(&mut self, on: bool) {
        self.options.cork = on;
        self.options.more &= on;
    }

    /// The largest window that the peer has advertised, in bytes.
    pub fn max_window(&self) -> u32 {
        self.snd.max_wnd
    }

    /// Sets how long sent data may stay unacknowledged before the connection ends
    /// (`TCP_USER_TIMEOUT`, RFC 5482).
    pub fn set_user_timeout(&mut self, limit: Option<Duration>) {
        self.cold_options().user_timeout = limit;
    }

    /// Sets how long an orphaned connection, which no process has open, stays in FIN-WAIT-2
    /// (`TCP_LINGER2`).
    pub fn set_linger2(&mut self, limit: Option<Duration>) {
        self.cold_options().linger2 = limit;
    }

    /// Sets the number of unsent bytes below which the socket is writable (`TCP_NOTSENT_LOWAT`).
    pub fn set_notsent_lowat(&mut self, bytes: Option<u32>) {
        self.cold_options().notsent_lowat = bytes;
    }

    /// Sets the maximum segment size (`TCP_MAXSEG`). Before the handshake this is also the MSS to
    /// advertise; later it only limits the segments sent.
    pub fn set_maxseg(&mut self, mss: u16) {
        self.cold_options().maxseg = Some(mss.max(self.config.min_mss));
        if self.state.is_synchronized() {
            self.set_mss();
        }
    }

    /// Sets the maximum number of SYN retransmissions (`TCP_SYNCNT`).
    pub fn set_syn_count(&mut self, count: u8) {
        self.cold_options().syn_count = Some(count.max(1));
    }

    /// Turns pacing on or off. Pacing spreads the data of a window over a round trip. `max_rate` is
    /// the maximum rate in bytes per second (`SO_MAX_PACING_RATE`).
    pub fn set_pacing(&mut self, on: bool, max_rate: Option<u64>) {
        self.cold_options().pacer = on.then(|| {
            let mut pacer = Pacer::default();
            pacer.set_max_rate(max_rate.unwrap_or(pacing::UNLIMITED));
            pacer
        });
        self.stop_pace();
    }

    /// Stops the pacing timer of the connection.
    pub(crate) fn stop_pace(&mut self) {
        if let Some(cold_options) = &mut self.cold_options {
            cold_options.pace_at = None;
        }
    }

    /// Replaces the congestion control algorithm, keeping the current window (`TCP_CONGESTION`).
    pub fn set_congestion(&mut self, algorithm: crate::cc::Algorithm) {
        self.cc = crate::cc::Control::new(algorithm, self.snd.mss, self.cc.cwnd());
    }

    /// Frees unused memory that a burst of data has allocated. This matters for hosts with many
    /// idle connections (the sockstress attack).
    pub fn release_memory(&mut self) {
        self.board.release_memory();
        self.recovery.release_memory();
    }

    /// Returns whether the connection is orphaned: no process has it open any more.
    pub fn is_orphan(&self) -> bool {
        self.options.orphan
    }

    /// Bytes received in order and not yet read by the application.
    pub fn unread(&self) -> u32 {
        self.rcv.unread
    }

    /// Pacing rate in bytes per second; [`pacing::UNLIMITED`] before the first round trip.
    pub fn pacing_rate(&self) -> u64 {
        let window = self.cc.cwnd().max(self.in_flight());
        let rate = pacing::rate(window, self.rtt.srtt(), self.cc.pacing_gain());
        self.pacer().map_or(rate, |pacer| pacer.limited(rate))
    }

    #[inline]
    fn pacer(&self) -> Option<&Pacer> {
        self.cold_options.as_ref().and_then(|cold_options| cold_options.pacer.as_ref())
    }

    /// Reports `bytes` just sent to the pacer, which delays the next transmission.
    #[inline]
    pub(crate) fn paced(&mut self, bytes: u32, now: Instant) {
        if self.cold_options.is_none() || bytes == 0 {
            return;
        }
        let rate = self.pacing_rate();
        if let Some(pacer) = self.cold_options.as_mut().and_then(|cold_options| cold_options.pacer.as_mut()) {
            pacer.on_sent(bytes, rate, now);
        }
    }

    /// Returns whether pacing delays data. If so, sets the timer for the earliest time of
    /// transmission.
    #[inline]
    pub(crate) fn held_by_pace(&mut self, now: Instant) -> bool {
        let Some(next) = self.pacer().filter(|pacer| !pacer.ready(now)).map(Pacer::next) else { return false };
        self.cold_options().pace_at = Some(next);
        true
    }

    /// Maximum number of data bytes per transmission: `max_text`, or one MSS if `max_text` is
    /// smaller. With pacing, at most one burst ([`pacing::quantum`]).
    #[inline]
    pub(crate) fn most_at_once(&self, max_text: u32, mss: u32) -> u32 {
        let most = max_text.max(mss);
        match self.pacer() {
            Some(_) => most.min(pacing::quantum(self.pacing_rate(), mss as u16).max(mss)),
            None => most,
        }
    }
}
