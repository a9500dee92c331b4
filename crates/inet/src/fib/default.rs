//! The default route, which stands beside a matcher: in it, it would touch every entry.

use super::entry::Entry;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The default route's entry, with the number of its changes in the upper half: a reader that finds no route must
/// know that the default route that it has read was the default route then.
#[derive(Default)]
pub(super) struct DefaultRoute(AtomicU64);

/// The default route as a reader found it.
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

    /// Returns whether it is the one that was read; what was loaded before is not moved behind this.
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
