//! Bodies of the fuzz targets, which check invariants for arbitrary input bytes. The tests run them
//! too.
//!
//! `cargo xtask fuzz` runs them with the corpora under `fuzz/corpus/inet_*`. The fuzz target of
//! reassembly is in [`crate::ip4::reass`].
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken invariant must panic; this module is built for tests and fuzzing only"
)]

#[cfg(test)]
mod kept;
mod six;
mod tunnel;

pub use six::six;
pub use tunnel::tunnel;

use crate::iface::{IfaceAddr, IfaceId, Offload, Output};
use crate::raw::{RawKind, SEND_ONLY};
use crate::route::{Path, Via};
use crate::sysctls::Sysctls;
use crate::udp::{Domain, SourceChange};
use crate::{Config, Stack};
use buf::{Burst, Pool, PoolConfig};
use clock::{Duration, Instant};
use fib::Prefix;
use lock::{Cx, How, Up};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use wire::arp::{Op, Packet};
use wire::checksum::Partial;
use wire::eth::{self, EtherType};
use wire::icmp4::Problem;
use wire::{L4Port, Mac, Proto, icmp4, igmp, ip4, udp};

const EM0: IfaceId = IfaceId(1);
const SOCKETS: usize = 8;
/// Maximum number of frames on the wire from a host; further frames are lost.
const IN_FLIGHT: usize = 128;
const BUFFERS: usize = 192;
/// Maximum number of steps of one input.
const STEPS: usize = 128;
/// Number of steps between two audits of the frames. An audit reads all counters, so it is not made
/// after each step. The loss of a frame between two audits is found by the next audit.
const UNCHECKED: usize = 16;
/// Maximum number of bytes that the sockets of a host send for one input. The limit is needed
/// because a datagram of 64 KiB takes 45 frames.
const SENT: usize = 128 << 10;

thread_local! {
    /// Pools of the two hosts, reused between inputs: creating a pool maps and clears its buffers,
    /// which takes longer than most inputs. [`stack`] checks that each input has returned all
    /// buffers.
    static POOLS: [Pool; 2] =
        [0; 2].map(|_| Pool::new(&PoolConfig { buffers: BUFFERS, ..PoolConfig::default() }).unwrap());
}

type Wire = Arc<Mutex<VecDeque<Vec<u8>>>>;

struct Port(Wire);

impl Output for Port {
    fn output(&mut self, burst: &mut Burst, _: Instant) -> usize {
        let mut wire = self.0.lock().unwrap();
        let mut taken = 0;
        for frame in burst.drain() {
            taken += 1;
            check_sent(frame.bytes());
            if wire.len() < IN_FLIGHT {
                wire.push_back(frame.bytes().to_vec());
            }
        }
        taken
    }
}

/// Checks the lengths and the IPv4 checksum of a sent frame.
fn check_sent(frame: &[u8]) {
    let header = eth::Header::parse(frame).expect("a sent frame has a link header");
    assert!(header.src.is_unicast() && header.src != Mac::ZERO);
    if header.ethertype == EtherType::IPV4 {
        let packet = &frame[eth::HEADER_LEN..];
        let ip = ip4::Header::parse(packet).expect("a sent packet is complete");
        assert_eq!(packet.len(), usize::from(ip.total_len));
        assert!(ip4::header_checksum_ok(packet, ip.ihl_len));
    }
}

/// One of the two hosts of a fuzz target.
struct Side {
    stack: Stack<Up>,
    pool: Pool,
    wire: Wire,
    sockets: Vec<usize>,
    /// Number of bytes that the sockets of this host may still send.
    room: usize,
}

fn mac(host: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, host])
}

impl Side {
    fn new(host: u8, cx: Cx) -> Side {
        let pool = POOLS.with(|pools| pools[usize::from(host - 1)].clone());
        let mut config = Config { seed: Some(u64::from(host)), ..Config::new("fuzz", pool.clone()) };
        config.reassembly.large.buffers = 4;
        let stack = Stack::new(cx, config);
        let wire = Wire::default();
        assert_eq!(stack.add_iface("em0", mac(host), 1500, Offload::default()), Some(EM0));
        stack.set_output(cx, EM0, Some(Box::new(Port(Arc::clone(&wire)))));
        stack.add_addr(cx, EM0, IfaceAddr { addr: Ipv4Addr::new(10, 0, 0, host), len: 24 }).unwrap();
        Side { stack, pool, wire, sockets: Vec::new(), room: SENT }
    }

    /// Adds a mirror of the interface, whose frames are checked and lost.
    fn add_mirror(&self, cx: Cx) {
        let mirror = self.stack.add_mirror(EM0, "mirror").unwrap();
        self.stack.set_output(cx, mirror, Some(Box::new(Port(Wire::default()))));
    }

    fn inject(&self, cx: Cx, bytes: &[u8]) {
        let Some(mut frame) = self.pool.get() else { return };
        if frame.extend(bytes).is_none() {
            return;
        }
        let mut burst = Burst::new();
        assert!(burst.push(frame).is_ok());
        self.stack.input(cx, EM0, &mut burst);
        assert!(burst.is_empty());
    }

    fn check(&self, cx: Cx) {
        let imbalance = self.stack.imbalance(cx);
        assert_eq!(imbalance, 0, "{:#?}", self.stack.audit(cx));
        assert!(self.stack.neighbors(cx).len() <= self.stack.sysctls.neigh_limit.get() as usize);
    }
}

/// The part of the fuzzing input that is not yet consumed. After its end, zeros are read.
struct Tape<'a>(&'a [u8]);

impl<'a> Tape<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Returns one of a few L4 ports, so that datagrams reach sockets.
    fn l4port(&mut self) -> u16 {
        match self.byte() {
            n @ 0..=0xf7 => u16::from(n % 8),
            n => 49_152 + u16::from(n),
        }
    }

    /// Returns an IPv6 gateway, a known neighbor or one that does not answer.
    fn gateway6(&mut self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(self.byte() % 4))
    }

    fn addr(&mut self) -> Ipv4Addr {
        match self.byte() % 16 {
            0..=4 => Ipv4Addr::new(10, 0, 0, 1),
            5..=8 => Ipv4Addr::new(10, 0, 0, 2),
            9 => Ipv4Addr::new(10, 0, 0, self.byte()),
            10 => Ipv4Addr::LOCALHOST,
            11 => Ipv4Addr::new(239, 0, 0, self.byte() % 4),
            12 => Ipv4Addr::BROADCAST,
            13 => Ipv4Addr::new(224, 0, 0, 1),
            14 => Ipv4Addr::UNSPECIFIED,
            _ => Ipv4Addr::new(self.byte(), self.byte(), self.byte(), self.byte()),
        }
    }

    /// Returns a prefix length of 0 or from 12 to 32. Lengths from 1 to 11 are avoided: these
    /// prefixes fill more than 4,096 entries of the forwarding table, which takes milliseconds and
    /// tests nothing new.
    fn prefix_len(&mut self) -> u8 {
        match self.byte() % 33 {
            1..=11 => 12,
            len => len,
        }
    }

    fn station(&mut self) -> Mac {
        match self.byte() % 8 {
            0..=2 => mac(1),
            3..=5 => mac(2),
            6 => Mac::BROADCAST,
            _ => Mac([self.byte(), 0, 0, 0, 0, self.byte()]),
        }
    }
}

/// Runs an input of the fuzz target `inet_stack`: two hosts on one wire, on which an attacker also
/// sends.
///
/// Invariants: no panic; every frame received or created has been sent, consumed or dropped, or is
/// held; sent frames are well formed; tables are bounded; after shutdown nothing is held and all
/// buffers are free.
pub fn stack(data: &[u8]) {
    let mut tape = Tape(data);
    let mut now = Instant::from_millis(1);
    let cx = Cx::enter(How::Register, now);
    let mut sides = [Side::new(1, cx), Side::new(2, cx)];
    if data.first().is_some_and(|first| first & 0x40 != 0) {
        sides.iter().for_each(|side| side.add_mirror(cx));
    }
    for step in 1..=STEPS {
        if tape.0.is_empty() {
            break;
        }
        let op = tape.byte();
        let at = usize::from(op >> 7);
        let cx = cx.at(now);
        match op & 7 {
            0 | 1 => call(&mut sides[at], cx, &mut tape),
            2 => now = now.after(Duration::from_millis(u64::from(tape.word()) << (op >> 3 & 7))),
            3 => carry(&sides, cx, tape.byte()),
            4 => {
                let n = usize::from(tape.byte()) * 8;
                sides[at].inject(cx, tape.bytes(n));
            }
            5 => {
                let frame = made(&mut tape);
                sides[at].inject(cx, &frame);
            }
            6 => {
                let Some(mut frame) = sides[1 - at].wire.lock().unwrap().pop_front() else { continue };
                for _ in 0..=op >> 3 & 3 {
                    let (place, flip) = (usize::from(tape.word()), tape.byte());
                    let len = frame.len().max(1);
                    frame.get_mut(place % len).into_iter().for_each(|byte| *byte ^= flip);
                }
                if op & 0x40 != 0 {
                    repair(&mut frame);
                }
                sides[at].inject(cx, &frame);
            }
            _ => configure(&sides[at], cx, &mut tape),
        }
        let cx = cx.at(now);
        for side in &sides {
            side.stack.poll(cx);
            if step.is_multiple_of(UNCHECKED) {
                side.check(cx);
            }
        }
    }
    let cx = cx.at(now);
    for side in sides {
        side.stack.shutdown(cx);
        assert_eq!(side.stack.held(cx), 0);
        side.check(cx);
        assert_eq!(side.pool.stats().live(), 0, "a buffer was not returned");
    }
}

/// Performs a socket call of an application.
fn call(side: &mut Side, cx: Cx, tape: &mut Tape<'_>) {
    let stack = &side.stack;
    let what = tape.byte();
    if what.is_multiple_of(16) || side.sockets.is_empty() {
        if side.sockets.len() < SOCKETS {
            let raw = match what >> 4 {
                9 => Some(RawKind::Icmp),
                10 => Some(RawKind::Raw(Proto::ICMP)),
                11 => Some(RawKind::Raw(Proto::UDP)),
                12 => Some(RawKind::Raw(SEND_ONLY)),
                _ => None,
            };
            let id = match raw {
                Some(kind) => stack.raw_open(cx, Domain::Inet, kind),
                None => stack.udp_open(cx, Domain::Inet),
            };
            side.sockets.push(id.unwrap());
        }
        return;
    }
    let place = usize::from(tape.byte()) % side.sockets.len();
    let id = side.sockets[place];
    match what % 16 {
        1 => drop(stack.udp_bind(cx, id, SocketAddr::from((tape.addr(), tape.l4port())))),
        2 => drop(stack.udp_connect(cx, id, SocketAddr::from((tape.addr(), tape.l4port())))),
        3 => drop(stack.udp_disconnect(cx, id)),
        4..=6 => {
            let to = SocketAddr::from((tape.addr(), tape.l4port()));
            let len = usize::from(tape.word()).min(side.room);
            side.room -= len;
            let _ = stack.udp_send(cx, id, &vec![0x5a; len], Some(&to).filter(|_| what & 0x80 != 0));
        }
        7 => {
            let to = SocketAddr::from((tape.addr(), tape.l4port()));
            let count = if side.room == 0 { 1 } else { tape.byte() % 40 };
            let payloads: Vec<Vec<u8>> = (0..count).map(|n| vec![n; usize::from(n) * 50]).collect();
            side.room = side.room.saturating_sub(payloads.iter().map(Vec::len).sum());
            let payloads = payloads.iter().map(Vec::as_slice);
            let _ = stack.udp_send_burst(cx, id, payloads, Some(&to).filter(|_| what & 0x80 != 0));
        }
        8 | 9 => {
            let next = stack.with_pcb(cx, id, |pcb| pcb.next_len()).unwrap();
            assert_eq!(stack.udp_recv(cx, id).map(|got| got.frame.len()), next);
        }
        10 if what & 0x40 != 0 => {
            let change = [SourceChange::Join, SourceChange::Leave, SourceChange::Block, SourceChange::Unblock];
            let (change, group, source) = (change[usize::from(what >> 4 & 3)], tape.addr(), tape.addr());
            let _ = stack.udp_change_source(cx, id, change, (group.into(), source.into()), Some(EM0));
        }
        10 => drop(stack.udp_join(cx, id, tape.addr().into(), Some(EM0).filter(|_| what & 0x80 != 0))),
        11 => drop(stack.udp_leave(cx, id, tape.addr().into(), None)),
        12 => drop(stack.udp_shutdown(cx, id, what & 0x40 != 0, what & 0x80 != 0)),
        13 => {
            let bits = tape.byte();
            let (ttl, limit) = (tape.byte(), tape.word());
            stack
                .with_pcb(cx, id, |pcb| {
                    pcb.options.ttl = (ttl != 0).then_some(ttl);
                    pcb.options.broadcast = bits & 1 != 0;
                    pcb.options.reuse_port = bits & 2 != 0;
                    pcb.options.dont_fragment = bits & 4 != 0;
                    pcb.options.multicast_loop = bits & 8 != 0;
                    pcb.set_recv_limit(usize::from(limit) * 4);
                    pcb.forget_headers();
                })
                .unwrap();
        }
        14 => {
            let mut frame = match side.pool.get() {
                Some(frame) => frame,
                None => return,
            };
            frame.extend(&[1; 100]).unwrap();
            let to = SocketAddr::from((tape.addr(), tape.l4port()));
            let _ = stack.udp_send_frame(cx, id, frame, Some(&to).filter(|_| what & 0x80 != 0));
        }
        _ => {
            assert!(stack.udp_close(cx, id));
            side.sockets.swap_remove(place);
        }
    }
}

/// Delivers the frames on the wire. Two bits of `how` determine whether a frame arrives once, twice
/// or not at all.
fn carry(sides: &[Side; 2], cx: Cx, how: u8) {
    for (from, to) in [(0, 1), (1, 0)] {
        let frames: Vec<_> = sides[from].wire.lock().unwrap().drain(..).collect();
        for (n, frame) in frames.iter().enumerate() {
            match how >> (n % 4 * 2) & 3 {
                3 => {}
                2 => (0..2).for_each(|_| sides[to].inject(cx, frame)),
                _ => sides[to].inject(cx, frame),
            }
        }
    }
}

/// Returns a well-formed frame that an attacker sends.
fn made(tape: &mut Tape<'_>) -> Vec<u8> {
    let (dst, src) = (tape.station(), tape.station());
    let kind = tape.byte();
    if kind.is_multiple_of(8) {
        let op = if kind & 8 == 0 { Op::Request } else { Op::Reply };
        let sha = if kind & 0x10 == 0 { src } else { tape.station() };
        let packet = Packet { op, sha, spa: tape.addr(), tha: tape.station(), tpa: tape.addr() };
        return framed(dst, src, EtherType::ARP, &packet.emit());
    }
    let (from, to) = (tape.addr(), tape.addr());
    let (proto, payload) = match kind % 8 {
        1 | 2 => {
            let body = vec![0xa5; usize::from(tape.byte()) * 6];
            (Proto::UDP, datagram(from, to, tape.l4port(), tape.l4port(), &body))
        }
        3 => (Proto::ICMP, icmp(|out| icmp4::emit_echo(8, tape.word(), 1, &[0; 24], out))),
        4 | 5 => {
            let (a, b) = (tape.addr(), tape.addr());
            let quoted = datagram(a, b, tape.l4port(), tape.l4port(), &[0; 8]);
            let mut quoted = packet(a, b, Proto::UDP, &quoted, |_| {});
            quoted.truncate(20 + usize::from(tape.byte() % 24));
            let problem = match tape.byte() % 5 {
                0 | 1 => Problem::Unreachable { code: tape.byte() % 16, next_mtu: tape.word() },
                2 => Problem::TimeExceeded { code: tape.byte() },
                3 => Problem::Redirect { code: 1, gateway: tape.addr() },
                _ => Problem::ParameterProblem { pointer: tape.byte() },
            };
            (Proto::ICMP, icmp(|out| icmp4::emit_error(problem, &quoted, out)))
        }
        6 => {
            let group = tape.addr();
            let message = match tape.byte() % 4 {
                0 => igmp::Message::Query { max_resp_ds: tape.byte(), group },
                1 => igmp::Message::Report { group },
                2 => igmp::Message::Leave { group },
                _ => igmp::Message::ReportV1 { group },
            };
            (Proto::IGMP, message.emit().to_vec())
        }
        _ => (Proto(tape.byte()), tape.bytes(40).to_vec()),
    };
    let (bits, ttl, off, id) = (tape.byte(), tape.byte(), tape.byte(), tape.byte());
    let packet = packet(from, to, proto, &payload, |header| {
        header.ttl = ttl;
        header.id = u16::from(id % 4);
        header.df = bits & 1 != 0;
        if bits & 2 != 0 {
            header.mf = bits & 4 != 0;
            header.frag_off = u16::from(off) << 3;
        }
    });
    framed(dst, src, EtherType::IPV4, &packet)
}

fn framed(dst: Mac, src: Mac, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; eth::HEADER_LEN];
    eth::Header { dst, src, ethertype }.emit(frame.first_chunk_mut().unwrap());
    frame.extend_from_slice(payload);
    frame
}

fn packet(
    src: Ipv4Addr,
    dst: Ipv4Addr,
    proto: Proto,
    payload: &[u8],
    change: impl FnOnce(&mut ip4::Header),
) -> Vec<u8> {
    let mut out = vec![0; ip4::HEADER_LEN];
    let mut header = ip4::Header::new(src, dst, proto, payload.len()).unwrap();
    change(&mut header);
    header.emit(out.first_chunk_mut().unwrap());
    out.extend_from_slice(payload);
    out
}

fn datagram(src: Ipv4Addr, dst: Ipv4Addr, sport: u16, dport: u16, body: &[u8]) -> Vec<u8> {
    let len = (udp::HEADER_LEN + body.len()) as u16;
    let header = udp::Header { src: L4Port(sport), dst: L4Port(dport), len, checksum: 0 };
    let header = header.with_checksum(Partial::pseudo4(src, dst, Proto::UDP, len), body);
    let mut out = vec![0; udp::HEADER_LEN];
    header.emit(out.first_chunk_mut().unwrap());
    out.extend_from_slice(body);
    out
}

fn icmp(emit: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut out = vec![0; 128];
    let len = emit(&mut out).unwrap();
    out.truncate(len);
    out
}

/// Recomputes the checksums of a damaged frame, so that the checksum tests do not drop it.
fn repair(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(eth::HEADER_LEN..) else { return };
    let Ok(header) = ip4::Header::parse(packet) else { return };
    ip4::fill_checksum(&mut packet[..header.ihl_len]);
    let payload = &mut packet[header.ihl_len..usize::from(header.total_len)];
    let field = match header.proto {
        _ if header.is_fragment() => return,
        Proto::ICMP | Proto::IGMP if payload.len() >= 8 => 2,
        Proto::UDP if payload.len() >= 8 => 6,
        _ => return,
    };
    payload[field..field + 2].fill(0); // for UDP, this means "no checksum"
    if field == 2 {
        let sum = wire::checksum::sum(payload).finish().to_be_bytes();
        payload[2..4].copy_from_slice(&sum);
    }
}

/// Performs an administrative action.
fn configure(side: &Side, cx: Cx, tape: &mut Tape<'_>) {
    let stack = &side.stack;
    let what = tape.byte();
    let addr = tape.addr();
    match what % 8 {
        0 | 1 => {
            let info = &Sysctls::INFO[usize::from(tape.byte()) % Sysctls::INFO.len()];
            let value = match tape.byte() {
                0 => info.min,
                1 => info.max.min(1 << 20),
                2 => info.default,
                n => i64::from(n).clamp(info.min, info.max),
            };
            // This sysctl is excluded: the limit of the neighbor table applies to new entries only,
            // so lowering it does not evict old entries.
            if info.name != "net.link.ether.inet.max_entries" {
                stack.sysctls.set(info.name, value).unwrap().unwrap();
            }
        }
        2 => stack.set_up(cx, EM0, what & 0x80 != 0),
        3 => drop(stack.add_addr(cx, EM0, IfaceAddr { addr, len: tape.prefix_len() })),
        4 => drop(stack.remove_addr(cx, EM0, addr)),
        5 => {
            let kind = tape.byte() % 8;
            let paths = if kind == 7 { paths(tape) } else { Vec::new() };
            let via = match kind {
                0 => Via::Reject,
                1 => Via::Blackhole,
                2 => Via::Link(EM0),
                3 => Via::Broadcast(EM0),
                4 => Via::Gateway6(EM0, tape.gateway6()),
                6 => Via::Prohibit,
                _ => Via::Gateway(EM0, tape.addr()),
            };
            if let Ok(prefix) = Prefix::new(addr, tape.prefix_len()) {
                let _ = match paths.as_slice() {
                    [] => stack.add_route(cx, prefix, via),
                    paths => stack.add_paths(cx, prefix, paths),
                };
            }
        }
        6 => stack.set_neighbor(cx, EM0, addr, tape.station()),
        _ => drop(stack.remove_neighbor(cx, EM0, addr)),
    }
    if what & 0x60 == 0x60 {
        stack.set_mtu(EM0, tape.word().max(68));
    }
}

/// Returns the one to four paths of a multipath route, each to a gateway of either family or
/// directly to the link.
fn paths(tape: &mut Tape<'_>) -> Vec<Path> {
    let n = tape.byte() % 4;
    let one = |_| {
        let (how, weight) = (tape.byte(), u16::from(tape.byte()));
        let via = match how % 4 {
            0 => Via::Link(EM0),
            1 => Via::Gateway6(EM0, tape.gateway6()),
            _ => Via::Gateway(EM0, tape.addr()),
        };
        Path { via, weight }
    };
    (0..=n).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/inet_stack");
        let files = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path());
        files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }

    struct Rng(u64);

    impl Rng {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }
    }

    #[test]
    fn the_corpus_breaks_no_invariant() {
        let corpus = corpus();
        assert!(!corpus.is_empty());
        for (path, data) in corpus {
            println!("{}", path.display());
            stack(&data);
        }
    }

    #[test]
    fn damaged_conversations_break_no_invariant() {
        let corpus = corpus();
        let mut rng = Rng(0x1a7e);
        for round in 0..300 {
            let (path, mut data) = corpus[rng.next() as usize % corpus.len()].clone();
            for _ in 0..1 + rng.next() % 8 {
                let at = rng.next() as usize % data.len().max(1);
                match rng.next() % 3 {
                    0 => data.insert(at, rng.next() as u8),
                    1 => drop(data.get_mut(at).map(|byte| *byte = rng.next() as u8)),
                    _ => data.truncate(at.max(8)),
                }
            }
            println!("round {round} of {}", path.display());
            stack(&data);
        }
    }

    #[test]
    fn random_bytes_break_no_invariant() {
        for seed in 1..200u64 {
            let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            println!("seed {seed}");
            let data: Vec<u8> = (0..600).map(|_| (rng.next() >> 32) as u8).collect();
            stack(&data);
        }
    }
}
