//! Raw sockets and ICMP sockets in the style of `std::net`, which has no such sockets.

use super::{Net, Owned, ToAddr, error, timeout};
use crate::{Ancillary, Calls, Domain, Errno, Fd, Message, Opt, OptKind};
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::time::Duration;
use wire::{Proto, icmp4, icmp6};

/// Raw socket: receives copies of all packets of one protocol that are addressed to the host. Ports
/// in addresses are ignored.
pub struct RawSocket<N: Net>(pub(super) Owned<N>);

impl<N: Net + Clone> RawSocket<N> {
    /// Opens a raw socket for the protocol `proto` on the host `net`. IPv4 packets are received
    /// with their header, IPv6 packets without it.
    ///
    /// # Errors
    /// `EMFILE`, `EPROTONOSUPPORT` (protocol 0).
    pub fn open(net: &N, domain: Domain, proto: Proto) -> io::Result<RawSocket<N>> {
        RawSocket::opened(net, |calls| calls.raw_socket(domain, proto))
    }

    fn opened(net: &N, open: impl FnOnce(&Calls<'_, N::Locks>) -> Result<Fd, Errno>) -> io::Result<RawSocket<N>> {
        let fd = net.with(open).map_err(error)?;
        Ok(RawSocket(Owned { net: net.clone(), fd }))
    }
}

impl<N: Net> RawSocket<N> {
    /// Restricts reception to packets sent to the local address `addr`, and uses it as the source
    /// of sent packets.
    ///
    /// # Errors
    /// `AddrNotAvailable`; for an ICMP socket, whose port is the identifier of its requests, also
    /// `AddrInUse`.
    pub fn bind(&self, addr: impl ToAddr) -> io::Result<()> {
        let addr = addr.to_addr(&self.0.net)?;
        self.0.call(|calls, fd| calls.bind(fd, addr)).map(drop)
    }

    /// Sets the peer: packets are sent only to `addr` and received only from it.
    ///
    /// # Errors
    /// Those of [`Calls::connect`], such as `NetworkUnreachable`.
    pub fn connect(&self, addr: impl ToAddr) -> io::Result<()> {
        let addr = addr.to_addr(&self.0.net)?;
        self.0.call(|calls, fd| calls.connect(fd, addr))
    }

    /// Sends a packet to `addr`.
    ///
    /// # Errors
    /// `InvalidInput` if this socket cannot send this packet; otherwise those of
    /// [`UdpSocket::send_to`](super::UdpSocket::send_to).
    pub fn send_to(&self, buf: &[u8], addr: impl ToAddr) -> io::Result<usize> {
        let addr = addr.to_addr(&self.0.net)?;
        self.0.call(|calls, fd| calls.send_to(fd, buf, &addr))
    }

    /// Sends a packet to the connected peer.
    ///
    /// # Errors
    /// Those of [`RawSocket::send_to`].
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.call(|calls, fd| calls.send(fd, buf))
    }

    /// Sends a packet to `addr`. The values in `ancillary` override the socket's options.
    ///
    /// # Errors
    /// Those of [`UdpSocket::send_msg`](super::UdpSocket::send_msg).
    pub fn send_msg(&self, buf: &[u8], addr: impl ToAddr, ancillary: &Ancillary) -> io::Result<usize> {
        let addr = addr.to_addr(&self.0.net)?;
        self.0.call(|calls, fd| calls.send_msg(fd, buf, Some(&addr), ancillary))
    }

    /// Receives the next packet, truncated to `buf`. Returns its length and its sender.
    ///
    /// # Errors
    /// `WouldBlock`, and the pending error of a packet sent earlier.
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.call(|calls, fd| calls.recv_from(fd, buf))
    }

    /// Receives the next packet, truncated to `buf`, with the ancillary data that the options of
    /// the socket enable.
    ///
    /// # Errors
    /// Those of [`RawSocket::recv_from`].
    pub fn recv_msg(&self, buf: &mut [u8]) -> io::Result<Message> {
        self.0.call(|calls, fd| calls.recv_msg(fd, buf))
    }

    /// Sets an option of the socket.
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

    /// Sets the time to live (or hop limit) of sent packets.
    ///
    /// # Errors
    /// `InvalidInput` for 0 and for values above 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.0.set(Opt::Ttl(u8::try_from(ttl).map_err(|_| error(Errno::EINVAL))?))
    }

    /// Sets the maximum time that a receive waits, after which it fails with `WouldBlock`. With
    /// `None`, a receive waits forever.
    ///
    /// # Errors
    /// `InvalidInput` for zero.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set(Opt::RecvTimeout(timeout(time)?))
    }

    /// Makes calls fail with `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.0.set(Opt::NonBlocking(on))
    }

    /// Returns the local address. The port of an ICMP socket is the identifier of its echo
    /// requests.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.call(|calls, fd| calls.local_addr(fd))
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

/// ICMP socket for echo requests and their replies. The methods of [`RawSocket`] can be used to
/// send and receive whole ICMP messages.
///
/// ```
/// use linerate_socket::Domain;
/// use linerate_socket::net::{Alone, IcmpSocket};
///
/// let host = &Alone::<lock::Up>::new("example")?;
/// let socket = IcmpSocket::open(&host, Domain::Inet)?;
/// socket.send_echo(1, b"data", "127.0.0.1:0")?;
/// let mut buf = [0; 64];
/// let reply = socket.recv_reply(&mut buf)?;
/// assert_eq!((reply.seq, &buf[..reply.len]), (1, &b"data"[..]));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct IcmpSocket<N: Net>(RawSocket<N>, Domain);

/// Reply to an echo request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Sequence number of the request.
    pub seq: u16,
    /// Number of bytes of data copied into the caller's buffer.
    pub len: usize,
    /// Sender of the reply.
    pub from: SocketAddr,
}

impl<N: Net> Deref for IcmpSocket<N> {
    type Target = RawSocket<N>;
    fn deref(&self) -> &RawSocket<N> {
        &self.0
    }
}

impl<N: Net + Clone> IcmpSocket<N> {
    /// Opens an ICMP socket on `net`, or an ICMPv6 socket for [`Domain::Inet6`].
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn open(net: &N, domain: Domain) -> io::Result<IcmpSocket<N>> {
        Ok(IcmpSocket(RawSocket::opened(net, |calls| calls.icmp_socket(domain))?, domain))
    }
}

impl<N: Net> IcmpSocket<N> {
    /// Sends an echo request with sequence number `seq` and `data` to `addr`.
    ///
    /// # Errors
    /// Those of [`RawSocket::send_to`].
    pub fn send_echo(&self, seq: u16, data: &[u8], addr: impl ToAddr) -> io::Result<()> {
        let request = match self.1 {
            Domain::Inet => icmp4::ty::ECHO_REQUEST,
            Domain::Inet6 => icmp6::ty::ECHO_REQUEST,
        };
        let [s0, s1] = seq.to_be_bytes();
        let message = [&[request, 0, 0, 0, 0, 0, s0, s1], data].concat();
        self.send_to(&message, addr).map(drop)
    }

    /// Receives the next reply; its data is truncated to `buf`.
    ///
    /// # Errors
    /// Those of [`RawSocket::recv_from`].
    pub fn recv_reply(&self, buf: &mut [u8]) -> io::Result<Reply> {
        let mut message = vec![0; icmp4::HEADER_LEN + buf.len()];
        let (n, from) = self.recv_from(&mut message)?;
        let (header, data) = message.split_at_checked(icmp4::HEADER_LEN).unwrap_or_default();
        let len = n.saturating_sub(header.len());
        buf.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
        let &[.., s0, s1] = header else { return Err(error(Errno::EINVAL)) };
        Ok(Reply { seq: u16::from_be_bytes([s0, s1]), len, from })
    }
}
