//! Two hosts on virtual time, connected by a simulated wire. A call that waits on one of the hosts
//! runs both.

use buf::{Burst, Flags, Frame, Pool, PoolConfig, PoolLocks};
use clock::{Duration, Instant};
use inet::iface::{IfaceAddr, IfaceId, Offload, Output};
use inet::{Config, Stack};
use linerate_socket::{Calls, Drive, Errno, Fd, Opt};
use lock::{Cx, How, Locks};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use wire::Mac;

/// Returns whether a frame is lost. The arguments are the index of the sending host and the bytes
/// of the frame.
type Lose = Box<dyn FnMut(usize, &[u8]) -> bool>;
type Wire = Arc<Mutex<VecDeque<Frame>>>;

struct Out(Wire);

impl Output for Out {
    fn output(&mut self, burst: &mut Burst, _: Instant) -> usize {
        let n = burst.len();
        self.0.lock().unwrap().extend(burst.drain());
        n
    }
}

pub struct Node<L: Locks> {
    pub stack: Stack<L>,
    pub pool: Pool,
    out: Wire,
}

/// The hosts 10.0.0.1 (a) and 10.0.0.2 (b).
pub struct World<L: Locks> {
    pub nodes: [Node<L>; 2],
    now: Cell<Instant>,
    /// Set if virtual time has advanced and the timers that became due have not been run yet.
    moved: Cell<bool>,
    /// Function that returns which frames are lost.
    pub lose: RefCell<Lose>,
}

pub const EM0: IfaceId = IfaceId(1);
const DELAY: Duration = Duration::from_micros(100);

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Returns a socket address for a short host number: `2` is 10.0.0.2, `0` any address.
pub fn at(host: u8, port: u16) -> SocketAddr {
    let ip = if host == 0 { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::new(10, 0, 0, host) };
    SocketAddr::from((ip, port))
}

fn node<L: Locks>(host: u8, buffers: usize) -> Node<L> {
    let config = PoolConfig { buffers, locks: PoolLocks::Light, ..PoolConfig::default() };
    let pool = Pool::new(&config).unwrap();
    let cx = Cx::enter(How::Register, Instant::from_millis(1));
    let stack: Stack<L> = Stack::new(cx, Config { seed: Some(u64::from(host)), ..Config::new("h", pool.clone()) });
    let out = Wire::default();
    stack.add_iface("em0", Mac([2, 0, 0, 0, 0, host]), 1500, Offload::default()).unwrap();
    stack.set_output(cx, EM0, Some(Box::new(Out(out.clone()))));
    stack.add_addr(cx, EM0, IfaceAddr { addr: Ipv4Addr::new(10, 0, 0, host), len: 24 }).unwrap();
    Node { stack, out, pool }
}

impl<L: Locks> World<L> {
    pub fn new() -> World<L> {
        World::with_buffers(4096)
    }

    pub fn with_buffers(buffers: usize) -> World<L> {
        let nodes = [node(1, buffers), node(2, buffers)];
        World {
            nodes,
            now: Cell::new(Instant::from_millis(1)),
            moved: Cell::new(true),
            lose: RefCell::new(Box::new(|_, _| false)),
        }
    }

    pub fn now(&self) -> Instant {
        self.now.get()
    }

    pub fn cx(&self) -> Cx {
        Cx::enter(How::Register, self.now.get())
    }

    /// Returns the socket calls of host a.
    pub fn a(&self) -> Calls<'_, L> {
        Calls::driving(&self.nodes[0].stack, self.cx(), self)
    }

    /// Returns the socket calls of host b.
    pub fn b(&self) -> Calls<'_, L> {
        Calls::driving(&self.nodes[1].stack, self.cx(), self)
    }

    /// Loses all frames for which `which` returns `true`, from now on.
    pub fn lose(&self, which: impl FnMut(usize, &[u8]) -> bool + 'static) {
        *self.lose.borrow_mut() = Box::new(which);
    }

    /// Delivers the frames that are on the wire. Returns whether there were any.
    fn cross(&self) -> bool {
        let sent: Vec<_> = self.nodes.iter().map(|n| std::mem::take(&mut *n.out.lock().unwrap())).collect();
        if sent.iter().all(VecDeque::is_empty) {
            return false;
        }
        self.now.set(self.now().after(DELAY));
        for (from, frames) in sent.into_iter().enumerate() {
            let to = &self.nodes[1 - from].stack;
            let mut burst = Burst::new();
            for mut frame in frames {
                if (self.lose.borrow_mut())(from, frame.bytes()) {
                    continue;
                }
                if frame.flags().has(Flags::TX_L4_CSUM) {
                    frame.set_flags(Flags::RX_L4_OK);
                }
                if let Err(frame) = burst.push(frame) {
                    to.input(self.cx(), EM0, &mut burst);
                    burst.push(frame).unwrap();
                }
            }
            to.input(self.cx(), EM0, &mut burst);
        }
        true
    }

    /// Runs the next event, unless it is later than `until`. Returns `false` if no event is due
    /// before that.
    pub fn step(&self, until: Instant) -> bool {
        if self.cross() {
            return true;
        }
        let next = self.nodes.iter().filter_map(|n| n.stack.poll(self.cx())).min().unwrap_or(Instant::NEVER);
        if self.nodes.iter().any(|n| !n.out.lock().unwrap().is_empty()) {
            return true;
        }
        if self.moved.take() {
            return true; // a timer that was due may have completed what the caller waits for
        }
        let due = next <= until;
        if next.min(until) != Instant::NEVER {
            self.now.set(self.now().max(next.min(until)));
            self.moved.set(true);
        }
        due
    }

    /// Runs all events within the time `most`.
    pub fn pass(&self, most: Duration) {
        let until = self.now().after(most);
        for _ in 0..5_000_000 {
            if !self.step(until) {
                return;
            }
        }
        panic!("the hosts never become idle");
    }

    /// Opens a listener at port `port` of host b.
    pub fn listener(&self, port: u16, backlog: u32) -> Fd {
        let b = self.b();
        let fd = b.stream_socket().unwrap();
        b.bind(fd, at(0, port)).unwrap();
        b.listen(fd, backlog).unwrap();
        fd
    }

    /// Opens a connection and returns its descriptors: the client on host a, the listener and the
    /// server on host b.
    pub fn connected(&self) -> (Fd, Fd, Fd) {
        let listener = self.listener(80, 8);
        let client = self.a().stream_socket().unwrap();
        self.a().connect(client, at(2, 80)).unwrap();
        let (server, _) = self.b().accept(listener).unwrap();
        self.pass(ms(1));
        (client, listener, server)
    }

    /// Checks that nothing is left: no held frame, no used buffer, no socket, no connection in
    /// TIME-WAIT.
    pub fn end(&self) {
        self.pass(secs(4000));
        for node in &self.nodes {
            let audit = node.stack.audit(self.cx());
            assert_eq!((audit.imbalance(), audit.held), (0, 0), "{audit:?}");
            assert_eq!(node.stack.tcp_time_wait_count(self.cx()), 0);
            let mut left = Vec::new();
            node.stack
                .for_each_sock(self.cx(), |id, sock| left.push((id, format!("{:?}", sock.tcb().map(|t| t.state())))));
            assert!(left.is_empty(), "{left:?}");
            assert_eq!(node.pool.stats().live(), 0);
        }
    }
}

impl<L: Locks> Drive for World<L> {
    fn drive(&self, until: Instant) -> Option<Instant> {
        let happened = self.step(until);
        assert!(happened || until != Instant::NEVER, "waits for an event that can never occur");
        Some(self.now())
    }
}

/// Sets `O_NONBLOCK`.
pub fn nonblocking<L: Locks>(calls: &Calls<'_, L>, fd: Fd) {
    calls.set_option(fd, Opt::NonBlocking(true)).unwrap();
}

/// Writes until a write would block. Returns the number of bytes written.
pub fn fill<L: Locks>(calls: &Calls<'_, L>, fd: Fd) -> usize {
    let mut sent = 0;
    loop {
        match calls.send(fd, &[7; 4000]) {
            Ok(n) => sent += n,
            Err(Errno::EAGAIN) => return sent,
            Err(error) => panic!("{error} after {sent}"),
        }
    }
}

/// Returns the TCP flags of a frame, if it has a TCP segment.
pub fn tcp_flags(frame: &[u8]) -> Option<u8> {
    (frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&6)).then(|| frame[14 + 20 + 13])
}
