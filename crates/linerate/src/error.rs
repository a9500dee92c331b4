//! Errors of the library: [`Error`], and the errors that its variants contain.

use std::{fmt, io};

#[doc(inline)]
pub use ::bridge::StpError;
#[doc(inline)]
pub use ::buf::PoolError;
#[doc(inline)]
pub use ::grammar::CommandError;
#[doc(inline)]
pub use ::node::AddPortError;
#[doc(inline)]
pub use ::node::config::ConfigError;
#[doc(inline)]
pub use ::node::run::BuildError;
#[doc(inline)]
pub use ::node::switch::AddError;
#[doc(inline)]
pub use ::node::switch::node::{NodeError, NodeFault};
#[doc(inline)]
pub use ::port::spec::SpecError;
#[doc(inline)]
pub use ::sim::shape::ShapeError;

/// Reason why a host or bridge could not be built or changed. `Debug` prints the same text as
/// `Display`, since a `main` that returns the error prints it with `Debug`.
#[non_exhaustive]
pub enum Error {
    /// A value of the builder is invalid.
    Value {
        /// Name of the value, such as `address`.
        what: &'static str,
        /// The invalid value.
        value: String,
        /// Description of the valid values.
        expected: String,
    },
    /// The configuration was rejected, or a port could not be opened.
    Build(Box<BuildError>),
    /// A port could not be added.
    Port {
        /// Specification of the port.
        port: String,
        /// Error of the port.
        why: Box<AddPortError>,
    },
    /// A bridge could not be built.
    Bridge(NodeError),
    /// A port could not be added to a bridge.
    Member {
        /// Specification of the port.
        port: String,
        /// Error of the port.
        why: AddError,
    },
    /// A configuration file could not be read.
    Config(Box<ConfigError>),
    /// A change was rejected.
    Rejected {
        /// The change, such as `route 10.0.0.0/8`.
        what: String,
        /// Reason why it was rejected.
        why: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A thread could not be started.
    Thread {
        /// Name of the host or bridge.
        host: String,
        /// Error of the system.
        why: io::Error,
    },
    /// A socket call failed. With this variant, a function that builds hosts and opens sockets can
    /// return a single error type.
    Socket(io::Error),
    /// A host of a simulation could not be built.
    World(Box<ShapeError>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Value { what, value, expected } => write!(f, "{what} '{value}': expected {expected}"),
            Error::Build(error) => error.fmt(f),
            Error::Port { port, why } => write!(f, "{port}: {why}"),
            Error::Bridge(error) => error.fmt(f),
            Error::Member { port, why } => write!(f, "{port}: {why}"),
            Error::Config(error) => error.fmt(f),
            Error::Rejected { what, why } => write!(f, "{what}: {why}"),
            Error::Thread { host, why } => write!(f, "{host}: cannot start a thread: {why}"),
            Error::Socket(error) => error.fmt(f),
            Error::World(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Build(error) => error.source(),
            Error::Port { why, .. } => Some(why.as_ref()),
            Error::Bridge(error) => error.source(),
            Error::Member { why, .. } => Some(why),
            Error::Rejected { why, .. } => Some(why.as_ref()),
            Error::Config(error) => error.source(),
            Error::Thread { why, .. } => Some(why),
            Error::Socket(error) => error.source(),
            Error::World(error) => error.source(),
            Error::Value { .. } => None,
        }
    }
}

impl Error {
    /// Returns the error for the rejected change `what`.
    pub(crate) fn rejected(what: impl Into<String>, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Rejected { what: what.into(), why: why.into() }
    }
}

impl From<NodeError> for Error {
    fn from(error: NodeError) -> Error {
        Error::Bridge(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Socket(error)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! boxed {
    ($(($variant:ident, $error:ty)),+) => { $(
        impl From<$error> for Error {
            fn from(error: $error) -> Error {
                Error::$variant(Box::new(error))
            }
        }
    )+ };
}

boxed!((Build, BuildError), (Config, ConfigError), (World, ShapeError));

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::Socket(error) => error,
            other => io::Error::other(other),
        }
    }
}
