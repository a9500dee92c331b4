//! Fuzz target that checks invariants of reassembly for arbitrary sequences of fragments and time
//! steps. It is run by the tests and by `cargo xtask fuzz`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken invariant must panic; this module is built for tests and fuzzing only"
)]

use super::{Expired, Limits, Outcome, Reassembly, Share};
use crate::ip4::frag::fragment;
use buf::{Flags, Frame, Pool, PoolConfig};
use clock::{Duration, Instant};
use stats::DropReason;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use wire::Proto;
use wire::ip4::{HEADER_LEN, Header, fill_checksum, header_checksum_ok};

/// A reassembly that checks and counts every result.
pub(super) struct Checked {
    pub(super) reassembly: Reassembly,
    pub(super) now: Instant,
    pub(super) packets: Vec<Frame>,
    /// IP headers of the first fragments that timed out.
    pub(super) time_exceeded: Vec<Header>,
    ends: HashMap<DropReason, u64>,
    entered: u64,
    completed: u64,
    limits: Limits,
}

impl Checked {
    pub(super) fn new(limits: Limits) -> Checked {
        Checked {
            reassembly: Reassembly::new(limits.clone(), 7),
            now: Instant::from_millis(1),
            packets: Vec::new(),
            time_exceeded: Vec::new(),
            ends: HashMap::new(),
            entered: 0,
            completed: 0,
            limits,
        }
    }

    /// Returns the number of frames dropped with the reason `why` so far.
    #[cfg(test)]
    pub(super) fn ended(&self, why: DropReason) -> u64 {
        self.ends.get(&why).copied().unwrap_or(0)
    }

    /// Processes a packet; returns the reason if this frame was dropped.
    pub(super) fn input(&mut self, frame: Frame) -> Option<DropReason> {
        let header = Header::parse(frame.bytes()).ok()?;
        self.entered += 1;
        let ends = &mut self.ends;
        let outcome = self.reassembly.input(&header, frame, self.now, &mut |_, why| *ends.entry(why).or_default() += 1);
        let dropped = match outcome {
            Outcome::Held => None,
            Outcome::Dropped(_, why) => {
                *self.ends.entry(why).or_default() += 1;
                Some(why)
            }
            Outcome::Complete(whole) => {
                check_whole(&whole, header.is_fragment());
                self.completed += 1;
                self.packets.push(whole);
                None
            }
        };
        self.check();
        dropped
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        let (ends, exceeded) = (&mut self.ends, &mut self.time_exceeded);
        self.reassembly.expire(self.now, &mut |expired| {
            *ends.entry(DropReason::FragTimeout).or_default() += 1;
            if let Expired::First(frame) = expired {
                exceeded.push(Header::parse(frame.bytes()).unwrap());
            }
        });
        assert!(self.reassembly.next_deadline().is_none_or(|at| at > self.now), "expire left something overdue");
        self.check();
    }

    pub(super) fn end_all(&mut self) {
        let ends = &mut self.ends;
        self.reassembly.end_all(DropReason::Shutdown, &mut |_, why| *ends.entry(why).or_default() += 1);
        assert_eq!((self.reassembly.held(), self.reassembly.bytes(), self.reassembly.datagrams()), (0, 0, 0));
        self.check();
    }

    /// Checks that frames received = reassembled + held + dropped, and that no limit is exceeded.
    fn check(&self) {
        let (r, ended) = (&self.reassembly, self.ends.values().sum::<u64>());
        assert_eq!(self.entered, self.completed + r.held() as u64 + ended, "a frame is lost or counted twice");
        assert!(r.bytes() <= self.limits.bytes, "{} bytes held", r.bytes());
        assert!(r.datagrams() <= self.limits.datagrams.max(1), "{} datagrams", r.datagrams());
        assert_eq!(r.next_deadline().is_none(), r.datagrams() == 0);
        assert!(r.held() == 0 || r.datagrams() > 0);
        assert!(r.bytes() >= r.held() * 64 && (r.held() > 0 || r.bytes() == 0));
        // The derived tables agree with the main one.
        assert_eq!(r.ages.len(), r.table.len());
        let of_addresses = || r.sources.iter().filter(|(share, _)| matches!(share, Share::Address(_)));
        assert_eq!(of_addresses().map(|(_, source)| source.ages.len()).sum::<usize>(), r.table.len());
        assert_eq!(of_addresses().map(|(_, source)| source.bytes).sum::<usize>(), r.bytes);
        for (share, source) in &r.sources {
            let (datagrams, bytes) = r.limits_of(*share);
            assert!(source.ages.len() <= datagrams && source.bytes <= bytes);
        }
    }
}

fn check_whole(whole: &Frame, was_cut: bool) {
    let header = Header::parse(whole.bytes()).unwrap();
    assert!(!header.is_fragment());
    if was_cut {
        assert!(header_checksum_ok(whole.bytes(), header.ihl_len));
        assert_eq!(usize::from(header.total_len), whole.len());
        assert_eq!(whole.l3_bytes(), whole.bytes());
        assert!(!whole.flags().has(Flags::RX_L4_OK));
    }
}

/// Content of a fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) src: u8,
    pub(super) id: u16,
    pub(super) proto: Proto,
    pub(super) off: u16,
    pub(super) len: usize,
    pub(super) mf: bool,
    pub(super) tos: u8,
    /// Number of 4-byte words of options (No Operation) in the header.
    pub(super) options: u8,
    /// Value added to every payload byte.
    pub(super) salt: u8,
}

impl Spec {
    #[cfg(test)]
    pub(super) const UDP: Spec =
        Spec { src: 1, id: 1, proto: Proto::UDP, off: 0, len: 8, mf: true, tos: 0, options: 0, salt: 0 };

    pub(super) fn frame(self, pool: &Pool) -> Option<Frame> {
        let ihl_len = HEADER_LEN + 4 * usize::from(self.options.min(10));
        let header = Header {
            ihl_len,
            tos: self.tos,
            total_len: (ihl_len + self.len) as u16,
            id: self.id,
            df: false,
            mf: self.mf,
            frag_off: self.off & !7,
            ..Header::new(Ipv4Addr::new(10, 0, 0, self.src), Ipv4Addr::new(10, 0, 0, 99), self.proto, 0).unwrap()
        };
        let mut frame = pool.get()?;
        frame.set_flags(Flags::LINK_BROADCAST.with(Flags::RX_L4_OK));
        let bytes = frame.append(ihl_len + self.len)?;
        header.emit(bytes.first_chunk_mut().unwrap());
        bytes[HEADER_LEN..ihl_len].fill(1);
        fill_checksum(&mut bytes[..ihl_len]);
        for (at, byte) in bytes[ihl_len..].iter_mut().enumerate() {
            *byte = pattern(&header, usize::from(header.frag_off) + at).wrapping_add(self.salt);
        }
        Some(frame)
    }
}

/// Returns the byte at offset `at` of the test datagram to which `header` belongs.
pub(super) fn pattern(header: &Header, at: usize) -> u8 {
    let who = usize::from(header.id) * 31 + usize::from(header.src.octets()[3]) * 7 + usize::from(header.proto.0);
    (at.wrapping_mul(0x9e37_79b1).wrapping_add(who) >> 3) as u8
}

/// `inet_reass` of `cargo xtask fuzz`: `data` describes a sequence of fragments, time steps and
/// interruptions.
///
/// Invariants: no panic, every frame ends once, no limit is exceeded, and a reassembled packet
/// equals the original.
pub fn fuzz(data: &[u8]) {
    let config = PoolConfig { buffers: 128, ..PoolConfig::default() };
    let pool = Pool::new(&config).unwrap();
    let large = PoolConfig { buffers: 2, data: 1 << 16, ..config };
    let mut checked = Checked::new(Limits {
        datagrams: 8,
        per_source: 4,
        bytes: 100_000,
        bytes_per_source: 60_000,
        fragments_per_datagram: 24,
        timeout: Duration::from_secs(60),
        large,
    });
    let mut honest = true; // all bytes sent so far follow the pattern
    let mut rest = data;
    while let Some((&[op, a, b, c, d, e], after)) = rest.split_first_chunk() {
        rest = after;
        let proto = if a & 0x10 == 0 { Proto::UDP } else { Proto::TCP };
        let spec = Spec {
            src: a & 3,
            id: u16::from(a >> 2 & 3),
            proto,
            off: u16::from_be_bytes([b, c]),
            len: usize::from(d) * if e & 0x10 == 0 { 8 } else { 1 },
            mf: e & 1 != 0,
            tos: e >> 1 & 3,
            options: if e & 8 == 0 { 0 } else { e >> 5 },
            salt: 0,
        };
        match op % 8 {
            // Small offsets, so that fragments are adjacent or overlap.
            0..=3 => drop(Spec { off: spec.off & 0xff8, ..spec }.frame(&pool).and_then(|frame| checked.input(frame))),
            4 => drop(spec.frame(&pool).and_then(|frame| checked.input(frame))),
            5 => checked.pass(Duration::from_millis(u64::from(u16::from_be_bytes([b, c])))),
            6 => {
                let (raw, after) = rest.split_at(rest.len().min(usize::from(d)));
                rest = after;
                honest = false;
                if let Some(mut frame) = pool.get() {
                    frame.extend(raw).unwrap();
                    checked.input(frame);
                }
            }
            _ if op & 0xf8 == 0xf8 => checked.end_all(),
            _ => cut_and_shuffle(&mut checked, &pool, Spec { len: usize::from(d) * 7, ..spec }, b, c),
        }
        for whole in checked.packets.drain(..) {
            let header = Header::parse(whole.bytes()).unwrap();
            let payload = header.payload(whole.bytes());
            assert!(!honest || payload.iter().enumerate().all(|(at, &byte)| byte == pattern(&header, at)));
        }
    }
    checked.pass(Duration::from_secs(61));
    assert_eq!((checked.reassembly.held(), checked.reassembly.datagrams()), (0, 0));
    drop(checked);
    assert_eq!(pool.stats().live(), 0, "a frame was kept or leaked");
}

/// Fragments a packet with `frag` and processes the fragments in another order: cyclically,
/// starting with number `from`, in steps of `step`.
fn cut_and_shuffle(checked: &mut Checked, pool: &Pool, spec: Spec, from: u8, step: u8) {
    let Some(packet) = (Spec { off: 0, mf: false, ..spec }).frame(pool) else { return };
    let header = Header::parse(packet.bytes()).unwrap();
    let mtu = header.ihl_len + 8 + usize::from(step);
    let mut fragments = Vec::new();
    match fragment(packet, &header, mtu, pool, &mut |frame| fragments.push(Some(frame))) {
        Ok(_) => {}
        Err(_) => assert!(fragments.is_empty(), "all or none"),
    }
    let n = fragments.len();
    for turn in 0..n {
        let at = (usize::from(from) + turn * (usize::from(step) | 1)) % n;
        // If the step and n have a common divisor, some positions repeat. The next fragment that
        // was not yet processed is used then.
        let at = (at..n).chain(0..at).find(|&at| fragments[at].is_some());
        checked.input(at.and_then(|at| fragments[at].take()).unwrap());
    }
}
