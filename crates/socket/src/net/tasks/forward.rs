//! Forwarders for tasks.

use super::{TcpStream, UdpSocket, attempt};
use crate::net as blocking;
use crate::net::{Net, error};
use crate::{Decision, Errno, Opt};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::Poll;

/// [`blocking::TcpForwarder`] with `async` methods.
#[derive(Debug)]
pub struct TcpForwarder<N: Net>(blocking::TcpForwarder<N>);

impl<N: Net + Clone> TcpForwarder<N> {
    /// Starts to hold the SYNs that arrive at the host `net` for addresses without a listener.
    ///
    /// # Errors
    /// Those of [`blocking::TcpForwarder::bind`].
    pub fn bind(net: &N) -> io::Result<TcpForwarder<N>> {
        TcpForwarder::from_blocking(blocking::TcpForwarder::bind(net)?)
    }

    /// Starts to hold the SYNs for the addresses of a prefix, such as `10.0.0.0/8`.
    ///
    /// # Errors
    /// Those of [`blocking::TcpForwarder::bind_prefix`].
    pub fn bind_prefix(net: &N, prefix: &str) -> io::Result<TcpForwarder<N>> {
        TcpForwarder::from_blocking(blocking::TcpForwarder::bind_prefix(net, prefix)?)
    }

    fn from_blocking(forwarder: blocking::TcpForwarder<N>) -> io::Result<TcpForwarder<N>> {
        forwarder.0.0.set(Opt::NonBlocking(true))?;
        Ok(TcpForwarder(forwarder))
    }

    /// Waits for the next request. No request is lost if the future is dropped.
    ///
    /// # Errors
    /// `ConnectionAborted` if the host is stopped.
    pub async fn next(&self) -> io::Result<TcpRequest<N>> {
        let owned = &self.0.0.0;
        let next = |cx: &mut std::task::Context<'_>| {
            owned.net.with(|calls| attempt(calls, owned.fd, cx, || calls.next_request(owned.fd)))
        };
        Ok(TcpRequest(blocking::TcpRequest::of(owned, poll_fn(next).await?)))
    }
}

/// [`blocking::TcpRequest`] with `async` methods.
#[derive(Debug)]
pub struct TcpRequest<N: Net>(blocking::TcpRequest<N>);

impl<N: Net + Clone> TcpRequest<N> {
    /// Answers the SYN, and waits until the handshake is complete. If the future is dropped, the
    /// connection is abandoned.
    ///
    /// # Errors
    /// `TimedOut` if the peer has given up.
    pub async fn accept(mut self) -> io::Result<TcpStream<N>> {
        self.0.decide(Decision::Accept)?;
        let (owned, request) = self.0.parts();
        let accept = |cx: &mut std::task::Context<'_>| {
            owned.net.with(|calls| attempt(calls, owned.fd, cx, || calls.accept_request(owned.fd, request)))
        };
        let fd = poll_fn(accept).await?;
        let stream = blocking::TcpStream::of(owned.net.clone(), fd);
        self.0.done();
        TcpStream::from_blocking(stream)
    }

    /// Refuses the connection: the peer gets a RST.
    ///
    /// # Errors
    /// `TimedOut` if the request has expired.
    pub fn refuse(self) -> io::Result<()> {
        self.0.refuse()
    }

    /// Returns the original destination.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Returns the peer.
    pub fn peer_addr(&self) -> SocketAddr {
        self.0.peer_addr()
    }
}

/// [`blocking::UdpForwarder`] with `async` methods.
#[derive(Debug)]
pub struct UdpForwarder<N: Net>(blocking::UdpForwarder<N>);

impl<N: Net + Clone> UdpForwarder<N> {
    /// Starts to hold the datagrams that arrive at the host `net` for addresses without a socket.
    ///
    /// # Errors
    /// Those of [`blocking::UdpForwarder::bind`].
    pub fn bind(net: &N) -> io::Result<UdpForwarder<N>> {
        blocking::UdpForwarder::bind(net).map(UdpForwarder)
    }

    /// Starts to hold the datagrams for the addresses of a prefix, such as `10.0.0.0/8`.
    ///
    /// # Errors
    /// Those of [`blocking::UdpForwarder::bind_prefix`].
    pub fn bind_prefix(net: &N, prefix: &str) -> io::Result<UdpForwarder<N>> {
        blocking::UdpForwarder::bind_prefix(net, prefix).map(UdpForwarder)
    }

    /// Waits for the next request. No request is lost if the future is dropped.
    ///
    /// # Errors
    /// `ConnectionAborted` if the host is stopped.
    pub async fn next(&self) -> io::Result<UdpRequest<N>> {
        let (net, prefix) = (&self.0.0.net, self.0.0.prefix);
        let next = |cx: &mut std::task::Context<'_>| {
            net.with(|calls| {
                if let Some(request) = calls.next_datagram_request(prefix) {
                    return Poll::Ready(Ok(request));
                }
                let signal = || calls.stack().udp_request_signal(calls.cx(), prefix);
                let Some(waiting) = signal().filter(|_| !calls.stack().is_stopped()) else {
                    return Poll::Ready(Err(error(Errno::EINTR)));
                };
                waiting.wake_task(cx.waker());
                if let Some(request) = calls.next_datagram_request(prefix) {
                    return Poll::Ready(Ok(request));
                }
                // The host may have been stopped since the check above.
                let has_ended = calls.stack().is_stopped() || signal().is_none();
                if has_ended { Poll::Ready(Err(error(Errno::EINTR))) } else { Poll::Pending }
            })
        };
        Ok(UdpRequest(blocking::UdpRequest::of(net.clone(), poll_fn(next).await?)))
    }
}

/// [`blocking::UdpRequest`] whose socket has `async` methods.
#[derive(Debug)]
pub struct UdpRequest<N: Net>(blocking::UdpRequest<N>);

impl<N: Net + Clone> UdpRequest<N> {
    /// Opens a socket that is bound to the original destination and connected to the sender.
    ///
    /// # Errors
    /// Those of [`blocking::UdpRequest::accept`].
    pub fn accept(self) -> io::Result<UdpSocket<N>> {
        UdpSocket::from_blocking(self.0.accept()?)
    }

    /// Refuses the datagrams: the sender gets an ICMP error (port unreachable).
    ///
    /// # Errors
    /// `NotConnected` if the request has expired.
    pub fn refuse(self) -> io::Result<()> {
        self.0.refuse()
    }

    /// Returns the original destination.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Returns the sender.
    pub fn peer_addr(&self) -> SocketAddr {
        self.0.peer_addr()
    }
}
