//! `ip addr` and `ip link`, with iproute2's text and the key names of `ip -j`. The modules
//! `iproute` and `ipneigh` have `ip route` and `ip neigh`.

use super::context::Ctl;
use super::json::set;
use super::link::{Link, LinkCounters, Style, one_line};
use super::parse;
use super::{ifconfig, ipneigh, iproute, six, tunnel};
use crate::PortInfo;
use grammar::{CommandError, Form, Usage, Words, parse as parse_form};
use inet::iface::{Iface, IfaceKind};
use lock::Locks;
use serde_json::{Value, json};

const OBJECTS: &[&str] = &["address", "addr", "link", "route", "neighbor", "neighbour", "neigh"];
/// iproute2's value for an infinite lifetime.
const FOREVER: u32 = u32::MAX;

/// Address family selected by `-4`, by `-6`, or by neither option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Any,
    Four,
    Six,
}

/// Options of `ip`, before the object.
pub(crate) struct Options {
    pub(crate) json: bool,
    pub(crate) family: Family,
    pub(crate) style: Style,
}

/// Options of `ip`. `-p` and `-d` are accepted and have no effect.
const OPTIONS: &[Form<()>] = &[Form {
    grammar: "[-j,-json] [-4] [-6] [-s,-stats,-statistics] [-br,-brief] [-o,-oneline] [-p,-pretty] [-d,-details]",
    about: "",
    run: (),
}];

impl Options {
    /// Consumes the options.
    ///
    /// # Errors
    /// Returns an error for an unknown option.
    pub(crate) fn take(words: &mut Words<'_>) -> Result<Options, CommandError> {
        let (_, args) = parse_form(OPTIONS, words)?;
        if let Some(option) = words.peek().filter(|word| word.starts_with('-')) {
            let known = ["-j", "-4", "-6", "-s", "-br", "-o", "-p", "-d"];
            return Err(CommandError::unknown("option", option, known.into_iter()));
        }
        let family = match () {
            () if args.has("-6") => Family::Six,
            () if args.has("-4") => Family::Four,
            () => Family::Any,
        };
        let style = Style { statistics: args.has("-s"), brief: args.has("-br"), oneline: args.has("-o") };
        Ok(Options { json: args.has("-j"), family, style })
    }
}

/// Returns the usage of `ip`.
pub(super) fn usage() -> Vec<Usage> {
    let of = |grammar: &str, about| Usage { grammar: grammar.to_string(), about };
    vec![
        of("[-j] [-4|-6] [-s] [-br] [-o] addr|link|route|neigh ...", "Objects and verbs may be abbreviated."),
        of("addr [show] [[dev] IF]", "List addresses."),
        of("addr add|replace|del A/LEN dev IF [peer A] [brd +] [label IF]", "Add or remove an address."),
        of("link [show] [[dev] IF]", "List interfaces; -s adds counters."),
        of("link set [dev] IF [up|down] [mtu N] ...", "Configure an interface."),
        of(
            "link add IF type ipip|gre|vxlan|etherip [local A] [remote B] [key N] [id N] [dstport N] ...",
            "Create a tunnel.",
        ),
        of("link del IF", "Remove a tunnel or an interface."),
        of("route [show] ...", "List routes."),
        of(
            "route add|replace|change|append|del DST [via A] [dev IF] [nexthop via A [dev IF] [weight N]] ...",
            "Add or remove a route.",
        ),
        of("route get A [from SRC iif IF] [--why]", "Show the route to an address; --why explains the choice."),
        of("neigh [show] [[dev] IF]", "List neighbors."),
        of("neigh add|change|replace|del A lladdr MAC dev IF", "Add or remove a neighbor."),
    ]
}

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    let Options { json, family, style } = Options::take(&mut words)?;
    let ctl = Ctl { json: ctl.json || json, ..*ctl };
    let object = words.next("addr, link, route or neigh")?;
    // iproute2 accepts any prefix of a word; if a prefix is ambiguous, the first object in the list
    // applies.
    match OBJECTS.iter().find(|name| !object.is_empty() && name.starts_with(object)).copied() {
        Some("address" | "addr") => addr(&ctl, words, family, style),
        Some("link") => link(&ctl, words, style),
        // iproute2 also infers a route's family from its addresses.
        Some("route") if family == Family::Six || family == Family::Any && words.any(|word| word.contains(':')) => {
            six::ip_route(&ctl, words)
        }
        Some("route") => iproute::run(&ctl, words),
        Some(_) => ipneigh::run(&ctl, words, family),
        None => Err(CommandError::unknown("object", object, ["addr", "address", "link", "route", "neigh"].into_iter())),
    }
}

/// Returns the full verb for a word, which may be a prefix as in iproute2. Without a word, the verb
/// is `show`.
pub(super) fn verb<'a>(words: &mut Words<'_>, verbs: &'a [&'a str]) -> Result<&'a str, CommandError> {
    let Some(word) = words.take() else { return Ok("show") };
    let found = match word {
        "list" | "lst" | "ls" | "l" | "s" | "sh" | "sho" => Some("show"),
        "delete" => Some("del"),
        word => verbs.iter().find(|verb| !word.is_empty() && verb.starts_with(word)).copied(),
    };
    let verb = found.and_then(|found| verbs.iter().find(|verb| **verb == found).copied());
    verb.ok_or_else(|| CommandError::unknown("verb", word, verbs.iter().copied().chain(["list"])))
}

/// Parses an optional `[dev] IF`, which limits a listing to one iface.
pub(super) fn only_dev<'a, L: Locks>(
    ctl: &'a Ctl<'_, L>,
    words: &mut Words<'_>,
) -> Result<Option<&'a Iface<L>>, CommandError> {
    words.skip("dev");
    let only = words.take().map(|name| ctl.iface(name)).transpose()?;
    words.end()?;
    Ok(only)
}

fn addr<L: Locks>(
    ctl: &Ctl<'_, L>,
    mut words: Words<'_>,
    family: Family,
    style: Style,
) -> Result<String, CommandError> {
    let verb = verb(&mut words, &["show", "add", "replace", "del"])?;
    if verb == "show" {
        let only = only_dev(ctl, &mut words)?;
        return Ok(list(ctl, only, Some(family), style));
    }
    if family == Family::Six || family == Family::Any && words.peek().is_some_and(|word| word.contains(':')) {
        return six::addr(ctl, verb, words);
    }
    let mut addr = parse::addr(words.next("an address such as 10.0.0.1/24")?, parse::host_len)?;
    let (mut dev, mut peer, mut label) = (None, None, None);
    while let Some(word) = words.take() {
        match word {
            "dev" => dev = Some(ctl.iface(words.next("an iface")?)?),
            "brd" | "broadcast" => {
                let own = addr.broadcast().map(|own| own.to_string()).unwrap_or_default();
                parse::only(&mut words, word, &["+", &own], "it is derived from the address")?;
            }
            "scope" => {
                let own = if addr.addr.is_loopback() { "host" } else { "global" };
                parse::only(&mut words, word, &[own], "it is derived from the address")?;
            }
            "label" => label = Some(words.next("the iface's name")?),
            "peer" => {
                let far = parse::addr(words.next("the address of the remote end")?, parse::host_len)?;
                if far.len != 32 {
                    return Err(CommandError::failed(format!(
                        "peer {}/{}: expected a single address, /32",
                        far.addr, far.len
                    )));
                }
                peer = Some(far.addr);
            }
            other => return Err(CommandError::unknown("word", other, ["dev"].into_iter())),
        }
    }
    let dev = dev.ok_or_else(|| CommandError::missing("dev IF"))?;
    if let Some(label) = label.filter(|label| *label != dev.name) {
        return Err(CommandError::failed(format!("label {label}: not supported: addresses have no labels")));
    }
    let had = dev.addrs(ctl.cx).into_iter().find(|own| own.addr == addr.addr);
    match (verb, had) {
        ("del", Some(_)) => drop(ctl.host.stack.remove_addr(ctl.cx, dev.id, addr.addr)),
        ("del", None) => return Err(CommandError::failed(format!("{} does not have {}", dev.name, addr.addr))),
        ("add", Some(own)) if own == addr => {
            return Err(CommandError::failed(format!("{} already has {}/{}", dev.name, addr.addr, addr.len)));
        }
        _ => {
            addr = parse::own_addr(addr)?;
            match peer {
                Some(_) if dev.kind != IfaceKind::Tunnel => {
                    return Err(CommandError::failed(format!("peer: {} is not a point-to-point iface", dev.name)));
                }
                Some(peer) => ifconfig::add_peer(ctl, dev.id, addr.addr, peer)?,
                None => ifconfig::add_addr(ctl, dev.id, addr)?,
            }
        }
    }
    Ok(String::new())
}

fn link<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>, style: Style) -> Result<String, CommandError> {
    match verb(&mut words, &["show", "set", "add", "del"])? {
        "show" => {
            let only = only_dev(ctl, &mut words)?;
            return Ok(list(ctl, only, None, style));
        }
        "add" => return tunnel::add(ctl, &mut words).map(|()| String::new()),
        "del" => {
            let dev = only_dev(ctl, &mut words)?.ok_or_else(|| CommandError::missing("an iface"))?;
            return ifconfig::destroy(ctl, dev).map(|()| String::new());
        }
        _ => words.skip("dev"),
    };
    let dev = ctl.iface(words.next("an iface")?)?;
    while let Some(word) = words.take() {
        match word {
            "up" | "down" => ctl.host.stack.set_up(ctl.cx, dev.id, word == "up"),
            "mtu" => ifconfig::set_mtu(ctl, dev, words.next("an MTU in bytes")?)?,
            other => return Err(CommandError::unknown("word", other, ["up", "down", "mtu"].into_iter())),
        }
    }
    Ok(String::new())
}

/// Lists ifaces; with `addrs`, also their addresses of that family.
fn list<L: Locks>(ctl: &Ctl<'_, L>, only: Option<&Iface<L>>, addrs: Option<Family>, style: Style) -> String {
    let ports = ctl.host.ports();
    let ifaces = || ctl.host.stack.ifaces().filter(|iface| only.is_none_or(|only| only.id == iface.id));
    let row = |iface| {
        let row = link_of(ctl, iface, &ports).json(style);
        addrs.map_or(row.clone(), |family| with_addrs(ctl, iface, family, row))
    };
    ctl.listing(
        || Value::Array(ifaces().map(row).collect()),
        || {
            let text = |iface| {
                let link = link_of(ctl, iface, &ports);
                let Some(family) = addrs else { return link.text(style) };
                let four = if family == Family::Six { String::new() } else { addr_text(ctl, iface) };
                let six = if family == Family::Four { String::new() } else { six::addr_text(ctl, iface) };
                addrs_text(&link, &(four + &six), style)
            };
            ifaces().map(text).collect()
        },
    )
}

/// Returns an iface with the lines of its addresses, as `ip addr` prints them in the given style.
fn addrs_text(link: &Link, addrs: &str, style: Style) -> String {
    if style.brief {
        let words = addrs.lines().filter_map(|line| line.trim_start().strip_prefix("inet"));
        let own: Vec<&str> =
            words.filter_map(|line| line.split_whitespace().find(|word| word.contains(['.', ':']))).collect();
        return format!("{:<16} {:<14} {} \n", link.name, link.state, own.join(" "));
    }
    if style.oneline {
        // With -o, each address is one line, with a backslash instead of its line break.
        let (head, mut out) = (format!("{}: {}", link.index, link.name), String::new());
        for part in addrs.split("    inet").skip(1) {
            out += &format!("{head}    inet{}", one_line(part));
        }
        return out;
    }
    link.text(style) + addrs
}

/// Returns an iface as a link. The counters are those of its port, or its own if it has no port.
pub(super) fn link_of<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>, ports: &[PortInfo]) -> Link {
    let (kind, own, other) = link_type(ctl, iface);
    let info = tunnel::link_json(ctl, iface.id).map(|info| (tunnel::link_text(ctl, iface.id), info));
    let through = ports.iter().filter(|port| port.iface == iface.id).map(|port| LinkCounters::through(&port.counts));
    let passed = through.reduce(|mut sum, queue| {
        sum.add(queue);
        sum
    });
    Link {
        index: usize::from(iface.id.0) + 1,
        name: iface.name.to_string(),
        flags: flags(iface),
        mtu: iface.mtu(),
        master: None,
        state: operstate(iface),
        kind,
        addresses: Some((own, other)),
        is_tunnel: iface.kind == IfaceKind::Tunnel,
        info,
        passed: passed.unwrap_or_else(|| LinkCounters { rx: (&iface.rx).into(), tx: (&iface.tx).into() }),
    }
}

fn flags<L: Locks>(iface: &Iface<L>) -> Vec<&'static str> {
    let loopback = iface.kind == IfaceKind::Loopback;
    let all = [
        ("LOOPBACK", loopback),
        ("POINTOPOINT", iface.kind == IfaceKind::Tunnel),
        ("BROADCAST", iface.kind == IfaceKind::Ethernet),
        ("MULTICAST", !loopback),
        ("UP", iface.is_up()),
        ("LOWER_UP", iface.is_up()),
    ];
    all.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect()
}

/// Returns RFC 2863's operational state as Linux names it. It is unknown for loopback and tunnels,
/// which have no carrier.
fn operstate<L: Locks>(iface: &Iface<L>) -> &'static str {
    match (iface.is_up(), iface.kind) {
        (false, _) => "DOWN",
        (true, IfaceKind::Loopback | IfaceKind::Tunnel) => "UNKNOWN",
        (true, IfaceKind::Ethernet) if iface.tunnel.is_some() => "UNKNOWN",
        (true, IfaceKind::Ethernet) => "UP",
    }
}

/// Returns the type of the link, its address and its broadcast address; for a tunnel, the type and
/// the two outer addresses.
fn link_type<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>) -> (&'static str, String, String) {
    let macs = |kind, broadcast: wire::Mac| (kind, iface.mac.to_string(), broadcast.to_string());
    match (iface.kind, ctl.host.stack.tunnel(ctl.cx, iface.id)) {
        (IfaceKind::Tunnel, Some(ends)) => {
            let kind = match (ends.kind, ends.local.is_ipv6()) {
                (inet::tunnel::Kind::Gre, false) => "gre",
                (inet::tunnel::Kind::Gre, true) => "gre6",
                (_, false) => "ipip",
                (_, true) => "tunnel6",
            };
            (kind, ends.local.to_string(), ends.remote.to_string())
        }
        (IfaceKind::Loopback | IfaceKind::Tunnel, _) => macs("loopback", wire::Mac::ZERO),
        (IfaceKind::Ethernet, _) => macs("ether", wire::Mac::BROADCAST),
    }
}

fn addr_text<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>) -> String {
    let mut out = String::new();
    for addr in iface.addrs(ctl.cx) {
        out += &match ctl.host.stack.peer(ctl.cx, iface.id, addr.addr) {
            Some(peer) => format!("    inet {} peer {peer}/{}", addr.addr, addr.len),
            None => format!("    inet {}/{}", addr.addr, addr.len),
        };
        if let Some(broadcast) = addr.broadcast().filter(|_| iface.kind == IfaceKind::Ethernet) {
            out += &format!(" brd {broadcast}");
        }
        out += &format!(" scope {} {}\n       valid_lft forever preferred_lft forever\n", scope(iface), iface.name);
    }
    out
}

fn scope<L: Locks>(iface: &Iface<L>) -> &'static str {
    if iface.kind == IfaceKind::Loopback { "host" } else { "global" }
}

/// Returns an iface as printed by `ip -j addr`.
pub(super) fn addr_json<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>) -> Value {
    let row = link_of(ctl, iface, &ctl.host.ports()).json(Style::default());
    with_addrs(ctl, iface, Family::Any, row)
}

/// Returns the JSON object `row` of a link with the iface's addresses of `family` added.
fn with_addrs<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>, family: Family, mut row: Value) -> Value {
    let infos = iface.addrs(ctl.cx).into_iter().map(|addr| {
        let mut info = json!({ "family": "inet", "local": addr.addr.to_string(), "prefixlen": addr.len });
        if let (Some(broadcast), IfaceKind::Ethernet) = (addr.broadcast(), iface.kind) {
            set(&mut info, "broadcast", broadcast.to_string());
        }
        if let Some(peer) = ctl.host.stack.peer(ctl.cx, iface.id, addr.addr) {
            set(&mut info, "address", peer.to_string());
        }
        set(&mut info, "scope", scope(iface));
        set(&mut info, "label", iface.name.as_str());
        set(&mut info, "valid_life_time", FOREVER);
        set(&mut info, "preferred_life_time", FOREVER);
        info
    });
    let mut infos: Vec<Value> = if family == Family::Six { Vec::new() } else { infos.collect() };
    if family != Family::Four {
        infos.extend(six::addr_infos(ctl, iface));
    }
    set(&mut row, "addr_info", infos);
    row
}
