//! Handling of Ctrl-C (SIGINT) and SIGTERM: both request the end of the process. Each loop checks
//! [`stop_requested`] once per round. SIGHUP requests that the configuration is read again.
//!
//! Contains unsafe code to install a signal handler. The handler only stores a value in an atomic,
//! which is async-signal-safe.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);
/// Number of times that SIGHUP has arrived.
static RELOADS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_signal(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

extern "C" fn on_hangup(_signal: libc::c_int) {
    RELOADS.fetch_add(1, Ordering::Relaxed);
}

/// Installs a handler with which SIGINT and SIGTERM request the end of the process. A second signal
/// ends the process at once, as it does by default.
///
/// # Errors
/// Errors of sigaction(2).
pub fn install_stop_handler() -> io::Result<()> {
    // SA_RESETHAND restores the default.
    [libc::SIGINT, libc::SIGTERM].into_iter().try_for_each(|signal| handle(signal, on_signal, libc::SA_RESETHAND))
}

/// Installs a handler with which SIGHUP requests that the configuration is read again
/// ([`reloads_requested`]). If the process was started with SIGHUP ignored (nohup(1)), it stays
/// ignored.
///
/// # Errors
/// Errors of sigaction(2).
pub fn install_reload_handler() -> io::Result<()> {
    // SAFETY: a zeroed sigaction is valid, and the kernel fills it with the present one.
    let before = unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGHUP, std::ptr::null(), &mut before);
        before.sa_sigaction
    };
    if before == libc::SIG_IGN {
        return Ok(());
    }
    handle(libc::SIGHUP, on_hangup, libc::SA_RESTART)
}

fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int), flags: libc::c_int) -> io::Result<()> {
    // SAFETY: a zeroed sigaction is valid; the handlers of this module are async-signal-safe.
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = flags;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the number of times that SIGHUP has requested to read the configuration again.
pub fn reloads_requested() -> usize {
    RELOADS.load(Ordering::Relaxed)
}

/// Returns whether the end of the process was requested.
#[inline]
pub fn stop_requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Requests the end of the process, as a signal would.
pub fn request_stop() {
    STOP.store(true, Ordering::Relaxed);
}
