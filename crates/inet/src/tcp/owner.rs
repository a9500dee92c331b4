//! The socket that owns segments.

use super::Sock;
use crate::demux::Ends;
use crate::slots::Locked;
use lock::Locks;

/// The socket that owns segments, locked.
pub(super) struct Owner<'a, L: Locks, A> {
    pub(super) ends: Ends<A>,
    pub(super) id: usize,
    pub(super) slot: Locked<'a, L, Sock<L>>,
}
