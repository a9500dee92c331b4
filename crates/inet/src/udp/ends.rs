//! Local and remote address and port (the ends) of a Pcb. The ports and the IPv4 addresses are in
//! the first cache line of the Pcb, the IPv6 addresses are in the second.

use super::{Domain, Families, Pcb, SockEnds};
use crate::demux::{Bits, Ends, Ends4, Ends6, Tuple};
use crate::raw::{RawKind, RawState};
use lock::Locks;
use std::net::SocketAddr;

/// Family-specific view of a Pcb.
pub(crate) trait OfPcb: Bits {
    /// True if the addresses and ports of a socket occupy the first two cache lines of its Pcb;
    /// false if they are in the first.
    const IN_TWO_LINES: bool;

    /// Returns the local and remote address and port of the socket, if it accepts datagrams of this
    /// family.
    fn ends_of<L: Locks>(pcb: &Pcb<L>) -> Option<Ends<Self>>;
}

impl OfPcb for u32 {
    const IN_TWO_LINES: bool = false;

    #[inline(always)]
    fn ends_of<L: Locks>(pcb: &Pcb<L>) -> Option<Ends4> {
        (pcb.families != Families::V6).then_some(pcb.ends)
    }
}

impl OfPcb for u128 {
    const IN_TWO_LINES: bool = true;

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn ends_of<L: Locks>(pcb: &Pcb<L>) -> Option<Ends6> {
        match pcb.families {
            Families::V6 => Some(pcb.wide_ends()),
            Families::Both => Some(Ends { local_port: pcb.ends.local_port, ..Ends::default() }),
            Families::V4 | Families::Mapped => None,
        }
    }
}

impl<L: Locks> Pcb<L> {
    /// Returns the domain with which the socket was opened.
    #[inline(always)]
    pub fn domain(&self) -> Domain {
        if self.families == Families::V4 { Domain::Inet } else { Domain::Inet6 }
    }

    /// Returns the local and remote address and port.
    pub fn tuple(&self) -> Tuple {
        self.ends().tuple()
    }

    /// Returns the local address in the form that the application receives.
    pub fn local_addr(&self) -> SocketAddr {
        let mut local = self.domain().shown(self.tuple().local_addr());
        if let Some(RawKind::Raw(_)) = self.raw().map(RawState::kind) {
            local.set_port(0);
        }
        local
    }

    /// Returns the remote address in the form that the application receives; `None` if the socket
    /// is not connected.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        let mut peer = self.domain().shown(self.tuple().remote_addr());
        if self.raw().is_some() {
            peer.set_port(0);
        }
        self.is_connected().then_some(peer)
    }

    /// Sets the local and remote address and port. Called when the socket is bound, connected or
    /// disconnected. Discards cached headers.
    pub(crate) fn set_ends(&mut self, ends: SockEnds) {
        match ends {
            SockEnds::V4(ends) if self.families == Families::V4 => self.ends = ends,
            SockEnds::V4(ends) => (self.families, self.ends) = (Families::Mapped, ends),
            SockEnds::Both(local_port) => {
                (self.families, self.ends) = (Families::Both, Ends { local_port, ..Ends::default() });
            }
            SockEnds::V6(ends) => {
                let Ends { local_port, remote_port, .. } = ends;
                (self.families, self.ends) = (Families::V6, Ends { local: 0, remote: 0, local_port, remote_port });
                self.wide = [ends.local, ends.remote];
            }
        }
        self.forget_headers();
    }

    /// Returns the local and remote address and port of the socket.
    pub(crate) fn ends(&self) -> SockEnds {
        match self.families {
            Families::V4 | Families::Mapped => SockEnds::V4(self.ends),
            Families::V6 => SockEnds::V6(self.wide_ends()),
            Families::Both => SockEnds::Both(self.ends.local_port),
        }
    }

    /// Returns the local and remote address and port of a socket with IPv6 addresses.
    #[inline(always)]
    fn wide_ends(&self) -> Ends6 {
        let ([local, remote], Ends { local_port, remote_port, .. }) = (self.wide, self.ends);
        Ends { local, remote, local_port, remote_port }
    }

    /// Returns whether a datagram with these addresses and ports is for this socket. The receive
    /// queue may nevertheless be full.
    #[inline(always)]
    pub(crate) fn accepts<A: OfPcb>(&self, ends: Ends<A>) -> bool {
        A::ends_of(self).is_some_and(|own| own.accepts(ends))
    }
}
