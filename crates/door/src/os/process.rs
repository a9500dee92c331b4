//! Memory and descriptors of another process.

use super::{opened, transferred};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Flag of pidfd_open(2) for a thread that is not the first of its process (Linux 6.9).
const PIDFD_THREAD: libc::c_int = libc::O_EXCL;

/// A thread of another process, by its number. The number may be reused once the thread has ended,
/// so results are valid only if its call still waits afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    tid: u32,
}

impl Process {
    pub fn new(tid: u32) -> Process {
        Process { tid }
    }

    /// Returns a copy of descriptor `fd` of the process.
    ///
    /// # Errors
    /// `EBADF` if it is not open, `ESRCH` if the process has ended, `EPERM` without the right to
    /// trace it.
    pub fn descriptor(self, fd: i32) -> io::Result<OwnedFd> {
        let pid = self.pidfd()?;
        // SAFETY: the call has no pointers.
        opened(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pid.as_raw_fd(), fd, 0) })
    }

    fn pidfd(self) -> io::Result<OwnedFd> {
        // SAFETY: the call has no pointers.
        let open = |id: u32, flags: libc::c_int| opened(unsafe { libc::syscall(libc::SYS_pidfd_open, id, flags) });
        open(self.tid, PIDFD_THREAD).or_else(|_| open(self.leader()?, 0))
    }

    /// Returns the number of the process to which the thread belongs.
    fn leader(self) -> io::Result<u32> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.tid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        line.and_then(|id| id.trim().parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Reads memory at `address`. Returns the number of bytes read, which may be fewer than
    /// requested.
    ///
    /// # Errors
    /// `EFAULT` if the address is not valid.
    pub fn read(self, address: u64, into: &mut [u8]) -> io::Result<usize> {
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
        // SAFETY: `local` is the memory of `into`; the kernel checks the address of the other
        // process.
        transferred(unsafe { libc::process_vm_readv(self.tid as i32, &raw const local, 1, &raw const remote, 1, 0) })
    }

    /// Fills `into` from memory at `address`.
    ///
    /// # Errors
    /// `EFAULT` if a part of it is not valid.
    pub fn read_exact(self, address: u64, into: &mut [u8]) -> io::Result<()> {
        if self.read(address, into)? == into.len() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
    }

    /// Writes all of `bytes` to memory at `address`.
    ///
    /// # Errors
    /// `EFAULT` if the address is not valid.
    pub fn write(self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: `local` is the memory of `bytes`, which the call only reads; the kernel checks
        // the address of the other process.
        let n = unsafe { libc::process_vm_writev(self.tid as i32, &raw const local, 1, &raw const remote, 1, 0) };
        if transferred(n)? == bytes.len() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
    }

    /// Sends SIGTERM to the process. An error means that it has ended.
    pub fn terminate(self) {
        // SAFETY: the call has no pointers.
        unsafe { libc::kill(self.tid as i32, libc::SIGTERM) };
    }
}

/// Raises the limit of open descriptors of this process to its maximum. A failure leaves it.
pub fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
