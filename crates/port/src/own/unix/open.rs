//! Opening of `unix:PATH`.

use super::{datagram, stream};
use crate::Port;
use buf::Pool;
use clock::Duration;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Shortest interval between two attempts to connect.
const RECONNECT_MIN: Duration = Duration::from_millis(10);

/// Configuration of a port on a UNIX socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnixConfig {
    /// Type and role of the socket.
    pub kind: UnixKind,
    /// Interval between attempts to reach the peer; `None` for a single attempt. A stream port
    /// without further attempts ends with its first connection.
    pub reconnect: Option<Duration>,
    /// MTU of the port.
    pub mtu: u16,
}

/// Type and role of the socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UnixKind {
    /// Stream socket that connects to the port's path.
    Client,
    /// Stream socket that listens at the port's path.
    Server,
    /// Datagram socket bound to this path, whose peer is at the port's path.
    Datagram(PathBuf),
}

/// Reason why a port on a UNIX socket could not be opened.
#[derive(Debug)]
pub struct UnixError {
    /// Path of the port.
    pub name: String,
    /// Step that failed.
    pub step: &'static str,
    /// Error of the step.
    pub error: io::Error,
}

impl fmt::Display for UnixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnixError { name, step, error } = self;
        write!(f, "unix:{name}: {step}: {error}")?;
        match (*step, error.kind()) {
            ("connect", ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                f.write_str("; start the server first, or set reconnect")
            }
            ("connect", _) if error.raw_os_error() == Some(libc::EPROTOTYPE) => {
                f.write_str("; use type=dgram for a datagram socket")
            }
            ("connect", ErrorKind::PermissionDenied) => {
                f.write_str("; run as the server's user, or change the permissions of the socket file")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for UnixError {}

/// Opens the port on the socket at `name`.
///
/// # Errors
/// [`UnixError`] if the path is in use or is not a socket, the server rejects this user, or no
/// server listens and `reconnect` is `None`.
pub fn open(name: &str, config: &UnixConfig, pool: &Pool) -> Result<Port, UnixError> {
    let path = Path::new(name);
    let reconnect = config.reconnect.map(|interval| interval.max(RECONNECT_MIN));
    let opened = match &config.kind {
        UnixKind::Client => stream::connect(path, reconnect, pool).map_err(|error| ("connect", error)),
        UnixKind::Server => stream::listen(path, reconnect, pool).map_err(|error| ("listen", error)),
        UnixKind::Datagram(local) => datagram::bind(local, path, reconnect, pool).map_err(|error| ("bind", error)),
    };
    let mut port = opened.map_err(|(step, error)| UnixError { name: name.to_owned(), step, error })?;
    port.name = name.to_owned();
    port.spec = format!("unix:{name}");
    port.caps.mtu = config.mtu;
    Ok(port)
}
