//! The rows `tcb.*`: the cost of a segment in one end of a TCP connection, without a host.

use crate::side::Side;
use crate::study::Entry;
use crate::subject::{Reading, from_fn, measure};
use clock::{Duration, Instant};
use std::hint::black_box;
use std::sync::Arc;
use tcp::{Block, Blocks, Config, Handshake, Segment, SegmentOptions, SeqNum, Tcb, Timestamps, TsState};
use wire::tcp::Flags;

/// Function that runs a trial with a new connection.
type Trial = fn() -> Reading;

/// Number of segments of a trial.
const SEGMENTS: u32 = 5000;
const MSS: u32 = 1448;

/// Returns the rows `tcb.*`.
pub(super) fn entries() -> Vec<Entry> {
    let rows: [(&str, Trial, &str); 5] = [
        ("tcb.receive", receive, "a segment received in order and read, an ACK sent for every second one"),
        ("tcb.send", send, "a segment sent and its ACK received"),
        ("tcb.ack", pure_ack, "an ACK of one segment received"),
        ("tcb.out_of_order", out_of_order, "a segment of one byte received out of order, an ACK with SACK sent"),
        ("tcb.sack", sack, "an ACK with SACK received, 10,000 segments in flight, every second one lost"),
    ];
    let entry = |(id, trial, title): (&'static str, Trial, _)| {
        Entry::new(Side::new(id, move || Ok(from_fn(id, move || Ok(trial())))), title)
    };
    rows.map(entry).into()
}

fn established() -> Tcb {
    let config = Arc::new(Config::default());
    let done = Handshake {
        iss: SeqNum(5),
        irs: SeqNum(9),
        mss: 1460,
        snd_wscale: Some(14),
        rcv_wscale: 7,
        sack: true,
        ts: Some(TsState { recent: 1, offset: 0 }),
        window: u16::MAX,
        ecn: false,
        rtt: Some(Duration::from_millis(10)),
    };
    let mut tcb = Tcb::from_handshake(&config, &done, START);
    tcb.set_recv_space(4 << 20, true);
    tcb.set_nodelay(true);
    tcb
}

const START: Instant = Instant::from_millis(1000);

/// Returns the segment that the connection expects next, with `len` bytes.
fn segment(tcb: &Tcb, len: u32) -> Segment {
    let options = SegmentOptions { timestamps: Some(Timestamps { val: 2, ecr: 0 }), ..SegmentOptions::default() };
    let (seq, ack) = (tcb.rcv_nxt(), tcb.snd_una());
    Segment { seq, ack, flags: Flags::ACK, window: u16::MAX, len, options, ..Segment::default() }
}

/// Removes and discards all segments that the connection can send at `now`.
fn output(tcb: &mut Tcb, now: Instant) {
    while let Some(out) = tcb.poll_segment(now, 0) {
        black_box(&out);
    }
}

fn receive() -> Reading {
    let (mut now, mut tcb) = (START, established());
    measure(u64::from(SEGMENTS), || {
        for _ in 0..SEGMENTS {
            now = now.after(Duration::from_micros(1));
            let reply = tcb.on_segment(black_box(&segment(&tcb, MSS)), now);
            black_box(tcb.consumed(reply.in_order, now));
            output(&mut tcb, now);
        }
    })
}

fn send() -> Reading {
    let (mut now, mut tcb) = (START, established());
    measure(u64::from(SEGMENTS), || {
        for _ in 0..SEGMENTS {
            now = now.after(Duration::from_micros(1));
            tcb.queued(MSS, true);
            output(&mut tcb, now);
            let ack = Segment { ack: tcb.snd_nxt(), ..segment(&tcb, 0) };
            black_box(tcb.on_segment(black_box(&ack), now));
            output(&mut tcb, now);
        }
    })
}

/// Sends flights of ten segments, and measures only the processing of their ACKs.
fn pure_ack() -> Reading {
    const FLIGHT: u32 = 10;
    let (mut now, mut tcb) = (START, established());
    let mut sum = Reading { ops: 0, ticks: 0, wall_ns: 0, cpu_ns: 0 };
    for _ in 0..SEGMENTS / FLIGHT {
        now = now.after(Duration::from_micros(1));
        tcb.queued(FLIGHT * MSS, true);
        output(&mut tcb, now);
        let una = tcb.snd_una();
        let flight = measure(u64::from(FLIGHT), || {
            for at in 1..=FLIGHT {
                let ack = Segment { ack: una.plus(MSS * at), ..segment(&tcb, 0) };
                black_box(tcb.on_segment(black_box(&ack), now));
                output(&mut tcb, now);
            }
        });
        sum.ops += flight.ops;
        sum.ticks += flight.ticks;
        sum.wall_ns += flight.wall_ns;
        sum.cpu_ns += flight.cpu_ns;
    }
    sum
}

fn out_of_order() -> Reading {
    let mut tcb = established();
    let first = segment(&tcb, 1);
    measure(u64::from(SEGMENTS), || {
        for at in 0..SEGMENTS {
            let segment = Segment { seq: first.seq.plus(2 * (SEGMENTS - at)), ..first };
            black_box(tcb.on_segment(black_box(&segment), START));
            output(&mut tcb, START);
        }
    })
}

/// Grows the congestion window to 10,000 segments and sends that many. Then measures the processing
/// of ACKs whose SACK blocks cover every second segment.
fn sack() -> Reading {
    const FLIGHT: u32 = 2 * SEGMENTS;
    let (mut now, mut tcb) = (START, established());
    tcb.queued(FLIGHT * MSS, true);
    while tcb.info(now).snd_cwnd < FLIGHT {
        tcb.queued(2 * MSS, true);
        output(&mut tcb, now);
        now = now.after(Duration::from_millis(1));
        let ack =
            Segment { ack: tcb.snd_una().plus((2 * MSS).min(tcb.snd_nxt().since(tcb.snd_una()))), ..segment(&tcb, 0) };
        tcb.on_segment(&ack, now);
    }
    let all = Segment { ack: tcb.snd_nxt(), ..segment(&tcb, 0) };
    tcb.on_segment(&all, now);
    tcb.queued(FLIGHT * MSS, true);
    while tcb.poll_segment(now, 65_535).is_some() {}
    let una = tcb.snd_una();
    now = now.after(Duration::from_millis(1));
    measure(u64::from(SEGMENTS), || {
        for at in 0..SEGMENTS {
            let block = |n: u32| Block { left: una.plus((2 * n + 1) * MSS), right: una.plus((2 * n + 2) * MSS) };
            let mut ack = segment(&tcb, 0);
            ack.options.sack = Blocks::new([block(at), block(at.saturating_sub(1)), block(at.saturating_sub(2))]);
            black_box(tcb.on_segment(black_box(&ack), now));
            output(&mut tcb, now);
        }
    })
}
