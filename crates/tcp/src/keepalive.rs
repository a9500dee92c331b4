//! Keepalive probes and window probes: segments whose only purpose is to elicit an ACK (RFC 9293
//! 3.8.4, 3.8.6.1).
//!
//! Both are an ACK with a sequence number before SND.UNA. This number is unacceptable to the peer,
//! which therefore replies with its current state (RFC 9293 3.10.7.4). The probe contains no data,
//! so no data is lost if the peer's window is closed.

use crate::tcb::{Keepalive, Probe, Rtx, Tail, Tcb};
use crate::{Events, State};
use clock::{Duration, Instant};

impl Tcb {
    /// Turns keepalive on or off; `times` (idle, interval, count) override the configured values.
    pub fn set_keepalive(&mut self, on: bool, times: Option<(Duration, Duration, u8)>, now: Instant) {
        let config = &self.config;
        let (idle, interval, count) =
            times.unwrap_or((config.keepalive_idle, config.keepalive_interval, config.keepalive_count));
        let count = count.max(1);
        self.cold_options().keepalive = on.then_some(Keepalive { idle, interval, count, probes: 0 });
        self.timers.long_at = match self.state {
            State::TimeWait | State::FinWait2 => self.timers.long_at,
            _ => Instant::NEVER,
        };
        self.arm_keepalive(now);
    }

    /// Starts the keepalive idle timer.
    pub(crate) fn arm_keepalive(&mut self, now: Instant) {
        let counts = self.state.is_synchronized() && self.state != State::TimeWait;
        let taken = self.state == State::FinWait2 && self.options.orphan;
        if let Some(keepalive) = self.cold_options.as_ref().and_then(|cold_options| cold_options.keepalive)
            && counts
            && !taken
        {
            self.timers.long_at = now.after(keepalive.idle);
        }
    }

    /// Handles expiry of the keepalive timer. The time since the peer's last segment is checked
    /// only here, so that arriving segments need not move the deadline.
    pub(crate) fn on_keepalive(&mut self, now: Instant, events: &mut Events) {
        let Some(mut keepalive) = self.cold_options.as_ref().and_then(|cold_options| cold_options.keepalive) else {
            return;
        };
        let silent = self.silent_for(now);
        if !self.board.is_empty() || self.unsent() > 0 {
            // Retransmissions or window probes already check the peer.
            keepalive.probes = 0;
            self.timers.long_at = now.after(keepalive.idle);
        } else if silent < keepalive.idle {
            keepalive.probes = 0;
            self.timers.long_at = now.after(keepalive.idle.saturating_sub(silent));
        } else if self.keepalive_failed(&keepalive, silent) {
            // A RST ends the connection at a peer that still has it (Linux, FreeBSD).
            let reset = self.make_reset(now);
            self.over();
            self.cold_options().reset = Some(reset);
            *events |= Events::TIMED_OUT | Events::CLOSED;
            return;
        } else {
            keepalive.probes = keepalive.probes.saturating_add(1);
            self.recovery.probe = Some(Probe::Ask);
            self.timers.long_at = now.after(keepalive.interval);
        }
        self.cold_options().keepalive = Some(keepalive);
    }

    fn keepalive_failed(&self, keepalive: &Keepalive, silent: Duration) -> bool {
        match self.cold_options.as_ref().and_then(|cold_options| cold_options.user_timeout) {
            Some(limit) => silent >= limit && keepalive.probes > 0,
            None => keepalive.probes >= keepalive.count,
        }
    }

    /// Starts window probes, because data is queued, nothing is in flight, and the peer's window
    /// has no space (MUST-36).
    pub(crate) fn arm_persist(&mut self, now: Instant) {
        if self.timers.rtx == Rtx::Persist && self.timers.rtx_at != Instant::NEVER {
            return;
        }
        self.timers.rtx = Rtx::Persist;
        self.timers.rtx_at = now.after(self.rto());
    }

    /// Handles expiry of the persist timer (RFC 9293 3.8.6.1). The first probe is sent after an RTO
    /// and further probes at growing intervals, as long as the peer replies (MUST-37).
    pub(crate) fn on_persist(&mut self, now: Instant, events: &mut Events) {
        if !self.state.may_send() || !self.board.is_empty() || (self.unsent() == 0 && !self.fin_waits()) {
            return;
        }
        if self.send_edge().since_or_zero(self.snd.nxt) >= self.unsent().max(1) {
            // A segment that Nagle or cork delays waits for more data, not for the window. It has
            // waited long enough (Linux: tcp_check_probe_timer).
            self.queued_as(0, Tail::Push);
            self.options.flush = true;
            return;
        }
        if self.recovery.unanswered_since == Instant::NEVER {
            self.recovery.unanswered_since = now;
        }
        let most = if self.options.orphan { self.config.orphan_retries } else { self.config.retries2 };
        let given_up = self.user_timeout_passed(now).unwrap_or(self.recovery.retransmits >= most);
        if given_up {
            self.over();
            *events |= Events::TIMED_OUT | Events::CLOSED;
            return;
        }
        self.recovery.retransmits = self.recovery.retransmits.saturating_add(1);
        self.recovery.backoff = self.recovery.backoff.saturating_add(1).min(30);
        self.recovery.probe = Some(Probe::Window);
        self.timers.rtx = Rtx::Persist;
        self.timers.rtx_at = now.after(self.rto());
    }

    /// Returns whether the application has requested a FIN that is not yet sent.
    #[inline]
    pub(crate) fn fin_waits(&self) -> bool {
        self.snd.fin && !self.fin_sent()
    }
}
