//! IPv6 state of a stack.

use super::ident::Idents6;
use crate::ip4::pmtu::{FLOOR6, PathMtus};
use crate::limit::Limiter;
use crate::neigh;
use crate::redirect::Redirects;
use crate::route::{RouteCache, RouteReader, Routes, Via6};
use crate::stack::OwnAddresses;
use clock::Instant;
use lock::{Guarded, Locks};
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wire::hash::Key;

/// Maximum number of IPv6 routes: twice the IPv6 Internet table of 2026, which has about 240,000
/// routes.
pub const ROUTES_MAX: usize = 1 << 19;

/// IPv6 state of a stack.
pub(crate) struct Ip6<L: Locks> {
    pub(crate) routes: Guarded<L, Routes<u128>>,
    /// Lock-free reader that the packet path uses for route lookups.
    pub(crate) ways: RouteReader<u128>,
    pub(crate) route_cache: Guarded<L, RouteCache<u128>>,
    /// Bloom filter of this host's own addresses.
    pub(crate) own: OwnAddresses,
    pub(crate) neighbors: Guarded<L, neigh::Table<Ipv6Addr>>,
    pub(crate) path_mtus: Guarded<L, PathMtus<Ipv6Addr>>,
    pub(crate) limiter: Guarded<L, Limiter>,
    pub(crate) idents: Guarded<L, Idents6>,
    /// True once an interface has had an IPv6 address. Until then, the timers of IPv6 are skipped.
    pub(crate) on: AtomicBool,
    pub(crate) redirects: Redirects<L, u128>,
    /// Default route that autoconfiguration has set; `None` if it has set none. If the current
    /// default route differs, it was configured manually.
    pub(crate) default_router: Guarded<L, Option<Via6>>,
    /// True once a router has advertised that DHCPv6 servers provide configuration other than
    /// addresses (O flag).
    pub(crate) other_config: AtomicBool,
    /// Time in nanoseconds of the next IPv6 event of any interface: duplicate address detection,
    /// MLD report, router solicitation or advertisement, or the end of a lifetime.
    pub(crate) due: AtomicU64,
}

impl<L: Locks> Ip6<L> {
    pub(crate) fn new(key: impl Fn(u64) -> Key, threads: usize) -> Ip6<L> {
        let routes = Routes::new(ROUTES_MAX, threads);
        Ip6 {
            ways: routes.reader(),
            routes: Guarded::new(routes),
            route_cache: Guarded::default(),
            own: OwnAddresses::default(),
            neighbors: Guarded::new(neigh::Table::new(key(62))),
            path_mtus: Guarded::new(PathMtus::new(key(63), FLOOR6)),
            limiter: Guarded::new(Limiter::new(key(64))),
            idents: Guarded::new(Idents6::new(key(65))),
            on: AtomicBool::new(false),
            redirects: Redirects::default(),
            default_router: Guarded::default(),
            other_config: AtomicBool::new(false),
            due: AtomicU64::new(Instant::NEVER.nanos()),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Sets the time of the next IPv6 event to `at`, if that is earlier.
    pub(crate) fn due_at(&self, at: Instant) {
        self.due.fetch_min(at.nanos(), Ordering::Relaxed);
    }
}
