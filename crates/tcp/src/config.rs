//! Initial settings of connections. Where the RFCs permit a choice, the defaults are those of
//! Linux; `differences.md` in this crate gives the reasons.

use crate::cc::Algorithm;
use clock::Duration;

/// ECN negotiation (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EcnMode {
    /// ECN is neither requested nor accepted.
    Off,
    /// ECN is accepted if the peer requests it.
    #[default]
    Passive,
    /// ECN is requested and accepted.
    On,
}

/// Initial settings shared by all connections of a stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// MSS that we advertise: the MTU of the path minus the fixed lengths of the IP and TCP
    /// headers, without options (RFC 9293 3.7.1, RFC 6691).
    pub mss: u16,
    /// MSS assumed if the peer advertises none: 536, for IPv6 1220 (RFC 9293 3.7.1).
    pub default_mss: u16,
    /// Minimum MSS used for sending, even if the peer advertises less: Linux's `tcp_min_snd_mss`
    /// (CVE-2019-11479).
    pub min_mss: u16,
    /// Initial size of the receive buffer in bytes.
    pub recv_space: u32,
    /// Maximum size in bytes to which auto-tuning grows the receive buffer; determines the window
    /// scale.
    pub recv_space_max: u32,
    /// Initial size of the send buffer in bytes.
    pub send_space: u32,
    /// True if window scaling is offered and accepted.
    pub window_scaling: bool,
    /// True if SACK is offered and accepted.
    pub sack: bool,
    /// True if timestamps are offered and accepted.
    pub timestamps: bool,
    /// Explicit congestion notification mode.
    pub ecn: EcnMode,
    /// Congestion control algorithm.
    pub algorithm: Algorithm,
    /// Initial congestion window in segments (RFC 6928: 10).
    pub initial_window: u8,
    /// True if slow start grows the window by only a few segments per ACK (RFC 3465, RFC 9406 4.3).
    /// Otherwise the window grows by all bytes newly delivered, which excludes those SACKed
    /// earlier.
    pub limit_growth: bool,
    /// True if, on congestion, the new window is computed from the congestion window, as in Linux.
    /// Otherwise it is computed from the bytes in flight (RFC 5681 3.1).
    pub reduce_cwnd: bool,
    /// Minimum number of segments in a batch of new data. A batch is the data of about a
    /// millisecond, as Linux passes it to a port with TSO. A batch of several segments ends with
    /// PSH. 0 disables batches.
    pub push_runs: u8,
    /// True if the ACK of a FIN is delayed like an ACK of data, and contains no D-SACK.
    pub delay_fin_ack: bool,
    /// True if the window is reduced after an idle period (RFC 5681 4.1).
    pub idle_restart: bool,
    /// RTO before the first RTT measurement (RFC 6298 2.1).
    pub rto_initial: Duration,
    /// Minimum retransmission timeout (RTO).
    pub rto_min: Duration,
    /// Maximum RTO; RFC 6298 2.5 requires 60 s or more.
    pub rto_max: Duration,
    /// SYN retransmissions before the connection fails; together they take over 3 minutes (RFC 9293
    /// 3.8.3, R2 for SYN).
    pub syn_retries: u8,
    /// SYN-ACK retransmissions before the connection fails.
    pub synack_retries: u8,
    /// Consecutive timeouts after which the route is checked again (RFC 9293 3.8.3, R1).
    pub retries1: u8,
    /// Consecutive timeouts after which the connection fails (R2): 15 take over 15 minutes.
    pub retries2: u8,
    /// Consecutive timeouts after which an orphaned connection, which no process has open, fails.
    pub orphan_retries: u8,
    /// Time in FIN-WAIT-2 after which an orphaned connection, which no process has open, is freed.
    pub fin_timeout: Duration,
    /// Duration of TIME-WAIT: twice the maximum segment lifetime.
    pub time_wait: Duration,
    /// Time without a segment from the peer before the first keepalive probe, on connections that
    /// enable keepalive (RFC 9293 3.8.4: 2 hours or more).
    pub keepalive_idle: Duration,
    /// Interval between keepalive probes.
    pub keepalive_interval: Duration,
    /// Unanswered keepalive probes before the connection fails.
    pub keepalive_count: u8,
    /// Minimum delay of an ACK.
    pub delayed_ack_min: Duration,
    /// Maximum delay of an ACK; below 0.5 s (RFC 9293 3.8.6.3).
    pub delayed_ack_max: Duration,
    /// Maximum number of out-of-order ranges stored per connection. A segment that would add one
    /// more is dropped (SegmentSmack, CVE-2018-5390).
    pub reassembly_ranges: u16,
    /// Maximum number of scoreboard records (segments in flight) per connection. At the maximum,
    /// only full segments are sent.
    pub sent_records: u32,
    /// Challenge ACKs that one connection sends per second, on average (RFC 5961 7).
    pub challenge_acks: u8,
    /// Minimum time between two replies to out-of-window segments of one connection.
    pub invalid_interval: Duration,
    /// True if tail loss probes and RACK are used (RFC 8985).
    pub rack: bool,
    /// True if spurious timeouts are detected (F-RTO, RFC 5682).
    pub frto: bool,
    /// True if connections search for a larger path MTU with probes (RFC 8899).
    pub mtu_probing: bool,
    /// Minimum MSS to which an ICMP message or the MTU search can reduce a connection (RFC 1191:
    /// 576 minus 40; Linux: 552 minus 40).
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

/// Largest window scale shift (RFC 7323 2.3).
pub(crate) const MOST_SCALE: u8 = 14;

/// Returns the window shift for a buffer of up to `space` bytes: the smallest shift with which
/// `space` fits the 16-bit window field, as in Linux.
pub(crate) fn scale_for(space: u32) -> u8 {
    let bits = space.max(1).ilog2();
    (bits.saturating_sub(15) as u8).min(MOST_SCALE)
}
