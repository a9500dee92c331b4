//! IP of either family: one body for the packets that nearly all are, 1 to 32 at a time.
//!
//! `link::ether`, the loopback queue and tunnels hand packets to [`input`]; each goes to UDP, to TCP, to [`forward`], or to
//! the slow path of its family ([`crate::ip4`], [`crate::ip6`]), which has the last word and the reason.

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
use crate::stack::{Odd, OwnFilter};
use crate::{tcp, udp};
use buf::{Burst, Flags, Frame};
use lock::{Cx, Guarded, Locks};
use stats::{DropReason, Lap};
use wire::eth::{self, EtherType};
use wire::gso::Segment;
use wire::{Mac, Proto};

pub(crate) use forward::pass_on;

/// Values from the header of a packet that the fast path takes.
#[derive(Clone, Copy)]
pub(crate) struct Opened<A> {
    /// Protocol of what follows the header.
    pub(crate) proto: Proto,
    pub(crate) src: A,
    pub(crate) dst: A,
}

/// A family as input and forwarding take its packets.
pub(crate) trait Input: tcp::Net + udp::Receive + AddrBits<Addr: neigh::Address> {
    /// Reason of a packet that is not forwarded since this host is no router.
    const NOT_FORWARDING: DropReason;

    /// Returns whether `iface` takes packets of the family.
    fn is_spoken<L: Locks>(iface: &Iface<L>) -> bool;
    /// Returns whether this host is a router.
    fn is_router<L: Locks>(stack: &Stack<L>) -> bool;
    /// Fast path: returns values from a packet that is whole, sound, from a host to a host, and without anything that needs
    /// a second look; leaves it without link header and padding. `station`: it is in an Ethernet frame, and must be for
    /// this station. `trusted`: its port verifies checksums. `None`, and nothing changed, of any other.
    fn open(packet: &mut Frame, station: Option<Mac>, trusted: bool, own: OwnFilter) -> Option<Opened<Self>>;
    /// Returns whether a socket's fast path may take packets to the address `dst` of `iface`.
    fn is_usable<L: Locks>(stack: &Stack<L>, cx: Cx, iface: IfaceId, dst: Self) -> bool;
    /// Returns the source address of an opened packet.
    fn source_in(packet: &[u8]) -> Self;
    /// Returns whether this is the source of packets that do not leave a link, of which routes know nothing.
    fn is_near(self) -> bool;
    /// Slow path: takes a chunk in which some packets, the odd ones, are not opened, and counts all of it as received.
    /// `framed`: the odd ones have their link header.
    fn input_odd<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: Option<&Iface<L>>,
        framed: bool,
        packets: &mut Burst,
        odd: Odd,
        lap: Lap<'_>,
    );
    /// Slow path: takes opened packets whose next hops are `ids`.
    fn input_opened<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packets: &mut Burst,
        ids: &[Option<NextHopId>],
        lap: Lap<'_>,
    );
    /// Returns the destination of a packet that may be forwarded by the fast path to a link with this MTU.
    fn passable(packet: &Frame, mtu: usize) -> Option<Self>;
    /// Takes a hop from a packet that [`Input::passable`] accepts.
    fn take_hop(packet: &mut Frame);
    /// Takes a hop from an opened packet and gives it a link header; `false`, and nothing changed, if something is in its
    /// way.
    fn pass_on(packet: &mut Frame, mtu: usize, link: Adjacency) -> bool;
    /// Slow path: forwards a packet; returns whether it, or its fragments, went out or wait for a neighbor.
    fn forward_slow<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        from: Option<&Iface<L>>,
        packet: Frame,
        hop: Option<&Hop<Self::Addr>>,
    ) -> bool;
    /// Returns the neighbors.
    fn neighbors<L: Locks>(stack: &Stack<L>) -> &Guarded<L, neigh::Table<Self::Addr>>;
    /// Returns the rules for them.
    fn neighbor_rules<L: Locks>(stack: &Stack<L>) -> neigh::Rules;
    /// Asks for a neighbor's link-layer address.
    fn ask<L: Locks>(stack: &Stack<L>, cx: Cx, iface: &Iface<L>, next: Self::Addr);
}

/// Returns the IP header of `H` bytes of a packet; `station`: it follows an Ethernet header, `FRAMED` bytes with that, which
/// must be for this station and of `ethertype`.
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

/// Leaves the `len` bytes of an IP packet without link header and padding. `false`, and nothing changed, if a frame has
/// fewer; without one the caller has seen that they are there.
#[inline(always)]
pub(crate) fn cut(packet: &mut Frame, station: Option<Mac>, len: usize) -> bool {
    if station.is_some() {
        return packet.open_link(eth::HEADER_LEN, len);
    }
    packet.truncate(len);
    true
}

/// Returns the length of the longest packet that a link sees of this one: itself, or a piece of a large segment.
#[inline(always)]
pub(crate) fn link_len(packet: &Frame) -> usize {
    if packet.flags().has(Flags::GSO) { piece_len(packet) } else { packet.len() }
}

#[cold]
fn piece_len(packet: &Frame) -> usize {
    let segment = packet.gso_size().and_then(|size| Segment::read(packet.bytes(), 0, size));
    segment.map_or(packet.len(), |segment| segment.longest())
}
