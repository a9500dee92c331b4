//! Loom model of every interleaving of a `SwitchThread` and the threads that request its lock or
//! send it frames. A lost wake-up causes a deadlock, which loom reports.

use super::LockRequests;
use crate::switch::exchange::{Arrivals, Outbox};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(check);
}

/// Model of the pipe: the number of bytes written and not yet read.
#[derive(Default)]
struct Pipe {
    bytes: Mutex<usize>,
    written: Condvar,
}

impl Pipe {
    fn write(&self) {
        let mut bytes = self.bytes.lock().unwrap();
        *bytes += 1;
        assert_eq!(*bytes, 1, "at most one byte per sleep, so that the pipe never fills");
        self.written.notify_one();
    }

    fn wait(&self) -> loom::sync::MutexGuard<'_, usize> {
        let mut bytes = self.bytes.lock().unwrap();
        while *bytes == 0 {
            bytes = self.written.wait(bytes).unwrap();
        }
        bytes
    }

    fn read(&self) {
        *self.wait() -= 1;
    }
}

#[derive(Default)]
struct Called {
    lock_requests: LockRequests,
    pipe: Pipe,
}

impl Called {
    fn wake(&self) {
        self.lock_requests.wake(|| self.pipe.write());
    }

    fn sleep(&self, stay: impl FnOnce() -> bool) {
        self.lock_requests.sleep(stay, || drop(self.pipe.wait()), || self.pipe.read());
    }

    fn is_at_rest(&self) -> bool {
        *self.pipe.bytes.lock().unwrap() == 0 && !self.lock_requests.is_pending()
    }
}

#[test]
fn loom_lock_requests_a_thread_does_not_sleep_over_what_it_was_sent() {
    model(|| {
        let (called, sent) = (Arc::new(Called::default()), Arc::new(AtomicUsize::new(0)));
        let senders = [0, 1].map(|_| {
            let (called, sent) = (called.clone(), sent.clone());
            loom::thread::spawn(move || {
                sent.fetch_add(1, Ordering::Release);
                called.wake();
            })
        });
        let mut seen = 0;
        while seen < 2 {
            seen = sent.load(Ordering::Acquire);
            if seen < 2 {
                called.sleep(|| sent.load(Ordering::Acquire) > seen);
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(called.is_at_rest());
    });
}

#[test]
fn loom_lock_requests_a_thread_that_holds_its_lock_asleep_lets_go_when_asked() {
    model(|| {
        let (called, thread) = (Arc::new(Called::default()), Arc::new(Mutex::new(0)));
        let (asks, wanted) = (called.clone(), thread.clone());
        let asker = loom::thread::spawn(move || {
            let mut held = asks.lock_requests.request(|| asks.pipe.write(), || wanted.lock().unwrap());
            *held += 1; // changed the state of the thread
        });
        loop {
            let held = thread.lock().unwrap();
            if *held > 0 {
                break;
            }
            called.sleep(|| false); // lock held: only a request ends it
            let requested = called.lock_requests.is_pending();
            drop(held);
            if requested {
                loom::thread::yield_now(); // it sleeps for 20 µs then
            }
        }
        asker.join().unwrap();
        assert!(called.is_at_rest());
    });
}

#[test]
fn loom_lock_requests_frames_of_two_workers_all_leave_in_the_order_of_each() {
    model(|| {
        let (called, outbox) = (Arc::new(Called::default()), std::sync::Arc::new(Outbox::<u32>::default()));
        let workers = [10, 20].map(|first| {
            let (called, outbox) = (called.clone(), outbox.clone());
            loom::thread::spawn(move || {
                let mut left = [first + 1, first].to_vec();
                for _ in 0..2 {
                    assert_eq!(outbox.push(1, || left.pop()), 1);
                    called.wake();
                }
            })
        });
        let (mut arrivals, mut left) = (Arrivals::Queue(outbox), Vec::new());
        while left.len() < 4 {
            arrivals.pop_into(4, |frame| left.push(frame));
            if left.len() < 4 {
                called.sleep(|| arrivals.level() > 0);
            }
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        let of = |first: u32| left.iter().copied().filter(|n| (first..first + 2).contains(n)).collect::<Vec<_>>();
        assert_eq!((of(10), of(20)), (vec![10, 11], vec![20, 21]));
        assert!(called.is_at_rest() && arrivals.level() == 0);
    });
}
