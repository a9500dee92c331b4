//! `ip -6 addr` and `ip -6 route`, with iproute2's text and JSON key names.

use super::super::context::Ctl;
use super::super::iface::change_of;
use super::super::ip::syntax::verb;
use super::super::iproute::{self, count_text, nexthops, paths_text, refuse, set_count, set_paths};
use super::super::why;
use super::addr::{host, own_address, prefix};
use super::ifconfig::scope;
use super::prefix_text;
use super::zone::zoned;
use crate::json::set;
use crate::parse;
use grammar::{CommandError, Words, parse_all};
use inet::fib::Prefix6;
use inet::iface::{Iface, LOOPBACK};
use inet::ip6::{AddrState, IfaceAddr6, Origin};
use inet::route::{Path, Protocol, Route6, Via6};
use lock::Locks;
use node::change::has_route;
use serde_json::{Value, json};
use std::net::Ipv6Addr;

/// Runs `ip -6 addr add|replace|del A/LEN [peer B] dev IF`; `words` are the words after the verb.
pub(in super::super) fn addr<L: Locks>(
    ctl: &Ctl<'_, L>,
    verb: &str,
    mut words: Words<'_>,
) -> Result<String, CommandError> {
    let word = words.next("an address such as fd00::1/64")?;
    let own = if word.contains('/') { own_address(word)? } else { own_address(&format!("{word}/128"))? };
    let (mut dev, mut peer) = (None, None);
    while let Some(word) = words.take() {
        match word {
            "dev" => dev = Some(ctl.host.iface(words.next("an iface")?)?),
            "scope" => {
                let own = if own.addr.is_unicast_link_local() { "link" } else { "global" };
                parse::only(&mut words, word, &[own], "it is derived from the address")?;
            }
            "nodad" | "noprefixroute" => {
                return Err(CommandError::failed(format!(
                    "{word}: not supported; use the sysctl net.inet6.ip6.dad_count"
                )));
            }
            "peer" => {
                let far = words.next("the address of the remote end")?;
                let far = match far.split_once('/') {
                    None | Some((_, "128")) => far.split('/').next().unwrap_or(far),
                    Some(_) => {
                        return Err(CommandError::failed(format!("peer {far}: expected a single address, /128")));
                    }
                };
                peer = Some(host("peer", zoned(ctl, "peer", far)?.0)?);
            }
            other => return Err(CommandError::unknown("word", other, ["dev", "peer"].into_iter())),
        }
    }
    let dev = dev.ok_or_else(|| CommandError::missing("dev IF"))?;
    ctl.host.change_addr6(change_of(verb), dev, IfaceAddr6 { peer, ..own }).map(|()| String::new())
}

/// Returns the lines that `ip addr` prints for the IPv6 addresses of an iface.
pub(in super::super) fn addr_text<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>) -> String {
    let mut out = String::new();
    for own in iface.addrs6(ctl.cx) {
        out += &match own.peer {
            Some(peer) => format!("    inet6 {} peer {peer}/{}", own.addr, own.len),
            None => format!("    inet6 {}/{}", own.addr, own.len),
        };
        out += &format!(" scope {}", scope(iface, own.addr));
        out += match own.state {
            AddrState::Tentative(..) => " tentative",
            AddrState::Duplicated => " dadfailed tentative",
            AddrState::Valid => "",
        };
        let (mut valid, mut preferred) = ("forever".to_string(), "forever".to_string());
        if let Origin::Advertised { preferred_until, valid_until, .. } = own.origin {
            out += if own.is_deprecated(ctl.cx.now) { " deprecated dynamic" } else { " dynamic" };
            let left = |until| ctl.seconds_left(until).map_or("forever".to_string(), |left| format!("{left}sec"));
            (valid, preferred) = (left(valid_until), left(preferred_until));
        }
        out += &format!("\n       valid_lft {valid} preferred_lft {preferred}\n");
    }
    out
}

/// One of several paths of a route.
type Path6 = Path<Ipv6Addr>;

const VERBS: &[&str] = &["show", "add", "append", "change", "replace", "del", "get", "flush"];

/// Runs `ip -6 route`.
pub(in super::super) fn route<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    let stack = &ctl.host.stack;
    match verb(&mut words, VERBS)? {
        "show" => show(ctl, words),
        "get" => get(ctl, words),
        "flush" => {
            words.end()?;
            let is_added =
                |route: &&Route6| route.origin.is_own() && !ctl.host.came_with_addr6(route.prefix, route.via);
            for route in stack.routes6(ctl.cx).iter().filter(is_added) {
                stack.remove_route6(ctl.cx, route.prefix);
            }
            Ok(String::new())
        }
        "del" => {
            let whole = words.any(|word| {
                matches!(word, "via" | "dev" | "nexthop" | "blackhole" | "unreachable" | "prohibit" | "local")
            });
            let (prefix, paths) = if whole {
                wanted(ctl, words)?
            } else {
                let prefix = prefix(words.next("a destination such as 2001:db8::/32, or default")?)?;
                while let Some(word) = words.take() {
                    if !parse::no_choice(&mut words, word)? {
                        return Err(CommandError::unknown("word", word, ["via", "dev"].into_iter()));
                    }
                }
                (prefix, Vec::new())
            };
            ctl.host.remove_paths6(prefix, &paths).map(|()| String::new())
        }
        verb => {
            let (prefix, paths) = wanted(ctl, words)?;
            match (verb, stack.route6_at(ctl.cx, prefix)) {
                ("add" | "append", Some(_)) => Err(has_route(prefix)),
                ("change", _) => ctl.host.change_paths6(prefix, &paths).map(|()| String::new()),
                _ => ctl.host.replace_paths6(prefix, &paths).map(|()| String::new()),
            }
        }
    }
}

/// Parses `[TYPE] PREFIX [via GW] [dev IF]` or `PREFIX nexthop via GW [dev IF] [weight N] nexthop
/// ...`.
fn wanted<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<(Prefix6, Vec<Path6>), CommandError> {
    let mut word = words.next("a destination such as 2001:db8::/32, or default")?;
    let nowhere = match word {
        "blackhole" => Some(Via6::Blackhole),
        "unreachable" => Some(Via6::Reject),
        "prohibit" => Some(Via6::Prohibit),
        _ => None,
    };
    let local = word == "local";
    if nowhere.is_some() || local || word == "unicast" {
        word = words.next("a destination")?;
    }
    let prefix = prefix(word)?;
    let (mut gateway, mut dev, mut onlink) = (None, None, false);
    while let Some(word) = words.take() {
        match word {
            "via" => {
                words.skip("inet6");
                gateway = Some(words.next("a gateway's address")?);
            }
            "dev" => dev = Some(ctl.host.iface(words.next("an iface")?)?.id),
            "nexthop" => {
                let way =
                    gateway.map(|_| "via").or(dev.map(|_| "dev")).or((nowhere.is_some() || local).then_some("a type"));
                refuse(way.or(onlink.then_some("onlink")))?;
                return Ok((prefix, nexthops(ctl, words, |word, dev| ctl.gateway6(word, dev))?));
            }
            "scope" => parse::only(&mut words, word, &["global", "universe"], "IPv6 routes have one scope")?,
            "src" => return Err(CommandError::failed("src: not supported: source addresses are selected by RFC 6724")),
            "onlink" => onlink = true,
            word if parse::no_choice(&mut words, word)? => {}
            other => return Err(CommandError::unknown("word", other, ["via", "dev"].into_iter())),
        }
    }
    if onlink && (gateway.is_none() || dev.is_none()) {
        return Err(CommandError::failed("onlink: needs via GATEWAY and dev IF"));
    }
    let via = match (nowhere, gateway, dev) {
        (None, None, dev) if local => Via6::Local(dev.unwrap_or(LOOPBACK)),
        _ if local => return Err(CommandError::failed("a local route accepts no gateway; omit via")),
        (Some(nowhere), None, None) => nowhere,
        (Some(_), ..) => {
            return Err(CommandError::failed("a blackhole, unreachable or prohibit route accepts neither via nor dev"));
        }
        (None, Some(gateway), dev) => ctl.gateway6(gateway, dev)?,
        (None, None, dev) => ctl.host.hop6(None, dev)?,
    };
    Ok((prefix, vec![Path { via, weight: 1 }]))
}

fn show<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    let (mut dev, mut exact, mut table, mut proto) = (None, None, "main", None);
    while let Some(word) = words.take() {
        match word {
            "dev" => dev = Some(ctl.host.iface(words.next("an iface")?)?.id),
            "proto" | "protocol" => proto = Some(iproute::protocol(words.next("a protocol")?)?),
            "table" => table = words.next("main, local or all")?,
            word => exact = Some(prefix(word)?),
        }
    }
    if !matches!(table, "main" | "local" | "all") {
        return Err(CommandError::bad("table", table, "main, local or all"));
    }
    let mut routes = ctl.host.stack.routes6(ctl.cx);
    routes.retain(|route| table == "all" || matches!(route.via, Via6::Local(_)) == (table == "local"));
    routes.retain(|route| dev.is_none_or(|dev| route.via.iface() == Some(dev)));
    routes.retain(|route| exact.is_none_or(|exact| route.prefix == exact));
    routes.retain(|route| proto.is_none_or(|proto| protocol(ctl, route) == Some(proto)));
    Ok(ctl.listing(
        || Value::Array(routes.iter().map(|route| row_json(ctl, route)).collect()),
        || routes.iter().map(|route| row_text(ctl, route)).collect(),
    ))
}

fn protocol<L: Locks>(ctl: &Ctl<'_, L>, route: &Route6) -> Option<Protocol> {
    iproute::protocol_of(route, ctl.host.came_with_addr6(route.prefix, route.via))
}

/// Returns iproute2's name of the route type; `None` for a unicast route.
fn type_word(via: Via6) -> Option<&'static str> {
    match via {
        Via6::Local(_) => Some("local"),
        Via6::Reject => Some("unreachable"),
        Via6::Prohibit => Some("prohibit"),
        Via6::Blackhole => Some("blackhole"),
        Via6::Link(_) | Via6::Gateway(..) | Via6::Gateway6(..) | Via6::Broadcast(_) | Via6::Paths(_) => None,
    }
}

fn row_text<L: Locks>(ctl: &Ctl<'_, L>, route: &Route6) -> String {
    let mut out = type_word(route.via).map(|word| format!("{word} ")).unwrap_or_default();
    out += &prefix_text(route.prefix);
    if let Via6::Gateway(_, gateway) = route.via {
        out += &format!(" via {gateway}");
    }
    if let Some(id) = route.via.iface() {
        out += &format!(" dev {}", ctl.iface_name(id));
    }
    if let Some(protocol) = protocol(ctl, route) {
        out += &format!(" proto {protocol}");
    }
    out + &count_text(ctl, route.prefix) + &paths_text(ctl, &ctl.host.stack.paths6(ctl.cx, route.via)) + "\n"
}

fn row_json<L: Locks>(ctl: &Ctl<'_, L>, route: &Route6) -> Value {
    let mut row = json!({ "dst": prefix_text(route.prefix) });
    if let Some(word) = type_word(route.via) {
        set(&mut row, "type", word);
    }
    if let Via6::Gateway(_, gateway) = route.via {
        set(&mut row, "gateway", gateway.to_string());
    }
    set_count(ctl, &mut row, route.prefix);
    if let Some(id) = route.via.iface() {
        set(&mut row, "dev", ctl.iface_name(id));
    }
    if let Some(protocol) = protocol(ctl, route) {
        set(&mut row, "protocol", protocol.to_string());
    }
    if let Via6::Paths(_) = route.via {
        set_paths(ctl, &mut row, &ctl.host.stack.paths6(ctl.cx, route.via));
    }
    set(&mut row, "flags", Vec::<Value>::new());
    row
}

fn get<L: Locks>(ctl: &Ctl<'_, L>, words: Words<'_>) -> Result<String, CommandError> {
    let (_, args) = parse_all(why::GET, words)?;
    got(ctl, &why::route_query::<u128, L>(ctl, &args)?)
}

/// Shows the next hop of the queried address or, with `--why`, explains why it was chosen.
pub(super) fn got<L: Locks>(ctl: &Ctl<'_, L>, requested: &why::RouteQuery<u128>) -> Result<String, CommandError> {
    if requested.why {
        return Ok(requested.explain(ctl));
    }
    let (dst, answer) = (requested.dst(), requested.answer(ctl));
    let nowhere = || CommandError::failed(format!("{dst}: network is unreachable: no route to this address"));
    let (via, src) = (answer.via.ok_or_else(nowhere)?, answer.source);
    let exact = Route6::own(Prefix6::host(dst), via);
    let text = || {
        let out = row_text(ctl, &exact).replace(" proto kernel", "");
        out.trim_end().to_string() + &src.map(|src| format!(" src {src}")).unwrap_or_default() + "\n"
    };
    let json = || {
        let mut row = row_json(ctl, &exact);
        if let Some(src) = src {
            set(&mut row, "prefsrc", src.to_string());
        }
        Value::Array(vec![row])
    };
    Ok(ctl.listing(json, text))
}
