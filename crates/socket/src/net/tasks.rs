//! Sockets for tasks: the types of [`net`](super) with `async` methods instead of blocking calls.
//!
//! There is no reactor and no dependency on a runtime. An event of a socket wakes the tasks that
//! wait for it, in the same way as it wakes threads. The sockets therefore work with every runtime,
//! with hosts of other threads, with a host that the runtime's own thread runs, and with simulated
//! hosts. With the feature `tokio` the streams also implement `AsyncRead` and `AsyncWrite`.
//!
//! Every future may be dropped at any time: a method that was not completed has had no effect,
//! unless its documentation states otherwise. A method that cannot make progress (an empty
//! receive queue, a full send buffer, no buffers in the pool) waits; it does not fail with
//! `ENOBUFS`. If the host is stopped, waiting methods fail with `ConnectionAborted`.

mod forward;
mod halves;
mod listener;
mod stream;
#[cfg(feature = "tokio")]
mod traits;
mod udp;

pub use forward::{TcpForwarder, TcpRequest, UdpForwarder, UdpRequest};
pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
pub use listener::TcpListener;
pub use stream::TcpStream;
pub use udp::UdpSocket;

use super::addr::lookup_error;
use super::{Net, Target, ToAddr, error};
use crate::resolve::{Families, Lookup};
use crate::{Calls, Errno, Fd, RecvFlags, SendFlags};
use clock::{Duration, Instant};
use inet::alarm::AlarmEntry;
use lock::Locks;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

const RECV: RecvFlags = RecvFlags { peek: false, dont_wait: true, trunc: false, wait_all: false };
const PEEK: RecvFlags = RecvFlags { peek: true, ..RECV };
const SEND: SendFlags = SendFlags { oob: false, dont_wait: true, more: false, record: false };

/// Time after which a task that found no buffer tries again.
const RETRY: Duration = Duration::from_micros(100);

/// Tries the call. If it would block, registers the task with the socket and tries again. If there
/// is no buffer, registers the task with the alarm of the stack.
fn attempt<L: Locks, R>(
    calls: &Calls<'_, L>,
    fd: Fd,
    cx: &mut Context<'_>,
    mut call: impl FnMut() -> Result<R, Errno>,
) -> Poll<io::Result<R>> {
    match call() {
        Err(Errno::EAGAIN) => {}
        Err(Errno::ENOBUFS) => return wait_for_buffers(calls, cx),
        done => return Poll::Ready(done.map_err(error)),
    }
    if let Err(errno) = calls.wake_task(fd, cx.waker()) {
        return Poll::Ready(Err(error(errno)));
    }
    match call() {
        Err(Errno::EAGAIN) if calls.stack().is_stopped() => Poll::Ready(Err(error(Errno::EINTR))),
        Err(Errno::EAGAIN) => Poll::Pending,
        Err(Errno::ENOBUFS) => wait_for_buffers(calls, cx),
        done => Poll::Ready(done.map_err(error)),
    }
}

/// Registers the task to be woken after [`RETRY`]. A free buffer causes no event that could wake
/// the task.
#[cold]
fn wait_for_buffers<L: Locks, R>(calls: &Calls<'_, L>, cx: &mut Context<'_>) -> Poll<io::Result<R>> {
    if calls.stack().is_stopped() {
        return Poll::Ready(Err(error(Errno::EINTR)));
    }
    calls.stack().wake_at(calls.cx().now.after(RETRY), cx.waker());
    Poll::Pending
}

/// A name lookup, which closes its socket when it is dropped.
struct Pending<'n, N: Net> {
    net: &'n N,
    lookup: Lookup,
}

impl<N: Net> Drop for Pending<'_, N> {
    fn drop(&mut self) {
        self.net.with(|calls| self.lookup.close(calls));
    }
}

impl<N: Net> Pending<'_, N> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<SocketAddr>>> {
        let Pending { net, lookup } = self;
        net.with(|calls| {
            // A turn may open another socket, with which the task must register.
            let mut registered = None;
            loop {
                if let Some(found) = lookup.turn(calls) {
                    return Poll::Ready(found.map_err(lookup_error));
                }
                if calls.stack().is_stopped() {
                    return Poll::Ready(Err(error(Errno::EINTR)));
                }
                if registered == Some(lookup.fd()) {
                    calls.stack().wake_at(lookup.next(), cx.waker());
                    return Poll::Pending;
                }
                registered = Some(lookup.fd());
                if let Some(fd) = lookup.fd() {
                    let _ = calls.wake_task(fd, cx.waker()); // the descriptor is open
                }
            }
        })
    }
}

/// Resolves an address through the name servers of the host. Returns all addresses of a name, the
/// preferred one first (RFC 6724).
///
/// # Errors
/// Those of [`ToAddr::to_addrs`].
pub async fn lookup<N: Net>(net: &N, addr: impl ToAddr) -> io::Result<Vec<SocketAddr>> {
    let mut pending = match addr.target()? {
        Target::Addr(addr) => return Ok(vec![addr]),
        Target::Name(host, port) => {
            Pending { net, lookup: net.with(|calls| Lookup::new(calls, host, port, Families::Any)) }
        }
    };
    poll_fn(|cx| pending.poll(cx)).await
}

/// Resolves an address, and returns the preferred one.
async fn lookup_one<N: Net>(net: &N, addr: impl ToAddr) -> io::Result<SocketAddr> {
    let found = lookup(net, addr).await?;
    found.first().copied().ok_or_else(|| error(Errno::EHOSTUNREACH)) // a lookup returns an address or an error
}

/// Waits until the clock of the host has advanced by `time`. On a simulated host, this is virtual
/// time. If the host is stopped, the wait ends at once.
pub fn sleep<N: Net>(net: &N, time: Duration) -> Sleep<'_, N> {
    Sleep { net, until: net.with(|calls| calls.cx().now.after(time)), entry: None }
}

/// Future of [`sleep`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct Sleep<'n, N: Net> {
    net: &'n N,
    until: Instant,
    /// Registration of the task that polled last.
    entry: Option<AlarmEntry>,
}

impl<N: Net> Future for Sleep<'_, N> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (net, until, before) = (self.net, self.until, self.entry.take());
        self.entry = net.with(|calls| {
            let stack = calls.stack();
            before.into_iter().for_each(|entry| stack.forget_alarm(entry));
            let is_over = calls.cx().now >= until || stack.is_stopped();
            (!is_over).then(|| stack.wake_at(until, cx.waker()))
        });
        if self.entry.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl<N: Net> Drop for Sleep<'_, N> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.net.with(|calls| calls.stack().forget_alarm(entry));
        }
    }
}

/// Implements `Debug` for any host by delegating to the blocking socket.
macro_rules! shown {
    ($($name:ty),+) => { $(
        impl<N: Net> fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+ };
}

shown!(TcpStream<N>, TcpListener<N>, UdpSocket<N>, OwnedReadHalf<N>, OwnedWriteHalf<N>);
shown!(ReadHalf<'_, N>, WriteHalf<'_, N>);

impl<N: Net> fmt::Debug for Sleep<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("until", &self.until).finish_non_exhaustive()
    }
}
