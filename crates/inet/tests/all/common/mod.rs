//! A host under test: a stack, its pool, a wire at each interface that records sent frames, and a
//! clock that only the test advances.
//!
//! A test is a conversation: frames arrive, time passes, the application makes calls, and frames
//! are sent. After each step, [`Host::assert_counters`] lists every counter that changed, and no
//! other counter may have changed. A host is shut down when it goes out of scope. The audit must
//! then balance, no frame may be held, and every frame must have been returned to its pool.

pub mod kin;
pub mod packets;
pub mod six;

use buf::{Burst, Flags, Frame, Pool, PoolConfig, PoolLocks};
use clock::{Duration, Instant};
use linerate_inet::fib::Prefix;
use linerate_inet::iface::{IfaceAddr, IfaceId, Offload, Output};
use linerate_inet::neigh::Neighbor;
use linerate_inet::route::Via;
use linerate_inet::udp::Domain;
use linerate_inet::udp::{Ancillary, SendError, SoError};
use linerate_inet::{Config, Stack};
use lock::{Cx, How, Locks};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use wire::Mac;

/// Creates a test from each conversation for every lock kind named.
#[macro_export]
macro_rules! conversations {
    ($($name:ident)+) => {
        mod up { $( #[test] fn $name() { super::$name::<lock::Up>() } )+ }
        mod light { $( #[test] fn $name() { super::$name::<lock::Light>() } )+ }
    };
}

/// A station on a link: a MAC address and an IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    pub mac: Mac,
    pub ip: Ipv4Addr,
}

const fn station(link: u8, host: u8) -> Station {
    Station { mac: Mac([2, 0, 0, 0, link, host]), ip: Ipv4Addr::new(10, 0, link, host) }
}

/// The host under test, on its first link (10.0.0.0/24).
pub const ME: Station = station(0, 1);
pub const PEER: Station = station(0, 2);
pub const OTHER: Station = station(0, 3);
pub const GATEWAY: Station = station(0, 254);
/// The host under test, on its second link (10.0.1.0/24).
pub const ME2: Station = station(1, 1);
pub const FAR: Station = station(1, 2);
pub const FAR_GATEWAY: Station = station(1, 254);

pub const EM0: IfaceId = IfaceId(1);
pub const EM1: IfaceId = IfaceId(2);

/// Frames that a port has accepted.
#[derive(Default)]
pub struct Wire {
    sent: VecDeque<Vec<u8>>,
    /// Number of frames that the port accepts before it is full; `None` if it is never full.
    room: Option<usize>,
    checked: Checked,
}

/// Checks that are applied to each sent frame.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Checked {
    /// All checks, for frames that this host created.
    #[default]
    All,
    /// Checks up to the IPv4 header, since the payload of forwarded packets may be anything.
    Network,
    /// No checks, since the port fills in checksums.
    Nothing,
}

struct Capture(Arc<Mutex<Wire>>);

impl Output for Capture {
    fn output(&mut self, burst: &mut Burst, _: Instant) -> usize {
        let mut wire = self.0.lock().unwrap();
        let mut taken = 0;
        while wire.room != Some(0) {
            let Some(frame) = burst.pop() else { break };
            match wire.checked {
                Checked::All => packets::assert_fit_for_a_wire(frame.bytes()),
                Checked::Network => drop(packets::assert_network_fit_for_a_wire(frame.bytes())),
                Checked::Nothing => {}
            }
            wire.sent.push_back(frame.bytes().to_vec());
            wire.room = wire.room.map(|room| room - 1);
            taken += 1;
        }
        taken
    }
}

/// A host under test.
pub struct Host<L: Locks> {
    pub stack: Stack<L>,
    pub pool: Pool,
    now: Cell<Instant>,
    wires: RefCell<Vec<Arc<Mutex<Wire>>>>,
    before: RefCell<BTreeMap<String, u64>>,
}

pub fn pool(buffers: usize) -> Pool {
    Pool::new(&PoolConfig { buffers, locks: PoolLocks::Light, ..PoolConfig::default() }).unwrap()
}

pub fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

pub fn at(station: Station, l4port: u16) -> SocketAddr {
    SocketAddr::from((station.ip, l4port))
}

pub fn any(l4port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::UNSPECIFIED, l4port))
}

impl<L: Locks> Host<L> {
    /// Creates a host without interfaces other than `lo0`.
    pub fn bare(buffers: usize, seed: u64) -> Self {
        Host::configured(pool(buffers), |config| config.seed = Some(seed))
    }

    pub fn configured(pool: Pool, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config { seed: Some(1), ..Config::new("h1", pool.clone()) };
        change(&mut config);
        let now = Instant::from_millis(1_000);
        let stack = Stack::new(Cx::enter(How::Register, now), config);
        let host = Host { stack, pool, now: Cell::new(now), wires: RefCell::default(), before: RefCell::default() };
        host.wires.borrow_mut().push(Arc::default()); // the wire of lo0, which has no port
        host.forget_counters();
        host
    }

    /// Creates a host with one interface, `em0`, 10.0.0.1/24.
    pub fn new() -> Self {
        let host = Host::bare(512, 1);
        host.add_iface("em0", ME, 1500);
        host
    }

    /// Creates a router with two interfaces: `em0` with 10.0.0.1/24, and `em1` with 10.0.1.1/24.
    /// PEER and FAR are known neighbors.
    pub fn router() -> Self {
        Host::new().made_router()
    }

    fn made_router(self) -> Self {
        self.add_iface("em1", ME2, 1500);
        self.stack.sysctls.forwarding.set(1);
        self.knows(EM0, PEER);
        self.knows(EM1, FAR);
        self.forget_counters();
        self
    }

    /// Creates a router as [`Host::router`] does, with `buffers` buffers that have space for a
    /// large segment.
    pub fn roomy_router(buffers: usize) -> Self {
        let config = PoolConfig { buffers, data: 4096, locks: PoolLocks::Light, ..PoolConfig::default() };
        let host = Host::configured(Pool::new(&config).unwrap(), |_| {});
        host.add_iface("em0", ME, 1500);
        host.made_router()
    }

    /// Adds an interface with a /24 and a wire, and discards the frames that announce it.
    pub fn add_iface(&self, name: &str, station: Station, mtu: u16) -> IfaceId {
        let capable = Offload { tx_ip: true, tx_l4: true, rx: true, tso: true };
        let id = self.stack.add_iface(name, station.mac, mtu, capable).unwrap();
        self.connect(id);
        self.stack.add_addr(self.cx(), id, IfaceAddr { addr: station.ip, len: 24 }).unwrap();
        self.stack.flush(self.cx());
        self.sent(id);
        self.forget_counters();
        id
    }

    /// Connects an interface to a wire of its own. Interfaces are connected in the order of their
    /// numbers.
    pub fn connect(&self, id: IfaceId) {
        let wire = Arc::default();
        self.stack.set_output(self.cx(), id, Some(Box::new(Capture(Arc::clone(&wire)))));
        let mut wires = self.wires.borrow_mut();
        wires.truncate(usize::from(id.0));
        wires.push(wire);
    }

    /// Adds a permanent neighbor entry, so that only the tests of ARP need ARP.
    pub fn knows(&self, iface: IfaceId, station: Station) {
        self.stack.set_neighbor(self.cx(), iface, station.ip, station.mac);
    }

    pub fn route(&self, text: &str, via: Via) {
        self.stack.add_route(self.cx(), prefix(text), via).unwrap();
    }

    pub fn cx(&self) -> Cx {
        Cx::enter(How::Register, self.now.get())
    }

    pub fn now(&self) -> Instant {
        self.now.get()
    }

    // ---- the wire -----------------------------------------------------------------------------------------------

    pub fn frame(&self, bytes: &[u8]) -> Frame {
        let mut frame = self.pool.get().expect("the test has used up the pool");
        frame.extend(bytes).expect("longer than a buffer");
        frame
    }

    /// Receives a frame on `iface`.
    pub fn inject(&self, iface: IfaceId, frame: impl AsRef<[u8]>) {
        self.inject_all(iface, [frame]);
    }

    /// Receives a large TCP segment on `em0`, with its checksum left to the port and pieces of
    /// `size` bytes of data.
    pub fn inject_large(&self, frame: &[u8], size: u16) {
        let mut frame = self.frame(frame);
        frame.set_flags(Flags::TX_L4_CSUM.with(Flags::RX_L4_OK));
        frame.set_gso_size(size);
        self.stack.input(self.cx(), EM0, &mut Burst::of(frame));
    }

    /// Receives a frame on `em0` whose TCP or UDP checksum is not filled in, as from a port that
    /// leaves it to the next port.
    pub fn inject_open(&self, frame: &[u8]) {
        let mut frame = self.frame(frame);
        frame.set_flags(Flags::TX_L4_CSUM.with(Flags::RX_L4_OK));
        self.stack.input(self.cx(), EM0, &mut Burst::of(frame));
    }

    /// Receives several frames in one burst. A port that verifies checksums marks them as verified.
    pub fn inject_all<F: AsRef<[u8]>>(&self, iface: IfaceId, frames: impl IntoIterator<Item = F>) {
        let mut burst = Burst::new();
        let sound = Flags::RX_IP_OK.with(Flags::RX_L4_OK);
        let verifies = self.stack.iface(iface).is_some_and(|iface| iface.offload().rx);
        for frame in frames {
            let mut frame = self.frame(frame.as_ref());
            frame.set_flags(if verifies { sound } else { Flags::default() });
            burst.push(frame).unwrap();
        }
        self.stack.input(self.cx(), iface, &mut burst);
        assert!(burst.is_empty(), "input leaves nothing");
    }

    /// Returns the frames that `iface` has sent since the last call, after flushing the stage.
    pub fn sent(&self, iface: IfaceId) -> Vec<Vec<u8>> {
        self.stack.flush(self.cx());
        self.sent_at_once(iface)
    }

    /// Returns the frames that `iface` has sent since the last call, without flushing the stage.
    pub fn sent_at_once(&self, iface: IfaceId) -> Vec<Vec<u8>> {
        self.wires.borrow()[usize::from(iface.0)].lock().unwrap().sent.drain(..).collect()
    }

    /// Returns the only frame that `iface` has sent.
    pub fn sent_one(&self, iface: IfaceId) -> Vec<u8> {
        let mut sent = self.sent(iface);
        assert_eq!(sent.len(), 1, "{:#?}", sent.iter().map(|f| packets::line(f)).collect::<Vec<_>>());
        sent.pop().unwrap()
    }

    pub fn sent_nothing(&self, iface: IfaceId) {
        let sent = self.sent(iface);
        assert!(sent.is_empty(), "{:#?}", sent.iter().map(|f| packets::line(f)).collect::<Vec<_>>());
    }

    /// Sets the number of frames that the port of `iface` still accepts; `None` if it is never
    /// full.
    pub fn set_room(&self, iface: IfaceId, frames: Option<usize>) {
        self.wires.borrow()[usize::from(iface.0)].lock().unwrap().room = frames;
    }

    /// Sets the checks that are applied to each frame that `iface` sends.
    pub fn set_checked(&self, iface: IfaceId, checked: Checked) {
        self.wires.borrow()[usize::from(iface.0)].lock().unwrap().checked = checked;
    }

    // ---- time ---------------------------------------------------------------------------------------------------

    pub fn poll(&self) -> Option<Instant> {
        self.stack.poll(self.cx())
    }

    /// Advances the time and polls the stack once at the end.
    pub fn advance(&self, by: Duration) -> Option<Instant> {
        self.now.set(self.now.get().after(by));
        self.poll()
    }

    pub fn advance_secs(&self, secs: u64) -> Option<Instant> {
        self.advance(Duration::from_secs(secs))
    }

    /// Advances the time and polls the stack at each time that it returned.
    pub fn pass(&self, by: Duration) {
        let end = self.now.get().after(by);
        while let Some(next) = self.poll().filter(|next| *next <= end) {
            // If the stack returned the current time again and again, the clock would stop.
            self.now.set(next.max(self.now.get().after(Duration::from_micros(1))).min(end));
            if self.now.get() == end {
                break;
            }
        }
        self.now.set(end);
        self.poll();
    }

    // ---- the application ----------------------------------------------------------------------------------------
    // ----------------------------------------------------------------------------------------

    pub fn open(&self) -> usize {
        self.stack.udp_open(self.cx(), Domain::Inet).unwrap()
    }

    /// Opens a socket bound to `l4port` of any address.
    pub fn bound(&self, l4port: u16) -> usize {
        let id = self.open();
        self.stack.udp_bind(self.cx(), id, any(l4port)).unwrap();
        id
    }

    /// Opens a socket bound to `l4port` and connected to `to`.
    pub fn connected(&self, l4port: u16, to: SocketAddr) -> usize {
        let id = self.bound(l4port);
        self.stack.udp_connect(self.cx(), id, to).unwrap();
        id
    }

    pub fn send(&self, id: usize, payload: &[u8], to: impl Into<Option<SocketAddr>>) -> Result<usize, SendError> {
        self.stack.udp_send(self.cx(), id, payload, to.into().as_ref())
    }

    /// Sends a datagram as [`Host::send`] does, from one of this host's addresses.
    pub fn send_from(&self, id: usize, payload: &[u8], to: SocketAddr, from: IpAddr) -> Result<usize, SendError> {
        self.stack.udp_send_msg(self.cx(), id, payload, Some(&to), &Ancillary::source(from))
    }

    /// Returns the next datagram's payload and sender.
    pub fn recv(&self, id: usize) -> Option<(Vec<u8>, SocketAddr)> {
        let got = self.stack.udp_recv(self.cx(), id)?;
        Some((got.frame.bytes().to_vec(), got.from))
    }

    pub fn error(&self, id: usize) -> Option<SoError> {
        self.stack.with_pcb(self.cx(), id, |pcb| pcb.take_error()).unwrap()
    }

    pub fn options(&self, id: usize, change: impl FnOnce(&mut linerate_inet::udp::Options)) {
        let changed = |pcb: &mut linerate_inet::udp::Pcb<L>| {
            change(&mut pcb.options);
            pcb.forget_headers(); // as the socket layer does
        };
        self.stack.with_pcb(self.cx(), id, changed).unwrap();
    }

    pub fn neighbor(&self, ip: Ipv4Addr) -> Option<Neighbor> {
        self.stack.neighbors(self.cx()).into_iter().find(|n| n.addr == ip)
    }

    // ---- what was counted ---------------------------------------------------------------------------------------

    fn counters(&self) -> BTreeMap<String, u64> {
        self.stack.snapshot().into_iter().map(|entry| (entry.name, entry.value)).collect()
    }

    /// Discards the counter changes so far.
    pub fn forget_counters(&self) {
        self.before.replace(self.counters());
    }

    /// Returns the counters that have changed since the last call, with the differences.
    pub fn counted(&self) -> BTreeMap<String, u64> {
        let now = self.counters();
        let before = self.before.replace(now.clone());
        now.into_iter().map(|(name, n)| (name.clone(), n - before[&name])).filter(|(_, n)| *n > 0).collect()
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.stack.counter(name)
    }

    /// Checks that exactly these counters have changed since the last call, by exactly these
    /// amounts, and that the audit balances.
    ///
    /// The format is `ip4.received 1, udp.in.no_socket 1`: dotted names without `inet.`. Two names
    /// stand for two counters each: `in` for a frame received from a port (`link.ether.received`,
    /// `audit.received`), and `out` for a frame sent to a port.
    #[track_caller]
    pub fn assert_counters(&self, changes: &str) {
        let mut wanted = BTreeMap::new();
        for change in changes.split(',').map(str::trim).filter(|change| !change.is_empty()) {
            let (name, n) = change.split_once(' ').expect("'name count'");
            let n: u64 = n.trim().parse().expect("a count");
            let names = match name {
                "in" => vec!["inet.link.ether.received".to_string(), "inet.audit.received".to_string()],
                "out" => vec!["inet.link.ether.sent".to_string(), "inet.audit.sent".to_string()],
                name if self.before.borrow().contains_key(name) => vec![name.to_string()],
                name => vec![format!("inet.{name}")],
            };
            for name in names {
                assert!(self.before.borrow().contains_key(&name), "no such counter: {name}");
                wanted.insert(name, n);
            }
        }
        wanted.retain(|_, n| *n > 0);
        let got = self.counted();
        assert!(got == wanted, "counted:  {}\nexpected: {}", in_short(&got), in_short(&wanted));
        self.audit();
    }

    /// Checks that frames in = out + consumed + dropped + held.
    #[track_caller]
    pub fn audit(&self) {
        let report = self.stack.audit(self.cx());
        assert_eq!(report.imbalance(), 0, "{report:#?}");
    }

    fn finish(&self) {
        self.audit();
        let (held, ended) = (self.stack.held(self.cx()), self.counter("node.shutdown"));
        self.stack.shutdown(self.cx());
        assert!(self.counter("node.shutdown") - ended <= held, "more frames were dropped than were held");
        assert_eq!(self.stack.held(self.cx()), 0, "held after shutdown");
        self.audit();
        assert_eq!(self.pool.stats().live(), 0, "frames were not returned to the pool");
    }
}

impl<L: Locks> Drop for Host<L> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.finish();
        }
    }
}

fn in_short(changes: &BTreeMap<String, u64>) -> String {
    let mut left: BTreeMap<&str, u64> =
        changes.iter().map(|(name, n)| (name.strip_prefix("inet.").unwrap_or(name), *n)).collect();
    let mut out = Vec::new();
    for (word, link, audit) in
        [("in", "link.ether.received", "audit.received"), ("out", "link.ether.sent", "audit.sent")]
    {
        if let (Some(a), Some(b)) = (left.get(link).copied(), left.get(audit).copied())
            && a == b
        {
            left.remove(link);
            left.remove(audit);
            out.push(format!("{word} {a}"));
        }
    }
    out.extend(left.iter().map(|(name, n)| format!("{name} {n}")));
    out.join(", ")
}

/// Delivers frames between `em0` of two hosts until neither sends any more. Returns the number of
/// frames.
pub fn pump<A: Locks, B: Locks>(a: &Host<A>, b: &Host<B>) -> usize {
    let mut carried = 0;
    loop {
        let (there, back) = (a.sent(EM0), b.sent(EM0));
        if there.is_empty() && back.is_empty() {
            return carried;
        }
        carried += there.len() + back.len();
        there.chunks(256).for_each(|frames| b.inject_all(EM0, frames));
        back.chunks(256).for_each(|frames| a.inject_all(EM0, frames));
        assert!(carried < 1_000_000, "the two hosts never stop sending");
    }
}

/// Random number generator with a seed (xorshift64*).
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }
}
