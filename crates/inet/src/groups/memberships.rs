//! Group memberships of a host, and the source filters of its sockets.

use crate::iface::IfaceId;
use clock::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use wire::igmp::v3::{NewRecord, RecordKind};
use wire::ip6;

/// Maximum number of source addresses in a filter, which a socket has for a multicast group.
pub const SOURCES_MAX: usize = 64;
/// Maximum number of sources stored for a group from queries for particular sources. If the queries
/// list more, the answer is for the whole group.
const QUERIED_MAX: usize = 256;
/// The group of all hosts. Every interface belongs to it permanently, and it is never reported.
pub(crate) const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// Meaning of the source list of a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FilterMode {
    /// Only packets from these sources are received.
    #[default]
    Include,
    /// Packets from all sources but these are received.
    Exclude,
}

/// Source filter of a group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceFilter {
    /// Meaning of `sources`: included or excluded.
    pub mode: FilterMode,
    /// Sources to include or exclude.
    pub sources: BTreeSet<IpAddr>,
}

impl SourceFilter {
    /// Returns the filter that accepts every source.
    pub fn any() -> SourceFilter {
        SourceFilter { mode: FilterMode::Exclude, sources: BTreeSet::new() }
    }

    /// Returns whether packets from `source` are accepted.
    pub fn passes(&self, source: IpAddr) -> bool {
        self.sources.contains(&source) == (self.mode == FilterMode::Include)
    }

    /// Returns whether the filter rejects every source, which is equivalent to leaving the group.
    pub fn is_none(&self) -> bool {
        self.mode == FilterMode::Include && self.sources.is_empty()
    }

    /// Merges the filters of an interface's sockets (RFC 3376 3.2). The result accepts every source
    /// that at least one of them accepts.
    pub(super) fn merged<'a>(filters: impl Iterator<Item = &'a SourceFilter> + Clone) -> SourceFilter {
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

/// Changes of a group's filter that have not been reported twice yet.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) mode: bool,
    pub(super) sources: BTreeSet<IpAddr>,
}

/// State of a multicast group on an interface.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Sockets that have joined the group, with their filters.
    pub(super) members: Vec<(usize, SourceFilter)>,
    /// Filter that results from merging the filters of all members.
    pub(super) filter: SourceFilter,
    pub(super) change: Change,
    /// Time at which the report of a change is repeated; `None` if no repetition is due.
    pub(super) again_at: Option<Instant>,
    /// Time at which the pending query is answered; `None` if no query is pending.
    pub(crate) report_at: Option<Instant>,
    /// Sources that are listed in the pending query; empty if the query is for the whole group.
    pub(super) queried: BTreeSet<IpAddr>,
    /// True if this host sent the last IGMPv2 report for the group.
    pub(crate) last_reporter: bool,
}

impl Group {
    pub(crate) fn is_joined(&self) -> bool {
        !self.members.is_empty()
    }

    /// Schedules the answer to a query at the time `at`. The query is for `sources`, or for the
    /// whole group if there are none.
    pub(crate) fn on_query(&mut self, at: Instant, sources: impl ExactSizeIterator<Item = IpAddr>) {
        let is_whole = sources.len() == 0 || self.report_at.is_some() && self.queried.is_empty();
        self.report_at = Some(self.report_at.map_or(at, |before| before.min(at)));
        self.queried.extend(sources);
        if is_whole || self.queried.len() > QUERIED_MAX {
            self.queried.clear();
        }
    }

    /// Returns the record that answers the pending query; `None` if this host receives from none of
    /// the queried sources (RFC 3376 5.2).
    pub(super) fn current(&mut self, group: IpAddr) -> Option<NewRecord> {
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

    /// Returns the records that report [`Group::change`] (RFC 3376 5.1).
    pub(super) fn changes(&self, group: IpAddr) -> Vec<NewRecord> {
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

/// Groups that a host has joined.
#[derive(Debug, Default)]
pub(crate) struct Memberships {
    pub(crate) groups: BTreeMap<(IfaceId, IpAddr), Group>,
    /// Time until which an IGMPv1 or IGMPv2 querier is assumed to be present, by interface (RFC
    /// 3376 7.2.1).
    pub(crate) old_querier: BTreeMap<IfaceId, Instant>,
}

impl Memberships {
    pub(crate) fn is_member(&self, iface: IfaceId, group: impl Into<IpAddr>) -> bool {
        let group = group.into();
        group == IpAddr::V4(ALL_SYSTEMS) || self.groups.get(&(iface, group)).is_some_and(Group::is_joined)
    }

    /// Returns whether `group` is joined on any interface, for packets that this host sends to
    /// itself.
    pub(crate) fn is_member_anywhere(&self, group: impl Into<IpAddr>) -> bool {
        let group = group.into();
        let is_joined = |((_, joined), state): (&(IfaceId, IpAddr), &Group)| *joined == group && state.is_joined();
        group == IpAddr::V4(ALL_SYSTEMS) || self.groups.iter().any(is_joined)
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        let times = self.groups.values().flat_map(|group| [group.again_at, group.report_at]);
        times.flatten().min().unwrap_or(Instant::NEVER)
    }

    /// Returns the records that answer a query for all IPv6 groups on an interface.
    pub(crate) fn current6(&mut self, iface: IfaceId) -> Vec<NewRecord> {
        let groups = self.groups.iter_mut().filter(|((on, group), _)| *on == iface && group.is_ipv6());
        let reported = groups.filter(|((_, group), _)| is_reported(*group));
        reported.filter_map(|((_, group), state)| state.current(*group)).collect()
    }
}

/// Returns whether membership in `group` is reported. The groups of all hosts and groups of
/// interface-local scope are not reported (RFC 3376 5, RFC 3810 6).
pub(crate) fn is_reported(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group != ALL_SYSTEMS,
        IpAddr::V6(group) => group != ip6::ALL_NODES && ip6::scope(group) >= 2,
    }
}
