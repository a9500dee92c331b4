//! Builds a host from its configuration: first the pool, then ifaces, routes and neighbors.

use crate::Host;
use crate::config::{HostConfig, IfaceConfig};
use crate::host::{AddPortError, OpenOwn};
use crate::isr::IsrError;
use crate::split::{self, Shard};
use crate::topology::Topology;
use clock::{Clock, Instant};
use grammar::CommandError;
use inet::iface::IfaceId;
use inet::resolvers::ResolverSource;
use lock::{Locks, Up};
use port::Pairs;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Reason why a host could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The configuration is inconsistent.
    Config(String),
    /// The pool could not be created.
    Pool {
        /// Name of the host.
        host: String,
        /// Error of the pool.
        why: buf::PoolError,
    },
    /// Netisr could not be created.
    Isr {
        /// Name of the host.
        host: String,
        /// Error of netisr.
        why: IsrError,
    },
    /// The dispatcher of a split host could not be opened.
    Split {
        /// Name of the host.
        host: String,
        /// Error of the dispatcher.
        why: split::OpenError,
    },
    /// A port could not be opened or added.
    Port {
        /// Name of the host.
        host: String,
        /// Specification of the port.
        port: String,
        /// Error of the port.
        why: Box<AddPortError>,
    },
    /// The configuration requests an offload that the port does not support.
    Offload {
        /// Name of the host.
        host: String,
        /// Name of the iface.
        iface: String,
        /// Specification of the port.
        port: String,
        /// Requested offload.
        what: &'static str,
    },
    /// The host could not listen for a routing engine.
    Fpm {
        /// Name of the host.
        host: String,
        /// Address of the kernel.
        address: SocketAddr,
        /// Error of the system.
        why: io::Error,
    },
    /// A route or neighbor could not be added.
    Rejected {
        /// Name of the host.
        host: String,
        /// Route or neighbor that could not be added.
        what: String,
        /// Reason for the failure.
        why: Box<CommandError>,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Config(error) => write!(f, "{error}"),
            BuildError::Pool { host, why } => write!(f, "{host}: {why}"),
            BuildError::Isr { host, why } => write!(f, "host {host}: {why}"),
            BuildError::Split { host, why } => write!(f, "{host}: {why}"),
            BuildError::Port { host, port, why } => write!(f, "{host}: {}", port::port_message(port, why)),
            BuildError::Offload { host, iface, port, what } => {
                write!(f, "{host}: {iface}: {port} does not support {what}")
            }
            BuildError::Fpm { host, address, why } => write!(f, "{host}: fpm.listen {address}: {why}"),
            BuildError::Rejected { host, what, why } => write!(f, "{host}: {what}: {why}"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Config(_) | BuildError::Offload { .. } => None,
            BuildError::Pool { why, .. } => Some(why),
            BuildError::Isr { why, .. } => Some(why),
            BuildError::Split { why, .. } => Some(why),
            BuildError::Port { why, .. } => Some(why.as_ref()),
            BuildError::Fpm { why, .. } => Some(why),
            BuildError::Rejected { why, .. } => Some(why.as_ref()),
        }
    }
}

/// Builds a host from `config`.
///
/// # Errors
/// Returns a [`BuildError`].
pub fn build<L: Locks>(config: &HostConfig, pairs: &Pairs, clock: Clock) -> Result<Host<L>, BuildError> {
    if config.stacks > 1 {
        let why = format!(
            "host {}: stacks = {}: several stacks are not supported here: use 'linerate up'",
            config.name, config.stacks
        );
        return Err(BuildError::Config(why));
    }
    build_with(config, clock, |host, _, iface| host.add_port(iface, pairs))
}

/// Builds a host from `config` as [`build`] does. The ifaces whose numbers (in `config.ifaces`) are
/// in `own` get the ports that these functions open; the port specifications of these ifaces are
/// not used.
///
/// # Errors
/// Returns a [`BuildError`].
pub fn build_with_own<L: Locks>(
    config: &HostConfig,
    pairs: &Pairs,
    clock: Clock,
    mut own: BTreeMap<usize, OpenOwn>,
) -> Result<Host<L>, BuildError> {
    if own.is_empty() {
        return build(config, pairs, clock);
    }
    build_with(config, clock, |host, at, iface| match own.remove(&at) {
        None => host.add_port(iface, pairs),
        Some(open) => host.add_own_port(iface, open),
    })
}

/// Builds one stack of a split host, with the ports that the dispatcher provides.
pub(crate) fn build_sharded(config: &HostConfig, clock: Clock, mut shard: Shard) -> Result<Host<Up>, BuildError> {
    let mut host = build_with(config, clock, |host, at, iface| match shard.take_port(at) {
        Some((name, mac, port)) => host.attach(&name, mac, port, iface),
        None => Err(AddPortError::TooMany), // there are as many as ifaces
    })?;
    host.take_shard(shard);
    Ok(host)
}

fn build_with<L: Locks>(
    config: &HostConfig,
    clock: Clock,
    mut add: impl FnMut(&Host<L>, usize, &IfaceConfig) -> Result<IfaceId, AddPortError>,
) -> Result<Host<L>, BuildError> {
    config.check().map_err(BuildError::Config)?;
    let name = || config.name.clone();
    let mut host = Host::<L>::of_checked(config, clock).map_err(|why| BuildError::Pool { host: name(), why })?;
    host.set_topology(Arc::new(Topology::of(std::slice::from_ref(config))));
    host.set_isr(config).map_err(|why| BuildError::Isr { host: name(), why })?;
    for (at, iface) in config.ifaces.iter().enumerate() {
        let added = match iface.tunnel {
            Some(kind) => host.configure_tunnel(iface, kind),
            None => add(&host, at, iface),
        };
        let failed = |why| BuildError::Port { host: name(), port: iface.port.clone(), why: Box::new(why) };
        let id = added.map_err(failed)?;
        check_iface(&config.name, iface, &host, id)?;
    }
    let servers: Vec<_> = config.dns.iter().map(|addr| SocketAddr::new(*addr, 0)).collect();
    host.stack.set_resolvers(host.cx(), ResolverSource::Configured, &servers, &config.search, Instant::NEVER);
    let rejected = |what, why| BuildError::Rejected { host: name(), what, why: Box::new(why) };
    for route in &config.routes {
        host.replace_route(route).map_err(|why| {
            let to = route.destination6().map(|to| to.to_string());
            rejected(format!("route {}", to.unwrap_or_else(|| route.to.to_string())), why)
        })?;
    }
    for neighbor in &config.neighbors {
        host.set_neighbor(neighbor).map_err(|why| rejected(format!("neighbor {}", neighbor.addr), why))?;
    }
    if let Some(address) = config.fpm.listen.filter(|_| !host.is_simulated()) {
        host.listen_fpm(config.fpm).map_err(|why| BuildError::Fpm { host: name(), address, why })?;
    }
    Ok(host)
}

/// Returns an error if the port does not support a configured offload or MTU, as `ifconfig` does.
pub(crate) fn check_iface<L: Locks>(
    name: &str,
    requested: &crate::config::IfaceConfig,
    host: &Host<L>,
    id: inet::iface::IfaceId,
) -> Result<(), BuildError> {
    let Some(iface) = host.stack.iface(id) else { return Ok(()) };
    let fault = |what| BuildError::Offload {
        host: name.to_string(),
        iface: iface.name.clone(),
        port: requested.port.clone(),
        what,
    };
    let on = iface.offload();
    let most = host.ports().iter().find(|port| port.iface == id).map_or(u16::MAX, |port| port.caps.mtu);
    let checks = [
        (requested.ip4csum && !on.tx_ip, "ip4csum"),
        (requested.udp4csum == Some(true) && !on.tx_l4, "udp4csum"),
        (requested.tso4 == Some(true) && !on.tso, "tso4"),
        (requested.rxcsum == Some(true) && !on.rx, "rxcsum"),
        (requested.mtu.is_some_and(|mtu| mtu > most), "an MTU this large"),
    ];
    checks.iter().find(|(wrong, _)| *wrong).map_or(Ok(()), |(_, what)| Err(fault(what)))
}
