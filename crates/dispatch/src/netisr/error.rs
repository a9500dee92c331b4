//! What netisr refuses, and why.

use super::{Mode, PROTOCOLS_MAX, Policy};
use std::fmt;

/// Why something was refused. Nothing has changed then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NetisrError {
    /// No mode's word.
    UnknownMode(String),
    /// `default` names the mode of all protocols, and so it cannot be that mode (FreeBSD: EINVAL).
    DefaultGlobally,
    /// There is one mode here, and it was not this one ([`Config::only`](super::Config::only)).
    OtherMode {
        /// That one.
        only: Mode,
    },
    /// No policy's word.
    UnknownPolicy(String),
    /// By the protocol's own answer, of a protocol that has none: no workstream would be named.
    PolicyUnanswered {
        /// The protocol.
        protocol: &'static str,
    },
    /// No workstream at all, or more than there may be.
    Workstreams {
        /// So many were asked for.
        asked: usize,
        /// So many may be.
        most: usize,
    },
    /// A queue longer than may be (`net.isr.maxqlimit`).
    Limit {
        /// So long was asked for.
        asked: usize,
        /// So long may be.
        most: usize,
    },
    /// No such protocol.
    UnknownProtocol(String),
    /// More protocols than [`PROTOCOLS_MAX`], or none.
    Protocols {
        /// So many were to be registered.
        asked: usize,
    },
    /// Two protocols of one name or number.
    Twice {
        /// The name.
        protocol: &'static str,
    },
    /// There is no such workstream, or somebody works on it already.
    Taken {
        /// Which.
        workstream: usize,
    },
    /// More callers and workers at one time than are counted apart.
    Callers {
        /// So many may be.
        most: usize,
    },
}

impl fmt::Display for NetisrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetisrError::UnknownMode(word) => write!(f, "unknown mode '{word}': expected {}", Mode::WORDS),
            NetisrError::DefaultGlobally => {
                write!(f, "'default' is for one protocol: what all have is {} (EINVAL)", Mode::WORDS)
            }
            NetisrError::OtherMode { only } => {
                write!(f, "frames come from a thread that may not do the work: the mode is {only} (EINVAL)")
            }
            NetisrError::UnknownPolicy(word) => write!(f, "unknown policy '{word}': expected {}", Policy::WORDS),
            NetisrError::PolicyUnanswered { protocol } => {
                write!(f, "{protocol}: policy 'cpu' asks the protocol, and {protocol} names no workstream")
            }
            NetisrError::Workstreams { asked, most } => {
                write!(f, "{asked} workstreams: expected 1 to {most}")
            }
            NetisrError::Limit { asked, most } => {
                write!(f, "a queue of {asked}: net.isr.maxqlimit is {most}")
            }
            NetisrError::UnknownProtocol(name) => write!(f, "no protocol is called '{name}'"),
            NetisrError::Protocols { asked } => write!(f, "{asked} protocols: expected 1 to {PROTOCOLS_MAX}"),
            NetisrError::Twice { protocol } => write!(f, "two protocols have {protocol}'s name or number"),
            NetisrError::Taken { workstream } => {
                write!(f, "workstream {workstream}: there is none, or it has a worker already")
            }
            NetisrError::Callers { most } => write!(f, "more than {most} callers and workers at one time"),
        }
    }
}

impl std::error::Error for NetisrError {}
