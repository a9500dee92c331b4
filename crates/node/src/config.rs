//! What hosts are to be like: one vocabulary for the TOML file and the command line.
//!
//! The words are declared in [`keys`]: name, form, sentence, and how a value is taken. [`read`] takes a file of
//! `[[host]]` tables, [`HostConfig::set`] one `key=value` from the command line; both end in the same structures and the
//! same [`ConfigError`]s, which say where, what, and the nearest word.

mod file;
pub mod keys;
#[cfg(test)]
mod tests;

pub use file::{ConfigError, HOSTS_MAX, load, read};

use buf::mem::Pages;
use buf::{Kind, PoolConfig, PoolLocks};
use clock::Strategy;
use inet::fib::Prefix;
use inet::iface::{IfaceAddr, Offload};
use lock::{How, Locks};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use wire::{L4Port, Mac};

/// A host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its name.
    pub name: String,
    /// Its locks: `up`, `light` or `heavy`.
    pub locks: String,
    /// Threads that enter it; `up` has one.
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
    /// Ask the cache for buffers ahead.
    pub pool_prefetch: bool,
    /// Seed of all secrets, for runs that must repeat.
    pub seed: Option<u64>,
    /// It goes on when all its ports are over.
    pub stay: bool,
    /// Where its control socket is, if it has one.
    pub control: Option<std::path::PathBuf>,
    /// Its ifaces.
    pub ifaces: Vec<IfaceConfig>,
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
            threads: 1,
            core: None,
            context: How::default(),
            clock: Strategy::default(),
            burst: 32,
            pool_kind: Kind::default(),
            pool_buffers: 4096,
            pool_data: 2048,
            pool_pages: Pages::default(),
            pool_prefetch: false,
            seed: None,
            stay: false,
            control: None,
            ifaces: Vec::new(),
            routes: Vec::new(),
            neighbors: Vec::new(),
            services: Vec::new(),
            sysctl: BTreeMap::new(),
        }
    }
}

impl HostConfig {
    /// The pool for a host with locks of kind `L`.
    pub fn pool_config<L: Locks>(&self) -> PoolConfig {
        PoolConfig {
            kind: self.pool_kind,
            locks: match L::NAME {
                "up" => PoolLocks::Owner,
                "heavy" => PoolLocks::Heavy,
                _ => PoolLocks::Light,
            },
            buffers: self.pool_buffers,
            data: self.pool_data,
            pages: self.pool_pages,
            prefetch: self.pool_prefetch,
            ..PoolConfig::default()
        }
    }
}

/// An iface of a host.
#[derive(Clone, Debug, Default)]
pub struct IfaceConfig {
    /// The port, as in `tap:tap0`.
    pub port: String,
    /// Its name; the port's if none is given.
    pub name: Option<String>,
    /// Its MAC address; made from the host's name if none is given.
    pub mac: Option<Mac>,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<IfaceAddr>,
    /// Its MTU; the port's, at most 1500, if none is given.
    pub mtu: Option<u16>,
    /// Leave IPv4 header checksums to the port.
    pub ip4csum: bool,
    /// Leave TCP and UDP checksums to the port; on where large segments are.
    pub udp4csum: Option<bool>,
    /// Leave it to the port to cut up large TCP segments; on where the port takes them, unless checksums are not left to it.
    pub tso4: Option<bool>,
    /// Believe the port's verdict on received checksums; on where the port has one, unless said otherwise.
    pub rxcsum: Option<bool>,
}

impl IfaceConfig {
    /// An iface on `port`.
    pub fn on(port: &str) -> IfaceConfig {
        IfaceConfig { port: port.to_string(), ..IfaceConfig::default() }
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
    /// The iface; found by the gateway if not given.
    pub dev: Option<String>,
}

impl Default for RouteConfig {
    fn default() -> RouteConfig {
        RouteConfig { to: Prefix::DEFAULT, via: None, dev: None }
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

/// Something that a host does with datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ServiceKind {
    /// Sends each back (RFC 862).
    #[default]
    Echo,
    /// Reads and forgets (RFC 863).
    Discard,
}

impl ServiceKind {
    /// The service's L4 port by its RFC.
    pub fn usual_port(self) -> L4Port {
        match self {
            ServiceKind::Echo => L4Port(7),
            ServiceKind::Discard => L4Port(9),
        }
    }
}

impl std::str::FromStr for ServiceKind {
    type Err = String;
    fn from_str(word: &str) -> Result<ServiceKind, String> {
        match word {
            "echo" => Ok(ServiceKind::Echo),
            "discard" => Ok(ServiceKind::Discard),
            _ => Err("expected echo or discard".to_string()),
        }
    }
}

impl std::fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ServiceKind::Echo => "echo",
            ServiceKind::Discard => "discard",
        })
    }
}

/// A service of a host, over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// What it does.
    pub kind: ServiceKind,
    /// Where it is.
    pub port: L4Port,
}

impl std::str::FromStr for ServiceConfig {
    type Err = String;
    /// `echo`, `echo:7007`.
    fn from_str(text: &str) -> Result<ServiceConfig, String> {
        let (kind, port) = text.split_once(':').map_or((text, None), |(kind, port)| (kind, Some(port)));
        let bad = || "expected echo or discard, and a port as in echo:7".to_string();
        let kind: ServiceKind = kind.parse().map_err(|_| bad())?;
        let given = port.map(|port| port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)).transpose()?;
        Ok(ServiceConfig { kind, port: given.map_or(kind.usual_port(), L4Port) })
    }
}
