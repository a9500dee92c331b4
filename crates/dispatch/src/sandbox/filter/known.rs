//! The lists of system calls, with the reason for each group.

use super::Needs;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

/// System calls that are allowed with any arguments.
const ALLOWED: &[libc::c_long] = &[
    // Memory. Mappings and protections are allowed conditionally, below.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_membarrier,
    // Threads: locks, exit, names, cores. Starting a thread is allowed conditionally, below.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_gettid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_getcpu,
    // Signals of this process.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Clocks, sleeping, and the timers of a profiler.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_delete,
    libc::SYS_times,
    // Descriptors.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_pipe2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_sendfile,
    libc::SYS_copy_file_range,
    // Files: served, uploaded, captured; /proc and /sys for reports. File permissions determine
    // which files can be opened.
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_lseek,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_flock,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_utimensat,
    libc::SYS_umask,
    // Open sockets. Opening a socket is allowed conditionally, below.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_connect,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    // Information about this process and machine.
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_sysinfo,
];

/// Older forms of the calls above. Some C libraries use them. Newer architectures do not have them.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_chmod,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_wait,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Read-only requests of ioctl(2): terminal settings, pending bytes, links.
#[allow(clippy::unnecessary_cast, reason = "requests are c_int in other C libraries")]
const IOCTLS: &[u64] = &[
    libc::TCGETS as u64,
    libc::TIOCGWINSZ as u64,
    libc::FIONREAD as u64,
    libc::FIONBIO as u64,
    libc::FIOCLEX as u64,
    libc::SIOCGIFFLAGS as u64,
    libc::SIOCGIFINDEX as u64,
    libc::SIOCGIFHWADDR as u64,
    libc::SIOCGIFMTU as u64,
    SIOCETHTOOL,
];

/// Requests of ioctl(2) used to open a port, and to set the carrier of a mirror.
#[allow(clippy::unnecessary_cast, reason = "requests are c_int in other C libraries")]
const PORT_IOCTLS: &[u64] = &[
    libc::TUNSETIFF as u64,
    libc::TUNGETIFF as u64,
    libc::TUNGETFEATURES as u64,
    libc::TUNSETOFFLOAD as u64,
    libc::TUNSETVNETHDRSZ as u64,
    libc::TUNSETQUEUE as u64,
    libc::TUNSETCARRIER as u64,
    libc::SIOCSIFFLAGS as u64,
    libc::SIOCSIFMTU as u64,
    libc::SIOCSIFHWADDR as u64,
];

/// ioctl(2) request for device settings (linux/sockios.h). Changing a setting requires
/// CAP_NET_ADMIN.
const SIOCETHTOOL: u64 = 0x8946;

/// Allowed options of prctl(2): names of threads and of memory.
const PRCTLS: &[u64] = &[libc::PR_SET_NAME as u64, libc::PR_GET_NAME as u64, libc::PR_SET_VMA as u64];

type Rules = BTreeMap<libc::c_long, Vec<SeccompRule>>;

/// Returns two filters. The first makes clone3(2) fail with ENOSYS, and the second is the allow
/// list.
///
/// clone3 has its flags in memory, which filters cannot read. After ENOSYS the C library falls back
/// to clone(2), which has its flags in an argument.
pub(super) fn programs(needs: Needs) -> Result<[BpfProgram; 2], BackendError> {
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    let clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let compat = SeccompFilter::new(clone3, SeccompAction::Allow, unknown, ARCH)?;
    let allow = SeccompFilter::new(rules(needs)?, SeccompAction::Trap, SeccompAction::Allow, ARCH)?;
    Ok([compat.try_into()?, allow.try_into()?])
}

fn rules(needs: Needs) -> Result<Rules, BackendError> {
    let mut rules: Rules = ALLOWED.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_clone3, Vec::new()); // clone3 is handled by the other filter
    let mut add = |call, when: Vec<SeccompRule>| rules.insert(call, when);
    // Memory cannot be made executable.
    let not_exec = || bits(2, libc::PROT_EXEC as u64, 0).and_then(|when| SeccompRule::new(vec![when]));
    add(libc::SYS_mmap, vec![not_exec()?]);
    add(libc::SYS_mprotect, vec![not_exec()?]);
    // Threads can be created, processes cannot.
    let thread = libc::CLONE_THREAD as u64;
    add(libc::SYS_clone, vec![SeccompRule::new(vec![bits(0, thread, thread)?])?]);
    // Signals can be sent to this process only, which is necessary to abort after a panic.
    add(libc::SYS_tgkill, vec![SeccompRule::new(vec![equal(0, u64::from(std::process::id()))?])?]);
    // Limits can be read (by the C library, for stacks), but not set.
    let read_only = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
    add(libc::SYS_prlimit64, vec![SeccompRule::new(vec![read_only])?]);
    add(libc::SYS_prctl, one_of(0, PRCTLS)?);
    let ports = if needs.live_ports { PORT_IOCTLS } else { &[] };
    add(libc::SYS_ioctl, one_of(1, &[IOCTLS, ports].concat())?);
    add(libc::SYS_socketpair, one_of(0, &[libc::AF_UNIX as u64])?);
    let mut families = vec![libc::AF_UNIX as u64];
    if needs.live_ports {
        families.extend([libc::AF_PACKET as u64, libc::AF_XDP as u64, libc::AF_NETLINK as u64]);
        for call in [libc::SYS_bpf, libc::SYS_capget, libc::SYS_capset] {
            add(call, Vec::new());
        }
    }
    let mut sockets = one_of(0, &families)?;
    if needs.kernel_sockets {
        for family in [libc::AF_INET, libc::AF_INET6] {
            for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
                let kind = bits(1, 0xf, kind as u64)?;
                sockets.push(SeccompRule::new(vec![equal(0, family as u64)?, kind])?);
            }
        }
    }
    add(libc::SYS_socket, sockets);
    Ok(rules)
}

fn equal(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

/// Returns the condition that the bits of an argument selected by `mask` have the values of
/// `value`.
fn bits(argument: u8, mask: u64, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(mask), value)
}

fn one_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    values.iter().map(|value| SeccompRule::new(vec![equal(argument, *value)?])).collect()
}
