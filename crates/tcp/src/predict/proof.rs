//! Check of the fast paths: a segment that a test or fuzz target delivers is processed by the fast
//! path and by the slow path, and both must have the same result.

use super::{Bare, Ended, Expected, Next, Taken};
use crate::tcb::Tcb;
use crate::{Ecn, Events, Out, OutOptions, Reply, Segment, SegmentOptions, Text, Timestamps};
use clock::Instant;
use wire::tcp::Flags;

impl Expected {
    /// Converts `seg`. Returns `None` if the segment has anything that [`Expected`] cannot
    /// represent.
    pub fn of(seg: &Segment) -> Option<Expected> {
        let timestamps = seg.options.timestamps?;
        let alone = SegmentOptions { timestamps: Some(timestamps), ..SegmentOptions::default() };
        let plain = seg.flags.0 & !(Flags::PSH.0 | Flags::FIN.0) == Flags::ACK.0 && seg.options == alone;
        let Segment { seq, ack, window, len, .. } = *seg;
        let whole = plain && seg.gso_size == 0 && seg.ecn == Ecn::NotEct;
        whole.then_some(Expected { seq, ack, window, len, fin: seg.has(Flags::FIN), timestamps })
    }
}

impl Tcb {
    /// Calls [`Tcb::on_segment`]. Panics if [`Tcb::on_expected`] or [`Tcb::on_end`] accepts the
    /// segment with a different result, or rejects it after a change of state.
    pub fn on_segment_either_way(&mut self, seg: &Segment, now: Instant) -> Reply {
        // The state of many segments in flight takes long to print, and the fast path does not
        // handle it.
        let Some(expected) = Expected::of(seg).filter(|_| self.board.len() < 20) else {
            return self.on_segment(seg, now);
        };
        let (before, mut short) = (format!("{self:?}"), self.clone());
        let taken = match short.on_expected(&expected, now) {
            Some(Taken { acked }) => Some(reply_of(seg, acked)),
            None => short.on_end(&expected, now).map(|Ended { acked, measured, events }| {
                let nothing = Reply::default();
                Reply { acked, measured, events, ..nothing }
            }),
        };
        let reply = self.on_segment(seg, now);
        match taken {
            None => assert_eq!(format!("{short:?}"), before, "declined {seg:?}, and changed something"),
            Some(reported) => {
                assert_eq!(format!("{short:?}"), format!("{self:?}"), "of {before} by {seg:?}");
                assert_eq!(reply, reported);
            }
        }
        reply
    }
}

impl Tcb {
    /// Calls [`Tcb::poll_segment`]. Panics if [`Tcb::send_next`] or [`Tcb::send_bare`] would have
    /// built another segment or resulted in another state.
    pub fn poll_segment_either_way(&mut self, now: Instant, max_text: u32) -> Option<Out> {
        let Some(len) = self.next_text() else { return self.poll_bare_either_way(now, max_text) };
        let mut short = self.clone();
        let next = short.send_next(len, now);
        let out = self.poll_segment(now, max_text);
        assert_eq!(format!("{short:?}"), format!("{self:?}"));
        assert_eq!(out, Some(out_of(&next, len, self.snd.mss)));
        out
    }

    fn poll_bare_either_way(&mut self, now: Instant, max_text: u32) -> Option<Out> {
        let Some(bare) = self.next_bare() else { return self.poll_segment(now, max_text) };
        let mut short = self.clone();
        let next = short.send_bare(bare, now);
        assert!(!short.has_output(), "that was not all: {short:?}");
        let text_at = if bare == Bare::Fin { self.snd.nxt.since(self.snd.una) } else { 0 };
        let out = self.poll_segment(now, max_text);
        assert_eq!(format!("{short:?}"), format!("{self:?}"));
        let flags = if bare == Bare::Fin { Flags::ACK | Flags::FIN } else { Flags::ACK };
        assert_eq!(out, Some(Out { flags, text_at, ..out_of(&next, 0, self.snd.mss) }));
        out
    }
}

/// Returns the segment that the slow path sends for `next`: with `len` bytes of data, and the
/// current maximum segment size `mss`.
fn out_of(next: &Next, len: u32, mss: u16) -> Out {
    let Next { seq, ack, window, timestamps: Timestamps { val, ecr } } = *next;
    let flags = Flags::ACK | Flags::PSH;
    Out { seq, ack, window, flags, options: OutOptions::timestamps(val, ecr), text_len: len, mss, ..Out::default() }
}

/// Returns the slow path's reply to an expected segment.
fn reply_of(seg: &Segment, acked: u32) -> Reply {
    let mut reply = Reply { acked, measured: acked > 0, ..Reply::default() };
    if acked > 0 {
        reply.events |= Events::WRITABLE;
    }
    if seg.len > 0 {
        reply.events |= Events::READABLE;
        (reply.in_order, reply.text) = (seg.len, Text::Accept { skip: 0, len: seg.len, at: 0 });
    }
    reply
}
