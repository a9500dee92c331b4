//! Identifiers of the interfaces of a stack.

/// Number of an interface within its stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct IfaceId(pub u16);

/// `lo0`, the first interface of every host.
pub const LOOPBACK: IfaceId = IfaceId(0);
