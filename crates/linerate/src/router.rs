//! Routers.

use crate::{Host, HostBuilder};

/// A router: a [`Host`] that forwards packets between its interfaces, over IPv4 and IPv6.
///
/// ```
/// use linerate::Router;
///
/// let router = Router::builder()
///     .port("pair:left").addr("10.1.0.1/24")
///     .port("pair:right").addr("10.2.0.1/24")
///     .build()?;
/// # Ok::<(), linerate::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Router;

impl Router {
    /// Returns a builder for a host called `router`, with `net.inet.ip.forwarding` and
    /// `net.inet6.ip6.forwarding` set.
    pub fn builder() -> HostBuilder {
        Host::builder().name("router").sysctl("net.inet.ip.forwarding", 1).sysctl("net.inet6.ip6.forwarding", 1)
    }
}
