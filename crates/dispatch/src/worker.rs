//! Workers: a thread with a name, on a core of its own.
//!
//! Every thread of the house starts here, so that who measures threads ([`on_thread`]) meets each of them.
#![allow(unsafe_code)] // an unsafe room: affinity

use std::any::Any;
use std::io;
use std::sync::OnceLock;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Called on a thread before its work; the answer is dropped on that thread after it.
pub type OnThread = fn() -> Option<Box<dyn Any>>;

static ON_THREAD: OnceLock<OnThread> = OnceLock::new();

/// From now on each thread that starts here calls `begins` first. There is one such function in a process: another one
/// is refused with `false`.
pub fn on_thread(begins: OnThread) -> bool {
    std::ptr::fn_addr_eq(*ON_THREAD.get_or_init(|| begins), begins)
}

fn observed<R>(work: impl FnOnce() -> R) -> R {
    let _observer = ON_THREAD.get().and_then(|begins| begins());
    work()
}

/// Cores this process may run on.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps the calling thread on `core`.
///
/// # Errors
/// [`not_usable`], or what else sched_setaffinity(2) says.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(not_usable(core));
    }
    // SAFETY: a zeroed cpu_set_t is an empty set; CPU_SET stays within it; the call reads it only.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    match io::Error::last_os_error() {
        _ if set == 0 => Ok(()),
        why if why.raw_os_error() == Some(libc::EINVAL) => Err(not_usable(core)),
        why => Err(why),
    }
}

/// `InvalidInput`: the system knows no such core, or keeps this thread from it; and which it may use.
pub fn not_usable(core: usize) -> io::Error {
    let usable: Vec<String> = usable_cores().iter().map(usize::to_string).collect();
    let text = format!("no core {core} for this program: it may use {} (taskset -p shows them)", usable.join(", "));
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// The numbers of the cores that the calling thread may run on; none if the system does not say.
fn usable_cores() -> Vec<usize> {
    // SAFETY: a zeroed cpu_set_t is an empty set, writable and as long as is said; CPU_ISSET stays within it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        (0..libc::CPU_SETSIZE as usize).filter(|core| libc::CPU_ISSET(*core, &set)).collect()
    }
}

/// Runs `work` on a thread called `name`, pinned to `core` if one is given; a core that cannot be had is a notice, not an
/// end: `work` is told.
///
/// # Errors
/// The system's, when no thread can be had.
pub fn spawn_worker<R: Send + 'static>(
    name: &str,
    core: Option<usize>,
    work: impl FnOnce(Option<io::Error>) -> R + Send + 'static,
) -> io::Result<JoinHandle<R>> {
    Builder::new()
        .name(name.to_string())
        .spawn(move || observed(|| work(core.and_then(|core| pin_to_core(core).err()))))
}

/// Runs `work` on a thread called `name` that ends before `scope` does.
///
/// # Errors
/// The system's, when no thread can be had.
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
        for core in [libc::CPU_SETSIZE as usize - 1, 100_000] {
            let off = spawn_worker("off", Some(core), |pin_error| pin_error.map(|why| why.to_string()));
            let told = off.unwrap().join().unwrap();
            let told = told.expect("a core that does not exist is told, not fatal");
            assert!(told.starts_with(&format!("no core {core} for this program: it may use ")), "{told}");
        }
    }

    #[test]
    fn a_thread_may_use_the_cores_that_it_is_on() {
        let usable = usable_cores();
        assert_eq!(usable.len(), cores());
        let worker = spawn_worker("pinned", usable.last().copied(), |_| usable_cores()).unwrap();
        assert_eq!(worker.join().unwrap(), usable[usable.len() - 1..]);
    }

    #[test]
    fn who_observes_threads_meets_each_as_it_starts_and_as_it_ends() {
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        struct End;
        impl Drop for End {
            fn drop(&mut self) {
                ENDED.fetch_add(1, Ordering::SeqCst);
            }
        }
        fn begins() -> Option<Box<dyn Any>> {
            // Other tests' threads come here too.
            let ours = std::thread::current().name() == Some("observed");
            ours.then(|| BEGUN.fetch_add(1, Ordering::SeqCst)).map(|_| Box::new(End) as Box<dyn Any>)
        }
        assert!(on_thread(begins));
        assert!(on_thread(begins), "the same again is no other");
        assert!(!on_thread(|| None), "there is one");
        spawn_worker("observed", None, |_| assert_eq!(BEGUN.load(Ordering::SeqCst), 1)).unwrap().join().unwrap();
        assert_eq!(ENDED.load(Ordering::SeqCst), 1);
        std::thread::scope(|scope| {
            let work = || assert_eq!((BEGUN.load(Ordering::SeqCst), ENDED.load(Ordering::SeqCst)), (2, 1));
            spawn_scoped(scope, "observed", work).unwrap().join().unwrap();
        });
        assert_eq!(ENDED.load(Ordering::SeqCst), 2);
    }
}
