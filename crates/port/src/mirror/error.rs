//! Reasons why a mirror could not be opened.

use std::fmt;
use std::io;

/// Error of opening a mirror.
#[derive(Debug)]
#[non_exhaustive]
pub enum MirrorError {
    /// The network namespace does not exist or cannot be read.
    Namespace {
        /// Network namespace.
        netns: String,
        /// Error of the system.
        why: io::Error,
    },
    /// The namespace cannot be entered.
    Enter {
        /// Network namespace.
        netns: String,
        /// Error of the system.
        why: io::Error,
    },
    /// A device of this name exists in the namespace.
    Exists {
        /// Name of the device.
        name: String,
        /// Network namespace.
        netns: String,
    },
    /// The device could not be created or configured.
    Device {
        /// Name of the device.
        name: String,
        /// Network namespace.
        netns: String,
        /// Reason of the failure, as a sentence.
        why: String,
    },
    /// This system has no mirrors.
    NeedsLinux,
}

impl fmt::Display for MirrorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MirrorError::Namespace { netns, why } if why.kind() == io::ErrorKind::NotFound => {
                write!(f, "no network namespace '{netns}'")?;
                if netns.contains('/') { Ok(()) } else { write!(f, ": create it with `ip netns add {netns}`") }
            }
            MirrorError::Namespace { netns, why } => write!(f, "network namespace '{netns}': {why}"),
            MirrorError::Enter { netns, why } => write!(
                f,
                "cannot enter the network namespace '{netns}': {why}: run linerate as root, or with CAP_SYS_ADMIN, or \
                 in this namespace"
            ),
            MirrorError::Exists { name, netns } => write!(
                f,
                "a device '{name}' exists in the network namespace '{netns}': choose another name, or remove the \
                 device with `ip link del {name}` there"
            ),
            MirrorError::Device { name, netns, why } => {
                write!(f, "device '{name}' in the network namespace '{netns}': {why}")
            }
            MirrorError::NeedsLinux => write!(f, "mirrors need Linux"),
        }
    }
}

impl std::error::Error for MirrorError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            MirrorError::Namespace { why, .. } | MirrorError::Enter { why, .. } => Some(why),
            _ => None,
        }
    }
}
