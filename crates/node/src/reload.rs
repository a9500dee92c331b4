//! Changes the configuration of a running host: all of it, or nothing.
//!
//! [`Host::running_config`] returns the configuration as it is now, with the changes that commands
//! have made. [`Plan`] is the difference to another one, and [`Host::change_to`] applies it. If a
//! change fails, those before it are undone. What is not different stays, and so do connections.
//!
//! A host of a file also reloads it ([`Host::reload`], the command `reload`, SIGHUP), saves its
//! configuration to it ([`Host::save`]), and can go back to the preceding configuration unless the
//! new one is confirmed ([`Host::commit_confirmed`]).

mod apply;
#[cfg_attr(not(feature = "files"), path = "reload/absent.rs")]
mod file;
mod plan;
mod process;
mod running;
#[cfg(test)]
mod tests;

pub use plan::{Change, IfaceAddrOf, Plan};
pub use process::ReloadOutcome;
pub(crate) use process::{Coordinator, Participant, Progress, Reload, ReloadReport};
pub use running::RunningConfig;

use crate::Host;
use crate::config::IfaceConfig;
use crate::origin::Added;
use inet::iface::IfaceId;
use lock::Locks;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reason why the configuration of a host was not changed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReloadError {
    /// The host was not started from a file.
    NoFile,
    /// The file cannot be read or written, or is not valid.
    File(String),
    /// Differences that need a restart, each as a sentence. Nothing was changed.
    Restart(Vec<String>),
    /// A change failed. All changes before it were undone.
    Change {
        /// The change that failed.
        change: String,
        /// Reason for the failure.
        why: String,
        /// Changes that could not be undone, with the reasons.
        left: Vec<String>,
    },
    /// A configuration waits for its confirmation.
    Unconfirmed,
    /// No configuration waits for a confirmation.
    NothingToConfirm,
    /// The file has no changes.
    NothingToChange,
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReloadError::NoFile => f.write_str("this host was not started from a file: use 'linerate up FILE'"),
            ReloadError::File(why) => f.write_str(why),
            ReloadError::Restart(what) => {
                write!(f, "{}; nothing was changed: restart the program for these changes", what.join("; "))
            }
            ReloadError::Change { change, why, left } if left.is_empty() => {
                write!(f, "{change}: {why}; all changes were undone")
            }
            ReloadError::Change { change, why, left } => {
                write!(f, "{change}: {why}; not all changes could be undone: {}", left.join("; "))
            }
            ReloadError::Unconfirmed => f.write_str(
                "a configuration waits for its confirmation: 'commit' confirms it, or wait until its time is over",
            ),
            ReloadError::NothingToConfirm => f.write_str("no configuration waits for its confirmation"),
            ReloadError::NothingToChange => f.write_str("the file has no changes"),
        }
    }
}

impl std::error::Error for ReloadError {}

impl<L: Locks> Host<L> {
    /// Keeps the configuration with which an iface was added or changed.
    pub(crate) fn note_iface(&self, id: IfaceId, config: &IfaceConfig) {
        let Some(iface) = self.stack.iface(id) else { return };
        let leased = self.dhcp().leased(id).and_then(|leased| leased.mtu);
        let mtu = leased.unwrap_or(iface.mtu() as u16);
        let is_rtadv_implied = iface.accepts_rtadv(self.cx()) && !config.accept_rtadv;
        let mut ifaces = locked(&self.origin.ifaces);
        ifaces.retain(|added| added.iface != id && self.stack.iface(added.iface).is_some());
        ifaces.push(Added { iface: id, config: config.clone(), mtu, is_rtadv_implied });
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
