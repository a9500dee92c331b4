//! A switch: a bridge with ports and threads that poll them. `linerate bridge` runs one.
//!
//! ```text
//! SwitchThread::turn  scheduled by dispatch::polling: a round over the thread's ports
//!   rx_burst          receives a burst from one port
//!   Bridge::input     learns, decides, and collects the frames in a burst for each egress port
//!   flush             tx_burst for the thread's own ports; a ring to the thread of any other port
//! ```
//! A [`SwitchThread`] is a thread with its own ports and its own replica of the bridge, so that
//! threads share nothing while forwarding. Replicas exchange what they learn ([`sync`]). A port is
//! polled by one loop only (see [`dispatch::polling::Loops`]). With workers, there is one loop,
//! which dispatches received frames, and each worker is a `SwitchThread` without ports ([`post`]).
//!
//! A change of the configuration requires the lock of each `SwitchThread`. The thread holds its
//! lock while it runs, and releases it on request.

mod addresses;
mod audit;
mod average;
mod costs;
mod exchange;
mod lock_requests;
mod members;
pub mod node;
mod poison;
mod post;
pub mod run;
mod sync;
mod thread;
mod tree;
mod vlans;

pub use audit::{Audit, DISPATCH_DROPS};
pub use average::Average;
pub use costs::SwitchCosts;
pub use members::{AddError, Info, Queue};
pub use post::PORTS_MAX;
pub use sync::SyncCounts;
pub use thread::{Counts, SwitchThread};
pub use tree::{LocalCounts, Tree};

use crate::capture::Captures;
use crate::figures::Source;
use bridge::{BridgeConfig, MAX_PORTS, Member, PortNo};
use buf::{Pool, PoolConfig, PoolError, PoolLocks};
use clock::Clock;
use dispatch::dataflow::{Dataflow, dataflow};
use dispatch::polling::Sysctls;
pub(crate) use exchange::Call;

use exchange::{Arrivals, Outbox};
use members::{Members, Slot};
use poison::lock;
use port::spec::Kind;
use port::{Env, Pairs, Port, Spec};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use sync::SyncExchange;
use thread::{Common, Role};
use tree::{Links, SharedInbox};
use wire::Mac;

/// Maximum number of threads of a switch, whether loops or one loop and its workers.
pub const THREADS_MAX: usize = 64;

/// Configuration of a switch.
#[derive(Debug, Clone)]
pub struct SwitchConfig {
    /// Name of the bridge, such as `bridge0`.
    pub name: String,
    /// Configuration of the bridge and its forwarding table.
    pub bridge: BridgeConfig,
    /// MAC address, which is also part of the bridge identifier in a spanning tree; `None` for a
    /// random one.
    pub mac: Option<Mac>,
    /// Number of polling loops, each with one thread; must be 1 if there are workers.
    pub loops: usize,
    /// Number of workers, each with one thread, which forward the frames that the loop dispatches.
    /// With 0, the loops forward the frames themselves.
    pub workers: usize,
    /// Configuration of the buffer pool shared by all ports.
    pub pool: PoolConfig,
}

impl Default for SwitchConfig {
    fn default() -> SwitchConfig {
        SwitchConfig {
            name: "bridge0".to_string(),
            bridge: BridgeConfig::default(),
            mac: None,
            loops: 1,
            workers: 0,
            pool: PoolConfig { buffers: 16_384, ..PoolConfig::default() },
        }
    }
}

/// A switch, running or stopped.
pub struct Switch {
    /// Name of the switch.
    pub name: String,
    /// MAC address of the bridge itself.
    pub mac: Mac,
    /// Sysctls of polling.
    pub sysctls: Arc<Sysctls>,
    /// Clock of the switch.
    pub clock: Clock,
    pool: Pool,
    pool_config: PoolConfig,
    pairs: Arc<Pairs>,
    threads: Vec<Mutex<SwitchThread>>,
    /// Dispatcher to the workers; `None` if there are no workers.
    flow: Option<Arc<Dataflow>>,
    calls: Vec<Call>,
    members: Mutex<Members>,
    inbox: SharedInbox,
    tree: Mutex<Option<Tree>>,
    links: Mutex<Links>,
    captures: Arc<Captures>,
    /// Connection with the collector of figures; unset if there is none.
    pub(crate) figures: OnceLock<Source>,
}

/// Returns a random MAC address, locally administered (IEEE 802 8.4).
fn random_mac() -> Mac {
    let [a, b, c, d, e, ..] = RandomState::new().hash_one(0u8).to_be_bytes();
    Mac([0x02, a, b, c, d, e])
}

impl Switch {
    /// Creates a switch without ports.
    ///
    /// # Errors
    /// Returns an error if the memory of the pool cannot be allocated, or if the system has no free
    /// descriptors.
    pub fn new(config: &SwitchConfig, clock: Clock) -> Result<Switch, PoolError> {
        Switch::among(config, clock, Arc::default())
    }

    /// Creates a switch that shares `pairs` and wires with the hosts and other switches of the
    /// process.
    ///
    /// # Errors
    /// Returns an error as [`Switch::new`] does.
    pub fn among(config: &SwitchConfig, clock: Clock, pairs: Arc<Pairs>) -> Result<Switch, PoolError> {
        let (loops, workers) = match config.workers.min(THREADS_MAX - 1) {
            0 => (config.loops.clamp(1, THREADS_MAX), 0),
            workers => (1, workers),
        };
        let threads = loops + workers;
        let locks = if threads > 1 { PoolLocks::Light } else { config.pool.locks };
        let pool_config = PoolConfig { locks, ..config.pool.clone() };
        let pool = Pool::new(&pool_config)?;
        let sysctls = Arc::new(Sysctls::default());
        let calls = (0..threads).map(|_| Call::new()).collect::<Result<Vec<_>, _>>().map_err(PoolError::NoMemory)?;
        let inbox = SharedInbox::default();
        let captures: Arc<Captures> = Arc::default();
        let common = Common {
            bridge: config.bridge,
            sysctls: sysctls.clone(),
            clock: clock.clone(),
            calls: calls.clone(),
            inbox: inbox.clone(),
            pool: pool.clone(),
            captures: captures.clone(),
        };
        let mut roles: Vec<Role> = (0..loops).map(|_| Role::Loop).collect();
        let mut flow = None;
        if workers > 0 {
            let (dispatcher, workers) = dataflow(&post::config(), workers);
            flow = Some(dispatcher.flow().clone());
            roles = vec![Role::Posts(post::Poster::new(dispatcher))];
            roles.extend(workers.into_iter().map(|worker| Role::Works(Box::new(worker))));
        }
        let numbered = roles.into_iter().enumerate();
        let made = numbered.map(|(number, role)| SwitchThread::new(number, role, &common));
        let mac = config.mac.unwrap_or_else(random_mac);
        let made = made.map(|mut thread| {
            thread.bridge.set_address(mac, clock.now());
            thread
        });
        let all: Vec<SwitchThread> = match threads {
            1 => made.collect(),
            _ => made.zip(SyncExchange::among(threads)).map(|(thread, sync)| thread.among_others(sync)).collect(),
        };
        Ok(Switch {
            flow,
            name: config.name.clone(),
            mac,
            threads: all.into_iter().map(Mutex::new).collect(),
            sysctls,
            clock,
            pool,
            pool_config,
            pairs,
            calls,
            members: Mutex::default(),
            inbox,
            tree: Mutex::new(None),
            links: Mutex::default(),
            captures,
            figures: OnceLock::new(),
        })
    }

    /// Returns the number of loops and workers.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Returns the number of loops. In the numbering of threads, the loops come first.
    pub fn loops(&self) -> usize {
        self.threads.len() - self.workers()
    }

    /// Returns the number of workers. In the numbering of threads, they follow the loops.
    pub fn workers(&self) -> usize {
        self.flow.as_ref().map_or(0, |flow| flow.workers())
    }

    /// Returns the dispatcher to the workers; `None` if there are no workers.
    pub fn dataflow(&self) -> Option<&Dataflow> {
        self.flow.as_deref()
    }

    /// Returns the maximum number of ports.
    pub fn ports_max(&self) -> usize {
        if self.flow.is_some() { PORTS_MAX } else { MAX_PORTS }
    }

    /// Returns the pool shared by all ports.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Locks the [`SwitchThread`] of thread `number`, between two of its turns. To lock several
    /// threads at once, lock them in ascending order.
    pub fn thread(&self, number: usize) -> Option<MutexGuard<'_, SwitchThread>> {
        let (thread, call) = (self.threads.get(number)?, self.calls.get(number)?);
        Some(call.ask(|| lock(thread)))
    }

    /// Calls `change` for each thread, one after the other.
    pub fn each_thread(&self, mut change: impl FnMut(&mut SwitchThread)) {
        for number in 0..self.threads() {
            if let Some(mut thread) = self.thread(number) {
                change(&mut thread);
            }
        }
    }

    /// Opens the port `spec` and adds it as a member. It is polled by the loop `thread` or, with
    /// `None`, by the loop with the fewest ports.
    ///
    /// # Errors
    /// Returns an [`AddError`], and adds nothing.
    pub fn add(&self, spec: &Spec, thread: Option<usize>) -> Result<PortNo, AddError> {
        if spec.port.kind == Kind::Tun {
            return Err(AddError::NotEthernet(spec.to_string()));
        }
        let slot = lock(&self.members).place(&spec.to_string(), thread, self.loops())?;
        let unit = lock(&self.members).places() as u16;
        // Frames of a generator port get an unused destination address, so that the bridge floods
        // them.
        let rights = dispatch::sandbox::port_rights();
        let opened = port::pool_for(spec, &self.pool, &self.pool_config).and_then(|pool| {
            let env = Env { pool: pool.clone(), pairs: &self.pairs, mac: random_mac(), unit };
            Ok((port::open(spec, &env)?, pool))
        });
        drop(rights);
        let (port, pool) = opened.inspect_err(|_| lock(&self.members).give_up(&slot))?;
        self.join(port, &slot, &pool)
    }

    /// Adds an open port as a member.
    ///
    /// # Errors
    /// Returns an [`AddError`], and adds nothing.
    pub fn attach(&self, port: Port, thread: Option<usize>) -> Result<PortNo, AddError> {
        let slot = lock(&self.members).place(&port.spec, thread, self.loops())?;
        self.join(port, &slot, &self.pool)
    }

    /// Adds an open port. If the port does not support TSO, large TCP segments are split into
    /// buffers of `pool`.
    fn join(&self, port: Port, slot: &Slot, pool: &Pool) -> Result<PortNo, AddError> {
        let mut members = lock(&self.members);
        let (number, thread) = (members.slot(&port, slot, self.ports_max())?, slot.thread);
        if slot.beside.is_some() {
            if let Some(mut thread) = self.thread(thread) {
                thread.add_queue(number, port, pool);
            }
            return Ok(number);
        }
        // The port is added to the other threads first. Frames that these threads send to the port
        // wait in the rings until the port's own thread has added it, too.
        let (mut arrivals, queue) = (Vec::new(), Arc::<Outbox<_>>::default());
        for other in (0..self.threads()).filter(|other| *other != thread) {
            if let Some(mut other) = self.thread(other) {
                match self.flow {
                    Some(_) => other.add_queued(number, thread, &queue),
                    None => arrivals.push(other.add_foreign(number, thread)),
                }
            }
        }
        if self.flow.is_some() {
            arrivals.push(Arrivals::Queue(queue));
        }
        if let Some(mut thread) = self.thread(thread) {
            thread.add(number, port, arrivals, pool);
        }
        drop(members);
        self.forget_link(number);
        Ok(number)
    }

    /// Removes a member and closes its port. Frames that were not sent yet are dropped and counted.
    pub fn remove(&self, number: PortNo) {
        let mut members = lock(&self.members);
        let Some(info) = members.leave(number) else { return };
        drop(members);
        self.remove_tree_port(number);
        self.forget_link(number);
        // The port is removed from the other threads first, so that these threads send no frames to
        // it once it is closed.
        let others = (0..self.threads()).filter(|thread| !info.is_polled_by(*thread));
        for thread in others.chain(info.queues.iter().map(|queue| queue.thread)) {
            if let Some(mut thread) = self.thread(thread) {
                thread.remove(number);
            }
        }
    }

    /// Returns the members with their port numbers, in ascending order.
    pub fn members(&self) -> Vec<(PortNo, Info)> {
        lock(&self.members).list()
    }

    /// Returns the member whose name or full port specification is `name`.
    pub fn member(&self, name: &str) -> Option<(PortNo, Info)> {
        let members = self.members();
        let whole = members.iter().find(|(_, info)| info.queues.iter().any(|queue| queue.spec == name));
        whole.or_else(|| members.iter().find(|(_, info)| info.name == name)).cloned()
    }

    /// Returns the captures of the switch.
    pub fn captures(&self) -> &Captures {
        &self.captures
    }

    /// Changes the settings of a member in every replica of the bridge.
    pub fn set_member(&self, number: PortNo, change: impl Fn(&mut Member)) {
        self.each_thread(|thread| thread.set_member(number, &change));
    }
}

impl Switch {
    /// Returns the counters of a member, summed over all threads.
    pub fn counts(&self, number: PortNo) -> Counts {
        let mut all = Counts::default();
        self.each_thread(|thread| all.add(&thread.counts(number)));
        all
    }

    /// Returns the cost of forwarding in the bridge, in ticks per frame over all threads.
    pub fn average(&self) -> Average {
        let mut all = Average::default();
        self.each_thread(|thread| {
            all.ticks += thread.average.ticks;
            all.frames += thread.average.frames;
        });
        all
    }
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switch").field("name", &self.name).field("threads", &self.threads()).finish_non_exhaustive()
    }
}
