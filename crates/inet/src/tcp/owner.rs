//! The socket to which a received segment belongs.

use super::Sock;
use crate::demux::Ends;
use crate::slots::Locked;
use lock::Locks;

/// A locked socket to which a received segment belongs: the socket of its connection, or a
/// listener.
pub(super) struct Owner<'a, L: Locks, A> {
    pub(super) ends: Ends<A>,
    pub(super) id: usize,
    pub(super) slot: Locked<'a, L, Sock<L>>,
}
