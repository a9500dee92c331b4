//! Errors of creating a host and of adding a port to a host.

use std::fmt;

/// Reason why a port was not added.
#[derive(Debug)]
#[non_exhaustive]
pub enum AddPortError {
    /// Invalid port specification.
    Spec(port::spec::SpecError),
    /// The port could not be opened.
    Open(port::OpenError),
    /// A port that the caller provides could not be opened.
    Own {
        /// Name of the iface.
        iface: String,
        /// Error of the function that opens the port.
        why: std::io::Error,
    },
    /// An iface of that name exists.
    Exists(String),
    /// The host already has the maximum number of ifaces.
    TooMany,
    /// A value for the iface is invalid or has no effect.
    Config {
        /// Name of the iface.
        iface: String,
        /// Invalid value, or key without effect.
        why: String,
    },
    /// A configured address cannot be added.
    Address {
        /// Name of the iface with the address.
        iface: String,
        /// Address, and reason why it was rejected.
        why: String,
    },
}

impl fmt::Display for AddPortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddPortError::Spec(error) => error.fmt(f),
            AddPortError::Open(error) => error.fmt(f),
            AddPortError::Own { iface, why } => write!(f, "{iface}: {why}"),
            AddPortError::Exists(name) => write!(f, "{name}: an interface of this name exists"),
            AddPortError::TooMany => write!(f, "too many ifaces: a host has at most {}", inet::iface::IFACES_MAX),
            AddPortError::Config { iface, why } => write!(f, "{iface}: {why}"),
            AddPortError::Address { iface, why } => write!(f, "{iface}: {why}"),
        }
    }
}

impl std::error::Error for AddPortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AddPortError::Spec(error) => error.source(),
            AddPortError::Open(error) => error.source(),
            _ => None,
        }
    }
}

impl From<port::spec::SpecError> for AddPortError {
    fn from(error: port::spec::SpecError) -> AddPortError {
        AddPortError::Spec(error)
    }
}

impl From<port::OpenError> for AddPortError {
    fn from(error: port::OpenError) -> AddPortError {
        AddPortError::Open(error)
    }
}

/// Reason why a host was not created.
#[derive(Debug)]
pub enum NewHostError {
    /// An unknown sysctl, a value out of range, or a key without effect.
    Config(String),
    /// The pool could not be created.
    Pool(buf::PoolError),
}

impl fmt::Display for NewHostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NewHostError::Config(why) => write!(f, "{why}"),
            NewHostError::Pool(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NewHostError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            NewHostError::Pool(error) => error.source(),
            _ => None,
        }
    }
}

impl From<buf::PoolError> for NewHostError {
    fn from(error: buf::PoolError) -> NewHostError {
        NewHostError::Pool(error)
    }
}
