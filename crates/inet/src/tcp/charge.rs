//! Memory charged to a host's connections, and levels of shortage.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory charged to all connections of a host.
#[derive(Debug)]
pub(crate) struct Used {
    pub(super) bytes: AtomicUsize,
    pub(super) orphans: AtomicUsize,
    /// Writers wait for fewer bytes than this to be held; 0: none waits.
    pub(super) wake_below: AtomicUsize,
    /// Several threads may be in the host at one time. With one a locked instruction, some 20 ticks, is for nothing.
    pub(super) shared: bool,
}

impl Used {
    /// Nothing yet, of a host that is `shared` by several threads or not.
    pub(crate) fn new(shared: bool) -> Used {
        Used { bytes: AtomicUsize::new(0), orphans: AtomicUsize::new(0), wake_below: AtomicUsize::new(0), shared }
    }

    #[inline]
    pub(super) fn add(&self, sum: &AtomicUsize, n: usize) {
        match self.shared {
            true => _ = sum.fetch_add(n, Ordering::Relaxed),
            false => sum.store(sum.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed),
        }
    }

    /// Returns whether a writer waits for memory that may be there now.
    #[inline]
    pub(super) fn is_awaited(&self) -> bool {
        let below = self.wake_below.load(Ordering::Relaxed);
        below != 0 && self.bytes.load(Ordering::Relaxed) < below
    }

    /// A writer waits until fewer bytes than `below` are held.
    pub(super) fn await_below(&self, below: usize) {
        self.wake_below.fetch_max(below.max(1), Ordering::SeqCst);
    }

    /// One more that no process holds, if there are fewer than `most`.
    #[inline]
    pub(super) fn add_orphan(&self, most: i64) -> bool {
        let less = |n: usize| usize::try_from(most).is_ok_and(|most| n < most).then_some(n + 1);
        match self.shared {
            true => self.orphans.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok(),
            false => {
                less(self.orphans.load(Ordering::Relaxed)).map(|n| self.orphans.store(n, Ordering::Relaxed)).is_some()
            }
        }
    }
}

/// Memory charged to one connection; given back on drop.
#[derive(Debug)]
pub(crate) struct Charge {
    pub(super) to: Arc<Used>,
    pub(super) bytes: u32,
    pub(super) orphan: bool,
}

/// Differences smaller than this are not worth a shared word.
pub(super) const PAGE: usize = 4096;

impl Charge {
    pub(crate) fn to(used: &Arc<Used>) -> Charge {
        Charge { to: Arc::clone(used), bytes: 0, orphan: false }
    }

    #[inline]
    pub(super) fn set(&mut self, bytes: usize) {
        // A few bytes may be charged exactly.
        if bytes.abs_diff(self.bytes as usize) >= PAGE || bytes == 0 && self.bytes != 0 {
            self.set_exactly(bytes);
        }
    }

    #[inline(never)]
    pub(super) fn set_exactly(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.to.add(&self.to.bytes, (bytes as usize).wrapping_sub(self.bytes as usize));
        self.bytes = bytes;
    }

    /// No process holds the connection any more; `false` if there are `most` of these already.
    pub(crate) fn orphaned(&mut self, most: i64) -> bool {
        if self.orphan {
            return true;
        }
        self.orphan = self.to.add_orphan(most);
        self.orphan
    }

    /// Gives all back.
    pub(super) fn clear(&mut self) {
        if self.bytes > 0 {
            self.set_exactly(0);
        }
        if self.orphan {
            self.to.add(&self.to.orphans, 1usize.wrapping_neg());
        }
        self.orphan = false;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.clear();
    }
}

/// State of a connection's writer with respect to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum MemoryWait {
    /// It does not.
    #[default]
    No,
    /// It did, and is in the list of those that wait.
    Listed,
    /// It does: it is in the list, and not writable.
    Starved,
}

/// Level of memory shortage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Shortage {
    /// Not at all.
    None,
    /// Half the limit: nothing more is kept out of order.
    OutOfOrder,
    /// Three quarters: buffers stay as large as they are.
    Growth,
    /// The limit.
    All,
}

/// Three quarters of a pool: what is left is for frames on their way.
pub(crate) fn share_of(pool: &buf::PoolStats) -> usize {
    pool.buffers.saturating_mul(pool.size) / 4 * 3
}
