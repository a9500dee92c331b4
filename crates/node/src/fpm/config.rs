//! Configuration of the connection with a routing engine.

use clock::Duration;
use inet::fib::{Prefix, Prefix6};
use std::net::{IpAddr, SocketAddr};

/// Maximum time for which routes stay after the engine has disconnected: a day.
pub const STALE_MAX: Duration = Duration::from_secs(86_400);

/// Settings of a host that accepts the routes of a routing engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FpmConfig {
    /// Address of the kernel at which the host listens; `None` to accept no routes. It is a
    /// loopback address, since the protocol has no authentication.
    pub listen: Option<SocketAddr>,
    /// Time for which routes stay after the engine has disconnected.
    pub stale: Duration,
    /// Number of the routing table whose routes are used; 254 is the main table.
    pub table: u32,
    /// Prefix whose announcement shows that the engine has announced all routes: (address, length).
    /// Stale routes are then removed at once.
    pub marker: Option<(IpAddr, u8)>,
}

impl Default for FpmConfig {
    fn default() -> FpmConfig {
        FpmConfig { listen: None, stale: Duration::from_secs(120), table: 254, marker: None }
    }
}

/// Returns `address` if it is a loopback address.
pub(crate) fn loopback(address: SocketAddr) -> Option<SocketAddr> {
    Some(address).filter(|address| address.ip().is_loopback())
}

/// Parses a time of whole seconds, at most [`STALE_MAX`].
pub(crate) fn stale(text: &str) -> Option<Duration> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse().ok()?;
    Some(Duration::from_secs(seconds)).filter(|time| *time <= STALE_MAX)
}

/// Parses a prefix of either family.
pub(crate) fn marker(text: &str) -> Option<(IpAddr, u8)> {
    let v4 = || text.parse::<Prefix>().ok().map(|prefix| (prefix.addr().into(), prefix.len()));
    v4().or_else(|| text.parse::<Prefix6>().ok().map(|prefix| (prefix.addr().into(), prefix.len())))
}
