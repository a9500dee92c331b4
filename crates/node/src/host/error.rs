//! Reasons why a host or a port of it was not created.

/// Reason why a port was not added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddPortError {
    /// Invalid port specification.
    #[error(transparent)]
    Spec(#[from] port::spec::SpecError),
    /// The port could not be opened.
    #[error(transparent)]
    Open(#[from] port::OpenError),
    /// A port of the caller's own could not be opened.
    #[error("{iface}: {why}")]
    Own {
        /// Name of the iface.
        iface: String,
        /// Error of the function that opens the port.
        why: std::io::Error,
    },
    /// An iface of that name exists.
    #[error("{0}: an interface of this name exists")]
    Exists(String),
    /// The host already has the maximum number of ifaces.
    #[error("too many ifaces: a host has at most {}", inet::iface::IFACES_MAX)]
    TooMany,
    /// A value for the iface is invalid or has no effect.
    #[error("{iface}: {why}")]
    Config {
        /// Name of the iface.
        iface: String,
        /// Invalid value, or key without effect.
        why: String,
    },
    /// A configured address cannot be added.
    #[error("{iface}: {why}")]
    Address {
        /// Name of the iface with the address.
        iface: String,
        /// Address, and reason why it was rejected.
        why: String,
    },
}

/// Reason why a host was not created.
#[derive(Debug, thiserror::Error)]
pub enum NewHostError {
    /// An unknown sysctl, a value out of range, or a key without effect.
    #[error("{0}")]
    Config(String),
    /// The pool could not be created.
    #[error(transparent)]
    Pool(#[from] buf::PoolError),
}
