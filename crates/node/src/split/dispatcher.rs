//! Dispatcher of a split host: passes each frame from a port to the stack of its flow, and sends
//! the frames of the stacks.

use super::counts::{DispatchCounts, Strays, add, entries};
use super::netisr::netisr;
use super::shard::{Health, Shard, ShardRx, ShardTx};
use crate::audit;
use crate::config::HostConfig;
use crate::figures::{Collector, Figures, PortFigures, Source};
use crate::host::{mac_of, unit_of};
use crate::isr::{CLASSES, IsrError, Received, class_of, ids};
use crate::run::Outcome;
use crate::switch::Call;
use buf::ring::{Consumer, ring};
use buf::{Burst, Frame, Pool};
use clock::{Clock, Duration, Instant};
use dispatch::netisr::{Caller, Items, Netisr, ProtoId};
use inet::counters::AuditReport;
use inet::iface::IfaceId;
use lock::Up;
use port::{Pairs, Port, PortCounts, Spec};
use stats::{DropReason, Entry};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use wire::hash::Key;

/// Maximum number of frames that a stack may queue for transmission per port.
const FRAMES: usize = 1024;
/// Poll interval of a port without a descriptor.
const LOOK: Duration = Duration::from_micros(50);
/// Retry interval of a port that did not accept all frames.
const RETRY: Duration = Duration::from_micros(200);
/// Maximum sleep of the dispatcher.
const NAP: Duration = Duration::from_millis(100);
/// Interval at which requests for figures are answered while frames arrive.
const FIGURES: Duration = Duration::from_millis(5);
/// Maximum time for sending the remaining frames after the stacks have ended.
const LINGER: Duration = Duration::from_millis(100);

/// Reason why a split host cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The netisr configuration is invalid.
    Isr(IsrError),
    /// The pool could not be created.
    Pool(buf::PoolError),
    /// A port could not be opened.
    Port {
        /// Specification of the port.
        port: String,
        /// Error of the port.
        why: String,
    },
    /// No pipe for waking threads could be created.
    Bell(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Isr(error) => error.fmt(f),
            OpenError::Pool(error) => error.fmt(f),
            OpenError::Port { port, why } => write!(f, "{}", port::port_message(port, why)),
            OpenError::Bell(error) => write!(f, "cannot create a pipe between threads: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Isr(error) => error.source(),
            OpenError::Pool(error) => error.source(),
            OpenError::Bell(error) => Some(error),
            _ => None,
        }
    }
}

impl From<IsrError> for OpenError {
    fn from(error: IsrError) -> OpenError {
        OpenError::Isr(error)
    }
}

impl From<buf::PoolError> for OpenError {
    fn from(error: buf::PoolError) -> OpenError {
        OpenError::Pool(error)
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        OpenError::Bell(error)
    }
}

impl From<dispatch::netisr::NetisrError> for OpenError {
    fn from(why: dispatch::netisr::NetisrError) -> OpenError {
        OpenError::Isr(IsrError::Netisr(why))
    }
}

/// A port, and the rings of the stacks that send through it.
struct Mine {
    iface: IfaceId,
    /// Name of the iface.
    name: String,
    port: Port,
    rings: Vec<Consumer<Frame>>,
    /// Frames that the port has not accepted yet.
    out: Burst,
    /// Index of the ring that is read first in the next turn.
    next: usize,
    health: Arc<Health>,
    is_over: bool,
}

/// Dispatcher of a split host (see the module `split`).
pub(crate) struct Dispatcher {
    name: String,
    burst: usize,
    ports: Vec<Mine>,
    isr: Arc<Netisr<Received>>,
    caller: Caller<Received>,
    protocols: [ProtoId; CLASSES],
    lists: [VecDeque<Received>; CLASSES],
    one: VecDeque<Received>,
    call: Call,
    shards: Vec<Call>,
    pub(super) dispatched: Arc<DispatchCounts>,
    strays: Arc<Strays>,
    pool: Pool,
    clock: Clock,
    /// Connection with the collector of figures; `None` if there is none.
    figures: Option<Source>,
    /// Time at which requests for figures are answered next.
    figures_due: Instant,
}

impl Dispatcher {
    /// Opens the ports of `config`, and creates the connection of each stack with the dispatcher.
    ///
    /// # Errors
    /// Returns an [`OpenError`].
    pub(crate) fn open(
        config: &HostConfig,
        pairs: &Pairs,
        clock: Clock,
    ) -> Result<(Dispatcher, Vec<Shard>), OpenError> {
        let strays = Arc::new(Strays::default());
        let key = config.seed.map_or_else(Key::random, Key::seeded);
        let isr = netisr(config, key, &strays)?;
        let pool = Pool::new(&config.pool_config::<Up>())?;
        let (call, dispatched) = (Call::new()?, Arc::new(DispatchCounts::default()));
        let shard = |at: usize| {
            let (netisr, worker, call) = (isr.clone(), isr.worker(at)?, Call::new()?);
            let (dispatched, strays, ports) = (dispatched.clone(), strays.clone(), Vec::new());
            Ok::<_, OpenError>(Shard { at, key, netisr, worker, call, dispatched, strays, ports })
        };
        let mut shards = (0..config.stacks).map(shard).collect::<Result<Vec<_>, _>>()?;
        let mut ports = Vec::new();
        for (at, iface) in config.ifaces.iter().enumerate() {
            let failed = |why: &dyn ToString| OpenError::Port { port: iface.port.clone(), why: why.to_string() };
            let spec = Spec::parse(&iface.port).map_err(|why| failed(&why))?;
            let iface_name = iface.name.clone().unwrap_or_else(|| spec.name.clone());
            let unit = unit_of(&iface_name).unwrap_or(ports.len() as u16);
            let mac = iface.mac.unwrap_or_else(|| mac_of(key, &config.name, &iface_name));
            let port =
                port::open(&spec, &port::Env { pool: pool.clone(), pairs, mac, unit }).map_err(|why| failed(&why))?;
            let (health, mut rings) = (Arc::new(Health::default()), Vec::new());
            for shard in &mut shards {
                let (tx, rx) = ring(FRAMES);
                rings.push(rx);
                let counts = Arc::new(PortCounts::default());
                let rx = ShardRx { call: shard.call.clone(), health: health.clone(), is_silent: port.rx.is_silent() };
                let tx = ShardTx { ring: tx, counts: counts.clone(), call: call.clone() };
                let (rx, tx, nic) = (Box::new(rx), Box::new(tx), port.nic.clone());
                let (name, spec) = (port.name.clone(), port.spec.clone());
                let place = Port { name, spec, caps: port.caps, rx, tx, counts, nic };
                shard.ports.push(Some((iface_name.clone(), mac, place)));
            }
            // Ifaces have the same numbers as in a stack, where loopback is the first.
            let iface = IfaceId(at as u16 + 1);
            let name = iface_name;
            ports.push(Mine { iface, name, port, rings, out: Burst::new(), next: 0, health, is_over: false });
        }
        let dispatcher = Dispatcher {
            name: config.name.clone(),
            burst: config.burst,
            ports,
            caller: isr.caller(0)?,
            protocols: ids(&isr)?,
            isr,
            lists: Default::default(),
            one: VecDeque::new(),
            call,
            shards: shards.iter().map(|shard| shard.call.clone()).collect(),
            dispatched,
            strays,
            pool,
            clock,
            figures: None,
            figures_due: Instant::ZERO,
        };
        Ok((dispatcher, shards))
    }

    /// Makes the dispatcher's thread answer the requests of `collector`, under the name of the
    /// host. Its stacks answer under their own names.
    ///
    /// # Errors
    /// Returns the errors of [`Collector::join`].
    pub(crate) fn report_to(&mut self, collector: &Collector) -> io::Result<()> {
        self.figures = Some(collector.join(&self.name)?);
        Ok(())
    }

    /// Answers a request for figures, if there is one and its time has come.
    fn serve_figures(&mut self) {
        let Some(source) = &self.figures else { return };
        let now = self.clock.now();
        if now >= self.figures_due {
            source.serve(|| self.figures());
            self.figures_due = now.after(FIGURES);
        }
    }

    /// Returns the figures of the dispatcher: ports, counters, and the frames for each stack.
    pub(super) fn figures(&self) -> Figures {
        let (report, pool) = (self.audit(), self.pool.stats());
        let (mut counters, mut frames) = (entries(&self.dispatched, &self.strays), vec![0; self.shards.len()]);
        counters.extend(self.drops());
        for row in self.isr.snapshot().work {
            frames.get_mut(row.workstream).into_iter().for_each(|sum| *sum += row.queued);
        }
        let ports = self.ports.iter().map(|Mine { name, port, is_over, .. }| PortFigures {
            name: name.clone(),
            counters: [stats::entries(&port.counts.rx), stats::entries(&port.counts.tx)].concat(),
            is_up: port.counts.link.is_up() && !is_over,
            speed: port.counts.link.speed(),
        });
        let stacks = frames.into_iter().enumerate().map(|(at, frames)| (format!("{}.{at}", self.name), frames));
        Figures {
            node: self.name.clone(),
            counters,
            unaccounted: report.imbalance(),
            ports: ports.collect(),
            pool: [pool.live(), pool.buffers as u64],
            dispatched: stacks.collect(),
            ..Figures::default()
        }
    }

    /// Dispatches received frames until `is_over` returns true, and sends the frames of the stacks
    /// until `are_gone` returns true. Sleeps when there is nothing to do.
    pub(crate) fn run(&mut self, is_over: impl Fn() -> bool, are_gone: impl Fn() -> bool) {
        while !are_gone() {
            let takes = !is_over();
            if self.turn(takes) == 0 && self.wait(if takes { NAP } else { RETRY }) {
                self.figures_due = Instant::ZERO;
            }
            self.serve_figures();
        }
        self.figures = None;
        let end = self.clock.now().after(LINGER);
        while self.send(self.clock.now()) > 0 || self.waits_to_leave() && self.clock.now() < end {
            std::thread::yield_now();
        }
    }

    /// If `takes` is set, receives a burst from each port and passes it to the stacks. Then sends
    /// the frames of the stacks. Returns the number of frames received and sent.
    pub(super) fn turn(&mut self, takes: bool) -> usize {
        let now = self.clock.now();
        let received = if takes { self.receive(now) } else { 0 };
        received + self.send(now)
    }

    fn receive(&mut self, now: Instant) -> usize {
        let Dispatcher { ports, caller, protocols, lists, one, dispatched, shards, burst: most, .. } = self;
        let [_, arp, ..] = *protocols; // the queue for frames to all stacks
        let (mut burst, mut frames) = (Burst::new(), 0);
        for mine in ports.iter_mut().filter(|mine| !mine.is_over) {
            let n = mine.port.rx.rx_burst(&mut burst, *most, now);
            if n == 0 {
                if mine.port.rx.is_gone() {
                    mine.is_over = true;
                    mine.health.end(mine.port.rx.why_gone());
                }
                continue;
            }
            frames += n;
            for frame in burst.drain() {
                if wire::flow::whose::is_for_all(frame.bytes()) {
                    for_all(caller, arp, one, dispatched, shards.len(), Received::new(mine.iface, frame));
                } else if let Some(list) = lists.get_mut(class_of(&frame)) {
                    list.push_back(Received::new(mine.iface, frame));
                }
            }
            for (protocol, list) in protocols.iter().zip(lists.iter_mut()).filter(|(_, list)| !list.is_empty()) {
                put(caller, *protocol, u64::from(mine.iface.0), list, dispatched);
            }
        }
        if frames > 0 {
            add(&dispatched.received, frames);
            shards.iter().for_each(Call::wake);
        }
        frames
    }

    /// Sends the frames of the stacks to the ports, reading the rings of the stacks round-robin.
    /// Returns the number of frames read from the stacks.
    fn send(&mut self, now: Instant) -> usize {
        let mut frames = 0;
        for mine in &mut self.ports {
            let (n, first) = (mine.rings.len(), mine.next);
            for step in 0..n {
                if !mine.out.is_empty() {
                    break; // the port did not accept all frames of an earlier ring
                }
                let at = (first + step) % n.max(1);
                let Some(ring) = mine.rings.get_mut(at) else { break };
                let taken = ring.pop_burst(&mut mine.out, self.burst);
                add(&self.dispatched.taken, taken);
                frames += taken;
                add(&self.dispatched.sent, mine.port.tx.tx_burst(&mut mine.out, now));
                mine.next = at + 1;
            }
            if !mine.out.is_empty() {
                add(&self.dispatched.sent, mine.port.tx.tx_burst(&mut mine.out, now));
            }
            mine.port.tx.poll(now);
        }
        frames
    }

    fn waits_to_leave(&self) -> bool {
        self.ports.iter().any(|mine| !mine.out.is_empty() || mine.rings.iter().any(|ring| ring.level() > 0))
    }

    /// Sleeps until there is something to do, at most for `most`. Returns whether figures are
    /// requested.
    fn wait(&self, most: Duration) -> bool {
        let now = self.clock.now();
        let mut timeout = if self.ports.iter().any(|mine| !mine.out.is_empty()) { RETRY.min(most) } else { most };
        let mut fds = Vec::new();
        for Mine { port, .. } in self.ports.iter().filter(|mine| !mine.is_over) {
            match port.rx.wait_fd() {
                Some(fd) => fds.push(fd),
                None => timeout = timeout.min(LOOK),
            }
        }
        let requests = fds.len();
        fds.extend(self.figures.as_ref().map(Source::fd));
        let events = self.ports.iter().flat_map(|Mine { port, .. }| [port.rx.next_event(), port.tx.next_event()]);
        timeout = events.flatten().fold(timeout, |timeout, at| timeout.min(at.since(now)));
        let has_some = || self.ports.iter().any(|mine| mine.rings.iter().any(|ring| ring.level() > 0));
        let ready = self.call.sleep(has_some, |bell| {
            fds.push(bell);
            // A bad descriptor costs one round. Its port reports that it has ended.
            dispatch::wait_readable(&fds, Some(timeout)).unwrap_or_default()
        });
        let is_ready = ready.and_then(|ready| ready.get(requests).copied()).unwrap_or(false);
        is_ready && self.figures.is_some()
    }

    /// Drops the remaining frames and returns the final audit. Called after the stacks have ended.
    pub(crate) fn end(&mut self) -> Outcome {
        let mut left = 0;
        self.isr.drain(|_, _| left += 1);
        for mine in &mut self.ports {
            left += mine.out.len();
            mine.out.clear();
            for ring in &mut mine.rings {
                let mut burst = Burst::new();
                while ring.pop_burst(&mut burst, buf::BURST_MAX) > 0 {
                    add(&self.dispatched.taken, burst.len());
                    left += burst.len();
                    burst.clear();
                }
            }
        }
        add(&self.dispatched.shutdown, left);
        let (report, ports) = (self.audit(), self.port_imbalance());
        let lost_ports = self.ports.iter().any(|mine| mine.is_over && mine.port.rx.why_gone().is_some());
        Outcome {
            name: self.name.clone(),
            audit: audit::text(&self.name, &report, ports),
            imbalance: [report.imbalance(), ports.0, ports.1],
            lost_ports,
        }
    }

    /// Returns the audit of the dispatcher: the frames received from ports and stacks, and the
    /// frames passed to stacks and ports.
    pub(super) fn audit(&self) -> AuditReport {
        let (dispatched, queues) = (&self.dispatched, self.isr.audit());
        let out: usize = self.ports.iter().map(|mine| mine.out.len()).sum();
        AuditReport {
            received: dispatched.received.get() + dispatched.taken.get(),
            made: dispatched.copied.get(),
            sent: queues.handled + dispatched.sent.get(),
            consumed: 0,
            read: 0,
            dropped: dispatched.queue_full.get() + dispatched.shutdown.get() + queues.lost,
            held: queues.held + out as u64,
            reasons: self.drops().into_iter().filter(|entry| entry.value > 0).collect(),
            uses: Vec::new(),
        }
    }

    /// Returns the numbers of dropped frames, by reason.
    fn drops(&self) -> [Entry; 2] {
        let of = |why: DropReason, value: u64| Entry { name: why.name().to_owned(), sentence: why.sentence(), value };
        [
            of(DropReason::NetisrQueueFull, self.dispatched.queue_full.get()),
            of(DropReason::Shutdown, self.dispatched.shutdown.get()),
        ]
    }

    /// Returns the frame counts of the ports (received, sent) minus the dispatcher's counts. Both
    /// differences are 0 unless frames are unaccounted for.
    pub(super) fn port_imbalance(&self) -> (i64, i64) {
        let sum = |pick: fn(&PortCounts) -> u64| {
            self.ports.iter().map(|mine| pick(&mine.port.counts)).fold(0u64, u64::wrapping_add)
        };
        let rx = sum(|counts| counts.rx.to_host()).wrapping_sub(self.dispatched.received.get()) as i64;
        let tx = sum(|counts| counts.tx.from_host()).wrapping_sub(self.dispatched.sent.get()) as i64;
        (rx, tx)
    }
}

/// Queues a frame for each of the `stacks` stacks: the frame itself for the first, copies for the
/// others. `protocol` must have the netisr policy `source`, which selects the stack by the source
/// number. The number passed as the source is the number of the stack.
fn for_all(
    caller: &mut Caller<Received>,
    protocol: ProtoId,
    one: &mut VecDeque<Received>,
    dispatched: &DispatchCounts,
    stacks: usize,
    received: Received,
) {
    for at in 1..stacks {
        match received.frame.try_clone() {
            Some(copy) => {
                dispatched.copied.bump();
                one.push_back(Received::new(received.iface(), copy));
                put(caller, protocol, at as u64, one, dispatched);
            }
            None => dispatched.not_copied.bump(),
        }
    }
    one.push_back(received);
    put(caller, protocol, 0, one, dispatched);
}

/// Queues the frames of `list` for their stacks. Frames that do not fit their queue are dropped and
/// counted.
fn put(
    caller: &mut Caller<Received>,
    protocol: ProtoId,
    source: u64,
    list: &mut VecDeque<Received>,
    dispatched: &DispatchCounts,
) {
    caller.dispatch(protocol, source, list, &mut |_: ProtoId, _: &mut Items<'_, Received>| {});
    add(&dispatched.queue_full, list.len());
    list.clear();
}
