//! What the operating system is asked: clocks, the thread's processor, a socket's congestion control, the terminal's width.
#![allow(unsafe_code)] // clock_gettime, sched_*affinity, sched_getcpu, setsockopt, *rlimit, dup2 and ioctl have no safe form in std.

use anyhow::Context;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};

/// CLOCK_MONOTONIC in nanoseconds.
#[inline]
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Processor time that this thread has used, in nanoseconds (CLOCK_THREAD_CPUTIME_ID).
#[inline]
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the kernel to fill; both clocks exist since Linux 2.6.12, so it cannot fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The processor this thread runs on just now.
pub fn current_cpu() -> Option<usize> {
    // SAFETY: takes no arguments and touches no memory of ours.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The thread stays on one processor while this value lives; its former set of processors comes back after that.
#[derive(Debug)]
pub struct Pinned {
    former: libc::cpu_set_t,
    /// Not to be sent away: dropped in another thread it would move that one.
    here: PhantomData<*const ()>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = set_affinity(&self.former); // the set was in force before, and a failure has nobody to go to
    }
}

/// Pins the calling thread to processor `cpu`, numbered as in `/proc/cpuinfo`, until the answer is dropped.
///
/// # Errors
/// `InvalidInput` if the number is past what the kernel's set can hold, else what sched_setaffinity(2) says
/// (EINVAL: no such processor, or not in this container's set).
pub fn pin_to_cpu(cpu: usize) -> io::Result<Pinned> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("processor {cpu} is past the largest set")));
    }
    let former = affinity()?;
    let mut set = empty_set();
    // SAFETY: `cpu` is below CPU_SETSIZE, so the bit lies inside the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    set_affinity(&set)?;
    Ok(Pinned { former, here: PhantomData })
}

fn empty_set() -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is an array of integers; all bits zero is the empty set.
    unsafe { std::mem::zeroed() }
}

fn affinity() -> io::Result<libc::cpu_set_t> {
    let mut set = empty_set();
    // SAFETY: `set` is writable and its true size is passed; pid 0 is the calling thread.
    match unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } {
        0 => Ok(set),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_affinity(set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: `set` is readable and its true size is passed; pid 0 is the calling thread.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has the kernel use that congestion control on one of its TCP sockets. In a network namespace of one's own this works for
/// those too that the sysctl there refuses.
///
/// # Errors
/// ENOENT: the kernel has none of that name; EPERM.
pub fn set_congestion(socket: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let len = libc::socklen_t::try_from(name.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel reads `len` bytes of `name`.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_ptr().cast(), len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Columns of the terminal behind standard output (TIOCGWINSZ), if it is one and says.
pub fn terminal_columns() -> Option<u16> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` is a valid winsize for the kernel to fill; on failure it is not read.
    let answer = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    (answer != -1 && size.ws_col > 0).then_some(size.ws_col)
}

/// Processor time that all threads of this process have used, in nanoseconds (CLOCK_PROCESS_CPUTIME_ID).
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// While this lives, what goes to standard output comes out of standard error.
#[derive(Debug)]
pub struct StdoutAside {
    former: std::os::fd::OwnedFd,
}

/// Sends standard output to standard error until the answer is dropped.
///
/// # Errors
/// The system's.
pub fn stdout_aside() -> io::Result<StdoutAside> {
    use std::os::fd::AsFd;
    io::stdout().flush()?;
    let former = io::stdout().as_fd().try_clone_to_owned()?;
    onto_stdout(libc::STDERR_FILENO)?;
    Ok(StdoutAside { former })
}

impl Drop for StdoutAside {
    fn drop(&mut self) {
        use std::os::fd::AsRawFd;
        // What is left in the buffer was written while this lived; a failure of either has nobody to go to.
        let _ = io::stdout().flush();
        let _ = onto_stdout(self.former.as_raw_fd());
    }
}

fn onto_stdout(fd: libc::c_int) -> io::Result<()> {
    // SAFETY: both are descriptors of ours that stay open; no memory is touched.
    match unsafe { libc::dup2(fd, libc::STDOUT_FILENO) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Raises the number of descriptors that this process may have to the most that it is allowed (RLIMIT_NOFILE); says what it is.
pub fn most_descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable, and readable in the second call; on failure the former limit stands.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raised) == 0 {
                limit = raised;
            }
        }
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// Asks the C library's allocator for what it holds that is free, page by page: else what a process once had counts as what it has. Where
/// another allocator is in use nothing happens.
pub fn give_back_free_memory() {
    // SAFETY: it takes a number and gives up pages that are in no allocation.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes of this process in memory.
///
/// # Errors
/// No /proc.
pub fn resident() -> anyhow::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").context("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().nth(1).context("statm has no second field")?.parse()?;
    Ok(pages * 4096)
}
