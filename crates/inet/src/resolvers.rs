//! Name servers and search domains of a host, from its configuration, from DHCP and from router
//! advertisements (RFC 8106).
//!
//! The stack only stores the list and sends no queries. Any station on a link can advertise name
//! servers. Therefore the number of entries per source is limited ([`PER_SOURCE_MAX`]), and
//! configured servers come first.

mod entries;

pub use entries::{Entry, PER_SOURCE_MAX, ResolverSource, Resolvers};

use crate::Stack;
use clock::Instant;
use entries::update;
use lock::{Cx, Locks};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use wire::{dns, ip6};

impl<L: Locks> Stack<L> {
    /// Replaces the name servers and search domains that were received from `source`. Omits domains
    /// that are not valid host names, and entries beyond [`PER_SOURCE_MAX`]. A name server without
    /// a port gets port 53. A link-local name server needs a scope id, or a `source` with an
    /// interface.
    #[inline(never)]
    pub fn set_resolvers(
        &self,
        cx: Cx,
        source: ResolverSource,
        servers: &[SocketAddr],
        domains: &[String],
        until: Instant,
    ) {
        let mut resolvers = self.resolvers.lock(cx);
        resolvers.remove(source);
        for server in servers.iter().take(PER_SOURCE_MAX) {
            let value = server_addr(*server, source);
            update(&mut resolvers.servers, Entry { value, source, until }, cx.now);
        }
        for domain in domains.iter().filter(|domain| dns::is_host_name(domain)).take(PER_SOURCE_MAX) {
            update(&mut resolvers.domains, Entry { value: canonical(domain), source, until }, cx.now);
        }
    }

    /// Adds a name server, or updates its lifetime.
    pub fn update_name_server(&self, cx: Cx, source: ResolverSource, addr: IpAddr, until: Instant) {
        let is_server = !(addr.is_unspecified() || addr.is_multicast() || addr.is_loopback());
        if is_server {
            let value = server_addr(SocketAddr::new(addr, 0), source);
            update(&mut self.resolvers.lock(cx).servers, Entry { value, source, until }, cx.now);
        }
    }

    /// Adds a search domain, or updates its lifetime.
    pub fn update_search_domain(&self, cx: Cx, source: ResolverSource, domain: &str, until: Instant) {
        if dns::is_host_name(domain) {
            let value = canonical(domain);
            update(&mut self.resolvers.lock(cx).domains, Entry { value, source, until }, cx.now);
        }
    }

    /// Removes the name servers and search domains that were received from `source`.
    pub fn remove_resolvers(&self, cx: Cx, source: ResolverSource) {
        self.resolvers.lock(cx).remove(source);
    }

    /// Returns the name servers and search domains that have not expired.
    pub fn resolvers(&self, cx: Cx) -> Resolvers {
        let mut resolvers = self.resolvers.lock(cx);
        resolvers.remove_expired(cx.now);
        resolvers.clone()
    }
}

/// Returns the socket address of a name server. Adds the default port, and for a link-local address
/// the scope id of `source`.
fn server_addr(server: SocketAddr, source: ResolverSource) -> SocketAddr {
    let port = if server.port() == 0 { dns::PORT } else { server.port() };
    let iface = match source {
        ResolverSource::Configured => None,
        ResolverSource::Dhcp(id) | ResolverSource::Dhcp6(id) | ResolverSource::Advertised(id) => Some(id),
    };
    match (server, iface) {
        (SocketAddr::V6(v6), Some(id)) if ip6::is_link_local(*v6.ip()) => {
            SocketAddr::V6(SocketAddrV6::new(*v6.ip(), port, 0, crate::zone::scope_id(id)))
        }
        (mut server, _) => {
            server.set_port(port);
            server
        }
    }
}

/// Returns a domain in lower case, without the trailing dot.
fn canonical(domain: &str) -> String {
    domain.strip_suffix('.').unwrap_or(domain).to_ascii_lowercase()
}
