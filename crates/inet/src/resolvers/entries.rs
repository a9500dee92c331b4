//! Name servers and search domains with their sources and lifetimes.

use crate::iface::IfaceId;
use clock::Instant;
use std::net::SocketAddr;

/// Maximum number of name servers, and of search domains, of one source.
pub const PER_SOURCE_MAX: usize = 8;

/// Source of a name server or search domain, in order of preference (RFC 8106 5.3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ResolverSource {
    /// Configuration of the host.
    Configured,
    /// A DHCPv4 lease on an interface.
    Dhcp(IfaceId),
    /// A DHCPv6 reply on an interface.
    Dhcp6(IfaceId),
    /// Router advertisements on an interface.
    Advertised(IfaceId),
}

/// A name server or search domain with its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry<T> {
    /// Socket address of the server, or the domain.
    pub value: T,
    /// Source of this entry.
    pub source: ResolverSource,
    /// Time after which the entry is no longer used; [`Instant::NEVER`] if it has no lifetime.
    pub until: Instant,
}

/// Name servers and search domains in order of preference.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Resolvers {
    /// Name servers of the host.
    pub servers: Vec<Entry<SocketAddr>>,
    /// Search domains of the host.
    pub domains: Vec<Entry<String>>,
}

impl Resolvers {
    pub(super) fn remove(&mut self, source: ResolverSource) {
        self.servers.retain(|entry| entry.source != source);
        self.domains.retain(|entry| entry.source != source);
    }

    pub(super) fn remove_expired(&mut self, now: Instant) {
        self.servers.retain(|entry| entry.until > now);
        self.domains.retain(|entry| entry.until > now);
    }
}

/// Adds an entry or updates its lifetime. If the list is full, the entry of the same source that
/// expires first is removed (RFC 8106 6.2).
#[inline(never)]
pub(super) fn update<T: PartialEq>(entries: &mut Vec<Entry<T>>, new: Entry<T>, now: Instant) {
    entries.retain(|entry| (entry.source, &entry.value) != (new.source, &new.value));
    if new.until <= now {
        return;
    }
    let of_source = || entries.iter().enumerate().filter(|(_, entry)| entry.source == new.source);
    if of_source().count() >= PER_SOURCE_MAX
        && let Some((first, _)) = of_source().min_by_key(|(_, entry)| entry.until)
    {
        entries.remove(first);
    }
    let at = entries.partition_point(|entry| entry.source <= new.source);
    entries.insert(at, new);
}
