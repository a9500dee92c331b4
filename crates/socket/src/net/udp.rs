//! UDP socket, with the interface of `std::net::UdpSocket`.

use super::{Net, Owned, ToAddr, error, odd, timeout};
use crate::{Ancillary, Errno, Fd, Message, Opt, OptKind, RecvFlags};
use inet::iface::IfaceId;
use inet::udp::Domain;
use inet::zone;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A UDP socket on a host ([`Net`]).
///
/// ```
/// use linerate_socket::net::{Alone, UdpSocket};
///
/// let host = &Alone::<lock::Up>::new("example")?;
/// let server = UdpSocket::bind(&host, "127.0.0.1:53")?;
/// let client = UdpSocket::bind(&host, "0.0.0.0:0")?;
/// client.connect("127.0.0.1:53")?;
/// client.send(b"who?")?;
/// let mut buf = [0; 512];
/// let (n, from) = server.recv_from(&mut buf)?;
/// assert_eq!(&buf[..n], b"who?");
/// server.send_to(b"you", from)?;
/// assert_eq!(client.recv(&mut buf)?, 3);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UdpSocket<N: Net>(pub(super) Arc<Owned<N>>);

const PEEK: RecvFlags = RecvFlags { peek: true, dont_wait: false, trunc: false, wait_all: false };

impl<N: Net + Clone> UdpSocket<N> {
    /// Opens a socket on the host `net` and binds it to `addr`. If it is bound to `[::]`, it
    /// receives IPv4 and IPv6 datagrams.
    ///
    /// # Errors
    /// `AddrInUse`, `AddrNotAvailable`.
    pub fn bind(net: &N, addr: impl ToAddr) -> io::Result<UdpSocket<N>> {
        UdpSocket::bind_with(net, addr, &[])
    }

    /// Opens a socket on the host `net`, sets `options`, such as [`Opt::ReusePort`], and binds it
    /// to `addr`.
    ///
    /// # Errors
    /// Those of [`UdpSocket::bind`], and those of setting the options.
    pub fn bind_with(net: &N, addr: impl ToAddr, options: &[Opt]) -> io::Result<UdpSocket<N>> {
        let addr = addr.to_addr(net)?;
        let fd = net.with(|calls| calls.socket_of(Domain::of(&addr))).map_err(error)?;
        let socket = UdpSocket::of(net.clone(), fd);
        options.iter().try_for_each(|opt| socket.0.set(*opt))?;
        socket.0.call(|calls, fd| calls.bind(fd, addr))?;
        Ok(socket)
    }
}

impl<N: Net> UdpSocket<N> {
    pub(super) fn of(net: N, fd: Fd) -> UdpSocket<N> {
        UdpSocket(Arc::new(Owned { net, fd }))
    }

    /// Sets the peer: datagrams are sent to `addr` by default, and received only from it.
    ///
    /// # Errors
    /// Those of [`Calls::connect`](crate::Calls::connect), such as `NetworkUnreachable`.
    pub fn connect(&self, addr: impl ToAddr) -> io::Result<()> {
        let addr = addr.to_addr(&self.0.net)?;
        self.0.call(|calls, fd| calls.connect(fd, addr))
    }

    /// Sends a datagram to `addr`.
    ///
    /// # Errors
    /// Errors that the stack detects at once, and the pending error of a datagram sent earlier.
    pub fn send_to(&self, buf: &[u8], addr: impl ToAddr) -> io::Result<usize> {
        if let Some(addr) = addr.as_addr() {
            return self.0.call(|calls, fd| calls.send_to(fd, buf, addr));
        }
        let addr = addr.to_addr(&self.0.net)?;
        self.0.call(|calls, fd| calls.send_to(fd, buf, &addr))
    }

    /// Receives the next datagram, truncated to `buf`, with the ancillary data that
    /// [`UdpSocket::set_option`] has enabled.
    ///
    /// # Errors
    /// Those of [`UdpSocket::recv_from`].
    pub fn recv_msg(&self, buf: &mut [u8]) -> io::Result<Message> {
        self.0.call(|calls, fd| calls.recv_msg(fd, buf))
    }

    /// Sends a datagram to `addr`. The values in `ancillary` override the socket's options. With
    /// [`Ancillary::source`], a reply can be sent from the address to which the request was sent
    /// (RFC 1122 4.1.3.5).
    ///
    /// # Errors
    /// Those of [`UdpSocket::send_to`]; `AddrNotAvailable` if the source is not an address of the
    /// host and [`Opt::BindAny`] is not set; `InvalidInput`.
    pub fn send_msg(&self, buf: &[u8], addr: impl ToAddr, ancillary: &Ancillary) -> io::Result<usize> {
        let addr = addr.to_addr(&self.0.net)?;
        self.0.call(|calls, fd| calls.send_msg(fd, buf, Some(&addr), ancillary))
    }

    /// Sets an option for which the standard library's socket has no method.
    ///
    /// # Errors
    /// `InvalidInput` for a value out of range, and an error without a specific kind
    /// (`ENOPROTOOPT`) for an option of another type of socket.
    pub fn set_option(&self, opt: Opt) -> io::Result<()> {
        self.0.set(opt)
    }

    /// Returns the value of an option.
    ///
    /// # Errors
    /// An error without a specific kind (`ENOPROTOOPT`) for an option of another type of socket.
    pub fn option(&self, kind: OptKind) -> io::Result<Opt> {
        self.0.option(kind)
    }

    /// Sends a datagram to the connected peer.
    ///
    /// # Errors
    /// Those of [`UdpSocket::send_to`]; without a peer an error without a specific kind
    /// (`EDESTADDRREQ`).
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.call(|calls, fd| calls.send(fd, buf))
    }

    /// Receives the next datagram, truncated to `buf`. Returns its length and its sender.
    ///
    /// # Errors
    /// `WouldBlock`, and the pending error of a datagram sent earlier.
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.call(|calls, fd| calls.recv_from(fd, buf))
    }

    /// Receives the next datagram, truncated to `buf`.
    ///
    /// # Errors
    /// Those of [`UdpSocket::recv_from`].
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.call(|calls, fd| calls.recv(fd, buf))
    }

    /// Returns the next datagram and its sender without removing it from the queue.
    ///
    /// # Errors
    /// Those of [`UdpSocket::recv_from`].
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.call(|calls, fd| calls.recv_from_flags(fd, buf, PEEK))
    }

    /// Returns the next datagram without removing it from the queue.
    ///
    /// # Errors
    /// Those of [`UdpSocket::recv_from`].
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.peek_from(buf).map(|(n, _)| n)
    }

    /// Returns the local address and port.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.call(|calls, fd| calls.local_addr(fd))
    }

    /// Returns the address and port of the peer.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.call(|calls, fd| calls.peer_addr(fd))
    }

    /// Returns another handle to the same socket.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<UdpSocket<N>> {
        Ok(UdpSocket(Arc::clone(&self.0)))
    }

    /// Sets the maximum time that a receive waits, after which it fails with `WouldBlock`. With
    /// `None`, a receive waits forever.
    ///
    /// # Errors
    /// `InvalidInput` for zero.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set(Opt::RecvTimeout(timeout(time)?))
    }

    /// Returns the maximum time that a receive waits; `None` if it waits forever.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        if let Opt::RecvTimeout(time) = self.0.option(OptKind::RecvTimeout)? { Ok(time) } else { odd() }
    }

    /// Checks only that `time` is valid, since sending a datagram never waits.
    ///
    /// # Errors
    /// `InvalidInput` for zero.
    pub fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        timeout(time).map(drop)
    }

    /// Makes calls fail with `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.0.set(Opt::NonBlocking(on))
    }

    /// Sets whether sending to broadcast addresses is permitted.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn set_broadcast(&self, on: bool) -> io::Result<()> {
        self.0.set(Opt::Broadcast(on))
    }

    /// Returns whether sending to broadcast addresses is permitted.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn broadcast(&self) -> io::Result<bool> {
        if let Opt::Broadcast(on) = self.0.option(OptKind::Broadcast)? { Ok(on) } else { odd() }
    }

    /// Sets the time to live (or hop limit) of sent datagrams.
    ///
    /// # Errors
    /// `InvalidInput` for 0 and for values above 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.0.set(Opt::Ttl(u8::try_from(ttl).map_err(|_| error(Errno::EINVAL))?))
    }

    /// Returns the time to live (or hop limit) of sent datagrams.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn ttl(&self) -> io::Result<u32> {
        if let Opt::Ttl(ttl) = self.0.option(OptKind::Ttl)? { Ok(ttl.into()) } else { odd() }
    }

    /// Joins the multicast group on the iface that has the address `iface`. With `0.0.0.0`, joins
    /// on the iface of the route to the group.
    ///
    /// # Errors
    /// `AddrNotAvailable` if the group is not a multicast address or the iface does not exist;
    /// `AddrInUse` if the socket has already joined the group.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, iface: &Ipv4Addr) -> io::Result<()> {
        let iface = self.iface_of(*iface)?;
        self.0.set(Opt::Join((*group).into(), iface))
    }

    /// Leaves a multicast group that was joined with the same arguments.
    ///
    /// # Errors
    /// `AddrNotAvailable` if the socket has not joined the group.
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, iface: &Ipv4Addr) -> io::Result<()> {
        let iface = self.iface_of(*iface)?;
        self.0.set(Opt::Leave((*group).into(), iface))
    }

    /// Joins the multicast group on the iface with this index, which is the scope id of the iface's
    /// link-local addresses. With 0, joins on the iface of the route to the group.
    ///
    /// # Errors
    /// `AddrNotAvailable` if the group is not a multicast address or the iface does not exist;
    /// `AddrInUse` if the socket has already joined the group.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, index: u32) -> io::Result<()> {
        self.0.set(Opt::Join((*group).into(), zone::iface_of(index)))
    }

    /// Leaves a multicast group that was joined with the same arguments.
    ///
    /// # Errors
    /// `AddrNotAvailable` if the socket has not joined the group.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, index: u32) -> io::Result<()> {
        self.0.set(Opt::Leave((*group).into(), zone::iface_of(index)))
    }

    fn iface_of(&self, addr: Ipv4Addr) -> io::Result<Option<IfaceId>> {
        if addr.is_unspecified() {
            return Ok(None);
        }
        let found = self.0.net.with(|calls| {
            let has =
                |iface: &&inet::iface::Iface<N::Locks>| iface.addrs(calls.cx()).iter().any(|own| own.addr == addr);
            calls.stack().ifaces().find(has).map(|iface| iface.id)
        });
        found.map(Some).ok_or_else(|| error(Errno::EADDRNOTAVAIL))
    }

    /// Returns the pending error and clears it.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// Returns the descriptor, which the socket still owns.
    pub fn fd(&self) -> Fd {
        self.0.fd
    }
}
