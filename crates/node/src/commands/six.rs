//! Commands for IPv6: `ifconfig IF inet6`, `ip -6`, `route -6`, `ndp`. Each command has a file in
//! this directory. `addr` parses addresses, and `zone` also addresses with zones.

mod addr;
mod ifconfig;
mod ip;
mod ipneigh;
mod ndp;
mod route;
mod zone;

pub(super) use addr::{own, prefix, prefix_text};
pub(crate) use addr::{own_address, refused};
pub(super) use ifconfig::{Forms as IfconfigForms, addr_infos, describe};
pub(super) use ip::{addr as ip_addr, addr_text, change_addr, remove_route, route as ip_route};
pub(super) use ipneigh::{neigh, neigh_rows, neigh_text, set_neighbor6 as set_neighbor};
pub(super) use ndp::NdpForms;
pub(super) use route::{add as route_add, delete as route_delete, get as route_get, table};
pub(super) use zone::zoned;
