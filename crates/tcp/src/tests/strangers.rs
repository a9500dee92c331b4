//! Segments from unknown peers in every state: random segments, floods, and their cost.

use super::pair::Chance;
use super::peer::{Talk, plain};
use crate::{Block, Blocks, Config, Ecn, Events, IcmpNotice, Segment, SegmentOptions, SeqNum, State, Tcb, Timestamps};
use clock::{Duration, Instant};
use std::sync::Arc;
use wire::tcp::Flags;

/// Returns a connection in each state, with the state's name.
fn in_every_state() -> Vec<(&'static str, Talk)> {
    let config = || Config { recv_space: 64_240, recv_space_max: 64_240, ..Config::default() };
    let handshake = "< S 0:0(0) win 65535 <mss 1000,sackOK,TS 5 0>
         > S. 0:0(0) ack 1 win 64240 <mss 1460,sackOK,TS 10000 5>
         < . 1:1(0) ack 1 win 65535 <TS 5 10000> = WRITABLE ACCEPTABLE\n";
    let fin = "shut\n> F. 1:1(0) ack 1 win 64240 <TS 10000 5>\n";
    let their_fin = "< F. 1:1(0) ack 1 win 65535 <TS 6 10000> = READABLE PEER_CLOSED\n";
    let scripts = [
        ("closed", "connect\n> S 0:0(0) win 64240 <mss 1460,sackOK,TS 10000 0,wscale 0>\nabort".to_owned()),
        ("syn-sent", "connect\n> S 0:0(0) win 64240 <mss 1460,sackOK,TS 10000 0,wscale 0>\nwrite 5000".to_owned()),
        (
            "syn-received",
            "< S 0:0(0) win 65535 <mss 1000,TS 5 0>\n> S. 0:0(0) ack 1 win 64240 <mss 1460,TS 10000 5>\nwrite 5000"
                .to_owned(),
        ),
        ("established", handshake.to_owned()),
        (
            "established, text under way",
            format!("{handshake}tso 65535\nwrite 30000\n> . 1:9881(9880) ack 1 win 64240 <TS 10000 5>\nwrite 50000"),
        ),
        ("close-wait", format!("{handshake}{their_fin}> . 1:1(0) ack 2 win 64239 <TS 10000 6>")),
        ("fin-wait-1", format!("{handshake}{fin}")),
        ("fin-wait-2", format!("{handshake}{fin}< . 1:1(0) ack 2 win 65535 <TS 6 10000>")),
        ("closing", format!("{handshake}{fin}{their_fin}> . 2:2(0) ack 2 win 64239 <TS 10000 6>")),
        (
            "last-ack",
            format!(
                "{handshake}{their_fin}> . 1:1(0) ack 2 win 64239 <TS 10000 6>\nshut\n> F. 1:1(0) ack 2 win 64239 <TS 10000 6>"
            ),
        ),
        (
            "time-wait",
            format!(
                "{handshake}{fin}< F. 1:1(0) ack 2 win 65535 <TS 6 10000> = READABLE PEER_CLOSED TIME_WAIT\n> . 2:2(0) ack 2 win 64239 <TS 10000 6>"
            ),
        ),
    ];
    scripts
        .into_iter()
        .map(|(name, script)| {
            let mut talk = Talk::new(name, config());
            talk.run(&script);
            (name, talk)
        })
        .collect()
}

/// Returns a segment that is close to what the connection expects, or far from it.
fn random_segment(chance: &mut Chance, tcb: &Tcb) -> Segment {
    let near = |chance: &mut Chance, to: u32| match chance.below(4) {
        0 => SeqNum(to),
        1 => SeqNum(to).plus(chance.below(3000) as u32).minus(1500),
        2 => SeqNum(to).plus(chance.below(140_000) as u32).minus(70_000),
        _ => SeqNum(chance.next() as u32),
    };
    let info_ack = if chance.percent(50) { tcb.snd_nxt() } else { tcb.snd_una() };
    let mut options = SegmentOptions::default();
    if chance.percent(60) {
        let val = if chance.percent(80) { 5 + chance.below(2000) as u32 } else { chance.next() as u32 };
        let ecr = if chance.percent(80) { 10_000 + chance.below(100) as u32 } else { chance.next() as u32 };
        options.timestamps = Some(Timestamps { val, ecr });
    }
    if chance.percent(20) {
        let blocks: Vec<Block> = (0..1 + chance.below(4))
            .map(|_| {
                let left = near(chance, info_ack.0);
                Block {
                    left,
                    right: if chance.percent(80) { left.plus(chance.below(5000) as u32) } else { near(chance, left.0) },
                }
            })
            .collect();
        options.sack = Blocks::new(blocks);
    }
    if chance.percent(5) {
        options.mss = Some(chance.next() as u16);
        options.window_scale = Some(chance.next() as u8);
        options.sack_permitted = chance.percent(50);
    }
    let flags = match chance.below(6) {
        0 => Flags(chance.next() as u8),
        1 => Flags::ACK | Flags(chance.next() as u8),
        2 => Flags::ACK | Flags::FIN,
        3 => Flags::ACK | Flags::URG,
        _ => Flags::ACK,
    };
    let rare_resets = if chance.percent(90) { Flags(flags.0 & !Flags::RST.0) } else { flags };
    Segment {
        seq: near(chance, tcb.rcv_nxt().0),
        ack: near(chance, info_ack.0),
        flags: rare_resets,
        window: chance.next() as u16 >> chance.below(17).min(15),
        urgent: chance.next() as u16,
        len: match chance.below(4) {
            0 => 0,
            1 => chance.below(3) as u32,
            2 => chance.below(1500) as u32,
            _ => chance.below(66_000) as u32,
        },
        gso_size: if chance.percent(10) { chance.next() as u16 } else { 0 },
        options,
        ecn: Ecn::from_bits(chance.next() as u8),
    }
}

fn random_call(chance: &mut Chance, tcb: &mut Tcb, now: &mut Instant) {
    match chance.below(14) {
        0 => tcb.queued(chance.below(10_000) as u32, chance.percent(50)),
        1 => {
            let n = chance.below(u64::from(tcb.unread()) + 1) as u32;
            tcb.consumed(n, *now);
        }
        2 if chance.percent(10) => tcb.shutdown_send(*now),
        3 => *now = now.after(Duration::from_micros(chance.below(300_000))),
        4 => *now = now.after(Duration::from_micros(chance.below(2000))),
        5 if chance.percent(30) => *now = now.after(Duration::from_secs(chance.below(100))),
        6 => tcb.queued_urgent(chance.below(10) as u32),
        7 => {
            let what = [IcmpNotice::TooBig { mss: chance.next() as u16 >> chance.below(8) }, IcmpNotice::Unreachable];
            tcb.on_icmp(what[chance.below(2) as usize], tcb.snd_una(), *now);
        }
        8 => tcb.set_recv_space(chance.below(200_000) as u32, true),
        9 => tcb.set_nodelay(chance.percent(50)),
        10 if chance.percent(10) => drop(tcb.renege()),
        11 if chance.percent(20) => tcb.set_keepalive(chance.percent(80), None, *now),
        12 if chance.percent(20) => tcb.set_pacing(chance.percent(50), Some(chance.below(1 << 30))),
        13 if chance.percent(2) => drop(tcb.close(*now)),
        _ => {}
    }
}

/// Sends random segments and makes random calls; checks the invariants after each.
fn harass(mut tcb: Tcb, mut now: Instant, chance: &mut Chance, steps: usize) {
    for _ in 0..steps {
        if chance.percent(70) {
            let seg = random_segment(chance, &tcb);
            let (una, queue) = (tcb.snd_una(), tcb.send_queue());
            let reply = tcb.on_segment_either_way(&seg, now);
            assert!(reply.acked <= queue, "no more is released than was queued: {seg:?} {una}");
            if let crate::Text::Accept { skip, len, .. } = reply.text {
                assert!(len > 0 && skip.checked_add(len).is_some_and(|end| end <= seg.len));
            }
        } else {
            random_call(chance, &mut tcb, &mut now);
        }
        tcb.check_invariants();
        if tcb.next_timer() <= now {
            tcb.on_timer(now);
            tcb.check_invariants();
        }
        for round in 0..=300 {
            let Some(out) = tcb.poll_segment_either_way(now, if chance.percent(50) { 0 } else { 65_535 }) else {
                break;
            };
            assert!(round < 300, "endless output {out:?} {tcb:#?}");
            if chance.percent(2) {
                tcb.on_not_sent(&out, now);
                tcb.check_invariants();
                break;
            }
        }
        tcb.check_invariants();
    }
}

#[test]
fn random_segments_in_every_state_break_no_invariant() {
    for seed in 0..150 {
        for (at, (_, talk)) in in_every_state().into_iter().enumerate() {
            let mut chance = Chance(seed * 100 + at as u64);
            harass(talk.tcb, talk.now, &mut chance, 150);
        }
    }
}

#[test]
fn every_flag_byte_in_every_state_is_handled_and_resets_do_not_answer_resets() {
    for flags in 0..=255u8 {
        for (name, mut talk) in in_every_state() {
            let nxt = talk.tcb.rcv_nxt();
            let seg =
                Segment { flags: Flags(flags), seq: nxt, ack: talk.tcb.snd_nxt(), window: 100, ..Segment::default() };
            let reply = talk.tcb.on_segment_either_way(&seg, talk.now);
            talk.tcb.check_invariants();
            if seg.has(Flags::RST) && !seg.has(Flags::SYN) {
                let answered = reply.answer.is_some_and(|out| out.flags.contains(Flags::RST));
                assert!(!answered, "{name}: RST answered by RST");
            }
            if seg.has(Flags::SYN)
                && talk.tcb.state() >= State::Established
                && name != "syn-sent"
                && name != "syn-received"
            {
                assert!(!reply.events.contains(Events::CLOSED), "{name}: a SYN ends nothing");
            }
        }
    }
}

/// Returns a connection in ESTABLISHED with `segments` in flight.
fn sender(segments: u32) -> (Tcb, Instant) {
    let config = Arc::new(Config { timestamps: false, ..Config::default() });
    let now = Instant::from_millis(1000);
    let done = crate::Handshake {
        mss: 1000,
        snd_wscale: Some(14),
        ts: None,
        window: u16::MAX,
        rtt: Some(Duration::from_millis(10)),
        ..super::handshake()
    };
    let mut tcb = Tcb::from_handshake(&config, &done, now);
    tcb.snd.wnd = 1 << 30;
    crate::cc::Congestion::set_cwnd(&mut tcb.cc, 1 << 30);
    tcb.queued(segments * 1000, true);
    let mut sent = 0;
    while let Some(out) = tcb.poll_segment(now, 65_535) {
        sent += out.text_len;
    }
    assert_eq!(sent, segments * 1000);
    (tcb, now)
}

fn ack(tcb: &Tcb, blocks: impl IntoIterator<Item = (u32, u32)>) -> Segment {
    let block = |(left, right)| Block { left: SeqNum(left), right: SeqNum(right) };
    let options = SegmentOptions { sack: Blocks::new(blocks.into_iter().map(block)), ..SegmentOptions::default() };
    Segment { flags: Flags::ACK, seq: tcb.rcv_nxt(), ack: tcb.snd_una(), window: 40_000, options, ..Segment::default() }
}

#[test]
fn alternating_sack_of_ten_thousand_segments_stays_cheap() {
    // CVE-2019-11478. Work is measured by time here, with a large margin: an ACK takes 10 us in a
    // release build (see the example `cost`).
    let (mut tcb, now) = sender(10_000);
    let begun = std::time::Instant::now();
    let mut acks = 0;
    for i in 0..5000u32 {
        let block = |n: u32| (6 + n * 2000 + 1000, 6 + n * 2000 + 2000);
        let seg = ack(&tcb, [block(i), block(i.saturating_sub(1)), block(i / 2), block(i / 3)]);
        tcb.on_segment(&seg, now.after(Duration::from_micros(u64::from(i))));
        acks += 1;
    }
    let each = begun.elapsed() / acks;
    assert!(each < Duration::from_micros(100), "{each:?} an ACK");
    assert_eq!(tcb.info(now).sacked, 5000);
    tcb.check_invariants();
    // The same blocks again, as one block with a moving edge: what is already SACKed is skipped.
    let begun = std::time::Instant::now();
    for i in 0..5000u32 {
        let seg = ack(&tcb, [(6 + i * 2000, 6 + 10_000_000)]);
        tcb.on_segment(&seg, now.after(Duration::from_millis(10)));
    }
    assert!(begun.elapsed() / 5000 < Duration::from_micros(100));
    tcb.check_invariants();
}

#[test]
fn more_than_65536_segments_in_flight_overflow_nothing() {
    // CVE-2019-11477.
    let config = Arc::new(Config { timestamps: false, sent_records: 1 << 20, ..Config::default() });
    let (mut tcb, now) = sender(1);
    tcb.config = config;
    tcb.set_nodelay(true);
    for _ in 0..70_000 {
        tcb.queued(1, true);
        assert!(tcb.poll_segment(now, 0).is_some());
    }
    let end = tcb.snd_nxt().0;
    let seg = ack(&tcb, [(1100, end)]);
    tcb.on_segment(&seg, now.after(Duration::from_millis(5)));
    tcb.check_invariants();
    assert!(tcb.info(now).sacked > 65_536);
    let all = Segment { ack: tcb.snd_nxt(), ..ack(&tcb, []) };
    assert_eq!(tcb.on_segment(&all, now.after(Duration::from_millis(6))).acked, 71_000);
}

#[test]
fn records_have_a_limit() {
    let (mut tcb, now) = sender(1);
    tcb.set_nodelay(true);
    tcb.config = Arc::new(Config { sent_records: 500, ..Config::default() });
    for _ in 0..10_000 {
        tcb.queued(1, true);
        while tcb.poll_segment(now, 0).is_some() {}
    }
    assert!(tcb.board.len() <= 500, "{}", tcb.board.len());
}

#[test]
fn a_window_of_crumbs_out_of_order_stays_cheap_and_bounded() {
    // CVE-2018-5390.
    let config = Config { recv_space: 64_240, recv_space_max: 64_240, ..plain() };
    let mut talk = super::peer::established("crumbs", config);
    let nxt = talk.tcb.rcv_nxt();
    let begun = std::time::Instant::now();
    let mut kept = 0u32;
    for i in 0..32_000u32 {
        let at = nxt.plus(64_000 - i * 2);
        let seg =
            Segment { flags: Flags::ACK, seq: at, ack: talk.tcb.snd_nxt(), window: 1000, len: 1, ..Segment::default() };
        kept += u32::from(talk.tcb.on_segment(&seg, talk.now).dropped.is_none());
        talk.tcb.poll_segment(talk.now, 0);
    }
    let each = begun.elapsed() / 32_000;
    assert!(each < Duration::from_micros(20), "{each:?} each; 2 us is for a release build");
    assert_eq!(kept, 1024);
    talk.tcb.check_invariants();
}

#[test]
fn an_idle_connection_is_small() {
    let size = std::mem::size_of::<Tcb>();
    assert!(size <= 900, "{size} bytes");
    let (mut tcb, now) = sender(1);
    let all = Segment { ack: tcb.snd_nxt(), ..ack(&tcb, []) };
    tcb.on_segment(&all, now.after(Duration::from_millis(5)));
    assert_eq!(tcb.next_timer(), Instant::NEVER, "an idle connection has no timers");
}

#[test]
fn two_ends_that_disagree_do_not_exchange_acks_forever() {
    // Each end finds the other's ACKs unacceptable. Without a rate limit, they would exchange ACKs
    // forever.
    let mut a = super::peer::established("a", plain());
    let mut b = super::peer::established("b", plain());
    let mut segment = Segment { flags: Flags::ACK, seq: SeqNum(77), ack: SeqNum(99), window: 5, ..Segment::default() };
    let mut passed = 0;
    for _ in 0..1000 {
        let (to, _) = if passed % 2 == 0 { (&mut a, 0) } else { (&mut b, 1) };
        let reply = to.tcb.on_segment(&segment, to.now);
        let Some(out) = reply.answer.or_else(|| to.tcb.poll_segment(to.now, 0)) else { break };
        segment = Segment { seq: out.seq.plus(1 << 30), ack: out.ack.plus(1 << 30), ..out.as_arriving() };
        passed += 1;
    }
    assert!(passed <= 4, "{passed} ACKs");
}
