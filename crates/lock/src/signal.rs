//! A signal: how a thread that found nothing waits for one that brings something.
//!
//! Raising it costs one load when nobody waits. A blocking wake-up across virtual cores costs about 100,000 ticks here,
//! so those who can spin should, before they wait.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Something to wait on.
#[derive(Debug, Default)]
pub struct Signal {
    waiting: AtomicU32,
    raised: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    /// Wakes everybody who waits. Whatever they wait for must be visible (a lock released) before.
    #[inline(always)]
    pub fn raise(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Waits until `ready` gives something or `timeout` has passed (`None`: for ever). `ready` is asked first, then after
    /// every raise; it must take the lock under which the raiser brings things.
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
    fn a_wait_in_vain_ends_in_time() {
        let start = Instant::now();
        assert_eq!(Signal::default().wait_for(Some(Duration::from_millis(20)), || None::<()>), None);
        assert!(start.elapsed() >= Duration::from_millis(20));
    }
}
