//! IPv4 output (RFC 1122 3.3.1): selects route and source address, writes the header, fragments the
//! packet if needed, and sends it to the next hop.

use super::outgoing::Outgoing;
use super::pmtu;
use crate::Stack;
use crate::iface::AtOnce;
use crate::iface::{Iface, IfaceId, IfaceKind};
use crate::ip::exit::{Exit, OutputError, Target};
use crate::route::Via;
use buf::{Flags, Frame};
use lock::{Cx, Locks};
use stats::{DropReason, Stage};
use std::net::Ipv4Addr;
use wire::ip4;
use wire::{Mac, Proto};

impl<L: Locks> Stack<L> {
    /// Returns the outgoing interface and next hop for packets to `dst`. `iface` is the interface
    /// that the sender requests for multicast and broadcast.
    #[inline(never)]
    pub(crate) fn exit_for(&self, cx: Cx, dst: Ipv4Addr, iface: Option<IfaceId>) -> Result<Exit, OutputError> {
        if dst.is_multicast() || dst.is_broadcast() {
            let out = iface
                .or_else(|| match self.ways.lookup(cx, dst).map(|hop| hop.via) {
                    Some(Via::Gateway(iface, _) | Via::Gateway6(iface, _) | Via::Link(iface)) => Some(iface),
                    _ => None,
                })
                .or_else(|| self.ifaces.iter().find(|i| i.kind == IfaceKind::Ethernet && i.is_up()).map(|i| i.id))
                .ok_or(OutputError::NoRoute)?;
            let mac = if dst.is_broadcast() { Mac::BROADCAST } else { Mac::multicast4(dst) };
            return Ok(Exit { iface: out, to: Target::Station(mac) });
        }
        let hop = self.route_output(cx, dst.to_bits()).ok_or(OutputError::NoRoute)?;
        Ok(match hop.via {
            Via::Local(iface) => Exit { iface, to: Target::Here },
            Via::Broadcast(iface) => Exit { iface, to: Target::Station(Mac::BROADCAST) },
            Via::Link(iface) => Exit { iface, to: Target::Neighbor(dst) },
            Via::Gateway(iface, gateway) => Exit { iface, to: Target::Neighbor(gateway) },
            Via::Gateway6(iface, gateway) => Exit { iface, to: Target::Neighbor6(gateway) },
            Via::Reject | Via::Prohibit | Via::Blackhole | Via::Paths(_) => return Err(OutputError::Rejected),
        })
    }

    /// Returns the source address for packets to `dst` that leave by `iface` (RFC 1122 3.3.4.3):
    /// the address whose on-link prefix contains `dst`, or else the primary address. Returns `None`
    /// if the interface has no address.
    pub(crate) fn source_for(&self, cx: Cx, iface: &Iface<L>, dst: Ipv4Addr) -> Option<Ipv4Addr> {
        if iface.kind == IfaceKind::Tunnel
            && let Some(own) = self.own_towards(cx, iface.id, dst)
        {
            return Some(own);
        }
        let addrs = iface.addrs.lock(cx);
        addrs.iter().find(|a| a.contains(dst)).or(addrs.first()).map(|a| a.addr)
    }

    /// Returns the source address for packets to `dst`. `iface` is the requested interface, as for
    /// [`Stack::exit_for`].
    pub(crate) fn source_towards(
        &self,
        cx: Cx,
        dst: Ipv4Addr,
        iface: Option<IfaceId>,
    ) -> Result<Ipv4Addr, OutputError> {
        self.source_at(cx, dst, &self.exit_for(cx, dst, iface)?)
    }

    /// Returns the source address for packets to `dst` that leave by `exit`.
    pub(crate) fn source_at(&self, cx: Cx, dst: Ipv4Addr, exit: &Exit) -> Result<Ipv4Addr, OutputError> {
        if let Target::Here = exit.to {
            return Ok(dst);
        }
        let iface = self.ifaces.get(exit.iface).ok_or(OutputError::NoRoute)?;
        self.source_at_iface(cx, iface, dst, exit).ok_or(OutputError::NoRoute)
    }

    /// Returns the source address for packets to `dst` that leave by `exit` at `iface`. To an IPv6
    /// gateway, an interface without addresses borrows one of the router: of the loopback interface
    /// if it has any, or else of the first interface that has one (RFC 1812 2.2.7, 4.3.2.4).
    fn source_at_iface(&self, cx: Cx, iface: &Iface<L>, dst: Ipv4Addr, exit: &Exit) -> Option<Ipv4Addr> {
        let own = self.source_for(cx, iface, dst);
        if own.is_some() || !matches!(exit.to, Target::Neighbor6(_)) {
            return own;
        }
        let mut addrs = self.ifaces.iter().flat_map(|iface| iface.addrs(cx)).map(|own| own.addr);
        addrs.find(|addr| !addr.is_loopback()) // the loopback interface is the first
    }

    /// Sends `payload`, which begins with its transport header, as one packet or as fragments.
    ///
    /// # Errors
    /// [`OutputError`] if the packet was not sent; the frame has been dropped and counted.
    #[inline(never)]
    pub(crate) fn ip4_output(&self, cx: Cx, payload: Frame, out: &Outgoing) -> Result<(), OutputError> {
        let lap = self.resume(cx);
        let outer = lap.nest();
        let done = self.output_packet(cx, payload, out);
        lap.unnest(outer);
        done
    }

    fn output_packet(&self, cx: Cx, payload: Frame, out: &Outgoing) -> Result<(), OutputError> {
        let refuse = |frame: Frame, why: DropReason, error: OutputError| {
            self.drop_frame(cx, frame, why);
            Err(error)
        };
        let found;
        let exit = match &out.exit {
            Some(exit) => exit,
            None => match self.exit_for(cx, out.dst, out.iface) {
                Ok(exit) => {
                    found = exit;
                    &found
                }
                Err(error) => {
                    self.count(cx).ip4.no_route.bump();
                    return refuse(payload, DropReason::Ip4NoRoute, error);
                }
            },
        };
        let Some(iface) = self.ifaces.get(exit.iface) else {
            return refuse(payload, DropReason::TxNoPort, OutputError::NoRoute);
        };
        if !iface.is_up() {
            return refuse(payload, DropReason::TxNoPort, OutputError::IfaceDown);
        }
        if out.has_header {
            return self.send_whole(cx, payload, iface, exit, out);
        }
        let src = match (out.src, exit.to) {
            (Some(src), _) => src,
            (None, Target::Here) => out.dst,
            (None, _) => match self.source_at_iface(cx, iface, out.dst, exit) {
                Some(src) => src,
                None => return refuse(payload, DropReason::Ip4NoRoute, OutputError::NoRoute),
            },
        };
        let Some(header) = ip4::Header::new(src, out.dst, out.proto, payload.len()) else {
            return refuse(payload, DropReason::Ip4TooBig, OutputError::TooBig(pmtu::LARGEST));
        };
        // A packet that is never fragmented needs no identification (RFC 6864 4.1).
        let id = if out.df { 0 } else { self.idents.lock(cx).next(src, out.dst, out.proto, cx.now) };
        let ihl_len = ip4::HEADER_LEN + out.options_len;
        let header = ip4::Header { tos: out.tos, ttl: out.ttl, df: out.df, id, ihl_len, ..header };
        self.emit_and_send(cx, payload, header, iface, exit, out)
    }

    /// Sends a packet with an IP header that the application wrote. The packet is not fragmented.
    fn send_whole(
        &self,
        cx: Cx,
        mut packet: Frame,
        iface: &Iface<L>,
        exit: &Exit,
        out: &Outgoing,
    ) -> Result<(), OutputError> {
        if packet.len() > iface.mtu() {
            self.drop_frame(cx, packet, DropReason::Ip4TooBig);
            return Err(OutputError::TooBig(iface.mtu()));
        }
        packet.mark_l3();
        self.count(cx).ip4.sent.bump();
        self.send_packet(cx, iface, &exit.to, packet, out.at_once);
        Ok(())
    }

    fn emit_and_send(
        &self,
        cx: Cx,
        mut packet: Frame,
        header: ip4::Header,
        iface: &Iface<L>,
        exit: &Exit,
        out: &Outgoing,
    ) -> Result<(), OutputError> {
        let Some(room) = packet.push::<{ ip4::HEADER_LEN }>() else {
            self.drop_as_bug(cx, packet, "no headroom for the headers");
            return Err(OutputError::TooBig(0));
        };
        header.emit(room);
        if header.ihl_len > ip4::HEADER_LEN {
            ip4::fill_checksum(packet.bytes_mut().get_mut(..header.ihl_len).unwrap_or_default());
        }
        packet.mark_l3();
        if out.partial_l4 {
            packet.set_flags(packet.flags().with(Flags::TX_L4_CSUM));
        }
        let counters = self.count(cx);
        counters.ip4.sent.bump();
        if let Target::Here = exit.to {
            self.loop_back(cx, packet);
            self.resume(cx).mark(Stage::Ip4Output, 1);
            return Ok(());
        }
        let mtu = iface.mtu().min(self.path_mtus.lock(cx).get(out.dst, cx.now));
        if crate::ip::link_len(&packet) <= mtu {
            self.send_packet(cx, iface, &exit.to, packet, out.at_once);
            return Ok(());
        }
        if out.df {
            self.drop_frame(cx, packet, DropReason::Ip4TooBig);
            return Err(OutputError::TooBig(mtu));
        }
        let sent = self.output_fragments(cx, packet, &header, mtu, |stack, fragment| {
            stack.send_packet(cx, iface, &exit.to, fragment, AtOnce::Later);
        });
        if out.at_once == AtOnce::Yes {
            self.flush(cx);
        }
        if sent { Ok(()) } else { Err(OutputError::TooBig(mtu)) }
    }

    /// Sends a packet that begins with its IP header to the receiver `to` on `iface`.
    #[inline(never)]
    fn send_packet(&self, cx: Cx, iface: &Iface<L>, to: &Target, packet: Frame, at_once: AtOnce) {
        let lap = self.resume(cx);
        lap.mark(Stage::Ip4Output, 1);
        match *to {
            Target::Station(mac) => self.ether_output::<u32>(cx, iface, mac, packet, at_once),
            Target::Neighbor(next) => self.send_to_neighbor::<u32, u32>(cx, iface.id, next, packet, None, at_once),
            Target::Neighbor6(next) => self.send_to_neighbor::<u32, u128>(cx, iface.id, next, packet, None, at_once),
            Target::Here => self.loop_back(cx, packet),
        }
        if at_once == AtOnce::Later {
            lap.mark(Stage::LinkOutput, 1);
        }
    }
    /// Returns the parameters of a reply that this host itself sends from `src`.
    pub(crate) fn reply_to(&self, src: Ipv4Addr, dst: Ipv4Addr, proto: Proto) -> Outgoing {
        Outgoing { src: Some(src), dst, proto, ..Outgoing::new(dst, proto, self.sysctls.ttl.get() as u8) }
    }
}
