//! Multicast groups that a host's sockets have joined, with their source filters: RFC 3376 3 and 5, RFC 3810 4 and 6.
//!
//! Each socket has a filter for each group on each iface; the merged filter of an iface is what [`igmp`](crate::igmp) and
//! [`mld`](crate::mld) report: at once when it changes, once more after a random time, and in answer to queries.

use crate::Stack;
use crate::iface::IfaceId;
use clock::{Duration, Instant};
use lock::{Cx, Locks};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use wire::igmp::v3::{NewRecord, RecordKind};
use wire::ip6;

/// Groups one host may join, on all ifaces together.
const GROUPS_MAX: usize = 1024;
/// Sources in the filter of a socket for a group.
pub const SOURCES_MAX: usize = 64;
/// Maximum number of queried sources; with more the answer is of the whole group.
const QUERIED_MAX: usize = 256;
/// A change is reported a second time within this time, lest the first report was lost (RFC 3376 8.11, RFC 3810 9.11).
const UNSOLICITED: Duration = Duration::from_secs(1);

/// 224.0.0.1, which is joined everywhere and never reported.
pub(crate) const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// Meaning of a filter's sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FilterMode {
    /// These sources are received.
    #[default]
    Include,
    /// All but these are received.
    Exclude,
}

/// Sources of a group that are received.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceFilter {
    /// Meaning of the sources.
    pub mode: FilterMode,
    /// The sources.
    pub sources: BTreeSet<IpAddr>,
}

impl SourceFilter {
    /// Returns the filter that receives from every source.
    pub fn any() -> SourceFilter {
        SourceFilter { mode: FilterMode::Exclude, sources: BTreeSet::new() }
    }

    /// Returns whether it receives from `source`.
    pub fn passes(&self, source: IpAddr) -> bool {
        self.sources.contains(&source) == (self.mode == FilterMode::Include)
    }

    /// Returns whether it receives nothing: the group is left.
    pub fn is_none(&self) -> bool {
        self.mode == FilterMode::Include && self.sources.is_empty()
    }

    /// Merges the filters of an iface's sockets (RFC 3376 3.2): what one of them receives, the iface receives.
    fn merged<'a>(filters: impl Iterator<Item = &'a SourceFilter> + Clone) -> SourceFilter {
        let of = |mode| filters.clone().filter(move |filter| filter.mode == mode);
        let included: BTreeSet<IpAddr> = of(FilterMode::Include).flat_map(|filter| &filter.sources).copied().collect();
        let mut excluding = of(FilterMode::Exclude);
        let Some(first) = excluding.next() else {
            return SourceFilter { mode: FilterMode::Include, sources: included };
        };
        let is_blocked = |source: &IpAddr| {
            of(FilterMode::Exclude).all(|filter| filter.sources.contains(source)) && !included.contains(source)
        };
        SourceFilter { mode: FilterMode::Exclude, sources: first.sources.iter().copied().filter(is_blocked).collect() }
    }
}

/// Changes since the last two reports.
#[derive(Debug, Default)]
struct Change {
    mode: bool,
    sources: BTreeSet<IpAddr>,
}

/// A group on an iface.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Sockets that have joined, and their filters.
    members: Vec<(usize, SourceFilter)>,
    /// The merged filter.
    filter: SourceFilter,
    change: Change,
    /// Time of the second report of a change.
    again_at: Option<Instant>,
    /// Time of the answer to a query.
    pub(crate) report_at: Option<Instant>,
    /// Sources that were queried; none: the whole group.
    queried: BTreeSet<IpAddr>,
    /// This host has reported last, with IGMPv2.
    pub(crate) last_reporter: bool,
}

impl Group {
    pub(crate) fn is_joined(&self) -> bool {
        !self.members.is_empty()
    }

    /// Takes a query for the group, or for `sources` of it, which is to be answered at `at`.
    pub(crate) fn on_query(&mut self, at: Instant, sources: impl ExactSizeIterator<Item = IpAddr>) {
        let is_whole = sources.len() == 0 || self.report_at.is_some() && self.queried.is_empty();
        self.report_at = Some(self.report_at.map_or(at, |before| before.min(at)));
        self.queried.extend(sources);
        if is_whole || self.queried.len() > QUERIED_MAX {
            self.queried.clear();
        }
    }

    /// Returns the record that answers a query; `None`: nothing is received of what was queried (RFC 3376 5.2).
    fn current(&mut self, group: IpAddr) -> Option<NewRecord> {
        let queried = std::mem::take(&mut self.queried);
        let (kind, sources) = match (queried.is_empty(), self.filter.mode) {
            (false, _) => {
                (RecordKind::IsInclude, queried.into_iter().filter(|from| self.filter.passes(*from)).collect())
            }
            (true, FilterMode::Include) => (RecordKind::IsInclude, self.filter.sources.iter().copied().collect()),
            (true, FilterMode::Exclude) => (RecordKind::IsExclude, self.filter.sources.iter().copied().collect()),
        };
        let record = NewRecord { kind, group, sources };
        (kind == RecordKind::IsExclude || !record.sources.is_empty()).then_some(record)
    }

    /// Returns the records that report the changes since the last reports (RFC 3376 5.1).
    fn changes(&self, group: IpAddr) -> Vec<NewRecord> {
        let Change { mode, sources } = &self.change;
        if *mode {
            let kind = match self.filter.mode {
                FilterMode::Include => RecordKind::ToInclude,
                FilterMode::Exclude => RecordKind::ToExclude,
            };
            return vec![NewRecord { kind, group, sources: self.filter.sources.iter().copied().collect() }];
        }
        let (allowed, blocked) = sources.iter().partition(|source| self.filter.passes(**source));
        let records = [(RecordKind::Allow, allowed), (RecordKind::Block, blocked)];
        let records = records.into_iter().map(|(kind, sources)| NewRecord { kind, group, sources });
        records.filter(|record| !record.sources.is_empty()).collect()
    }
}

/// The groups that a host has joined.
#[derive(Debug, Default)]
pub(crate) struct Memberships {
    pub(crate) groups: BTreeMap<(IfaceId, IpAddr), Group>,
    /// Time until which a querier of IGMPv2 or IGMPv1 is present (RFC 3376 7.2.1).
    pub(crate) old_querier: BTreeMap<IfaceId, Instant>,
}

impl Memberships {
    pub(crate) fn is_member(&self, iface: IfaceId, group: impl Into<IpAddr>) -> bool {
        let group = group.into();
        group == IpAddr::V4(ALL_SYSTEMS) || self.groups.get(&(iface, group)).is_some_and(Group::is_joined)
    }

    /// Returns whether `group` is joined on any iface: for what this host sends to itself.
    pub(crate) fn is_member_anywhere(&self, group: impl Into<IpAddr>) -> bool {
        let group = group.into();
        let is_joined = |((_, joined), state): (&(IfaceId, IpAddr), &Group)| *joined == group && state.is_joined();
        group == IpAddr::V4(ALL_SYSTEMS) || self.groups.iter().any(is_joined)
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        let times = self.groups.values().flat_map(|group| [group.again_at, group.report_at]);
        times.flatten().min().unwrap_or(Instant::NEVER)
    }

    /// Returns the records of all groups of IPv6 on an iface that are reported.
    pub(crate) fn current6(&mut self, iface: IfaceId) -> Vec<NewRecord> {
        let groups = self.groups.iter_mut().filter(|((on, group), _)| *on == iface && group.is_ipv6());
        let reported = groups.filter(|((_, group), _)| is_reported(*group));
        reported.filter_map(|((_, group), state)| state.current(*group)).collect()
    }
}

/// Returns whether membership of `group` is reported: not of what every node is in, nor of one that stays within an iface
/// (RFC 3376 5, RFC 3810 6).
pub(crate) fn is_reported(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group != ALL_SYSTEMS,
        IpAddr::V6(group) => group != ip6::ALL_NODES && ip6::scope(group) >= 2,
    }
}

impl<L: Locks> Stack<L> {
    /// Sets the filter of socket `id` for `group` on `iface`, and reports what that changes; `None` leaves the group. `false` if
    /// no more groups can be joined, or there is no such iface.
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

    /// Reports what time has made due: changes a second time, answers to queries.
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

    /// Returns a time within `within` from now, different for each host and group.
    pub(crate) fn delay(&self, cx: Cx, group: IpAddr, within: Duration) -> Instant {
        let low = match group {
            IpAddr::V4(group) => u64::from(group.to_bits()),
            IpAddr::V6(group) => group.to_bits() as u64,
        };
        let draw = self.secret.hash2(low, cx.now.nanos());
        cx.now.after(within.mul_f64((draw >> 11) as f64 / (1u64 << 53) as f64))
    }

    /// Sends records, which are of one family, in as many reports as they need.
    fn report_groups(&self, cx: Cx, iface: IfaceId, records: &[NewRecord]) {
        let Some(iface) = self.ifaces.get(iface) else { return };
        match records.first().map(|record| record.group) {
            Some(IpAddr::V4(_)) => self.igmp_report_v3(cx, iface, records),
            Some(IpAddr::V6(_)) => self.mld_report(cx, iface, records),
            None => {}
        }
    }
}

/// Cuts records into reports of at most `room` bytes of records: long lists of sources are split, those that exclude are cut
/// short, which receives more than the sockets do (RFC 3376 4.2.16).
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
