//! Reasons why a TAP or TUN device could not be opened, and instructions for the user.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;

/// The device file through which TAP and TUN devices are created.
const DEVICE: &str = "/dev/net/tun";

/// Errors of opening a TAP port.
#[derive(Debug)]
pub enum TapError {
    /// /dev/net/tun cannot be opened, because the file does not exist or the kernel has no driver
    /// for it.
    Missing {
        /// Port with the name of the device, such as `tap:tap0`.
        port: String,
        /// Error of the attempt to open /dev/net/tun.
        error: io::Error,
    },
    /// /dev/net/tun exists, but this user may not open it.
    Closed {
        /// Port with the name of the device, such as `tap:tap0`.
        port: String,
        /// The file's permission bits, if they can be read.
        mode: Option<u32>,
    },
    /// The process lacks a permission for a step.
    Permission {
        /// Port with the name of the device, such as `tap:tap0`.
        port: String,
        /// The step that was denied.
        step: &'static str,
    },
    /// Another process has the device open.
    Busy {
        /// Port with the name of the device, such as `tap:tap0`.
        port: String,
    },
    /// An interface with this name exists, but is not a device of this type, or is one with other
    /// flags (such as multi-queue).
    NotTap {
        /// Port with the name of the device, such as `tap:tap0`.
        port: String,
    },
    /// The device exists, but was created for a single queue.
    NotMultiQueue {
        /// Port with the name of the device, such as `tap:tap0`.
        port: String,
    },
    /// Another queue of the device was opened with other options.
    Differs {
        /// Port with the name of the device, such as `tap:tap0`.
        port: String,
    },
    /// All queues of the device are open.
    QueuesTaken {
        /// Port with the name of the device, such as `tap:tap0`.
        port: String,
        /// Number of queues of the device.
        queues: u16,
    },
    /// A frame of the device's MTU does not fit into the pool's buffers.
    SmallBuffers {
        /// Port with the name of the device, such as `tap:tap0`.
        port: String,
        /// Number of bytes that a frame needs.
        need: usize,
        /// Number of bytes in a buffer after its headroom.
        have: usize,
    },
    /// Any other system error.
    Os {
        /// Port with the name of the device, such as `tap:tap0`.
        port: String,
        /// The step that failed.
        step: &'static str,
        /// Error of the step.
        error: io::Error,
    },
}

impl TapError {
    pub(super) fn new(port: String, step: &'static str, error: io::Error) -> TapError {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) if step.starts_with("open") => {
                TapError::Missing { port, error }
            }
            Some(libc::EPERM | libc::EACCES) if step.starts_with("open") => {
                let mode = std::fs::metadata(DEVICE).ok().map(|meta| meta.permissions().mode() & 0o7777);
                TapError::Closed { port, mode }
            }
            Some(libc::EPERM | libc::EACCES) => TapError::Permission { port, step },
            Some(libc::EBUSY) => TapError::Busy { port },
            Some(libc::EINVAL) if step == "TUNSETIFF" => TapError::NotTap { port },
            _ => TapError::Os { port, step, error },
        }
    }
}

impl fmt::Display for TapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TapError::Missing { port, error } => {
                write!(
                    f,
                    "{port}: {DEVICE} is not available ({error}): load the tun module, or add the device to the \
                     container"
                )
            }
            TapError::Closed { port, mode } => {
                let mode = mode.map_or("unknown".to_string(), |mode| format!("{mode:04o}"));
                write!(
                    f,
                    "{port}: no permission to open {DEVICE} (its mode is {mode}, usually 0666): run `chmod 0666 \
                     {DEVICE}` as root, or run linerate as root"
                )
            }
            TapError::Permission { port, step } => {
                write!(
                    f,
                    "{port}: {step}: permission denied: requires CAP_NET_ADMIN, or a network namespace of its own"
                )
            }
            TapError::Busy { port } => write!(f, "{port}: in use by another process"),
            TapError::NotTap { port } => {
                let hint = match port.starts_with("tap:") {
                    true => "a multi-queue device needs the option queues",
                    false => "a device with several queues is not supported",
                };
                write!(f, "{port}: an interface of this name exists and is a device of another type ({hint})")
            }
            TapError::NotMultiQueue { port } => write!(
                f,
                "{port}: the device has a single queue: delete it, or create it with `ip tuntap add {} mode tap \
                 multi_queue`",
                port.rsplit(':').next().unwrap_or_default()
            ),
            TapError::Differs { port } => write!(
                f,
                "{port}: another queue of this device was opened with other options: use the same for all queues"
            ),
            TapError::QueuesTaken { port, queues } => {
                write!(f, "{port}: all {queues} queues are already open: raise the option queues")
            }
            TapError::SmallBuffers { port, need, have } => write!(
                f,
                "{port}: frames of up to {need} bytes do not fit in the pool's buffers of {have} bytes: lower mtu, \
                 or raise pool.data"
            ),
            TapError::Os { port, step, error } => write!(f, "{port}: {step}: {error}"),
        }
    }
}

impl std::error::Error for TapError {}
