//! A switch of a topology file. It is created with its ports, spanning tree and commands. It is
//! then stepped by the owner of the clock, or run in a thread, and ends with an audit.

use super::run::Until;
use super::{AddError, Switch, SwitchConfig};
use crate::config::SwitchFile;
use crate::control::{Commands, SwitchServer};
use crate::run::Outcome;
use bridge::{StpConfig, StpError};
use buf::{PoolConfig, PoolError};
use clock::{Clock, Instant};
use grammar::CommandError;
use port::spec::SpecError;
use port::{Pairs, Spec};
use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

/// Number of buffers in the pool of a switch of a topology file.
const BUFFERS: usize = 4096;

/// Reason why a switch of a file could not be created or run.
#[derive(Debug)]
pub struct NodeError {
    /// Name of the switch.
    pub name: String,
    /// Reason for the failure.
    pub why: Box<NodeFault>,
}

/// Reason of a [`NodeError`].
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeFault {
    /// The ports of the switch are inconsistent.
    Config(String),
    /// A port specification is not valid.
    Spec(SpecError),
    /// The pool could not be created.
    Pool(PoolError),
    /// A port could not be added.
    Port {
        /// Specification of the port.
        port: String,
        /// Reason for the failure.
        why: AddError,
    },
    /// The configuration of the spanning tree is not valid.
    Tree(StpError),
    /// A command failed.
    Command {
        /// The command.
        line: String,
        /// Reason for the failure.
        why: CommandError,
    },
    /// A thread could not be created, or polling failed.
    Run(io::Error),
}

impl NodeFault {
    fn at_switch(self, switch: &str) -> NodeError {
        NodeError { name: switch.to_owned(), why: Box::new(self) }
    }
}

impl fmt::Display for NodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeFault::Config(why) => f.write_str(why),
            NodeFault::Spec(why) => why.fmt(f),
            NodeFault::Pool(why) => why.fmt(f),
            NodeFault::Port { port, why } => f.write_str(&port::port_message(port, why)),
            NodeFault::Tree(why) => why.fmt(f),
            NodeFault::Command { line, why } => write!(f, "'{line}': {why}"),
            NodeFault::Run(why) => why.fmt(f),
        }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeError { name, why } = self;
        write!(f, "switch {name}: {why}")
    }
}

impl Error for NodeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &*self.why {
            NodeFault::Config(_) => None,
            NodeFault::Spec(why) => Some(why),
            NodeFault::Pool(why) => Some(why),
            NodeFault::Port { why, .. } => Some(why),
            NodeFault::Tree(why) => Some(why),
            NodeFault::Command { why, .. } => Some(why),
            NodeFault::Run(why) => Some(why),
        }
    }
}

/// Result of a step of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Number of frames received or sent.
    pub frames: u64,
    /// Time at which the next step is due.
    pub next: Instant,
}

impl Switch {
    /// Creates the switch of a file, whose commands are those of `C`. `pairs` connects its ports
    /// with other nodes. `seed` determines the hash key of the forwarding table, for repeatable
    /// runs.
    ///
    /// # Errors
    /// Returns a [`NodeError`].
    pub fn of_file<C: Commands>(
        file: &SwitchFile,
        pairs: &Arc<Pairs>,
        clock: Clock,
        seed: Option<u64>,
    ) -> Result<Switch, NodeError> {
        let switch = Switch::with_ports(file, pairs, clock, seed).map_err(|why| why.at_switch(&file.name))?;
        for line in &file.commands {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ran = C::bridge(&switch, &words, false);
            ran.map_err(|why| NodeFault::Command { line: line.clone(), why }.at_switch(&file.name))?;
        }
        Ok(switch)
    }

    /// Creates the switch of a file with its ports and its spanning tree.
    fn with_ports(file: &SwitchFile, pairs: &Arc<Pairs>, clock: Clock, seed: Option<u64>) -> Result<Switch, NodeFault> {
        file.check().map_err(NodeFault::Config)?;
        let specs = file.ports.iter().map(|port| Spec::parse(port)).collect::<Result<Vec<_>, _>>();
        let specs = specs.map_err(NodeFault::Spec)?;
        let mut config = SwitchConfig { name: file.name.clone(), mac: file.mac, ..SwitchConfig::default() };
        let stride = port::stride_for(&specs);
        config.pool = PoolConfig { buffers: BUFFERS, stride, ..PoolConfig::default() };
        port::fit_pool(&mut config.pool, &specs);
        if let Some(seed) = seed {
            config.bridge.fdb.key = wire::hash::Key::seeded(seed);
        }
        let switch = Switch::among(&config, clock, pairs.clone()).map_err(NodeFault::Pool)?;
        for spec in &specs {
            switch.add(spec, None).map_err(|why| NodeFault::Port { port: spec.to_string(), why })?;
        }
        if file.stp.is_some() || file.priority.is_some() {
            let default = StpConfig::default();
            let version = file.stp.unwrap_or(default.version);
            let priority = file.priority.unwrap_or(default.priority);
            switch.start_tree(StpConfig { version, priority, ..default }).map_err(NodeFault::Tree)?;
        }
        // The ports join the tree only after the priority is set. If a bridge first announced a
        // better priority as the root, the other bridges would use that information until it
        // expired.
        switch.join_rest().map_err(NodeFault::Tree)?;
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
        control: Option<&mut SwitchServer>,
        stop: impl Fn() -> bool + Sync,
    ) -> Result<Outcome, NodeError> {
        let ran = self.run(control, Until::Stopped, stop);
        ran.map_err(|why| NodeFault::Run(why).at_switch(&self.name))?;
        Ok(self.outcome())
    }

    /// Drops frames that wait to be sent, and returns the outcome with the final audit.
    pub fn outcome(&self) -> Outcome {
        self.each_thread(|thread| thread.give_up());
        let audit = self.audit();
        Outcome {
            name: self.name.clone(),
            audit: format!("{}\n{}", self.name, self.audit_text(&audit)),
            imbalance: audit.imbalance(),
            lost_ports: false,
        }
    }
}
