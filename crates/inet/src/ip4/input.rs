//! IPv4 part of the fast path in [`crate::ip`], which accepts complete unicast packets without
//! options.

use super::Destination;
use crate::Stack;
use crate::iface::{Iface, IfaceId};
use crate::ip::{Input, Opened, cut, header, link_len, pass_on};
use crate::neigh;
use crate::route::{Adjacency, Hop};
use crate::stack::{CHUNK, OwnFilter, SlowFrames};
use crate::sysctls::Sysctls;
use buf::{Burst, Flags, Frame};
use fib::NextHopId;
use lock::{Cx, Guarded, Locks};
use stats::{DropReason, Lap, Stage, Sysctl};
use std::net::Ipv4Addr;
use wire::eth::{self, EtherType};
use wire::{Mac, ip4};

/// Length in bytes of an Ethernet header and an IPv4 header together.
const FRAMED: usize = eth::HEADER_LEN + ip4::HEADER_LEN;

impl Input for u32 {
    const NOT_FORWARDING: DropReason = DropReason::Ip4NotForwarding;

    #[inline(always)]
    fn is_spoken<L: Locks>(_: &Iface<L>) -> bool {
        true
    }

    #[inline(always)]
    fn is_router<L: Locks>(stack: &Stack<L>) -> bool {
        stack.sysctls.forwarding.on()
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn open(packet: &mut Frame, station: Option<Mac>, trusted: bool, own: OwnFilter) -> Option<Opened<u32>> {
        let bytes = header::<{ ip4::HEADER_LEN }, FRAMED>(packet, station, EtherType::IPV4)?;
        let header = ip4::HeaderView::of(bytes)?;
        let len = usize::from(header.total_len());
        let (src, dst) = (header.src().to_bits(), header.dst().to_bits());
        let flags = packet.flags();
        // If `station` is set, `open_link` checks that the frame is long enough.
        let fits = len >= ip4::HEADER_LEN && (station.is_some() || len <= packet.len());
        let sound = (trusted && flags.has(Flags::RX_IP_OK)) || header.checksum_ok();
        let plain = header.is_unfragmented_without_options()
            && fits
            && sound
            && is_host(src)
            && is_host(dst)
            && src != dst
            && !own.may_have(src);
        if !plain || flags.has(Flags::LINK_BROADCAST) {
            return None;
        }
        cut(packet, station, len).then_some(Opened { proto: header.proto(), src, dst })
    }

    #[inline(always)]
    fn is_usable<L: Locks>(_: &Stack<L>, _: Cx, _: IfaceId, _: u32) -> bool {
        true
    }

    #[inline(always)]
    fn source_validation(sysctls: &Sysctls) -> &Sysctl {
        &sysctls.source_validation
    }

    fn source_in(packet: &[u8]) -> u32 {
        ip4::HeaderView::of(packet).map_or(0, |header| header.src().to_bits())
    }

    fn is_near(self) -> bool {
        false
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
        let (n, mut udp) = (packets.len() as u64, Burst::new());
        stack.count(cx).ip4.received.add(n - slow.count() as u64);
        let (mut six, lost) = (Burst::new(), || stack.count_bug(cx));
        slow.sort(packets, lost, |mut packet| {
            if let Some(iface) = iface.filter(|_| framed) {
                if eth::is_between(packet.bytes(), iface.mac, EtherType::IPV6) && iface.has_ip6() {
                    six.put(packet, lost); // cannot overflow: contains only packets of this chunk
                    return None;
                }
                packet = stack.ether_slow(cx, iface, packet)?;
            }
            stack.count(cx).ip4.received.bump();
            match stack.ip4_check(cx, iface, &mut packet) {
                Err(why) => stack.drop_frame(cx, packet, why),
                Ok((_, Destination::Unicast)) => return Some(packet),
                Ok((header, Destination::Broadcast)) => stack.ip4_deliver(cx, iface, packet, &header, &mut udp),
                Ok((header, Destination::Multicast)) => stack.ip4_group(cx, iface, packet, &header, &mut udp),
            }
            None
        });
        if let Some(iface) = iface.filter(|_| !six.is_empty()) {
            stack.ip_input::<u128>(cx, Some(iface), Some(iface.mac), &mut six, lap);
        }
        lap.mark(Stage::Ip4Input, n);
        let (mut dst, mut ids) = ([0; CHUNK], [None; CHUNK]);
        for (packet, dst) in packets.as_slice().iter().zip(&mut dst) {
            *dst = ip4::HeaderView::of(packet.bytes()).map_or(0, |header| header.dst().to_bits());
        }
        let pinned = stack.ways.pin(cx);
        let dst = dst.get(..packets.len()).unwrap_or_default();
        stack.count_routes(cx, &pinned, packets.as_slice(), dst);
        stack.ways.lookup_chunk(&pinned, dst, &mut ids);
        if stack.ways.has_paths() {
            stack.choose_paths::<u32>(cx, &pinned, packets, &mut ids);
        }
        stack.ip4_route(cx, iface, packets, &ids, udp, lap);
    }

    fn input_opened<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packets: &mut Burst,
        ids: &[Option<NextHopId>],
        lap: Lap<'_>,
    ) {
        stack.ip4_route(cx, iface, packets, ids, Burst::new(), lap);
    }

    #[inline(always)]
    fn passable(packet: &Frame, mtu: usize) -> Option<u32> {
        let header = ip4::HeaderView::of(packet.bytes())?;
        let room = link_len(packet) <= mtu && packet.headroom() >= eth::HEADER_LEN;
        let room = room && header.ihl_len() == ip4::HEADER_LEN; // the slow path processes options
        (room && header.ttl() > 1 && !packet.flags().has(Flags::LINK_BROADCAST)).then(|| header.dst().to_bits())
    }

    #[inline(always)]
    fn take_hop(packet: &mut Frame) {
        ip4::decrement_ttl(packet.bytes_mut());
    }

    #[inline(always)]
    fn pass_on(packet: &mut Frame, mtu: usize, link: Adjacency) -> bool {
        pass_on(packet, mtu, link, ip4::take_hop)
    }

    fn forward_slow<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        from: Option<&Iface<L>>,
        packet: Frame,
        hop: Option<&Hop>,
    ) -> bool {
        stack.forward_slow(cx, from, packet, hop)
    }

    #[inline(always)]
    fn neighbors<L: Locks>(stack: &Stack<L>) -> &Guarded<L, neigh::Table> {
        &stack.neighbors
    }

    fn neighbor_rules<L: Locks>(stack: &Stack<L>) -> neigh::Rules {
        stack.neigh_rules()
    }

    fn ask<L: Locks>(stack: &Stack<L>, cx: Cx, iface: &Iface<L>, next: Ipv4Addr) {
        stack.arp_ask(cx, iface, next, None);
    }
}

/// Returns whether an address can belong to a single host: not in 0/8, 127/8, multicast, 240/4 or
/// broadcast.
#[inline(always)]
fn is_host(addr: u32) -> bool {
    addr.wrapping_sub(1 << 24) < 223 << 24 && addr ^ 127 << 24 >= 1 << 24
}
