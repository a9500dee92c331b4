//! `linerate profile -- COMMAND`: measures the distribution of the processor time of any command of
//! this project, and prints it in the format of the report rtems2014.
//!
//! [`start`] makes the calling thread, and every thread that `dispatch` starts afterwards, sample
//! itself ([`signal`]). About a thousand times per second of its processor time, a thread records
//! its position and its callers. This needs neither root nor a hardware counter. A collector thread
//! sums equal stacks while the command runs. [`Running::stop`] resolves addresses to names
//! ([`symbols`]) and classifies them into [`buckets`]; the [`Profile`] is printed by [`report`], as
//! [`table`], JSON, or through [`folded`] as a flamegraph.
//!
//! Not covered: children of the process, threads that `dispatch` did not start (their time is in
//! the table's `runtime`), and the position inside the kernel during a system call. Time of the
//! kernel in an interrupt or a page fault is attributed to the interrupted code.
//!
//! Unsafe code is confined to `signal`.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

pub mod buckets;
pub mod folded;
mod modules;
pub mod report;
mod ring;
mod signal;
mod symbols;
pub mod table;
mod unwind;

pub use buckets::Bucket;
pub use signal::{DEPTH_MAX, Source};
pub use symbols::{KERNEL, UNKNOWN};

use modules::Modules;
use signal::{RECORD_HEAD, Recorder, Sampled, Settings};
use symbols::Symbols;

/// Average samples per second of a thread's processor time: a prime, and no multiple of the
/// kernel's tick.
pub const RATE_HZ: u32 = 997;
/// Maximum sampling rate. With a sample every 100 us or less, the profile mostly shows the signal
/// handler.
pub const RATE_MAX_HZ: u32 = 10_000;
/// Interval between two runs of the collector.
const COLLECT: Duration = Duration::from_millis(40);

/// Settings of a profile.
#[derive(Debug, Clone)]
pub struct Options {
    /// Samples per second of processor time.
    pub rate_hz: u32,
    /// Source of the samples.
    pub source: Source,
    /// Size of each thread's ring of samples, in 64-bit words.
    pub ring_words: usize,
}

impl Default for Options {
    fn default() -> Options {
        // Space for 40 ms of samples at the highest rate and depth.
        Options { rate_hz: RATE_HZ, source: Source::ThreadTimers, ring_words: 32 * 1024 }
    }
}

/// A distinct stack of one thread, with its samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Name of the thread.
    pub thread: String,
    /// Function names, innermost first, including inlined ones.
    pub names: Vec<String>,
    /// Index of the name that determines the bucket (see [`buckets`]).
    pub decider: usize,
    /// Bucket of the stack.
    pub bucket: Bucket,
    /// Number of samples with this stack.
    pub samples: u64,
    /// Processor time represented by the samples, in nanoseconds.
    pub ns: u64,
}

/// A thread and its sample counts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Thread {
    /// Name of the thread.
    pub name: String,
    /// Processor time of the thread, in nanoseconds.
    pub cpu_ns: u64,
    /// Number of samples taken.
    pub samples: u64,
    /// Number of samples dropped because the ring was full.
    pub dropped: u64,
    /// Processor time represented by the dropped samples, in nanoseconds.
    pub dropped_ns: u64,
    /// Processor time spent in the signal handler, in nanoseconds.
    pub handler_ns: u64,
}

/// A finished profile: stacks with their time, and the sampled threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Requested samples per second.
    pub rate_hz: u32,
    /// Source of the samples.
    pub source: Source,
    /// Duration of the profile in seconds.
    pub seconds: f64,
    /// Processor time of the whole process without the collector thread, in nanoseconds.
    pub process_ns: u64,
    /// All stacks, by decreasing time.
    pub stacks: Vec<Stack>,
    /// Sampled threads, in the order of their starts.
    pub threads: Vec<Thread>,
}

/// Registry of the threads of a running profile.
struct Registry {
    settings: Settings,
    recorders: Vec<Arc<Recorder>>,
}

/// Registry of the running profile. There is at most one, because a process has one handler per
/// signal.
static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

fn registry() -> MutexGuard<'static, Option<Registry>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts sampling the calling thread, if a profile runs.
fn register() -> Option<Sampled> {
    let mut registry = registry();
    let registry = registry.as_mut()?;
    let sampled = Sampled::begin(registry.settings)?;
    registry.recorders.push(sampled.recorder().clone());
    Some(sampled)
}

/// True if [`begins`] was registered as the callback of `dispatch` for new threads. It is
/// registered once per process, since function addresses do not identify a callback reliably.
static OBSERVING: OnceLock<bool> = OnceLock::new();

/// Callback of `dispatch` for each thread that starts.
fn begins() -> Option<Box<dyn Any>> {
    register().map(|sampled| Box::new(sampled) as Box<dyn Any>)
}

/// Map from a stack (index of the recorder, addresses) to its sums: number of samples and
/// nanoseconds.
type Sums = HashMap<(usize, Vec<u64>), (u64, u64)>;

/// A running profile. Dropping it without [`Running::stop`] ends it without a result.
#[derive(Debug)]
pub struct Running {
    options: Options,
    /// Sampler of the thread that called [`start`], until [`Running::stop`].
    own: Option<Sampled>,
    collector: Option<JoinHandle<(Sums, u64)>>,
    over: Arc<AtomicBool>,
    started: Instant,
    process_ns: u64,
}

/// Starts sampling the calling thread and all threads that `dispatch` starts from now on.
///
/// # Errors
/// The rate is out of range, a profile is already running, another observer of threads is
/// registered with `dispatch`, or a system call fails.
pub fn start(options: Options) -> anyhow::Result<Running> {
    let range = 1..=RATE_MAX_HZ;
    ensure!(
        range.contains(&options.rate_hz),
        "sampling rate '{}': must be 1 to {RATE_MAX_HZ} samples per second",
        options.rate_hz
    );
    ensure!(
        *OBSERVING.get_or_init(|| dispatch::on_thread(begins)),
        "another profiler observes the threads of this process"
    );
    let period_ns = 1_000_000_000 / u64::from(options.rate_hz);
    let settings = Settings { period_ns, ring_words: options.ring_words, source: options.source };
    {
        let mut registry = registry();
        if registry.is_some() {
            bail!("a profile is already running: a process can have one at a time");
        }
        signal::install(|| Modules::read(&modules::mapped()).unwinding())
            .context("cannot install a signal handler for SIGPROF")?;
        *registry = Some(Registry { settings, recorders: Vec::new() });
    }
    let over = Arc::new(AtomicBool::new(false));
    let reported = over.clone();
    // Not started by `dispatch`, so that the collector is not sampled.
    let collector = std::thread::Builder::new().name("profile".to_owned()).spawn(move || collect(&reported));
    let collector = collector.inspect_err(|_| *registry() = None).context("cannot start the profiling thread")?;
    let (started, process_ns) = (Instant::now(), crate::os::process_cpu_ns());
    Ok(Running { options, own: register(), collector: Some(collector), over, started, process_ns })
}

/// Reads the samples from all rings until `over` is set; returns the sums and the processor time of
/// the collector.
fn collect(over: &AtomicBool) -> (Sums, u64) {
    let mut sums = Sums::new();
    let mut last = false;
    loop {
        let recorders = registry().as_ref().map(|registry| registry.recorders.clone()).unwrap_or_default();
        recorders.iter().enumerate().for_each(|(at, recorder)| drain(at, recorder, &mut sums));
        if last {
            return (sums, crate::os::thread_cpu_ns());
        }
        if !over.load(Ordering::Acquire) {
            std::thread::park_timeout(COLLECT);
        }
        last = over.load(Ordering::Acquire); // one more run after the end
    }
}

fn drain(at: usize, recorder: &Recorder, sums: &mut Sums) {
    let mut record = Vec::new();
    while recorder.ring.pop(&mut record) {
        if record.len() > RECORD_HEAD {
            let stack = record.split_off(RECORD_HEAD);
            let (samples, ns) = sums.entry((at, stack)).or_default();
            *samples += 1;
            *ns += record.first().copied().unwrap_or(0);
        }
    }
}

impl Running {
    /// Ends the profile and resolves its addresses. Threads that still run are no longer sampled.
    ///
    /// # Errors
    /// The collector panicked.
    pub fn stop(mut self) -> anyhow::Result<Profile> {
        let (seconds, process_ns) = (self.started.elapsed().as_secs_f64(), crate::os::process_cpu_ns());
        let (sums, collector_ns, recorders) = self.end().context("the profiling thread panicked")?;
        let thread = |recorder: &Arc<Recorder>| Thread {
            name: recorder.name.clone(),
            cpu_ns: recorder.used_ns(),
            samples: recorder.taken.load(Ordering::Relaxed),
            dropped: recorder.dropped.load(Ordering::Relaxed),
            dropped_ns: recorder.dropped_ns.load(Ordering::Relaxed),
            handler_ns: recorder.handler_ns.load(Ordering::Relaxed),
        };
        let threads: Vec<Thread> = recorders.iter().map(thread).collect();
        Ok(Profile {
            rate_hz: self.options.rate_hz,
            source: match recorders.iter().any(|recorder| recorder.has_timers()) {
                true => Source::ThreadTimers,
                false => Source::ProcessTimer,
            },
            seconds,
            process_ns: process_ns.saturating_sub(self.process_ns).saturating_sub(collector_ns),
            stacks: name(&sums, &threads),
            threads,
        })
    }

    fn end(&mut self) -> Option<(Sums, u64, Vec<Arc<Recorder>>)> {
        self.own = None;
        signal::process_timer(0);
        let recorders = registry().as_ref().map(|registry| registry.recorders.clone()).unwrap_or_default();
        recorders.iter().for_each(|recorder| recorder.close());
        self.over.store(true, Ordering::Release);
        let collector = self.collector.take()?;
        collector.thread().unpark();
        let collected = collector.join().ok();
        let recorders = registry().take().map(|registry| registry.recorders).unwrap_or(recorders);
        let (sums, collector_ns) = collected?;
        Some((sums, collector_ns, recorders))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.collector.is_some() {
            let _ = self.end(); // the result is discarded
        }
    }
}

/// Symbols of all mapped code, kept from one profile to the next because reading them can take
/// longer than a profile.
struct Names {
    mapped: String,
    symbols: Symbols<'static>,
}

static NAMES: Mutex<Option<Names>> = Mutex::new(None);

impl Names {
    /// Reads the symbols of the currently mapped code. Symbols read before are leaked, which is
    /// rare: a library is seldom loaded between two profiles.
    fn of_now() -> Names {
        let mapped = modules::mapped();
        let modules: &'static Modules = Box::leak(Box::new(Modules::read(&mapped)));
        Names { mapped, symbols: Symbols::new(modules) }
    }
}

/// Resolves the addresses of the stacks to names.
fn name(sums: &Sums, threads: &[Thread]) -> Vec<Stack> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = names.take().filter(|names| names.mapped == modules::mapped());
    let symbols = &mut names.insert(kept.unwrap_or_else(Names::of_now)).symbols;
    let stack = |((at, addresses), (samples, ns)): (&(usize, Vec<u64>), &(u64, u64))| {
        let thread = threads.get(*at).map_or(String::new(), |thread| thread.name.clone());
        let places: Vec<_> = addresses.iter().enumerate().map(|(depth, at)| symbols.at(*at, depth == 0)).collect();
        let mut names: Vec<String> = places.iter().flat_map(|place| place.names.iter().cloned()).collect();
        // Frames before main, or before a thread's function, are the same in every stack.
        if let Some(begin) = names.iter().position(|name| name.ends_with("__rust_begin_short_backtrace")) {
            names.truncate(begin.max(1));
        }
        let (decider, bucket) = match places.first().is_some_and(|place| place.resolved) {
            true => buckets::decide(names.iter().map(String::as_str)),
            false => (0, Bucket::Unresolved),
        };
        Stack { thread, names, decider, bucket, samples: *samples, ns: *ns }
    };
    let mut stacks: Vec<Stack> = sums.iter().map(stack).collect();
    stacks.sort_by(|a, b| (b.ns, &a.thread, &a.names).cmp(&(a.ns, &b.thread, &b.names)));
    stacks
}

impl Profile {
    /// Returns the processor time represented by the samples, in nanoseconds.
    pub fn sampled_ns(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.ns).sum()
    }

    /// Returns the processor time of the sampled threads, in nanoseconds.
    pub fn threads_ns(&self) -> u64 {
        self.threads.iter().map(|thread| thread.cpu_ns).sum()
    }

    /// Returns the nanoseconds of all stacks with the same key, for each key, largest first.
    pub fn by<K: Ord>(&self, key: impl Fn(&Stack) -> K) -> Vec<(K, u64)> {
        let mut sums = std::collections::BTreeMap::new();
        self.stacks.iter().for_each(|stack| *sums.entry(key(stack)).or_default() += stack.ns);
        let mut sums: Vec<(K, u64)> = sums.into_iter().collect();
        sums.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        sums
    }
}

impl Stack {
    /// Returns the name of the function that determines the bucket.
    pub fn function(&self) -> &str {
        self.names.get(self.decider).map_or(UNKNOWN, String::as_str)
    }
}

#[cfg(test)]
pub(crate) mod tests;
