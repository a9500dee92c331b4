//! A signal: threads and tasks wait for it until another thread raises it, for example because data
//! has arrived.
//!
//! Raising it costs one load if no thread waits. Waking a sleeping thread on another virtual core
//! costs about 100,000 ticks (measured in a virtual machine), so callers that can spin should do so
//! before they wait.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// A condition that threads and tasks can wait for.
#[derive(Debug, Default)]
pub struct Signal {
    waiting: AtomicU32,
    raised: Mutex<u64>,
    changed: Condvar,
    tasks: Mutex<Vec<Waker>>,
}

impl Signal {
    /// Wakes all waiting threads and tasks. The caller must have made its change visible before, by
    /// releasing the lock.
    #[inline(always)]
    pub fn raise(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let (task, others) = {
            let mut tasks = self.tasks();
            // If one task is registered, `pop` keeps the vector's memory for the next registration.
            let task = tasks.pop();
            (task, if tasks.is_empty() { Vec::new() } else { std::mem::take(&mut *tasks) })
        };
        let tasks = others.len() as u32 + u32::from(task.is_some());
        // Threads are notified only if some wait, because `notify_all` is a system call.
        if self.waiting.fetch_sub(tasks, Ordering::SeqCst) > tasks {
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            self.changed.notify_all();
        }
        others.into_iter().chain(task).for_each(Waker::wake);
    }

    /// Registers a task to be woken when the signal is raised next. The caller must check its
    /// condition again after this call. A task that is already registered is not registered twice.
    pub fn wake_task(&self, waker: &Waker) {
        let mut tasks = self.tasks();
        if !tasks.iter().any(|other| other.will_wake(waker)) {
            tasks.push(waker.clone());
            self.waiting.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready` returns a value or `timeout` has passed (`None`: no timeout). Calls
    /// `ready` first, and again after every raise. `ready` must take the lock under which the other
    /// thread makes its changes.
    pub fn wait_for<T>(&self, timeout: Option<Duration>, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let found = loop {
            let seen = *self.raised.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = ready() {
                break Some(found);
            }
            let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
            while *raised == seen {
                let left = match deadline {
                    Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                    None => Duration::from_secs(3600),
                };
                if left.is_zero() {
                    drop(raised);
                    self.waiting.fetch_sub(1, Ordering::SeqCst);
                    return ready();
                }
                raised = self.changed.wait_timeout(raised, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn nothing_raised_is_lost() {
        let (signal, brought) = (Arc::new(Signal::default()), Arc::new(Mutex::new(0u64)));
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let (signal_there, brought_there) = (signal.clone(), brought.clone());
            scope.spawn(move || {
                for _ in 0..2_000 {
                    *brought_there.lock().unwrap() += 1;
                    signal_there.raise();
                }
            });
            while taken.load(Ordering::Relaxed) < 2_000 {
                let got = signal.wait_for(Some(Duration::from_secs(10)), || {
                    let mut brought = brought.lock().unwrap();
                    (*brought > 0).then(|| std::mem::take(&mut *brought))
                });
                taken.fetch_add(got.expect("a raise was lost"), Ordering::Relaxed);
            }
        });
    }

    #[test]
    fn a_wait_without_a_signal_times_out() {
        let start = Instant::now();
        assert_eq!(Signal::default().wait_for(Some(Duration::from_millis(20)), || None::<()>), None);
        assert!(start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_task_is_woken_once_for_each_time_it_asked() {
        struct Count(AtomicU64);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (signal, count) = (Signal::default(), Arc::new(Count(AtomicU64::new(0))));
        let woken = || count.0.load(Ordering::Relaxed);
        let waker = Waker::from(count.clone());
        signal.raise();
        assert_eq!(woken(), 0, "it has not asked");
        signal.wake_task(&waker);
        signal.wake_task(&waker.clone());
        signal.raise();
        signal.raise();
        assert_eq!(woken(), 1);
        assert_eq!(signal.waiting.load(Ordering::SeqCst), 0);
        signal.wake_task(&waker);
        signal.raise();
        assert_eq!(woken(), 2);
    }
}
