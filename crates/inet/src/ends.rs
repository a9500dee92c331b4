//! Domain (address family) of a socket, and its local and remote addresses and ports. A dual-stack
//! socket has addresses of both families.

use crate::demux::{Addr, Bits, Ends, Ends4, Ends6, Tuple};
use crate::zone;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::L4Port;

/// Address family of a socket, as in the first argument of `socket(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// `AF_INET`: IPv4.
    Inet,
    /// `AF_INET6`: IPv6, and IPv4 through mapped addresses unless `IPV6_V6ONLY` is set.
    Inet6,
}

impl Domain {
    /// Returns the domain of a socket for `addr`.
    pub fn of(addr: &SocketAddr) -> Domain {
        if addr.is_ipv4() { Domain::Inet } else { Domain::Inet6 }
    }

    /// Converts an address that a program passes to a socket of this domain. `v6only` is the socket
    /// option `IPV6_V6ONLY`.
    ///
    /// # Errors
    ///
    /// [`Unfit`] if the socket cannot use this address.
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

    /// Returns the addresses and ports of a socket bound to `local_port` and any address. If the
    /// domain is [`Domain::Inet6`] and `v6only` is false, the socket is dual-stack.
    pub(crate) fn any(self, v6only: bool, local_port: L4Port) -> SockEnds {
        match self {
            Domain::Inet => SockEnds::bound(Addr::ANY4, local_port),
            Domain::Inet6 if v6only => SockEnds::bound(Addr::ANY6, local_port),
            Domain::Inet6 => SockEnds::Both(local_port),
        }
    }

    /// Returns the unspecified address with port 0.
    pub(crate) fn unspecified(self) -> SocketAddr {
        match self {
            Domain::Inet => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            Domain::Inet6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        }
    }

    /// Returns `addr` in the form that a socket of this domain reports: an IPv6 socket reports an
    /// IPv4 address as IPv4-mapped.
    #[inline(always)]
    pub fn shown(self, addr: SocketAddr) -> SocketAddr {
        if self == Domain::Inet { addr } else { zone::mapped(addr) }
    }
}

/// Reason why a socket cannot be bound or connected to an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unfit {
    /// The address is of another family than the socket.
    Family,
    /// The address is IPv4-mapped, and the socket is IPv6-only.
    Mapped,
}

/// Address families of the datagrams that a socket accepts, combined with the domain of the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Families {
    /// An IPv4 socket, which accepts IPv4 datagrams.
    V4,
    /// An IPv6 socket that accepts IPv4 datagrams only, since its addresses are IPv4-mapped.
    Mapped,
    V6,
    /// An IPv6 socket without a specific address, which accepts datagrams of both families.
    Both,
}

impl Families {
    /// Returns the families of the datagrams that an unbound socket of `domain` accepts.
    pub(crate) fn of(domain: Domain) -> Families {
        if domain == Domain::Inet { Families::V4 } else { Families::Both }
    }
}

/// Local and remote addresses and ports of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SockEnds {
    /// IPv4 addresses, each of which may be unspecified.
    V4(Ends4),
    /// IPv6 addresses, each of which may be unspecified.
    V6(Ends6),
    /// Any local address of either family, with this local port.
    Both(L4Port),
}

impl SockEnds {
    /// Converts the addresses and ports of a connection.
    #[inline(always)]
    pub(crate) fn of<A: Bits>(ends: Ends<A>) -> SockEnds {
        SockEnds::between(ends.local.addr(), ends.remote.addr(), ends.local_port, ends.remote_port)
    }

    /// Creates the addresses and ports of a socket that is bound but not connected.
    pub(crate) fn bound(local: Addr, local_port: L4Port) -> SockEnds {
        SockEnds::between(local, local.any(), local_port, L4Port(0))
    }

    /// Creates the addresses and ports of a connection. Both addresses must be of the same family.
    pub(crate) fn between(local: Addr, remote: Addr, local_port: L4Port, remote_port: L4Port) -> SockEnds {
        match (local.to_v4(), remote.to_v4()) {
            (Some(local), Some(remote)) => {
                SockEnds::V4(Ends { local: local.to_bits(), remote: remote.to_bits(), local_port, remote_port })
            }
            _ => SockEnds::V6(Ends { local: local.0, remote: remote.0, local_port, remote_port }),
        }
    }

    /// Returns the key of the socket's demux entry; for a dual-stack socket, the keys of both
    /// entries.
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

    /// Returns the key to display; for a dual-stack socket, the IPv6 key.
    pub(crate) fn tuple(self) -> Tuple {
        self.tuples().next().unwrap_or_default()
    }

    /// Returns whether both sockets accept packets to a common local address. Ports are not
    /// compared.
    pub(crate) fn overlaps(self, other: SockEnds) -> bool {
        let same = |one: Tuple, two: Tuple| {
            one.local.any() == two.local.any() && (one.local == two.local || one.local.is_any() || two.local.is_any())
        };
        self.tuples().any(|one| other.tuples().any(|two| same(one, two)))
    }
}
