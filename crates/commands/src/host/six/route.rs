//! `route -6`: IPv6 routes in BSD's format, which are also the second table of `netstat -r`.

use super::super::context::Ctl;
use super::super::route::hops::{is_by, via_of};
use super::super::why;
use super::addr::prefix;
use super::ip;
use super::prefix_text;
use super::zone::{with_zone, zoned};
use grammar::{Args, CommandError};
use inet::fib::Prefix6;
use inet::iface::IfaceKind;
use inet::route::{Path, Route6, Via6};
use lock::Locks;
use wire::ip6;

/// Runs `route -6 delete`.
pub(in super::super) fn delete<L: Locks>(ctl: &Ctl<'_, L>, args: &Args<'_>) -> Result<String, CommandError> {
    let (prefix, shown) = target(args)?;
    let gateways: Vec<_> =
        args.rest().iter().map(|word| Ok(zoned(ctl, "gateway", word)?.0)).collect::<Result<_, CommandError>>()?;
    let is_by = |via: Via6| is_by(via, &ctl.host.stack.paths6(ctl.cx, via), &gateways);
    if !ctl.host.stack.route6_at(ctl.cx, prefix).is_some_and(is_by) {
        return Err(CommandError::failed(format!("{shown}: not in table")));
    }
    ctl.host.stack.remove_route6(ctl.cx, prefix);
    Ok(format!("delete {shown}\n"))
}

/// Returns the destination from `[-net|-host] DST [-prefixlen N]`.
fn target(args: &Args<'_>) -> Result<(Prefix6, String), CommandError> {
    let word = args.text("DST");
    let mut found = prefix(word)?;
    if let Some(mask) = args.get("MASK") {
        return Err(CommandError::bad("-netmask", mask, "-prefixlen N for an IPv6 destination"));
    }
    if let Some(len) = args.number("-prefixlen") {
        found = Prefix6::new(found.addr(), len as u8).unwrap_or(found);
    }
    if args.has("-host") && found.len() != 128 {
        return Err(CommandError::bad("-host", word, "one address, without a length"));
    }
    let what = if found.len() == 128 { "host" } else { "net" };
    Ok((found, format!("{what} {}", word.split('/').next().unwrap_or(word))))
}

/// Runs `route -6 add` and `change`.
pub(in super::super) fn add<L: Locks>(ctl: &Ctl<'_, L>, args: &Args<'_>) -> Result<String, CommandError> {
    let ((prefix, shown), via) = (target(args)?, via_of(ctl, args)?);
    let by = |word: &&str| ctl.gateway6(word, None).map(|via| Path { via, weight: 1 });
    let paths = match via {
        Some(via) => vec![Path { via, weight: 1 }],
        None => args.rest().iter().map(by).collect::<Result<Vec<_>, _>>()?,
    };
    let verb = if args.words().first() == Some(&"add") { "add" } else { "change" };
    match (verb, ctl.host.stack.route6_at(ctl.cx, prefix)) {
        ("add", Some(_)) => return Err(CommandError::failed(format!("{shown}: a route exists; use 'route change'"))),
        ("change", _) => ctl.host.change_paths6(prefix, &paths)?,
        _ => ctl.host.replace_paths6(prefix, &paths)?,
    }
    let to: String = args.rest().iter().map(|gateway| format!(": gateway {gateway}")).collect();
    Ok(format!("{verb} {shown}{to}\n"))
}

/// Runs `route -6 get`.
pub(in super::super) fn get<L: Locks>(ctl: &Ctl<'_, L>, args: &Args<'_>) -> Result<String, CommandError> {
    let requested = why::route_query::<u128, L>(ctl, args)?;
    if requested.why || ctl.json {
        return ip::got(ctl, &requested);
    }
    let dst = requested.dst();
    let answer = requested.answer(ctl);
    let nowhere = || CommandError::failed(format!("{dst}: not in table: no route to this address"));
    let via = answer.via.ok_or_else(nowhere)?;
    let prefix = answer.matched.map_or(Prefix6::host(dst), |route| route.prefix);
    let route = Route6::own(prefix, via);
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
        Via6::Gateway(..) | Via6::Gateway6(..) => flags.push("STATIC"),
        Via6::Link(_) | Via6::Broadcast(_) | Via6::Paths(_) => {}
    }
    flags.push("DONE");
    Ok(out + &format!("      flags: <{}>\n", flags.join(",")))
}

/// Returns the letters that netstat(1) prints for the flags of a route.
fn letters(via: Via6, prefix: Prefix6) -> String {
    let host = if prefix.len() == 128 { "H" } else { "" };
    match via {
        Via6::Gateway(..) | Via6::Gateway6(..) => format!("UG{host}S"),
        Via6::Link(_) | Via6::Broadcast(_) | Via6::Paths(_) => format!("U{host}"),
        Via6::Local(_) => format!("U{host}l"),
        Via6::Reject | Via6::Prohibit => format!("U{host}RS"),
        Via6::Blackhole => format!("U{host}BS"),
    }
}

/// Returns the table of `route -6 show` and `netstat -r`, including link-local addresses. It is
/// empty if no iface has IPv6.
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
