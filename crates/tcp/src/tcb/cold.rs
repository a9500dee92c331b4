//! State that few connections need, allocated on first use.

use super::answer::Answers;
use crate::pacing::Pacer;
use crate::{Out, SeqNum};
use alloc::collections::VecDeque;
use clock::{Duration, Instant};

/// Kind of boundary in the application's data, after the last byte queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tail {
    /// End of a write. Its last byte is sent with PSH.
    Push,
    /// No boundary: more data follows soon (`MSG_MORE`). A segment that is not full may wait for
    /// this data until an ACK arrives or a timeout has passed.
    More,
    /// End of a part of a larger unit. It also ends a batch of segments (`Config::push_runs`).
    Part,
    /// End of a record (`MSG_EOR`). No segment contains bytes of two records.
    Record,
}

/// Keepalive settings and state of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keepalive {
    pub idle: Duration,
    pub interval: Duration,
    pub count: u8,
    /// Number of probes not answered.
    pub probes: u8,
}

/// State of events that most connections never have. It is allocated at the first event.
#[derive(Clone, Debug)]
pub(crate) struct ColdEvents {
    pub answers: Answers,
    /// Sequence number after the last urgent byte that we send; valid while `urgent_on` is set.
    pub snd_urgent: SeqNum,
    pub rcv_urgent: SeqNum,
    /// Time at which the current window of data began to arrive. The window is timed to measure
    /// the peer's RTT without timestamps.
    pub window_at: Instant,
    /// Sequence number at which the timed window of data ends.
    pub window_end: SeqNum,
    /// Nanoseconds for which data was delayed by the peer's window (first) and by the send buffer
    /// (second).
    pub held_up: [u64; 2],
    pub bytes_retrans: u64,
    pub total_retrans: u32,
    pub delivered_ce: u32,
    pub dsack_dups: u32,
    pub ooo_packets: u32,
    pub reord_seen: u32,
}

impl ColdEvents {
    pub(crate) fn new(iss: SeqNum) -> ColdEvents {
        ColdEvents {
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
pub(crate) struct ColdOptions {
    pub keepalive: Option<Keepalive>,
    pub user_timeout: Option<Duration>,
    pub linger2: Option<Duration>,
    pub notsent_lowat: Option<u32>,
    pub pacer: Option<Pacer>,
    /// Time at which the next segment may be sent; `None` if pacing delays no segment.
    pub pace_at: Option<Instant>,
    pub maxseg: Option<u16>,
    pub syn_count: Option<u8>,
    /// RST to send after unanswered keepalive probes have ended the connection.
    pub reset: Option<Out>,
    /// Boundaries in the unsent data that must be visible to the peer, each with its kind.
    pub ends: VecDeque<(SeqNum, Tail)>,
}
