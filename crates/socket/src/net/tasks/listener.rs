//! TCP listener for tasks.

use super::{TcpStream, attempt, lookup_one};
use crate::net as blocking;
use crate::net::{Net, ToAddr};
use crate::{Opt, OptKind};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// A TCP listener with `async` methods.
pub struct TcpListener<N: Net>(pub(super) blocking::TcpListener<N>);

impl<N: Net + Clone> TcpListener<N> {
    /// Listens for connections to `addr` on the host `net`, as
    /// [`blocking::TcpListener::bind`](blocking::TcpListener::bind) does.
    ///
    /// # Errors
    /// `AddrInUse`, `AddrNotAvailable`, and those of [`lookup`](super::lookup).
    pub async fn bind(net: &N, addr: impl ToAddr) -> io::Result<TcpListener<N>> {
        let addr = lookup_one(net, addr).await?;
        TcpListener::from_blocking(blocking::TcpListener::bind(net, addr)?)
    }

    /// Converts a blocking listener, for example one with options
    /// ([`blocking::TcpListener::bind_with`]).
    ///
    /// # Errors
    /// None for an open listener.
    pub fn from_blocking(listener: blocking::TcpListener<N>) -> io::Result<TcpListener<N>> {
        listener.set_nonblocking(true)?;
        Ok(TcpListener(listener))
    }

    /// Accepts the next connection; returns it with the peer's address. No connection is lost if
    /// the future is dropped.
    ///
    /// # Errors
    /// `ConnectionAborted` if the host is stopped; an error without a specific kind (`EMFILE`) if
    /// the host has too many sockets.
    pub async fn accept(&self) -> io::Result<(TcpStream<N>, SocketAddr)> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Accepts the next connection. If there is none, registers the task to be woken when one
    /// arrives.
    ///
    /// # Errors
    /// Those of [`TcpListener::accept`].
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream<N>, SocketAddr)>> {
        let owned = &self.0.0;
        let found = owned.net.with(|calls| attempt(calls, owned.fd, cx, || calls.accept(owned.fd)));
        match found {
            Poll::Ready(Ok((fd, peer))) => {
                let stream = TcpStream::from_blocking(blocking::TcpStream::of(owned.net.clone(), fd));
                Poll::Ready(stream.map(|stream| (stream, peer)))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<N: Net> TcpListener<N> {
    /// Returns the local address and port.
    ///
    /// # Errors
    /// None for an open listener.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Returns the value of an option.
    ///
    /// # Errors
    /// An error without a specific kind (`ENOPROTOOPT`) for an option of another type of socket.
    pub fn option(&self, kind: OptKind) -> io::Result<Opt> {
        self.0.0.option(kind)
    }
}
