//! The cost ledgers of hosts that are gone, for who asked for them before (`linerate profile --ledger`).
//!
//! Off, a host's making and end each look at one flag. On, every host made from then on books its ticks, and leaves the
//! sums here when it ends. At most [`KEPT_MAX`] are kept; what comes after is counted.

use stats::Costs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// So many hosts' ledgers are kept.
pub const KEPT_MAX: usize = 1024;

/// What a host's ledger said at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The host.
    pub host: String,
    /// By stage, with the readings of the counter.
    pub costs: Costs,
}

static KEEPING: AtomicBool = AtomicBool::new(false);
static KEPT: Mutex<(Vec<Kept>, u64)> = Mutex::new((Vec::new(), 0));

/// Hosts made from now on have their ledgers on, and leave them here.
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

/// What was left so far, and how many more were not kept.
pub fn take() -> (Vec<Kept>, u64) {
    std::mem::take(&mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_kept_and_the_others_counted_until_they_are_taken() {
        let kept = Kept { host: "a".into(), costs: Costs { readings: 2, ..Costs::default() } };
        (0..KEPT_MAX + 3).for_each(|_| leave(kept.clone()));
        let (all, beyond) = take();
        assert_eq!((all.len(), beyond), (KEPT_MAX, 3));
        assert!(all.iter().all(|one| *one == kept));
        assert_eq!(take(), (Vec::new(), 0));
    }
}
