//! IP of both families: the fast path for common packets, which processes 1 to 32 packets at a
//! time.
//!
//! `link::ether`, the loopback queue and tunnels pass packets to [`input`]. This module passes them
//! on to UDP, TCP or [`forward`]. All other packets are passed to the slow path of their family
//! ([`crate::ip4`], [`crate::ip6`]), which processes them or drops them with a reason.

pub(crate) mod exit;
mod forward;
mod input;
mod own;
mod source;

use crate::Stack;
use crate::iface::{Iface, IfaceId};
use crate::neigh;
use crate::route::{Adjacency, Hop};
use crate::stack::{OwnFilter, SlowFrames};
use crate::sysctls::Sysctls;
use crate::{tcp, udp};
use buf::{Burst, Flags, Frame};
use fib::{AddrBits, NextHopId};
use lock::{Cx, Guarded, Locks};
use stats::{DropReason, Lap, Sysctl};
use wire::eth::{self, EtherType};
use wire::gso::Segment;
use wire::{Mac, Proto};

pub(crate) use forward::pass_on;

/// Header fields of a packet accepted by the fast path.
#[derive(Clone, Copy)]
pub(crate) struct Opened<A> {
    /// Protocol of the payload.
    pub(crate) proto: Proto,
    pub(crate) src: A,
    pub(crate) dst: A,
}

/// Family-specific part of IP input and forwarding.
pub(crate) trait Input: tcp::Net + udp::Receive + AddrBits<Addr: neigh::Address> {
    /// Drop reason for packets to other hosts while forwarding is off.
    const NOT_FORWARDING: DropReason;

    /// Returns whether this address family is enabled on `iface`.
    fn is_spoken<L: Locks>(iface: &Iface<L>) -> bool;
    /// Returns whether this host forwards packets of this family.
    fn is_router<L: Locks>(stack: &Stack<L>) -> bool;
    /// Parses a packet for the fast path: removes its link header and padding and returns its
    /// header fields. Accepts only a complete, valid unicast packet that needs no special handling.
    /// For any other packet, returns `None` and changes nothing. If `station` is set, the packet
    /// still has its Ethernet header, which must have this destination. `trusted` is true if
    /// checksums that the port has verified need not be verified again.
    fn open(packet: &mut Frame, station: Option<Mac>, trusted: bool, own: OwnFilter) -> Option<Opened<Self>>;
    /// Returns whether the fast path may deliver packets to `dst`, an address of `iface` or of a
    /// local route. An IPv6 address of `iface` is usable only after duplicate address detection has
    /// succeeded.
    fn is_usable<L: Locks>(stack: &Stack<L>, cx: Cx, iface: IfaceId, dst: Self) -> bool;
    /// Returns the sysctl that selects the mode of source validation.
    fn source_validation(sysctls: &Sysctls) -> &Sysctl;
    /// Returns the source address of a packet that [`Input::open`] accepted.
    fn source_in(packet: &[u8]) -> Self;
    /// Returns whether this source address is used only on the local link (for IPv6, link-local and
    /// unspecified addresses), so that the FIB contains no route to it.
    fn is_near(self) -> bool;
    /// Processes a chunk on the slow path and counts all of its packets as received.
    /// [`Input::open`] accepted all packets except those in `slow`. If `framed` is true, the
    /// packets in `slow` still have their link header.
    fn input_slow<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: Option<&Iface<L>>,
        framed: bool,
        packets: &mut Burst,
        slow: SlowFrames,
        lap: Lap<'_>,
    );
    /// Processes, on the slow path, packets that [`Input::open`] accepted. `ids` are their next
    /// hops.
    fn input_opened<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packets: &mut Burst,
        ids: &[Option<NextHopId>],
        lap: Lap<'_>,
    );
    /// Returns the destination of a packet; `None` if the fast path cannot forward the packet to a
    /// link with this MTU.
    fn passable(packet: &Frame, mtu: usize) -> Option<Self>;
    /// Decrements the TTL or hop limit of a packet that [`Input::passable`] accepts.
    fn take_hop(packet: &mut Frame);
    /// Decrements the TTL or hop limit of a packet that [`Input::open`] accepted, and writes its
    /// link header. Returns `false` and changes nothing if the fast path cannot forward the packet.
    fn pass_on(packet: &mut Frame, mtu: usize, link: Adjacency) -> bool;
    /// Forwards a packet on the slow path. Returns whether the packet or its fragments were sent,
    /// or are queued until the MAC address of the next hop is resolved.
    fn forward_slow<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        from: Option<&Iface<L>>,
        packet: Frame,
        hop: Option<&Hop<Self::Addr>>,
    ) -> bool;
    /// Returns the neighbor table.
    fn neighbors<L: Locks>(stack: &Stack<L>) -> &Guarded<L, neigh::Table<Self::Addr>>;
    /// Returns the limits of the neighbor table.
    fn neighbor_rules<L: Locks>(stack: &Stack<L>) -> neigh::Rules;
    /// Sends an ARP request or neighbor solicitation for `next`.
    fn ask<L: Locks>(stack: &Stack<L>, cx: Cx, iface: &Iface<L>, next: Self::Addr);
}

/// Returns the IP header (`H` bytes) of a packet. If `station` is set, the packet still has its
/// Ethernet header, which must have this destination and the type `ethertype`. `FRAMED` is the
/// length of both headers together.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn header<const H: usize, const FRAMED: usize>(
    packet: &Frame,
    station: Option<Mac>,
    ethertype: EtherType,
) -> Option<&[u8; H]> {
    match station {
        None => packet.bytes().first_chunk(),
        Some(mac) => {
            let headers = packet.bytes().first_chunk::<FRAMED>()?;
            headers.last_chunk().filter(|_| eth::is_between(headers, mac, ethertype))
        }
    }
}

/// Trims a frame to the `len` bytes of its IP packet, which removes the padding and, if `station`
/// is set, the Ethernet header. Returns `false` and changes nothing if a frame with an Ethernet
/// header is too short. Without that header, the caller must have checked the length.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn cut(packet: &mut Frame, station: Option<Mac>, len: usize) -> bool {
    if station.is_some() {
        return packet.open_link(eth::HEADER_LEN, len);
    }
    packet.truncate(len);
    true
}

/// Returns the length in bytes that a packet has on the link. For a large TCP segment (TSO), that
/// is the length of the longest segment into which it is split.
#[inline(always)]
pub(crate) fn link_len(packet: &Frame) -> usize {
    if packet.flags().has(Flags::GSO) { piece_len(packet) } else { packet.len() }
}

#[cold]
fn piece_len(packet: &Frame) -> usize {
    let segment = packet.gso_size().and_then(|size| Segment::read(packet.bytes(), 0, size));
    segment.map_or(packet.len(), |segment| segment.longest())
}
