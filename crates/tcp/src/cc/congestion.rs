//! Interface of congestion control algorithms.

use crate::SeqNum;
use clock::{Duration, Instant};

/// Values of an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Bytes newly acknowledged, cumulatively.
    pub bytes: u32,
    /// Bytes in flight before it.
    pub prior_in_flight: u32,
    /// Bytes in flight after it.
    pub in_flight: u32,
    /// A round trip measured by it, in microseconds.
    pub rtt_us: Option<u32>,
    /// It acknowledges something sent after the round before it ended.
    pub round_start: bool,
    /// The congestion window was what kept more from being sent (RFC 7661 4.2).
    pub cwnd_limited: bool,
    /// In slow start the window may grow by a few segments at most (RFC 3465).
    pub limit_growth: bool,
    /// Loss recovery is under way: the window is being moved by others.
    pub in_recovery: bool,
    /// SND.UNA after it.
    pub snd_una: SeqNum,
    /// SND.NXT.
    pub snd_nxt: SeqNum,
}

/// Signal of congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// A segment was lost.
    Loss,
    /// The peer echoed a mark (RFC 3168 6.1.2).
    Ecn,
}

/// A congestion control algorithm. Windows are in bytes.
pub trait Congestion {
    /// SND.UNA moved.
    fn on_ack(&mut self, ack: &Ack, now: Instant);
    /// At most once a round trip: sets ssthresh (and whatever the algorithm remembers); the window itself follows by PRR.
    fn on_congestion(&mut self, in_flight: u32, why: Signal, now: Instant);
    /// Recovery, or the reduction for ECN, is over.
    fn on_recovery_exit(&mut self, now: Instant);
    /// The retransmission timer expired, for the `first` time since something was acknowledged, or again.
    fn on_rto(&mut self, in_flight: u32, first: bool, now: Instant);
    /// The reduction was for nothing: restores what was before it.
    fn undo(&mut self);
    /// Nothing was sent for `idle`, which is longer than `rto` (RFC 5681 4.1).
    fn on_idle_restart(&mut self, idle: Duration, rto: Duration);
    /// The congestion window.
    fn cwnd(&self) -> u32;
    /// The slow start threshold.
    fn ssthresh(&self) -> u32;
    /// Moves the window, as recovery does.
    fn set_cwnd(&mut self, cwnd: u32);
    /// The largest segment that is sent from now on.
    fn set_mss(&mut self, mss: u16);
    /// Returns the pacing rate in percent of a window a round trip.
    fn pacing_gain(&self) -> u32 {
        if self.cwnd() < self.ssthresh() / 2 { 200 } else { 120 }
    }
    /// As `TCP_CONGESTION` names it.
    fn name(&self) -> &'static str;
}
