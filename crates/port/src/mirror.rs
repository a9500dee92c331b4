//! Mirrors of ports for a routing engine: TAP devices in a network namespace of the kernel, in
//! which the daemons run.
//!
//! The port of a mirror carries the frames of the control plane. The device of the mirror has the
//! MAC address, MTU, addresses and carrier of the port that it mirrors; [`MirrorDevice`] sets them
//! while the daemons use the device, and reports when another program sets the device down or
//! deletes it.
//!
//! Entering another namespace requires CAP_SYS_ADMIN, only when the mirror is opened. Everything
//! later uses sockets that were opened in the namespace, and requires CAP_NET_ADMIN.

#[cfg(target_os = "linux")]
mod device;
mod error;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(all(test, target_os = "linux"))]
mod tests;

#[cfg(target_os = "linux")]
pub use device::{MirrorDevice, open, within};
pub use error::MirrorError;
#[cfg(not(target_os = "linux"))]
pub use other::{MirrorDevice, open, within};

use wire::Mac;

/// Configuration of a mirror.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirrorConfig {
    /// Name of the device, at most 15 bytes.
    pub name: String,
    /// Network namespace: a name as of `ip netns`, or a path.
    pub netns: String,
    /// MAC address of the device.
    pub mac: Mac,
    /// MTU of the device, in bytes.
    pub mtu: u16,
    /// Speed that the device reports, in bits per second; `None` for the kernel's default.
    pub speed: Option<u64>,
}

/// State of a mirror's device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MirrorState {
    /// The device is up.
    Up,
    /// Another program has set the device down.
    Down,
    /// The device no longer exists.
    Gone,
}
