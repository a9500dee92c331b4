#[cfg(not(loom))]
mod plain {
    use crate::Doorbell;
    use std::cell::Cell;

    #[test]
    fn the_doorbell_rings_once_per_sleep() {
        let (bell, rings) = (Doorbell::default(), Cell::new(0));
        let ring = || rings.set(rings.get() + 1);
        bell.wake(0, ring);
        assert_eq!(rings.get(), 0, "it is awake");
        bell.announce(100);
        bell.wake(100, ring);
        assert_eq!((rings.get(), bell.is_rung()), (0, false), "it wakes in time by itself");
        bell.wake(99, ring);
        bell.wake(0, ring);
        assert_eq!((rings.get(), bell.is_rung(), bell.withdraw()), (1, true, true));
        assert_eq!(bell.sleep(7, || true, || (), ring), None, "there is work");
        assert_eq!(bell.sleep(7, || false, || bell.wake(3, ring), ring), Some(()));
        assert_eq!(rings.get(), 3);
    }
}

#[cfg(loom)]
mod models {
    use crate::Doorbell;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::sync::{Arc, Condvar, Mutex};

    /// A sleeping thread: the time of its earliest work, and a flag in place of an eventfd.
    struct Sleeper {
        bell: Doorbell,
        due: AtomicU64,
        raised: Mutex<bool>,
        changed: Condvar,
    }

    impl Sleeper {
        fn bring(&self, at: u64) {
            self.due.fetch_min(at, Ordering::Relaxed);
            self.bell.wake(at, || {
                *self.raised.lock().unwrap() = true;
                self.changed.notify_one();
            });
        }

        /// Sleeps until time 10, which is never reached, unless work arrives before.
        fn sleep(&self) {
            let stay = || self.due.load(Ordering::Relaxed) < 10;
            let sleep = || {
                let mut raised = self.raised.lock().unwrap();
                while !*raised {
                    raised = self.changed.wait(raised).unwrap();
                }
            };
            self.bell.sleep(10, stay, sleep, || {});
            assert!(self.due.load(Ordering::Relaxed) < 10);
        }
    }

    /// If a thread sleeps although there is work, it never wakes up, which loom reports as a
    /// deadlock.
    #[test]
    fn loom_no_work_is_slept_over() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let sleeper = Arc::new(Sleeper {
                bell: Doorbell::default(),
                due: AtomicU64::new(u64::MAX),
                raised: Mutex::new(false),
                changed: Condvar::new(),
            });
            let bringers: Vec<_> = [5, 7]
                .into_iter()
                .map(|at| {
                    let sleeper = sleeper.clone();
                    loom::thread::spawn(move || sleeper.bring(at))
                })
                .collect();
            sleeper.sleep();
            bringers.into_iter().for_each(|bringer| bringer.join().unwrap());
        });
    }
}
