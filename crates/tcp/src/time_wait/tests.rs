use super::*;
use crate::counters::TimeWaitCounts;
use crate::{SegmentOptions, Timestamps};
use clock::Duration;
use proptest::prelude::*;
use stats::Described;
use std::sync::Arc;

const SND: SeqNum = SeqNum(5_000);
const RCV: SeqNum = SeqNum(u32::MAX);
const PLAIN: Remains = Remains { snd_nxt: SND, rcv_nxt: RCV, window: 512, ts: None };
const STAMPED: Remains = Remains { ts: Some(TsState { recent: 1_000, offset: 77 }), ..PLAIN };

struct Host {
    config: Config,
    counts: TimeWaitCounts,
    now: Instant,
    table: TimeWaitTable,
}

impl Host {
    fn new(left: Remains) -> Host {
        let mut host = Host::empty(1_000);
        host.insert(&ends(1), left);
        host
    }

    fn empty(limit: u32) -> Host {
        let (config, counts) = (Config::default(), TimeWaitCounts::default());
        Host { config, counts, now: Instant::from_millis(10_000), table: TimeWaitTable::new(limit, Key(1, 2)) }
    }

    fn insert(&mut self, ends: &Ends, left: Remains) {
        self.table.insert(Context { config: &self.config, counts: &self.counts, now: self.now }, ends, &left);
    }

    fn input(&mut self, seg: Segment) -> TimeWaitAction {
        let cx = Context { config: &self.config, counts: &self.counts, now: self.now };
        self.table.on_segment(cx, &ends(1), &seg)
    }

    fn expired(&mut self) -> usize {
        let cx = Context { config: &self.config, counts: &self.counts, now: self.now };
        let mut over = 0;
        assert!(!self.table.on_timer(cx, usize::MAX, |_| over += 1));
        over
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.after(Duration::from_millis(ms));
    }

    fn counted(&self) -> Vec<(&'static str, u64)> {
        let mut all = Vec::new();
        self.counts.visit(&mut |_, name, _, value| all.push((name, value)));
        all.retain(|(_, value)| *value > 0);
        all
    }
}

fn ends(n: u32) -> Ends {
    Ends { local: 1, remote: 2 + u128::from(n >> 16), local_port: L4Port(80), remote_port: L4Port(n as u16) }
}

fn seg(flags: Flags, seq: SeqNum, tsval: Option<u32>) -> Segment {
    let timestamps = tsval.map(|val| Timestamps { val, ecr: 0 });
    Segment { seq, ack: SND, flags, options: SegmentOptions { timestamps, ..Default::default() }, ..Default::default() }
}

#[test]
fn a_record_is_a_cache_line() {
    assert_eq!(size_of::<Record>(), 64);
}

#[test]
fn the_entry_expires_after_two_msl() {
    let mut host = Host::new(PLAIN);
    assert_eq!(host.table.next_timer(), Instant::from_millis(70_000));
    host.pass(59_999);
    assert_eq!((host.expired(), host.table.contains(&ends(1))), (0, true));
    host.pass(1);
    assert_eq!((host.expired(), host.table.len(), host.table.next_timer()), (1, 0, Instant::NEVER));
    assert_eq!(host.input(seg(Flags::ACK, RCV, None)), TimeWaitAction::Unknown);
    assert_eq!(host.counted(), [("added", 1), ("expired", 1)]);
}

/// RFC 1337: no RST ends TIME-WAIT, whatever its sequence number.
#[test]
fn resets_do_not_end_time_wait() {
    let mut host = Host::new(STAMPED);
    for (flags, seq) in
        [(Flags::RST, RCV), (Flags::RST | Flags::ACK, RCV.plus(5)), (Flags::RST | Flags::SYN, RCV.minus(9))]
    {
        assert_eq!(host.input(seg(flags, seq, None)), TimeWaitAction::Dropped);
    }
    assert!(host.table.contains(&ends(1)));
    assert_eq!(host.counted(), [("added", 1), ("resets_ignored", 3)]);
}

#[test]
fn a_retransmitted_fin_is_acknowledged_and_restarts_two_msl() {
    let mut host = Host::new(STAMPED);
    host.pass(30_000);
    let fin = seg(Flags::FIN | Flags::ACK, RCV.minus(1), Some(1_500));
    let TimeWaitAction::Answer(ack) = host.input(fin) else { panic!() };
    assert_eq!((ack.seq, ack.ack, ack.flags, ack.window), (SND, RCV, Flags::ACK, 512));
    let ts = ack.as_arriving().options.timestamps.unwrap();
    assert_eq!((ts.val, ts.ecr), (40_000 + 77, 1_000));
    assert_eq!(host.input(fin), TimeWaitAction::Dropped, "not twice within half a second");
    assert_eq!(host.table.next_timer(), Instant::from_millis(100_000));
    // the FIN may also follow data; an old duplicate, detected by its timestamp, does not extend
    // the time
    host.pass(10_000);
    let whole = Segment { len: 10, ..seg(Flags::FIN | Flags::ACK, RCV.minus(11), Some(1_500)) };
    assert!(matches!(host.input(whole), TimeWaitAction::Answer(_)));
    host.pass(10_000);
    assert!(matches!(host.input(seg(Flags::FIN | Flags::ACK, RCV.minus(1), Some(999))), TimeWaitAction::Answer(_)));
    assert_eq!(host.table.next_timer(), Instant::from_millis(110_000));
    assert_eq!(host.counted(), [("added", 1), ("fins_again", 3), ("late", 1), ("limited", 1)]);
}

#[test]
fn a_restarted_entry_does_not_delay_others() {
    let mut host = Host::new(PLAIN);
    host.insert(&ends(2), PLAIN);
    host.pass(30_000);
    assert!(matches!(host.input(seg(Flags::FIN | Flags::ACK, RCV.minus(1), None)), TimeWaitAction::Answer(_)));
    assert_eq!(host.table.next_timer(), Instant::from_millis(70_000), "the other's");
    host.pass(30_000);
    assert_eq!((host.expired(), host.table.contains(&ends(1)), host.table.contains(&ends(2))), (1, true, false));
    host.pass(30_000);
    assert_eq!((host.expired(), host.table.len()), (1, 0));
}

#[test]
fn late_segments_are_acknowledged_rate_limited_and_pure_acks_are_not() {
    let mut host = Host::new(STAMPED);
    assert_eq!(host.input(seg(Flags::ACK, RCV, Some(1_200))), TimeWaitAction::Dropped);
    let text = Segment { len: 100, ..seg(Flags::ACK, RCV.minus(500), Some(1_300)) };
    let answers = (0..10_000).filter(|_| {
        host.pass(1);
        matches!(host.input(text), TimeWaitAction::Answer(_))
    });
    let answers = answers.count();
    assert!((15..=40).contains(&answers), "{answers} answers in 10 s");
    host.pass(1_000);
    let TimeWaitAction::Answer(ack) = host.input(seg(Flags::SYN | Flags::ACK, RCV, Some(1_300))) else { panic!() };
    assert_eq!(ack.as_arriving().options.timestamps.unwrap().ecr, 1_200, "learnt from the ACK, not from the text");
}

/// RFC 6191 2, case by case: timestamps on the old connection, on the SYN, or on neither; with
/// newer and older timestamps, and higher and lower sequence numbers.
#[test]
fn a_syn_may_open_a_new_connection_by_timestamp_or_sequence_number() {
    let (higher, lower) = (RCV.plus(1), RCV.minus(1));
    for (left, seq, tsval, reusable) in [
        (STAMPED, lower, Some(1_001), true),
        (STAMPED, higher, Some(1_000), true),
        (STAMPED, lower, Some(1_000), false),
        (STAMPED, RCV, Some(1_000), false),
        (STAMPED, higher, Some(999), false),
        (STAMPED, higher, None, true),
        (STAMPED, lower, None, false),
        (PLAIN, lower, Some(1), true),
        (PLAIN, higher, None, true),
        (PLAIN, RCV, None, false),
    ] {
        let mut host = Host::new(left);
        let late = host.input(seg(Flags::SYN, seq, tsval));
        let what = format!("{:?} {seq} {tsval:?}", left.ts);
        match reusable {
            true => assert_eq!(late, TimeWaitAction::Reusable { above: SND.plus(65_537) }, "{what}"),
            false => {
                assert!(matches!(late, TimeWaitAction::Answer(out) if out.flags == Flags::ACK), "{what}: {late:?}")
            }
        }
        assert!(host.table.contains(&ends(1)), "the caller decides");
    }
    let mut host = Host::new(PLAIN);
    assert_eq!(host.input(seg(Flags::SYN | Flags::FIN, higher, None)), TimeWaitAction::Dropped);
    let cx = Context { config: &host.config, counts: &host.counts, now: host.now };
    assert!(host.table.reuse(cx, &ends(1)) && !host.table.reuse(cx, &ends(1)));
    assert_eq!(host.counted(), [("added", 1), ("reused", 1)]);
}

#[test]
fn the_limit_holds_and_the_oldest_entry_is_evicted() {
    let mut host = Host::empty(1_000);
    for n in 0..10_000 {
        host.insert(&ends(n), PLAIN);
        host.pass(1);
    }
    assert_eq!((host.table.len(), host.counted()), (1_000, vec![("added", 10_000), ("evicted", 9_000)]));
    assert!(!host.table.contains(&ends(8_999)) && host.table.contains(&ends(9_000)));
    assert!(host.table.bytes() <= 2 * 1_000 * (64 + 20 + 4), "{}", host.table.bytes());
    host.insert(&ends(9_500), STAMPED);
    assert_eq!(host.table.len(), 1_000, "once more replaces");
    let cx = Context { config: &host.config, counts: &host.counts, now: Instant::NEVER };
    let mut over = 0;
    assert!(host.table.on_timer(cx, 100, |_| over += 1));
    assert_eq!(over, 100);
    host.now = Instant::NEVER;
    assert_eq!(host.expired(), 900);
    assert!(host.table.is_empty());
}

/// Returns a Tcb in TIME-WAIT that closed first.
fn over(config: &Arc<Config>, now: Instant) -> Tcb {
    let (mut here, mut peer) = (Tcb::connect(config, SeqNum(u32::MAX - 9), 7, now), None);
    for round in 0..6 {
        while let Some(out) = here.poll_segment(now, 0) {
            let seg = out.as_arriving();
            peer.get_or_insert_with(|| Tcb::accept(config, SeqNum(77), 9, &seg, now)).on_segment(&seg, now);
        }
        let peer = peer.as_mut().unwrap();
        while let Some(out) = peer.poll_segment(now, 0) {
            here.on_segment(&out.as_arriving(), now);
        }
        match round {
            1 => assert!(!here.close(now).over),
            2 => assert!(!peer.close(now).over),
            _ => {}
        }
    }
    assert_eq!(here.state(), State::TimeWait);
    here
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// The entry replies as the Tcb would.
    #[test]
    fn behaves_like_the_tcb_that_it_replaces(
        flags in prop_oneof![Just(0x10u8), Just(0x11), Just(0x02), Just(0x04), any::<u8>()],
        seq in prop_oneof![0..3u32, (0..3u32).prop_map(u32::wrapping_neg), any::<u32>()],
        len in prop_oneof![Just(0), Just(1u32), 0..70_000u32],
        tsval in prop_oneof![Just(None), (0..3u32).prop_map(Some), any::<u32>().prop_map(Some)],
    ) {
        let (config, now) = (Arc::new(Config::default()), Instant::from_millis(10_000));
        let mut tcb = over(&config, now);
        let left = tcb.remains().unwrap();
        let mut host = Host::new(left);
        let recent = left.ts.unwrap().recent;
        let timestamps = tsval.map(|val| Timestamps { val: recent.wrapping_add(val).wrapping_sub(1), ecr: 0 });
        let flags = Flags(flags);
        let seg = Segment {
            seq: left.rcv_nxt.plus(seq),
            ack: left.snd_nxt,
            flags,
            len,
            options: SegmentOptions { timestamps, ..Default::default() },
            ..Default::default()
        };
        // The two differ in two cases. With an equal timestamp the entry decides by the sequence
        // number (RFC 6191 2). The entry drops a segment without ACK, whatever else it contains
        // (RFC 9293 3.10.7.4, fifth).
        prop_assume!(flags.intersects(Flags::SYN | Flags::ACK | Flags::RST));
        let is_syn = flags.contains(Flags::SYN) && !flags.intersects(Flags::ACK | Flags::RST);
        prop_assume!(!(is_syn && timestamps.is_some_and(|ts| ts.val == recent)));
        let later = now.after(Duration::from_secs(5));
        host.now = later;
        let late = host.input(seg);
        let reply = tcb.on_segment(&seg, later);
        let answer = reply.answer.or_else(|| tcb.poll_segment(later, 0));
        match late {
            TimeWaitAction::Reusable { .. } => prop_assert!(reply.events.contains(crate::Events::REUSABLE)),
            // the Tcb adds a D-SACK for data; the entry does not store whether SACK was negotiated
            TimeWaitAction::Answer(out) => {
                let like = |it: Out| Out { mss: 0, options: if len > 0 { OutOptions::NONE } else { it.options }, ..it };
                prop_assert_eq!(Some(like(out)), answer.map(like), "{:?}", reply);
            }
            TimeWaitAction::Dropped => prop_assert_eq!(answer, None, "{:?}", reply),
            TimeWaitAction::Unknown => prop_assert!(false),
        }
        if flags.contains(Flags::FIN) {
            prop_assert_eq!(host.table.next_timer(), tcb.next_timer());
        }
    }
}
