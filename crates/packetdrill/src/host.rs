//! The host under test: one stack with one iface that is connected to the script.
//!
//! Packets arrive from `netdev_send`. Sent packets are queued for `netdev_receive` with their send
//! times. The module `door` advances time; this module neither reads a clock nor blocks.

use crate::flags::Settings;
use buf::{Burst, Frame, Pool, PoolConfig};
use clock::Instant;
use inet::Stack;
use inet::fib::Prefix;
use inet::fib::Prefix6;
use inet::iface::{IfaceAddr, IfaceId, Offload, Output};
use inet::ip6::IfaceAddr6;
use inet::route::Via;
use inet::route::Via6;
use lock::{Cx, How, Light};
use socket::Calls;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use wire::eth::EtherType;
use wire::{Mac, eth, icmp6, ip4, ip6};

/// Start time of the host. It is not 0, so that earlier times can be represented.
pub(crate) const START: Instant = Instant::from_millis(1_000_000);
/// IPv6 requires an MTU of 1280 bytes (RFC 8200 5); a smaller iface has no IPv6.
const MTU6_MIN: u16 = 1280;
const IFACE: IfaceId = IfaceId(1);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const ROUTER_MAC: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
/// Maximum length of a packet that fits the host's normal buffers, in bytes.
const SMALL: usize = 2000;
/// Maximum number of polls of the stack at one time.
const POLLS_MAX: usize = 10_000;
/// Maximum number of packets queued for `netdev_receive`, since a script may never read them.
const WIRE_MAX: usize = 65_536;

/// Packets sent by the host, with their send times.
type Wire = Arc<Mutex<VecDeque<(Instant, Vec<u8>)>>>;

struct Out(Wire);

impl Output for Out {
    fn output(&mut self, burst: &mut Burst, now: Instant) -> usize {
        let mut wire = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

pub(crate) struct Host {
    pub stack: Stack<Light>,
    /// Buffers for packets larger than the host's normal buffers.
    large: Pool,
    wire: Wire,
    pub now: Instant,
    /// Value of `tcp_notsent_lowat` in bytes, for sockets without `TCP_NOTSENT_LOWAT`.
    pub lowat: u32,
}

impl Host {
    /// Creates the host.
    ///
    /// # Errors
    /// Returns a message if there is no memory, or a setting is invalid.
    pub fn new(settings: &Settings) -> Result<Host, String> {
        let locks = buf::PoolLocks::Light;
        let config = PoolConfig { buffers: 16_384, data: 2048 + 64, locks, ..PoolConfig::default() };
        let pool = Pool::new(&config).map_err(|why| why.to_string())?;
        let large = PoolConfig { buffers: 32, data: 65_536 + 64, locks, ..PoolConfig::default() };
        let large = Pool::new(&large).map_err(|why| why.to_string())?;
        let cx = Cx::enter(How::Register, START);
        let config = inet::Config { seed: settings.seed, ..inet::Config::new("packetdrill", pool) };
        let stack: Stack<Light> = Stack::new(cx, config);
        stack.add_iface("em0", MAC, settings.mtu, Offload::default()).ok_or("cannot add an iface")?;
        let wire = Wire::default();
        stack.set_output(cx, IFACE, Some(Box::new(Out(wire.clone()))));
        let mut host = Host { stack, large, wire, now: START, lowat: u32::MAX };
        let [a, b, ..] = settings.local.octets();
        let router = Ipv4Addr::new(a, b, 255, 254);
        host.add_address(settings.local, 16)?;
        host.stack.set_neighbor(cx, IFACE, router, ROUTER_MAC);
        host.stack.add_route(cx, Prefix::DEFAULT, Via::Gateway(IFACE, router)).map_err(|why| format!("{why:?}"))?;
        if settings.mtu >= MTU6_MIN {
            let [a, b, c, ..] = settings.local6.segments();
            let router = Ipv6Addr::new(a, b, c, 0x8888, 0, 0, 0, 1);
            host.stack.sysctls.dad_count.set(0); // no other host on the link
            host.add_address6(settings.local6, 48)?;
            host.stack.set_neighbor6(cx, IFACE, router, ROUTER_MAC);
            let via = Via6::Gateway(IFACE, router);
            host.stack.add_route6(cx, Prefix6::DEFAULT, via).map_err(|why| format!("{why:?}"))?;
        }
        for (name, value) in &settings.sysctls {
            host.set(name, value)?;
        }
        Ok(host)
    }

    /// Sets a sysctl, given by our name or by Linux's name.
    ///
    /// # Errors
    /// Returns a message if the sysctl is unknown or the value invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if name.ends_with("tcp_notsent_lowat") {
            self.lowat = value.trim().parse().map_err(|_| format!("{name}={value}: expected a number of bytes"))?;
            return Ok(());
        }
        self.stack.sysctls.set_as_linux(name, value)
    }

    /// Returns a context for the calling thread, at the host's time.
    pub fn cx(&self) -> Cx {
        Cx::enter(How::Register, self.now)
    }

    /// Returns the host's socket calls. All sockets are non-blocking in the stack; the module
    /// `door` implements blocking.
    pub fn calls(&self) -> Calls<'_, Light> {
        Calls::new(&self.stack, self.cx())
    }

    fn add_address(&self, addr: Ipv4Addr, len: u8) -> Result<(), String> {
        self.stack.add_addr(self.cx(), IFACE, IfaceAddr { addr, len }).map_err(|why| format!("{addr}: {why:?}"))
    }

    fn add_address6(&self, addr: Ipv6Addr, len: u8) -> Result<(), String> {
        let added = self.stack.add_addr6(self.cx(), IFACE, IfaceAddr6::new(addr, len));
        added.map_err(|why| format!("{addr}: {why:?}"))
    }

    /// Adds an address to the host. Scripts use an address for the host without announcing it, so
    /// any address that they bind or send to is added.
    pub fn own(&self, addr: IpAddr) {
        let cx = self.cx();
        if addr.is_unspecified() || addr.is_multicast() || addr.is_loopback() {
            return;
        }
        // The only error is a full table. The packet is then handled as not addressed to this host.
        let _ = match addr {
            IpAddr::V4(Ipv4Addr::BROADCAST) => Ok(()),
            IpAddr::V4(addr)
                if !self.stack.ifaces().any(|iface| iface.addrs(cx).iter().any(|own| own.addr == addr)) =>
            {
                self.add_address(addr, 32)
            }
            IpAddr::V6(addr)
                if !self.stack.ifaces().any(|iface| iface.addrs6(cx).iter().any(|own| own.addr == addr)) =>
            {
                self.add_address6(addr, 128)
            }
            _ => Ok(()),
        };
    }

    /// Adds a static neighbor for an address of the script, since the script answers neither ARP
    /// requests nor neighbor solicitations.
    pub fn meet(&self, addr: IpAddr) {
        match addr {
            IpAddr::V4(addr) => self.stack.set_neighbor(self.cx(), IFACE, addr, ROUTER_MAC),
            IpAddr::V6(addr) => self.stack.set_neighbor6(self.cx(), IFACE, addr, ROUTER_MAC),
        }
    }

    /// Receives an IP packet.
    ///
    /// # Errors
    /// Returns an error if the packet is invalid, or there is no buffer for it.
    pub fn input(&self, packet: &[u8]) -> Result<(), ()> {
        let is_six = ip6::is_version(packet);
        let (src, dst): (IpAddr, IpAddr) = if is_six {
            let header = ip6::Header::parse(packet).map_err(drop)?;
            (header.src.into(), header.dst.into())
        } else {
            let header = ip4::Header::parse(packet).map_err(drop)?;
            (header.src.into(), header.dst.into())
        };
        self.own(dst);
        self.meet(src);
        let pool = if packet.len() > SMALL { &self.large } else { &self.stack.pool };
        let mut frame: Frame = pool.get().ok_or(())?;
        let kind = if is_six { EtherType::IPV6 } else { EtherType::IPV4 };
        let header = [&MAC.0[..], &ROUTER_MAC.0, &kind.0.to_be_bytes()].concat();
        frame.extend(&header).and_then(|()| frame.extend(packet)).ok_or(())?;
        self.stack.input(self.cx(), IFACE, &mut Burst::of(frame));
        Ok(())
    }

    /// Runs the timers that are due. Returns the time of the next timer.
    pub fn poll(&self) -> Instant {
        for _ in 0..POLLS_MAX {
            match self.stack.poll(self.cx()) {
                Some(next) if next <= self.now => {}
                next => return next.unwrap_or(Instant::NEVER),
            }
        }
        Instant::NEVER
    }

    /// Returns the oldest queued packet sent by the host, with its send time.
    pub fn output(&self) -> Option<(Instant, Vec<u8>)> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
