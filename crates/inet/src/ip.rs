//! IP of either family: one fast path for common packets, 1 to 32 at a time.
//!
//! `link::ether`, the loopback queue and tunnels pass packets to [`input`]. From there they go to
//! UDP, to TCP, to [`forward`], or to the slow path of their family ([`crate::ip4`],
//! [`crate::ip6`]), which decides about all other packets and sets the drop reason.

pub(crate) mod exit;
mod forward;
mod input;
mod own;
mod source;

use crate::Stack;
use crate::fib::{AddrBits, NextHopId};
use crate::iface::{Iface, IfaceId};
use crate::neigh;
use crate::route::{Adjacency, Hop};
use crate::stack::{OwnFilter, SlowFrames};
use crate::sysctls::Sysctls;
use crate::{tcp, udp};
use buf::{Burst, Flags, Frame};
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
    /// Drop reason: forwarding is disabled on this host.
    const NOT_FORWARDING: DropReason;

    /// Returns whether this address family is enabled on `iface`.
    fn is_spoken<L: Locks>(iface: &Iface<L>) -> bool;
    /// Returns whether forwarding is enabled.
    fn is_router<L: Locks>(stack: &Stack<L>) -> bool;
    /// Fast path: removes the link header and padding of a packet and returns its header fields.
    /// Accepts only a complete, valid unicast packet that needs no special handling. For any other
    /// packet, returns `None` and changes nothing. If `station` is set, the packet is in an
    /// Ethernet frame, which must be addressed to this MAC address. `trusted` states that the port
    /// verifies checksums.
    fn open(packet: &mut Frame, station: Option<Mac>, trusted: bool, own: OwnFilter) -> Option<Opened<Self>>;
    /// Returns whether a socket may receive packets to the address `dst` of `iface` by the fast
    /// path.
    fn is_usable<L: Locks>(stack: &Stack<L>, cx: Cx, iface: IfaceId, dst: Self) -> bool;
    /// Returns the sysctl of source validation.
    fn source_validation(sysctls: &Sysctls) -> &Sysctl;
    /// Returns the source address of an opened packet.
    fn source_in(packet: &[u8]) -> Self;
    /// Returns whether the source is of link scope, so that the routes do not cover it.
    fn is_near(self) -> bool;
    /// Slow path: processes a chunk in which the packets of `slow` are not opened (parsed by
    /// [`Input::open`]), and counts all of the chunk as received. `framed` states that the `slow`
    /// packets still have their link header.
    fn input_slow<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: Option<&Iface<L>>,
        framed: bool,
        packets: &mut Burst,
        slow: SlowFrames,
        lap: Lap<'_>,
    );
    /// Slow path: processes opened packets; `ids` are their next hops.
    fn input_opened<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packets: &mut Burst,
        ids: &[Option<NextHopId>],
        lap: Lap<'_>,
    );
    /// Returns the destination of a packet, if the fast path can forward it to a link with this
    /// MTU.
    fn passable(packet: &Frame, mtu: usize) -> Option<Self>;
    /// Decrements the TTL or hop limit of a packet that [`Input::passable`] accepts.
    fn take_hop(packet: &mut Frame);
    /// Decrements the TTL or hop limit of an opened packet and writes its link header. Returns
    /// `false` and changes nothing if that is not possible.
    fn pass_on(packet: &mut Frame, mtu: usize, link: Adjacency) -> bool;
    /// Slow path: forwards a packet. Returns whether the packet or its fragments were sent or are
    /// queued until the neighbor is resolved.
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
    /// Sends an ARP request or neighbor solicitation.
    fn ask<L: Locks>(stack: &Stack<L>, cx: Cx, iface: &Iface<L>, next: Self::Addr);
}

/// Returns the IP header, `H` bytes, of a packet. If `station` is set, the IP header follows an
/// Ethernet header (`FRAMED` bytes in all), which must have this destination and the type
/// `ethertype`.
#[inline(always)]
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

/// Trims a frame to the `len` bytes of its IP packet, without link header and padding. Returns
/// `false` and changes nothing if the frame is shorter. If there is no link header, the caller has
/// checked the length.
#[inline(always)]
pub(crate) fn cut(packet: &mut Frame, station: Option<Mac>, len: usize) -> bool {
    if station.is_some() {
        return packet.open_link(eth::HEADER_LEN, len);
    }
    packet.truncate(len);
    true
}

/// Returns the length in bytes of the longest packet on the link: that of the packet itself, or of
/// the longest segment into which a large segment is split.
#[inline(always)]
pub(crate) fn link_len(packet: &Frame) -> usize {
    if packet.flags().has(Flags::GSO) { piece_len(packet) } else { packet.len() }
}

#[cold]
fn piece_len(packet: &Frame) -> usize {
    let segment = packet.gso_size().and_then(|size| Segment::read(packet.bytes(), 0, size));
    segment.map_or(packet.len(), |segment| segment.longest())
}
