//! TCP listener with the interface of `std::net::TcpListener`.

use super::addr::parsed_prefix;
use super::{Net, Owned, TcpStream, ToAddr, error, odd};
use crate::{AnyPrefix, Errno, Fd, Opt, OptKind};
use inet::udp::Domain;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// A TCP listener. Dropping it resets the connections that have not been accepted yet.
///
/// ```
/// use linerate_socket::net::{Alone, TcpListener, TcpStream};
/// use std::io::{Read, Write};
///
/// let host = &Alone::<lock::Up>::new("echo")?;
/// let listener = TcpListener::bind(&host, ("127.0.0.1", 7))?;
/// let mut client = TcpStream::connect(&host, "127.0.0.1:7")?;
/// client.write_all(b"echo?")?;
/// for stream in listener.incoming().take(1) {
///     let mut stream = stream?;
///     let mut buf = [0; 5];
///     stream.read_exact(&mut buf)?;
///     stream.write_all(&buf)?;
/// }
/// let mut echo = Vec::new();
/// client.read_to_end(&mut echo)?;
/// assert_eq!(echo, b"echo?");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpListener<N: Net>(pub(super) Arc<Owned<N>>);

/// Maximum number of connections that wait to be accepted, as in the standard library.
const BACKLOG: u32 = 128;

impl<N: Net + Clone> TcpListener<N> {
    /// Listens for connections to `addr` on the host `net`, with `SO_REUSEADDR` as in the standard
    /// library.
    ///
    /// # Errors
    /// `AddrInUse`, `AddrNotAvailable`.
    pub fn bind(net: &N, addr: impl ToAddr) -> io::Result<TcpListener<N>> {
        TcpListener::bind_with(net, addr, &[Opt::ReuseAddr(true)], BACKLOG)
    }

    /// Listens for connections to `addr`. Sets `options` before binding; up to `backlog`
    /// connections may wait to be accepted. With [`Opt::BindAny`] and the address `0.0.0.0:0` or
    /// `[::]:0`, listens on all addresses and ports of packets that are routed to the host.
    ///
    /// # Errors
    /// Those of [`TcpListener::bind`], and those of setting the options.
    pub fn bind_with(net: &N, addr: impl ToAddr, options: &[Opt], backlog: u32) -> io::Result<TcpListener<N>> {
        TcpListener::bind_on(net, addr, options, backlog, AnyPrefix::All)
    }

    /// Listens on all addresses of a prefix such as `10.0.0.0/8` or `2001:db8::/32`, and on all
    /// their ports. A host can have one such listener or forwarder for each prefix; among those
    /// that match, the one with the longest prefix accepts the connection. A listener for a single
    /// port takes precedence.
    ///
    /// # Errors
    /// `InvalidInput` if the prefix is not valid, `AddrInUse` if it already has a listener.
    pub fn bind_prefix(net: &N, prefix: &str) -> io::Result<TcpListener<N>> {
        let prefix = parsed_prefix(prefix)?;
        let any: IpAddr = if matches!(prefix, AnyPrefix::V6(_)) {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        TcpListener::bind_on(net, (any, 0), &[Opt::BindAny(true)], BACKLOG, prefix)
    }

    pub(super) fn bind_on(
        net: &N,
        addr: impl ToAddr,
        options: &[Opt],
        backlog: u32,
        prefix: AnyPrefix,
    ) -> io::Result<TcpListener<N>> {
        let addr = addr.to_addr(net)?;
        let fd = net.with(|calls| calls.stream_socket_of(Domain::of(&addr))).map_err(error)?;
        let listener = TcpListener(Arc::new(Owned { net: net.clone(), fd }));
        options.iter().try_for_each(|opt| listener.0.set(*opt))?;
        listener.0.call(|calls, fd| calls.bind(fd, addr))?;
        listener.0.call(|calls, fd| calls.listen_on(fd, backlog, prefix))?;
        Ok(listener)
    }
}

impl<N: Net> TcpListener<N> {
    /// Returns the local address and port.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.call(|calls, fd| calls.local_addr(fd))
    }

    /// Makes calls fail with `WouldBlock` instead of waiting. Calls on accepted connections still
    /// wait.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.0.set(Opt::NonBlocking(on))
    }

    /// Returns another handle to the same listener.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<TcpListener<N>> {
        Ok(TcpListener(Arc::clone(&self.0)))
    }

    /// Sets the time to live (or hop limit) of packets that accepted connections send.
    ///
    /// # Errors
    /// `InvalidInput` for 0 and for values above 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.0.set(Opt::Ttl(u8::try_from(ttl).map_err(|_| error(Errno::EINVAL))?))
    }

    /// Returns the time to live (or hop limit) of packets that accepted connections send.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn ttl(&self) -> io::Result<u32> {
        if let Opt::Ttl(ttl) = self.0.option(OptKind::Ttl)? { Ok(ttl.into()) } else { odd() }
    }

    /// Returns the pending error and clears it.
    ///
    /// # Errors
    /// None for an open socket.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// Returns the descriptor, which the listener still owns.
    pub fn fd(&self) -> Fd {
        self.0.fd
    }
}

impl<N: Net + Clone> TcpListener<N> {
    /// Accepts the next connection; returns it with the peer's address.
    ///
    /// # Errors
    /// `WouldBlock`.
    pub fn accept(&self) -> io::Result<(TcpStream<N>, SocketAddr)> {
        let (fd, peer) = self.0.call(|calls, fd| calls.accept(fd))?;
        Ok((TcpStream::of(self.0.net.clone(), fd), peer))
    }

    /// Returns an endless iterator over incoming connections.
    pub fn incoming(&self) -> Incoming<'_, N> {
        Incoming(self)
    }
}

/// Iterator over incoming connections.
#[derive(Debug)]
pub struct Incoming<'l, N: Net>(&'l TcpListener<N>);

impl<N: Net + Clone> Iterator for Incoming<'_, N> {
    type Item = io::Result<TcpStream<N>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.accept().map(|(stream, _)| stream))
    }
}
