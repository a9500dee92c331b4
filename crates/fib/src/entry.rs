//! Next-hop numbers, and entries as the matchers store them.

use super::prefix::{AddrBits, IpPrefix};
use std::fmt;
use std::num::NonZeroU32;

/// Number of addresses of a burst that are looked up together. The measured time is the same with
/// 16 or 64.
pub(super) const CHUNK: usize = 32;
/// Maximum number of routes of a table created by `Fib::new`: four times the IPv4 Internet table of
/// 2026.
pub const DEFAULT_LIMIT: usize = 4_000_000;

/// Index into the caller's next-hop table, at most [`NextHopId::MAX`].
///
/// It is stored as index + 1, so that `Option<NextHopId>` takes four bytes, and 0 in a table entry
/// means `None`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHopId(NonZeroU32);

impl NextHopId {
    /// The largest index. A table entry has 23 bits for the index + 1, and the value 0 means "no
    /// route".
    pub const MAX: u32 = (1 << 23) - 2;

    /// Creates the number for an index; `None` above [`NextHopId::MAX`].
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

    /// Returns the index into the next-hop table.
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

/// A lookup result as the matchers store it: the next hop and the length of the matching prefix.
///
/// | bits | 31 | 30..23 | 22..0 |
/// |---|---|---|---|
/// | no route | 0 | 0 | 0 |
/// | route | 0 | prefix length + 1 | next hop index + 1 |
/// | reference | 1 | in bits 30..0, the number of a group of entries and, in a trie, its kind ||
///
/// The order of the fields makes entries comparable: every entry that a prefix of length n may
/// overwrite is, as a number, below `Entry::bound(n)`.
#[derive(Copy, Clone, PartialEq, Eq)]
#[repr(transparent)]
pub struct Entry(pub(super) u32);

impl Entry {
    pub(super) const NONE: Entry = Entry(0);
    pub(super) const LEN_AT: u32 = 23;
    pub(super) const HOP: u32 = (1 << Entry::LEN_AT) - 1;

    pub(super) fn route(len: u8, hop: NextHopId) -> Entry {
        Entry((u32::from(len) + 1) << Entry::LEN_AT | hop.0.get())
    }

    /// Returns the lower bound, as a number, of the entries of prefixes longer than `len`.
    /// References to groups are above it, too.
    pub(super) fn bound(len: u8) -> u32 {
        (u32::from(len) + 2) << Entry::LEN_AT
    }

    /// Returns this entry or, if it belongs to the default route, "no route", since the default
    /// route is stored separately.
    pub(super) fn beside_default(self) -> Entry {
        if self.0 < Entry::bound(0) { Entry::NONE } else { self }
    }

    #[inline(always)]
    pub(super) fn hop(self) -> Option<NextHopId> {
        NonZeroU32::new(self.0 & Entry::HOP).map(NextHopId)
    }

    /// Returns the prefix and next hop of the route that this entry, found for `dst`, belongs to.
    pub(super) fn found_for<A: AddrBits>(self, dst: A) -> Option<(IpPrefix<A>, NextHopId)> {
        let len = (self.0 >> Entry::LEN_AT).checked_sub(1)? as u8;
        Some((IpPrefix::masked(dst, len), self.hop()?))
    }
}
