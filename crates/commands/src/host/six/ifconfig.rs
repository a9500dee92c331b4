//! `ifconfig IF inet6 ...`, and the IPv6 lines in the output of `ifconfig`.

use super::super::context::Ctl;
use super::super::iface::IfaceForm;
use super::super::tunnel;
use super::addr::{host, refused};
use super::zone::{with_zone, zoned};
use crate::json::set;
use crate::parse;
use clock::Instant;
use grammar::{Args, CommandError, Form};
use inet::iface::{Iface, IfaceKind};
use inet::ip6::{AddrState, Advertising, IfaceAddr6, Origin, Refused6};
use lock::Locks;
use serde_json::{Value, json};
use std::marker::PhantomData;
use wire::ip6;

/// Parameters of `ifconfig` for IPv6.
pub(in super::super) struct Forms<L>(PhantomData<L>);

impl<L: Locks> Forms<L> {
    pub(in super::super) const ALL: &[IfaceForm<L>] = &[
        Form {
            grammar: "inet6 A/LEN [B] [prefixlen 0-128] [alias,add] [-alias,delete,remove]",
            about: "Add or remove an IPv6 address. B is the remote end of a tunnel.",
            run: inet6,
        },
        Form {
            grammar: "inet6 auto_linklocal",
            about: "Add a link-local address.",
            run: |ctl, iface, _| outcome(iface, ctl.host.stack.add_link_local(ctl.cx, iface.id)),
        },
        Form {
            grammar: "inet6 [-]accept_rtadv",
            about: "Accept router advertisements and configure addresses from them.",
            run: |ctl, iface, args| {
                needs_ethernet(iface, "accept_rtadv")?;
                let on = args.is_on("accept_rtadv");
                outcome(iface, ctl.host.stack.set_accept_rtadv(ctl.cx, iface.id, on))
            },
        },
        Form {
            grammar: "inet6 advertise [rltime SECONDS:0-9000] [maxinterval INTERVAL:0-1800] [vltime VALID:0-4294967295] \
                      [pltime PREFERRED:0-4294967295]",
            about: "Send router advertisements while the host forwards IPv6; parameters as in rtadvd.conf(5).",
            run: |ctl, iface, args| {
                needs_ethernet(iface, "advertise")?;
                let default = Advertising::default();
                let config = Advertising {
                    lifetime: args.number("SECONDS").map_or(default.lifetime, |n| n as u16),
                    max_interval: args.number("INTERVAL").map_or(default.max_interval, |n| n as u16),
                    valid: args.number("VALID").map_or(default.valid, |n| n as u32),
                    preferred: args.number("PREFERRED").map_or(default.preferred, |n| n as u32),
                };
                config.check().map_err(|why| CommandError::failed(why.to_string()))?;
                outcome(iface, ctl.host.stack.set_advertising(ctl.cx, iface.id, Some(config)))
            },
        },
        Form {
            grammar: "inet6 -advertise",
            about: "Stop sending router advertisements.",
            run: |ctl, iface, _| {
                needs_ethernet(iface, "advertise")?;
                outcome(iface, ctl.host.stack.set_advertising(ctl.cx, iface.id, None))
            },
        },
        Form { grammar: "inet6 tunnel A B", about: "Set the outer addresses of a tunnel.", run: tunnel::ends },
    ];
}

/// Converts the error of a failed change to an interface into an error message.
fn outcome<L: Locks>(iface: &Iface<L>, changed: Result<(), Refused6>) -> Result<(), CommandError> {
    changed.map_err(|why| CommandError::failed(format!("{}: {}", iface.name, refused(why))))
}

fn needs_ethernet<L: Locks>(iface: &Iface<L>, option: &str) -> Result<(), CommandError> {
    let why = || format!("{}: {option}: router advertisements need an Ethernet interface", iface.name);
    if iface.kind == IfaceKind::Ethernet { Ok(()) } else { Err(CommandError::failed(why())) }
}

/// Runs `inet6 A/LEN ...`.
fn inet6<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>, args: &Args<'_>) -> Result<(), CommandError> {
    let word = args.text("A/LEN");
    let (text, len) = match word.split_once('/') {
        Some((text, len)) => (text, Some(parse::number("prefix length", len, 0, 128)? as u8)),
        None => (word, None),
    };
    let (addr, _) = zoned(ctl, "address", text)?;
    let peer = match args.get("B") {
        Some(word) if iface.kind != IfaceKind::Tunnel => return Err(CommandError::too_much(word)),
        Some(word) => Some(host("remote end", zoned(ctl, "remote end", word)?.0)?),
        None => None,
    };
    if args.has("-alias") {
        let gone = ctl.host.stack.remove_addr6(ctl.cx, iface.id, addr);
        return if gone { Ok(()) } else { Err(CommandError::failed(format!("{} does not have {addr}", iface.name))) };
    }
    let len = args.number("prefixlen").map(|len| len as u8).or(len);
    let len = len.unwrap_or(if peer.is_some() || iface.kind == IfaceKind::Loopback { 128 } else { 64 });
    ctl.host.put_addr6(iface, IfaceAddr6 { peer, ..IfaceAddr6::new(host("address", addr)?, len) })
}

/// Returns the lines that BSD's `ifconfig` prints for the IPv6 addresses and options of an iface.
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
    ctl.seconds_left(until).map_or("infty".to_string(), |left| left.to_string())
}

/// Returns the elements of `addr_info` in `ip -j addr`.
pub(in super::super) fn addr_infos<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>) -> Vec<Value> {
    let info = |own: IfaceAddr6| {
        let mut info = json!({
            "family": "inet6", "local": own.addr.to_string(), "prefixlen": own.len, "scope": scope(iface, own.addr),
            "valid_life_time": u32::MAX, "preferred_life_time": u32::MAX,
        });
        if let Origin::Advertised { preferred_until, valid_until, .. } = own.origin {
            let left = |until| ctl.seconds_left(until).map_or(u32::MAX, |left| left as u32);
            set(&mut info, "dynamic", true);
            set(&mut info, "valid_life_time", left(valid_until));
            set(&mut info, "preferred_life_time", left(preferred_until));
            if own.is_deprecated(ctl.cx.now) {
                set(&mut info, "deprecated", true);
            }
        }
        if let Some(peer) = own.peer {
            set(&mut info, "address", peer.to_string());
        }
        match own.state {
            AddrState::Tentative(..) => set(&mut info, "tentative", true),
            AddrState::Duplicated => set(&mut info, "dadfailed", true),
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
