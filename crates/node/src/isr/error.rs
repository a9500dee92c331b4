//! Errors of netisr's configuration and workers.

use super::died::RESTARTS_MAX;
use dispatch::netisr::NetisrError;
use std::fmt;

/// Invalid netisr configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IsrError {
    /// Several workstreams were configured with single-threaded locks.
    Threads(usize),
    /// Several stacks were configured with a setting that only a single stack supports.
    Split {
        /// Number of stacks of the host.
        stacks: usize,
        /// The setting that conflicts with several stacks, or how to resolve the conflict.
        what: &'static str,
    },
    /// Pinning was requested, but there are no threads to pin.
    Bind,
    /// A netisr sysctl was set on a host without netisr.
    None(String),
    /// The worker of this workstream panicked too often. Frames for it stay queued, and once the
    /// queue is full, further frames are dropped.
    Died(usize),
    /// Error of netisr itself.
    Netisr(NetisrError),
}

impl fmt::Display for IsrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IsrError::Threads(workstreams) => write!(
                f,
                "isr.workstreams = {workstreams} needs locks = 'light' or 'heavy': with locks = 'up', the host's own \
                 thread runs at most 1 workstream"
            ),
            IsrError::Split { stacks, what } => {
                write!(f, "stacks = {stacks}: each stack has one thread and one queue: {what}")
            }
            IsrError::Bind => {
                f.write_str("isr.bind: netisr has no threads to pin: choose locks = 'light' and isr.workstreams")
            }
            IsrError::None(what) => {
                write!(f, "{what}: the host has no workstreams: choose isr.workstreams before it starts")
            }
            IsrError::Died(worker) => {
                write!(
                    f,
                    "workstream {worker}: the worker panicked more than {RESTARTS_MAX} times and is not restarted"
                )
            }
            IsrError::Netisr(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for IsrError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            IsrError::Netisr(error) => error.source(),
            _ => None,
        }
    }
}

impl From<NetisrError> for IsrError {
    fn from(error: NetisrError) -> IsrError {
        IsrError::Netisr(error)
    }
}
