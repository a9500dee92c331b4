//! Fuzz targets and their invariants: two connections joined by a link, segments from strangers at
//! a listener and at TIME-WAIT entries, and option parsing.
//!
//! Input bytes are decoded as steps: an application call; a segment that is delivered, lost,
//! duplicated or altered; a forged segment; or the passage of time. After each step, nothing has
//! panicked, `check_invariants` passes for both ends, no more bytes are released than were queued,
//! and output has come to an end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken invariant is to panic here; built for tests and fuzzing only"
)]

use crate::counters::Counters;
use crate::listen::{self, Answer, CookieMode, Limits, Listener};
use crate::siphash::Key;
use crate::time_wait::{self, TimeWaitAction, TimeWaitTable};
use crate::{
    Block, Blocks, Config, Ecn, EcnMode, Ends, IcmpNotice, Out, Segment, SegmentOptions, SeqNum, Tcb, Text, Timestamps,
};
use clock::{Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;
use wire::L4Port;
use wire::tcp::Flags;

/// Maximum number of segments in flight on the link; further segments are lost.
const WIRE: usize = 64;
/// Maximum number of steps of one input.
const STEPS: usize = 4000;
/// Maximum number of segments sent at once, for one window.
const AT_ONCE: usize = 5000;

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn word(&mut self) -> u32 {
        (0..4).fold(0, |word, _| word << 8 | u32::from(self.byte().unwrap_or(0)))
    }
}

struct Two {
    tcbs: [Tcb; 2],
    wire: [VecDeque<Segment>; 2],
    now: Instant,
}

/// Fuzzes a pair of connections with `data`.
pub fn pair(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = bytes.byte().unwrap_or(0);
    let config = Arc::new(Config {
        sack: choice & 1 == 0,
        timestamps: choice & 2 == 0,
        window_scaling: choice & 4 == 0,
        ecn: if choice & 8 == 0 { EcnMode::Off } else { EcnMode::On },
        mtu_probing: choice & 16 != 0,
        recv_space: if choice & 32 == 0 { 65_535 } else { 3000 },
        reassembly_ranges: if choice & 64 == 0 { 1024 } else { 3 },
        ..Config::default()
    });
    let now = Instant::from_millis(5000);
    let first = SeqNum(bytes.word());
    let mut client = Tcb::connect(&config, first, bytes.word(), now);
    let syn = client.poll_segment(now, 0).expect("a SYN").as_arriving();
    let server = if choice & 128 == 0 {
        Tcb::accept(&config, first.plus(1 << 31), 7, &syn, now)
    } else {
        Tcb::connect(&config, first.plus(1 << 31), 7, now)
    };
    let mut two = Two { tcbs: [client, server], wire: [VecDeque::new(), VecDeque::from([syn])], now };
    for _ in 0..STEPS {
        let Some(step) = bytes.byte() else { break };
        two.step(step, &mut bytes);
        if two.tcbs.iter().all(|tcb| tcb.state() == crate::State::Closed) {
            break;
        }
    }
}

impl Two {
    fn step(&mut self, step: u8, bytes: &mut Bytes<'_>) {
        let which = usize::from(step & 1);
        match (step >> 1) % 16 {
            0..=4 => self.deliver(which, None),
            5 => drop(self.wire[which].pop_front()),
            6 => {
                let copy = self.wire[which].front().copied();
                self.wire[which].extend(copy);
            }
            7 => self.wire[which].rotate_left(1.min(self.wire[which].len())),
            8 => self.deliver(which, Some((bytes.byte().unwrap_or(0), bytes.word()))),
            9 => {
                let made_up = self.make_up(which, bytes);
                self.arrive(which, &made_up);
            }
            10 => {
                let next = self.tcbs.iter().map(Tcb::next_timer).min().unwrap_or(self.now);
                if next != Instant::NEVER {
                    self.now = self.now.max(next);
                }
            }
            11 => self.now = self.now.after(Duration::from_micros(u64::from(bytes.word() >> 8))),
            12 => self.tcbs[which].queued(u32::from(bytes.byte().unwrap_or(0)) * 200, step & 32 == 0),
            13 => {
                let unread = self.tcbs[which].unread();
                self.tcbs[which].consumed(unread, self.now);
            }
            _ => self.call(which, bytes.byte().unwrap_or(0)),
        }
        self.run();
    }

    fn call(&mut self, which: usize, what: u8) {
        let (tcb, now) = (&mut self.tcbs[which], self.now);
        match what % 16 {
            // Rarely: otherwise most inputs would end the connection early.
            0 if what == 0 => tcb.shutdown_send(now),
            1 if what == 1 => drop(tcb.close(now)),
            2 if what == 2 => drop(tcb.abort(now)),
            3 => tcb.set_nodelay(what & 16 == 0),
            4 => tcb.set_cork(what & 16 == 0),
            5 => tcb.queued_urgent(u32::from(what >> 4)),
            6 => tcb.set_pacing(what & 16 == 0, Some(u64::from(what) << 8)),
            7 => tcb.set_keepalive(what & 16 == 0, None, now),
            8 => tcb.set_recv_space(u32::from(what) * 500, true),
            9 => drop(tcb.renege()),
            10 => drop(tcb.on_icmp(IcmpNotice::TooBig { mss: u16::from(what) * 8 }, tcb.snd_una(), now)),
            11 => tcb.set_user_timeout((what & 16 == 0).then_some(Duration::from_millis(u64::from(what) * 10))),
            12 => tcb.set_quickack(what & 16 == 0),
            13 => tcb.set_maxseg(u16::from(what) * 10),
            14 => tcb.release_memory(),
            _ => drop(tcb.info(now)),
        }
    }

    fn deliver(&mut self, which: usize, change: Option<(u8, u32)>) {
        let Some(mut seg) = self.wire[which].pop_front() else { return };
        match change {
            Some((0..=63, by)) => seg.seq = seg.seq.plus(by),
            Some((64..=127, by)) => seg.ack = seg.ack.plus(by),
            Some((128..=159, by)) => seg.window = by as u16,
            Some((160..=191, by)) => seg.flags = Flags(by as u8),
            Some((192..=223, by)) => seg.len = by % 70_000,
            Some((_, by)) => seg.ecn = Ecn::from_bits(by as u8),
            None => {}
        }
        self.arrive(which, &seg);
    }

    fn make_up(&self, which: usize, bytes: &mut Bytes<'_>) -> Segment {
        let tcb = &self.tcbs[which];
        let shape = bytes.byte().unwrap_or(0);
        let (seq, ack) =
            (tcb.rcv_nxt().plus(bytes.word() >> (shape & 31)), tcb.snd_nxt().minus(bytes.word() >> (shape & 31)));
        let mut options = SegmentOptions::default();
        if shape & 32 != 0 {
            options.timestamps = Some(Timestamps { val: bytes.word(), ecr: bytes.word() });
        }
        if shape & 64 != 0 {
            let left = tcb.snd_una().plus(bytes.word() >> 16);
            let right = left.plus(bytes.word() >> 16);
            options.sack =
                Blocks::new([Block { left, right }, Block { left: right.plus(1460), right: right.plus(2920) }]);
        }
        let mut flags = Flags(bytes.byte().unwrap_or(0x10));
        if shape < 224 {
            flags.0 &= !Flags::RST.0; // rarely: otherwise most inputs would end early
        }
        let (window, urgent) = (bytes.word() as u16, u16::from(shape));
        Segment { seq, ack, flags, window, urgent, len: bytes.word() >> 16, gso_size: 0, options, ecn: Ecn::NotEct }
    }

    fn arrive(&mut self, which: usize, seg: &Segment) {
        let queue = self.tcbs[which].send_queue();
        let reply = self.tcbs[which].on_segment_either_way(seg, self.now);
        assert!(reply.acked <= queue, "no more is released than was queued");
        if let Text::Accept { skip, len, .. } = reply.text {
            assert!(len > 0 && skip.checked_add(len).is_some_and(|end| end <= seg.len), "within the text");
        }
        if let Some(out) = reply.answer {
            self.send(1 - which, out.as_arriving());
        }
    }

    fn send(&mut self, to: usize, seg: Segment) {
        if self.wire[to].len() < WIRE {
            self.wire[to].push_back(seg);
        }
    }

    /// Runs the timers that are due and sends all segments that may be sent.
    fn run(&mut self) {
        for which in 0..2 {
            self.tcbs[which].check_invariants();
            if self.tcbs[which].next_timer() <= self.now {
                self.tcbs[which].on_timer(self.now);
                self.tcbs[which].check_invariants();
            }
            for sent in 0..=AT_ONCE {
                let Some(out) = self.tcbs[which].poll_segment_either_way(self.now, 0) else { break };
                assert!(sent < AT_ONCE, "endless output");
                self.send(1 - which, out.as_arriving());
            }
            self.tcbs[which].check_invariants();
        }
    }
}

/// Number of a listener's peers. It is small, so that later segments match earlier handshakes.
const PEERS: u8 = 4;

/// Fuzzes a listener and a TIME-WAIT table with segments from unknown peers, in the order in which
/// a host consults the two.
///
/// After each step, no table exceeds its limit, no RST is answered with a RST, an established
/// handshake yields a valid connection, and a timer is set only while something waits.
pub fn strangers(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = bytes.byte().unwrap_or(0);
    let config = Config { sack: choice & 1 == 0, timestamps: choice & 2 == 0, ..Config::default() };
    let config = Arc::new(Config { ecn: if choice & 4 == 0 { EcnMode::Off } else { EcnMode::On }, ..config });
    let cookies = [CookieMode::Never, CookieMode::WhenFull, CookieMode::Always][usize::from(choice >> 3) % 3];
    let limits = Limits { backlog: 2, syn_queue: 3, cookies };
    let secret = Key(bytes.word().into(), 7);
    let (mut listener, mut late) = (Listener::new(limits, secret), TimeWaitTable::new(3, secret));
    let counts = Counters::default();
    let mut now = Instant::from_millis(5000);
    let mut last = [SeqNum(0); PEERS as usize]; // sequence number of our last reply to each peer
    for _ in 0..STEPS {
        let Some(step) = bytes.byte() else { break };
        let peer = step % PEERS;
        let remote_port = L4Port(4000 + u16::from(peer));
        let ends = Ends { local: 1, remote: 2, local_port: L4Port(80), remote_port };
        match step / PEERS % 8 {
            0 => now = now.after(Duration::from_millis(u64::from(bytes.word() >> 12))),
            1 => listener.on_accepted(),
            2 => listener.rotate_cookies(Key(bytes.word().into(), 8), now),
            3 => {
                let next = listener.next_timer().min(late.next_timer());
                now = if next == Instant::NEVER { now } else { now.max(next) };
                let context = listen::Context { config: &config, counts: &counts.listen, now, above: None };
                listener.on_timer(context, 100, |_| &config, |_, _| ());
                late.on_timer(time_wait::Context { config: &config, counts: &counts.time_wait, now }, 100, |_| ());
            }
            _ => {
                let seg = foreign(&mut bytes, last[usize::from(peer)]);
                let answer = ask(&mut listener, &mut late, (&config, &counts, now), &ends, &seg);
                if let Some(out) = answer {
                    last[usize::from(peer)] = out.seq;
                    assert!(!(seg.has(Flags::RST) && out.flags.contains(Flags::RST)), "a RST answers a RST");
                }
            }
        }
        assert!(listener.embryonic() <= 3 && listener.ready() <= 3 && late.len() <= 3);
        assert_eq!(listener.next_timer() == Instant::NEVER, listener.embryonic() == 0);
        assert_eq!(late.next_timer() == Instant::NEVER, late.is_empty());
    }
}

/// Builds a segment from the bytes. Depending on them, it acknowledges `ours`, our last sequence
/// number, or a random number.
fn foreign(bytes: &mut Bytes<'_>, ours: SeqNum) -> Segment {
    let flags = Flags(bytes.byte().unwrap_or(2));
    let (near, seq) = (bytes.byte().unwrap_or(0), SeqNum(bytes.word() >> 24));
    let ack = if near & 1 == 0 { ours.plus(1 + u32::from(near >> 6)) } else { SeqNum(bytes.word()) };
    let raw: Vec<u8> = (0..near & 31).filter_map(|_| bytes.byte()).collect();
    let options = SegmentOptions::parse_bytes(&raw);
    Segment { seq, ack, flags, window: 1000, len: u32::from(near & 2), options, ..Segment::default() }
}

/// Passes a segment to the TIME-WAIT table first and then to the listener, as a host does.
fn ask(
    listener: &mut Listener,
    late: &mut TimeWaitTable,
    (config, counts, now): (&Arc<Config>, &Counters, Instant),
    ends: &Ends,
    seg: &Segment,
) -> Option<Out> {
    let context = time_wait::Context { config, counts: &counts.time_wait, now };
    let above = match late.on_segment(context, ends, seg) {
        TimeWaitAction::Unknown => None,
        TimeWaitAction::Reusable { above } => {
            assert!(late.reuse(context, ends), "it is there to be reused");
            Some(above)
        }
        TimeWaitAction::Answer(out) => return Some(out),
        TimeWaitAction::Dropped => return None,
    };
    let context = listen::Context { config, counts: &counts.listen, now, above };
    match listener.on_segment(context, ends, seg) {
        Answer::SynAck(out) | Answer::Refuse(out, _) => Some(out),
        Answer::Dropped(_) => None,
        Answer::Established(done) => {
            let mut tcb = Tcb::from_handshake(config, &done, now);
            tcb.check_invariants();
            tcb.on_segment(seg, now);
            // Both sides close: from here on the connection is in TIME-WAIT.
            tcb.close(now);
            while tcb.poll_segment(now, 0).is_some() {}
            let fin = Segment { seq: tcb.rcv_nxt(), ack: tcb.snd_nxt(), flags: Flags::FIN | Flags::ACK, ..*seg };
            tcb.on_segment(&Segment { len: 0, options: SegmentOptions::default(), ..fin }, now);
            if let Some(left) = tcb.remains() {
                late.insert(time_wait::Context { config, counts: &counts.time_wait, now }, ends, &left);
            }
            None
        }
    }
}

/// Fuzzes option parsing: nothing is read beyond the end, and the results are plausible.
pub fn options(data: &[u8]) {
    let data = data.get(..data.len().min(40)).unwrap_or_default();
    let read = SegmentOptions::parse_bytes(data);
    assert!(read.window_scale.is_none_or(|_| data.len() >= 3) && read.mss.is_none_or(|_| data.len() >= 4));
    assert!(read.timestamps.is_none_or(|_| data.len() >= 10));
    assert!(read.sack.as_slice().len() * 8 + 2 <= data.len().max(2));
    // A fast path parses the aligned timestamps of nearly every segment.
    let mut moved = vec![1; 4];
    moved.extend_from_slice(data.get(..data.len().min(36)).unwrap_or_default());
    if data.len() <= 36 {
        assert_eq!(SegmentOptions::parse_bytes(&moved), read, "NOPs in front change nothing");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::pair::Chance;
    use std::path::PathBuf;

    fn corpus(target: &str) -> Vec<Vec<u8>> {
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        std::fs::read_dir(dir)
            .expect("the corpus")
            .map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a file"))
            .collect()
    }

    #[test]
    fn the_corpus_breaks_no_invariant() {
        type Target = fn(&[u8]);
        for (name, target) in [("tcp_pair", pair as Target), ("tcp_strangers", strangers), ("tcp_options", options)] {
            let corpus = corpus(name);
            assert!(!corpus.is_empty(), "{name}");
            corpus.iter().for_each(|data| target(data));
        }
    }

    #[test]
    fn random_bytes_break_no_invariant() {
        for seed in 0..400 {
            let mut chance = Chance(seed);
            let data: Vec<u8> = (0..chance.below(3000)).map(|_| chance.next() as u8).collect();
            pair(&data);
            strangers(&data);
            options(&data);
        }
    }
}
