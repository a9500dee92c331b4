//! Link layer: Ethernet. Packets over loopback have no link-layer header (`Stack::loop_back`).

mod ether;

pub(crate) use ether::remove_link;
