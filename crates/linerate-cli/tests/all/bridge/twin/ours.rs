//! Our bridge in the comparison: a switch over pair ports, in virtual time.

use super::draw::Set;
use super::{Out, PORTS, Plan};
use bridge::{PortVlan, Stacked};
use buf::{Burst, Pool, PoolConfig};
use clock::{Clock, Instant, SimClock};
use node::switch::{Switch, SwitchConfig};
use port::{Caps, Port};
use std::time::Duration;
use wire::eth::EtherType;

pub struct Ours {
    switch: Switch,
    ends: Vec<Port>,
    pool: Pool,
    time: SimClock,
}

impl Ours {
    /// Creates the bridge. Ports are not muted in loops, and frames with two tags pass, as in the
    /// kernel.
    pub fn new(plan: Plan, sets: &[Set]) -> Ours {
        let mut config = SwitchConfig { loops: plan.lanes, ..SwitchConfig::default() };
        config.bridge.fdb.timeout = Duration::from_secs(plan.age_s);
        let time = SimClock::new();
        let switch = Switch::new(&config, Clock::sim(&time)).unwrap();
        let ends = (0..PORTS).map(|at| {
            let (ours, theirs) = port::pair::pair(&format!("p{at}"), 64, Caps::PLAIN);
            switch.attach(ours, None).unwrap();
            theirs
        });
        let ends = ends.collect();
        let filters = sets.iter().any(|set| !set.member.is_empty());
        switch.each_thread(|thread| {
            thread.bridge.set_mute(None);
            thread.bridge.set_vlan_filtering(filters.then_some(EtherType::VLAN));
            sets.iter().zip(0..).for_each(|(set, port)| thread.bridge.set_port_vlan(port, vlan(set)));
        });
        let pool = Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap();
        Ours { switch, ends, pool, time }
    }

    pub fn set_stacked(&self, stacked: Stacked) {
        self.switch.each_thread(|thread| {
            for port in 0..PORTS as u16 {
                let vlan = thread.bridge.port_vlan(port).unwrap().clone();
                thread.bridge.set_port_vlan(port, PortVlan { stacked, ..vlan });
            }
        });
    }

    pub fn pass(&mut self, from: usize, bytes: &[u8]) -> Out {
        let mut frame = self.pool.get().unwrap();
        frame.extend(bytes).unwrap();
        assert!(self.ends[from].tx.tx_one(frame, Instant::ZERO).is_ok());
        self.turn();
        self.ends.iter_mut().map(|end| received(end, |_| true)).collect()
    }

    /// Runs three rounds, since frames and learned addresses that cross from loop to loop arrive in
    /// the second.
    fn turn(&self) {
        (0..3).for_each(|_| self.switch.each_thread(|thread| _ = thread.turn()));
    }

    pub fn flush(&self) {
        self.switch.each_thread(|thread| _ = thread.bridge.fdb_mut().flush(|_| true, Instant::ZERO));
    }

    pub fn wait(&self, time: Duration) {
        self.time.advance(time);
        self.turn();
    }

    pub fn holds(&self) {
        let audit = self.switch.audit();
        assert!(audit.holds() && audit.held == 0 && audit.late == 0, "{audit:?}");
    }
}

fn vlan(set: &Set) -> PortVlan {
    PortVlan {
        pvid: set.pvid.unwrap_or(0),
        member: set.member.iter().map(|(vid, _)| *vid).collect(),
        untagged: set.member.iter().filter_map(|(vid, untagged)| untagged.then_some(*vid)).collect(),
        admit: set.admit,
        stacked: Stacked::Pass,
        ..PortVlan::default()
    }
}

/// Returns all frames at a port that `wanted` accepts, sorted.
pub fn received(port: &mut Port, wanted: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut burst = Burst::new();
    while port.rx.rx_burst(&mut burst, 32, Instant::ZERO) > 0 {
        all.extend(burst.drain().map(|frame| frame.bytes().to_vec()).filter(|bytes| wanted(bytes)));
    }
    all.sort();
    all
}
