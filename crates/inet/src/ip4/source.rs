//! Source address validation: does a packet come from where packets to its source would go? (reverse path, uRPF: RFC 1812 5.3.8, RFC 3704)
//!
//! Off unless the knob net.inet.ip.source_validation says otherwise: a chunk then asks the FIB for its sources as it does for its
//! destinations, and what is in doubt goes the long way, where it ends.

use crate::Stack;
use crate::iface::{Iface, IfaceId};
use crate::route::Via;
use crate::stack::{CHUNK, Odd};
use buf::Burst;
use lock::{Cx, Locks, Pinned};
use std::net::Ipv4Addr;
use wire::ip4;

/// The knob's values.
pub(crate) const STRICT: i64 = 2;

impl<L: Locks> Stack<L> {
    /// Which packets of a chunk have sources that are not valid at `iface`.
    #[cold]
    pub(crate) fn doubtful_sources(&self, cx: Cx, iface: &Iface<L>, packets: &Burst) -> Odd {
        let (mut src, mut ids, mut odd) = ([0; CHUNK], [None; CHUNK], Odd::default());
        for (packet, src) in packets.as_slice().iter().zip(&mut src) {
            *src = ip4::Glance::of(packet.bytes()).map_or(0, |header| header.src().to_bits());
        }
        let pinned = self.ways.pin(cx);
        self.ways.lookup_chunk(&pinned, src.get(..packets.len()).unwrap_or_default(), &mut ids);
        for (at, id) in ids.iter().enumerate().take(packets.len()) {
            let via = id.and_then(|id| self.ways.hop(&pinned, id)).map(|hop| hop.via);
            if !self.leads_back(&pinned, via, iface.id) {
                odd.add(at);
            }
        }
        odd
    }

    /// May a packet from `src` come by `iface`?
    pub(crate) fn source_is_valid(&self, cx: Cx, iface: IfaceId, src: Ipv4Addr) -> bool {
        if self.knobs.source_validation.get() == 0 {
            return true;
        }
        let pinned = self.ways.pin(cx);
        self.leads_back(&pinned, self.ways.lookup_within(&pinned, src.to_bits()).map(|hop| hop.via), iface)
    }

    /// Loose: a route leads to the source, wherever (RFC 3704 2.4). Strict: by `iface`, if only as one of several paths (2.2, 2.3). A route
    /// to nowhere is none: so a source can be shut out everywhere at once (RFC 5635 4).
    fn leads_back(&self, pinned: &Pinned<'_>, via: Option<Via>, iface: IfaceId) -> bool {
        let strict = self.knobs.source_validation.get() >= STRICT;
        match via {
            Some(Via::Link(out) | Via::Gateway(out, _)) => !strict || out == iface,
            Some(Via::Paths(set)) => !strict || self.ways.has_path_by(pinned, set, iface),
            Some(Via::Local(_) | Via::Broadcast(_) | Via::Reject | Via::Prohibit | Via::Blackhole) | None => false,
        }
    }
}
