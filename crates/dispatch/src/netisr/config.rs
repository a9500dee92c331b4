//! Configuration of netisr: modes, policies and limits, for all protocols and for single ones.

use super::{NetisrError, PROTOCOLS_MAX, ProtocolRow};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of workstreams. A 64-bit mask has one bit for each of them.
pub const WORKSTREAMS_MAX: usize = 64;
/// Default of the sysctl `net.isr.defaultqlimit`, as in FreeBSD.
pub const QLIMIT_DEFAULT: usize = 256;
/// Default of the sysctl `net.isr.maxqlimit`, as in FreeBSD.
pub const QLIMIT_MAX: usize = 10_240;

/// Thread that processes an item, and when (sysctl `net.isr.dispatch`). The numbers are FreeBSD's,
/// where 0 selects the mode of all protocols.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Mode {
    /// The item is queued, and the workstream's worker processes it later.
    Deferred = 1,
    /// The receiving thread processes the item at once if the order of items allows it. Otherwise
    /// the item is queued.
    Hybrid = 2,
    /// The receiving thread processes the item at once.
    #[default]
    Direct = 3,
}

impl Mode {
    /// All modes, by number.
    pub const ALL: [Mode; 3] = [Mode::Deferred, Mode::Hybrid, Mode::Direct];
    /// List of the names of the modes, for messages.
    pub const WORDS: &'static str = "direct, hybrid or deferred";

    /// Returns the mode's number: 1 to 3.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the mode with this number; `None` if there is no such mode.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn of(number: u8) -> Option<Mode> {
        match number {
            1 => Some(Mode::Deferred),
            2 => Some(Mode::Hybrid),
            3 => Some(Mode::Direct),
            _ => None,
        }
    }

    /// Returns the mode's name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Deferred => "deferred",
            Mode::Hybrid => "hybrid",
            Mode::Direct => "direct",
        }
    }

    /// Parses the mode of a single protocol; `default` means that the common mode applies.
    ///
    /// # Errors
    /// [`NetisrError::UnknownMode`]: the text is neither a mode's name nor `default`.
    pub fn own(word: &str) -> Result<Option<Mode>, NetisrError> {
        if word == "default" { Ok(None) } else { word.parse().map(Some) }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mode {
    type Err = NetisrError;
    /// Parses the name of a mode, or a number as in the report netisr2005: 1 (direct), 0
    /// (deferred).
    fn from_str(word: &str) -> Result<Mode, NetisrError> {
        match word {
            "direct" | "1" => Ok(Mode::Direct),
            "deferred" | "0" => Ok(Mode::Deferred),
            "hybrid" => Ok(Mode::Hybrid),
            "default" => Err(NetisrError::DefaultGlobally),
            other => Err(NetisrError::UnknownMode(other.to_string())),
        }
    }
}

/// Criterion that selects the workstream of an item. The numbers are FreeBSD's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Policy {
    /// The source of the item, such as its interface.
    #[default]
    Source = 1,
    /// The flow of the item, or its source if the flow is unknown.
    Flow = 2,
    /// The result of the protocol's callback `m2cpuid`. If that is `None`, the item goes to the
    /// caller's own workstream in hybrid mode, and is assigned by its source in other modes.
    Cpu = 3,
}

impl Policy {
    /// All policies, by number.
    pub const ALL: [Policy; 3] = [Policy::Source, Policy::Flow, Policy::Cpu];
    /// List of the names of the policies, for messages.
    pub const WORDS: &'static str = "source, flow or cpu";

    /// Returns the policy's number: 1 to 3.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the policy with this number; `None` if there is no such policy.
    pub fn of(number: u8) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.number() == number)
    }

    /// Returns the policy's name.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Source => "source",
            Policy::Flow => "flow",
            Policy::Cpu => "cpu",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = NetisrError;
    fn from_str(word: &str) -> Result<Policy, NetisrError> {
        let found = Policy::ALL.into_iter().find(|policy| policy.name() == word);
        found.ok_or_else(|| NetisrError::UnknownPolicy(word.to_string()))
    }
}

/// Settings of a netisr that are fixed when it is created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Number of workstreams, 1 to `max_workstreams`.
    pub workstreams: usize,
    /// Maximum number of workstreams (`net.isr.maxthreads`).
    pub max_workstreams: usize,
    /// Initial mode of all protocols without a mode of their own.
    pub mode: Mode,
    /// The only mode allowed, if callers may not process items themselves; `None` if all modes are
    /// allowed.
    pub only: Option<Mode>,
    /// Maximum number of waiting items for protocols without a limit of their own.
    pub default_qlimit: usize,
    /// Upper bound for all queue limits.
    pub max_qlimit: usize,
    /// True if each worker is pinned to a core (sysctl `net.isr.bindthreads`). The code that
    /// creates the threads must pin them.
    pub bound: bool,
    /// Core of each workstream, as far as known. For other workstreams, `netstat -Q` prints the
    /// workstream's number instead.
    pub cpus: Vec<usize>,
    /// Number of times that an idle worker checks for items before it sleeps. It yields the
    /// processor each time. Waking a sleeping worker costs about 100,000 ticks on a virtual
    /// machine.
    pub looks: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            workstreams: 1,
            max_workstreams: WORKSTREAMS_MAX,
            mode: Mode::default(),
            only: None,
            default_qlimit: QLIMIT_DEFAULT,
            max_qlimit: QLIMIT_MAX,
            bound: false,
            cpus: Vec::new(),
            looks: 0,
        }
    }
}

impl Config {
    pub(super) fn check<T>(&self, protocols: &[Protocol<T>]) -> Result<(), NetisrError> {
        let most = self.max_workstreams.min(WORKSTREAMS_MAX);
        if !(1..=most).contains(&self.workstreams) {
            return Err(NetisrError::Workstreams { requested: self.workstreams, most });
        }
        if !(1..=PROTOCOLS_MAX).contains(&protocols.len()) {
            return Err(NetisrError::Protocols { requested: protocols.len() });
        }
        self.check_limit(self.default_qlimit)?;
        self.check_mode(self.mode)?;
        for (at, protocol) in protocols.iter().enumerate() {
            let same = |other: &Protocol<T>| other.name == protocol.name || other.number == protocol.number;
            if protocols.iter().take(at).any(same) {
                return Err(NetisrError::Twice { protocol: protocol.name });
            }
            self.check_limit(protocol.qlimit.unwrap_or(0))?;
            protocol.dispatch.map_or(Ok(()), |mode| self.check_mode(mode))?;
            protocol.check_policy(protocol.policy)?;
        }
        Ok(())
    }

    pub(super) fn check_limit(&self, requested: usize) -> Result<(), NetisrError> {
        let most = self.max_qlimit;
        if requested > most { Err(NetisrError::Limit { requested, most }) } else { Ok(()) }
    }

    pub(super) fn check_mode(&self, requested: Mode) -> Result<(), NetisrError> {
        let other = self.only.filter(|only| *only != requested);
        other.map_or(Ok(()), |only| Err(NetisrError::OtherMode { only }))
    }

    pub(super) fn cpu(&self, workstream: usize) -> usize {
        self.cpus.get(workstream).copied().unwrap_or(workstream)
    }
}

/// Callback of a protocol that returns the flow or the workstream of an item.
pub type Answer<T, R> = Box<dyn Fn(&T) -> Option<R> + Send + Sync>;

/// Description of a protocol, for registration.
pub struct Protocol<T> {
    /// Name of the protocol, as in `netstat -Q` and the sysctls `net.isr.proto`.
    pub name: &'static str,
    /// FreeBSD's number of the protocol: ip 1, igmp 2, rtsock 3, arp 4, ether 5, ip6 6, ip_direct
    /// 9.
    pub number: u8,
    /// Maximum number of items waiting in a workstream; `None` for the default limit.
    pub qlimit: Option<usize>,
    /// Criterion that selects the workstream of an item.
    pub policy: Policy,
    /// Mode of this protocol alone; `None` for the common mode.
    pub dispatch: Option<Mode>,
    /// Returns the flow of an item that does not contain it. The value must be the same for all
    /// items that must stay in order. `None` if the protocol has no such callback.
    pub m2flow: Option<Answer<T, u64>>,
    /// Returns the workstream of an item, modulo the number of workstreams. `None` if the protocol
    /// has no such callback.
    pub m2cpuid: Option<Answer<T, usize>>,
}

impl<T> Protocol<T> {
    /// Creates a protocol with policy `source` and the common limit and mode.
    pub fn new(name: &'static str, number: u8) -> Protocol<T> {
        let (policy, dispatch) = Default::default();
        Protocol { name, number, qlimit: None, policy, dispatch, m2flow: None, m2cpuid: None }
    }

    /// Selects policy `flow`. The callback `m2flow` returns the flow of an item.
    #[must_use]
    pub fn by_flow(self, m2flow: impl Fn(&T) -> Option<u64> + Send + Sync + 'static) -> Protocol<T> {
        Protocol { policy: Policy::Flow, m2flow: Some(Box::new(m2flow)), ..self }
    }

    /// Selects policy `cpu`. The callback `m2cpuid` returns the workstream of an item.
    #[must_use]
    pub fn by_cpu(self, m2cpuid: impl Fn(&T) -> Option<usize> + Send + Sync + 'static) -> Protocol<T> {
        Protocol { policy: Policy::Cpu, m2cpuid: Some(Box::new(m2cpuid)), ..self }
    }

    fn check_policy(&self, policy: Policy) -> Result<(), NetisrError> {
        let unanswered = policy == Policy::Cpu && self.m2cpuid.is_none();
        if unanswered { Err(NetisrError::PolicyUnanswered { protocol: self.name }) } else { Ok(()) }
    }
}

impl<T> fmt::Debug for Protocol<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol({} {})", self.name, self.number)
    }
}

/// A registered protocol, with the settings that can change at run time.
pub(super) struct Live<T> {
    pub about: Protocol<T>,
    mode: AtomicU8,
    policy: AtomicU8,
    /// Own queue limit, or [`AS_OTHERS`] for the default limit.
    qlimit: AtomicUsize,
    /// True if an item has been queued since the waiting items were last counted.
    waits: AtomicBool,
    /// Number of items that later items may have overtaken.
    overtaken: Mutex<u64>,
}

/// Value of `qlimit` that selects the default limit.
const AS_OTHERS: usize = usize::MAX;

impl<T> Live<T> {
    pub fn new(about: Protocol<T>) -> Live<T> {
        let mode = about.dispatch.map_or(0, Mode::number);
        let (policy, qlimit) = (about.policy.number(), about.qlimit.unwrap_or(AS_OTHERS));
        Live {
            about,
            mode: AtomicU8::new(mode),
            policy: AtomicU8::new(policy),
            qlimit: AtomicUsize::new(qlimit),
            waits: AtomicBool::new(false),
            overtaken: Mutex::new(0),
        }
    }

    #[inline(always)]
    pub fn mode(&self) -> Option<Mode> {
        Mode::of(self.mode.load(Ordering::Relaxed))
    }

    pub fn set_mode(&self, mode: Option<Mode>) {
        self.mode.store(mode.map_or(0, Mode::number), Ordering::Relaxed);
    }

    #[inline(always)]
    pub fn policy(&self) -> Policy {
        Policy::of(self.policy.load(Ordering::Relaxed)).unwrap_or_default()
    }

    pub fn set_policy(&self, policy: Policy) -> Result<(), NetisrError> {
        self.about.check_policy(policy)?;
        self.policy.store(policy.number(), Ordering::Relaxed);
        Ok(())
    }

    #[inline(always)]
    pub fn qlimit(&self, default: usize) -> usize {
        let own = self.qlimit.load(Ordering::Relaxed);
        if own == AS_OTHERS { default } else { own }
    }

    pub fn set_qlimit(&self, limit: usize) {
        self.qlimit.store(limit, Ordering::Relaxed);
    }

    /// Records that an item was queued. It is called after queueing, so that a concurrent count,
    /// which clears the flag, includes the item.
    #[inline]
    pub fn note_queued(&self) {
        // The load avoids an unnecessary store, so that the cache line stays shared.
        if !self.waits.load(Ordering::Relaxed) {
            self.waits.store(true, Ordering::Release);
        }
    }

    /// Returns whether an item of the protocol may be waiting.
    #[inline(always)]
    pub fn may_wait(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Counts the waiting items that later items may overtake, each only once. Their number is
    /// `begun` minus `done`. Concurrent callers block on the lock until the count is complete, so
    /// that none of their items overtakes an uncounted one.
    pub fn note_overtaken(&self, done: impl FnOnce() -> u64, begun: impl FnOnce() -> u64) {
        let mut overtaken = self.overtaken.lock().unwrap_or_else(PoisonError::into_inner);
        if self.may_wait() {
            let done = done();
            self.waits.store(false, Ordering::SeqCst);
            *overtaken += begun().saturating_sub(done);
        }
    }

    pub fn row(&self, default_qlimit: usize) -> ProtocolRow {
        ProtocolRow {
            name: self.about.name,
            number: self.about.number,
            qlimit: self.qlimit(default_qlimit),
            policy: self.policy(),
            dispatch: self.mode(),
            m2cpuid: self.about.m2cpuid.is_some(),
            m2flow: self.about.m2flow.is_some(),
            overtaken: *self.overtaken.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}
