//! Calls of forwarders: connections and datagrams for any address, which the application accepts or
//! refuses.

use crate::{Calls, Errno, Fd, RecvFlags};
use clock::Instant;
pub use inet::prefixes::AnyPrefix;
pub use inet::requests::Decision;
use inet::requests::RequestKey;
use lock::Locks;
use std::net::SocketAddr;

/// A request of a forwarder: the addresses of a connection or of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ForwardRequest(RequestKey);

impl ForwardRequest {
    /// Returns the original destination.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.tuple.local_addr()
    }

    /// Returns the sender.
    pub fn peer_addr(&self) -> SocketAddr {
        self.0.tuple.remote_addr()
    }
}

impl<L: Locks> Calls<'_, L> {
    /// Listens on all ports of the addresses of `prefix`, with a socket that is bound to any
    /// address and port. Up to `backlog` connections may wait to be accepted.
    ///
    /// # Errors
    /// `EOPNOTSUPP` (a datagram socket), `EADDRINUSE` (the prefix already has such a listener).
    pub fn listen_on(&self, fd: Fd, backlog: u32, prefix: AnyPrefix) -> Result<(), Errno> {
        let id = fd.sock().ok_or(Errno::EOPNOTSUPP)?;
        Ok(self.stack.tcp_listen_on(self.cx(), id, backlog, prefix)?)
    }

    /// Makes a listener hold SYNs until the application has accepted, refused or ignored each of
    /// them ([`Calls::next_request`], [`Calls::decide`]).
    ///
    /// # Errors
    /// `EOPNOTSUPP` (a datagram socket), `EINVAL` (not a listener).
    pub fn hold_requests(&self, listener: Fd, on: bool) -> Result<(), Errno> {
        let id = listener.sock().ok_or(Errno::EOPNOTSUPP)?;
        Ok(self.stack.tcp_hold(self.cx(), id, on)?)
    }

    /// Returns the next request of a listener that holds SYNs, and waits for one unless the
    /// listener is non-blocking.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`, `EINVAL` (a listener that does not hold SYNs).
    pub fn next_request(&self, listener: Fd) -> Result<ForwardRequest, Errno> {
        let id = listener.sock().ok_or(Errno::EOPNOTSUPP)?;
        let next = || self.stack.tcp_next_request(self.cx(), id);
        self.stream_wait(id, RecvFlags::default(), |_| None, next).map(ForwardRequest)
    }

    /// Applies the application's decision (accept, refuse or ignore) to a request of a listener.
    /// After [`Decision::Accept`], [`Calls::accept_request`] returns the connection.
    ///
    /// # Errors
    /// `ETIMEDOUT` if the request has expired, `EMFILE` if the listener's queues are full.
    pub fn decide(&self, listener: Fd, request: &ForwardRequest, decision: Decision) -> Result<(), Errno> {
        let id = listener.sock().ok_or(Errno::EOPNOTSUPP)?;
        Ok(self.stack.tcp_decide(self.cx(), id, &request.0, decision)?)
    }

    /// Returns the connection of an accepted request, and waits for the end of its handshake unless
    /// the listener is non-blocking.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`, `ETIMEDOUT` if the peer has given up.
    pub fn accept_request(&self, listener: Fd, request: &ForwardRequest) -> Result<Fd, Errno> {
        let id = listener.sock().ok_or(Errno::EOPNOTSUPP)?;
        let accept = || self.stack.tcp_accept_of(self.cx(), id, &request.0);
        self.stream_wait(id, RecvFlags::default(), |_| None, accept).map(Fd::of_sock)
    }

    /// Abandons an accepted request: drops its handshake, or resets its connection if
    /// [`Calls::accept_request`] has not returned it.
    pub fn forget_request(&self, listener: Fd, request: &ForwardRequest) {
        if let Some(id) = listener.sock() {
            self.stack.tcp_forget(self.cx(), id, &request.0);
        }
    }

    /// Returns the next request of the host's datagram forwarder for `prefix`, without waiting.
    pub fn next_datagram_request(&self, prefix: AnyPrefix) -> Option<ForwardRequest> {
        self.stack.udp_next_request(self.cx(), prefix).map(ForwardRequest)
    }

    /// Waits for the next request of the host's datagram forwarder for `prefix`.
    ///
    /// # Errors
    /// `EINTR` if the host is stopped or the forwarder ends, `EDEADLK` on a simulated host.
    pub fn wait_datagram_request(&self, prefix: AnyPrefix) -> Result<ForwardRequest, Errno> {
        let signal = || self.stack.udp_request_signal(self.cx(), prefix);
        let next = || match self.next_datagram_request(prefix) {
            Some(request) => Some(Ok(request)),
            None => (self.stack.is_stopped() || signal().is_none()).then_some(Err(Errno::EINTR)),
        };
        let Some(driver) = self.driver else {
            let signal = signal().ok_or(Errno::EINTR)?;
            return signal.wait_for(None, next).unwrap_or(Err(Errno::EINTR)); // waits without a limit
        };
        loop {
            if let Some(found) = next() {
                return found;
            }
            let now = driver.drive(Instant::NEVER).ok_or_else(|| driver.refusal())?;
            self.set_now(now);
        }
    }

    /// Applies the application's decision (accept, refuse or ignore) to a request of the host's
    /// datagram forwarder. For an accepted request, returns the socket, which is bound to the
    /// original destination and connected to the sender.
    ///
    /// # Errors
    /// `ENOTCONN` if the request has expired, `ENOBUFS` without a free descriptor.
    pub fn decide_datagram(&self, request: &ForwardRequest, decision: Decision) -> Result<Option<Fd>, Errno> {
        Ok(self.stack.udp_decide(self.cx(), &request.0, decision)?.map(Fd))
    }
}
