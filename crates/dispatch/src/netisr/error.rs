//! Reasons why netisr rejects a request.

use super::{Mode, PROTOCOLS_MAX, Policy};
use std::fmt;

/// Reason why a request was rejected. A rejected request changes nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NetisrError {
    /// The text is not the name of a mode.
    UnknownMode(String),
    /// The common mode cannot be set to `default`, because that word means the common mode
    /// (FreeBSD: EINVAL).
    DefaultGlobally,
    /// The requested mode is not possible, because this netisr allows only one mode
    /// ([`Config::only`](super::Config::only)).
    OtherMode {
        /// The allowed mode.
        only: Mode,
    },
    /// The text is not the name of a policy.
    UnknownPolicy(String),
    /// Policy `cpu` was requested for a protocol without the callback `m2cpuid`.
    PolicyUnanswered {
        /// Name of the protocol.
        protocol: &'static str,
    },
    /// The number of workstreams is zero or too large.
    Workstreams {
        /// Number of workstreams that was requested.
        requested: usize,
        /// Maximum number of workstreams.
        most: usize,
    },
    /// The queue limit is too large (`net.isr.maxqlimit`).
    Limit {
        /// Queue limit that was requested.
        requested: usize,
        /// Upper bound for all queue limits (`net.isr.maxqlimit`).
        most: usize,
    },
    /// No protocol has this name.
    UnknownProtocol(String),
    /// The number of protocols is zero, or larger than [`PROTOCOLS_MAX`].
    Protocols {
        /// Number of protocols to register.
        requested: usize,
    },
    /// Two protocols have the same name or number.
    Twice {
        /// Name of the second of the two protocols.
        protocol: &'static str,
    },
    /// The workstream does not exist, or already has a worker.
    Taken {
        /// Index of the workstream.
        workstream: usize,
    },
    /// The maximum number of callers and workers is reached.
    Callers {
        /// Maximum number of callers and workers.
        most: usize,
    },
}

impl fmt::Display for NetisrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetisrError::UnknownMode(word) => write!(f, "unknown mode '{word}': expected {}", Mode::WORDS),
            NetisrError::DefaultGlobally => {
                write!(
                    f,
                    "'default' is valid for a single protocol only; for all protocols use {} (EINVAL)",
                    Mode::WORDS
                )
            }
            NetisrError::OtherMode { only } => {
                write!(f, "the receiving thread cannot process frames: only mode {only} is available (EINVAL)")
            }
            NetisrError::UnknownPolicy(word) => write!(f, "unknown policy '{word}': expected {}", Policy::WORDS),
            NetisrError::PolicyUnanswered { protocol } => {
                write!(f, "{protocol}: policy 'cpu' is not available: the protocol does not select the workstream")
            }
            NetisrError::Workstreams { requested, most } => {
                write!(f, "{requested} workstreams: must be 1 to {most}")
            }
            NetisrError::Limit { requested, most } => {
                write!(f, "queue limit {requested}: must be at most {most} (net.isr.maxqlimit)")
            }
            NetisrError::UnknownProtocol(name) => write!(f, "unknown protocol '{name}'"),
            NetisrError::Protocols { requested } => write!(f, "{requested} protocols: must be 1 to {PROTOCOLS_MAX}"),
            NetisrError::Twice { protocol } => write!(f, "protocol {protocol}: its name or number is already in use"),
            NetisrError::Taken { workstream } => {
                write!(f, "workstream {workstream} does not exist or already has a worker")
            }
            NetisrError::Callers { most } => write!(f, "too many callers and workers: at most {most} are allowed"),
        }
    }
}

impl std::error::Error for NetisrError {}
