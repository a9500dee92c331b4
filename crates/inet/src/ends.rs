//! Domain of a socket, and the addresses and ports to which it is bound and connected, in either family or both.

use crate::demux::{Addr, Bits, Ends, Ends4, Ends6, Tuple};
use crate::zone;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::L4Port;

/// Address family that a socket is opened for, `socket(2)`'s domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// `AF_INET`: IPv4.
    Inet,
    /// `AF_INET6`: IPv6, and IPv4 by mapped addresses unless `IPV6_V6ONLY` is set.
    Inet6,
}

impl Domain {
    /// Returns the domain of a socket for `addr`.
    pub fn of(addr: &SocketAddr) -> Domain {
        if addr.is_ipv4() { Domain::Inet } else { Domain::Inet6 }
    }

    /// Returns the address that a program names to a socket of this domain.
    ///
    /// # Errors
    /// [`Unfit`].
    pub(crate) fn end(self, v6only: bool, addr: &SocketAddr) -> Result<Addr, Unfit> {
        match (self, addr) {
            (Domain::Inet, SocketAddr::V4(v4)) => Ok(Addr::v4(*v4.ip())),
            (Domain::Inet6, SocketAddr::V6(v6)) => match v6.ip().to_ipv4_mapped() {
                Some(_) if v6only => Err(Unfit::Mapped),
                Some(v4) => Ok(Addr::v4(v4)),
                None => Ok(Addr(zone::embed(*v6.ip(), zone::iface_of(v6.scope_id())))),
            },
            _ => Err(Unfit::Family),
        }
    }

    /// Returns ends of any address, of both families if the domain and `v6only` allow it.
    pub(crate) fn any(self, v6only: bool, local_port: L4Port) -> SockEnds {
        match self {
            Domain::Inet => SockEnds::bound(Addr::ANY4, local_port),
            Domain::Inet6 if v6only => SockEnds::bound(Addr::ANY6, local_port),
            Domain::Inet6 => SockEnds::Both(local_port),
        }
    }

    /// Returns the unspecified address and port 0, as a program names them.
    pub(crate) fn unspecified(self) -> SocketAddr {
        match self {
            Domain::Inet => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            Domain::Inet6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        }
    }

    /// Returns `addr` as a socket of this domain gives it.
    #[inline(always)]
    pub fn shown(self, addr: SocketAddr) -> SocketAddr {
        if self == Domain::Inet { addr } else { zone::mapped(addr) }
    }
}

/// Why an address is none that a socket can be bound or connected to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unfit {
    /// It is of another family than the socket.
    Family,
    /// It is an IPv4 address, and the socket is of IPv6 alone.
    Mapped,
}

/// Domain of a socket and families of the datagrams that it takes, in a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Families {
    /// IPv4, as a socket of IPv4.
    V4,
    /// IPv4, as a socket of IPv6.
    Mapped,
    /// IPv6.
    V6,
    /// Both: bound to no address.
    Both,
}

impl Families {
    /// Returns those of a socket that is not bound.
    pub(crate) fn of(domain: Domain) -> Families {
        if domain == Domain::Inet { Families::V4 } else { Families::Both }
    }
}

/// Addresses and ports to which a socket is bound and connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SockEnds {
    /// Addresses of IPv4, or any.
    V4(Ends4),
    /// Addresses of IPv6, or any.
    V6(Ends6),
    /// Any address of either family.
    Both(L4Port),
}

impl SockEnds {
    /// Returns those of a connection.
    #[inline(always)]
    pub(crate) fn of<A: Bits>(ends: Ends<A>) -> SockEnds {
        SockEnds::between(ends.local.addr(), ends.remote.addr(), ends.local_port, ends.remote_port)
    }

    /// Returns ends without a peer.
    pub(crate) fn bound(local: Addr, local_port: L4Port) -> SockEnds {
        SockEnds::between(local, local.any(), local_port, L4Port(0))
    }

    /// Returns ends with these addresses, which are of one family.
    pub(crate) fn between(local: Addr, remote: Addr, local_port: L4Port, remote_port: L4Port) -> SockEnds {
        match (local.to_v4(), remote.to_v4()) {
            (Some(local), Some(remote)) => {
                SockEnds::V4(Ends { local: local.to_bits(), remote: remote.to_bits(), local_port, remote_port })
            }
            _ => SockEnds::V6(Ends { local: local.0, remote: remote.0, local_port, remote_port }),
        }
    }

    /// Returns the tuple by which it is found first, and the second where it is found in both families.
    pub(crate) fn tuples(self) -> impl Iterator<Item = Tuple> {
        let (first, second) = match self {
            SockEnds::V4(ends) => (Tuple::from(ends), None),
            SockEnds::V6(ends) => (Tuple::from(ends), None),
            SockEnds::Both(local_port) => {
                let four = Tuple::from(Ends4 { local_port, ..Ends4::default() });
                (Tuple::from(Ends6 { local_port, ..Ends6::default() }), Some(four))
            }
        };
        std::iter::once(first).chain(second)
    }

    /// Returns the tuple that is shown: of both families that of IPv6.
    pub(crate) fn tuple(self) -> Tuple {
        self.tuples().next().unwrap_or_default()
    }

    /// Returns whether a packet could be for both of these, whoever sent it.
    pub(crate) fn overlaps(self, other: SockEnds) -> bool {
        let same = |one: Tuple, two: Tuple| {
            one.local.any() == two.local.any() && (one.local == two.local || one.local.is_any() || two.local.is_any())
        };
        self.tuples().any(|one| other.tuples().any(|two| same(one, two)))
    }
}
