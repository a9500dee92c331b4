//! Sampler: sends a signal to a thread while the thread uses a processor. The signal handler
//! records the thread's position.
//!
//! Each thread has two timers, both of which signal that thread only. The metronome, on
//! CLOCK_MONOTONIC, sets the sampling rate. It also wakes a sleeping thread, and would then record
//! the position of the sleep instead of that of the work. So a tick of the metronome is used only
//! if the thread ran for the whole time since the last tick, and the metronome stops if the thread
//! keeps sleeping. The second timer, on the thread's own processor time, cannot fire while the
//! thread sleeps, and restarts the metronome. The second timer alone is insufficient, since the
//! kernel checks it only at its own clock tick (250 samples per second with CONFIG_HZ=250, all in
//! step with the scheduler). The metronome's period is randomized: with a fixed period, a function
//! that runs for a quarter of each half millisecond received 32 % of the time.
//!
//! A sample's weight is the processor time since the sample before, so the weights sum to the
//! thread's time whatever the timers did. The handler is async-signal-safe: it reads the
//! interrupted registers, the thread's own stack within its bounds, the immutable table of
//! [`unwind`](super::unwind) and two clocks, and writes into the thread's ring. It allocates
//! nothing, takes no lock, and restores errno. Samples that do not fit are counted, in samples and
//! in time.
//!
//! When a thread ends, its recorder is hidden from the handler before it is freed; a late signal
//! finds none.
// sigaction, timers, stack bounds, and reading the interrupted thread's stack.
#![allow(unsafe_code)]

use super::ring::Ring;
use super::unwind::{Registers, Table};
use crate::os;
use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, compiler_fence};

/// Maximum number of addresses in a sample: the interrupted position and its callers.
pub const DEPTH_MAX: usize = 64;
/// Number of words of a record before the addresses: one, the sample's weight.
pub(super) const RECORD_HEAD: usize = 1;

/// Unwinding table, created once per process, before the first handler runs.
static TABLE: OnceLock<Table> = OnceLock::new();

thread_local! {
    /// Recorder of the thread; null if it is not sampled. It has no destructor and a constant
    /// initializer, so a handler may read it.
    static CURRENT: Cell<*const Recorder> = const { Cell::new(ptr::null()) };
}

/// Timers that trigger the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Two timers for each thread.
    ThreadTimers,
    /// One timer for the whole process (setitimer), which signals any running thread; used if
    /// thread timers are unavailable.
    ProcessTimer,
}

/// State of a sampled thread, written by its signal handler.
#[derive(Debug)]
pub(super) struct Recorder {
    /// Name of the thread.
    pub name: String,
    pub ring: Ring,
    /// Number of samples written to the ring.
    pub taken: AtomicU64,
    /// Number of samples dropped because the ring was full.
    pub dropped: AtomicU64,
    /// Nanoseconds that the dropped samples represent.
    pub dropped_ns: AtomicU64,
    /// Processor time inside the handler, in nanoseconds.
    pub handler_ns: AtomicU64,
    /// Processor time of the thread at its start, in nanoseconds.
    begun_ns: u64,
    /// Processor time of the thread at the last sample.
    last_ns: AtomicU64,
    /// Processor time of the thread at its end; 0 while it runs.
    ended_ns: AtomicU64,
    /// Processor time of the thread at the last signal, in nanoseconds.
    tick_ns: AtomicU64,
    /// Wall-clock time at the last signal, in nanoseconds.
    tick_wall_ns: AtomicU64,
    period_ns: u64,
    stack_end: u64,
    /// Set while the metronome timer runs.
    ticking: AtomicBool,
    /// Number of consecutive ticks at which the thread had not run for (almost) the whole time
    /// since the tick before.
    idle: AtomicU32,
    /// State of the random generator of the metronome's periods; never 0.
    chance: AtomicU64,
    /// Set when the profile is over.
    closed: AtomicBool,
    timers: Option<[libc::timer_t; 2]>,
}

// SAFETY: the timers belong to the kernel and are identified by a number stored in a pointer; any
// thread may set or delete them. All other fields are atomic or read only.
unsafe impl Send for Recorder {}
// SAFETY: as for Send.
unsafe impl Sync for Recorder {}

/// Number of consecutive ticks in which the thread ran for less than seven eighths of the time,
/// after which the metronome stops and the second timer runs alone. One or two such ticks may only
/// mean that another thread used the processor.
const IDLE_TICKS: u32 = 4;

/// Indices of the two timers.
const METRONOME: usize = 0;
const CPU: usize = 1;

/// Installs the handler and the table. The handler is never removed: a signal may still be pending
/// when a profile ends.
///
/// # Errors
/// The system call fails.
pub(super) fn install(table: impl FnOnce() -> Table) -> io::Result<()> {
    TABLE.get_or_init(table);
    // SAFETY: a zeroed sigaction is valid; the handler is async-signal-safe (see the top of this
    // file).
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGPROF, &action, ptr::null_mut())
    };
    if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_signal(_signal: libc::c_int, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: errno belongs to the thread; the pointer is valid as long as the thread is.
    let (errno, before) = unsafe { (libc::__errno_location(), *libc::__errno_location()) };
    let recorder = CURRENT.get();
    if !recorder.is_null() && !context.is_null() {
        // SAFETY: `CURRENT` is reset before its recorder is freed (Sampled::drop), and the kernel
        // passes the interrupted context to a handler with SA_SIGINFO.
        unsafe { (*recorder).sample(&*context.cast::<libc::ucontext_t>()) };
    }
    // SAFETY: errno belongs to the thread, as above.
    unsafe { *errno = before };
}

impl Recorder {
    fn sample(&self, context: &libc::ucontext_t) {
        if self.closed.load(Ordering::Acquire) {
            self.set(METRONOME, 0);
            return self.set(CPU, 0);
        }
        let (now, wall) = (os::thread_cpu_ns(), os::monotonic_ns());
        let ran = now.saturating_sub(self.last_ns.load(Ordering::Relaxed));
        let lately = now.saturating_sub(self.tick_ns.swap(now, Ordering::Relaxed));
        let passed = wall.saturating_sub(self.tick_wall_ns.swap(wall, Ordering::Relaxed));
        // A tick of the metronome may interrupt a thread that has run and is now asleep. The
        // position is then that of the sleep and not of the work, so the tick is not used.
        let metronome = self.timers.is_some() && self.ticking.load(Ordering::Relaxed);
        let here = !metronome || lately >= passed - passed / 8;
        if here && ran >= self.period_ns / 4 {
            self.last_ns.store(now, Ordering::Relaxed);
            self.record(ran, interrupted(context));
            self.idle.store(0, Ordering::Relaxed);
            self.tick(true);
        } else if metronome {
            // The time is not lost: it is included in the next sample.
            self.tick(self.idle.fetch_add(1, Ordering::Relaxed) + 1 < IDLE_TICKS);
        }
        // Measured by the thread's clock and not by ticks, as the thread may be preempted here too.
        self.handler_ns.fetch_add(os::thread_cpu_ns().saturating_sub(now), Ordering::Relaxed);
    }

    fn record(&self, ran: u64, at: Registers) {
        let mut record = [0; RECORD_HEAD + DEPTH_MAX];
        record[0] = ran;
        record[RECORD_HEAD] = at.pc;
        let mut words = RECORD_HEAD + 1;
        // The lowest address read is that of the interrupted function's red zone, 128 bytes below
        // the stack pointer (AMD64 ABI 3.2.2).
        let (low, high) = (at.sp.saturating_sub(128), self.stack_end);
        let read = |address: u64| {
            let inside =
                address.is_multiple_of(8) && address >= low && address.checked_add(8).is_some_and(|end| end <= high);
            // SAFETY: aligned, and inside this thread's stack above the red zone's lower end, which
            // is mapped; volatile, so that the compiler assumes nothing about other functions'
            // frames.
            inside.then(|| unsafe { ptr::with_exposed_provenance::<u64>(address as usize).read_volatile() })
        };
        let (mut at, mut leaf) = (at, true);
        while words < record.len()
            && let Some(caller) = TABLE.get().and_then(|table| table.caller(at, leaf, read))
        {
            record[words] = caller.pc;
            (words, at, leaf) = (words + 1, caller, false);
        }
        if self.ring.push(&record[..words]) {
            self.taken.fetch_add(1, Ordering::Relaxed);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            self.dropped_ns.fetch_add(ran, Ordering::Relaxed);
        }
    }

    /// Starts the metronome's next tick, or stops it until the thread runs again.
    fn tick(&self, on: bool) {
        let was = self.ticking.swap(on, Ordering::Relaxed);
        if was != on {
            self.set(if on { CPU } else { METRONOME }, 0);
        }
        if on {
            self.set(METRONOME, self.next_ns());
        } else if was {
            self.set(CPU, self.period_ns);
        }
    }

    /// Returns the time to the next tick, a half to one and a half periods. With a fixed period,
    /// work that repeats at about the same rate would be sampled in one phase for long.
    fn next_ns(&self) -> u64 {
        // Marsaglia's xorshift, sufficient to avoid being in step.
        let mut word = self.chance.load(Ordering::Relaxed);
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.chance.store(word, Ordering::Relaxed);
        self.period_ns / 2 + word % self.period_ns
    }

    /// Starts timer `which`, or stops it if `after_ns` is 0. The metronome fires once, the other
    /// timer periodically. timer_settime is async-signal-safe (POSIX.1-2017 2.4.3).
    fn set(&self, which: usize, after_ns: u64) {
        let Some(timer) = self.timers.and_then(|timers| timers.get(which).copied()) else { return };
        let time =
            |ns: u64| libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
        let again = if which == CPU { after_ns } else { 0 };
        let spec = libc::itimerspec { it_interval: time(again), it_value: time(after_ns) };
        // SAFETY: only its own thread, or that thread's handler, sets a timer, and only before
        // deleting it; `spec` is valid for the call.
        unsafe { libc::timer_settime(timer, 0, &spec, ptr::null_mut()) };
    }

    /// Ends the sampling of this thread, at its next signal.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Returns whether the thread has its own timers.
    pub fn has_timers(&self) -> bool {
        self.timers.is_some()
    }

    /// Returns the processor time that the thread has used since its start; final once it has
    /// ended.
    pub fn used_ns(&self) -> u64 {
        let now = match self.ended_ns.load(Ordering::Acquire) {
            0 => self.last_ns.load(Ordering::Relaxed),
            ended => ended,
        };
        now.saturating_sub(self.begun_ns)
    }
}

/// Returns the registers at the interruption.
#[cfg(target_arch = "x86_64")]
fn interrupted(context: &libc::ucontext_t) -> Registers {
    let registers = &context.uc_mcontext.gregs;
    let of = |which: libc::c_int| registers[which as usize] as u64;
    Registers { pc: of(libc::REG_RIP), sp: of(libc::REG_RSP), bp: of(libc::REG_RBP) }
}

/// Returns the registers at the interruption. The table's rules are for x86-64 only, so a sample
/// has no callers here.
#[cfg(target_arch = "aarch64")]
fn interrupted(context: &libc::ucontext_t) -> Registers {
    Registers { pc: context.uc_mcontext.pc, sp: context.uc_mcontext.sp, bp: context.uc_mcontext.regs[29] }
}

/// Returns unknown registers: on other architectures every sample has an unknown position.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn interrupted(_context: &libc::ucontext_t) -> Registers {
    Registers::default()
}

/// Sampling settings of a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub period_ns: u64,
    pub ring_words: usize,
    pub source: Source,
}

/// Samples the thread that created it, until dropped. Not `Send`: it must be dropped by the same
/// thread.
#[derive(Debug)]
pub(super) struct Sampled {
    recorder: std::sync::Arc<Recorder>,
    here: std::marker::PhantomData<*const ()>,
}

impl Sampled {
    /// Starts sampling the calling thread; `None` if it is sampled already.
    pub fn begin(settings: Settings) -> Option<Sampled> {
        if !CURRENT.get().is_null() {
            return None;
        }
        let now = os::thread_cpu_ns();
        let timers = match settings.source {
            Source::ThreadTimers => timers(),
            Source::ProcessTimer => None,
        };
        let recorder = std::sync::Arc::new(Recorder {
            name: std::thread::current().name().unwrap_or("thread").to_owned(),
            ring: Ring::new(settings.ring_words),
            taken: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            dropped_ns: AtomicU64::new(0),
            handler_ns: AtomicU64::new(0),
            begun_ns: now,
            last_ns: AtomicU64::new(now),
            ended_ns: AtomicU64::new(0),
            tick_ns: AtomicU64::new(now),
            tick_wall_ns: AtomicU64::new(os::monotonic_ns()),
            period_ns: settings.period_ns.max(1),
            stack_end: stack_end().unwrap_or(0),
            ticking: AtomicBool::new(true),
            idle: AtomicU32::new(0),
            chance: AtomicU64::new(crate::tsc::now() | 1),
            closed: AtomicBool::new(false),
            timers,
        });
        CURRENT.set(&*recorder);
        compiler_fence(Ordering::SeqCst); // this thread's handler sees the recorder from here on
        if recorder.timers.is_some() {
            recorder.set(METRONOME, recorder.period_ns);
        } else {
            process_timer(recorder.period_ns);
        }
        Some(Sampled { recorder, here: std::marker::PhantomData })
    }

    pub fn recorder(&self) -> &std::sync::Arc<Recorder> {
        &self.recorder
    }
}

impl Drop for Sampled {
    fn drop(&mut self) {
        CURRENT.set(ptr::null());
        compiler_fence(Ordering::SeqCst);
        for timer in self.recorder.timers.into_iter().flatten() {
            // SAFETY: the timer was created by timer_create and is deleted here only; the handler
            // no longer uses it.
            unsafe { libc::timer_delete(timer) };
        }
        self.recorder.ended_ns.store(os::thread_cpu_ns().max(1), Ordering::Release);
    }
}

/// Creates the two timers of the calling thread; `None` if the system has no more.
fn timers() -> Option<[libc::timer_t; 2]> {
    let make = |clock| {
        // SAFETY: a zeroed sigevent is valid; gettid has no arguments; `timer` is writable; the
        // thread is the calling one.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGPROF;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = ptr::null_mut();
            (libc::timer_create(clock, &mut event, &mut timer) == 0).then_some(timer)
        }
    };
    let metronome = make(libc::CLOCK_MONOTONIC)?;
    let Some(cpu) = make(libc::CLOCK_THREAD_CPUTIME_ID) else {
        // SAFETY: created above, and not shared.
        unsafe { libc::timer_delete(metronome) };
        return None;
    };
    Some([metronome, cpu])
}

/// Starts the process's timer, or stops it with 0.
pub(super) fn process_timer(period_ns: u64) {
    let time = libc::timeval {
        tv_sec: (period_ns / 1_000_000_000) as i64,
        tv_usec: (period_ns % 1_000_000_000 / 1000) as i64,
    };
    let spec = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: `spec` is valid for the call.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &spec, ptr::null_mut()) };
}

/// Returns the end of the calling thread's stack: the address after its highest byte.
fn stack_end() -> Option<u64> {
    // SAFETY: the attributes are filled by the first call, read by the second and freed by the
    // third.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut lowest, mut size) = (ptr::null_mut(), 0usize);
        let answer = libc::pthread_attr_getstack(&attributes, &mut lowest, &mut size);
        libc::pthread_attr_destroy(&mut attributes);
        (answer == 0).then(|| (lowest as u64).saturating_add(size as u64))
    }
}

#[cfg(test)]
mod tests;
