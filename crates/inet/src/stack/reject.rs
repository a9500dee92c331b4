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

impl<L: Locks> Stack<L> {
    /// Counts a frame as received on `iface`, and drops it with the reason `why`. If `answers`, the
    /// sender receives a TCP RST or, for other protocols, an ICMP error (administratively
    /// prohibited), within the limits that apply to these. A source whose packets should not arrive
    /// by `iface` gets no answer.
    pub fn reject(&self, cx: Cx, iface: IfaceId, mut frame: Frame, why: DropReason, answers: bool) {
        if let Some(iface) = self.ifaces.get(iface).filter(|iface| answers && iface.is_up()) {
            self.answer_refused(cx, iface, &mut frame);
            self.flush(cx);
        }
        self.refuse(cx, Some(frame), why);
    }

    /// Returns whether packets to `addr` that a port receives are never forwarded: it is a group,
    /// an address of the link, or one of the host's own.
    pub fn stays_here(&self, cx: Cx, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => addr.is_multicast() || self.is_own(cx, addr),
            IpAddr::V6(addr) => addr.is_multicast() || addr.is_unicast_link_local() || self.is_own6(cx, addr),
        }
    }

    /// Answers the sender of a frame.
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
