//! Least privilege for servers: user, capabilities, no new privileges, and an allow list of system
//! calls.
//!
//! [`Sandbox::enter`] is called once: after ports, control socket and logs have been opened, and
//! before the first frame is processed. It applies to every thread of the process, and threads
//! started later inherit the restrictions. It changes, in this order: the bounding set; groups and
//! user; the permitted, effective, inheritable and ambient sets; NO_NEW_PRIVS; and the seccomp
//! filter. docs/decisions/0026 lists the rights that are kept, with the reasons. Systems other than
//! Linux have no sandbox.

#[cfg(target_os = "linux")]
mod filter;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(target_os = "linux")]
mod refused;
#[cfg(target_os = "linux")]
mod rights;
#[cfg(target_os = "linux")]
mod threads;
#[cfg(target_os = "linux")]
mod user;

#[cfg(not(target_os = "linux"))]
pub use other::{PortRights, User, port_rights, refused};
#[cfg(target_os = "linux")]
pub use refused::refused;
#[cfg(target_os = "linux")]
pub use rights::{PortRights, port_rights};
#[cfg(target_os = "linux")]
pub use user::{User, UserError};

#[cfg(target_os = "linux")]
use rights::Plan;
use std::io;

/// Rights that a server still needs after it has opened its ports, in addition to those for files,
/// clocks, threads and its open descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// The server opens ports on demand (`ifconfig X create` on the control socket): TAP devices,
    /// packet and XDP sockets.
    pub live_ports: bool,
    /// The server opens TCP and UDP sockets of the kernel (`netserver --native`).
    pub kernel_sockets: bool,
}

/// Restrictions that [`Sandbox::enter`] applies to the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sandbox {
    /// User to change to; `None` to keep the current user.
    pub user: Option<User>,
    /// Determines whether capabilities are dropped, NO_NEW_PRIVS is set and the filter is
    /// installed.
    pub confine: Confine,
    /// Needs of the server for which the rights are kept.
    pub needs: Needs,
}

/// Confinement of the process: full, or only a change of user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confine {
    /// Capabilities are dropped and system calls are filtered.
    On,
    /// Only the user is changed, if one is given (`--no-sandbox`).
    Off,
}

/// Reason why the sandbox could not be entered.
#[derive(Debug)]
pub enum SandboxError {
    /// A step of changing the user or dropping capabilities failed on one of the threads.
    Step {
        /// Name of the system call that failed.
        step: &'static str,
        /// System error of the call.
        why: io::Error,
    },
    /// The threads of the process cannot be listed or signalled.
    Threads(io::Error),
    /// A thread did not apply the change within the maximum time.
    Stuck(libc::pid_t),
    /// The filter could not be compiled or installed.
    Filter(String),
}

impl std::fmt::Display for SandboxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SandboxError::Step { step, why } => write!(f, "sandbox: {step}: {why}")?,
            SandboxError::Threads(why) => write!(f, "sandbox: cannot change all threads of the process: {why}")?,
            SandboxError::Stuck(tid) => write!(f, "sandbox: thread {tid} does not accept signals")?,
            SandboxError::Filter(why) => write!(f, "sandbox: seccomp filter: {why}")?,
        }
        f.write_str("; use --no-sandbox to run without it")
    }
}

impl std::error::Error for SandboxError {}

impl Sandbox {
    /// Returns a sandbox that changes nothing.
    pub const fn off() -> Sandbox {
        Sandbox { user: None, confine: Confine::Off, needs: Needs { live_ports: false, kernel_sockets: false } }
    }

    /// Changes the user, drops capabilities and installs the filter, on all threads. Returns a
    /// warning if this system or processor architecture has no filter.
    ///
    /// # Errors
    /// [`SandboxError`]. Some threads may already have changed, so the caller is expected to end
    /// the process.
    pub fn enter(&self) -> Result<Option<&'static str>, SandboxError> {
        if self.user.is_none() && self.confine == Confine::Off {
            return Ok(None);
        }
        self.apply()
    }

    #[cfg(not(target_os = "linux"))]
    fn apply(&self) -> Result<Option<&'static str>, SandboxError> {
        Ok(Some("sandbox: not available on this system"))
    }

    #[cfg(target_os = "linux")]
    fn apply(&self) -> Result<Option<&'static str>, SandboxError> {
        let keep = if self.needs.live_ports { rights::FOR_PORTS } else { 0 };
        threads::on_each(&Plan { user: self.user.as_ref(), confine: self.confine, keep })?;
        match self.confine {
            Confine::Off => Ok(None),
            Confine::On => filter::install(self.needs),
        }
    }
}
