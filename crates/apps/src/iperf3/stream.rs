//! One stream of a test, with the counters of this side and, after the exchange of results, those
//! of the peer.

use super::file::StreamFile;
use super::pace::Pace;
use super::proto::Stamp;
use crate::app::Chan;
use crate::streams::{Ends, StreamInfo};
use linerate::stack::Instant;

/// A stream of a test.
#[derive(Debug)]
pub(super) struct Stream {
    /// Stream number on both sides: 1, 3, 4, 5 (stock iperf3 skips 2).
    pub(super) id: u32,
    pub(super) chan: Chan,
    pub(super) ends: Ends,
    pub(super) is_sender: bool,
    pub(super) is_open: bool,
    /// Number of bytes sent or received since counting began, that is, after the omitted time
    /// (--omit).
    pub(super) bytes: u64,
    /// Counts that the peer reported.
    pub(super) peer: PeerCounts,
    /// Number of bytes sent or received in the current interval.
    pub(super) since: u64,
    pub(super) info: Option<StreamInfo>,
    /// Number of retransmissions before counting began.
    pub(super) retransmits_omitted: u64,
    /// Number of retransmissions before the current interval.
    pub(super) retransmits_before: u64,
    pub(super) max_cwnd: u64,
    pub(super) max_wnd: u64,
    pub(super) rtt: RoundTrips,
    pub(super) pace: Pace,
    /// Set if the stream waits until its rate permits the next send.
    pub(super) is_paced: bool,
    /// Counters of the datagrams received or sent.
    pub(super) datagrams: Datagrams,
    pub(super) datagrams_omitted: Datagrams,
    pub(super) datagrams_before: Datagrams,
    /// File (-F) that replaces the default payload, or to which received data is written.
    pub(super) file: Option<StreamFile>,
}

/// Counts of a stream that the peer reported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerCounts {
    pub(super) bytes: u64,
    pub(super) retransmits: Option<u64>,
    pub(super) jitter_s: f64,
    pub(super) lost: u64,
    pub(super) packets: u64,
    /// Duration in seconds, as measured by the peer; 0 if the peer did not report it.
    pub(super) seconds: f64,
}

/// Round-trip times that TCP reported at the end of each interval, in microseconds.
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

/// Datagram counters of a stream. A sender has only the number sent; a receiver also has losses and
/// jitter.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Datagrams {
    /// Number of datagrams sent, or highest sequence number received.
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) out_of_order: u64,
    /// Jitter by RFC 3550 6.4.1: the mean deviation of the transit time, in seconds.
    pub(super) jitter_s: f64,
    pub(super) transit_us: Option<i64>,
}

impl Datagrams {
    /// Counts a received datagram that has this header.
    pub(super) fn on_stamp(&mut self, stamp: Stamp, now: Instant) {
        if stamp.count > self.packets {
            let missing = stamp.count - self.packets - 1;
            self.lost = self.lost.saturating_add(missing);
            self.packets = stamp.count;
        } else {
            // A late datagram has already been counted as lost. It cannot be distinguished from a
            // duplicate.
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

    /// Returns the counts since the time when the counters had the values `before`.
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

    /// Returns the number of segments retransmitted since counting began, if this side sends and
    /// TCP statistics are available.
    pub(super) fn retransmits(&self) -> Option<u64> {
        Some(self.info.filter(|_| self.is_sender)?.retransmits.saturating_sub(self.retransmits_omitted))
    }

    /// Returns the number of segments that the sending side retransmitted. The sending side may be
    /// this side or the peer.
    pub(super) fn retransmits_of_sender(&self) -> Option<u64> {
        if self.is_sender { self.retransmits() } else { self.peer.retransmits }
    }

    /// Returns the datagram counters since counting began.
    pub(super) fn counted(&self) -> Datagrams {
        self.datagrams.since(&self.datagrams_omitted)
    }

    pub(super) fn on_info(&mut self, info: StreamInfo) {
        self.info = Some(info);
        self.max_cwnd = self.max_cwnd.max(info.snd_cwnd);
        self.max_wnd = self.max_wnd.max(info.snd_wnd);
        self.rtt.note(info.rtt_us);
    }

    /// Resets the counters at the end of the omitted time.
    pub(super) fn forget(&mut self) {
        (self.bytes, self.since) = (0, 0);
        self.retransmits_omitted = self.info.map_or(0, |info| info.retransmits);
        (self.max_cwnd, self.max_wnd, self.rtt) = (0, 0, RoundTrips::default());
        self.datagrams.jitter_s = 0.0;
        (self.datagrams_omitted, self.datagrams_before) = (self.datagrams, self.datagrams);
    }
}
