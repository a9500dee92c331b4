//! The IPv4 forwarding table: from `ip4::forward` and `ip4::output`, an address; back, a next hop.
//!
//! A [`Fib`] holds the routes twice. `routes` is the truth, ordered, for the control plane: `get`, `iter`, and what
//! lies under a removed route. The matcher is derived from it and answers the longest-prefix question: up to
//! `FEW` routes as a short list (a host with three routes stays at a few hundred bytes), above that as the 24-4-4
//! table of `table`, 80 MB reserved and touched as routes fill it.
//!
//! It holds numbers, not neighbors: a [`NextHopId`] indexes the caller's next-hop table. Nothing in here locks.
//!
//! 1 M routes with BGP's lengths, bursts of 32, huge pages under the table: 7 ticks (TSC 2.0 GHz) a lookup over 64 k
//! random addresses and 16 to 18 over 1 M, where the loads alone take 13 to 17. With 4 kB pages 11 and 20; DPDK 22.11
//! rte_lpm with 4 kB pages on the same machine 11 and 22 (examples/fib_speed.rs; least of 31 samples, shared machine).
//!
//! Longest prefix: RFC 1812 5.2.4.3 (2); no type of service, no metrics, one route per prefix.

mod few;
mod groups;
mod prefix;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;

use few::Few;
pub use prefix::{Prefix, PrefixError};
use table::Table;

/// Up to here a list does it, without the 64 MB: in bursts of 32 it costs 3 ticks a lookup with 3 routes and 6 with 8,
/// one by one 5 and 13. The table costs 1.5 while few addresses are in use; a list of 16 would cost 7 and 30.
const FEW: usize = 8;
/// A table that shrinks to this goes back to the list: well under [`FEW`], so that a flapping route does not rebuild.
const FEW_AGAIN: usize = FEW / 2;
/// Addresses worked on together inside a burst. 16 and 64 measure the same.
const CHUNK: usize = 32;
/// What the ordered map takes, glibc, 1 M routes: 23 bytes each when they came in random order, 29 in sorted order.
const MAP_BYTES_PER_ROUTE: usize = 29;
/// Routes a [`Fib::new`] accepts: four times the Internet's table of 2026.
const DEFAULT_LIMIT: usize = 4_000_000;

/// Index into the caller's next-hop table, at most [`NextHopId::MAX`].
///
/// Kept as index + 1, so that `Option<NextHopId>` is four bytes, and zero in the table is `None`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHopId(NonZeroU32);

impl NextHopId {
    /// The largest index: 24 bits in a table entry, less the one value that means "no route".
    pub const MAX: u32 = (1 << 24) - 2;

    /// `None` above [`NextHopId::MAX`].
    #[inline]
    pub const fn new(index: u32) -> Option<NextHopId> {
        if index > NextHopId::MAX {
            return None;
        }
        match NonZeroU32::new(index + 1) {
            Some(id) => Some(NextHopId(id)),
            None => None,
        }
    }

    /// Where to look in the next-hop table.
    #[inline]
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl fmt::Debug for NextHopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NextHopId({})", self.index())
    }
}

/// The table holds as many routes as it may; nothing was changed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct FibFull {
    /// The limit it was made with.
    pub limit: usize,
}

impl fmt::Display for FibFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the forwarding table is full: limit {} routes", self.limit)
    }
}

impl std::error::Error for FibFull {}

/// One answer as the matchers keep it: the next hop, and how long the prefix was that gave it.
///
/// | bits | 31 | 30..24 | 23..0 |
/// |---|---|---|---|
/// | no route | 0 | 0 | 0 |
/// | route | 0 | prefix length + 1 | next hop index + 1 |
/// | group | 1 | index of 16 more entries, over both fields ||
///
/// The order of the fields is used: every entry that a prefix of length n may overwrite is below `Entry::bound(n)`.
#[derive(Copy, Clone, PartialEq, Eq)]
#[repr(transparent)]
struct Entry(u32);

impl Entry {
    const NONE: Entry = Entry(0);
    const HOP: u32 = 0x00ff_ffff;

    fn route(len: u8, hop: NextHopId) -> Entry {
        Entry((u32::from(len) + 1) << 24 | hop.0.get())
    }

    /// The least entry that belongs to a prefix longer than `len`, or to a group.
    fn bound(len: u8) -> u32 {
        (u32::from(len) + 2) << 24
    }

    #[inline(always)]
    fn hop(self) -> Option<NextHopId> {
        NonZeroU32::new(self.0 & Entry::HOP).map(NextHopId)
    }

    /// The route that gave this answer for `dst`.
    fn found_for(self, dst: u32) -> Option<(Prefix, NextHopId)> {
        let len = (self.0 >> 24).checked_sub(1)? as u8;
        Some((Prefix::masked(dst, len), self.hop()?))
    }
}

enum Matcher {
    Few(Few),
    Table(Table),
}

/// The forwarding table of one host or router.
///
/// ```
/// # use linerate_inet::fib::{Fib, NextHopId};
/// let (wan, lan) = (NextHopId::new(0).unwrap(), NextHopId::new(1).unwrap());
/// let mut fib = Fib::new();
/// fib.insert("0.0.0.0/0".parse()?, wan)?;
/// fib.insert("10.0.0.0/8".parse()?, lan)?;
/// assert_eq!(fib.lookup([10, 1, 2, 3].into()), Some(lan));
/// assert_eq!(fib.lookup([192, 0, 2, 1].into()), Some(wan));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Fib {
    routes: BTreeMap<Prefix, NextHopId>,
    matcher: Matcher,
    limit: usize,
    huge_pages: bool,
}

impl Fib {
    /// An empty table for up to four million routes.
    pub fn new() -> Fib {
        Fib::with_limit(DEFAULT_LIMIT)
    }

    /// An empty table for up to `limit` routes.
    pub fn with_limit(limit: usize) -> Fib {
        Fib { routes: BTreeMap::new(), matcher: Matcher::Few(Few::default()), limit, huge_pages: false }
    }

    /// The same, and the table's arrays ask for huge pages.
    pub fn with_huge_pages(self) -> Fib {
        Fib { huge_pages: true, ..self }
    }

    /// Routes `prefix` to `hop`; the next hop it had before, if it had one.
    ///
    /// # Errors
    /// [`FibFull`] for a new prefix when the limit is reached. Another next hop for a known prefix always fits.
    pub fn insert(&mut self, prefix: Prefix, hop: NextHopId) -> Result<Option<NextHopId>, FibFull> {
        if self.routes.len() >= self.limit && !self.routes.contains_key(&prefix) {
            return Err(FibFull { limit: self.limit });
        }
        let replaced = self.routes.insert(prefix, hop);
        match &mut self.matcher {
            Matcher::Few(few) if self.routes.len() <= FEW => few.insert(prefix, hop),
            Matcher::Few(_) => self.matcher = Matcher::Table(self.build_table()),
            Matcher::Table(table) => table.insert(prefix, Entry::route(prefix.len(), hop)),
        }
        Ok(replaced)
    }

    /// Forgets `prefix`; the next hop it had. What it covered falls to the next shorter route.
    pub fn remove(&mut self, prefix: Prefix) -> Option<NextHopId> {
        let removed = self.routes.remove(&prefix)?;
        match &mut self.matcher {
            Matcher::Few(few) => few.remove(prefix),
            Matcher::Table(_) if self.routes.len() <= FEW_AGAIN => self.matcher = Matcher::Few(self.build_few()),
            Matcher::Table(table) => table.remove(prefix, covering(&self.routes, prefix)),
        }
        Some(removed)
    }

    /// The next hop of exactly this prefix.
    pub fn get(&self, prefix: Prefix) -> Option<NextHopId> {
        self.routes.get(&prefix).copied()
    }

    /// The next hop of the longest prefix that contains `dst`.
    #[inline]
    pub fn lookup(&self, dst: Ipv4Addr) -> Option<NextHopId> {
        self.find(dst.to_bits()).hop()
    }

    /// [`Fib::lookup`] of many: `out[i]` answers `dst[i]`, in host byte order. The loads of a burst overlap
    /// whatever else the caller does; from 32 addresses on it also costs a sixth less than a tight loop of `lookup`.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn lookup_burst(&self, dst: &[u32], out: &mut [Option<NextHopId>]) {
        assert_eq!(dst.len(), out.len(), "lookup_burst: one answer per address");
        match &self.matcher {
            Matcher::Few(few) => few.lookup_burst(dst, out),
            Matcher::Table(table) => table.lookup_burst(dst, out),
        }
    }

    /// [`Fib::lookup`], and the prefix that matched: for `route get`.
    pub fn lookup_prefix(&self, dst: Ipv4Addr) -> Option<(Prefix, NextHopId)> {
        self.find(dst.to_bits()).found_for(dst.to_bits())
    }

    /// All routes by address, a shorter prefix before the longer ones inside it.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix, NextHopId)> {
        self.routes.iter().map(|(&prefix, &hop)| (prefix, hop))
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// True without a single route.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Memory reserved, in bytes. Of the table's 80 MB only pages that routes were written to are resident; the
    /// ordered map's share is an estimate.
    pub fn bytes(&self) -> usize {
        let matcher = match &self.matcher {
            Matcher::Few(few) => few.bytes(),
            Matcher::Table(table) => table.bytes(),
        };
        size_of::<Fib>() + self.routes.len() * MAP_BYTES_PER_ROUTE + matcher
    }

    #[inline]
    fn find(&self, dst: u32) -> Entry {
        match &self.matcher {
            Matcher::Few(few) => few.find(dst),
            Matcher::Table(table) => table.find(dst),
        }
    }

    fn build_few(&self) -> Few {
        let mut few = Few::default();
        self.iter().for_each(|(prefix, hop)| few.insert(prefix, hop));
        few
    }

    fn build_table(&self) -> Table {
        let mut table = Table::new(self.huge_pages);
        self.iter().for_each(|(prefix, hop)| table.insert(prefix, Entry::route(prefix.len(), hop)));
        table
    }
}

impl Default for Fib {
    fn default() -> Fib {
        Fib::new()
    }
}

impl fmt::Debug for Fib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fib").field("routes", &self.len()).field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The longest route that contains `prefix` and is not `prefix`, as an entry.
///
/// In the map's order a covering route comes before `prefix`. The last one before it, `near`, either covers it, or
/// shares its first n bits, and then every covering route covers `near` too and is at most n long: look again from
/// there. Each turn shortens n, so 32 turns at most, two or three in a real table.
fn covering(routes: &BTreeMap<Prefix, NextHopId>, prefix: Prefix) -> Entry {
    let mut below = routes.range(..prefix).next_back();
    while let Some((&near, &hop)) = below {
        if near.covers(prefix) {
            return Entry::route(near.len(), hop);
        }
        below = routes.range(..=prefix.common(near)).next_back();
    }
    Entry::NONE
}
