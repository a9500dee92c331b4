//! Processor time, time spent waiting for a processor, and context switches.
#![allow(unsafe_code)] // unsafe code is confined here: clock_gettime, getrusage

/// Returns the processor time of the calling thread in nanoseconds (CLOCK_THREAD_CPUTIME_ID). The
/// value in /proc/thread-self/schedstat lags behind by up to a scheduler tick.
#[inline]
pub fn thread_cpu_ns() -> u64 {
    ns_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the kernel's monotonic time in microseconds (CLOCK_MONOTONIC), as other processes read
/// it, too.
pub fn monotonic_us() -> u64 {
    ns_of(libc::CLOCK_MONOTONIC) / 1000
}

#[inline]
fn ns_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the kernel to fill; both clocks exist since Linux
    // 2.6.12, so it cannot fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns how long, in nanoseconds, the calling thread was runnable while other threads had the
/// processor. This is the second number of /proc/thread-self/schedstat, which is exact when the
/// thread itself reads it. `None` if the kernel does not record it (CONFIG_SCHED_INFO).
pub fn thread_delay_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the numbers of voluntary (waiting) and involuntary (preempted) context switches of this
/// process, summed over its threads (getrusage(2)).
pub fn context_switches() -> [u64; 2] {
    let usage = own_usage();
    [usage.ru_nvcsw, usage.ru_nivcsw].map(|count| count as u64)
}

/// Returns the processor time of this process in seconds, in user mode and in the kernel, summed
/// over its threads (getrusage(2)).
pub fn process_cpu_s() -> [f64; 2] {
    let usage = own_usage();
    [usage.ru_utime, usage.ru_stime].map(|time| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6)
}

fn own_usage() -> libc::rusage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is writable for the kernel, and all zeros are a valid rusage; RUSAGE_SELF
    // cannot fail.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_sleep_takes_no_processor_time_and_is_no_delay() {
        let (cpu, delay, waits) = (thread_cpu_ns(), thread_delay_ns(), context_switches()[0]);
        std::thread::sleep(Duration::from_millis(200));
        assert!(thread_cpu_ns() - cpu < 200_000_000 && context_switches()[0] > waits);
        let delay = thread_delay_ns().zip(delay).map(|(now, before)| now - before);
        assert!(delay.is_none_or(|ns| ns < 200_000_000), "{delay:?}");
    }

    #[test]
    fn a_busy_neighbor_on_the_same_core_delays() {
        if thread_delay_ns().is_none() {
            return println!("skipped: this kernel has no /proc/thread-self/schedstat");
        }
        let core = crate::last_core();
        let _pinned = crate::pinned_to_core(core).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let delay = std::thread::scope(|scope| {
            scope.spawn(|| {
                crate::pin_to_core(core).unwrap();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let (begun, before) = (Instant::now(), thread_delay_ns().unwrap());
            while begun.elapsed() < Duration::from_millis(60) {
                std::hint::spin_loop();
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            thread_delay_ns().unwrap() - before
        });
        assert!(delay > 5_000_000, "{delay}");
    }

    #[test]
    fn work_takes_processor_time() {
        let begun = Instant::now();
        let cpu = thread_cpu_ns();
        let process: f64 = process_cpu_s().iter().sum();
        while thread_cpu_ns() - cpu < 20_000_000 {
            std::hint::spin_loop();
        }
        assert!(process_cpu_s().iter().sum::<f64>() > process);
        assert!(begun.elapsed() >= Duration::from_millis(1));
    }
}
