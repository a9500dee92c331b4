//! Netisr: what a port gave goes through the stack in the thread that took it, or in another one (FreeBSD's `net.isr`; netisr2005 asks
//! which is better, and when).
//!
//! ```text
//!  Caller::dispatch    items of one protocol, from one source
//!    direct            Work::run here and now                                          counted Disp'd, Handled
//!    deferred          the workstream that the policy chooses: into its queue, one     Queued, or QDrops: the caller has them back
//!                      lock for a burst's share; its worker is told if it is idle
//!    hybrid            direct, where the workstream chosen is the caller's own and     HDisp'd, Handled
//!                      nobody is at work in it; else deferred
//!  Caller::queue       deferred, whatever the mode: for who may not work on it where it is. Not for a host's packets to itself and
//!                      out of tunnels: the stack has queues of its own for them (decision 19)
//!  Worker::turn        a whole queue at a time is moved out under the lock and worked  Handled
//!                      on without it: up to twice the limit are held
//! ```
//! A workstream is with one thread at a time, and each of its queues keeps order: so does each flow within a mode. A switch of mode, policy
//! or workstreams loses nothing, and may let a flow's items pass each other once. What threads touch at once is [`workstream`]; loom has
//! seen it. Nothing is known here of stacks and headers: the items are anybody's, protocols are registered, hashes are asked for.

mod books;
mod caller;
mod config;
mod error;
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

use books::{Books, Sums};
use config::Live;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use workstream::{Ending, Workstream};

/// Reports a protocol or workstream that this netisr does not have, and that no caller can name: tests fail.
#[cold]
#[inline(never)]
#[track_caller]
fn not_registered() {
    debug_assert!(false, "a protocol or workstream that is not registered");
}

/// The most protocols there can be (FreeBSD: `net.isr.maxprot`).
pub const PROTOCOLS_MAX: usize = 16;

/// What is given to netisr.
pub trait Item: Send {
    /// Its flow, if somebody has said (a card that hashes); else the protocol is asked.
    fn flow(&self) -> Option<u64> {
        None
    }
}

/// A registered protocol, by its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtoId(u8);

impl ProtoId {
    /// Its place among the registered ones, from 0 on.
    pub fn at(self) -> usize {
        usize::from(self.0)
    }
}

/// Items in and what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Audit {
    /// Worked on by the caller at once, or begun so.
    pub dispatched: u64,
    /// Put into queues.
    pub queued: u64,
    /// Worked on to the end.
    pub handled: u64,
    /// Refused: the queue was full. The caller has them.
    pub qdrops: u64,
    /// Wait in queues, or in a worker's hand.
    pub held: u64,
    /// In hand when the work panicked, or left by it.
    pub lost: u64,
    /// Taken out of queues at the end ([`Netisr::drain`]).
    pub drained: u64,
}

impl Audit {
    /// Does it add up? At any moment at which nobody has an item in hand.
    pub fn holds(&self) -> bool {
        self.dispatched + self.queued == self.handled + self.held + self.lost + self.drained
    }

    /// All that was offered.
    pub fn offered(&self) -> u64 {
        self.dispatched + self.queued + self.qdrops
    }
}

/// What callers and workers share.
pub struct Netisr<T> {
    streams: Box<[Workstream<T>]>,
    protocols: Box<[Live<T>]>,
    books: Books,
    mode: AtomicU8,
    default_qlimit: AtomicUsize,
    config: Config,
}

impl<T: Item> Netisr<T> {
    /// Workstreams with a queue for each of `protocols`, and nobody at work yet.
    ///
    /// # Errors
    /// [`NetisrError`]: more workstreams, protocols or a longer queue than may be, one name twice, a policy without an answer.
    pub fn new(config: Config, protocols: Vec<Protocol<T>>) -> Result<Arc<Netisr<T>>, NetisrError> {
        config.check(&protocols)?;
        let n = protocols.len();
        Ok(Arc::new(Netisr {
            streams: (0..config.workstreams).map(|_| Workstream::new(n)).collect(),
            protocols: protocols.into_iter().map(Live::new).collect(),
            books: Books::new(config.workstreams, n),
            mode: AtomicU8::new(config.mode.number()),
            default_qlimit: AtomicUsize::new(config.default_qlimit),
            config,
        }))
    }

    /// Workstreams.
    pub fn workstreams(&self) -> usize {
        self.streams.len()
    }

    /// What cannot be changed any more.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The protocol called `name`.
    ///
    /// # Errors
    /// [`NetisrError::UnknownProtocol`].
    pub fn protocol(&self, name: &str) -> Result<ProtoId, NetisrError> {
        let at = self.protocols.iter().position(|live| live.about.name == name);
        at.map(|at| ProtoId(at as u8)).ok_or_else(|| NetisrError::UnknownProtocol(name.to_string()))
    }

    /// Their names, in order of registration.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.protocols.iter().map(|live| live.about.name)
    }

    fn live(&self, proto: ProtoId) -> Option<&Live<T>> {
        self.protocols.get(proto.at())
    }

    /// The mode of all protocols that have none of their own.
    #[inline(always)]
    pub fn mode(&self) -> Mode {
        Mode::of(self.mode.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// May it be set to `mode`, for all or for one protocol?
    ///
    /// # Errors
    /// [`NetisrError::OtherMode`].
    pub fn check_mode(&self, mode: Mode) -> Result<(), NetisrError> {
        self.config.check_mode(mode)
    }

    /// Sets it, whatever [`check_mode`](Netisr::check_mode) says.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode.number(), Ordering::Relaxed);
    }

    /// The mode of `proto`: its own, or the one of all.
    #[inline(always)]
    pub fn mode_of(&self, proto: ProtoId) -> Mode {
        self.live(proto).and_then(Live::mode).unwrap_or_else(|| self.mode())
    }

    /// Gives `proto` a mode of its own, or takes it back.
    pub fn set_own_mode(&self, proto: ProtoId, mode: Option<Mode>) {
        if let Some(live) = self.live(proto) {
            live.set_mode(mode);
        }
    }

    /// How the workstream of an item of `proto` is chosen.
    pub fn policy(&self, proto: ProtoId) -> Policy {
        self.live(proto).map(Live::policy).unwrap_or_default()
    }

    /// Chooses workstreams that way from now on.
    ///
    /// # Errors
    /// [`NetisrError::PolicyUnanswered`]: [`Policy::Cpu`] of a protocol that names none.
    pub fn set_policy(&self, proto: ProtoId, policy: Policy) -> Result<(), NetisrError> {
        let Some(live) = self.live(proto).filter(|live| live.policy() != policy) else { return Ok(()) };
        live.set_policy(policy)?;
        if self.streams.len() > 1 {
            self.pass(proto); // a flow's next items go to another queue
        }
        Ok(())
    }

    /// What comes now passes what waits of its protocol.
    #[inline(always)]
    fn pass(&self, proto: ProtoId) {
        if let Some(live) = self.live(proto).filter(|live| live.may_wait()) {
            self.count_overtaken(proto, live);
        }
    }

    #[cold]
    fn count_overtaken(&self, proto: ProtoId, live: &Live<T>) {
        // What is done first, then what was begun: who is at work meanwhile makes it more, never less.
        let of = |at: usize| self.books.sums(at, proto.at());
        let all = || self.streams.iter().enumerate();
        let done = || all().map(|(at, stream)| of(at).handled + of(at).lost + stream.level(proto.at()).drained).sum();
        let begun = |(at, stream): (usize, &Workstream<T>)| {
            of(at).dispatched + of(at).hybrid_dispatched + stream.level(proto.at()).queued
        };
        live.note_overtaken(done, || all().map(begun).sum());
    }

    /// How many items of `proto` may wait in a workstream.
    pub fn qlimit(&self, proto: ProtoId) -> usize {
        self.live(proto).map_or(0, |live| live.qlimit(self.default_qlimit()))
    }

    /// Lets so many wait; what waits already stays. With 0 all that is queued is refused.
    ///
    /// # Errors
    /// [`NetisrError::Limit`] beyond [`Config::max_qlimit`].
    pub fn set_qlimit(&self, proto: ProtoId, limit: usize) -> Result<(), NetisrError> {
        self.config.check_limit(limit)?;
        self.live(proto).map_or(Ok(()), |live| {
            live.set_qlimit(limit);
            Ok(())
        })
    }

    /// The limit of protocols that come without one.
    pub fn default_qlimit(&self) -> usize {
        self.default_qlimit.load(Ordering::Relaxed)
    }

    /// Sets it.
    ///
    /// # Errors
    /// [`NetisrError::Limit`].
    pub fn set_default_qlimit(&self, limit: usize) -> Result<(), NetisrError> {
        self.config.check_limit(limit)?;
        self.default_qlimit.store(limit, Ordering::Relaxed);
        Ok(())
    }

    /// Somebody who gives items, and whose own workstream is `at`: where what it does itself is counted, and what hybrid may do at once.
    ///
    /// # Errors
    /// [`NetisrError::Callers`]: there are as many as may be.
    pub fn caller(self: &Arc<Netisr<T>>, at: usize) -> Result<Caller<T>, NetisrError> {
        Caller::new(self.clone(), at % self.streams.len().max(1))
    }

    /// The worker of workstream `at`. There is one at a time; when it is gone there can be another one.
    ///
    /// # Errors
    /// [`NetisrError::Taken`], [`NetisrError::Callers`].
    pub fn worker(self: &Arc<Netisr<T>>, at: usize) -> Result<Worker<T>, NetisrError> {
        Worker::new(self.clone(), at)
    }

    /// Tells the workers to end when nothing is left to do. Nobody is to give any more items.
    pub fn finish(&self) {
        self.streams.iter().for_each(|stream| stream.end(Ending::Finish));
    }

    /// Tells the workers to end at once; what waits stays in the queues.
    pub fn stop(&self) {
        self.streams.iter().for_each(|stream| stream.end(Ending::Now));
    }

    /// Takes out all that waits, at the end.
    pub fn drain(&self, mut each: impl FnMut(ProtoId, T)) {
        (0..self.streams.len()).for_each(|at| self.drain_of(at, &mut each));
    }

    /// The same of one workstream.
    pub fn drain_of(&self, at: usize, mut each: impl FnMut(ProtoId, T)) {
        let Some(stream) = self.streams.get(at) else { return };
        for at in 0..self.protocols.len() {
            stream.drain(at).into_iter().for_each(|item| each(ProtoId(at as u8), item));
        }
    }

    /// Items that wait in queues or in workers' hands.
    pub fn held(&self) -> u64 {
        self.audit().held
    }

    /// Does anything wait in a queue of workstream `at`?
    pub fn has_waiting(&self, at: usize) -> bool {
        self.streams.get(at).is_some_and(Workstream::has_waiting)
    }

    /// Adds up what was offered and what became of it.
    pub fn audit(&self) -> Audit {
        self.audit_where(|_| true)
    }

    /// The same of one workstream.
    pub fn audit_of(&self, at: usize) -> Audit {
        self.audit_where(|other| other == at)
    }

    fn audit_where(&self, wanted: impl Fn(usize) -> bool) -> Audit {
        let mut all = Audit::default();
        for (at, stream) in self.streams.iter().enumerate().filter(|(at, _)| wanted(*at)) {
            for proto in 0..self.protocols.len() {
                let (queue, sums) = (stream.level(proto), self.books.sums(at, proto));
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

    /// Wake-ups and sleeps of all workers: what a mode costs in switches between threads.
    pub fn switches(&self) -> (u64, u64) {
        let all = self.streams.iter().map(Workstream::switches);
        all.fold((0, 0), |(wakeups, sleeps), (w, s)| (wakeups + w, sleeps + s))
    }

    /// The work of workstream `at` ended in a panic, and is begun again; says how often that has been so there.
    pub fn note_restart(&self, at: usize) -> u64 {
        self.streams.get(at).map_or(0, Workstream::note_restart)
    }

    /// Everything, as `netstat -Q` shows it.
    pub fn snapshot(&self) -> Snapshot {
        let row = |(at, proto): (usize, usize)| {
            let Sums { dispatched, hybrid_dispatched, handled, lost, .. } = self.books.sums(at, proto);
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

/// A list of items, as all sides here have it.
type List<T> = VecDeque<T>;
