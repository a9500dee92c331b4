//! One `Stack<Light>` used by several threads: nothing is lost or counted twice, and no thread
//! waits forever.

use crate::common::packets::*;
use crate::common::*;
use buf::{Burst, Pool, PoolConfig, PoolLocks};
use clock::{Duration, Instant};
use linerate_inet::iface::{IfaceAddr, Offload, Output};
use linerate_inet::route::{Origin, Path, Protocol, Target, Via};
use linerate_inet::tunnel::{self, Kind};
use linerate_inet::udp::Domain;
use linerate_inet::{Config, Stack};
use lock::{Cx, Heavy, How, Light, Locks};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use wire::Proto;
use wire::arp::Op;

/// A port that counts frames and drops them.
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
    shared_with(PoolConfig::default().headroom)
}

/// Returns a host whose frames have this headroom.
fn shared_with<L: Locks>(headroom: u16) -> Shared<L> {
    let config = PoolConfig { buffers: 4096, headroom, locks: PoolLocks::Light, ..PoolConfig::default() };
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

/// One thread receives, one reads, and two send. The totals are exact.
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

/// All configuration calls while traffic is processed: no deadlock and no lost frame.
#[test]
fn sockets_routes_and_ifaces_are_added_and_removed_under_traffic() {
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

/// A next hop object gets a second path, and loses it again, while packets are forwarded by it: no
/// packet is dropped.
#[test]
fn packets_are_forwarded_while_their_next_hop_gets_and_loses_paths() {
    let h = shared::<Light>();
    assert_eq!(h.stack.add_iface("em1", ME2.mac, 1500, Offload::default()), Some(EM1));
    h.stack.add_addr(cx(), EM1, IfaceAddr { addr: ME2.ip, len: 24 }).unwrap();
    h.stack.set_output(cx(), EM1, Some(Box::new(Sink(Arc::clone(&h.left)))));
    h.stack.sysctls.forwarding.set(1);
    let path = |gateway: Station| {
        h.stack.set_neighbor(cx(), EM1, gateway.ip, gateway.mac);
        Path { via: Via::Gateway(EM1, gateway.ip), weight: 1 }
    };
    let paths = [path(FAR), path(FAR_GATEWAY)];
    let object = h.stack.with_routes(cx(), |routes| {
        let object = routes.new_object(&paths[..1]).unwrap();
        let origin = Origin::engine(Protocol(186), 1, cx().now);
        routes.learn(prefix("198.51.100.0/24"), Target::Object(object), origin).unwrap();
        object
    });
    let over = AtomicBool::new(false);
    let bursts = thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..20_000 {
                let paths = &paths[..1 + n % 2];
                h.stack.change_routes(cx(), |routes, _| (routes.set_object(object, paths).unwrap(), ()));
            }
            over.store(true, Ordering::Release);
        });
        let packets = |net| (1..=8).map(move |n| Ip::udp((PEER.ip, n), ([198, 51, 100, net].into(), 9), b"x"));
        let frames: Vec<_> = packets(1).chain(packets(2)).map(|packet| packet.between(PEER, ME)).collect();
        let mut bursts = 0;
        while !over.load(Ordering::Acquire) {
            h.inject(&frames[..1 + bursts % frames.len()]);
            bursts += 1;
            h.stack.poll(cx());
        }
        bursts
    });
    let sent: usize = (0..bursts).map(|n| 1 + n % 16).sum();
    assert_eq!(h.stack.audit(cx()).sent, sent as u64);
    h.finish();
}

/// Two threads bind a socket to the same port at the same time: only one succeeds.
#[test]
fn a_port_is_bound_by_one_of_two_concurrent_threads() {
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

/// A datagram longer than the pool's buffers uses the pool of large buffers, which must not belong
/// to one thread.
#[test]
fn any_thread_sends_and_reassembles_long_datagrams() {
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

/// Sends numbered datagrams to port 9 in groups longer than a chunk, while two threads process the
/// queues of the stack. They arrive in order, whichever thread processes them.
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
        over.store(true, Ordering::Release); // before any check can fail, so that the other threads end
        assert_eq!((wrong, next), (None, 200 * GROUP), "the received number, and the expected one");
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
fn loopback_and_tunnel_queues_keep_their_order() {
    to_ourselves::<Light>();
    to_ourselves::<Heavy>();
    out_of_a_tunnel::<Light>();
    out_of_a_tunnel::<Heavy>();
}

/// Processing time is also measured for threads beyond the usual 64, if it is measured for the
/// others.
#[test]
fn ledgers_are_on_for_later_threads() {
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

/// A port that is full, or that holds frames until a given time.
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

    fn poll(&mut self, _: Instant) -> Option<Instant> {
        self.next_event()
    }
}

/// Calls of one thread notify the thread that polls. The doorbell receives each time at which
/// something is due, and a thread that is about to sleep also finds it, whichever happens first.
#[test]
fn calls_report_new_timers() {
    let now = Instant::from_millis(1_000);
    let rung = || {
        let h = shared::<Light>();
        let times = Arc::new(std::sync::Mutex::new(Vec::new()));
        let there = Arc::clone(&times);
        h.stack.set_doorbell(move |at| there.lock().unwrap().push(at));
        (h, times)
    };
    // The first segment of a connection is retransmitted after a second.
    let (h, times) = rung();
    let soon = |h: &Shared<Light>, ms| h.stack.is_due_before(cx(), Instant::from_millis(ms));
    assert!(!soon(&h, 1_000_000));
    let s = h.stack.tcp_open(cx(), Domain::Inet).unwrap();
    let _ = h.stack.tcp_connect(cx(), s, (PEER.ip, 80).into());
    assert!(times.lock().unwrap().contains(&now.after(Duration::from_secs(1))), "{times:?}");
    // The timer wheel may report the time early, by one of its slots.
    assert!(soon(&h, 2_001) && !soon(&h, 1_900));
    // A port that is full is polled again, and a port that holds a frame is polled in time.
    for (full, until) in [(true, Instant::NEVER), (false, Instant::from_millis(1_005))] {
        let (h, times) = rung();
        h.stack.set_output(cx(), EM0, Some(Box::new(Holds(full, until))));
        let s = h.bound(7);
        h.stack.udp_send(cx(), s, b"x", Some(&(PEER.ip, 9).into())).unwrap();
        h.stack.flush(cx());
        let due = *times.lock().unwrap().iter().min().unwrap();
        assert!(if full { due < Instant::from_millis(1_001) } else { due == until }, "{full}: {due:?}");
        assert!(soon(&h, 1_006), "full {full}: found before the thread sleeps");
        // A poll by another thread reports the time again, since the thread that sleeps may have
        // found nothing in the meantime.
        times.lock().unwrap().clear();
        h.stack.poll(cx());
        assert_eq!(times.lock().unwrap().iter().min(), Some(&due));
        h.stack.set_output(cx(), EM0, Some(Box::new(Sink(Arc::clone(&h.left)))));
        h.stack.poll(cx());
        assert!(!soon(&h, 1_006), "full {full}: done");
    }
}

/// A frame that a port received: its queue, the thread that sent it, its source port, and its bytes
/// after the IP header.
type Handed = (usize, usize, u16, Vec<u8>);

/// A queue of a port. It records its frames, and accepts none while it is full.
struct Queue(usize, Arc<Mutex<Vec<Handed>>>, Arc<AtomicBool>);

impl Output for Queue {
    fn output(&mut self, burst: &mut Burst, _: Instant) -> usize {
        if self.2.load(Ordering::Relaxed) {
            return 0;
        }
        let n = burst.len();
        for frame in burst.drain() {
            let payload = ip_of(frame.bytes()).2;
            let port = u16::from_be_bytes([payload[0], payload[1]]);
            self.1.lock().unwrap().push((self.0, lock::thread_index(), port, payload.to_vec()));
        }
        n
    }
}

struct Wide {
    h: Shared<Light>,
    handed: Arc<Mutex<Vec<Handed>>>,
    full: Arc<AtomicBool>,
}

/// Returns a host whose port has this number of queues.
fn wide(queues: usize) -> Wide {
    wide_of(shared::<Light>(), queues)
}

fn wide_of(h: Shared<Light>, queues: usize) -> Wide {
    let (handed, full) = (Arc::default(), Arc::default());
    let queue = |n| Box::new(Queue(n, Arc::clone(&handed), Arc::clone(&full))) as Box<dyn Output>;
    h.stack.set_outputs(cx(), EM0, (0..queues).map(queue).collect());
    Wide { h, handed, full }
}

impl Wide {
    fn handed(&self) -> Vec<Handed> {
        std::mem::take(&mut self.handed.lock().unwrap())
    }

    /// Checks that no frame is missing, after `handed` frames were sent.
    fn finish(self, handed: usize) {
        self.h.left.store(handed as u64, Ordering::Relaxed);
        self.h.finish();
    }
}

/// Runs the call on a new thread; returns the thread's number.
fn apart(call: impl FnOnce() + Send) -> usize {
    thread::scope(|scope| {
        let run = || {
            call();
            lock::thread_index()
        };
        scope.spawn(run).join().unwrap()
    })
}

#[test]
fn each_thread_sends_by_the_queue_of_its_number() {
    for queues in [1, 2, 3, 70] {
        let w = wide(queues);
        let socks: Vec<usize> = (1001..1005).map(|port| w.h.bound(port)).collect();
        let start = Barrier::new(socks.len());
        thread::scope(|scope| {
            for s in &socks {
                scope.spawn(|| {
                    start.wait();
                    for n in 0..500u32 {
                        w.h.stack.udp_send(cx(), *s, &n.to_be_bytes(), Some(&at(PEER, 7))).unwrap();
                    }
                    let more = (500..532u32).map(u32::to_be_bytes).collect::<Vec<_>>();
                    w.h.stack.udp_send_burst(cx(), *s, more.iter().map(|n| &n[..]), Some(&at(PEER, 7))).unwrap();
                });
            }
        });
        let handed = w.handed();
        assert!(handed.iter().all(|(queue, thread, ..)| *queue == thread % queues), "{queues}");
        for port in 1001..1005 {
            let of = handed.iter().filter(|one| one.2 == port);
            let of = of.map(|one| u32::from_be_bytes(*one.3.last_chunk().unwrap()));
            assert!(of.eq(0..532), "{queues} queues: in order, none lost");
        }
        w.finish(4 * 532);
    }
}

#[test]
fn a_thread_sends_by_its_assigned_queue() {
    let w = wide(4);
    let sender = w.h.bound(1001);
    let send = || _ = w.h.stack.udp_send(cx(), sender, b"x", Some(&at(PEER, 7))).unwrap();
    let number = apart(|| {
        for queue in [Some(6), Some(0), None] {
            w.h.stack.set_queue(cx(), queue);
            send();
        }
    });
    assert!(w.handed().iter().map(|one| one.0).eq([2, 0, number % 4]));
    w.finish(3);
}

/// Packets of a tunnel stay in order, whichever threads send them.
#[test]
fn a_tunnel_sends_by_one_queue() {
    let w = wide(4);
    let id = w.h.stack.add_tunnel(cx(), "gif0", Kind::Gif, wire::Mac::ZERO).unwrap();
    let ends = tunnel::Config { local: ME.ip.into(), remote: PEER.ip.into(), ..tunnel::Config::new(Kind::Gif) };
    w.h.stack.set_tunnel(cx(), id, ends).unwrap();
    w.h.stack.add_addr(cx(), id, IfaceAddr { addr: [172, 16, 0, 1].into(), len: 30 }).unwrap();
    let sender = w.h.bound(1001);
    for queue in [1, 2, 3] {
        w.h.stack.set_queue(cx(), Some(queue));
        w.h.stack.udp_send(cx(), sender, b"x", Some(&([172, 16, 0, 2], 7).into())).unwrap();
        w.h.stack.udp_send(cx(), sender, b"x", Some(&at(PEER, 7))).unwrap();
    }
    assert!(w.handed().iter().map(|one| one.0).eq([0, 1, 0, 2, 0, 3]));
    w.finish(6);
}

#[test]
fn a_connection_changes_its_queue_when_all_data_is_acknowledged() {
    connection_and_queues(shared());
}

/// Without headroom for cached headers, the segments of a connection pass through the layers one by
/// one.
#[test]
fn a_connection_that_is_sent_layer_by_layer_keeps_its_queue() {
    connection_and_queues(shared_with(80));
}

/// A connection with unacknowledged data keeps its queue, so that its segments stay in order.
fn connection_and_queues(h: Shared<Light>) {
    const QUEUES: usize = 512; // more queues than threads, so no two threads share one
    let w = wide_of(h, QUEUES);
    let (stack, peer) = (&w.h.stack, (PEER.ip, 80));
    let client = stack.tcp_open(cx(), Domain::Inet).unwrap();
    stack.tcp_bind(cx(), client, any(5000)).unwrap();
    stack.tcp_set_options(cx(), client, |options| options.nodelay = true).unwrap();
    let queues = || w.handed().iter().map(|one| one.0).collect::<Vec<_>>();
    let send = |text: &[u8]| assert_eq!(stack.tcp_send(cx(), client, text, true), Ok(text.len()));
    let (isn, ack) = (AtomicU32::new(0), wire::tcp::Flags::ACK);
    let answer = |seq: u32, acked: u32, flags| {
        let change = |header: &mut wire::tcp::Header| {
            (header.seq, header.flags) = (seq, flags);
            header.ack = isn.load(Ordering::Relaxed).wrapping_add(acked);
        };
        let segment = tcp_segment(peer, (ME.ip, 5000), change, b"");
        w.h.inject(&[Ip::new(PEER.ip, ME.ip, Proto::TCP, segment).between(PEER, ME)]);
    };
    let (calls_to, calls) = std::sync::mpsc::channel::<Box<dyn FnOnce() + Send + '_>>();
    let (done, ends) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for call in calls {
                call();
                done.send(lock::thread_index() % QUEUES).unwrap();
            }
        });
        let calls_to = calls_to; // dropped at the latest here, so that the other thread ends
        let other = |call| {
            calls_to.send(call).unwrap();
            ends.recv().unwrap()
        };
        let here = lock::thread_index() % QUEUES;
        stack.tcp_connect(cx(), client, peer.into()).unwrap();
        let syn = w.handed.lock().unwrap()[0].3[4..8].try_into().unwrap();
        isn.store(u32::from_be_bytes(syn), Ordering::Relaxed);
        assert_eq!(queues(), [here]);
        // Another thread processes the answer. An ACK alone does not change the queue, since the
        // port determines which thread processes it.
        let there = other(Box::new(|| answer(999, 1, wire::tcp::Flags::SYN | ack)));
        assert_ne!(here, there);
        assert_eq!(queues(), [here]);
        other(Box::new(|| send(b"one")));
        assert_eq!(queues(), [there]);
        send(b"two"); // while "one" is unacknowledged
        assert_eq!(queues(), [there]);
        answer(1000, 1 + 3, ack);
        send(b"four");
        assert_eq!(queues(), [there]);
        answer(1000, 1 + 3 + 3 + 4, ack);
        send(b"five");
        assert_eq!(queues(), [here]);
    });
    w.h.stack.tcp_close(cx(), client, true);
    let reset = w.handed().len();
    w.finish(6 + reset);
}

/// A full queue is flushed by the thread that polls; frames of queues that a new port does not have
/// are dropped and counted.
#[test]
fn a_full_queue_is_flushed_by_the_thread_that_polls() {
    let w = wide(4);
    let sender = w.h.bound(1001);
    w.h.stack.set_doorbell(|_| ());
    w.full.store(true, Ordering::Relaxed);
    let send = |n: u8| w.h.stack.udp_send(cx(), sender, &[n], Some(&at(PEER, 7))).unwrap();
    (0..3).for_each(|n| _ = apart(|| _ = send(n)));
    assert_eq!((w.handed().len(), w.h.stack.iface(EM0).unwrap().staged(cx())), (0, 3));
    assert!(w.h.stack.is_due_before(cx(), Instant::from_millis(1_001)), "the port was full");
    w.full.store(false, Ordering::Relaxed);
    apart(|| _ = w.h.stack.poll(cx()));
    assert_eq!(w.handed().len(), 3);
    // Frames that another thread left are sent before an interface is removed. Frames in a queue
    // that no longer exists are dropped.
    w.h.stack.sysctls.tx_burst.set(8);
    apart(|| _ = send(7));
    w.h.stack.flush(cx()); // flushes only the frames of this thread
    assert_eq!(w.h.stack.iface(EM0).unwrap().staged(cx()), 1);
    w.h.stack.flush_all(cx());
    assert_eq!(w.handed().len(), 1);
    w.h.stack.set_queue(cx(), Some(3));
    send(8);
    w.h.stack.sysctls.tx_burst.set(1);
    w.h.stack.set_queue(cx(), None);
    w.h.stack.set_outputs(cx(), EM0, Vec::new());
    assert_eq!((w.handed().len(), w.h.stack.audit(cx()).dropped), (0, 1));
    // Frames that an ended thread left are also sent when the host shuts down.
    let left = wide(4);
    left.h.stack.sysctls.tx_burst.set(8);
    let s = left.h.bound(1001);
    apart(|| _ = left.h.stack.udp_send(cx(), s, b"x", Some(&at(PEER, 7))).unwrap());
    left.h.stack.shutdown(cx());
    assert_eq!((left.handed().len(), left.h.stack.audit(cx()).dropped), (1, 0));
    // Fewer queues, more, one, and the original number.
    for queues in [2, 8, 1, 4] {
        let queue = |n| Box::new(Queue(n, Arc::clone(&w.handed), Arc::clone(&w.full))) as Box<dyn Output>;
        w.h.stack.set_outputs(cx(), EM0, (0..queues).map(queue).collect());
        let threads: Vec<usize> = (0..6).map(|n| apart(|| _ = send(n))).collect();
        let most = queues.min(4); // as many as the first port had
        assert!(w.handed().iter().map(|one| one.0).eq(threads.iter().map(|thread| thread % most)), "{queues}");
    }
    w.h.stack.set_outputs(cx(), EM0, Vec::new());
    apart(|| _ = send(9));
    assert_eq!((w.handed().len(), w.h.stack.audit(cx()).dropped), (0, 2));
    w.finish(3 + 1 + 4 * 6);
}
