//! Tests of the number of atomic operations of a light lock, and of waiting threads.

use super::*;
use crate::How;
use clock::Instant;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32};

thread_local! {
    static WRITES: Cell<Writes> = const { Cell::new(Writes { compare_exchange: 0, swap: 0 }) };
}

/// Number of atomic operations on owner words by this thread that may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Writes {
    compare_exchange: u32,
    swap: u32,
}

/// Type of the owner word in tests, which counts writes. It has no other writing methods, so every
/// write is counted.
#[derive(Debug, Default)]
pub(super) struct CountedU32(AtomicU32);

impl CountedU32 {
    pub(super) fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }

    pub(super) fn compare_exchange(&self, from: u32, to: u32, done: Ordering, not: Ordering) -> Result<u32, u32> {
        WRITES.set(Writes { compare_exchange: WRITES.get().compare_exchange + 1, ..WRITES.get() });
        self.0.compare_exchange(from, to, done, not)
    }

    pub(super) fn swap(&self, to: u32, order: Ordering) -> u32 {
        WRITES.set(Writes { swap: WRITES.get().swap + 1, ..WRITES.get() });
        self.0.swap(to, order)
    }
}

fn cx() -> Cx {
    Cx::enter(How::Register, Instant::ZERO)
}

#[test]
fn an_uncontended_lock_is_one_compare_and_swap_and_an_unlock_one_exchange() {
    let lock = LightLock::new(7u64);
    let cx = cx();
    WRITES.set(Writes::default());
    let guard = lock.lock(cx);
    assert_eq!(WRITES.get(), Writes { compare_exchange: 1, swap: 0 });
    drop(guard);
    assert_eq!(WRITES.get(), Writes { compare_exchange: 1, swap: 1 });
    for _ in 0..99 {
        *lock.lock(cx) += 1;
    }
    assert_eq!(WRITES.get(), Writes { compare_exchange: 100, swap: 100 });
    assert_eq!((lock.acquisitions(), *lock.lock(cx)), (100, 106));
}

#[test]
fn acquisitions_are_read_while_the_lock_is_held() {
    let lock = LightLock::new(());
    let _guard = lock.lock(cx());
    assert_eq!(lock.acquisitions(), 1);
}

#[test]
fn a_thread_that_waits_past_spinning_is_woken_by_the_release() {
    let (lock, entered) = (LightLock::new(0u64), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let guard = lock.lock(cx());
        scope.spawn(|| {
            *lock.lock(cx()) += 1;
            entered.store(true, Ordering::Release);
        });
        while !lock.owner.has_waiters() {
            std::thread::yield_now();
        }
        assert!(!entered.load(Ordering::Acquire), "it entered beside the owner");
        drop(guard);
    });
    assert_eq!((*lock.lock(cx()), lock.acquisitions()), (1, 3));
    drop(lock.lock(cx()));
    assert!(!lock.owner.has_waiters(), "the mark goes with the last who waited");
}

#[test]
fn a_lock_is_free_again_after_a_panic_under_it() {
    let lock = LightLock::new(1u64);
    let died = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let mut guard = lock.lock(cx());
                *guard = 2;
                panic!("on purpose");
            })
            .join()
    });
    assert!(died.is_err());
    assert_eq!(*lock.lock(cx()), 2);
}
