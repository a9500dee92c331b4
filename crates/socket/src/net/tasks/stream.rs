//! TCP connection for tasks.

use super::{PEEK, RECV, SEND, attempt, lookup};
use crate::net as blocking;
use crate::net::{Net, ToAddr, error, vectored};
use crate::{Errno, Opt, SendFlags};
use inet::udp::Domain;
use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::task::{Context, Poll};

/// A TCP connection with `async` methods. Dropping its last handle closes it; data that was written
/// is still sent.
pub struct TcpStream<N: Net>(pub(super) blocking::TcpStream<N>);

impl<N: Net + Clone> TcpStream<N> {
    /// Connects to `addr` from the host `net`. If `addr` is a name, tries its addresses in turn
    /// until one accepts. Dropping the future abandons the connection.
    ///
    /// # Errors
    /// Those of [`blocking::TcpStream::connect`].
    pub async fn connect(net: &N, addr: impl ToAddr) -> io::Result<TcpStream<N>> {
        let mut failure = error(Errno::EHOSTUNREACH);
        for addr in lookup(net, addr).await? {
            match TcpStream::connect_to(net, addr).await {
                Ok(stream) => return Ok(stream),
                Err(why) => failure = why,
            }
        }
        Err(failure)
    }

    async fn connect_to(net: &N, addr: SocketAddr) -> io::Result<TcpStream<N>> {
        let stream = TcpStream(blocking::TcpStream::open(net, Domain::of(&addr))?);
        let owned = &stream.0.0;
        owned.set(Opt::NonBlocking(true))?;
        match net.with(|calls| calls.connect(owned.fd, addr)) {
            Ok(()) => return Ok(stream),
            Err(Errno::EINPROGRESS) => {}
            Err(errno) => return Err(error(errno)),
        }
        poll_fn(|cx| net.with(|calls| attempt(calls, owned.fd, cx, || calls.connected(owned.fd)))).await?;
        Ok(stream)
    }
}

impl<N: Net> TcpStream<N> {
    /// Converts a blocking stream. The socket becomes non-blocking, also for the other handles of
    /// the stream.
    ///
    /// # Errors
    /// None for an open stream.
    pub fn from_blocking(stream: blocking::TcpStream<N>) -> io::Result<TcpStream<N>> {
        stream.set_nonblocking(true)?;
        Ok(TcpStream(stream))
    }

    /// Receives up to `buf.len()` bytes; 0 at the end of the stream. No data is lost if the future
    /// is dropped.
    ///
    /// # Errors
    /// `ConnectionReset`, `TimedOut`.
    pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_recv(cx, buf)).await
    }

    /// Receives bytes into several buffers, in order. Returns their number; 0 is the end of the
    /// stream. Waits for the first byte only. Nothing was received if the future is dropped.
    ///
    /// # Errors
    /// Those of [`TcpStream::read`].
    pub async fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_recv_vectored(cx, bufs)).await
    }

    /// Fills `buf`. If the future is dropped, received bytes are lost.
    ///
    /// # Errors
    /// Those of [`TcpStream::read`], and `UnexpectedEof`.
    pub async fn read_exact(&self, buf: &mut [u8]) -> io::Result<()> {
        let mut rest = buf;
        while !rest.is_empty() {
            match self.read(rest).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => rest = rest.get_mut(n..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    /// Appends all bytes up to the end of the stream to `into`. Returns their number. If the future
    /// is dropped, `into` has the bytes received so far.
    ///
    /// # Errors
    /// Those of [`TcpStream::read`].
    pub async fn read_to_end(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        let (before, mut buf) = (into.len(), vec![0; 16_384]);
        loop {
            let n = self.read(&mut buf).await?;
            if n == 0 {
                return Ok(into.len() - before);
            }
            into.extend_from_slice(buf.get(..n).unwrap_or_default());
        }
    }

    /// Returns the available bytes without consuming them.
    ///
    /// # Errors
    /// Those of [`TcpStream::read`].
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let owned = &self.0.0;
        let peek = |calls: &crate::Calls<'_, N::Locks>, buf: &mut [u8]| {
            calls.recv_from_flags(owned.fd, buf, PEEK).map(|(n, _)| n)
        };
        poll_fn(|cx| owned.net.with(|calls| attempt(calls, owned.fd, cx, || peek(calls, buf)))).await
    }

    /// Writes as much of `buf` as the send buffer accepts, and returns that number of bytes.
    /// Nothing was written if the future is dropped.
    ///
    /// # Errors
    /// `BrokenPipe`, `ConnectionReset`, `TimedOut`.
    pub async fn write(&self, buf: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_send(cx, buf)).await
    }

    /// Writes several buffers, in order, as far as the send buffer has space, and returns the
    /// number of bytes. Nothing was written if the future is dropped.
    ///
    /// # Errors
    /// Those of [`TcpStream::write`].
    pub async fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_send_vectored(cx, bufs)).await
    }

    /// Writes all of `buf`. If the future is dropped, a part may have been written.
    ///
    /// # Errors
    /// Those of [`TcpStream::write`].
    pub async fn write_all(&self, buf: &[u8]) -> io::Result<()> {
        let mut rest = buf;
        while !rest.is_empty() {
            let n = self.write(rest).await?;
            rest = rest.get(n..).unwrap_or_default();
        }
        Ok(())
    }

    /// Receives bytes, or registers the task to be woken when some arrive.
    ///
    /// # Errors
    /// Those of [`TcpStream::read`].
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let owned = &self.0.0;
        owned
            .net
            .with(|calls| attempt(calls, owned.fd, cx, || calls.recv_from_flags(owned.fd, buf, RECV).map(|(n, _)| n)))
    }

    /// Writes bytes, or registers the task to be woken when the send buffer has space.
    ///
    /// # Errors
    /// Those of [`TcpStream::write`].
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send_flags(cx, buf, SEND)
    }

    fn poll_send_flags(&self, cx: &mut Context<'_>, buf: &[u8], flags: SendFlags) -> Poll<io::Result<usize>> {
        let owned = &self.0.0;
        owned.net.with(|calls| attempt(calls, owned.fd, cx, || calls.send_flags(owned.fd, buf, flags)))
    }

    /// Writes several buffers in order, as far as the send buffer has space.
    ///
    /// # Errors
    /// Those of [`TcpStream::write`].
    pub fn poll_send_vectored(&self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        vectored::drain(bufs, |buf, more| self.poll_send_flags(cx, buf, SendFlags { more, ..SEND }))
    }

    /// Receives bytes into several buffers, in order, or registers the task to be woken when some
    /// arrive.
    ///
    /// # Errors
    /// Those of [`TcpStream::read`].
    pub fn poll_recv_vectored(&self, cx: &mut Context<'_>, bufs: &mut [IoSliceMut<'_>]) -> Poll<io::Result<usize>> {
        vectored::fill(bufs, |buf, _| self.poll_recv(cx, buf))
    }

    /// Shuts the connection down for writing. Does nothing if the connection has already ended.
    ///
    /// # Errors
    /// None for an open stream.
    pub fn shutdown_write(&self) -> io::Result<()> {
        match self.0.shutdown(Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            done => done,
        }
    }

    /// Shuts the connection down for writing, after which the peer reads the end of the stream.
    ///
    /// # Errors
    /// None for an open stream.
    pub async fn shutdown(&self) -> io::Result<()> {
        self.shutdown_write()
    }

    /// Waits until a read would return at once.
    ///
    /// # Errors
    /// `ConnectionReset`, `TimedOut`.
    pub async fn readable(&self) -> io::Result<()> {
        let (owned, mut byte) = (&self.0.0, [0]);
        let probe =
            |calls: &crate::Calls<'_, N::Locks>, byte: &mut [u8]| calls.recv_from_flags(owned.fd, byte, PEEK).map(drop);
        poll_fn(|cx| owned.net.with(|calls| attempt(calls, owned.fd, cx, || probe(calls, &mut byte)))).await
    }

    /// Returns the address and port of the peer.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Returns the local address and port.
    ///
    /// # Errors
    /// None for an open stream.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Sets whether small segments are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// None for an open stream.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.0.set_nodelay(on)
    }

    /// Returns the stream with its blocking interface, for its options. The socket stays
    /// non-blocking.
    pub fn as_blocking(&self) -> &blocking::TcpStream<N> {
        &self.0
    }
}

impl<N: Net> TcpStream<N> {
    /// Shuts the connection down for writing, as required by `AsyncWrite::poll_shutdown`.
    #[cfg(feature = "tokio")]
    pub(super) fn poll_shutdown_write(&self) -> Poll<io::Result<()>> {
        Poll::Ready(self.shutdown_write())
    }

    /// Receives bytes into the unfilled part of `buf`, as required by `AsyncRead::poll_read`.
    #[cfg(feature = "tokio")]
    pub(super) fn poll_fill(&self, cx: &mut Context<'_>, buf: &mut ::tokio::io::ReadBuf<'_>) -> Poll<io::Result<()>> {
        let n = std::task::ready!(self.poll_recv(cx, buf.initialize_unfilled()))?;
        buf.advance(n);
        Poll::Ready(Ok(()))
    }
}
