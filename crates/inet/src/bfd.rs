//! Local repair by BFD: routes avoid a gateway as soon as the daemon of a routing engine announces
//! that its session with the gateway has failed, if they have another path or get one.
//!
//! The daemon sends its state in the packets that leave by a mirror. The routing engine itself may
//! need half a minute to replace the routes of a large table. After
//! [`REPAIR`](crate::sessions::REPAIR) its decision alone counts, since it may use a gateway
//! without BFD. Only gateways with the address of the session are avoided.

use crate::Stack;
use crate::family::Family;
use crate::iface::Iface;
use crate::sessions::Gateway;
use buf::Frame;
use clock::Instant;
use lock::{Cx, Locks};
use std::net::IpAddr;
use wire::bfd::{self, Packet, State};
use wire::eth::{self, EtherType};
use wire::ip6::Chain;
use wire::{Proto, ip4, ip6, udp};

impl<L: Locks> Stack<L> {
    /// Reads the states of BFD sessions from frames that leave by `iface`.
    pub(crate) fn note_bfd(&self, cx: Cx, iface: &Iface<L>, frames: &[Frame]) {
        if !self.ways.avoids_dead() && !self.six.ways.avoids_dead() {
            return;
        }
        for (addr, packet) in frames.iter().filter_map(|frame| session_in(frame.bytes())) {
            self.note_session(cx, (iface.id, addr), packet);
        }
    }

    fn note_session(&self, cx: Cx, gateway: Gateway, packet: Packet) {
        if packet.has_failed() {
            // Each packet marks it again, since a mark ends sooner than the repair.
            if self.failed.lock(cx).fail(gateway, cx.now) {
                self.set_gateway_alive(cx, gateway, false);
            }
        } else if matches!(packet.state, State::Up | State::AdminDown) && self.failed.lock(cx).recover(gateway) {
            self.set_gateway_alive(cx, gateway, true);
        }
    }

    /// Ends the repair of sessions whose time is over, and the diversions of next hops with a
    /// gateway that may be tried again. Returns the time of the next call.
    pub(crate) fn poll_repair(&self, cx: Cx) -> Instant {
        let (over, next) = self.failed.lock(cx).expire(cx.now);
        over.into_iter().for_each(|gateway| self.set_gateway_alive(cx, gateway, true));
        next.min(self.poll_diversions::<u32>(cx)).min(self.poll_diversions::<u128>(cx))
    }

    fn poll_diversions<F: Family>(&self, cx: Cx) -> Instant {
        if !F::routes_reader(self).has_diverted() {
            return Instant::NEVER;
        }
        let mut routes = F::routes(self).lock(cx);
        let before = routes.diverted();
        let next = routes.poll_diversions(cx.now);
        let has_ended = routes.diverted() != before;
        drop(routes);
        if has_ended {
            self.rerouted();
        }
        next
    }

    fn set_gateway_alive(&self, cx: Cx, (iface, addr): Gateway, is_alive: bool) {
        match (addr, is_alive) {
            (IpAddr::V4(addr), true) => self.revived::<u32>(cx, iface, addr),
            (IpAddr::V4(addr), false) => self.silent::<u32>(cx, iface, addr),
            (IpAddr::V6(addr), true) => self.revived::<u128>(cx, iface, addr),
            (IpAddr::V6(addr), false) => self.silent::<u128>(cx, iface, addr),
        }
    }
}

/// Returns the other end and the state of the session if a frame is a BFD control packet.
fn session_in(frame: &[u8]) -> Option<(IpAddr, Packet)> {
    let packet = frame.get(eth::HEADER_LEN..)?;
    match eth::Header::parse(frame).ok()?.ethertype {
        EtherType::IPV4 => {
            let header = ip4::Header::parse(packet).ok().filter(|header| !header.is_fragment())?;
            Some((header.dst.into(), packet_in(header.proto, header.payload(packet))?))
        }
        EtherType::IPV6 => {
            let header = ip6::Header::parse(packet).ok()?;
            let (chain, _) = Chain::walk_far(&header, packet);
            Some((header.dst.into(), packet_in(chain.upper, chain.payload(&header, packet))?))
        }
        _ => None,
    }
}

fn packet_in(proto: Proto, upper: &[u8]) -> Option<Packet> {
    let header = udp::Header::parse(upper).ok().filter(|header| proto == Proto::UDP && header.dst == bfd::PORT)?;
    Packet::parse(header.payload(upper))
}
