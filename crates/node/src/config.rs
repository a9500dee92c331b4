//! What hosts are to be like: one vocabulary for the TOML file and the command line.
//!
//! The words are declared in [`keys`]: name, form, sentence, and how a value is taken; [`page`] prints them. [`read`] takes a file of
//! `[[host]]` tables ([`read_network`]: of `[[switch]]` tables as well), [`HostConfig::set`] one `key=value` from the command line; both end in the same structures and the
//! same [`ConfigError`]s, which say where, what, and the nearest word.

mod check;
mod file;
pub mod keys;
pub mod page;
mod services;
mod switches;
#[cfg(test)]
mod tests;

pub use file::{ConfigError, HOSTS_MAX, load, load_network, read, read_network};
pub use services::{ServiceConfig, ServiceKind};
pub use switches::{Network, SwitchFile};

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

/// A host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its name.
    pub name: String,
    /// Its locks: `up`, `light` or `heavy`.
    pub locks: String,
    /// Stacks of one thread each that it is made of, which share its addresses and ports.
    pub stacks: usize,
    /// Threads that keep it going; with locks `up` one.
    pub threads: usize,
    /// The core its (first) thread is pinned to.
    pub core: Option<usize>,
    /// How the current context is found.
    pub context: How,
    /// How time is read.
    pub clock: Strategy,
    /// Frames taken from a port at a time, 1 to 256.
    pub burst: usize,
    /// How free buffers are kept.
    pub pool_kind: Kind,
    /// Buffers in the pool.
    pub pool_buffers: usize,
    /// Bytes of packet a buffer can hold.
    pub pool_data: usize,
    /// Pages under the pool.
    pub pool_pages: Pages,
    /// How far apart its buffers lie; `None`: as the ports ask.
    pub pool_stride: Option<Stride>,
    /// Ask the cache for buffers ahead.
    pub pool_prefetch: bool,
    /// Seed of all secrets, for runs that must repeat.
    pub seed: Option<u64>,
    /// Its netisr.
    pub isr: IsrConfig,
    /// It goes on when all its ports are over.
    pub stay: bool,
    /// Where its control socket is, if it has one.
    pub control: Option<std::path::PathBuf>,
    /// Its ifaces.
    pub ifaces: Vec<IfaceConfig>,
    /// Name servers.
    pub dns: Vec<std::net::IpAddr>,
    /// Search domains of names.
    pub search: Vec<String>,
    /// Its routes, beside those that come with addresses.
    pub routes: Vec<RouteConfig>,
    /// Its neighbors, set by hand.
    pub neighbors: Vec<NeighborConfig>,
    /// What it serves.
    pub services: Vec<ServiceConfig>,
    /// Its knobs by name.
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
            sysctl: BTreeMap::new(),
        }
    }
}

impl HostConfig {
    /// Returns the pool for a host with locks of kind `L`. Its buffers hold the longest frame of each port's MTU.
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

impl HostConfig {
    /// Has it a name of `other`'s, or of a stack of `other`'s?
    pub(crate) fn is_called_as(&self, other: &HostConfig) -> bool {
        let is_stack_of = |name: &str, host: &HostConfig| {
            let number = name.strip_prefix(&host.name).and_then(|rest| rest.strip_prefix('.')).map(str::parse::<usize>);
            host.stacks > 1 && matches!(number, Some(Ok(at)) if at < host.stacks)
        };
        self.name == other.name || is_stack_of(&self.name, other) || is_stack_of(&other.name, self)
    }
}

/// A host where one thread steps all hosts, and what is otherwise there than its file says.
#[derive(Clone, Debug)]
pub struct OnOneThread {
    /// The host.
    pub config: HostConfig,
    /// A sentence, if its netisr is another one.
    pub remark: Option<String>,
}

impl HostConfig {
    /// The host where one thread steps all hosts: its locks, threads and core are nobody's there. Of netisr one workstream is left,
    /// whose work the host's own loop does, so that all its knobs mean what they say.
    pub fn on_one_thread(&self) -> OnOneThread {
        let IsrConfig { workstreams, bind, .. } = self.isr;
        let had_threads = workstreams > 0 && self.locks != "up";
        let split = (self.stacks > 1)
            .then(|| format!("{}: stacks = {}: one here, of one thread as all the others", self.name, self.stacks));
        let remark = had_threads.then(|| {
            let bound = if bind { " and isr.bind" } else { "" };
            let name = &self.name;
            format!(
                "{name}: isr.workstreams = {workstreams}{bound}: netisr has no threads here; the host's own loop does the work \
                 of one workstream"
            )
        });
        let isr = IsrConfig { workstreams: workstreams.min(1), bind: false, ..self.isr.clone() };
        let mut config = HostConfig { locks: "up".to_owned(), threads: 1, stacks: 1, isr, ..self.clone() };
        if split.is_some() {
            config.sysctl.retain(|name, _| !name.starts_with("net.isr.")); // of queues that there are not
        }
        OnOneThread { config, remark: split.or(remark) }
    }
}

/// A host's netisr: whether, and by whom, frames are taken through the stack later than they are taken from ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrConfig {
    /// Workstreams; 0: none, and who takes frames from a port takes them through the stack.
    pub workstreams: usize,
    /// Each of its threads has a core.
    pub bind: bool,
    /// The longest that a queue may be.
    pub max_qlimit: usize,
    /// How often a thread without work looks again before it sleeps.
    pub looks: u32,
}

impl Default for IsrConfig {
    fn default() -> IsrConfig {
        IsrConfig { workstreams: 0, bind: false, max_qlimit: dispatch::netisr::QLIMIT_MAX, looks: 50 }
    }
}

/// An iface of a host.
#[derive(Clone, Debug, Default)]
pub struct IfaceConfig {
    /// The port, as in `tap:tap0`.
    pub port: String,
    /// Its name; the port's if none is given.
    pub name: Option<String>,
    /// Its MAC address; random if none is given, repeatable under the host's seed.
    pub mac: Option<Mac>,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<IfaceAddr>,
    /// Those of IPv6.
    pub addresses6: Vec<inet::ip6::IfaceAddr6>,
    /// IPv6 autoconfiguration by router advertisements.
    pub accept_rtadv: bool,
    /// IPv4 configuration by DHCP.
    pub dhcp: bool,
    /// Sends router advertisements while the host forwards IPv6.
    pub advertise: bool,
    /// Its MTU. If none is given: that of the device behind the port, or 1500 where there is none.
    pub mtu: Option<u16>,
    /// Leave IPv4 header checksums to the port.
    pub ip4csum: bool,
    /// Leave TCP and UDP checksums to the port; on where large segments are.
    pub udp4csum: Option<bool>,
    /// Leave it to the port to cut up large TCP segments; on where the port takes them, unless checksums are not left to it.
    pub tso4: Option<bool>,
    /// Believe the port's verdict on received checksums; on where the port has one, unless said otherwise.
    pub rxcsum: Option<bool>,
    /// It has no port, but is a tunnel of this kind.
    pub tunnel: Option<inet::tunnel::Kind>,
    /// A tunnel's ends and manners; its kind is that of `tunnel`.
    pub ends: inet::tunnel::Config,
    /// A tunnel's far end inside, for a point-to-point address.
    pub peer: Option<Ipv4Addr>,
}

impl IfaceConfig {
    /// An iface on `port`.
    pub fn on(port: &str) -> IfaceConfig {
        IfaceConfig { port: port.to_string(), ..IfaceConfig::default() }
    }

    /// Returns whether its name is `name`: the one given, or the port's.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        match &self.name {
            Some(own) => own == name,
            None => Spec::parse(&self.port).is_ok_and(|spec| spec.name == name),
        }
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

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    /// Which destinations.
    pub to: Prefix,
    /// The gateway, if they are not on the link.
    pub via: Option<Ipv4Addr>,
    /// Which destinations of IPv6; then this is no route of IPv4.
    pub to6: Option<inet::fib::Prefix6>,
    /// The gateway's IPv6 address: without `to6` of all of IPv6.
    pub via6: Option<std::net::Ipv6Addr>,
    /// The iface; found by the gateway if not given.
    pub dev: Option<String>,
}

impl Default for RouteConfig {
    fn default() -> RouteConfig {
        RouteConfig { to: Prefix::DEFAULT, via: None, to6: None, via6: None, dev: None }
    }
}

/// A neighbor set by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighborConfig {
    /// Its address.
    pub addr: Ipv4Addr,
    /// Its MAC address.
    pub mac: Mac,
    /// The iface; found by the address if not given.
    pub dev: Option<String>,
}

impl Default for NeighborConfig {
    fn default() -> NeighborConfig {
        NeighborConfig { addr: Ipv4Addr::UNSPECIFIED, mac: Mac::ZERO, dev: None }
    }
}
