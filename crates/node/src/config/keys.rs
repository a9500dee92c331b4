//! Declarations of all keys of hosts, ifaces, switches, routes, neighbors, services and metrics,
//! for files and for the command line.

mod given;
mod iface;
mod key;

use super::{
    HostConfig, MetricsAddress, MetricsConfig, NeighborConfig, RouteConfig, ServiceConfig, ServiceKind, SwitchFile,
    check,
};
use crate::{fpm, isr, sysctl};
use bridge::StpVersion;
pub use given::{Given, Item, Takes, Unset};
use given::{list, number, shown, switch, within};
use grammar::CommandError;
pub use iface::IFACE;
use iface::add_address;
use inet::fib::Prefix;
pub use key::Key;
use key::{MAC, key, put, station};
use std::net::{IpAddr, Ipv4Addr};
use wire::L4Port;

use self::Takes::{List, Name, Number, Switch, Text, Words};
use self::Unset::{Is, Means, Required};

const PATH: Takes = Text("a path");

/// Keys of a `[[host]]`, also used by `--set`.
pub const HOST: &[Key<HostConfig>] = &[
    key(
        "name",
        Name(64),
        Means("host0, host1, ..."),
        "Name of the host.",
        |c, v| put(&mut c.name, v.name()),
        |c| shown(&c.name),
    ),
    key(
        "locks",
        Words(&["up", "light", "heavy"]),
        Is("up"),
        "Kind of locks: up (single-threaded), light (spin) or heavy (semaphore).",
        |c, v| put(&mut c.locks, v.word()),
        |c| shown(&c.locks),
    ),
    key(
        "stacks",
        Number(1, isr::WORKSTREAMS_MAX as i64),
        Is("1"),
        "Number of stacks, each with its own thread; needs locks = 'up'. All packets of a flow are \
         processed by the same stack.",
        |c, v| put(&mut c.stacks, v.number()),
        |c| number(c.stacks),
    ),
    key(
        "threads",
        within(&check::THREADS),
        Is("1"),
        "Number of threads; more than one needs locks = 'light' or 'heavy'. In addition to the first thread, one \
         thread serves each UDP service, and each further thread receives frames from its share of the ports.",
        |c, v| put(&mut c.threads, v.number()),
        |c| number(c.threads),
    ),
    key(
        "core",
        Number(0, 1023),
        Means("any core"),
        "CPU core to which the first thread is pinned. If the ports are divided among threads, the others are pinned to \
         the next higher cores.",
        |c, v| put(&mut c.core, v.number().map(Some)),
        |c| c.core.and_then(number),
    ),
    key(
        "context",
        Words(&["register", "inline", "call"]),
        Is("register"),
        "Access to the running thread's context: register (passed as an argument), inline (thread-local variable) or \
         call (thread-local variable, read by function calls); inline and call need locks = 'light' or 'heavy'.",
        |c, v| put(&mut c.context, v.text()),
        |c| shown(c.context),
    ),
    key(
        "clock",
        Words(&["timespec", "timespec-tsc", "ns", "tsc"]),
        Is("tsc"),
        "Source of the time: the kernel (timespec) or the processor's cycle counter (all others).",
        |c, v| put(&mut c.clock, v.text()),
        |c| shown(c.clock),
    ),
    key(
        "burst",
        within(&check::BURST),
        Is("32"),
        "Maximum number of frames received from a port at once.",
        |c, v| put(&mut c.burst, v.number()),
        |c| number(c.burst),
    ),
    key(
        "seed",
        Number(0, i64::MAX),
        Means("random"),
        "Seed of all random secrets, for repeatable runs.",
        |c, v| put(&mut c.seed, v.number().map(Some)),
        |c| c.seed.and_then(number),
    ),
    key(
        "isr.workstreams",
        Number(0, isr::WORKSTREAMS_MAX as i64),
        Is("0"),
        "Number of netisr workstreams; with 0, the thread that receives a frame also processes it.",
        |c, v| put(&mut c.isr.workstreams, v.number()),
        |c| number(c.isr.workstreams),
    ),
    key(
        "isr.bind",
        Switch,
        Is("false"),
        "Pins each netisr thread to a CPU core.",
        |c, v| put(&mut c.isr.bind, v.switch()),
        |c| switch(c.isr.bind),
    ),
    key(
        "isr.maxqlimit",
        Number(1, 65_536),
        Is("10240"),
        "Maximum length of a netisr queue, in packets.",
        |c, v| put(&mut c.isr.max_qlimit, v.number()),
        |c| number(c.isr.max_qlimit),
    ),
    key(
        "isr.looks",
        Number(0, 1_000_000),
        Is("50"),
        "Number of times that an idle netisr thread polls its queue before it sleeps.",
        |c, v| put(&mut c.isr.looks, v.number()),
        |c| number(c.isr.looks),
    ),
    key(
        "dns",
        List("IP addresses"),
        Means("none"),
        "Name servers of the host, in the order of use.",
        |c, v| {
            let servers = v.list()?.iter().map(|text| text.parse().ok()).collect::<Option<_>>();
            put(&mut c.dns, servers.ok_or_else(|| v.expected()))
        },
        |c| list(&c.dns),
    ),
    key(
        "search",
        List("domain names"),
        Means("none"),
        "Search domains of the host, which complete short names.",
        |c, v| {
            let domains = Some(v.list()?).filter(|all| all.iter().all(|domain| wire::dns::is_host_name(domain)));
            let domains = domains.ok_or_else(|| v.expected())?;
            c.search = domains.iter().map(|domain| domain.trim_end_matches('.').to_ascii_lowercase()).collect();
            Ok(())
        },
        |c| list(&c.search),
    ),
    key(
        "stay",
        Switch,
        Is("false"),
        "Keeps the host running after all its ports have closed, until it is stopped.",
        |c, v| put(&mut c.stay, v.switch()),
        |c| switch(c.stay),
    ),
    key(
        "fpm.listen",
        Text("a loopback address with a port such as 127.0.0.1:2620"),
        Means("no routing engine can connect"),
        "Address of the kernel at which FRR's zebra connects to send its routes (FPM; zebra -M dplane_fpm_nl). If an iface has a mirror, it is an address in mirror.netns.",
        |c, v| put(&mut c.fpm.listen, v.text().and_then(|at| fpm::loopback(at).ok_or_else(|| v.expected())).map(Some)),
        |c| c.fpm.listen.and_then(shown),
    ),
    key(
        "fpm.stale",
        Text("a time from 0s to 86400s such as 120s"),
        Is("120s"),
        "Time for which the routes of a routing engine stay after it has disconnected.",
        |c, v| put(&mut c.fpm.stale, v.text::<String>().and_then(|text| fpm::stale(&text).ok_or_else(|| v.expected()))),
        |c| shown(format!("{}s", c.fpm.stale.as_secs())),
    ),
    key(
        "fpm.table",
        Number(1, u32::MAX as i64),
        Is("254"),
        "Routing table of the engine whose routes are used; 254 is the main table.",
        |c, v| put(&mut c.fpm.table, v.number()),
        |c| number(c.fpm.table),
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
        |c| c.fpm.marker.and_then(|(addr, len)| shown(format!("{addr}/{len}"))),
    ),
    key(
        "mirror.netns",
        Text("a network namespace: a name of 'ip netns', or a path"),
        Is("dataplane"),
        "Network namespace in which the mirrors of ifaces are created and the routing engine runs.",
        |c, v| put(&mut c.netns, v.text().and_then(|name: String| netns(name).ok_or_else(|| v.expected()))),
        |c| shown(&c.netns),
    ),
    key(
        "control",
        PATH,
        Means("in --control-dir"),
        "Path of the host's control socket.",
        |c, v| put(&mut c.control, v.path().map(Some)),
        |c| c.control.as_ref().and_then(|path| shown(path.display())),
    ),
    key(
        "pool.kind",
        Words(&["stack", "freelist", "zone", "malloc"]),
        Is("stack"),
        "Storage of free packet buffers: stack (array, last in first out), freelist (linked list), zone (per-thread \
         caches, like BSD's UMA) or malloc (the system's allocator).",
        |c, v| put(&mut c.pool_kind, v.text()),
        |c| shown(c.pool_kind),
    ),
    key(
        "pool.buffers",
        within(&check::POOL_BUFFERS),
        Is("4096"),
        "Number of buffers in the pool.",
        |c, v| put(&mut c.pool_buffers, v.number()),
        |c| number(c.pool_buffers),
    ),
    key(
        "pool.data",
        within(&check::POOL_DATA),
        Is("2048"),
        "Size of the packet data in a buffer, in bytes.",
        |c, v| put(&mut c.pool_data, v.number()),
        |c| number(c.pool_data),
    ),
    key(
        "pool.pages",
        Words(&["4k", "2m", "1g"]),
        Is("4k"),
        "Page size of the pool's memory.",
        |c, v| put(&mut c.pool_pages, v.text()),
        |c| shown(c.pool_pages),
    ),
    key(
        "pool.stride",
        Words(&["odd", "power2"]),
        Means("as the ports require"),
        "Distance between buffers: an odd number of cache lines, or a power of two, which XDP zero copy requires.",
        |c, v| put(&mut c.pool_stride, v.text().map(Some)),
        |c| c.pool_stride.and_then(shown),
    ),
    key(
        "pool.prefetch",
        Switch,
        Is("false"),
        "Prefetches buffers into the CPU cache before use.",
        |c, v| put(&mut c.pool_prefetch, v.switch()),
        |c| switch(c.pool_prefetch),
    ),
];

/// Keys of a `[[switch]]`.
pub const SWITCH: &[Key<SwitchFile>] = &[
    key(
        "name",
        Name(64),
        Means("switch0, switch1, ..."),
        "Name of the switch.",
        |c, v| put(&mut c.name, v.name()),
        |c| shown(&c.name),
    ),
    key(
        "ports",
        List("ports such as pair:x"),
        Required,
        "Ports of the switch; 'linerate ports' lists the kinds.",
        |c, v| put(&mut c.ports, v.list()),
        |c| list(&c.ports),
    ),
    key(
        "stp",
        Words(&["rstp", "stp"]),
        Means("no spanning tree"),
        "Spanning tree protocol on all ports.",
        |c, v| put(&mut c.stp, v.word().map(|word| StpVersion::named(&word))),
        |c| c.stp.and_then(|version| shown(version.word())),
    ),
    key(
        "priority",
        Number(0, 61_440),
        Means("32768"),
        "Bridge priority in the spanning tree, in steps of 4096.",
        |c, v| put(&mut c.priority, v.number().map(Some)),
        |c| c.priority.and_then(number),
    ),
    key(
        "commands",
        List("control commands such as 'ifconfig s1 edge p1'"),
        Means("none"),
        "Control commands that run before the switch starts.",
        |c, v| put(&mut c.commands, v.list()),
        |c| list(&c.commands),
    ),
    key(
        "mac",
        MAC,
        Means("random"),
        "MAC address of the switch.",
        |c, v| put(&mut c.mac, station(v).map(Some)),
        |c| c.mac.and_then(shown),
    ),
    key(
        "control",
        PATH,
        Means("in --control-dir"),
        "Path of the switch's control socket.",
        |c, v| put(&mut c.control, v.path().map(Some)),
        |c| c.control.as_ref().and_then(|path| shown(path.display())),
    ),
];

/// Keys of `[metrics]`. None of them can change while the process runs.
pub const METRICS: &[Key<MetricsConfig>] = &[
    key(
        "listen",
        Text(MetricsAddress::FORM),
        Means("no metrics are served"),
        "Address at which metrics are served; --metrics overrides it.",
        |c, v| put(&mut c.listen, v.text().map(Some)),
        |c| c.listen.as_ref().and_then(shown),
    ),
    key(
        "series_max",
        within(&check::SERIES),
        Is("10000"),
        "Maximum number of samples in one answer. Beyond it, samples are left out, and linerate_metrics_truncated is 1.",
        |c, v| put(&mut c.series_max, v.number()),
        |c| number(c.series_max),
    ),
];

/// Keys of a `[[host.route]]`.
pub const ROUTE: &[Key<RouteConfig>] = &[
    key(
        "to",
        Text("a prefix such as 10.0.0.0/8, or default"),
        Required,
        "Destination prefix of the route.",
        |c, v| {
            if v.item.text() == Some("default") {
                return Ok(());
            }
            if v.has_colon() {
                return put(&mut c.to6, v.text_or("a prefix such as 2001:db8::/32, or default").map(Some));
            }
            put(&mut c.to, v.text())
        },
        destination,
    ),
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
        |c| c.via6.and_then(shown).or(c.via.and_then(shown)),
    ),
    key(
        "dev",
        Name(32),
        Means("the iface that reaches via"),
        "Outgoing iface; a route needs via or dev.",
        |c, v| put(&mut c.dev, v.name().map(Some)),
        |c| c.dev.as_ref().and_then(shown),
    ),
];

/// Returns `name` if it can be the name or the path of a network namespace.
fn netns(name: String) -> Option<String> {
    let is_name = !name.is_empty() && !matches!(name.as_str(), "." | "..") && !name.contains(char::is_control);
    is_name.then_some(name)
}

/// Returns the value of `to`.
fn destination(route: &RouteConfig) -> Option<Item> {
    match (route.to6, route.destination6()) {
        (Some(to), _) => shown(to),
        (None, None) if route.to != Prefix::DEFAULT => shown(route.to),
        _ => shown("default"),
    }
}

/// Keys of a `[[host.neighbor]]`.
pub const NEIGHBOR: &[Key<NeighborConfig>] = &[
    key(
        "addr",
        Text("an address such as 10.0.0.2"),
        Required,
        "Address of the neighbor.",
        |c, v| {
            let addr: IpAddr = v.text()?;
            let good = !addr.is_multicast() && !addr.is_unspecified() && addr != Ipv4Addr::BROADCAST;
            put(&mut c.addr, good.then_some(addr).ok_or_else(|| "expected a unicast address".to_string()))
        },
        |c| shown(c.addr),
    ),
    key("mac", MAC, Required, "MAC address of the neighbor.", |c, v| put(&mut c.mac, station(v)), |c| shown(c.mac)),
    key(
        "dev",
        Name(32),
        Means("the iface that reaches addr"),
        "Iface of the neighbor. IPv6 requires it.",
        |c, v| put(&mut c.dev, v.name().map(Some)),
        |c| c.dev.as_ref().and_then(shown),
    ),
];

/// Keys of a `[[host.service]]`.
pub const SERVICE: &[Key<ServiceConfig>] = &[
    key(
        "kind",
        Words(ServiceKind::ALL_WORDS),
        Required,
        "Kind of the service; echo and discard use UDP.",
        |c, v| put(&mut c.kind, v.text()),
        |c| shown(c.kind),
    ),
    key(
        "port",
        Number(1, 65_535),
        Means("the usual port of the kind"),
        "L4 port that the service listens on.",
        |c, v| put(&mut c.port, v.number().map(L4Port)),
        |c| number(c.port.0),
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
