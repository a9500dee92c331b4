//! Netisr: processes received items (packets) either in the receiving thread or in another thread,
//! like FreeBSD's `net.isr`. Robert Watson's report of 2005 (netisr2005) compares the two.
//!
//! ```text
//!  Caller::dispatch  items of one protocol, from one source                  counted as
//!    direct          Work::run is called at once                             Disp'd, Handled
//!    deferred        put into the queue of the workstream that the policy    Queued, or QDrops
//!                    chooses, one lock per workstream and burst; wakes its   (the caller keeps
//!                    worker if it is idle                                    the items)
//!    hybrid          direct if the chosen workstream is the caller's own     HDisp'd, Handled
//!                    and no thread is working in it; otherwise deferred
//!  Caller::queue     deferred in any mode, for callers that may not do the
//!                    work. Not for a host's packets to itself or out of
//!                    tunnels: the stack has its own queues (decision 19)
//!  Worker::turn      moves a whole queue out under the lock and works on     Handled
//!                    it without the lock: up to twice the limit can be held
//! ```
//! Only one thread at a time processes items in a workstream, and each queue of a workstream keeps
//! the order of its items. Each flow therefore stays in order within a mode. A change of mode,
//! policy or number of workstreams loses no item, but may reorder the items of a flow once. The
//! state that several threads access concurrently is in [`workstream`], which is checked with loom.
//! Netisr is independent of stacks and headers: an item has any type, protocols are registered, and
//! their callbacks return hashes.

mod caller;
mod config;
mod error;
mod statistics;
mod table;
#[cfg(test)]
mod tests;
mod worker;
mod workstream;

pub use caller::Caller;
pub use config::{Config, Mode, Policy, Protocol, QLIMIT_DEFAULT, QLIMIT_MAX, WORKSTREAMS_MAX};
pub use error::NetisrError;
pub use table::{ProtocolRow, Settings, Snapshot, WorkRow};
pub use worker::{Items, Work, Worker};

use config::Live;
use statistics::{Statistics, Sums};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use workstream::{Ending, Workstream};

/// Panics in debug builds: a protocol or workstream number is not registered. Callers cannot
/// construct such a number, so this would be a bug in netisr.
#[cold]
#[inline(never)]
#[track_caller]
fn not_registered() {
    debug_assert!(false, "unregistered protocol or workstream");
}

/// Maximum number of protocols (FreeBSD: `net.isr.maxprot`).
pub const PROTOCOLS_MAX: usize = 16;

/// An item, such as a received packet, passed to netisr.
pub trait Item: Send {
    /// Returns the item's flow if the card has computed it. Otherwise netisr calls the protocol's
    /// `m2flow`.
    fn flow(&self) -> Option<u64> {
        None
    }
}

/// Index of a registered protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtoId(u8);

impl ProtoId {
    /// Returns the protocol's index among the registered ones, counted from 0.
    pub fn at(self) -> usize {
        usize::from(self.0)
    }
}

/// Totals of items accepted, handled, refused, waiting and lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Audit {
    /// Items that the receiving thread processed itself, including those in progress.
    pub dispatched: u64,
    /// Items put into queues.
    pub queued: u64,
    /// Number of items that were processed completely.
    pub handled: u64,
    /// Items refused because the queue was full. They stay with the caller.
    pub qdrops: u64,
    /// Items waiting in queues, or taken from a queue by a worker that has not processed them yet.
    pub held: u64,
    /// Items lost: the work function panicked while they were in progress, or returned without
    /// taking them.
    pub lost: u64,
    /// Items removed from queues when the host ended ([`Netisr::drain`]).
    pub drained: u64,
}

impl Audit {
    /// Returns whether the totals balance. They always do while no item is in progress.
    pub fn holds(&self) -> bool {
        self.dispatched + self.queued == self.handled + self.held + self.lost + self.drained
    }

    /// Returns the number of all items that callers have passed to netisr.
    pub fn offered(&self) -> u64 {
        self.dispatched + self.queued + self.qdrops
    }
}

/// State that callers and workers share.
pub struct Netisr<T> {
    streams: Box<[Workstream<T>]>,
    protocols: Box<[Live<T>]>,
    statistics: Statistics,
    mode: AtomicU8,
    default_qlimit: AtomicUsize,
    config: Config,
}

impl<T: Item> Netisr<T> {
    /// Creates the workstreams, each with one queue per entry of `protocols`. They have no workers
    /// yet.
    ///
    /// # Errors
    /// [`NetisrError`]: too many workstreams or protocols, a queue limit that is too large, a
    /// duplicate name, or a policy that a protocol does not support.
    pub fn new(config: Config, protocols: Vec<Protocol<T>>) -> Result<Arc<Netisr<T>>, NetisrError> {
        config.check(&protocols)?;
        let n = protocols.len();
        Ok(Arc::new(Netisr {
            streams: (0..config.workstreams).map(|_| Workstream::new(n)).collect(),
            protocols: protocols.into_iter().map(Live::new).collect(),
            statistics: Statistics::new(config.workstreams, n),
            mode: AtomicU8::new(config.mode.number()),
            default_qlimit: AtomicUsize::new(config.default_qlimit),
            config,
        }))
    }

    /// Returns the number of workstreams.
    pub fn workstreams(&self) -> usize {
        self.streams.len()
    }

    /// Returns the settings that are fixed at creation.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the protocol with the given name.
    ///
    /// # Errors
    /// [`NetisrError::UnknownProtocol`] if there is no such protocol.
    pub fn protocol(&self, name: &str) -> Result<ProtoId, NetisrError> {
        let at = self.protocols.iter().position(|live| live.about.name == name);
        at.map(|at| ProtoId(at as u8)).ok_or_else(|| NetisrError::UnknownProtocol(name.to_string()))
    }

    /// Returns the names of the protocols, in order of registration.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.protocols.iter().map(|live| live.about.name)
    }

    fn live(&self, proto: ProtoId) -> Option<&Live<T>> {
        self.protocols.get(proto.at())
    }

    /// Returns the common mode, used by all protocols without a mode of their own.
    #[inline(always)]
    pub fn mode(&self) -> Mode {
        Mode::of(self.mode.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Checks whether a mode can be set to `mode`, either the common mode or that of a single
    /// protocol.
    ///
    /// # Errors
    /// [`NetisrError::OtherMode`] if this netisr allows only another mode.
    pub fn check_mode(&self, mode: Mode) -> Result<(), NetisrError> {
        self.config.check_mode(mode)
    }

    /// Sets the common mode, used by all protocols without a mode of their own. Does not call
    /// [`check_mode`](Netisr::check_mode).
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode.number(), Ordering::Relaxed);
    }

    /// Returns the mode of `proto`: its own mode, or the common mode if it has none.
    #[inline(always)]
    pub fn mode_of(&self, proto: ProtoId) -> Mode {
        self.live(proto).and_then(Live::mode).unwrap_or_else(|| self.mode())
    }

    /// Sets a mode for `proto` alone. With `None`, the common mode applies to `proto`.
    pub fn set_own_mode(&self, proto: ProtoId, mode: Option<Mode>) {
        if let Some(live) = self.live(proto) {
            live.set_mode(mode);
        }
    }

    /// Returns the policy that selects the workstream of an item of `proto`.
    pub fn policy(&self, proto: ProtoId) -> Policy {
        self.live(proto).map(Live::policy).unwrap_or_default()
    }

    /// Sets the policy that selects the workstream of an item of `proto`.
    ///
    /// # Errors
    /// [`NetisrError::PolicyUnanswered`] for [`Policy::Cpu`] and a protocol without `m2cpuid`.
    pub fn set_policy(&self, proto: ProtoId, policy: Policy) -> Result<(), NetisrError> {
        let Some(live) = self.live(proto).filter(|live| live.policy() != policy) else { return Ok(()) };
        live.set_policy(policy)?;
        if self.streams.len() > 1 {
            self.pass(proto); // a flow's next items go to another queue
        }
        Ok(())
    }

    /// Counts the waiting items of `proto` that later items may overtake, after a setting has
    /// changed.
    #[inline(always)]
    fn pass(&self, proto: ProtoId) {
        if let Some(live) = self.live(proto).filter(|live| live.may_wait()) {
            self.count_overtaken(proto, live);
        }
    }

    #[cold]
    fn count_overtaken(&self, proto: ProtoId, live: &Live<T>) {
        // Counters of completed work are read before those of started work, so that concurrent work
        // can only increase the result.
        let of = |at: usize| self.statistics.sums(at, proto.at());
        let all = || self.streams.iter().enumerate();
        let done = || all().map(|(at, stream)| of(at).handled + of(at).lost + stream.level(proto.at()).drained).sum();
        let begun = |(at, stream): (usize, &Workstream<T>)| {
            of(at).dispatched + of(at).hybrid_dispatched + stream.level(proto.at()).queued
        };
        live.note_overtaken(done, || all().map(begun).sum());
    }

    /// Returns the maximum number of items of `proto` that may wait in a workstream.
    pub fn qlimit(&self, proto: ProtoId) -> usize {
        self.live(proto).map_or(0, |live| live.qlimit(self.default_qlimit()))
    }

    /// Sets the maximum number of items of `proto` that may wait in a workstream. Items that
    /// already wait are kept. With 0, all items that would have to wait are refused.
    ///
    /// # Errors
    /// [`NetisrError::Limit`] if it is larger than [`Config::max_qlimit`].
    pub fn set_qlimit(&self, proto: ProtoId, limit: usize) -> Result<(), NetisrError> {
        self.config.check_limit(limit)?;
        self.live(proto).map_or(Ok(()), |live| {
            live.set_qlimit(limit);
            Ok(())
        })
    }

    /// Returns the queue limit of protocols without a limit of their own.
    pub fn default_qlimit(&self) -> usize {
        self.default_qlimit.load(Ordering::Relaxed)
    }

    /// Sets the queue limit of protocols without a limit of their own.
    ///
    /// # Errors
    /// [`NetisrError::Limit`] if it is larger than [`Config::max_qlimit`].
    pub fn set_default_qlimit(&self, limit: usize) -> Result<(), NetisrError> {
        self.config.check_limit(limit)?;
        self.default_qlimit.store(limit, Ordering::Relaxed);
        Ok(())
    }

    /// Creates a caller whose own workstream is `at`. Items that the caller processes itself are
    /// counted in this workstream. In hybrid mode, the caller may process only items of this
    /// workstream itself.
    ///
    /// # Errors
    /// [`NetisrError::Callers`] if the maximum number of callers and workers is reached.
    pub fn caller(self: &Arc<Netisr<T>>, at: usize) -> Result<Caller<T>, NetisrError> {
        Caller::new(self.clone(), at % self.streams.len().max(1))
    }

    /// Creates the worker of workstream `at`. A workstream has one worker at a time. After the
    /// worker is dropped, another can be created.
    ///
    /// # Errors
    /// [`NetisrError::Taken`] if the workstream has a worker. [`NetisrError::Callers`] if the
    /// maximum number of callers and workers is reached.
    pub fn worker(self: &Arc<Netisr<T>>, at: usize) -> Result<Worker<T>, NetisrError> {
        Worker::new(self.clone(), at)
    }

    /// Makes the workers end when no item waits. Callers must not pass items to netisr afterwards.
    pub fn finish(&self) {
        self.streams.iter().for_each(|stream| stream.end(Ending::Finish));
    }

    /// Makes the workers end at once. Waiting items stay in the queues.
    pub fn stop(&self) {
        self.streams.iter().for_each(|stream| stream.end(Ending::Now));
    }

    /// Removes all waiting items when the host ends, and passes them to `each`.
    pub fn drain(&self, mut each: impl FnMut(ProtoId, T)) {
        (0..self.streams.len()).for_each(|at| self.drain_of(at, &mut each));
    }

    /// Removes all waiting items of workstream `at`, and passes them to `each`.
    pub fn drain_of(&self, at: usize, mut each: impl FnMut(ProtoId, T)) {
        let Some(stream) = self.streams.get(at) else { return };
        for at in 0..self.protocols.len() {
            stream.drain(at).into_iter().for_each(|item| each(ProtoId(at as u8), item));
        }
    }

    /// Returns the number of items that wait in queues, or that workers have taken but not
    /// processed.
    pub fn held(&self) -> u64 {
        self.audit().held
    }

    /// Returns whether an item waits in a queue of workstream `at`.
    pub fn has_waiting(&self, at: usize) -> bool {
        self.streams.get(at).is_some_and(Workstream::has_waiting)
    }

    /// Returns the totals of all workstreams.
    pub fn audit(&self) -> Audit {
        self.audit_where(|_| true)
    }

    /// Returns the totals of workstream `at`.
    pub fn audit_of(&self, at: usize) -> Audit {
        self.audit_where(|other| other == at)
    }

    fn audit_where(&self, wanted: impl Fn(usize) -> bool) -> Audit {
        let mut all = Audit::default();
        for (at, stream) in self.streams.iter().enumerate().filter(|(at, _)| wanted(*at)) {
            for proto in 0..self.protocols.len() {
                let (queue, sums) = (stream.level(proto), self.statistics.sums(at, proto));
                all.dispatched += sums.dispatched + sums.hybrid_dispatched;
                all.queued += queue.queued;
                all.handled += sums.handled;
                all.qdrops += queue.qdrops;
                all.held += queue.len as u64 + sums.in_hand();
                all.lost += sums.lost;
                all.drained += queue.drained;
            }
        }
        all
    }

    /// Returns the number of wakeups and of sleeps of all workers, that is, the thread switches
    /// that a mode costs.
    pub fn switches(&self) -> (u64, u64) {
        let all = self.streams.iter().map(Workstream::switches);
        all.fold((0, 0), |(wakeups, sleeps), (w, s)| (wakeups + w, sleeps + s))
    }

    /// Records that the worker of workstream `at` panicked and is restarted. Returns the number of
    /// restarts of that worker so far.
    pub fn note_restart(&self, at: usize) -> u64 {
        self.streams.get(at).map_or(0, Workstream::note_restart)
    }

    /// Returns all settings and counters, as `netstat -Q` prints them.
    pub fn snapshot(&self) -> Snapshot {
        let row = |(at, proto): (usize, usize)| {
            let Sums { dispatched, hybrid_dispatched, handled, lost, .. } = self.statistics.sums(at, proto);
            let level = self.streams.get(at).map(|stream| stream.level(proto)).unwrap_or_default();
            let name = self.protocols.get(proto).map_or("unknown", |live| live.about.name);
            let (cpu, (len, watermark)) = (self.config.cpu(at), (level.len, level.watermark));
            let (qdrops, queued) = (level.qdrops, level.queued);
            WorkRow {
                workstream: at,
                cpu,
                name,
                len,
                watermark,
                dispatched,
                hybrid_dispatched,
                qdrops,
                queued,
                handled,
                lost,
            }
        };
        let places = (0..self.streams.len()).flat_map(|at| (0..self.protocols.len()).map(move |proto| (at, proto)));
        let (wakeups, sleeps) = self.switches();
        Snapshot {
            settings: Settings {
                threads: self.streams.len(),
                max_threads: self.config.max_workstreams,
                default_qlimit: self.default_qlimit(),
                max_qlimit: self.config.max_qlimit,
                mode: self.mode(),
                bound: self.config.bound,
            },
            protocols: self.protocols.iter().map(|live| live.row(self.default_qlimit())).collect(),
            work: places.map(row).collect(),
            wakeups,
            sleeps,
            restarts: self.streams.iter().map(Workstream::restarts).sum(),
        }
    }
}

impl<T> fmt::Debug for Netisr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (streams, protocols) = (self.streams.len(), self.protocols.len());
        f.debug_struct("Netisr").field("workstreams", &streams).field("protocols", &protocols).finish_non_exhaustive()
    }
}

/// A list of items.
type List<T> = VecDeque<T>;
