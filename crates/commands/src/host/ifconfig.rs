//! `ifconfig`: creates and configures ifaces, and lists them in BSD's format.

use super::context::Ctl;
use super::iface::{IfaceForm, set_mtu};
use super::ip::list::{addr_json, has_carrier};
use super::{six, tunnel};
use crate::parse;
use grammar::{Args, CommandError, Form, Usage, Words, parse_sequence};
use inet::iface::{Iface, IfaceId, IfaceKind, Offload};
use lock::Locks;
use node::config::IfaceConfig;
use serde_json::{Value, json};
use std::marker::PhantomData;

/// Syntax forms of the parameters of `ifconfig IF`.
struct Forms<L>(PhantomData<L>);

impl<L: Locks> Forms<L> {
    const ALL: &[IfaceForm<L>] = &[
        Form {
            grammar: "create [port PORT]",
            about: "Create an interface; the names pgN, tapN, tunN, nullN, gifN, greN and vxlanN imply a port or tunnel.",
            run: |_, _, _| Ok(()), // carried out by `create`, before there is an interface
        },
        Form { grammar: "destroy", about: "Remove the interface.", run: |ctl, iface, _| destroy(ctl, iface) },
        Form {
            grammar: "inet A/LEN [B] [netmask MASK] [broadcast BROADCAST] [alias,add] [-alias,delete,remove]",
            about: "Set the IPv4 address; alias adds one, -alias removes one. B is the remote end of a tunnel.",
            run: inet,
        },
        Form {
            grammar: "mtu BYTES",
            about: "Set the MTU, from 68 to the maximum of the port.",
            run: |ctl, iface, args| set_mtu(ctl, iface, args.text("BYTES")),
        },
        Form {
            grammar: "up",
            about: "Bring the interface up.",
            run: |ctl, iface, _| {
                ctl.host.stack.set_up(ctl.cx, iface.id, true);
                Ok(())
            },
        },
        Form {
            grammar: "down",
            about: "Take the interface down.",
            run: |ctl, iface, _| {
                ctl.host.stack.set_up(ctl.cx, iface.id, false);
                Ok(())
            },
        },
        Form {
            grammar: "[-]ip4csum",
            about: "Offload IPv4 header checksums to the port.",
            run: |ctl, iface, args| {
                let on = args.is_on("ip4csum");
                offload(ctl, iface, "ip4csum", on, Offload { tx_ip: on, ..iface.offload() })
            },
        },
        Form {
            grammar: "[-]udp4csum",
            about: "Offload TCP and UDP checksums to the port.",
            run: |ctl, iface, args| {
                let on = args.is_on("udp4csum");
                offload(ctl, iface, "udp4csum", on, Offload { tx_l4: on, ..iface.offload() })
            },
        },
        Form {
            grammar: "[-]upd4csum",
            about: "Same as udp4csum (alternative spelling).",
            run: |ctl, iface, args| {
                let on = args.is_on("upd4csum");
                offload(ctl, iface, "udp4csum", on, Offload { tx_l4: on, ..iface.offload() })
            },
        },
        Form {
            grammar: "[-]tso4",
            about: "Offload TCP segmentation to the port.",
            run: |ctl, iface, args| {
                let (on, now) = (args.is_on("tso4"), iface.offload());
                offload(ctl, iface, "tso4", on, Offload { tso: on, tx_l4: now.tx_l4 || on, ..now })
            },
        },
        Form {
            grammar: "[-]rxcsum",
            about: "Use the port's verification of received checksums.",
            run: |ctl, iface, args| {
                let on = args.is_on("rxcsum");
                offload(ctl, iface, "rxcsum", on, Offload { rx: on, ..iface.offload() })
            },
        },
    ];

    fn all() -> impl Iterator<Item = &'static IfaceForm<L>> + Clone {
        [Forms::ALL, six::IfconfigForms::ALL, tunnel::Forms::ALL].into_iter().flatten()
    }
}

/// Syntax forms that list or show interfaces, without changes.
const LISTS: &[Form<()>] = &[
    Form { grammar: "[-a]", about: "List all interfaces.", run: () },
    Form { grammar: "-l", about: "List the names of the interfaces.", run: () },
    Form { grammar: "IF", about: "Show an interface.", run: () },
];

pub(super) fn usage<L: Locks>() -> Vec<Usage> {
    let parameters = Forms::<L>::all().map(|form| form.usage("IF"));
    grammar::usage(LISTS).into_iter().chain(parameters).collect()
}

#[cfg(test)]
pub(super) fn unreachable<L: Locks>() -> Vec<&'static str> {
    grammar::unreachable(&Forms::<L>::all().collect::<Vec<_>>())
}

/// Runs `ifconfig`. The whole command is parsed before any part of it is applied.
pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    let name = match words.take() {
        None => return Ok(list(ctl, None)),
        Some("-a") => return words.end().map(|()| list(ctl, None)),
        Some("-l") => {
            let names: Vec<&str> = ctl.host.stack.ifaces().map(|iface| iface.name.as_str()).collect();
            return words.end().map(|()| ctl.listing(|| json!(names), || names.join(" ") + "\n"));
        }
        Some(name) => name,
    };
    if words.peek().is_none() {
        return Ok(list(ctl, Some(ctl.host.iface(name)?.id)));
    }
    let is_new = words.peek() == Some("create");
    if !is_new {
        ctl.host.iface(name)?;
    }
    let changes = parse_sequence(Forms::<L>::all(), words)?;
    if let Some((_, after)) = changes.iter().skip_while(|(_, args)| !is(args, &["destroy"])).nth(1) {
        return Err(CommandError::too_much(after.words().first().copied().unwrap_or_default()));
    }
    if changes.iter().skip(1).any(|(_, args)| is(args, &["create"])) {
        return Err(CommandError::failed(format!("{name}: create must come first")));
    }
    check_vxlan_ports(&changes)?;
    let mut changes = changes.into_iter();
    if is_new && let Some((_, args)) = changes.next() {
        create(ctl, name, args.get("PORT"))?;
    }
    let iface = ctl.host.iface(name)?;
    changes.try_for_each(|(form, args)| (form.run)(ctl, iface, &args))?;
    Ok(String::new())
}

/// Returns whether the parameter in `args` is one of `names`.
fn is(args: &Args<'_>, names: &[&str]) -> bool {
    args.words().first().is_some_and(|word| names.contains(word))
}

/// Rejects different values of `vxlanlocalport` and `vxlanremoteport`: both ends of a tunnel use
/// the same port.
fn check_vxlan_ports<L: Locks>(changes: &[(&IfaceForm<L>, Args<'_>)]) -> Result<(), CommandError> {
    let ports = changes.iter().filter(|(_, args)| is(args, &["vxlanlocalport", "vxlanremoteport"]));
    let mut ports = ports.filter_map(|(_, args)| args.number("PORT"));
    let first = ports.next();
    match ports.find(|port| Some(*port) != first) {
        Some(other) => Err(CommandError::failed(format!(
            "vxlanlocalport and vxlanremoteport must be equal: {} and {other} were given",
            first.unwrap_or_default()
        ))),
        None => Ok(()),
    }
}

/// Removes an iface, which must be a tunnel or have a port; the port is closed.
pub(super) fn destroy<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>) -> Result<(), CommandError> {
    if iface.tunnel.is_some() {
        return tunnel::destroy(ctl, iface.id);
    }
    match ctl.host.remove_port(iface.id) {
        true => Ok(()),
        false => Err(CommandError::failed(format!("{}: cannot be removed: it has no port", iface.name))),
    }
}

/// Creates an interface. For a tunnel, and for the names `pgN`, `tapN` and `nullN`, no port needs
/// to be given, because the name implies the kind.
fn create<L: Locks>(ctl: &Ctl<'_, L>, name: &str, port: Option<&str>) -> Result<(), CommandError> {
    if let Some(kind) = inet::tunnel::Kind::of_name(name).filter(|_| port.is_none()) {
        return tunnel::create(ctl, name, kind).map(drop);
    }
    let spec = port.map_or_else(|| default_port(name), |port| Ok(port.to_string()))?;
    if name.is_empty() || name.len() > 32 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) {
        return Err(CommandError::bad("iface name", name, "1 to 32 letters, digits, '.', '_' and '-'"));
    }
    let config = IfaceConfig { name: Some(name.to_string()), ..IfaceConfig::on(&spec) };
    ctl.host.add_port(&config, ctl.pairs).map(drop).map_err(CommandError::failed)
}

fn default_port(name: &str) -> Result<String, CommandError> {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match kind {
        _ if kind.len() == name.len() => {}
        "pg" => return Ok(format!("pktgen(source=off):{name}")),
        "tap" => return Ok(format!("tap:{name}")),
        "tun" => return Ok(format!("tun:{name}")),
        "null" => return Ok(format!("null:{name}")),
        _ => {}
    }
    Err(CommandError::missing(format!(
        "'port SPEC' after 'create' (only the names pgN, tapN, tunN and nullN imply a port; '{name}' does not)"
    )))
}

fn offload<L: Locks>(
    ctl: &Ctl<'_, L>,
    iface: &Iface<L>,
    name: &str,
    on: bool,
    wanted: Offload,
) -> Result<(), CommandError> {
    let got = ctl.host.stack.set_offload(iface.id, wanted);
    if on && got != Some(wanted) {
        let port = ctl.host.ports().into_iter().find(|port| port.iface == iface.id).map(|port| port.spec);
        let port = port.unwrap_or_else(|| "its link".to_string());
        return Err(CommandError::failed(format!("{}: {port} does not support {name}", iface.name)));
    }
    Ok(())
}

/// Runs `inet A/LEN ...`. Without `alias`, the address replaces the first address.
fn inet<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>, args: &Args<'_>) -> Result<(), CommandError> {
    let id = iface.id;
    let mut addr = parse::addr(args.text("A/LEN"), parse::class_len)?;
    let peer = match args.get("B") {
        Some(word) if iface.kind != IfaceKind::Tunnel => return Err(CommandError::too_much(word)),
        Some(word) => Some(parse::ip4("remote end", word)?),
        None => None,
    };
    if let Some(mask) = args.get("MASK") {
        addr.len = parse::mask(mask)?;
    }
    let broadcast = args.get("BROADCAST").map(|word| parse::ip4("broadcast", word)).transpose()?;
    let (alias, delete) = (args.has("alias"), args.has("-alias"));
    if let Some(wanted) = broadcast.filter(|wanted| addr.broadcast() != Some(*wanted)) {
        let own = addr.broadcast().map_or_else(|| "none".to_string(), |own| own.to_string());
        return Err(CommandError::failed(format!(
            "broadcast {wanted}: not supported: it is derived from the address: {own}"
        )));
    }
    let stack = &ctl.host.stack;
    if delete {
        let gone = stack.remove_addr(ctl.cx, id, addr.addr);
        let name = ctl.iface_name(id);
        return if gone { Ok(()) } else { Err(CommandError::failed(format!("{name} does not have {}", addr.addr))) };
    }
    let addr = parse::own_addr(addr)?;
    let replaced = stack.iface(id).and_then(|iface| iface.addrs(ctl.cx).first().copied()).filter(|_| !alias);
    if let Some(first) = replaced {
        stack.remove_addr(ctl.cx, id, first.addr);
    }
    let added = match peer {
        Some(peer) => ctl.host.put_peer(id, addr.addr, peer),
        None => ctl.host.put_addr(id, addr),
    };
    if let (Err(_), Some(first)) = (&added, replaced) {
        let _ = stack.add_addr(ctl.cx, id, first); // it was there before, so there is room
    }
    added
}

fn list<L: Locks>(ctl: &Ctl<'_, L>, only: Option<IfaceId>) -> String {
    let ifaces = || ctl.host.stack.ifaces().filter(|iface| only.is_none_or(|id| id == iface.id));
    ctl.listing(
        || Value::Array(ifaces().map(|iface| addr_json(ctl, iface)).collect()),
        || ifaces().map(|iface| describe(ctl, iface)).collect(),
    )
}

/// Returns BSD's interface flags (net/if.h): their bits, and the names of the set flags.
fn flags<L: Locks>(iface: &Iface<L>, has_carrier: bool) -> (u32, Vec<&'static str>) {
    let loopback = iface.kind == IfaceKind::Loopback;
    let all = [
        (0x1, "UP", iface.is_up()),
        (0x2, "BROADCAST", iface.kind == IfaceKind::Ethernet),
        (0x8, "LOOPBACK", loopback),
        (0x10, "POINTOPOINT", iface.kind == IfaceKind::Tunnel),
        (0x40, "RUNNING", iface.is_up() && has_carrier),
        (0x800, "SIMPLEX", !loopback),
        (0x8000, "MULTICAST", true),
    ];
    let on = all.iter().filter(|(.., on)| *on);
    (on.clone().map(|(bit, ..)| bit).sum(), on.map(|(_, name, _)| *name).collect())
}

pub(super) fn offload_names(offload: Offload) -> String {
    let all = [("ip4csum", offload.tx_ip), ("udp4csum", offload.tx_l4), ("rxcsum", offload.rx), ("tso4", offload.tso)];
    all.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect::<Vec<_>>().join(",")
}

fn describe<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>) -> String {
    let (ports, gone) = (ctl.host.ports(), ctl.host.gone());
    let has_carrier = has_carrier(iface, &ports);
    let (bits, names) = flags(iface, has_carrier);
    let mut out = format!("{}: flags={bits:x}<{}> mtu {}\n", iface.name, names.join(","), iface.mtu());
    if iface.kind == IfaceKind::Ethernet {
        let (can, on) = (offload_names(iface.capable), offload_names(iface.offload()));
        out += &format!("\tcapabilities=<{can}>\n\tenabled=<{on}>\n\tether {}\n", iface.mac);
    }
    out += &tunnel::describe(ctl, iface.id);
    for addr in iface.addrs(ctl.cx) {
        out += &format!("\tinet {}", addr.addr);
        if let Some(peer) = ctl.host.stack.peer(ctl.cx, iface.id, addr.addr) {
            out += &format!(" --> {peer}");
        }
        out += &format!(" netmask 0x{:08x}", addr.mask());
        if let Some(broadcast) = addr.broadcast().filter(|_| iface.kind == IfaceKind::Ethernet) {
            out += &format!(" broadcast {broadcast}");
        }
        out.push('\n');
    }
    out += &six::describe(ctl, iface);
    if let Some(port) = ports.iter().find(|port| port.iface == iface.id) {
        let status = match gone.iter().any(|(id, _)| *id == iface.id) {
            true => "gone",
            false if has_carrier => "active",
            false => "no carrier",
        };
        out += &format!("\tport {}\n\tstatus: {status}\n", port.spec);
    }
    out
}
