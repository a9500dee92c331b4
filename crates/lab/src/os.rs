//! Operating system calls: clocks, context switches, the thread's processor, sockets, the
//! terminal's width.
// clock_gettime, sched_getcpu, socket, connect, *sockopt, *rlimit, dup2, ioctl, kill: no safe form
// in std.
#![allow(unsafe_code)]

use anyhow::Context;
pub use dispatch::{context_switches, thread_cpu_ns};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Returns CLOCK_MONOTONIC in nanoseconds.
#[inline]
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the kernel to fill; both clocks exist since Linux
    // 2.6.12, so it cannot fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Gives this thread the lowest priority (nice 19): any other runnable thread of its processor
/// precedes it.
///
/// # Errors
/// The system call fails.
pub fn be_nice() -> io::Result<()> {
    // SAFETY: takes no pointers; 0 is the calling thread, and only its priority changes on Linux
    // (setpriority(2), "C library/kernel").
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the processor that this thread currently runs on.
pub fn current_cpu() -> Option<usize> {
    // SAFETY: takes no arguments and touches no memory of this process.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Sets the congestion control of one of the kernel's TCP sockets. In a network namespace that this
/// process created, this also works for algorithms that the namespace's sysctl does not accept.
///
/// # Errors
/// ENOENT if the kernel has no algorithm of that name, EPERM if this process may not use it.
pub fn set_congestion(socket: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let len = libc::socklen_t::try_from(name.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel reads `len`
    // bytes of `name`.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_ptr().cast(), len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets a socket's buffer sizes in bytes (SO_SNDBUF, SO_RCVBUF; the kernel doubles them and has a
/// limit).
///
/// # Errors
/// The system call fails.
pub fn set_buffers(socket: BorrowedFd<'_>, send: Option<usize>, recv: Option<usize>) -> io::Result<()> {
    for (which, bytes) in [(libc::SO_SNDBUF, send), (libc::SO_RCVBUF, recv)] {
        let Some(bytes) = bytes else { continue };
        let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        let (at, len) = (std::ptr::from_ref(&value).cast(), size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel reads `len`
        // bytes of `value`.
        if unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, which, at, len) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Begins to connect a stream socket without waiting: socket(2), bind(2) if `from` is given, and
/// connect(2).
///
/// # Errors
/// A call fails with anything but EINPROGRESS.
pub fn begin_connect(to: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let at = RawAddr::of(to);
    // SAFETY: socket(2) takes no pointer.
    let fd = unsafe { libc::socket(at.family(), libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened just now and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    if let Some(from) = from {
        let from = RawAddr::of(SocketAddr::new(from, 0));
        let (pointer, len) = from.parts();
        // SAFETY: the kernel reads `len` bytes of `from`.
        if unsafe { libc::bind(socket.as_raw_fd(), pointer, len) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let (pointer, len) = at.parts();
    // SAFETY: the kernel reads `len` bytes of `at`.
    let done = unsafe { libc::connect(socket.as_raw_fd(), pointer, len) };
    let why = io::Error::last_os_error();
    if done == 0 || why.raw_os_error() == Some(libc::EINPROGRESS) { Ok(TcpStream::from(socket)) } else { Err(why) }
}

/// A socket address in the kernel's layout.
enum RawAddr {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl RawAddr {
    fn of(at: SocketAddr) -> RawAddr {
        match at {
            SocketAddr::V4(at) => RawAddr::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: at.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(at.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(at) => RawAddr::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: at.port().to_be(),
                sin6_flowinfo: at.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: at.ip().octets() },
                sin6_scope_id: at.scope_id(),
            }),
        }
    }

    fn family(&self) -> libc::c_int {
        match self {
            RawAddr::V4(_) => libc::AF_INET,
            RawAddr::V6(_) => libc::AF_INET6,
        }
    }

    /// Returns the pointer and length that system calls expect.
    fn parts(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        match self {
            RawAddr::V4(at) => (std::ptr::from_ref(at).cast(), size_of_val(at) as libc::socklen_t),
            RawAddr::V6(at) => (std::ptr::from_ref(at).cast(), size_of_val(at) as libc::socklen_t),
        }
    }
}

/// Returns the sizes of a socket's send and receive buffers, in bytes as the kernel counts them; 0
/// if unavailable.
pub fn buffers(socket: BorrowedFd<'_>) -> (usize, usize) {
    let of = |which| {
        let mut value: libc::c_int = 0;
        let mut len = size_of::<libc::c_int>() as libc::socklen_t;
        let at = std::ptr::from_mut(&mut value).cast();
        // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel writes `len`
        // bytes of `value` at most.
        let done = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, which, at, &mut len) };
        if done == 0 { usize::try_from(value).unwrap_or(0) } else { 0 }
    };
    (of(libc::SO_SNDBUF), of(libc::SO_RCVBUF))
}

/// Returns the width of standard output in columns (TIOCGWINSZ), if it is a terminal with a known
/// width.
pub fn terminal_columns() -> Option<u16> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` is a valid winsize for the kernel to fill; on failure it is not read.
    let answer = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    (answer != -1 && size.ws_col > 0).then_some(size.ws_col)
}

/// Returns the processor time that all threads of this process have used, in nanoseconds
/// (CLOCK_PROCESS_CPUTIME_ID).
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Redirection of standard output to standard error, undone on drop.
#[derive(Debug)]
pub struct StdoutAside {
    former: std::os::fd::OwnedFd,
}

/// Redirects standard output to standard error until the result is dropped.
///
/// # Errors
/// A system call fails.
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
        // The buffer's contents were written during the redirection; errors cannot be reported
        // here.
        let _ = io::stdout().flush();
        let _ = onto_stdout(self.former.as_raw_fd());
    }
}

fn onto_stdout(fd: libc::c_int) -> io::Result<()> {
    // SAFETY: both are open descriptors of this process; no memory is touched.
    match unsafe { libc::dup2(fd, libc::STDOUT_FILENO) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Raises this process's descriptor limit to the hard limit (RLIMIT_NOFILE); returns the limit.
pub fn most_descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable, and readable in the second call; on failure the former limit
    // remains.
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

/// Makes glibc's allocator return free pages to the system, so that freed memory is not counted as
/// resident. Does nothing with other C libraries.
pub fn give_back_free_memory() {
    // SAFETY: it takes a number and releases pages that belong to no allocation.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns the resident bytes of this process.
///
/// # Errors
/// /proc cannot be read.
pub fn resident() -> anyhow::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").context("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().nth(1).context("statm has no second field")?.parse()?;
    Ok(pages * 4096)
}

/// Kills a process and its descendants (SIGKILL). Descendants whose parent has exited before are
/// not found and continue.
pub(crate) fn kill_tree(process: u32) {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let Ok(number) = libc::pid_t::try_from(process) else { return };
    if number > 1 {
        // SAFETY: the call takes two numbers and touches no memory of this process.
        unsafe { libc::kill(number, libc::SIGKILL) };
    }
    children.split_whitespace().filter_map(|child| child.parse().ok()).for_each(kill_tree);
}
