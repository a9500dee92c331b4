//! Parameters of an outgoing IPv4 packet, and the exit of a packet of either family.

use crate::iface::{AtOnce, IfaceId};
use std::net::Ipv4Addr;
use wire::{Mac, Proto};

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

/// Why a packet from this host did not go out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputError {
    /// No route to the destination.
    NoRoute,
    /// The route is a reject, prohibit or blackhole route.
    Rejected,
    /// Longer than the path takes, and it may not be fragmented; or longer than IPv4 can say.
    TooBig(usize),
    /// The iface is down.
    IfaceDown,
}

/// The iface by which a packet from this host leaves, and its receiver there; of either family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit<A = Ipv4Addr> {
    pub(crate) iface: IfaceId,
    pub(crate) to: Target<A>,
}

/// Link-layer receiver of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<A = Ipv4Addr> {
    /// To the neighbor with this address.
    Neighbor(A),
    /// To a station: a broadcast or a multicast.
    Station(Mac),
    /// To this host.
    Here,
}
