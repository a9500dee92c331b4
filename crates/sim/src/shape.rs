//! Builds a world from a file that `linerate up` can also run: the same hosts and switches, with
//! `pair` ports as links, on virtual time.
//!
//! Random values are derived from the world's seed: each `impair` wrapper and each host without a
//! configured seed gets a seed from it. Ports that need a real device, a file of frames or threads
//! of a card are not available on virtual time. TCP services run in
//! [`WithPrograms`](crate::programs::WithPrograms). [`World::warnings`] lists the parts of a file
//! that are not simulated.

use crate::{HostId, World};
use clock::Clock;
#[cfg(feature = "commands")]
use commands::All as Commands;
use lock::Up;
use node::Host;
use node::config::{ConfigError, HostConfig, IfaceConfig, Network, OnOneThread, ServiceConfig, SwitchFile};
#[cfg(not(feature = "commands"))]
use node::control::NoCommands as Commands;
use node::run::{BuildError, build};
use node::service::Service;
use node::switch::Switch;
use node::switch::node::NodeError;
use port::spec::{Kind, Spec};
use socket::Errno;
use std::fmt;
use std::rc::Rc;
use wire::Mac;

/// Reason why a file cannot be simulated.
#[derive(Debug)]
pub enum ShapeError {
    /// Error in the file.
    Config(ConfigError),
    /// A port that is not available in virtual time.
    Port {
        /// Host or switch that has the port: `host a`, `switch s1`.
        host: String,
        /// Specification of the port.
        port: String,
        /// Reason, and the kinds of ports that are available.
        why: String,
    },
    /// A host could not be built.
    Build(BuildError),
    /// A switch could not be built.
    Switch(NodeError),
    /// The socket of a service could not be opened.
    Service {
        /// Name of the host that has the service.
        host: String,
        /// Kind and port of the service.
        what: String,
        /// Error returned by the socket call.
        why: Errno,
    },
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeError::Config(error) => error.fmt(f),
            ShapeError::Port { host, port, why } => write!(f, "{host}: {port}: {why}"),
            ShapeError::Build(error) => error.fmt(f),
            ShapeError::Switch(error) => error.fmt(f),
            ShapeError::Service { host, what, why } => write!(f, "host {host}: {what}: {why}"),
        }
    }
}

impl std::error::Error for ShapeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ShapeError::Config(error) => error.source(),
            ShapeError::Build(error) => error.source(),
            ShapeError::Switch(error) => error.source(),
            _ => None,
        }
    }
}

impl From<ConfigError> for ShapeError {
    fn from(error: ConfigError) -> ShapeError {
        ShapeError::Config(error)
    }
}

impl From<BuildError> for ShapeError {
    fn from(error: BuildError) -> ShapeError {
        ShapeError::Build(error)
    }
}

impl From<NodeError> for ShapeError {
    fn from(error: NodeError) -> ShapeError {
        ShapeError::Switch(error)
    }
}

#[cfg(feature = "files")]
/// Builds a world from `text`, a file with `[[host]]` and `[[switch]]` tables. `file` is the name
/// of the file in error messages. Random values are derived from `seed`.
///
/// # Errors
/// Returns a [`ShapeError`].
pub fn from_toml(text: &str, file: &str, seed: u64) -> Result<World, ShapeError> {
    from_network(&node::config::read_network(text, file)?, seed)
}

/// Builds a world from a file that has already been parsed.
///
/// # Errors
/// Returns a [`ShapeError`].
pub fn from_network(network: &Network, seed: u64) -> Result<World, ShapeError> {
    let mut world = from_hosts(&network.hosts, seed)?;
    network.switches.iter().try_for_each(|switch| world.add_switch(switch))?;
    Ok(world)
}

/// Builds a world from hosts alone.
///
/// # Errors
/// Returns a [`ShapeError`].
pub fn from_hosts(configs: &[HostConfig], seed: u64) -> Result<World, ShapeError> {
    let mut world = World::new(seed);
    for config in configs {
        world.add_configured(config)?;
    }
    Ok(world)
}

/// Index of the first switch when seeds are derived. The indices of the hosts of a file are lower.
const HOSTS_BEFORE_SWITCHES: usize = 1 << 16;

/// Formats kind and port of a service, for error messages.
fn what(service: &ServiceConfig) -> String {
    format!("{} on port {}", service.kind, service.port.0)
}

impl World {
    /// Returns one warning, a sentence, per part of the hosts' configuration that is not simulated
    /// or behaves differently.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Adds a host with the configuration `config` and its datagram services. The host runs [on one
    /// thread](HostConfig::on_one_thread).
    ///
    /// # Errors
    /// Returns a [`ShapeError`].
    pub fn add_configured(&mut self, config: &HostConfig) -> Result<HostId, ShapeError> {
        let ifaces = config.ifaces.iter().zip(0..);
        let ifaces = ifaces.map(|(iface, at)| self.iface_on_virtual_time(&config.name, iface, at));
        let OnOneThread { config: single, warning } = config.on_one_thread();
        let config = HostConfig {
            ifaces: ifaces.collect::<Result<_, _>>()?,
            seed: Some(config.seed.unwrap_or_else(|| self.draw(self.hosts.len(), usize::MAX))),
            ..single
        };
        let host: Rc<Host<Up>> = Rc::new(build(&config, &self.pairs, Clock::sim(&self.clock))?);
        let calls = host.shared_calls();
        let (of_datagrams, programs): (Vec<_>, Vec<_>) =
            config.services.iter().copied().partition(|service| service.kind.is_datagrams());
        let opened = of_datagrams.into_iter().map(|service| {
            let what = what(&service);
            Service::open(&calls, service).map_err(|why| ShapeError::Service { host: config.name.clone(), what, why })
        });
        let services = opened.collect::<Result<Vec<_>, _>>()?;
        self.warnings.extend(warning);
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

    /// Adds a switch with the configuration `file`. The hash key of its forwarding table is derived
    /// from the world's seed, and so is its MAC address unless `file` sets one.
    ///
    /// # Errors
    /// Returns a [`ShapeError`].
    pub fn add_switch(&mut self, file: &SwitchFile) -> Result<(), ShapeError> {
        let place = HOSTS_BEFORE_SWITCHES + self.switches.len();
        let whose = format!("switch {}", file.name);
        let ports = file.ports.iter().zip(0..).map(|(port, at)| self.on_virtual_time(&whose, port, place, at));
        let ports = ports.collect::<Result<_, _>>()?;
        let seed = self.draw(place, usize::MAX);
        let [.., a, b, c, d] = seed.to_be_bytes();
        let mac = file.mac.unwrap_or(Mac([0x02, 0xb0, a, b, c, d]));
        let file = SwitchFile { ports, mac: Some(mac), ..file.clone() };
        self.switches.push(Switch::of_file::<Commands>(&file, &self.pairs, Clock::sim(&self.clock), Some(seed))?);
        Ok(())
    }

    /// Returns the host called `name`.
    pub fn host_named(&self, name: &str) -> Option<HostId> {
        self.hosts.iter().position(|host| host.stack.name == name).map(HostId)
    }

    /// Returns a seed, derived from the world's seed, for an iface of a host.
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

    /// Returns the port specification with a seed in each `impair`, or an error if the port is not
    /// available on virtual time. `place` is the index of the node, and `at` the index of the port
    /// within the node.
    fn on_virtual_time(&self, whose: &str, port: &str, place: usize, at: usize) -> Result<String, ShapeError> {
        let fault = |why: String| ShapeError::Port { host: whose.to_owned(), port: port.to_owned(), why };
        let mut spec = Spec::parse(port).map_err(|why| fault(why.to_string()))?;
        let floods = |spec: &Spec| spec.port.switch("source") && spec.port.count("rate") == 0;
        match spec.port.kind {
            Kind::Pair | Kind::Null => {}
            Kind::Pktgen if !floods(&spec) => {}
            Kind::Pktgen => {
                return Err(fault(
                    "a source without a rate is not available in virtual time; set a rate, as in rate=1k".to_owned(),
                ));
            }
            kind => {
                return Err(fault(format!("no {kind} ports in virtual time; use pair, null or pktgen")));
            }
        }
        let seed = self.draw(place, at).to_string();
        for wrapper in spec.wrappers.iter_mut().filter(|layer| layer.kind == Kind::Impair && !layer.is_set("seed")) {
            wrapper.set("seed", &seed).map_err(|why| fault(why.to_string()))?;
        }
        Ok(spec.to_string())
    }
}
