//! State of the connection with a routing engine, for commands and metrics.

use inet::route::{Path, Protocol};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// State of the connection with a routing engine. Times are seconds of the host's clock.
#[derive(Clone, Debug)]
pub struct FpmStatus {
    /// Address at which the host listens.
    pub listen: SocketAddr,
    /// Address of the engine; `None` if it is not connected.
    pub peer: Option<SocketAddr>,
    /// Time since which the engine is connected, or since which it is not.
    pub since: f64,
    /// Time of the last frame; `None` if there was none.
    pub last_frame: Option<f64>,
    /// Time from the connection to the end of its first announcement of all routes, in seconds;
    /// `None` until then.
    pub resync_s: Option<f64>,
    /// Bytes that were received and not yet applied.
    pub queued: u64,
    /// Numbers of IPv4 and IPv6 routes by protocol.
    pub routes: Vec<(Protocol, [u32; 2])>,
    /// Number of routes that the current connection has not announced.
    pub stale: u32,
    /// Number of routes that wait for their next hop.
    pub waiting: usize,
    /// Number of next hops.
    pub next_hops: usize,
    /// Number of next hops without a live path whose routes take another one, since the engine has
    /// moved one of them there.
    pub diverted: usize,
    /// Numbers of the engine's IPv4 and IPv6 routes that own routes to the same prefixes hide.
    pub shadowed: [usize; 2],
}

/// A next hop of a routing engine.
#[derive(Clone, Debug)]
pub struct NextHopStatus {
    /// Number that the engine gave it.
    pub id: u32,
    /// Paths of its IPv4 routes; `None` if none uses it.
    pub v4: Option<Vec<Path<Ipv4Addr>>>,
    /// Paths of its IPv6 routes; `None` if none uses it.
    pub v6: Option<Vec<Path<Ipv6Addr>>>,
    /// Number of routes that use it.
    pub uses: u32,
}
