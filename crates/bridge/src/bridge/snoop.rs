//! Snooping (RFC 4541): frames for a group go to the ports where somebody listens to it, and to routers.
//!
//! A frame for several that is addressed to a group comes here before it is spread: `message` says what it is, `mdb` who listens, `routers` where
//! routers and queriers are. Reports and leaves go to routers only, so that stations do not hear each other's; queries, what is not IP,
//! 224.0.0.0/24, ff02::1 and unknown kinds of IGMP go to all; a message with a wrong checksum goes nowhere. What is known is used
//! while a querier is there, ours ([`Querier`]) or another, since without one nobody says again that he listens. Which sources a
//! version 3 report wants is left out: who listens to some gets all.

mod mdb;
mod message;
mod querier;
mod routers;
mod set;

pub use mdb::{Listener, MdbPage};
pub use querier::{MOST_VLANS, Querier, Query};
pub(super) use set::PortSet;

use super::announce::Said;
use super::flood::{Class, Way};
use super::{Bridge, vlan::Tagging};
use crate::PortNo;
use buf::Frame;
use clock::{Duration, Instant};
use mdb::Mdb;
use message::{Heard, hear, without_padding};
use querier::Asker;
use routers::{Domain, Routers};
use stats::DropReason;
use std::net::IpAddr;

/// What becomes of a group to which nobody is known to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unknown {
    /// Its frames go to all ports whose [`Member::multicast`](crate::Member) says so.
    #[default]
    Flood,
    /// To routers only.
    Routers,
}

/// How a bridge snoops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnoopConfig {
    /// Listeners (a port, for a group, in a VLAN) that are remembered at most.
    pub most: usize,
    /// Groups that nobody is known to listen to.
    pub unknown: Unknown,
    /// How long a listener lasts that says nothing more: RFC 3376 8.4, twice 125 s and 10 s.
    pub membership: Duration,
    /// How long a router's port or another querier lasts: RFC 3376 8.5, 255 s.
    pub router: Duration,
    /// Asks itself, where no other querier's address is lower.
    pub querier: Option<Querier>,
}

impl Default for SnoopConfig {
    fn default() -> SnoopConfig {
        SnoopConfig {
            most: 4096,
            unknown: Unknown::Flood,
            membership: Duration::from_secs(260),
            router: Duration::from_secs(255),
            querier: None,
        }
    }
}

/// What a leave does at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leave {
    /// Nothing until the querier has asked who else listens.
    #[default]
    Asked,
    /// It is believed at once: for a port with one station.
    Fast,
}

/// Whether a router is behind a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RouterPort {
    /// If one was heard: a query from an address, a PIM hello.
    #[default]
    Learned,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What snooping does at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnoopPort {
    /// Leaves.
    pub leave: Leave,
    /// Routers.
    pub router: RouterPort,
}

stats::tallies! {
    /// What snooping has seen.
    pub struct SnoopCounts at "bridge.snoop" {
        /// Reports, of all versions.
        reports,
        /// Leaves, Dones, and records that say so.
        leaves,
        /// Queries.
        queries,
        /// PIM hellos.
        hellos,
        /// Messages with wrong lengths, checksums or addresses: dropped.
        malformed,
        /// Listeners and routers for whom there was no place.
        full,
        /// Queries of our own.
        asked,
    }
}

#[derive(Debug)]
pub(super) struct Snoop {
    config: SnoopConfig,
    mdb: Mdb,
    routers: Routers,
    asker: Option<Asker>,
    counts: SnoopCounts,
    sweep_at: Instant,
    /// Until then frames for groups go to all: what was said elsewhere was lost on its way here.
    mistrusts_until: Instant,
}

const SWEEP: Duration = Duration::from_secs(1);

/// Where a group's frame goes.
enum Choice {
    /// To all ports whose switches say so.
    All,
    /// To all, whatever their switches say: who does not hear a query does not say that he listens.
    Everybody,
    Routers(Domain),
    Listeners(Domain, IpAddr),
}

impl Snoop {
    fn new(config: SnoopConfig, now: Instant) -> Snoop {
        let asker = config.querier.clone().map(|querier| Asker::new(querier, now));
        let mdb = Mdb::new(config.most);
        let (routers, counts) = (Routers::default(), SnoopCounts::default());
        Snoop { config, mdb, routers, asker, counts, sweep_at: now, mistrusts_until: Instant::ZERO }
    }

    /// Learns from a frame for a group that came through `from`.
    fn input(&mut self, vid: u16, from: PortNo, port: SnoopPort, heard: Heard<'_>, now: Instant) -> Option<Choice> {
        Some(match heard {
            Heard::Other => Choice::All,
            Heard::Malformed => {
                self.counts.malformed += 1;
                return None;
            }
            Heard::Data(group) => Choice::Listeners(Domain::of(vid, group), group),
            Heard::Hello(of) => {
                self.counts.hellos += 1;
                self.router_at(Domain::of(vid, of), from, port, now);
                Choice::All
            }
            Heard::Query(query) => {
                self.counts.queries += 1;
                self.query(vid, from, port, &query, now);
                Choice::Everybody
            }
            Heard::Reports(reports) => {
                for (group, listens) in reports.records() {
                    if listens { self.report(vid, group, from, now) } else { self.leave(vid, group, from, port, now) }
                }
                Choice::Routers(Domain { vid, six: reports.six() })
            }
        })
    }

    fn router_at(&mut self, domain: Domain, from: PortNo, port: SnoopPort, now: Instant) {
        let is_learned = port.router == RouterPort::Learned;
        if is_learned && !self.routers.learn(domain, from, now.after(self.config.router)) {
            self.counts.full += 1;
        }
    }

    fn query(&mut self, vid: u16, from: PortNo, port: SnoopPort, query: &message::QueryHeard, now: Instant) {
        let domain = Domain::of(vid, query.src);
        self.routers.heard_querier(domain, query.src, now, now.after(self.config.router));
        // RFC 4541 2.1.1 (1): who has no address is no router.
        if !query.src.is_unspecified() {
            self.router_at(domain, from, port, now);
        }
        if let Some(group) = query.group.filter(|_| query.shortens) {
            self.mdb.shorten((vid, group), None, self.said_by(now), now.after(query.max_resp * 2));
        }
    }

    fn report(&mut self, vid: u16, group: IpAddr, from: PortNo, now: Instant) {
        self.counts.reports += 1;
        if message::is_pruned(group) && !self.mdb.report((vid, group), from, now, now.after(self.config.membership)) {
            self.counts.full += 1;
        }
    }

    fn leave(&mut self, vid: u16, group: IpAddr, from: PortNo, port: SnoopPort, now: Instant) {
        self.counts.leaves += 1;
        if port.leave == Leave::Fast {
            return self.mdb.leave((vid, group), from, self.said_by(now));
        }
        let said_by = self.said_by(now);
        let Some(asker) = &mut self.asker else { return };
        if self.mdb.listens((vid, group), from, now) && asker.is_elected(&self.routers, Domain::of(vid, group), now) {
            asker.ask_about(vid, group, now);
            self.mdb.shorten((vid, group), Some(from), said_by, now.after(querier::LAST_MEMBER_TIME));
        }
    }

    /// How long those last at most who said so by `now`.
    fn said_by(&self, now: Instant) -> Instant {
        now.after(self.config.membership)
    }

    /// Is what is known whole, and kept fresh?
    fn is_asked(&self, domain: Domain, now: Instant) -> bool {
        let is_asked =
            || self.routers.has_querier(domain, now) || self.asker.as_ref().is_some_and(|asker| asker.asks(domain));
        now >= self.mistrusts_until && is_asked()
    }

    fn poll(&mut self, now: Instant) {
        if let Some(asker) = &mut self.asker {
            self.counts.asked += asker.poll(&self.routers, now);
        }
        if now >= self.sweep_at {
            self.sweep_at = now.after(SWEEP);
            self.mdb.age(now);
            self.routers.age(now);
        }
    }
}

impl Bridge {
    /// Snoops as `config` says, from nothing known on; `None`, as at first: does not.
    pub fn set_snooping(&mut self, config: Option<SnoopConfig>, now: Instant) {
        self.snoop = config.map(|config| Box::new(Snoop::new(config, now)));
    }

    /// Asks itself, or does not any more, where it snoops; who listens to what stays known.
    pub fn set_querier(&mut self, querier: Option<Querier>, now: Instant) {
        if let Some(snoop) = self.snoop.as_deref_mut() {
            snoop.asker = querier.clone().map(|querier| Asker::new(querier, now));
            snoop.config.querier = querier;
        }
    }

    /// Groups to which nobody is known to listen.
    pub fn set_unknown_groups(&mut self, unknown: Unknown) {
        if let Some(snoop) = self.snoop.as_deref_mut() {
            snoop.config.unknown = unknown;
        }
    }

    /// How it snoops.
    pub fn snooping(&self) -> Option<&SnoopConfig> {
        self.snoop.as_deref().map(|snoop| &snoop.config)
    }

    /// What it does at a port.
    pub fn snoop_port(&self, port: PortNo) -> Option<SnoopPort> {
        self.extra(port).map(|extra| extra.snoop)
    }

    /// Sets that.
    pub fn set_snoop_port(&mut self, port: PortNo, snoop: SnoopPort) {
        if let Some(extra) = self.extra_mut(port) {
            extra.snoop = snoop;
        }
    }

    /// What it has seen.
    pub fn snoop_counts(&self) -> SnoopCounts {
        self.snoop.as_deref().map(|snoop| snoop.counts).unwrap_or_default()
    }

    /// A part of who listens to what: up to `most` groups behind `after`, which stood last on the page before.
    pub fn mdb(&self, after: Option<(u16, IpAddr)>, most: usize, now: Instant) -> MdbPage {
        self.snoop.as_deref().map(|snoop| snoop.mdb.page(after, most, now)).unwrap_or_default()
    }

    /// The ports behind which a router was heard, each with its VLAN and how long it still lasts.
    pub fn router_ports(&self, now: Instant) -> impl Iterator<Item = (u16, PortNo, Duration)> {
        self.snoop.iter().flat_map(move |snoop| snoop.routers.ports(now))
    }

    /// The next query of our own, to be put into a frame and sent by [`Bridge::send_all`]. [`Bridge::poll`] makes them.
    pub fn take_query(&mut self) -> Option<Query> {
        self.snoop.as_deref_mut()?.asker.as_mut()?.take()
    }

    pub(super) fn poll_snoop(&mut self, now: Instant) {
        if let Some(snoop) = &mut self.snoop {
            snoop.poll(now);
        }
    }

    /// The ports to which a frame for several may go, as snooping has it; `None`: all. Learns from it on the way.
    pub(super) fn snoop(
        &mut self,
        way: Way,
        class: Class,
        frame: &Frame,
        now: Instant,
    ) -> Result<Option<PortSet>, DropReason> {
        if class != Class::Multicast {
            return Ok(None);
        }
        let port = self.snoop_port(way.from).unwrap_or_default();
        let Some(snoop) = self.snoop.as_deref_mut() else { return Ok(None) };
        let at = if way.tagging == Tagging::Tagged { 16 } else { 12 };
        let Some((tpe, packet)) = frame.bytes().get(at..).and_then(|bytes| bytes.split_first_chunk()) else {
            return Ok(None);
        };
        let ethertype = u16::from_be_bytes(*tpe);
        let heard = hear(ethertype, packet);
        if let Some(announced) = self.announced.as_mut().filter(|_| heard.is_said()) {
            announced.said(way.from, way.vid, (ethertype, without_padding(ethertype, packet)), now);
        }
        let choice = snoop.input(way.vid, way.from, port, heard, now);
        match choice.ok_or(DropReason::BridgeSnoopMalformed)? {
            Choice::All => Ok(None),
            Choice::Everybody => Ok(Some(PortSet::ALL)),
            Choice::Routers(domain) => Ok(Some(self.routers(domain, now))),
            Choice::Listeners(domain, group) => Ok(self.listeners(domain, group, now)),
        }
    }

    /// Learns from what another replica was told, as of when that was.
    pub(super) fn overhear(&mut self, said: &Said, now: Instant) {
        let port = self.snoop_port(said.from).unwrap_or_default();
        if let Some(snoop) = self.snoop.as_deref_mut() {
            snoop.input(said.vid, said.from, port, hear(said.ethertype, &said.packet), said.at.min(now));
        }
    }

    /// What another replica was told was lost on its way here.
    pub(super) fn mistrust_listeners(&mut self, now: Instant) {
        if let Some(snoop) = self.snoop.as_deref_mut() {
            snoop.mistrusts_until = snoop.said_by(now);
        }
    }

    fn listeners(&self, domain: Domain, group: IpAddr, now: Instant) -> Option<PortSet> {
        let snoop = self.snoop.as_deref().filter(|_| message::is_pruned(group))?;
        if !snoop.is_asked(domain, now) {
            return None;
        }
        let known = snoop.mdb.listeners((domain.vid, group), now);
        match (known, snoop.config.unknown) {
            (mdb::Known::All, _) | (mdb::Known::Nobody, Unknown::Flood) => None,
            (mdb::Known::Nobody, Unknown::Routers) => Some(self.routers(domain, now)),
            (mdb::Known::Ports(ports), _) => Some(ports.with(&self.routers(domain, now))),
        }
    }

    /// Where routers are.
    fn routers(&self, domain: Domain, now: Instant) -> PortSet {
        let mut ports = self.snoop.as_deref().map(|snoop| snoop.routers.of(domain, now)).unwrap_or_default();
        for (port, extra) in (0..).zip(&self.extras) {
            match extra.snoop.router {
                RouterPort::Learned => {}
                RouterPort::Always => ports.insert(port),
                RouterPort::Never => ports.remove(port),
            }
        }
        ports
    }
}
