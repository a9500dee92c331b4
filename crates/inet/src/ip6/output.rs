//! IPv6 output: selects route and source address, writes the header, fragments the packet if
//! needed, and sends it to the next hop, to a multicast group, or to this host itself.

use super::outgoing::Outgoing6;
use crate::Stack;
use crate::iface::AtOnce;
use crate::iface::{Iface, IfaceId, IfaceKind};
use crate::ip::exit::{Exit, OutputError, Target};
use crate::ip::link_len;
use crate::route::Via6;
use buf::{Flags, Frame};
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::Ipv6Addr;
use wire::{Mac, Proto, ip6};

impl<L: Locks> Stack<L> {
    /// Returns the outgoing interface and next hop for packets to `dst`. `iface` is the requested
    /// interface, which is needed for link-local destinations.
    pub(crate) fn exit6_for(
        &self,
        cx: Cx,
        dst: Ipv6Addr,
        iface: Option<IfaceId>,
    ) -> Result<Exit<Ipv6Addr>, OutputError> {
        if dst.is_multicast() {
            let first = || self.ifaces.iter().find(|iface| iface.kind == IfaceKind::Ethernet && iface.has_ip6());
            let iface = iface.or_else(|| first().map(|iface| iface.id)).ok_or(OutputError::NoRoute)?;
            return Ok(Exit { iface, to: Target::Station(Mac::multicast6(dst)) });
        }
        if ip6::is_link_local(dst) {
            let own = |iface: &&Iface<L>| iface.has_addr6(cx, dst);
            // A link-local address of this host is valid only on the link of its interface. On
            // another link, the same address belongs to another host (RFC 4007 6).
            let here = match iface {
                Some(_) => self.iface_of(iface).filter(own),
                None => self.ifaces.iter().find(own),
            };
            if let Some(own) = here {
                return Ok(Exit { iface: own.id, to: Target::Here });
            }
            let iface = iface.ok_or(OutputError::NoRoute)?;
            return Ok(Exit { iface, to: Target::Neighbor(dst) });
        }
        Ok(match self.via6(cx, dst).ok_or(OutputError::NoRoute)? {
            Via6::Local(iface) => Exit { iface, to: Target::Here },
            Via6::Link(iface) => Exit { iface, to: Target::Neighbor(dst) },
            Via6::Gateway(iface, gateway) | Via6::Gateway6(iface, gateway) => {
                Exit { iface, to: Target::Neighbor(gateway) }
            }
            Via6::Reject | Via6::Prohibit | Via6::Blackhole | Via6::Broadcast(_) | Via6::Paths(_) => {
                return Err(OutputError::Rejected);
            }
        })
    }

    /// Sends `payload` as one packet or as fragments. `payload` begins with the first header after
    /// the IPv6 header.
    ///
    /// # Errors
    /// [`OutputError`] if the packet was not sent; the frame has been dropped and counted.
    #[inline(never)]
    pub(crate) fn ip6_output(&self, cx: Cx, payload: Frame, out: &Outgoing6) -> Result<(), OutputError> {
        let refuse = |frame: Frame, why: DropReason, error: OutputError| {
            self.drop_frame(cx, frame, why);
            Err(error)
        };
        let exit = match out.exit.map_or_else(|| self.exit6_for(cx, out.dst, out.iface), Ok) {
            Ok(exit) => exit,
            Err(error) => {
                self.count(cx).ip6.no_route.bump();
                return refuse(payload, DropReason::Ip6NoRoute, error);
            }
        };
        let Some(iface) = self.ifaces.get(exit.iface) else {
            return refuse(payload, DropReason::TxNoPort, OutputError::NoRoute);
        };
        if !iface.is_up() {
            return refuse(payload, DropReason::TxNoPort, OutputError::IfaceDown);
        }
        let src = match (out.src, exit.to) {
            (Some(src), _) => Some(src),
            (None, Target::Here) => Some(out.dst),
            (None, _) => self.source6_for(cx, iface, out.dst),
        };
        let Some(src) = src else { return refuse(payload, DropReason::Ip6NoRoute, OutputError::NoRoute) };
        let Ok(payload_len) = u16::try_from(payload.len()) else {
            return refuse(payload, DropReason::Ip6TooBig, OutputError::TooBig(usize::from(u16::MAX)));
        };
        let Outgoing6 { class: traffic_class, hop_limit, flow_label, next, dst, .. } = *out;
        let header = ip6::Header { traffic_class, flow_label, payload_len, next, hop_limit, src, dst };
        self.emit_and_send6(cx, payload, &header, iface, exit, out)
    }

    fn emit_and_send6(
        &self,
        cx: Cx,
        mut packet: Frame,
        header: &ip6::Header,
        iface: &Iface<L>,
        exit: Exit<Ipv6Addr>,
        out: &Outgoing6,
    ) -> Result<(), OutputError> {
        let Some(room) = packet.push::<{ ip6::HEADER_LEN }>() else {
            self.drop_as_bug(cx, packet, "no headroom for the headers");
            return Err(OutputError::TooBig(0));
        };
        header.emit(room);
        packet.mark_l3();
        if out.partial_l4 {
            packet.set_flags(packet.flags().with(Flags::TX_L4_CSUM));
        }
        self.count(cx).ip6.sent.bump();
        if let Target::Here = exit.to {
            self.loop_back(cx, packet);
            return Ok(());
        }
        let mtu = iface.mtu6().min(self.six.path_mtus.lock(cx).get(out.dst, cx.now));
        if link_len(&packet) <= mtu {
            self.send_packet6(cx, iface, exit.to, packet, out.at_once);
            return Ok(());
        }
        if out.whole {
            self.drop_frame(cx, packet, DropReason::Ip6TooBig);
            return Err(OutputError::TooBig(mtu));
        }
        let sent = self.output_fragments6(cx, packet, header, mtu, |stack, fragment| {
            stack.send_packet6(cx, iface, exit.to, fragment, AtOnce::Later);
        });
        if out.at_once == AtOnce::Yes {
            self.flush(cx);
        }
        if sent { Ok(()) } else { Err(OutputError::TooBig(mtu)) }
    }

    #[inline(never)]
    fn send_packet6(&self, cx: Cx, iface: &Iface<L>, to: Target<Ipv6Addr>, packet: Frame, at_once: AtOnce) {
        match to {
            Target::Station(mac) => self.ether_output::<u128>(cx, iface, mac, packet, at_once),
            Target::Neighbor(next) | Target::Neighbor6(next) => {
                self.send_to_neighbor::<u128, u128>(cx, iface.id, next, packet, None, at_once);
            }
            Target::Here => self.loop_back(cx, packet),
        }
    }

    /// Returns the parameters of a packet to `dst` with the default hop limit and the source
    /// address that source address selection returns.
    pub(crate) fn reply_to6(&self, dst: Ipv6Addr, next: Proto, iface: Option<IfaceId>) -> Outgoing6 {
        Outgoing6 { iface, ..Outgoing6::new(dst, next, self.sysctls.hop_limit6.get() as u8) }
    }
}
