//! Where a command's processor time goes: `linerate profile -- COMMAND`, rtems2014's table for any command of ours.
//!
//! [`start`] makes every thread of the house sample itself ([`signal`]): about a thousand times a second of its processor time
//! it notes where it is and who called. No root, no hardware counter. A collector thread sums equal stacks up while the
//! command runs. [`Running::stop`] gives names to addresses ([`symbols`]) and sorts them into [`buckets`]; the
//! [`Profile`] is printed by [`report`], as [`table`], JSON, or through [`folded`] as a flamegraph.
//!
//! What it does not see: children of the process, threads that `dispatch` did not start (their time is in the table's
//! `runtime`), and where in the kernel a system call was. A kernel that handles an interrupt or a page fault is counted
//! where the program was interrupted.
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

/// Samples a second of a thread's processor time, on average: a prime, and no multiple of the kernel's tick.
pub const RATE_HZ: u32 = 997;
/// The most that can be asked for: beyond, a sample every hundred microseconds and less, the handler is what is measured.
pub const RATE_MAX_HZ: u32 = 10_000;
/// How often the collector looks.
const COLLECT: Duration = Duration::from_millis(40);

/// How to sample.
#[derive(Debug, Clone)]
pub struct Options {
    /// Samples a second.
    pub rate_hz: u32,
    /// Where they come from.
    pub source: Source,
    /// Words of each thread's ring.
    pub ring_words: usize,
}

impl Default for Options {
    fn default() -> Options {
        // At the largest rate and depth, 40 ms of samples.
        Options { rate_hz: RATE_HZ, source: Source::ThreadTimers, ring_words: 32 * 1024 }
    }
}

/// What a thread was seen to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The thread's name.
    pub thread: String,
    /// Functions, innermost first, inlined ones included.
    pub names: Vec<String>,
    /// Which of them decides, as [`buckets`] says.
    pub decider: usize,
    /// Its bucket.
    pub bucket: Bucket,
    /// Samples.
    pub samples: u64,
    /// The processor time that they stand for.
    pub ns: u64,
}

/// A thread that was sampled.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Processor time that it used.
    pub cpu_ns: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples for which there was no room.
    pub dropped: u64,
    /// The time these stood for.
    pub dropped_ns: u64,
    /// Processor time in the signal handler.
    pub handler_ns: u64,
}

/// A finished profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Samples a second that were asked for.
    pub rate_hz: u32,
    /// Where samples came from.
    pub source: Source,
    /// How long it ran.
    pub seconds: f64,
    /// Processor time of the whole process but for the collector.
    pub process_ns: u64,
    /// Everything seen, the most first.
    pub stacks: Vec<Stack>,
    /// Who was sampled, in the order of their starts.
    pub threads: Vec<Thread>,
}

/// What the threads of a running profile register with.
struct Registry {
    settings: Settings,
    recorders: Vec<Arc<Recorder>>,
}

/// The running profile's; there is one at a time, because a process has one handler for a signal.
static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

fn registry() -> MutexGuard<'static, Option<Registry>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the calling thread sample itself, while a profile runs.
fn register() -> Option<Sampled> {
    let mut registry = registry();
    let registry = registry.as_mut()?;
    let sampled = Sampled::begin(registry.settings)?;
    registry.recorders.push(sampled.recorder().clone());
    Some(sampled)
}

/// Is each new thread handed to [`begins`]? Asked for once: a function's address is not the same everywhere.
static OBSERVING: OnceLock<bool> = OnceLock::new();

/// What `dispatch` calls on a thread that starts.
fn begins() -> Option<Box<dyn Any>> {
    register().map(|sampled| Box::new(sampled) as Box<dyn Any>)
}

/// Sums of equal stacks: (place of the recorder, addresses) to samples and nanoseconds.
type Sums = HashMap<(usize, Vec<u64>), (u64, u64)>;

/// A profile under way. Dropped without [`Running::stop`] it ends without a result.
#[derive(Debug)]
pub struct Running {
    options: Options,
    /// The starting thread's; taken at the stop.
    own: Option<Sampled>,
    collector: Option<JoinHandle<(Sums, u64)>>,
    over: Arc<AtomicBool>,
    started: Instant,
    process_ns: u64,
}

/// Samples the calling thread and all that `dispatch` starts from now on.
///
/// # Errors
/// A rate out of range, a profile that runs already, another observer of threads, or what the system says.
pub fn start(options: Options) -> anyhow::Result<Running> {
    let range = 1..=RATE_MAX_HZ;
    ensure!(range.contains(&options.rate_hz), "{} samples a second: expected 1 to {RATE_MAX_HZ}", options.rate_hz);
    ensure!(*OBSERVING.get_or_init(|| dispatch::on_thread(begins)), "somebody else observes this process's threads");
    let period_ns = 1_000_000_000 / u64::from(options.rate_hz);
    let settings = Settings { period_ns, ring_words: options.ring_words, source: options.source };
    {
        let mut registry = registry();
        if registry.is_some() {
            bail!("a profile runs already: a process can have one at a time");
        }
        signal::install(|| Modules::read(&modules::mapped()).unwinding()).context("no signal handler for SIGPROF")?;
        *registry = Some(Registry { settings, recorders: Vec::new() });
    }
    let over = Arc::new(AtomicBool::new(false));
    let told = over.clone();
    // Not started by dispatch: the collector is not to be sampled.
    let collector = std::thread::Builder::new().name("profile".to_owned()).spawn(move || collect(&told));
    let collector = collector.inspect_err(|_| *registry() = None).context("no thread for the profile")?;
    let (started, process_ns) = (Instant::now(), crate::os::process_cpu_ns());
    Ok(Running { options, own: register(), collector: Some(collector), over, started, process_ns })
}

/// Empties the rings until `over`; answers with the sums and with its own processor time.
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
        last = over.load(Ordering::Acquire); // one more look after the end
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
    /// Ends the profile and names what was seen. Threads that still run are left alone from here on.
    ///
    /// # Errors
    /// The collector panicked.
    pub fn stop(mut self) -> anyhow::Result<Profile> {
        let (seconds, process_ns) = (self.started.elapsed().as_secs_f64(), crate::os::process_cpu_ns());
        let (sums, collector_ns, recorders) = self.end().context("the profile's collector panicked")?;
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
            let _ = self.end(); // nobody wants the result
        }
    }
}

/// The names of all code, kept from one profile to the next: reading them takes longer than many a profile.
struct Names {
    mapped: String,
    symbols: Symbols<'static>,
}

static NAMES: Mutex<Option<Names>> = Mutex::new(None);

impl Names {
    /// Those of what is mapped now. What was read before is not freed: a library loaded between two profiles is rare.
    fn of_now() -> Names {
        let mapped = modules::mapped();
        let modules: &'static Modules = Box::leak(Box::new(Modules::read(&mapped)));
        Names { mapped, symbols: Symbols::new(modules) }
    }
}

/// The stacks with their names.
fn name(sums: &Sums, threads: &[Thread]) -> Vec<Stack> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = names.take().filter(|names| names.mapped == modules::mapped());
    let symbols = &mut names.insert(kept.unwrap_or_else(Names::of_now)).symbols;
    let stack = |((at, addresses), (samples, ns)): (&(usize, Vec<u64>), &(u64, u64))| {
        let thread = threads.get(*at).map_or(String::new(), |thread| thread.name.clone());
        let places: Vec<_> = addresses.iter().enumerate().map(|(depth, at)| symbols.at(*at, depth == 0)).collect();
        let mut names: Vec<String> = places.iter().flat_map(|place| place.names.iter().cloned()).collect();
        // What runs before main, or before a thread's function, is the same in every stack.
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
    /// The processor time that samples stand for.
    pub fn sampled_ns(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.ns).sum()
    }

    /// The processor time of the threads that were sampled.
    pub fn threads_ns(&self) -> u64 {
        self.threads.iter().map(|thread| thread.cpu_ns).sum()
    }

    /// Time by a key of each stack, the most first.
    pub fn by<K: Ord>(&self, key: impl Fn(&Stack) -> K) -> Vec<(K, u64)> {
        let mut sums = std::collections::BTreeMap::new();
        self.stacks.iter().for_each(|stack| *sums.entry(key(stack)).or_default() += stack.ns);
        let mut sums: Vec<(K, u64)> = sums.into_iter().collect();
        sums.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        sums
    }
}

impl Stack {
    /// The name of the function that decided.
    pub fn function(&self) -> &str {
        self.names.get(self.decider).map_or(UNKNOWN, String::as_str)
    }
}

#[cfg(test)]
mod tests;
