//! Starts worker threads: named, and optionally pinned to a core.
//!
//! All threads of the program start here, so that a function set by [`on_thread`] can measure each
//! of them.

use crate::affinity::pin_to_core;
use std::any::Any;
use std::io;
use std::sync::OnceLock;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Function called on a thread before its work. The value that it returns is dropped on that thread
/// after the work.
pub type OnThread = fn() -> Option<Box<dyn Any>>;

static ON_THREAD: OnceLock<OnThread> = OnceLock::new();

/// Sets the function that each thread started here calls first. A process has only one such
/// function. Returns `false` if a different one was already set.
pub fn on_thread(begins: OnThread) -> bool {
    std::ptr::fn_addr_eq(*ON_THREAD.get_or_init(|| begins), begins)
}

fn observed<R>(work: impl FnOnce() -> R) -> R {
    let _observer = ON_THREAD.get().and_then(|begins| begins());
    work()
}

/// Runs `work` on a new thread called `name`, pinned to `core` if given. If pinning fails, the
/// thread runs nevertheless, and the error is passed to `work`.
///
/// # Errors
/// System error if the thread cannot be created.
pub fn spawn_worker<R: Send + 'static>(
    name: &str,
    core: Option<usize>,
    work: impl FnOnce(Option<io::Error>) -> R + Send + 'static,
) -> io::Result<JoinHandle<R>> {
    Builder::new()
        .name(name.to_string())
        .spawn(move || observed(|| work(core.and_then(|core| pin_to_core(core).err()))))
}

/// Runs `work` on a new thread called `name`, which ends before `scope` ends.
///
/// # Errors
/// System error if the thread cannot be created.
pub fn spawn_scoped<'scope, R: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> R + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, R>> {
    Builder::new().name(name.to_string()).spawn_scoped(scope, || observed(work))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_worker_has_its_name_and_its_core() {
        let worker = spawn_worker("w7", Some(0), |pin_error| {
            assert!(pin_error.is_none(), "{pin_error:?}");
            std::thread::current().name().map(str::to_string)
        });
        assert_eq!(worker.unwrap().join().unwrap().as_deref(), Some("w7"));
        let off = spawn_worker("off", Some(100_000), |pin_error| pin_error.is_some());
        assert!(off.unwrap().join().unwrap(), "a nonexistent core is reported, but is not fatal");
    }

    #[test]
    fn observers_are_called_at_each_threads_start_and_end() {
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        struct End;
        impl Drop for End {
            fn drop(&mut self) {
                ENDED.fetch_add(1, Ordering::SeqCst);
            }
        }
        fn begins() -> Option<Box<dyn Any>> {
            // Threads of other tests call this function too.
            let ours = std::thread::current().name() == Some("observed");
            ours.then(|| BEGUN.fetch_add(1, Ordering::SeqCst)).map(|_| Box::new(End) as Box<dyn Any>)
        }
        assert!(on_thread(begins));
        assert!(on_thread(begins), "the same function can be set again");
        assert!(!on_thread(|| None), "a different function is already set");
        spawn_worker("observed", None, |_| assert_eq!(BEGUN.load(Ordering::SeqCst), 1)).unwrap().join().unwrap();
        assert_eq!(ENDED.load(Ordering::SeqCst), 1);
        std::thread::scope(|scope| {
            let work = || assert_eq!((BEGUN.load(Ordering::SeqCst), ENDED.load(Ordering::SeqCst)), (2, 1));
            spawn_scoped(scope, "observed", work).unwrap().join().unwrap();
        });
        assert_eq!(ENDED.load(Ordering::SeqCst), 2);
    }
}
