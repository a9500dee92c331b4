//! IPv6 part of the fast path in [`crate::ip`]. It does not parse extension headers. Packets with
//! Hop-by-Hop options or link-local addresses take the slow path.

use crate::Stack;
use crate::iface::{Iface, IfaceId};
use crate::ip::{Input, Opened, cut, header, link_len, pass_on};
use crate::neigh;
use crate::route::{Adjacency, Hop};
use crate::stack::{OwnFilter, SlowFrames};
use crate::sysctls::Sysctls;
use buf::{Burst, Flags, Frame};
use fib::NextHopId;
use lock::{Cx, Guarded, Locks};
use stats::{DropReason, Lap, Sysctl};
use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;
use wire::eth::{self, EtherType};
use wire::{Mac, Proto, ip6};

/// Length in bytes of an Ethernet header and an IPv6 header together.
const FRAMED: usize = eth::HEADER_LEN + ip6::HEADER_LEN;

impl Input for u128 {
    const NOT_FORWARDING: DropReason = DropReason::Ip6NotForwarding;

    #[inline(always)]
    fn is_spoken<L: Locks>(iface: &Iface<L>) -> bool {
        iface.has_ip6()
    }

    #[inline(always)]
    fn is_router<L: Locks>(stack: &Stack<L>) -> bool {
        stack.sysctls.forwarding6.on()
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn open(packet: &mut Frame, station: Option<Mac>, _: bool, own: OwnFilter) -> Option<Opened<u128>> {
        let header = ip6::HeaderView::of(header::<{ ip6::HEADER_LEN }, FRAMED>(packet, station, EtherType::IPV6)?)?;
        let ip6::HeaderView { src, dst, .. } = header;
        let len = ip6::HEADER_LEN + usize::from(header.payload_len());
        let fits = station.is_some() || len <= packet.len();
        let plain = fits && is_host(src) && is_host(dst) && src != dst && !own.may_have(src);
        if !plain || header.next() == Proto::HOP_BY_HOP || packet.flags().has(Flags::LINK_BROADCAST) {
            return None;
        }
        cut(packet, station, len).then_some(Opened { proto: header.next(), src, dst })
    }

    #[inline(always)]
    fn is_usable<L: Locks>(stack: &Stack<L>, cx: Cx, iface: IfaceId, dst: u128) -> bool {
        let Some(iface) = stack.ifaces.get(iface) else { return false };
        let is_valid = || iface.addr6(cx, Ipv6Addr::from_bits(dst)).is_none_or(|own| own.state.is_valid());
        !iface.unsure6.load(Ordering::Acquire) || is_valid()
    }

    #[inline(always)]
    fn source_validation(sysctls: &Sysctls) -> &Sysctl {
        &sysctls.source_validation6
    }

    fn source_in(packet: &[u8]) -> u128 {
        ip6::HeaderView::of(packet).map_or(0, |header| header.src)
    }

    /// Returns whether the address is link-local or unspecified (RFC 4291 2.5.2, 2.5.6).
    fn is_near(self) -> bool {
        self == 0 || ip6::is_link_local(Ipv6Addr::from_bits(self))
    }

    #[inline(never)]
    fn input_slow<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: Option<&Iface<L>>,
        framed: bool,
        packets: &mut Burst,
        slow: SlowFrames,
        lap: Lap<'_>,
    ) {
        let (mut four, mut opened, lost) = (Burst::new(), Burst::new(), || stack.count_bug(cx));
        slow.sort(packets, lost, |packet| {
            match iface.filter(|_| framed) {
                None => stack.ip6_input(cx, iface, packet),
                Some(iface) if eth::is_between(packet.bytes(), iface.mac, EtherType::IPV4) => four.put(packet, lost),
                Some(iface) => {
                    if let Some(packet) = stack.ether_slow(cx, iface, packet) {
                        opened.put(packet, lost);
                    }
                }
            }
            None
        });
        stack.ip_input::<u32>(cx, iface, iface.map(|iface| iface.mac), &mut four, lap);
        stack.ip_input::<u32>(cx, iface, None, &mut opened, lap);
        stack.ip_input::<u128>(cx, iface, None, packets, lap); // the remaining packets
    }

    #[inline(never)]
    fn input_opened<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packets: &mut Burst,
        _: &[Option<NextHopId>],
        _: Lap<'_>,
    ) {
        packets.drain().for_each(|packet| stack.ip6_packet(cx, iface, packet));
    }

    #[inline(always)]
    fn passable(packet: &Frame, mtu: usize) -> Option<u128> {
        let header = ip6::HeaderView::of(packet.bytes())?;
        let room = link_len(packet) <= mtu && packet.headroom() >= eth::HEADER_LEN;
        (room && header.hop_limit() > 1 && !packet.flags().has(Flags::LINK_BROADCAST)).then_some(header.dst)
    }

    #[inline(always)]
    fn take_hop(packet: &mut Frame) {
        ip6::decrement_hop_limit(packet.bytes_mut());
    }

    #[inline(always)]
    fn pass_on(packet: &mut Frame, mtu: usize, link: Adjacency) -> bool {
        pass_on(packet, mtu, link, ip6::take_hop)
    }

    fn forward_slow<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        from: Option<&Iface<L>>,
        packet: Frame,
        hop: Option<&Hop<Ipv6Addr>>,
    ) -> bool {
        match ip6::Header::parse(packet.bytes()) {
            Ok(header) => stack.ip6_forward(cx, from, packet, &header, hop),
            Err(_) => {
                stack.drop_frame(cx, packet, DropReason::Ip6Malformed);
                false
            }
        }
    }

    #[inline(always)]
    fn neighbors<L: Locks>(stack: &Stack<L>) -> &Guarded<L, neigh::Table<Ipv6Addr>> {
        &stack.six.neighbors
    }

    fn neighbor_rules<L: Locks>(stack: &Stack<L>) -> neigh::Rules {
        stack.neigh_rules6()
    }

    fn ask<L: Locks>(stack: &Stack<L>, cx: Cx, iface: &Iface<L>, next: Ipv6Addr) {
        stack.nd_ask(cx, iface, next, false);
    }
}

/// Returns whether an address can belong to a single host on any link: not in ::/8 (unspecified,
/// loopback, IPv4-mapped and translated addresses) and not in fe00::/7 (link-local, multicast).
#[inline(always)]
fn is_host(addr: u128) -> bool {
    let first = (addr >> 120) as u8;
    first.wrapping_sub(1) < 0xfd
}
