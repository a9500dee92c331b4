use clock::{Clock, Duration, SimClock};
use lock::Up;
use node::capture::*;
use node::{Host, config::HostConfig};
use port::Pairs;
use port::pcap::Direction;

/// Two connected hosts; the second one only answers ARP.
struct Two {
    hosts: [Host<Up>; 2],
    pairs: Pairs,
    clock: SimClock,
}

impl Two {
    fn new() -> Two {
        let (clock, pairs) = (SimClock::new(), Pairs::new());
        clock.advance(Duration::from_secs(1));
        let host = |name: &str| {
            let config = HostConfig { name: name.into(), pool_buffers: 64, seed: Some(1), ..HostConfig::default() };
            Host::new(&config, Clock::sim(&clock)).unwrap()
        };
        let two = Two { hosts: [host("a"), host("b")], pairs, clock: clock.clone() };
        for (at, addr) in ["10.0.0.1/24", "10.0.0.2/24"].iter().enumerate() {
            two.ok(at, &format!("ifconfig em0 create port pair:ab inet {addr}"));
        }
        two.run();
        two
    }

    fn say(&self, at: usize, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split(' ').collect();
        crate::host::run(&self.hosts[at], &self.pairs, &words, false).map_err(|e| e.to_string())
    }

    #[track_caller]
    fn ok(&self, at: usize, line: &str) -> String {
        self.say(at, line).unwrap_or_else(|why| panic!("{line}: {why}"))
    }

    fn read(&self, id: &str) -> Batch {
        parse(&self.ok(0, &format!("capture read {id}"))).unwrap()
    }

    fn run(&self) {
        while self.hosts.iter().map(|host| host.step().frames).sum::<usize>() > 0 {}
    }

    /// Sends `n` datagrams of `len` bytes from a to b, where the destination port is closed.
    fn send(&self, n: usize, len: usize) {
        let calls = self.hosts[0].shared_calls();
        let fd = calls.socket().unwrap();
        for _ in 0..n {
            let _ = calls.send_to(fd, &vec![7; len], &"10.0.0.2:9".parse().unwrap());
            self.run();
        }
        calls.close(fd).unwrap();
    }
}

#[track_caller]
fn passed(frame: &Caught) -> Direction {
    match frame.fate {
        Fate::Passed(direction) => direction,
        Fate::Dropped(why) => panic!("{}", why.name()),
    }
}

#[test]
fn captured_frames_are_read_once_with_direction_and_time() {
    let two = Two::new();
    let id = two.ok(0, "capture open em0").trim().to_string();
    two.clock.advance(Duration::from_millis(500));
    two.send(1, 100);
    let batch = two.read(&id);
    let lines: Vec<String> =
        batch.frames.iter().map(|f| wire::dissect::brief(&f.data, f.len as usize).to_string()).collect();
    assert_eq!(
        lines,
        [
            "ARP, Request who-has 10.0.0.2 tell 10.0.0.1, length 28",
            &format!("ARP, Reply 10.0.0.2 is-at {}, length 28", two.hosts[1].mac_of("em0")),
            &lines[2],
            "IP 10.0.0.2 > 10.0.0.1: ICMP 10.0.0.2 udp port 9 unreachable, length 136",
        ]
    );
    assert!(
        lines[2].starts_with("IP 10.0.0.1.") && lines[2].ends_with(" > 10.0.0.2.9: UDP, length 100"),
        "{}",
        lines[2]
    );
    let ways: Vec<Direction> = batch.frames.iter().map(|frame| passed(frame)).collect();
    use Direction::{Inbound, Outbound};
    assert_eq!(ways, [Outbound, Inbound, Outbound, Inbound]);
    assert!(
        batch.frames.iter().all(|f| f.iface == "em0" && f.len as usize == f.data.len() && f.at_ns == 1_500_000_000)
    );
    assert_eq!((batch.now_ns, batch.seen, batch.missed), (1_500_000_000, 4, 0));
    assert_eq!(two.read(&id).frames, [], "frames are returned once");
    assert_eq!(two.ok(0, "capture close 1"), "");
    assert!(two.say(0, "capture read 1").unwrap_err().contains("capture 1: does not exist"));
}

#[test]
fn snaplen_truncates_and_keeps_the_length() {
    let two = Two::new();
    two.ok(0, "capture open em0 snaplen 60");
    two.ok(0, "capture open any"); // readers have separate captures
    two.send(1, 1000);
    let (short, whole) = (two.read("1"), two.read("2"));
    assert_eq!((short.frames[2].data.len(), short.frames[2].len), (60, 1042));
    assert_eq!((whole.frames[2].data.len(), whole.frames[2].len), (1042, 1042));
    assert!(wire::dissect::brief(&short.frames[2].data, 1042).to_string().ends_with("UDP, length 1000"));
}

#[test]
fn a_full_buffer_counts_missed_frames_until_it_is_read() {
    let two = Two::new();
    two.ok(0, "capture open em0");
    two.send(2000, 1400); // along with the few ICMP errors that the rate limit allows
    two.send(1500, 1400);
    let status = two.hosts[0].captures().list(two.clock.now()).remove(0);
    assert!(status.missed > 500 && status.seen == status.held as u64 + status.missed, "{status:?}");
    let (mut got, mut batch) = (0, two.read("1"));
    while !batch.frames.is_empty() {
        assert!(batch.frames.iter().map(|frame| frame.data.len() + FRAME_COST).sum::<usize>() < READ_MAX + 2000);
        got += batch.frames.len() as u64;
        batch = two.read("1");
    }
    assert_eq!(got, status.held as u64);
    two.send(1, 10);
    assert_eq!((two.read("1").missed, two.read("1").seen), (status.missed, status.seen + 1));
    let audit = two.hosts[0].stack.audit(two.hosts[0].cx());
    assert_eq!(
        (audit.imbalance(), two.hosts[0].stack.pool.stats().live()),
        (0, 0),
        "copies use no buffers of the pool"
    );
}

#[test]
fn captures_are_limited_and_unread_ones_end() {
    let two = Two::new();
    for id in 1..=CAPTURES_MAX {
        assert_eq!(two.ok(0, "capture open em0").trim(), id.to_string());
    }
    assert!(two.say(0, "capture open em0").unwrap_err().contains("cannot open a capture: 4 are open"));
    two.clock.advance(Duration::from_secs(9));
    two.read("3");
    two.clock.advance(Duration::from_secs(2));
    two.send(1, 10);
    assert_eq!(two.hosts[0].captures().list(two.clock.now()).iter().map(|c| c.id).collect::<Vec<_>>(), [3]);
    assert!(two.ok(0, "capture list").contains("3             "), "{}", two.ok(0, "capture list"));
    for (line, says) in [
        ("capture", "open, read, close, dropped or list"),
        ("capture open", "expected an interface"),
        ("capture open em1", "did you mean 'em0'?"),
        ("capture open lo0", "has no port"),
        ("capture open em0 snaplen 0", "a number from 1 to 262144"),
        ("capture open em0 filter tcp prot 80", "expected 'and'"),
        ("capture read x", "a number from 1"),
        ("capture close 77", "capture 77: does not exist"),
        ("capture opne em0", "did you mean 'open'?"),
    ] {
        let fault = two.say(0, line).unwrap_err();
        assert!(fault.contains(says), "{line}: {fault}");
    }
}

#[test]
fn invalid_answers_are_rejected() {
    let frame = Caught {
        at_ns: 5,
        iface: "em0".into(),
        fate: Fate::Passed(Direction::Inbound),
        len: 3,
        data: vec![0, 0xab, 0xff],
    };
    let batch = Batch { now_ns: 1, seen: 2, missed: 3, frames: vec![frame] };
    assert_eq!(batch.to_text(), "1 2 3\n5 in em0 3 00abff\n");
    assert_eq!(parse(&batch.to_text()), Some(batch));
    for bad in ["", "x", "1 2", "1 2 3\n", "1 2 3\n5 in em0 3 0", "1 2 3\n5 up em0 3 00", "1 2 3\n5 in em0 3 0g"] {
        assert_eq!(parse(bad).is_some(), bad == "1 2 3\n", "{bad:?}");
    }
}

/// A datagram to a closed port is recorded with its drop reason: in the record of dropped frames,
/// in a capture of dropped frames, and in a capture with a filter only if the filter matches.
#[test]
fn dropped_frames_are_captured_with_their_reason() {
    let two = Two::new();
    let dropped = |batch: &Batch| -> Vec<(String, String)> {
        let line = |f: &Caught| wire::dissect::brief(&f.data, f.len as usize).to_string();
        let reason = |f: &Caught| match f.fate {
            Fate::Dropped(why) => why.name().to_string(),
            Fate::Passed(direction) => format!("{direction:?}"),
        };
        batch.frames.iter().map(|f| (reason(f), line(f))).collect()
    };
    let read = |line: &str| parse(&two.ok(1, line)).unwrap();
    two.send(1, 100);
    two.clock.advance(Duration::from_secs(1));
    let record = dropped(&read("capture dropped"));
    assert!(
        matches!(&record[..], [(why, line)] if why == "inet.udp.in.no_socket" && line.ends_with("UDP, length 100")),
        "{record:?}"
    );
    assert_eq!(dropped(&read("capture dropped filter udp port 9")).len(), 1);
    assert_eq!(dropped(&read("capture dropped filter tcp")), []);
    for line in ["open dropped", "open all filter udp", "open dropped filter tcp"] {
        two.ok(1, &format!("capture {line}"));
    }
    two.send(3, 8); // at the same instant: one is recorded, all are captured
    assert_eq!(dropped(&read("capture dropped")).len(), 2);
    assert_eq!(dropped(&read("capture read 1")).len(), 3);
    let all = dropped(&read("capture read 2"));
    let words: Vec<&str> = all.iter().map(|(why, _)| why.as_str()).collect();
    assert_eq!(words, ["Inbound", "inet.udp.in.no_socket"].repeat(3));
    assert_eq!(dropped(&read("capture read 3")), []);
    let list = two.ok(1, "capture list");
    assert!(list.contains("dropped\n") && list.contains("all\n"), "{list}");
}
