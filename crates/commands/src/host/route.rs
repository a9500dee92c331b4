//! `route`: shows and changes routes, in BSD's format.

pub(super) mod hops;

use super::context::{Ctl, HostForm, one_of};
use super::iproute;
use super::{six, why};
use crate::parse;
use grammar::{Args, CommandError, Form, Words, parse as parse_form};
use hops::{is_by, via_of};
use inet::fib::Prefix;
use inet::iface::IfaceKind;
use inet::route::{Path, Route, Via};
use lock::Locks;
use std::marker::PhantomData;
use std::net::Ipv4Addr;

/// Syntax forms of `route`, for both address families.
pub(super) struct Forms<L>(PhantomData<L>);

impl<L: Locks> Forms<L> {
    pub(super) const ALL: &[HostForm<L>] = &[
        Form { grammar: "[-6,-inet6] [-inet] [-n]", about: "List the routes.", run: list },
        Form { grammar: "show [-6,-inet6] [-inet] [-n]", about: "List the routes.", run: list },
        Form {
            grammar: "add [-6,-inet6] [-inet] [-net] [-host] [-netmask MASK] [-prefixlen 0-128] [-interface,-iface IF] \
                      [-reject] [-prohibit] [-blackhole] [-static] [-gateway] DST [GATEWAY...]",
            about: "Add a route; with several gateways, each flow uses one of them.",
            run: |ctl, args| if is_six(args) { six::route_add(ctl, args) } else { add(ctl, args) },
        },
        Form {
            grammar: "change [-6,-inet6] [-inet] [-net] [-host] [-netmask MASK] [-prefixlen 0-128] [-interface,-iface IF] \
                      [-reject] [-prohibit] [-blackhole] [-static] [-gateway] DST [GATEWAY...]",
            about: "Change a route.",
            run: |ctl, args| if is_six(args) { six::route_add(ctl, args) } else { add(ctl, args) },
        },
        Form {
            grammar: "delete,del [-6,-inet6] [-inet] [-net] [-host] [-netmask MASK] [-prefixlen 0-128] DST [GATEWAY...]",
            about: "Remove a route; with gateways, only if the route uses exactly these.",
            run: |ctl, args| if is_six(args) { six::route_delete(ctl, args) } else { delete(ctl, args) },
        },
        Form {
            grammar: "get [-6,-inet6] [-inet] [-n] [-host] [--why,-why] ADDR [from SRC] [iif IF] [ipproto PROTO] \
                      [sport 0-65535] [dport 0-65535]",
            about: "Show the route to an address, or of a packet forwarded from SRC and IF; --why explains the choice.",
            run: |ctl, args| if is_six(args) { six::route_get(ctl, args) } else { get(ctl, args) },
        },
        Form {
            grammar: "flush [-6,-inet6] [-inet] [-n]",
            about: "Remove all routes except those added with an address.",
            run: |ctl, args| match is_six(args) {
                true => six::ip_route(ctl, Words::new(&["flush"])),
                false => iproute::run(ctl, Words::new(&["flush"])),
            },
        },
    ];
}

/// Options before the verb.
const OPTIONS: &[Form<()>] = &[Form { grammar: "[-n] [-q] [-v]", about: "", run: () }];

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    parse_form(OPTIONS, &mut words)?;
    // The address family may also be given before the verb.
    let family = words.peek().filter(|word| matches!(*word, "-6" | "-inet6"));
    let moved: Vec<&str> = match (family, words.rest()) {
        (Some(family), [_, verb, rest @ ..]) => [&[*verb, family], rest].concat(),
        (_, rest) => rest.to_vec(),
    };
    one_of(Forms::ALL, ctl, Words::new(&moved))
}

fn is_six(args: &Args<'_>) -> bool {
    args.has("-6")
}

fn list<L: Locks>(ctl: &Ctl<'_, L>, args: &Args<'_>) -> Result<String, CommandError> {
    match (ctl.json, is_six(args)) {
        (true, true) => six::ip_route(ctl, Words::new(&["show"])),
        (true, false) => iproute::run(ctl, Words::new(&["show"])),
        (false, true) => Ok(six::table(ctl)),
        (false, false) => Ok(show(ctl)),
    }
}

/// Destination of a `route` command.
struct Target {
    prefix: Prefix,
    shown: String,
}

/// Returns the destination from `[-net|-host] DST [-netmask M]`.
fn target(args: &Args<'_>) -> Result<Target, CommandError> {
    let word = args.text("DST");
    let len_of = if args.has("-net") { parse::class_len } else { net_or_host };
    let mut prefix = parse::prefix(word, len_of)?;
    if args.has("-host") && prefix.len() != 32 {
        return Err(CommandError::bad("-host", word, "one address, without a length"));
    }
    let what = if prefix.len() == 32 { "host" } else { "net" };
    if let Some(mask) = args.get("MASK") {
        prefix = Prefix::new(prefix.addr(), parse::mask(mask)?).unwrap_or(prefix);
    }
    if let Some(len) = args.get("-prefixlen") {
        let len = parse::number("-prefixlen", len, 0, 32)? as u8;
        prefix = Prefix::new(prefix.addr(), len).unwrap_or(prefix);
    }
    Ok(Target { prefix, shown: format!("{what} {}", word.split('/').next().unwrap_or(word)) })
}

/// Returns the prefix length for a destination that is given without one. As in route(8), an
/// address with a zero host part is a network, and any other address is a host.
fn net_or_host(addr: Ipv4Addr) -> u8 {
    let len = parse::class_len(addr);
    let is_net = len < 32 && u32::from(addr) & (u32::MAX >> len) == 0;
    if is_net { len } else { 32 }
}

fn gateways(args: &Args<'_>) -> Result<Vec<Ipv4Addr>, CommandError> {
    args.rest().iter().map(|word| parse::ip4("gateway", word)).collect()
}

fn add<L: Locks>(ctl: &Ctl<'_, L>, args: &Args<'_>) -> Result<String, CommandError> {
    let (target, via, gateways) = (target(args)?, via_of(ctl, args)?, gateways(args)?);
    let by =
        |gateway: &Ipv4Addr| ctl.host.link_of(*gateway).map(|id| Path { via: Via::Gateway(id, *gateway), weight: 1 });
    let paths = match via {
        Some(via) => vec![Path { via, weight: 1 }],
        None => gateways.iter().map(by).collect::<Result<Vec<_>, _>>()?,
    };
    let verb = if args.words().first() == Some(&"add") { "add" } else { "change" };
    match (verb, ctl.route_at(target.prefix)) {
        ("add", Some(_)) => {
            return Err(CommandError::failed(format!("{}: a route exists; use 'route change'", target.shown)));
        }
        ("change", _) => ctl.host.change_paths(target.prefix, &paths)?,
        _ => ctl.host.replace_paths(target.prefix, &paths)?,
    }
    let to: String = gateways.iter().map(|gateway| format!(": gateway {gateway}")).collect();
    Ok(format!("{verb} {}{to}\n", target.shown))
}

fn delete<L: Locks>(ctl: &Ctl<'_, L>, args: &Args<'_>) -> Result<String, CommandError> {
    let (target, gateways) = (target(args)?, gateways(args)?);
    let is_by = |via: Via| is_by(via, &ctl.host.stack.paths(ctl.cx, via), &gateways);
    if !ctl.route_at(target.prefix).is_some_and(is_by) {
        return Err(CommandError::failed(format!("{}: not in table", target.shown)));
    }
    ctl.host.stack.remove_route(ctl.cx, target.prefix);
    Ok(format!("delete {}\n", target.shown))
}

fn get<L: Locks>(ctl: &Ctl<'_, L>, args: &Args<'_>) -> Result<String, CommandError> {
    let requested = why::route_query::<u32, L>(ctl, args)?;
    if requested.why || ctl.json {
        return iproute::got(ctl, &requested);
    }
    let dst = requested.dst();
    let answer = requested.answer(ctl);
    let via =
        answer.via.ok_or_else(|| CommandError::failed(format!("{dst}: not in table: no route to this address")))?;
    let prefix = answer.matched.map_or(Prefix::host(dst), |route| route.prefix);
    let route = Route::own(prefix, via);
    let mut out = format!("   route to: {dst}\ndestination: {}\n", short(route.prefix));
    out += &format!("       mask: {}\n", route.prefix.netmask());
    match route.via {
        Via::Gateway(_, gateway) => out += &format!("    gateway: {gateway}\n"),
        Via::Gateway6(_, gateway) => out += &format!("    gateway: {gateway}\n"),
        _ => {}
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
    if via.is_gateway() {
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
        Via::Gateway(..) | Via::Gateway6(..) => words.push("STATIC"),
        Via::Link(_) => {}
    }
    words.push("DONE");
    words.join(",")
}

/// Returns the letters that netstat(1) prints for the flags of a route.
fn letters(via: Via, prefix: Prefix) -> String {
    let host = if prefix.len() == 32 { "H" } else { "" };
    match via {
        Via::Gateway(..) | Via::Gateway6(..) => format!("UG{host}S"),
        Via::Link(_) => format!("U{host}"),
        Via::Local(_) => format!("U{host}l"),
        Via::Broadcast(_) => format!("U{host}b"),
        Via::Reject | Via::Prohibit => format!("U{host}RS"),
        Via::Paths(_) => format!("UG{host}S"),
        Via::Blackhole => format!("U{host}BS"),
    }
}

/// Returns all routes; a route with several paths occurs once per path.
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
    for Route { prefix, via, .. } in each_path(ctl) {
        let id = via.iface();
        let gateway = match via {
            Via::Gateway(_, gateway) => gateway.to_string(),
            Via::Gateway6(_, gateway) => gateway.to_string(),
            Via::Reject | Via::Prohibit | Via::Blackhole => "-".to_string(),
            _ => format!("link#{}", id.map_or(0, |id| id.0 + 1)),
        };
        // Packets to this host use its loopback iface, regardless of which iface has the address.
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
