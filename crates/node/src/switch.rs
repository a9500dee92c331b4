//! A switch: a bridge with ports, loops that poll them, and words that configure it. What `linerate bridge` runs.
//!
//! ```text
//!  Lane::turn          dispatch::polling says when: a round over the lane's ports
//!    rx_burst          from one port
//!    Bridge::input     learns, decides; into a burst for each port
//!    flush             tx_burst of the lane's own ports; a ring to the lane that has the other one
//! ```
//! A loop is a [`Lane`]: a thread with its own ports and its own replica of the bridge, so that nothing on a frame's way is shared. Replicas
//! tell each other what they learn ([`news`]). One loop polls a port, never two (bridge2004): see [`dispatch::polling::Loops`].
//! With workers there is one loop, which posts what comes, and each worker is a lane without ports ([`post`]).
//!
//! Who configures the switch takes a lane's lock; the lane has it all the time but for when it is asked for it.

mod average;
mod bell;
mod costs;
mod exchange;
mod lane;
mod members;
mod news;
pub mod node;
mod post;
pub mod run;
#[cfg(test)]
mod tests;
mod tree;
pub mod words;

pub use average::Average;
pub use costs::SwitchCosts;
pub use lane::{Counts, Lane};
pub use members::{Info, Queue};
pub use news::NewsCounts;
pub use post::PORTS_MAX;
pub use tree::{LocalCounts, Tree};

use crate::capture::Captures;
use bridge::{BridgeConfig, MAX_PORTS, Member, PortNo};
use buf::{Pool, PoolConfig, PoolError, PoolLocks};
use clock::Clock;
use dispatch::dataflow::{self, Dataflow, dataflow};
use dispatch::polling::{Knobs, Taken};
pub(crate) use exchange::Call;

use exchange::{Arrivals, Outbox};
use lane::{Common, Role};
use members::{Members, Seat};
use news::Newswire;
use port::{Env, OpenError, Pairs, Port, Spec, SpecError};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tree::{Links, SharedInbox};
use wire::Mac;

/// Lanes that a switch can have: loops, or one loop and workers.
pub const LANES_MAX: usize = 64;

/// What a switch is to be.
#[derive(Debug, Clone)]
pub struct SwitchConfig {
    /// Its name: `bridge0`.
    pub name: String,
    /// Its table, and what else its bridge is to do.
    pub bridge: BridgeConfig,
    /// Its address, and so its identifier in a spanning tree; `None`: one of its own.
    pub mac: Option<Mac>,
    /// Loops, each in a thread of its own; one if there are workers.
    pub loops: usize,
    /// Workers, each in a thread of its own, that decide about what the loop posts; 0: it decides itself.
    pub workers: usize,
    /// Buffers of the pool that all ports share.
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

/// Why a port was not added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The name is not a port's.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The port could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It has a loop already.
    #[error(transparent)]
    Taken(#[from] Taken),
    /// There are as many as there may be.
    #[error("no more ports: a bridge has at most {0}")]
    TooMany(usize),
    /// There is no such loop.
    #[error("no loop {0}: there are {1}, from 0 on")]
    NoLane(usize, usize),
    /// Each of its queues has a loop of its own, and there is none for this one.
    #[error(
        "{port}: one more queue of a port has a loop of its own, and each of the {loops} has one of its queues (--loops)"
    )]
    NoLoopLeft {
        /// The queue.
        port: String,
        /// Loops that there are.
        loops: usize,
    },
}

/// A switch, its lanes at rest or running.
pub struct Switch {
    /// Its name.
    pub name: String,
    /// Its address: of the bridge itself.
    pub mac: Mac,
    /// The knobs of polling.
    pub knobs: Arc<Knobs>,
    /// The clock.
    pub clock: Clock,
    pool: Pool,
    /// Configuration of the pool.
    pool_config: PoolConfig,
    pairs: Arc<Pairs>,
    lanes: Vec<Mutex<Lane>>,
    /// What the loop posts to workers, if there are any.
    flow: Option<Arc<Dataflow>>,
    calls: Vec<Call>,
    members: Mutex<Members>,
    inbox: SharedInbox,
    tree: Mutex<Option<Tree>>,
    links: Mutex<Links>,
    captures: Arc<Captures>,
}

/// An address of nobody else's: locally administered (IEEE 802 8.4).
fn random_mac() -> Mac {
    let [a, b, c, d, e, ..] = RandomState::new().hash_one(0u8).to_be_bytes();
    Mac([0x02, a, b, c, d, e])
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Switch {
    /// Without ports.
    ///
    /// # Errors
    /// No memory for its pool, or the system's (descriptors).
    pub fn new(config: &SwitchConfig, clock: Clock) -> Result<Switch, PoolError> {
        Switch::among(config, clock, Arc::default())
    }

    /// The same, with the pairs and wires of others: what joins it to hosts and to other switches of the process.
    ///
    /// # Errors
    /// As [`Switch::new`].
    pub fn among(config: &SwitchConfig, clock: Clock, pairs: Arc<Pairs>) -> Result<Switch, PoolError> {
        let (loops, workers) = match config.workers.min(LANES_MAX - 1) {
            0 => (config.loops.clamp(1, LANES_MAX), 0),
            workers => (1, workers),
        };
        let lanes = loops + workers;
        let locks = if lanes > 1 { PoolLocks::Light } else { config.pool.locks };
        let pool_config = PoolConfig { locks, ..config.pool.clone() };
        let pool = Pool::new(&pool_config)?;
        let knobs = Arc::new(Knobs::default());
        let calls = (0..lanes).map(|_| Call::new()).collect::<Result<Vec<_>, _>>().map_err(PoolError::NoMemory)?;
        let inbox = SharedInbox::default();
        let captures: Arc<Captures> = Arc::default();
        let common = Common {
            bridge: config.bridge,
            knobs: knobs.clone(),
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
        let made = numbered.map(|(number, role)| Lane::new(number, role, &common));
        let mac = config.mac.unwrap_or_else(random_mac);
        let made = made.map(|mut lane| {
            lane.bridge.set_address(mac, clock.now());
            lane
        });
        let all: Vec<Lane> = match lanes {
            1 => made.collect(),
            _ => made.zip(Newswire::among(lanes)).map(|(lane, news)| lane.among_others(news)).collect(),
        };
        Ok(Switch {
            flow,
            name: config.name.clone(),
            mac,
            lanes: all.into_iter().map(Mutex::new).collect(),
            knobs,
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
        })
    }

    /// Loops and workers.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Loops: the first of the lanes.
    pub fn loops(&self) -> usize {
        self.lanes.len() - self.workers()
    }

    /// Workers: the other lanes.
    pub fn workers(&self) -> usize {
        self.flow.as_ref().map_or(0, |flow| flow.workers())
    }

    /// What the loop posts to workers, if there are any.
    pub fn dataflow(&self) -> Option<&Dataflow> {
        self.flow.as_deref()
    }

    /// Ports that it can have.
    pub fn ports_max(&self) -> usize {
        if self.flow.is_some() { PORTS_MAX } else { MAX_PORTS }
    }

    /// The pool that all ports share.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Lane `number`, to look at or change. It waits for that, in the middle of nothing. Who takes several at once takes them in their order.
    pub fn lane(&self, number: usize) -> Option<MutexGuard<'_, Lane>> {
        let (lane, call) = (self.lanes.get(number)?, self.calls.get(number)?);
        Some(call.ask(|| lock(lane)))
    }

    /// Does the same to each lane, one after the other.
    pub fn each_lane(&self, mut change: impl FnMut(&mut Lane)) {
        for number in 0..self.lanes() {
            if let Some(mut lane) = self.lane(number) {
                change(&mut lane);
            }
        }
    }

    /// Opens the port of that name and makes it a member, polled by `lane`, or by the one with the fewest.
    ///
    /// # Errors
    /// [`AddError`]; nothing has been added then.
    pub fn add(&self, spec: &Spec, lane: Option<usize>) -> Result<PortNo, AddError> {
        let seat = lock(&self.members).place(&spec.to_string(), lane, self.loops())?;
        let unit = lock(&self.members).places() as u16;
        // A generator's frames are for a station that nobody has: they go everywhere.
        let rights = dispatch::sandbox::port_rights();
        let opened = port::pool_for(spec, &self.pool, &self.pool_config).and_then(|pool| {
            let env = Env { pool: pool.clone(), pairs: &self.pairs, mac: random_mac(), unit };
            Ok((port::open(spec, &env)?, pool))
        });
        drop(rights);
        let (port, pool) = opened.inspect_err(|_| lock(&self.members).give_up(&seat))?;
        self.join(port, &seat, &pool)
    }

    /// Makes an open port a member.
    ///
    /// # Errors
    /// [`AddError`]; nothing has been added then.
    pub fn attach(&self, port: Port, lane: Option<usize>) -> Result<PortNo, AddError> {
        let seat = lock(&self.members).place(&port.spec, lane, self.loops())?;
        self.join(port, &seat, &self.pool)
    }

    /// Large segments that the port does not cut are cut into buffers of `pool`.
    fn join(&self, port: Port, seat: &Seat, pool: &Pool) -> Result<PortNo, AddError> {
        let mut members = lock(&self.members);
        let (number, lane) = (members.seat(&port, seat, self.ports_max())?, seat.lane);
        if seat.beside.is_some() {
            if let Some(mut lane) = self.lane(lane) {
                lane.add_queue(number, port, pool);
            }
            return Ok(number);
        }
        // Those who send to it first: what they send waits in the rings.
        let (mut arrivals, queue) = (Vec::new(), Arc::<Outbox<_>>::default());
        for other in (0..self.lanes()).filter(|other| *other != lane) {
            if let Some(mut other) = self.lane(other) {
                match self.flow {
                    Some(_) => other.add_queued(number, lane, &queue),
                    None => arrivals.push(other.add_foreign(number, lane)),
                }
            }
        }
        if self.flow.is_some() {
            arrivals.push(Arrivals::Queue(queue));
        }
        if let Some(mut lane) = self.lane(lane) {
            lane.add(number, port, arrivals, pool);
        }
        drop(members);
        self.forget_link(number);
        Ok(number)
    }

    /// Ends the membership of a port, and the port. What it still had to send is lost, and counted.
    pub fn remove(&self, number: PortNo) {
        let mut members = lock(&self.members);
        let Some(info) = members.leave(number) else { return };
        drop(members);
        self.remove_tree_port(number);
        self.forget_link(number);
        // Those who send to it first: nothing arrives there after it is gone.
        let others = (0..self.lanes()).filter(|lane| !info.is_polled_by(*lane));
        for lane in others.chain(info.queues.iter().map(|queue| queue.lane)) {
            if let Some(mut lane) = self.lane(lane) {
                lane.remove(number);
            }
        }
    }

    /// Members by number.
    pub fn members(&self) -> Vec<(PortNo, Info)> {
        lock(&self.members).list()
    }

    /// The member called so: by its name, or its whole name.
    pub fn member(&self, name: &str) -> Option<(PortNo, Info)> {
        let members = self.members();
        let whole = members.iter().find(|(_, info)| info.queues.iter().any(|queue| queue.spec == name));
        whole.or_else(|| members.iter().find(|(_, info)| info.name == name)).cloned()
    }

    /// Asks something else of a member, in every replica.
    pub fn set_member(&self, number: PortNo, change: impl Fn(&mut Member)) {
        self.each_lane(|lane| lane.set_member(number, &change));
    }
}

/// What came in and what became of it, over all lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Audit {
    /// Posted to workers, where there are any.
    pub posted: dataflow::Audit,
    /// In the bridges.
    pub bridge: bridge::Audit,
    /// Of what was given to ports, sent.
    pub sent: u64,
    /// Dropped in a port: its device did not take it.
    pub failed: u64,
    /// Dropped: the queue to a port was full, with workers.
    pub full: u64,
    /// Dropped: a port was removed, or full at the end.
    pub late: u64,
    /// Not sent yet.
    pub held: u64,
}

impl Audit {
    /// Does what was given to ports add up?
    pub fn is_sent(&self) -> bool {
        self.bridge.given == self.sent + self.failed + self.full + self.late + self.held
    }

    /// Did the bridges get what was posted?
    pub fn is_posted(&self) -> bool {
        self.posted.holds() && (self.posted.offered == 0 || self.posted.done == self.bridge.received)
    }

    /// Does all of it add up?
    pub fn holds(&self) -> bool {
        self.is_posted() && self.bridge.holds() && self.is_sent()
    }
}

impl Switch {
    /// What a member did, over all lanes.
    pub fn counts(&self, number: PortNo) -> Counts {
        let mut all = Counts::default();
        self.each_lane(|lane| all.add(&lane.counts(number)));
        all
    }

    /// Adds up what came and what became of it. All lanes wait meanwhile: between two turns nobody has frames in hand.
    pub fn audit(&self) -> Audit {
        let lanes: Vec<_> = (0..self.lanes()).filter_map(|number| self.lane(number)).collect();
        let posted = self.flow.as_ref().map(|flow| flow.audit()).unwrap_or_default();
        let mut all = Audit { posted, ..Audit::default() };
        for lane in &lanes {
            let (bridge, counts) = (lane.bridge.audit(), lane.total());
            all.bridge.received += bridge.received;
            all.bridge.made += bridge.made;
            all.bridge.copied += bridge.copied;
            all.bridge.given += bridge.given;
            all.bridge.dropped += bridge.dropped;
            all.bridge.local += bridge.local;
            all.sent += counts.sent;
            all.failed += counts.failed;
            all.full += counts.full;
            all.late += counts.late;
            all.held += counts.held;
        }
        all
    }

    /// What the bridge's part of a frame's way costs, over all lanes.
    pub fn average(&self) -> Average {
        let mut all = Average::default();
        self.each_lane(|lane| {
            all.ticks += lane.average.ticks;
            all.frames += lane.average.frames;
        });
        all
    }
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switch").field("name", &self.name).field("lanes", &self.lanes()).finish_non_exhaustive()
    }
}
