//! A host: its interfaces, tables and sockets, with two entry points: [`Stack::input`] for bursts
//! and [`Stack::poll`] for timers.

mod buffers;
mod input;
mod lock_use;
mod lookup;
mod moved;
mod own;
mod queues;
mod reject;
mod slow;
mod stage;
mod statistics;
mod tasks;
mod transmit;

pub use reject::Notice;

pub(crate) use input::begins_with_ip6;
pub use lock_use::LockUse;
pub(crate) use own::{OwnAddresses, OwnFilter};
pub(crate) use slow::{CHUNK, SlowFrames};
pub use statistics::LoopUse;

use crate::alarm::Alarm;
use crate::counters::Counters;
use crate::demux::Demux;
use crate::echo::Exchanges;
use crate::groups::Memberships;
use crate::iface::{Iface, IfaceAddr, IfaceId, IfaceKind, Ifaces, Offload};
use crate::ip4::ident::Idents;
use crate::ip4::pmtu::{FLOOR, PathMtus};
use crate::ip4::reass::{Limits, Reassembly};
use crate::ip6::Ip6;
use crate::limit::Limiter;
use crate::neigh::{self, Neighbor};
use crate::prefixes::PrefixTable;
use crate::raw::RawSockets;
use crate::redirect::Redirects;
use crate::resolvers::Resolvers;
use crate::route::connected::connected_routes;
use crate::route::{Path, Route, RouteCache, RouteCounts, RouteError, RouteReader, Routes, Via};
use crate::sessions::FailedSessions;
use crate::slots::Slots;
use crate::sysctls::Sysctls;
use crate::tunnel::{Requeue, Tunnels};
use crate::udp::{HeldDatagrams, Pcb};
use buf::{Frame, Pool, PoolConfig, PoolLocks};
use clock::Instant;
use fib::{self, Prefix};
use lock::{Cx, Guarded, Locks, USUAL_THREADS};
use stats::{DropReason, Shards, Stage};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use wire::hash::Key;
use wire::{Mac, Proto};

/// Prefix length of lo0's address (RFC 1122 3.2.1.3). A fuzz target uses a longer prefix than 8.
/// Otherwise libFuzzer, which traces each comparison, would spend most of the time of an input on
/// filling the 65,536 table entries of a /8.
const LOOPBACK_LEN: u8 = if cfg!(fuzzing) { 24 } else { 8 };

/// Returns the configuration of the pool for large frames. Its buffers take up as much memory as a
/// quarter of the host's pool, but there are at least as many as in `least`. The memory becomes
/// resident only when used.
fn large_pool(least: &PoolConfig, pool: &Pool) -> PoolConfig {
    let host = pool.stats();
    let quarter = host.buffers.saturating_mul(host.size) / 4 / least.data.max(1);
    PoolConfig { buffers: least.buffers.max(quarter), ..least.clone() }
}

/// Constant that makes the hash of [`Stack::draw`] differ from other hashes with the same secret.
const DRAW: u64 = 0x6472_6177;

/// Configuration of a new stack.
#[derive(Debug)]
pub struct Config {
    /// Name of the host.
    pub name: String,
    /// Pool from which frames are allocated.
    pub pool: Pool,
    /// Seed of all secrets (hash keys, identifications, ports). With `None`, the secrets are random
    /// numbers from the operating system.
    pub seed: Option<u64>,
    /// Limits of reassembly.
    pub reassembly: Limits,
}

impl Config {
    /// Creates the configuration of a stack with frames from `pool` and secrets from the operating
    /// system.
    pub fn new(name: &str, pool: Pool) -> Config {
        Config { name: name.to_string(), pool, seed: None, reassembly: Limits::default() }
    }
}

/// Function that returns whether packets of a protocol, from the second address and port to the
/// first, arrive at this stack.
type LeadsHere = Box<dyn Fn(Proto, SocketAddr, SocketAddr) -> bool + Send + Sync>;

/// Function called with each frame before it is dropped ([`Stack::set_drop_watch`]).
type DropWatch = Box<dyn Fn(&Frame, DropReason, Instant) + Send + Sync>;

/// A host. A `Stack<Up>` belongs to one thread. A `Stack<Light>` or `Stack<Heavy>` may be used by
/// many threads.
pub struct Stack<L: Locks> {
    /// Name of the host.
    pub name: String,
    /// Sysctls of the host.
    pub sysctls: Sysctls,
    /// Pool from which frames are allocated.
    pub pool: Pool,
    pub(crate) counters: Shards<Counters>,
    /// True if processing time is measured, also by counters of threads that are added later. The
    /// lock is held while counters are created and while the measurement is switched on or off.
    has_ledger: Mutex<bool>,
    pub(crate) ifaces: Ifaces<L>,
    pub(crate) routes: Guarded<L, Routes>,
    /// Routes as the packet path reads them, without a lock.
    pub(crate) ways: RouteReader,
    pub(crate) route_cache: Guarded<L, RouteCache<u32>>,
    pub(crate) route_counts: Guarded<L, RouteCounts>,
    pub(crate) neighbors: Guarded<L, neigh::Table>,
    pub(crate) reassembly: Guarded<L, Reassembly>,
    pub(crate) limiter: Guarded<L, Limiter>,
    pub(crate) idents: Guarded<L, Idents>,
    pub(crate) groups: Guarded<L, Memberships>,
    pub(crate) path_mtus: Guarded<L, PathMtus>,
    pub(crate) redirects: Redirects<L, u32>,
    /// Function that returns whether given packets arrive at this stack; set if other stacks share
    /// its addresses.
    leads_here: OnceLock<LeadsHere>,
    drop_watch: OnceLock<DropWatch>,
    /// Time in nanoseconds at which a port of a shared host must be polled because the port or its
    /// transmit stage still holds a frame.
    held_until: AtomicU64,
    pub(crate) resolvers: Guarded<L, Resolvers>,
    /// Exchanges of echo requests that this host sends.
    pub(crate) exchanges: Guarded<L, Exchanges>,
    /// Function that is called with the time of a new event. It notifies the thread that polls a
    /// shared stack, since the event may have been created by another thread.
    doorbell: OnceLock<Box<dyn Fn(Instant) + Send + Sync>>,
    alarm: Alarm,
    pub(crate) loopback: Guarded<L, VecDeque<Frame>>,
    /// Length of the loopback queue. It is written under the queue's lock and read without it.
    loopback_len: AtomicUsize,
    pub(crate) requeued: Requeue<L>,
    pub(crate) tunnels: Guarded<L, Tunnels>,
    pub(crate) six: Ip6<L>,
    /// Maximum number of packets that were ever queued in the loopback queue or in the queue of
    /// decapsulated packets.
    pub(crate) loop_peak: AtomicUsize,
    /// Set while a thread processes the loopback queue and the queue of decapsulated packets.
    draining: AtomicBool,
    pub(crate) udp: Demux<L>,
    pub(crate) unconnected: Guarded<L, crate::udp::ByPort>,
    pub(crate) pcbs: Slots<L, Pcb<L>>,
    /// Datagrams that wait for a decision of the application; `None` without a forwarder.
    pub(crate) udp_held: Guarded<L, PrefixTable<HeldDatagrams>>,
    pub(crate) holds_udp: AtomicBool,
    /// BFD sessions of a routing engine that have failed.
    pub(crate) failed: Guarded<L, FailedSessions>,
    /// Raw and ICMP sockets, whose `Pcb`s are in `pcbs`.
    pub(crate) raw: RawSockets<L>,
    pub(crate) tcp: crate::tcp::Tcp<L>,
    pub(crate) secret: Key,
    /// Pool for datagrams longer than the buffers of `pool`. It is created when it is first needed.
    large: Guarded<L, Option<Pool>>,
    large_config: PoolConfig,
    /// Filter that quickly excludes addresses that do not belong to this host.
    pub(crate) own: OwnAddresses,
    /// Incremented at each change of a route, neighbor, address or interface, which makes cached
    /// lookups stale.
    epoch: AtomicU64,
    /// Incremented like `epoch`, except for changes of routes, after which the cached Ethernet
    /// headers of next hops are still valid.
    links: AtomicU64,
}

impl<L: Locks> Stack<L> {
    /// Creates a host with a loopback interface `lo0` (127.0.0.1/8).
    #[inline(never)]
    pub fn new(cx: Cx, config: Config) -> Stack<L> {
        let secret = config.seed.map_or_else(Key::random, Key::seeded);
        let key = |n: u64| Key::seeded(secret.hash2(n, n));
        let mut config = config;
        let large = &mut config.reassembly.large;
        if L::SHARED && large.locks == PoolLocks::Owner {
            large.locks = PoolLocks::Light; // several threads will allocate from it
        }
        let large_config = large_pool(large, &config.pool);
        let threads = if L::SHARED { USUAL_THREADS } else { 1 };
        let routes = Routes::new(fib::DEFAULT_LIMIT, threads);
        let stack = Stack {
            name: config.name,
            large: Guarded::new(None),
            large_config,
            sysctls: Sysctls::default(),
            has_ledger: Mutex::default(),
            counters: Shards::new(if L::SHARED { USUAL_THREADS } else { 1 }),
            ifaces: Ifaces::new(),
            ways: routes.reader(),
            routes: Guarded::new(routes),
            route_cache: Guarded::default(),
            route_counts: Guarded::default(),
            neighbors: Guarded::new(neigh::Table::new(key(1))),
            reassembly: Guarded::new(Reassembly::new(config.reassembly, secret.hash2(2, 2))),
            limiter: Guarded::new(Limiter::new(key(3))),
            idents: Guarded::new(Idents::new(key(6))),
            groups: Guarded::default(),
            path_mtus: Guarded::new(PathMtus::new(key(4), FLOOR)),
            redirects: Redirects::default(),
            leads_here: OnceLock::new(),
            drop_watch: OnceLock::new(),
            held_until: AtomicU64::new(Instant::NEVER.nanos()),
            resolvers: Guarded::default(),
            exchanges: Guarded::default(),
            doorbell: OnceLock::new(),
            alarm: Alarm::default(),
            loopback: Guarded::default(),
            loopback_len: AtomicUsize::new(0),
            requeued: Requeue::default(),
            tunnels: Guarded::default(),
            six: Ip6::new(key, threads),
            loop_peak: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            udp: Demux::new(key(5)),
            unconnected: Guarded::default(),
            pcbs: Slots::new(),
            udp_held: Guarded::default(),
            holds_udp: AtomicBool::new(false),
            failed: Guarded::default(),
            raw: RawSockets::default(),
            tcp: crate::tcp::Tcp::new(
                key(6),
                ::tcp::siphash::Key(secret.hash2(7, 7), secret.hash2(8, 8)),
                crate::tcp::share_of(&config.pool.stats()),
            ),
            pool: config.pool,
            secret,
            own: OwnAddresses::default(),
            epoch: AtomicU64::new(1),
            links: AtomicU64::new(1),
        };
        let lo = stack.add_iface_kind("lo0", IfaceKind::Loopback, Mac::ZERO, 16_384, Offload::default());
        if let Some(lo) = lo {
            // This cannot fail: the FIB of a new stack is not full, and the prefix length is valid.
            let _ = stack.add_addr(cx, lo, IfaceAddr { addr: Ipv4Addr::LOCALHOST, len: LOOPBACK_LEN });
        }
        stack
    }

    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire).wrapping_add(self.sysctls.generation())
    }

    /// Returns the epoch of cached Ethernet headers of next hops. It changes with each change of a
    /// neighbor, an address, an interface or a path MTU.
    #[inline(always)]
    pub fn links_epoch(&self) -> u64 {
        self.links.load(Ordering::Acquire).wrapping_add(self.sysctls.generation())
    }

    /// Invalidates cached routes and cached Ethernet headers, after a change of a neighbor, an
    /// address, an interface or a path MTU.
    pub(crate) fn changed(&self) {
        self.links.fetch_add(1, Ordering::AcqRel);
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Invalidates cached routes, but not the cached Ethernet headers of next hops.
    pub(crate) fn rerouted(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Drops `frame` with the reason `why`. Every dropped frame passes through this function.
    #[cold] // so that the path without drops contains no jump
    #[inline(never)]
    pub(crate) fn drop_frame(&self, cx: Cx, frame: Frame, why: DropReason) {
        self.count(cx).drops.bump(why);
        if let Some(watch) = self.drop_watch.get() {
            watch(&frame, why, cx.now);
        }
        drop(frame);
    }

    /// Returns a number for identifiers of higher protocols. It cannot be predicted from outside,
    /// but can be reproduced with the seed. Equal times and values of `salt` give equal numbers.
    pub fn draw(&self, cx: Cx, salt: u64) -> u64 {
        self.secret.hash4(cx.now.nanos(), salt, DRAW, 0)
    }

    /// Runs the timers that are due and processes the loopback queue. Returns the time at which it
    /// must be called again.
    #[inline(never)]
    pub fn poll(&self, cx: Cx) -> Option<Instant> {
        let lap = self.lap(cx);
        self.poll_neighbors(cx);
        self.poll_reassembly(cx);
        self.poll_groups(cx);
        let connections = self.tcp_poll(cx);
        let redirects = self.poll_redirects::<u32>(cx);
        let tunnels = self.poll_tunnels(cx);
        let six = self.poll_ip6(cx);
        lap.mark(Stage::Timers, 1);
        self.poll_queues(cx);
        self.flush(cx);
        let outputs = self.poll_outputs(cx);
        // Packets that result from processing the queue, and packets that other threads have queued
        // in the meantime, are due at once.
        let loop_due = if self.loopback_len.load(Ordering::Relaxed) == 0 { Instant::NEVER } else { cx.now };
        let repair = self.poll_repair(cx); // outside the array, whose guards last until its end
        let next = [
            self.poll_alarm(cx),
            outputs,
            connections,
            redirects,
            tunnels,
            six,
            self.requeued_due(cx),
            self.neighbors.lock(cx).next_deadline(),
            self.reassembly.lock(cx).next_deadline().unwrap_or(Instant::NEVER),
            self.groups.lock(cx).next_deadline(),
            repair,
            loop_due,
        ];
        lap.mark(Stage::Timers, 1);
        next.into_iter().min().filter(|next| *next != Instant::NEVER)
    }

    /// Runs the urgent part of [`Stack::poll`]: the timers of connections, and the loopback queue.
    /// Timers of neighbors, groups and fragments have a resolution of seconds. Checking all of them
    /// costs 150 ticks, as much as a datagram and its answer. Returns `true` if packets are still
    /// queued and the caller must call again. This happens if processing produced more packets, or
    /// if another thread is processing the queues.
    #[inline(never)]
    pub fn poll_soon(&self, cx: Cx) -> bool {
        let lap = self.lap(cx);
        if self.tcp_is_due(cx) {
            self.tcp_poll(cx);
        }
        let waiting = self.has_waiting();
        lap.mark(Stage::Timers, 1);
        if !waiting {
            return false;
        }
        self.poll_queues(cx);
        self.flush(cx);
        self.has_waiting()
    }

    /// Adds an Ethernet interface. Returns `None` if there are already
    /// [`crate::iface::IFACES_MAX`].
    pub fn add_iface(&self, name: &str, mac: Mac, mtu: u16, capable: Offload) -> Option<IfaceId> {
        self.add_iface_kind(name, IfaceKind::Ethernet, mac, mtu, capable)
    }

    #[inline(never)]
    pub(crate) fn add_iface_kind(
        &self,
        name: &str,
        kind: IfaceKind,
        mac: Mac,
        mtu: u16,
        capable: Offload,
    ) -> Option<IfaceId> {
        let like = |iface: &Iface<L>| iface.kind == kind && iface.tunnel.is_none() && iface.capable == capable;
        let back = self.ifaces.bring_back(name, mac, like).inspect(|iface| {
            iface.set_mtu(mtu);
            iface.set_offload(Offload::default());
        });
        let new = || self.ifaces.add(|id| Iface::new(id, name, kind, mac, mtu, capable));
        let id = back.map(|iface| iface.id).or_else(new);
        self.changed();
        id
    }

    /// Returns the interface with number `id`.
    pub fn iface(&self, id: IfaceId) -> Option<&Iface<L>> {
        self.ifaces.get(id).filter(|iface| !iface.is_gone())
    }

    /// Returns the interface with the name `name`.
    pub fn iface_named(&self, name: &str) -> Option<&Iface<L>> {
        self.ifaces.iter().find(|iface| iface.name == name)
    }

    /// Returns all interfaces.
    pub fn ifaces(&self) -> impl Iterator<Item = &Iface<L>> {
        self.ifaces.iter()
    }

    /// Adds an address with its routes, and announces it (RFC 5227 2.3). Has no effect for an
    /// unknown interface.
    ///
    /// # Errors
    ///
    /// [`RouteError`] if the FIB is full or the prefix is longer than 32 bits.
    #[inline(never)]
    pub fn add_addr(&self, cx: Cx, id: IfaceId, addr: IfaceAddr) -> Result<(), RouteError> {
        if addr.len > 32 {
            return Err(RouteError::BadPrefix);
        }
        let Some(iface) = self.ifaces.get(id) else { return Ok(()) };
        {
            let mut routes = self.routes.lock(cx);
            for (prefix, via) in connected_routes(iface, addr) {
                if matches!(via, Via::Local(_) | Via::Broadcast(_)) {
                    self.own.add(prefix.addr().to_bits());
                }
                routes.insert(prefix, via)?;
            }
        }
        let mut addrs = iface.addrs.lock(cx);
        if !addrs.contains(&addr) {
            addrs.push(addr);
        }
        drop(addrs);
        self.changed();
        if iface.kind == IfaceKind::Ethernet {
            self.announce(cx, iface, addr.addr);
        }
        Ok(())
    }

    /// Removes an address and its routes. Returns `false` if the interface does not have the
    /// address.
    #[inline(never)]
    pub fn remove_addr(&self, cx: Cx, id: IfaceId, addr: Ipv4Addr) -> bool {
        let Some(iface) = self.ifaces.get(id) else { return false };
        let mut addrs = iface.addrs.lock(cx);
        let Some(at) = addrs.iter().position(|a| a.addr == addr) else { return false };
        let removed = addrs.remove(at);
        drop(addrs);
        self.forget_peer(cx, id, addr);
        // Another address may have the same route: an address with the same prefix or, with
        // unnumbered tunnels, the same address on another interface.
        let routes_of = |other| {
            Iface::addrs(other, cx).into_iter().flat_map(|left| connected_routes(other, left)).collect::<Vec<_>>()
        };
        let connected: Vec<_> = self.ifaces.iter().flat_map(routes_of).collect();
        let mut routes = self.routes.lock(cx);
        for (prefix, via) in connected_routes(iface, removed) {
            if routes.get(prefix) != Some(via) {
                continue;
            }
            routes.remove(prefix);
            if let Some((_, other)) = connected.iter().find(|(other, _)| *other == prefix) {
                let _ = routes.insert(prefix, *other); // there is space, since a route was removed
            }
        }
        drop(routes);
        self.changed();
        true
    }

    /// Changes the MTU of an interface.
    pub fn set_mtu(&self, id: IfaceId, mtu: u16) {
        if let Some(iface) = self.ifaces.get(id) {
            iface.set_mtu(mtu);
            self.changed();
        }
    }

    /// Enables or disables checksum and segmentation offload. Unsupported offloads stay off.
    /// Returns the offloads that are on.
    pub fn set_offload(&self, id: IfaceId, wanted: Offload) -> Option<Offload> {
        let iface = self.ifaces.get(id)?;
        let got = Offload {
            tx_ip: wanted.tx_ip && iface.capable.tx_ip,
            tx_l4: wanted.tx_l4 && iface.capable.tx_l4,
            rx: wanted.rx && iface.capable.rx,
            tso: wanted.tso && iface.capable.tso && wanted.tx_l4,
        };
        iface.set_offload(got);
        self.changed();
        Some(got)
    }

    /// Sets an interface up or down. When it goes down, its staged frames and the packets held for
    /// its neighbors are dropped, and multipath routes use their other paths.
    #[inline(never)]
    pub fn set_up(&self, cx: Cx, id: IfaceId, up: bool) {
        let Some(iface) = self.ifaces.get(id) else { return };
        iface.set_up(up);
        self.link_changed(cx, iface);
        if !up {
            let mut ended = Vec::new();
            self.neighbors.lock(cx).flush(id, |frame| ended.push(frame));
            self.end_waits6(cx, id, &mut ended);
            iface.end_staged(cx, &mut ended);
            ended.into_iter().for_each(|frame| self.drop_frame(cx, frame, DropReason::TxNoPort));
        }
        if self.six.is_on() {
            self.restart_soliciting(cx, iface);
            self.select_router(cx);
        }
    }

    /// Adds or replaces a route. Returns the previous target of `prefix`.
    ///
    /// # Errors
    ///
    /// [`RouteError`] if a table is full.
    pub fn add_route(&self, cx: Cx, prefix: Prefix, via: Via) -> Result<Option<Via>, RouteError> {
        let before = self.routes.lock(cx).insert(prefix, via);
        self.rerouted();
        before
    }

    /// Adds or replaces a route with several paths; each flow uses one of them (RFC 2992).
    ///
    /// # Errors
    /// [`RouteError`] if a table is full or there are no paths.
    pub fn add_paths(&self, cx: Cx, prefix: Prefix, paths: &[Path]) -> Result<Option<Via>, RouteError> {
        let before = self.routes.lock(cx).insert_paths(prefix, paths);
        self.rerouted();
        before
    }

    /// Returns the target of the own route to exactly `prefix`.
    pub fn route_at(&self, cx: Cx, prefix: Prefix) -> Option<Via> {
        self.routes.lock(cx).get(prefix)
    }

    /// Returns the paths of a multipath route; empty for any other route.
    pub fn paths(&self, cx: Cx, via: Via) -> Vec<Path> {
        match via {
            Via::Paths(set) => self.routes.lock(cx).paths(set).to_vec(),
            _ => Vec::new(),
        }
    }

    /// Removes an own route and returns its target.
    pub fn remove_route(&self, cx: Cx, prefix: Prefix) -> Option<Via> {
        let gone = self.routes.lock(cx).remove(prefix);
        self.rerouted();
        gone
    }

    /// Returns all IPv4 routes.
    pub fn routes(&self, cx: Cx) -> Vec<Route> {
        self.routes.lock(cx).iter().collect()
    }

    /// Returns the numbers of IPv4 and IPv6 routes.
    pub fn route_counts(&self, cx: Cx) -> [usize; 2] {
        [self.routes.lock(cx).len(), self.six.routes.lock(cx).len()]
    }

    /// Returns the route that packets to `dst` use.
    pub fn route_to(&self, cx: Cx, dst: Ipv4Addr) -> Option<Route> {
        self.routes.lock(cx).explain(dst)
    }

    /// Calls `f` with the locked routes.
    pub fn with_routes<R>(&self, cx: Cx, f: impl FnOnce(&mut Routes) -> R) -> R {
        let out = f(&mut self.routes.lock(cx));
        self.rerouted();
        out
    }

    /// Calls `change` with the locked routes of both families. `change` returns whether a target
    /// has changed; if none has, cached routes stay valid.
    pub fn change_routes<R>(&self, cx: Cx, change: impl FnOnce(&mut Routes, &mut Routes<u128>) -> (bool, R)) -> R {
        let (has_changed, out) = change(&mut self.routes.lock(cx), &mut self.six.routes.lock(cx));
        if has_changed {
            self.rerouted();
        }
        out
    }

    /// Adds a permanent neighbor entry and sends the packets that were held for it.
    pub fn set_neighbor(&self, cx: Cx, id: IfaceId, addr: Ipv4Addr, mac: Mac) {
        let pending = self.neighbors.lock(cx).set(id, addr, mac, cx.now);
        self.changed();
        self.answered::<u32>(cx, id, addr);
        self.send_pending(cx, id, mac, pending);
        self.flush(cx);
    }

    /// Removes a neighbor. Returns `false` if there is none with this address.
    pub fn remove_neighbor(&self, cx: Cx, id: IfaceId, addr: Ipv4Addr) -> bool {
        let pending = self.neighbors.lock(cx).remove(id, addr);
        self.changed();
        let known = pending.is_some();
        pending.into_iter().flatten().for_each(|frame| self.drop_frame(cx, frame, DropReason::NeighTimeout));
        known
    }

    /// Calls `each` with the address family (0 for IPv4, 1 for IPv6) and the state of each
    /// neighbor.
    pub fn for_each_neighbor_state(&self, cx: Cx, mut each: impl FnMut(usize, neigh::State)) {
        self.neighbors.lock(cx).iter().for_each(|neighbor| each(0, neighbor.state));
        self.six.neighbors.lock(cx).iter().for_each(|neighbor| each(1, neighbor.state));
    }

    /// Returns all IPv4 neighbors.
    pub fn neighbors(&self, cx: Cx) -> Vec<Neighbor> {
        let mut all: Vec<_> = self.neighbors.lock(cx).iter().collect();
        all.sort_by_key(|n| (n.iface, n.addr));
        all
    }

    /// Drops all frames that are still queued, before the host ends. The audit must then find no
    /// held frame.
    pub fn shutdown(&self, cx: Cx) {
        self.flush_all(cx);
        self.udp_release_all(cx);
        let mut waiting = self.loopback.lock(cx);
        let mut ended: Vec<Frame> = waiting.drain(..).collect();
        self.loopback_len.store(0, Ordering::Relaxed);
        drop(waiting);
        ended.extend(self.requeued.queue.lock(cx).drain(..).map(|(_, frame)| frame));
        for iface in self.ifaces.iter() {
            self.neighbors.lock(cx).flush(iface.id, |frame| ended.push(frame));
            self.end_waits6(cx, iface.id, &mut ended);
            iface.end_staged(cx, &mut ended);
        }
        self.reassembly.lock(cx).end_all(DropReason::Shutdown, &mut |frame, _| ended.push(frame));
        self.pcbs.for_each(cx, |_, pcb| ended.extend(pcb.drain()));
        ended.into_iter().for_each(|frame| self.drop_frame(cx, frame, DropReason::Shutdown));
    }
}
