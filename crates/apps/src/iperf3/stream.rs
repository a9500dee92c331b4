//! One stream of a test and what is counted on it, at this end and, once results are exchanged, at the other.

use super::file::StreamFile;
use super::pace::Pace;
use super::proto::Stamp;
use crate::app::Chan;
use crate::streams::{Ends, StreamInfo};
use clock::Instant;

/// A stream of the test.
#[derive(Debug)]
pub(super) struct Stream {
    /// As both sides number it: 1, 3, 4, 5 (stock iperf3 leaves out the 2).
    pub(super) id: u32,
    pub(super) chan: Chan,
    pub(super) ends: Ends,
    pub(super) is_sender: bool,
    pub(super) is_open: bool,
    /// Bytes since the test began to count.
    pub(super) bytes: u64,
    /// What the other side counted.
    pub(super) peer: PeerCounts,
    /// Bytes since the last interval.
    pub(super) since: u64,
    pub(super) info: Option<StreamInfo>,
    /// Retransmissions before the test began to count, and before this interval.
    pub(super) retransmits_omitted: u64,
    pub(super) retransmits_before: u64,
    pub(super) max_cwnd: u64,
    pub(super) max_wnd: u64,
    pub(super) rtt: RoundTrips,
    pub(super) pace: Pace,
    /// It waits for its rate.
    pub(super) is_paced: bool,
    /// Of datagrams: what came, or went.
    pub(super) datagrams: Datagrams,
    pub(super) datagrams_omitted: Datagrams,
    pub(super) datagrams_before: Datagrams,
    /// Instead of the usual payload.
    pub(super) file: Option<StreamFile>,
}

/// The other side's numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerCounts {
    pub(super) bytes: u64,
    pub(super) retransmits: Option<u64>,
    pub(super) jitter_s: f64,
    pub(super) lost: u64,
    pub(super) packets: u64,
    /// How long it counted; 0: it does not say.
    pub(super) seconds: f64,
}

/// Round-trip times as the stack knew them at each interval's end, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrips {
    pub(super) min: u64,
    pub(super) max: u64,
    sum: u64,
    count: u64,
}

impl RoundTrips {
    pub(super) fn note(&mut self, us: u64) {
        self.min = if self.count == 0 { us } else { self.min.min(us) };
        self.max = self.max.max(us);
        self.sum = self.sum.saturating_add(us);
        self.count += 1;
    }

    pub(super) fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }
}

/// Datagrams of a stream: of a sender how many went, of a receiver what became of them.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Datagrams {
    /// Sent; or the highest number that came.
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) out_of_order: u64,
    /// RFC 3550 6.4.1: the mean deviation of transit times, in seconds.
    pub(super) jitter_s: f64,
    pub(super) transit_us: Option<i64>,
}

impl Datagrams {
    /// One has come.
    pub(super) fn on_stamp(&mut self, stamp: Stamp, now: Instant) {
        if stamp.count > self.packets {
            let missing = stamp.count - self.packets - 1;
            self.lost = self.lost.saturating_add(missing);
            self.packets = stamp.count;
        } else {
            // It was taken for lost when the next one came. A second copy of one that had come looks the same.
            self.out_of_order = self.out_of_order.saturating_add(1);
            self.lost = self.lost.saturating_sub(1);
        }
        let transit_us = ((now.nanos() / 1_000) as i64).wrapping_sub(stamp.sent_us as i64);
        if let Some(before) = self.transit_us {
            let change_s = transit_us.wrapping_sub(before).unsigned_abs() as f64 / 1e6;
            self.jitter_s += (change_s - self.jitter_s) / 16.0;
        }
        self.transit_us = Some(transit_us);
    }

    /// What has come since `before`.
    pub(super) fn since(&self, before: &Datagrams) -> Datagrams {
        Datagrams {
            packets: self.packets.saturating_sub(before.packets),
            lost: self.lost.saturating_sub(before.lost),
            out_of_order: self.out_of_order.saturating_sub(before.out_of_order),
            ..*self
        }
    }
}

impl Stream {
    pub(super) fn new(at: usize, chan: Chan, ends: Ends, is_sender: bool, now: Instant) -> Stream {
        Stream {
            id: if at == 0 { 1 } else { at as u32 + 2 },
            chan,
            ends,
            is_sender,
            is_open: true,
            bytes: 0,
            peer: PeerCounts::default(),
            since: 0,
            info: None,
            retransmits_omitted: 0,
            retransmits_before: 0,
            max_cwnd: 0,
            max_wnd: 0,
            rtt: RoundTrips::default(),
            pace: Pace::new(now),
            is_paced: false,
            datagrams: Datagrams::default(),
            datagrams_omitted: Datagrams::default(),
            datagrams_before: Datagrams::default(),
            file: None,
        }
    }

    /// Segments sent again while it counted, as far as this side knows.
    pub(super) fn retransmits(&self) -> Option<u64> {
        Some(self.info.filter(|_| self.is_sender)?.retransmits.saturating_sub(self.retransmits_omitted))
    }

    /// The same, as whichever side sends knows it.
    pub(super) fn retransmits_of_sender(&self) -> Option<u64> {
        if self.is_sender { self.retransmits() } else { self.peer.retransmits }
    }

    /// Datagrams while it counted.
    pub(super) fn counted(&self) -> Datagrams {
        self.datagrams.since(&self.datagrams_omitted)
    }

    pub(super) fn on_info(&mut self, info: StreamInfo) {
        self.info = Some(info);
        self.max_cwnd = self.max_cwnd.max(info.snd_cwnd);
        self.max_wnd = self.max_wnd.max(info.snd_wnd);
        self.rtt.note(info.rtt_us);
    }

    /// What was counted until now is not to count.
    pub(super) fn forget(&mut self) {
        (self.bytes, self.since) = (0, 0);
        self.retransmits_omitted = self.info.map_or(0, |info| info.retransmits);
        (self.max_cwnd, self.max_wnd, self.rtt) = (0, 0, RoundTrips::default());
        self.datagrams.jitter_s = 0.0;
        (self.datagrams_omitted, self.datagrams_before) = (self.datagrams, self.datagrams);
    }
}
