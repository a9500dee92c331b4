//! The allow list of system calls, as a seccomp filter on all threads (seccomp(2),
//! SECCOMP_FILTER_FLAG_TSYNC).
//!
//! A call that is not listed fails with EPERM and writes one line to standard error
//! ([`super::refused`]). Calls that are allowed without conditions cost nothing to check, because
//! Linux 5.11 and later store their result in a bitmap.

use super::{Needs, SandboxError, refused};
use std::sync::atomic::{AtomicBool, Ordering};

/// True if capabilities are kept for opening ports; the filter then allows capget(2) and capset(2).
static KEEPS_PORT_RIGHTS: AtomicBool = AtomicBool::new(false);

pub(super) fn keeps_port_rights() -> bool {
    KEEPS_PORT_RIGHTS.load(Ordering::Relaxed)
}

/// Lists of system calls, for the supported processor architectures.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod known;

/// Installs the seccomp filter on all threads.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) fn install(needs: Needs) -> Result<Option<&'static str>, SandboxError> {
    let failed = |why: &dyn ToString| SandboxError::Filter(why.to_string());
    let [compat, allow] = known::programs(needs).map_err(|why| failed(&why))?;
    refused::install().map_err(|why| failed(&why))?;
    seccompiler::apply_filter_all_threads(&compat).map_err(|why| failed(&why))?;
    seccompiler::apply_filter_all_threads(&allow).map_err(|why| failed(&why))?;
    KEEPS_PORT_RIGHTS.store(needs.live_ports, Ordering::Relaxed);
    Ok(None)
}

/// Returns a warning, because other architectures have no filter. Capabilities are still dropped.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn install(needs: Needs) -> Result<Option<&'static str>, SandboxError> {
    KEEPS_PORT_RIGHTS.store(needs.live_ports, Ordering::Relaxed);
    Ok(Some("sandbox: no list of system calls for this processor architecture; all are allowed"))
}
