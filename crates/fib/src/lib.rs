//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Forwarding table (FIB) of one address family. IP input, forwarding and output look up the next
//! hop of an address in it.
//!
//! A [`Fib`] stores the routes twice. The ordered map `routes` is authoritative. The control plane
//! uses it for `get`, for `iter`, and to find the covering route when a route is removed. The
//! matcher is derived from the map and performs the longest-prefix lookups of packets. The IPv4
//! matcher is a short list for up to `FEW` routes, so that a host with three routes needs a few
//! hundred bytes. With more routes it is the 24-4-4 table of the module `table`, which reserves 80
//! MB of address space; pages become resident as routes fill them. The table is kept even if few
//! routes remain. The IPv6 matcher is the trie of the module `trie`.
//!
//! One owner changes the table while any thread reads it through a [`Reader`], without locks. Each
//! change that readers can see is a single store, before and after which the table gives a correct
//! answer for every address. Removed parts are reused only when no reader can still use them.
//!
//! The table stores a [`NextHopId`], which is an index into the caller's table of next hops, not an
//! address.
//!
//! Speed, measured with bursts of 32 lookups and 1 M routes with the prefix lengths of the
//! Internet's table, in ticks of a TSC of 2.0 GHz. With huge pages, a lookup takes 7 ticks over
//! 64 k random addresses and 16 to 18 ticks over 1 M, where the memory loads alone take 13 to 17.
//! With 4 kB pages it takes 11 and 20 ticks. On the same machine, rte_lpm of DPDK 22.11 with 4 kB
//! pages takes 11 and 22 ticks. Source: `linerate bench parts`, minimum of 31 samples on a shared
//! machine.
//!
//! A lookup is a longest prefix match as in RFC 1812 5.2.4.3 (2), without type of service or
//! metrics. There is one route per prefix.

#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

mod default;
mod entry;
mod few;
mod groups;
mod matcher;
mod prefix;
mod stored;
mod table;
#[cfg(test)]
mod tests;
mod trie;

use std::collections::btree_map::Entry as Slot;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use buf::mem::Pages;
pub use entry::{DEFAULT_LIMIT, Entry, NextHopId};
use few::Few;
use groups::Spare;
use lock::{Cx, Pinned, Pins, USUAL_THREADS};
pub use matcher::Matcher;
pub use prefix::{AddrBits, IpPrefix, Prefix, Prefix6, PrefixError, PrefixFault};
use stored::RouteMap;
pub use stored::{Note, Stored};
use table::Table;
use trie::Trie;

/// Memory per IPv4 route in the ordered map, in bytes. With 1 M routes and glibc, it is 42 if
/// routes are inserted in sorted order, and 34 in random order.
const MAP_BYTES_PER_ROUTE: usize = 42;
/// Error: the table is full; nothing was changed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct FibFull {
    /// Maximum number of routes of the table.
    pub limit: usize,
}

impl fmt::Display for FibFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the forwarding table is full: the limit is {} routes", self.limit)
    }
}

impl std::error::Error for FibFull {}

/// IPv4 matcher: a short list until the first route that does not fit into it, then a table.
#[derive(Default)]
pub struct ListOrTable {
    few: Few,
    table: OnceLock<Box<Table>>,
}

impl Matcher<u32> for ListOrTable {
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

    fn has_room(prefix: Prefix, spare: &Spare) -> bool {
        prefix.len() <= 24 || spare.has(2)
    }

    fn insert(&self, prefix: Prefix, hop: NextHopId, routes: &RouteMap<u32>, spare: &mut Spare, pins: &Pins) {
        if let Some(table) = self.table.get() {
            table.insert(prefix, Entry::route(prefix.len(), hop), spare, pins);
        } else if !self.few.insert(prefix, hop) {
            // The table is published once it contains all routes. It is never removed, since
            // readers may use it.
            let table = Box::new(Table::new(spare.pages));
            for (prefix, stored) in routes {
                table.insert(*prefix, Entry::route(prefix.len(), stored.hop), spare, pins);
            }
            drop(self.table.set(table)); // succeeds, since there is no table yet
        }
    }

    fn remove(&self, prefix: Prefix, cover: Entry, spare: &mut Spare, pins: &Pins) {
        match self.table.get() {
            None => self.few.remove(prefix),
            Some(table) => table.remove(prefix, cover, spare, pins),
        }
    }

    fn bytes(&self) -> usize {
        self.table.get().map_or(0, |table| table.bytes())
    }
}

/// Selects the longest-prefix matcher of an address family.
pub trait Matched: AddrBits {
    /// Matcher type.
    type Matcher: Matcher<Self>;
}

impl Matched for u32 {
    type Matcher = ListOrTable;
}

impl Matched for u128 {
    type Matcher = Trie;
}

/// The part of a [`Fib`] that its owner and the readers share.
struct Shown<A: Matched> {
    matcher: A::Matcher,
    pins: Pins,
}

/// Lock-free read access to a [`Fib`] for threads that do not own it, while it changes. Each result
/// was correct at some moment during the call. A lookup is repeated only if a concurrent change
/// could affect its result (in the short list or the default route).
pub struct Reader<A: Matched = u32>(Arc<Shown<A>>);

impl<A: Matched> Clone for Reader<A> {
    fn clone(&self) -> Reader<A> {
        Reader(Arc::clone(&self.0))
    }
}

impl<A: Matched> Reader<A> {
    /// Pins the calling thread. While it is pinned, next hops that a lookup returned are not
    /// reused.
    #[inline(always)]
    pub fn pin(&self, cx: Cx) -> Pinned<'_> {
        self.0.pins.pin(cx)
    }

    /// Returns the [`Pins`] that track the reader threads.
    pub fn pins(&self) -> &Pins {
        &self.0.pins
    }

    /// Returns the next hop of the longest prefix that contains `dst`, as [`Fib::lookup`] does.
    #[inline(always)]
    pub fn lookup(&self, _: &Pinned<'_>, dst: A) -> Option<NextHopId> {
        self.0.matcher.find(dst).hop()
    }

    /// Looks up many addresses as [`Fib::lookup_burst`] does. If the slices differ in length, looks
    /// up only as many addresses as the shorter one has elements.
    #[inline(always)]
    pub fn lookup_burst(&self, _: &Pinned<'_>, dst: &[A], out: &mut [Option<NextHopId>]) {
        self.0.matcher.lookup_burst(dst, out);
    }

    /// Returns the next hop for `dst` and the prefix that matched, as [`Fib::lookup_prefix`] does.
    pub fn lookup_prefix(&self, _: &Pinned<'_>, dst: A) -> Option<(IpPrefix<A>, NextHopId)> {
        self.0.matcher.find(dst).found_for(dst)
    }
}

impl Reader {
    /// Returns the prefetcher for later lookups; `None` if prefetching would not make lookups
    /// faster.
    #[inline(always)]
    pub fn ahead(&self) -> Option<Ahead<'_>> {
        self.0.matcher.table.get().map(|table| Ahead(table))
    }
}

/// Prefetches the cache lines of the IPv4 table that later lookups read.
#[derive(Clone, Copy)]
pub struct Ahead<'t>(&'t Table);

impl Ahead<'_> {
    /// Prefetches the cache line for a lookup of `dst`.
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

impl<A: Matched> fmt::Debug for Reader<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

/// The forwarding table of a host or router.
///
/// ```
/// # use linerate_fib::{Fib, NextHopId};
/// let (wan, lan) = (NextHopId::new(0).unwrap(), NextHopId::new(1).unwrap());
/// let mut fib: Fib = Fib::new();
/// fib.insert("0.0.0.0/0".parse()?, wan)?;
/// fib.insert("10.0.0.0/8".parse()?, lan)?;
/// assert_eq!(fib.lookup([10, 1, 2, 3].into()), Some(lan));
/// assert_eq!(fib.lookup([192, 0, 2, 1].into()), Some(wan));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Fib<A: Matched = u32> {
    routes: RouteMap<A>,
    shown: Arc<Shown<A>>,
    /// Free memory of the matcher, and removed memory that a reader may still use.
    spare: Spare,
    limit: usize,
}

impl<A: Matched> Fib<A> {
    /// Creates an empty table for up to four million routes, with readers on any thread.
    pub fn new() -> Fib<A> {
        Fib::with_limit(DEFAULT_LIMIT)
    }

    /// Creates an empty table for up to `limit` routes.
    pub fn with_limit(limit: usize) -> Fib<A> {
        Fib::with_readers(limit, USUAL_THREADS)
    }

    /// Creates an empty table for up to `limit` routes and `threads` expected reader threads
    /// ([`USUAL_THREADS`] is the default; 1 if the owner is the only reader).
    pub fn with_readers(limit: usize, threads: usize) -> Fib<A> {
        let shown = Arc::new(Shown { matcher: Default::default(), pins: Pins::new(threads) });
        Fib { routes: RouteMap::new(), shown, spare: Spare::default(), limit }
    }

    /// Uses huge pages for the arrays that are allocated from now on.
    pub fn with_huge_pages(mut self) -> Fib<A> {
        self.spare.pages = Pages::Huge2M;
        self
    }

    /// Returns a reader for other threads, usable while this table changes.
    pub fn reader(&self) -> Reader<A> {
        Reader(Arc::clone(&self.shown))
    }

    /// Routes `prefix` to `hop`; returns the previous next hop. The cost grows with the number of
    /// addresses: in the IPv4 table, one store per /24 in the prefix, or up to 48 stores for a
    /// prefix longer than 24 bits.
    ///
    /// # Errors
    /// [`FibFull`] for a new prefix when the limit is reached. Changing the next hop of an existing
    /// prefix always succeeds.
    pub fn insert(&mut self, prefix: IpPrefix<A>, hop: NextHopId) -> Result<Option<NextHopId>, FibFull> {
        let before = self.insert_stored(prefix, Stored { hop, note: Note::default() })?;
        Ok(before.map(|stored| stored.hop))
    }

    /// Adds or replaces a route as [`Fib::insert`] does, with a note. If the next hop does not
    /// change, readers see no store.
    ///
    /// # Errors
    /// The errors of [`Fib::insert`].
    pub fn insert_stored(&mut self, prefix: IpPrefix<A>, stored: Stored) -> Result<Option<Stored>, FibFull> {
        let len = self.routes.len();
        let replaced = match self.routes.entry(prefix) {
            Slot::Occupied(mut slot) => Some(slot.insert(stored)),
            Slot::Vacant(slot) => {
                if len >= self.limit || !A::Matcher::has_room(prefix, &self.spare) {
                    return Err(FibFull { limit: self.limit });
                }
                slot.insert(stored);
                None
            }
        };
        if replaced.is_none_or(|before| before.hop != stored.hop) {
            let Shown { matcher, pins } = &*self.shown;
            matcher.insert(prefix, stored.hop, &self.routes, &mut self.spare, pins);
        }
        Ok(replaced)
    }

    /// Removes the route to `prefix`; returns its next hop. Its addresses then use the longest
    /// remaining prefix that contains them.
    pub fn remove(&mut self, prefix: IpPrefix<A>) -> Option<NextHopId> {
        self.remove_stored(prefix).map(|stored| stored.hop)
    }

    /// Removes a route as [`Fib::remove`] does; returns its note, too.
    pub fn remove_stored(&mut self, prefix: IpPrefix<A>) -> Option<Stored> {
        let removed = self.routes.remove(&prefix)?;
        let Shown { matcher, pins } = &*self.shown;
        matcher.remove(prefix, covering(&self.routes, prefix), &mut self.spare, pins);
        Some(removed)
    }

    /// Returns the next hop of exactly this prefix.
    pub fn get(&self, prefix: IpPrefix<A>) -> Option<NextHopId> {
        self.get_stored(prefix).map(|stored| stored.hop)
    }

    /// Returns the next hop and note of exactly this prefix.
    pub fn get_stored(&self, prefix: IpPrefix<A>) -> Option<Stored> {
        self.routes.get(&prefix).copied()
    }

    /// Returns the next hop of exactly this prefix, and its note to be changed.
    pub fn note_mut(&mut self, prefix: IpPrefix<A>) -> Option<(NextHopId, &mut Note)> {
        self.routes.get_mut(&prefix).map(|stored| (stored.hop, &mut stored.note))
    }

    /// Returns the next hop of the longest prefix that contains `dst`.
    #[inline]
    pub fn lookup(&self, dst: A::Addr) -> Option<NextHopId> {
        self.shown.matcher.find(A::of(dst)).hop()
    }

    /// Looks up many addresses: `out[i]` becomes the next hop of `dst[i]`, an address in host byte
    /// order. The memory loads of a burst overlap, so a burst of 32 addresses or more costs a sixth
    /// less than a loop that calls `lookup`.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn lookup_burst(&self, dst: &[A], out: &mut [Option<NextHopId>]) {
        assert_eq!(dst.len(), out.len(), "lookup_burst: `dst` and `out` differ in length");
        self.shown.matcher.lookup_burst(dst, out);
    }

    /// Returns the next hop as [`Fib::lookup`] does, together with the prefix that matched. The
    /// command `route get` uses it.
    pub fn lookup_prefix(&self, dst: A::Addr) -> Option<(IpPrefix<A>, NextHopId)> {
        let dst = A::of(dst);
        self.shown.matcher.find(dst).found_for(dst)
    }

    /// Returns all routes ordered by address, a shorter prefix before the longer ones inside it.
    pub fn iter(&self) -> impl Iterator<Item = (IpPrefix<A>, NextHopId)> {
        self.iter_after(None).map(|(prefix, stored)| (prefix, stored.hop))
    }

    /// Returns the routes after `prefix`, or all, with their notes, in the order of [`Fib::iter`].
    pub fn iter_after(&self, prefix: Option<IpPrefix<A>>) -> impl Iterator<Item = (IpPrefix<A>, Stored)> {
        let from = prefix.map_or(Bound::Unbounded, Bound::Excluded);
        self.routes.range((from, Bound::Unbounded)).map(|(&prefix, &stored)| (prefix, stored))
    }

    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Returns whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Returns the memory reserved, in bytes. The arrays reserve 80 MB for IPv4 (112 MB with more
    /// than 254 next hops) and 64 MB for IPv6, but only pages with routes are resident. The memory
    /// of the ordered map is an estimate.
    pub fn bytes(&self) -> usize {
        let of_map = self.routes.len() * (MAP_BYTES_PER_ROUTE + 2 * (size_of::<A>() - size_of::<u32>()));
        size_of::<Fib<A>>() + size_of::<Shown<A>>() + of_map + self.shown.matcher.bytes() + self.spare.bytes()
    }
}

impl<A: Matched> Default for Fib<A> {
    fn default() -> Fib<A> {
        Fib::new()
    }
}

impl<A: Matched> fmt::Debug for Fib<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fib").field("routes", &self.len()).field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// Returns the longest route that contains `prefix` and is not `prefix`, as an entry.
///
/// In the order of the map, a covering route comes before `prefix`. Let `near` be the last route
/// before `prefix`. If `near` covers `prefix`, it is the result. Otherwise the two have their first
/// n bits in common, and every route that covers `prefix` is at most n bits long. The search
/// continues before the prefix of these n bits. Each step shortens n, so there are at most as many
/// steps as an address has bits; with a real table there are two or three.
fn covering<A: AddrBits>(routes: &RouteMap<A>, prefix: IpPrefix<A>) -> Entry {
    let mut below = routes.range(..prefix).next_back();
    while let Some((&near, stored)) = below {
        if near.covers(prefix) {
            return Entry::route(near.len(), stored.hop);
        }
        below = routes.range(..=prefix.common(near)).next_back();
    }
    Entry::NONE
}
