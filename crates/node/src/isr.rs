//! Netisr of a host: decides which thread processes a received frame and when, like netisr in
//! FreeBSD.
//!
//! A burst from a port goes to [`Feed::input`]. If all protocols are dispatched directly, the burst
//! goes straight to the stack. Otherwise [`dispatch::netisr`] decides for each frame, by its
//! EtherType, whether it is processed at once or queued for a workstream. The worker of the
//! workstream passes queued frames to the stack. A worker runs on a thread in [`Host::run_isr`], or
//! in the host's own loop after the ports ([`Feed::work`]). A frame that does not fit a queue is
//! dropped as [`DropReason::NetisrQueueFull`]; queued frames are counted as held in
//! [`Host::audit`].
//!
//! [`Host::run_isr`]: crate::Host::run_isr
//! [`Host::audit`]: crate::Host::audit

mod died;
mod host;
#[cfg(test)]
mod tests;

use crate::commands;
use crate::config::HostConfig;
use crate::split::{self, DispatchCounts, Strays};
use buf::{Burst, Frame};
pub use died::RESTARTS_MAX;

use died::Died;
use dispatch::netisr::{
    Caller, Config, Item, Items, Mode, Netisr, NetisrError, ProtoId, Protocol, ProtocolRow, Settings, Snapshot,
    WorkRow, Worker,
};
use inet::Stack;
use inet::iface::IfaceId;
use lock::{Cx, Locks};
use stats::DropReason;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::eth::{EtherType, Header};
use wire::hash::Key;
use wire::{flow, rss};

/// Maximum number of workstreams of a host. Each workstream may have a thread, and at most 64
/// threads of a process can run stacks.
pub const WORKSTREAMS_MAX: usize = 32;

/// A frame received from a port.
#[derive(Debug)]
pub struct Received {
    iface: IfaceId,
    pub(crate) frame: Frame,
}

impl Item for Received {}

impl Received {
    pub(crate) fn iface(&self) -> IfaceId {
        self.iface
    }

    pub(crate) fn new(iface: IfaceId, frame: Frame) -> Received {
        Received { iface, frame }
    }
}

/// Invalid netisr configuration.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IsrError {
    /// Several workstreams were configured with single-threaded locks.
    #[error(
        "isr.workstreams = {0} needs locks = 'light' or 'heavy': with locks = 'up', the host's own thread runs at most \
         1 workstream"
    )]
    Threads(usize),
    /// Several stacks were configured with a setting that only a single stack supports.
    #[error("stacks = {stacks}: each stack has one thread and one queue: {what}")]
    Split {
        /// Number of stacks of the host.
        stacks: usize,
        /// The setting that conflicts with several stacks, or how to resolve the conflict.
        what: &'static str,
    },
    /// Pinning was requested, but there are no threads to pin.
    #[error("isr.bind: netisr has no threads to pin: choose locks = 'light' and isr.workstreams")]
    Bind,
    /// A netisr sysctl was set on a host without netisr.
    #[error("{0}: the host has no workstreams: choose isr.workstreams before it starts")]
    None(String),
    /// The worker of this workstream panicked too often. Frames for it stay queued, and once the
    /// queue is full, further frames are dropped.
    #[error("workstream {0}: the worker panicked more than {RESTARTS_MAX} times and is not restarted")]
    Died(usize),
    /// Error of netisr itself.
    #[error(transparent)]
    Netisr(#[from] NetisrError),
}

/// Indices of netisr's protocols. The protocol ether is for VLAN-tagged frames and all other
/// EtherTypes.
pub(crate) const IP: usize = 0;
pub(crate) const ARP: usize = 1;
pub(crate) const ETHER: usize = 2;
pub(crate) const IP6: usize = 3;
/// Number of netisr's protocols.
pub(crate) const CLASSES: usize = 4;
/// Names of the protocols, and their numbers in FreeBSD. FreeBSD's queues for IGMP and routing
/// sockets do not exist here, because IGMP is processed as IP, and there are no routing sockets.
pub(crate) const PROTOCOLS: [(&str, u8); CLASSES] = [("ip", 1), ("arp", 4), ("ether", 5), ("ip6", 6)];

/// Checks the settings of a host for netisr and `stacks`. `shared` is set if the host's locks
/// support several threads.
pub(crate) fn check(config: &HostConfig, shared: bool) -> Result<(), IsrError> {
    let isr = &config.isr;
    if config.stacks > 1 {
        let faults = [
            (shared, "choose locks = 'up'"),
            (config.threads > 1, "choose threads = 1"),
            (isr.workstreams > 0, "remove isr.workstreams: there is one workstream per stack"),
            (config.ifaces.is_empty(), "the host has no port"),
            (config.ifaces.iter().any(|iface| iface.tunnel.is_some()), "a tunnel needs stacks = 1"),
        ];
        let fault = faults.iter().find(|(is_so, _)| *is_so);
        fault.map_or(Ok(()), |(_, what)| Err(IsrError::Split { stacks: config.stacks, what }))?;
        return split::netisr(config, Key::seeded(0), &Arc::default()).map(drop);
    }
    if !shared && isr.workstreams > 1 {
        return Err(IsrError::Threads(isr.workstreams));
    }
    if isr.bind && (!shared || isr.workstreams == 0) {
        return Err(IsrError::Bind);
    }
    match isr.workstreams {
        0 => config.sysctl.iter().try_for_each(|(name, value)| commands::isr::set(None, name, *value)),
        _ => make(config).map(drop),
    }
}

/// Returns the bytes after the Ethernet header.
pub(crate) fn packet(received: &Received) -> &[u8] {
    received.frame.bytes().get(wire::eth::HEADER_LEN..).unwrap_or_default()
}

/// Returns the protocol with index `at`, with its name and number.
pub(crate) fn named(at: usize) -> Protocol<Received> {
    PROTOCOLS.get(at).map_or(Protocol::new("", 0), |(name, number)| Protocol::new(name, *number))
}

/// Creates the netisr that `config` describes.
fn make(config: &HostConfig) -> Result<Arc<Netisr<Received>>, IsrError> {
    let key = config.seed.map_or_else(Key::random, Key::seeded);
    let protocols = vec![
        named(IP)
            .by_cpu(|received: &Received| rss::four(packet(received)).map(rss::bucket))
            .by_flow(move |received| flow::four(key, packet(received))),
        named(ARP),
        // As in FreeBSD, ether is always direct, regardless of the global policy.
        Protocol { dispatch: Some(Mode::Direct), ..named(ETHER) },
        named(IP6)
            .by_cpu(|received: &Received| rss::six(packet(received)).map(rss::bucket))
            .by_flow(move |received| flow::six(key, packet(received))),
    ];
    set_up(config, base(config, config.isr.workstreams), protocols)
}

/// Returns the configuration of netisr from `config`, with this number of workstreams.
pub(crate) fn base(config: &HostConfig, workstreams: usize) -> Config {
    let isr = &config.isr;
    Config {
        workstreams,
        max_workstreams: WORKSTREAMS_MAX,
        max_qlimit: isr.max_qlimit,
        default_qlimit: Config::default().default_qlimit.min(isr.max_qlimit),
        bound: isr.bind,
        cpus: if isr.bind { (0..workstreams).map(dispatch::core_at).collect() } else { Vec::new() },
        looks: isr.looks,
        ..Config::default()
    }
}

/// Creates netisr with `protocols`, and applies the configured sysctls.
pub(crate) fn set_up(
    config: &HostConfig,
    base: Config,
    protocols: Vec<Protocol<Received>>,
) -> Result<Arc<Netisr<Received>>, IsrError> {
    let netisr = Netisr::new(base, protocols)?;
    config.sysctl.iter().try_for_each(|(name, value)| commands::isr::set(Some(&netisr), name, *value))?;
    Ok(netisr)
}

/// Index of a stack in a split host, and the counters of the dispatcher.
#[derive(Debug)]
pub(crate) struct ShardOf {
    pub(crate) at: usize,
    pub(crate) dispatched: Arc<DispatchCounts>,
    pub(crate) strays: Arc<Strays>,
}

/// Netisr of a host, shared by the host's threads.
#[derive(Debug)]
pub(crate) struct Isr {
    pub(crate) netisr: Arc<Netisr<Received>>,
    /// For a stack of a split host: its index, and the counters of the dispatcher. All stacks share
    /// the netisr, and frames queued in it do not belong to this host yet.
    pub(crate) shard: Option<ShardOf>,
    pub(crate) died: Died,
}

impl Isr {
    /// Creates netisr as configured; `None` if no workstreams are configured.
    pub(crate) fn new<L: Locks>(config: &HostConfig) -> Result<Option<(Isr, Feed)>, IsrError> {
        check(config, L::SHARED)?;
        if config.isr.workstreams == 0 {
            return Ok(None);
        }
        let netisr = make(config)?;
        let feed = Feed::new(&netisr)?;
        Ok(Some((Isr { netisr, shard: None, died: Died::default() }, feed)))
    }

    /// Returns the netisr of stack `at` of a split host.
    pub(crate) fn of_shard(netisr: Arc<Netisr<Received>>, shard: ShardOf) -> Isr {
        Isr { netisr, shard: Some(shard), died: Died::default() }
    }
}

/// Input of netisr, used by the host's own loop.
#[derive(Debug)]
pub(crate) struct Feed {
    caller: Caller<Received>,
    protocols: [ProtoId; CLASSES],
    /// Workers of the workstreams that have no thread; the loop runs them.
    own: Vec<Worker<Received>>,
    /// Frames of the current burst by protocol; empty between bursts.
    lists: [VecDeque<Received>; CLASSES],
}

impl Feed {
    fn new(netisr: &Arc<Netisr<Received>>) -> Result<Feed, NetisrError> {
        let own = (0..netisr.workstreams()).map(|at| netisr.worker(at)).collect::<Result<_, _>>()?;
        let protocols = ids(netisr)?;
        Ok(Feed { caller: netisr.caller(0)?, protocols, own, lists: Default::default() })
    }

    /// Passes frames received on `iface` to the stack, or queues them.
    #[inline]
    pub(crate) fn input<L: Locks>(&mut self, stack: &Stack<L>, cx: Cx, iface: IfaceId, burst: &mut Burst) {
        if self.protocols.iter().all(|protocol| self.caller.is_direct(*protocol)) {
            self.count_direct(burst.as_slice());
            return stack.input(cx, iface, burst);
        }
        self.input_apart(stack, cx, iface, burst);
    }

    #[inline]
    fn count_direct(&self, frames: &[Frame]) {
        let mut counts = [0; CLASSES];
        for frame in frames {
            if let Some(count) = counts.get_mut(class_of(frame)) {
                *count += 1;
            }
        }
        for (protocol, n) in self.protocols.iter().zip(counts).filter(|(_, n)| *n > 0) {
            self.caller.count_direct(*protocol, n);
        }
    }

    fn input_apart<L: Locks>(&mut self, stack: &Stack<L>, cx: Cx, iface: IfaceId, burst: &mut Burst) {
        for frame in burst.drain() {
            if let Some(list) = self.lists.get_mut(class_of(&frame)) {
                list.push_back(Received { iface, frame });
            }
        }
        let mut work = |_: ProtoId, items: &mut Items<'_, Received>| take_through(stack, cx, items);
        for (protocol, list) in self.protocols.iter().zip(&mut self.lists).filter(|(_, list)| !list.is_empty()) {
            self.caller.dispatch(*protocol, u64::from(iface.0), list, &mut work);
            stack.refuse(cx, list.drain(..).map(|received| received.frame), DropReason::NetisrQueueFull);
        }
    }

    /// Processes frames queued in workstreams without a thread.
    #[inline]
    pub(crate) fn work<L: Locks>(&mut self, stack: &Stack<L>, cx: Cx) {
        let mut work = |_: ProtoId, items: &mut Items<'_, Received>| take_through(stack, cx, items);
        for worker in &mut self.own {
            worker.turn(&mut work);
        }
    }

    /// Removes the worker of workstream `at` from the loop, so that a thread can run it.
    pub(crate) fn release(&mut self, at: usize) {
        self.own.retain(|worker| worker.workstream() != at);
    }
}

/// Returns the identifiers of the protocols, by index.
pub(crate) fn ids(netisr: &Netisr<Received>) -> Result<[ProtoId; CLASSES], NetisrError> {
    let id = |at: usize| netisr.protocol(PROTOCOLS.get(at).map_or("", |(name, _)| name));
    Ok([id(IP)?, id(ARP)?, id(ETHER)?, id(IP6)?])
}

/// Returns the index of the protocol to which a frame belongs.
#[inline(always)]
pub(crate) fn class_of(frame: &Frame) -> usize {
    match Header::parse(frame.bytes()).map(|header| header.ethertype) {
        Ok(EtherType::IPV4) => IP,
        Ok(EtherType::ARP) => ARP,
        Ok(EtherType::IPV6) => IP6,
        _ => ETHER,
    }
}

/// Passes `items` to the stack, in bursts of frames from the same iface.
pub(crate) fn take_through<L: Locks>(stack: &Stack<L>, cx: Cx, items: &mut Items<'_, Received>) {
    in_bursts(items, |iface, burst| stack.input(cx, iface, burst), || stack.count_bug(cx));
}

/// Passes `items` to `take`, in bursts of frames from the same iface. `take` must consume the whole
/// burst. `bug` counts a frame that does not fit the burst, which cannot happen.
pub(crate) fn in_bursts(items: &mut Items<'_, Received>, mut take: impl FnMut(IfaceId, &mut Burst), bug: impl Fn()) {
    let (mut burst, mut from) = (Burst::new(), None);
    for Received { iface, frame } in items {
        match from {
            Some(before) if before != iface || burst.room() == 0 => take(before, &mut burst),
            _ => {}
        }
        from = Some(iface);
        burst.put(frame, &bug);
    }
    if let Some(iface) = from {
        take(iface, &mut burst);
    }
}

/// Returns the data of `netstat -Q`. Packets that the host sends to itself are queued for its loop.
/// They are counted as Queued in workstream 0, or in the stack's workstream if the host is split.
/// For a host without netisr, the loop is shown as the only workstream, which processes all other
/// frames directly.
pub(crate) fn snapshot<L: Locks>(host: &crate::Host<L>) -> Snapshot {
    let mut snapshot = match &host.isr {
        Some(isr) => isr.netisr.snapshot(),
        None => of_loop(host),
    };
    let own = host.stack.loop_use(host.cx());
    let at = host.isr.as_ref().and_then(|isr| isr.shard.as_ref()).map_or(0, |shard| shard.at);
    if let Some(row) = snapshot.row(at, "ip") {
        row.len += own.len;
        row.watermark = row.watermark.max(own.watermark);
        row.qdrops += own.dropped;
        row.queued += own.queued;
        row.handled += own.handled;
    }
    snapshot
}

fn of_loop<L: Locks>(host: &crate::Host<L>) -> Snapshot {
    let defaults = Config::default();
    let counter = |name| host.stack.counter(name);
    let own = host.stack.loop_use(host.cx());
    let ip = counter("inet.ip4.received").saturating_sub(own.handled);
    let arp = counter("inet.arp.requests_received") + counter("inet.arp.replies_received");
    let ether = counter("inet.link.ether.received").saturating_sub(ip + arp);
    let work = PROTOCOLS.iter().zip([ip, arp, ether, 0]).map(|((name, _), n)| WorkRow {
        name,
        dispatched: n,
        handled: n,
        ..WorkRow::default()
    });
    let protocol = |(name, number): &(&'static str, u8)| ProtocolRow {
        name,
        number: *number,
        qlimit: if *name == "ip" { host.stack.sysctls.loop_queue.get() as usize } else { 0 },
        policy: Default::default(),
        dispatch: None,
        m2cpuid: false,
        m2flow: false,
        overtaken: 0,
    };
    Snapshot {
        settings: Settings {
            threads: 1,
            max_threads: WORKSTREAMS_MAX,
            default_qlimit: defaults.default_qlimit,
            max_qlimit: defaults.max_qlimit,
            ..Settings::default()
        },
        protocols: PROTOCOLS.iter().map(protocol).collect(),
        work: work.collect(),
        ..Snapshot::default()
    }
}
