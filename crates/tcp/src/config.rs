//! What connections begin with. Defaults are Linux's where the RFCs leave the choice; `differences.md` has the reasons.

use crate::cc::Algorithm;
use clock::Duration;

/// Whether to ask for and agree to ECN (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EcnMode {
    /// Neither.
    Off,
    /// Agree to it when asked.
    #[default]
    Passive,
    /// Ask for it.
    On,
}

/// What all connections of a stack begin with; shared by them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The MSS that we advertise: the path's MTU less IP and TCP headers without options (RFC 9293 3.7.1, RFC 6691).
    pub mss: u16,
    /// What a peer that advertises none is taken to accept: 536, for IPv6 1220 (RFC 9293 3.7.1).
    pub default_mss: u16,
    /// A peer that advertises less is sent this much all the same: Linux's `tcp_min_snd_mss` (CVE-2019-11479).
    pub min_mss: u16,
    /// Bytes of receive buffer at first.
    pub recv_space: u32,
    /// Bytes that auto-tuning may ask for; the window scale is chosen for it.
    pub recv_space_max: u32,
    /// Bytes of send buffer at first.
    pub send_space: u32,
    /// Offer and agree to window scaling.
    pub window_scaling: bool,
    /// Offer and agree to SACK.
    pub sack: bool,
    /// Offer and agree to timestamps.
    pub timestamps: bool,
    /// Explicit congestion notification.
    pub ecn: EcnMode,
    /// Congestion control.
    pub algorithm: Algorithm,
    /// Segments of the initial window (RFC 6928: 10).
    pub initial_window: u8,
    /// An ACK opens the window in slow start by a few segments at most (RFC 3465, RFC 9406 4.3); else by all that arrived
    /// with it, which is less than it acknowledges where some was SACKed before.
    pub limit_growth: bool,
    /// Congestion reduces the congestion window, which is kept no larger than what is used; else what is in flight.
    pub reduce_cwnd: bool,
    /// New text leaves in runs of about a millisecond's worth, so many segments at least, and a run of several ends with PSH; 0:
    /// it does not.
    pub push_runs: u8,
    /// The ACK of a FIN may wait as that of text does, and tells of no duplicates.
    pub delay_fin_ack: bool,
    /// The window starts anew after silence (RFC 5681 4.1).
    pub idle_restart: bool,
    /// RTO without a measurement (RFC 6298 2.1).
    pub rto_initial: Duration,
    /// Least RTO.
    pub rto_min: Duration,
    /// Greatest RTO; RFC 6298 2.5 asks for 60 s or more.
    pub rto_max: Duration,
    /// A SYN is sent again this often before the connection fails: over 3 minutes (RFC 9293 3.8.3, R2 for SYN).
    pub syn_retries: u8,
    /// The same for a SYN-ACK.
    pub synack_retries: u8,
    /// Timeouts in a row after which the path is asked to be looked at again (RFC 9293 3.8.3, R1).
    pub retries1: u8,
    /// Timeouts in a row after which the connection fails (R2): 15 are over 15 minutes.
    pub retries2: u8,
    /// The same when no process holds the connection any longer.
    pub orphan_retries: u8,
    /// A peer silent for so long in FIN-WAIT-2 is forgotten, when no process holds the connection.
    pub fin_timeout: Duration,
    /// TIME-WAIT: twice the maximum segment lifetime.
    pub time_wait: Duration,
    /// Keepalive, when a connection asks for it: silence before the first probe (RFC 9293 3.8.4: 2 hours or more).
    pub keepalive_idle: Duration,
    /// Between probes.
    pub keepalive_interval: Duration,
    /// Probes without an answer before the connection fails.
    pub keepalive_count: u8,
    /// Shortest delay of an ACK.
    pub delayed_ack_min: Duration,
    /// Longest delay of an ACK; below 0.5 s (RFC 9293 3.8.6.3).
    pub delayed_ack_max: Duration,
    /// Out-of-order ranges kept (SegmentSmack); a segment that would make one more is dropped.
    pub reassembly_ranges: u16,
    /// Sent segments kept; when there are as many, only full ones are sent.
    pub sent_records: u32,
    /// Challenge ACKs that one connection sends a second, on average (RFC 5961 7).
    pub challenge_acks: u8,
    /// Least time between answers to segments out of window, for one connection.
    pub invalid_interval: Duration,
    /// Tail loss probes and RACK (RFC 8985).
    pub rack: bool,
    /// Spurious timeouts are looked for (RFC 5682).
    pub frto: bool,
    /// Search for a larger path MTU, and for a smaller one when segments vanish (RFC 8899).
    pub mtu_probing: bool,
    /// MSS below which no ICMP message and no search brings a connection (RFC 1191: 576 less 40; Linux: 552 less 40).
    pub min_path_mss: u16,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mss: 1460,
            default_mss: 536,
            min_mss: 48,
            recv_space: 65_535,
            recv_space_max: 6 << 20,
            send_space: 87_380,
            window_scaling: true,
            sack: true,
            timestamps: true,
            ecn: EcnMode::Passive,
            algorithm: Algorithm::NewReno,
            initial_window: 10,
            limit_growth: true,
            reduce_cwnd: false,
            push_runs: 0,
            delay_fin_ack: false,
            idle_restart: true,
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(120),
            syn_retries: 7,
            synack_retries: 7,
            retries1: 3,
            retries2: 15,
            orphan_retries: 8,
            fin_timeout: Duration::from_secs(60),
            time_wait: Duration::from_secs(60),
            keepalive_idle: Duration::from_secs(7200),
            keepalive_interval: Duration::from_secs(75),
            keepalive_count: 9,
            delayed_ack_min: Duration::from_millis(40),
            delayed_ack_max: Duration::from_millis(200),
            reassembly_ranges: 1024,
            sent_records: 1 << 16,
            challenge_acks: 10,
            invalid_interval: Duration::from_millis(500),
            rack: true,
            frto: true,
            mtu_probing: false,
            min_path_mss: 512,
        }
    }
}

/// Largest shift (RFC 7323 2.3).
pub(crate) const MOST_SCALE: u8 = 14;

/// The shift for a buffer that may grow to `space`: the least with which it fits in 16 bits, as Linux chooses it.
pub(crate) fn scale_for(space: u32) -> u8 {
    let bits = space.max(1).ilog2();
    (bits.saturating_sub(15) as u8).min(MOST_SCALE)
}
