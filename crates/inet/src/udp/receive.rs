//! Differences between the families when UDP receives a datagram: field offsets, and the answer to
//! a datagram without a socket.

use super::OfPcb;
use super::check::Check;
use super::read::{Headers, PLAIN4, PLAIN6, Sender, ports};
use crate::Stack;
use crate::demux::{Ends, Ends4, Ends6, WireEnds};
use crate::family::Family;
use crate::icmp4::Cause;
use crate::iface::{Iface, IfaceId};
use crate::zone;
use buf::{Flags, Frame};
use lock::{Cx, Locks};
use std::net::{IpAddr, Ipv6Addr};
use wire::checksum::Partial;
use wire::icmp6::{self, Problem};
use wire::ip6::{self, Chain};
use wire::{L4Port, Proto, icmp4, ip4, udp};

/// Address family, as used by UDP input.
pub(crate) trait Receive: Family + OfPcb {
    /// Fast path: reduces a valid unicast datagram to its payload, with the headers in front of it,
    /// and returns its addresses and ports. The UDP header must directly follow a fixed IP header.
    /// Counts datagrams without a checksum. For any other datagram, returns `None` and changes
    /// nothing.
    fn strip(check: Check, packet: &mut Frame, came_by: IfaceId, without_checksum: &mut u64) -> Option<Self::Wire>;
    /// Reduces a datagram that [`Receive::strip`] rejected to its payload, as that function does.
    /// The datagram may have IP options.
    fn strip_options(check: Check, packet: &mut Frame, without_checksum: &mut u64) -> Option<Self::Wire>;
    /// Slow path: delivers a datagram that has not been stripped, or drops it with the reason.
    /// Returns the number of deliveries.
    fn udp_input_slow<L: Locks>(stack: &Stack<L>, cx: Cx, iface: Option<&Iface<L>>, packet: Frame) -> u64;
    /// Processes a stripped datagram for which there is no socket. Passes it to a VXLAN tunnel or
    /// to the forwarder, or drops it and sends an ICMP error.
    fn no_socket<L: Locks>(stack: &Stack<L>, cx: Cx, iface: Option<&Iface<L>>, packet: Frame);
    /// Returns the addresses and ports of a valid datagram that begins with its IP header. `iface`
    /// received it, and is the zone of link-local addresses.
    fn ends_in(packet: &[u8], iface: IfaceId) -> Option<Ends<Self>>;
    /// Sends an ICMP error (port unreachable) about a datagram that begins with its IP header.
    fn port_unreachable<L: Locks>(stack: &Stack<L>, cx: Cx, iface: Option<IfaceId>, packet: &Frame);
    /// Returns the addresses and ports of a stripped datagram in the run that begins with `first`.
    /// The datagram has the same local port as `first`.
    fn ends_in_run(first: Ends<Self>, headers: &Headers) -> Ends<Self>;
}

impl Receive for u32 {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn strip(check: Check, packet: &mut Frame, _: IfaceId, without_checksum: &mut u64) -> Option<WireEnds> {
        let (flags, whole) = (packet.flags(), packet.bytes());
        let headers = whole.first_chunk::<PLAIN4>()?;
        let (&addrs, udp) = headers.last_chunk::<16>()?.split_first_chunk::<8>()?;
        let (addrs, udp) = (u64::from_be_bytes(addrs), u64::from_be_bytes(*udp.first_chunk()?));
        let (ports, len, checksum) = ((udp >> 32) as u32, (udp >> 16) as u16, udp as u16);
        let payload = usize::from(len).wrapping_sub(udp::HEADER_LEN);
        let fits = payload <= whole.len() - PLAIN4;
        let for_one = (addrs as u32) < 224 << 24 && !flags.has(Flags::LINK_BROADCAST);
        if headers[0] != 0x45 || !fits || !for_one || ports as u16 == 0 {
            return None;
        }
        if checksum != 0 && !flags.any(check.verified) {
            let pseudo = Partial::pseudo4_of(addrs, Proto::UDP, len);
            if !udp::checksum_ok(pseudo, whole.get(ip4::HEADER_LEN..ip4::HEADER_LEN + usize::from(len))?) {
                return None;
            }
        }
        let is_open = packet.open_headers::<PLAIN4>(payload);
        *without_checksum += u64::from(is_open && checksum == 0);
        is_open.then_some(WireEnds { addrs, ports })
    }

    #[cold]
    #[inline(never)]
    fn strip_options(check: Check, packet: &mut Frame, without_checksum: &mut u64) -> Option<WireEnds> {
        let seen = check.look(packet, without_checksum).ok()?;
        let is_for_one = seen.ends.local < 224 << 24 && !packet.flags().has(Flags::LINK_BROADCAST);
        is_for_one.then(|| {
            seen.strip(packet);
            seen.ends.into()
        })
    }

    fn udp_input_slow<L: Locks>(stack: &Stack<L>, cx: Cx, iface: Option<&Iface<L>>, packet: Frame) -> u64 {
        stack.udp_slow(cx, iface, packet)
    }

    #[cold]
    #[inline(never)]
    fn no_socket<L: Locks>(stack: &Stack<L>, cx: Cx, iface: Option<&Iface<L>>, mut packet: Frame) {
        packet.rewind_to_l3();
        let Some(packet) = stack.vxlan_input(cx, packet) else { return };
        stack.udp_no_socket::<u32>(cx, iface, packet);
    }

    fn ends_in(packet: &[u8], _: IfaceId) -> Option<Ends4> {
        let header = ip4::HeaderView::of(packet)?;
        let (remote_port, local_port) = ports(packet.get(header.ihl_len()..)?)?;
        Some(Ends { local: header.dst().to_bits(), remote: header.src().to_bits(), local_port, remote_port })
    }

    fn port_unreachable<L: Locks>(stack: &Stack<L>, cx: Cx, _: Option<IfaceId>, packet: &Frame) {
        stack.icmp4_error(cx, packet, Cause::Unreachable(icmp4::unreachable::PORT));
    }

    fn ends_in_run(first: Ends4, headers: &Headers) -> Ends4 {
        match (headers.from, headers.to) {
            (Sender::V4(remote, remote_port), IpAddr::V4(local)) => {
                Ends4 { local: local.to_bits(), remote, remote_port, ..first }
            }
            _ => first,
        }
    }
}

impl Receive for u128 {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn strip(check: Check, packet: &mut Frame, came_by: IfaceId, _: &mut u64) -> Option<Ends6> {
        let (flags, whole) = (packet.flags(), packet.bytes());
        let headers = whole.first_chunk::<PLAIN6>()?;
        let (ip, udp) = (ip6::HeaderView::of(headers)?, u64::from_be_bytes(*headers.last_chunk()?));
        let (len, checksum) = ((udp >> 16) as u16, udp as u16);
        let payload = usize::from(len).wrapping_sub(udp::HEADER_LEN);
        let is_all = len == ip.payload_len() && payload <= whole.len() - PLAIN6;
        let for_one = ip.dst >> 120 < 0xfe && !flags.has(Flags::LINK_BROADCAST);
        // RFC 8200 8.1: the checksum is mandatory with IPv6.
        if ip.next() != Proto::UDP
            || !is_all
            || !for_one
            || (udp >> 32) as u16 == 0
            || checksum == 0
            || packet.is_lent()
        {
            return None;
        }
        if !flags.any(check.verified) {
            let pseudo = u128::pseudo(ip.src, ip.dst, Proto::UDP, u32::from(len));
            if !udp::checksum_ok(pseudo, whole.get(ip6::HEADER_LEN..ip6::HEADER_LEN + usize::from(len))?) {
                return None;
            }
        }
        if !packet.open_headers::<PLAIN6>(payload) {
            return None;
        }
        // As in `strip6`, the number of the receiving interface replaces the length.
        [packet.headers_mut::<PLAIN6>()?[4], packet.headers_mut::<PLAIN6>()?[5]] = came_by.0.to_be_bytes();
        let (remote_port, local_port) = (L4Port((udp >> 48) as u16), L4Port((udp >> 32) as u16));
        Some(Ends { local: ip.dst, remote: ip.src, local_port, remote_port })
    }

    fn strip_options(_: Check, _: &mut Frame, _: &mut u64) -> Option<Ends6> {
        None
    }

    #[inline(never)]
    fn udp_input_slow<L: Locks>(stack: &Stack<L>, cx: Cx, iface: Option<&Iface<L>>, packet: Frame) -> u64 {
        let Ok(header) = ip6::Header::parse(packet.bytes()) else {
            stack.drop_frame(cx, packet, Self::MALFORMED);
            return 0;
        };
        let (chain, _) = Chain::walk_far(&header, packet.bytes()); // the protocol was checked in the IP header
        stack.udp_input6(cx, iface, packet, &header, &chain)
    }

    #[cold]
    #[inline(never)]
    fn no_socket<L: Locks>(stack: &Stack<L>, cx: Cx, iface: Option<&Iface<L>>, mut packet: Frame) {
        packet.rewind_to_l3();
        restore6(&mut packet);
        let Ok(header) = ip6::Header::parse(packet.bytes()) else {
            return stack.drop_frame(cx, packet, Self::MALFORMED);
        };
        let (chain, _) = Chain::walk_far(&header, packet.bytes());
        let Some(packet) = stack.vxlan_input6(cx, packet, &header, &chain) else { return };
        stack.udp_no_socket::<u128>(cx, iface, packet);
    }

    fn ends_in(packet: &[u8], iface: IfaceId) -> Option<Ends6> {
        let header = ip6::Header::parse(packet).ok()?;
        let (chain, _) = Chain::walk_far(&header, packet);
        let (remote_port, local_port) = ports(chain.payload(&header, packet))?;
        let (local, remote) = (zone::embed(header.dst, Some(iface)), zone::embed(header.src, Some(iface)));
        Some(Ends { local, remote, local_port, remote_port })
    }

    fn port_unreachable<L: Locks>(stack: &Stack<L>, cx: Cx, iface: Option<IfaceId>, packet: &Frame) {
        stack.icmp6_error(cx, iface, packet, Problem::Unreachable { code: icmp6::unreachable::PORT });
    }

    fn ends_in_run(first: Ends6, headers: &Headers) -> Ends6 {
        match (headers.from, headers.to) {
            (Sender::V6(remote, remote_port, _), IpAddr::V6(local)) => {
                let zone = Some(headers.noted);
                Ends6 {
                    local: zone::embed(local, zone),
                    remote: zone::embed(Ipv6Addr::from_bits(remote), zone),
                    remote_port,
                    ..first
                }
            }
            _ => first,
        }
    }
}

/// Writes the length of an IPv6 packet to its header again, where the number of the interface is
/// kept while a socket can receive the packet.
pub(super) fn restore6(packet: &mut Frame) {
    let len = (packet.len() - ip6::HEADER_LEN.min(packet.len())) as u16;
    if let Some(place) = packet.bytes_mut().get_mut(4..6) {
        place.copy_from_slice(&len.to_be_bytes());
    }
}
