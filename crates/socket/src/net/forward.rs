//! Forwarders: connections and datagrams for any address and port, for transparent proxies.
//!
//! A packet reaches a forwarder if it is routed to this host (`ip route add local 0.0.0.0/0`,
//! `ip -6 route add local ::/0`) and no socket matches its destination. A forwarder serves both
//! IPv4 and IPv6.

use super::addr::parsed_prefix;
use super::{Net, Owned, TcpListener, TcpStream, UdpSocket, error};
use crate::{AnyPrefix, Decision, Errno, ForwardRequest, Opt};
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Maximum number of established connections that wait for [`TcpRequest::accept`].
const BACKLOG: u32 = 1024;

/// Receives the first SYN of each connection for any address and port. The SYN is answered after
/// the application has decided, for example after it has connected to the real destination.
pub struct TcpForwarder<N: Net>(pub(super) TcpListener<N>);

impl<N: Net + Clone> TcpForwarder<N> {
    /// Starts to hold the SYNs that arrive at the host `net` for addresses without a listener.
    ///
    /// # Errors
    /// `AddrInUse` if the host already has a forwarder for all addresses, or a listener for any
    /// port.
    pub fn bind(net: &N) -> io::Result<TcpForwarder<N>> {
        TcpForwarder::bind_on(net, AnyPrefix::All)
    }

    /// Starts to hold the SYNs for the addresses of a prefix, such as `10.0.0.0/8`. If several
    /// forwarders match, the one with the longest prefix receives the SYN.
    ///
    /// # Errors
    /// `InvalidInput` if the prefix is not valid, `AddrInUse` if it already has a forwarder.
    pub fn bind_prefix(net: &N, prefix: &str) -> io::Result<TcpForwarder<N>> {
        TcpForwarder::bind_on(net, parsed_prefix(prefix)?)
    }

    fn bind_on(net: &N, prefix: AnyPrefix) -> io::Result<TcpForwarder<N>> {
        let options = [Opt::V6Only(false), Opt::BindAny(true)];
        let listener = TcpListener::bind_on(net, (Ipv6Addr::UNSPECIFIED, 0), &options, BACKLOG, prefix)?;
        listener.0.call(|calls, fd| calls.hold_requests(fd, true))?;
        Ok(TcpForwarder(listener))
    }

    /// Waits for the next request.
    ///
    /// # Errors
    /// `ConnectionAborted` if the host is stopped.
    pub fn next(&self) -> io::Result<TcpRequest<N>> {
        let request = self.0.0.call(|calls, fd| calls.next_request(fd))?;
        Ok(TcpRequest::of(&self.0.0, request))
    }
}

/// A connection request that waits for a decision. Dropping the request ignores the SYN. If the
/// peer retransmits the SYN, this is a new request.
pub struct TcpRequest<N: Net> {
    listener: Arc<Owned<N>>,
    request: ForwardRequest,
    state: RequestState,
}

/// State of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestState {
    Undecided,
    /// The SYN was answered, and the connection was not returned yet.
    Accepting,
    Done,
}

impl<N: Net + Clone> TcpRequest<N> {
    pub(super) fn of(listener: &Arc<Owned<N>>, request: ForwardRequest) -> TcpRequest<N> {
        TcpRequest { listener: listener.clone(), request, state: RequestState::Undecided }
    }

    /// Records that the connection was returned to the application, so that dropping the request
    /// does not reset it.
    pub(super) fn done(&mut self) {
        self.state = RequestState::Done;
    }

    pub(super) fn decide(&mut self, decision: Decision) -> io::Result<()> {
        self.state = if decision == Decision::Accept { RequestState::Accepting } else { RequestState::Done };
        self.listener.call(|calls, fd| calls.decide(fd, &self.request, decision))
    }

    pub(super) fn parts(&self) -> (&Owned<N>, &ForwardRequest) {
        (&self.listener, &self.request)
    }

    /// Answers the SYN, and waits until the handshake is complete. The connection's local address
    /// is the original destination.
    ///
    /// # Errors
    /// `TimedOut` if the peer has given up.
    pub fn accept(mut self) -> io::Result<TcpStream<N>> {
        self.decide(Decision::Accept)?;
        let fd = self.listener.call(|calls, fd| calls.accept_request(fd, &self.request))?;
        self.done();
        Ok(TcpStream::of(self.listener.net.clone(), fd))
    }

    /// Refuses the connection: the peer gets a RST.
    ///
    /// # Errors
    /// `TimedOut` if the request has expired.
    pub fn refuse(mut self) -> io::Result<()> {
        self.decide(Decision::Refuse)
    }

    /// Returns the original destination.
    pub fn local_addr(&self) -> SocketAddr {
        self.request.local_addr()
    }

    /// Returns the peer.
    pub fn peer_addr(&self) -> SocketAddr {
        self.request.peer_addr()
    }
}

impl<N: Net> Drop for TcpRequest<N> {
    fn drop(&mut self) {
        match self.state {
            // Fails only if the request has expired.
            RequestState::Undecided => {
                let _ = self.listener.call(|calls, fd| calls.decide(fd, &self.request, Decision::Ignore));
            }
            RequestState::Accepting => {
                self.listener.net.with(|calls| calls.forget_request(self.listener.fd, &self.request))
            }
            RequestState::Done => {}
        }
    }
}

/// Makes the host stop holding datagrams for a prefix when it is dropped.
pub(super) struct Holding<N: Net> {
    pub(super) net: N,
    pub(super) prefix: AnyPrefix,
}

impl<N: Net> Drop for Holding<N> {
    fn drop(&mut self) {
        self.net.with(|calls| calls.stack().udp_release(calls.cx(), self.prefix));
    }
}

/// Receives a request for the first datagram between any two addresses and ports without a socket.
pub struct UdpForwarder<N: Net>(pub(super) Arc<Holding<N>>);

impl<N: Net + Clone> UdpForwarder<N> {
    /// Starts to hold the datagrams that arrive at the host `net` for addresses without a socket.
    ///
    /// # Errors
    /// `AddrInUse` if the host already has a forwarder of datagrams for all addresses.
    pub fn bind(net: &N) -> io::Result<UdpForwarder<N>> {
        UdpForwarder::bind_on(net, AnyPrefix::All)
    }

    /// Starts to hold the datagrams for the addresses of a prefix, such as `10.0.0.0/8`. If
    /// several forwarders match, the one with the longest prefix receives the datagram.
    ///
    /// # Errors
    /// `InvalidInput` if the prefix is not valid, `AddrInUse` if it already has a forwarder.
    pub fn bind_prefix(net: &N, prefix: &str) -> io::Result<UdpForwarder<N>> {
        UdpForwarder::bind_on(net, parsed_prefix(prefix)?)
    }

    fn bind_on(net: &N, prefix: AnyPrefix) -> io::Result<UdpForwarder<N>> {
        match net.with(|calls| calls.stack().udp_hold(calls.cx(), prefix)) {
            true => Ok(UdpForwarder(Arc::new(Holding { net: net.clone(), prefix }))),
            false => Err(error(Errno::EADDRINUSE)),
        }
    }

    /// Waits for the next request.
    ///
    /// # Errors
    /// `ConnectionAborted` if the host is stopped.
    pub fn next(&self) -> io::Result<UdpRequest<N>> {
        let request = self.0.net.with(|calls| calls.wait_datagram_request(self.0.prefix)).map_err(error)?;
        Ok(UdpRequest::of(self.0.net.clone(), request))
    }
}

/// A request for the datagrams between two addresses and ports, which are held until a decision.
/// Dropping the request ignores the datagrams.
pub struct UdpRequest<N: Net> {
    net: N,
    request: ForwardRequest,
    is_decided: bool,
}

impl<N: Net + Clone> UdpRequest<N> {
    pub(super) fn of(net: N, request: ForwardRequest) -> UdpRequest<N> {
        UdpRequest { net, request, is_decided: false }
    }

    /// Opens a socket that is bound to the original destination and connected to the sender. The
    /// socket also receives the held datagrams. A datagram that arrives during this call may be
    /// received before them.
    ///
    /// # Errors
    /// `NotConnected` if the request has expired; if no descriptor is free, an error without a
    /// specific kind (`ENOBUFS`).
    pub fn accept(mut self) -> io::Result<UdpSocket<N>> {
        self.is_decided = true;
        let fd = self.net.with(|calls| calls.decide_datagram(&self.request, Decision::Accept)).map_err(error)?;
        let fd = fd.ok_or_else(|| error(Errno::ENOTCONN))?; // an accepted request has a socket
        Ok(UdpSocket::of(self.net.clone(), fd))
    }

    /// Refuses the datagrams: the sender gets an ICMP error (port unreachable).
    ///
    /// # Errors
    /// `NotConnected` if the request has expired.
    pub fn refuse(mut self) -> io::Result<()> {
        self.is_decided = true;
        self.net.with(|calls| calls.decide_datagram(&self.request, Decision::Refuse)).map(drop).map_err(error)
    }

    /// Returns the original destination.
    pub fn local_addr(&self) -> SocketAddr {
        self.request.local_addr()
    }

    /// Returns the sender.
    pub fn peer_addr(&self) -> SocketAddr {
        self.request.peer_addr()
    }
}

impl<N: Net> Drop for UdpRequest<N> {
    fn drop(&mut self) {
        if !self.is_decided {
            // Fails only if the request has expired.
            let _ = self.net.with(|calls| calls.decide_datagram(&self.request, Decision::Ignore));
        }
    }
}

macro_rules! requests_shown {
    ($($name:ident),+) => { $(
        impl<N: Net> std::fmt::Debug for $name<N> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).field("request", &self.request).finish_non_exhaustive()
            }
        }
    )+ };
}

requests_shown!(TcpRequest, UdpRequest);

impl<N: Net> std::fmt::Debug for TcpForwarder<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TcpForwarder").field(&self.0).finish()
    }
}

impl<N: Net> std::fmt::Debug for UdpForwarder<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpForwarder").finish_non_exhaustive()
    }
}
