//! Multicast groups that a host's sockets have joined, with their source filters: RFC 3376 3 and 5,
//! RFC 3810 4 and 6.
//!
//! A socket has a source filter for each group that it has joined on an interface.
//! [`igmp`](crate::igmp) and [`mld`](crate::mld) report one filter per group, which results from
//! merging the filters of all sockets. They report it when it changes, once more after a random
//! delay, and in answer to queries.

mod memberships;

pub(crate) use memberships::{ALL_SYSTEMS, Memberships, is_reported};
pub use memberships::{FilterMode, SOURCES_MAX, SourceFilter};

use crate::Stack;
use crate::iface::IfaceId;
use clock::{Duration, Instant};
use lock::{Cx, Locks};
use memberships::Change;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::igmp::v3::{NewRecord, RecordKind};

/// Maximum number of joined groups of a host. A group counts once for each interface on which it is
/// joined.
const GROUPS_MAX: usize = 1024;
/// Maximum delay after which the report of a change is repeated, in case the first one was lost
/// (RFC 3376 8.11, RFC 3810 9.11).
const UNSOLICITED: Duration = Duration::from_secs(1);

impl<L: Locks> Stack<L> {
    /// Sets the filter of the socket `id` for `group` on `iface` and reports the resulting change.
    /// With the filter `None`, the socket leaves the group. Returns `false` if no more groups can
    /// be joined or if the interface does not exist.
    #[inline(never)]
    pub(crate) fn set_membership(
        &self,
        cx: Cx,
        id: usize,
        (iface, group): (IfaceId, IpAddr),
        filter: Option<SourceFilter>,
    ) -> bool {
        if self.ifaces.get(iface).is_none() {
            return false;
        }
        let mut memberships = self.groups.lock(cx);
        if memberships.groups.len() >= GROUPS_MAX && !memberships.groups.contains_key(&(iface, group)) {
            return false;
        }
        let old = group.is_ipv4() && self.has_old_querier(cx, &memberships, iface);
        let state = memberships.groups.entry((iface, group)).or_default();
        let was_joined = state.is_joined();
        state.members.retain(|(member, _)| *member != id);
        state.members.extend(filter.map(|filter| (id, filter)));
        let merged = SourceFilter::merged(state.members.iter().map(|(_, filter)| filter));
        let before = std::mem::replace(&mut state.filter, merged);
        state.change.mode |= before.mode != state.filter.mode;
        state.change.sources.extend(before.sources.symmetric_difference(&state.filter.sources));
        let (is_joined, reported_last) = (state.is_joined(), state.last_reporter);
        let records = match before != state.filter {
            true if is_reported(group) && !old => state.changes(group),
            true => {
                state.change = Change::default();
                Vec::new()
            }
            false => Vec::new(),
        };
        if !records.is_empty() {
            state.again_at = Some(self.delay(cx, group, UNSOLICITED));
        }
        if !is_joined && state.again_at.is_none() {
            memberships.groups.remove(&(iface, group));
        }
        drop(memberships);
        match group {
            IpAddr::V4(group) if old && is_reported(group.into()) && was_joined != is_joined => {
                self.igmp_changed(cx, iface, group, is_joined, reported_last);
            }
            _ => self.report_groups(cx, iface, &records),
        }
        true
    }

    /// Sends the reports that are due: repeated reports of changes, and answers to queries.
    pub(crate) fn poll_groups(&self, cx: Cx) {
        let mut memberships = self.groups.lock(cx);
        if memberships.next_deadline() > cx.now {
            return;
        }
        let mut due: BTreeMap<(IfaceId, bool), Vec<NewRecord>> = BTreeMap::new();
        let (mut old_reports, mut left) = (Vec::new(), Vec::new());
        let old: BTreeSet<IfaceId> = memberships
            .groups
            .keys()
            .map(|(iface, _)| *iface)
            .filter(|iface| self.has_old_querier(cx, &memberships, *iface))
            .collect();
        for (&(iface, group), state) in &mut memberships.groups {
            let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= cx.now);
            let (again, answer) = (is_due(state.again_at), is_due(state.report_at));
            let records = due.entry((iface, group.is_ipv4())).or_default();
            if again {
                records.append(&mut state.changes(group));
                (state.change, state.again_at) = (Change::default(), None);
            }
            if answer {
                state.report_at = None;
                match group {
                    IpAddr::V4(group) if old.contains(&iface) => {
                        state.last_reporter = true;
                        old_reports.push((iface, group));
                    }
                    _ => records.extend(state.current(group)),
                }
            }
            if !state.is_joined() && state.again_at.is_none() {
                left.push((iface, group));
            }
        }
        left.iter().for_each(|left| drop(memberships.groups.remove(left)));
        drop(memberships);
        due.into_iter().for_each(|((iface, _), records)| self.report_groups(cx, iface, &records));
        old_reports.into_iter().for_each(|(iface, group)| self.igmp_report(cx, iface, group));
    }

    /// Returns a random time, at most `within` from now. It differs between hosts and groups.
    pub(crate) fn delay(&self, cx: Cx, group: IpAddr, within: Duration) -> Instant {
        let low = match group {
            IpAddr::V4(group) => u64::from(group.to_bits()),
            IpAddr::V6(group) => group.to_bits() as u64,
        };
        let draw = self.secret.hash2(low, cx.now.nanos());
        cx.now.after(within.mul_f64((draw >> 11) as f64 / (1u64 << 53) as f64))
    }

    /// Sends membership records, all of one address family, in as many IGMPv3 or MLDv2 reports as
    /// needed.
    fn report_groups(&self, cx: Cx, iface: IfaceId, records: &[NewRecord]) {
        let Some(iface) = self.ifaces.get(iface) else { return };
        match records.first().map(|record| record.group) {
            Some(IpAddr::V4(_)) => self.igmp_report_v3(cx, iface, records),
            Some(IpAddr::V6(_)) => self.mld_report(cx, iface, records),
            None => {}
        }
    }
}

/// Distributes records to reports with at most `room` bytes of records each. A long source list is
/// split over several records. An exclude list cannot be split and is truncated instead, so that
/// more is received than the sockets need (RFC 3376 4.2.16).
pub(crate) fn reports(records: &[NewRecord], room: usize) -> Vec<Vec<NewRecord>> {
    let (mut all, mut report, mut used) = (Vec::new(), Vec::new(), 0);
    for record in records {
        let fit = (room.saturating_sub(record.len_with(0)) / record.len_of_source()).max(1);
        let is_cut = matches!(record.kind, RecordKind::IsExclude | RecordKind::ToExclude);
        let parts = record.sources.chunks(fit).take(if is_cut { 1 } else { usize::MAX }).map(<[IpAddr]>::to_vec);
        let parts = if record.sources.is_empty() { vec![Vec::new()] } else { parts.collect() };
        for sources in parts {
            let part = NewRecord { sources, ..*record };
            let len = part.len_with(part.sources.len());
            if used + len > room && !report.is_empty() {
                all.push(std::mem::take(&mut report));
                used = 0;
            }
            used += len;
            report.push(part);
        }
    }
    all.extend((!report.is_empty()).then_some(report));
    all
}
