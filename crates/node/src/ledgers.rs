//! Cost ledgers (CPU ticks by processing stage) of hosts that have ended, if accounting was enabled
//! before the hosts were created (`linerate profile --ledger`).
//!
//! While accounting is disabled, it costs only the reading of a flag when a host is created and
//! when it ends. Once it is enabled, every new host counts its TSC ticks by stage, and stores the
//! sums in this module when it ends. The sums of at most [`KEPT_MAX`] hosts are stored; further
//! hosts are only counted.

use stats::Costs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of hosts whose costs are stored.
pub const KEPT_MAX: usize = 1024;

/// Costs of a host that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Name of the host.
    pub host: String,
    /// Ticks by stage of the packet path, with the number of counter readings.
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

/// Removes and returns the costs stored so far, and the number of hosts whose costs were not
/// stored.
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
