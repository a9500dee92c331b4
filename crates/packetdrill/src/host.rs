//! The host under test: its configuration, and the addresses that scripts use without announcing
//! them.
//!
//! Packets arrive from `netdev_send`, and `netdev_receive` returns sent ones with their times. The
//! module `door` advances time.

use crate::flags::Settings;
use lock::Light;
use std::net::{IpAddr, Ipv4Addr};
use wire::{ip4, ip6};

pub(crate) type Host = pkt::host::Host<Light>;

/// IPv6 requires an MTU of 1280 bytes (RFC 8200 5); a smaller iface has no IPv6.
const MTU6_MIN: u16 = 1280;

/// Creates the host.
///
/// # Errors
/// Returns a message if there is no memory, or an address is invalid.
pub(crate) fn new(settings: &Settings) -> Result<Host, String> {
    let host = Host::new("packetdrill", settings.mtu, settings.seed)?;
    host.add_first_addr(settings.local.into())?;
    if settings.mtu >= MTU6_MIN {
        host.add_first_addr(settings.local6.into())?;
    }
    Ok(host)
}

/// Adds an address to the host. Scripts use an address for the host without announcing it, so any
/// address that they bind or send to is added.
pub(crate) fn own(host: &Host, addr: IpAddr) {
    let cx = host.cx();
    if addr.is_unspecified() || addr.is_multicast() || addr.is_loopback() || addr == Ipv4Addr::BROADCAST {
        return;
    }
    let (is_own, len) = match addr {
        IpAddr::V4(addr) => (host.stack.ifaces().any(|iface| iface.addrs(cx).iter().any(|own| own.addr == addr)), 32),
        IpAddr::V6(addr) => (host.stack.ifaces().any(|iface| iface.addrs6(cx).iter().any(|own| own.addr == addr)), 128),
    };
    if !is_own {
        // The only error is a full table. The packet is then handled as not addressed to this host.
        let _ = host.add_addr(addr, len);
    }
}

/// Passes an IP packet to the host. Its destination becomes an address of the host, and its source
/// a neighbor.
///
/// # Errors
/// Returns an error if the packet is invalid, or there is no buffer for it.
pub(crate) fn input(host: &Host, packet: &[u8]) -> Result<(), ()> {
    let (src, dst): (IpAddr, IpAddr) = if ip6::is_version(packet) {
        let header = ip6::Header::parse(packet).map_err(drop)?;
        (header.src.into(), header.dst.into())
    } else {
        let header = ip4::Header::parse(packet).map_err(drop)?;
        (header.src.into(), header.dst.into())
    };
    own(host, dst);
    host.set_neighbor(src);
    host.input(packet).map_err(drop)
}
