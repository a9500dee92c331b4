//! Errors of netisr's configuration and workers.

use super::died::RESTARTS_MAX;
use dispatch::netisr::NetisrError;

/// Invalid netisr configuration.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IsrError {
    /// Several workstreams were configured with single-threaded locks.
    #[error(
        "isr.workstreams = {0} needs locks = 'light' or 'heavy': with locks = 'up', the host's own thread runs at most \
         1 workstream"
    )]
    Threads(usize),
    /// Several stacks were configured with a setting that only a single stack supports.
    #[error("stacks = {stacks}: each stack has one thread and one queue: {what}")]
    Split {
        /// Number of stacks of the host.
        stacks: usize,
        /// The setting that conflicts with several stacks, or how to resolve the conflict.
        what: &'static str,
    },
    /// Pinning was requested, but there are no threads to pin.
    #[error("isr.bind: netisr has no threads to pin: choose locks = 'light' and isr.workstreams")]
    Bind,
    /// A netisr sysctl was set on a host without netisr.
    #[error("{0}: the host has no workstreams: choose isr.workstreams before it starts")]
    None(String),
    /// The worker of this workstream panicked too often. Frames for it stay queued, and once the
    /// queue is full, further frames are dropped.
    #[error("workstream {0}: the worker panicked more than {RESTARTS_MAX} times and is not restarted")]
    Died(usize),
    /// Error of netisr itself.
    #[error(transparent)]
    Netisr(#[from] NetisrError),
}
