//! The socket that owns a segment.

use super::Sock;
use crate::demux::Ends;
use crate::slots::Locked;
use lock::Locks;

/// The locked socket that owns a segment.
pub(super) struct Owner<'a, L: Locks, A> {
    pub(super) ends: Ends<A>,
    pub(super) id: usize,
    pub(super) slot: Locked<'a, L, Sock<L>>,
}
