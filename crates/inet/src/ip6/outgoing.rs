//! Parameters of an outgoing IPv6 packet.

use crate::iface::{AtOnce, IfaceId};
use crate::ip::exit::Exit;
use std::net::Ipv6Addr;
use wire::Proto;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing6 {
    /// Source address; `None`: best address of the outgoing interface.
    pub(crate) src: Option<Ipv6Addr>,
    pub(crate) dst: Ipv6Addr,
    pub(crate) next: Proto,
    pub(crate) class: u8,
    pub(crate) hop_limit: u8,
    /// Outgoing interface, needed for groups and link-local addresses.
    pub(crate) iface: Option<IfaceId>,
    /// Outgoing interface and next hop, if they are already known.
    pub(crate) exit: Option<Exit<Ipv6Addr>>,
    /// The packet must not be fragmented; one that exceeds the MTU is an error.
    pub(crate) whole: bool,
    /// Flow label (RFC 6437); 0: none.
    pub(crate) flow_label: u32,
    /// The transport checksum is left to the port: its field holds the sum of the pseudo header.
    pub(crate) partial_l4: bool,
    pub(crate) at_once: AtOnce,
}

impl Outgoing6 {
    pub(crate) fn new(dst: Ipv6Addr, next: Proto, hop_limit: u8) -> Outgoing6 {
        let (src, iface, exit, class, flow_label, whole, partial_l4) = Default::default();
        Outgoing6 {
            src,
            dst,
            next,
            class,
            hop_limit,
            iface,
            exit,
            whole,
            flow_label,
            partial_l4,
            at_once: AtOnce::Later,
        }
    }
}
