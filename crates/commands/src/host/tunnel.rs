//! Tunnels, with the commands of BSD (`ifconfig gif0 tunnel A B`) and of iproute2 (`ip link add
//! gif0 type ipip local A remote B`).

use super::context::Ctl;
use super::iface::{IfaceForm, set_mtu};
use crate::json;
use crate::parse;
use grammar::{Args, CommandError, Form, Words};
use inet::iface::{Iface, IfaceId};
use inet::tunnel::{Config, DontFragment, Kind, Unchecked};
use lock::Locks;
use node::tunnel::{TYPES, kind_of, refused, type_of};
use serde_json::{Value, json};
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use wire::{L4Port, vxlan};

/// Parameters of `ifconfig` for tunnels.
pub(super) struct Forms<L>(PhantomData<L>);

impl<L: Locks> Forms<L> {
    pub(super) const ALL: &[IfaceForm<L>] = &[
        Form { grammar: "tunnel A B", about: "Set the local (A) and remote (B) outer addresses.", run: ends },
        Form {
            grammar: "-tunnel,deletetunnel",
            about: "Remove the outer addresses.",
            run: |ctl, iface, _| {
                let none = Config::default();
                change(ctl, iface, None, |config| (config.local, config.remote) = (none.local, none.remote))
            },
        },
        Form {
            grammar: "grekey KEY",
            about: "Set the key of a GRE tunnel; 0 removes it.",
            run: |ctl, iface, args| {
                let key = key(args.text("KEY"))?;
                // As in BSD, 0 means that the tunnel has no key.
                change(ctl, iface, Some((Kind::Gre, "grekey")), |config| config.key = Some(key).filter(|key| *key != 0))
            },
        },
        Form {
            grammar: "[-]enable_csum",
            about: "Send GRE checksums.",
            run: |ctl, iface, args| {
                let on = args.is_on("enable_csum");
                change(ctl, iface, Some((Kind::Gre, "enable_csum")), |config| config.checksum = on)
            },
        },
        Form {
            grammar: "[-]enable_seq",
            about: "Send GRE sequence numbers, and drop packets that arrive late.",
            run: |ctl, iface, args| {
                let on = args.is_on("enable_seq");
                change(ctl, iface, Some((Kind::Gre, "enable_seq")), |config| config.sequence = on)
            },
        },
        Form {
            grammar: "vxlanid 0-16777215",
            about: "Set the VXLAN network identifier (VNI).",
            run: |ctl, iface, args| {
                let vni = args.int::<u32>("vxlanid");
                change(ctl, iface, Some((Kind::Vxlan, "vxlanid")), |config| config.vni = vni)
            },
        },
        Form {
            grammar: "vxlanlocal A",
            about: "Set the local outer address of a VXLAN tunnel.",
            run: |ctl, iface, args| {
                let local = parse::ip_any("vxlanlocal", args.text("A"))?;
                change(ctl, iface, Some((Kind::Vxlan, "vxlanlocal")), |config| config.local = local)
            },
        },
        Form {
            grammar: "vxlanremote A",
            about: "Set the remote outer address of a VXLAN tunnel.",
            run: |ctl, iface, args| {
                let remote = parse::ip_any("vxlanremote", args.text("A"))?;
                change(ctl, iface, Some((Kind::Vxlan, "vxlanremote")), |config| config.remote = remote)
            },
        },
        Form {
            grammar: "vxlanlocalport PORT:1-65535",
            about: "Set the UDP port of a VXLAN tunnel, the same at both ends (RFC 7348 5).",
            run: vxlan_port,
        },
        Form { grammar: "vxlanremoteport PORT:1-65535", about: "Same as vxlanlocalport.", run: vxlan_port },
        Form {
            grammar: "vxlanttl TTL",
            about: "Set the TTL of outer VXLAN packets; 'inherit' selects the value of the sysctl.",
            run: |ctl, iface, args| {
                let ttl = ttl(args.text("TTL"))?;
                change(ctl, iface, Some((Kind::Vxlan, "vxlanttl")), |config| config.ttl = ttl)
            },
        },
    ];
}

/// Changes the configuration of a tunnel. `only` is the kind of tunnel to which the parameter is
/// limited, and the name of the parameter; `None` if all kinds of tunnels have the parameter.
fn change<L: Locks>(
    ctl: &Ctl<'_, L>,
    iface: &Iface<L>,
    only: Option<(Kind, &str)>,
    change: impl FnOnce(&mut Config),
) -> Result<(), CommandError> {
    let config = ctl.host.stack.tunnel(ctl.cx, iface.id);
    let mut config = config.ok_or_else(|| CommandError::failed(format!("{}: not a tunnel", iface.name)))?;
    if let Some((kind, word)) = only.filter(|(kind, _)| *kind != config.kind) {
        let why = format!("{}: {word} applies only to {} tunnels", iface.name, kind.name());
        return Err(CommandError::failed(why));
    }
    change(&mut config);
    set(ctl, iface.id, config)
}

/// Runs `tunnel A B`.
pub(super) fn ends<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>, args: &Args<'_>) -> Result<(), CommandError> {
    let (local, remote) = (parse::ip_any("tunnel", args.text("A"))?, parse::ip_any("tunnel", args.text("B"))?);
    change(ctl, iface, None, |config| (config.local, config.remote) = (local, remote))
}

fn vxlan_port<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>, args: &Args<'_>) -> Result<(), CommandError> {
    let port = L4Port(args.int::<u16>("PORT"));
    let word = args.words().first().copied().unwrap_or_default();
    change(ctl, iface, Some((Kind::Vxlan, word)), |config| config.l4port = port)
}

/// Runs `ip link add [name] IF [mtu N] type TYPE ...`.
pub(super) fn add<L: Locks>(ctl: &Ctl<'_, L>, words: &mut Words<'_>) -> Result<(), CommandError> {
    words.skip("name");
    let name = words.next("a name for the tunnel")?;
    let mut mtu = None;
    while !words.skip("type") {
        match words.next("type ipip, gre, vxlan or etherip")? {
            "mtu" => mtu = Some(words.next("an MTU in bytes")?),
            other => return Err(CommandError::unknown("word", other, ["type", "mtu"].into_iter())),
        }
    }
    let word = words.next("ipip, gre, vxlan or etherip")?;
    let ours = match word {
        "ip6tnl" | "sit" => "gif", // outer family: from the endpoints
        "ip6gre" => "gre",
        word => word,
    };
    let kind = kind_of(ours).ok_or_else(|| CommandError::unknown("type", word, TYPES.iter().map(|(name, _)| *name)))?;
    let mut config = Config::new(kind);
    while let Some(word) = words.take() {
        iproute2(&mut config, word, words)?;
    }
    let id = create(ctl, name, kind)?;
    let made = set(ctl, id, config);
    let sized = made.and_then(|()| mtu.map_or(Ok(()), |mtu| set_mtu(ctl, ctl.host.iface(name)?, mtu)));
    if sized.is_err() {
        ctl.host.stack.remove_tunnel(ctl.cx, id);
    }
    sized
}

const WORDS: &[&str] = &[
    "local",
    "remote",
    "key",
    "csum",
    "seq",
    "id",
    "vni",
    "dstport",
    "ttl",
    "udp6zerocsumrx",
    "noudp6zerocsumrx",
    "pmtudisc",
    "nopmtudisc",
    "df",
    "dev",
    "tos",
];

fn iproute2(config: &mut Config, word: &str, words: &mut Words<'_>) -> Result<(), CommandError> {
    let gre = config.kind == Kind::Gre;
    match word {
        "local" => config.local = end(word, words)?,
        "remote" => config.remote = end(word, words)?,
        "key" if gre => config.key = Some(key(words.next("a key")?)?),
        "csum" | "nocsum" if gre => config.checksum = word == "csum",
        "seq" | "noseq" if gre => config.sequence = word == "seq",
        "id" | "vni" if config.kind == Kind::Vxlan => config.vni = vni(words)?,
        "dstport" if config.kind == Kind::Vxlan => config.l4port = l4port(words)?,
        "udp6zerocsumrx" if config.kind == Kind::Vxlan => config.unchecked = Unchecked::Accepted,
        "noudp6zerocsumrx" if config.kind == Kind::Vxlan => config.unchecked = Unchecked::Dropped,
        "ttl" | "hoplimit" => config.ttl = ttl(words.next("a TTL")?)?,
        "pmtudisc" => config.df = DontFragment::Set,
        "nopmtudisc" => config.df = DontFragment::Copy, // inner DF is kept, as in Linux
        "df" => {
            config.df = match words.next("set, unset or inherit")? {
                "set" => DontFragment::Set,
                "unset" => DontFragment::Clear,
                "inherit" => DontFragment::Copy,
                other => return Err(CommandError::unknown("df", other, ["set", "unset", "inherit"].into_iter())),
            }
        }
        "dev" => {
            words.next("an iface")?;
            return Err(CommandError::failed("dev: not supported: the route to the remote end selects the iface"));
        }
        "tos" | "dsfield" => parse::only(words, word, &["inherit"], "the TOS is inherited (RFC 6040)")?,
        "mode" => parse::only(words, word, &["any"], "a tunnel accepts both IPv4 and IPv6")?,
        "encaplimit" => parse::only(words, word, &["none"], "the option is never sent")?,
        "nolearning" | "noudpcsum" => {} // no effect: one remote end, no UDP checksum
        other => return Err(CommandError::unknown("word", other, WORDS.iter().copied())),
    }
    Ok(())
}

fn end(word: &str, words: &mut Words<'_>) -> Result<IpAddr, CommandError> {
    parse::ip_any(word, words.next("an IP address")?)
}

/// Parses a GRE key, which may be a number or, as in iproute2, an IPv4 address.
fn key(word: &str) -> Result<u32, CommandError> {
    let hex = word.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let found = hex.or_else(|| word.parse().ok()).or_else(|| word.parse().ok().map(|dotted: Ipv4Addr| dotted.into()));
    found.ok_or_else(|| CommandError::bad("key", word, "a 32-bit number"))
}

fn vni(words: &mut Words<'_>) -> Result<u32, CommandError> {
    Ok(parse::number("vni", words.next("a VNI")?, 0, i64::from(vxlan::VNI_MAX))? as u32)
}

fn l4port(words: &mut Words<'_>) -> Result<L4Port, CommandError> {
    Ok(L4Port(parse::number("port", words.next("an L4 port")?, 1, 65_535)? as u16))
}

/// Parses the TTL of outer packets. Returns `None` for `inherit` and 0, so that the value of the
/// sysctl applies.
fn ttl(word: &str) -> Result<Option<u8>, CommandError> {
    if word == "inherit" {
        return Ok(None);
    }
    Ok(Some(parse::number("ttl", word, 0, 255)? as u8).filter(|ttl| *ttl != 0))
}

/// Creates the iface of a tunnel.
pub(super) fn create<L: Locks>(ctl: &Ctl<'_, L>, name: &str, kind: Kind) -> Result<IfaceId, CommandError> {
    if name.is_empty() || name.len() > 32 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) {
        return Err(CommandError::bad("iface name", name, "1 to 32 letters, digits, '.', '_' and '-'"));
    }
    ctl.host.add_tunnel(name, kind, None).map_err(CommandError::failed)
}

/// Configures a tunnel. Errors of the stack are returned as messages.
fn set<L: Locks>(ctl: &Ctl<'_, L>, id: IfaceId, config: Config) -> Result<(), CommandError> {
    let set = ctl.host.stack.set_tunnel(ctl.cx, id, config);
    set.map_err(|why| CommandError::failed(format!("{}: {}", ctl.iface_name(id), refused(ctl.host, why))))
}

/// Removes a tunnel.
pub(super) fn destroy<L: Locks>(ctl: &Ctl<'_, L>, id: IfaceId) -> Result<(), CommandError> {
    match ctl.host.stack.remove_tunnel(ctl.cx, id) {
        true => Ok(()),
        false => Err(CommandError::failed(format!("{}: not a tunnel", ctl.iface_name(id)))),
    }
}

/// Returns the lines that `ifconfig` prints for a tunnel.
pub(super) fn describe<L: Locks>(ctl: &Ctl<'_, L>, id: IfaceId) -> String {
    let Some(config) = ctl.host.stack.tunnel(ctl.cx, id) else { return String::new() };
    let (local, remote) = (config.local, config.remote);
    if config.kind == Kind::Vxlan {
        let port = config.l4port;
        let end = |addr| SocketAddr::new(addr, port.0);
        return format!("\tvxlan vni {} local {} remote {}\n", config.vni, end(local), end(remote));
    }
    let mut out = String::new();
    if config.is_whole() {
        let family = if local.is_ipv6() { "inet6" } else { "inet" };
        out += &format!("\ttunnel {family} {local} --> {remote}\n");
    }
    if let Some(key) = config.key {
        out += &format!("\tgrekey: {key:#x} ({key})\n");
    }
    let on = [("ENABLE_CSUM", config.checksum), ("ENABLE_SEQ", config.sequence)];
    let on: Vec<&str> = on.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
    if !on.is_empty() {
        out += &format!("\toptions=<{}>\n", on.join(","));
    }
    out
}

/// Returns the line that `ip -d link` prints for a tunnel.
pub(super) fn link_text<L: Locks>(ctl: &Ctl<'_, L>, id: IfaceId) -> String {
    let Some(config) = ctl.host.stack.tunnel(ctl.cx, id) else { return String::new() };
    let mut out = format!("    {}", type_of(config.kind));
    if config.kind == Kind::Vxlan {
        out += &format!(" id {}", config.vni);
    }
    out += &format!(" remote {} local {}", config.remote, config.local);
    if config.kind == Kind::Vxlan {
        out += &format!(" dstport {}", config.l4port);
        out += if config.unchecked == Unchecked::Accepted { " udp6zerocsumrx" } else { "" };
    }
    if let Some(key) = config.key {
        out += &format!(" key {}", Ipv4Addr::from(key));
    }
    for (word, on) in [("csum", config.checksum), ("seq", config.sequence)] {
        out += &if on { format!(" {word}") } else { String::new() };
    }
    out += &format!(" ttl {}", outer_ttl(ctl, &config));
    out + &format!(" df {}\n", df_word(config.df))
}

/// Returns the TTL of outer packets: the tunnel's own TTL if it is set, otherwise the value of the
/// sysctl.
fn outer_ttl<L: Locks>(ctl: &Ctl<'_, L>, config: &Config) -> i64 {
    let sysctls = &ctl.host.stack.sysctls;
    let usual = if config.remote.is_ipv6() { &sysctls.tunnel_hop_limit } else { &sysctls.tunnel_ttl };
    config.ttl.map_or_else(|| usual.get(), i64::from)
}

fn df_word(df: DontFragment) -> &'static str {
    match df {
        DontFragment::Copy => "inherit",
        DontFragment::Set => "set",
        DontFragment::Clear => "unset",
    }
}

/// Returns the object `linkinfo` of `ip -j -d link`; `None` if the iface is not a tunnel.
pub(super) fn link_json<L: Locks>(ctl: &Ctl<'_, L>, id: IfaceId) -> Option<Value> {
    let config = ctl.host.stack.tunnel(ctl.cx, id)?;
    let mut data = json!({
        "remote": config.remote.to_string(), "local": config.local.to_string(),
        "ttl": outer_ttl(ctl, &config), "df": df_word(config.df),
    });
    if config.kind == Kind::Vxlan {
        json::set(&mut data, "id", config.vni);
        json::set(&mut data, "port", config.l4port.0);
        json::set(&mut data, "udp_zero_csum6_rx", config.unchecked == Unchecked::Accepted);
    }
    if let Some(key) = config.key {
        json::set(&mut data, "ikey", Ipv4Addr::from(key).to_string());
        json::set(&mut data, "okey", Ipv4Addr::from(key).to_string());
    }
    if config.kind == Kind::Gre {
        json::set(&mut data, "csum", config.checksum);
        json::set(&mut data, "seq", config.sequence);
    }
    Some(json!({ "info_kind": type_of(config.kind), "info_data": data }))
}
