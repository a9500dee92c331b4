//! Changes to an iface, shared by the commands of BSD and of iproute2.

use super::context::Ctl;
use super::parse;
use grammar::{Args, CommandError, Form};
use inet::iface::{Iface, IfaceAddr, IfaceId, IfaceKind};
use lock::Locks;
use std::net::Ipv4Addr;

/// Syntax form of a parameter of `ifconfig IF`, with the function that applies it to the interface.
pub(super) type IfaceForm<L> = Form<fn(&Ctl<'_, L>, &Iface<L>, &Args<'_>) -> Result<(), CommandError>>;

/// Returns the maximum MTU of an iface, which is the maximum of its port, or 65535 if it has no
/// port.
pub(super) fn mtu_max<L: Locks>(ctl: &Ctl<'_, L>, id: IfaceId) -> i64 {
    ctl.host.ports().iter().find(|port| port.iface == id).map_or(65_535, |port| i64::from(port.caps.mtu))
}

pub(super) fn set_mtu<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>, word: &str) -> Result<(), CommandError> {
    // RFC 791 3.2: every link can transmit packets of 68 bytes.
    let mtu = parse::number(&format!("{}: mtu", iface.name), word, 68, mtu_max(ctl, iface.id))?;
    match iface.tunnel {
        Some(_) => ctl.host.stack.set_tunnel_mtu(ctl.cx, iface.id, mtu as u16),
        None => ctl.host.stack.set_mtu(iface.id, mtu as u16),
    }
    Ok(())
}

/// Change of an address of an iface.
#[derive(Clone, Copy)]
pub(super) enum AddrChange {
    /// Adds an address. If the iface has the address with another prefix length, replaces it.
    Add,
    Replace,
    Remove,
}

impl AddrChange {
    /// Returns the change for a verb of `ip addr`.
    pub(super) fn of(verb: &str) -> AddrChange {
        match verb {
            "add" => AddrChange::Add,
            "del" => AddrChange::Remove,
            _ => AddrChange::Replace,
        }
    }
}

/// Adds the point-to-point address `addr` to a tunnel. `peer` is the inner address of the tunnel's
/// remote end.
pub(super) fn add_peer<L: Locks>(
    ctl: &Ctl<'_, L>,
    id: IfaceId,
    addr: Ipv4Addr,
    peer: Ipv4Addr,
) -> Result<(), CommandError> {
    parse::own_addr(IfaceAddr { addr: peer, len: 32 })?;
    add_addr(ctl, id, IfaceAddr { addr, len: 32 })?;
    let added = ctl.host.stack.add_peer(ctl.cx, id, addr, peer);
    added.map_err(|why| {
        ctl.host.stack.remove_addr(ctl.cx, id, addr);
        CommandError::failed(format!("{peer}: cannot add its route: {why:?}"))
    })
}

/// Adds an address to an iface. Returns an error if another iface has the address.
pub(super) fn add_addr<L: Locks>(ctl: &Ctl<'_, L>, id: IfaceId, addr: IfaceAddr) -> Result<(), CommandError> {
    let stack = &ctl.host.stack;
    if stack.iface(id).is_some_and(|iface| iface.kind != IfaceKind::Loopback) {
        parse::on_link(addr)?;
    }
    let other = stack.ifaces().find(|iface| iface.addrs(ctl.cx).iter().any(|own| own.addr == addr.addr));
    if let Some(other) = other {
        if other.id != id {
            return Err(CommandError::failed(format!("{} already has {}", other.name, addr.addr)));
        }
        stack.remove_addr(ctl.cx, id, addr.addr); // it may have another prefix length
    }
    let added = stack.add_addr(ctl.cx, id, addr);
    added.map_err(|why| CommandError::failed(format!("{}: cannot add its routes: {why:?}", addr.addr)))
}
