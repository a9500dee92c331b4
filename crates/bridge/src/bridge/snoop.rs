//! Multicast snooping (RFC 4541): frames for a group go only to the ports where listeners of the
//! group or multicast routers are connected.
//!
//! A multicast frame is classified before it is flooded: `message` parses it, `mdb` stores the
//! listeners, and `routers` stores the ports with routers and queriers. Reports and leaves go to
//! router ports only, so that stations do not receive each other's reports. Queries, non-IP frames,
//! 224.0.0.0/24, ff02::1 and unknown IGMP types go to all ports. A message with a wrong checksum is
//! dropped. The listener table is used only while there is a querier, either this bridge's own
//! ([`Querier`]) or another one, because stations do not repeat their reports without queries. The
//! source lists of IGMPv3 and MLDv2 reports are ignored: a listener gets the group's frames from
//! all sources.

mod mdb;
mod message;
mod querier;
mod routers;
mod set;

pub use mdb::{Listener, MdbPage};
pub use querier::{MOST_VLANS, Querier, Query};
pub(super) use set::PortSet;

use super::announce::GroupMessage;
use super::flood::{Class, Ingress};
use super::{Bridge, vlan::Tagging};
use crate::PortNo;
use buf::Frame;
use clock::{Duration, Instant};
use mdb::Mdb;
use message::{Message, parse, without_padding};
use querier::Asker;
use routers::{Domain, Routers};
use stats::DropReason;
use std::net::IpAddr;

/// Handling of frames for groups without a known listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unknown {
    /// Flood to all ports with [`Member::multicast`](crate::Member) set.
    #[default]
    Flood,
    /// Send to router ports only.
    Routers,
}

/// Configuration of multicast snooping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnoopConfig {
    /// Maximum number of listeners; a listener is a combination of port, group and VLAN.
    pub most: usize,
    /// Handling of frames for groups without a known listener.
    pub unknown: Unknown,
    /// Time for which a listener remains known without a further report (RFC 3376 8.4: twice 125 s
    /// plus 10 s).
    pub membership: Duration,
    /// Time for which a router port or another querier remains known without a further message (RFC
    /// 3376 8.5: 255 s).
    pub router: Duration,
    /// This bridge's own querier; `None` if it has none. It sends queries unless another querier
    /// has a lower address.
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

/// Time at which a listener is removed after a leave message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leave {
    /// After the querier has queried the group again and received no report.
    #[default]
    Asked,
    /// At once. Suitable for a port with a single station.
    Fast,
}

/// Condition under which a port is a router port, which gets reports and multicast data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RouterPort {
    /// The port is a router port after a query with a source address or a PIM hello has arrived on
    /// it.
    #[default]
    Learned,
    /// The port is always a router port.
    Always,
    /// The port is never a router port.
    Never,
}

/// Snooping settings of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnoopPort {
    /// Handling of leave messages at the port.
    pub leave: Leave,
    /// Condition under which the port is a router port.
    pub router: RouterPort,
}

stats::tallies! {
    /// Counters of multicast snooping.
    pub struct SnoopCounts at "bridge.snoop" {
        /// Membership reports received, of all versions.
        reports,
        /// IGMP Leave and MLD Done messages, and records in reports that have the same effect.
        leaves,
        /// Queries received.
        queries,
        /// PIM hellos received.
        hellos,
        /// Messages dropped because their length, checksum or address was invalid.
        malformed,
        /// Listeners and router ports not stored because the table was full.
        full,
        /// Queries sent by the bridge's own querier.
        requested,
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
    /// Time until which multicast frames go to all ports, because events from another replica were
    /// lost.
    mistrusts_until: Instant,
}

const SWEEP: Duration = Duration::from_secs(1);

/// Ports that a multicast frame is sent to.
enum Choice {
    /// All ports whose flood settings allow it.
    All,
    /// All ports, whatever their flood settings. Used for queries, because a station that receives
    /// no queries sends no reports.
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

    /// Updates listeners and routers from a multicast frame received on `from`. Returns the ports
    /// for the frame; `None` if it is malformed.
    fn input(&mut self, vid: u16, from: PortNo, port: SnoopPort, heard: Message<'_>, now: Instant) -> Option<Choice> {
        Some(match heard {
            Message::Other => Choice::All,
            Message::Malformed => {
                self.counts.malformed += 1;
                return None;
            }
            Message::Data(group) => Choice::Listeners(Domain::of(vid, group), group),
            Message::Hello(of) => {
                self.counts.hellos += 1;
                self.router_at(Domain::of(vid, of), from, port, now);
                Choice::All
            }
            Message::Query(query) => {
                self.counts.queries += 1;
                self.query(vid, from, port, &query, now);
                Choice::Everybody
            }
            Message::Reports(reports) => {
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

    fn query(&mut self, vid: u16, from: PortNo, port: SnoopPort, query: &message::ReceivedQuery, now: Instant) {
        let domain = Domain::of(vid, query.src);
        self.routers.on_query(domain, query.src, now, now.after(self.config.router));
        // RFC 4541 2.1.1 (1): a query without a source address does not come from a router.
        if !query.src.is_unspecified() {
            self.router_at(domain, from, port, now);
        }
        if let Some(group) = query.group.filter(|_| query.shortens) {
            self.mdb.shorten((vid, group), None, self.deadline(now), now.after(query.max_resp * 2));
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
            return self.mdb.leave((vid, group), from, self.deadline(now));
        }
        let said_by = self.deadline(now);
        let Some(asker) = &mut self.asker else { return };
        if self.mdb.listens((vid, group), from, now) && asker.is_elected(&self.routers, Domain::of(vid, group), now) {
            asker.ask_about(vid, group, now);
            self.mdb.shorten((vid, group), Some(from), said_by, now.after(querier::LAST_MEMBER_TIME));
        }
    }

    /// Returns the time until which a listener that reports at `now` remains known.
    fn deadline(&self, now: Instant) -> Instant {
        now.after(self.config.membership)
    }

    /// Returns whether the listener table can be used: there is a querier, and no event of another
    /// replica was lost recently.
    fn is_asked(&self, domain: Domain, now: Instant) -> bool {
        let is_asked =
            || self.routers.has_querier(domain, now) || self.asker.as_ref().is_some_and(|asker| asker.asks(domain));
        now >= self.mistrusts_until && is_asked()
    }

    fn poll(&mut self, now: Instant) {
        if let Some(asker) = &mut self.asker {
            self.counts.requested += asker.poll(&self.routers, now);
        }
        if now >= self.sweep_at {
            self.sweep_at = now.after(SWEEP);
            self.mdb.age(now);
            self.routers.age(now);
        }
    }
}

impl Bridge {
    /// Enables snooping with `config` and an empty table, or disables it (`None`, the initial
    /// state).
    pub fn set_snooping(&mut self, config: Option<SnoopConfig>, now: Instant) {
        self.snoop = config.map(|config| Box::new(Snoop::new(config, now)));
    }

    /// Starts or stops the bridge's own querier, if snooping is enabled. The listener table is
    /// kept.
    pub fn set_querier(&mut self, querier: Option<Querier>, now: Instant) {
        if let Some(snoop) = self.snoop.as_deref_mut() {
            snoop.asker = querier.clone().map(|querier| Asker::new(querier, now));
            snoop.config.querier = querier;
        }
    }

    /// Sets the handling of frames for groups without a known listener.
    pub fn set_unknown_groups(&mut self, unknown: Unknown) {
        if let Some(snoop) = self.snoop.as_deref_mut() {
            snoop.config.unknown = unknown;
        }
    }

    /// Returns the snooping configuration.
    pub fn snooping(&self) -> Option<&SnoopConfig> {
        self.snoop.as_deref().map(|snoop| &snoop.config)
    }

    /// Returns the snooping settings of a port.
    pub fn snoop_port(&self, port: PortNo) -> Option<SnoopPort> {
        self.extra(port).map(|extra| extra.snoop)
    }

    /// Changes the snooping settings of a port.
    pub fn set_snoop_port(&mut self, port: PortNo, snoop: SnoopPort) {
        if let Some(extra) = self.extra_mut(port) {
            extra.snoop = snoop;
        }
    }

    /// Returns the snooping counters.
    pub fn snoop_counts(&self) -> SnoopCounts {
        self.snoop.as_deref().map(|snoop| snoop.counts).unwrap_or_default()
    }

    /// Returns a page of the listener table: up to `most` groups that follow `after`, the last
    /// group of the previous page.
    pub fn mdb(&self, after: Option<(u16, IpAddr)>, most: usize, now: Instant) -> MdbPage {
        self.snoop.as_deref().map(|snoop| snoop.mdb.page(after, most, now)).unwrap_or_default()
    }

    /// Returns the router ports: VLAN, port, and remaining time until each expires.
    pub fn router_ports(&self, now: Instant) -> impl Iterator<Item = (u16, PortNo, Duration)> {
        self.snoop.iter().flat_map(move |snoop| snoop.routers.ports(now))
    }

    /// Returns the next query of the bridge's own querier. The caller puts it into a frame and
    /// sends it with [`Bridge::send_all`]. [`Bridge::poll`] creates the queries.
    pub fn take_query(&mut self) -> Option<Query> {
        self.snoop.as_deref_mut()?.asker.as_mut()?.take()
    }

    pub(super) fn poll_snoop(&mut self, now: Instant) {
        if let Some(snoop) = &mut self.snoop {
            snoop.poll(now);
        }
    }

    /// Updates listeners and routers from a frame that is about to be flooded. Returns the ports to
    /// which snooping restricts the frame; `None` if it does not.
    pub(super) fn snoop(
        &mut self,
        way: Ingress,
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
        let heard = parse(ethertype, packet);
        if let Some(announced) = self.announced.as_mut().filter(|_| heard.is_valid()) {
            announced.note_message(way.from, way.vid, (ethertype, without_padding(ethertype, packet)), now);
        }
        let choice = snoop.input(way.vid, way.from, port, heard, now);
        match choice.ok_or(DropReason::BridgeSnoopMalformed)? {
            Choice::All => Ok(None),
            Choice::Everybody => Ok(Some(PortSet::ALL)),
            Choice::Routers(domain) => Ok(Some(self.routers(domain, now))),
            Choice::Listeners(domain, group) => Ok(self.listeners(domain, group, now)),
        }
    }

    /// Updates listeners and routers from a message that another replica received, as of the time
    /// at which that replica received it.
    pub(super) fn apply_message(&mut self, said: &GroupMessage, now: Instant) {
        let port = self.snoop_port(said.from).unwrap_or_default();
        if let Some(snoop) = self.snoop.as_deref_mut() {
            snoop.input(said.vid, said.from, port, parse(said.ethertype, &said.packet), said.at.min(now));
        }
    }

    /// Stops using the listener table until stations have reported again, because events of another
    /// replica were lost.
    pub(super) fn mistrust_listeners(&mut self, now: Instant) {
        if let Some(snoop) = self.snoop.as_deref_mut() {
            snoop.mistrusts_until = snoop.deadline(now);
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

    /// Returns the router ports, both learned and configured.
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
