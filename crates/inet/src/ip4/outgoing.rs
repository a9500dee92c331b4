//! Parameters of an outgoing IPv4 packet.

use crate::iface::{AtOnce, IfaceId};
use crate::ip::exit::Exit;
use std::net::Ipv4Addr;
use wire::Proto;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    /// Source address; `None`: an address of the outgoing interface.
    pub(crate) src: Option<Ipv4Addr>,
    pub(crate) dst: Ipv4Addr,
    pub(crate) proto: Proto,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    /// True to set Don't Fragment. Sending a packet that exceeds the MTU then fails.
    pub(crate) df: bool,
    /// Outgoing interface for multicast and broadcast; `None`: the interface of the route, or the
    /// first suitable interface.
    pub(crate) iface: Option<IfaceId>,
    /// Outgoing interface and next hop, if they are already known; `None`: they are looked up.
    pub(crate) exit: Option<Exit>,
    /// True if the port computes the UDP or TCP checksum.
    pub(crate) partial_l4: bool,
    /// Length in bytes of the IP options that precede the payload, a multiple of 4.
    pub(crate) options_len: usize,
    /// True if the payload begins with its own IP header (`IP_HDRINCL`), which is sent unchanged.
    pub(crate) has_header: bool,
    pub(crate) at_once: AtOnce,
}

impl Outgoing {
    pub(crate) fn new(dst: Ipv4Addr, proto: Proto, ttl: u8) -> Outgoing {
        Outgoing {
            src: None,
            dst,
            proto,
            tos: 0,
            ttl,
            df: false,
            iface: None,
            exit: None,
            partial_l4: false,
            options_len: 0,
            has_header: false,
            at_once: AtOnce::Later,
        }
    }
}
