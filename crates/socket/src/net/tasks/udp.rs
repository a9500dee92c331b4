//! UDP socket for tasks.

use super::{PEEK, RECV, attempt, lookup_one, wait_for_buffers};
use crate::net as blocking;
use crate::net::{Net, ToAddr};
use crate::{Ancillary, Calls, Errno, Message};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// A UDP socket with `async` methods.
pub struct UdpSocket<N: Net>(pub(super) blocking::UdpSocket<N>);

impl<N: Net + Clone> UdpSocket<N> {
    /// Opens a socket on the host `net` and binds it to `addr`.
    ///
    /// # Errors
    /// `AddrInUse`, `AddrNotAvailable`, and those of [`lookup`](super::lookup).
    pub async fn bind(net: &N, addr: impl ToAddr) -> io::Result<UdpSocket<N>> {
        let addr = lookup_one(net, addr).await?;
        UdpSocket::from_blocking(blocking::UdpSocket::bind(net, addr)?)
    }
}

impl<N: Net> UdpSocket<N> {
    /// Converts a blocking socket. It becomes non-blocking, also for its other handles.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn from_blocking(socket: blocking::UdpSocket<N>) -> io::Result<UdpSocket<N>> {
        socket.set_nonblocking(true)?;
        Ok(UdpSocket(socket))
    }

    /// Sets the peer: datagrams are sent to `addr` by default, and received only from it.
    ///
    /// # Errors
    /// Those of [`Calls::connect`], such as `NetworkUnreachable`.
    pub async fn connect(&self, addr: impl ToAddr) -> io::Result<()> {
        let addr = lookup_one(&self.0.0.net, addr).await?;
        self.0.connect(addr)
    }

    fn poll<R>(
        &self,
        cx: &mut Context<'_>,
        mut call: impl FnMut(&Calls<'_, N::Locks>) -> Result<R, Errno>,
    ) -> Poll<io::Result<R>> {
        let owned = &self.0.0;
        owned.net.with(|calls| attempt(calls, owned.fd, cx, || call(calls)))
    }

    /// Sends a datagram to `addr`. Waits while the host has no free buffers. Nothing was sent if
    /// the future is dropped.
    ///
    /// # Errors
    /// Errors that the stack detects at once, and the pending error of a datagram sent earlier.
    pub async fn send_to(&self, buf: &[u8], addr: impl ToAddr) -> io::Result<usize> {
        let addr = match addr.target()? {
            blocking::Target::Addr(addr) => addr,
            blocking::Target::Name(..) => lookup_one(&self.0.0.net, addr).await?,
        };
        poll_fn(|cx| self.poll_send_to(cx, buf, addr)).await
    }

    /// Sends a datagram, or registers the task to be woken when the host may have a free buffer.
    ///
    /// # Errors
    /// Those of [`UdpSocket::send_to`].
    pub fn poll_send_to(&self, cx: &mut Context<'_>, buf: &[u8], addr: SocketAddr) -> Poll<io::Result<usize>> {
        self.poll(cx, |calls| calls.send_to(self.0.fd(), buf, &addr))
    }

    /// Sends a datagram to the connected peer, as [`UdpSocket::send_to`] does.
    ///
    /// # Errors
    /// Those of [`UdpSocket::send_to`]; without a peer an error without a specific kind
    /// (`EDESTADDRREQ`).
    pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll(cx, |calls| calls.send(self.0.fd(), buf))).await
    }

    /// Sends a datagram with ancillary data, as [`blocking::UdpSocket::send_msg`] does.
    ///
    /// # Errors
    /// Those of [`blocking::UdpSocket::send_msg`].
    pub async fn send_msg(&self, buf: &[u8], addr: SocketAddr, ancillary: &Ancillary) -> io::Result<usize> {
        poll_fn(|cx| self.poll_send_msg(cx, buf, addr, ancillary)).await
    }

    /// Sends a datagram with ancillary data, or registers the task to be woken when the host may
    /// have a free buffer.
    ///
    /// # Errors
    /// Those of [`blocking::UdpSocket::send_msg`].
    pub fn poll_send_msg(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        addr: SocketAddr,
        ancillary: &Ancillary,
    ) -> Poll<io::Result<usize>> {
        self.poll(cx, |calls| calls.send_msg(self.0.fd(), buf, Some(&addr), ancillary))
    }

    /// Returns `Ready` if the host has a free buffer, so that a datagram can probably be sent.
    /// Otherwise registers the task to be woken when it may have one.
    ///
    /// # Errors
    /// `ConnectionAborted` if the host is stopped.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.0.net.with(|calls| match calls.stack().pool.get() {
            Some(_) => Poll::Ready(Ok(())),
            None => wait_for_buffers(calls, cx),
        })
    }

    /// Receives the next datagram, truncated to `buf`. Returns its length and its sender. No
    /// datagram is lost if the future is dropped.
    ///
    /// # Errors
    /// The pending error of a datagram sent earlier.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        poll_fn(|cx| self.poll_recv_from(cx, buf)).await
    }

    /// Receives the next datagram, or registers the task to be woken when one arrives.
    ///
    /// # Errors
    /// Those of [`UdpSocket::recv_from`].
    pub fn poll_recv_from(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.poll(cx, |calls| calls.recv_from_flags(self.0.fd(), buf, RECV))
    }

    /// Receives the next datagram, truncated to `buf`.
    ///
    /// # Errors
    /// Those of [`UdpSocket::recv_from`].
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.recv_from(buf).await.map(|(n, _)| n)
    }

    /// Receives the next datagram with the ancillary data that
    /// [`blocking::UdpSocket::set_option`] has enabled.
    ///
    /// # Errors
    /// Those of [`UdpSocket::recv_from`].
    pub async fn recv_msg(&self, buf: &mut [u8]) -> io::Result<Message> {
        poll_fn(|cx| self.poll_recv_msg(cx, buf)).await
    }

    /// Receives the next datagram with ancillary data, or registers the task to be woken when one
    /// arrives.
    ///
    /// # Errors
    /// Those of [`UdpSocket::recv_from`].
    pub fn poll_recv_msg(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<Message>> {
        self.poll(cx, |calls| calls.recv_msg(self.0.fd(), buf))
    }

    /// Waits until a receive would return at once.
    ///
    /// # Errors
    /// The pending error of a datagram sent earlier.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll(cx, |calls| calls.recv_from_flags(self.0.fd(), &mut [], PEEK).map(drop))).await
    }

    /// Returns the local address and port.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Returns the address and port of the peer.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Returns the socket with its blocking interface, for its options. The socket stays
    /// non-blocking.
    pub fn as_blocking(&self) -> &blocking::UdpSocket<N> {
        &self.0
    }
}
