//! One `Stack<Light>` entered by several threads: nothing is lost, nothing is counted twice, nobody waits for ever.

use crate::common::packets::*;
use crate::common::*;
use buf::{Burst, Pool, PoolConfig, PoolLocks};
use clock::{Duration, Instant};
use linerate_inet::iface::{IfaceAddr, Offload, Output};
use linerate_inet::tunnel::{self, Kind};
use linerate_inet::udp::Domain;
use linerate_inet::{Config, Stack};
use lock::{Cx, Heavy, How, Light, Locks};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use wire::arp::Op;

/// A port that counts and forgets.
struct Sink(Arc<AtomicU64>);

impl Output for Sink {
    fn output(&mut self, burst: &mut Burst, _: Instant) -> usize {
        let n = burst.len();
        burst.drain().for_each(|frame| assert_fit_for_a_wire(frame.bytes()));
        self.0.fetch_add(n as u64, Ordering::Relaxed);
        n
    }
}

fn cx() -> Cx {
    Cx::enter(How::Inline, Instant::from_millis(1_000))
}

struct Shared<L: Locks> {
    stack: Stack<L>,
    pool: Pool,
    left: Arc<AtomicU64>,
}

fn shared<L: Locks>() -> Shared<L> {
    let config = PoolConfig { buffers: 4096, locks: PoolLocks::Light, ..PoolConfig::default() };
    let pool = Pool::new(&config).unwrap();
    let stack = Stack::<L>::new(cx(), Config { seed: Some(1), ..Config::new("h1", pool.clone()) });
    let left = Arc::new(AtomicU64::new(0));
    assert_eq!(stack.add_iface("em0", ME.mac, 1500, Offload::default()), Some(EM0));
    stack.add_addr(cx(), EM0, IfaceAddr { addr: ME.ip, len: 24 }).unwrap();
    stack.set_output(cx(), EM0, Some(Box::new(Sink(Arc::clone(&left)))));
    stack.set_neighbor(cx(), EM0, PEER.ip, PEER.mac);
    Shared { stack, pool, left }
}

impl<L: Locks> Shared<L> {
    fn bound(&self, l4port: u16) -> usize {
        let s = self.stack.udp_open(cx(), Domain::Inet).unwrap();
        self.stack.udp_bind(cx(), s, any(l4port)).unwrap();
        s
    }

    fn inject(&self, frames: &[Vec<u8>]) {
        let mut burst = Burst::new();
        for bytes in frames {
            let mut frame = loop {
                match self.pool.get() {
                    Some(frame) => break frame,
                    None => thread::yield_now(),
                }
            };
            frame.extend(bytes).unwrap();
            burst.push(frame).unwrap();
        }
        self.stack.input(cx(), EM0, &mut burst);
    }

    fn finish(self) {
        let report = self.stack.audit(cx());
        assert_eq!(report.imbalance(), 0, "{report:#?}");
        assert_eq!(report.sent, self.left.load(Ordering::Relaxed));
        self.stack.shutdown(cx());
        assert_eq!(self.stack.held(cx()), 0);
        assert_eq!(self.stack.audit(cx()).imbalance(), 0);
        assert_eq!(self.pool.stats().live(), 0);
    }
}

const DATAGRAMS: u64 = 20_000;

/// Input on one thread, a reader on another, two senders: the totals are exact.
fn four_threads<L: Locks>()
where
    Stack<L>: Sync + Send,
{
    let h = shared::<L>();
    let (reader, one, two) = (h.bound(9), h.bound(1001), h.bound(1002));
    let (start, over) = (Barrier::new(4), AtomicBool::new(false));
    let read = thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            for n in 0..DATAGRAMS / 32 {
                let frames: Vec<_> =
                    (0..32).map(|i| udp_frame(PEER, 1000, ME, 9, &(n * 32 + i).to_be_bytes())).collect();
                h.inject(&frames);
                if n % 16 == 0 {
                    h.inject(&[arp(Op::Request, OTHER, ME), ping(PEER, ME.ip, 1, 1, b"x").between(PEER, ME)]);
                }
                h.stack.poll(cx());
            }
            over.store(true, Ordering::Release);
        });
        for s in [one, two] {
            let (h, start) = (&h, &start);
            scope.spawn(move || {
                start.wait();
                let to = at(PEER, 7);
                for n in 0..DATAGRAMS {
                    let payload = n.to_be_bytes();
                    if n % 50 == 0 {
                        let payloads = [&payload[..]; 8];
                        assert_eq!(h.stack.udp_send_burst(cx(), s, payloads.into_iter(), Some(&to)), Ok(8));
                    } else {
                        assert_eq!(h.stack.udp_send(cx(), s, &payload, Some(&to)), Ok(8));
                    }
                }
            });
        }
        let reader = scope.spawn(|| {
            start.wait();
            let (mut read, mut last) = (0u64, None);
            loop {
                let ended = over.load(Ordering::Acquire);
                while let Some(got) = h.stack.udp_recv(cx(), reader) {
                    let n = u64::from_be_bytes(got.frame.bytes().try_into().unwrap());
                    assert!(last.is_none_or(|last| last < n), "in order");
                    (read, last) = (read + 1, Some(n));
                }
                if ended {
                    return read;
                }
                thread::yield_now();
            }
        });
        reader.join().unwrap()
    });
    let sent = 2 * (DATAGRAMS + DATAGRAMS / 50 * 7);
    assert_eq!(h.stack.counter("inet.udp.sent"), sent);
    assert_eq!(h.stack.counter("inet.udp.received"), DATAGRAMS / 32 * 32);
    assert_eq!(h.stack.counter("inet.udp.delivered"), read);
    assert_eq!(h.stack.counter("inet.udp.delivered") + h.stack.counter("inet.udp.in.buffer_full"), DATAGRAMS / 32 * 32);
    assert_eq!(h.stack.counter("inet.audit.consumed"), read);
    let answers = (DATAGRAMS / 32).div_ceil(16);
    assert_eq!(h.stack.counter("inet.icmp4.echoes_answered"), answers);
    assert_eq!(h.left.load(Ordering::Relaxed), sent + 2 * answers);
    h.finish();
}

#[test]
fn four_threads_share_a_light_stack() {
    four_threads::<Light>();
}

#[test]
fn four_threads_share_a_heavy_stack() {
    four_threads::<Heavy>();
}

/// Everything that configures, against traffic: no deadlock, no lost frame.
#[test]
fn sockets_routes_and_ifaces_come_and_go_under_traffic() {
    let h = shared::<Light>();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..2_000u32 {
                let s = h.stack.udp_open(cx(), Domain::Inet).unwrap();
                let _ = h.stack.udp_bind(cx(), s, any(1 + (n % 7) as u16));
                let _ = h.stack.udp_connect(cx(), s, at(PEER, 1 + (n % 5) as u16));
                let _ = h.stack.udp_send(cx(), s, b"x", None);
                let _ = h.stack.udp_join(cx(), s, [239, 0, 0, (n % 3) as u8].into(), Some(EM0));
                let _ = h.stack.udp_recv(cx(), s);
                assert!(h.stack.udp_close(cx(), s));
            }
        });
        scope.spawn(|| {
            for n in 0..500u32 {
                let host = Station { ip: [10, 0, 0, (10 + n % 50) as u8].into(), ..OTHER };
                h.stack.set_neighbor(cx(), EM0, host.ip, host.mac);
                h.stack.set_up(cx(), EM0, n % 10 != 0);
                h.stack
                    .add_route(cx(), prefix("198.51.100.0/24"), linerate_inet::route::Via::Gateway(EM0, host.ip))
                    .unwrap();
                h.stack.remove_neighbor(cx(), EM0, host.ip);
                h.stack.set_mtu(EM0, 1000 + (n % 500) as u16);
                h.stack.neighbors(cx());
                h.stack.snapshot();
            }
            h.stack.set_up(cx(), EM0, true);
        });
        scope.spawn(|| {
            let s = h.bound(5000);
            for n in 0..5_000u32 {
                let to = [at(PEER, 7), at(OTHER, 7), at(ME, 5000), "198.51.100.1:7".parse().unwrap()][n as usize % 4];
                let _ = h.stack.udp_send(cx(), s, &[0; 100], Some(&to));
                while h.stack.udp_recv(cx(), s).is_some() {}
            }
            over.store(true, Ordering::Release);
        });
        while !over.load(Ordering::Acquire) {
            let frames: Vec<_> = (1..8).map(|l4port| udp_frame(PEER, 1, ME, l4port, b"x")).collect();
            h.inject(&frames);
            h.inject(&[arp(Op::Request, OTHER, ME), ping(PEER, ME.ip, 1, 1, b"x").between(PEER, ME)]);
            h.stack.poll(cx());
        }
    });
    h.finish();
}

/// Two sockets that bind to one port at one time: one of them only.
#[test]
fn a_port_is_given_to_one_of_two_who_ask_at_once() {
    let h = shared::<Light>();
    for _ in 0..2_000 {
        let start = Barrier::new(2);
        let ask = || {
            let s = h.stack.udp_open(cx(), Domain::Inet).unwrap();
            start.wait();
            (s, h.stack.udp_bind(cx(), s, any(5000)).is_ok())
        };
        let ((s, a), (t, b)) = thread::scope(|scope| {
            let other = scope.spawn(ask);
            (ask(), other.join().unwrap())
        });
        assert!(a != b, "both: {a}, {b}");
        h.stack.udp_close(cx(), s);
        h.stack.udp_close(cx(), t);
    }
    h.finish();
}

/// A datagram longer than the pool's buffers comes from a pool of its own, which must not belong to one thread.
#[test]
fn long_datagrams_are_sent_and_put_together_by_any_thread() {
    let h = shared::<Light>();
    let long = Ip::udp((PEER.ip, 1000), (ME.ip, 9), &[7; 20_000]);
    let s = h.bound(9);
    h.stack.with_pcb(cx(), s, |pcb| pcb.set_recv_limit(1 << 24)).unwrap();
    for round in 0..3u16 {
        thread::scope(|scope| {
            scope.spawn(|| {
                let t = h.bound(2000 + round);
                assert_eq!(h.stack.udp_send(cx(), t, &[1; 20_000], Some(&at(PEER, 7))), Ok(20_000), "thread {round}");
                let whole = long.clone().id(round);
                let parts: Vec<_> =
                    (0..20_008).step_by(1480).map(|off| whole.fragment(off, 1480).between(PEER, ME)).collect();
                h.inject(&parts);
                assert_eq!(h.stack.udp_recv(cx(), s).expect("put together").frame.len(), 20_000, "thread {round}");
            });
        });
    }
    h.finish();
}

/// Sends numbered datagrams to port 9 in groups longer than a chunk, while two threads take in what the stack queues for itself. They
/// come in order, whichever of the two takes them.
fn in_order<L: Locks>(h: Shared<L>, send: impl Fn(&Shared<L>, u64) + Sync)
where
    Stack<L>: Sync + Send,
{
    const GROUP: u64 = 100;
    let (reader, over) = (h.bound(9), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    h.stack.poll_soon(cx());
                }
            });
        }
        let (mut next, mut wrong) = (0, None);
        for group in 0..200 {
            (group * GROUP..(group + 1) * GROUP).for_each(|n| send(&h, n));
            let began = std::time::Instant::now();
            while began.elapsed().as_secs() < 20 {
                if next == (group + 1) * GROUP || wrong.is_some() {
                    break;
                }
                match h.stack.udp_recv(cx(), reader) {
                    Some(got) => {
                        let n = u64::from_be_bytes(got.frame.bytes().try_into().unwrap());
                        wrong = (n != next).then_some((n, next));
                        next += 1;
                    }
                    None => thread::yield_now(),
                }
            }
        }
        over.store(true, Ordering::Release); // before anything fails: the others end
        assert_eq!((wrong, next), (None, 200 * GROUP), "that came, and which was next");
    });
    while h.stack.udp_recv(cx(), reader).is_some() {}
    h.finish();
}

fn to_ourselves<L: Locks>()
where
    Stack<L>: Sync + Send,
{
    let h = shared::<L>();
    let s = h.bound(1001);
    in_order(h, |h, n| assert_eq!(h.stack.udp_send(cx(), s, &n.to_be_bytes(), Some(&at(ME, 9))), Ok(8)));
}

fn out_of_a_tunnel<L: Locks>()
where
    Stack<L>: Sync + Send,
{
    let h = shared::<L>();
    let inside = |last| Station { ip: [172, 16, 0, last].into(), ..PEER };
    let id = h.stack.add_tunnel(cx(), "gif0", Kind::Gif, wire::Mac::ZERO).unwrap();
    let ends = tunnel::Config { local: ME.ip.into(), remote: PEER.ip.into(), ..tunnel::Config::new(Kind::Gif) };
    h.stack.set_tunnel(cx(), id, ends).unwrap();
    h.stack.add_addr(cx(), id, IfaceAddr { addr: inside(1).ip, len: 30 }).unwrap();
    in_order(h, |h, n| {
        let inner = Ip::udp((inside(2).ip, 7), (inside(1).ip, 9), &n.to_be_bytes()).packet();
        h.inject(&[Ip::new(PEER.ip, ME.ip, wire::Proto::IPIP, inner).between(PEER, ME)]);
    });
}

#[test]
fn what_a_stack_queues_for_itself_keeps_its_order() {
    to_ourselves::<Light>();
    to_ourselves::<Heavy>();
    out_of_a_tunnel::<Light>();
    out_of_a_tunnel::<Heavy>();
}

/// The ledger of a thread beyond the usual 64 is on if those of the others are.
#[test]
fn ledgers_are_on_for_threads_that_come_later() {
    const THREADS: usize = 100;
    let h = shared::<Light>();
    h.stack.set_ledger(true);
    let (s, all) = (h.bound(1001), Barrier::new(THREADS));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                assert_eq!(h.stack.udp_send(cx(), s, b"x", Some(&at(PEER, 7))), Ok(1));
                all.wait();
            });
        }
    });
    h.stack.set_ledger(false);
    let costs = h.stack.ledger();
    let sent: u64 =
        costs.stages.iter().filter(|cost| cost.stage == stats::Stage::UdpOutput).map(|cost| cost.units).sum();
    assert_eq!(sent, THREADS as u64);
    h.finish();
}

/// A port that is full, or that holds frames back until a time.
struct Holds(bool, Instant);

impl Output for Holds {
    fn output(&mut self, burst: &mut Burst, _: Instant) -> usize {
        if self.0 {
            return 0;
        }
        let n = burst.len();
        burst.clear();
        n
    }

    fn next_event(&self) -> Option<Instant> {
        (self.1 != Instant::NEVER).then_some(self.1)
    }
}

/// Calls of one thread reach the thread that polls: the doorbell gets each time at which something is due, and a
/// thread about to sleep finds it too, whichever of both comes first.
#[test]
fn calls_report_when_something_is_due() {
    let now = Instant::from_millis(1_000);
    let rung = || {
        let h = shared::<Light>();
        let times = Arc::new(std::sync::Mutex::new(Vec::new()));
        let there = Arc::clone(&times);
        h.stack.set_doorbell(move |at| there.lock().unwrap().push(at));
        (h, times)
    };
    // A connection's first segment is sent again after a second.
    let (h, times) = rung();
    let soon = |h: &Shared<Light>, ms| h.stack.is_due_before(cx(), Instant::from_millis(ms));
    assert!(!soon(&h, 1_000_000));
    let s = h.stack.tcp_open(cx(), Domain::Inet).unwrap();
    let _ = h.stack.tcp_connect(cx(), s, (PEER.ip, 80).into());
    assert!(times.lock().unwrap().contains(&now.after(Duration::from_secs(1))), "{times:?}");
    // The timer wheel may call early, by one of its slots.
    assert!(soon(&h, 2_001) && !soon(&h, 1_900));
    // A port that is full is tried again, and one that holds a frame back is polled in time.
    for (full, until) in [(true, Instant::NEVER), (false, Instant::from_millis(1_005))] {
        let (h, times) = rung();
        h.stack.set_output(cx(), EM0, Some(Box::new(Holds(full, until))));
        let s = h.bound(7);
        h.stack.udp_send(cx(), s, b"x", Some(&(PEER.ip, 9).into())).unwrap();
        h.stack.flush(cx());
        let due = *times.lock().unwrap().iter().min().unwrap();
        assert!(if full { due < Instant::from_millis(1_001) } else { due == until }, "{full}: {due:?}");
        assert!(soon(&h, 1_006), "full {full}: found before a sleep");
        h.stack.set_output(cx(), EM0, Some(Box::new(Sink(Arc::clone(&h.left)))));
        h.stack.poll(cx());
        assert!(!soon(&h, 1_006), "full {full}: done");
    }
}
