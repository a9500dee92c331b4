//! Interface of congestion control algorithms.

use crate::SeqNum;
use clock::{Duration, Instant};

/// Values of one acknowledgment, as input to a congestion control algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Bytes that grow the window. With [`Config::limit_growth`](crate::Config::limit_growth),
    /// these are the bytes acknowledged cumulatively. Otherwise they are the bytes newly delivered,
    /// which exclude bytes SACKed earlier.
    pub bytes: u32,
    /// Bytes in flight before this ACK.
    pub prior_in_flight: u32,
    /// Bytes in flight after this ACK.
    pub in_flight: u32,
    /// Round-trip time measured by this ACK, in microseconds.
    pub rtt_us: Option<u32>,
    /// True if this ACK starts a new round: it acknowledges data sent after the previous round
    /// ended.
    pub round_start: bool,
    /// True if the congestion window limited sending (RFC 7661 4.2).
    pub cwnd_limited: bool,
    /// True if slow start may grow the window by only a few segments per ACK (RFC 3465).
    pub limit_growth: bool,
    /// True if loss recovery is in progress, which then controls the window.
    pub in_recovery: bool,
    /// SND.UNA after this ACK.
    pub snd_una: SeqNum,
    /// SND.NXT at this ACK.
    pub snd_nxt: SeqNum,
}

/// Signal of congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// A segment was lost.
    Loss,
    /// The peer echoed an ECN mark (RFC 3168 6.1.2).
    Ecn,
}

/// A congestion control algorithm. Windows are in bytes.
pub trait Congestion {
    /// Handles an ACK that moved SND.UNA.
    fn on_ack(&mut self, ack: &Ack, now: Instant);
    /// Handles congestion, at most once per round trip: sets ssthresh and the algorithm's own
    /// state. Proportional rate reduction (PRR) then lowers the window.
    fn on_congestion(&mut self, in_flight: u32, why: Signal, now: Instant);
    /// Handles the end of loss recovery or of an ECN reduction.
    fn on_recovery_exit(&mut self, now: Instant);
    /// Handles a retransmission timeout; `first` is false for a further timeout before SND.UNA has
    /// reached the recovery point of the previous one.
    fn on_rto(&mut self, in_flight: u32, first: bool, now: Instant);
    /// Reverts the last reduction of the window, which proved to be spurious.
    fn undo(&mut self);
    /// Handles a restart after nothing was sent for `idle`, which is longer than `rto` (RFC 5681
    /// 4.1).
    fn on_idle_restart(&mut self, idle: Duration, rto: Duration);
    /// Congestion window in bytes.
    fn cwnd(&self) -> u32;
    /// Slow start threshold in bytes.
    fn ssthresh(&self) -> u32;
    /// Sets the congestion window; used during loss recovery.
    fn set_cwnd(&mut self, cwnd: u32);
    /// Sets the maximum segment size for segments sent from now on.
    fn set_mss(&mut self, mss: u16);
    /// Pacing rate, in percent of one window per round trip.
    fn pacing_gain(&self) -> u32 {
        if self.cwnd() < self.ssthresh() / 2 { 200 } else { 120 }
    }
    /// Returns the name used by `TCP_CONGESTION`.
    fn name(&self) -> &'static str;
}
