//! Workers: a thread with a name, on a core of its own.
#![allow(unsafe_code)] // an unsafe room: sched_setaffinity

use std::io;
use std::thread::{Builder, JoinHandle};

/// Cores this process may run on.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps the calling thread on `core`.
///
/// # Errors
/// The system's: no such core, or not allowed.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: a zeroed cpu_set_t is an empty set; CPU_SET stays within it; the call reads it only.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
    Builder::new().name(name.to_string()).spawn(move || work(core.and_then(|core| pin_to_core(core).err())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_its_name_and_its_core() {
        let worker = spawn_worker("w7", Some(0), |pin_error| {
            assert!(pin_error.is_none(), "{pin_error:?}");
            std::thread::current().name().map(str::to_string)
        });
        assert_eq!(worker.unwrap().join().unwrap().as_deref(), Some("w7"));
        let off = spawn_worker("off", Some(100_000), |pin_error| pin_error.is_some());
        assert!(off.unwrap().join().unwrap(), "a core that does not exist is told, not fatal");
    }
}
