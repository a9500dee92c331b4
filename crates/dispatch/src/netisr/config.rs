//! What is chosen: modes, policies, limits; for all protocols and for each.

use super::{NetisrError, PROTOCOLS_MAX, ProtocolRow};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The most workstreams there can be: as many threads as can be inside stacks.
pub const WORKSTREAMS_MAX: usize = 64;
/// `net.isr.defaultqlimit`, as FreeBSD has it.
pub const QLIMIT_DEFAULT: usize = 256;
/// `net.isr.maxqlimit`, as FreeBSD has it.
pub const QLIMIT_MAX: usize = 10_240;

/// When work runs (`net.isr.dispatch`). The numbers are FreeBSD's, where 0 stands for "as all others".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Mode {
    /// Later, by a workstream's worker.
    Deferred = 1,
    /// At once if order allows it, else later.
    Hybrid = 2,
    /// At once, by whoever brings it.
    #[default]
    Direct = 3,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 3] = [Mode::Deferred, Mode::Hybrid, Mode::Direct];
    /// Their words.
    pub const WORDS: &'static str = "direct, hybrid or deferred";

    /// Its number: 1 to 3.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The mode of that number.
    #[inline(always)]
    pub fn of(number: u8) -> Option<Mode> {
        match number {
            1 => Some(Mode::Deferred),
            2 => Some(Mode::Hybrid),
            3 => Some(Mode::Direct),
            _ => None,
        }
    }

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Deferred => "deferred",
            Mode::Hybrid => "hybrid",
            Mode::Direct => "direct",
        }
    }

    /// A protocol's own mode, by word: `default` is none.
    ///
    /// # Errors
    /// [`NetisrError::UnknownMode`].
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
    /// A word, or netisr2005's 1 and 0.
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

/// How an item's workstream is chosen. The numbers are FreeBSD's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Policy {
    /// By where it came from.
    #[default]
    Source = 1,
    /// By its flow; by where it came from if it has none.
    Flow = 2,
    /// By what the protocol says; if it says nothing the caller's own (hybrid), or by where it came from.
    Cpu = 3,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 3] = [Policy::Source, Policy::Flow, Policy::Cpu];
    /// Their words.
    pub const WORDS: &'static str = "source, flow or cpu";

    /// Its number: 1 to 3.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The policy of that number.
    pub fn of(number: u8) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.number() == number)
    }

    /// Its word.
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

/// What is chosen once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Workstreams, 1 to `max_workstreams`.
    pub workstreams: usize,
    /// The most there may be (`net.isr.maxthreads`).
    pub max_workstreams: usize,
    /// The mode at the start.
    pub mode: Mode,
    /// The only mode there can be: callers are not where the work can be done.
    pub only: Option<Mode>,
    /// How many items may wait where a protocol says nothing.
    pub default_qlimit: usize,
    /// How many may wait at most, whoever asks.
    pub max_qlimit: usize,
    /// Is each worker to have a core (`net.isr.bindthreads`)? Whoever makes the threads sees to it.
    pub bound: bool,
    /// The cores of workstreams, as far as they are known: else a workstream's number stands for it.
    pub cpus: Vec<usize>,
    /// How often a worker looks again, giving others the processor, before it sleeps: waking it costs 100,000 ticks here.
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
    /// May it be?
    pub(super) fn check<T>(&self, protocols: &[Protocol<T>]) -> Result<(), NetisrError> {
        let most = self.max_workstreams.min(WORKSTREAMS_MAX);
        if !(1..=most).contains(&self.workstreams) {
            return Err(NetisrError::Workstreams { asked: self.workstreams, most });
        }
        if !(1..=PROTOCOLS_MAX).contains(&protocols.len()) {
            return Err(NetisrError::Protocols { asked: protocols.len() });
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

    pub(super) fn check_limit(&self, asked: usize) -> Result<(), NetisrError> {
        let most = self.max_qlimit;
        if asked > most { Err(NetisrError::Limit { asked, most }) } else { Ok(()) }
    }

    pub(super) fn check_mode(&self, asked: Mode) -> Result<(), NetisrError> {
        let other = self.only.filter(|only| *only != asked);
        other.map_or(Ok(()), |only| Err(NetisrError::OtherMode { only }))
    }

    pub(super) fn cpu(&self, workstream: usize) -> usize {
        self.cpus.get(workstream).copied().unwrap_or(workstream)
    }
}

/// Says of an item which flow it is of, or which workstream it is for.
pub type Answer<T, R> = Box<dyn Fn(&T) -> Option<R> + Send + Sync>;

/// A protocol, as it is registered.
pub struct Protocol<T> {
    /// Its name, as `netstat -Q` and `net.isr.proto` have it.
    pub name: &'static str,
    /// FreeBSD's number: ip 1, igmp 2, rtsock 3, arp 4, ether 5, ip6 6, ip_direct 9.
    pub number: u8,
    /// How many items may wait in a workstream; none: the default.
    pub qlimit: Option<usize>,
    /// How workstreams are chosen.
    pub policy: Policy,
    /// A mode of its own.
    pub dispatch: Option<Mode>,
    /// The flow of an item that does not say it: the same for all items that are to keep their order.
    pub m2flow: Option<Answer<T, u64>>,
    /// The workstream of an item, modulo their number.
    pub m2cpuid: Option<Answer<T, usize>>,
}

impl<T> Protocol<T> {
    /// A protocol by source, with the limit and the mode of all.
    pub fn new(name: &'static str, number: u8) -> Protocol<T> {
        let (policy, dispatch) = Default::default();
        Protocol { name, number, qlimit: None, policy, dispatch, m2flow: None, m2cpuid: None }
    }

    /// The same, by flow, which `m2flow` says.
    #[must_use]
    pub fn by_flow(self, m2flow: impl Fn(&T) -> Option<u64> + Send + Sync + 'static) -> Protocol<T> {
        Protocol { policy: Policy::Flow, m2flow: Some(Box::new(m2flow)), ..self }
    }

    /// The same, by what `m2cpuid` says.
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

/// A registered protocol, and what of it changes live.
pub(super) struct Live<T> {
    pub about: Protocol<T>,
    mode: AtomicU8,
    policy: AtomicU8,
    /// [`AS_OTHERS`]: the default.
    qlimit: AtomicUsize,
    /// Something was queued since somebody last looked whether anything waits.
    waits: AtomicBool,
    /// Items that others may have passed.
    overtaken: Mutex<u64>,
}

/// A limit that says: the default, whatever it is.
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

    /// Something was put into a queue: said behind that, so that it is in the count of whoever has taken this back meanwhile.
    #[inline]
    pub fn note_queued(&self) {
        // A line that is only read stays shared.
        if !self.waits.load(Ordering::Relaxed) {
            self.waits.store(true, Ordering::Release);
        }
    }

    /// May something wait?
    #[inline(always)]
    pub fn may_wait(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Who comes now passes what waits, which is counted once: what was `begun` less what is `done`. Who comes meanwhile stays behind until
    /// that is looked at: nobody is to pass what is done by then and not counted.
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
