use super::*;
use crate::{Config, Events, Segment, SegmentOptions, Text};
use clock::Duration;
use std::sync::Arc;
use wire::tcp::Flags;

/// A connection with its two ends, and the current time.
struct Both {
    ends: [Tcb; 2],
    now: Instant,
}

impl Both {
    fn new(config: Config) -> Both {
        let (config, now) = (Arc::new(config), Instant::from_millis(1000));
        let mut client = Tcb::connect(&config, SeqNum(u32::MAX - 500), 7, now);
        let syn = client.poll_segment(now, 0).unwrap().as_arriving();
        let server = Tcb::accept(&config, SeqNum(u32::MAX - 100), 9, &syn, now);
        let mut both = Both { ends: [client, server], now };
        both.carry(1);
        both.carry(0);
        assert!(both.ends.iter().all(|end| end.state() == State::Established));
        both
    }

    /// Delivers the segments that `from` has to send. Returns the number of segments, and how many
    /// of them the other end processed on the fast path.
    fn carry(&mut self, from: usize) -> (usize, usize) {
        self.now = self.now.after(Duration::from_micros(20));
        let (mut sent, mut expected) = (0, 0);
        while let Some(out) = self.ends[from].poll_segment_either_way(self.now, 0) {
            let (seg, to) = (out.as_arriving(), &mut self.ends[1 - from]);
            expected +=
                usize::from(Expected::of(&seg).is_some_and(|seg| to.clone().on_expected(&seg, self.now).is_some()));
            let reply = to.on_segment_either_way(&seg, self.now);
            to.consumed(reply.in_order, self.now);
            sent += 1;
        }
        (sent, expected)
    }

    fn write(&mut self, from: usize, bytes: u32) -> (usize, usize) {
        self.ends[from].queued(bytes, true);
        self.carry(from)
    }
}

#[test]
fn requests_and_replies_take_the_fast_path_from_the_first_segment() {
    let mut both = Both::new(Config::default());
    for _ in 0..1000 {
        for (from, bytes) in [(0, 100), (1, 1000)] {
            both.ends[from].queued(bytes, true);
            assert_eq!(both.ends[from].next_text(), Some(bytes));
            assert_eq!(both.carry(from), (1, 1));
        }
    }
}

#[test]
fn a_received_stream_takes_the_fast_path() {
    let mut both = Both::new(Config::default());
    for _ in 0..100 {
        let (sent, expected) = both.write(0, 14_000);
        assert_eq!(sent, expected);
        both.carry(1);
    }
}

#[test]
fn without_timestamps_no_segment_takes_the_fast_path() {
    let mut both = Both::new(Config { timestamps: false, ..Config::default() });
    assert_eq!(both.write(0, 100), (1, 0));
}

/// Data that must be split or delayed takes the slow path.
#[test]
fn other_output_takes_the_slow_path() {
    let mut both = Both::new(Config::default());
    let end = &mut both.ends[0];
    assert_eq!(end.next_text(), None);
    end.queued(100, true);
    let changes: [fn(&mut Tcb); 6] = [
        |end| end.queued(100, false),
        |end| end.queued(2000, true),
        |end| end.queued_urgent(1),
        |end| end.set_cork(true),
        |end| end.set_pacing(true, None),
        |end| end.shutdown_send(Instant::from_millis(2000)),
    ];
    for change in changes {
        let mut other = end.clone();
        change(&mut other);
        assert_eq!(other.next_text(), None, "{other:?}");
    }
    assert_eq!(end.next_text(), Some(100));
    end.poll_segment_either_way(both.now, 0).unwrap();
    end.queued(100, true);
    assert_eq!(end.next_text(), None, "text is under way");
}

/// Segments that differ from an expected segment in one property take the slow path.
#[test]
fn other_segments_take_the_slow_path() {
    let mut both = Both::new(Config::default());
    both.write(0, 1);
    both.ends[1].queued(500, true);
    let out = both.ends[1].poll_segment(both.now, 0).unwrap();
    let (seg, to) = (out.as_arriving(), &both.ends[0]);
    let expects = |seg: &Segment| Expected::of(seg).is_some_and(|seg| to.clone().on_expected(&seg, both.now).is_some());
    assert!(expects(&seg));
    let ts = seg.options.timestamps.unwrap();
    let with = |change: fn(&mut Segment)| {
        let mut seg = seg;
        change(&mut seg);
        seg
    };
    for other in [
        with(|seg| seg.flags = Flags::ACK | Flags::FIN),
        with(|seg| seg.flags = Flags::ACK | Flags::URG),
        with(|seg| seg.flags = Flags::ACK | Flags::RST),
        with(|seg| seg.seq = seg.seq.plus(1)),
        with(|seg| seg.seq = seg.seq.minus(1)),
        with(|seg| seg.ack = seg.ack.plus(1)),
        with(|seg| seg.len = 1 << 20),
        with(|seg| seg.options = SegmentOptions::default()),
        with(|seg| seg.gso_size = 100),
        with(|seg| seg.ecn = crate::Ecn::Ce),
        Segment {
            options: SegmentOptions { timestamps: Some(Timestamps { val: ts.val - 1, ..ts }), ..seg.options },
            ..seg
        },
    ] {
        assert!(!expects(&other), "{other:?}");
    }
    let reply = both.ends[0].on_segment_either_way(&seg, both.now);
    assert_eq!(
        (reply.text, reply.events),
        (Text::Accept { skip: 0, len: 500, at: 0 }, Events::READABLE | Events::WRITABLE)
    );
}

/// Checks for a whole connection, from its first SYN to its last ACK, in each direction, which
/// segments take the fast path.
#[test]
fn opening_and_closing_take_the_fast_path() {
    let mut both = Both::new(Config::default());
    both.ends[0].close(both.now);
    assert_eq!(both.ends[0].next_bare(), Some(Bare::Fin));
    let ends = |both: &Both, from: usize| {
        let out = both.ends[from].clone().poll_segment(both.now, 0).unwrap();
        let seg = Expected::of(&out.as_arriving()).unwrap();
        let ended = both.ends[1 - from].clone().on_end(&seg, both.now).unwrap();
        ended.events
    };
    assert_eq!(ends(&both, 0), Events::PEER_CLOSED | Events::READABLE);
    assert_eq!(both.carry(0), (1, 0));
    assert_eq!((both.ends[1].state(), both.ends[1].next_bare()), (State::CloseWait, Some(Bare::Ack)));
    assert_eq!(ends(&both, 1), Events::NONE);
    both.carry(1);
    assert_eq!(both.ends[0].state(), State::FinWait2);
    both.ends[1].close(both.now);
    assert_eq!(ends(&both, 1), Events::PEER_CLOSED | Events::READABLE | Events::TIME_WAIT);
    both.carry(1);
    assert_eq!(ends(&both, 0), Events::CLOSED);
    both.carry(0);
    assert_eq!((both.ends[0].state(), both.ends[1].state()), (State::TimeWait, State::Closed));
}

/// A FIN with new data, or with other complications, takes the slow path.
#[test]
fn a_fin_with_other_content_takes_the_slow_path() {
    let mut both = Both::new(Config::default());
    both.ends[1].close(both.now);
    let out = both.ends[1].poll_segment(both.now, 0).unwrap();
    let seg = Expected::of(&out.as_arriving()).unwrap();
    let takes = |end: &Tcb, seg: &Expected| end.clone().on_end(seg, both.now).is_some();
    let end = &both.ends[0];
    assert!(takes(end, &seg));
    let old = Timestamps { val: seg.timestamps.val.wrapping_sub(1), ..seg.timestamps };
    for other in [
        Expected { fin: false, ..seg },
        Expected { len: 1, ..seg },
        Expected { seq: seg.seq.plus(1), ..seg },
        Expected { seq: seg.seq.minus(1), ..seg },
        Expected { ack: seg.ack.plus(1), ..seg },
        Expected { ack: seg.ack.minus(1), ..seg },
        Expected { timestamps: old, ..seg },
    ] {
        assert!(!takes(end, &other), "{other:?}");
    }
    let mut writing = end.clone();
    writing.queued(10, true);
    writing.poll_segment(both.now, 0).unwrap();
    assert!(!takes(&writing, &seg), "what is under way is not acknowledged by it");
    assert!(!takes(&Both::new(Config { delay_fin_ack: true, ..Config::default() }).ends[0], &seg));
}

/// A FIN takes the slow path if data is queued, the window is closed, or ECN or pacing is on.
#[test]
fn output_without_data_takes_the_fast_path_only_alone() {
    let mut both = Both::new(Config::default());
    let end = &mut both.ends[0];
    assert_eq!(end.next_bare(), None, "nothing is due");
    end.shutdown_send(both.now);
    assert_eq!(end.next_bare(), Some(Bare::Fin));
    let changes: [fn(&mut Tcb); 4] = [
        |end| end.snd.wnd = 0,
        |end| end.ecn.on = true,
        |end| end.set_pacing(true, None),
        |end| end.snd.end = end.snd.end.plus(1),
    ];
    for change in changes {
        let mut other = end.clone();
        change(&mut other);
        assert_eq!(other.next_bare(), None, "{other:?}");
    }
}

/// The ACK that ends a listener's handshake changes nothing in a new connection but the time.
#[test]
fn both_paths_process_the_ack_of_a_handshake_alike() {
    let (config, now) = (Arc::new(Config::default()), Instant::from_millis(1000));
    let done = crate::tests::handshake();
    let options = SegmentOptions { timestamps: Some(Timestamps { val: 70, ecr: 4 }), ..SegmentOptions::default() };
    let seg =
        Segment { seq: SeqNum(10), ack: SeqNum(6), flags: Flags::ACK, window: 500, options, ..Segment::default() };
    let fresh = Tcb::from_handshake(&config, &done, now);
    let (mut short, mut long) = (fresh.clone(), fresh.clone());
    assert!(short.on_handshake_ack(&seg, now));
    assert_eq!(long.on_segment(&seg, now), crate::Reply::default());
    assert_eq!(format!("{short:?}"), format!("{long:?}"));
    for other in [
        Segment { len: 1, ..seg },
        Segment { flags: Flags::ACK | Flags::PSH, ..seg },
        Segment { flags: Flags::ACK | Flags::FIN, ..seg },
        Segment { seq: SeqNum(11), ..seg },
        Segment { window: 501, ..seg },
        Segment { ecn: crate::Ecn::Ce, ..seg },
        Segment { options: SegmentOptions::default(), ..seg },
    ] {
        let mut tcb = fresh.clone();
        assert!(!tcb.on_handshake_ack(&other, now), "{other:?}");
        assert_eq!(format!("{tcb:?}"), format!("{fresh:?}"));
    }
}
