//! Timers: deadlines and their handlers (RFC 9293 3.10.8, RFC 6298 5, RFC 8985).
//!
//! A connection has five deadlines: the retransmission or window probe; the tail loss probe or
//! reordering timeout; the delayed ACK; a long deadline that depends on the state (keepalive,
//! FIN-WAIT-2 or TIME-WAIT); and pacing. `next_timer` returns the earliest.

use crate::rare_events::RareEvents;
use crate::rtt::after_us;
use crate::tcb::{Ca, Early, Probe, Rtx, Tcb};
use crate::{Events, Out, State};
use clock::{Duration, Instant};

impl Tcb {
    /// Time at which [`Tcb::on_timer`] is due; [`Instant::NEVER`] if no timer is set. It may change
    /// with every call.
    #[inline]
    pub fn next_timer(&self) -> Instant {
        let next = self.timers.next();
        self.cold_options
            .as_ref()
            .and_then(|cold_options| cold_options.pace_at)
            .map_or(next, |pace_at| next.min(pace_at))
    }

    /// Returns and removes the RST to send for a connection that [`Tcb::on_timer`] ended because
    /// keepalive probes were not answered.
    pub fn take_reset_due(&mut self) -> Option<Out> {
        self.cold_options.as_mut().and_then(|cold_options| cold_options.reset.take())
    }

    /// Runs the timers that are due. [`Tcb::poll_segment`] then returns the segments to send.
    pub fn on_timer(&mut self, now: Instant) -> Events {
        let mut events = Events::NONE;
        if let Some(cold_options) = &mut self.cold_options {
            cold_options.pace_at = cold_options.pace_at.filter(|pace_at| now < *pace_at);
        }
        if now >= self.timers.ack_at {
            self.on_delayed_ack();
        }
        if now >= self.timers.early_at {
            self.timers.early_at = Instant::NEVER;
            match self.timers.early {
                Early::TailLoss => self.on_tail_loss(now),
                Early::Reorder => self.on_reorder(now),
            }
        }
        if now >= self.timers.rtx_at {
            self.timers.rtx_at = Instant::NEVER;
            match self.timers.rtx {
                Rtx::Rto => self.on_rto(now, &mut events),
                Rtx::Persist => self.on_persist(now, &mut events),
            }
        }
        if now >= self.timers.long_at {
            self.timers.long_at = Instant::NEVER;
            self.on_long(now, &mut events);
        }
        events
    }

    /// Makes the delayed ACK due at once, since no data segment could contain it (RFC 9293
    /// 3.8.6.3). If the connection was marked as interactive, the mark is removed; otherwise the
    /// ACK delay doubles.
    fn on_delayed_ack(&mut self) {
        self.timers.ack_at = Instant::NEVER;
        self.rcv.ack_now = true;
        if self.rcv.pingpong {
            self.rcv.pingpong = false;
            self.rcv.ato_us = self.config.delayed_ack_min.as_micros() as u32;
        } else {
            let most = self.config.delayed_ack_max.as_micros() as u32;
            self.rcv.ato_us = self.rcv.ato_us.saturating_mul(2).min(most);
        }
    }

    /// Handles expiry of the long deadline, which depends on the state: keepalive, FIN-WAIT-2 or
    /// TIME-WAIT.
    fn on_long(&mut self, now: Instant, events: &mut Events) {
        match self.state {
            State::FinWait2 if self.options.orphan => {
                self.over();
                *events |= Events::CLOSED;
            }
            State::TimeWait => {
                self.over();
                *events |= Events::CLOSED;
            }
            _ => self.on_keepalive(now, events),
        }
    }

    /// (Re)starts the retransmission timer (RFC 6298 5.1, 5.3).
    #[inline]
    pub(crate) fn arm_rto(&mut self, now: Instant) {
        self.timers.rtx = Rtx::Rto;
        self.timers.rtx_at = after_us(now, self.rtt.rto_us(self.recovery.backoff));
        if self.cold_options.is_some() {
            self.timers.rtx_at = now.after(self.within_user_timeout(self.rto(), now));
        }
    }

    /// Current retransmission timeout, including back-off.
    #[inline]
    pub(crate) fn rto(&self) -> Duration {
        self.rtt.rto(self.recovery.backoff)
    }

    /// Limits a wait so that it ends no later than the user timeout.
    fn within_user_timeout(&self, wait: Duration, now: Instant) -> Duration {
        let Some(limit) = self.cold_options.as_ref().and_then(|cold_options| cold_options.user_timeout) else {
            return wait;
        };
        if self.recovery.unanswered_since == Instant::NEVER {
            return wait;
        }
        let passed = now.since(self.recovery.unanswered_since);
        wait.min(limit.saturating_sub(passed).max(Duration::from_millis(1)))
    }

    /// Returns whether the user timeout has passed since the first transmission of unacknowledged
    /// data; `None` if no user timeout is set.
    pub(crate) fn user_timeout_passed(&self, now: Instant) -> Option<bool> {
        let limit = self.cold_options.as_ref().and_then(|cold_options| cold_options.user_timeout)?;
        let since = self.recovery.unanswered_since;
        Some(since != Instant::NEVER && now.since(since) >= limit)
    }

    /// Handles a retransmission timeout (RFC 6298 5.4 to 5.7, RFC 9293 3.8.3).
    fn on_rto(&mut self, now: Instant, events: &mut Events) {
        if matches!(self.state, State::SynSent | State::SynReceived) {
            return self.on_syn_rto(now, events);
        }
        if self.board.is_empty() {
            return;
        }
        if self.recovery.unanswered_since == Instant::NEVER {
            self.recovery.unanswered_since = self.board.front().map_or(now, |front| front.at);
        }
        // A peer with a closed window is alive as long as it replies. Data sent into such a window
        // serves only as a probe.
        let shut = self.snd.wnd == 0;
        if !shut && self.gave_up(now) {
            self.over();
            *events |= Events::TIMED_OUT | Events::CLOSED;
            return;
        }
        if shut && self.recovery.retransmits >= self.config.retries2 && self.silent_for(now) > self.config.rto_max {
            self.over();
            *events |= Events::TIMED_OUT | Events::CLOSED;
            return;
        }
        self.black_hole_suspected(now);
        self.enter_loss(now);
        self.recovery.retransmits = self.recovery.retransmits.saturating_add(1);
        if self.recovery.retransmits == self.config.retries1 {
            *events |= Events::PATH_DOUBTFUL;
        }
        self.recovery.backoff = self.recovery.backoff.saturating_add(1).min(30);
        self.recovery.force_front = true;
        self.arm_rto(now);
    }

    /// Returns the time since the last segment from the peer.
    pub(crate) fn silent_for(&self, now: Instant) -> Duration {
        now.since(self.recovery.heard_at)
    }

    /// Returns whether the connection fails, because R2 is reached (RFC 9293 3.8.3) or the user
    /// timeout, if set, has passed (RFC 5482).
    fn gave_up(&self, now: Instant) -> bool {
        if let Some(passed) = self.user_timeout_passed(now) {
            return passed;
        }
        let most = if self.options.orphan { self.config.orphan_retries } else { self.config.retries2 };
        self.recovery.retransmits >= most
    }

    fn on_syn_rto(&mut self, now: Instant, events: &mut Events) {
        let requested = self.cold_options.as_ref().and_then(|cold_options| cold_options.syn_count);
        let most = match self.state {
            State::SynSent => requested.unwrap_or(self.config.syn_retries),
            _ => self.config.synack_retries,
        };
        if self.recovery.unanswered_since == Instant::NEVER {
            self.recovery.unanswered_since = self.snd.last_at;
        }
        let given_up = self.user_timeout_passed(now).unwrap_or(self.recovery.retransmits >= most);
        if given_up {
            self.over();
            *events |= Events::TIMED_OUT | Events::CLOSED;
            return;
        }
        self.recovery.retransmits = self.recovery.retransmits.saturating_add(1);
        self.recovery.backoff = self.recovery.backoff.saturating_add(1).min(30);
        self.snd.syn_due = true;
        self.arm_rto(now);
    }

    /// Arms the tail loss probe two round trips after the last transmission or ACK, if that is
    /// before the RTO (RFC 8985 7.2).
    pub(crate) fn arm_tail_loss(&mut self, now: Instant) {
        let quiet = matches!(self.recovery.ca, Ca::Open | Ca::Cwr) && self.recovery.tlp_end.is_none();
        if !(self.config.rack && self.sack && quiet) || self.board.is_empty() || self.timers.rtx == Rtx::Persist {
            if self.timers.early == Early::TailLoss {
                self.timers.early_at = Instant::NEVER;
            }
            return;
        }
        let wait_us = match u64::from(self.rtt.srtt_us()) {
            0 => self.config.rto_initial.as_micros() as u64,
            // The ACK of a single segment may be delayed by the peer.
            srtt if self.board.len() == 1 => 2 * srtt + self.config.delayed_ack_max.as_micros() as u64,
            srtt => 2 * srtt + 2000,
        };
        self.timers.early = Early::TailLoss;
        self.timers.early_at = after_us(now, wait_us).min(self.timers.rtx_at);
    }

    /// Requests a tail loss probe: new data if there is any; otherwise the last segment again (RFC
    /// 8985 7.3).
    fn on_tail_loss(&mut self, now: Instant) {
        if self.board.is_empty() || self.recovery.tlp_end.is_some() {
            return;
        }
        self.recovery.probe = Some(Probe::TailLoss);
        self.arm_rto(now);
    }

    /// Handles the reordering timeout (RFC 8985 6.3).
    fn on_reorder(&mut self, now: Instant) {
        self.rare_events |= RareEvents::REORDER_TIMEOUT;
        let lost = self.detect_lost(now);
        if lost > 0 {
            self.recovery.new_first = false;
            if !matches!(self.recovery.ca, Ca::Recovery | Ca::Loss) {
                self.enter_recovery(0, 0, now);
                self.recovery.reduce(0, lost, false, self.in_flight(), &mut self.cc, self.snd.mss);
            }
            let resume = self.board.front().map_or(now, |front| front.at);
            self.timers.rtx_at = resume.after(self.rto()).max(now.after(Duration::from_millis(1)));
            self.timers.rtx = Rtx::Rto;
        }
    }
}
