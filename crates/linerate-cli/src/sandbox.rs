//! `--user` and `--no-sandbox`, declared once for all servers.

use crate::exit::notice;
use clap::Args;
use dispatch::sandbox::{Confine, Needs, Sandbox, User, refused};

/// Flags for the privileges of a server once its ports are open.
#[derive(Args, Clone, Debug)]
pub struct SandboxArgs {
    /// Run as this user and its groups once ports and files are open
    #[arg(long, value_name = "NAME|UID[:GID]")]
    pub user: Option<User>,
    /// Keep all capabilities, unless --user is given, and allow all system calls (for debugging)
    #[arg(long)]
    pub no_sandbox: bool,
}

impl SandboxArgs {
    /// Returns the sandbox of a host or bridge. If there is a control socket, the sandbox permits
    /// opening ports later.
    pub fn with_control(&self, has_control: bool) -> Sandbox {
        self.sandbox(Needs { live_ports: has_control, ..Needs::default() })
    }

    /// Returns the sandbox of a server that uses the kernel's sockets.
    pub fn with_kernel_sockets(&self) -> Sandbox {
        self.sandbox(Needs { kernel_sockets: true, ..Needs::default() })
    }

    fn sandbox(&self, needs: Needs) -> Sandbox {
        let confine = if self.no_sandbox { Confine::Off } else { Confine::On };
        Sandbox { user: self.user.clone(), confine, needs }
    }
}

/// Reports how many system calls the sandbox refused, if any.
pub fn warn_if_unavailable() {
    let count = refused();
    if count > 0 {
        notice(&format!("sandbox: {count} system calls were not allowed; --no-sandbox allows all"));
    }
}
