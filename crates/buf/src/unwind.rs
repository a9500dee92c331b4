//! Count of frames that are dropped because a thread unwinds. No drop counter includes them, so
//! this count must be added when the frames received are compared with those sent and dropped.
//!
//! Compiled out if panics abort, as in the release build.

#[cfg(panic = "unwind")]
std::thread_local! {
    static ENDED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts `frames` as dropped by unwinding, if the thread is unwinding.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn note(frames: usize) {
    #[cfg(panic = "unwind")]
    if std::thread::panicking() {
        ENDED.set(ENDED.get() + frames as u64);
    }
    #[cfg(not(panic = "unwind"))]
    let _ = frames;
}

/// Returns the number of frames that the calling thread has dropped while unwinding.
pub fn unwound() -> u64 {
    #[cfg(panic = "unwind")]
    return ENDED.get();
    #[cfg(not(panic = "unwind"))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Burst, Pool, PoolConfig};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn only_panics_are_counted() {
        let pool = Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap();
        let before = unwound();
        drop(pool.get());
        let died = catch_unwind(AssertUnwindSafe(|| {
            let mut burst = Burst::new();
            pool.get_burst(10, &mut burst);
            drop(burst.pop());
            let _one = pool.get();
            panic!("in the middle of it");
        }));
        assert!(died.is_err());
        assert_eq!((unwound() - before, pool.stats().live()), (10, 0));
        let elsewhere = std::thread::scope(|scope| scope.spawn(unwound).join().unwrap());
        assert_eq!(elsewhere, 0, "each thread its own");
    }
}
