//! Packet exchanges through a translator, in virtual time.

use super::*;
use crate::rewrite::tests::frame4;
use clock::SimClock;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use wire::Proto;

const HOST: [u8; 4] = [10, 0, 0, 5];
const OTHER: [u8; 4] = [10, 0, 0, 6];
const OUTSIDE: [u8; 4] = [192, 0, 2, 1];
const SERVER: [u8; 4] = [198, 51, 100, 7];

fn nat(change: impl FnOnce(&mut Config)) -> Nat {
    let mut config = Config::new("10.0.0.0/8=192.0.2.1".parse().unwrap());
    change(&mut config);
    Nat::new(config)
}

/// An address and port.
type End = ([u8; 4], u16);

fn ip(proto: Proto, src: [u8; 4], dst: [u8; 4], payload: &[u8]) -> Vec<u8> {
    frame4(proto, payload, |header| (header.src, header.dst) = (src.into(), dst.into()))
}

fn udp(src: End, dst: End) -> Vec<u8> {
    let mut datagram = vec![0, 0, 0, 0, 0, 12, 0, 0, 1, 2, 3, 4];
    datagram[..2].copy_from_slice(&src.1.to_be_bytes());
    datagram[2..4].copy_from_slice(&dst.1.to_be_bytes());
    ip(Proto::UDP, src.0, dst.0, &datagram)
}

fn tcp(src: End, dst: End, flags: Flags) -> Vec<u8> {
    let mut segment = vec![0; 20];
    let (sport, dport) = (L4Port(src.1), L4Port(dst.1));
    let header = tcp::Header {
        src: sport,
        dst: dport,
        seq: 1,
        ack: 2,
        header_len: 20,
        flags,
        window: 9,
        checksum: 0,
        urgent: 0,
    };
    header.emit(segment.first_chunk_mut().unwrap());
    ip(Proto::TCP, src.0, dst.0, &segment)
}

fn echo(ty: u8, src: [u8; 4], dst: [u8; 4], id: u16) -> Vec<u8> {
    let [i0, i1] = id.to_be_bytes();
    ip(Proto::ICMP, src, dst, &[ty, 0, 0, 0, i0, i1, 0, 1, 7, 7, 7])
}

/// An ICMP port unreachable from `src` that quotes the first `quoted` bytes of the packet in
/// `frame`.
fn error(src: [u8; 4], dst: [u8; 4], frame: &[u8], quoted: usize) -> Vec<u8> {
    let packet = &frame[14..];
    ip(Proto::ICMP, src, dst, &[&[3, 3, 0, 0, 0, 0, 0, 0], &packet[..quoted.min(packet.len())]].concat())
}

/// Translates a frame and compares the result with `expected`, checksums included.
#[track_caller]
fn goes(nat: &mut Nat, mut frame: Vec<u8>, fate: Fate, expected: &[u8]) {
    assert_eq!(nat.translate(&mut frame), fate);
    assert_eq!(frame, expected);
}

#[track_caller]
fn dropped(nat: &mut Nat, mut frame: Vec<u8>, why: Drop) {
    assert_eq!(nat.translate(&mut frame), Fate::Dropped(why));
}

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn udp_is_translated_both_ways_until_timeout() {
    let mut nat = nat(|_| {});
    goes(&mut nat, udp((HOST, 1000), (SERVER, 53)), Fate::Out, &udp((OUTSIDE, 1000), (SERVER, 53)));
    nat.advance(at(299));
    goes(&mut nat, udp((SERVER, 53), (OUTSIDE, 1000)), Fate::In, &udp((SERVER, 53), (HOST, 1000)));
    nat.advance(at(598));
    assert_eq!(nat.sessions(), 1, "an answer keeps the session");
    // Another port of the server, another server, another protocol: all unsolicited.
    dropped(&mut nat, udp((SERVER, 54), (OUTSIDE, 1000)), Drop::Unsolicited);
    dropped(&mut nat, udp(([8; 4], 53), (OUTSIDE, 1000)), Drop::Unsolicited);
    dropped(&mut nat, tcp((SERVER, 53), (OUTSIDE, 1000), Flags::ACK), Drop::Unsolicited);
    nat.advance(at(599));
    dropped(&mut nat, udp((SERVER, 53), (OUTSIDE, 1000)), Drop::Unsolicited);
    let counts = nat.counts();
    assert_eq!((counts.out, counts.inward, counts.expired, counts.dropped_for(Drop::Unsolicited)), (1, 1, 1, 4));
}

#[test]
fn a_port_is_shared_only_for_different_remote_ends() {
    let mut nat = nat(|_| {});
    goes(&mut nat, udp((HOST, 5000), (SERVER, 53)), Fate::Out, &udp((OUTSIDE, 5000), (SERVER, 53)));
    goes(&mut nat, udp((OTHER, 5000), (SERVER, 54)), Fate::Out, &udp((OUTSIDE, 5000), (SERVER, 54)));
    let mut frame = udp((OTHER, 5000), (SERVER, 53));
    assert_eq!(nat.translate(&mut frame), Fate::Out);
    let (port, _) = Layout::of(&frame).ports(&frame).unwrap();
    assert!(port.0 != 5000 && port.0 >= 1024);
    assert_eq!(frame, udp((OUTSIDE, port.0), (SERVER, 53)));
    goes(&mut nat, udp((SERVER, 53), (OUTSIDE, port.0)), Fate::In, &udp((SERVER, 53), (OTHER, 5000)));
    goes(&mut nat, udp((SERVER, 53), (OUTSIDE, 5000)), Fate::In, &udp((SERVER, 53), (HOST, 5000)));
    goes(&mut nat, udp((SERVER, 54), (OUTSIDE, 5000)), Fate::In, &udp((SERVER, 54), (OTHER, 5000)));
}

#[test]
fn open_connections_have_the_long_timeout() {
    let (host, server, outside) = ((HOST, 1000), (SERVER, 80), (OUTSIDE, 1000));
    let open = || {
        let mut nat = nat(|_| {});
        goes(&mut nat, tcp(host, server, Flags::SYN), Fate::Out, &tcp(outside, server, Flags::SYN));
        nat
    };
    let mut half = open();
    half.advance(at(240));
    assert_eq!((half.sessions(), half.counts().expired), (0, 1));

    let mut nat = open();
    let both = Flags::SYN | Flags::ACK;
    goes(&mut nat, tcp(server, outside, both), Fate::In, &tcp(server, host, both));
    nat.advance(at(7439));
    assert_eq!(nat.sessions(), 1);
    nat.advance(at(7440));
    assert_eq!(nat.sessions(), 0);

    for close in [&[(true, Flags::FIN), (false, Flags::FIN)][..], &[(false, Flags::RST)], &[(true, Flags::RST)]] {
        let mut nat = open();
        goes(&mut nat, tcp(server, outside, both), Fate::In, &tcp(server, host, both));
        for (out, flags) in close {
            match out {
                true => goes(&mut nat, tcp(host, server, *flags), Fate::Out, &tcp(outside, server, *flags)),
                false => goes(&mut nat, tcp(server, outside, *flags), Fate::In, &tcp(server, host, *flags)),
            }
        }
        nat.advance(at(239));
        assert_eq!(nat.sessions(), 1, "{close:?}");
        nat.advance(at(240));
        assert_eq!(nat.sessions(), 0, "{close:?}");
    }

    // The ports are reused before the session has expired.
    let mut nat = open();
    goes(&mut nat, tcp(server, outside, Flags::RST), Fate::In, &tcp(server, host, Flags::RST));
    goes(&mut nat, tcp(host, server, Flags::SYN), Fate::Out, &tcp(outside, server, Flags::SYN));
    goes(&mut nat, tcp(server, outside, both), Fate::In, &tcp(server, host, both));
    nat.advance(at(300));
    assert_eq!(nat.sessions(), 1);

    dropped(&mut nat, tcp((OTHER, 9), server, Flags::RST), Drop::Unsolicited);
    assert_eq!(nat.sessions(), 1, "a reset opens nothing");
}

#[test]
fn echoes_are_translated_by_identifier() {
    let mut nat = nat(|_| {});
    goes(&mut nat, echo(8, HOST, SERVER, 77), Fate::Out, &echo(8, OUTSIDE, SERVER, 77));
    let mut frame = echo(8, OTHER, SERVER, 77);
    assert_eq!(nat.translate(&mut frame), Fate::Out);
    let id = u16::from_be_bytes([frame[38], frame[39]]);
    assert!(id != 77);
    assert_eq!(frame, echo(8, OUTSIDE, SERVER, id));
    goes(&mut nat, echo(0, SERVER, OUTSIDE, id), Fate::In, &echo(0, SERVER, OTHER, 77));
    goes(&mut nat, echo(0, SERVER, OUTSIDE, 77), Fate::In, &echo(0, SERVER, HOST, 77));
    dropped(&mut nat, echo(8, SERVER, OUTSIDE, 77), Drop::Unsolicited);
    dropped(&mut nat, echo(0, HOST, SERVER, 77), Drop::Unsolicited);
    dropped(&mut nat, echo(13, HOST, SERVER, 77), Drop::Unsupported);
    nat.advance(at(60));
    assert_eq!(nat.sessions(), 0);
}

#[test]
fn errors_are_translated_with_the_packet_they_quote() {
    let router = [203, 0, 113, 9];
    for quoted in [28, 100] {
        let mut nat = nat(|config| config.ports = 30_000..=30_000);
        let sent = udp((HOST, 1000), (SERVER, 53));
        let seen = udp((OUTSIDE, 30_000), (SERVER, 53));
        goes(&mut nat, sent.clone(), Fate::Out, &seen);
        goes(&mut nat, error(router, OUTSIDE, &seen, quoted), Fate::In, &error(router, HOST, &sent, quoted));
        // From inside, quoting a packet from outside.
        let answer = udp((SERVER, 53), (OUTSIDE, 30_000));
        let answered = udp((SERVER, 53), (HOST, 1000));
        goes(&mut nat, answer.clone(), Fate::In, &answered);
        goes(&mut nat, error(HOST, SERVER, &answered, quoted), Fate::Out, &error(OUTSIDE, SERVER, &answer, quoted));

        let sent = tcp((HOST, 1000), (SERVER, 80), Flags::SYN);
        let seen = tcp((OUTSIDE, 30_000), (SERVER, 80), Flags::SYN);
        goes(&mut nat, sent.clone(), Fate::Out, &seen);
        let (came, mut expected) = (error(router, OUTSIDE, &seen, quoted), error(router, HOST, &sent, quoted));
        goes(&mut nat, came, Fate::In, &expected);
        expected = echo(8, HOST, SERVER, 7);
        let seen = echo(8, OUTSIDE, SERVER, 30_000);
        goes(&mut nat, expected.clone(), Fate::Out, &seen);
        goes(&mut nat, error(router, OUTSIDE, &seen, quoted), Fate::In, &error(router, HOST, &expected, quoted));

        // Quotes of packets that were never sent.
        dropped(&mut nat, error(router, OUTSIDE, &udp((OUTSIDE, 30_000), (SERVER, 54)), quoted), Drop::Unsolicited);
        dropped(&mut nat, error(router, OUTSIDE, &sent, quoted), Drop::Unsolicited);
        dropped(&mut nat, error(HOST, SERVER, &udp((SERVER, 1), (HOST, 2)), quoted), Drop::Unsolicited);
        dropped(&mut nat, error(router, OUTSIDE, &seen, 10), Drop::Malformed);
    }
}

#[test]
fn icmp_errors_do_not_extend_a_session() {
    let mut nat = nat(|_| {});
    let frame = udp((HOST, 1000), (SERVER, 53));
    let seen = udp((OUTSIDE, 1000), (SERVER, 53));
    goes(&mut nat, frame.clone(), Fate::Out, &seen);
    nat.advance(at(200));
    goes(&mut nat, error(SERVER, OUTSIDE, &seen, 28), Fate::In, &error(SERVER, HOST, &frame, 28));
    nat.advance(at(300));
    assert_eq!(nat.sessions(), 0);
}

#[test]
fn fragments_use_the_session_of_the_first() {
    let whole = udp((HOST, 1000), (SERVER, 53));
    let part = |src: [u8; 4], dst: [u8; 4], bytes: &[u8], off: u16, id: u16| {
        frame4(Proto::UDP, bytes, |header| {
            (header.src, header.dst, header.id) = (src.into(), dst.into(), id);
            (header.mf, header.frag_off, header.df) = (off == 0, off, false);
        })
    };
    let mut nat = nat(|_| {});
    let seen = &udp((OUTSIDE, 1000), (SERVER, 53))[34..];
    assert_eq!(nat.translate(&mut part(HOST, SERVER, &[1; 9], 16, 4)), Fate::Early);
    goes(&mut nat, part(HOST, SERVER, &whole[34..], 0, 4), Fate::Out, &part(OUTSIDE, SERVER, seen, 0, 4));
    goes(&mut nat, part(HOST, SERVER, &[1; 9], 16, 4), Fate::Out, &part(OUTSIDE, SERVER, &[1; 9], 16, 4));
    assert_eq!(nat.translate(&mut part(HOST, SERVER, &[1; 9], 16, 5)), Fate::Early);
    let (back, given) = (udp((SERVER, 53), (OUTSIDE, 1000)), udp((SERVER, 53), (HOST, 1000)));
    goes(&mut nat, part(SERVER, OUTSIDE, &back[34..], 0, 9), Fate::In, &part(SERVER, HOST, &given[34..], 0, 9));
    goes(&mut nat, part(SERVER, OUTSIDE, &[2; 8], 16, 9), Fate::In, &part(SERVER, HOST, &[2; 8], 16, 9));
    nat.advance(at(30));
    assert_eq!(nat.translate(&mut part(SERVER, OUTSIDE, &[2; 8], 24, 9)), Fate::Early);
    for id in 0..10_000 {
        assert_eq!(nat.translate(&mut part(HOST, SERVER, &whole[34..], 0, id)), Fate::Out);
    }
    assert!(nat.fragments.known.len() <= MAX_DATAGRAMS && nat.fragments.order.len() <= MAX_DATAGRAMS);
}

/// Fragments are translated in any order of arrival. Those without a first fragment are dropped in
/// the end (RFC 4787 REQ-14).
#[test]
fn early_fragments_wait_for_the_first() {
    let whole = udp((HOST, 1000), (SERVER, 53));
    let part = |src: [u8; 4], bytes: &[u8], off: u16, id: u16| {
        frame4(Proto::UDP, bytes, |header| {
            (header.src, header.dst, header.id) = (src.into(), SERVER.into(), id);
            (header.mf, header.frag_off, header.df) = (off == 0, off, false);
        })
    };
    let clock = SimClock::new();
    let mut stage = NatStage::new(Config::new("10.0.0.0/8=192.0.2.1".parse().unwrap()), Clock::sim(&clock));
    let mut run = |frames: &[Vec<u8>]| {
        let mut batch = Frames::new();
        frames.iter().for_each(|frame| assert!(batch.push(frame, Time::Wall(7))));
        stage.run(&mut batch).unwrap();
        let out: Vec<Vec<u8>> = batch.iter().map(|(bytes, _)| bytes.to_vec()).collect();
        (out, stage.report().unwrap())
    };
    let late = part(HOST, &[1; 8], 24, 4);
    let (out, _) = run(&[late, part(HOST, &[2; 8], 16, 4), part(HOST, &[9; 8], 16, 5)]);
    assert!(out.is_empty());
    let (out, said) = run(&[part(HOST, &whole[34..], 0, 4)]);
    let seen = &udp((OUTSIDE, 1000), (SERVER, 53))[34..];
    let expected = [part(OUTSIDE, seen, 0, 4), part(OUTSIDE, &[1; 8], 24, 4), part(OUTSIDE, &[2; 8], 16, 4)];
    assert_eq!(out, expected);
    assert!(said.contains("3 frames: 3 out"), "{said}");
    clock.advance(FRAGMENT_TIMEOUT);
    let (out, said) = run(&[]);
    assert!(
        out.is_empty() && said.contains("4 frames: 3 out, 0 in, 0 passed unchanged, 1 dropped: fragment"),
        "{said}"
    );
    // The number of waiting fragments is bounded.
    let many: Vec<Vec<u8>> = (0..EARLY_MAX as u16 + 10).map(|id| part(HOST, &[9; 8], 16, id)).collect();
    let (_, said) = run(&many);
    assert!(said.contains("11 dropped: fragment without the first fragment"), "{said}");
    assert_eq!((stage.early.waiting.len(), stage.early.frames.len()), (EARLY_MAX, EARLY_MAX));
}

#[test]
fn unrelated_frames_pass_and_untranslatable_are_dropped() {
    let mut nat = nat(|_| {});
    for frame in
        [udp((HOST, 1), (OTHER, 2)), udp((SERVER, 1), ([9; 4], 2)), udp((SERVER, 1), (HOST, 2)), vec![0x88; 60]]
    {
        goes(&mut nat, frame.clone(), Fate::Passed, &frame);
    }
    dropped(&mut nat, udp((HOST, 1), (OUTSIDE, 2)), Drop::Hairpin);
    dropped(&mut nat, udp((HOST, 1), ([224, 0, 0, 251], 5353)), Drop::NotUnicast);
    dropped(&mut nat, udp((HOST, 1), ([255; 4], 67)), Drop::NotUnicast);
    dropped(&mut nat, ip(Proto(47), HOST, SERVER, &[0; 20]), Drop::Unsupported);
    dropped(&mut nat, ip(Proto::UDP, HOST, SERVER, &[0; 3]), Drop::Malformed);
    dropped(&mut nat, ip(Proto::TCP, HOST, SERVER, &[0; 19]), Drop::Malformed);
    let mut bad = udp((HOST, 1), (SERVER, 2));
    bad[14] = 0x41;
    dropped(&mut nat, bad, Drop::Malformed);
    let counts = nat.counts();
    assert_eq!(counts.frames, counts.passed + counts.out + counts.inward + counts.dropped.iter().sum::<u64>());
}

#[test]
fn direction_can_be_restricted() {
    let mut out = nat(|config| config.dir = Dir::Out);
    let back = udp((SERVER, 53), (OUTSIDE, 1000));
    goes(&mut out, back.clone(), Fate::Passed, &back);
    let mut inward = nat(|config| config.dir = Dir::In);
    let sent = udp((HOST, 1000), (SERVER, 53));
    goes(&mut inward, sent.clone(), Fate::Passed, &sent);
    dropped(&mut inward, back, Drop::Unsolicited);
}

#[test]
fn a_full_table_evicts_idle_and_half_open_sessions_first() {
    let mut nat = nat(|config| config.limit = 3);
    let server = (SERVER, 80);
    goes(&mut nat, tcp((HOST, 1), server, Flags::SYN), Fate::Out, &tcp((OUTSIDE, 1), server, Flags::SYN));
    goes(&mut nat, tcp(server, (OUTSIDE, 1), Flags::SYN), Fate::In, &tcp(server, (HOST, 1), Flags::SYN));
    nat.advance(at(1));
    goes(&mut nat, udp((HOST, 1), (SERVER, 53)), Fate::Out, &udp((OUTSIDE, 1), (SERVER, 53)));
    for port in 1000..2000 {
        assert_eq!(nat.translate(&mut tcp((HOST, port), server, Flags::SYN)), Fate::Out);
    }
    assert_eq!((nat.sessions(), nat.counts().evicted), (3, 999));
    goes(&mut nat, udp((SERVER, 53), (OUTSIDE, 1)), Fate::In, &udp((SERVER, 53), (HOST, 1)));
    goes(&mut nat, tcp(server, (OUTSIDE, 1), Flags::ACK), Fate::In, &tcp(server, (HOST, 1), Flags::ACK));
}

#[test]
fn exhausted_ports_are_counted() {
    let mut nat = nat(|config| config.ports = 2000..=2009);
    let mut ports = HashSet::new();
    for port in 100..110 {
        let mut frame = udp((HOST, port), (SERVER, 53));
        if nat.translate(&mut frame) == Fate::Out {
            ports.insert(Layout::of(&frame).ports(&frame).unwrap().0.0);
        }
    }
    assert!(ports.iter().all(|port| (2000..=2009).contains(port)) && ports.len() == 10, "{ports:?}");
    dropped(&mut nat, udp((HOST, 999), (SERVER, 53)), Drop::NoPort);
    assert_eq!(nat.translate(&mut udp((HOST, 999), (SERVER, 54))), Fate::Out);
}

#[test]
fn options_are_parsed() {
    assert!("10.1.2.3/8=192.0.2.1".parse::<Between>().unwrap().contains([10, 9, 9, 9].into()));
    assert!(
        "0.0.0.0/0=1.1.1.1"
            .parse::<Between>()
            .unwrap_err()
            .to_string()
            .contains("'1.1.1.1' must not belong to the inside")
    );
    assert!(!"10.0.0.1=1.1.1.1".parse::<Between>().unwrap().contains([10, 0, 0, 2].into()));
    for bad in ["", "10.0.0.0/8", "10.0.0.0/33=1.1.1.1", "10.0.0/8=1.1.1.1", "a=b"] {
        assert!(bad.parse::<Between>().unwrap_err().to_string().contains("INSIDE_NET=OUTSIDE_ADDR"), "{bad}");
    }
    let timeouts: Timeouts = "udp=10,transitory=5".parse().unwrap();
    assert_eq!(
        (timeouts.udp, timeouts.icmp, timeouts.transitory),
        (Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(5))
    );
    for bad in ["udp", "udp=0", "udp=x", "dns=3", ""] {
        assert!(bad.parse::<Timeouts>().is_err(), "{bad}");
    }
}

/// Simple model of the translator: the inside ends that may receive packets from outside, each with
/// the time until which it may.
#[derive(Default)]
struct Model(HashMap<(u16, [u8; 4], u16), (End, u64)>);

proptest! {
    #[test]
    fn translation_matches_a_simple_model(steps in prop::collection::vec((0..4_u8, 0..3_u8, 0..3_u16, 0..3_u8, 0..120_u64), 1..80)) {
        let mut nat = nat(|_| {});
        let (mut model, mut now) = (Model::default(), 0);
        let mut known = vec![7_u16];
        for (kind, host, port, server, wait) in steps {
            now += wait;
            nat.advance(at(now));
            model.0.retain(|_, (_, last)| now < *last + 300);
            let (inside, remote) = (([10, 0, 0, host], 2000 + port), [198, 51, 100, server]);
            if kind < 2 {
                let mut frame = udp(inside, (remote, 53));
                prop_assert_eq!(nat.translate(&mut frame), Fate::Out);
                let outside = Layout::of(&frame).ports(&frame).unwrap().0.0;
                prop_assert_eq!(&frame, &udp((OUTSIDE, outside), (remote, 53)));
                let (was, last) = model.0.entry((outside, remote, 53)).or_insert((inside, now));
                prop_assert_eq!(*was, inside, "a port assigned twice");
                *last = now;
                known.push(outside);
            } else {
                let outside = known[(usize::from(port) * 7 + usize::from(host)) % known.len()];
                let mut frame = udp((remote, 53), (OUTSIDE, outside));
                match model.0.get_mut(&(outside, remote, 53)) {
                    Some((inside, last)) => {
                        prop_assert_eq!(nat.translate(&mut frame), Fate::In);
                        prop_assert_eq!(frame, udp((remote, 53), *inside));
                        *last = now;
                    }
                    None => prop_assert_eq!(nat.translate(&mut frame), Fate::Dropped(Drop::Unsolicited)),
                }
            }
            prop_assert_eq!(nat.sessions(), model.0.len());
        }
        let counts = nat.counts();
        prop_assert_eq!(counts.frames, counts.passed + counts.out + counts.inward + counts.dropped.iter().sum::<u64>());
        prop_assert_eq!(counts.sessions, counts.expired + counts.evicted + nat.sessions() as u64);
    }
}
