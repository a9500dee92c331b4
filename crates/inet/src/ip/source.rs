//! Source address validation (unicast reverse path forwarding, uRPF: RFC 1812 5.3.8, RFC 3704). It
//! drops a packet if there is no usable route to its source address. In strict mode, it also drops
//! the packet if this route leads through another interface than the one on which it arrived.
//!
//! The sysctls net.inet.ip.source_validation and net.inet6.ip6.source_validation are off by
//! default. If one is on, the source addresses of a burst are looked up in the FIB in one step, as
//! the destination addresses are. Packets that fail the check take the slow path, which drops them.

use super::Input;
use crate::Stack;
use crate::iface::{Iface, IfaceId};
use crate::route::Via;
use crate::stack::{CHUNK, SlowFrames};
use buf::Burst;
use lock::{Cx, Locks, Pinned};

/// Value of the sysctl that selects the strict mode.
const STRICT: i64 = 2;

/// Mode of source validation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The route to the source may use any interface (RFC 3704 2.4).
    Loose,
    /// The route to the source must use the interface that received the packet (RFC 3704 2.2, 2.3).
    Strict,
}

impl<L: Locks> Stack<L> {
    /// Returns whether source validation is on for the address family `F`.
    #[inline(always)]
    pub(crate) fn validates<F: Input>(&self) -> bool {
        F::source_validation(&self.sysctls).on()
    }

    /// Returns the packets of a chunk whose sources are not valid at `iface`.
    #[cold]
    pub(crate) fn invalid_sources<F: Input>(&self, cx: Cx, iface: &Iface<L>, packets: &Burst) -> SlowFrames {
        let (mut src, mut ids, mut slow) = ([F::default(); CHUNK], [None; CHUNK], SlowFrames::default());
        for (packet, src) in packets.as_slice().iter().zip(&mut src) {
            *src = F::source_in(packet.bytes());
        }
        let (reader, mode) = (F::routes_reader(self), self.mode::<F>());
        let pinned = reader.pin(cx);
        reader.lookup_chunk(&pinned, src.get(..packets.len()).unwrap_or_default(), &mut ids);
        for (at, (id, src)) in ids.iter().zip(src).enumerate().take(packets.len()) {
            let via = id.and_then(|id| reader.hop(&pinned, id)).map(|hop| hop.via);
            if !src.is_near() && !self.leads_back::<F>(&pinned, via, iface.id, mode) {
                slow.add(at);
            }
        }
        slow
    }

    /// Returns whether a packet from `src` may arrive by `iface`.
    #[inline(always)]
    pub(crate) fn is_valid_source<F: Input>(&self, cx: Cx, iface: IfaceId, src: F) -> bool {
        !self.validates::<F>() || self.is_behind(cx, iface, src, self.mode::<F>())
    }

    /// Returns whether the route to `src` uses `iface`, whether source validation is on or not.
    pub(crate) fn is_reached_by<F: Input>(&self, cx: Cx, iface: IfaceId, src: F) -> bool {
        self.is_behind(cx, iface, src, Mode::Strict)
    }

    fn mode<F: Input>(&self) -> Mode {
        if F::source_validation(&self.sysctls).get() >= STRICT { Mode::Strict } else { Mode::Loose }
    }

    #[inline(never)]
    fn is_behind<F: Input>(&self, cx: Cx, iface: IfaceId, src: F, mode: Mode) -> bool {
        let reader = F::routes_reader(self);
        let pinned = reader.pin(cx);
        let via = || reader.lookup_within(&pinned, src).map(|hop| hop.via);
        src.is_near() || self.leads_back::<F>(&pinned, via(), iface, mode)
    }

    /// Returns whether a packet may arrive by `iface`, given the route `via` to its source. In
    /// strict mode, one path of a multipath route must use `iface`. Reject and blackhole routes
    /// never permit a packet, so they can block a source at all interfaces (RFC 5635 4).
    fn leads_back<F: Input>(&self, pinned: &Pinned<'_>, via: Option<Via<F::Addr>>, iface: IfaceId, mode: Mode) -> bool {
        let strict = mode == Mode::Strict;
        match via {
            Some(Via::Link(out) | Via::Gateway(out, _) | Via::Gateway6(out, _)) => !strict || out == iface,
            Some(Via::Paths(set)) => !strict || F::routes_reader(self).has_path_by(pinned, set, iface),
            Some(Via::Local(_) | Via::Broadcast(_) | Via::Reject | Via::Prohibit | Via::Blackhole) | None => false,
        }
    }
}
