//! Implements `AsyncRead` and `AsyncWrite` for sockets of a host that other threads run.
//!
//! There is no reactor: an event of a socket wakes a task in the same way as a waiting thread. A
//! task that finds no data registers its waker with the socket's signal and then tries once more,
//! so that it misses no event in between. Streams need not be set to non-blocking, since the calls
//! of this module never wait.

use super::{Net, TcpListener, TcpStream, error};
use crate::{Calls, Errno, Fd, RecvFlags, SendFlags};
use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use lock::Light;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

const RECV: RecvFlags = RecvFlags { peek: false, dont_wait: true, trunc: false, wait_all: false };
const SEND: SendFlags = SendFlags { oob: false, dont_wait: true, more: false, record: false };

/// Tries the call; if it would block, registers the task's waker and tries again.
fn ask<L: lock::Locks, R>(
    calls: &Calls<'_, L>,
    fd: Fd,
    cx: &mut Context<'_>,
    mut call: impl FnMut() -> Result<R, Errno>,
) -> Poll<io::Result<R>> {
    match call() {
        Err(Errno::EAGAIN) => {}
        done => return Poll::Ready(done.map_err(error)),
    }
    if let Err(errno) = calls.wake_task(fd, cx.waker()) {
        return Poll::Ready(Err(error(errno)));
    }
    match call() {
        Err(Errno::EAGAIN) => Poll::Pending,
        done => Poll::Ready(done.map_err(error)),
    }
}

impl<N: Net<Locks = Light> + Clone> TcpListener<N> {
    /// Accepts the next connection. If there is none, registers the task to be woken when one
    /// arrives. Returns the connection and the peer's address.
    ///
    /// # Errors
    /// Those of [`TcpListener::accept`]; `InvalidInput` if the listener was not set to
    /// non-blocking.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream<N>, SocketAddr)>> {
        if !matches!(self.0.option(crate::OptKind::NonBlocking), Ok(crate::Opt::NonBlocking(true))) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidInput, "the listener must be non-blocking")));
        }
        let found = self.0.net.with(|calls| ask(calls, self.0.fd, cx, || calls.accept(self.0.fd)));
        found.map_ok(|(fd, peer)| (TcpStream::of(self.0.net.clone(), fd), peer))
    }
}

impl<N: Net<Locks = Light> + Unpin> AsyncRead for TcpStream<N> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (net, fd) = (&self.0.net, self.0.fd);
        let into = buf.initialize_unfilled();
        let read = net.with(|calls| ask(calls, fd, cx, || calls.recv_from_flags(fd, into, RECV)));
        let (n, _) = ready!(read)?;
        buf.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl<N: Net<Locks = Light> + Unpin> AsyncWrite for TcpStream<N> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let (net, fd) = (&self.0.net, self.0.fd);
        net.with(|calls| ask(calls, fd, cx, || calls.send_flags(fd, buf, SEND)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // written data is already in the send buffer
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.shutdown(Shutdown::Write) {
            // The connection has already ended.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            done => Poll::Ready(done),
        }
    }
}
