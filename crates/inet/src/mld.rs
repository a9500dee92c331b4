//! MLD (RFC 3810), a listener's part: which groups our addresses and sockets make us listen to, said when one comes or goes and when a router
//! asks, so that switches which snoop know where solicitations are to go.

use crate::Stack;
use crate::iface::{Iface, IfaceId};
use crate::ip6::Outgoing6;
use clock::Duration;
use lock::{Cx, Locks};
use stats::DropReason;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use wire::ip6::{self, Chain};
use wire::mld::{self, Message};
use wire::{Malformed, Proto};

/// A Hop-by-Hop header with the router alert that MLD is sent with (RFC 2711, RFC 3810 5), before ICMPv6.
const ROUTER_ALERT: [u8; 8] = [Proto::IPV6_ICMP.0, 0, 5, 2, 0, 0, 1, 0];
/// Records of a report (RFC 3810 5.2.12): "I listen", "no more", and "from now on".
const IS_EXCLUDE: u8 = 2;
const TO_INCLUDE: u8 = 3;
const TO_EXCLUDE: u8 = 4;
/// Groups that the sockets of a host join at most.
const JOINED_MAX: usize = 1024;
/// A join is said again within this time, lest the first report was lost (RFC 3810 9.11, with a robustness of 2).
const UNSOLICITED: u64 = 1000;
/// Groups said in one report: as many as fit any link.
const GROUPS_MAX: usize = 56;

/// Groups that sockets have joined, each as often as it was.
#[derive(Debug, Default)]
pub(crate) struct Memberships6(BTreeMap<(IfaceId, Ipv6Addr), usize>);

impl Memberships6 {
    pub(crate) fn is_member(&self, iface: IfaceId, group: Ipv6Addr) -> bool {
        self.0.contains_key(&(iface, group))
    }

    /// Returns whether a socket has joined `group` on any iface: for what this host sends to itself.
    pub(crate) fn is_member_anywhere(&self, group: Ipv6Addr) -> bool {
        self.0.keys().any(|(_, joined)| *joined == group)
    }

    fn on(&self, iface: IfaceId) -> impl Iterator<Item = Ipv6Addr> {
        self.0.keys().filter(move |(on, _)| *on == iface).map(|(_, group)| *group)
    }
}

impl<L: Locks> Stack<L> {
    /// Joins `group` on `iface` for a socket and reports it; `false` if there are too many groups, or no such iface.
    pub(crate) fn join_group6(&self, cx: Cx, iface: IfaceId, group: Ipv6Addr) -> bool {
        let Some(iface) = self.ifaces.get(iface) else { return false };
        let mut groups = self.six.groups.lock(cx);
        let known = groups.is_member(iface.id, group);
        if !known && groups.0.len() >= JOINED_MAX {
            return false;
        }
        *groups.0.entry((iface.id, group)).or_default() += 1;
        drop(groups);
        if !known && is_reported(group) {
            self.mld_send(cx, iface, TO_EXCLUDE, &[group]);
            self.report_within(cx, iface, UNSOLICITED);
        }
        true
    }

    /// Leaves `group` on `iface` for a socket; reports it if it was the last one.
    pub(crate) fn leave_group6(&self, cx: Cx, iface: IfaceId, group: Ipv6Addr) {
        let mut groups = self.six.groups.lock(cx);
        let Some(users) = groups.0.get_mut(&(iface, group)) else { return };
        *users -= 1;
        let last = *users == 0;
        if last {
            groups.0.remove(&(iface, group));
        }
        drop(groups);
        if let Some(iface) = self.ifaces.get(iface).filter(|_| last && is_reported(group)) {
            self.mld_send(cx, iface, TO_INCLUDE, &[group]);
        }
    }

    /// Lets all groups of an iface be reported within `millis` milliseconds.
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
        // RFC 3810 5.1.14, 6.2: from a neighbor, with an alert.
        if !ip6::is_link_local(header.src) || header.hop_limit != 1 || chain.find(Proto::HOP_BY_HOP).is_none() {
            return DropReason::MldMalformed;
        }
        self.count(cx).mld.queries_received.bump();
        self.report_within(cx, iface, u64::from(query).min(32_768));
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
        groups.extend(self.six.groups.lock(cx).on(iface.id).filter(|group| is_reported(*group)));
        groups.sort_unstable();
        groups.dedup();
        // As many as a small buffer holds, too.
        let room = self.pool.size() - self.pool.headroom();
        let fit = room.saturating_sub(ROUTER_ALERT.len() + 8) / 20;
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

/// Returns whether membership of `group` is reported: not of what every node is in, nor of one that stays within an iface (RFC 3810 6).
fn is_reported(group: Ipv6Addr) -> bool {
    group != ip6::ALL_NODES && ip6::scope(group) >= 2
}
