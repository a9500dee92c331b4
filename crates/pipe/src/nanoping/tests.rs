use super::*;
use proptest::prelude::*;

const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);
const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);

fn ping(count: u32, interval_ms: u64) -> Ping {
    Ping::new(PingConfig {
        addr: Ipv4Addr::new(10, 0, 0, 2),
        own: Ipv4Addr::new(10, 0, 0, 1),
        mac: OURS,
        ident: 77,
        size: 56,
        count,
        interval: Duration::from_millis(interval_ms),
        wait: Duration::from_millis(100),
    })
}

fn us(us: u64) -> Instant {
    Instant::from_micros(us)
}

/// Returns the reply of a station to a frame.
fn answer(frame: &[u8]) -> Vec<u8> {
    let mut out = frame.to_vec();
    out[..6].copy_from_slice(&frame[6..12]);
    out[6..12].copy_from_slice(&THEIRS.0);
    if frame[12..14] == [8, 6] {
        let requested = arp::Packet::parse(&frame[14..]).unwrap();
        let reply =
            arp::Packet { op: arp::Op::Reply, sha: THEIRS, spa: requested.tpa, tha: requested.sha, tpa: requested.spa };
        out[14..42].copy_from_slice(&reply.emit());
        return out;
    }
    let header = ip4::Header::parse(&frame[14..]).unwrap();
    ip4::Header { src: header.dst, dst: header.src, ..header }.emit((&mut out[14..34]).try_into().unwrap());
    let end = 14 + usize::from(header.total_len);
    icmp4::echo_reply_in_place(&mut out[34..end]).unwrap();
    out
}

#[test]
fn arp_is_resolved_then_round_trips_are_measured() {
    let mut ping = ping(3, 10);
    let requested = ping.poll(us(0)).unwrap();
    assert_eq!((&requested[..6], requested.len()), (&[0xff; 6][..], 60));
    assert_eq!(ping.poll(us(1)), None);
    assert_eq!(ping.input(&answer(&requested), us(50)), None);
    for (n, rtt) in [(0, 30), (1, 10), (2, 20)] {
        let at = 50 + n * 10_000;
        assert_eq!(ping.next_event(), us(at));
        let request = ping.poll(us(at)).unwrap();
        assert_eq!((&request[..6], request.len()), (&THEIRS.0[..], 98));
        assert!(!ping.is_over(us(at)));
        ping.input(&answer(&request), us(at + rtt));
        ping.input(&answer(&request), us(at + rtt + 1));
    }
    assert!(ping.is_over(us(30_000)));
    let figures = ping.figures();
    assert_eq!((figures.sent, figures.received, figures.stray, figures.lost()), (3, 3, 3, 0));
    assert_eq!(figures.rtts, [10_000, 20_000, 30_000]);
    assert_eq!((figures.percentile(50), figures.percentile(99)), (Some(20_000), Some(30_000)));
}

#[test]
fn arp_requests_end_after_ten_tries() {
    let mut ping = ping(3, 10);
    let mut requested = 0;
    let mut now = us(0);
    while !ping.is_over(now) {
        requested += usize::from(ping.poll(now).is_some());
        now = ping.next_event();
    }
    assert_eq!((requested, now, ping.figures()), (10, Instant::from_millis(5000), Figures::default()));
    assert_eq!(ping.figures().percentile(50), None);
}

#[test]
fn lost_replies_time_out_and_late_ones_are_stray() {
    let mut ping = ping(2, 0);
    let requested = ping.poll(us(0)).unwrap();
    ping.input(&answer(&requested), us(0));
    let first = ping.poll(us(0)).unwrap();
    assert_eq!(ping.poll(us(99_999)), None);
    assert!(ping.poll(us(100_000)).is_some());
    ping.input(&answer(&first), us(100_500));
    assert!(!ping.is_over(us(199_999)));
    assert!(ping.is_over(us(200_000)));
    assert_eq!((ping.figures().received, ping.figures().stray, ping.figures().lost()), (0, 1, 2));
}

#[test]
fn arp_requests_are_answered() {
    let mut ping = ping(1, 0);
    let theirs = arp::Packet {
        op: arp::Op::Request,
        sha: THEIRS,
        spa: Ipv4Addr::new(10, 0, 0, 9),
        tha: Mac::ZERO,
        tpa: Ipv4Addr::new(10, 0, 0, 1),
    };
    let mut frame = [&[0xff; 6][..], &THEIRS.0, &[8, 6], &theirs.emit()].concat();
    frame.resize(60, 0);
    let said = ping.input(&frame, us(0)).unwrap();
    let reply = arp::Packet::parse(&said[14..]).unwrap();
    assert_eq!((reply.op, reply.sha, reply.tha, reply.tpa), (arp::Op::Reply, OURS, THEIRS, theirs.spa));
    assert!(!ping.figures().found, "10.0.0.9 is not the target");
}

proptest! {
    #[test]
    fn any_received_frame_is_handled(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..20), flip in 0..98_usize) {
        let mut ping = ping(3, 0);
        let requested = ping.poll(us(0)).unwrap();
        ping.input(&answer(&requested), us(0));
        let mut reply = answer(&ping.poll(us(0)).unwrap());
        reply[flip] ^= 0x40;
        ping.input(&reply, us(1));
        for frame in frames {
            ping.input(&frame, us(2));
        }
        prop_assert!(ping.figures().received <= 1);
    }
}
