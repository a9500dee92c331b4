//! The socket that segments are for.

use super::Sock;
use crate::demux::Ends;
use crate::slots::Locked;
use lock::Locks;

/// The socket that segments are for, locked.
pub(super) struct Open<'a, L: Locks, A> {
    pub(super) ends: Ends<A>,
    pub(super) id: usize,
    pub(super) slot: Locked<'a, L, Sock<L>>,
}
