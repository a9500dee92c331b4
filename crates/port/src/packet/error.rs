//! Reasons why a packet port could not be opened, and instructions for the user.

use super::config::{PacketConfig, SLOT_MIN};
use std::fmt;
use std::io;

/// Errors of opening a packet port.
#[derive(Debug)]
pub enum PacketError {
    /// The kernel does not support packet sockets.
    Missing {
        /// Name of the interface.
        name: String,
        /// Error of the attempt to open a packet socket.
        error: io::Error,
    },
    /// The process lacks a permission for a step.
    Permission {
        /// Name of the interface.
        name: String,
        /// The step that was denied.
        step: &'static str,
    },
    /// There is no interface with this name.
    NoInterface {
        /// Name of the interface.
        name: String,
    },
    /// Frames of the interface do not begin with an Ethernet header.
    NotEthernet {
        /// Name of the interface.
        name: String,
    },
    /// The rings exceed the limit of 1 GiB or the available memory.
    Memory {
        /// Name of the interface.
        name: String,
        /// Total size of the rings in bytes.
        bytes: u64,
    },
    /// The fanout group is full, or was created with another mode or on another interface.
    Fanout {
        /// Name of the interface.
        name: String,
        /// Number of the group.
        group: u16,
        /// Error of joining the group.
        error: io::Error,
    },
    /// A frame of the interface's MTU does not fit into the pool's buffers.
    SmallBuffers {
        /// Name of the interface.
        name: String,
        /// Number of bytes that a frame needs.
        need: usize,
        /// Number of bytes in a buffer after its headroom.
        have: usize,
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

impl PacketError {
    pub(super) fn new(name: &str, config: &PacketConfig, step: &'static str, error: io::Error) -> PacketError {
        let name = name.to_string();
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => PacketError::Permission { name, step },
            Some(libc::EAFNOSUPPORT) => PacketError::Missing { name, error },
            // ENXIO: the interface was deleted after an earlier step had found it.
            Some(libc::ENODEV | libc::ENXIO) => PacketError::NoInterface { name },
            Some(libc::ENOMEM) if step.contains("_RING") => {
                let bytes = u64::from(config.rx_ring) * SLOT_MIN as u64;
                PacketError::Memory { name, bytes }
            }
            Some(_) if step == "PACKET_FANOUT" => {
                let group = config.fanout.map_or(0, |(group, _)| group);
                PacketError::Fanout { name, group, error }
            }
            _ => PacketError::Os { name, step, error },
        }
    }
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketError::Missing { name, error } => {
                write!(f, "packet:{name}: packet sockets are not available ({error}): load the af_packet module")
            }
            PacketError::Permission { name, step } => {
                write!(
                    f,
                    "packet:{name}: {step}: permission denied: requires CAP_NET_RAW, or a network namespace of its own"
                )
            }
            PacketError::NoInterface { name } => {
                write!(f, "packet:{name}: no such interface in this network namespace; list interfaces with `ip link`")
            }
            PacketError::NotEthernet { name } => write!(f, "packet:{name}: not an Ethernet interface"),
            PacketError::Memory { name, bytes } => write!(
                f,
                "packet:{name}: cannot allocate rings of {bytes} bytes (at most 1 GiB): lower rx_ring or tx_ring"
            ),
            PacketError::Fanout { name, group, error } => write!(
                f,
                "packet:{name}: cannot join fanout group {group} ({error}): it is full, or was created with another \
                 fanout_mode, ignore_outgoing or interface; use the same options, or another group"
            ),
            PacketError::SmallBuffers { name, need, have } => write!(
                f,
                "packet:{name}: frames of up to {need} bytes do not fit in the pool's buffers of {have} bytes: lower \
                 the interface's MTU, raise pool.data, or set lro=on"
            ),
            PacketError::Os { name, step, error } => write!(f, "packet:{name}: {step}: {error}"),
        }
    }
}

impl std::error::Error for PacketError {}
