//! Slow path of IPv6 input, for packets that the fast path in [`crate::ip`] does not accept. It
//! passes one packet at a time to `udp`, `tcp`, `icmp6`, a tunnel, or `ip6::forward`.
//!
//! Packets arrive without their link header. Each is delivered, forwarded, held as a fragment, or
//! dropped. The checks follow RFC 8200, RFC 4291 and RFC 4007. The chain of extension headers is
//! parsed once, without recursion, and only for packets to this host; a router processes only the
//! Hop-by-Hop options. Type 0 routing headers are rejected (RFC 5095). IPv6 is enabled on
//! interfaces that have an IPv6 address. Other interfaces drop IPv6 packets like those of an
//! unknown EtherType.

pub(crate) mod addr;
mod advertise;
pub(crate) mod autoconf;
mod forward;
pub(crate) mod frag;
mod ident;
mod ifaddr;
mod input;
mod of_iface;
mod of_stack;
mod options;
mod outgoing;
mod output;
pub(crate) mod select;
mod table;

pub use advertise::Advertising;
pub use autoconf::{AdvertisedPrefix, DefaultRouter};
pub use ifaddr::{AddrState, IfaceAddr6, Origin, Refused6};
pub(crate) use of_iface::Six;
pub(crate) use of_stack::Ip6;
pub use of_stack::ROUTES_MAX;
pub(crate) use outgoing::Outgoing6;

use crate::Stack;
use crate::ends::Domain;
use crate::iface::{Iface, IfaceId};
use crate::ip4::reass::Outcome;
use crate::route::Via6;
use crate::zone;
use buf::{Flags, Frame};
use clock::Instant;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;
use wire::icmp6::{self, Problem, parameter};
use wire::ip6::{self, Chain};
use wire::{Malformed, Proto, ip4, tcp, udp};

/// Class of the destination address of a packet that passed the checks: this host, or another one.
enum Destination {
    Here,
    Onward,
}

impl<L: Locks> Stack<L> {
    /// Counts a packet as received and processes it. `iface` is the receiving interface; `None` for
    /// loopback.
    #[inline(never)]
    pub(crate) fn ip6_input(&self, cx: Cx, iface: Option<&Iface<L>>, packet: Frame) {
        if iface.is_some_and(|iface| !iface.has_ip6()) {
            return self.drop_frame(cx, packet, DropReason::EtherUnknownType);
        }
        self.count(cx).ip6.received.bump();
        if self.sysctls.route_counters.on()
            && let Ok(header) = ip6::Header::parse(packet.bytes())
        {
            let len = ip6::HEADER_LEN + usize::from(header.payload_len);
            self.count_route(cx, header.dst.to_bits(), len.min(packet.len()));
        }
        self.ip6_packet(cx, iface, packet);
    }

    /// Processes a packet that has already been counted as received. `iface` is the receiving
    /// interface; `None` for loopback.
    pub(crate) fn ip6_packet(&self, cx: Cx, iface: Option<&Iface<L>>, mut packet: Frame) {
        match self.ip6_check(cx, iface, &mut packet) {
            Err(why @ DropReason::Ip6NotMember) => self.punt_or_drop(cx, iface, packet, why),
            Err(why) => self.drop_frame(cx, packet, why),
            Ok((header, Destination::Here)) => self.ip6_deliver(cx, iface, packet, header),
            Ok((header, Destination::Onward)) => {
                let pinned = self.six.ways.pin(cx);
                let hop = self.route_lookup(cx, &pinned, header.dst.to_bits());
                let hop = hop.and_then(|hop| self.choose_path::<u128>(cx, &pinned, hop, &packet));
                let is_sent = self.ip6_forward(cx, iface, packet, &header, hop.as_ref());
                self.count(cx).ip6.forwarded.add(u64::from(is_sent));
            }
        }
    }

    /// Checks a packet and removes the padding of the link layer. Returns the header and the
    /// destination class, or the reason to drop the packet.
    fn ip6_check(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packet: &mut Frame,
    ) -> Result<(ip6::Header, Destination), DropReason> {
        let header = ip6::Header::parse(packet.bytes()).map_err(malformed)?;
        packet.truncate(ip6::HEADER_LEN + usize::from(header.payload_len));
        if let Some(iface) = iface {
            self.check_addresses(cx, iface, &header)?;
        }
        let destination = self.destination6(cx, iface, &header)?;
        if packet.flags().has(Flags::LINK_BROADCAST) && !header.dst.is_multicast() {
            return Err(DropReason::Ip6LinkBroadcast);
        }
        // This is checked before the Hop-by-Hop options, since a host that does not forward the
        // packet need not process them (RFC 8200 4.3).
        if matches!(destination, Destination::Onward) && !self.sysctls.forwarding6.on() {
            return Err(DropReason::Ip6NotForwarding);
        }
        if header.next == Proto::HOP_BY_HOP {
            self.check_hop_by_hop(cx, iface, packet, &header)?;
        }
        Ok((header, destination))
    }

    /// Returns the reason why a packet with this header, received by `iface`, would be dropped;
    /// `None` if it would not. `via` is the target of the route to its destination. Applies the
    /// checks of input and forwarding in the same order as for a packet.
    pub(crate) fn refusal6(
        &self,
        cx: Cx,
        iface: &Iface<L>,
        header: &ip6::Header,
        via: Option<Via6>,
    ) -> Option<DropReason> {
        if !iface.has_ip6() {
            return Some(DropReason::EtherUnknownType);
        }
        if let Err(why) = self.check_addresses(cx, iface, header) {
            return Some(why);
        }
        match self.destination6(cx, Some(iface), header) {
            Err(why) => Some(why),
            Ok(Destination::Here) => None,
            Ok(Destination::Onward) if !self.sysctls.forwarding6.on() => Some(DropReason::Ip6NotForwarding),
            Ok(Destination::Onward) => self.next6(cx, Some(iface), header, via).err().map(|(why, _)| why),
        }
    }

    /// Checks the addresses of a packet received from a link (RFC 4291 2.5.2, 2.5.3, 2.5.5, 2.7).
    fn check_addresses(&self, cx: Cx, iface: &Iface<L>, header: &ip6::Header) -> Result<(), DropReason> {
        let (src, dst) = (header.src, header.dst);
        let nobody = src.is_unspecified() && !dst.is_multicast(); // `::` may be the source of multicasts only
        if src.is_multicast() || src.is_loopback() || ip6::is_v4_mapped(src) || zone::is_forged(src) || nobody {
            return Err(DropReason::Ip6MartianSource);
        }
        let near = dst.is_multicast() && ip6::scope(dst) < 2; // interface-local, or reserved
        if dst.is_unspecified() || dst.is_loopback() || ip6::is_v4_mapped(dst) || zone::is_forged(dst) || near {
            return Err(DropReason::Ip6MartianDestination);
        }
        // A packet from a link cannot have one of our addresses as its source. A link-local address
        // is ours on its own link only. One of our tentative addresses is accepted, since duplicate
        // address detection must receive packets of another station that uses it.
        if src == dst || self.state6(cx, Some(iface), src) == Some(AddrState::Valid) {
            return Err(DropReason::Ip6OwnSource);
        }
        if !self.is_valid_source(cx, iface.id, src.to_bits()) {
            return Err(DropReason::Ip6InvalidSource);
        }
        Ok(())
    }

    fn destination6(&self, cx: Cx, iface: Option<&Iface<L>>, header: &ip6::Header) -> Result<Destination, DropReason> {
        let dst = header.dst;
        if dst.is_multicast() {
            let member = match iface {
                Some(iface) => self.is_member6(cx, iface, dst),
                None => self.groups.lock(cx).is_member_anywhere(dst), // packets that this host sends to itself
            };
            return if member { Ok(Destination::Here) } else { Err(DropReason::Ip6NotMember) };
        }
        // While an address may be a duplicate, this host receives no packets to it, only neighbor
        // discovery to its solicited-node group (RFC 4862 5.4).
        match self.state6(cx, iface, dst) {
            Some(AddrState::Valid) => Ok(Destination::Here),
            Some(_) => Err(DropReason::Ip6Tentative),
            None if ip6::is_link_local(dst) => Err(DropReason::Ip6NotHere),
            None => Ok(Destination::Onward),
        }
    }

    /// Returns the state of `addr` if it is one of our addresses, or has a local route. A
    /// link-local address must be one of `iface`, or of any interface if `iface` is `None`.
    #[inline(never)]
    pub(crate) fn state6(&self, cx: Cx, iface: Option<&Iface<L>>, addr: Ipv6Addr) -> Option<AddrState> {
        if !ip6::is_link_local(addr) {
            let Some(Via6::Local(id)) = self.via6(cx, addr) else { return None };
            // An address that only a local route covers has no duplicate address detection.
            return Some(self.ifaces.get(id)?.addr6(cx, addr).map_or(AddrState::Valid, |own| own.state));
        }
        let own = match iface {
            Some(iface) => iface.addr6(cx, addr),
            None => self.ifaces.iter().find_map(|iface| iface.addr6(cx, addr)),
        };
        own.map(|own| own.state)
    }

    /// Returns the first interface that has the link-local address `addr`; `None` for any other
    /// address.
    pub(crate) fn own_zone6(&self, cx: Cx, addr: Ipv6Addr) -> Option<IfaceId> {
        if !ip6::is_link_local(addr) {
            return None;
        }
        self.ifaces.iter().find(|iface| iface.has_addr6(cx, addr)).map(|iface| iface.id)
    }

    /// Returns whether `addr` is an address of this host on any interface, in any state, or has a
    /// local route.
    pub(crate) fn is_own6(&self, cx: Cx, addr: Ipv6Addr) -> bool {
        self.state6(cx, None, addr).is_some()
    }

    /// Returns the target of the route that this host's packets to `dst` take. Local routes are
    /// ignored for addresses to which they cannot apply (`may_be_local`); the fast path applies the
    /// same rule (`open` in `ip6::input`).
    #[inline(never)]
    pub(crate) fn via6(&self, cx: Cx, dst: Ipv6Addr) -> Option<Via6> {
        let via = self.route_output(cx, dst.to_bits()).map(|hop| hop.via)?;
        (!matches!(via, Via6::Local(_)) || may_be_local(dst)).then_some(via)
    }

    /// Passes a packet for this host to its protocol; fragments are reassembled first. A
    /// reassembled packet that is again a fragment is dropped.
    fn ip6_deliver(&self, cx: Cx, iface: Option<&Iface<L>>, packet: Frame, header: ip6::Header) {
        let (mut packet, mut header, mut put_together) = (packet, header, false);
        let chain = loop {
            let chain = match Chain::walk_far(&header, packet.bytes()) {
                (chain, Ok(())) => chain,
                (chain, Err(why)) => return self.bad_chain6(cx, iface, packet, &chain, why),
            };
            if let Err(why) = self.check_extensions(cx, iface, &packet, &chain) {
                return self.drop_frame(cx, packet, why);
            }
            match chain.fragment {
                None => break chain,
                Some(_) if put_together => return self.drop_frame(cx, packet, DropReason::FragMalformed), // CVE-2021-24086
                Some(fragment) if fragment.is_atomic() => break chain,                                    // RFC 6946
                Some(_) => match self.ip6_reassemble(cx, iface, &header, &chain, packet) {
                    Some(whole) => (packet, header, put_together) = (whole.0, whole.1, true),
                    None => return,
                },
            }
        };
        self.count(cx).ip6.delivered.bump();
        let fragmented = put_together || chain.fragment.is_some();
        if self.raw.has(Domain::Inet6, chain.upper) {
            self.raw_input6(cx, iface, &packet, &header, &chain);
        }
        match chain.upper {
            Proto::IPV6_ICMP => self.icmp6_input(cx, iface, packet, &header, &chain, fragmented),
            Proto::IPIP | Proto::IPV6 | Proto::GRE | Proto::ETHERIP => {
                if let Some(packet) = self.tunnel_input6(cx, packet, &header, &chain) {
                    self.unknown_next(cx, iface, packet, &chain);
                }
            }
            Proto::NO_NEXT => self.drop_frame(cx, packet, DropReason::Ip6NoNext),
            Proto::UDP => {
                let delivered = self.udp_input6(cx, iface, packet, &header, &chain);
                self.count(cx).udp.delivered.add(delivered);
            }
            Proto::TCP => self.tcp_input6(cx, iface, packet, &header, &chain),
            _ => self.unknown_next(cx, iface, packet, &chain),
        }
    }

    /// Drops a packet with an unknown next header and sends an ICMPv6 error (RFC 8200 4). If raw
    /// sockets have already received copies of the packet, no error is sent.
    fn unknown_next(&self, cx: Cx, iface: Option<&Iface<L>>, packet: Frame, chain: &Chain) {
        if self.raw.has(Domain::Inet6, chain.upper) {
            return self.drop_frame(cx, packet, DropReason::RawConsumed);
        }
        let Some(packet) = self.punt(cx, iface, packet) else { return };
        let problem = Problem::Parameter { code: parameter::NEXT_HEADER, pointer: chain.next_at as u32 };
        self.icmp6_error(cx, iface.map(|iface| iface.id), &packet, problem);
        self.drop_frame(cx, packet, DropReason::Ip6UnknownNext);
    }

    /// Drops a packet with an invalid chain of extension headers; `chain` is the valid part. Sends
    /// an ICMPv6 error in two cases: if a Hop-by-Hop header is not the first one, which is treated
    /// as unknown (RFC 8200 4), and if a first fragment does not contain the whole chain (RFC 7112
    /// 5).
    #[cold]
    fn bad_chain6(&self, cx: Cx, iface: Option<&Iface<L>>, packet: Frame, chain: &Chain, why: Malformed) {
        match why {
            Malformed::BadExtensionOrder(0) => {
                self.parameter_problem(cx, iface, &packet, parameter::NEXT_HEADER, chain.next_at);
            }
            Malformed::Truncated { .. } if is_first(chain) => return self.cut_chain6(cx, iface, packet),
            _ => {}
        }
        self.drop_frame(cx, packet, malformed(why));
    }

    /// Drops a first fragment that does not contain the whole header chain, and sends an ICMPv6
    /// error (RFC 7112 5, RFC 8200 4.5).
    fn cut_chain6(&self, cx: Cx, iface: Option<&Iface<L>>, packet: Frame) {
        self.parameter_problem(cx, iface, &packet, parameter::CUT_CHAIN, 0);
        self.drop_frame(cx, packet, DropReason::FragMalformed);
    }

    fn ip6_reassemble(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        header: &ip6::Header,
        chain: &Chain,
        fragment: Frame,
    ) -> Option<(Frame, ip6::Header)> {
        self.count(cx).ip6.fragments_received.bump();
        if chain.fragment.is_some_and(|fragment| fragment.more) && !usize::from(header.payload_len).is_multiple_of(8) {
            // The length of a fragment that is not the last must be a multiple of 8 bytes (RFC 8200
            // 4.5). The payload length includes the extension headers, which are multiples of 8
            // bytes themselves.
            self.parameter_problem(cx, iface, &fragment, parameter::FIELD, 4);
        } else if let Some(at) = too_long(header, chain) {
            self.parameter_problem(cx, iface, &fragment, parameter::FIELD, at);
        } else if is_first(chain) && !has_upper_header(header, chain, &fragment) {
            self.cut_chain6(cx, iface, fragment);
            return None;
        }
        let mut ended = Vec::new();
        let outcome = self.reassembly.lock(cx).input6(header, chain, fragment, cx.now, &mut |frame, why| {
            ended.push((frame, why));
        });
        ended.into_iter().for_each(|(frame, why)| self.drop_frame(cx, frame, why));
        match outcome {
            Outcome::Held => None,
            Outcome::Dropped(frame, why) => {
                self.drop_frame(cx, frame, why);
                None
            }
            Outcome::Complete(whole) => match ip6::Header::parse(whole.bytes()) {
                Ok(header) => {
                    self.count(cx).ip6.reassembled.bump();
                    Some((whole, header))
                }
                Err(_) => {
                    self.drop_frame(cx, whole, DropReason::Ip6Malformed);
                    None
                }
            },
        }
    }

    /// Runs the due timers of IPv6. Returns the time of the next one.
    pub(crate) fn poll_ip6(&self, cx: Cx) -> Instant {
        if !self.six.is_on() {
            return Instant::NEVER;
        }
        self.poll_neighbors6(cx);
        self.poll_ifaces6(cx);
        let neighbors = self.six.neighbors.lock(cx).next_deadline();
        let redirects = self.poll_redirects::<u128>(cx);
        neighbors.min(redirects).min(Instant::from_nanos(self.six.due.load(Ordering::Relaxed)))
    }

    /// Returns the interface with the number `id`; `None` if `id` is `None` or there is no such
    /// interface.
    pub(crate) fn iface_of(&self, id: Option<IfaceId>) -> Option<&Iface<L>> {
        id.and_then(|id| self.ifaces.get(id))
    }
}

/// Returns whether a local route may apply to `addr`: not to unspecified, IPv4-mapped, link-local
/// and multicast addresses.
fn may_be_local(addr: Ipv6Addr) -> bool {
    !(addr.is_unspecified() || ip6::is_v4_mapped(addr) || ip6::is_link_local(addr) || addr.is_multicast())
}

/// Returns whether this is the first of several fragments.
fn is_first(chain: &Chain) -> bool {
    chain.fragment.is_some_and(|fragment| fragment.offset == 0 && fragment.more)
}

/// Returns the position of the fragment offset field in the packet, if the reassembled packet would
/// be longer than its header can state (RFC 8200 4.5); otherwise `None`.
fn too_long(header: &ip6::Header, chain: &Chain) -> Option<usize> {
    let (extension, _) = chain.find(Proto::FRAGMENT)?;
    // The length of the reassembled packet includes the headers before the Fragment header, but not
    // the Fragment header.
    let whole = usize::from(chain.fragment?.offset) + usize::from(header.payload_len).saturating_sub(extension.len);
    (whole > usize::from(u16::MAX)).then_some(extension.offset + 2)
}

/// Returns whether the packet contains the whole upper-layer header (RFC 7112 5). For an unknown
/// protocol, one byte of its header is sufficient.
fn has_upper_header(header: &ip6::Header, chain: &Chain, packet: &Frame) -> bool {
    let payload = chain.payload(header, packet.bytes());
    let need = match chain.upper {
        Proto::TCP => {
            payload.get(12).map_or(tcp::HEADER_LEN, |offset| usize::from(offset >> 4) * 4).max(tcp::HEADER_LEN)
        }
        Proto::UDP => udp::HEADER_LEN,
        Proto::IPV6_ICMP => icmp6::HEADER_LEN,
        Proto::IPV6 => ip6::HEADER_LEN,
        Proto::IPIP => ip4::HEADER_LEN,
        Proto::NO_NEXT => 0,
        _ => 1,
    };
    payload.len() >= need
}

fn malformed(why: Malformed) -> DropReason {
    match why {
        Malformed::BadVersion { .. } => DropReason::Ip6BadVersion,
        Malformed::TooManyExtensions | Malformed::BadExtensionOrder(_) => DropReason::Ip6BadExtension,
        _ => DropReason::Ip6Malformed,
    }
}
