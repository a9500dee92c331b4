//! MLDv2 listener (RFC 3810). It reports the multicast groups of this host's addresses and sockets
//! when a group is added or removed and when a router queries. Snooping switches then forward
//! neighbor solicitations to this host.

use crate::Stack;
use crate::groups::reports;
use crate::iface::Iface;
use crate::ip4::pmtu::FLOOR6;
use crate::ip6::Outgoing6;
use clock::Duration;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::{IpAddr, Ipv6Addr};
use wire::igmp::v3::{NewRecord, RecordKind};
use wire::ip6::{self, Chain};
use wire::mld::{self, Message};
use wire::{Malformed, Proto};

/// Hop-by-Hop header before ICMPv6, with the router alert that MLD requires (RFC 2711, RFC 3810 5).
const ROUTER_ALERT: [u8; 8] = [Proto::IPV6_ICMP.0, 0, 5, 2, 0, 0, 1, 0];

impl<L: Locks> Stack<L> {
    /// Schedules a report of all groups of an interface within `millis` milliseconds.
    fn report_within(&self, cx: Cx, iface: &Iface<L>, millis: u64) {
        let wait = self.secret.hash2(cx.now.nanos(), u64::from(iface.id.0)) % (millis + 1);
        let mut six = iface.six.lock(cx);
        six.report_due = six.report_due.min(cx.now.after(Duration::from_millis(wait)));
        self.six.due_at(six.report_due);
    }

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
        // RFC 3810 5.1.14, 6.2: a query must come from a neighbor and contain a router alert.
        if !ip6::is_link_local(header.src) || header.hop_limit != 1 || chain.find(Proto::HOP_BY_HOP).is_none() {
            return DropReason::MldMalformed;
        }
        self.count(cx).mld.queries_received.bump();
        self.report_within(cx, iface, u64::from(query).min(32_768));
        DropReason::MldConsumed
    }

    /// Reports the solicited-node group of a new address.
    pub(crate) fn listen6(&self, cx: Cx, iface: &Iface<L>, addr: Ipv6Addr) {
        self.mld_report(cx, iface, &[whole(RecordKind::ToExclude, ip6::solicited_node(addr))]);
    }

    /// Reports all groups whose packets an interface receives.
    pub(crate) fn mld_report_all(&self, cx: Cx, iface: &Iface<L>) {
        let mut own: Vec<_> = iface.addrs6(cx).into_iter().map(|own| ip6::solicited_node(own.addr)).collect();
        if self.sysctls.forwarding6.on() {
            own.push(ip6::ALL_ROUTERS);
        }
        own.sort_unstable();
        own.dedup();
        let joined = self.groups.lock(cx).current6(iface.id);
        // A group that one of our addresses requires is received from all sources, whatever sources
        // the filter of a socket excludes.
        let joined = joined.into_iter().filter(|record| !own.iter().any(|own| record.group == IpAddr::V6(*own)));
        let own = own.iter().map(|group| whole(RecordKind::IsExclude, *group));
        self.mld_report(cx, iface, &own.chain(joined).collect::<Vec<_>>());
    }

    /// Sends membership records in as many reports as needed, each small enough for any link and
    /// buffer.
    #[inline(never)]
    pub(crate) fn mld_report(&self, cx: Cx, iface: &Iface<L>, records: &[NewRecord]) {
        let room = self.pool.size().saturating_sub(self.pool.headroom()).min(FLOOR6 - ip6::HEADER_LEN);
        let room = room.saturating_sub(ROUTER_ALERT.len() + wire::icmp6::HEADER_LEN);
        reports(records, room).iter().for_each(|records| self.mld_send(cx, iface, records));
    }

    fn mld_send(&self, cx: Cx, iface: &Iface<L>, records: &[NewRecord]) {
        if iface.tunnel.is_some() || iface.queues.at(|| 0).lock(cx).output.is_none() {
            return; // a tunnel has no snooping switch; without a port, nothing can be sent
        }
        let Some(mut frame) = self.make_frame(cx) else { return };
        // RFC 3590 4: the source is the unspecified address until the link-local address is valid.
        let src = iface.link_local6(cx).unwrap_or(Ipv6Addr::UNSPECIFIED);
        let report = mld::report(src, records);
        if frame.extend(&ROUTER_ALERT).and_then(|()| frame.extend(&report)).is_none() {
            return self.drop_as_bug(cx, frame, "the message does not fit its new frame");
        }
        let out = Outgoing6::new(ip6::ALL_MLD2_ROUTERS, Proto::HOP_BY_HOP, 1);
        let out = Outgoing6 { src: Some(src), iface: Some(iface.id), ..out };
        if self.ip6_output(cx, frame, &out).is_ok() {
            self.count(cx).mld.reports_sent.bump();
        }
    }
}

/// Returns a membership record that applies to all sources of a group.
fn whole(kind: RecordKind, group: Ipv6Addr) -> NewRecord {
    NewRecord { kind, group: group.into(), sources: Vec::new() }
}
