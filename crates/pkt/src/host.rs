//! The host under test: one stack with one iface, whose other end is a script.
//!
//! The caller provides the packets that arrive, and advances the time. Sent packets are queued with
//! their times. The host reads no clock.

use buf::{Burst, Frame, Pool, PoolConfig, PoolLocks};
use clock::Instant;
use inet::Stack;
use inet::fib::{Prefix, Prefix6};
use inet::iface::{IfaceAddr, IfaceId, Offload, Output};
use inet::ip6::IfaceAddr6;
use inet::route::{Via, Via6};
use lock::{Cx, How, Locks};
use socket::Calls;
use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::eth::{self, EtherType};
use wire::{Mac, icmp6, ip6};

/// Time on the host's clock at which a script starts. It is not 0, so that earlier times can be
/// represented.
pub const START: Instant = Instant::from_millis(1_000_000);
const IFACE: IfaceId = IfaceId(1);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// Address of all neighbors.
const NEIGHBOR_MAC: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
/// Prefix length of the host's first IPv4 address.
const LEN: u8 = 16;
/// Prefix length of the host's first IPv6 address.
const LEN6: u8 = 48;
/// Maximum length in bytes of a packet for which a buffer of the host's own pool is used.
const SMALL: usize = 2000;
/// Maximum number of polls at one instant; more indicate that the host is stuck.
const POLLS_MAX: usize = 10_000;
/// Maximum number of packets queued, since a script may never read them. Further ones are dropped.
const WIRE_MAX: usize = 65_536;

/// Packets sent by the host, with their times.
type Wire = Arc<Mutex<VecDeque<(Instant, Vec<u8>)>>>;

fn lock(wire: &Wire) -> MutexGuard<'_, VecDeque<(Instant, Vec<u8>)>> {
    wire.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Out(Wire);

impl Output for Out {
    fn output(&mut self, burst: &mut Burst, now: Instant) -> usize {
        let mut wire = lock(&self.0);
        let n = burst.len();
        for frame in burst.drain() {
            let Some((header, packet)) = frame.bytes().split_at_checked(eth::HEADER_LEN) else { continue };
            let is_four = header.ends_with(&EtherType::IPV4.0.to_be_bytes());
            let is_six = header.ends_with(&EtherType::IPV6.0.to_be_bytes());
            if (is_four || is_six && !icmp6::is_link_upkeep(packet)) && wire.len() < WIRE_MAX {
                wire.push_back((now, packet.to_vec()));
            }
        }
        n
    }
}

/// A host with one iface, whose other end is a script.
pub struct Host<L: Locks> {
    /// The TCP/IP stack of the host.
    pub stack: Stack<L>,
    /// Pool for packets that do not fit the buffers of the stack's own pool.
    large: Pool,
    wire: Wire,
    now: Cell<Instant>,
}

impl<L: Locks> Host<L> {
    /// Creates a host called `name` without addresses, at time [`START`]. `mtu` is the MTU of its
    /// iface in bytes. With a `seed`, its random numbers are reproducible.
    ///
    /// # Errors
    /// Returns a message if memory cannot be allocated.
    pub fn new(name: &str, mtu: u16, seed: Option<u64>) -> Result<Host<L>, String> {
        let locks = if L::SHARED { PoolLocks::Light } else { PoolLocks::Owner };
        let pool = |buffers, data| {
            let config = PoolConfig { buffers, data, locks, ..PoolConfig::default() };
            Pool::new(&config).map_err(|why| why.to_string())
        };
        let (small, large) = (pool(16_384, 2048 + 64)?, pool(64, 65_536 + 64)?);
        let cx = Cx::enter(How::Register, START);
        let stack: Stack<L> = Stack::new(cx, inet::Config { seed, ..inet::Config::new(name, small) });
        stack.add_iface("em0", MAC, mtu, Offload::default()).ok_or("cannot add an iface")?;
        let wire = Wire::default();
        stack.set_output(cx, IFACE, Some(Box::new(Out(wire.clone()))));
        Ok(Host { stack, large, wire, now: Cell::new(START) })
    }

    /// Returns the time.
    pub fn now(&self) -> Instant {
        self.now.get()
    }

    /// Sets the time to `to`. An earlier time has no effect.
    pub fn advance(&self, to: Instant) {
        self.now.set(self.now.get().max(to));
    }

    /// Returns a context for the calling thread, at the host's time.
    pub fn cx(&self) -> Cx {
        Cx::enter(How::Register, self.now.get())
    }

    /// Returns socket calls for non-blocking sockets. A call that has to wait would sleep forever,
    /// since nothing runs the host meanwhile.
    pub fn calls(&self) -> Calls<'_, L> {
        Calls::new(&self.stack, self.cx())
    }

    /// Adds the first address of a family, and a default route through a router on its link. With
    /// an IPv6 address, duplicate address detection is disabled, so that the address is usable at
    /// once.
    ///
    /// # Errors
    /// Returns a message if the stack rejects the address.
    pub fn add_first_addr(&self, local: IpAddr) -> Result<(), String> {
        let cx = self.cx();
        match local {
            IpAddr::V4(local) => {
                let [a, b, ..] = local.octets();
                let router = Ipv4Addr::new(a, b, 255, 254);
                self.add_addr(local.into(), LEN)?;
                self.set_neighbor(router.into());
                let via = Via::Gateway(IFACE, router);
                self.stack.add_route(cx, Prefix::DEFAULT, via).map_err(|why| format!("{why:?}"))?;
            }
            IpAddr::V6(local) => {
                let [a, b, c, ..] = local.segments();
                let router = Ipv6Addr::new(a, b, c, 0x8888, 0, 0, 0, 1);
                self.stack.sysctls.dad_count.set(0); // no other host is on the link
                self.add_addr(local.into(), LEN6)?;
                self.set_neighbor(router.into());
                let via = Via6::Gateway(IFACE, router);
                self.stack.add_route6(cx, Prefix6::DEFAULT, via).map_err(|why| format!("{why:?}"))?;
            }
        }
        Ok(())
    }

    /// Adds an address with a prefix of `len` bits.
    ///
    /// # Errors
    /// Returns a message if the stack rejects the address.
    pub fn add_addr(&self, addr: IpAddr, len: u8) -> Result<(), String> {
        let refused = |why: String| format!("{addr}: {why}");
        match addr {
            IpAddr::V4(addr) => {
                let added = self.stack.add_addr(self.cx(), IFACE, IfaceAddr { addr, len });
                added.map_err(|why| refused(format!("{why:?}")))
            }
            IpAddr::V6(addr) => {
                let added = self.stack.add_addr6(self.cx(), IFACE, IfaceAddr6::new(addr, len));
                added.map_err(|why| refused(format!("{why:?}")))
            }
        }
    }

    /// Adds a static neighbor, since scripts answer neither ARP requests nor neighbor
    /// solicitations.
    pub fn set_neighbor(&self, addr: IpAddr) {
        match addr {
            IpAddr::V4(addr) => self.stack.set_neighbor(self.cx(), IFACE, addr, NEIGHBOR_MAC),
            IpAddr::V6(addr) => self.stack.set_neighbor6(self.cx(), IFACE, addr, NEIGHBOR_MAC),
        }
    }

    /// Passes an IP packet to the stack.
    ///
    /// # Errors
    /// Returns a message if there is no buffer for the packet.
    pub fn input(&self, packet: &[u8]) -> Result<(), &'static str> {
        let pool = if packet.len() > SMALL { &self.large } else { &self.stack.pool };
        let mut frame: Frame = pool.get().ok_or("no free buffer")?;
        let kind = if ip6::is_version(packet) { EtherType::IPV6 } else { EtherType::IPV4 };
        let header = [&MAC.0[..], &NEIGHBOR_MAC.0, &kind.0.to_be_bytes()].concat();
        frame.extend(&header).and_then(|()| frame.extend(packet)).ok_or("the packet is larger than a buffer")?;
        self.stack.input(self.cx(), IFACE, &mut Burst::of(frame));
        Ok(())
    }

    /// Runs the timers that are due. Returns the time of the next timer ([`Instant::NEVER`] if
    /// there is none), or `None` if the timers make no progress.
    pub fn poll(&self) -> Option<Instant> {
        for _ in 0..POLLS_MAX {
            match self.stack.poll(self.cx()) {
                Some(next) if next <= self.now.get() => {}
                next => return Some(next.unwrap_or(Instant::NEVER)),
            }
        }
        None
    }

    /// Removes and returns the oldest queued packet sent by the host, with its time.
    pub fn output(&self) -> Option<(Instant, Vec<u8>)> {
        lock(&self.wire).pop_front()
    }
}
