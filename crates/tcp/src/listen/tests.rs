use super::*;
use crate::cookie::MSS_TABLE;
use crate::counters::Listen;
use crate::{SegmentOptions, State, Tcb, Text, Timestamps};
use clock::Duration;
use stats::Described;
use wire::L4Port;

const SECRET: Key = Key(0xfeed, 0xbeef);
const IRS: SeqNum = SeqNum(u32::MAX - 3);

/// A host with one listener, and its counters since they were last read.
struct Host {
    config: Config,
    counts: Listen,
    seen: Vec<u64>,
    now: Instant,
    above: Option<SeqNum>,
    listener: Listener,
}

impl Host {
    fn new(limits: Limits) -> Host {
        let listener = Listener::new(limits, SECRET);
        let mut host = Host {
            config: Config::default(),
            counts: Listen::default(),
            seen: vec![],
            now: at(1_000),
            above: None,
            listener,
        };
        host.counted();
        host
    }

    fn input(&mut self, ends: &Ends, seg: Segment) -> Answer {
        let cx = Context { config: &self.config, counts: &self.counts, now: self.now, above: self.above };
        self.listener.on_segment(cx, ends, &seg)
    }

    fn synack(&mut self, ends: &Ends, seg: Segment) -> Out {
        match self.input(ends, seg) {
            Answer::SynAck(out) => out,
            other => panic!("{other:?}"),
        }
    }

    fn established(&mut self, ends: &Ends, seg: Segment) -> Handshake {
        match self.input(ends, seg) {
            Answer::Established(done) => done,
            other => panic!("{other:?}"),
        }
    }

    fn timer(&mut self) -> Vec<Out> {
        let cx = Context { config: &self.config, counts: &self.counts, now: self.now, above: None };
        let mut sent = Vec::new();
        assert!(!self.listener.on_timer(cx, usize::MAX, |_| cx.config, |_, out| sent.push(out)));
        sent
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.after(Duration::from_millis(ms));
    }

    /// Returns every counter that changed, and by how much.
    fn counted(&mut self) -> Vec<(&'static str, u64)> {
        let (mut moved, mut seen) = (Vec::new(), Vec::new());
        self.counts.visit(&mut |_, name, _, value| {
            let before = self.seen.get(seen.len()).copied().unwrap_or(0);
            if value != before {
                moved.push((name, value - before));
            }
            seen.push(value);
        });
        self.seen = seen;
        moved
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn client(n: u32) -> Ends {
    let remote = 0xffff_0a01_0000 + u128::from(n >> 12);
    Ends { local: 0xffff_0a00_0001, remote, local_port: L4Port(80), remote_port: L4Port(10_000 + (n & 0xfff) as u16) }
}

fn syn() -> Segment {
    let options = SegmentOptions { mss: Some(1460), ..SegmentOptions::default() };
    Segment { seq: IRS, flags: Flags::SYN, window: 65_535, options, ..Segment::default() }
}

fn full_syn() -> Segment {
    let options = SegmentOptions {
        mss: Some(1400),
        window_scale: Some(9),
        sack_permitted: true,
        timestamps: Some(Timestamps { val: 700, ecr: 0 }),
        ..SegmentOptions::default()
    };
    Segment { options, ..syn() }
}

/// Builds the ACK that a client sends for `synack`.
fn ack(synack: &Out) -> Segment {
    let seen = synack.as_arriving();
    let timestamps = seen.options.timestamps.map(|ts| Timestamps { val: ts.ecr + 20, ecr: ts.val });
    let options = SegmentOptions { timestamps, ..SegmentOptions::default() };
    Segment { seq: seen.ack, ack: seen.seq.plus(1), flags: Flags::ACK, window: 500, options, ..Segment::default() }
}

fn with(cookies: CookieMode, syn_queue: u32) -> Host {
    Host::new(Limits { cookies, syn_queue, ..Limits::default() })
}

#[test]
fn modes_are_named_as_the_sysctl_spells_them() {
    for word in ["never", "when-full", "always"] {
        assert_eq!(word.parse::<CookieMode>().unwrap().to_string(), word);
    }
    assert!("sometimes".parse::<CookieMode>().unwrap_err().to_string().contains("never, when-full or always"));
}

#[test]
fn an_entry_is_a_cache_line() {
    assert_eq!(size_of::<Entry>(), 64);
}

#[test]
fn three_segments_make_a_connection() {
    let mut host = with(CookieMode::WhenFull, 10);
    let synack = host.synack(&client(1), full_syn());
    assert_eq!(host.counted(), [("added", 1)]);
    assert_eq!((synack.flags, synack.ack, synack.window), (Flags::SYN | Flags::ACK, IRS.plus(1), 64_240));
    let said = synack.as_arriving().options;
    assert_eq!((said.mss, said.window_scale, said.sack_permitted), (Some(1460), Some(7), true));
    assert_eq!(said.timestamps.unwrap().ecr, 700);
    host.pass(30);
    let done = host.established(&client(1), ack(&synack));
    let expected = Handshake {
        iss: synack.seq,
        irs: IRS,
        mss: 1400,
        snd_wscale: Some(9),
        rcv_wscale: 7,
        sack: true,
        ts: Some(TsState { recent: 720, offset: ts_offset(SECRET, &client(1)) }),
        window: 500,
        ecn: false,
        rtt: Some(Duration::from_millis(30)),
    };
    assert_eq!(done, expected);
    assert_eq!((host.counted(), host.listener.embryonic(), host.listener.ready()), (vec![("completed", 1)], 0, 1));
    assert_eq!(host.listener.next_timer(), Instant::NEVER);
}

#[test]
fn only_offered_options_are_used() {
    let mut host = with(CookieMode::Never, 10);
    let synack = host.synack(&client(1), syn());
    assert_eq!(synack.as_arriving().options, SegmentOptions { mss: Some(1460), ..SegmentOptions::default() });
    let done = host.established(&client(1), ack(&synack));
    assert_eq!((done.snd_wscale, done.rcv_wscale, done.sack, done.ts, done.ecn), (None, 0, false, None, false));
    // and nothing that the configuration disables
    host.config = Config { window_scaling: false, sack: false, timestamps: false, ecn: EcnMode::Off, ..host.config };
    let asks = Segment { flags: Flags::SYN | Flags::ECE | Flags::CWR, ..full_syn() };
    let synack = host.synack(&client(2), asks);
    assert_eq!(synack.as_arriving().options, SegmentOptions { mss: Some(1460), ..SegmentOptions::default() });
    assert_eq!(synack.flags, Flags::SYN | Flags::ACK);
}

#[test]
fn ecn_is_negotiated_by_both_flags_and_syns_are_not_marked() {
    let both = Flags::ECE | Flags::CWR;
    for (flags, ecn, agreed) in [
        (both, Ecn::NotEct, true),
        (Flags::ECE, Ecn::NotEct, false),
        (Flags::CWR, Ecn::NotEct, false),
        (both, Ecn::Ce, false),
    ] {
        let mut host = with(CookieMode::Never, 10);
        let synack = host.synack(&client(1), Segment { flags: Flags::SYN | flags, ecn, ..full_syn() });
        assert_eq!(synack.flags.contains(Flags::ECE), agreed);
        assert!(!synack.flags.contains(Flags::CWR));
        assert_eq!(host.established(&client(1), ack(&synack)).ecn, agreed);
    }
}

#[test]
fn window_scale_above_14_counts_as_14() {
    let mut host = with(CookieMode::Never, 10);
    let mut wild = full_syn();
    wild.options.window_scale = Some(255);
    let synack = host.synack(&client(1), wild);
    assert_eq!(host.established(&client(1), ack(&synack)).snd_wscale, Some(14));
}

#[test]
fn the_syn_ack_is_retransmitted_for_more_than_three_minutes() {
    let mut host = with(CookieMode::WhenFull, 10);
    let first = host.synack(&client(1), full_syn());
    let mut times = Vec::new();
    let begun = host.now;
    while host.listener.next_timer() != Instant::NEVER {
        host.now = host.listener.next_timer();
        let sent = host.timer();
        if let [out] = sent[..] {
            assert_eq!((out.seq, out.ack, out.flags, out.retransmission), (first.seq, first.ack, first.flags, true));
            assert!(
                out.as_arriving().options.timestamps.unwrap().val > first.as_arriving().options.timestamps.unwrap().val
            );
        }
        times.push((host.now.since(begun).as_secs(), sent.len()));
    }
    assert_eq!(times, [(1, 1), (3, 1), (7, 1), (15, 1), (31, 1), (63, 1), (127, 1), (247, 0)]);
    assert_eq!(
        (host.counted(), host.listener.embryonic()),
        (vec![("added", 1), ("retransmitted", 7), ("stale", 1)], 0)
    );
}

#[test]
fn a_round_trip_is_measured_only_if_unambiguous() {
    let mut host = with(CookieMode::Never, 10);
    let synack = host.synack(&client(1), full_syn());
    host.pass(1_000);
    assert_eq!(host.timer().len(), 1);
    assert_eq!(host.established(&client(1), ack(&synack)).rtt, None);
    let synack = host.synack(&client(2), full_syn());
    host.synack(&client(2), full_syn());
    assert_eq!(host.established(&client(2), ack(&synack)).rtt, None);
}

#[test]
fn a_repeated_syn_gets_the_same_answer_at_most_twice_a_second() {
    let mut host = with(CookieMode::WhenFull, 10);
    let first = host.synack(&client(1), full_syn());
    host.pass(1);
    assert_eq!(host.synack(&client(1), full_syn()).seq, first.seq);
    assert_eq!(host.input(&client(1), full_syn()), Answer::Dropped(Refused::Limited));
    assert_eq!(host.counted(), [("added", 1), ("duplicate_syns", 2), ("limited", 1)]);
    host.pass(520);
    let mut later = full_syn();
    later.options.timestamps = Some(Timestamps { val: 1_221, ecr: 0 });
    assert_eq!(host.synack(&client(1), later).as_arriving().options.timestamps.unwrap().ecr, 1_221);
    assert_eq!(host.listener.embryonic(), 1);
}

#[test]
fn a_different_syn_is_challenged_and_its_reset_ends_the_old_handshake() {
    let mut host = with(CookieMode::WhenFull, 10);
    let old = host.synack(&client(1), full_syn());
    let other = Segment { seq: IRS.plus(1_000_000), ..full_syn() };
    let Answer::Refuse(challenge, Refused::SynInHandshake) = host.input(&client(1), other) else { panic!() };
    assert_eq!((challenge.flags, challenge.seq, challenge.ack), (Flags::ACK, old.seq.plus(1), IRS.plus(1)));
    assert_eq!(challenge.window, 501, "scaled, now that it is no SYN");
    assert_eq!(host.input(&client(1), other), Answer::Dropped(Refused::Limited));
    let rst = Segment { seq: challenge.ack, flags: Flags::RST, ..Segment::default() };
    assert_eq!(host.input(&client(1), rst), Answer::Dropped(Refused::ResetTaken));
    assert_eq!(host.synack(&client(1), other).ack, IRS.plus(1_000_001));
    assert_eq!(host.counted(), [("added", 2), ("reset", 1), ("limited", 1)]);
}

#[test]
fn only_the_exact_reset_ends_a_handshake() {
    let mut host = with(CookieMode::WhenFull, 10);
    host.synack(&client(1), full_syn());
    let rst = |seq| Segment { seq, flags: Flags::RST, ..Segment::default() };
    assert_eq!(host.input(&client(1), rst(IRS)), Answer::Dropped(Refused::ResetIgnored));
    assert_eq!(host.input(&client(1), rst(IRS.plus(100_000))), Answer::Dropped(Refused::ResetIgnored));
    assert_eq!(host.input(&client(2), rst(IRS.plus(1))), Answer::Dropped(Refused::ResetIgnored));
    assert!(matches!(host.input(&client(1), rst(IRS.plus(50))), Answer::Refuse(_, Refused::ResetInWindow)));
    assert_eq!(host.listener.embryonic(), 1);
    assert_eq!(host.input(&client(1), rst(IRS.plus(1))), Answer::Dropped(Refused::ResetTaken));
    assert_eq!((host.counted(), host.listener.embryonic()), (vec![("added", 1), ("reset", 1)], 0));
}

#[test]
fn an_icmp_error_with_our_sequence_number_ends_a_handshake() {
    let mut host = with(CookieMode::WhenFull, 10);
    let synack = host.synack(&client(1), full_syn());
    let cx = Context { config: &host.config, counts: &host.counts, now: host.now, above: None };
    assert!(!host.listener.on_unreachable(cx, &client(1), synack.seq.plus(1)));
    assert!(!host.listener.on_unreachable(cx, &client(2), synack.seq));
    assert!(host.listener.on_unreachable(cx, &client(1), synack.seq));
    assert_eq!((host.counted(), host.listener.embryonic()), (vec![("added", 1), ("unreachable", 1)], 0));
}

/// Neither a SYN-ACK in reply to our SYN-ACK nor a SYN after it makes us the active side.
#[test]
fn a_split_handshake_swaps_no_roles() {
    let mut host = with(CookieMode::WhenFull, 10);
    let synack = host.synack(&client(1), full_syn());
    let split = Segment { flags: Flags::SYN | Flags::ACK, ack: synack.seq.plus(1), ..full_syn() };
    assert!(
        matches!(host.input(&client(1), split), Answer::Refuse(out, Refused::SynInHandshake) if out.flags == Flags::ACK)
    );
    assert_eq!(host.input(&client(1), Segment { seq: IRS.plus(1), ..split }), Answer::Dropped(Refused::Limited));
    assert_eq!((host.listener.embryonic(), host.listener.ready()), (1, 0));
    let Answer::Refuse(rst, Refused::NoHandshake) = host.input(&client(2), split) else { panic!("no entry: reset") };
    assert_eq!((rst.flags, rst.seq), (Flags::RST, split.ack));
    host.established(&client(1), ack(&synack));
}

#[test]
fn an_ack_of_something_else_is_reset_and_changes_nothing() {
    let mut host = with(CookieMode::WhenFull, 10);
    let synack = host.synack(&client(1), full_syn());
    for wrong in [synack.seq, synack.seq.plus(2), synack.seq.minus(1)] {
        let Answer::Refuse(rst, Refused::BadAck) = host.input(&client(1), Segment { ack: wrong, ..ack(&synack) })
        else {
            panic!()
        };
        assert_eq!((rst.flags, rst.seq), (Flags::RST, wrong));
    }
    let beyond = Segment { seq: IRS.plus(1 + 65_535), ..ack(&synack) };
    assert!(
        matches!(host.input(&client(1), beyond), Answer::Refuse(out, Refused::OutOfWindow) if out.flags == Flags::ACK)
    );
    host.pass(600);
    let mut stale = ack(&synack);
    stale.options.timestamps = Some(Timestamps { val: 699, ecr: 0 });
    assert!(matches!(host.input(&client(1), stale), Answer::Refuse(_, Refused::Paws)));
    assert_eq!(host.counted(), [("added", 1), ("bad_acks", 3), ("old_duplicates", 2)]);
    host.established(&client(1), ack(&synack));
}

#[test]
fn invalid_segments_are_dropped_and_counted() {
    let mut host = with(CookieMode::WhenFull, 10);
    for flags in [Flags::SYN | Flags::FIN, Flags::SYN | Flags::RST, Flags(0), Flags::FIN, Flags::PSH | Flags::URG] {
        assert_eq!(host.input(&client(1), Segment { flags, ..syn() }), Answer::Dropped(Refused::BadFlags));
    }
    let land = Ends { remote: client(1).local, remote_port: L4Port(80), ..client(1) };
    assert_eq!(host.input(&land, syn()), Answer::Dropped(Refused::BadEnds));
    for remote in [0, 0xffff_0000_0000] {
        assert_eq!(host.input(&Ends { remote, ..client(1) }, syn()), Answer::Dropped(Refused::BadEnds));
    }
    assert_eq!((host.counted(), host.listener.embryonic()), (vec![("bad_segments", 8)], 0));
}

#[test]
fn a_full_accept_queue_drops_the_ack_and_keeps_the_entry() {
    let mut host = Host::new(Limits { backlog: 1, ..Limits::default() });
    let synacks: Vec<Out> = (0..3).map(|n| host.synack(&client(n), full_syn())).collect();
    host.established(&client(0), ack(&synacks[0]));
    host.established(&client(1), ack(&synacks[1]));
    assert_eq!(host.input(&client(2), ack(&synacks[2])), Answer::Dropped(Refused::AcceptQueueFull));
    assert_eq!(host.input(&client(3), full_syn()), Answer::Dropped(Refused::AcceptQueueFull));
    let counted = vec![("added", 3), ("completed", 2), ("accept_overflows", 1), ("accept_overflow_acks", 1)];
    assert_eq!((host.counted(), host.listener.embryonic()), (counted, 1));
    host.listener.on_accepted();
    host.pass(1_000);
    assert_eq!(host.timer().len(), 1, "asks the peer to say it again");
    host.established(&client(2), ack(&synacks[2]));
}

/// CVE-2018-16523, CVE-2019-11479: tiny MSS options, and MSS options of 0.
#[test]
fn no_mss_is_below_the_floor() {
    let config = Config::default();
    assert_eq!(
        [None, Some(0), Some(1), Some(47), Some(48), Some(215)].map(|mss| floored_mss(&config, mss)),
        [536, 536, 48, 48, 48, 215]
    );
    let reckless = Config { min_mss: 0, default_mss: 0, ..Config::default() };
    assert_eq!([None, Some(0), Some(8), Some(49)].map(|mss| floored_mss(&reckless, mss)), [48, 48, 48, 49]);
    let mut host = with(CookieMode::Always, 10);
    for (mss, effective) in [(0, 536), (8, 48), (500, 216), (65_535, 8_940)] {
        let mut small = syn();
        small.options.mss = Some(mss);
        let synack = host.synack(&client(u32::from(mss)), small);
        assert_eq!(host.established(&client(u32::from(mss)), ack(&synack)).mss, effective);
    }
    assert_eq!(host.counted(), [("completed", 4), ("cookies_sent", 4), ("cookies_received", 4), ("mss_raised", 2)]);
}

/// A flood of 100,000 SYNs that are never completed, with a client now and then.
#[test]
fn a_syn_flood_meets_a_bound_and_clients_come_through() {
    let limit = 1_024;
    let mut host = with(CookieMode::WhenFull, limit);
    let mut served = 0;
    for n in 0..100_000u32 {
        assert!(matches!(host.input(&client(n), full_syn()), Answer::SynAck(_)));
        if n % 1_000 == 999 {
            let legitimate = client(1_000_000 + n);
            let synack = host.synack(&legitimate, full_syn());
            host.pass(50);
            let done = host.established(&legitimate, ack(&synack));
            let mss = if n < limit { 1400 } else { 1360 };
            assert_eq!((done.snd_wscale, done.sack, done.mss), (Some(9), true, mss), "options survive in TSval");
            assert_eq!(done.iss, synack.seq);
            host.listener.on_accepted();
            served += 1;
        }
        host.timer();
    }
    assert_eq!((served, host.listener.embryonic()), (100, limit as usize));
    // an entry, 20 bytes of links and a queue head each, in vectors that grow by doubling
    assert!(host.listener.bytes() <= 2 * limit as usize * (size_of::<Entry>() + 20 + 4), "{}", host.listener.bytes());
    let counted = host.counted();
    let of = |name| counted.iter().find(|(known, _)| *known == name).map_or(0, |(_, n)| *n);
    assert_eq!((of("completed"), of("cookies_failed"), of("evicted")), (100, 0, 0));
    assert_eq!(of("cookies_received"), 99, "all but the first client's");
    assert_eq!(of("cookies_sent") + of("added"), 100_100);
}

#[test]
fn without_cookies_the_oldest_entry_is_evicted_and_fast_clients_connect() {
    let limit = 1_024;
    let mut host = with(CookieMode::Never, limit);
    for n in 0..100_000u32 {
        host.synack(&client(n), full_syn());
        if n % 1_000 == 999 {
            let legitimate = client(1_000_000 + n);
            let synack = host.synack(&legitimate, full_syn());
            for flood in 0..1_000 {
                host.synack(&client(2_000_000 + n * 1_000 + flood), full_syn());
            }
            host.established(&legitimate, ack(&synack));
            host.listener.on_accepted();
        }
        assert!(host.listener.embryonic() <= limit as usize);
    }
    let counted = host.counted();
    let of = |name| counted.iter().find(|(known, _)| *known == name).map_or(0, |(_, n)| *n);
    assert_eq!((of("completed"), of("cookies_sent")), (100, 0));
    assert_eq!(of("evicted"), of("added") - 100 - host.listener.embryonic() as u64);
}

#[test]
fn unanswered_entries_are_evicted_before_new_ones() {
    let mut host = with(CookieMode::Never, 4);
    let synacks: Vec<Out> = (0..2).map(|n| host.synack(&client(n), full_syn())).collect();
    host.pass(1_000);
    assert_eq!(host.timer().len(), 2);
    for n in 2..4 {
        host.synack(&client(n), full_syn());
    }
    host.synack(&client(4), full_syn());
    assert!(matches!(host.input(&client(0), ack(&synacks[0])), Answer::Refuse(_, Refused::NoHandshake)), "evicted");
    host.established(&client(1), ack(&synacks[1]));
    assert!((2..5).all(|n| host.listener.find(&client(n)).is_some()));
}

/// Only one of our cookies opens a connection, and only while cookies are outstanding.
#[test]
fn an_ack_flood_opens_nothing() {
    let mut host = with(CookieMode::WhenFull, 1);
    host.synack(&client(0), full_syn());
    let forged =
        |n: u32| Segment { seq: SeqNum(n.wrapping_mul(77_777)), ack: SeqNum(n.wrapping_mul(99_991)), ..ack(&cookie()) };
    fn cookie() -> Out {
        Out { seq: SeqNum(5), ack: SeqNum(6), ..crate::answer::bare(SeqNum(0), SeqNum(0), Flags(0)) }
    }
    for n in 1..50_000 {
        assert!(matches!(host.input(&client(n), forged(n)), Answer::Refuse(_, Refused::NoHandshake)));
    }
    assert_eq!(host.counted(), [("added", 1), ("bad_acks", 49_999)], "no cookie is out: not even looked at");
    let synack = host.synack(&client(1), full_syn());
    for n in 2..50_000 {
        assert!(matches!(host.input(&client(n), forged(n)), Answer::Refuse(_, Refused::NoHandshake)));
    }
    assert_eq!(host.listener.ready(), 0);
    host.counted();
    // a valid one opens its own connection and no other, and expires
    assert!(matches!(host.input(&client(2), ack(&synack)), Answer::Refuse(..)));
    host.pass(120_000);
    assert!(matches!(host.input(&client(1), ack(&synack)), Answer::Refuse(..)));
    assert_eq!(host.counted(), [("bad_acks", 2), ("cookies_failed", 1)]);
}

#[test]
fn a_cookie_without_timestamps_carries_the_mss_alone() {
    let mut host = with(CookieMode::Always, 0);
    let mut plain = full_syn();
    plain.options.timestamps = None;
    let synack = host.synack(&client(1), plain);
    assert_eq!(synack.as_arriving().options, SegmentOptions { mss: Some(1460), ..SegmentOptions::default() });
    let done = host.established(&client(1), ack(&synack));
    assert_eq!((done.mss, done.snd_wscale, done.sack, done.ts, done.rtt), (1360, None, false, None, None));
    assert!(MSS_TABLE.contains(&done.mss));
    assert_eq!(
        (host.listener.bytes(), host.counted()),
        (0, vec![("completed", 1), ("cookies_sent", 1), ("cookies_received", 1)])
    );
}

/// Peers that are chosen to collide in one chain under a known key do not collide under another.
#[test]
fn hash_buckets_depend_on_the_secret() {
    let known = Listener::new(Limits::default(), Key(1, 1));
    let chosen: Vec<Ends> =
        (0..).map(client).filter(|ends| known.table.hash(ends).is_multiple_of(1_024)).take(1_000).collect();
    let mut host = with(CookieMode::Never, 1_024);
    let mut chains = vec![0u32; 1_024];
    for ends in &chosen {
        host.synack(ends, full_syn());
        chains[host.listener.table.hash(ends) as usize % 1_024] += 1;
    }
    assert_eq!(host.listener.embryonic(), 1_000);
    assert!(*chains.iter().max().unwrap() <= 9, "{:?}", chains.iter().max());
}

mod strangers {
    use super::*;
    use proptest::prelude::*;

    fn segment() -> impl Strategy<Value = Segment> {
        let near = prop_oneof![Just(0u32), 0..3u32, (0..3u32).prop_map(u32::wrapping_neg), any::<u32>()];
        let options = (any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>(), any::<Option<(u32, u32)>>());
        let flags = prop_oneof![Just(2u8), Just(16), Just(4), any::<u8>()];
        (near.clone(), near, flags, prop_oneof![Just(0), 0..70_000u32, any::<u32>()], options).prop_map(
            |(seq, ack, flags, len, (mss, window_scale, sack_permitted, ts))| Segment {
                seq: IRS.plus(seq),
                ack: SeqNum(ack),
                flags: Flags(flags),
                len,
                options: SegmentOptions {
                    mss,
                    window_scale,
                    sack_permitted,
                    timestamps: ts.map(|(val, ecr)| Timestamps { val, ecr }),
                    ..SegmentOptions::default()
                },
                ..Segment::default()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// For any input, limits are kept, the ready count equals the number of established
        /// connections, and no RST is answered with a RST.
        #[test]
        fn random_segments_break_no_invariant(
            steps in prop::collection::vec((0..12u32, segment(), any::<bool>(), 0..5_000u64), 1..120),
            mode in 0..3u8, backlog in 0..3u32, syn_queue in 0..6u32,
        ) {
            let cookies = [CookieMode::Never, CookieMode::WhenFull, CookieMode::Always][usize::from(mode)];
            let mut host = Host::new(Limits { backlog, syn_queue, cookies });
            let mut ready = 0;
            let mut last_iss = SeqNum(0);
            for (who, mut seg, aimed, ms) in steps {
                if aimed {
                    seg.ack = last_iss.plus(seg.ack.0).plus(1); // near our last sequence number
                }
                match host.input(&client(who), seg) {
                    Answer::Established(done) => {
                        ready += 1;
                        prop_assert!(done.rcv_wscale <= 14 && done.snd_wscale.is_none_or(|shift| shift <= 14));
                        prop_assert!(done.iss.plus(1) == seg.ack);
                    }
                    Answer::SynAck(out) => last_iss = out.seq,
                    Answer::Refuse(out, why) if seg.has(Flags::RST) => {
                        prop_assert!(why == Refused::ResetInWindow && out.flags == Flags::ACK);
                    }
                    Answer::Refuse(..) => {}
                    Answer::Dropped(_) => {}
                }
                prop_assert_eq!(host.listener.ready(), ready);
                prop_assert!(ready <= backlog + 1 && host.listener.embryonic() <= syn_queue as usize);
                host.pass(ms);
                host.timer();
                prop_assert!(host.listener.next_timer() > host.now);
            }
        }
    }
}

#[test]
fn a_timer_round_is_bounded_and_reports_remaining_work() {
    let mut host = with(CookieMode::Never, 100);
    for n in 0..100 {
        host.synack(&client(n), full_syn());
    }
    host.pass(1_000);
    let cx = Context { config: &host.config, counts: &host.counts, now: host.now, above: None };
    let mut sent = 0;
    assert!(host.listener.on_timer(cx, 30, |_| cx.config, |_, _| sent += 1));
    assert_eq!(sent, 30);
    assert!(host.listener.next_timer() <= host.now);
    host.timer();
    host.listener.close(Context { config: &host.config, counts: &host.counts, now: host.now, above: None });
    assert_eq!(host.counted(), [("added", 100), ("retransmitted", 100), ("aborted", 100)]);
}

/// An unacceptable segment of an attacker does not set TS.Recent.
#[test]
fn timestamps_are_taken_from_acceptable_segments_only() {
    let mut host = with(CookieMode::WhenFull, 10);
    let synack = host.synack(&client(1), full_syn());
    let far = |seg: Segment| {
        let options = SegmentOptions { timestamps: Some(Timestamps { val: 1 << 30, ecr: 0 }), ..seg.options };
        Segment { options, ..seg }
    };
    let old = far(Segment { seq: IRS.minus(1_000), ..ack(&synack) });
    assert!(matches!(host.input(&client(1), old), Answer::Refuse(_, Refused::OutOfWindow)));
    let wrong = far(Segment { ack: synack.seq.plus(5), ..ack(&synack) });
    assert!(matches!(host.input(&client(1), wrong), Answer::Refuse(_, Refused::BadAck)));
    assert_eq!(host.established(&client(1), ack(&synack)).ts.unwrap().recent, 720);
}

#[test]
fn after_time_wait_sequence_numbers_continue_above_the_old_ones() {
    for cookies in [CookieMode::Never, CookieMode::Always] {
        let mut host = with(cookies, 1);
        let usual = crate::isn::isn(SECRET, &client(1), host.now);
        for above in [usual.plus(1_000_000), usual.minus(1_000_000)] {
            host.above = Some(above);
            assert_eq!(host.synack(&client(1), full_syn()).seq, usual.later(above));
            host.input(&client(1), Segment { seq: IRS.plus(1), flags: Flags::RST, ..Segment::default() });
        }
        assert_eq!(host.counted(), [("added", 2), ("reset", 2)]);
    }
}

/// A Tcb on the client side exchanges data in both directions with a Tcb created from the
/// listener's handshake.
#[test]
fn a_handshake_becomes_a_connection() {
    for (cookies, rtt_known) in [(CookieMode::Never, true), (CookieMode::Always, false)] {
        let mut host = with(cookies, 10);
        let config = std::sync::Arc::new(host.config.clone());
        let mut peer = Tcb::connect(&config, IRS, 5, host.now);
        let syn = peer.poll_segment(host.now, 0).unwrap();
        let synack = host.synack(&client(1), syn.as_arriving());
        host.pass(20);
        peer.on_segment(&synack.as_arriving(), host.now);
        let third = peer.poll_segment(host.now, 0).unwrap().as_arriving();
        let done = host.established(&client(1), third);
        assert_eq!(done.rtt, rtt_known.then_some(Duration::from_millis(20)));
        let mut here = Tcb::from_handshake(&config, &done, host.now);
        assert_eq!(here.on_segment(&third, host.now).dropped, None);
        assert_eq!((peer.state(), here.state()), (State::Established, State::Established));
        peer.queued(1_000, true);
        here.queued(2_000, true);
        for _ in 0..4 {
            host.pass(20);
            while let Some(out) = peer.poll_segment(host.now, 0) {
                let reply = here.on_segment(&out.as_arriving(), host.now);
                assert_eq!(reply.dropped, None);
            }
            while let Some(out) = here.poll_segment(host.now, 0) {
                let reply = peer.on_segment(&out.as_arriving(), host.now);
                assert!(reply.dropped.is_none() && (out.text_len == 0 || matches!(reply.text, Text::Accept { .. })));
            }
        }
        assert_eq!((here.unread(), peer.unread()), (1_000, 2_000));
    }
}
