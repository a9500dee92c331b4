//! Tests of the semaphore's queue: first come, first served.

use super::*;
use crate::How;
use clock::Instant;

fn cx() -> Cx {
    Cx::enter(How::Register, Instant::ZERO)
}

/// Returns the number of threads waiting for the semaphore of `lock`.
fn waiting<T>(lock: &HeavyLock<T>) -> usize {
    object(lock.id).map_or(0, |semaphore| semaphore.state().waiting.len())
}

#[test]
fn waiters_are_served_in_order_of_arrival() {
    const THREADS: usize = 6;
    let lock = HeavyLock::new(Vec::new());
    std::thread::scope(|scope| {
        let mut guard = lock.lock(cx());
        for number in 0..THREADS {
            let lock = &lock;
            scope.spawn(move || lock.lock(cx()).push(number));
            // The next thread starts once this one is in the queue.
            while waiting(lock) <= number {
                std::thread::yield_now();
            }
        }
        guard.push(99);
        drop(guard);
    });
    assert_eq!(*lock.lock(cx()), [99, 0, 1, 2, 3, 4, 5]);
    assert_eq!((lock.acquisitions(), waiting(&lock)), (THREADS as u64 + 2, 0));
}

#[test]
fn a_release_hands_the_semaphore_over_so_that_none_overtakes_the_queue() {
    let lock = HeavyLock::new(Vec::new());
    std::thread::scope(|scope| {
        let guard = lock.lock(cx());
        scope.spawn(|| lock.lock(cx()).push("waiter"));
        while waiting(&lock) == 0 {
            std::thread::yield_now();
        }
        drop(guard);
        // The waiter already owns the semaphore, even if it is not running yet.
        lock.lock(cx()).push("releaser");
    });
    assert_eq!(*lock.lock(cx()), ["waiter", "releaser"]);
}

#[test]
fn an_object_is_found_by_its_identifier_until_its_lock_is_dropped() {
    let lock = HeavyLock::new(());
    let (id, semaphore) = (lock.id, Arc::downgrade(&object(lock.id).unwrap()));
    drop(lock.lock(cx()));
    assert_eq!(semaphore.upgrade().map(|semaphore| semaphore.state().acquisitions), Some(1));
    drop(lock);
    assert!(semaphore.upgrade().is_none(), "object {id} outlived its lock");
}
