//! IGMPv3 for hosts (RFC 3376): reports joins, leaves and changes of source filters, and answers
//! queries.
//!
//! While a link has an IGMPv2 or IGMPv1 querier, this host sends reports and leave messages of
//! IGMPv2 (RFC 2236), which contain no source filters. The memberships are in
//! [`groups`](crate::groups).

use crate::Stack;
use crate::groups::{ALL_SYSTEMS, Memberships, reports};
use crate::iface::AtOnce;
use crate::iface::{Iface, IfaceId, IfaceKind};
use buf::Frame;
use clock::Duration;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::{IpAddr, Ipv4Addr};
use wire::control::ControlClass;
use wire::igmp::Message;
use wire::igmp::v3::{self, NewRecord};
use wire::{Mac, Proto, ip4};

const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// Destination address of IGMPv3 reports.
const ALL_V3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// Maximum delay of the repeated IGMPv2 report after a join (unsolicited report interval, RFC 2236
/// 8.10).
const UNSOLICITED: Duration = Duration::from_secs(10);
/// Time for which IGMPv2 is used after a query of an older version (older version querier interval,
/// RFC 3376 8.12). With the default timers, it is twice the query interval of 125 s plus the query
/// response interval of 10 s.
const OLD_QUERIER: Duration = Duration::from_secs(260);
/// First version of IGMP that has source filters.
const SOURCES: i64 = 3;

impl<L: Locks> Stack<L> {
    /// Returns whether IGMPv2 reports are sent on `iface`, because there is an older querier or
    /// because the sysctl `net.inet.igmp.default_version` is 2.
    pub(crate) fn has_old_querier(&self, cx: Cx, memberships: &Memberships, iface: IfaceId) -> bool {
        self.sysctls.igmp_version.get() < SOURCES
            || memberships.old_querier.get(&iface).is_some_and(|until| cx.now < *until)
    }

    /// Reports with IGMPv2 that the first socket has joined `group`, or that the last one has left
    /// it. A leave message is sent only if this host sent the last report for the group (RFC 2236
    /// 3).
    pub(crate) fn igmp_changed(&self, cx: Cx, iface: IfaceId, group: Ipv4Addr, is_joined: bool, reported_last: bool) {
        if is_joined {
            let again = self.delay(cx, group.into(), UNSOLICITED);
            if let Some(state) = self.groups.lock(cx).groups.get_mut(&(iface, group.into())) {
                (state.report_at, state.last_reporter) = (Some(again), true);
            }
            self.igmp_report(cx, iface, group);
        } else if reported_last {
            self.igmp_send(cx, iface, ALL_ROUTERS, &Message::Leave { group }.emit());
        }
    }

    /// Sends an IGMPv2 report for `group`.
    pub(crate) fn igmp_report(&self, cx: Cx, iface: IfaceId, group: Ipv4Addr) {
        self.igmp_send(cx, iface, group, &Message::Report { group }.emit());
    }

    /// Sends membership records in as many IGMPv3 reports as needed.
    pub(crate) fn igmp_report_v3(&self, cx: Cx, iface: &Iface<L>, records: &[NewRecord]) {
        let room = self.pool.size().saturating_sub(self.pool.headroom()).min(iface.mtu());
        for records in reports(records, room.saturating_sub(HEADER_LEN + wire::igmp::MESSAGE_LEN)) {
            self.igmp_send(cx, iface.id, ALL_V3_ROUTERS, &v3::new_report(&records));
        }
    }

    pub(crate) fn igmp_input(&self, cx: Cx, iface: Option<&Iface<L>>, mut packet: Frame, header: &ip4::Header) {
        self.punt_copy(cx, iface, ControlClass::Igmp, &packet);
        packet.pull(header.ihl_len);
        let (Ok(message), Some(iface)) = (Message::parse(packet.bytes()), iface) else {
            return self.drop_frame(cx, packet, DropReason::IgmpMalformed);
        };
        match message {
            Message::Query { max_resp_ds, group } => {
                self.count(cx).igmp.queries_received.bump();
                let (tenths, sources) = match v3::query_more(packet.bytes()) {
                    Some(_) => (v3::number8(max_resp_ds), v3::query_sources(packet.bytes())),
                    None => (if max_resp_ds == 0 { 100 } else { max_resp_ds.into() }, v3::query_sources(&[])),
                };
                let is_old = v3::query_more(packet.bytes()).is_none();
                let within = Duration::from_millis(100 * u64::from(tenths));
                let mut memberships = self.groups.lock(cx);
                if is_old {
                    memberships.old_querier.insert(iface.id, cx.now.after(OLD_QUERIER));
                }
                let sources: Vec<IpAddr> = sources.map(IpAddr::V4).collect();
                for ((id, joined), state) in &mut memberships.groups {
                    let IpAddr::V4(joined) = *joined else { continue };
                    let is_queried = group.is_unspecified() || group == joined;
                    if *id == iface.id && joined != ALL_SYSTEMS && is_queried && state.is_joined() {
                        state.on_query(self.delay(cx, joined.into(), within), sources.iter().copied());
                    }
                }
            }
            Message::Report { group } | Message::ReportV1 { group } => {
                let mut memberships = self.groups.lock(cx);
                let is_old = self.has_old_querier(cx, &memberships, iface.id);
                if let Some(state) = memberships.groups.get_mut(&(iface.id, group.into())).filter(|_| is_old) {
                    (state.report_at, state.last_reporter) = (None, false);
                }
            }
            Message::Leave { .. } | Message::Other { .. } => {}
        }
        self.drop_frame(cx, packet, DropReason::IgmpConsumed);
    }

    fn igmp_send(&self, cx: Cx, iface: IfaceId, dst: Ipv4Addr, message: &[u8]) {
        let Some(iface) = self.ifaces.get(iface).filter(|i| i.kind == IfaceKind::Ethernet && i.is_up()) else { return };
        let Some(src) = self.source_for(cx, iface, dst) else { return };
        let Some(mut packet) = self.make_frame(cx) else { return };
        if alerting_packet(&mut packet, src, dst, message).is_none() {
            return self.drop_as_bug(cx, packet, "the IGMP message does not fit into a new frame");
        }
        let counters = self.count(cx);
        counters.ip4.sent.bump();
        if dst == ALL_ROUTERS {
            counters.igmp.leaves_sent.bump()
        } else {
            counters.igmp.reports_sent.bump()
        }
        self.ether_output::<u32>(cx, iface, Mac::multicast4(dst), packet, AtOnce::Later);
    }
}

/// Length in bytes of an IPv4 header with the router alert option.
const HEADER_LEN: usize = ip4::HEADER_LEN + ALERT.len();
const ALERT: [u8; 4] = [ip4::Opt::ROUTER_ALERT, 4, 0, 0];
/// Type of service of IGMPv3 messages (RFC 3376 4).
const INTERNETWORK_CONTROL: u8 = 0xc0;

/// Writes an IGMP packet with TTL 1 and the router alert option (RFC 2236 2, RFC 2113). Hardware
/// routers and snooping switches recognize IGMP packets by that option. Returns `None` if the
/// packet does not fit into the frame.
fn alerting_packet(packet: &mut Frame, src: Ipv4Addr, dst: Ipv4Addr, message: &[u8]) -> Option<()> {
    packet.extend(message)?;
    let total_len = (HEADER_LEN + message.len()) as u16;
    let header = ip4::Header::new(src, dst, Proto::IGMP, message.len())?;
    let room = packet.push::<HEADER_LEN>()?;
    let (fixed, options) = room.split_first_chunk_mut::<{ ip4::HEADER_LEN }>()?;
    let tos = if dst == ALL_V3_ROUTERS { INTERNETWORK_CONTROL } else { 0 };
    ip4::Header { ihl_len: HEADER_LEN, total_len, ttl: 1, tos, ..header }.emit(fixed);
    options.copy_from_slice(&ALERT);
    ip4::fill_checksum(room);
    packet.mark_l3();
    Some(())
}
