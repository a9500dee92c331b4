//! Processor time and context switches.
#![allow(unsafe_code)] // an unsafe room: clock_gettime, getrusage

/// Returns the processor time of the calling thread in nanoseconds (CLOCK_THREAD_CPUTIME_ID). The number in
/// /proc/thread-self/schedstat lags behind by up to a scheduler tick.
#[inline]
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the kernel to fill; the clock exists since Linux 2.6.12, so it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the context switches of this process, its threads together: voluntary (it waited),
/// involuntary (others had their turn); getrusage(2).
pub fn context_switches() -> [u64; 2] {
    switches(libc::RUSAGE_SELF)
}

/// Returns the voluntary context switches of the calling thread: the times it waited; getrusage(2).
pub fn thread_waits() -> u64 {
    switches(libc::RUSAGE_THREAD)[0]
}

fn switches(of: libc::c_int) -> [u64; 2] {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid rusage for the kernel to fill, and zeroed bytes are one too; neither value of `of` can fail.
    let usage = unsafe {
        libc::getrusage(of, usage.as_mut_ptr());
        usage.assume_init()
    };
    [usage.ru_nvcsw, usage.ru_nivcsw].map(|count| count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_sleep_is_a_wait_without_processor_time() {
        let (cpu, waits) = (thread_cpu_ns(), thread_waits());
        std::thread::sleep(Duration::from_millis(20));
        assert!(thread_cpu_ns() - cpu < 20_000_000 && thread_waits() > waits);
    }

    #[test]
    fn work_takes_processor_time() {
        let begun = Instant::now();
        let cpu = thread_cpu_ns();
        while thread_cpu_ns() - cpu < 1_000_000 {
            std::hint::spin_loop();
        }
        assert!(begun.elapsed() >= Duration::from_millis(1));
    }
}
