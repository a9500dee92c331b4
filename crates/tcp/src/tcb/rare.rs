//! State that few connections need, allocated on first use.

use super::answer::Answers;
use crate::pacing::Pacer;
use crate::{Out, SeqNum};
use clock::{Duration, Instant};
use std::collections::VecDeque;

/// Property of the end of queued text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tail {
    /// The text is to arrive without waiting for more (PSH).
    Push,
    /// More follows soon (`MSG_MORE`): a segment that is not full may wait for it, until something is acknowledged or a
    /// timeout has passed.
    More,
    /// A part of something larger ends, and with it a run (`Config::push_runs`).
    Part,
    /// A record ends (`MSG_EOR`): no segment has bytes of two.
    Record,
}

/// A connection's keepalive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keepalive {
    pub idle: Duration,
    pub interval: Duration,
    pub count: u8,
    /// Probes that were not answered.
    pub probes: u8,
}

/// State of events that most connections never see; allocated at the first.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    pub answers: Answers,
    /// The number after the last urgent byte, sent and received; valid while `urgent_on`.
    pub snd_urgent: SeqNum,
    pub rcv_urgent: SeqNum,
    /// The peer's round trip measured without timestamps: a window's worth arrives from then on, up to here.
    pub window_at: Instant,
    pub window_end: SeqNum,
    /// Nanoseconds that text was held up by the peer's window, and by the send buffer.
    pub held_up: [u64; 2],
    pub bytes_retrans: u64,
    pub total_retrans: u32,
    pub delivered_ce: u32,
    pub dsack_dups: u32,
    pub ooo_packets: u32,
    pub reord_seen: u32,
}

impl Met {
    pub(crate) fn new(iss: SeqNum) -> Met {
        Met {
            answers: Answers::new(iss),
            snd_urgent: iss,
            rcv_urgent: iss,
            window_at: Instant::ZERO,
            window_end: iss,
            held_up: [0; 2],
            bytes_retrans: 0,
            total_retrans: 0,
            delivered_ce: 0,
            dsack_dups: 0,
            ooo_packets: 0,
            reord_seen: 0,
        }
    }
}

/// Options and requests that few connections use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rare {
    pub keepalive: Option<Keepalive>,
    pub user_timeout: Option<Duration>,
    pub linger2: Option<Duration>,
    pub notsent_lowat: Option<u32>,
    pub pacer: Option<Pacer>,
    /// Time at which the next segment may leave, if pacing holds one back.
    pub pace_at: Option<Instant>,
    pub maxseg: Option<u16>,
    pub syn_count: Option<u8>,
    /// The RST of a connection that keepalive gave up.
    pub reset: Option<Out>,
    /// Ends of unsent writes that are to be visible on the wire.
    pub ends: VecDeque<(SeqNum, Tail)>,
}
