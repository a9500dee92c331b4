//! Sequence spaces of both directions (RFC 9293 3.3.1).

use super::sizing::Sizing;
use crate::config::scale_for;
use crate::segment::Block;
use crate::{Config, SeqNum};
use clock::Instant;

/// Assumed length of the peer's full segments in bytes, for IPv4 and IPv6, until a longer one
/// arrives; as in Linux (`TCP_MSS_DEFAULT`).
const FIRST_MSS_SEEN: u16 = 536;

/// Send sequence space (RFC 9293 Figure 3).
#[derive(Clone, Debug)]
pub(crate) struct Snd {
    pub una: SeqNum,
    pub nxt: SeqNum,
    /// Sequence number after the last byte queued; the FIN will have this number.
    pub end: SeqNum,
    pub wnd: u32,
    pub wl1: SeqNum,
    pub wl2: SeqNum,
    pub max_wnd: u32,
    pub iss: SeqNum,
    /// Data before this sequence number must be sent without waiting for more (PSH).
    pub push: SeqNum,
    /// End of the latest segment sent that was not full (Nagle as modified by Minshall).
    pub small: SeqNum,
    /// Begin and end of the current batch of new data (`Config::push_runs`).
    pub run: Block,
    /// Sequence number whose ACK ends the current round trip.
    pub round_end: SeqNum,
    /// Maximum bytes in flight since `usage_end` was sent.
    pub flight: u32,
    /// `flight` and `limited` apply to the data sent before this sequence number.
    pub usage_end: SeqNum,
    pub last_at: Instant,
    /// Maximum number of data bytes in a segment. The options that every segment contains are
    /// already subtracted.
    pub mss: u16,
    /// Largest segment that the peer accepts, options included.
    pub peer_mss: u16,
    pub wscale: u8,
    /// True if a FIN follows the queue.
    pub fin: bool,
    pub urgent_on: bool,
    /// True if the congestion window limited sending.
    pub limited: bool,
    /// True if a SYN or SYN-ACK must be sent.
    pub syn_due: bool,
    /// Number of times the SYN or SYN-ACK was sent.
    pub syns: u8,
}

/// Receive sequence space (RFC 9293 Figure 4), and the state of delayed ACKs.
#[derive(Clone, Debug)]
pub(crate) struct Rcv {
    pub nxt: SeqNum,
    /// Acknowledgment number of the last ACK sent (RFC 7323: Last.ACK.sent).
    pub wup: SeqNum,
    /// Right edge of the advertised window.
    pub adv: SeqNum,
    pub irs: SeqNum,
    /// Sequence number of the peer's FIN; valid if `fin_came`.
    pub fin: SeqNum,
    pub space: u32,
    /// Number of bytes received in order and not yet read.
    pub unread: u32,
    pub last_at: Instant,
    pub ato_us: u32,
    pub sizing: Sizing,
    pub dsack: Option<Block>,
    /// Largest data length seen, assumed to be the peer's full segment.
    pub mss_seen: u16,
    pub wscale: u8,
    /// Number of immediate ACKs that remain before ACKs are delayed.
    pub quick: u8,
    /// True if use is interactive: request and response alternate, so that data segments can
    /// contain the ACKs.
    pub pingpong: bool,
    pub ack_now: bool,
    /// True if the application freed buffer space that an ACK must announce.
    pub opens: bool,
    /// True if the last advertised window was 0.
    pub shut: bool,
    pub urgent_on: bool,
    /// True if the peer's FIN was received.
    pub fin_came: bool,
    /// True if auto-tuning may change the buffer's size: the application has not set it.
    pub tunable: bool,
}

impl Snd {
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn new(config: &Config, iss: SeqNum, now: Instant) -> Snd {
        Snd {
            una: iss,
            nxt: iss,
            end: iss.plus(1),
            wnd: 0,
            wl1: SeqNum(0),
            wl2: SeqNum(0),
            max_wnd: 0,
            iss,
            push: iss,
            small: iss,
            run: Block { left: iss, right: iss },
            round_end: iss,
            flight: 0,
            usage_end: iss,
            last_at: now,
            mss: config.default_mss,
            peer_mss: config.default_mss,
            wscale: 0,
            fin: false,
            urgent_on: false,
            limited: false,
            syn_due: true,
            syns: 0,
        }
    }
}

impl Rcv {
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn new(config: &Config) -> Rcv {
        let rcv_wscale = if config.window_scaling { scale_for(config.recv_space_max) } else { 0 };
        Rcv {
            nxt: SeqNum(0),
            wup: SeqNum(0),
            adv: SeqNum(0),
            irs: SeqNum(0),
            fin: SeqNum(0),
            space: config.recv_space,
            unread: 0,
            last_at: Instant::ZERO,
            ato_us: 0,
            sizing: Sizing::default(),
            dsack: None,
            mss_seen: FIRST_MSS_SEEN.min(config.mss),
            wscale: rcv_wscale,
            quick: 0,
            pingpong: false,
            ack_now: false,
            opens: false,
            shut: false,
            urgent_on: false,
            fin_came: false,
            tunable: true,
        }
    }
}
