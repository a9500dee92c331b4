//! Reasons why an AF_XDP port could not be opened, and instructions for the user.

use crate::os::bpf::{STEP_ATTACH, STEP_INSERT, STEP_LOAD, STEP_MAP};
use crate::os::xdp::{Failure, STEP_BIND, STEP_SOCKET, STEP_UMEM};
use std::fmt;
use std::io;

/// Errors of opening an AF_XDP port.
#[derive(Debug)]
pub enum XdpError {
    /// There is no interface with this name.
    NoInterface {
        /// Name of the interface.
        name: String,
    },
    /// The process lacks a permission for a step.
    Permission {
        /// Name of the interface.
        name: String,
        /// The step that was denied.
        step: &'static str,
        /// The required capabilities.
        needs: &'static str,
    },
    /// The kernel was built without support for AF_XDP or bpf(2).
    NoSupport {
        /// Name of the interface.
        name: String,
        /// The missing kernel option.
        option: &'static str,
    },
    /// The pool's memory exceeds the limit of locked memory.
    Memlock {
        /// Name of the interface.
        name: String,
    },
    /// Another socket is bound to the queue.
    Busy {
        /// Name of the interface.
        name: String,
        /// Number of the queue.
        queue: u32,
    },
    /// The interface has no queue with this number.
    NoQueue {
        /// Name of the interface.
        name: String,
        /// Number of the queue.
        queue: u32,
    },
    /// Another XDP program is attached to the interface.
    OtherProgram {
        /// Name of the interface.
        name: String,
    },
    /// The driver does not support a feature that was explicitly requested.
    NoDriver {
        /// Name of the interface.
        name: String,
        /// Name of the requested feature.
        what: &'static str,
        /// Error from the system.
        error: io::Error,
    },
    /// A frame of the interface's MTU does not fit into the pool's buffers.
    SmallBuffers {
        /// Name of the interface.
        name: String,
        /// Number of bytes that a frame needs.
        need: usize,
        /// Length in bytes of the longest frame that a buffer can receive, without the headroom
        /// that the kernel needs; 0 if the buffers are too short for any frame.
        have: usize,
    },
    /// Frames of the interface's MTU need several buffers, which this kernel does not support.
    TooLong {
        /// Name of the interface.
        name: String,
        /// Length in bytes of the longest frame with this MTU.
        longest: usize,
    },
    /// Zero copy was requested, but buffers of the pool cross page boundaries.
    AcrossPages {
        /// Name of the interface.
        name: String,
        /// Distance between the starts of two buffers in bytes.
        stride: usize,
    },
    /// The pool is of kind `malloc`, so it has no memory of its own.
    BadPool {
        /// Name of the interface.
        name: String,
    },
    /// Any other system error.
    Os {
        /// Name of the interface.
        name: String,
        /// The step that failed.
        step: &'static str,
        /// Error of the step.
        error: io::Error,
    },
}

/// Returns whether the error means that another program is attached to the interface.
pub(super) fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

/// Returns the capability that is missing if a step is denied.
fn needs(step: &'static str) -> &'static str {
    match step {
        STEP_SOCKET => "CAP_NET_RAW",
        STEP_MAP | STEP_LOAD => "CAP_BPF and CAP_NET_ADMIN, outside of any user namespace",
        _ => "CAP_NET_ADMIN",
    }
}

impl XdpError {
    pub(super) fn new(name: &str, queue: u32, (step, error): Failure) -> XdpError {
        let name = name.to_string();
        let errno = error.raw_os_error().unwrap_or_default();
        match (step, errno) {
            (_, libc::EPERM | libc::EACCES) => XdpError::Permission { name, step, needs: needs(step) },
            (STEP_SOCKET, libc::EAFNOSUPPORT) => XdpError::NoSupport { name, option: "CONFIG_XDP_SOCKETS" },
            (_, libc::ENOSYS) => XdpError::NoSupport { name, option: "CONFIG_BPF_SYSCALL" },
            (STEP_MAP, libc::EINVAL) => XdpError::NoSupport { name, option: "CONFIG_XDP_SOCKETS" },
            (STEP_UMEM, libc::ENOBUFS) => XdpError::Memlock { name },
            (STEP_BIND, libc::EBUSY) => XdpError::Busy { name, queue },
            (STEP_BIND, libc::EINVAL) | (STEP_INSERT, libc::E2BIG) => XdpError::NoQueue { name, queue },
            (STEP_BIND, libc::EOPNOTSUPP) => XdpError::NoDriver { name, what: "zero copy (mode=zerocopy)", error },
            (STEP_BIND | STEP_ATTACH, libc::ENODEV) => XdpError::NoInterface { name },
            (STEP_ATTACH, libc::EBUSY | libc::EEXIST) => XdpError::OtherProgram { name },
            (STEP_ATTACH, libc::EOPNOTSUPP | libc::EINVAL | libc::ERANGE) => {
                XdpError::NoDriver { name, what: "a program in the driver (attach=native)", error }
            }
            _ => XdpError::Os { name, step, error },
        }
    }
}

impl fmt::Display for XdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            XdpError::NoInterface { name } => write!(f, "xdp:{name}: no such interface in this network namespace"),
            XdpError::Permission { name, step, needs } => {
                write!(f, "xdp:{name}: {step}: permission denied: requires {needs}")
            }
            XdpError::NoSupport { name, option } => {
                write!(f, "xdp:{name}: this kernel has no AF_XDP: it was built without {option}")
            }
            XdpError::Memlock { name } => write!(
                f,
                "xdp:{name}: the pool exceeds the limit of locked memory: \
                 raise RLIMIT_MEMLOCK (ulimit -l), grant CAP_IPC_LOCK, or lower pool.buffers"
            ),
            XdpError::Busy { name, queue } => {
                write!(f, "xdp:{name}: queue {queue} is in use by another socket: stop its owner, or use another queue")
            }
            XdpError::NoQueue { name, queue } => {
                write!(f, "xdp:{name}: no queue {queue} to bind to: list queues with `ls /sys/class/net/{name}/queues`")
            }
            XdpError::OtherProgram { name } => write!(
                f,
                "xdp:{name}: another XDP program is attached: remove it (ip link set {name} xdp off), \
                 or stop the process that owns it"
            ),
            XdpError::NoDriver { name, what, error } => {
                write!(f, "xdp:{name}: the driver does not support {what}: {error}; use auto to fall back")
            }
            XdpError::SmallBuffers { name, have: 0, .. } => {
                write!(
                    f,
                    "xdp:{name}: the pool's buffers are too short: at least 2048 bytes with headroom are required"
                )
            }
            XdpError::SmallBuffers { name, need, have } => write!(
                f,
                "xdp:{name}: frames of up to {need} bytes do not fit in the pool's buffers of {have} bytes (without \
                 the kernel's part): lower the interface's MTU, or raise pool.data (up to a page per buffer)"
            ),
            XdpError::TooLong { name, longest } => write!(
                f,
                "xdp:{name}: frames of {longest} bytes are longer than a page, which requires Linux 6.6 or later: \
                 lower the interface's MTU, or use packet:{name}"
            ),
            XdpError::AcrossPages { name, stride } => write!(
                f,
                "xdp:{name}: zero copy requires buffers within pages, but the pool's are {stride} bytes apart: \
                 set pool.stride=power2, or mode=copy"
            ),
            XdpError::BadPool { name } => {
                write!(f, "xdp:{name}: a malloc pool has no memory to share with the kernel: use another pool.kind")
            }
            XdpError::Os { name, step, error } => write!(f, "xdp:{name}: {step}: {error}"),
        }
    }
}

impl std::error::Error for XdpError {}
