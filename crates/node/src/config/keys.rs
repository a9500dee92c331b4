//! The vocabulary: every key of a host, an iface, a route, a neighbor, a service, declared once for file and flags.

use super::{HostConfig, IfaceConfig, NeighborConfig, RouteConfig, ServiceConfig, ServiceKind, SwitchFile, check};
use crate::{isr, words};
use inet::iface::IfaceAddr;
use port::spec::Spec;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use wire::L4Port;

/// A value as it was found.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// From the command line: its form is what the key wants.
    Word(String),
    /// A string.
    Text(String),
    /// A whole number.
    Number(i64),
    /// true or false.
    Bool(bool),
    /// A list.
    List(Vec<Item>),
    /// Something no key takes: what it is.
    Other(&'static str),
}

impl Item {
    fn text(&self) -> Option<&str> {
        match self {
            Item::Word(text) | Item::Text(text) => Some(text),
            _ => None,
        }
    }

    fn number(&self) -> Option<i64> {
        match self {
            Item::Number(n) => Some(*n),
            Item::Word(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// How it looks in a message.
    pub fn shown(&self) -> String {
        let text = match self {
            Item::Word(text) | Item::Text(text) => format!("'{text}'"),
            Item::Number(n) => n.to_string(),
            Item::Bool(b) => b.to_string(),
            Item::List(_) => "a list".to_string(),
            Item::Other(what) => what.to_string(),
        };
        text.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect()
    }
}

/// One key of a `T`.
pub struct Key<T> {
    /// The word.
    pub name: &'static str,
    /// The sentence.
    pub about: &'static str,
    /// Takes a value, or says what was expected.
    pub set: fn(&mut T, &Item) -> Result<(), String>,
}

impl<T> std::fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const fn key<T>(name: &'static str, about: &'static str, set: fn(&mut T, &Item) -> Result<(), String>) -> Key<T> {
    Key { name, about, set }
}

fn text<T: FromStr>(item: &Item, expected: &str) -> Result<T, String> {
    item.text().and_then(|text| text.parse().ok()).ok_or_else(|| format!("expected {expected}"))
}

fn number<T: TryFrom<i64>>(item: &Item, min: i64, max: i64) -> Result<T, String> {
    let n = item.number().filter(|n| (min..=max).contains(n)).and_then(|n| T::try_from(n).ok());
    n.ok_or_else(|| format!("expected a number from {min} to {max}"))
}

fn within<T: TryFrom<i64>>(item: &Item, range: &RangeInclusive<i64>) -> Result<T, String> {
    number(item, *range.start(), *range.end())
}

fn switch(item: &Item) -> Result<bool, String> {
    match item {
        Item::Bool(on) => Ok(*on),
        Item::Word(word) if matches!(word.as_str(), "on" | "true" | "1") => Ok(true),
        Item::Word(word) if matches!(word.as_str(), "off" | "false" | "0") => Ok(false),
        _ => Err("expected true or false".to_string()),
    }
}

fn put<T>(into: &mut T, value: Result<T, String>) -> Result<(), String> {
    *into = value?;
    Ok(())
}

/// A name that can be a file's and stand in a message.
fn name(item: &Item, longest: usize) -> Result<String, String> {
    let good = |name: &&str| {
        (1..=longest).contains(&name.len())
            && !name.starts_with(['.', '-'])
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    let found = item.text().filter(good).map(str::to_string);
    found.ok_or_else(|| format!("expected a name of 1 to {longest} letters, digits, '.', '_' and '-'"))
}

/// The keys of a `[[host]]`, also those of `--set`.
pub const HOST: &[Key<HostConfig>] = &[
    key("name", "Its name.", |c, v| put(&mut c.name, name(v, 64))),
    key("locks", "Its locks: up (one thread), light or heavy.", |c, v| {
        let known = v.text().filter(|word| matches!(*word, "up" | "light" | "heavy")).map(str::to_string);
        put(&mut c.locks, known.ok_or_else(|| "expected up, light or heavy".to_string()))
    }),
    key(
        "stacks",
        "Stacks that it is made of, a thread each: every flow is one's; 1 or more, with locks = 'up'.",
        |c, v| put(&mut c.stacks, number(v, 1, isr::WORKSTREAMS_MAX as i64)),
    ),
    key("threads", "Threads that enter it; more than one needs locks.", |c, v| {
        put(&mut c.threads, within(v, &check::THREADS))
    }),
    key("core", "The core its thread is pinned to.", |c, v| put(&mut c.core, number(v, 0, 1023).map(Some))),
    key(
        "context",
        "How the current context is found: register, or with locks = 'light' or 'heavy' inline or call.",
        |c, v| put(&mut c.context, text(v, "register, inline or call")),
    ),
    key("clock", "How time is read: timespec, timespec-tsc, ns or tsc.", |c, v| {
        put(&mut c.clock, text(v, "timespec, timespec-tsc, ns or tsc"))
    }),
    key("burst", "Frames taken from a port at a time, 1 to 256.", |c, v| put(&mut c.burst, within(v, &check::BURST))),
    key("seed", "Seed of all secrets, for runs that must repeat.", |c, v| {
        put(&mut c.seed, number(v, 0, i64::MAX).map(Some))
    }),
    key("isr.workstreams", "Workstreams of its netisr; 0: who takes frames takes them through the stack.", |c, v| {
        put(&mut c.isr.workstreams, number(v, 0, isr::WORKSTREAMS_MAX as i64))
    }),
    key("isr.bind", "A core for each of netisr's threads.", |c, v| put(&mut c.isr.bind, switch(v))),
    key("isr.maxqlimit", "The longest that a queue of netisr may be.", |c, v| {
        put(&mut c.isr.max_qlimit, number(v, 1, 65_536))
    }),
    key("isr.looks", "How often a thread of netisr looks again before it sleeps.", |c, v| {
        put(&mut c.isr.looks, number(v, 0, 1_000_000))
    }),
    key("stay", "Goes on when all its ports are over, until told to stop.", |c, v| put(&mut c.stay, switch(v))),
    key("control", "Where its control socket is.", |c, v| put(&mut c.control, path(v).map(Some))),
    key("pool.kind", "How free buffers are kept: stack, freelist, zone or malloc.", |c, v| {
        put(&mut c.pool_kind, text(v, "stack, freelist, zone or malloc"))
    }),
    key("pool.buffers", "Buffers in the pool.", |c, v| put(&mut c.pool_buffers, within(v, &check::POOL_BUFFERS))),
    key("pool.data", "Bytes of packet a buffer can hold.", |c, v| put(&mut c.pool_data, within(v, &check::POOL_DATA))),
    key("pool.pages", "Pages under the pool: 4k, 2m or 1g.", |c, v| put(&mut c.pool_pages, text(v, "4k, 2m or 1g"))),
    key(
        "pool.stride",
        "How far apart buffers lie: odd (of cache lines), or power2, which XDP's zero copy asks; else as the ports ask.",
        |c, v| put(&mut c.pool_stride, text(v, "odd or power2").map(Some)),
    ),
    key("pool.prefetch", "Ask the cache for buffers ahead.", |c, v| put(&mut c.pool_prefetch, switch(v))),
];

/// The keys of a `[[host.iface]]`.
pub const IFACE: &[Key<IfaceConfig>] = &[
    key("port", "The port, as in tap:tap0; see 'linerate ports'.", |c, v| {
        let spec = v.text().ok_or_else(|| "expected a port such as tap:tap0".to_string())?;
        Spec::parse(spec).map_err(|why| why.to_string())?;
        c.port = spec.to_string();
        Ok(())
    }),
    key("name", "Its name; the port's if not given.", |c, v| put(&mut c.name, name(v, 32).map(Some))),
    key("mac", "Its MAC address; random if not given, repeatable under `seed`.", |c, v| {
        put(&mut c.mac, station(v).map(Some))
    }),
    key("addresses", "Its addresses: a list of A/LEN, of IPv4 and of IPv6.", |c, v| {
        let one = std::slice::from_ref(v);
        let items = if let Item::List(items) = v { items.as_slice() } else { one };
        let six = |item: &&Item| item.text().is_some_and(|text| text.contains(':'));
        put(&mut c.addresses6, items.iter().filter(six).map(address6).collect())?;
        put(&mut c.addresses, items.iter().filter(|item| !six(item)).map(address).collect())
    }),
    key("mtu", "Its MTU in bytes; the device's if not given, or 1500 where there is none.", |c, v| {
        put(&mut c.mtu, within(v, &check::MTU).map(Some))
    }),
    key("ip4csum", "Leave IPv4 header checksums to the port.", |c, v| put(&mut c.ip4csum, switch(v))),
    key("udp4csum", "Leave UDP checksums to the port.", |c, v| put(&mut c.udp4csum, switch(v).map(Some))),
    key("tso4", "Leave it to the port to cut up large TCP segments.", |c, v| put(&mut c.tso4, switch(v).map(Some))),
    key("rxcsum", "Believe the port's verdict on received checksums.", |c, v| put(&mut c.rxcsum, switch(v).map(Some))),
    key("tunnel", "Not a port, but a tunnel: gif, gre, etherip or vxlan.", |c, v| {
        let kind = v.text().and_then(words::tunnel::kind_of).map(Some);
        put(&mut c.tunnel, kind.ok_or_else(|| "expected gif, gre, etherip or vxlan".to_string()))
    }),
    key("local", "A tunnel's end here.", |c, v| put(&mut c.ends.local, text(v, "an IP address of this host"))),
    key("remote", "A tunnel's far end.", |c, v| put(&mut c.ends.remote, text(v, "the far end's IP address"))),
    key("key", "GRE: the key.", |c, v| put(&mut c.ends.key, number(v, 0, u32::MAX.into()).map(Some))),
    key("checksum", "GRE: send checksums.", |c, v| put(&mut c.ends.checksum, switch(v))),
    key("sequence", "GRE: send sequence numbers, and drop late packets.", |c, v| put(&mut c.ends.sequence, switch(v))),
    key("vni", "VXLAN: the network identifier.", |c, v| {
        put(&mut c.ends.vni, number(v, 0, wire::vxlan::VNI_MAX.into()))
    }),
    key("dstport", "VXLAN: the L4 port; 4789 if not given.", |c, v| {
        put(&mut c.ends.l4port, number(v, 1, 65_535).map(L4Port))
    }),
    key("ttl", "A tunnel's TTL outside; the knob's if not given.", |c, v| {
        put(&mut c.ends.ttl, number(v, 1, 255).map(Some))
    }),
    key("peer", "A tunnel's far end inside, the other end of its address.", |c, v| {
        put(&mut c.peer, text(v, "the far end's IPv4 address").map(Some))
    }),
];

/// The keys of a `[[switch]]`.
pub const SWITCH: &[Key<SwitchFile>] = &[
    key("name", "Its name.", |c, v| put(&mut c.name, name(v, 64))),
    key("ports", "Its ports: a list, as in pair:x; see 'linerate ports'.", |c, v| put(&mut c.ports, list(v, "ports"))),
    key("stp", "A spanning tree of all its ports: rstp or stp.", |c, v| {
        let known = v.text().filter(|word| matches!(*word, "rstp" | "stp")).map(|word| Some(word.to_string()));
        put(&mut c.stp, known.ok_or_else(|| "expected rstp or stp".to_string()))
    }),
    key("priority", "Its priority in that tree, in steps of 4096; 32768 if not given.", |c, v| {
        put(&mut c.priority, number(v, 0, 61_440).map(Some))
    }),
    key("words", "Words said to it before it begins: a list, as in 'ifconfig s1 edge p1'.", |c, v| {
        put(&mut c.words, list(v, "lines of words"))
    }),
    key("mac", "Its MAC address; one of its own if not given.", |c, v| put(&mut c.mac, station(v).map(Some))),
    key("control", "Where its control socket is.", |c, v| put(&mut c.control, path(v).map(Some))),
];

/// One station's address.
fn station(item: &Item) -> Result<wire::Mac, String> {
    let mac: wire::Mac = text(item, "a MAC address such as 02:00:00:00:00:01")?;
    let good = !mac.is_multicast() && mac != wire::Mac::ZERO;
    good.then_some(mac).ok_or_else(|| "expected one station's MAC address".to_string())
}

fn path(item: &Item) -> Result<std::path::PathBuf, String> {
    let path = item.text().filter(|path| !path.is_empty() && !path.contains(char::is_control));
    path.map(Into::into).ok_or_else(|| "expected a path".to_string())
}

fn list(item: &Item, what: &str) -> Result<Vec<String>, String> {
    let one = std::slice::from_ref(item);
    let items = if let Item::List(items) = item { items.as_slice() } else { one };
    let each = items.iter().map(|item| item.text().map(str::to_string));
    each.collect::<Option<_>>().ok_or_else(|| format!("expected a list of {what}"))
}

/// One `A/LEN`.
fn address(item: &Item) -> Result<IfaceAddr, String> {
    let word = item.text().filter(|word| word.contains('/'));
    let word = word.ok_or_else(|| "expected an address with its prefix length such as 10.0.0.1/24".to_string())?;
    words::own_address(word).map_err(|why| why.to_string())
}

/// The same of IPv6.
fn address6(item: &Item) -> Result<inet::ip6::IfaceAddr6, String> {
    words::six::own_address(item.text().unwrap_or_default()).map_err(|why| why.to_string())
}

/// The keys of a `[[host.route]]`.
pub const ROUTE: &[Key<RouteConfig>] = &[
    key("to", "Which destinations: A/LEN, or default.", |c, v| {
        if v.text() == Some("default") {
            return Ok(());
        }
        if v.text().is_some_and(|text| text.contains(':')) {
            return put(&mut c.to6, text(v, "a prefix such as 2001:db8::/32, or default").map(Some));
        }
        put(&mut c.to, text(v, "a prefix such as 10.0.0.0/8, or default"))
    }),
    key("via", "The gateway, if they are not on the link.", |c, v| {
        if v.text().is_some_and(|text| text.contains(':')) {
            return put(&mut c.via6, text(v, "a gateway's IPv6 address").map(Some));
        }
        put(&mut c.via, text(v, "a gateway's IPv4 address").map(Some))
    }),
    key("dev", "The iface; found by the gateway if not given.", |c, v| put(&mut c.dev, name(v, 32).map(Some))),
];

/// The keys of a `[[host.neighbor]]`.
pub const NEIGHBOR: &[Key<NeighborConfig>] = &[
    key("addr", "Its address.", |c, v| {
        let addr: Ipv4Addr = text(v, "an IPv4 address such as 10.0.0.2")?;
        let good = !addr.is_multicast() && !addr.is_unspecified() && !addr.is_broadcast();
        put(&mut c.addr, good.then_some(addr).ok_or_else(|| "expected one host's address".to_string()))
    }),
    key("mac", "Its MAC address.", |c, v| put(&mut c.mac, station(v))),
    key("dev", "The iface; found by the address if not given.", |c, v| put(&mut c.dev, name(v, 32).map(Some))),
];

/// The keys of a `[[host.service]]`.
pub const SERVICE: &[Key<ServiceConfig>] = &[
    key("kind", "What it does: echo and discard are over UDP.", |c, v| {
        put(&mut c.kind, text(v, ServiceKind::EXPECTED))
    }),
    key("port", "Its L4 port; the usual one if not given.", |c, v| put(&mut c.port, number(v, 1, 65_535).map(L4Port))),
];

/// Why a key was not taken: what to say about it.
pub fn set_key<T>(keys: &[Key<T>], into: &mut T, name: &str, value: &Item) -> Result<(), String> {
    match keys.iter().find(|key| key.name == name) {
        Some(key) => (key.set)(into, value).map_err(|why| format!("{name} = {}: {why}", value.shown())),
        None => Err(unknown(name, keys.iter().map(|key| key.name))),
    }
}

/// The sentence about a key that does not exist.
pub fn unknown<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    words::WordError::unknown("key", name, names).to_string()
}

impl HostConfig {
    /// Sets one key from the command line: a host's (`pool.kind=zone`) or a knob (`net.inet.ip.forwarding=1`).
    ///
    /// # Errors
    /// A sentence: the key and the nearest that exists, or the value and what was expected.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if HOST.iter().any(|key| key.name == name) {
            return set_key(HOST, self, name, &Item::Word(value.to_string()));
        }
        if !words::knob_names().any(|knob| knob == name) {
            let known = HOST.iter().map(|key| key.name).chain(words::knob_names());
            return Err(unknown(name, known));
        }
        self.set_knob(name, &Item::Word(value.to_string()))
    }

    /// Sets one knob.
    ///
    /// # Errors
    /// As [`HostConfig::set`].
    pub fn set_knob(&mut self, name: &str, value: &Item) -> Result<(), String> {
        let word = match value {
            Item::Word(word) | Item::Text(word) => word.clone(),
            Item::Number(n) => n.to_string(),
            Item::Bool(on) => on.to_string(),
            other => other.shown(),
        };
        let number = words::check_knob(name, &word).map_err(|why| why.to_string())?;
        self.sysctl.insert(name.to_string(), number);
        Ok(())
    }

    /// Sets one key of the iface given last.
    ///
    /// # Errors
    /// As [`HostConfig::set`]; also without an iface.
    pub fn set_iface(&mut self, name: &str, value: &str) -> Result<(), String> {
        let iface = self.ifaces.last_mut().ok_or_else(|| format!("{name} {value}: there is no --port before it"))?;
        if name != "addresses" {
            return set_key(IFACE, iface, name, &Item::Word(value.to_string()));
        }
        let item = Item::Word(value.to_string());
        if value.contains(':') {
            iface.addresses6.push(address6(&item).map_err(|why| format!("{value}: {why}"))?);
        } else {
            iface.addresses.push(address(&item).map_err(|why| format!("{value}: {why}"))?);
        }
        Ok(())
    }
}

impl HostConfig {
    /// Adds a route from `TO,VIA`: `default,10.0.0.1`.
    ///
    /// # Errors
    /// A sentence.
    pub fn set_route(&mut self, text: &str) -> Result<(), String> {
        let (to, via) = text.split_once(',').ok_or_else(|| format!("route '{text}': expected TO,VIA"))?;
        let mut route = RouteConfig::default();
        set_key(ROUTE, &mut route, "to", &Item::Word(to.to_string()))?;
        set_key(ROUTE, &mut route, "via", &Item::Word(via.to_string()))?;
        self.routes.push(route);
        Ok(())
    }
}
