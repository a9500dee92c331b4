//! CPU affinity: the cores that a thread may run on, and pinning a thread to one of them.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
use linux::CoreSet;
#[cfg(not(target_os = "linux"))]
use other::CoreSet;
use std::io;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Cores that the process may use, read before any thread was pinned.
struct Cores {
    usable: Vec<usize>,
    /// Number of usable cores: all cores of the affinity mask, or fewer under a control group's CPU
    /// quota.
    count: usize,
}

/// Returns the cores that the process may use. A pinned thread has only its own core in its
/// affinity mask, so the mask is read only once: at the first call of this function or, through
/// [`pinned_to_core`], before the first pinning.
fn given() -> &'static Cores {
    static CORES: OnceLock<Cores> = OnceLock::new();
    CORES.get_or_init(|| {
        let usable: Vec<usize> = CoreSet::of_thread().map(|set| set.numbers().collect()).unwrap_or_default();
        let usable = if usable.is_empty() { vec![0] } else { usable };
        Cores { usable, count: std::thread::available_parallelism().map_or(1, usize::from) }
    })
}

/// Returns the number of cores available to this process: all cores of its affinity mask, or fewer
/// under a CPU quota.
pub fn cores() -> usize {
    given().count
}

/// Returns the number, as in `/proc/cpuinfo`, of the core at index `at` of the process's affinity
/// mask. The index is counted from 0 and wraps around.
pub fn core_at(at: usize) -> usize {
    let usable = &given().usable;
    usable[at % usable.len()]
}

/// Returns the last core of the process's affinity mask. It is the default for measurements,
/// because interrupts often go to the first core.
pub fn last_core() -> usize {
    core_at(given().usable.len() - 1)
}

/// Returns a core of the process other than `core`; `None` if only one core is available.
pub fn other_core(core: usize) -> Option<usize> {
    let other = given().usable.iter().rev().copied().find(|other| *other != core);
    other.filter(|_| cores() > 1)
}

/// Pins the calling thread to `core`, numbered as in `/proc/cpuinfo`.
///
/// # Errors
/// `InvalidInput`, with the cores in the affinity mask, if the core does not exist or this thread
/// may not use it. `Unsupported` for the other cores on systems other than Linux. Otherwise errors
/// of sched_setaffinity(2).
pub fn pin_to_core(core: usize) -> io::Result<()> {
    pinned_to_core(core).map(std::mem::forget)
}

/// Pins the calling thread to `core` until the returned value is dropped.
///
/// # Errors
/// The errors of [`pin_to_core`].
pub fn pinned_to_core(core: usize) -> io::Result<Pinned> {
    given();
    let former = CoreSet::of_thread()?;
    let Some(set) = CoreSet::only(core) else { return Err(not_usable(&former)) };
    match set.apply() {
        Ok(()) => Ok(Pinned { former, here: PhantomData }),
        Err(why) if why.raw_os_error() == Some(libc::EINVAL) => Err(not_usable(&former)),
        Err(why) => Err(why),
    }
}

/// Guard that keeps the thread on one core. Dropping it restores the previous affinity mask.
#[derive(Debug)]
pub struct Pinned {
    former: CoreSet,
    /// Makes the type `!Send`, because dropping it in another thread would change that thread's
    /// mask.
    here: PhantomData<*const ()>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = self.former.apply(); // the mask was valid before; a destructor cannot report errors
    }
}

fn not_usable(usable: &CoreSet) -> io::Error {
    let usable: Vec<String> = usable.numbers().map(|core| core.to_string()).collect();
    let text =
        format!("core is not in this process's affinity mask: use one of {} (see taskset -p)", usable.join(", "));
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable() -> Vec<usize> {
        CoreSet::of_thread().unwrap().numbers().collect()
    }

    /// Runs `work` on a separate thread, so that a change of the affinity mask ends with the
    /// thread.
    fn alone(work: fn()) {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    }

    #[test]
    fn a_pinned_thread_stays_on_its_core() {
        alone(|| {
            let all = usable();
            let last = all[all.len() - 1];
            let pinned = pinned_to_core(last).unwrap();
            assert_eq!(usable(), [last]);
            drop(pinned);
            assert_eq!(usable(), all);
            pin_to_core(last).unwrap();
            assert_eq!(usable(), [last]);
        });
    }

    #[test]
    fn a_pinned_thread_still_has_the_cores_of_its_process() {
        alone(|| {
            let (all, count) = (usable(), cores());
            let pinned = pinned_to_core(all[0]).unwrap();
            assert_eq!((cores(), last_core()), (count, all[all.len() - 1]));
            assert_eq!((core_at(0), core_at(all.len())), (all[0], all[0]));
            assert_eq!(other_core(all[0]), all.last().copied().filter(|_| count > 1));
            drop(pinned);
        });
    }

    #[test]
    fn an_unusable_core_is_rejected_with_the_usable_ones() {
        alone(|| {
            let all = usable();
            let listed: Vec<String> = all.iter().map(usize::to_string).collect();
            let words = format!(
                "core is not in this process's affinity mask: use one of {} (see taskset -p)",
                listed.join(", ")
            );
            for core in [libc::CPU_SETSIZE as usize - 1, 100_000] {
                let why = pin_to_core(core).unwrap_err();
                assert_eq!((why.kind(), why.to_string()), (io::ErrorKind::InvalidInput, words.clone()));
                assert_eq!(usable(), all, "nothing has changed");
            }
        });
    }
}
