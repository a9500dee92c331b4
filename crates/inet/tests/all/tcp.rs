//! TCP between two hosts in virtual time. The test delivers every frame between them.

use buf::{Burst, Frame, Pool, PoolConfig, PoolLocks};
use clock::{Duration, Instant};
use linerate_inet::iface::{IfaceAddr, IfaceId, Offload, Output};
use linerate_inet::tcp::TcpError;
use linerate_inet::tunnel::{self, Kind};
use linerate_inet::udp::Domain;
use linerate_inet::{Config, Stack};
use lock::{Cx, How, Light, Locks, Up};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use wire::Mac;

type Wire = Arc<Mutex<VecDeque<Frame>>>;

struct Out(Wire);

impl Output for Out {
    fn output(&mut self, burst: &mut Burst, _: Instant) -> usize {
        let n = burst.len();
        self.0.lock().unwrap().extend(burst.drain());
        n
    }
}

struct Node<L: Locks> {
    stack: Stack<L>,
    out: Wire,
    pool: Pool,
}

/// Two hosts, 10.0.0.1 and 10.0.0.2.
struct Pair<L: Locks> {
    nodes: [Node<L>; 2],
    now: Instant,
    delay: Duration,
    /// Returns whether a frame is lost, given its number in both directions together.
    lose: Box<dyn FnMut(u64) -> bool>,
    crossed: u64,
    /// Number of large segments among the delivered frames.
    large: u64,
}

const EM0: IfaceId = IfaceId(1);

fn node<L: Locks>(host: u8, mtu: u16, offload: Offload) -> Node<L> {
    let pool = Pool::new(&PoolConfig {
        buffers: 4096,
        data: usize::from(mtu).max(2048) + 64,
        locks: PoolLocks::Light,
        ..PoolConfig::default()
    })
    .unwrap();
    let cx = Cx::enter(How::Register, Instant::from_millis(1));
    let stack: Stack<L> = Stack::new(cx, Config { seed: Some(u64::from(host)), ..Config::new("h", pool.clone()) });
    let out = Wire::default();
    stack.add_iface("em0", Mac([2, 0, 0, 0, 0, host]), mtu, offload).unwrap();
    stack.set_offload(EM0, offload);
    stack.set_output(cx, EM0, Some(Box::new(Out(out.clone()))));
    stack.add_addr(cx, EM0, IfaceAddr { addr: Ipv4Addr::new(10, 0, 0, host), len: 24 }).unwrap();
    Node { stack, out, pool }
}

impl<L: Locks> Pair<L> {
    fn new(mtu: u16, offload: Offload) -> Pair<L> {
        let nodes = [node(1, mtu, offload), node(2, mtu, offload)];
        let lose = Box::new(|_| false);
        Pair { nodes, now: Instant::from_millis(1), delay: Duration::from_micros(100), lose, crossed: 0, large: 0 }
    }

    fn cx(&self) -> Cx {
        Cx::enter(How::Register, self.now)
    }

    /// Delivers the frames on the wires. Returns whether there were any.
    fn cross(&mut self) -> bool {
        let sent: Vec<VecDeque<Frame>> =
            self.nodes.iter().map(|n| std::mem::take(&mut *n.out.lock().unwrap())).collect();
        if sent.iter().all(VecDeque::is_empty) {
            return false;
        }
        self.now = self.now.after(self.delay);
        for (from, frames) in sent.into_iter().enumerate() {
            let mut burst = Burst::new();
            for mut frame in frames {
                self.crossed += 1;
                if (self.lose)(self.crossed) {
                    continue;
                }
                if frame.flags().has(buf::Flags::TX_L4_CSUM) {
                    let large = frame.gso_size();
                    assert_eq!(large.is_some(), frame.len() > 14 + self.nodes[from].stack.iface(EM0).unwrap().mtu());
                    frame.set_flags(buf::Flags::RX_L4_OK);
                    large.inspect(|size| frame.set_gso_size(*size));
                    self.large += u64::from(large.is_some());
                }
                if let Err(frame) = burst.push(frame) {
                    self.nodes[1 - from].stack.input(self.cx(), EM0, &mut burst);
                    burst.push(frame).unwrap();
                }
            }
            self.nodes[1 - from].stack.input(self.cx(), EM0, &mut burst);
        }
        true
    }

    /// Runs both hosts until nothing is due within `most`.
    fn settle(&mut self, most: Duration) {
        let until = self.now.after(most);
        for _ in 0..1_000_000 {
            if self.cross() {
                continue;
            }
            let next = self.nodes.iter().filter_map(|n| n.stack.poll(self.cx())).min().unwrap_or(Instant::NEVER);
            if self.nodes.iter().any(|n| !n.out.lock().unwrap().is_empty()) {
                continue;
            }
            if next > until {
                self.now = until;
                return;
            }
            self.now = next.max(self.now);
        }
        panic!("never quiet");
    }

    fn stack(&self, at: usize) -> &Stack<L> {
        &self.nodes[at].stack
    }

    /// Opens a connection from host 0 to port 80 of host 1. Returns the sockets (client, listener,
    /// server).
    fn connect(&mut self) -> (usize, usize, usize) {
        let cx = self.cx();
        let listener = self.stack(1).tcp_open(cx, Domain::Inet).unwrap();
        self.stack(1).tcp_bind(cx, listener, addr(0, 80)).unwrap();
        self.stack(1).tcp_listen(cx, listener, 8).unwrap();
        let client = self.stack(0).tcp_open(cx, Domain::Inet).unwrap();
        self.stack(0).tcp_connect(cx, client, addr(2, 80)).unwrap();
        self.settle(Duration::from_millis(5));
        assert!(self.stack(0).with_sock(self.cx(), client, |sock| sock.is_connected()).unwrap());
        let (server, peer) = self.stack(1).tcp_accept(self.cx(), listener).unwrap();
        assert_eq!(peer.ip(), Ipv4Addr::new(10, 0, 0, 1));
        (client, listener, server)
    }

    /// Closes everything, and checks that no frame is held and every buffer is returned.
    fn end(&mut self) {
        self.settle(Duration::from_secs(1000));
        for node in &self.nodes {
            let audit = node.stack.audit(self.cx());
            assert_eq!((audit.imbalance(), audit.held), (0, 0), "{audit:?}");
            assert_eq!(node.stack.tcp_time_wait_count(self.cx()), 0);
            assert_eq!(node.pool.stats().live(), 0);
        }
    }
}

fn addr(host: u8, port: u16) -> SocketAddr {
    let ip = if host == 0 { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::new(10, 0, 0, host) };
    SocketAddr::from((ip, port))
}

/// Returns byte `i` of the stream that every test sends.
fn byte(i: usize) -> u8 {
    (i * 7 + (i >> 8) * 13 + (i >> 16)) as u8
}

/// Sends `total` bytes from host `from` to the other, which reads them as they arrive. Both sockets
/// stay open.
fn transfer<L: Locks>(pair: &mut Pair<L>, from: usize, (sender, receiver): (usize, usize), total: usize) {
    let (mut sent, mut got) = (0, 0);
    let mut into = vec![0; 50_000];
    for _ in 0..200_000 {
        let cx = pair.cx();
        while sent < total {
            let chunk: Vec<u8> = (sent..total.min(sent + 10_000)).map(byte).collect();
            match pair.stack(from).tcp_send(cx, sender, &chunk, true) {
                Ok(n) => sent += n,
                Err(TcpError::WouldBlock) => break,
                Err(error) => panic!("{error:?} after {sent}"),
            }
        }
        loop {
            match pair.stack(1 - from).tcp_recv(cx, receiver, &mut into) {
                Ok(n) => {
                    assert!(n > 0, "closed after {got}");
                    assert!(into[..n].iter().enumerate().all(|(i, b)| *b == byte(got + i)), "wrong byte after {got}");
                    got += n;
                }
                Err(TcpError::WouldBlock) => break,
                Err(error) => panic!("{error:?} after {got}"),
            }
        }
        if got == total {
            return;
        }
        if !pair.cross() {
            let next = pair.nodes.iter().filter_map(|n| n.stack.poll(pair.cx())).min().unwrap_or(Instant::NEVER);
            assert!(next < pair.now.after(Duration::from_secs(200)), "stalled after {got} of {total}");
            pair.now = pair.now.max(next);
        }
    }
    panic!("too slow: {got} of {total}");
}

fn all<L: Locks>(mtu: u16, offload: Offload, total: usize, lose: impl FnMut(u64) -> bool + 'static) {
    let mut pair: Pair<L> = Pair::new(mtu, offload);
    let (client, listener, server) = pair.connect();
    pair.lose = Box::new(lose);
    transfer(&mut pair, 0, (client, server), total);
    transfer(&mut pair, 1, (server, client), total / 3);
    pair.lose = Box::new(|_| false);
    let cx = pair.cx();
    pair.stack(0).tcp_shutdown(cx, client, false, true).unwrap();
    pair.settle(Duration::from_secs(5));
    assert_eq!(pair.stack(1).tcp_recv(pair.cx(), server, &mut [0; 10]), Ok(0), "end of file");
    assert!(pair.stack(1).tcp_close(pair.cx(), server, false));
    pair.settle(Duration::from_secs(1));
    assert_eq!(pair.stack(0).tcp_recv(pair.cx(), client, &mut [0; 10]), Ok(0));
    assert!(pair.stack(0).tcp_close(pair.cx(), client, false));
    assert!(pair.stack(1).tcp_close(pair.cx(), listener, false));
    pair.end();
}

const HARD: Offload = Offload { tx_ip: true, tx_l4: true, rx: true, tso: false };
const TSO: Offload = Offload { tso: true, ..HARD };
const SOFT: Offload = Offload { tx_ip: false, tx_l4: false, rx: false, tso: false };

#[test]
fn a_megabyte_each_way() {
    all::<Up>(1500, SOFT, 1 << 20, |_| false);
    all::<Light>(1500, SOFT, 1 << 20, |_| false);
}

#[test]
fn with_checksum_offload() {
    all::<Up>(1500, HARD, 1 << 20, |_| false);
}

/// Data that was written while the port computed checksums is sent after offload was turned off,
/// and vice versa.
#[test]
fn switching_offload_during_a_connection_keeps_checksums_right() {
    for lose_every in [u64::MAX, 7] {
        let mut pair: Pair<Up> = Pair::new(1500, HARD);
        let (client, listener, server) = pair.connect();
        pair.lose = Box::new(move |n| n % lose_every == 0);
        let (mut sent, mut got, total) = (0, 0, 300_000);
        let mut into = vec![0; 50_000];
        for turn in 0..100_000 {
            let cx = pair.cx();
            if turn % 5 == 0 {
                // After each switch, the stack must determine the capabilities of the port again.
                pair.stack(0).set_offload(EM0, if turn % 2 == 0 { SOFT } else { HARD });
            }
            while sent < total {
                // Odd lengths: a piece begins with data of one side's checksums and continues with
                // the other's.
                let chunk: Vec<u8> = (sent..total.min(sent + 777)).map(byte).collect();
                let Ok(n) = pair.stack(0).tcp_send(cx, client, &chunk, true) else { break };
                sent += n;
                if n % 5 == 1 {
                    break;
                }
            }
            while let Ok(n) = pair.stack(1).tcp_recv(cx, server, &mut into) {
                assert!(into[..n].iter().enumerate().all(|(i, b)| *b == byte(got + i)), "wrong byte after {got}");
                got += n;
            }
            if got == total {
                break;
            }
            if !pair.cross() {
                let next = pair.nodes.iter().filter_map(|n| n.stack.poll(pair.cx())).min().unwrap_or(Instant::NEVER);
                pair.now = pair.now.max(next);
            }
        }
        assert_eq!((got, pair.stack(1).counter("inet.tcp.in.bad_checksum")), (total, 0), "every {lose_every}");
        pair.lose = Box::new(|_| false);
        for (at, sock) in [(0, client), (1, server), (1, listener)] {
            assert!(pair.stack(at).tcp_close(pair.cx(), sock, false));
        }
        pair.end();
    }
}

#[test]
fn with_large_segments() {
    all::<Up>(1500, TSO, 1 << 20, |_| false);
    all::<Light>(1500, TSO, 1 << 20, |_| false);
    for mtu in [576, 9000, 30_000, 65_535] {
        all::<Up>(mtu, TSO, 1 << 20, |_| false);
    }
    for every in [5, 20] {
        let mut n = 0;
        all::<Up>(1500, TSO, 1 << 20, move |_| {
            n += 1;
            n % every == 0
        });
    }
}

#[test]
fn a_large_segment_counts_as_its_pieces() {
    let mut frames = Vec::new();
    let mut counted = Vec::new();
    for offload in [HARD, TSO] {
        let mut pair: Pair<Up> = Pair::new(1500, offload);
        let (client, _, server) = pair.connect();
        transfer(&mut pair, 0, (client, server), 1 << 20);
        pair.settle(Duration::from_secs(1));
        assert_eq!(pair.large > 0, offload.tso);
        frames.push(pair.crossed);
        let value = |at: usize, name: &str| pair.stack(at).counter(name);
        let names = ["tcp.in.received", "tcp.in.in_sequence", "tcp.in.in_sequence_bytes"];
        counted.push((value(0, "tcp.out.data"), names.map(|name| value(1, name))));
    }
    assert!(frames[1] * 5 < frames[0], "{frames:?}");
    let [(few, received), (many, cut)] = [counted[0], counted[1]];
    assert!(few.abs_diff(many) < few / 20, "{counted:?}"); // writes end at other positions, so the last segments differ
    assert!(received[0].abs_diff(cut[0]) < few / 10 && received[1].abs_diff(cut[1]) < few / 20, "{counted:?}");
    assert_eq!(received[2], cut[2]);
}

#[test]
fn without_the_offload_no_large_segments_are_received_or_sent() {
    let mut pair: Pair<Up> = Pair::new(1500, TSO);
    pair.stack(0).sysctls.set("net.inet.tcp.tso", 0).unwrap().unwrap();
    let (client, _, server) = pair.connect();
    transfer(&mut pair, 0, (client, server), 1 << 18);
    assert_eq!(pair.large, 0);
    pair.stack(0).sysctls.set("net.inet.tcp.tso", 1).unwrap().unwrap();
    transfer(&mut pair, 0, (client, server), 1 << 18);
    assert!(pair.large > 0);
}

#[test]
fn merged_segments_give_the_same_bytes_and_counters() {
    let run = |lro: i64| {
        let mut pair: Pair<Up> = Pair::new(1500, SOFT);
        pair.stack(1).sysctls.set("net.inet.tcp.lro", lro).unwrap().unwrap();
        let (client, listener, server) = pair.connect();
        let mut n = 0u32;
        pair.lose = Box::new(move |_| {
            n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            n >> 25 == 0 // 1 of 128
        });
        transfer(&mut pair, 0, (client, server), 1 << 19);
        pair.lose = Box::new(|_| false);
        pair.settle(Duration::from_secs(5));
        let count = |at: usize| {
            let all = counts(&pair, at);
            let kept = all.split(", ").filter(|entry| !entry.starts_with("in.predicted"));
            kept.map(str::to_owned).collect::<Vec<_>>()
        };
        let counted = [count(0), count(1)];
        for (at, sock) in [(0, client), (1, server), (1, listener)] {
            pair.stack(at).tcp_close(pair.cx(), sock, false);
        }
        pair.end();
        counted
    };
    assert_eq!(run(0), run(1));
}

#[test]
fn over_links_of_any_mtu() {
    for mtu in [576, 1280, 1500, 9000, 65_535] {
        all::<Up>(mtu, SOFT, 1 << 19, |_| false);
    }
}

#[test]
fn every_loss_is_repaired() {
    for every in [3, 7, 20, 101] {
        let mut n = 0;
        all::<Up>(1500, SOFT, 1 << 18, move |_| {
            n += 1;
            n % every == 0
        });
    }
}

/// The listener is older than the tunnel, and the peer offers the MSS of its own link, so neither
/// limits the segments to the tunnel's MTU.
#[test]
fn a_tunnel_added_later_limits_the_segment_size() {
    for (client_mtu, server_mtu) in [(1500, 1480), (1500, 1500)] {
        let mut pair: Pair<Up> = Pair::new(1500, SOFT);
        let cx = pair.cx();
        let listener = pair.stack(1).tcp_open(cx, Domain::Inet).unwrap();
        pair.stack(1).tcp_bind(cx, listener, addr(0, 80)).unwrap();
        pair.stack(1).tcp_listen(cx, listener, 8).unwrap();
        for (at, own, far, mtu) in [(0, 1, 2, client_mtu), (1, 2, 1, server_mtu)] {
            let outer = |host| Ipv4Addr::new(10, 0, 0, host);
            let ends = tunnel::Config {
                local: outer(own).into(),
                remote: outer(far).into(),
                ..tunnel::Config::new(Kind::Gif)
            };
            let stack = pair.stack(at);
            let id = stack.add_tunnel(cx, "gif0", Kind::Gif, Mac([2, 0, 0, 0, 9, own])).unwrap();
            stack.set_tunnel(cx, id, ends).unwrap();
            stack.set_tunnel_mtu(cx, id, mtu);
            stack.add_addr(cx, id, IfaceAddr { addr: Ipv4Addr::new(172, 16, 0, own), len: 30 }).unwrap();
        }
        let client = pair.stack(0).tcp_open(cx, Domain::Inet).unwrap();
        pair.stack(0).tcp_connect(cx, client, SocketAddr::from((Ipv4Addr::new(172, 16, 0, 2), 80))).unwrap();
        pair.settle(Duration::from_millis(5));
        let (server, _) = pair.stack(1).tcp_accept(pair.cx(), listener).unwrap();
        let began = pair.now;
        transfer(&mut pair, 1, (server, client), 100_000);
        // Acknowledgments may be delayed until their timer expires. A black hole is suspected only
        // after five retransmissions, which take six seconds.
        let took = pair.now.since(began);
        assert!(took < Duration::from_secs(1), "server {server_mtu}: {took:?}");
    }
}

#[test]
fn a_port_without_a_listener_refuses() {
    let mut pair: Pair<Up> = Pair::new(1500, SOFT);
    let cx = pair.cx();
    let client = pair.stack(0).tcp_open(cx, Domain::Inet).unwrap();
    pair.stack(0).tcp_connect(cx, client, addr(2, 81)).unwrap();
    pair.settle(Duration::from_millis(5));
    assert_eq!(pair.stack(0).tcp_send(pair.cx(), client, b"x", true), Err(TcpError::Refused));
    assert_eq!(pair.stack(1).counter("inet.tcp.in.no_connection"), 1);
    pair.stack(0).tcp_close(pair.cx(), client, false);
    pair.end();
}

#[test]
fn closing_with_unread_data_resets() {
    let mut pair: Pair<Up> = Pair::new(1500, SOFT);
    let (client, listener, server) = pair.connect();
    pair.stack(0).tcp_send(pair.cx(), client, b"unread", true).unwrap();
    pair.settle(Duration::from_secs(1));
    pair.stack(1).tcp_close(pair.cx(), server, false);
    pair.settle(Duration::from_secs(1));
    assert_eq!(pair.stack(0).tcp_recv(pair.cx(), client, &mut [0; 9]), Err(TcpError::Reset));
    pair.stack(0).tcp_close(pair.cx(), client, false);
    pair.stack(1).tcp_close(pair.cx(), listener, false);
    pair.end();
}

#[test]
fn a_burst_for_a_missing_connection_is_reset_segment_by_segment() {
    for listens in [true, false] {
        let mut pair: Pair<Up> = Pair::new(1500, SOFT);
        let (client, listener, server) = pair.connect();
        pair.stack(0).tcp_send(pair.cx(), client, &[7; 10_000], true).unwrap();
        pair.stack(1).tcp_close(pair.cx(), server, true);
        if !listens {
            pair.stack(1).tcp_close(pair.cx(), listener, false);
        }
        pair.nodes[1].out.lock().unwrap().clear(); // the RST of this close is lost
        pair.settle(Duration::from_secs(1));
        assert_eq!(pair.stack(0).tcp_recv(pair.cx(), client, &mut [0; 9]), Err(TcpError::Reset));
        let name = if listens { "inet.tcp.in.bad_handshake" } else { "inet.tcp.in.no_connection" };
        assert_eq!(pair.stack(1).counter(name), 7);
        pair.stack(0).tcp_close(pair.cx(), client, false);
        pair.stack(1).tcp_close(pair.cx(), listener, false);
        pair.end();
    }
}

#[test]
fn a_closed_listener_resets_unaccepted_connections() {
    let mut pair: Pair<Up> = Pair::new(1500, SOFT);
    let (client, listener, server) = pair.connect();
    let cx = pair.cx();
    let second = pair.stack(0).tcp_open(cx, Domain::Inet).unwrap();
    pair.stack(0).tcp_connect(cx, second, addr(2, 80)).unwrap();
    pair.settle(Duration::from_secs(1));
    pair.stack(1).tcp_close(pair.cx(), listener, false);
    pair.settle(Duration::from_secs(1));
    assert_eq!(pair.stack(0).tcp_recv(pair.cx(), second, &mut [0; 9]), Err(TcpError::Reset));
    transfer(&mut pair, 0, (client, server), 1000);
    for (at, sock) in [(0, client), (0, second), (1, server)] {
        assert!(pair.stack(at).tcp_close(pair.cx(), sock, false));
    }
    pair.end();
}

/// Returns the TCP counters that are not 0, by their names without `tcp.`.
fn counts(pair: &Pair<Up>, at: usize) -> String {
    let reported = pair.stack(at).snapshot().into_iter().filter(|entry| entry.value > 0);
    let reported = reported.filter_map(|entry| Some(format!("{} {}", entry.name.strip_prefix("tcp.")?, entry.value)));
    reported.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_conversation_is_counted_on_both_sides_and_nothing_else() {
    let mut pair: Pair<Up> = Pair::new(1500, SOFT);
    let (client, listener, server) = pair.connect();
    pair.stack(0).tcp_send(pair.cx(), client, &[7; 3000], true).unwrap();
    pair.settle(Duration::from_millis(300));
    pair.stack(1).tcp_recv(pair.cx(), server, &mut [0; 3000]).unwrap();
    pair.stack(0).tcp_close(pair.cx(), client, false);
    pair.settle(Duration::from_millis(20));
    pair.stack(1).tcp_close(pair.cx(), server, false);
    pair.settle(Duration::from_millis(20));
    assert_eq!(
        counts(&pair, 0),
        "in.received 4, in.acks 1, in.acked_bytes 3000, in.predicted_acks 1, out.sent 7, out.data 3, \
         out.data_bytes 3000, out.acks 2, out.control 2, state.syn_sent 1, state.established 1, state.fin_wait_1 1, \
         state.fin_wait_2 1, state.time_wait 1, state.closed 1, timer.rtt_updated 2, time_wait.added 1"
    );
    assert_eq!(
        counts(&pair, 1),
        "in.received 7, in.in_sequence 3, in.in_sequence_bytes 3000, in.predicted_data 1, out.sent 4, out.acks 2, \
         out.control 2, state.syn_received 1, state.established 1, state.close_wait 1, state.last_ack 1, \
         state.closed 1, timer.rtt_updated 1, listen.added 1, listen.completed 1"
    );
    pair.stack(1).tcp_close(pair.cx(), listener, false);
    pair.end();
}

#[test]
fn losses_are_counted() {
    let mut pair: Pair<Up> = Pair::new(1500, SOFT);
    let (client, listener, server) = pair.connect();
    let lost = pair.crossed + 2; // the second of six segments
    pair.lose = Box::new(move |n| n == lost);
    transfer(&mut pair, 0, (client, server), 6 * 1448);
    pair.settle(Duration::from_secs(1));
    let (a, b) = (pair.stack(0), pair.stack(1));
    let of = |stack: &Stack<Up>, name: &str| stack.counter(&format!("tcp.{name}"));
    assert_eq!((of(a, "out.data"), of(a, "out.data_bytes")), (6, 6 * 1448));
    assert_eq!((of(a, "out.retransmitted"), of(a, "out.retransmitted_bytes")), (1, 1448));
    assert_eq!((of(a, "recovery.rexmits"), of(a, "recovery.rexmit_bytes")), (1, 1448));
    assert_eq!((of(b, "in.out_of_order"), of(b, "in.out_of_order_bytes")), (4, 4 * 1448));
    assert_eq!((of(b, "in.in_sequence"), of(b, "in.in_sequence_bytes")), (2, 2 * 1448));
    assert!(of(a, "in.sacks") > 0 && of(a, "in.sacks") == of(b, "out.sacks") && of(b, "out.dsacks") == 0);
    assert_eq!(of(a, "in.acked_bytes"), 6 * 1448);

    // All further frames are lost: timeouts, then the connection fails.
    pair.lose = Box::new(|_| true);
    pair.stack(0).tcp_set_options(pair.cx(), client, |o| o.user_timeout = Some(Duration::from_secs(2))).unwrap();
    pair.stack(0).tcp_send(pair.cx(), client, b"x", true).unwrap();
    pair.settle(Duration::from_secs(10));
    let a = pair.stack(0);
    assert!(of(a, "timer.rexmit") >= 3, "{}", of(a, "timer.rexmit"));
    assert_eq!((of(a, "timer.user_dropped"), of(a, "timer.rexmit_dropped")), (1, 0));
    assert_eq!((of(a, "state.dropped"), of(a, "state.closed")), (1, 1));
    assert_eq!(pair.stack(0).tcp_recv(pair.cx(), client, &mut [0; 9]), Err(TcpError::TimedOut));
    pair.lose = Box::new(|_| false);
    pair.stack(0).tcp_close(pair.cx(), client, false);
    pair.stack(1).tcp_close(pair.cx(), server, true);
    pair.stack(1).tcp_close(pair.cx(), listener, false);
    pair.end();
}

#[test]
fn probes_delayed_acks_and_resets_are_counted_separately() {
    let mut pair: Pair<Up> = Pair::new(1500, SOFT);
    let (client, listener, server) = pair.connect();
    let of = |pair: &Pair<Up>, at: usize, name: &str| pair.stack(at).counter(&format!("tcp.{name}"));
    pair.stack(0)
        .tcp_set_options(pair.cx(), client, |o| {
            (o.keepalive, o.keep_idle) = (true, Some(Duration::from_secs(10)));
        })
        .unwrap();
    pair.settle(Duration::from_secs(15));
    assert_eq!((of(&pair, 0, "timer.keepalive"), of(&pair, 0, "out.keepalives")), (1, 1));
    assert_eq!((of(&pair, 0, "out.window_probes"), of(&pair, 0, "timer.persist")), (0, 0));
    // The application does not read: the window closes and is probed.
    while let Ok(1..) = pair.stack(0).tcp_send(pair.cx(), client, &[1; 20_000], true) {
        pair.settle(Duration::from_millis(200));
    }
    pair.settle(Duration::from_secs(3));
    let (probes, persists) = (of(&pair, 0, "out.window_probes"), of(&pair, 0, "timer.persist"));
    assert!(probes > 0 && persists >= probes, "{probes} {persists}");
    assert_eq!((of(&pair, 0, "out.keepalives"), of(&pair, 0, "timer.rexmit")), (1, 0));
    let mut into = vec![0; 1 << 20];
    while let Ok(1..) = pair.stack(1).tcp_recv(pair.cx(), server, &mut into) {
        pair.settle(Duration::from_secs(2));
    }
    // More segments than the quick ACKs at the start of a connection: some ACKs are then delayed.
    for _ in 0..40 {
        pair.stack(0).tcp_send(pair.cx(), client, b"x", true).unwrap();
        pair.settle(Duration::from_millis(150));
    }
    assert!(of(&pair, 1, "out.delayed_acks") > 5, "{}", of(&pair, 1, "out.delayed_acks"));
    assert!(of(&pair, 1, "out.delayed_acks") <= of(&pair, 1, "out.acks"));
    pair.stack(1).tcp_set_options(pair.cx(), server, |o| o.linger = Some(Duration::ZERO)).unwrap();
    pair.stack(1).tcp_close(pair.cx(), server, true);
    pair.settle(Duration::from_secs(1));
    assert_eq!((of(&pair, 1, "state.aborted_on_linger"), of(&pair, 1, "out.resets")), (1, 1));
    assert_eq!((of(&pair, 0, "in.resets"), of(&pair, 0, "state.reset"), of(&pair, 0, "state.dropped")), (1, 1, 1));
    pair.stack(0).tcp_close(pair.cx(), client, false);
    // The connection is refused: there was no listener.
    let refused = pair.stack(0).tcp_open(pair.cx(), Domain::Inet).unwrap();
    pair.stack(0).tcp_connect(pair.cx(), refused, addr(2, 81)).unwrap();
    pair.settle(Duration::from_millis(5));
    assert_eq!(of(&pair, 0, "state.embryonic_dropped"), 1);
    pair.stack(0).tcp_close(pair.cx(), refused, false);
    pair.stack(1).tcp_close(pair.cx(), listener, false);
    pair.end();
}

/// Each byte in a separate segment occupies a buffer until it is acknowledged. All of them together
/// may use only TCP's share of the pool, so that buffers remain for the ACKs that free them.
#[test]
fn single_bytes_do_not_use_up_the_pool() {
    let mut pair: Pair<Up> = Pair::new(1500, SOFT);
    let (client, listener, server) = pair.connect();
    pair.stack(0).tcp_set_options(pair.cx(), client, |o| o.nodelay = true).unwrap();
    // The segments stay unacknowledged during this loop.
    let refused = (0..10_000).find_map(|_| pair.stack(0).tcp_send(pair.cx(), client, b"x", true).err());
    assert_eq!(refused, Some(TcpError::WouldBlock));
    let pool = pair.nodes[0].pool.stats();
    assert!((pool.buffers / 2..=pool.buffers * 3 / 4 + 8).contains(&(pool.live() as usize)), "{pool:?}");
    pair.settle(Duration::from_secs(1));
    assert_eq!(pair.stack(0).tcp_send(pair.cx(), client, b"x", true), Ok(1), "there is space once they have arrived");
    for (at, id) in [(0, client), (1, server), (1, listener)] {
        pair.stack(at).tcp_close(pair.cx(), id, true);
    }
    pair.end();
}

/// RFC 6583: while the host sends to thousands of unused addresses of its subnet, an existing
/// connection continues and a new one is established.
#[test]
fn data_goes_on_during_a_scan() {
    let mut pair: Pair<Up> = Pair::new(1500, SOFT);
    let silent = |n: u32| SocketAddr::from((Ipv4Addr::from_bits(0x0a09_0000 + n), 9));
    pair.stack(0).add_route(pair.cx(), "10.9.0.0/16".parse().unwrap(), linerate_inet::route::Via::Link(EM0)).unwrap();
    let (client, listener, server) = pair.connect();
    pair.stack(0).tcp_set_options(pair.cx(), client, |o| o.nodelay = true).unwrap();
    let scanner = pair.stack(0).udp_open(pair.cx(), Domain::Inet).unwrap();
    let mut got = vec![0; 100];
    for n in 0..6_000 {
        let _ = pair.stack(0).udp_send(pair.cx(), scanner, b"?", Some(&silent(n)));
        if n % 20 == 0 {
            pair.stack(0).tcp_send(pair.cx(), client, b"text", true).unwrap();
            pair.settle(Duration::from_millis(1));
            assert_eq!(pair.stack(1).tcp_recv(pair.cx(), server, &mut got), Ok(4), "{n}");
        }
        if n % 1_000 == 0 {
            pair.stack(0).remove_neighbor(pair.cx(), EM0, Ipv4Addr::new(10, 0, 0, 2));
            let second = pair.stack(0).tcp_open(pair.cx(), Domain::Inet).unwrap();
            pair.stack(0).tcp_connect(pair.cx(), second, addr(2, 80)).unwrap();
            let _ = pair.stack(0).udp_send(pair.cx(), scanner, b"?", Some(&silent(n)));
            pair.settle(Duration::from_millis(5));
            assert!(pair.stack(0).with_sock(pair.cx(), second, |sock| sock.is_connected()).unwrap(), "{n}");
            pair.stack(0).tcp_close(pair.cx(), second, true);
        }
    }
    assert_eq!(pair.stack(0).counter("inet.tcp.out.retransmitted"), 0);
    assert!(pair.stack(0).counter("inet.neigh.share_full") > 1_000);
    pair.stack(0).udp_close(pair.cx(), scanner);
    for (at, id) in [(0, client), (1, server), (1, listener)] {
        pair.stack(at).tcp_close(pair.cx(), id, true);
    }
    pair.end();
}
