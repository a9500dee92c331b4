//! Group membership and IGMPv2 (RFC 2236): join, report, leave.
//!
//! A group is joined on an iface as often as sockets ask and left with the last. A join is reported at once and once more
//! after a random time; a query is answered after a random part of its response time, unless another member was
//! faster. The all-systems group 224.0.0.1 is always joined and never reported.

use crate::Stack;
use crate::iface::{Iface, IfaceId, IfaceKind};
use crate::stack::AtOnce;
use buf::Frame;
use clock::{Duration, Instant};
use lock::{Cx, Locks};
use stats::DropReason;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use wire::igmp::Message;
use wire::{Mac, Proto, ip4};

const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// Groups one host may join.
const GROUPS_MAX: usize = 1024;
/// RFC 2236 8.10.
const UNSOLICITED: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Membership {
    users: usize,
    report_at: Option<Instant>,
    last_reporter: bool,
}

/// The groups that a host has joined.
#[derive(Debug, Default)]
pub(crate) struct Memberships(BTreeMap<(IfaceId, Ipv4Addr), Membership>);

impl Memberships {
    pub(crate) fn is_member(&self, iface: IfaceId, group: Ipv4Addr) -> bool {
        group == ALL_SYSTEMS || self.0.contains_key(&(iface, group))
    }

    /// Is a member anywhere: for what this host sends to itself.
    pub(crate) fn is_member_anywhere(&self, group: Ipv4Addr) -> bool {
        group == ALL_SYSTEMS || self.0.keys().any(|(_, joined)| *joined == group)
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        self.0.values().filter_map(|m| m.report_at).min().unwrap_or(Instant::NEVER)
    }
}

impl<L: Locks> Stack<L> {
    /// Joins `group` on `iface` and reports it; `false` if no more groups can be joined.
    pub fn join_group(&self, cx: Cx, iface: IfaceId, group: Ipv4Addr) -> bool {
        let mut groups = self.groups.lock(cx);
        if groups.0.len() >= GROUPS_MAX && !groups.0.contains_key(&(iface, group)) {
            return false;
        }
        let again = self.delay(cx, group, UNSOLICITED);
        let membership = groups.0.entry((iface, group)).or_default();
        membership.users += 1;
        let first = membership.users == 1 && group != ALL_SYSTEMS;
        if first {
            membership.report_at = Some(again);
            membership.last_reporter = true;
        }
        drop(groups);
        if first {
            self.igmp_send(cx, iface, Message::Report { group });
        }
        true
    }

    /// Leaves `group` on `iface`, and says so when nobody here is left in it and we spoke last (RFC 2236 3).
    pub fn leave_group(&self, cx: Cx, iface: IfaceId, group: Ipv4Addr) {
        let mut groups = self.groups.lock(cx);
        let Some(membership) = groups.0.get_mut(&(iface, group)) else { return };
        membership.users -= 1;
        if membership.users > 0 {
            return;
        }
        let spoke = membership.last_reporter;
        groups.0.remove(&(iface, group));
        drop(groups);
        if spoke && group != ALL_SYSTEMS {
            self.igmp_send(cx, iface, Message::Leave { group });
        }
    }

    pub(crate) fn igmp_input(&self, cx: Cx, iface: Option<&Iface<L>>, mut packet: Frame, header: &ip4::Header) {
        packet.pull(header.ihl_len);
        let (Ok(message), Some(iface)) = (Message::parse(packet.bytes()), iface) else {
            return self.drop_frame(cx, packet, DropReason::IgmpMalformed);
        };
        match message {
            Message::Query { max_resp_ds, group } => {
                self.count(cx).igmp.queries_received.bump();
                let within = Duration::from_millis(100 * u64::from(if max_resp_ds == 0 { 100 } else { max_resp_ds }));
                let mut groups = self.groups.lock(cx);
                for ((id, joined), membership) in &mut groups.0 {
                    if *id == iface.id && *joined != ALL_SYSTEMS && (group.is_unspecified() || group == *joined) {
                        let at = self.delay(cx, *joined, within);
                        membership.report_at = Some(membership.report_at.map_or(at, |before| before.min(at)));
                    }
                }
            }
            Message::Report { group } | Message::ReportV1 { group } => {
                if let Some(membership) = self.groups.lock(cx).0.get_mut(&(iface.id, group)) {
                    (membership.report_at, membership.last_reporter) = (None, false);
                }
            }
            Message::Leave { .. } | Message::Other { .. } => {}
        }
        self.drop_frame(cx, packet, DropReason::IgmpConsumed);
    }

    pub(crate) fn poll_groups(&self, cx: Cx) {
        let mut due = Vec::new();
        for (&(iface, group), membership) in &mut self.groups.lock(cx).0 {
            if membership.report_at.is_some_and(|at| at <= cx.now) {
                (membership.report_at, membership.last_reporter) = (None, true);
                due.push((iface, group));
            }
        }
        due.into_iter().for_each(|(iface, group)| self.igmp_send(cx, iface, Message::Report { group }));
    }

    /// A time within `within` from now, different for each host and group.
    fn delay(&self, cx: Cx, group: Ipv4Addr, within: Duration) -> Instant {
        let draw = self.secret.hash2(u64::from(u32::from(group)), cx.now.nanos());
        cx.now.after(within.mul_f64((draw >> 11) as f64 / (1u64 << 53) as f64))
    }

    fn igmp_send(&self, cx: Cx, iface: IfaceId, message: Message) {
        let (dst, group) = match message {
            Message::Leave { .. } => (ALL_ROUTERS, None),
            Message::Report { group } => (group, Some(group)),
            _ => return,
        };
        let Some(iface) = self.ifaces.get(iface).filter(|i| i.kind == IfaceKind::Ethernet && i.is_up()) else { return };
        let Some(src) = self.source_for(cx, iface, dst) else { return };
        let Some(mut packet) = self.make_frame(cx) else { return };
        if alerting_packet(&mut packet, src, dst, &message.emit()).is_none() {
            return self.drop_as_bug(cx, packet, "a frame that was made for a message has no room for it");
        }
        let counters = self.count(cx);
        counters.ip4.sent.bump();
        if group.is_some() {
            counters.igmp.reports_sent.bump()
        } else {
            counters.igmp.leaves_sent.bump()
        }
        self.ether_output(cx, iface, Mac::multicast4(dst), packet, AtOnce::Later);
    }
}

/// RFC 2236 2: all IGMP messages are sent with TTL 1 and the router alert option (RFC 2113), which a router that forwards
/// by hardware, and a switch that snoops, look for.
fn alerting_packet(packet: &mut Frame, src: Ipv4Addr, dst: Ipv4Addr, message: &[u8]) -> Option<()> {
    const ALERT: [u8; 4] = [ip4::Opt::ROUTER_ALERT, 4, 0, 0];
    const HEADER_LEN: usize = ip4::HEADER_LEN + ALERT.len();
    packet.extend(message)?;
    let total_len = (HEADER_LEN + message.len()) as u16;
    let header = ip4::Header::new(src, dst, Proto::IGMP, message.len())?;
    let room = packet.push::<HEADER_LEN>()?;
    let (fixed, options) = room.split_first_chunk_mut::<{ ip4::HEADER_LEN }>()?;
    ip4::Header { ihl_len: HEADER_LEN, total_len, ttl: 1, ..header }.emit(fixed);
    options.copy_from_slice(&ALERT);
    ip4::fill_checksum(room);
    packet.mark_l3();
    Some(())
}
