//! Handling of Ctrl-C (SIGINT) and SIGTERM: both request the end of the process. Each loop checks
//! [`stop_requested`] once per round.
//!
//! Contains unsafe code to install a signal handler. The handler only stores a value in an atomic,
//! which is async-signal-safe.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Installs a handler with which SIGINT and SIGTERM request the end of the process. A second signal
/// ends the process at once, as it does by default.
///
/// # Errors
/// Errors of sigaction(2).
pub fn install_stop_handler() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: a zeroed sigaction is valid; the handler is async-signal-safe; SA_RESETHAND
        // restores the default.
        let installed = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(libc::c_int) = on_signal;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigaction(signal, &action, std::ptr::null_mut())
        };
        if installed != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
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
