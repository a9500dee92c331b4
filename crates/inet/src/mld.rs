//! MLD (RFC 3810), a listener's part: which groups our addresses make us listen to, said when an address comes and when a router asks, so
//! that switches which snoop know where solicitations are to go.

use crate::Stack;
use crate::iface::Iface;
use crate::ip6::Outgoing6;
use clock::Duration;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::Ipv6Addr;
use wire::ip6::{self, Chain};
use wire::mld::{self, Message};
use wire::{Malformed, Proto};

/// A Hop-by-Hop header with the router alert that MLD is sent with (RFC 2711, RFC 3810 5), before ICMPv6.
const ROUTER_ALERT: [u8; 8] = [Proto::IPV6_ICMP.0, 0, 5, 2, 0, 0, 1, 0];
/// Records of a report (RFC 3810 5.2.12): "I listen", and "from now on".
const IS_EXCLUDE: u8 = 2;
const TO_EXCLUDE: u8 = 4;
/// Groups said in one report: as many as fit any link.
const GROUPS_MAX: usize = 56;

impl<L: Locks> Stack<L> {
    pub(crate) fn mld_input(
        &self,
        cx: Cx,
        iface: &Iface<L>,
        header: &ip6::Header,
        chain: &Chain,
        message: &[u8],
    ) -> DropReason {
        let query = match mld::Message::parse(message, header.src, header.dst) {
            Ok(Some(Message::Query { max_resp, .. })) => max_resp,
            Ok(_) => return DropReason::MldConsumed,
            Err(Malformed::BadChecksum { .. }) => return DropReason::Icmp6BadChecksum,
            Err(_) => return DropReason::MldMalformed,
        };
        // RFC 3810 5.1.14, 6.2: from a neighbor, with an alert.
        if !ip6::is_link_local(header.src) || header.hop_limit != 1 || chain.find(Proto::HOP_BY_HOP).is_none() {
            return DropReason::MldMalformed;
        }
        self.count(cx).mld.queries_received.bump();
        let wait = self.secret.hash2(cx.now.nanos(), u64::from(iface.id.0)) % (u64::from(query).min(32_768) + 1);
        let mut six = iface.six.lock(cx);
        six.report_due = six.report_due.min(cx.now.after(Duration::from_millis(wait)));
        self.six.due_at(six.report_due);
        DropReason::MldConsumed
    }

    /// An address has come: its group is listened to.
    pub(crate) fn listen6(&self, cx: Cx, iface: &Iface<L>, addr: Ipv6Addr) {
        self.mld_send(cx, iface, TO_EXCLUDE, &[ip6::solicited_node(addr)]);
    }

    /// All groups that an iface listens to.
    pub(crate) fn mld_report_all(&self, cx: Cx, iface: &Iface<L>) {
        let mut groups: Vec<_> = iface.addrs6(cx).into_iter().map(|own| ip6::solicited_node(own.addr)).collect();
        if self.knobs.forwarding6.on() {
            groups.push(ip6::ALL_ROUTERS);
        }
        groups.sort_unstable();
        groups.dedup();
        // As many as a small buffer holds, too.
        let fit = self.pool.size().saturating_sub(ROUTER_ALERT.len() + 8) / 20;
        groups.chunks(fit.clamp(1, GROUPS_MAX)).for_each(|groups| self.mld_send(cx, iface, IS_EXCLUDE, groups));
    }

    fn mld_send(&self, cx: Cx, iface: &Iface<L>, kind: u8, groups: &[Ipv6Addr]) {
        if iface.tunnel.is_some() || iface.stage.lock(cx).output.is_none() {
            return; // nobody snoops there, or nobody is there
        }
        let Some(mut frame) = self.make_frame(cx) else { return };
        // RFC 3590 4: from nobody, until the link-local address is certain.
        let src = iface.link_local6(cx).unwrap_or(Ipv6Addr::UNSPECIFIED);
        let report = mld::report(src, kind, groups);
        if frame.extend(&ROUTER_ALERT).and_then(|()| frame.extend(&report)).is_none() {
            return self.drop_as_bug(cx, frame, "a frame that was made for a message has no room for it");
        }
        let out = Outgoing6::new(ip6::ALL_MLD2_ROUTERS, Proto::HOP_BY_HOP, 1);
        let out = Outgoing6 { src: Some(src), iface: Some(iface.id), ..out };
        if self.ip6_output(cx, frame, &out).is_ok() {
            self.count(cx).mld.reports_sent.bump();
        }
    }
}
