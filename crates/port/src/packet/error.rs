//! Why an interface could not be opened, and what to do about it.

use super::PacketConfig;
use std::fmt;
use std::io;

/// Why there is no packet port.
#[derive(Debug)]
pub enum PacketError {
    /// The kernel has no packet sockets.
    Missing {
        /// The interface's name.
        name: String,
        /// What opening one said.
        error: io::Error,
    },
    /// Not allowed.
    Permission {
        /// The interface's name.
        name: String,
        /// The step that was refused.
        step: &'static str,
    },
    /// No interface of that name.
    NoInterface {
        /// The interface's name.
        name: String,
    },
    /// Its frames do not begin with an Ethernet header.
    NotEthernet {
        /// The interface's name.
        name: String,
    },
    /// The rings are larger than is allowed, or than there is memory.
    Memory {
        /// The interface's name.
        name: String,
        /// Bytes of the receiving ring.
        bytes: u64,
    },
    /// The fanout group is full, or was made in another mode or on another interface.
    Fanout {
        /// The interface's name.
        name: String,
        /// The group.
        group: u16,
        /// What joining it said.
        error: io::Error,
    },
    /// The pool's buffers cannot hold a frame of the interface's MTU.
    SmallBuffers {
        /// The interface's name.
        name: String,
        /// Bytes needed.
        need: usize,
        /// Bytes a buffer has behind its headroom.
        have: usize,
    },
    /// Anything else the system said.
    Os {
        /// The interface's name.
        name: String,
        /// The step.
        step: &'static str,
        /// What it said.
        error: io::Error,
    },
}

impl PacketError {
    pub(super) fn new(name: &str, config: &PacketConfig, step: &'static str, error: io::Error) -> PacketError {
        let name = name.to_string();
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => PacketError::Permission { name, step },
            Some(libc::EAFNOSUPPORT) => PacketError::Missing { name, error },
            // ENXIO: it was deleted between the first step and this one.
            Some(libc::ENODEV | libc::ENXIO) => PacketError::NoInterface { name },
            Some(libc::ENOMEM) if step.contains("_RING") => {
                let bytes = u64::from(config.rx_ring) * super::SLOT_MIN as u64;
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
                write!(f, "packet:{name}: no packet sockets here ({error}); load the af_packet module")
            }
            PacketError::Permission { name, step } => {
                write!(f, "packet:{name}: {step} refused: needs CAP_NET_RAW, or run in an own namespace")
            }
            PacketError::NoInterface { name } => {
                write!(
                    f,
                    "packet:{name}: no interface of that name in this namespace; `ip link` lists those that are there"
                )
            }
            PacketError::NotEthernet { name } => write!(f, "packet:{name}: not an Ethernet interface"),
            PacketError::Memory { name, bytes } => write!(
                f,
                "packet:{name}: no memory for rings of {bytes} bytes (1 GiB is the most): a smaller rx_ring or tx_ring"
            ),
            PacketError::Fanout { name, group, error } => write!(
                f,
                "packet:{name}: cannot join fanout group {group} ({error}): it is full, or was made with another fanout_mode, \
                 ignore_outgoing or on another interface; use the same options, or another group"
            ),
            PacketError::SmallBuffers { name, need, have } => write!(
                f,
                "packet:{name}: a frame may have {need} bytes and the pool's buffers have {have}: lower the interface's mtu, \
                 larger buffers, or lro=on"
            ),
            PacketError::Os { name, step, error } => write!(f, "packet:{name}: {step}: {error}"),
        }
    }
}

impl std::error::Error for PacketError {}
