//! Metrics of a process, which `linerate up` serves for all nodes of a file.
//!
//! ```toml
//! [metrics]
//! listen = "127.0.0.1:9273"
//! series_max = 20000
//! ```

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Maximum number of samples in one answer, unless configured.
pub const SERIES_MAX: usize = 10_000;

/// Configuration of the metrics of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetricsConfig {
    /// Address at which metrics are served; `None` if none are served.
    pub listen: Option<MetricsAddress>,
    /// Maximum number of samples in one answer.
    pub series_max: usize,
}

impl Default for MetricsConfig {
    fn default() -> MetricsConfig {
        MetricsConfig { listen: None, series_max: SERIES_MAX }
    }
}

/// Address at which metrics are served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetricsAddress {
    /// A TCP address of the kernel, such as `127.0.0.1:9273`.
    Tcp(SocketAddr),
    /// Path of a UNIX socket, to which only this user can connect.
    Unix(PathBuf),
}

impl MetricsAddress {
    /// Expected form of the text.
    pub(super) const FORM: &str = "an address with a port such as 127.0.0.1:9273, or unix:PATH";
}

/// Error for a text that is no [`MetricsAddress`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetricsAddressError(String);

impl fmt::Display for MetricsAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}': expected {}", self.0, MetricsAddress::FORM)
    }
}

impl std::error::Error for MetricsAddressError {}

impl FromStr for MetricsAddress {
    type Err = MetricsAddressError;

    fn from_str(text: &str) -> Result<MetricsAddress, MetricsAddressError> {
        let error = || MetricsAddressError(text.to_owned());
        match text.strip_prefix("unix:") {
            Some(path) if path.is_empty() || path.contains(char::is_control) => Err(error()),
            Some(path) => Ok(MetricsAddress::Unix(PathBuf::from(path))),
            None => text.parse().map(MetricsAddress::Tcp).map_err(|_| error()),
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricsAddress::Tcp(addr) => addr.fmt(f),
            MetricsAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
