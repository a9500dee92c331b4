//! Rejection of received frames by a policy outside the stack.

use crate::Stack;
use crate::icmp4::Cause;
use crate::iface::{Iface, IfaceId};
use crate::link::remove_link;
use buf::Frame;
use lock::{Cx, Locks};
use stats::DropReason;
use wire::eth::EtherType;
use wire::icmp6::Problem;
use wire::{Proto, icmp4, icmp6, ip4, ip6};

impl<L: Locks> Stack<L> {
    /// Counts a frame as received on `iface`, and drops it with the reason `why`. If `answers`, the
    /// sender receives a TCP RST or, for other protocols, an ICMP error (administratively
    /// prohibited), within the limits that apply to these.
    pub fn reject(&self, cx: Cx, iface: IfaceId, mut frame: Frame, why: DropReason, answers: bool) {
        if let Some(iface) = self.ifaces.get(iface).filter(|iface| answers && iface.is_up()) {
            self.answer_refused(cx, iface, &mut frame);
            self.flush(cx);
        }
        self.refuse(cx, Some(frame), why);
    }

    /// Answers the sender of a frame.
    fn answer_refused(&self, cx: Cx, iface: &Iface<L>, frame: &mut Frame) {
        match remove_link(frame, iface.mac) {
            Some(EtherType::IPV4) => match ip4::Header::parse(frame.bytes()) {
                Ok(ip4::Header { proto: Proto::TCP, .. }) => self.tcp_refuse::<u32>(cx, iface, frame),
                Ok(_) => self.icmp4_error(cx, frame, Cause::Unreachable(icmp4::unreachable::ADMIN_PROHIBITED)),
                Err(_) => {}
            },
            Some(EtherType::IPV6) => match ip6::Header::parse(frame.bytes()) {
                Ok(ip6::Header { next: Proto::TCP, .. }) => self.tcp_refuse::<u128>(cx, iface, frame),
                Ok(_) => {
                    let problem = Problem::Unreachable { code: icmp6::unreachable::ADMIN_PROHIBITED };
                    self.icmp6_error(cx, Some(iface.id), frame, problem);
                }
                Err(_) => {}
            },
            _ => {}
        }
    }
}
