//! What a segment costs the core: `cargo run --release -p linerate-tcp --example cost`.
//!
//! Nanoseconds for one segment in and what it makes leave, each the least of some rounds; no claim beyond this machine.

use clock::{Duration, Instant};
use linerate_tcp::{Block, Blocks, Config, Handshake, Segment, SegmentOptions, SeqNum, Tcb, Timestamps, TsState};
use std::hint::black_box;
use std::sync::Arc;
use wire::tcp::Flags;

const ROUNDS: usize = 20;
const EACH: u32 = 20_000;

fn established(sack: bool, now: Instant) -> Tcb {
    let config = Arc::new(Config::default());
    let done = Handshake {
        iss: SeqNum(5),
        irs: SeqNum(9),
        mss: 1460,
        snd_wscale: Some(14),
        rcv_wscale: 7,
        sack,
        ts: Some(TsState { recent: 1, offset: 0 }),
        window: u16::MAX,
        ecn: false,
        rtt: Some(Duration::from_millis(10)),
    };
    let mut tcb = Tcb::from_handshake(&config, &done, now);
    tcb.set_recv_space(4 << 20, true);
    tcb.set_nodelay(true);
    tcb
}

fn options(val: u32) -> SegmentOptions {
    SegmentOptions { timestamps: Some(Timestamps { val, ecr: 0 }), ..SegmentOptions::default() }
}

fn segment(tcb: &Tcb, len: u32) -> Segment {
    let (seq, ack) = (tcb.rcv_nxt(), tcb.snd_una());
    Segment { seq, ack, flags: Flags::ACK, window: u16::MAX, len, options: options(2), ..Segment::default() }
}

fn least(name: &str, mut round: impl FnMut() -> (u32, std::time::Duration)) {
    let least =
        (0..ROUNDS).map(|_| round()).map(|(n, took)| took.as_nanos() as f64 / f64::from(n)).fold(f64::MAX, f64::min);
    println!("{name:60} {least:8.1} ns");
}

fn receive() -> (u32, std::time::Duration) {
    let mut now = Instant::from_millis(1000);
    let mut tcb = established(true, now);
    let begun = std::time::Instant::now();
    for _ in 0..EACH {
        now = now.after(Duration::from_micros(1));
        let reply = tcb.on_segment(black_box(&segment(&tcb, 1448)), now);
        black_box(tcb.consumed(reply.in_order, now));
        while let Some(out) = tcb.poll_segment(now, 0) {
            black_box(&out);
        }
    }
    (EACH, begun.elapsed())
}

fn send() -> (u32, std::time::Duration) {
    let mut now = Instant::from_millis(1000);
    let mut tcb = established(true, now);
    let begun = std::time::Instant::now();
    for _ in 0..EACH {
        now = now.after(Duration::from_micros(1));
        tcb.queued(1448, true);
        while let Some(out) = tcb.poll_segment(now, 0) {
            black_box(&out);
        }
        let ack = Segment { ack: tcb.snd_nxt(), ..segment(&tcb, 0) };
        black_box(tcb.on_segment(black_box(&ack), now));
        black_box(tcb.poll_segment(now, 0).is_none());
    }
    (EACH, begun.elapsed())
}

fn pure_ack() -> (u32, std::time::Duration) {
    let mut now = Instant::from_millis(1000);
    let mut tcb = established(true, now);
    let mut spent = std::time::Duration::ZERO;
    for _ in 0..EACH / 10 {
        now = now.after(Duration::from_micros(1));
        tcb.queued(14_480, true);
        while let Some(out) = tcb.poll_segment(now, 0) {
            black_box(&out);
        }
        let una = tcb.snd_una();
        let begun = std::time::Instant::now();
        for i in 1..=10 {
            let ack = Segment { ack: una.plus(1448 * i), ..segment(&tcb, 0) };
            black_box(tcb.on_segment(black_box(&ack), now));
            black_box(tcb.poll_segment(now, 0).is_none());
        }
        spent += begun.elapsed();
    }
    (EACH, spent)
}

fn crumbs() -> (u32, std::time::Duration) {
    let now = Instant::from_millis(1000);
    let mut tcb = established(true, now);
    let first = segment(&tcb, 1);
    let begun = std::time::Instant::now();
    for i in 0..EACH {
        let seg = Segment { seq: first.seq.plus(2 * (EACH - i)), ..first };
        black_box(tcb.on_segment(black_box(&seg), now));
        while let Some(out) = tcb.poll_segment(now, 0) {
            black_box(&out);
        }
    }
    (EACH, begun.elapsed())
}

fn alternating() -> (u32, std::time::Duration) {
    let now = Instant::from_millis(1000);
    let mut tcb = established(true, now);
    // A window of 10,000 segments is grown honestly, two segments an ACK.
    let mut at = now;
    while tcb.info(at).snd_cwnd < 10_000 {
        tcb.queued(20_000 * 1448u32.saturating_sub(0).min(100), true);
        while tcb.poll_segment(at, 65_535).is_some() {}
        at = at.after(Duration::from_millis(1));
        let ack = Segment { ack: tcb.snd_una().plus(2896.min(tcb.snd_nxt().since(tcb.snd_una()))), ..segment(&tcb, 0) };
        tcb.on_segment(&ack, at);
    }
    let all = Segment { ack: tcb.snd_nxt(), ..segment(&tcb, 0) };
    tcb.on_segment(&all, at);
    tcb.queued(10_000 * 1448, true);
    while tcb.poll_segment(at, 65_535).is_some() {}
    let una = tcb.snd_una();
    at = at.after(Duration::from_millis(1));
    let begun = std::time::Instant::now();
    for i in 0..5000u32 {
        let block = |n: u32| Block { left: una.plus((2 * n + 1) * 1448), right: una.plus((2 * n + 2) * 1448) };
        let mut seg = segment(&tcb, 0);
        seg.options.sack = Blocks::new([block(i), block(i.saturating_sub(1)), block(i.saturating_sub(2))]);
        black_box(tcb.on_segment(black_box(&seg), at));
        while let Some(out) = tcb.poll_segment(at, 0) {
            black_box(&out);
        }
    }
    (5000, begun.elapsed())
}

fn main() {
    println!("a Tcb is {} bytes", std::mem::size_of::<Tcb>());
    least("text in order, reader takes it, ACK every second", receive);
    least("text queued and sent, ACK in", send);
    least("pure ACK of one segment", pure_ack);
    least("one byte out of order, ACK with SACK out", crumbs);
    least("ACK with SACK, 10,000 segments, every second one", alternating);
}
