//! Systems without affinity masks: a thread may run on every core, and cannot be pinned.

use std::io;

/// A set of cores: all cores, or a single one.
#[derive(Clone, Debug)]
pub(super) struct CoreSet(std::ops::Range<usize>);

impl CoreSet {
    /// Returns all cores.
    pub(super) fn of_thread() -> io::Result<CoreSet> {
        std::thread::available_parallelism().map(|count| CoreSet(0..count.get()))
    }

    /// Returns the set of one core; `None` if there is no such core.
    pub(super) fn only(core: usize) -> Option<CoreSet> {
        let is_usable = CoreSet::of_thread().is_ok_and(|all| all.0.contains(&core));
        is_usable.then(|| CoreSet(core..core + 1))
    }

    /// Returns an error, because threads cannot be pinned.
    pub(super) fn apply(&self) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system cannot pin threads to cores"))
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.0.clone()
    }
}
