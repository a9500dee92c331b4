//! Listener table: maps (VLAN, group) to ports, each with an expiry time.
//!
//! The table is a sorted map, not a hash map, because remote hosts choose the keys. The number of
//! listeners is bounded. If a listener of a group did not fit into the table, frames for the group
//! go to all ports until the group expires, so that every listener receives them.

use super::set::PortSet;
use crate::PortNo;
use clock::{Duration, Instant};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Bound;

pub(super) type Key = (u16, IpAddr);

#[derive(Debug, Default)]
struct Group {
    ports: Vec<(PortNo, Instant)>,
    /// Time at which the listeners that did not fit into the table expire; `None` if there are
    /// none.
    others: Option<Instant>,
}

/// A listener, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    /// VLAN of the listener; 0 without VLAN filtering.
    pub vid: u16,
    /// Group address of the listener.
    pub group: IpAddr,
    /// Port to which the listener is connected.
    pub port: PortNo,
    /// Remaining time until the listener expires without a further report.
    pub left: Duration,
}

/// A page of the listener table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MdbPage {
    /// Listeners in the order of their groups.
    pub listeners: Vec<Listener>,
    /// Last group of this page, as argument of the next call; `None` if there are no more groups.
    pub next: Option<(u16, IpAddr)>,
}

/// Ports where listeners of a group are connected.
pub(super) enum Known {
    Nobody,
    /// All ports, because some listeners did not fit into the table.
    All,
    Ports(PortSet),
}

#[derive(Debug)]
pub(super) struct Mdb {
    groups: BTreeMap<Key, Group>,
    len: usize,
    most: usize,
}

impl Mdb {
    pub fn new(most: usize) -> Mdb {
        Mdb { groups: BTreeMap::new(), len: 0, most }
    }

    /// Adds a listener, or moves its expiry to a later time. Returns `false` if the table is full.
    pub fn report(&mut self, key: Key, port: PortNo, now: Instant, until: Instant) -> bool {
        if self.len >= self.most {
            self.age_group(key, now);
        }
        let room = self.len < self.most;
        if !room && !self.groups.contains_key(&key) {
            return false;
        }
        let group = self.groups.entry(key).or_default();
        match group.ports.iter_mut().find(|(there, _)| *there == port) {
            Some((_, there)) => *there = until.max(*there),
            None if room => {
                group.ports.push((port, until));
                self.len += 1;
            }
            None => {
                group.others = group.others.max(Some(until));
                return false;
            }
        }
        true
    }

    /// Removes the listener at `port`, unless it expires later than `known`, because a later expiry
    /// comes from a newer report.
    pub fn leave(&mut self, key: Key, port: PortNo, known: Instant) {
        self.keep(key, |there, until| there != port || until > known);
    }

    /// Makes the listeners of a group at `port`, or at all ports, expire at `until`. Listeners
    /// whose expiry is later than `known` have reported more recently and are not affected.
    pub fn shorten(&mut self, key: Key, port: Option<PortNo>, known: Instant, until: Instant) {
        let Some(group) = self.groups.get_mut(&key) else { return };
        let shorter = |there: Instant| if there > known { there } else { until.min(there) };
        let those = group.ports.iter_mut().filter(|(there, _)| port.is_none_or(|port| port == *there));
        those.for_each(|(_, there)| *there = shorter(*there));
        if port.is_none() {
            group.others = group.others.map(shorter);
        }
    }

    pub fn listens(&self, key: Key, port: PortNo, now: Instant) -> bool {
        self.groups
            .get(&key)
            .is_some_and(|group| group.ports.iter().any(|(there, until)| *there == port && now < *until))
    }

    pub fn listeners(&self, key: Key, now: Instant) -> Known {
        let Some(group) = self.groups.get(&key) else { return Known::Nobody };
        if group.others.is_some_and(|until| now < until) {
            return Known::All;
        }
        let mut ports = PortSet::default();
        group.ports.iter().filter(|(_, until)| now < *until).for_each(|(port, _)| ports.insert(*port));
        if ports == PortSet::default() { Known::Nobody } else { Known::Ports(ports) }
    }

    fn keep(&mut self, key: Key, keep: impl Fn(PortNo, Instant) -> bool) {
        let Some(group) = self.groups.get_mut(&key) else { return };
        let before = group.ports.len();
        group.ports.retain(|(port, until)| keep(*port, *until));
        self.len -= before - group.ports.len();
        if group.ports.is_empty() && group.others.is_none() {
            self.groups.remove(&key);
        }
    }

    fn age_group(&mut self, key: Key, now: Instant) {
        self.keep(key, |_, until| now < until);
    }

    pub fn age(&mut self, now: Instant) {
        let mut gone = 0;
        self.groups.retain(|_, group| {
            let before = group.ports.len();
            group.ports.retain(|(_, until)| now < *until);
            group.others = group.others.filter(|until| now < *until);
            gone += before - group.ports.len();
            !group.ports.is_empty() || group.others.is_some()
        });
        self.len -= gone;
    }

    pub fn page(&self, after: Option<Key>, most: usize, now: Instant) -> MdbPage {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut behind = self.groups.range((from, Bound::Unbounded));
        let mut page = MdbPage::default();
        let mut last = None;
        for (&(vid, group), there) in behind.by_ref().take(most.max(1)) {
            let alive = there.ports.iter().filter(|(_, until)| now < *until);
            page.listeners.extend(alive.map(|(port, until)| Listener {
                vid,
                group,
                port: *port,
                left: until.since(now),
            }));
            last = Some((vid, group));
        }
        page.next = last.filter(|_| behind.next().is_some());
        page
    }
}
