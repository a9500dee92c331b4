//! What must hold for every byte string: two connections, a wire between them, and whatever the bytes say happens.
//!
//! Bytes are read as steps: an application call, a segment delivered, lost, doubled or altered, a segment made up, time. Holds
//! after each: no panic, `check_invariants` of both, no more released than was queued, no endless output.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken invariant is to panic here; built for tests and fuzzing only"
)]

use crate::{Block, Blocks, Config, Ecn, EcnMode, IcmpNotice, Segment, SegmentOptions, SeqNum, Tcb, Text, Timestamps};
use clock::{Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;
use wire::tcp::Flags;

/// Segments that fit on the wire; what is sent beyond is lost.
const WIRE: usize = 64;
/// Steps of one input.
const STEPS: usize = 4000;
/// Segments that may leave at once: a window of them.
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

/// Runs `data`.
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
            // Rarely, or most inputs would be short lives.
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
            flags.0 &= !Flags::RST.0; // rarely, or most inputs would be short lives
        }
        let (window, urgent) = (bytes.word() as u16, u16::from(shape));
        Segment { seq, ack, flags, window, urgent, len: bytes.word() >> 16, gso_size: 0, options, ecn: Ecn::NotEct }
    }

    fn arrive(&mut self, which: usize, seg: &Segment) {
        let queue = self.tcbs[which].send_queue();
        let reply = self.tcbs[which].on_segment(seg, self.now);
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

    /// Timers that are due, and what leaves.
    fn run(&mut self) {
        for which in 0..2 {
            self.tcbs[which].check_invariants();
            if self.tcbs[which].next_timer() <= self.now {
                self.tcbs[which].on_timer(self.now);
                self.tcbs[which].check_invariants();
            }
            for sent in 0..=AT_ONCE {
                let Some(out) = self.tcbs[which].poll_segment(self.now, 0) else { break };
                assert!(sent < AT_ONCE, "endless output");
                self.send(1 - which, out.as_arriving());
            }
            self.tcbs[which].check_invariants();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::pair::Chance;
    use std::path::PathBuf;

    fn corpus() -> Vec<Vec<u8>> {
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/tcp_pair");
        std::fs::read_dir(dir)
            .expect("the corpus")
            .map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a file"))
            .collect()
    }

    #[test]
    fn the_corpus_holds() {
        let corpus = corpus();
        assert!(!corpus.is_empty());
        corpus.iter().for_each(|data| pair(data));
    }

    #[test]
    fn random_bytes_hold() {
        for seed in 0..400 {
            let mut chance = Chance(seed);
            let data: Vec<u8> = (0..chance.below(3000)).map(|_| chance.next() as u8).collect();
            pair(&data);
        }
    }
}
