//! What hosts are to be like: one vocabulary for the TOML file and the command line.

use buf::mem::Pages;
use buf::{Kind, PoolConfig, PoolLocks};
use clock::Strategy;
use inet::iface::{IfaceAddr, Offload};
use lock::{How, Locks};
use std::collections::BTreeMap;
use wire::Mac;

/// A host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its name.
    pub name: String,
    /// Its locks: `up`, `light` or `heavy`.
    pub locks: String,
    /// The core its thread is pinned to.
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
    /// Its ifaces.
    pub ifaces: Vec<IfaceConfig>,
    /// Its knobs by name.
    pub sysctl: BTreeMap<String, i64>,
}

impl Default for HostConfig {
    fn default() -> HostConfig {
        HostConfig {
            name: "host".to_string(),
            locks: "up".to_string(),
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
            ifaces: Vec::new(),
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
    /// Leave UDP checksums to the port.
    pub udp4csum: bool,
    /// Believe the port's verdict on received checksums; on where the port has one, unless said otherwise.
    pub rxcsum: Option<bool>,
}

impl IfaceConfig {
    /// An iface on `port`.
    pub fn on(port: &str) -> IfaceConfig {
        IfaceConfig { port: port.to_string(), ..IfaceConfig::default() }
    }

    pub(crate) fn offload(&self, capable: Offload) -> Offload {
        Offload { tx_ip: self.ip4csum, tx_l4: self.udp4csum, rx: self.rxcsum.unwrap_or(capable.rx) }
    }
}
