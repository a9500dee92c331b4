//! The bridge: a burst in, its frames decided about and given to the bursts that leave.
//!
//! `input` is the way of a frame when nothing but learning and looking up is asked; `checked` its way when VLANs, rules or the state of a
//! port have a say; `flood` where several ports take it, or the bridge itself. What is rarely looked at stands apart from what every chunk
//! reads: [`Member`] and [`Counts`] of a port together, the rest in its `Extra`.

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

pub use announce::{About, News, Said};
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

/// What a bridge is to be.
#[derive(Debug, Clone, Copy, Default)]
pub struct BridgeConfig {
    /// Its table.
    pub fdb: FdbConfig,
}

/// What is asked of a port (if_bridge's member flags).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Sources are learned.
    pub learn: bool,
    /// Frames for unknown addresses go there too (Linux's `flood`).
    pub discover: bool,
    /// Frames for groups go there, unless snooping knows better (Linux's `mcast_flood`).
    pub multicast: bool,
    /// Broadcasts go there (Linux's `bcast_flood`).
    pub broadcast: bool,
    /// What was learned there stays there.
    pub sticky: bool,
    /// Exchanges nothing with other private ports.
    pub private: bool,
    /// Gets a copy of all that comes in, and is no part of the bridge else.
    pub span: bool,
    /// Frames go from port to port within a cluster only, which has addresses of its own (bridge_cfg of FreeBSD 4).
    pub cluster: u16,
    /// Its device carries frames ([`Bridge::set_carrier`]): here too, since every frame's way reads it.
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

/// What a port did: `received = forwarded + flooded + dropped + local`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Frames that came through it.
    pub received: u64,
    /// To one other port.
    pub forwarded: u64,
    /// To all others, or to several.
    pub flooded: u64,
    /// Dropped by a decision.
    pub dropped: u64,
    /// To the bridge itself.
    pub local: u64,
    /// Frames given to it, copies among them.
    pub given: u64,
}

/// What came in, and what became of it: `received + made + copied = given + dropped + local`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Audit {
    /// Frames that came.
    pub received: u64,
    /// Frames of the bridge's own that were to be sent ([`Bridge::send`], [`Bridge::send_all`]).
    pub made: u64,
    /// Copies that were wanted, for floods and spans.
    pub copied: u64,
    /// Frames given to ports.
    pub given: u64,
    /// Dropped, for any reason; copies for which there was no buffer among them.
    pub dropped: u64,
    /// Consumed: put into the bridge's own outlet ([`Bridge::take_local`]).
    pub local: u64,
}

impl Audit {
    /// Does it add up?
    pub fn holds(&self) -> bool {
        self.received + self.made + self.copied == self.given + self.dropped + self.local
    }
}

/// Ports by number, and the table.
#[derive(Debug)]
pub struct Bridge {
    fdb: Fdb,
    /// When addresses were forgotten last: what others saw before is not heard.
    forgot: Instant,
    members: Vec<(Member, Counts)>,
    spans: usize,
    /// Frames go the way of `checked`.
    checked: bool,
    /// A port is to be muted when the burst in hand is done.
    muting: Option<PortNo>,
    reserved: Reserved,
    /// Its own, in the low 48 bits.
    address: Option<u64>,
    running: Running,
    extras: Vec<Extra>,
    /// The EtherType of tags, if VLANs are kept apart.
    tags: Option<EtherType>,
    mute: Option<Mute>,
    moves: Moves,
    outlet: Outlet,
    snoop: Option<Box<Snoop>>,
    made: u64,
    copied: u64,
    /// What ports did that are no members any more.
    gone: Counts,
    /// What was learned and is to be told to other replicas.
    announced: Option<Announced>,
    drops: Drops,
    drop_watch: Option<DropWatch>,
    /// Arrival time of the burst in hand.
    now: Instant,
}

impl Bridge {
    /// Without ports. Ports are muted in loops ([`Mute`]), as FreeBSD 4 does; all else is off.
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

    /// Adds a port; `None` if it has as many as it may.
    pub fn add(&mut self, member: Member) -> Option<PortNo> {
        let number = PortNo::try_from(self.members.len()).ok().filter(|number| usize::from(*number) < MAX_PORTS)?;
        self.members.push((member, Counts::default()));
        self.extras.push(Extra::default());
        self.spans += usize::from(member.span);
        self.keep_cluster(number, member.cluster);
        self.reconsider();
        Some(number)
    }

    /// What is asked of a port.
    pub fn member(&self, port: PortNo) -> Option<&Member> {
        self.members.get(usize::from(port)).map(|(member, _)| member)
    }

    /// Asks something else of a port.
    pub fn set_member(&mut self, port: PortNo, member: Member) {
        if let Some((there, _)) = self.members.get_mut(usize::from(port)) {
            self.spans = self.spans - usize::from(there.span) + usize::from(member.span);
            *there = member;
            self.keep_cluster(port, member.cluster);
        }
        self.reconsider();
    }

    /// Stores the cluster of a port in the table too; a free place belongs to none.
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

    /// Decides anew which way frames go: after each change of what `checked` looks at.
    fn reconsider(&mut self) {
        self.checked = self.spans > 0
            || self.tags.is_some()
            || self.members.iter().any(|(member, _)| !matches!(member.cluster, 0 | places::NO_CLUSTER))
            || self.running != Running::Up
            || self.extras.iter().any(Extra::is_checked);
    }

    /// The table.
    pub fn fdb(&self) -> &Fdb {
        &self.fdb
    }

    /// The table, to be told.
    pub fn fdb_mut(&mut self) -> &mut Fdb {
        &mut self.fdb
    }

    /// What each port did, in their order.
    pub fn counts(&self) -> impl Iterator<Item = Counts> {
        self.members.iter().map(|(_, counts)| *counts)
    }

    /// Why frames ended here.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Adds up what came and what became of it.
    pub fn audit(&self) -> Audit {
        let mut audit = Audit { made: self.made, copied: self.copied, dropped: self.drops.total(), ..Audit::default() };
        for counts in self.counts().chain([self.gone]) {
            audit.received += counts.received;
            audit.given += counts.given;
            audit.local += counts.local;
        }
        audit
    }

    /// Takes all of `burst`, which came through `from`, and gives each frame to the bursts of the ports to which it goes: `out` has one for
    /// each port. What has no room there is dropped. Of a port that was not added nothing is taken.
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
            self.input_plain(from, member, burst, now, out);
        }
        if self.muting.is_some() {
            self.mute_port(now);
        }
    }

    /// Forgets what has aged, a part at a time; lets muted ports speak again; makes the querier's queries.
    pub fn poll(&mut self, now: Instant) {
        self.fdb.poll(now);
        self.unmute(now);
        self.poll_snoop(now);
    }
}
