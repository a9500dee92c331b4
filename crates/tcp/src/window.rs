//! Receive window: its advertisement, window updates, and buffer auto-tuning (RFC 9293 3.8.6.2.2,
//! RFC 7323 2).
//!
//! The advertised right edge is stored and never moved back (the counterpart of RFC 9293 MUST-34).
//! It advances only in steps of at least a segment or half the buffer (silly window avoidance,
//! MUST-39). An application that reads single bytes therefore causes no stream of window updates.

use crate::rare_events::RareEvents;
use crate::rtt::us_since;
use crate::tcb::Tcb;
use clock::Instant;

impl Tcb {
    /// Number of free bytes in the buffer beyond RCV.NXT, at most as many as the window field can
    /// represent.
    #[inline]
    fn room(&self) -> u32 {
        let most = u32::from(u16::MAX) << self.rcv.wscale;
        self.rcv.space.saturating_sub(self.rcv.unread).min(most)
    }

    /// Number of bytes left in the advertised window.
    #[inline]
    pub(crate) fn recv_window(&self) -> u32 {
        self.rcv.adv.since_or_zero(self.rcv.nxt)
    }

    /// Returns the number of bytes by which the window would grow if an ACK were sent now; 0 if the
    /// number is too small to announce.
    #[inline(always)]
    fn opening(&self) -> u32 {
        let (room, window) = (self.room(), self.recv_window());
        let step = room.saturating_sub(window);
        let worthwhile = u32::from(self.rcv.mss_seen.max(1)).min(self.rcv.space / 2).max(1);
        if step >= worthwhile { step } else { 0 }
    }

    /// Returns the window field of a segment sent now, and moves the right edge.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn advertise(&mut self) -> u16 {
        let scale = self.rcv.wscale;
        let window = self.recv_window().saturating_add(self.opening());
        let most = u32::from(u16::MAX) << scale;
        // The value is rounded up, since rounding down would move the edge back by less than one
        // unit (RFC 7323 2.4).
        let units = window.min(most).div_ceil(1 << scale).min(u32::from(u16::MAX));
        let edge = self.rcv.nxt.plus(units << scale);
        self.rcv.adv = self.rcv.adv.later(edge);
        if self.rcv.shut != (units == 0) {
            self.rcv.shut = units == 0;
            self.rare_events |= if self.rcv.shut { RareEvents::WINDOW_CLOSED } else { RareEvents::WINDOW_OPENED };
        }
        units as u16
    }

    /// Returns the window field of a SYN: never scaled (RFC 7323 2.2), and a multiple of the MSS.
    pub(crate) fn advertise_on_syn(&mut self) -> u16 {
        let window = self.room().min(u32::from(u16::MAX));
        let mss = u32::from(self.own_mss());
        let window = if window > mss { window - window % mss } else { window };
        if self.state == crate::State::SynReceived {
            self.rcv.adv = self.rcv.adv.later(self.rcv.nxt.plus(window));
        }
        window as u16
    }

    /// Records that the application has read `bytes`, and requests a window update if the window
    /// has opened far enough.
    ///
    /// Returns the receive buffer size to request if the bytes read per round trip exceed the
    /// current size; otherwise `None`.
    #[inline]
    pub fn consumed(&mut self, bytes: u32, now: Instant) -> Option<u32> {
        self.rcv.unread = self.rcv.unread.saturating_sub(bytes);
        if self.state.may_receive() && self.window_update_due() {
            self.rcv.ack_now = true;
            self.rcv.opens = true;
        }
        self.right_size(bytes, now)
    }

    /// Returns whether a window update is due. Uses Linux's rule, which is stricter than the rule
    /// of RFC 9293 (half a buffer or a segment): the window must at least double, or must have been
    /// below two segments. Smaller increases are announced with other ACKs.
    fn window_update_due(&self) -> bool {
        let (opening, window) = (self.opening(), self.recv_window());
        let two = u32::from(self.rcv.mss_seen) * 2;
        opening > 0 && (opening >= window || (window < two.min(self.rcv.space / 2) && opening + window >= two))
    }

    /// Performs dynamic right-sizing: the receive window should be twice the number of bytes read
    /// per round trip, so that it does not limit a sender that doubles its window each round trip.
    #[inline]
    fn right_size(&mut self, bytes: u32, now: Instant) -> Option<u32> {
        let sizing = &mut self.rcv.sizing;
        sizing.copied = sizing.copied.saturating_add(bytes);
        if sizing.rtt_us == 0 || us_since(now, sizing.since) < sizing.rtt_us {
            return None;
        }
        let copied = core::mem::take(&mut sizing.copied);
        sizing.since = now;
        if copied <= sizing.most {
            return None;
        }
        sizing.most = copied;
        let slack = 16 * u32::from(self.rcv.mss_seen);
        let wanted = copied.saturating_mul(2).saturating_add(slack).min(self.config.recv_space_max);
        let reach = (u32::from(u16::MAX) << self.rcv.wscale).min(wanted);
        (reach > self.rcv.space && self.rcv.tunable).then_some(reach)
    }

    /// Measures the peer's RTT without timestamps, as the time in which one window of data arrives.
    pub(crate) fn time_window(&mut self, now: Instant) {
        let (nxt, window) = (self.rcv.nxt, self.recv_window());
        let cold_events = self.cold_events();
        let (since, end) = (cold_events.window_at, cold_events.window_end);
        if since == Instant::ZERO || nxt.at_or_after(end) {
            (cold_events.window_at, cold_events.window_end) = (now, nxt.plus(window));
            if since != Instant::ZERO {
                self.rcv.sizing.sample(now.since(since), false);
            }
        }
    }
}
