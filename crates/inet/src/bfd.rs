//! Local repair by BFD: routes with several paths avoid a gateway as soon as the daemon of a
//! routing engine announces that its session with the gateway has failed.
//!
//! The daemon sends its state in the packets that leave by a mirror. The routing engine itself may
//! need half a minute to replace the routes of a large table. After [`REPAIR`] its decision alone
//! counts, since it may use a gateway without BFD. Only gateways with the address of the session
//! are avoided.

use crate::Stack;
use crate::iface::{Iface, IfaceId};
use crate::sessions::Failed;
use buf::Frame;
use clock::{Duration, Instant};
use lock::{Cx, Locks};
use std::net::IpAddr;
use wire::bfd::{self, Control, State};
use wire::eth::{self, EtherType};
use wire::ip6::Chain;
use wire::{Proto, ip4, ip6, udp};

/// Time for which a gateway is avoided after its session has failed.
const REPAIR: Duration = Duration::from_secs(60);
/// Maximum number of failed sessions; further ones have no effect.
const FAILED_MAX: usize = 256;

impl<L: Locks> Stack<L> {
    /// Reads the states of BFD sessions from frames that leave by `iface`.
    pub(crate) fn note_bfd(&self, cx: Cx, iface: &Iface<L>, frames: &[Frame]) {
        if !self.ways.has_paths() && !self.six.ways.has_paths() {
            return;
        }
        for (gateway, control) in frames.iter().filter_map(|frame| session_in(frame.bytes())) {
            self.note_session(cx, iface.id, gateway, control);
        }
    }

    fn note_session(&self, cx: Cx, iface: IfaceId, gateway: IpAddr, control: Control) {
        let mut failed = self.failed.lock(cx);
        let at = failed.iter().position(|of| (of.iface, of.gateway) == (iface, gateway));
        let is_failed = control.has_failed();
        if !is_failed && matches!(control.state, State::Up | State::AdminDown) {
            let Some(at) = at else { return };
            failed.swap_remove(at);
            drop(failed);
            return self.set_gateway_alive(cx, iface, gateway, true);
        }
        if !is_failed || at.and_then(|at| failed.get(at)).is_some_and(|of| of.is_over) {
            return;
        }
        if at.is_none() {
            if failed.len() >= FAILED_MAX {
                return;
            }
            failed.push(Failed { iface, gateway, until: cx.now.after(REPAIR), is_over: false });
        }
        drop(failed);
        // Also if the session is known: a reply of the gateway may have made it alive meanwhile.
        self.set_gateway_alive(cx, iface, gateway, false);
    }

    /// Ends the repair of sessions whose time is over. Returns the next such time.
    pub(crate) fn poll_bfd(&self, cx: Cx) -> Instant {
        let mut failed = self.failed.lock(cx);
        let mut over = Vec::new();
        for of in failed.iter_mut().filter(|of| !of.is_over && of.until <= cx.now) {
            of.is_over = true;
            over.push((of.iface, of.gateway));
        }
        let next = failed.iter().filter(|of| !of.is_over).map(|of| of.until).min();
        drop(failed);
        over.into_iter().for_each(|(iface, gateway)| self.set_gateway_alive(cx, iface, gateway, true));
        next.unwrap_or(Instant::NEVER)
    }

    fn set_gateway_alive(&self, cx: Cx, iface: IfaceId, gateway: IpAddr, is_alive: bool) {
        match (gateway, is_alive) {
            (IpAddr::V4(gateway), true) => self.answered::<u32>(cx, iface, gateway),
            (IpAddr::V4(gateway), false) => self.silent::<u32>(cx, iface, gateway),
            (IpAddr::V6(gateway), true) => self.answered::<u128>(cx, iface, gateway),
            (IpAddr::V6(gateway), false) => self.silent::<u128>(cx, iface, gateway),
        }
        self.rerouted(); // for sockets and tunnels that keep the path
    }
}

/// Returns the other end and the state of the session if a frame is a BFD control packet.
fn session_in(frame: &[u8]) -> Option<(IpAddr, Control)> {
    let packet = frame.get(eth::HEADER_LEN..)?;
    match eth::Header::parse(frame).ok()?.ethertype {
        EtherType::IPV4 => {
            let header = ip4::Header::parse(packet).ok().filter(|header| !header.is_fragment())?;
            Some((header.dst.into(), control_in(header.proto, header.payload(packet))?))
        }
        EtherType::IPV6 => {
            let header = ip6::Header::parse(packet).ok()?;
            let (chain, _) = Chain::walk_far(&header, packet);
            Some((header.dst.into(), control_in(chain.upper, chain.payload(&header, packet))?))
        }
        _ => None,
    }
}

fn control_in(proto: Proto, upper: &[u8]) -> Option<Control> {
    let header = udp::Header::parse(upper).ok().filter(|header| proto == Proto::UDP && header.dst == bfd::L4PORT)?;
    Control::parse(header.payload(upper))
}
