//! Reasons why the hosts of a topology file could not run, and warnings at their start.

use crate::run::BuildError;
use crate::switch::node::NodeError;
use dispatch::sandbox::SandboxError;
use std::fmt;
use std::io;

/// Reason why the hosts could not run. All hosts that were already running have been stopped.
#[derive(Debug)]
pub enum UpError {
    /// A host could not be built.
    Build(BuildError),
    /// A control socket could not be opened.
    Control {
        /// Name of the host.
        host: String,
        /// Path of the socket.
        path: String,
        /// Error reported by the system.
        why: io::Error,
    },
    /// A node could not be connected with the collector of figures.
    Figures {
        /// Name of the host or switch.
        node: String,
        /// Error reported by the system.
        why: io::Error,
    },
    /// A switch could not run.
    Switch(NodeError),
    /// The port of a service is in use, or the service is not available here.
    Service {
        /// Name of the host.
        host: String,
        /// Kind and port of the service.
        what: String,
        /// Reason why the service is unavailable.
        why: String,
    },
    /// The process could not drop its privileges.
    Sandbox(SandboxError),
    /// A thread could not be created, or panicked.
    Thread {
        /// Name of the host.
        host: String,
        /// Error of the system, or that the thread panicked.
        why: String,
    },
}

impl fmt::Display for UpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpError::Build(error) => error.fmt(f),
            UpError::Control { host, path, why } => write!(f, "{host}: control socket {path}: {why}"),
            UpError::Figures { node, why } => write!(f, "{node}: figures for metrics: {why}"),
            UpError::Switch(error) => error.fmt(f),
            UpError::Service { host, what, why } => write!(f, "{host}: {what}: {why}"),
            UpError::Sandbox(error) => error.fmt(f),
            UpError::Thread { host, why } => write!(f, "{host}: thread failed: {why}"),
        }
    }
}

impl std::error::Error for UpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            UpError::Build(error) => error.source(),
            UpError::Switch(error) => error.source(),
            UpError::Sandbox(error) => error.source(),
            _ => None,
        }
    }
}

impl From<BuildError> for UpError {
    fn from(error: BuildError) -> UpError {
        UpError::Build(error)
    }
}

impl From<NodeError> for UpError {
    fn from(error: NodeError) -> UpError {
        UpError::Switch(error)
    }
}

impl From<SandboxError> for UpError {
    fn from(error: SandboxError) -> UpError {
        UpError::Sandbox(error)
    }
}

/// Reason why an interface has no automatic configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Unconfigured {
    /// No router advertisement was received on an interface with autoconfiguration.
    NoRouter {
        /// Name of the host.
        host: String,
        /// Name of the interface.
        iface: String,
    },
    /// No DHCP server replied.
    NoLease {
        /// Name of the host.
        host: String,
        /// Name of the interface.
        iface: String,
    },
}

impl fmt::Display for Unconfigured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unconfigured::NoRouter { host, iface } => {
                write!(f, "{host}: {iface}: no router advertisement received, so IPv6 has no default route")
            }
            Unconfigured::NoLease { host, iface } => {
                write!(f, "{host}: {iface}: no DHCP server replied, so the interface has no IPv4 address")
            }
        }
    }
}

impl std::error::Error for Unconfigured {}
