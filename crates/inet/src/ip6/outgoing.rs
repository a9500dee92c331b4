//! Parameters of an outgoing IPv6 packet.

use crate::iface::{AtOnce, IfaceId};
use crate::ip::exit::Exit;
use std::net::Ipv6Addr;
use wire::Proto;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing6 {
    /// Source address; `None`: the address that source address selection returns.
    pub(crate) src: Option<Ipv6Addr>,
    pub(crate) dst: Ipv6Addr,
    pub(crate) next: Proto,
    pub(crate) class: u8,
    pub(crate) hop_limit: u8,
    /// Outgoing interface, needed for multicast and link-local destinations; `None`: the interface
    /// of the route.
    pub(crate) iface: Option<IfaceId>,
    /// Outgoing interface and next hop, if they are already known; `None`: they are looked up.
    pub(crate) exit: Option<Exit<Ipv6Addr>>,
    /// True if the packet must not be fragmented. Sending a packet that exceeds the MTU then fails.
    pub(crate) whole: bool,
    /// Flow label (RFC 6437); 0 means that the packet has none.
    pub(crate) flow_label: u32,
    /// True if the port computes the transport checksum. The checksum field then contains the sum
    /// of the pseudo header.
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
