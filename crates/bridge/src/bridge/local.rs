//! Frames for the bridge itself: for an address of its own, and, where a spanning tree runs, for the reserved groups.
//!
//! They wait in a queue of [`MOST`] for whoever runs the bridge ([`Bridge::take_local`]); the audit has them as consumed when they enter.
//! Groups and broadcasts are not among them: who wants those too adds a port for itself.

use super::Bridge;
use super::flood::Way;
use super::input::{OWN, Verdict};
use crate::{Key, Kind, PortNo};
use buf::Frame;
use clock::Instant;
use stats::DropReason;
use std::collections::VecDeque;
use wire::Mac;

/// Frames that wait at most.
pub const MOST: usize = 256;

/// A frame for the bridge itself.
#[derive(Debug)]
pub struct Local {
    /// The port through which it came.
    pub from: PortNo,
    /// Its VLAN; 0 where they are not kept apart, and for the reserved groups.
    pub vid: u16,
    /// As it came, with its tag.
    pub frame: Frame,
}

/// What becomes of frames for 01-80-C2-00-00-00 to 0F, which no bridge forwards (IEEE 802.1Q table 8-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reserved {
    /// Dropped.
    #[default]
    Drop,
    /// To the bridge itself: a spanning tree (or LLDP, LACP) reads them, through ports that discard and are muted too.
    Local,
}

#[derive(Debug, Default)]
pub(super) struct Outlet(VecDeque<Local>);

impl Bridge {
    /// Gives the bridge an address, its own in all VLANs: frames for it go to the bridge itself, and no port may send from it. Where VLANs
    /// are kept apart it is not looked up but compared, so that it takes no place of the table in each.
    pub fn set_address(&mut self, mac: Mac, now: Instant) {
        self.fdb.flush(|entry| entry.kind == Kind::Local, now);
        self.fdb.insert_local(Key::new(0, mac), now);
        let [a, b, c, d, e, f] = mac.0;
        self.address = Some(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
    }

    /// What becomes of frames for reserved groups.
    pub fn set_reserved(&mut self, reserved: Reserved) {
        self.reserved = reserved;
    }

    #[cold]
    pub(super) fn reserved_verdict(&self) -> Verdict {
        match self.reserved {
            Reserved::Drop => Verdict::drop(DropReason::BridgeReserved),
            Reserved::Local => OWN,
        }
    }

    /// The next frame for the bridge itself. Who does not take them has the first [`MOST`] wait and the rest dropped.
    pub fn take_local(&mut self) -> Option<Local> {
        self.outlet.0.pop_front()
    }

    #[cold]
    pub(super) fn keep(&mut self, way: Way, frame: Frame) {
        if self.outlet.0.len() >= MOST {
            return self.dropped(way.from, DropReason::BridgeLocalFull, &frame);
        }
        self.outlet.0.push_back(Local { from: way.from, vid: way.vid, frame });
        if let Some((_, counts)) = self.members.get_mut(usize::from(way.from)) {
            counts.local += 1;
        }
    }
}
