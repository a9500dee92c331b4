//! The sequence spaces of both directions (RFC 9293 3.3.1).

use super::sizing::Sizing;
use crate::config::scale_for;
use crate::segment::Block;
use crate::{Config, SeqNum};
use clock::Instant;

/// Length of the peer's segments until a longer one has come, of either family, as in Linux (`TCP_MSS_DEFAULT`).
const FIRST_MSS_SEEN: u16 = 536;

/// The send sequence space (RFC 9293 Figure 3).
#[derive(Clone, Debug)]
pub(crate) struct Snd {
    pub una: SeqNum,
    pub nxt: SeqNum,
    /// The number after the last byte queued: FIN's, when it comes.
    pub end: SeqNum,
    pub wnd: u32,
    pub wl1: SeqNum,
    pub wl2: SeqNum,
    pub max_wnd: u32,
    pub iss: SeqNum,
    /// Text before this is to be pushed.
    pub push: SeqNum,
    /// The end of the latest segment sent that was not full (Nagle as modified by Minshall).
    pub small: SeqNum,
    /// The run that is leaving begins and ends here (`Config::push_runs`).
    pub run: Block,
    /// A round trip ends when this is acknowledged.
    pub round_end: SeqNum,
    /// The most that was in flight since `usage_end` was sent.
    pub flight: u32,
    /// `flight` and `limited` are of what was sent before this.
    pub usage_end: SeqNum,
    pub last_at: Instant,
    /// Text that fits a segment with the options that all carry.
    pub mss: u16,
    /// Largest segment of the peer, options included.
    pub peer_mss: u16,
    pub wscale: u8,
    /// FIN follows the queue.
    pub fin: bool,
    pub urgent_on: bool,
    /// The congestion window held something back.
    pub limited: bool,
    /// A SYN or SYN-ACK is to leave.
    pub syn_due: bool,
    /// Number of times it was sent.
    pub syns: u8,
}

/// The receive sequence space (RFC 9293 Figure 4), and what delays ACKs.
#[derive(Clone, Debug)]
pub(crate) struct Rcv {
    pub nxt: SeqNum,
    /// Acknowledgment number of the last ACK sent (RFC 7323: Last.ACK.sent).
    pub wup: SeqNum,
    /// Right edge of the window that was advertised.
    pub adv: SeqNum,
    pub irs: SeqNum,
    /// Sequence number of the peer's FIN, if `fin_came`.
    pub fin: SeqNum,
    pub space: u32,
    /// In order and not read.
    pub unread: u32,
    pub last_at: Instant,
    pub ato_us: u32,
    pub sizing: Sizing,
    pub dsack: Option<Block>,
    /// The largest text seen, which is what the peer calls a full segment.
    pub mss_seen: u16,
    pub wscale: u8,
    /// ACKs that are not to be delayed.
    pub quick: u8,
    /// Text answers text: ACKs can ride (interactive use).
    pub pingpong: bool,
    pub ack_now: bool,
    /// The reader made room, and an ACK is to tell of it.
    pub opens: bool,
    /// The window advertised last was 0.
    pub shut: bool,
    pub urgent_on: bool,
    /// The peer's FIN came before text that is missing.
    pub fin_came: bool,
    /// The buffer's size was not fixed by the application.
    pub tunable: bool,
}

impl Snd {
    #[inline(always)]
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
    #[inline(always)]
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
