//! Changes to an iface, shared by the commands of BSD and of iproute2.

use super::context::Ctl;
use crate::parse;
use grammar::{Args, CommandError, Form};
use inet::iface::{Iface, IfaceId};
use lock::Locks;
use node::change::AddrChange;

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
    ctl.host.reject_mirror(iface.id)?;
    match iface.tunnel {
        Some(_) => ctl.host.stack.set_tunnel_mtu(ctl.cx, iface.id, mtu as u16),
        None => ctl.host.stack.set_mtu(iface.id, mtu as u16),
    }
    Ok(())
}

/// Returns the change for a verb of `ip addr`.
pub(super) fn change_of(verb: &str) -> AddrChange {
    match verb {
        "add" => AddrChange::Add,
        "del" => AddrChange::Remove,
        _ => AddrChange::Replace,
    }
}
