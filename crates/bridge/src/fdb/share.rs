//! Number of learned addresses per port, and its limit (ifmaxaddr in if_bridge).
//!
//! The limit applies to learned addresses, including sticky ones. Configured addresses (static ones
//! and the bridge's own) are not counted. The counts change when entries are added or removed,
//! never on a lookup.

use super::{Fdb, Place};
use crate::{MAX_PORTS, PortNo};

#[derive(Debug, Clone, Copy)]
struct Share {
    has: u32,
    most: u32,
}

#[derive(Debug)]
pub(super) struct Shares(Box<[Share]>);

impl Shares {
    pub(super) fn new() -> Shares {
        Shares(vec![Share { has: 0, most: u32::MAX }; MAX_PORTS].into_boxed_slice())
    }

    fn of(&mut self, port: PortNo) -> Option<&mut Share> {
        self.0.get_mut(usize::from(port))
    }

    pub(super) fn has_room(&self, port: PortNo) -> bool {
        self.0.get(usize::from(port)).is_none_or(|share| share.has < share.most)
    }

    pub(super) fn came(&mut self, place: &Place) {
        if let Some(share) = self.of(place.port).filter(|_| place.is_shared()) {
            share.has += 1;
        }
    }

    pub(super) fn went(&mut self, place: &Place) {
        if let Some(share) = self.of(place.port).filter(|_| place.is_shared()) {
            share.has = share.has.saturating_sub(1);
        }
    }

    pub(super) fn moved(&mut self, from: PortNo, to: PortNo) {
        if let Some(share) = self.of(from) {
            share.has = share.has.saturating_sub(1);
        }
        if let Some(share) = self.of(to) {
            share.has += 1;
        }
    }
}

impl Fdb {
    /// Returns the number of learned addresses at `port`.
    pub fn addresses(&self, port: PortNo) -> u32 {
        self.shares.0.get(usize::from(port)).map_or(0, |share| share.has)
    }

    /// Returns the limit of learned addresses at `port`; `None` if there is no limit.
    pub fn limit(&self, port: PortNo) -> Option<u32> {
        self.shares.0.get(usize::from(port)).map(|share| share.most).filter(|most| *most != u32::MAX)
    }

    /// Sets the limit of learned addresses at `port`. Known addresses are kept. Over the limit, the
    /// bridge drops frames from new addresses, as if_bridge does.
    pub fn set_limit(&mut self, port: PortNo, most: Option<u32>) {
        if let Some(share) = self.shares.of(port) {
            share.most = most.unwrap_or(u32::MAX);
        }
    }
}
