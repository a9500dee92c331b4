//! Reasons why a TAP device could not be opened, and instructions for the user.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;

/// The device file through which TAP devices are created.
const DEVICE: &str = "/dev/net/tun";

/// Errors of opening a TAP port.
#[derive(Debug)]
pub enum TapError {
    /// /dev/net/tun cannot be opened, because the file does not exist or the kernel has no driver
    /// for it.
    Missing {
        /// Name of the device.
        name: String,
        /// Error of the attempt to open /dev/net/tun.
        error: io::Error,
    },
    /// /dev/net/tun exists, but this user may not open it.
    Closed {
        /// Name of the device.
        name: String,
        /// The file's permission bits, if they can be read.
        mode: Option<u32>,
    },
    /// The process lacks a permission for a step.
    Permission {
        /// Name of the device.
        name: String,
        /// The step that was denied.
        step: &'static str,
    },
    /// Another process has the device open.
    Busy {
        /// Name of the device.
        name: String,
    },
    /// An interface with this name exists, but is not a TAP device, or is a TAP device with other
    /// flags (such as multi-queue).
    NotTap {
        /// Name of the device.
        name: String,
    },
    /// The device exists, but was created for a single queue.
    NotMultiQueue {
        /// Name of the device.
        name: String,
    },
    /// Another queue of the device was opened with other options.
    Differs {
        /// Name of the device.
        name: String,
    },
    /// All queues of the device are open.
    QueuesTaken {
        /// Name of the device.
        name: String,
        /// Number of queues of the device.
        queues: u16,
    },
    /// A frame of the device's MTU does not fit into the pool's buffers.
    SmallBuffers {
        /// Name of the device.
        name: String,
        /// Number of bytes that a frame needs.
        need: usize,
        /// Number of bytes in a buffer after its headroom.
        have: usize,
    },
    /// Any other system error.
    Os {
        /// Name of the device.
        name: String,
        /// The step that failed.
        step: &'static str,
        /// Error of the step.
        error: io::Error,
    },
}

impl TapError {
    pub(super) fn new(name: &str, step: &'static str, error: io::Error) -> TapError {
        let name = name.to_string();
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) if step.starts_with("open") => {
                TapError::Missing { name, error }
            }
            Some(libc::EPERM | libc::EACCES) if step.starts_with("open") => {
                let mode = std::fs::metadata(DEVICE).ok().map(|meta| meta.permissions().mode() & 0o7777);
                TapError::Closed { name, mode }
            }
            Some(libc::EPERM | libc::EACCES) => TapError::Permission { name, step },
            Some(libc::EBUSY) => TapError::Busy { name },
            Some(libc::EINVAL) if step == "TUNSETIFF" => TapError::NotTap { name },
            _ => TapError::Os { name, step, error },
        }
    }
}

impl fmt::Display for TapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TapError::Missing { name, error } => {
                write!(
                    f,
                    "tap:{name}: {DEVICE} is not available ({error}): load the tun module, or add the device to the \
                     container"
                )
            }
            TapError::Closed { name, mode } => {
                let mode = mode.map_or("unknown".to_string(), |mode| format!("{mode:04o}"));
                write!(
                    f,
                    "tap:{name}: no permission to open {DEVICE} (its mode is {mode}, usually 0666): run `chmod 0666 \
                     {DEVICE}` as root, or run linerate as root"
                )
            }
            TapError::Permission { name, step } => {
                write!(
                    f,
                    "tap:{name}: {step}: permission denied: requires CAP_NET_ADMIN, or a network namespace of its own"
                )
            }
            TapError::Busy { name } => write!(f, "tap:{name}: in use by another process"),
            TapError::NotTap { name } => {
                write!(
                    f,
                    "tap:{name}: the interface exists and is not a TAP device of this type (a multi-queue device needs \
                     the option queues)"
                )
            }
            TapError::NotMultiQueue { name } => write!(
                f,
                "tap:{name}: the device has a single queue: delete it, or create it with `ip tuntap add {name} mode \
                 tap multi_queue`"
            ),
            TapError::Differs { name } => write!(
                f,
                "tap:{name}: another queue of this device was opened with other options: use the same for all queues"
            ),
            TapError::QueuesTaken { name, queues } => {
                write!(f, "tap:{name}: all {queues} queues are already open: raise the option queues")
            }
            TapError::SmallBuffers { name, need, have } => write!(
                f,
                "tap:{name}: frames of up to {need} bytes do not fit in the pool's buffers of {have} bytes: lower mtu, \
                 or raise pool.data"
            ),
            TapError::Os { name, step, error } => write!(f, "tap:{name}: {step}: {error}"),
        }
    }
}

impl std::error::Error for TapError {}
