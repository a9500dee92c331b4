//! TCP connection, with the interface of `std::net::TcpStream`.

use super::{Net, Owned, ToAddr, error, odd, timeout, vectored};
use crate::{Errno, Fd, Opt, OptKind, RecvFlags, SendFlags};
use inet::udp::Domain;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A TCP connection. Dropping its last handle closes it; data that was written is still sent,
/// unless `set_linger` limits this.
///
/// ```
/// use linerate_socket::net::{Alone, TcpListener, TcpStream};
/// use std::io::{Read, Write};
/// use std::time::Duration;
///
/// let host = &Alone::<lock::Up>::new("example")?;
/// let listener = TcpListener::bind(&host, "127.0.0.1:80")?;
/// let mut client = TcpStream::connect(&host, "127.0.0.1:80")?;
/// let (mut server, _) = listener.accept()?;
///
/// client.set_read_timeout(Some(Duration::from_millis(100)))?;
/// let nothing = client.read(&mut [0; 8]).unwrap_err();
/// assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
///
/// write!(server, "{}", 42)?;
/// server.shutdown(std::net::Shutdown::Write)?;
/// assert_eq!(client.peek(&mut [0; 8])?, 2);
/// let mut text = String::new();
/// client.read_to_string(&mut text)?;
/// assert_eq!(text, "42");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpStream<N: Net>(pub(super) Arc<Owned<N>>);

impl<N: Net + Clone> TcpStream<N> {
    pub(super) fn open(net: &N, domain: Domain) -> io::Result<TcpStream<N>> {
        let fd = net.with(|calls| calls.stream_socket_of(domain)).map_err(error)?;
        Ok(TcpStream::of(net.clone(), fd))
    }

    fn connect_to(self, addr: SocketAddr) -> Result<TcpStream<N>, (io::Error, TcpStream<N>)> {
        match self.0.call(|calls, fd| calls.connect(fd, addr)) {
            Ok(()) => Ok(self),
            Err(why) => Err((why, self)),
        }
    }

    /// Replaces the socket with a new one, for the next attempt to connect.
    fn reopen(mut self, domain: Domain) -> io::Result<TcpStream<N>> {
        // No other handle exists yet.
        let owned = Arc::get_mut(&mut self.0).ok_or_else(|| error(Errno::EINVAL))?;
        let fd = owned.net.with(|calls| calls.stream_socket_of(domain)).map_err(error)?;
        let before = std::mem::replace(&mut owned.fd, fd);
        let _ = owned.net.with(|calls| calls.close(before)); // the descriptor is open
        Ok(self)
    }

    /// Connects to `addr` from the host `net`. If `addr` is a name, tries its addresses in turn
    /// until one accepts.
    ///
    /// # Errors
    /// `ConnectionRefused`, `TimedOut`, `HostUnreachable`, `NetworkUnreachable`, `AddrNotAvailable`
    /// and other errors of [`Calls::connect`](crate::Calls::connect).
    pub fn connect(net: &N, addr: impl ToAddr) -> io::Result<TcpStream<N>> {
        let addrs = addr.to_addrs(net)?;
        let (first, others) = addrs.split_first().ok_or_else(|| error(Errno::EHOSTUNREACH))?;
        let owned = TcpStream::open(net, Domain::of(first))?;
        let mut stream = owned.connect_to(*first);
        for addr in others {
            let Err((why, owned)) = stream else { break };
            stream = owned.reopen(Domain::of(addr)).map_err(|_| why)?.connect_to(*addr);
        }
        stream.map_err(|(why, _)| why)
    }

    /// Connects as [`TcpStream::connect`] does, but waits at most `time`.
    ///
    /// # Errors
    /// Those of [`TcpStream::connect`], and `TimedOut` after `time`; `InvalidInput` for a `time` of
    /// zero.
    pub fn connect_timeout(net: &N, addr: &SocketAddr, time: Duration) -> io::Result<TcpStream<N>> {
        let stream = TcpStream::open(net, Domain::of(addr))?;
        let within = Opt::SendTimeout(timeout(Some(time))?);
        let connected = |calls: &crate::Calls<'_, N::Locks>, fd| match calls.connect(fd, *addr) {
            Err(Errno::EINPROGRESS) => Err(Errno::ETIMEDOUT),
            done => done,
        };
        stream.0.under(OptKind::SendTimeout, within, || stream.0.call(connected))?;
        Ok(stream)
    }

    /// Opens a non-blocking socket with these options, binds it to `local`, if given, and begins to
    /// connect to `addr`, without waiting. Both addresses have the same family. A
    /// [`Poll`](super::Poll) to which the stream is added reports the result. Until the connection
    /// is established, [`TcpStream::peer_addr`] fails with `NotConnected`; if it fails,
    /// [`TcpStream::take_error`] returns the reason.
    ///
    /// # Errors
    /// Errors that the stack detects at once: `AddrInUse`, `AddrNotAvailable`,
    /// `NetworkUnreachable`, and those of setting the options.
    pub fn begin_connect(
        net: &N,
        local: Option<SocketAddr>,
        addr: SocketAddr,
        options: &[Opt],
    ) -> io::Result<TcpStream<N>> {
        let stream = TcpStream::open(net, Domain::of(&addr))?;
        stream.set_nonblocking(true)?;
        options.iter().try_for_each(|opt| stream.0.set(*opt))?;
        if let Some(local) = local {
            stream.0.call(|calls, fd| calls.bind(fd, local))?;
        }
        let begun = net.with(|calls| calls.connect(stream.0.fd, addr));
        match begun {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(stream),
            Err(errno) => Err(error(errno)),
        }
    }
}

impl<N: Net> TcpStream<N> {
    pub(super) fn of(net: N, fd: Fd) -> TcpStream<N> {
        TcpStream(Arc::new(Owned { net, fd }))
    }

    /// Returns another handle to the same connection.
    pub(super) fn share(&self) -> TcpStream<N> {
        TcpStream(Arc::clone(&self.0))
    }

    /// Returns the address and port of the peer.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.call(|calls, fd| calls.peer_addr(fd))
    }

    /// Returns the local address and port. If a listener for any address accepted the connection,
    /// this is the address to which the peer connected.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.call(|calls, fd| calls.local_addr(fd))
    }

    /// Shuts down one direction of the connection, or both.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.call(|calls, fd| calls.shutdown(fd, how))
    }

    /// Returns another handle to the same connection, which shares its options. Dropping the last
    /// handle closes the connection.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<TcpStream<N>> {
        Ok(self.share())
    }

    /// Sets the maximum time that a read waits, after which it fails with `WouldBlock`. With
    /// `None`, a read waits forever.
    ///
    /// # Errors
    /// `InvalidInput` for zero.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set(Opt::RecvTimeout(timeout(time)?))
    }

    /// Sets the maximum time that a write waits for space in the send buffer. With `None`, a write
    /// waits forever.
    ///
    /// # Errors
    /// `InvalidInput` for zero.
    pub fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set(Opt::SendTimeout(timeout(time)?))
    }

    /// Returns the maximum time that a read waits; `None` if it waits forever.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        if let Opt::RecvTimeout(time) = self.0.option(OptKind::RecvTimeout)? { Ok(time) } else { odd() }
    }

    /// Returns the maximum time that a write waits; `None` if it waits forever.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        if let Opt::SendTimeout(time) = self.0.option(OptKind::SendTimeout)? { Ok(time) } else { odd() }
    }

    /// Reads available data without consuming it.
    ///
    /// # Errors
    /// Those of a read.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let peek = RecvFlags { peek: true, ..RecvFlags::default() };
        self.0.call(|calls, fd| calls.recv_from_flags(fd, buf, peek)).map(|(n, _)| n)
    }

    /// Sets whether small segments are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// None for an open socket.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.0.set(Opt::NoDelay(on))
    }

    /// Returns whether small segments are sent at once.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn nodelay(&self) -> io::Result<bool> {
        if let Opt::NoDelay(on) = self.0.option(OptKind::NoDelay)? { Ok(on) } else { odd() }
    }

    /// Sets the time to live (or hop limit) of sent packets.
    ///
    /// # Errors
    /// `InvalidInput` for 0 and for values above 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.0.set(Opt::Ttl(u8::try_from(ttl).map_err(|_| error(Errno::EINVAL))?))
    }

    /// Returns the time to live (or hop limit) of sent packets.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn ttl(&self) -> io::Result<u32> {
        if let Opt::Ttl(ttl) = self.0.option(OptKind::Ttl)? { Ok(ttl.into()) } else { odd() }
    }

    /// Sets the maximum time that closing waits until the peer has acknowledged all data. With
    /// zero, closing resets the connection. With `None`, closing does not wait.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn set_linger(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set(Opt::Linger(time))
    }

    /// Returns the maximum time that closing waits until the peer has acknowledged all data; `None`
    /// if it does not wait.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        if let Opt::Linger(time) = self.0.option(OptKind::Linger)? { Ok(time) } else { odd() }
    }

    /// Makes calls fail with `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.0.set(Opt::NonBlocking(on))
    }

    /// Sets an option for which the standard library's stream has no method, such as keepalive or
    /// the congestion control algorithm.
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

    /// Returns the statistics of the connection (`TCP_INFO`).
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn info(&self) -> io::Result<tcp::Info> {
        self.0.call(|calls, fd| calls.tcp_info(fd))
    }

    /// Returns the pending error and clears it.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// Returns the descriptor, for calls of [`crate::Calls`] that this type does not offer. The
    /// stream still owns it.
    pub fn fd(&self) -> Fd {
        self.0.fd
    }
}

impl<N: Net> Read for &TcpStream<N> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.call(|calls, fd| calls.recv(fd, buf))
    }

    /// Waits for the first byte only.
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let recv = |buf: &mut [u8], has_some| {
            let flags = RecvFlags { dont_wait: has_some, ..RecvFlags::default() };
            Poll::Ready(self.0.call(|calls, fd| calls.recv_from_flags(fd, buf, flags).map(|(n, _)| n)))
        };
        vectored::ready(vectored::fill(bufs, recv))
    }
}

impl<N: Net> Write for &TcpStream<N> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.call(|calls, fd| calls.send(fd, buf))
    }

    /// A segment may contain bytes of several buffers.
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let send = |buf: &[u8], more| {
            let flags = SendFlags { more, ..SendFlags::default() };
            Poll::Ready(self.0.call(|calls, fd| calls.send_flags(fd, buf, flags)))
        };
        vectored::ready(vectored::drain(bufs, send))
    }

    /// Returns at once: written data is already in the send buffer.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<N: Net> Read for TcpStream<N> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

impl<N: Net> Write for TcpStream<N> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
