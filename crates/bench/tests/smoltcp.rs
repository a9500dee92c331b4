//! This stack's TCP against smoltcp's TCP in virtual time: with both roles and both directions,
//! over a wire without loss and a wire with loss.
//!
//! One thread runs both stacks and a wire with a delay. A seed determines the lost frames, so every
//! run is the same.

use buf::{Burst, Pool, PoolConfig};
use clock::{Duration, Instant};
use inet::Stack;
use inet::iface::{IfaceAddr, IfaceId, Offload, Output};
use lock::{Cx, How, Up};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant as TheirInstant;
use smoltcp::wire::{EthernetAddress, IpCidr, Ipv4Address};
use socket::{Calls, Errno, Fd, Opt};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::sync::{Arc, Mutex};
use wire::Mac;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const EM0: IfaceId = IfaceId(1);
const PORT: u16 = 80;
const BYTES: usize = 300_007;
const DELAY: Duration = Duration::from_millis(5);
/// Maximum virtual time of a connection.
const PATIENCE: Duration = Duration::from_secs(600);

/// Returns byte `i` of the data that a side sends (0: this stack, 1: smoltcp).
fn byte(side: usize, i: usize) -> u8 {
    (i * 7 + (i >> 8) * 13 + side * 101) as u8
}

/// Frames sent by this stack.
type Queue = Arc<Mutex<VecDeque<Vec<u8>>>>;

struct Out(Queue);

impl Output for Out {
    fn output(&mut self, burst: &mut Burst, _now: Instant) -> usize {
        let n = burst.len();
        self.0.lock().unwrap().extend(burst.drain().map(|frame| frame.bytes().to_vec()));
        n
    }
}

/// smoltcp's device: received frames, and frames to send.
#[derive(Default)]
struct Edge {
    came: VecDeque<Vec<u8>>,
    going: VecDeque<Vec<u8>>,
}

struct Came(Vec<u8>);
struct Going<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Came {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Going<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut frame = vec![0; len];
        let result = write(&mut frame);
        self.0.push_back(frame);
        result
    }
}

impl Device for Edge {
    type RxToken<'a> = Came;
    type TxToken<'a> = Going<'a>;

    fn receive(&mut self, _: TheirInstant) -> Option<(Came, Going<'_>)> {
        self.came.pop_front().map(|frame| (Came(frame), Going(&mut self.going)))
    }

    fn transmit(&mut self, _: TheirInstant) -> Option<Going<'_>> {
        Some(Going(&mut self.going))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        (caps.medium, caps.max_transmission_unit) = (Medium::Ethernet, 1514);
        caps
    }
}

/// Both stacks, and the wire between them.
struct Meeting {
    now: Instant,
    stack: Stack<Up>,
    pool: Pool,
    out: Queue,
    iface: Interface,
    edge: Edge,
    sockets: SocketSet<'static>,
    theirs: SocketHandle,
    /// Frames in flight, each as (time of arrival, whether it arrives at this stack, frame).
    wire: VecDeque<(Instant, bool, Vec<u8>)>,
    /// One frame in this many is lost; with 0, no frame is lost.
    loses: u64,
    chance: u64,
}

impl Meeting {
    fn new(loses: u64, seed: u64) -> Meeting {
        let now = Instant::from_millis(1);
        let pool = Pool::new(&PoolConfig { buffers: 4096, data: 2048 + 64, ..PoolConfig::default() }).unwrap();
        let cx = Cx::enter(How::Register, now);
        let stack: Stack<Up> =
            Stack::new(cx, inet::Config { seed: Some(seed), ..inet::Config::new("ours", pool.clone()) });
        let out = Queue::default();
        stack.add_iface("em0", Mac([2, 0, 0, 0, 0, 1]), 1500, Offload::default()).unwrap();
        stack.set_output(cx, EM0, Some(Box::new(Out(out.clone()))));
        stack.add_addr(cx, EM0, IfaceAddr { addr: OURS, len: 24 }).unwrap();
        let mut edge = Edge::default();
        let mut config = Config::new(EthernetAddress([2, 0, 0, 0, 0, 2]).into());
        config.random_seed = seed;
        let mut iface = Interface::new(config, &mut edge, TheirInstant::ZERO);
        let [a, b, c, d] = THEIRS.octets();
        iface.update_ip_addrs(|addrs| addrs.push(IpCidr::new(Ipv4Address::new(a, b, c, d).into(), 24)).unwrap());
        let mut sockets = SocketSet::new(Vec::new());
        let buffer = || SocketBuffer::new(vec![0; 65_536]);
        let theirs = sockets.add(Socket::new(buffer(), buffer()));
        let wire = VecDeque::new();
        Meeting { now, stack, pool, out, iface, edge, sockets, theirs, wire, loses, chance: seed | 1 }
    }

    fn cx(&self) -> Cx {
        Cx::enter(How::Register, self.now)
    }

    fn calls(&self) -> Calls<'_, Up> {
        Calls::new(&self.stack, self.cx())
    }

    fn their_now(&self) -> TheirInstant {
        TheirInstant::from_micros((self.now.nanos() / 1000) as i64)
    }

    fn is_lost(&mut self) -> bool {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.loses > 0 && self.chance.is_multiple_of(self.loses)
    }

    fn send(&mut self, to_us: bool, frame: Vec<u8>) {
        if !self.is_lost() {
            self.wire.push_back((self.now.after(DELAY), to_us, frame));
        }
    }

    /// Delivers the frames that are due, polls both stacks, and advances the time to the next
    /// event, but by at most `most`.
    fn step(&mut self, most: Duration) {
        while self.wire.front().is_some_and(|(due, ..)| *due <= self.now) {
            match self.wire.pop_front() {
                Some((_, true, bytes)) => {
                    let mut frame = self.pool.get().unwrap();
                    frame.extend(&bytes).unwrap();
                    self.stack.input(self.cx(), EM0, &mut Burst::of(frame));
                }
                Some((_, false, bytes)) => self.edge.came.push_back(bytes),
                None => {}
            }
        }
        let now = self.their_now();
        self.iface.poll(now, &mut self.edge, &mut self.sockets);
        let mut next = self.now.after(most);
        next = next.min(self.stack.poll(self.cx()).unwrap_or(Instant::NEVER));
        if let Some(delay) = self.iface.poll_delay(now, &self.sockets) {
            next = next.min(self.now.after(Duration::from_micros(delay.total_micros())));
        }
        let left: Vec<_> = self.out.lock().unwrap().drain(..).collect();
        left.into_iter().for_each(|frame| self.send(false, frame));
        while let Some(frame) = self.edge.going.pop_front() {
            self.send(true, frame);
        }
        next = next.min(self.wire.front().map_or(Instant::NEVER, |(due, ..)| *due));
        self.now = next.max(self.now.after(Duration::from_micros(1)));
    }

    /// Sends and receives as much as possible at smoltcp's socket, and checks the received bytes.
    fn their_turn(&mut self, said: &mut usize, heard: &mut usize) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.theirs);
        while socket.can_send() && *said < BYTES {
            let chunk: Vec<u8> = (*said..BYTES.min(*said + 4096)).map(|i| byte(1, i)).collect();
            *said += socket.send_slice(&chunk).unwrap();
        }
        if *said == BYTES && socket.may_send() {
            socket.close();
        }
        while socket.can_recv() {
            let mut into = [0; 4096];
            let n = socket.recv_slice(&mut into).unwrap();
            let wrong = into[..n].iter().enumerate().find(|(i, b)| **b != byte(0, *heard + i));
            assert_eq!(wrong, None, "smoltcp received unexpected data after {heard} bytes");
            *heard += n;
        }
    }

    /// Sends and receives as much as possible at our socket, and checks the received bytes.
    fn our_turn(&self, fd: Fd, said: &mut usize, heard: &mut usize, ends: &mut (bool, bool)) {
        let calls = self.calls();
        while *said < BYTES {
            let chunk: Vec<u8> = (*said..BYTES.min(*said + 4096)).map(|i| byte(0, i)).collect();
            match calls.send(fd, &chunk) {
                Ok(n) => *said += n,
                Err(Errno::EAGAIN) => break,
                Err(error) => panic!("send failed after {said} bytes: {error}"),
            }
        }
        if *said == BYTES && !ends.0 {
            calls.shutdown(fd, Shutdown::Write).unwrap();
            ends.0 = true;
        }
        let mut into = [0; 4096];
        while !ends.1 {
            match calls.recv(fd, &mut into) {
                Ok(0) => ends.1 = true,
                Ok(n) => {
                    let wrong = into[..n].iter().enumerate().find(|(i, b)| **b != byte(1, *heard + i));
                    assert_eq!(wrong, None, "our stack received unexpected data after {heard} bytes");
                    *heard += n;
                }
                Err(Errno::EAGAIN) => break,
                Err(error) => panic!("receive failed after {heard} bytes: {error}"),
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Opens {
    We,
    They,
}

/// Runs one connection. Returns its duration in virtual time, and the number of segments that our
/// stack retransmitted.
fn converse(opens: Opens, loses: u64, seed: u64) -> (Duration, u64) {
    let mut meeting = Meeting::new(loses, seed);
    let calls = meeting.calls();
    let fd = calls.stream_socket().unwrap();
    calls.set_option(fd, Opt::NonBlocking(true)).unwrap();
    if opens == Opens::We {
        assert_eq!(calls.connect(fd, SocketAddr::from((THEIRS, PORT))), Err(Errno::EINPROGRESS));
        meeting.sockets.get_mut::<Socket<'_>>(meeting.theirs).listen(PORT).unwrap();
    } else {
        calls.bind(fd, SocketAddr::from((OURS, PORT))).unwrap();
        calls.listen(fd, 1).unwrap();
        let [a, b, c, d] = OURS.octets();
        let to = (Ipv4Address::new(a, b, c, d), PORT);
        let socket = meeting.sockets.get_mut::<Socket<'_>>(meeting.theirs);
        socket.connect(meeting.iface.context(), to, 50_000).unwrap();
    }
    let begun = meeting.now;
    let (mut ours, mut said, mut heard, mut ends) = (None, [0, 0], [0, 0], (false, false));
    while heard != [BYTES, BYTES] || ends != (true, true) {
        assert!(
            meeting.now.since(begun) < PATIENCE,
            "{opens:?}, seed {seed}: stalled with {said:?} bytes sent and {heard:?} bytes received"
        );
        meeting.step(Duration::from_millis(10));
        let calls = meeting.calls();
        ours = ours.or_else(|| match opens {
            Opens::We => calls.peer_addr(fd).ok().map(|_| fd),
            Opens::They => calls.accept(fd).ok().map(|(child, _)| child),
        });
        if let Some(ours) = ours {
            calls.set_option(ours, Opt::NonBlocking(true)).unwrap();
            meeting.our_turn(ours, &mut said[0], &mut heard[1], &mut ends);
        }
        meeting.their_turn(&mut said[1], &mut heard[0]);
    }
    let took = meeting.now.since(begun);
    meeting.calls().close(ours.unwrap()).unwrap();
    if opens == Opens::They {
        meeting.calls().close(fd).unwrap();
    }
    let closed = meeting.now;
    while meeting.now.since(closed) < Duration::from_secs(400) {
        meeting.step(Duration::from_secs(1));
    }
    let state = meeting.sockets.get_mut::<Socket<'_>>(meeting.theirs).state();
    assert!(matches!(state, State::Closed | State::TimeWait), "{state}");
    let audit = meeting.stack.audit(meeting.cx());
    assert_eq!(
        (audit.imbalance(), audit.held, meeting.stack.tcp_time_wait_count(meeting.cx())),
        (0, 0, 0),
        "{audit:?}"
    );
    assert_eq!(meeting.pool.stats().live(), 0, "buffers are missing");
    (took, meeting.stack.counter("tcp.out.retransmitted"))
}

#[test]
fn over_a_clean_wire() {
    for opens in [Opens::We, Opens::They] {
        let (took, again) = converse(opens, 0, 7);
        assert_eq!(again, 0, "{opens:?}: retransmissions without loss");
        assert!(took < Duration::from_secs(10), "{opens:?}: {took:?} for {BYTES} bytes each way");
    }
}

#[test]
fn over_a_wire_that_loses() {
    let mut again = 0;
    for seed in 1..=20 {
        for opens in [Opens::We, Opens::They] {
            again += converse(opens, [50, 20, 10][seed as usize % 3], seed).1;
        }
    }
    assert!(again > 100, "{again} retransmissions: too few for this loss");
}
