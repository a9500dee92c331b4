//! Stream sockets: BSD calls that perform operations of `inet::tcp`, and wait if these would block.
//!
//! One bit of a descriptor distinguishes stream sockets from datagram sockets ([`Fd::is_stream`]).
//! Datagram calls, which are ten times as frequent, thus need to search only their own table.

use crate::{Calls, Errno, Fd, Peer, RecvFlags, SendFlags};
use clock::{Duration, Instant};
use inet::tcp::{SOCK_BIT, Sock, TcpError};
use inet::udp::Domain;
use lock::Locks;
use std::net::{Shutdown, SocketAddr};

impl Fd {
    /// Returns whether the descriptor belongs to a stream socket.
    #[inline(always)]
    pub fn is_stream(self) -> bool {
        self.0 & SOCK_BIT != 0
    }

    /// Returns the number of a stream socket in the stack's table; `None` for a datagram socket.
    #[inline(always)]
    pub(crate) fn sock(self) -> Option<usize> {
        self.is_stream().then_some(self.0 & !SOCK_BIT)
    }

    pub(crate) fn of_sock(id: usize) -> Fd {
        Fd(id | SOCK_BIT)
    }
}

impl<L: Locks> Calls<'_, L> {
    /// Opens an IPv4 stream socket: `socket(AF_INET, SOCK_STREAM, 0)`.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn stream_socket(&self) -> Result<Fd, Errno> {
        self.stream_socket_of(Domain::Inet)
    }

    /// Opens a stream socket: `socket(domain, SOCK_STREAM, 0)`. A socket of [`Domain::Inet6`] that
    /// listens at `::` accepts connections of both families, unless
    /// [`Opt::V6Only`](crate::Opt::V6Only) is set.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn stream_socket_of(&self, domain: Domain) -> Result<Fd, Errno> {
        self.stack.tcp_open(self.cx(), domain).map(Fd::of_sock).ok_or(Errno::EMFILE)
    }

    /// Listens for connections (`listen`); up to `backlog` connections may wait to be accepted.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (the socket is connected), `EADDRINUSE`, `EOPNOTSUPP` (for a datagram
    /// socket).
    pub fn listen(&self, fd: Fd, backlog: u32) -> Result<(), Errno> {
        let id = fd.sock().ok_or(Errno::EOPNOTSUPP)?;
        Ok(self.stack.tcp_listen(self.cx(), id, backlog)?)
    }

    /// Accepts a connection (`accept`). Returns its descriptor and the peer's address. The new
    /// socket inherits the options of the listener, but is always blocking.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (the socket is not listening), `EAGAIN`, `EINTR`, `EOPNOTSUPP` (for a
    /// datagram socket).
    pub fn accept(&self, fd: Fd) -> Result<(Fd, Peer), Errno> {
        let id = fd.sock().ok_or(Errno::EOPNOTSUPP)?;
        let wait = |sock: &mut Sock<L>| sock.options().recv_timeout;
        let accept = || self.stack.tcp_accept(self.cx(), id);
        let (child, peer) = self.stream_wait(id, RecvFlags::default(), wait, accept)?;
        Ok((Fd::of_sock(child), peer))
    }

    pub(crate) fn stream_connect(&self, id: usize, addr: SocketAddr) -> Result<(), Errno> {
        match self.stack.tcp_connect(self.cx(), id, addr) {
            Ok(()) => {}
            Err(TcpError::InProgress) => return Err(Errno::EALREADY),
            Err(error) => return Err(error.into()),
        }
        let connected = || self.stream_connected(id);
        let done = self.stream_wait(id, RecvFlags::default(), |sock| sock.options().send_timeout, connected);
        done.map_err(|error| if error == Errno::EAGAIN { Errno::EINPROGRESS } else { error })
    }

    /// Returns the result of a connect, or `WouldBlock` while the handshake is not complete.
    fn stream_connected(&self, id: usize) -> Result<(), TcpError> {
        match self.stack.with_sock(self.cx(), id, |sock| (sock.is_connected(), sock.take_error())) {
            Some((_, Some(error))) => Err(error),
            Some((true, None)) => Ok(()),
            Some((false, None)) => Err(TcpError::WouldBlock),
            None => Err(TcpError::NoSocket),
        }
    }

    /// Returns the result of a connect that returned `EINPROGRESS`.
    ///
    /// # Errors
    /// `EAGAIN` while the handshake is not complete, `EOPNOTSUPP` (a datagram socket), and the
    /// errors of [`Calls::connect`].
    pub fn connected(&self, fd: Fd) -> Result<(), Errno> {
        Ok(self.stream_connected(fd.sock().ok_or(Errno::EOPNOTSUPP)?)?)
    }

    /// Sends `bytes` on a stream. A blocking socket sends all of them; a non-blocking one sends as
    /// many as it can without waiting. Returns the number of bytes that the send buffer accepted.
    #[inline]
    pub(crate) fn stream_send(&self, id: usize, bytes: &[u8], flags: SendFlags) -> Result<usize, Errno> {
        let mut sent = 0;
        loop {
            let rest = bytes.get(sent..).unwrap_or_default();
            match self.stream_offer(id, rest, flags) {
                Ok(n) if sent + n == bytes.len() => return Ok(bytes.len()),
                Ok(n) => sent += n,
                Err(TcpError::WouldBlock) => match self.stream_wait_for_room(id, flags) {
                    Ok(()) => {}
                    Err(error) if sent == 0 => return Err(error),
                    Err(_) => return Ok(sent),
                },
                Err(error) if sent == 0 => return Err(error.into()),
                Err(_) => return Ok(sent), // some bytes were sent; the next call returns the error
            }
        }
    }

    #[inline]
    fn stream_offer(&self, id: usize, bytes: &[u8], flags: SendFlags) -> Result<usize, TcpError> {
        match flags {
            SendFlags { oob: true, .. } => self.stack.tcp_send_urgent(self.cx(), id, bytes),
            SendFlags { record: true, .. } => self.stack.tcp_send_as(self.cx(), id, bytes, tcp::Tail::Record),
            _ => self.stack.tcp_send(self.cx(), id, bytes, !flags.more),
        }
    }

    /// Waits for space in the send buffer, or for free memory if there was none.
    fn stream_wait_for_room(&self, id: usize, flags: SendFlags) -> Result<(), Errno> {
        let room = || match self.stack.with_sock(self.cx(), id, |sock| sock.is_writable()) {
            Some(true) => Ok(()),
            Some(false) => Err(TcpError::WouldBlock),
            None => Err(TcpError::NoSocket),
        };
        let flags = RecvFlags { dont_wait: flags.dont_wait, ..RecvFlags::default() };
        self.stream_wait(id, flags, |sock| sock.options().send_timeout, room)
    }

    #[inline]
    pub(crate) fn stream_recv(&self, id: usize, into: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
        if flags.peek {
            let peek = || self.stack.tcp_peek(self.cx(), id, into);
            return self.stream_wait(id, flags, |sock| sock.options().recv_timeout, peek);
        }
        if flags.wait_all {
            return self.stream_recv_all(id, into, flags);
        }
        match self.stack.tcp_recv(self.cx(), id, into) {
            Err(TcpError::WouldBlock) => {
                let read = || self.stack.tcp_recv(self.cx(), id, into);
                self.stream_wait(id, flags, |sock| sock.options().recv_timeout, read)
            }
            done => Ok(done?),
        }
    }

    /// Implements `MSG_WAITALL`: receives until the buffer is full, or until end of file, an error
    /// or a timeout. If an error occurs after some bytes were received, the next call returns the
    /// error.
    #[cold]
    fn stream_recv_all(&self, id: usize, into: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
        let mut got = 0;
        while got < into.len() {
            let rest = into.get_mut(got..).unwrap_or_default();
            match self.stream_recv(id, rest, RecvFlags { wait_all: false, ..flags }) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(error) if got == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(got)
    }

    pub(crate) fn stream_shutdown(&self, id: usize, how: Shutdown) -> Result<(), Errno> {
        let (read, write) = (matches!(how, Shutdown::Read | Shutdown::Both), how != Shutdown::Read);
        Ok(self.stack.tcp_shutdown(self.cx(), id, read, write)?)
    }

    /// Closes a stream. With an `SO_LINGER` of 0, resets the connection. With another value, waits
    /// up to this time until the peer has acknowledged the sent data.
    pub(crate) fn stream_close(&self, id: usize) -> Result<(), Errno> {
        let linger = self.stack.with_sock(self.cx(), id, |sock| sock.options().linger).ok_or(Errno::EBADF)?;
        if let Some(time) = linger.filter(|time| !time.is_zero()) {
            // Closing with unread data resets the connection, so there is nothing to wait for.
            let lingers = || self.stack.with_sock(self.cx(), id, |sock| sock.may_linger()) == Some(true);
            if lingers() {
                let _ = self.stack.tcp_shutdown(self.cx(), id, false, true);
            }
            let sent = || if lingers() { Err(TcpError::WouldBlock) } else { Ok(()) };
            let _ = self.stream_wait(id, RecvFlags::default(), |_| Some(time), sent);
        }
        match self.stack.tcp_close(self.cx(), id, linger == Some(Duration::ZERO)) {
            true => Ok(()),
            false => Err(Errno::EBADF),
        }
    }

    pub(crate) fn stream_local_addr(&self, id: usize) -> Result<SocketAddr, Errno> {
        self.stack.with_sock(self.cx(), id, |sock| sock.local_addr()).ok_or(Errno::EBADF)
    }

    pub(crate) fn stream_peer_addr(&self, id: usize) -> Result<SocketAddr, Errno> {
        let peer = |sock: &mut Sock<L>| sock.has_peer().then(|| sock.peer_addr());
        self.stack.with_sock(self.cx(), id, peer).ok_or(Errno::EBADF)?.ok_or(Errno::ENOTCONN)
    }

    /// Calls `ready` until its result is not "would block", and waits between the calls as the
    /// options of the socket require.
    pub(crate) fn stream_wait<T>(
        &self,
        id: usize,
        flags: RecvFlags,
        timeout: impl FnOnce(&mut Sock<L>) -> Option<Duration>,
        mut ready: impl FnMut() -> Result<T, TcpError>,
    ) -> Result<T, Errno> {
        match ready() {
            Err(TcpError::WouldBlock) => {}
            done => return Ok(done?),
        }
        let ask = |sock: &mut Sock<L>| (sock.options().nonblocking, timeout(sock));
        let (nonblocking, timeout) = self.stack.with_sock(self.cx(), id, ask).ok_or(Errno::EBADF)?;
        if nonblocking || flags.dont_wait {
            return Err(Errno::EAGAIN);
        }
        let Some(driver) = self.driver else {
            let signal = self.stack.with_sock(self.cx(), id, |sock| sock.signal()).ok_or(Errno::EBADF)?;
            let done = signal.wait_for(timeout, || match ready() {
                Err(TcpError::WouldBlock) => self.stack.is_stopped().then_some(Err(Errno::EINTR)),
                done => Some(done.map_err(Errno::from)),
            });
            return done.ok_or(Errno::EAGAIN)?;
        };
        self.look(driver);
        let until = timeout.map_or(Instant::NEVER, |timeout| self.cx().now.after(timeout));
        match ready() {
            Err(TcpError::WouldBlock) => {}
            done => return Ok(done?),
        }
        loop {
            let now = driver.drive(until).ok_or_else(|| driver.refusal())?;
            self.set_now(now);
            match ready() {
                Err(TcpError::WouldBlock) if now >= until => return Err(Errno::EAGAIN),
                Err(TcpError::WouldBlock) => {}
                done => return Ok(done?),
            }
        }
    }
}

impl From<TcpError> for Errno {
    fn from(error: TcpError) -> Errno {
        match error {
            TcpError::NoSocket => Errno::EBADF,
            TcpError::WouldBlock => Errno::EAGAIN,
            TcpError::Already | TcpError::NotListening => Errno::EINVAL,
            TcpError::InProgress => Errno::EALREADY,
            TcpError::Connected => Errno::EISCONN,
            TcpError::Listens => Errno::EOPNOTSUPP,
            TcpError::NotConnected => Errno::ENOTCONN,
            TcpError::InUse => Errno::EADDRINUSE,
            TcpError::NotOurs | TcpError::NoPorts | TcpError::Invalid => Errno::EADDRNOTAVAIL,
            TcpError::Family => Errno::EAFNOSUPPORT,
            TcpError::TooMany => Errno::EMFILE,
            TcpError::Shut => Errno::EPIPE,
            TcpError::Refused => Errno::ECONNREFUSED,
            TcpError::Reset => Errno::ECONNRESET,
            TcpError::TimedOut => Errno::ETIMEDOUT,
            TcpError::HostUnreachable => Errno::EHOSTUNREACH,
            TcpError::Output(error) => error.into(),
        }
    }
}
