//! The default route. It is stored separately from the array or trie of a matcher, since a change
//! of it would overwrite many entries there.

use super::entry::Entry;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Entry of the default route in the lower half, and a count of its changes in the upper half. A
/// reader that finds no other route uses the count to check that the default route did not change
/// during the lookup.
#[derive(Default)]
pub(super) struct DefaultRoute(AtomicU64);

/// Value of the default route that a reader loaded.
#[derive(Clone, Copy)]
pub(super) struct DefaultRead(u64);

impl DefaultRead {
    #[inline(always)]
    pub(super) fn entry(self) -> Entry {
        Entry(self.0 as u32)
    }
}

impl DefaultRoute {
    #[inline(always)]
    pub(super) fn read(&self) -> DefaultRead {
        DefaultRead(self.0.load(Ordering::Acquire))
    }

    /// Returns whether the default route is unchanged since `read`. Earlier loads are not reordered
    /// after this check.
    #[inline(always)]
    pub(super) fn is_still(&self, read: DefaultRead) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == read.0
    }

    pub(super) fn set(&self, entry: Entry) {
        let changes = (self.0.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        self.0.store(changes << 32 | u64::from(entry.0), Ordering::Release);
    }
}
