//! Handles system calls that are not on the allow list. Each call fails with EPERM and is counted.
//! One line on standard error reports its number and name.
//!
//! The filter returns SECCOMP_RET_TRAP. The kernel then raises SIGSYS instead of running the call,
//! and the handler writes the line and sets the call's result. A call made with all signals blocked
//! cannot be reported. In that case the kernel ends the process by SIGSYS ("bad system call").

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of lines written, so that a loop around a refused call does not fill a log.
/// Further refused calls are still counted.
const LINES_MAX: u64 = 16;

static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of system calls of this process that the sandbox has refused.
pub fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// Installs the SIGSYS handler.
///
/// # Errors
/// Errors of sigaction(2).
pub(super) fn install() -> io::Result<()> {
    // SAFETY: a zeroed sigaction is valid; the handler is async-signal-safe: atomics and write(2).
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut())
    };
    if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// SYS_SECCOMP of asm-generic/siginfo.h.
const SYS_SECCOMP: libc::c_int = 1;

/// The part of siginfo_t that is set for SIGSYS: three integers, padding to pointer alignment, then
/// `_sigsys`.
#[repr(C)]
struct SysInfo {
    signo: libc::c_int,
    errno: libc::c_int,
    code: libc::c_int,
    call_addr: *mut libc::c_void,
    syscall: libc::c_int,
    arch: libc::c_uint,
}

extern "C" fn on_signal(_signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a siginfo_t, of which SysInfo is the first part for SIGSYS.
    let info = unsafe { &*info.cast::<SysInfo>() };
    if info.code != SYS_SECCOMP {
        return; // sent by a process, not by the filter
    }
    // SAFETY: errno belongs to the interrupted thread, and is restored below.
    let errno = unsafe { *libc::__errno_location() };
    if REFUSED.fetch_add(1, Ordering::Relaxed) < LINES_MAX {
        let line = Line::about(info.syscall);
        // SAFETY: the bytes are readable; a failed write to standard error cannot be reported.
        let _ = unsafe { libc::write(2, line.bytes.as_ptr().cast(), line.len) };
    }
    // SAFETY: errno belongs to the interrupted thread.
    unsafe { *libc::__errno_location() = errno };
    // SAFETY: SA_SIGINFO's third argument is the interrupted thread's ucontext_t.
    unsafe { set_result(context.cast(), -i64::from(libc::EPERM)) };
}

/// Sets the result of the interrupted system call.
///
/// # Safety
/// `context` must be the one that the kernel passed to the handler.
#[cfg(target_arch = "x86_64")]
unsafe fn set_result(context: *mut libc::ucontext_t, result: i64) {
    // SAFETY: guaranteed by the caller.
    unsafe { (*context).uc_mcontext.gregs[libc::REG_RAX as usize] = result };
}

/// Sets the result of the interrupted system call.
///
/// # Safety
/// `context` must be the one that the kernel passed to the handler.
#[cfg(target_arch = "aarch64")]
unsafe fn set_result(context: *mut libc::ucontext_t, result: i64) {
    // SAFETY: guaranteed by the caller.
    unsafe { (*context).uc_mcontext.regs[0] = result as u64 };
}

/// Changes nothing: the system-call filter exists only for x86-64 and aarch64.
///
/// # Safety
/// No requirements.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn set_result(_context: *mut libc::ucontext_t, _result: i64) {}

/// A line of text that is built without allocating memory.
struct Line {
    bytes: [u8; 160],
    len: usize,
}

impl Line {
    fn about(call: libc::c_int) -> Line {
        let mut line = Line { bytes: [0; 160], len: 0 };
        line.push(b"linerate: sandbox: system call ");
        line.push_number(call.unsigned_abs());
        if let Some((_, name)) = NAMES.iter().find(|(number, _)| *number == libc::c_long::from(call)) {
            line.push(b" (");
            line.push(name.as_bytes());
            line.push(b")");
        }
        line.push(b" is not allowed (EPERM); --no-sandbox allows all\n");
        line
    }

    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = *byte;
                self.len += 1;
            }
        }
    }

    fn push_number(&mut self, number: u32) {
        let mut power = 1_000_000_000;
        while power > 1 && number / power == 0 {
            power /= 10;
        }
        while power > 0 {
            self.push(&[b'0' + (number / power % 10) as u8]);
            power /= 10;
        }
    }
}

/// Names of the calls that an intruder, a new C library or a new feature would most likely make.
/// Other calls are reported by number.
const NAMES: &[(libc::c_long, &str)] = &[
    (libc::SYS_execve, "execve"),
    (libc::SYS_execveat, "execveat"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_socket, "socket"),
    (libc::SYS_socketpair, "socketpair"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_prctl, "prctl"),
    (libc::SYS_prlimit64, "prlimit64"),
    (libc::SYS_tgkill, "tgkill"),
    (libc::SYS_tkill, "tkill"),
    (libc::SYS_kill, "kill"),
    (libc::SYS_ptrace, "ptrace"),
    (libc::SYS_process_vm_readv, "process_vm_readv"),
    (libc::SYS_process_vm_writev, "process_vm_writev"),
    (libc::SYS_unshare, "unshare"),
    (libc::SYS_setns, "setns"),
    (libc::SYS_mount, "mount"),
    (libc::SYS_umount2, "umount2"),
    (libc::SYS_chroot, "chroot"),
    (libc::SYS_setuid, "setuid"),
    (libc::SYS_setresuid, "setresuid"),
    (libc::SYS_capset, "capset"),
    (libc::SYS_capget, "capget"),
    (libc::SYS_bpf, "bpf"),
    (libc::SYS_perf_event_open, "perf_event_open"),
    (libc::SYS_openat2, "openat2"),
    (libc::SYS_io_uring_setup, "io_uring_setup"),
    (libc::SYS_memfd_create, "memfd_create"),
    (libc::SYS_fchown, "fchown"),
    (libc::SYS_fchownat, "fchownat"),
    (libc::SYS_inotify_init1, "inotify_init1"),
    (libc::SYS_wait4, "wait4"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_call() {
        let text = |call| {
            let line = Line::about(call);
            String::from_utf8(line.bytes[..line.len].to_vec()).unwrap()
        };
        let execve = libc::c_int::try_from(libc::SYS_execve).unwrap();
        let want = format!("system call {execve} (execve) is not allowed (EPERM); --no-sandbox allows all\n");
        assert!(text(execve).ends_with(&want), "{}", text(execve));
        assert!(text(1_234_567_890).contains(" 1234567890 is not"));
        assert!(text(0).contains(" 0 is not"));
    }
}
