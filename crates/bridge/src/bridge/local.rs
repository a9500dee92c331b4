//! Frames for the bridge itself: frames for its own address, and, with a spanning tree, frames for
//! the reserved groups.
//!
//! The frames wait in a queue of [`MOST`] frames until the owner of the bridge takes them
//! ([`Bridge::take_local`]). A frame is counted as local once it is queued. Frames for other groups
//! and broadcasts are not delivered here: to receive them, add a port.

use super::Bridge;
use super::flood::Ingress;
use super::input::{OWN, Verdict};
use crate::{Key, Kind, PortNo};
use buf::Frame;
use clock::Instant;
use stats::DropReason;
use std::collections::VecDeque;
use wire::Mac;

/// Maximum number of queued frames for the bridge itself.
pub const MOST: usize = 256;

/// A frame for the bridge itself.
#[derive(Debug)]
pub struct Local {
    /// Port on which the frame was received.
    pub from: PortNo,
    /// VLAN of the frame; 0 without VLAN filtering, and for reserved groups.
    pub vid: u16,
    /// The frame as received, with its tag.
    pub frame: Frame,
}

/// Handling of frames for 01-80-C2-00-00-00 to 0F, which no bridge forwards (IEEE 802.1Q table
/// 8-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reserved {
    /// Drop them, which is the default.
    #[default]
    Drop,
    /// Deliver them to the bridge itself, where the spanning tree, LLDP or LACP can process them.
    /// This includes frames from discarding and muted ports.
    Local,
}

#[derive(Debug, Default)]
pub(super) struct Outlet(VecDeque<Local>);

impl Bridge {
    /// Sets the bridge's own address, which is used in all VLANs. Frames for this address go to the
    /// bridge itself; frames from this address are dropped at all ports. With VLAN filtering, each
    /// frame is compared with the address, so that the table needs no entry for it in each VLAN.
    pub fn set_address(&mut self, mac: Mac, now: Instant) {
        self.fdb.flush(|entry| entry.kind == Kind::Local, now);
        self.fdb.insert_local(Key::new(0, mac), now);
        let [a, b, c, d, e, f] = mac.0;
        self.address = Some(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
    }

    /// Sets the handling of frames for reserved groups.
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

    /// Returns the next frame for the bridge itself. If the caller does not take the frames, the
    /// first [`MOST`] remain queued and later ones are dropped.
    pub fn take_local(&mut self) -> Option<Local> {
        self.outlet.0.pop_front()
    }

    #[cold]
    pub(super) fn keep(&mut self, way: Ingress, frame: Frame) {
        if self.outlet.0.len() >= MOST {
            return self.dropped(way.from, DropReason::BridgeLocalFull, &frame);
        }
        self.outlet.0.push_back(Local { from: way.from, vid: way.vid, frame });
        if let Some((_, counts)) = self.members.get_mut(usize::from(way.from)) {
            counts.local += 1;
        }
    }
}
