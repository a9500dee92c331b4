//! Cycle accounting of hosts that have ended, if enabled before their creation
//! (`linerate profile --ledger`).
//!
//! When accounting is disabled, the creation and the end of a host each read one flag. When it is
//! enabled, every host created from then on counts its TSC ticks by stage, and stores the sums here
//! when it ends. The sums of at most [`KEPT_MAX`] hosts are kept; further hosts are only counted.

use stats::Costs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of hosts whose costs are kept.
pub const KEPT_MAX: usize = 1024;

/// Costs of a host that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Name of the host.
    pub host: String,
    /// Ticks by stage of the packet path, with the number of readings of the counter.
    pub costs: Costs,
}

static KEEPING: AtomicBool = AtomicBool::new(false);
static KEPT: Mutex<(Vec<Kept>, u64)> = Mutex::new((Vec::new(), 0));

/// Enables accounting for hosts created from now on.
pub fn keep() {
    KEEPING.store(true, Ordering::Relaxed);
}

pub(crate) fn keeping() -> bool {
    KEEPING.load(Ordering::Relaxed)
}

pub(crate) fn leave(kept: Kept) {
    let (all, beyond) = &mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() < KEPT_MAX { all.push(kept) } else { *beyond += 1 }
}

/// Removes and returns the costs kept so far, and the number of hosts whose costs were not kept.
pub fn take() -> (Vec<Kept>, u64) {
    std::mem::take(&mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_ledgers_are_counted_until_taken() {
        let kept = Kept { host: "a".into(), costs: Costs { readings: 2, ..Costs::default() } };
        (0..KEPT_MAX + 3).for_each(|_| leave(kept.clone()));
        let (all, beyond) = take();
        assert_eq!((all.len(), beyond), (KEPT_MAX, 3));
        assert!(all.iter().all(|one| *one == kept));
        assert_eq!(take(), (Vec::new(), 0));
    }
}
