//! Loom models of all interleavings of two and of three threads that acquire the same lock. Loom
//! reports a lost wake-up as a deadlock, and two owners at once as a data race on the cell.

use super::Owner;
use loom::cell::UnsafeCell;
use loom::sync::Arc;

struct Locked {
    owner: Owner,
    value: UnsafeCell<u32>,
}

impl Locked {
    fn add(&self, me: u32) {
        self.owner.acquire(me);
        // SAFETY: `me` is the owner; loom fails the model if another access overlaps.
        self.value.with_mut(|value| unsafe { *value += 1 });
        self.owner.release();
    }
}

fn threads_add(threads: u32, times: u32, preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let locked = Arc::new(Locked { owner: Owner::default(), value: UnsafeCell::new(0) });
        let adders: Vec<_> = (2..=threads)
            .map(|me| {
                let locked = locked.clone();
                loom::thread::spawn(move || (0..times).for_each(|_| locked.add(me)))
            })
            .collect();
        (0..times).for_each(|_| locked.add(1));
        for adder in adders {
            adder.join().unwrap();
        }
        locked.owner.acquire(1);
        // SAFETY: same as in `add`.
        assert_eq!(locked.value.with(|value| unsafe { *value }), threads * times);
        locked.owner.release();
    });
}

#[test]
fn loom_light_two_threads_exclude_each_other_and_both_come_through() {
    threads_add(2, 2, 4);
}

#[test]
fn loom_light_of_three_threads_none_sleeps_for_ever() {
    threads_add(3, 1, 3);
}
