//! Parameters of an outgoing IPv4 packet.

use crate::iface::{AtOnce, IfaceId};
use crate::ip::exit::Exit;
use std::net::Ipv4Addr;
use wire::Proto;

/// Parameters of an outgoing packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    /// Source address; `None`: that of the iface it leaves through.
    pub(crate) src: Option<Ipv4Addr>,
    pub(crate) dst: Ipv4Addr,
    pub(crate) proto: Proto,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    /// Never fragment; too long is an error.
    pub(crate) df: bool,
    /// The iface for multicast and broadcast; `None`: what the routes say, or the first.
    pub(crate) iface: Option<IfaceId>,
    /// The way out, if it is known already.
    pub(crate) exit: Option<Exit>,
    /// The UDP or TCP checksum is the port's to fill in.
    pub(crate) partial_l4: bool,
    /// Bytes at the front of the payload that are IP options, a multiple of 4.
    pub(crate) options_len: usize,
    /// The payload begins with its header (`IP_HDRINCL`), which is sent as it is.
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
