//! SYN queue entry (64 bytes), and the segments sent for it.

use super::context::Context;
use crate::answer::bare;
use crate::config::scale_for;
use crate::isn::ts_clock;
use crate::{Config, Ends, Handshake, Out, OutOptions, Segment, SeqNum, TsState};
use clock::{Duration, Instant};
use wire::L4Port;
use wire::tcp::Flags;

/// Value of `wscale` without window scaling.
pub(super) const NO_SCALE: u8 = u8::MAX;

/// Flags of an entry.
pub(super) mod flag {
    /// SACK was negotiated.
    pub(in crate::listen) const SACK: u8 = 1;
    /// Timestamps were negotiated.
    pub(in crate::listen) const TIMESTAMPS: u8 = 2;
    /// ECN was negotiated.
    pub(in crate::listen) const ECN: u8 = 4;
    /// The SYN-ACK was sent again because the peer sent its SYN again, so the round trip cannot be
    /// measured (Karn).
    pub(in crate::listen) const AGAIN: u8 = 8;
    /// The field [`super::Entry::answered`] is valid.
    pub(in crate::listen) const ANSWERED: u8 = 16;

    pub(in crate::listen) fn when(holds: bool, flag: u8) -> u8 {
        if holds { flag } else { 0 }
    }
}

/// State of one handshake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) local: u128,
    pub(super) remote: u128,
    pub(super) local_port: L4Port,
    pub(super) remote_port: L4Port,
    pub(super) iss: SeqNum,
    pub(super) irs: SeqNum,
    pub(super) ts_recent: u32,
    /// Time at which the SYN-ACK is sent again.
    pub(super) deadline: Instant,
    /// The peer's MSS option as received; 0 if absent.
    pub(super) mss: u16,
    /// Time of the last rate-limited reply (ACK or repeated SYN-ACK), in units of 2^24 ns (16.8
    /// ms).
    pub(super) answered: u16,
    pub(super) wscale: u8,
    pub(super) flags: u8,
    pub(super) sent_again: u8,
}

/// Returns TSval at `now`.
pub(super) fn tsval(now: Instant, offset: u32) -> u32 {
    ts_clock(now).wrapping_add(offset)
}

impl Entry {
    /// Creates an entry with addresses and ports; all other fields are zero.
    pub(super) fn between(ends: &Ends) -> Entry {
        Entry {
            local: ends.local,
            remote: ends.remote,
            local_port: ends.local_port,
            remote_port: ends.remote_port,
            iss: SeqNum(0),
            irs: SeqNum(0),
            ts_recent: 0,
            deadline: Instant::NEVER,
            mss: 0,
            answered: 0,
            wscale: NO_SCALE,
            flags: 0,
            sent_again: 0,
        }
    }

    pub(super) fn ends(&self) -> Ends {
        Ends { local: self.local, remote: self.remote, local_port: self.local_port, remote_port: self.remote_port }
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn rcv_nxt(&self) -> SeqNum {
        self.irs.plus(1)
    }

    fn scaling(&self) -> Option<u8> {
        (self.wscale != NO_SCALE).then_some(self.wscale)
    }

    /// Returns whether the segment begins or ends in the window that the SYN-ACK offered (RFC 9293
    /// 3.10.7.4, first).
    pub(super) fn acceptable(&self, config: &Config, seg: &Segment) -> bool {
        let len = seg.seq_len();
        self.in_window(config, seg.seq) || (len > 0 && self.in_window(config, seg.seq.plus(len.wrapping_sub(1))))
    }

    /// Returns whether `seq` lies in the receive window: RCV.NXT =< `seq` < RCV.NXT + RCV.WND.
    pub(super) fn in_window(&self, config: &Config, seq: SeqNum) -> bool {
        seq.within(self.rcv_nxt(), self.rcv_nxt().plus(syn_window(config).max(1)))
    }

    /// Returns whether the rate limit, one reply per `invalid_interval`, permits a reply now. If
    /// so, records the reply.
    pub(super) fn may_answer(&mut self, cx: Context<'_>) -> bool {
        // The time is in units of 2^24 ns (16.8 ms). It wraps after 18 minutes, longer than an
        // entry exists.
        let now = (cx.now.nanos() >> 24) as u16;
        let apart = cx.config.invalid_interval.as_nanos() >> 24;
        if self.has(flag::ANSWERED) && u128::from(now.wrapping_sub(self.answered)) < apart {
            return false;
        }
        self.answered = now;
        self.flags |= flag::ANSWERED;
        true
    }

    /// Builds the SYN-ACK. `again` is true for a retransmission.
    pub(super) fn synack(&self, cx: Context<'_>, offset: u32, again: bool) -> Out {
        self.synack_at(cx.config, tsval(cx.now, offset), again)
    }

    /// Builds the SYN-ACK, with `tsval` if timestamps were negotiated.
    pub(super) fn synack_at(&self, config: &Config, tsval: u32, again: bool) -> Out {
        let timestamps = self.has(flag::TIMESTAMPS).then_some((tsval, self.ts_recent));
        let shift = (self.wscale != NO_SCALE).then(|| scale_for(config.recv_space_max));
        let ece = if self.has(flag::ECN) { Flags::ECE } else { Flags(0) };
        Out {
            window: syn_window(config) as u16,
            options: OutOptions::of_syn(config.mss, self.has(flag::SACK), timestamps, shift),
            retransmission: again,
            ..bare(self.iss, self.rcv_nxt(), Flags::SYN | Flags::ACK | ece)
        }
    }

    /// Builds the ACK `<SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>`.
    pub(super) fn ack(&self, cx: Context<'_>, offset: u32) -> Out {
        let options = match self.has(flag::TIMESTAMPS) {
            true => OutOptions::timestamps(tsval(cx.now, offset), self.ts_recent),
            false => OutOptions::NONE,
        };
        let shift = self.scaling().map_or(0, |_| scale_for(cx.config.recv_space_max));
        let window = (syn_window(cx.config) >> shift) as u16;
        Out { window, options, ..bare(self.iss.plus(1), self.rcv_nxt(), Flags::ACK) }
    }

    /// Returns the result of this handshake.
    pub(super) fn finished(&self, cx: Context<'_>, offset: u32, window: u16) -> Handshake {
        let once = self.sent_again == 0 && !self.has(flag::AGAIN);
        let sent = self.deadline.nanos().saturating_sub(wait(cx.config, 0).as_nanos() as u64);
        Handshake {
            iss: self.iss,
            irs: self.irs,
            mss: self.mss,
            snd_wscale: self.scaling(),
            rcv_wscale: self.scaling().map_or(0, |_| scale_for(cx.config.recv_space_max)),
            sack: self.has(flag::SACK),
            ts: self.has(flag::TIMESTAMPS).then_some(TsState { recent: self.ts_recent, offset }),
            window,
            ecn: self.has(flag::ECN),
            rtt: once.then(|| cx.now.since(Instant::from_nanos(sent))),
        }
    }
}

/// Window offered by a SYN-ACK, in bytes: unscaled (RFC 7323 2.2) and a multiple of the MSS.
/// [`crate::Tcb::from_handshake`] assumes the same value.
fn syn_window(config: &Config) -> u32 {
    let (window, mss) = (config.recv_space.min(u32::from(u16::MAX)), u32::from(config.mss.max(1)));
    if window > mss { window - window % mss } else { window }
}

/// Returns the time to wait for the ACK of a SYN-ACK that was retransmitted `again` times (RFC 6298
/// 5.5). With the default of seven retries the last wait ends after four minutes; RFC 9293 3.8.3
/// requires at least three (MUST-23).
pub(super) fn wait(config: &Config, again: u8) -> Duration {
    config.rto_initial.saturating_mul(1u32.checked_shl(u32::from(again)).unwrap_or(u32::MAX)).min(config.rto_max)
}
