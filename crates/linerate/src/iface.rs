//! Parts of the configuration of interfaces: offloads and tunnels.

use inet::tunnel::{Config, Kind};
use std::net::IpAddr;

/// Work that a port may do instead of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Offload {
    /// IPv4 header checksums of sent packets.
    IpChecksum,
    /// TCP and UDP checksums of sent packets.
    TransportChecksum,
    /// Splitting of large TCP segments (TSO).
    Segmentation,
    /// Verification of the checksums of received packets.
    ReceiveChecksum,
}

/// Outer addresses and options of a tunnel ([`HostBuilder::tunnel`](crate::HostBuilder::tunnel)).
/// Building the host fails if an option belongs to another kind of tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Tunnel(Config);

impl Tunnel {
    /// Creates a tunnel from `local`, an address of the host, to `remote`. Both must have the same
    /// address family.
    pub fn between(local: impl Into<IpAddr>, remote: impl Into<IpAddr>) -> Tunnel {
        Tunnel(Config { local: local.into(), remote: remote.into(), ..Config::new(Kind::Gif) })
    }

    /// GRE: sets the key of the packets (RFC 2890).
    pub fn key(self, key: u32) -> Tunnel {
        Tunnel(Config { key: Some(key), ..self.0 })
    }

    /// GRE: adds a checksum to sent packets.
    pub fn checksum(self) -> Tunnel {
        Tunnel(Config { checksum: true, ..self.0 })
    }

    /// GRE: numbers sent packets, and drops late ones (RFC 2890).
    pub fn sequence(self) -> Tunnel {
        Tunnel(Config { sequence: true, ..self.0 })
    }

    /// VXLAN: sets the network identifier (24 bits).
    pub fn vni(self, vni: u32) -> Tunnel {
        Tunnel(Config { vni, ..self.0 })
    }

    /// VXLAN: sets the UDP port, by default 4789.
    pub fn udp_port(self, port: u16) -> Tunnel {
        Tunnel(Config { l4port: wire::L4Port(port), ..self.0 })
    }

    /// Sets the time to live or hop limit of the outer packets.
    pub fn ttl(self, ttl: u8) -> Tunnel {
        Tunnel(Config { ttl: Some(ttl), ..self.0 })
    }

    pub(crate) fn config(self, kind: Kind) -> Config {
        Config { kind, ..self.0 }
    }
}
