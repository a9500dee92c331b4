//! `route`: routes in BSD's format.

use super::iproute;
use super::parse;
use super::{Ctl, six, why};
use grammar::{CommandError, Words};
use inet::fib::Prefix;
use inet::iface::IfaceKind;
use inet::route::{Path, Route, Via};
use lock::Locks;
use std::net::Ipv4Addr;

const VERBS: &[&str] = &["show", "add", "delete", "change", "get", "flush"];

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    while words.skip("-n") || words.skip("-q") || words.skip("-v") {}
    if words.skip("-6") || words.skip("-inet6") || words.any(|word| word == "-inet6" || word == "-6") {
        return six::route(ctl, words);
    }
    match words.take().unwrap_or("show") {
        "show" => {
            words.skip("-inet");
            words.end()?;
            if ctl.json { iproute::run(ctl, Words::new(&["show"])) } else { Ok(show(ctl)) }
        }
        "add" => add(ctl, words, "add"),
        "change" => add(ctl, words, "change"),
        "delete" | "del" => delete(ctl, words),
        "get" => get(ctl, words),
        "flush" => iproute::run(ctl, Words::new(&["flush"])),
        other => Err(CommandError::unknown("verb", other, VERBS.iter().copied())),
    }
}

/// Destination of a `route add` or `delete`.
struct Target {
    prefix: Prefix,
    shown: String,
}

/// Parses `[-net|-host] DST [-netmask M]`, leaving the words after it.
fn target(words: &mut Words<'_>) -> Result<Target, CommandError> {
    words.skip("-inet");
    let kind = words.peek().filter(|word| matches!(*word, "-net" | "-host"));
    if kind.is_some() {
        words.take();
    }
    let word = words.next("a destination such as 10.0.0.0/8, or default")?;
    let prefix = match kind {
        Some("-net") => parse::prefix(word, parse::class_len)?,
        _ => parse::prefix(word, net_or_host)?,
    };
    if kind == Some("-host") && prefix.len() != 32 {
        return Err(CommandError::bad("-host", word, "one address, without a length"));
    }
    let what = if prefix.len() == 32 { "host" } else { "net" };
    Ok(Target { prefix, shown: format!("{what} {}", word.split('/').next().unwrap_or(word)) })
}

/// As in route(8): an address with a zero host part is a network.
fn net_or_host(addr: Ipv4Addr) -> u8 {
    let len = parse::class_len(addr);
    let is_net = len < 32 && u32::from(addr) & (u32::MAX >> len) == 0;
    if is_net { len } else { 32 }
}

fn add<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>, verb: &str) -> Result<String, CommandError> {
    let mut target = target(&mut words)?;
    let (mut via, mut gateways) = (None, Vec::new());
    while let Some(word) = words.take() {
        match word {
            "-netmask" => {
                let len = parse::mask(words.next("a netmask")?)?;
                target.prefix = Prefix::new(target.prefix.addr(), len).unwrap_or(target.prefix);
            }
            "-interface" | "-iface" => via = Some(Via::Link(ctl.iface(words.next("an iface")?)?.id)),
            "-reject" => via = Some(Via::Reject),
            "-blackhole" => via = Some(Via::Blackhole),
            "-prohibit" => via = Some(Via::Prohibit),
            "-static" | "-gateway" => {}
            option if option.starts_with('-') => {
                let known = ["-netmask", "-interface", "-reject", "-blackhole", "-prohibit"];
                return Err(CommandError::unknown("option", option, known.into_iter()));
            }
            word if via.is_none() => gateways.push(parse::ip4("gateway", word)?),
            word => return Err(CommandError::TooMuch { found: word.to_string() }),
        }
    }
    let by = |gateway: &Ipv4Addr| ctl.link_of(*gateway).map(|id| Path { via: Via::Gateway(id, *gateway), weight: 1 });
    let ways = match via {
        Some(via) => vec![Path { via, weight: 1 }],
        None if gateways.is_empty() => {
            return Err(CommandError::missing("a gateway's address, -interface IF, -reject, -prohibit or -blackhole"));
        }
        None => gateways.iter().map(by).collect::<Result<Vec<_>, _>>()?,
    };
    match (verb, ctl.route_at(target.prefix)) {
        ("add", Some(_)) => {
            return Err(CommandError::failed(format!("{}: there is a route already: use change", target.shown)));
        }
        ("change", None) => return Err(CommandError::failed(format!("{}: not in table", target.shown))),
        _ => ctl.add_route(target.prefix, &ways)?,
    }
    let to: String = gateways.iter().map(|gateway| format!(": gateway {gateway}")).collect();
    Ok(format!("{verb} {}{to}\n", target.shown))
}

fn delete<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    let (mut target, mut gateways) = (target(&mut words)?, Vec::new());
    while let Some(word) = words.take() {
        match word {
            "-netmask" => {
                let len = parse::mask(words.next("a netmask")?)?;
                target.prefix = Prefix::new(target.prefix.addr(), len).unwrap_or(target.prefix);
            }
            word => gateways.push(parse::ip4("gateway", word)?),
        }
    }
    let is_by = |via: Via| is_by(via, &ctl.host.stack.paths(ctl.cx, via), &gateways);
    if !ctl.route_at(target.prefix).is_some_and(is_by) {
        return Err(CommandError::failed(format!("{}: not in table", target.shown)));
    }
    ctl.host.stack.remove_route(ctl.cx, target.prefix);
    Ok(format!("delete {}\n", target.shown))
}

/// Returns whether a route with this next hop, or these `paths`, uses exactly `gateways`; without
/// gateways any route matches.
pub(super) fn is_by<G: PartialEq>(via: Via<G>, paths: &[Path<G>], gateways: &[G]) -> bool {
    let leads = |path: &Path<G>| matches!(&path.via, Via::Gateway(_, by) if gateways.contains(by));
    match via {
        _ if gateways.is_empty() => true,
        Via::Gateway(_, by) => *gateways == [by],
        Via::Paths(_) => paths.len() == gateways.len() && paths.iter().all(leads),
        _ => false,
    }
}

fn get<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    words.skip("-host");
    let asked = why::asked::<u32, L>(ctl, &mut words)?;
    if asked.why || ctl.json {
        return iproute::got(ctl, &asked);
    }
    let dst = asked.dst();
    let answer = asked.answer(ctl);
    let via = answer.via.ok_or_else(|| CommandError::failed(format!("{dst}: not in table: no route leads there")))?;
    let route = Route { prefix: answer.matched.map_or(Prefix::host(dst), |route| route.prefix), via };
    let mut out = format!("   route to: {dst}\ndestination: {}\n", short(route.prefix));
    out += &format!("       mask: {}\n", route.prefix.netmask());
    if let Via::Gateway(_, gateway) = route.via {
        out += &format!("    gateway: {gateway}\n");
    }
    if let Some(iface) = route.via.iface().and_then(|id| ctl.host.stack.iface(id)) {
        out += &format!("  interface: {}\n        mtu: {}\n", iface.name, iface.mtu());
    }
    Ok(out + &format!("      flags: <{}>\n", flag_words(route.via, route.prefix)))
}

fn short(prefix: Prefix) -> String {
    if prefix.len() == 0 { "default".to_string() } else { prefix.addr().to_string() }
}

fn flag_words(via: Via, prefix: Prefix) -> String {
    let mut words = vec!["UP"];
    if let Via::Gateway(..) = via {
        words.push("GATEWAY");
    }
    if prefix.len() == 32 {
        words.push("HOST");
    }
    match via {
        Via::Local(_) => words.push("LOCAL"),
        Via::Broadcast(_) => words.push("BROADCAST"),
        Via::Reject | Via::Prohibit => words.push("REJECT"),
        Via::Paths(_) => words.push("MULTIPATH"),
        Via::Blackhole => words.push("BLACKHOLE"),
        Via::Gateway(..) => words.push("STATIC"),
        Via::Link(_) => {}
    }
    words.push("DONE");
    words.join(",")
}

/// Returns netstat(1)'s flag letters.
fn letters(via: Via, prefix: Prefix) -> String {
    let host = if prefix.len() == 32 { "H" } else { "" };
    match via {
        Via::Gateway(..) => format!("UG{host}S"),
        Via::Link(_) => format!("U{host}"),
        Via::Local(_) => format!("U{host}l"),
        Via::Broadcast(_) => format!("U{host}b"),
        Via::Reject | Via::Prohibit => format!("U{host}RS"),
        Via::Paths(_) => format!("UG{host}S"),
        Via::Blackhole => format!("U{host}BS"),
    }
}

/// Returns the routes, one with several paths once for each.
fn each_path<L: Locks>(ctl: &Ctl<'_, L>) -> Vec<Route> {
    let paths = |route: Route| match route.via {
        Via::Paths(_) => {
            ctl.host.stack.paths(ctl.cx, route.via).iter().map(|path| Route { via: path.via, ..route }).collect()
        }
        _ => vec![route],
    };
    ctl.host.stack.routes(ctl.cx).into_iter().flat_map(paths).collect()
}

/// Returns the table of `route show` and `netstat -r`.
pub(super) fn show<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let mut out = "Routing tables\n\nInternet:\n".to_string();
    out += &format!("{:<18} {:<18} {:<8} {}\n", "Destination", "Gateway", "Flags", "Netif");
    for Route { prefix, via } in each_path(ctl) {
        let id = via.iface();
        let gateway = match via {
            Via::Gateway(_, gateway) => gateway.to_string(),
            Via::Reject | Via::Prohibit | Via::Blackhole => "-".to_string(),
            _ => format!("link#{}", id.map_or(0, |id| id.0 + 1)),
        };
        // Packets to this host go through its loopback, whichever iface has the address.
        let loopback = ctl.host.stack.ifaces().find(|iface| iface.kind == IfaceKind::Loopback);
        let netif = match (via, loopback) {
            (Via::Local(_), Some(lo)) => lo.name.as_str(),
            _ => id.map_or("-", |id| ctl.iface_name(id)),
        };
        let dst = parse::prefix_text(prefix);
        out += &format!("{dst:<18} {gateway:<18} {:<8} {netif}\n", letters(via, prefix));
    }
    out + &six::table(ctl)
}
