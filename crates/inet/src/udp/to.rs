//! Destination of a socket's next datagram: the one given to the send call, or the socket's peer.

use super::error::SendError;
use super::{Domain, Pcb, SockEnds};
use crate::iface::IfaceId;
use crate::zone;
use lock::Locks;
use stats::hint::cold_path;
use std::net::{Ipv6Addr, SocketAddr};
use wire::L4Port;

/// Destination of a datagram. The address is an integer, [`u32`] for IPv4 and [`u128`] for IPv6.
#[derive(Clone, Copy)]
pub(super) enum To {
    V4(u32, L4Port),
    /// IPv6 address and port; for a multicast group, also the interface that the caller specified.
    V6(u128, L4Port, Option<IfaceId>),
}

/// Checks whether the socket may send. Fails if the socket is shut down for writing. Also fails if
/// an error of an earlier datagram is pending, and clears this error.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn may_send<L: Locks>(pcb: &mut Pcb<L>) -> Result<(), SendError> {
    if pcb.error.is_some() || pcb.shut_write {
        cold_path();
        return Err(match pcb.error.take() {
            Some(error) => SendError::Earlier(error),
            None => SendError::Shut,
        });
    }
    Ok(())
}

/// Returns the destination of a socket's next datagram: `dst` if given, otherwise the socket's
/// peer.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn destination<L: Locks>(pcb: &mut Pcb<L>, dst: Option<&SocketAddr>) -> Result<To, SendError> {
    may_send(pcb)?;
    match dst {
        None if pcb.is_connected() => Ok(peer(pcb)),
        None => Err(SendError::NoDestination),
        Some(_) if pcb.is_connected() => Err(SendError::Connected),
        Some(SocketAddr::V4(dst)) if dst.port() != 0 && pcb.domain() == Domain::Inet => {
            Ok(To::V4(dst.ip().to_bits(), L4Port(dst.port())))
        }
        Some(dst) => named(pcb, dst),
    }
}

/// Returns the destination of a connected socket.
#[cfg_attr(not(debug_assertions), inline(always))]
fn peer<L: Locks>(pcb: &Pcb<L>) -> To {
    match pcb.ends() {
        SockEnds::V4(ends) => To::V4(ends.remote, ends.remote_port),
        SockEnds::V6(ends) => To::V6(ends.remote, ends.remote_port, None),
        SockEnds::Both(_) => To::V6(0, L4Port(0), None), // the socket is not connected
    }
}

/// Converts the destination that was given to a send call.
#[inline(never)]
fn named<L: Locks>(pcb: &Pcb<L>, dst: &SocketAddr) -> Result<To, SendError> {
    let port = L4Port(dst.port());
    if port.0 == 0 && pcb.raw().is_none() {
        return Err(SendError::BadDestination);
    }
    match (pcb.domain(), dst) {
        (Domain::Inet, SocketAddr::V4(dst)) => return Ok(To::V4(dst.ip().to_bits(), port)),
        (Domain::Inet, SocketAddr::V6(_)) => return Err(SendError::BadDestination),
        (Domain::Inet6, _) => {}
    }
    // An IPv4 address may be given in mapped form or not, as in Linux.
    let v4 = match dst {
        SocketAddr::V4(v4) => Some(*v4.ip()),
        SocketAddr::V6(v6) => v6.ip().to_ipv4_mapped(),
    };
    match (v4, dst) {
        (Some(_), _) if pcb.options.v6only => Err(SendError::BadDestination),
        (Some(v4), _) => Ok(To::V4(v4.to_bits(), port)),
        (None, SocketAddr::V4(_)) => Err(SendError::BadDestination),
        (None, SocketAddr::V6(v6)) => {
            let iface = zone::iface_of(v6.scope_id());
            // As in BSD and Linux, the unspecified address stands for this host.
            let addr = if v6.ip().is_unspecified() { Ipv6Addr::LOCALHOST } else { *v6.ip() };
            Ok(To::V6(zone::embed(addr, iface), port, iface))
        }
    }
}
