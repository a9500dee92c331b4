//! Netisr of a host: who takes through the stack what was taken from a port, and when (netisr2005).
//!
//! A burst from a port is given to [`Feed::input`]. Where all is direct it goes into the stack as it is. Else each frame goes, by its
//! EtherType, to what [`dispatch::netisr`] says: at once, or into the queue of a workstream, whose worker (a thread in [`Host::run_isr`], or
//! the host's own loop after the ports, [`Feed::work`]) gives it to the stack. A frame that a full queue refused ends as
//! [`DropReason::NetisrQueueFull`]; those that wait are held, in [`Host::audit`].
//!
//! [`Host::run_isr`]: crate::Host::run_isr
//! [`Host::audit`]: crate::Host::audit

mod died;
mod host;
#[cfg(test)]
mod tests;

use crate::config::HostConfig;
use crate::split::{self, Steered, Strays};
use crate::words;
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

/// Workstreams that a host can have: each may be a thread, and a process has 64 that can be inside stacks.
pub const WORKSTREAMS_MAX: usize = 32;

/// A frame that was taken from a port.
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

/// Why a host has no such netisr.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IsrError {
    /// Several workstreams where one thread may enter.
    #[error(
        "locks = 'up' is for one thread and isr.workstreams = {0} asks for others: choose locks = 'light' or \
         isr.workstreams = 1, which the host's own loop works on"
    )]
    Threads(usize),
    /// Several stacks, and something else that a host of one has.
    #[error("stacks = {stacks}: each of them has one thread and a queue: {what}")]
    Split {
        /// So many.
        stacks: usize,
        /// What is in the way.
        what: &'static str,
    },
    /// A core for threads that there are not.
    #[error("isr.bind: netisr has no thread of its own here: choose locks = 'light' and isr.workstreams")]
    Bind,
    /// A knob of netisr's, without one.
    #[error("{0}: the host has no workstreams: choose isr.workstreams when it is made")]
    None(String),
    /// Its worker ended in a panic again and again: what comes for it waits, and is refused when its queue is full.
    #[error("workstream {0}: its worker died more than {RESTARTS_MAX} times, and is not started again")]
    Died(usize),
    /// What netisr itself refuses.
    #[error(transparent)]
    Netisr(#[from] NetisrError),
}

/// The protocols, by place. What is tagged or anything else goes as ether.
pub(crate) const IP: usize = 0;
pub(crate) const ARP: usize = 1;
pub(crate) const ETHER: usize = 2;
pub(crate) const IP6: usize = 3;
/// How many.
pub(crate) const CLASSES: usize = 4;
/// Their names and FreeBSD's numbers. IGMP is IP's here, and nobody listens to a routing socket: both have no queue.
pub(crate) const PROTOCOLS: [(&str, u8); CLASSES] = [("ip", 1), ("arp", 4), ("ether", 5), ("ip6", 6)];

/// May a host be made so, with locks for several threads or not?
pub(crate) fn check(config: &HostConfig, shared: bool) -> Result<(), IsrError> {
    let isr = &config.isr;
    if config.stacks > 1 {
        let faults = [
            (shared, "choose locks = 'up'"),
            (config.threads > 1, "choose threads = 1"),
            (isr.workstreams > 0, "isr.workstreams are as many as stacks; leave them out"),
            (config.ifaces.is_empty(), "there is no port from which they get frames"),
            (config.ifaces.iter().any(|iface| iface.tunnel.is_some()), "a tunnel is a host's of one stack"),
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
        0 => config.sysctl.iter().try_for_each(|(name, value)| words::isr::set(None, name, *value)),
        _ => make(config).map(drop),
    }
}

/// What is behind the Ethernet header.
pub(crate) fn packet(received: &Received) -> &[u8] {
    received.frame.bytes().get(wire::eth::HEADER_LEN..).unwrap_or_default()
}

/// A protocol with its name and number.
pub(crate) fn named(at: usize) -> Protocol<Received> {
    PROTOCOLS.get(at).map_or(Protocol::new("", 0), |(name, number)| Protocol::new(name, *number))
}

/// Netisr with its protocols, set as the configuration says.
fn make(config: &HostConfig) -> Result<Arc<Netisr<Received>>, IsrError> {
    let key = config.seed.map_or_else(Key::random, Key::seeded);
    let protocols = vec![
        named(IP)
            .by_cpu(|received: &Received| rss::four(packet(received)).map(rss::bucket))
            .by_flow(move |received| flow::four(key, packet(received))),
        named(ARP),
        // As FreeBSD has it: whatever the others do.
        Protocol { dispatch: Some(Mode::Direct), ..named(ETHER) },
        named(IP6)
            .by_cpu(|received: &Received| rss::six(packet(received)).map(rss::bucket))
            .by_flow(move |received| flow::six(key, packet(received))),
    ];
    set_up(config, base(config, config.isr.workstreams), protocols)
}

/// What all of netisr has in common, with so many workstreams.
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

/// Netisr of `protocols`, with its knobs as the configuration has them.
pub(crate) fn set_up(
    config: &HostConfig,
    base: Config,
    protocols: Vec<Protocol<Received>>,
) -> Result<Arc<Netisr<Received>>, IsrError> {
    let netisr = Netisr::new(base, protocols)?;
    config.sysctl.iter().try_for_each(|(name, value)| words::isr::set(Some(&netisr), name, *value))?;
    Ok(netisr)
}

/// Which stack of a split host's it is, and what its steerer has done.
#[derive(Debug)]
pub(crate) struct SeatOf {
    pub(crate) at: usize,
    pub(crate) steered: Arc<Steered>,
    pub(crate) strays: Arc<Strays>,
}

/// What all of a host's threads see of its netisr.
#[derive(Debug)]
pub(crate) struct Isr {
    pub(crate) netisr: Arc<Netisr<Received>>,
    /// Of a split host's stack: which, and what its steerer has done. The netisr is all stacks', and what waits in it is not this host's yet.
    pub(crate) seat: Option<SeatOf>,
    pub(crate) died: Died,
}

impl Isr {
    /// As `config` says; `None`: without.
    pub(crate) fn new<L: Locks>(config: &HostConfig) -> Result<Option<(Isr, Feed)>, IsrError> {
        check(config, L::SHARED)?;
        if config.isr.workstreams == 0 {
            return Ok(None);
        }
        let netisr = make(config)?;
        let feed = Feed::new(&netisr)?;
        Ok(Some((Isr { netisr, seat: None, died: Died::default() }, feed)))
    }

    /// Of stack `at` of a split host.
    pub(crate) fn of_seat(netisr: Arc<Netisr<Received>>, seat: SeatOf) -> Isr {
        Isr { netisr, seat: Some(seat), died: Died::default() }
    }
}

/// Where the host's own loop gives what it took from ports.
#[derive(Debug)]
pub(crate) struct Feed {
    caller: Caller<Received>,
    protocols: [ProtoId; CLASSES],
    /// Workers of workstreams without a thread: the loop does their work.
    own: Vec<Worker<Received>>,
    /// A burst's frames by protocol; empty between bursts.
    lists: [VecDeque<Received>; CLASSES],
}

impl Feed {
    fn new(netisr: &Arc<Netisr<Received>>) -> Result<Feed, NetisrError> {
        let own = (0..netisr.workstreams()).map(|at| netisr.worker(at)).collect::<Result<_, _>>()?;
        let protocols = ids(netisr)?;
        Ok(Feed { caller: netisr.caller(0)?, protocols, own, lists: Default::default() })
    }

    /// Frames that `iface` received: into the stack, or to where it is to be done later.
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

    /// Works on what waits in workstreams without a thread.
    #[inline]
    pub(crate) fn work<L: Locks>(&mut self, stack: &Stack<L>, cx: Cx) {
        let mut work = |_: ProtoId, items: &mut Items<'_, Received>| take_through(stack, cx, items);
        for worker in &mut self.own {
            worker.turn(&mut work);
        }
    }

    /// A thread will do the work of workstream `at`.
    pub(crate) fn release(&mut self, at: usize) {
        self.own.retain(|worker| worker.workstream() != at);
    }
}

/// The protocols, by place.
pub(crate) fn ids(netisr: &Netisr<Received>) -> Result<[ProtoId; CLASSES], NetisrError> {
    let id = |at: usize| netisr.protocol(PROTOCOLS.get(at).map_or("", |(name, _)| name));
    Ok([id(IP)?, id(ARP)?, id(ETHER)?, id(IP6)?])
}

/// The protocol that a frame is counted as.
#[inline(always)]
pub(crate) fn class_of(frame: &Frame) -> usize {
    match Header::parse(frame.bytes()).map(|header| header.ethertype) {
        Ok(EtherType::IPV4) => IP,
        Ok(EtherType::ARP) => ARP,
        Ok(EtherType::IPV6) => IP6,
        _ => ETHER,
    }
}

/// Gives `items` to the stack, in bursts of one iface.
pub(crate) fn take_through<L: Locks>(stack: &Stack<L>, cx: Cx, items: &mut Items<'_, Received>) {
    in_bursts(items, |iface, burst| stack.input(cx, iface, burst), || stack.count_bug(cx));
}

/// Gives `items` to `take`, in bursts of one iface. `take` leaves none of a burst; `bug` counts a frame that found no room
/// nevertheless.
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

/// What `netstat -Q` shows of a host. Packets to itself are queued for its loop, and so count as Queued in workstream 0; without
/// workstreams the loop is the only one, and works on everything else directly.
pub(crate) fn snapshot<L: Locks>(host: &crate::Host<L>) -> Snapshot {
    let mut snapshot = match &host.isr {
        Some(isr) => isr.netisr.snapshot(),
        None => of_loop(host),
    };
    let own = host.stack.loop_use(host.cx());
    let at = host.isr.as_ref().and_then(|isr| isr.seat.as_ref()).map_or(0, |seat| seat.at);
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
        qlimit: if *name == "ip" { host.stack.knobs.loop_queue.get() as usize } else { 0 },
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
