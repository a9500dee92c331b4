//! Two Tcbs connected by a link that loses, delays, reorders and duplicates segments. Streams are
//! modelled by their offsets: data delivered in order equals data queued. Each seed gives one
//! reproducible run.

use crate::cc::Algorithm;
use crate::{Config, EcnMode, Events, Out, Segment, SeqNum, State, Tcb, Text};
use clock::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::tcp::Flags;

/// Random number generator (splitmix64).
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub fn percent(&mut self, p: u64) -> bool {
        self.below(100) < p
    }
}

/// Properties of the link.
#[derive(Clone, Debug)]
pub struct Link {
    pub loss: u64,
    pub burst_loss: u64,
    pub duplicate: u64,
    pub reorder: u64,
    pub delay_us: u64,
    pub mark: u64,
    /// Interval in which no segment passes; `None` without such an interval.
    pub dark: Option<(Instant, Instant)>,
    /// Maximum data length of a segment; larger segments are lost.
    pub mss: u32,
}

struct Flight {
    to: usize,
    segment: Segment,
    /// Offset of the segment's data in the sender's stream.
    offset: u64,
}

/// One host, with its stream positions.
pub struct End {
    pub tcb: Tcb,
    /// Number of bytes to queue in total, queued so far, and released.
    pub total: u64,
    pub queued: u64,
    pub released: u64,
    /// Number of bytes delivered in order, and read.
    pub delivered: u64,
    pub read: u64,
    held: BTreeMap<u64, u64>,
    pub closed: bool,
    pub seen: Events,
    max_text: u32,
    write_chunk: u64,
    read_chunk: u64,
    closes: bool,
}

pub struct Pair {
    pub ends: [End; 2],
    wire: BTreeMap<(Instant, u64), Flight>,
    pub link: Link,
    pub chance: Chance,
    pub now: Instant,
    serial: u64,
    lossy_until: Instant,
    pub events: u64,
    pub sent: u64,
    seed: u64,
}

impl End {
    fn new(tcb: Tcb, total: u64, chance: &mut Chance) -> End {
        let max_text = if chance.percent(50) { 0 } else { 65_535 };
        let large = if chance.percent(50) { 30_000 } else { 2000 };
        let write_chunk = 1 + chance.below(large);
        let read_chunk = 1 + chance.below(100_000);
        End {
            tcb,
            total,
            queued: 0,
            released: 0,
            delivered: 0,
            read: 0,
            held: BTreeMap::new(),
            closed: false,
            seen: Events::NONE,
            max_text,
            write_chunk,
            read_chunk,
            closes: true,
        }
    }

    fn take(&mut self, flight: &Flight, now: Instant) -> Option<Out> {
        let was = self.tcb.rcv_nxt();
        let reply = self.tcb.on_segment_either_way(&flight.segment, now);
        self.seen |= reply.events;
        self.released += u64::from(reply.acked);
        assert!(self.released <= self.queued);
        if let Text::Accept { skip, len, at } = reply.text {
            assert!(len > 0 && skip + len <= flight.segment.len, "within the text");
            // The main check: the core assigns each byte of the stream to its position.
            assert_eq!(flight.offset + u64::from(skip), self.delivered + u64::from(at), "text lies where it belongs");
            hold(&mut self.held, self.delivered + u64::from(at), u64::from(len));
        }
        if reply.in_order > 0 {
            let to = self.delivered + u64::from(reply.in_order);
            let (&start, &end) = self.held.range(..=self.delivered).next_back().expect("text in order is held");
            assert!(start <= self.delivered && end >= to, "all of what is said to be in order is held");
            self.held.remove(&start);
            if end > to {
                self.held.insert(to, end);
            }
            self.delivered = to;
            assert!(self.tcb.rcv_nxt().since(was) >= reply.in_order);
        }
        reply.answer
    }

    /// Acts as the application: writes, reads, closes.
    fn work(&mut self, now: Instant, eager: bool) {
        let room = 60_000u64.saturating_sub(self.queued - self.released);
        let n = self.write_chunk.min(room).min(self.total - self.queued);
        if n > 0 && self.tcb.state().may_queue() {
            self.tcb.queued(n as u32, true);
            self.queued += n;
        }
        let unread = self.delivered - self.read;
        let n = if eager { unread } else { unread.min(self.read_chunk) };
        if n > 0 {
            self.read += n;
            if let Some(space) = self.tcb.consumed(n as u32, now) {
                assert!(space > self.tcb.recv_space());
                self.tcb.set_recv_space(space, true);
            }
        }
        if self.closes && self.queued == self.total && !self.closed && self.tcb.state() != State::SynSent {
            self.closed = true;
            self.tcb.shutdown_send(now);
        }
    }
}

fn hold(held: &mut BTreeMap<u64, u64>, at: u64, len: u64) {
    let (mut start, mut end) = (at, at + len);
    let touching: Vec<u64> = held.range(..=end).rev().take_while(|(_, e)| **e >= start).map(|(s, _)| *s).collect();
    for s in touching {
        let e = held.remove(&s).unwrap();
        (start, end) = (start.min(s), end.max(e));
    }
    held.insert(start, end);
}

/// Draws the configuration of a connection from the seed.
fn config(chance: &mut Chance) -> Arc<Config> {
    let space = [4000, 20_000, 65_535, 1 << 20][chance.below(4) as usize];
    Arc::new(Config {
        mss: [536, 1000, 1460, 8960][chance.below(4) as usize],
        recv_space: space,
        recv_space_max: space.max([65_535, 4 << 20][chance.below(2) as usize]),
        window_scaling: chance.percent(80),
        sack: chance.percent(70),
        timestamps: chance.percent(70),
        ecn: [EcnMode::Off, EcnMode::Passive, EcnMode::On][chance.below(3) as usize],
        algorithm: [Algorithm::NewReno, Algorithm::Cubic][chance.below(2) as usize],
        mtu_probing: chance.percent(30),
        rack: chance.percent(90),
        frto: chance.percent(90),
        ..Config::default()
    })
}

impl Pair {
    /// Creates a client and a server that will each send at most `total` bytes, over a link that is
    /// drawn from the seed.
    pub fn new(seed: u64, total: u64, link: Link) -> Pair {
        let mut chance = Chance(seed);
        let (a, b) = (config(&mut chance), config(&mut chance));
        // Sequence numbers and timestamps are near their wraps, most of the time.
        let near = |chance: &mut Chance| {
            if chance.percent(70) { 0u32.wrapping_sub(chance.below(100_000) as u32) } else { chance.next() as u32 }
        };
        let now = Instant::from_millis(1000 + chance.below(1000));
        let client = Tcb::connect(&a, SeqNum(near(&mut chance)), near(&mut chance), now);
        let mut pair = Pair {
            ends: [End::new(client.clone(), 0, &mut chance), End::new(client, 0, &mut chance)],
            wire: BTreeMap::new(),
            link,
            chance,
            now,
            serial: 0,
            lossy_until: now,
            events: 0,
            sent: 0,
            seed,
        };
        for end in 0..2 {
            pair.ends[end].total = pair.chance.below(total + 1);
        }
        if pair.chance.percent(20) {
            // Both sides open at once.
            let (iss, offset) = (near(&mut pair.chance), near(&mut pair.chance));
            pair.ends[1].tcb = Tcb::connect(&b, SeqNum(iss), offset, now);
        } else {
            let syn = pair.ends[0].tcb.poll_segment(now, 0).expect("a SYN");
            let (iss, offset) = (near(&mut pair.chance), near(&mut pair.chance));
            pair.ends[1].tcb = Tcb::accept(&b, SeqNum(iss), offset, &syn.as_arriving(), now);
        }
        for end in &mut pair.ends {
            if pair.chance.percent(40) {
                end.tcb.set_nodelay(true);
            }
            if pair.chance.percent(20) {
                end.tcb.set_pacing(true, None);
            }
        }
        pair
    }

    fn send(&mut self, from: usize, out: Out) {
        assert!(out.options.len() <= 40 && out.options.len().is_multiple_of(4));
        self.sent += 1;
        let base = self.ends[from].released + u64::from(out.text_at);
        if out.text_len > 0 {
            assert!(base + u64::from(out.text_len) <= self.ends[from].queued, "text that was queued");
        }
        // Split as a port would: FIN and PSH on the last, CWR on the first.
        let pieces = (out.text_len.div_ceil(u32::from(out.mss.max(1)))).max(1);
        for piece in 0..pieces {
            let at = piece * u32::from(out.mss);
            let mut segment = out.as_arriving();
            segment.seq = out.seq.plus(at);
            segment.len = (out.text_len - at).min(if pieces > 1 { out.mss.into() } else { u32::MAX });
            if piece + 1 < pieces {
                segment.flags.0 &= !(Flags::FIN | Flags::PSH).0;
            }
            if piece > 0 {
                segment.flags.0 &= !Flags::CWR.0;
            }
            self.transmit(1 - from, segment, base + u64::from(at));
        }
    }

    fn transmit(&mut self, to: usize, mut segment: Segment, offset: u64) {
        let dark = self.link.dark.is_some_and(|(from, until)| self.now >= from && self.now < until);
        if self.now < self.lossy_until {
            return;
        }
        if self.chance.percent(self.link.burst_loss) {
            self.lossy_until = self.now.after(Duration::from_micros(self.chance.below(300_000)));
            return;
        }
        if dark || self.chance.percent(self.link.loss) || segment.len > self.link.mss {
            return;
        }
        if segment.ecn != crate::Ecn::NotEct && self.chance.percent(self.link.mark) {
            segment.ecn = crate::Ecn::Ce;
        }
        let copies = if self.chance.percent(self.link.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let mut delay = self.link.delay_us;
            if self.chance.percent(self.link.reorder) {
                delay += self.chance.below(self.link.delay_us * 3 + 1);
            }
            self.serial += 1;
            let at = self.now.after(Duration::from_micros(delay));
            self.wire.insert((at, self.serial), Flight { to, segment, offset });
        }
    }

    fn drain(&mut self, which: usize) {
        for _ in 0..100_000 {
            let max_text = self.ends[which].max_text;
            let Some(out) = self.ends[which].tcb.poll_segment_either_way(self.now, max_text) else {
                self.ends[which].tcb.check_invariants();
                return;
            };
            if self.chance.below(1000) < 2 {
                self.ends[which].tcb.on_not_sent(&out, self.now); // no buffer
            } else {
                self.send(which, out);
            }
        }
        panic!("seed {}: endless output", self.seed);
    }

    fn is_done(&self) -> bool {
        self.wire.is_empty() && self.ends.iter().all(|end| end.tcb.state() == State::Closed)
    }

    /// Runs until both ends are closed and nothing is in flight.
    pub fn run(&mut self, most_events: u64) {
        let mut work_at = self.now;
        while !self.is_done() {
            self.events += 1;
            assert!(self.events < most_events, "seed {}: no end in sight: {}", self.seed, self.describe());
            let timers = self.ends.iter().map(|end| end.tcb.next_timer()).min().unwrap();
            let arrival = self.wire.first_key_value().map_or(Instant::NEVER, |(key, _)| key.0);
            let next = timers.min(arrival).min(work_at);
            assert_ne!(next, Instant::NEVER, "seed {}: stuck: {}", self.seed, self.describe());
            self.now = self.now.max(next);
            if arrival <= self.now {
                let (_, flight) = self.wire.pop_first().unwrap();
                let to = flight.to;
                let answer = self.ends[to].take(&flight, self.now);
                self.ends[to].tcb.check_invariants();
                if let Some(out) = answer {
                    self.send(to, out);
                }
                self.drain(to);
                continue;
            }
            for which in 0..2 {
                if self.ends[which].tcb.next_timer() <= self.now {
                    let events = self.ends[which].tcb.on_timer(self.now);
                    self.ends[which].seen |= events;
                    self.ends[which].tcb.check_invariants();
                    self.drain(which);
                }
            }
            if work_at <= self.now {
                for which in 0..2 {
                    let eager = self.chance.percent(30);
                    self.ends[which].work(self.now, eager);
                    self.drain(which);
                }
                let busy =
                    self.ends.iter().any(|end| end.queued < end.total || end.read < end.delivered || !end.closed);
                let over = self.ends.iter().any(|end| end.tcb.state() == State::Closed);
                work_at = if busy && !over {
                    self.now.after(Duration::from_micros(100 + self.chance.below(20_000)))
                } else if self
                    .ends
                    .iter()
                    .any(|end| end.tcb.state() != State::Closed && end.tcb.state() != State::TimeWait)
                {
                    self.now.after(Duration::from_secs(1))
                } else {
                    Instant::NEVER
                };
            }
        }
    }

    pub fn describe(&self) -> String {
        let one = |end: &End| {
            format!(
                "{:?} queued {}/{} released {} delivered {} read {} {:?}\n{:#?}",
                end.tcb.state(),
                end.queued,
                end.total,
                end.released,
                end.delivered,
                end.read,
                end.seen,
                end.tcb
            )
        };
        format!("at {:?}\n{}\n{}", self.now, one(&self.ends[0]), one(&self.ends[1]))
    }

    /// Checks that everything queued was delivered and that both ends are finished.
    pub fn check_complete(&self) {
        for which in 0..2 {
            let (from, to) = (&self.ends[which], &self.ends[1 - which]);
            let context = || format!("seed {} end {which}: {}", self.seed, self.describe());
            assert!(!from.seen.intersects(Events::TIMED_OUT | Events::RESET | Events::REFUSED), "{}", context());
            assert_eq!(from.queued, from.total, "{}", context());
            assert_eq!(to.delivered, from.total, "{}", context());
            assert!(from.seen.contains(Events::PEER_CLOSED), "{}", context());
            assert_eq!(from.tcb.next_timer(), Instant::NEVER);
        }
    }
}

pub fn clean() -> Link {
    Link { loss: 0, burst_loss: 0, duplicate: 0, reorder: 0, delay_us: 5000, mark: 0, dark: None, mss: u32::MAX }
}

fn drawn(seed: u64) -> Link {
    let mut chance = Chance(seed ^ 0xabcd);
    let some = |chance: &mut Chance, most: u64| if chance.percent(50) { chance.below(most) } else { 0 };
    Link {
        loss: some(&mut chance, 15),
        burst_loss: some(&mut chance, 3),
        duplicate: some(&mut chance, 20),
        reorder: some(&mut chance, 50),
        delay_us: 10 + chance.below(100_000),
        mark: some(&mut chance, 20),
        dark: None,
        mss: u32::MAX,
    }
}

#[test]
fn a_clean_link_delivers_everything_without_retransmission() {
    for seed in 0..200 {
        let mut pair = Pair::new(seed, 200_000, clean());
        pair.chance = Chance(seed); // the 0.2 % of unsent segments stay
        pair.run(200_000);
        pair.check_complete();
    }
}

#[test]
fn a_bad_link_delivers_everything_in_the_end() {
    for seed in 0..2500 {
        let mut pair = Pair::new(seed, 40_000, drawn(seed));
        pair.run(400_000);
        pair.check_complete();
    }
}

#[test]
fn a_minute_without_a_link_is_survived() {
    for seed in 0..100 {
        let from = Instant::from_millis(2100);
        let dark = Some((from, from.after(Duration::from_secs(60))));
        let mut pair = Pair::new(seed, 300_000, Link { dark, ..clean() });
        pair.run(400_000);
        pair.check_complete();
    }
}

#[test]
fn a_path_that_drops_large_segments_is_survived() {
    for seed in 0..100 {
        let mut pair = Pair::new(seed, 100_000, Link { mss: 900, ..clean() });
        pair.run(400_000);
        pair.check_complete();
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| {
        let mut pair = Pair::new(seed, 50_000, drawn(seed));
        pair.run(400_000);
        (pair.now, pair.events, pair.sent)
    };
    let all: BTreeSet<_> = (0..10).map(|_| run(7)).collect();
    assert_eq!(all.len(), 1);
}

/// Timeouts would make a transfer over a link with a 20 ms round trip take seconds. RACK, PRR and
/// the tail loss probe keep it near the time that its windows require.
#[test]
fn one_percent_of_loss_costs_round_trips_and_not_timeouts() {
    let (mut took, mut resent) = (Vec::new(), 0);
    for seed in 0..20 {
        let link = Link { loss: 1, delay_us: 10_000, ..clean() };
        let mut pair = Pair::new(seed, 1, link);
        let config = Arc::new(Config::default());
        let now = pair.now;
        pair.ends[0].tcb = Tcb::connect(&config, SeqNum(seed as u32), 0, now);
        let syn = pair.ends[0].tcb.poll_segment(now, 0).expect("a SYN").as_arriving();
        pair.ends[1].tcb = Tcb::accept(&config, SeqNum(7), 0, &syn, now);
        pair.ends[0].total = 1_000_000;
        for end in &mut pair.ends {
            (end.write_chunk, end.read_chunk, end.max_text) = (60_000, 1 << 20, 0);
        }
        pair.run(200_000);
        pair.check_complete();
        took.push(pair.now.since(now).as_millis() - 60_000); // less TIME-WAIT
        resent += pair.ends[0].tcb.info(now).total_retrans;
    }
    took.sort_unstable();
    assert!(took[10] < 3000, "{took:?} ms");
    assert!(resent < 20 * 30, "{resent} retransmissions of 14,000 segments");
}
