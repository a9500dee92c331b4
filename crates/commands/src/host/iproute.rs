//! `ip route`: shows, adds, replaces and removes routes, and looks up single addresses.

use super::context::Ctl;
use super::ip::syntax::verb;
use super::why;
use crate::json::set;
use crate::parse;
use grammar::{CommandError, Words, parse_all};
use inet::fib::{IpPrefix, Matched, Prefix};
use inet::iface::IfaceId;
use inet::route::{Path, Protocol, Route, RouteCount, Via};
use lock::Locks;
use node::change::has_route;
use serde_json::{Value, json};
use std::fmt::Display;

const VERBS: &[&str] = &["show", "add", "append", "change", "replace", "del", "get", "flush"];

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    match verb(&mut words, VERBS)? {
        "show" => show(ctl, words),
        "get" => get(ctl, words),
        "flush" => flush(ctl, words),
        "del" => {
            let (prefix, paths) = describe(ctl, words, Wanted::Prefix)?;
            ctl.host.remove_paths(prefix, &paths).map(|()| String::new())
        }
        verb => {
            let (prefix, paths) = describe(ctl, words, Wanted::Whole)?;
            match (verb, ctl.route_at(prefix)) {
                ("add" | "append", Some(_)) => Err(has_route(prefix)),
                ("change", _) => ctl.host.change_paths(prefix, &paths).map(|()| String::new()),
                _ => ctl.host.replace_paths(prefix, &paths).map(|()| String::new()),
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Prefix,
    Whole,
}

/// Parses `[TYPE] PREFIX [via [inet6] GW] [dev IF]` or `PREFIX nexthop via [inet6] GW [dev IF]
/// [weight N] nexthop ...`.
fn describe<L: Locks>(
    ctl: &Ctl<'_, L>,
    mut words: Words<'_>,
    wanted: Wanted,
) -> Result<(Prefix, Vec<Path>), CommandError> {
    let mut word = words.next("a destination such as 10.0.0.0/8, or default")?;
    let (mut via, mut local) = (None, false);
    match word {
        "blackhole" => via = Some(Via::Blackhole),
        "unreachable" => via = Some(Via::Reject),
        "prohibit" => via = Some(Via::Prohibit),
        "local" => local = true,
        _ => {}
    }
    if via.is_some() || local || word == "unicast" {
        word = words.next("a destination")?;
    }
    let prefix = parse::prefix(word, parse::host_len)?;
    let (mut gateway, mut dev) = (None, None);
    let (mut scope, mut src, mut onlink) = (None, None, false);
    while let Some(word) = words.take() {
        match word {
            "via" => {
                let _family = words.skip("inet") || words.skip("inet6");
                gateway = Some(parse::ip_any("gateway", words.next("a gateway's address")?)?);
            }
            "dev" => dev = Some(ctl.host.iface(words.next("an iface")?)?.id),
            "nexthop" => {
                let way =
                    gateway.map(|_| "via").or(dev.map(|_| "dev")).or((via.is_some() || local).then_some("a type"));
                refuse(way.or(scope.map(|_| "scope")).or(src.map(|_| "src")).or(onlink.then_some("onlink")))?;
                let by = |word: &str, dev: Option<IfaceId>| ctl.host.hop(Some(parse::ip_any("gateway", word)?), dev);
                return Ok((prefix, nexthops(ctl, words, by)?));
            }
            "scope" => scope = Some(words.next("global, link or host")?),
            "src" => src = Some(parse::ip4("src", words.next("an address")?)?),
            "onlink" => onlink = true,
            word if parse::no_choice(&mut words, word)? => {}
            other => return Err(CommandError::unknown("word", other, ["via", "dev"].into_iter())),
        }
    }
    let via = match (via, gateway, dev) {
        (None, None, dev) if local => Via::Local(dev.unwrap_or(inet::iface::LOOPBACK)), // default: lo0
        _ if local => return Err(CommandError::failed("a local route accepts no gateway; omit via")),
        (Some(via), None, None) => via,
        (Some(_), ..) => {
            return Err(CommandError::failed("a blackhole, unreachable or prohibit route accepts neither via nor dev"));
        }
        (None, None, None) if wanted == Wanted::Prefix => {
            refuse(scope.map(|_| "scope").or(src.map(|_| "src")).or(onlink.then_some("onlink")))?;
            return Ok((prefix, Vec::new()));
        }
        (None, gateway, dev) => ctl.host.hop(gateway, dev)?,
    };
    if onlink && (gateway.is_none() || dev.is_none()) {
        return Err(CommandError::failed("onlink: needs via GATEWAY and dev IF"));
    }
    if let Some(scope) = scope {
        let (own, name) = match via {
            Via::Local(_) => (["host", "254"], "host"),
            Via::Link(_) => (["link", "253"], "link"),
            _ => (["global", "universe"], "global"),
        };
        if !own.contains(&scope) {
            return Err(CommandError::failed(format!(
                "scope {scope}: not supported: the scope of this route is {name}"
            )));
        }
    }
    if let Some(src) = src {
        let own = ctl.source_of(via, prefix.addr());
        if own != Some(src) {
            let own = own.map_or_else(String::new, |own| format!(" ({own})"));
            let why = format!("src {src}: not supported: the source is always the iface's address on the link{own}");
            return Err(CommandError::failed(why));
        }
    }
    Ok((prefix, vec![Path { via, weight: 1 }]))
}

/// Rejects `word`, if given, because it has no meaning in this form of the command.
pub(super) fn refuse(word: Option<&str>) -> Result<(), CommandError> {
    word.map_or(Ok(()), |word| Err(CommandError::failed(format!("{word}: not supported here"))))
}

/// Parses the paths after the first word `nexthop`. `gateway` converts the address of a gateway
/// into a next hop, on the link of the given iface if there is one.
pub(super) fn nexthops<L: Locks, A>(
    ctl: &Ctl<'_, L>,
    mut words: Words<'_>,
    gateway: impl Fn(&str, Option<IfaceId>) -> Result<Via<A>, CommandError>,
) -> Result<Vec<Path<A>>, CommandError> {
    let mut paths = Vec::new();
    loop {
        let (mut by, mut dev, mut weight, mut more, mut onlink) = (None, None, 1, false, false);
        while let Some(word) = words.take() {
            match word {
                "via" => {
                    let _family = words.skip("inet") || words.skip("inet6");
                    by = Some(words.next("a gateway's address")?);
                }
                "dev" => dev = Some(ctl.host.iface(words.next("an iface")?)?.id),
                "weight" => weight = parse::number("weight", words.next("a number")?, 1, 256)? as u16,
                "onlink" => onlink = true,
                "nexthop" => {
                    more = true;
                    break;
                }
                other => {
                    return Err(CommandError::unknown("word", other, ["via", "dev", "weight", "nexthop"].into_iter()));
                }
            }
        }
        if onlink && (by.is_none() || dev.is_none()) {
            return Err(CommandError::failed("onlink: needs via GATEWAY and dev IF"));
        }
        let via = match (by, dev) {
            (Some(word), dev) => gateway(word, dev)?,
            (None, Some(dev)) => Via::Link(dev),
            (None, None) => return Err(CommandError::missing("nexthop via GATEWAY or dev IF")),
        };
        paths.push(Path { via, weight });
        if !more {
            return Ok(paths);
        }
    }
}

/// Runs `show [PREFIX | root PREFIX] [dev IF] [proto NAME] [table main|local|all]`.
fn show<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    let (mut dev, mut exact, mut table, mut proto) = (None, None, "main", None);
    while let Some(word) = words.take() {
        match word {
            "dev" => dev = Some(ctl.host.iface(words.next("an iface")?)?.id),
            "proto" | "protocol" => proto = Some(protocol(words.next("a protocol")?)?),
            "table" => table = words.next("main, local or all")?,
            "exact" | "to" => exact = Some(parse::prefix(words.next("a prefix")?, parse::host_len)?),
            word => exact = Some(parse::prefix(word, parse::host_len)?),
        }
    }
    if !matches!(table, "main" | "local" | "all") {
        return Err(CommandError::bad("table", table, "main, local or all"));
    }
    let in_table = |via: &Via| match table {
        "main" => !is_local(via),
        "local" => is_local(via),
        _ => true,
    };
    let mut routes = ctl.host.stack.routes(ctl.cx);
    routes.retain(|route| in_table(&route.via));
    routes.retain(|route| dev.is_none_or(|dev| route.via.iface() == Some(dev)));
    routes.retain(|route| exact.is_none_or(|exact| route.prefix == exact));
    routes.retain(|route| proto.is_none_or(|proto| protocol_of(route, is_own(ctl, route)) == Some(proto)));
    Ok(ctl.listing(
        || Value::Array(routes.iter().map(|route| row_json(ctl, route)).collect()),
        || routes.iter().map(|route| row_text(ctl, route)).collect(),
    ))
}

/// Returns the protocol with a name or number, as in `ip route show proto bgp`.
pub(super) fn protocol(word: &str) -> Result<Protocol, CommandError> {
    Protocol::parse(word).ok_or_else(|| CommandError::bad("proto", word, "bgp, ospf, isis, kernel, or a number"))
}

/// Returns the protocol that `ip route` prints for a route; `None` for a route of this host's
/// configuration. `with_address` is true for a route that was added together with an address.
pub(super) fn protocol_of<A: Matched>(route: &Route<A>, with_address: bool) -> Option<Protocol> {
    match route.origin.is_own() {
        true => with_address.then_some(Protocol::KERNEL),
        false => Some(route.origin.protocol),
    }
}

fn is_local(via: &Via) -> bool {
    matches!(via, Via::Local(_) | Via::Broadcast(_))
}

/// Returns whether a route was added together with an iface's address. Linux lists such a route as
/// `proto kernel`.
fn is_own<L: Locks>(ctl: &Ctl<'_, L>, route: &Route) -> bool {
    ctl.host.came_with_addr(route.prefix, route.via)
}

/// Returns iproute2's name of the route type; `None` for a unicast route.
fn type_word(via: &Via) -> Option<&'static str> {
    match via {
        Via::Local(_) => Some("local"),
        Via::Broadcast(_) => Some("broadcast"),
        Via::Reject => Some("unreachable"),
        Via::Prohibit => Some("prohibit"),
        Via::Blackhole => Some("blackhole"),
        Via::Link(_) | Via::Gateway(..) | Via::Gateway6(..) | Via::Paths(_) => None,
    }
}

fn row_text<L: Locks>(ctl: &Ctl<'_, L>, route: &Route) -> String {
    let mut out = type_word(&route.via).map(|word| format!("{word} ")).unwrap_or_default();
    out += &parse::prefix_text(route.prefix);
    out += &gateway_text(&route.via);
    if let Some(id) = route.via.iface() {
        out += &format!(" dev {}", ctl.iface_name(id));
    }
    if let Some(protocol) = protocol_of(route, is_own(ctl, route)) {
        out += &format!(" proto {protocol}");
    }
    if let Via::Link(_) = route.via {
        out += " scope link";
        if let Some(src) = ctl.source_of(route.via, route.prefix.addr()) {
            out += &format!(" src {src}");
        }
    }
    out + &count_text(ctl, route.prefix) + &paths_text(ctl, &ctl.host.stack.paths(ctl.cx, route.via)) + "\n"
}

/// Returns the counters of a route as words, if they are to be shown.
pub(super) fn count_text<L: Locks, A: Matched>(ctl: &Ctl<'_, L>, prefix: IpPrefix<A>) -> String {
    let text = |RouteCount { packets, bytes }| format!(" packets {packets} bytes {bytes}");
    ctl.route_count(prefix).map(text).unwrap_or_default()
}

/// Adds the counters of a route, if they are to be shown, to its JSON object.
pub(super) fn set_count<L: Locks, A: Matched>(ctl: &Ctl<'_, L>, row: &mut Value, prefix: IpPrefix<A>) {
    if let Some(RouteCount { packets, bytes }) = ctl.route_count(prefix) {
        set(row, "packets", packets);
        set(row, "bytes", bytes);
    }
}

/// Returns the words of a gateway, such as ` via 10.0.0.1` or ` via inet6 fe80::1`; empty for other
/// targets.
pub(super) fn gateway_text<A: Display>(via: &Via<A>) -> String {
    match via {
        Via::Gateway(_, gateway) => format!(" via {gateway}"),
        Via::Gateway6(_, gateway) => format!(" via inet6 {gateway}"),
        _ => String::new(),
    }
}

/// Adds the gateway of a target, if it has one, to a JSON object.
fn set_gateway<A: Display>(row: &mut Value, via: &Via<A>) {
    match via {
        Via::Gateway(_, gateway) => set(row, "gateway", gateway.to_string()),
        Via::Gateway6(_, gateway) => set(row, "via", json!({ "family": "inet6", "host": gateway.to_string() })),
        _ => {}
    }
}

/// Returns the lines of a route's paths, each preceded by a line break.
pub(super) fn paths_text<L: Locks, A: Display>(ctl: &Ctl<'_, L>, paths: &[Path<A>]) -> String {
    let mut out = String::new();
    for path in paths {
        out += "\n\tnexthop";
        out += &gateway_text(&path.via);
        let dev = path.via.iface().map_or("-", |id| ctl.iface_name(id));
        out += &format!(" dev {dev} weight {}", path.weight);
    }
    out
}

/// Adds a route's paths to `row`, its JSON object.
pub(super) fn set_paths<L: Locks, A: Display>(ctl: &Ctl<'_, L>, row: &mut Value, paths: &[Path<A>]) {
    set(row, "nexthops", paths.iter().map(|path| path_json(ctl, path)).collect::<Vec<_>>());
}

pub(super) fn path_json<L: Locks, A: Display>(ctl: &Ctl<'_, L>, path: &Path<A>) -> Value {
    let mut row = json!({ "weight": path.weight });
    set_gateway(&mut row, &path.via);
    if let Some(id) = path.via.iface() {
        set(&mut row, "dev", ctl.iface_name(id));
    }
    set(&mut row, "flags", Vec::<Value>::new());
    row
}

fn row_json<L: Locks>(ctl: &Ctl<'_, L>, route: &Route) -> Value {
    let mut row = json!({ "dst": parse::prefix_text(route.prefix) });
    if let Some(word) = type_word(&route.via) {
        set(&mut row, "type", word);
    }
    set_gateway(&mut row, &route.via);
    set_count(ctl, &mut row, route.prefix);
    if let Some(id) = route.via.iface() {
        set(&mut row, "dev", ctl.iface_name(id));
    }
    if let Some(protocol) = protocol_of(route, is_own(ctl, route)) {
        set(&mut row, "protocol", protocol.to_string());
    }
    if let Via::Link(_) = route.via {
        set(&mut row, "scope", "link");
        if let Some(src) = ctl.source_of(route.via, route.prefix.addr()) {
            set(&mut row, "prefsrc", src.to_string());
        }
    }
    if let Via::Paths(_) = route.via {
        set_paths(ctl, &mut row, &ctl.host.stack.paths(ctl.cx, route.via));
    }
    set(&mut row, "flags", Vec::<Value>::new());
    row
}

fn get<L: Locks>(ctl: &Ctl<'_, L>, words: Words<'_>) -> Result<String, CommandError> {
    let (_, args) = parse_all(why::GET, words)?;
    got(ctl, &why::route_query::<u32, L>(ctl, &args)?)
}

/// Shows the next hop of the queried address or, with `--why`, explains why it was chosen.
pub(super) fn got<L: Locks>(ctl: &Ctl<'_, L>, requested: &why::RouteQuery<u32>) -> Result<String, CommandError> {
    if requested.why {
        return Ok(requested.explain(ctl));
    }
    let (dst, answer) = (requested.dst(), requested.answer(ctl));
    let nowhere = || CommandError::failed(format!("{dst}: network is unreachable: no route to this address"));
    let exact = Route::own(Prefix::host(dst), answer.via.ok_or_else(nowhere)?);
    let src = match exact.via {
        Via::Gateway6(..) => answer.source, // the iface may have no address
        via => ctl.source_of(via, dst),
    };
    let text = || {
        let mut out = type_word(&exact.via).map(|word| format!("{word} ")).unwrap_or_default() + &dst.to_string();
        out += &gateway_text(&exact.via);
        if let Some(id) = exact.via.iface() {
            out += &format!(" dev {}", ctl.iface_name(id));
        }
        out + &src.map(|src| format!(" src {src}")).unwrap_or_default() + "\n"
    };
    let json = || {
        let mut row = row_json(ctl, &exact);
        if let Some(map) = row.as_object_mut() {
            map.retain(|key, _| !matches!(key.as_str(), "protocol" | "scope"));
        }
        if let Some(src) = src {
            set(&mut row, "prefsrc", src.to_string());
        }
        Value::Array(vec![row])
    };
    Ok(ctl.listing(json, text))
}

/// Removes all own routes except those that were added together with an iface's address.
fn flush<L: Locks>(ctl: &Ctl<'_, L>, words: Words<'_>) -> Result<String, CommandError> {
    words.end()?;
    let routes = ctl.host.stack.routes(ctl.cx);
    for route in routes.iter().filter(|route| route.origin.is_own() && !is_own(ctl, route)) {
        ctl.host.stack.remove_route(ctl.cx, route.prefix);
    }
    Ok(String::new())
}
