//! The IPv4 forwarding table: from `ip4::forward` and `ip4::output`, an address; back, a next hop.
//!
//! A [`Fib`] holds the routes twice. `routes` is the truth, ordered, for the control plane: `get`, `iter`, and what
//! lies under a removed route. The matcher is derived from it and answers the longest-prefix question: up to
//! `FEW` routes as a short list (a host with three routes stays at a few hundred bytes), above that as the 24-4-4
//! table of `table`, 80 MB reserved and touched as routes fill it; once made, it stays.
//!
//! One owner changes it while any thread asks by a [`Reader`]. Nothing in here locks: what readers see changes by single stores, each of
//! which leaves every address with a true answer, and what was taken out is used again when no reader can have it in hand.
//!
//! It holds numbers, not neighbors: a [`NextHopId`] indexes the caller's next-hop table.
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
use std::sync::{Arc, OnceLock};

use few::Few;
use groups::Spare;
use lock::{Cx, Pinned, Pins, USUAL_THREADS};
pub use prefix::{Prefix, PrefixError};
use table::Table;

/// Up to here a list does it, without the 64 MB: in bursts of 32 it costs 3 ticks a lookup with 3 routes and 6 with 8,
/// one by one 5 and 13. The table costs 1.5 while few addresses are in use; a list of 16 would cost 7 and 30.
const FEW: usize = 8;
/// Addresses worked on together inside a burst. 16 and 64 measure the same.
const CHUNK: usize = 32;
/// What the ordered map takes, glibc, 1 M routes: 23 bytes each when they came in random order, 29 in sorted order.
const MAP_BYTES_PER_ROUTE: usize = 29;
/// Routes a [`Fib::new`] accepts: four times the Internet's table of 2026.
pub(crate) const DEFAULT_LIMIT: usize = 4_000_000;

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

/// What readers see: changed by one [`Fib`], read by many threads, none of which ever waits for it.
struct Matcher {
    /// The whole answer until there is a table, and not looked at after.
    few: Few,
    table: OnceLock<Box<Table>>,
    pins: Pins,
}

impl Matcher {
    #[inline(always)]
    fn find(&self, dst: u32) -> Entry {
        match self.table.get() {
            None => self.few.find(dst),
            Some(table) => table.find(dst),
        }
    }

    #[inline(always)]
    fn lookup_burst(&self, dst: &[u32], out: &mut [Option<NextHopId>]) {
        match self.table.get() {
            None => self.few.lookup_burst(dst, out),
            Some(table) => table.lookup_burst(dst, out),
        }
    }
}

/// The answers of a [`Fib`] for threads that do not own it, while it changes: each is one that was true at some moment between question
/// and answer. Nothing is locked; a question asks again when a change came in between, and only if that change could matter (a
/// short list's, the default route's).
#[derive(Clone)]
pub struct Reader(Arc<Matcher>);

impl Reader {
    /// The calling thread begins to ask: next hops that answers name are not used for others while it is pinned.
    #[inline(always)]
    pub fn pin(&self, cx: Cx) -> Pinned<'_> {
        self.0.pins.pin(cx)
    }

    /// Who reads.
    pub fn pins(&self) -> &Pins {
        &self.0.pins
    }

    /// As [`Fib::lookup`].
    #[inline(always)]
    pub fn lookup(&self, _: &Pinned<'_>, dst: Ipv4Addr) -> Option<NextHopId> {
        self.0.find(dst.to_bits()).hop()
    }

    /// As [`Fib::lookup_burst`]; answers the shorter of the two slices.
    #[inline(always)]
    pub fn lookup_burst(&self, _: &Pinned<'_>, dst: &[u32], out: &mut [Option<NextHopId>]) {
        self.0.lookup_burst(dst, out);
    }

    /// Who has addresses one by one, before he asks for all of them, tells the cache by this; `None`: there is nothing to fetch.
    #[inline(always)]
    pub fn ahead(&self) -> Option<Ahead<'_>> {
        self.0.table.get().map(|table| Ahead(table))
    }

    /// As [`Fib::lookup_prefix`].
    pub fn lookup_prefix(&self, _: &Pinned<'_>, dst: Ipv4Addr) -> Option<(Prefix, NextHopId)> {
        self.0.find(dst.to_bits()).found_for(dst.to_bits())
    }
}

/// Fetches what a question will need, ahead of it.
#[derive(Clone, Copy)]
pub struct Ahead<'t>(&'t Table);

impl Ahead<'_> {
    /// `dst` will be asked for soon.
    #[inline(always)]
    pub fn of(self, dst: u32) {
        self.0.prefetch(dst);
    }
}

impl fmt::Debug for Ahead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ahead")
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("table", &self.0.table.get().is_some()).finish_non_exhaustive()
    }
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
    matcher: Arc<Matcher>,
    spare: Spare,
    limit: usize,
    huge_pages: bool,
}

impl Fib {
    /// An empty table for up to four million routes, with readers on any thread.
    pub fn new() -> Fib {
        Fib::with_limit(DEFAULT_LIMIT)
    }

    /// An empty table for up to `limit` routes.
    pub fn with_limit(limit: usize) -> Fib {
        Fib::with_readers(limit, USUAL_THREADS)
    }

    /// An empty table for up to `limit` routes and readers on several threads, `threads` of
    /// which are usual ([`USUAL_THREADS`]), or 1 if owner and reader are one.
    pub fn with_readers(limit: usize, threads: usize) -> Fib {
        let matcher = Matcher { few: Few::default(), table: OnceLock::new(), pins: Pins::new(threads) };
        Fib { routes: BTreeMap::new(), matcher: Arc::new(matcher), spare: Spare::default(), limit, huge_pages: false }
    }

    /// The same, and the table's arrays ask for huge pages.
    pub fn with_huge_pages(self) -> Fib {
        Fib { huge_pages: true, ..self }
    }

    /// Answers for other threads, while this table changes.
    pub fn reader(&self) -> Reader {
        Reader(Arc::clone(&self.matcher))
    }

    /// Routes `prefix` to `hop`; the next hop it had before, if it had one. Costs what the prefix covers: a store for each of its /24, or for
    /// a longer one up to 48 stores.
    ///
    /// # Errors
    /// [`FibFull`] for a new prefix when the limit is reached. Another next hop for a known prefix always fits.
    pub fn insert(&mut self, prefix: Prefix, hop: NextHopId) -> Result<Option<NextHopId>, FibFull> {
        let known = self.routes.contains_key(&prefix);
        if !known && (self.routes.len() >= self.limit || !self.has_room(prefix)) {
            return Err(FibFull { limit: self.limit });
        }
        let replaced = self.routes.insert(prefix, hop);
        if let Some(table) = self.matcher.table.get() {
            table.insert(prefix, Entry::route(prefix.len(), hop), &mut self.spare, &self.matcher.pins);
        } else if !self.matcher.few.insert(prefix, hop) {
            self.make_table();
        }
        Ok(replaced)
    }

    /// Forgets `prefix`; the next hop it had. What it covered falls to the next shorter route.
    pub fn remove(&mut self, prefix: Prefix) -> Option<NextHopId> {
        let removed = self.routes.remove(&prefix)?;
        match self.matcher.table.get() {
            None => self.matcher.few.remove(prefix),
            Some(table) => {
                table.remove(prefix, covering(&self.routes, prefix), &mut self.spare, &self.matcher.pins);
            }
        }
        Some(removed)
    }

    /// Whether the table has the groups that a new prefix may need.
    fn has_room(&self, prefix: Prefix) -> bool {
        prefix.len() <= 24 || self.spare.has(2)
    }

    /// From now on the table answers: it is shown when all routes are in it. It stays: readers may be in it.
    fn make_table(&mut self) {
        let table = Box::new(Table::new(self.huge_pages));
        for (&prefix, &hop) in &self.routes {
            table.insert(prefix, Entry::route(prefix.len(), hop), &mut self.spare, &self.matcher.pins);
        }
        drop(self.matcher.table.set(table)); // there was none
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
        self.matcher.lookup_burst(dst, out);
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
        let table = self.matcher.table.get().map_or(0, |table| table.bytes());
        size_of::<Fib>() + size_of::<Matcher>() + self.routes.len() * MAP_BYTES_PER_ROUTE + table + self.spare.bytes()
    }

    #[inline]
    fn find(&self, dst: u32) -> Entry {
        self.matcher.find(dst)
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
