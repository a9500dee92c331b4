//! `ifconfig IF inet6 ...`, and its output.

use super::super::parse;
use super::super::{Ctl, tunnel};
use super::ndp::seconds_left;
use super::{host, refused, with_zone, zoned};
use clock::Instant;
use grammar::{CommandError, Words};
use inet::iface::{Iface, IfaceKind};
use inet::ip6::{AddrState, Advertising, IfaceAddr6, Origin};
use lock::Locks;
use serde_json::{Value, json};
use wire::ip6;

/// Runs `inet6 A[/LEN] [B] [prefixlen N] [alias|add|-alias|delete]`, `inet6 auto_linklocal`,
/// `inet6 [-]accept_rtadv`, `inet6 [-]advertise [rltime N] [maxinterval N] [vltime N] [pltime N]`,
/// `inet6 tunnel A B`.
pub(in super::super) fn inet6<L: Locks>(
    ctl: &Ctl<'_, L>,
    iface: &Iface<L>,
    words: &mut Words<'_>,
) -> Result<(), CommandError> {
    let word = words.next("an IPv6 address, auto_linklocal, accept_rtadv, advertise or tunnel")?;
    let (option, on) = word.strip_prefix('-').map_or((word, true), |option| (option, false));
    if let "accept_rtadv" | "advertise" = option {
        if iface.kind != IfaceKind::Ethernet {
            let why = format!("{}: {option}: router advertisements need an Ethernet interface", iface.name);
            return Err(CommandError::failed(why));
        }
        let stack = &ctl.host.stack;
        let set = if option == "accept_rtadv" {
            stack.set_accept_rtadv(ctl.cx, iface.id, on)
        } else {
            let config = if on { Some(advertising(words)?) } else { None };
            stack.set_advertising(ctl.cx, iface.id, config)
        };
        return set.map_err(|why| CommandError::failed(format!("{}: {}", iface.name, refused(why))));
    }
    if word == "auto_linklocal" {
        let added = ctl.host.stack.add_link_local(ctl.cx, iface.id);
        return added.map_err(|why| CommandError::failed(format!("{}: {}", iface.name, refused(why))));
    }
    if word == "tunnel" {
        let changed = tunnel::change(ctl, iface, word, words);
        return changed.unwrap_or_else(|| Err(CommandError::failed(format!("{}: no tunnel", iface.name))));
    }
    let (text, len) = match word.split_once('/') {
        Some((text, len)) => (text, Some(parse::number("prefix length", len, 0, 128)? as u8)),
        None => (word, None),
    };
    let (addr, _) = zoned(ctl, "address", text)?;
    let (mut len, mut peer, mut delete) = (len, None, false);
    if iface.kind == IfaceKind::Tunnel
        && let Some(far) = words.peek().and_then(|word| word.parse().ok())
    {
        words.take();
        peer = Some(host("far end", far)?);
    }
    while let Some(word) = words.peek() {
        match word {
            "prefixlen" | "alias" | "add" => {}
            "-alias" | "delete" | "remove" => delete = true,
            _ => break,
        }
        words.take();
        if word == "prefixlen" {
            len = Some(parse::number("prefixlen", words.next("a number of bits")?, 0, 128)? as u8);
        }
    }
    if delete {
        let gone = ctl.host.stack.remove_addr6(ctl.cx, iface.id, addr);
        return if gone { Ok(()) } else { Err(CommandError::failed(format!("{} does not have {addr}", iface.name))) };
    }
    let len = len.unwrap_or(if peer.is_some() || iface.kind == IfaceKind::Loopback { 128 } else { 64 });
    add_addr6(ctl, iface, IfaceAddr6 { peer, ..IfaceAddr6::new(host("address", addr)?, len) })
}

/// Parses the configuration of router advertisements; names as in rtadvd.conf(5).
fn advertising(words: &mut Words<'_>) -> Result<Advertising, CommandError> {
    let mut config = Advertising::default();
    while let Some(word) = words.peek() {
        let most = match word {
            "rltime" => 9000,
            "maxinterval" => 1800,
            "vltime" | "pltime" => i64::from(u32::MAX),
            _ => break,
        };
        words.take();
        let seconds = parse::number(word, words.next("seconds")?, 0, most)?;
        match word {
            "rltime" => config.lifetime = seconds as u16,
            "maxinterval" => config.max_interval = seconds as u16,
            "vltime" => config.valid = seconds as u32,
            _ => config.preferred = seconds as u32,
        }
    }
    config.check().map_err(|why| CommandError::failed(why.to_string()))?;
    Ok(config)
}

/// Adds an address to an iface, unless another iface has it.
pub(super) fn add_addr6<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>, addr: IfaceAddr6) -> Result<(), CommandError> {
    let has = |other: &&Iface<L>| other.addrs6(ctl.cx).iter().any(|own| own.addr == addr.addr);
    let other = ctl.host.stack.ifaces().filter(|other| other.id != iface.id).find(has);
    if let Some(other) = other.filter(|_| !ip6::is_link_local(addr.addr)) {
        return Err(CommandError::failed(format!("{} has {} already", other.name, addr.addr)));
    }
    let added = ctl.host.stack.add_addr6(ctl.cx, iface.id, addr);
    added.map_err(|why| CommandError::failed(format!("{}: {}: {}", iface.name, addr.addr, refused(why))))
}

/// Returns the lines of BSD's `ifconfig`.
pub(in super::super) fn describe<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>) -> String {
    let mut out = String::new();
    for own in iface.addrs6(ctl.cx) {
        out += &format!("\tinet6 {}", with_zone(ctl, own.addr, iface.id));
        if let Some(peer) = own.peer {
            out += &format!(" --> {peer}");
        }
        out += &format!(" prefixlen {}", own.len);
        out += match own.state {
            AddrState::Tentative(..) => " tentative",
            AddrState::Duplicated => " duplicated",
            AddrState::Valid => "",
        };
        if ip6::is_link_local(own.addr) {
            out += &format!(" scopeid {:#x}", iface.id.0 + 1);
        }
        if let Origin::Advertised { preferred_until, valid_until, .. } = own.origin {
            let [preferred, valid] = [preferred_until, valid_until].map(|until| lifetime(ctl, until));
            let deprecated = if own.is_deprecated(ctl.cx.now) { " deprecated" } else { "" };
            out += &format!("{deprecated} autoconf pltime {preferred} vltime {valid}");
        }
        out.push('\n');
    }
    let options = [(iface.accepts_rtadv(ctl.cx), "ACCEPT_RTADV"), (iface.advertising(ctl.cx).is_some(), "ADVERTISE")];
    let on: Vec<_> = options.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect();
    if !on.is_empty() {
        out += &format!("\tnd6 options=<{}>\n", on.join(","));
    }
    out
}

fn lifetime<L: Locks>(ctl: &Ctl<'_, L>, until: Instant) -> String {
    seconds_left(ctl, until).map_or("infty".to_string(), |left| left.to_string())
}

/// Returns the `addr_info` of `ip -j addr`.
pub(in super::super) fn addr_infos<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>) -> Vec<Value> {
    let info = |own: IfaceAddr6| {
        let mut info = json!({
            "family": "inet6", "local": own.addr.to_string(), "prefixlen": own.len, "scope": scope(iface, own.addr),
            "valid_life_time": u32::MAX, "preferred_life_time": u32::MAX,
        });
        if let Origin::Advertised { preferred_until, valid_until, .. } = own.origin {
            let left = |until| seconds_left(ctl, until).map_or(u32::MAX, |left| left as u32);
            super::super::ip::set(&mut info, "dynamic", true);
            super::super::ip::set(&mut info, "valid_life_time", left(valid_until));
            super::super::ip::set(&mut info, "preferred_life_time", left(preferred_until));
            if own.is_deprecated(ctl.cx.now) {
                super::super::ip::set(&mut info, "deprecated", true);
            }
        }
        if let Some(peer) = own.peer {
            super::super::ip::set(&mut info, "address", peer.to_string());
        }
        match own.state {
            AddrState::Tentative(..) => super::super::ip::set(&mut info, "tentative", true),
            AddrState::Duplicated => super::super::ip::set(&mut info, "dadfailed", true),
            AddrState::Valid => {}
        }
        info
    };
    iface.addrs6(ctl.cx).into_iter().map(info).collect()
}

/// Returns iproute2's name of an address scope.
pub(super) fn scope<L: Locks>(iface: &Iface<L>, addr: std::net::Ipv6Addr) -> &'static str {
    match () {
        () if iface.kind == IfaceKind::Loopback => "host",
        () if ip6::is_link_local(addr) => "link",
        () => "global",
    }
}
