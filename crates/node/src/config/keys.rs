//! Declarations of all keys of hosts, ifaces, switches, routes, neighbors and services, for files
//! and for the command line.

mod given;

use super::{HostConfig, IfaceConfig, NeighborConfig, RouteConfig, ServiceConfig, ServiceKind, SwitchFile, check};
use crate::{address, fpm, isr, sysctl, tunnel};
use bridge::StpVersion;
use given::within;
pub use given::{Given, Item, Takes, Unset};
use grammar::CommandError;
use inet::iface::IfaceAddr;
use port::spec::Spec;
use std::net::{IpAddr, Ipv4Addr};
use wire::L4Port;

/// Declaration of a key that sets a field of `T`; used by the parser and the documentation.
pub struct Key<T> {
    /// Name of the key in files and on the command line.
    pub name: &'static str,
    /// Type and range of the key's value.
    pub takes: Takes,
    /// Value or behavior if the key is not given.
    pub unset: Unset,
    /// Description, as a sentence.
    pub about: &'static str,
    /// Parses the value and stores it. An error describes the expected form.
    pub set: fn(&mut T, Given<'_>) -> Result<(), String>,
}

impl<T> std::fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const fn key<T>(
    name: &'static str,
    takes: Takes,
    unset: Unset,
    about: &'static str,
    set: fn(&mut T, Given<'_>) -> Result<(), String>,
) -> Key<T> {
    Key { name, takes, unset, about, set }
}

fn put<T>(into: &mut T, value: Result<T, String>) -> Result<(), String> {
    *into = value?;
    Ok(())
}

use self::Takes::{List, Name, Number, Switch, Text, Words};
use self::Unset::{Is, Means, Required};

const MAC: Takes = Text("a MAC address such as 02:00:00:00:00:01");
const PATH: Takes = Text("a path");

/// Keys of a `[[host]]`, also used by `--set`.
pub const HOST: &[Key<HostConfig>] = &[
    key("name", Name(64), Means("host0, host1, ..."), "Name of the host.", |c, v| put(&mut c.name, v.name())),
    key(
        "locks",
        Words(&["up", "light", "heavy"]),
        Is("up"),
        "Kind of locks: up (single-threaded), light (spin) or heavy (semaphore).",
        |c, v| put(&mut c.locks, v.word()),
    ),
    key(
        "stacks",
        Number(1, isr::WORKSTREAMS_MAX as i64),
        Is("1"),
        "Number of stacks, each with its own thread; needs locks = 'up'. All packets of a flow are \
         processed by the same stack.",
        |c, v| put(&mut c.stacks, v.number()),
    ),
    key(
        "threads",
        within(&check::THREADS),
        Is("1"),
        "Number of threads; more than one needs locks = 'light' or 'heavy'. In addition to the first thread, one \
         thread serves each UDP service, and each further thread receives frames from its share of the ports.",
        |c, v| put(&mut c.threads, v.number()),
    ),
    key(
        "core",
        Number(0, 1023),
        Means("any core"),
        "CPU core to which the first thread is pinned. If the ports are divided among threads, the others are pinned to \
         the next higher cores.",
        |c, v| put(&mut c.core, v.number().map(Some)),
    ),
    key(
        "context",
        Words(&["register", "inline", "call"]),
        Is("register"),
        "Access to the running thread's context: register (passed as an argument), inline (thread-local variable) or \
         call (thread-local variable, read by function calls); inline and call need locks = 'light' or 'heavy'.",
        |c, v| put(&mut c.context, v.text()),
    ),
    key(
        "clock",
        Words(&["timespec", "timespec-tsc", "ns", "tsc"]),
        Is("tsc"),
        "Source of the time: the kernel (timespec) or the processor's cycle counter (all others).",
        |c, v| put(&mut c.clock, v.text()),
    ),
    key("burst", within(&check::BURST), Is("32"), "Maximum number of frames received from a port at once.", |c, v| {
        put(&mut c.burst, v.number())
    }),
    key("seed", Number(0, i64::MAX), Means("random"), "Seed of all random secrets, for repeatable runs.", |c, v| {
        put(&mut c.seed, v.number().map(Some))
    }),
    key(
        "isr.workstreams",
        Number(0, isr::WORKSTREAMS_MAX as i64),
        Is("0"),
        "Number of netisr workstreams; with 0, the thread that receives a frame also processes it.",
        |c, v| put(&mut c.isr.workstreams, v.number()),
    ),
    key("isr.bind", Switch, Is("false"), "Pins each netisr thread to a CPU core.", |c, v| {
        put(&mut c.isr.bind, v.switch())
    }),
    key("isr.maxqlimit", Number(1, 65_536), Is("10240"), "Maximum length of a netisr queue, in packets.", |c, v| {
        put(&mut c.isr.max_qlimit, v.number())
    }),
    key(
        "isr.looks",
        Number(0, 1_000_000),
        Is("50"),
        "Number of times that an idle netisr thread polls its queue before it sleeps.",
        |c, v| put(&mut c.isr.looks, v.number()),
    ),
    key("dns", List("IP addresses"), Means("none"), "Name servers of the host, in the order of use.", |c, v| {
        let servers = v.list()?.iter().map(|text| text.parse().ok()).collect::<Option<_>>();
        put(&mut c.dns, servers.ok_or_else(|| v.expected()))
    }),
    key(
        "search",
        List("domain names"),
        Means("none"),
        "Search domains of the host, which complete short names.",
        |c, v| {
            let domains = Some(v.list()?).filter(|all| all.iter().all(|domain| wire::dns::is_host_name(domain)));
            put(&mut c.search, domains.ok_or_else(|| v.expected()))
        },
    ),
    key(
        "stay",
        Switch,
        Is("false"),
        "Keeps the host running after all its ports have closed, until it is stopped.",
        |c, v| put(&mut c.stay, v.switch()),
    ),
    key(
        "fpm.listen",
        Text("a loopback address with a port such as 127.0.0.1:2620"),
        Means("no routing engine can connect"),
        "Address of the kernel at which FRR's zebra connects to send its routes (FPM; zebra -M dplane_fpm_nl).",
        |c, v| put(&mut c.fpm.listen, v.text().and_then(|at| fpm::loopback(at).ok_or_else(|| v.expected())).map(Some)),
    ),
    key(
        "fpm.stale",
        Text("a time from 0s to 86400s such as 120s"),
        Is("120s"),
        "Time for which the routes of a routing engine stay after it has disconnected.",
        |c, v| put(&mut c.fpm.stale, v.text::<String>().and_then(|text| fpm::stale(&text).ok_or_else(|| v.expected()))),
    ),
    key(
        "fpm.table",
        Number(1, u32::MAX as i64),
        Is("254"),
        "Routing table of the engine whose routes are used; 254 is the main table.",
        |c, v| put(&mut c.fpm.table, v.number()),
    ),
    key(
        "fpm.marker",
        Text("a prefix such as 192.0.2.254/32"),
        Means("none"),
        "Prefix that the engine announces after all others: stale routes are then removed at once.",
        |c, v| {
            put(
                &mut c.fpm.marker,
                v.text::<String>().and_then(|text| fpm::marker(&text).ok_or_else(|| v.expected())).map(Some),
            )
        },
    ),
    key("control", PATH, Means("in --control-dir"), "Path of the host's control socket.", |c, v| {
        put(&mut c.control, v.path().map(Some))
    }),
    key(
        "pool.kind",
        Words(&["stack", "freelist", "zone", "malloc"]),
        Is("stack"),
        "Storage of free packet buffers: stack (array, last in first out), freelist (linked list), zone (per-thread \
         caches, like BSD's UMA) or malloc (the system's allocator).",
        |c, v| put(&mut c.pool_kind, v.text()),
    ),
    key("pool.buffers", within(&check::POOL_BUFFERS), Is("4096"), "Number of buffers in the pool.", |c, v| {
        put(&mut c.pool_buffers, v.number())
    }),
    key(
        "pool.data",
        within(&check::POOL_DATA),
        Is("2048"),
        "Size of the packet data in a buffer, in bytes.",
        |c, v| put(&mut c.pool_data, v.number()),
    ),
    key("pool.pages", Words(&["4k", "2m", "1g"]), Is("4k"), "Page size of the pool's memory.", |c, v| {
        put(&mut c.pool_pages, v.text())
    }),
    key(
        "pool.stride",
        Words(&["odd", "power2"]),
        Means("as the ports require"),
        "Distance between buffers: an odd number of cache lines, or a power of two, which XDP zero copy requires.",
        |c, v| put(&mut c.pool_stride, v.text().map(Some)),
    ),
    key("pool.prefetch", Switch, Is("false"), "Prefetches buffers into the CPU cache before use.", |c, v| {
        put(&mut c.pool_prefetch, v.switch())
    }),
];

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
    ),
    key("name", Name(32), Means("the port's name"), "Name of the iface; required for a tunnel.", |c, v| {
        put(&mut c.name, v.name().map(Some))
    }),
    key("mac", MAC, Means("random; repeatable with seed"), "MAC address of the iface.", |c, v| {
        put(&mut c.mac, station(v).map(Some))
    }),
    key("addresses", List("A/LEN, auto or dhcp"), Means("none"), ADDRESSES, |c, v| {
        let mut iface = IfaceConfig::default();
        v.items().iter().try_for_each(|item| add_address(&mut iface, item))?;
        let IfaceConfig { addresses, addresses6, accept_rtadv, dhcp, .. } = iface;
        (c.addresses, c.addresses6, c.accept_rtadv, c.dhcp) = (addresses, addresses6, accept_rtadv, dhcp);
        Ok(())
    }),
    key(
        "mtu",
        within(&check::MTU),
        Means("the device's; 1500 without a device"),
        "MTU of the iface, in bytes.",
        |c, v| put(&mut c.mtu, v.number().map(Some)),
    ),
    key("advertise", Switch, Is("false"), ADVERTISE, |c, v| put(&mut c.advertise, v.switch())),
    key("ip4csum", Switch, Is("false"), "Offloads IPv4 header checksums to the port.", |c, v| {
        put(&mut c.ip4csum, v.switch())
    }),
    key("udp4csum", Switch, Means("on if tso4 is on"), "Offloads TCP and UDP checksums to the port.", |c, v| {
        put(&mut c.udp4csum, v.switch().map(Some))
    }),
    key("tso4", Switch, Means("on if the port supports it"), "Offloads TCP segmentation to the port.", |c, v| {
        put(&mut c.tso4, v.switch().map(Some))
    }),
    key(
        "rxcsum",
        Switch,
        Means("on if the port supports it"),
        "Uses the port's verification of received checksums.",
        |c, v| put(&mut c.rxcsum, v.switch().map(Some)),
    ),
    key(
        "tunnel",
        Words(&["gif", "gre", "etherip", "vxlan"]),
        Means("none: a port"),
        "Kind of tunnel; an iface is either a tunnel or has a port.",
        |c, v| put(&mut c.tunnel, v.word().map(|kind| tunnel::kind_of(&kind))),
    ),
    key("local", Text("an IP address of this host"), Means("none"), "Tunnel: local outer IP address.", |c, v| {
        put(&mut c.ends.local, v.text())
    }),
    key(
        "remote",
        Text("the IP address of the remote end"),
        Means("none"),
        "Tunnel: remote outer IP address.",
        |c, v| put(&mut c.ends.remote, v.text()),
    ),
    key("key", Number(0, u32::MAX as i64), Means("none"), "GRE: key of the tunnel.", |c, v| {
        put(&mut c.ends.key, v.number().map(Some))
    }),
    key("checksum", Switch, Is("false"), "GRE: sends checksums.", |c, v| put(&mut c.ends.checksum, v.switch())),
    key("sequence", Switch, Is("false"), "GRE: sends sequence numbers and drops packets that arrive late.", |c, v| {
        put(&mut c.ends.sequence, v.switch())
    }),
    key("vni", Number(0, wire::vxlan::VNI_MAX as i64), Is("0"), "VXLAN: network identifier (VNI).", |c, v| {
        put(&mut c.ends.vni, v.number())
    }),
    key("dstport", Number(1, 65_535), Is("4789"), "VXLAN: UDP destination port.", |c, v| {
        put(&mut c.ends.l4port, v.number().map(L4Port))
    }),
    key("ttl", Number(1, 255), Means("the sysctl net.inet.ip.ttl"), "Tunnel: TTL of the outer header.", |c, v| {
        put(&mut c.ends.ttl, v.number().map(Some))
    }),
    key(
        "peer",
        Text("the IPv4 address of the remote end"),
        Means("none"),
        "Tunnel: inner IPv4 address of the remote end.",
        |c, v| put(&mut c.peer, v.text().map(Some)),
    ),
];

/// Keys of a `[[switch]]`.
pub const SWITCH: &[Key<SwitchFile>] = &[
    key("name", Name(64), Means("switch0, switch1, ..."), "Name of the switch.", |c, v| put(&mut c.name, v.name())),
    key(
        "ports",
        List("ports such as pair:x"),
        Required,
        "Ports of the switch; 'linerate ports' lists the kinds.",
        |c, v| put(&mut c.ports, v.list()),
    ),
    key("stp", Words(&["rstp", "stp"]), Means("no spanning tree"), "Spanning tree protocol on all ports.", |c, v| {
        put(&mut c.stp, v.word().map(|word| StpVersion::named(&word)))
    }),
    key(
        "priority",
        Number(0, 61_440),
        Means("32768"),
        "Bridge priority in the spanning tree, in steps of 4096.",
        |c, v| put(&mut c.priority, v.number().map(Some)),
    ),
    key(
        "commands",
        List("control commands such as 'ifconfig s1 edge p1'"),
        Means("none"),
        "Control commands that run before the switch starts.",
        |c, v| put(&mut c.commands, v.list()),
    ),
    key("mac", MAC, Means("random"), "MAC address of the switch.", |c, v| put(&mut c.mac, station(v).map(Some))),
    key("control", PATH, Means("in --control-dir"), "Path of the switch's control socket.", |c, v| {
        put(&mut c.control, v.path().map(Some))
    }),
];

const ADVERTISE: &str = "Sends router advertisements while the host forwards IPv6.";
const ADDRESSES: &str =
    "IPv4 and IPv6 addresses of the iface, with prefix lengths; auto: IPv6 autoconfiguration; dhcp: an IPv4 lease.";

/// Adds an address to an iface. The words `auto` and `dhcp` enable autoconfiguration and DHCP
/// instead.
fn add_address(iface: &mut IfaceConfig, item: &Item) -> Result<(), String> {
    match item.text() {
        Some("auto") => iface.accept_rtadv = true,
        Some("dhcp") => iface.dhcp = true,
        Some(text) if text.contains(':') => iface.addresses6.push(address6(item)?),
        _ => iface.addresses.push(address(item)?),
    }
    Ok(())
}

/// Parses a unicast MAC address.
fn station(value: Given<'_>) -> Result<wire::Mac, String> {
    let mac: wire::Mac = value.text()?;
    let good = !mac.is_multicast() && mac != wire::Mac::ZERO;
    good.then_some(mac).ok_or_else(|| "expected a unicast MAC address".to_string())
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

/// Keys of a `[[host.route]]`.
pub const ROUTE: &[Key<RouteConfig>] = &[
    key("to", Text("a prefix such as 10.0.0.0/8, or default"), Required, "Destination prefix of the route.", |c, v| {
        if v.item.text() == Some("default") {
            return Ok(());
        }
        if v.has_colon() {
            return put(&mut c.to6, v.text_or("a prefix such as 2001:db8::/32, or default").map(Some));
        }
        put(&mut c.to, v.text())
    }),
    key(
        "via",
        Text("a gateway's IPv4 or IPv6 address"),
        Means("none: on the link"),
        "Address of the gateway.",
        |c, v| {
            if v.has_colon() {
                return put(&mut c.via6, v.text_or("a gateway's IPv6 address").map(Some));
            }
            put(&mut c.via, v.text_or("a gateway's IPv4 address").map(Some))
        },
    ),
    key("dev", Name(32), Means("the iface that reaches via"), "Outgoing iface; a route needs via or dev.", |c, v| {
        put(&mut c.dev, v.name().map(Some))
    }),
];

/// Keys of a `[[host.neighbor]]`.
pub const NEIGHBOR: &[Key<NeighborConfig>] = &[
    key("addr", Text("an address such as 10.0.0.2"), Required, "Address of the neighbor.", |c, v| {
        let addr: IpAddr = v.text()?;
        let good = !addr.is_multicast() && !addr.is_unspecified() && addr != Ipv4Addr::BROADCAST;
        put(&mut c.addr, good.then_some(addr).ok_or_else(|| "expected a unicast address".to_string()))
    }),
    key("mac", MAC, Required, "MAC address of the neighbor.", |c, v| put(&mut c.mac, station(v))),
    key("dev", Name(32), Means("the iface that reaches addr"), "Iface of the neighbor. IPv6 requires it.", |c, v| {
        put(&mut c.dev, v.name().map(Some))
    }),
];

/// Keys of a `[[host.service]]`.
pub const SERVICE: &[Key<ServiceConfig>] = &[
    key("kind", Words(ServiceKind::ALL_WORDS), Required, "Kind of the service; echo and discard use UDP.", |c, v| {
        put(&mut c.kind, v.text())
    }),
    key(
        "port",
        Number(1, 65_535),
        Means("the usual port of the kind"),
        "L4 port that the service listens on.",
        |c, v| put(&mut c.port, v.number().map(L4Port)),
    ),
];

/// Sets the key `name` of `into`. An error is a complete message that includes the key and the
/// value.
pub fn set_key<T>(keys: &[Key<T>], into: &mut T, name: &str, value: &Item) -> Result<(), String> {
    match keys.iter().find(|key| key.name == name) {
        Some(key) => {
            let given = Given { item: value, takes: key.takes };
            (key.set)(into, given).map_err(|why| format!("{name} = {}: {why}", value.shown()))
        }
        None => Err(unknown(name, keys.iter().map(|key| key.name))),
    }
}

/// Returns the error message for an unknown key.
pub fn unknown<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    CommandError::unknown("key", name, names).to_string()
}

impl HostConfig {
    /// Sets a key of the host (`pool.kind=zone`) or a sysctl (`net.inet.ip.forwarding=1`) from the
    /// command line.
    ///
    /// # Errors
    /// Returns a message with the unknown key and the nearest valid key, or with the invalid value
    /// and the expected form.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if HOST.iter().any(|key| key.name == name) {
            return set_key(HOST, self, name, &Item::Word(value.to_string()));
        }
        if !sysctl::names().any(|known| known == name) {
            let known = HOST.iter().map(|key| key.name).chain(sysctl::names());
            return Err(unknown(name, known));
        }
        self.set_sysctl(name, &Item::Word(value.to_string()))
    }

    /// Sets a sysctl.
    ///
    /// # Errors
    /// Returns an error as [`HostConfig::set`] does.
    pub fn set_sysctl(&mut self, name: &str, value: &Item) -> Result<(), String> {
        let word = match value {
            Item::Word(word) | Item::Text(word) => word.clone(),
            Item::Number(n) => n.to_string(),
            Item::Bool(on) => on.to_string(),
            other => other.shown(),
        };
        let number = sysctl::check(name, &word).map_err(|why| why.to_string())?;
        self.sysctl.insert(name.to_string(), number);
        Ok(())
    }

    /// Sets a key of the host's last iface. For `addresses`, adds one address.
    ///
    /// # Errors
    /// Returns an error as [`HostConfig::set`] does, or if the host has no iface.
    pub fn set_iface(&mut self, name: &str, value: &str) -> Result<(), String> {
        let iface = self.ifaces.last_mut().ok_or_else(|| format!("{name} '{value}': give --port first"))?;
        if name != "addresses" {
            return set_key(IFACE, iface, name, &Item::Word(value.to_string()));
        }
        add_address(iface, &Item::Word(value.to_string())).map_err(|why| format!("{value}: {why}"))
    }
}

impl HostConfig {
    /// Sets the search domains for host names.
    ///
    /// # Errors
    /// Returns an error message.
    pub fn set_search(&mut self, domains: &[String]) -> Result<(), String> {
        let items = domains.iter().map(|domain| Item::Word(domain.clone())).collect();
        set_key(HOST, self, "search", &Item::List(items))
    }

    /// Adds a route from text of the form `TO,VIA`, such as `default,10.0.0.1`.
    ///
    /// # Errors
    /// Returns an error message.
    pub fn set_route(&mut self, text: &str) -> Result<(), String> {
        let (to, via) = text.split_once(',').ok_or_else(|| format!("route '{text}': expected TO,VIA"))?;
        let mut route = RouteConfig::default();
        set_key(ROUTE, &mut route, "to", &Item::Word(to.to_string()))?;
        set_key(ROUTE, &mut route, "via", &Item::Word(via.to_string()))?;
        self.routes.push(route);
        Ok(())
    }
}
