//! Commands for IPv6: `ifconfig IF inet6`, `ip -6`, `route -6`, `ndp`. Each command has a file in
//! this directory. `zone` parses addresses with zones.

mod ifconfig;
mod ip;
mod ipneigh;
mod ndp;
mod route;
mod zone;

pub(super) use ifconfig::{Forms as IfconfigForms, addr_infos, describe};
pub(super) use ip::{addr as ip_addr, addr_text, route as ip_route};
pub(super) use ipneigh::{neigh, neigh_rows, neigh_text};
pub(super) use ndp::NdpForms;
pub(super) use route::{add as route_add, delete as route_delete, get as route_get, table};
pub(super) use zone::zoned;

use inet::fib::Prefix6;
use node::address::six as addr;

/// Returns a prefix as text. As in iproute2 and BSD, a /128 is printed as an address and a /0 as
/// `default`.
pub(super) fn prefix_text(prefix: Prefix6) -> String {
    match prefix.len() {
        0 => "default".to_string(),
        128 => prefix.addr().to_string(),
        _ => prefix.to_string(),
    }
}
