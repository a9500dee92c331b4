//! Rejection of received frames by a policy outside the stack.

use crate::Stack;
use crate::icmp4::Cause;
use crate::iface::{Iface, IfaceId};
use crate::link::remove_link;
use buf::Frame;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::{IpAddr, Ipv4Addr};
use wire::eth::EtherType;
use wire::icmp6::Problem;
use wire::{Proto, icmp4, icmp6, ip4, ip6};

/// Notice to the sender of a rejected frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The sender gets no answer.
    Silent,
    /// The sender receives a TCP RST or, for other protocols, an ICMP error (administratively
    /// prohibited). The usual rate limits apply. Nothing is sent if the route to the sender uses
    /// another interface.
    Refusal,
}

impl<L: Locks> Stack<L> {
    /// Rejects a frame that was received on `iface`: sends the notice to its sender, counts the
    /// frame as received, and drops it with the reason `why`.
    #[inline(never)]
    pub fn reject(&self, cx: Cx, iface: IfaceId, mut frame: Frame, why: DropReason, notice: Notice) {
        let notifies = notice == Notice::Refusal;
        if let Some(iface) = self.ifaces.get(iface).filter(|iface| notifies && iface.is_up()) {
            self.answer_refused(cx, iface, &mut frame);
            self.flush(cx);
        }
        self.refuse(cx, Some(frame), why);
    }

    /// Returns whether the host never forwards packets to `addr`: a multicast group, a link-local
    /// address, or an address of this host.
    pub fn stays_here(&self, cx: Cx, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => addr.is_multicast() || self.is_own(cx, addr),
            IpAddr::V6(addr) => addr.is_multicast() || addr.is_unicast_link_local() || self.is_own6(cx, addr),
        }
    }

    /// Sends a TCP RST or an ICMP error to the sender of a rejected frame.
    fn answer_refused(&self, cx: Cx, iface: &Iface<L>, frame: &mut Frame) {
        match remove_link(frame, iface.mac) {
            Some(EtherType::IPV4) => {
                let Ok(header) = ip4::Header::parse(frame.bytes()) else { return };
                if !is_station(header.src.into()) || !self.is_reached_by(cx, iface.id, header.src.to_bits()) {
                    return;
                }
                match header.proto {
                    Proto::TCP => self.tcp_refuse::<u32>(cx, iface, frame),
                    _ => self.icmp4_error(cx, frame, Cause::Unreachable(icmp4::unreachable::ADMIN_PROHIBITED)),
                }
            }
            Some(EtherType::IPV6) => {
                let Ok(header) = ip6::Header::parse(frame.bytes()) else { return };
                if !is_station(header.src.into()) || !self.is_reached_by(cx, iface.id, header.src.to_bits()) {
                    return;
                }
                let problem = Problem::Unreachable { code: icmp6::unreachable::ADMIN_PROHIBITED };
                match header.next {
                    Proto::TCP => self.tcp_refuse::<u128>(cx, iface, frame),
                    _ => self.icmp6_error(cx, Some(iface.id), frame, problem),
                }
            }
            _ => {}
        }
    }
}

/// Returns whether `addr` may be the address of a station.
fn is_station(addr: IpAddr) -> bool {
    let mapped = matches!(addr, IpAddr::V6(addr) if ip6::is_v4_mapped(addr));
    !(addr.is_unspecified() || addr.is_multicast() || addr.is_loopback() || addr == Ipv4Addr::BROADCAST || mapped)
}
