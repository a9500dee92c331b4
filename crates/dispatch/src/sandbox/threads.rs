//! Applies a [`Plan`] to every thread of the process.
//!
//! Capabilities, user IDs (as the kernel stores them) and NO_NEW_PRIVS belong to a thread, and a
//! thread can change only its own. Each thread therefore receives a signal whose handler makes the
//! system calls, as the C library does for setuid(2). The calling thread changes first, so that
//! threads that it starts inherit the change. The list of threads is read repeatedly, until it
//! contains no new thread.

use super::SandboxError;
use super::rights::Plan;
use std::collections::BTreeSet;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Maximum time for a thread to handle its signal.
const PATIENCE: Duration = Duration::from_secs(5);

/// The plan in progress. It is valid while [`on_each`] waits, and null otherwise.
static PLAN: AtomicPtr<Plan<'static>> = AtomicPtr::new(std::ptr::null_mut());
/// Number of threads that have handled the signal.
static DONE: AtomicUsize = AtomicUsize::new(0);
/// Errno of the step that failed on a thread; 0 if none failed.
static FAILED: AtomicI32 = AtomicI32::new(0);
/// Address of the name of the step that failed.
static STEP: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
/// Length of the name of the step that failed, in bytes.
static STEP_LEN: AtomicUsize = AtomicUsize::new(0);
/// Lock held while a plan is applied, so that there is only one plan at a time.
static ONE: Mutex<()> = Mutex::new(());

extern "C" fn on_signal(_signal: libc::c_int) {
    // SAFETY: errno belongs to the interrupted thread, and is restored below.
    let errno = unsafe { *libc::__errno_location() };
    let plan = PLAN.load(Ordering::Acquire);
    // SAFETY: `on_each` keeps the plan alive until this thread has incremented DONE.
    if let Some(plan) = unsafe { plan.as_ref() } {
        if let Err((step, why)) = plan.apply() {
            STEP.store(step.as_ptr().cast_mut(), Ordering::Relaxed);
            STEP_LEN.store(step.len(), Ordering::Relaxed);
            FAILED.store(why, Ordering::Relaxed);
        }
        DONE.fetch_add(1, Ordering::Release);
    }
    // SAFETY: errno belongs to the interrupted thread.
    unsafe { *libc::__errno_location() = errno };
}

/// Applies `plan` to every thread of the process.
///
/// # Errors
/// [`SandboxError`]. Some threads may already have changed.
pub(super) fn on_each(plan: &Plan<'_>) -> Result<(), SandboxError> {
    let _one = ONE.lock().unwrap_or_else(|broken| broken.into_inner());
    plan.apply().map_err(|(step, why)| failed(step, why))?;
    let signal = libc::SIGRTMAX();
    let former = handle(signal, on_signal as extern "C" fn(libc::c_int) as usize).map_err(SandboxError::Threads)?;
    PLAN.store(std::ptr::from_ref(plan).cast_mut().cast(), Ordering::Release);
    let done = signal_all(signal);
    PLAN.store(std::ptr::null_mut(), Ordering::Release);
    // SAFETY: `former` is the action that sigaction returned before.
    unsafe { libc::sigaction(signal, &former, std::ptr::null_mut()) };
    done?;
    match FAILED.swap(0, Ordering::Relaxed) {
        0 => Ok(()),
        why => {
            let (at, len) = (STEP.load(Ordering::Relaxed), STEP_LEN.load(Ordering::Relaxed));
            // SAFETY: FAILED is set only after a step's name, which is static and UTF-8, was
            // stored.
            let step = unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(at, len)) };
            Err(failed(step, why))
        }
    }
}

fn failed(step: &'static str, why: i32) -> SandboxError {
    SandboxError::Step { step, why: io::Error::from_raw_os_error(why) }
}

fn handle(signal: libc::c_int, handler: usize) -> io::Result<libc::sigaction> {
    // SAFETY: zeroed sigactions are valid; the handler is async-signal-safe (system calls and
    // atomics only).
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut former: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        match libc::sigaction(signal, &action, &mut former) {
            0 => Ok(former),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Sends the signal once to each other thread and waits until the thread has handled it.
fn signal_all(signal: libc::c_int) -> Result<(), SandboxError> {
    // SAFETY: these calls have no arguments and cannot fail.
    let (process, own) = unsafe { (libc::getpid(), libc::gettid()) };
    let mut done = BTreeSet::from([own]);
    loop {
        let new: Vec<_> = threads()?.into_iter().filter(|thread| !done.contains(thread)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for thread in new {
            let before = DONE.load(Ordering::Acquire);
            if send(process, thread, signal).map_err(SandboxError::Threads)? {
                wait(process, thread, before)?;
            }
            done.insert(thread);
        }
    }
}

/// Waits until the thread has handled its signal or has ended.
fn wait(process: libc::pid_t, thread: libc::pid_t, before: usize) -> Result<(), SandboxError> {
    let until = Instant::now() + PATIENCE;
    while DONE.load(Ordering::Acquire) == before {
        if !send(process, thread, 0).map_err(SandboxError::Threads)? {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(SandboxError::Stuck(thread));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

/// Sends a signal to a thread. Returns whether the thread exists.
fn send(process: libc::pid_t, thread: libc::pid_t, signal: libc::c_int) -> io::Result<bool> {
    // SAFETY: the arguments are three numbers.
    if unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) } == 0 {
        return Ok(true);
    }
    let why = io::Error::last_os_error();
    if why.raw_os_error() == Some(libc::ESRCH) { Ok(false) } else { Err(why) }
}

fn threads() -> Result<Vec<libc::pid_t>, SandboxError> {
    let list = std::fs::read_dir("/proc/self/task").map_err(SandboxError::Threads)?;
    let number = |entry: io::Result<std::fs::DirEntry>| {
        let entry = entry.map_err(SandboxError::Threads)?;
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        number.ok_or_else(|| SandboxError::Threads(io::Error::other("/proc/self/task: entry is not a number")))
    };
    list.map(number).collect()
}
