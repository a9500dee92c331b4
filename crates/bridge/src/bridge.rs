//! Bridge: takes a burst of frames from a port, decides for each frame where it goes, and adds it
//! to the bursts of the outgoing ports.
//!
//! `input` is the fast path: address learning and lookup only. `checked` is the slow path, used if
//! VLANs, rules or port states apply. `flood` handles frames that go to several ports or to the
//! bridge itself. The state that each chunk of frames reads ([`Member`] and [`Counts`] of a port)
//! is stored apart from rarely read state (`Extra`).

mod announce;
mod checked;
mod flood;
mod input;
mod local;
mod mute;
mod places;
mod rules;
mod snoop;
mod state;
mod storm;
#[cfg(test)]
mod tests;
mod vlan;
mod watch;

pub use announce::{EventKind, GroupMessage, SyncEvent};
pub use local::{Local, Reserved};
pub use mute::{Move, Mute};
pub use rules::{Action, Direction, MAX_RULES, Rule, RuleCounts, Rules};
pub use snoop::{
    Leave, Listener, MOST_VLANS, MdbPage, Querier, Query, RouterPort, SnoopConfig, SnoopCounts, SnoopPort, Unknown,
};
pub use state::{Carrier, PortState, Running};
pub use storm::{Buckets, Rate, Storm};
pub use vlan::{Admit, BadVlans, PortVlan, Stacked, VlanSet};

use crate::{Fdb, FdbConfig, MAX_PORTS, PortNo};
use announce::Announced;
use buf::Burst;
use clock::Instant;
use local::Outlet;
use mute::Moves;
use snoop::Snoop;
use state::Extra;
use stats::Drops;
use watch::DropWatch;
use wire::eth::EtherType;

/// Configuration of a bridge.
#[derive(Debug, Clone, Copy, Default)]
pub struct BridgeConfig {
    /// Configuration of the forwarding table.
    pub fdb: FdbConfig,
}

/// Settings of a port (the member flags of FreeBSD's if_bridge).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// True if source addresses are learned at this port.
    pub learn: bool,
    /// True if frames for unknown addresses are flooded to this port (Linux's `flood`).
    pub discover: bool,
    /// True if multicast frames are flooded to this port, unless snooping selects the ports
    /// (Linux's `mcast_flood`).
    pub multicast: bool,
    /// True if broadcasts are flooded to this port (Linux's `bcast_flood`).
    pub broadcast: bool,
    /// True if addresses learned at this port never move to another port.
    pub sticky: bool,
    /// True if the port exchanges no frames with other private ports.
    pub private: bool,
    /// True for a span port, which only sends a copy of every frame that the bridge receives.
    pub span: bool,
    /// Cluster of the port. Frames are forwarded only between ports of one cluster, and each
    /// cluster has its own address space (bridge_cfg of FreeBSD 4).
    pub cluster: u16,
    /// True if the port's device can pass frames ([`Bridge::set_carrier`]). Duplicated here because
    /// the fast path reads it.
    pub carrier: bool,
}

impl Default for Member {
    fn default() -> Member {
        Member {
            learn: true,
            discover: true,
            multicast: true,
            broadcast: true,
            sticky: false,
            private: false,
            span: false,
            cluster: 0,
            carrier: true,
        }
    }
}

/// Counters of a port: `received = forwarded + flooded + dropped + local`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Frames received from the port.
    pub received: u64,
    /// Frames forwarded to one other port.
    pub forwarded: u64,
    /// Frames flooded: to all other ports, or to the ports that snooping selects.
    pub flooded: u64,
    /// Frames received and then dropped.
    pub dropped: u64,
    /// Frames delivered to the bridge itself.
    pub local: u64,
    /// Frames passed to the port for sending, copies included.
    pub given: u64,
}

/// Totals over all ports, where `received + made + copied = given + dropped + local`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Audit {
    /// Frames received from all ports.
    pub received: u64,
    /// Frames originated by the bridge ([`Bridge::send`], [`Bridge::send_all`]).
    pub made: u64,
    /// Copies for flooding and for span ports, including those for which there was no buffer.
    pub copied: u64,
    /// Frames passed to ports for sending.
    pub given: u64,
    /// Frames dropped for any reason, including copies for which there was no buffer.
    pub dropped: u64,
    /// Frames put into the local queue ([`Bridge::take_local`]).
    pub local: u64,
}

impl Audit {
    /// Returns whether the totals balance: every frame is accounted for.
    pub fn holds(&self) -> bool {
        self.received + self.made + self.copied == self.given + self.dropped + self.local
    }
}

/// A bridge: ports by number, and the forwarding table.
#[derive(Debug)]
pub struct Bridge {
    fdb: Fdb,
    /// Time of the last flush. Events from other replicas about addresses seen before this time are
    /// ignored.
    forgot: Instant,
    members: Vec<(Member, Counts)>,
    spans: usize,
    /// True if frames take the slow path, which is in the module `checked`.
    checked: bool,
    /// Port to mute at the end of the current burst.
    muting: Option<PortNo>,
    reserved: Reserved,
    /// The bridge's own MAC address, in the low 48 bits.
    address: Option<u64>,
    running: Running,
    extras: Vec<Extra>,
    /// EtherType of VLAN tags; `None` if VLAN filtering is off.
    tags: Option<EtherType>,
    mute: Option<Mute>,
    moves: Moves,
    outlet: Outlet,
    snoop: Option<Box<Snoop>>,
    made: u64,
    copied: u64,
    /// Sums of the counters of ports that have been removed.
    gone: Counts,
    /// Events queued for other replicas; `None` if events are not announced.
    announced: Option<Announced>,
    drops: Drops,
    drop_watch: Option<DropWatch>,
    /// Arrival time of the current burst.
    now: Instant,
}

impl Bridge {
    /// Returns a bridge without ports. Loop detection mutes ports ([`Mute`]) as in FreeBSD 4; all
    /// other features are off.
    pub fn new(config: BridgeConfig) -> Bridge {
        Bridge {
            fdb: Fdb::new(config.fdb),
            forgot: Instant::ZERO,
            members: Vec::new(),
            spans: 0,
            checked: false,
            muting: None,
            reserved: Reserved::Drop,
            address: None,
            running: Running::Up,
            extras: Vec::new(),
            tags: None,
            mute: Some(Mute::default()),
            moves: Moves::default(),
            outlet: Outlet::default(),
            snoop: None,
            made: 0,
            copied: 0,
            gone: Counts::default(),
            announced: None,
            drops: Drops::default(),
            drop_watch: None,
            now: Instant::ZERO,
        }
    }

    /// Adds a port and returns its number; `None` if the bridge already has [`MAX_PORTS`] ports.
    pub fn add(&mut self, member: Member) -> Option<PortNo> {
        let number = PortNo::try_from(self.members.len()).ok().filter(|number| usize::from(*number) < MAX_PORTS)?;
        self.members.push((member, Counts::default()));
        self.extras.push(Extra::default());
        self.spans += usize::from(member.span);
        self.keep_cluster(number, member.cluster);
        self.reconsider();
        Some(number)
    }

    /// Returns the settings of a port.
    pub fn member(&self, port: PortNo) -> Option<&Member> {
        self.members.get(usize::from(port)).map(|(member, _)| member)
    }

    /// Changes the settings of a port.
    pub fn set_member(&mut self, port: PortNo, member: Member) {
        if let Some((there, _)) = self.members.get_mut(usize::from(port)) {
            self.spans = self.spans - usize::from(there.span) + usize::from(member.span);
            *there = member;
            self.keep_cluster(port, member.cluster);
        }
        self.reconsider();
    }

    /// Stores the cluster of a port in the forwarding table too. Does nothing for an unused slot,
    /// which belongs to no cluster.
    fn keep_cluster(&mut self, port: PortNo, cluster: u16) {
        if cluster != places::NO_CLUSTER {
            self.fdb.set_cluster(port, cluster);
        }
    }

    fn extra(&self, port: PortNo) -> Option<&Extra> {
        self.extras.get(usize::from(port))
    }

    fn extra_mut(&mut self, port: PortNo) -> Option<&mut Extra> {
        self.extras.get_mut(usize::from(port))
    }

    /// Selects the fast or the slow path. Called after each change of a setting that requires the
    /// slow path.
    fn reconsider(&mut self) {
        self.checked = self.spans > 0
            || self.tags.is_some()
            || self.members.iter().any(|(member, _)| !matches!(member.cluster, 0 | places::NO_CLUSTER))
            || self.running != Running::Up
            || self.extras.iter().any(Extra::is_checked);
    }

    /// Returns the forwarding table.
    pub fn fdb(&self) -> &Fdb {
        &self.fdb
    }

    /// Returns the forwarding table, so that the caller can change it.
    pub fn fdb_mut(&mut self) -> &mut Fdb {
        &mut self.fdb
    }

    /// Returns the counters of each port, by port number.
    pub fn counts(&self) -> impl Iterator<Item = Counts> {
        self.members.iter().map(|(_, counts)| *counts)
    }

    /// Returns the drop counters by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Returns the totals over all ports, including removed ones.
    pub fn audit(&self) -> Audit {
        let mut audit = Audit { made: self.made, copied: self.copied, dropped: self.drops.total(), ..Audit::default() };
        for counts in self.counts().chain([self.gone]) {
            audit.received += counts.received;
            audit.given += counts.given;
            audit.local += counts.local;
        }
        audit
    }

    /// Takes all frames of `burst`, which were received on port `from`, and adds each to the bursts
    /// of the ports to which it goes; `out` contains one burst for each port. A frame for a full
    /// burst is dropped. If there is no port `from`, its frames remain in `burst`.
    #[inline]
    pub fn input(&mut self, from: PortNo, burst: &mut Burst, now: Instant, out: &mut [Burst]) {
        let came = burst.len();
        let Some((member, counts)) = self.members.get_mut(usize::from(from)) else { return };
        let member = *member;
        counts.received += came as u64;
        self.now = now;
        if self.checked {
            self.input_checked(from, member, burst, now, out);
        } else {
            self.input_fast(from, member, burst, now, out);
        }
        if self.muting.is_some() {
            self.mute_port(now);
        }
    }

    /// Removes expired entries in a part of the table, unmutes ports whose mute time is over, and
    /// creates the multicast queries that are due.
    pub fn poll(&mut self, now: Instant) {
        self.fdb.poll(now);
        self.unmute(now);
        self.poll_snoop(now);
    }
}
