//! Keys of the ifaces of a host.

use super::given::Takes::{List, Name, Number, Switch, Text, Words};
use super::given::Unset::{Is, Means};
use super::given::{Item, list, number, shown, switch, within};
use super::key::{Key, MAC, key, put, station};
use crate::address;
use crate::config::{IfaceConfig, check};
use inet::iface::IfaceAddr;
use inet::tunnel::Kind;
use port::spec::Spec;
use std::net::IpAddr;
use wire::L4Port;

/// Keys of a `[[host.iface]]`.
pub const IFACE: &[Key<IfaceConfig>] = &[
    key(
        "port",
        Text("a port such as tap:tap0"),
        Means("none: a tunnel"),
        "Port of the iface; 'linerate ports' lists the kinds.",
        |c, v| {
            let spec: String = v.text()?;
            Spec::parse(&spec).map_err(|why| why.to_string())?;
            c.port = spec;
            Ok(())
        },
        |c| Some(c.port.as_str()).filter(|port| !port.is_empty()).and_then(shown),
    ),
    key(
        "name",
        Name(32),
        Means("the port's name"),
        "Name of the iface; required for a tunnel.",
        |c, v| put(&mut c.name, v.name().map(Some)),
        |c| c.name.as_ref().and_then(shown),
    ),
    key(
        "mac",
        MAC,
        Means("random; repeatable with seed"),
        "MAC address of the iface.",
        |c, v| put(&mut c.mac, station(v).map(Some)),
        |c| c.mac.and_then(shown),
    ),
    key(
        "addresses",
        List("A/LEN, auto or dhcp"),
        Means("none"),
        ADDRESSES,
        |c, v| {
            let mut iface = IfaceConfig::default();
            v.items().iter().try_for_each(|item| add_address(&mut iface, item))?;
            let IfaceConfig { addresses, addresses6, accept_rtadv, dhcp, .. } = iface;
            (c.addresses, c.addresses6, c.accept_rtadv, c.dhcp) = (addresses, addresses6, accept_rtadv, dhcp);
            Ok(())
        },
        |c| list(addresses(c)),
    ),
    key(
        "mtu",
        within(&check::MTU),
        Means("the device's; 1500 without a device"),
        "MTU of the iface, in bytes.",
        |c, v| put(&mut c.mtu, v.number().map(Some)),
        |c| c.mtu.and_then(number),
    ),
    key(
        "up",
        Switch,
        Is("true"),
        "Sets the iface up; false: down.",
        |c, v| put(&mut c.down, v.switch().map(|up| !up)),
        |c| switch(!c.down),
    ),
    key(
        "mirror",
        Name(15),
        Means("none"),
        "TAP device in mirror.netns, at which a routing engine receives and sends control packets of the iface (show lcp).",
        |c, v| put(&mut c.mirror, v.name().map(Some)),
        |c| c.mirror.as_ref().and_then(shown),
    ),
    key("advertise", Switch, Is("false"), ADVERTISE, |c, v| put(&mut c.advertise, v.switch()), |c| switch(c.advertise)),
    key(
        "ip4csum",
        Switch,
        Is("false"),
        "Offloads IPv4 header checksums to the port.",
        |c, v| put(&mut c.ip4csum, v.switch()),
        |c| switch(c.ip4csum),
    ),
    key(
        "udp4csum",
        Switch,
        Means("on if tso4 is on"),
        "Offloads TCP and UDP checksums to the port.",
        |c, v| put(&mut c.udp4csum, v.switch().map(Some)),
        |c| c.udp4csum.and_then(switch),
    ),
    key(
        "tso4",
        Switch,
        Means("on if the port supports it"),
        "Offloads TCP segmentation to the port.",
        |c, v| put(&mut c.tso4, v.switch().map(Some)),
        |c| c.tso4.and_then(switch),
    ),
    key(
        "rxcsum",
        Switch,
        Means("on if the port supports it"),
        "Uses the port's verification of received checksums.",
        |c, v| put(&mut c.rxcsum, v.switch().map(Some)),
        |c| c.rxcsum.and_then(switch),
    ),
    key(
        "tunnel",
        Words(&["gif", "gre", "etherip", "vxlan"]),
        Means("none: a port"),
        "Kind of tunnel; an iface is either a tunnel or has a port.",
        |c, v| put(&mut c.tunnel, v.word().map(|word| Kind::ALL.into_iter().find(|kind| kind.name() == word))),
        |c| c.tunnel.and_then(|kind| shown(kind.name())),
    ),
    key(
        "local",
        Text("an IP address of this host"),
        Means("none"),
        "Tunnel: local outer IP address.",
        |c, v| put(&mut c.ends.local, v.text()),
        |c| set_address(c.ends.local),
    ),
    key(
        "remote",
        Text("the IP address of the remote end"),
        Means("none"),
        "Tunnel: remote outer IP address.",
        |c, v| put(&mut c.ends.remote, v.text()),
        |c| set_address(c.ends.remote),
    ),
    key(
        "key",
        Number(0, u32::MAX as i64),
        Means("none"),
        "GRE: key of the tunnel.",
        |c, v| put(&mut c.ends.key, v.number().map(Some)),
        |c| c.ends.key.and_then(number),
    ),
    key(
        "checksum",
        Switch,
        Is("false"),
        "GRE: sends checksums.",
        |c, v| put(&mut c.ends.checksum, v.switch()),
        |c| switch(c.ends.checksum),
    ),
    key(
        "sequence",
        Switch,
        Is("false"),
        "GRE: sends sequence numbers and drops packets that arrive late.",
        |c, v| put(&mut c.ends.sequence, v.switch()),
        |c| switch(c.ends.sequence),
    ),
    key(
        "vni",
        Number(0, wire::vxlan::VNI_MAX as i64),
        Is("0"),
        "VXLAN: network identifier (VNI).",
        |c, v| put(&mut c.ends.vni, v.number()),
        |c| number(c.ends.vni),
    ),
    key(
        "dstport",
        Number(1, 65_535),
        Is("4789"),
        "VXLAN: UDP destination port.",
        |c, v| put(&mut c.ends.l4port, v.number().map(L4Port)),
        |c| number(c.ends.l4port.0),
    ),
    key(
        "ttl",
        Number(1, 255),
        Means("the sysctl net.inet.ip.ttl"),
        "Tunnel: TTL of the outer header.",
        |c, v| put(&mut c.ends.ttl, v.number().map(Some)),
        |c| c.ends.ttl.and_then(number),
    ),
    key(
        "peer",
        Text("the IPv4 address of the remote end"),
        Means("none"),
        "Tunnel: inner IPv4 address of the remote end.",
        |c, v| put(&mut c.peer, v.text().map(Some)),
        |c| c.peer.and_then(shown),
    ),
];

const ADVERTISE: &str = "Sends router advertisements while the host forwards IPv6.";
const ADDRESSES: &str =
    "IPv4 and IPv6 addresses of the iface, with prefix lengths; auto: IPv6 autoconfiguration; dhcp: an IPv4 lease.";

/// Adds an address to an iface. The words `auto` and `dhcp` enable autoconfiguration and DHCP
/// instead.
pub(super) fn add_address(iface: &mut IfaceConfig, item: &Item) -> Result<(), String> {
    match item.text() {
        Some("auto") => iface.accept_rtadv = true,
        Some("dhcp") => iface.dhcp = true,
        Some(text) if text.contains(':') => iface.addresses6.push(address6(item)?),
        _ => iface.addresses.push(address(item)?),
    }
    Ok(())
}

/// Returns the value of `addresses`: IPv4 addresses, IPv6 addresses, `auto` and `dhcp`.
fn addresses(iface: &IfaceConfig) -> impl Iterator<Item = String> {
    let v4 = iface.addresses.iter().map(|own| format!("{}/{}", own.addr, own.len));
    let v6 = iface.addresses6.iter().map(|own| format!("{}/{}", own.addr, own.len));
    let words = [(iface.accept_rtadv, "auto"), (iface.dhcp, "dhcp")];
    v4.chain(v6).chain(words.into_iter().filter(|(on, _)| *on).map(|(_, word)| word.to_string()))
}

/// Returns the value of a key whose address is unspecified if the key is not set.
fn set_address(addr: IpAddr) -> Option<Item> {
    Some(addr).filter(|addr| !addr.is_unspecified()).and_then(shown)
}

/// Parses an IPv4 `ADDRESS/LENGTH`.
fn address(item: &Item) -> Result<IfaceAddr, String> {
    let word = item.text().filter(|word| word.contains('/'));
    let word = word
        .ok_or_else(|| "expected auto, dhcp, or an address with its prefix length such as 10.0.0.1/24".to_string())?;
    address::own_address(word).map_err(|why| why.to_string())
}

/// Parses an IPv6 `ADDRESS/LENGTH`.
fn address6(item: &Item) -> Result<inet::ip6::IfaceAddr6, String> {
    address::six::own_address(item.text().unwrap_or_default()).map_err(|why| why.to_string())
}
