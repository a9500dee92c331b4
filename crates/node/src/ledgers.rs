//! Cycle accounting of hosts that have ended, if enabled before their creation
//! (`linerate profile --ledger`).
//!
//! When disabled, the creation and the end of a host each read one flag. When enabled, every host
//! created from then on accounts its ticks, and stores the sums here when it ends. At most
//! [`KEPT_MAX`] are kept; the rest is counted.

use stats::Costs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of accounts kept.
pub const KEPT_MAX: usize = 1024;

/// Account of a host at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Name of the host.
    pub host: String,
    /// Cost by stage, with the number of counter readings.
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

/// Returns the accounts kept so far, and the number of further ones that were not kept.
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
