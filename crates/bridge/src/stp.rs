//! Rapid Spanning Tree Protocol (IEEE 802.1D-2004 clause 17): decides which ports forward, so that
//! frames never loop.
//!
//! ```text
//! on_bpdu      a BPDU from a port: guards, limits, checks (9.3.4);  set_link, add_port, ...
//! poll         advances the timers by seconds (17.22)
//!   settle     runs the port's machines (figures 17-13 to 17-25) until none changes state
//!   run        if other ports are affected: role selection, and the machines of all ports
//! next_effect  returns a port state, a flush of addresses, or a BPDU to send
//! ```
//!
//! [`Stp`] does no I/O and reads no clock. The owner of the ports passes in BPDUs and the time.
//! After each call, the owner must carry out the effects that [`Stp::next_effect`] returns before
//! it forwards the next frame. A port for which no [`Effect::State`] has been returned yet is
//! discarding.
//!
//! Invariants: once all bridges have exchanged BPDUs, one tree spans the network. There are no
//! loops while a network comes up: a port forwards only after its neighbor has agreed (on
//! point-to-point links between RSTP bridges), or after the forward delays. When a root fails, its
//! information may circulate until its age reaches max age ("count to infinity"), and a loop may
//! exist for seconds. The file `differences.md` of this crate states how often loops occur in
//! tests, and lists the differences from the standard.

mod config;
mod effect;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod machines;
mod port;
mod procedures;
mod selection;
mod show;
#[cfg(test)]
mod tests;
mod tree;
mod vector;

pub use config::{Duplex, Link, MAX_PATH_COST, PointToPoint, StpConfig, StpError, StpPort, StpVersion, path_cost};
pub use effect::{Effect, MAX_UNSENT};
pub use port::{PortRole, StpCounts};
pub use show::{Guarded, StpPortView, StpView};
pub use vector::{PriorityVector, Times};

use crate::{MAX_PORTS, PortNo};
use clock::{Duration, Instant};
use port::{Port, RcvdInfo};
use std::collections::BTreeMap;
use std::mem;
use tree::{Tree, TreeRequests};
use wire::bpdu::Bpdu;

/// Resolution of the port timers (IEEE 802.1D-2004 17.22).
const TICK: Duration = Duration::from_secs(1);
/// Maximum number of BPDUs processed per second, over all ports.
const RX_LIMIT: u32 = 4096;

/// Spanning tree state of a bridge.
#[derive(Debug)]
pub struct Stp {
    tree: Tree,
    ports: BTreeMap<PortNo, Port>,
    next_tick: Instant,
    rcvd: u32,
    reselect: bool,
    changing: bool,
    changes: u64,
    changed_at: Option<Instant>,
    unsettled: u64,
}

impl Stp {
    /// Returns a bridge without ports. It is its own root.
    ///
    /// # Errors
    /// Returns an error if a value is out of range (802.1D table 17-1), or if the times violate
    /// 17.14.
    pub fn new(config: StpConfig, now: Instant) -> Result<Stp, StpError> {
        config.check()?;
        Ok(Stp {
            tree: Tree::new(config),
            ports: BTreeMap::new(),
            next_tick: now.after(TICK),
            rcvd: 0,
            reselect: false,
            changing: false,
            changes: 0,
            changed_at: None,
            unsettled: 0,
        })
    }

    /// Adds a port whose link is down.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid, the port exists already, or its number is too high
    /// for a bridge.
    pub fn add_port(&mut self, no: PortNo, requested: StpPort, now: Instant) -> Result<(), StpError> {
        requested.check()?;
        if usize::from(no) >= MAX_PORTS {
            return Err(StpError::TooManyPorts);
        }
        if self.ports.contains_key(&no) {
            return Err(StpError::Exists(no));
        }
        self.advance(now);
        let mut port = Port::new(no, requested);
        port.designated_times = self.tree.root_times;
        machines::begin(&mut port, &mut self.tree);
        self.ports.insert(no, port);
        self.run(now);
        Ok(())
    }

    /// Removes a port. No further effects are returned for it.
    pub fn remove_port(&mut self, no: PortNo, now: Instant) {
        self.advance(now);
        if self.ports.remove(&no).is_some() {
            self.tree.out.forget(no);
            self.reselect = true;
            self.run(now);
        }
    }

    /// Changes the settings of a port.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid or the port does not exist.
    pub fn set_port(&mut self, no: PortNo, requested: StpPort, now: Instant) -> Result<(), StpError> {
        requested.check()?;
        self.advance(now);
        let p = self.ports.get_mut(&no).ok_or(StpError::NoPort(no))?;
        p.requested = requested;
        p.silent &= requested.loop_guard;
        p.update_link();
        self.reselect = true;
        self.run(now);
        Ok(())
    }

    /// Sets the link state of a port. A port disabled by BPDU guard stays disabled when its link
    /// comes up.
    pub fn set_link(&mut self, no: PortNo, link: Link, now: Instant) {
        self.advance(now);
        let Some(p) = self.ports.get_mut(&no) else { return };
        if mem::replace(&mut p.link, link) == link {
            return;
        }
        p.update_link();
        self.reselect = true;
        self.run(now);
    }

    /// Enables a port that BPDU guard disabled.
    pub fn reenable(&mut self, no: PortNo, now: Instant) {
        self.advance(now);
        let Some(p) = self.ports.get_mut(&no) else { return };
        if p.guarded.take().is_some() {
            p.update_link();
            self.run(now);
        }
    }

    /// Sends RSTP BPDUs on a port again, until the neighbor turns out not to support RSTP (mcheck,
    /// 802.1D 17.19.13).
    pub fn migrate(&mut self, no: PortNo, now: Instant) {
        self.advance(now);
        let rstp = self.tree.rstp_version();
        let Some(p) = self.ports.get_mut(&no) else { return };
        p.mcheck = rstp;
        self.run(now);
    }

    /// Changes the priority of the bridge, which may change the root (802.1D 14.8.1.2). Ports that
    /// forward because a neighbor agreed return to discarding until the neighbor agrees again,
    /// because it agreed to the earlier information (see `differences.md`).
    ///
    /// # Errors
    /// Returns an error if `priority` is not a multiple of 4096.
    pub fn set_priority(&mut self, priority: u16, now: Instant) -> Result<(), StpError> {
        config::check_priority(priority)?;
        self.advance(now);
        if mem::replace(&mut self.tree.config.priority, priority) == priority {
            return Ok(());
        }
        self.ports.values_mut().for_each(Port::retract);
        self.reselect = true;
        self.run(now);
        Ok(())
    }

    /// Processes a BPDU received on a port. `bytes` is either a whole frame to 01-80-C2-00-00-00,
    /// or begins with the LLC header.
    pub fn on_bpdu(&mut self, no: PortNo, bytes: &[u8], now: Instant) {
        self.advance(now);
        let Some(p) = self.ports.get_mut(&no) else { return };
        if p.requested.bpdu_filter {
            p.counts.filtered += 1;
        } else if !p.port_enabled {
            p.counts.while_down += 1;
        } else if p.requested.bpdu_guard {
            self.guard(no, now);
        } else {
            let parsed =
                if bytes.starts_with(&wire::bpdu::LLC) { Bpdu::parse_llc(bytes) } else { Bpdu::parse_frame(bytes) };
            match parsed {
                Ok(bpdu) => self.accept(no, bpdu, now),
                Err(_) => p.counts.bad += 1,
            }
        }
    }

    /// Applies BPDU guard: any frame to the bridge group address disables the port.
    fn guard(&mut self, no: PortNo, now: Instant) {
        let Some(p) = self.ports.get_mut(&no) else { return };
        p.counts.guarded += 1;
        p.guarded = Some(p.requested.guard_recovery.map_or(Instant::NEVER, |time| now.after(time)));
        p.update_link();
        self.run(now);
    }

    /// Counts a BPDU, and processes it if it passes the checks of 802.1D 9.3.4.
    fn accept(&mut self, no: PortNo, bpdu: Bpdu, now: Instant) {
        let own_id = self.tree.bridge_id();
        let Some(p) = self.ports.get_mut(&no) else { return };
        *match bpdu {
            Bpdu::Config(_) => &mut p.counts.config_in,
            Bpdu::Tcn => &mut p.counts.tcn_in,
            Bpdu::Rst(_) => &mut p.counts.rst_in,
        } += 1;
        if let Some(config) = bpdu.config() {
            let old = config.message_age >= config.max_age;
            p.counts.old += u64::from(old);
            if old && matches!(bpdu, Bpdu::Config(_)) {
                return;
            }
            if config.bridge.address() == own_id.address() && config.port.number() == p.port_id.number() {
                // The port received its own BPDU, so the link is looped, and data frames would loop
                // too.
                p.counts.own += 1;
                (p.disputed, p.oper_edge, p.edge_delay_while) = (true, false, port::MIGRATE_TIME);
                return self.work(no, now);
            }
        }
        p.silent = false;
        p.rcvd += 1;
        self.rcvd += 1;
        if p.rcvd > self.tree.config.rx_limit || self.rcvd > RX_LIMIT {
            p.counts.limited += 1;
            return self.refresh(no, &bpdu);
        }
        p.msg = Some(bpdu);
        p.rcvd_bpdu = true;
        self.work(no, now);
    }

    /// Handles a BPDU over the rate limit. It can only refresh known information. This prevents the
    /// information from expiring during a flood of BPDUs.
    fn refresh(&mut self, no: PortNo, bpdu: &Bpdu) {
        let Some(p) = self.ports.get_mut(&no) else { return };
        let before = p.msg.replace(*bpdu);
        if p.info_is == port::InfoIs::Received && procedures::rcv_info(p) == RcvdInfo::RepeatedDesignated {
            procedures::updt_rcvd_info_while(p);
        }
        p.msg = before;
        p.rcvd_tcn = false;
    }

    /// Advances the timers. Returns the time of the next call; `None` if no timer runs because all
    /// links are down.
    pub fn poll(&mut self, now: Instant) -> Option<Instant> {
        self.advance(now);
        let waits =
            |p: &Port| p.port_enabled || p.guarded.is_some_and(|till| till != Instant::NEVER) || p.age_while > 0;
        self.ports.values().any(waits).then_some(self.next_tick)
    }

    /// Returns the next effect to carry out. Port states come first, BPDUs last.
    pub fn next_effect(&mut self) -> Option<Effect> {
        if let Some(no) = self.tree.out.next_state() {
            return Some(Effect::State(no, self.state(no)));
        }
        if let Some(no) = self.tree.out.next_flush() {
            return Some(Effect::Flush(no));
        }
        if let Some(no) = self.tree.out.next_ageing() {
            let left = self.ports.get(&no).map_or(0, |p| p.age_while);
            return Some(Effect::Ageing(no, (left > 0).then(|| Duration::from_secs(left.into()))));
        }
        self.tree.out.next_bpdu().map(|(no, bpdu)| Effect::Transmit(no, bpdu))
    }

    /// Advances the timers by the seconds that have passed since the last call (802.1D 17.22).
    fn advance(&mut self, now: Instant) {
        if now < self.next_tick {
            return;
        }
        let seconds = now.since(self.next_tick).as_secs() + 1;
        self.next_tick = self.next_tick.after(Duration::from_secs(seconds));
        self.rcvd = 0;
        for p in self.ports.values_mut() {
            let aged = p.age_while > 0;
            p.tick(seconds.min(u64::from(u16::MAX)) as u16);
            if aged && p.age_while == 0 {
                self.tree.out.ageing(p.no);
            }
            if p.guarded.is_some_and(|till| till <= now) {
                p.guarded = None;
                p.update_link();
            }
        }
        self.run(now);
    }

    /// Runs the state machines after an event at one port. Usually the other ports are not
    /// affected.
    fn work(&mut self, no: PortNo, now: Instant) {
        match self.update(no) {
            true => self.run(now),
            false => {
                self.note_held();
                if let Some(p) = self.ports.get_mut(&no) {
                    machines::transmit(p, &mut self.tree);
                }
            }
        }
    }

    /// Runs the state machines of one port until none changes state. Returns whether other ports
    /// are affected.
    fn update(&mut self, no: PortNo) -> bool {
        let mut touched = false;
        for _ in 0..machines::MOST_ROUNDS {
            let Some(p) = self.ports.get_mut(&no) else { return touched };
            let before = (p.is_synced(), p.rr_while != 0);
            let moved = machines::step(p, &mut self.tree);
            let after = (p.is_synced(), p.rr_while != 0);
            self.reselect |= p.reselect;
            let requested = mem::take(&mut self.tree.requested);
            self.tree.unsynced = self.tree.unsynced + usize::from(before.0) - usize::from(after.0);
            self.tree.re_rooting = self.tree.re_rooting + usize::from(after.1) - usize::from(before.1);
            self.notify_all(requested);
            touched |= before != after || requested != TreeRequests::default() || self.reselect;
            if !moved {
                return touched;
            }
        }
        self.unsettled += 1;
        touched
    }

    /// Applies requests from one port's machines to all ports: setSyncTree, setReRootTree and
    /// setTcPropTree (802.1D 17.21.14, 17.21.15, 17.21.18).
    fn notify_all(&mut self, requested: TreeRequests) {
        if requested == TreeRequests::default() {
            return;
        }
        for p in self.ports.values_mut() {
            p.sync |= requested.sync;
            p.re_root |= requested.re_root;
            p.tc_prop |= requested.tc_prop.is_some_and(|no| no != p.no);
            p.new_info |= requested.relay && p.role == PortRole::Designated && p.port_enabled && !p.send_rstp;
        }
    }

    /// Runs all state machines until none changes state, then transmits.
    fn run(&mut self, now: Instant) {
        let numbers: Vec<PortNo> = self.ports.keys().copied().collect();
        let mut rounds = 0;
        loop {
            if self.reselect {
                selection::role_selection(&mut self.ports, &mut self.tree);
                self.reselect = false;
            }
            self.tree.unsynced = self.ports.values().filter(|p| !p.is_synced()).count();
            self.tree.re_rooting = self.ports.values().filter(|p| p.rr_while != 0).count();
            let mut touched = false;
            for no in &numbers {
                touched |= self.update(*no);
            }
            rounds += 1;
            if !touched {
                break;
            }
            if rounds > machines::MOST_ROUNDS {
                self.unsettled += 1;
                break;
            }
        }
        self.note_held();
        for p in self.ports.values_mut() {
            machines::transmit(p, &mut self.tree);
        }
        self.note_changes(now);
    }

    /// Stores the age of the root port's information, which the STP BPDUs of all ports include.
    fn note_held(&mut self) {
        let root = self.tree.root_port.and_then(|no| self.ports.get(&no));
        self.tree.held = root.map_or(0, |p| p.held);
    }

    /// Updates Topology Change Count and Time Since Topology Change (802.1D 14.8.1.1.3).
    fn note_changes(&mut self, now: Instant) {
        let changing = self.ports.values().any(|p| p.tc_while != 0);
        self.changes += u64::from(changing && !self.changing);
        self.changing = changing;
        if changing {
            self.changed_at = Some(now);
        }
    }
}
