//! Host configuration: the same keys are used in TOML files and on the command line.
//!
//! [`keys`] declares the keys with name, type, description and setter, and [`page`] prints them.
//! `read` reads a file of `[[host]]` tables, `read_network` a file that may also have
//! `[[switch]]` tables and `[metrics]`, and [`HostConfig::set`] one `key=value` from the command
//! line. All of them fill the same structures and return the same [`ConfigError`]s, with location,
//! cause, and the nearest valid name. [`to_toml`] prints the text of a file.

mod check;
mod error;
#[cfg(feature = "files")]
mod file;
pub mod keys;
mod metrics;
pub mod page;
mod services;
#[cfg_attr(not(feature = "files"), path = "config/source_absent.rs")]
mod source;
mod switches;
#[cfg(test)]
mod tests;
mod text;

pub use error::ConfigError;
#[cfg(feature = "files")]
pub use file::{HOSTS_MAX, load, load_network, read, read_network};
pub use metrics::{MetricsAddress, MetricsAddressError, MetricsConfig, SERIES_MAX};
pub use services::{ServiceConfig, ServiceKind};
pub use source::ConfigFile;
pub use switches::{Network, SwitchFile};
pub use text::to_toml;

use buf::mem::Pages;
use buf::{Kind, PoolConfig, PoolLocks, Stride};
use clock::Strategy;
use inet::fib::Prefix;
use inet::iface::{IfaceAddr, Offload};
use lock::{How, Locks};
use port::Spec;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use wire::Mac;

/// Configuration of a host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Name of the host.
    pub name: String,
    /// Kind of locks: `up` (single-threaded), `light` (spin) or `heavy` (semaphore).
    pub locks: String,
    /// Number of stacks, each run by one thread. They share the addresses and L4 ports of the host.
    pub stacks: usize,
    /// Number of threads; must be 1 with locks `up`.
    pub threads: usize,
    /// CPU core to which the first thread is pinned; `None` for any core.
    pub core: Option<usize>,
    /// Method by which code finds the context of the running thread.
    pub context: How,
    /// Source of the time, and its format.
    pub clock: Strategy,
    /// Maximum number of frames received from a port at once, 1 to 256.
    pub burst: usize,
    /// Kind of storage of the pool's free buffers.
    pub pool_kind: Kind,
    /// Number of buffers in the pool.
    pub pool_buffers: usize,
    /// Size of the packet data in a buffer, in bytes.
    pub pool_data: usize,
    /// Page size of the pool's memory.
    pub pool_pages: Pages,
    /// Rule for the distance between buffers in memory; `None` if the ports determine it.
    pub pool_stride: Option<Stride>,
    /// Prefetches buffers into the CPU cache before use.
    pub pool_prefetch: bool,
    /// Seed of all random secrets, for repeatable runs; `None` for random secrets.
    pub seed: Option<u64>,
    /// Configuration of netisr, the deferred processing of received frames.
    pub isr: IsrConfig,
    /// Keeps the host running after all its ports have closed.
    pub stay: bool,
    /// Path of the control socket; `None` if no path is configured.
    pub control: Option<std::path::PathBuf>,
    /// Ifaces (interfaces), apart from the loopback.
    pub ifaces: Vec<IfaceConfig>,
    /// Addresses of the name servers.
    pub dns: Vec<std::net::IpAddr>,
    /// Search domains for host names.
    pub search: Vec<String>,
    /// Routes, in addition to the on-link routes of the host's addresses.
    pub routes: Vec<RouteConfig>,
    /// Static entries of the IPv4 neighbor table.
    pub neighbors: Vec<NeighborConfig>,
    /// Services that the host runs.
    pub services: Vec<ServiceConfig>,
    /// Connection with a routing engine.
    pub fpm: crate::fpm::FpmConfig,
    /// Network namespace of the mirrors of ifaces: a name as of `ip netns`, or a path.
    pub netns: String,
    /// Values of sysctls, by name.
    pub sysctl: BTreeMap<String, i64>,
}

impl Default for HostConfig {
    fn default() -> HostConfig {
        HostConfig {
            name: "host".to_string(),
            locks: "up".to_string(),
            stacks: 1,
            threads: 1,
            core: None,
            context: How::default(),
            clock: Strategy::default(),
            burst: 32,
            pool_kind: Kind::default(),
            pool_buffers: 4096,
            pool_data: 2048,
            pool_pages: Pages::default(),
            pool_stride: None,
            pool_prefetch: false,
            seed: None,
            isr: IsrConfig::default(),
            stay: false,
            control: None,
            ifaces: Vec::new(),
            dns: Vec::new(),
            search: Vec::new(),
            routes: Vec::new(),
            neighbors: Vec::new(),
            services: Vec::new(),
            fpm: crate::fpm::FpmConfig::default(),
            netns: "dataplane".to_owned(),
            sysctl: BTreeMap::new(),
        }
    }
}

impl HostConfig {
    /// Returns whether an iface has a mirror.
    pub fn has_mirrors(&self) -> bool {
        self.ifaces.iter().any(|iface| iface.mirror.is_some())
    }

    /// Returns the pool configuration for a host with locks of kind `L`. Buffers are large enough
    /// for the longest frame that the MTU of any port permits.
    pub fn pool_config<L: Locks>(&self) -> PoolConfig {
        let specs: Vec<_> = self.ifaces.iter().filter_map(|iface| Spec::parse(&iface.port).ok()).collect();
        let mut config = PoolConfig {
            kind: self.pool_kind,
            locks: match L::NAME {
                "up" => PoolLocks::Owner,
                "heavy" => PoolLocks::Heavy,
                _ => PoolLocks::Light,
            },
            buffers: self.pool_buffers,
            data: self.pool_data,
            pages: self.pool_pages,
            stride: self.pool_stride.unwrap_or_else(|| port::stride_for(&specs)),
            prefetch: self.pool_prefetch,
            ..PoolConfig::default()
        };
        port::fit_pool(&mut config, &specs);
        config
    }
}

/// Configuration of a host adapted to a program in which one thread runs all hosts.
#[derive(Clone, Debug)]
pub struct OnOneThread {
    /// Adapted configuration.
    pub config: HostConfig,
    /// Warning that netisr has no threads in such a program, or that `stacks` was reduced; `None`
    /// if neither applies.
    pub warning: Option<String>,
}

impl HostConfig {
    /// Adapts the host to a program in which one thread runs all hosts. The keys `locks`, `threads`
    /// and `core` then have no effect. If netisr is configured, one workstream remains, run by the
    /// host's own loop, so that all netisr sysctls keep their meaning.
    pub fn on_one_thread(&self) -> OnOneThread {
        let IsrConfig { workstreams, bind, .. } = self.isr;
        let had_threads = workstreams > 0 && self.locks != "up";
        let split = (self.stacks > 1).then(|| {
            format!("{}: stacks = {}: reduced to 1, since all hosts run on one thread here", self.name, self.stacks)
        });
        let warning = had_threads.then(|| {
            let bound = if bind { " and isr.bind" } else { "" };
            let name = &self.name;
            format!(
                "{name}: isr.workstreams = {workstreams}{bound}: netisr has no threads here; the host's own thread \
                 runs one workstream"
            )
        });
        let engine = self.fpm.listen.map(|at| {
            format!(
                "{}: fpm.listen = {at}: no routing engine can connect, since all hosts run on one thread here",
                self.name
            )
        });
        let mirrors = self
            .has_mirrors()
            .then(|| format!("{}: no mirrors are created, since all hosts run on one thread here", self.name));
        let isr = IsrConfig { workstreams: workstreams.min(1), bind: false, ..self.isr.clone() };
        let mut config = HostConfig { locks: "up".to_owned(), threads: 1, stacks: 1, isr, ..self.clone() };
        config.ifaces.iter_mut().for_each(|iface| iface.mirror = None);
        if split.is_some() {
            config.sysctl.retain(|name, _| !name.starts_with("net.isr.")); // one stack: no queues
        }
        let all: Vec<String> = [split.or(warning), engine, mirrors].into_iter().flatten().collect();
        OnOneThread { config, warning: (!all.is_empty()).then(|| all.join("; ")) }
    }
}

/// Configuration of netisr, the deferred processing of received frames by the host's loop or by
/// separate threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrConfig {
    /// Number of workstreams, which are sets of queues with one worker each. With 0, the thread
    /// that receives a frame from a port also processes it.
    pub workstreams: usize,
    /// Pins each netisr thread to a CPU core.
    pub bind: bool,
    /// Maximum length of a queue, in packets.
    pub max_qlimit: usize,
    /// Number of times that an idle netisr thread polls its queue before it sleeps.
    pub looks: u32,
}

impl Default for IsrConfig {
    fn default() -> IsrConfig {
        IsrConfig { workstreams: 0, bind: false, max_qlimit: dispatch::netisr::QLIMIT_MAX, looks: 50 }
    }
}

/// Configuration of an iface.
#[derive(Clone, Debug, Default)]
pub struct IfaceConfig {
    /// Port specification, as in `tap:tap0`.
    pub port: String,
    /// Name of the iface; `None` for the name of the port.
    pub name: Option<String>,
    /// MAC address; `None` for a random one, which is derived from the host's seed if that is set.
    pub mac: Option<Mac>,
    /// IPv4 addresses with prefix lengths.
    pub addresses: Vec<IfaceAddr>,
    /// IPv6 addresses with prefix lengths.
    pub addresses6: Vec<inet::ip6::IfaceAddr6>,
    /// Enables IPv6 autoconfiguration from router advertisements.
    pub accept_rtadv: bool,
    /// Enables IPv4 configuration by DHCP.
    pub dhcp: bool,
    /// Sends router advertisements while the host forwards IPv6.
    pub advertise: bool,
    /// Sets the iface down: it neither sends nor receives.
    pub down: bool,
    /// MTU in bytes; `None` for the MTU of the port's kernel device, or 1500 if the port has no
    /// device.
    pub mtu: Option<u16>,
    /// Offloads IPv4 header checksums to the port.
    pub ip4csum: bool,
    /// Offloads TCP and UDP checksums to the port; `None` enables this if TCP segmentation is
    /// offloaded.
    pub udp4csum: Option<bool>,
    /// Offloads TCP segmentation to the port; `None` enables this if the port supports it, unless
    /// `udp4csum` is off.
    pub tso4: Option<bool>,
    /// Uses the port's verification of received checksums; `None` enables this if the port supports
    /// it.
    pub rxcsum: Option<bool>,
    /// Kind of the tunnel; `None` for an iface with a port.
    pub tunnel: Option<inet::tunnel::Kind>,
    /// Tunnel settings other than the kind, such as the outer addresses and the key.
    pub ends: inet::tunnel::Config,
    /// Inner IPv4 address of the tunnel's remote end, for a point-to-point address.
    pub peer: Option<Ipv4Addr>,
    /// Name of the iface's mirror in the network namespace of a routing engine; `None` without a
    /// mirror.
    pub mirror: Option<String>,
}

impl IfaceConfig {
    /// Returns the configuration of an iface on `port`.
    pub fn on(port: &str) -> IfaceConfig {
        IfaceConfig { port: port.to_string(), ..IfaceConfig::default() }
    }

    /// Returns whether the iface is called `name`. The name of an iface is the configured name;
    /// without one, it is the name of the port.
    pub fn is_named(&self, name: &str) -> bool {
        match &self.name {
            Some(own) => own == name,
            None => Spec::parse(&self.port).is_ok_and(|spec| spec.name == name),
        }
    }

    /// Returns the name that the iface will have: the configured name, or that of the port. It is
    /// empty for a port that is not valid.
    pub(crate) fn known_name(&self) -> String {
        let of_port = || Spec::parse(&self.port).map(|spec| spec.name).unwrap_or_default();
        self.name.clone().unwrap_or_else(of_port)
    }

    /// Adds an address of either family.
    pub fn add_address(&mut self, addr: IpAddr, len: u8) {
        match addr {
            IpAddr::V4(addr) => self.addresses.push(IfaceAddr { addr, len }),
            IpAddr::V6(addr) => self.addresses6.push(inet::ip6::IfaceAddr6::new(addr, len)),
        }
    }

    pub(crate) fn offload(&self, capable: Offload) -> Offload {
        let tso = self.tso4.unwrap_or(capable.tso && self.udp4csum != Some(false));
        let tx_l4 = self.udp4csum.unwrap_or(tso);
        Offload { tx_ip: self.ip4csum, tx_l4, rx: self.rxcsum.unwrap_or(capable.rx), tso }
    }
}

/// Configuration of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    /// IPv4 destination prefix.
    pub to: Prefix,
    /// IPv4 gateway; `None` if the destinations are on-link.
    pub via: Option<Ipv4Addr>,
    /// IPv6 destination prefix; `None` for an IPv4 route or an IPv6 default route.
    pub to6: Option<inet::fib::Prefix6>,
    /// IPv6 gateway, also of an IPv4 route (RFC 8950).
    pub via6: Option<std::net::Ipv6Addr>,
    /// Outgoing iface; `None` for the iface on whose link the gateway is.
    pub dev: Option<String>,
}

impl RouteConfig {
    /// Returns the IPv6 destination; `None` for an IPv4 route. Without another destination, a route
    /// through an IPv6 gateway is the IPv6 default route.
    pub fn destination6(&self) -> Option<inet::fib::Prefix6> {
        let is_default = self.via6.is_some() && self.to == Prefix::DEFAULT;
        self.to6.or(is_default.then_some(inet::fib::Prefix6::DEFAULT))
    }

    /// Returns whether this is an IPv4 route.
    pub fn is_v4(&self) -> bool {
        self.destination6().is_none()
    }
}

impl Default for RouteConfig {
    fn default() -> RouteConfig {
        RouteConfig { to: Prefix::DEFAULT, via: None, to6: None, via6: None, dev: None }
    }
}

/// Configuration of a static neighbor entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighborConfig {
    /// Address of the neighbor.
    pub addr: IpAddr,
    /// MAC address of the neighbor.
    pub mac: Mac,
    /// Iface of the neighbor; `None` for the iface on whose link the address is. Link-local
    /// addresses require it.
    pub dev: Option<String>,
}

impl Default for NeighborConfig {
    fn default() -> NeighborConfig {
        NeighborConfig { addr: Ipv4Addr::UNSPECIFIED.into(), mac: Mac::ZERO, dev: None }
    }
}
