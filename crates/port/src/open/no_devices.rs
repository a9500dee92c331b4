//! Systems other than Linux, which have no ports on devices of the kernel.

use super::env::Env;
use crate::Port;
use crate::spec::{Kind, Spec};
use std::fmt;

/// Bytes in front of a frame that the kernel uses.
pub(super) const KERNEL_HEADROOM: usize = 0;

/// Reason why a port on a device of the kernel could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum DeviceError {
    /// Ports of this kind exist on Linux only.
    NeedsLinux {
        /// Kind of the port.
        kind: Kind,
        /// Name of the port.
        name: String,
    },
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceError::NeedsLinux { kind, name } = self;
        write!(f, "{kind}:{name}: ports of this kind need Linux; use pair: or unix: ports")
    }
}

impl std::error::Error for DeviceError {}

pub(super) fn open(spec: &Spec, _env: &Env<'_>) -> Result<Port, DeviceError> {
    Err(DeviceError::NeedsLinux { kind: spec.port.kind, name: spec.name.clone() })
}

/// Returns the MTU of an interface, which is unknown.
pub(super) fn mtu(_name: &str) -> Option<u16> {
    None
}

/// Returns whether an interface supports AF_XDP without copying.
pub(super) fn has_zero_copy(_name: &str) -> bool {
    false
}
