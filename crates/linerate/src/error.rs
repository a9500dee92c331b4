//! Errors of the library.

use node::run::BuildError;
use node::switch::AddError;
use node::switch::node::NodeError;
use std::{fmt, io};

/// Reason why a host or bridge could not be built or changed. `Debug` prints the same text as
/// `Display`, since a `main` that returns the error prints it with `Debug`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value of the builder is invalid.
    #[error("{what} '{value}': expected {expected}")]
    Value {
        /// Name of the value, such as `address`.
        what: &'static str,
        /// The invalid value.
        value: String,
        /// Valid values.
        expected: String,
    },
    /// The configuration was rejected, or a port could not be opened.
    #[error(transparent)]
    Build(Box<BuildError>),
    /// A port could not be added.
    #[error("{port}: {why}")]
    Port {
        /// Specification of the port.
        port: String,
        /// Error of the port.
        #[source]
        why: Box<node::AddPortError>,
    },
    /// A bridge could not be built.
    #[error(transparent)]
    Bridge(#[from] NodeError),
    /// A port could not be added to a bridge.
    #[error("{port}: {why}")]
    Member {
        /// Specification of the port.
        port: String,
        /// Error of the port.
        #[source]
        why: AddError,
    },
    /// A configuration file could not be read.
    #[error(transparent)]
    Config(Box<node::config::ConfigError>),
    /// A change was rejected.
    #[error("{what}: {why}")]
    Rejected {
        /// The change, such as `route 10.0.0.0/8`.
        what: String,
        /// Reason why it was rejected.
        why: String,
    },
    /// A thread could not be started.
    #[error("{host}: cannot start a thread: {why}")]
    Thread {
        /// Name of the host or bridge.
        host: String,
        /// Error of the system.
        #[source]
        why: io::Error,
    },
    /// A socket call failed. Functions that build hosts and open sockets can return one type of
    /// error.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// A host of a simulation could not be built.
    #[error(transparent)]
    World(Box<::sim::shape::ShapeError>),
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

boxed!((Build, BuildError), (Config, node::config::ConfigError), (World, ::sim::shape::ShapeError));

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::Socket(error) => error,
            other => io::Error::other(other),
        }
    }
}
