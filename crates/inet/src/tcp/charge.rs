//! Accounting of the memory that the connections of a host use, and the levels of shortage.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory used by all connections of a host.
#[derive(Debug)]
pub(crate) struct Used {
    pub(super) bytes: AtomicUsize,
    pub(super) orphans: AtomicUsize,
    /// Waiting writers are woken when fewer bytes than this are in use; 0 if no writer waits.
    pub(super) wake_below: AtomicUsize,
    /// True if several threads use the host. On a host with a single thread, a locked instruction
    /// of about 20 ticks is avoided.
    pub(super) shared: bool,
}

impl Used {
    /// Creates the counters with nothing in use. `shared` is set if several threads use the host.
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

    /// Returns whether a writer waits for memory that may now be available.
    #[inline]
    pub(super) fn is_awaited(&self) -> bool {
        let below = self.wake_below.load(Ordering::Relaxed);
        below != 0 && self.bytes.load(Ordering::Relaxed) < below
    }

    /// Records that a writer waits until fewer bytes than `below` are in use.
    pub(super) fn await_below(&self, below: usize) {
        self.wake_below.fetch_max(below.max(1), Ordering::SeqCst);
    }

    /// Counts another orphan (a connection whose socket is closed), if there are fewer than `most`.
    /// Returns whether it was counted.
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

/// Memory charged to one connection. Dropping this value releases it.
#[derive(Debug)]
pub(crate) struct Charge {
    pub(super) to: Arc<Used>,
    pub(super) bytes: u32,
    pub(super) orphan: bool,
}

/// Minimum change in bytes for which the shared counter is updated.
pub(super) const PAGE: usize = 4096;

impl Charge {
    pub(crate) fn to(used: &Arc<Used>) -> Charge {
        Charge { to: Arc::clone(used), bytes: 0, orphan: false }
    }

    #[inline]
    pub(super) fn set(&mut self, bytes: usize) {
        // A charge set by [`Charge::set_exactly`] may be smaller than a page. Therefore a change to
        // 0 is always made.
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

    /// Marks the connection as an orphan. Returns `false` if there are already `most` orphans.
    pub(crate) fn orphaned(&mut self, most: i64) -> bool {
        if self.orphan {
            return true;
        }
        self.orphan = self.to.add_orphan(most);
        self.orphan
    }

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

/// State of a connection's writer, which may be waiting for memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum MemoryWait {
    /// The writer does not wait.
    #[default]
    No,
    /// The writer no longer waits, but is still in the list of waiting writers.
    Listed,
    /// The writer waits: it is in the list, and the socket is not writable.
    Starved,
}

/// Level of memory shortage, by the share of `net.inet.tcp.memlimit` that is in use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Shortage {
    /// No shortage.
    None,
    /// Half of the memory limit is in use: segments that arrive out of order are dropped.
    OutOfOrder,
    /// Three quarters of the limit are in use: buffers stop growing.
    Growth,
    /// All of the limit is in use.
    All,
}

/// Returns the memory limit of TCP: three quarters of a pool, in bytes. The rest of the pool is for
/// frames in transit.
pub(crate) fn share_of(pool: &buf::PoolStats) -> usize {
    pool.buffers.saturating_mul(pool.size) / 4 * 3
}
