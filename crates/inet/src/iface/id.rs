//! The number of an iface.

/// The number of an iface within its stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct IfaceId(pub u16);

/// `lo0`, the iface that each host has first.
pub const LOOPBACK: IfaceId = IfaceId(0);
