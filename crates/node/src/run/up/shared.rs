//! State shared by the threads, their messages to the main thread, and the events for the user.

use super::beats::Beats;
use super::error::UpError;
use super::gate::Gate;
use crate::config::ConfigFile;
use crate::figures::Collector;
use crate::log::LogEvent;
use crate::reload::{Reload, ReloadOutcome, ReloadReport};
use crate::topology::Topology;
use port::Pairs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Event reported to the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A host is running.
    Running {
        /// Name of the host.
        name: String,
        /// Path of its control socket; `None` if the host has none.
        control: Option<PathBuf>,
    },
    /// A warning that does not end the host, such as a port that has closed.
    Notice(String),
    /// An event of a host for logs.
    Log(LogEvent),
    /// A reload of the configuration has begun (SIGHUP).
    Reloading,
    /// The reload has ended.
    Reloaded(ReloadOutcome),
    /// The first thread of each host and each switch has run since the last event of this kind.
    Alive,
    /// The end was requested.
    Stopping,
}

/// Message from a host's thread to the main thread.
pub(super) enum Report {
    Running(Event),
    Notice(String),
    Log(LogEvent),
    Reload(ReloadReport),
    /// A host has ended.
    Ended(String),
    Failed(UpError),
}

/// State shared by the threads.
pub(super) struct Shared<P> {
    pub(super) pairs: Arc<Pairs>,
    pub(super) topology: Arc<Topology>,
    pub(super) programs: P,
    /// Collector of the nodes' figures; `None` if there is none.
    pub(super) collector: Option<Arc<Collector>>,
    /// File of the hosts, which they reload; `None` if there is none.
    pub(super) file: Option<Arc<ConfigFile>>,
    /// True if hosts report events for logs.
    pub(super) is_logging: bool,
    pub(super) reload: Reload,
    /// Numbers of rounds of the threads.
    pub(super) beats: Beats,
    /// Number of hosts that are still running. Switches end when it is 0.
    pub(super) hosts: AtomicUsize,
    /// Number of hosts that may have unacknowledged data. Hosts without such data keep running
    /// until this number is 0, so that they can acknowledge the data.
    pub(super) unfinished: AtomicUsize,
    pub(super) end: AtomicBool,
    /// Start signal for which each thread waits before its first round. It is given when all ports
    /// are open and the process has dropped its privileges, or when the start has failed.
    pub(super) gate: Gate,
}

impl<P> Shared<P> {
    /// Calls `join`, which connects the node `name` with the collector, if there is one.
    pub(super) fn collect_from(
        &self,
        name: &str,
        join: impl FnOnce(&Collector) -> io::Result<()>,
    ) -> Result<(), UpError> {
        let joined = self.collector.as_deref().map_or(Ok(()), join);
        joined.map_err(|why| UpError::Figures { node: name.to_owned(), why })
    }

    pub(super) fn is_over(&self) -> bool {
        self.end.load(Ordering::Relaxed) || dispatch::stop_requested()
    }
}
