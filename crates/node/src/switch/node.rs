//! A switch of a topology file. It is created with its ports, spanning tree and commands. It is
//! then stepped by the owner of the clock, or run in a thread, and ends with an audit.

use super::run::Until;
use super::{Audit, Switch, SwitchConfig, commands};
use crate::config::SwitchFile;
use crate::control::Server;
use crate::run::Outcome;
use buf::PoolConfig;
use clock::{Clock, Instant};
use port::{Pairs, Spec};
use std::fmt;
use std::sync::Arc;

/// Number of buffers in the pool of a switch of a topology file.
const BUFFERS: usize = 4096;

/// Reason why a switch of a file could not be created.
#[derive(Debug)]
pub struct NodeError {
    /// Name of the switch.
    pub name: String,
    /// Reason for the failure.
    pub why: String,
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeError { name, why } = self;
        write!(f, "switch {name}: {why}")
    }
}

impl std::error::Error for NodeError {}

/// Result of a step of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Number of frames received or sent.
    pub frames: u64,
    /// Time at which the next step is due.
    pub next: Instant,
}

impl Switch {
    /// Creates the switch of a file. `pairs` connects its ports with other nodes. `seed` determines
    /// the hash key of the forwarding table, for repeatable runs.
    ///
    /// # Errors
    /// Returns a [`NodeError`].
    pub fn of_file(
        file: &SwitchFile,
        pairs: &Arc<Pairs>,
        clock: Clock,
        seed: Option<u64>,
    ) -> Result<Switch, NodeError> {
        let failed = |why: String| NodeError { name: file.name.clone(), why };
        file.check().map_err(|why| failed(why.clone()))?;
        let specs = file.ports.iter().map(|port| Spec::parse(port)).collect::<Result<Vec<_>, _>>();
        let specs = specs.map_err(|why| failed(why.to_string()))?;
        let mut config = SwitchConfig { name: file.name.clone(), mac: file.mac, ..SwitchConfig::default() };
        let stride = port::stride_for(&specs);
        config.pool = PoolConfig { buffers: BUFFERS, stride, ..PoolConfig::default() };
        port::fit_pool(&mut config.pool, &specs);
        if let Some(seed) = seed {
            config.bridge.fdb.key = wire::hash::Key::seeded(seed);
        }
        let switch = Switch::among(&config, clock, pairs.clone()).map_err(|why| failed(why.to_string()))?;
        for spec in &specs {
            switch.add(spec, None).map_err(|why| failed(port::port_message(&spec.to_string(), &why)))?;
        }
        let say = |line: &str| {
            let said: Vec<&str> = line.split_whitespace().collect();
            commands::run(&switch, &said, false).map_err(|why| failed(format!("'{line}': {why}")))
        };
        if let Some(proto) = &file.stp {
            say(&format!("ifconfig {} proto {proto}", file.name))?;
        }
        if let Some(priority) = file.priority {
            say(&format!("ifconfig {} priority {priority}", file.name))?;
        }
        // The ports join the tree only after the priority is set. If a bridge first announced a
        // better priority as the root, the other bridges would use that information until it
        // expired.
        commands::span_rest(&switch).map_err(|why| failed(why.to_string()))?;
        file.commands.iter().try_for_each(|line| say(line).map(drop))?;
        Ok(switch)
    }

    /// Runs one turn of each loop and of the spanning tree, for a caller that steps many nodes on
    /// one clock.
    pub fn step(&self) -> Step {
        let before = self.moved();
        let mut next = self.tend();
        self.each_thread(|thread| {
            thread.turn();
            next = next.min(thread.next_event().unwrap_or(Instant::NEVER));
        });
        // BPDUs received in this turn are processed at the same instant.
        next = next.min(self.tend());
        Step { frames: self.moved() - before, next }
    }

    /// Returns the number of frames received and sent so far.
    fn moved(&self) -> u64 {
        let mut moved = 0;
        self.each_thread(|thread| moved += thread.bridge.audit().received + thread.total().sent);
        moved
    }

    /// Runs the switch until it is stopped, and returns the outcome.
    ///
    /// # Errors
    /// Returns a [`NodeError`].
    pub fn run_as_node(
        &self,
        control: Option<&mut Server>,
        stop: impl Fn() -> bool + Sync,
    ) -> Result<Outcome, NodeError> {
        let ran = self.run(control, Until::Stopped, stop);
        ran.map_err(|why| NodeError { name: self.name.clone(), why: why.to_string() })?;
        Ok(self.outcome())
    }

    /// Drops frames that wait to be sent, and returns the outcome with the final audit.
    pub fn outcome(&self) -> Outcome {
        self.each_thread(|thread| thread.give_up());
        let audit = self.audit();
        let text = commands::run(self, &["audit"], false).unwrap_or_default();
        Outcome {
            name: self.name.clone(),
            audit: format!("{}\n{text}", self.name),
            imbalance: audit.imbalance(),
            lost_ports: false,
        }
    }
}

impl Audit {
    /// Returns the numbers of frames that are (unaccounted for in the bridge, unaccounted for
    /// between the bridge and its ports, not sent yet).
    pub fn imbalance(&self) -> [i64; 3] {
        let bridge = &self.bridge;
        let less = |a: u64, b: u64| a as i64 - b as i64;
        [
            less(bridge.received + bridge.made + bridge.copied, bridge.given + bridge.dropped + bridge.local),
            less(bridge.given, self.sent + self.failed + self.full + self.late + self.held),
            self.held as i64,
        ]
    }
}
