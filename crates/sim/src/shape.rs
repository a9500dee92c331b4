//! A world from the file that `linerate up` runs: the same hosts and switches, pairs as links, time that is virtual.
//!
//! Chance follows from the world's seed: each `impair` without a seed of its own, and each host without one, gets one drawn
//! from it. What a port would need the real world for (a TAP, a file of frames, a card's threads) cannot be had here. Services that
//! are programs run in [`WithPrograms`](crate::programs::WithPrograms). What of a file does not run is in [`World::remarks`].

use crate::{HostId, World};
use clock::Clock;
use lock::Up;
use node::Host;
use node::config::{self, ConfigError, HostConfig, IfaceConfig, Network, OnOneThread, ServiceConfig, SwitchFile};
use node::run::{BuildError, build};
use node::service::Service;
use node::switch::Switch;
use node::switch::node::NodeError;
use port::spec::{Kind, Spec};
use socket::Errno;
use wire::Mac;

/// Why a file is no world.
#[derive(Debug, thiserror::Error)]
pub enum ShapeError {
    /// What the file says.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A port that virtual time does not have.
    #[error("{host}: {port}: {why}")]
    Port {
        /// Whose: `host a`, `switch s1`.
        host: String,
        /// The port.
        port: String,
        /// Why not, and what there is.
        why: String,
    },
    /// A host could not be made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A switch could not be made.
    #[error(transparent)]
    Switch(#[from] NodeError),
    /// A service has no socket.
    #[error("host {host}: {what}: {why}")]
    Service {
        /// Whose.
        host: String,
        /// Which.
        what: String,
        /// Why.
        why: Errno,
    },
}

/// A world as the text of a file of `[[host]]` and `[[switch]]` tables says; `file` is its name in messages. What is random follows from `seed`.
///
/// # Errors
/// [`ShapeError`].
pub fn from_toml(text: &str, file: &str, seed: u64) -> Result<World, ShapeError> {
    from_network(&config::read_network(text, file)?, seed)
}

/// The same from a file that was read already.
///
/// # Errors
/// [`ShapeError`].
pub fn from_network(network: &Network, seed: u64) -> Result<World, ShapeError> {
    let mut world = from_hosts(&network.hosts, seed)?;
    network.switches.iter().try_for_each(|switch| world.add_switch(switch))?;
    Ok(world)
}

/// The same from hosts alone.
///
/// # Errors
/// [`ShapeError`].
pub fn from_hosts(configs: &[HostConfig], seed: u64) -> Result<World, ShapeError> {
    let mut world = World::new(seed);
    for config in configs {
        world.add_configured(config)?;
    }
    Ok(world)
}

/// Places of switches, for what is drawn for them: behind those of all hosts that a file can have.
const HOSTS_BEFORE_SWITCHES: usize = 1 << 16;

/// A service in a sentence.
fn what(service: &ServiceConfig) -> String {
    format!("{} on port {}", service.kind, service.port.0)
}

impl World {
    /// What of the hosts that were added from files does not run here, or runs otherwise: a sentence each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Adds a host as `config` says, with its services of datagrams, [on one thread](HostConfig::on_one_thread).
    ///
    /// # Errors
    /// [`ShapeError`].
    pub fn add_configured(&mut self, config: &HostConfig) -> Result<HostId, ShapeError> {
        let ifaces = config.ifaces.iter().zip(0..);
        let ifaces = ifaces.map(|(iface, at)| self.iface_on_virtual_time(&config.name, iface, at));
        let OnOneThread { config: single, remark } = config.on_one_thread();
        let config = HostConfig {
            ifaces: ifaces.collect::<Result<_, _>>()?,
            seed: Some(config.seed.unwrap_or_else(|| self.draw(self.hosts.len(), usize::MAX))),
            ..single
        };
        let host: Host<Up> = build(&config, &self.pairs, Clock::sim(&self.clock))?;
        let calls = host.shared_calls();
        let (of_datagrams, programs): (Vec<_>, Vec<_>) =
            config.services.iter().copied().partition(|service| service.kind.is_datagrams());
        let opened = of_datagrams.into_iter().map(|service| {
            let what = what(&service);
            Service::open(&calls, service).map_err(|why| ShapeError::Service { host: config.name.clone(), what, why })
        });
        let services = opened.collect::<Result<Vec<_>, _>>()?;
        self.remarks.extend(remark);
        self.hosts.push(host);
        self.services.resize_with(self.hosts.len(), Vec::new);
        if let Some(place) = self.services.last_mut() {
            *place = services;
        }
        self.programs.resize_with(self.hosts.len(), Vec::new);
        if let Some(place) = self.programs.last_mut() {
            *place = programs;
        }
        Ok(HostId(self.hosts.len() - 1))
    }

    /// Adds a switch as `file` says. Its address, if it has none, and its table's key follow from the world's seed.
    ///
    /// # Errors
    /// [`ShapeError`].
    pub fn add_switch(&mut self, file: &SwitchFile) -> Result<(), ShapeError> {
        let place = HOSTS_BEFORE_SWITCHES + self.switches.len();
        let whose = format!("switch {}", file.name);
        let ports = file.ports.iter().zip(0..).map(|(port, at)| self.on_virtual_time(&whose, port, place, at));
        let ports = ports.collect::<Result<_, _>>()?;
        let seed = self.draw(place, usize::MAX);
        let [.., a, b, c, d] = seed.to_be_bytes();
        let mac = file.mac.unwrap_or(Mac([0x02, 0xb0, a, b, c, d]));
        let file = SwitchFile { ports, mac: Some(mac), ..file.clone() };
        self.switches.push(Switch::of_file(&file, &self.pairs, Clock::sim(&self.clock), Some(seed))?);
        Ok(())
    }

    /// The host called so.
    pub fn host_named(&self, name: &str) -> Option<HostId> {
        self.hosts.iter().position(|host| host.stack.name == name).map(HostId)
    }

    /// A number for one iface of one host: other ones for other seeds.
    fn draw(&self, host: usize, iface: usize) -> u64 {
        let mixed = [host as u64, iface as u64]
            .iter()
            .fold(self.seed, |seed, n| (seed ^ n.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
        mixed & 0xffff_ffff
    }

    fn iface_on_virtual_time(&self, host: &str, iface: &IfaceConfig, at: usize) -> Result<IfaceConfig, ShapeError> {
        if iface.tunnel.is_some() {
            return Ok(iface.clone());
        }
        let port = self.on_virtual_time(&format!("host {host}"), &iface.port, self.hosts.len(), at)?;
        Ok(IfaceConfig { port, ..iface.clone() })
    }

    /// The port with a seed in each `impair`, if it can be had here; `place` and `at`: the node's, and the port's among its.
    fn on_virtual_time(&self, whose: &str, port: &str, place: usize, at: usize) -> Result<String, ShapeError> {
        let fault = |why: String| ShapeError::Port { host: whose.to_owned(), port: port.to_owned(), why };
        let mut spec = Spec::parse(port).map_err(|why| fault(why.to_string()))?;
        let floods = |spec: &Spec| spec.port.switch("source") && spec.port.count("rate") == 0;
        match spec.port.kind {
            Kind::Pair | Kind::Null => {}
            Kind::Pktgen if !floods(&spec) => {}
            Kind::Pktgen => {
                return Err(fault(
                    "without a rate it makes frames and no time passes; give it one, as rate=1k".to_owned(),
                ));
            }
            kind => {
                return Err(fault(format!("there is no {kind} on virtual time; there are pair, null and pktgen")));
            }
        }
        let seed = self.draw(place, at).to_string();
        for wrapper in spec.wrappers.iter_mut().filter(|layer| layer.kind == Kind::Impair && !layer.is_set("seed")) {
            wrapper.set("seed", &seed).map_err(|why| fault(why.to_string()))?;
        }
        Ok(spec.to_string())
    }
}
