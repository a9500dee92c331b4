//! Affinity masks of Linux.
#![allow(unsafe_code)] // unsafe code is confined here: sched_*affinity

use std::io;

/// A set of cores.
#[derive(Clone, Debug)]
pub(super) struct CoreSet(libc::cpu_set_t);

impl CoreSet {
    /// Returns the affinity mask of the calling thread.
    pub(super) fn of_thread() -> io::Result<CoreSet> {
        let mut set = empty();
        // SAFETY: `set` is writable and its true size is passed; pid 0 is the calling thread.
        match unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } {
            0 => Ok(CoreSet(set)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the set of one core; `None` if a set cannot contain it.
    pub(super) fn only(core: usize) -> Option<CoreSet> {
        let mut set = empty();
        if core >= libc::CPU_SETSIZE as usize {
            return None;
        }
        // SAFETY: `core` is below CPU_SETSIZE, so the bit lies inside the set.
        unsafe { libc::CPU_SET(core, &mut set) };
        Some(CoreSet(set))
    }

    /// Makes this set the affinity mask of the calling thread.
    pub(super) fn apply(&self) -> io::Result<()> {
        // SAFETY: the set is readable and its true size is passed; pid 0 is the calling thread.
        match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        // SAFETY: each number is below CPU_SETSIZE, so the bit lies inside the set.
        (0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &self.0) })
    }
}

fn empty() -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is an array of integers; all bits zero is the empty set.
    unsafe { std::mem::zeroed() }
}
