//! A host: a stack, its clock, and its ports.
//!
//! [`Host::step`] passes a burst from each port to the stack, runs timers, and returns the time of
//! the next timer. [`Host::run`] calls it repeatedly and sleeps when there is nothing to poll. The
//! stack's ifaces own the transmit halves of the ports.

mod configure;
mod engine;
mod error;
mod mirror;
mod output;
mod ports;
#[cfg(test)]
mod tests;

pub use error::{AddPortError, NewHostError};
pub use mirror::PuntStatus;
pub(crate) use ports::{default_mtu, unit_of};

use crate::capture::{CaptureReader, Captures, NOWHERE};
use crate::config::HostConfig;
use crate::dhcp::Dhcp;
use crate::figures::{RttHistogram, Source};
use crate::fpm::FpmServer;
use crate::inputs::Parts;
use crate::isr::Isr;
use crate::jobs::{Around, Jobs};
use crate::mirror::Mirror;
use crate::origin::Origin;
use crate::policy::Policy;
use crate::sleep::Sleeper;
use crate::split::Shard;
use crate::topology::Topology;
use buf::{Pool, PoolConfig};
use clock::{Clock, Duration, Instant};
use inet::iface::IfaceId;
use inet::{Config, Stack};
use lock::{Cx, How, Locks, USUAL_THREADS};
use port::{Caps, PortCounts};
use socket::net::Net;
use socket::{Calls, Drive, Errno};
use stats::{Entry, Shards};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use wire::Mac;
use wire::filter::Filter;
use wire::hash::{Key, Keyed};

/// Interval at which timers, jobs and delayed frames are processed while frames arrive without
/// pause. A frame that a port delays may therefore be released late, by at most this interval.
const SOON: Duration = Duration::from_micros(50);

/// Function that opens a port that the caller provides. Its arguments are the host's pool, from
/// which the port takes buffers, and the MAC address of the iface.
pub type OpenOwn = Box<dyn FnOnce(&Pool, Mac) -> std::io::Result<port::Port> + Send>;

/// A port of a host, or one of its queues.
#[derive(Clone, Debug)]
pub struct PortInfo {
    /// Iface of the port.
    pub iface: IfaceId,
    /// Number of the queue in the port, from 0.
    pub queue: usize,
    /// Full specification of the port.
    pub spec: String,
    /// Capabilities of the port.
    pub caps: Caps,
    /// Counters of the queue.
    pub counts: Arc<PortCounts>,
    /// Simulated network card of a `nic` port; `None` for other ports.
    pub nic: Option<Arc<port::nic::Nic>>,
}

impl PortInfo {
    /// Returns the counters of the queue, with their names and descriptions.
    pub fn counters(&self) -> Vec<Entry> {
        [stats::entries(&self.counts.rx), stats::entries(&self.counts.tx)].concat()
    }
}

/// Result of one round of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Frames received.
    pub frames: usize,
    /// Time at which the next round is due even if no frame arrives; `None` if no timer runs.
    pub next: Option<Instant>,
    /// Time of the round.
    pub now: Instant,
}

/// A host, ready to run.
pub struct Host<L: Locks> {
    /// Network stack of the host.
    pub stack: Stack<L>,
    /// Clock of the host.
    pub clock: Clock,
    /// Configuration of the stack's pool.
    pool_config: PoolConfig,
    /// Key from which default MAC addresses are derived: random, or computed from the configured
    /// seed.
    key: Key,
    how: How,
    burst: usize,
    /// Number of threads that run the host.
    threads: usize,
    /// Time of the last full poll of the stack, in nanoseconds.
    polled: AtomicU64,
    /// Time until which a blocking call may sleep, in nanoseconds, as computed by the last round; 0
    /// if the last round received frames.
    quiet_until: AtomicU64,
    pub(crate) inputs: Parts<L>,
    /// For a shared host (a host run by several threads): value of [`Parts::rounds`] at the end of
    /// each thread's last round without frames.
    pub(crate) seen: Shards<AtomicU64>,
    /// Wakes the thread that runs a shared host. `None` for a host of one thread, or if no
    /// descriptor was available.
    pub(crate) sleeper: Option<Arc<Sleeper>>,
    pub(crate) isr: Option<Isr>,
    ports: Mutex<Vec<PortInfo>>,
    /// Frame counts of all removed ports: (frames passed to the stack, frames passed to the ports).
    removed: [AtomicU64; 2],
    captures: Arc<Captures>,
    jobs: Jobs<L>,
    dhcp: Dhcp,
    /// Topology displayed by `show topology`.
    topology: Mutex<Arc<Topology>>,
    /// Configuration of the start, for comparisons with another one.
    pub(crate) origin: Origin,
    /// Connection with the collector of figures; unset if there is none.
    pub(crate) figures: OnceLock<Source>,
    /// Server for a routing engine; unset if the host accepts none.
    pub(crate) fpm: OnceLock<FpmServer>,
    /// Mirrors of ifaces, for a routing engine.
    pub(crate) mirrors: Mutex<Vec<Arc<Mirror>>>,
    /// Round-trip times of connections, of which each collection takes samples.
    pub(crate) rtts: RttHistogram,
}

/// Dropping a host on a live clock attempts a short [`Host::shutdown`], for at most 500 ms, and at
/// most 50 ms if a peer does not respond. Connections with unacknowledged data are then reset. A
/// host that was stopped has been shut down already, or its thread has panicked, in a port that
/// would panic again.
impl<L: Locks> Drop for Host<L> {
    #[inline(never)]
    fn drop(&mut self) {
        if self.clock.strategy().is_some() && !self.stack.is_stopped() && !std::thread::panicking() {
            self.attempt_shutdown();
        }
        if crate::ledgers::keeping() {
            crate::ledgers::leave(crate::ledgers::Kept { host: self.stack.name.clone(), costs: self.stack.ledger() });
        }
    }
}

impl<L: Locks> Host<L> {
    /// Creates a host with its pool and loopback, but without ports. [`crate::build`] also adds
    /// ifaces, routes, neighbors and services.
    ///
    /// # Errors
    /// Returns a [`NewHostError`]: an error of [`Pool::new`], an unknown sysctl, a value out of
    /// range, or a key that needs `build`.
    pub fn new(config: &HostConfig, clock: Clock) -> Result<Host<L>, NewHostError> {
        config.check_bare().map_err(NewHostError::Config)?;
        Ok(Host::of_checked(config, clock)?)
    }

    /// Creates a host like [`Host::new`], from a configuration that has already been checked.
    #[inline(never)]
    pub(crate) fn of_checked(config: &HostConfig, clock: Clock) -> Result<Host<L>, buf::PoolError> {
        let pool_config = config.pool_config::<L>();
        let pool = Pool::new(&pool_config)?;
        let cx = Cx::enter(config.context, clock.now());
        let mut reassembly = inet::ip4::reass::Limits::default();
        reassembly.large.locks = pool_config.locks;
        let stack = Stack::new(cx, Config { seed: config.seed, reassembly, ..Config::new(&config.name, pool) });
        for (name, value) in &config.sysctl {
            // Names and values were checked with the configuration.
            crate::sysctl::apply(&stack.sysctls, name, *value);
        }
        if crate::ledgers::keeping() {
            stack.set_ledger(true);
        }
        let captures: Arc<Captures> = Arc::default();
        let recorder = captures.clone();
        stack.set_drop_watch(move |frame, why, now| recorder.note_dropped(NOWHERE, frame, why, now));
        let (ports, topology) = Default::default();
        let (inputs, seen) = (Parts::default(), Shards::new(if L::SHARED { USUAL_THREADS } else { 1 }));
        let sleeper = if L::SHARED { Sleeper::new(&stack) } else { None };
        let (how, burst, threads) = (config.context, config.burst, if L::SHARED { config.threads } else { 1 });
        let key = config.seed.map_or_else(Key::random, Key::seeded);
        let (polled, quiet_until, removed) = Default::default();
        Ok(Host {
            stack,
            pool_config,
            clock,
            key,
            how,
            burst,
            threads,
            polled,
            quiet_until,
            inputs,
            seen,
            sleeper,
            isr: None,
            ports,
            removed,
            captures,
            jobs: Jobs::default(),
            dhcp: Dhcp::default(),
            topology,
            origin: Origin::new(config),
            figures: OnceLock::new(),
            fpm: OnceLock::new(),
            mirrors: Mutex::default(),
            rtts: RttHistogram::default(),
        })
    }

    /// Returns the context of the calling thread, with the current time.
    #[inline(always)]
    pub fn cx(&self) -> Cx {
        Cx::enter(self.how, self.clock.now())
    }

    /// Returns the method by which code finds the context of the running thread.
    pub fn context(&self) -> How {
        self.how
    }

    /// Returns the maximum number of frames received from a port at once.
    pub fn burst(&self) -> usize {
        self.burst
    }

    /// Returns the socket calls of a host that no other thread runs. A call that blocks runs the
    /// host's rounds on the calling thread.
    #[inline]
    pub fn calls(&self) -> Calls<'_, L> {
        Calls::driving(&self.stack, self.cx(), self)
    }

    /// Returns the socket calls of a host that another thread runs. A call that blocks only waits.
    #[inline]
    pub fn shared_calls(&self) -> Calls<'_, L> {
        Calls::new(&self.stack, self.cx())
    }

    /// Returns the socket calls for a loop that calls [`Host::step`]. They use `now`, the time of
    /// the last round, because reading the clock in every call would take a sixth of the time of a
    /// request and its answer.
    #[inline(always)]
    pub fn calls_at(&self, now: Instant) -> Calls<'_, L> {
        Calls::new(&self.stack, Cx::enter(self.how, now))
    }

    /// Sets the maximum number of frames received from a port at once, 1 to 256.
    pub fn set_burst(&mut self, burst: usize) {
        self.burst = burst.clamp(1, buf::BURST_MAX);
    }

    /// Returns the captures at the host's ports.
    pub fn captures(&self) -> &Captures {
        &self.captures
    }

    /// Opens a capture of the frames that match `filter` at any port. Returns `None` if
    /// [`CAPTURES_MAX`](crate::capture::CAPTURES_MAX) captures are open.
    pub fn capture(&self, filter: Filter) -> Option<CaptureReader> {
        self.captures.open_reader(filter)
    }

    /// Sets or removes the policy for the stations behind the port of an iface. Returns `false` if
    /// the iface has no port.
    pub fn set_policy(&self, iface: IfaceId, policy: Option<&Policy>) -> bool {
        self.captures.set_policy(iface.0, policy)
    }

    /// Sets the topology displayed by `show topology`.
    pub fn set_topology(&self, topology: Arc<Topology>) {
        *self.topology.lock().unwrap_or_else(PoisonError::into_inner) = topology;
    }

    /// Returns the topology of which the host is a part.
    pub fn topology(&self) -> Arc<Topology> {
        self.topology.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the ports in the order in which they were added.
    pub fn ports(&self) -> Vec<PortInfo> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether the host has virtual time, which only its simulation advances. Calls cannot
    /// wait on such a host.
    pub fn is_simulated(&self) -> bool {
        self.clock.strategy().is_none()
    }

    /// Returns the default MAC address of the iface called `iface`: locally administered (b2:...),
    /// and random unless the host has a seed.
    pub fn mac_of(&self, iface: &str) -> Mac {
        mac_of(self.key, &self.stack.name, iface)
    }

    /// Connects the host to the dispatcher of a split host, which supplies the host's frames.
    pub(crate) fn take_shard(&mut self, shard: Shard) {
        let (isr, seated) = shard.sit(&self.stack);
        self.inputs.first.lock(self.cx()).shard = Some(seated);
        self.isr = Some(isr);
    }

    /// Runs one round: receives a burst from each port, except from ports that another thread
    /// serves ([`Host::run_part`]), and runs timers.
    #[inline]
    pub fn step(&self) -> Step {
        self.step_with(|cx| {
            if !L::SHARED {
                return self.take_in(cx, &self.inputs.first);
            }
            let frames = self.inputs.unclaimed().map(|part| self.take_in(cx, part)).sum();
            if frames == 0 {
                self.seen.at(cx.current()).store(self.inputs.rounds(), Ordering::Relaxed);
            }
            frames
        })
    }

    /// Runs a round that receives only from the ports of part `part` ([`Host::divide`]), or from
    /// none if the part does not exist.
    pub fn step_part(&self, part: usize) -> Step {
        self.step_with(|cx| self.inputs.iter().nth(part).map_or(0, |part| self.take_in(cx, part)))
    }

    /// Runs a round in which `take_in` receives the frames and returns their number.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn step_with(&self, take_in: impl FnOnce(Cx) -> usize) -> Step {
        let now = self.clock.now();
        let cx = Cx::enter(self.how, now);
        let frames = take_in(cx);
        if L::SHARED && frames > 0 {
            self.wake(); // another thread may wait for data in these frames
        }
        // While frames arrive, the caller does not sleep, so timers need to be checked only
        // occasionally.
        let polled = Instant::from_nanos(self.polled.load(Ordering::Relaxed));
        if frames > 0 && now.since(polled) < SOON {
            self.stack.poll_soon(cx);
            return Step { frames, next: Some(now), now };
        }
        self.polled.store(now.nanos(), Ordering::Relaxed);
        let has_work = self.jobs.any() || self.dhcp.any() || self.stack.may_want_dhcp6();
        let due = if has_work { self.turn_work(cx) } else { Instant::NEVER };
        let next = self.stack.poll(cx);
        Step { frames, next: next.into_iter().chain((due != Instant::NEVER).then_some(due)).min(), now }
    }

    /// Runs the jobs and DHCP clients. Returns the time of their next turn.
    #[cold]
    #[inline(never)]
    fn turn_work(&self, cx: Cx) -> Instant {
        let calls = Calls::new(&self.stack, cx);
        let of_jobs = self.jobs.turn(&Around { stack: &self.stack, calls: &calls, cx });
        let of_dhcp = self.dhcp.turn(&calls);
        self.stack.flush(cx);
        of_jobs.min(of_dhcp)
    }

    /// Returns the DHCP clients of the host's interfaces.
    pub fn dhcp(&self) -> &Dhcp {
        &self.dhcp
    }

    /// Returns the jobs run for clients of the control socket.
    pub fn jobs(&self) -> &Jobs<L> {
        &self.jobs
    }

    /// Runs the host until `stop` returns true, sleeping when no frames arrive.
    pub fn run(&self, mut stop: impl FnMut() -> bool) {
        while !stop() {
            let step = self.step();
            if step.frames == 0 {
                self.wait(step.next.unwrap_or(Instant::NEVER), None);
            }
        }
    }
}

/// In a host of one thread, blocking calls run the host's rounds. In a shared host, another thread
/// runs them.
impl<L: Locks> Net for Host<L> {
    type Locks = L;
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn with<R>(&self, f: impl FnOnce(&Calls<'_, L>) -> R) -> R {
        if L::SHARED {
            return f(&self.shared_calls());
        }
        // The driver is a reference, so that code that inlines this does not contain the code that
        // drops a host.
        f(&Calls::driving(&self.stack, self.cx(), &self))
    }
}

impl<L: Locks> Drive for Host<L> {
    #[inline(never)]
    fn drive(&self, until: Instant) -> Option<Instant> {
        if self.is_simulated() {
            return None;
        }
        // Sleeps first and then runs the round, so that the caller sees the results of the round
        // (an expired timer, a packet to the host itself) at once, and not after the next sleep.
        let quiet_until = Instant::from_nanos(self.quiet_until.load(Ordering::Relaxed));
        if quiet_until > Instant::ZERO {
            self.wait(quiet_until.min(until), None);
        }
        self.look();
        (!dispatch::stop_requested()).then(|| self.clock.now())
    }

    fn refusal(&self) -> Errno {
        if self.is_simulated() { Errno::EDEADLK } else { Errno::EINTR }
    }

    #[inline(never)]
    fn look(&self) -> Option<Instant> {
        if self.is_simulated() {
            return None;
        }
        let step = self.step();
        let quiet_until = if step.frames > 0 { Instant::ZERO } else { step.next.unwrap_or(Instant::NEVER) };
        self.quiet_until.store(quiet_until.nanos(), Ordering::Relaxed);
        Some(step.now)
    }
}

/// Returns the default MAC address of an iface: the byte 0xb2 (unicast, locally administered, IEEE
/// 802 8.4) and 40 bits of the hash of the host's and the iface's name with `key`.
pub(crate) fn mac_of(key: Key, host: &str, iface: &str) -> Mac {
    let [a, b, c, d, e, ..] = Keyed(key).hash_one((host, iface)).to_be_bytes();
    Mac([0xb2, a, b, c, d, e])
}

impl<L: Locks> std::fmt::Debug for Host<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("name", &self.stack.name).field("ports", &self.ports().len()).finish()
    }
}
