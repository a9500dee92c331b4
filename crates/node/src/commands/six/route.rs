//! `route -6`: IPv6 routes in BSD's format, also used as the second table of `netstat -r`.

use super::super::parse;
use super::super::route::is_by;
use super::super::{Ctl, why};
use super::{ip, prefix, prefix_text, with_zone, zoned};
use grammar::{CommandError, Words};
use inet::fib::Prefix6;
use inet::iface::IfaceKind;
use inet::route::{Path, Route6, Via6};
use lock::Locks;
use wire::ip6;

const VERBS: &[&str] = &["show", "add", "delete", "change", "get", "flush"];

/// Runs `route -6 VERB ...`, from the verb on.
pub(in super::super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    let verb = words.next("show, add, delete, change, get or flush")?;
    while words.skip("-6") || words.skip("-inet6") || words.skip("-n") {}
    match verb {
        "show" if ctl.json => ip::route(ctl, Words::new(&["show"])),
        "show" => words.end().map(|()| table(ctl)),
        "flush" => ip::route(ctl, Words::new(&["flush"])),
        "add" | "change" => add(ctl, words, verb),
        "delete" | "del" => {
            let (prefix, shown) = target(&mut words)?;
            let mut gateways = Vec::new();
            while let Some(word) = words.take() {
                gateways.push(zoned(ctl, "gateway", word)?.0);
            }
            let is_by = |via: Via6| is_by(via, &ctl.host.stack.paths6(ctl.cx, via), &gateways);
            if !ctl.host.stack.route6_at(ctl.cx, prefix).is_some_and(is_by) {
                return Err(CommandError::failed(format!("{shown}: not in table")));
            }
            ctl.host.stack.remove_route6(ctl.cx, prefix);
            Ok(format!("delete {shown}\n"))
        }
        "get" => get(ctl, words),
        other => Err(CommandError::unknown("verb", other, VERBS.iter().copied())),
    }
}

/// Parses `[-net|-host] DST [-prefixlen N]`.
fn target(words: &mut Words<'_>) -> Result<(Prefix6, String), CommandError> {
    let kind = words.peek().filter(|word| matches!(*word, "-net" | "-host"));
    if kind.is_some() {
        words.take();
    }
    let word = words.next("a destination such as 2001:db8::/32, or default")?;
    let mut found = prefix(word)?;
    if words.skip("-prefixlen") {
        let len = parse::number("prefixlen", words.next("a number of bits")?, 0, 128)? as u8;
        found = Prefix6::new(found.addr(), len).unwrap_or(found);
    }
    if kind == Some("-host") && found.len() != 128 {
        return Err(CommandError::bad("-host", word, "one address, without a length"));
    }
    let what = if found.len() == 128 { "host" } else { "net" };
    Ok((found, format!("{what} {}", word.split('/').next().unwrap_or(word))))
}

fn add<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>, verb: &str) -> Result<String, CommandError> {
    let (mut prefix, shown) = target(&mut words)?;
    let (mut via, mut gateways) = (None, Vec::new());
    while let Some(word) = words.take() {
        match word {
            "-prefixlen" => {
                let len = parse::number("prefixlen", words.next("a number of bits")?, 0, 128)? as u8;
                prefix = Prefix6::new(prefix.addr(), len).unwrap_or(prefix);
            }
            "-interface" | "-iface" => via = Some(Via6::Link(ctl.iface(words.next("an iface")?)?.id)),
            "-reject" => via = Some(Via6::Reject),
            "-blackhole" => via = Some(Via6::Blackhole),
            "-prohibit" => via = Some(Via6::Prohibit),
            "-static" | "-gateway" => {}
            option if option.starts_with('-') => {
                let known = ["-prefixlen", "-interface", "-reject", "-blackhole", "-prohibit"];
                return Err(CommandError::unknown("option", option, known.into_iter()));
            }
            word if via.is_none() => gateways.push(word),
            word => return Err(CommandError::TooMuch { found: word.to_string() }),
        }
    }
    let by = |word: &&str| ctl.gateway6(word, None).map(|via| Path { via, weight: 1 });
    let ways = match (via, &*gateways) {
        (Some(via), []) => vec![Path { via, weight: 1 }],
        (None, []) => {
            return Err(CommandError::missing("a gateway's address, -interface IF, -reject, -prohibit or -blackhole"));
        }
        (None, gateways) => gateways.iter().map(by).collect::<Result<Vec<_>, _>>()?,
        (Some(_), [word, ..]) => return Err(CommandError::TooMuch { found: (*word).to_string() }),
    };
    match (verb, ctl.host.stack.route6_at(ctl.cx, prefix)) {
        ("add", Some(_)) => return Err(CommandError::failed(format!("{shown}: there is a route already: use change"))),
        ("change", None) => return Err(CommandError::failed(format!("{shown}: not in table"))),
        _ => ctl.add_route6(prefix, &ways)?,
    }
    let to: String = gateways.iter().map(|gateway| format!(": gateway {gateway}")).collect();
    Ok(format!("{verb} {shown}{to}\n"))
}

fn get<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    words.skip("-host");
    let asked = why::asked::<u128, L>(ctl, &mut words)?;
    if asked.why || ctl.json {
        return ip::got(ctl, &asked);
    }
    let dst = asked.dst();
    let answer = asked.answer(ctl);
    let nowhere = || CommandError::failed(format!("{dst}: not in table: no route leads there"));
    let via = answer.via.ok_or_else(nowhere)?;
    let route = Route6 { prefix: answer.matched.map_or(Prefix6::host(dst), |route| route.prefix), via };
    let shown = if route.prefix.len() == 0 { "default".to_string() } else { route.prefix.addr().to_string() };
    let mask = Prefix6::new(std::net::Ipv6Addr::from_bits(u128::MAX), route.prefix.len()).unwrap_or(Prefix6::DEFAULT);
    let mut out = format!("   route to: {dst}\ndestination: {shown}\n       mask: {}\n", mask.addr());
    if let Via6::Gateway(id, gateway) = route.via {
        out += &format!("    gateway: {}\n", with_zone(ctl, gateway, id));
    }
    if let Some(iface) = route.via.iface().and_then(|id| ctl.host.stack.iface(id)) {
        out += &format!("  interface: {}\n        mtu: {}\n", iface.name, iface.mtu6());
    }
    let mut flags = vec!["UP"];
    if let Via6::Gateway(..) = route.via {
        flags.push("GATEWAY");
    }
    if route.prefix.len() == 128 {
        flags.push("HOST");
    }
    match route.via {
        Via6::Local(_) => flags.push("LOCAL"),
        Via6::Reject | Via6::Prohibit => flags.push("REJECT"),
        Via6::Blackhole => flags.push("BLACKHOLE"),
        Via6::Gateway(..) => flags.push("STATIC"),
        Via6::Link(_) | Via6::Broadcast(_) | Via6::Paths(_) => {}
    }
    flags.push("DONE");
    Ok(out + &format!("      flags: <{}>\n", flags.join(",")))
}

/// Returns netstat(1)'s flag letters.
fn letters(via: Via6, prefix: Prefix6) -> String {
    let host = if prefix.len() == 128 { "H" } else { "" };
    match via {
        Via6::Gateway(..) => format!("UG{host}S"),
        Via6::Link(_) | Via6::Broadcast(_) | Via6::Paths(_) => format!("U{host}"),
        Via6::Local(_) => format!("U{host}l"),
        Via6::Reject | Via6::Prohibit => format!("U{host}RS"),
        Via6::Blackhole => format!("U{host}BS"),
    }
}

/// Returns the table of `route -6 show` and `netstat -r`, including link-local addresses; empty if
/// no iface has IPv6.
pub(in super::super) fn table<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let stack = &ctl.host.stack;
    let loopback = stack.ifaces().find(|iface| iface.kind == IfaceKind::Loopback).map_or("lo0", |lo| lo.name.as_str());
    let mut rows = Vec::new();
    for route in stack.routes6(ctl.cx) {
        let paths: Vec<Via6> = stack.paths6(ctl.cx, route.via).iter().map(|path| path.via).collect();
        for &via in if paths.is_empty() { std::slice::from_ref(&route.via) } else { &paths } {
            let gateway = match via {
                Via6::Gateway(id, gateway) => with_zone(ctl, gateway, id),
                via => via.iface().map_or("-".to_string(), |id| format!("link#{}", id.0 + 1)),
            };
            let netif = match via {
                Via6::Local(_) => loopback,
                via => via.iface().map_or("-", |id| ctl.iface_name(id)),
            };
            rows.push((prefix_text(route.prefix), gateway, letters(via, route.prefix), netif));
        }
    }
    for iface in stack.ifaces() {
        let link = format!("link#{}", iface.id.0 + 1);
        for own in iface.addrs6(ctl.cx).into_iter().filter(|own| ip6::is_link_local(own.addr)) {
            rows.push((format!("fe80::%{}/64", iface.name), link.clone(), "U".to_string(), &iface.name));
            rows.push((format!("{}%{}", own.addr, iface.name), link.clone(), "UHl".to_string(), loopback));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut out = format!("\nInternet6:\n{:<33} {:<29} {:<8} {}\n", "Destination", "Gateway", "Flags", "Netif");
    for (dst, gateway, flags, netif) in rows {
        out += &format!("{dst:<33} {gateway:<29} {flags:<8} {netif}\n");
    }
    out
}
