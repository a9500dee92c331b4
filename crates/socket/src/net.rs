//! The sockets of `std::net` on this stack: [`TcpStream`], [`TcpListener`] and [`UdpSocket`] have
//! the standard library's names and semantics.
//!
//! Sockets are opened on a [`Net`], which provides the calling thread's [`Calls`]. If the program
//! runs its own host (locks of type `Up`), a call that waits also runs the host. On a shared host
//! (locks of type `Light`), the call sleeps, and sockets may move between threads. The source code
//! is the same in both cases:
//!
//! ```
//! use linerate_socket::net::{Net, TcpListener, TcpStream};
//! use std::io::{Read, Write};
//!
//! fn greet<N: Net + Clone>(host: &N) -> std::io::Result<String> {
//!     let listener = TcpListener::bind(host, "127.0.0.1:0")?;
//!     let mut client = TcpStream::connect(host, listener.local_addr()?)?;
//!     let (mut server, peer) = listener.accept()?;
//!     assert_eq!(peer, client.local_addr()?);
//!     server.write_all(b"hello")?;
//!     drop(server); // closes
//!     let mut text = String::new();
//!     client.read_to_string(&mut text)?;
//!     Ok(text)
//! }
//!
//! # use linerate_socket::net::Alone;
//! let host = &Alone::<lock::Up>::new("example")?;
//! assert_eq!(greet(&host)?, "hello");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Errors are [`std::io::Error`]s with the same kinds as in the standard library, derived from the
//! same errno values. There are two differences from the standard library. If a host is stopped
//! while a call waits, the call fails with `ConnectionAborted`; with `Interrupted`, `read_exact`
//! would retry forever. Names are resolved through the host's own name servers ([`lookup`]), not
//! through those of the kernel.

mod addr;
mod alone;
mod forward;
mod listener;
mod lookup;
mod poll;
mod raw;
mod stream;
pub mod tasks;
mod udp;
mod vectored;

pub use addr::{Target, ToAddr};
pub use alone::Alone;
pub use forward::{TcpForwarder, TcpRequest, UdpForwarder, UdpRequest};
pub use listener::{Incoming, TcpListener};
pub use lookup::lookup;
pub use poll::{Poll, Pollable};
pub use raw::{IcmpSocket, RawSocket, Reply};
pub use stream::TcpStream;
pub use udp::UdpSocket;

use crate::{Calls, Errno, Fd, Opt, OptKind};
use lock::Locks;
use std::io;
use std::time::Duration;

/// Host on which sockets can be opened.
pub trait Net {
    /// Kind of locks that the host's stack uses.
    type Locks: Locks;
    /// Runs `f` with the socket calls of the calling thread, at the current time.
    fn with<R>(&self, f: impl FnOnce(&Calls<'_, Self::Locks>) -> R) -> R;
}

impl<N: Net + ?Sized> Net for &N {
    type Locks = N::Locks;
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&Calls<'_, N::Locks>) -> R) -> R {
        N::with(self, f)
    }
}

impl<N: Net + ?Sized> Net for std::sync::Arc<N> {
    type Locks = N::Locks;
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&Calls<'_, N::Locks>) -> R) -> R {
        N::with(self, f)
    }
}

impl<N: Net + ?Sized> Net for std::rc::Rc<N> {
    type Locks = N::Locks;
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&Calls<'_, N::Locks>) -> R) -> R {
        N::with(self, f)
    }
}

/// Opens sockets on the host of these calls, for a single thread. The time of the calls advances
/// only by [`Calls::set_now`] and while a call waits.
impl<L: Locks> Net for Calls<'_, L> {
    type Locks = L;
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&Calls<'_, L>) -> R) -> R {
        f(self)
    }
}

/// Descriptor of a socket that is closed when this value is dropped.
struct Owned<N: Net> {
    net: N,
    fd: Fd,
}

impl<N: Net> Owned<N> {
    /// Runs `f` with the socket calls and the descriptor. Always inlined, like `with`, since
    /// otherwise results are copied at each level, and receiving a datagram takes 4 % longer.
    #[inline(always)]
    fn call<R>(&self, f: impl FnOnce(&Calls<'_, N::Locks>, Fd) -> Result<R, Errno>) -> io::Result<R> {
        self.net.with(|calls| f(calls, self.fd)).map_err(error)
    }

    fn set(&self, opt: Opt) -> io::Result<()> {
        self.call(|calls, fd| calls.set_option(fd, opt))
    }

    fn option(&self, kind: OptKind) -> io::Result<Opt> {
        self.call(|calls, fd| calls.option(fd, kind))
    }

    /// Sets an option, runs `f`, and then restores the previous value of the option.
    fn under<R>(&self, kind: OptKind, opt: Opt, f: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        let before = self.option(kind)?;
        self.set(opt)?;
        let done = f();
        self.set(before)?;
        done
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.call(|calls, fd| calls.take_error(fd))?.map(error))
    }
}

/// Implements `Debug` with the fields that the standard library shows, for any host and any state
/// of the socket.
macro_rules! shown {
    ($($name:ident),+) => { $(
        impl<N: Net> std::fmt::Debug for $name<N> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($name));
                if let Ok(addr) = self.0.call(|calls, fd| calls.local_addr(fd)) {
                    shown.field("addr", &addr);
                }
                if let Ok(peer) = self.0.call(|calls, fd| calls.peer_addr(fd)) {
                    shown.field("peer", &peer);
                }
                shown.field("fd", &self.0.fd).finish()
            }
        }
    )+ };
}

shown!(TcpStream, TcpListener, UdpSocket, RawSocket);

impl<N: Net> Drop for Owned<N> {
    fn drop(&mut self) {
        // The descriptor is open, so closing fails only for reasons that cannot be reported here.
        let _ = self.net.with(|calls| calls.close(self.fd));
    }
}

/// Text of the error of a call that would wait on a simulated host.
const SIMULATED: &str = "a blocking call cannot wait on a simulated host: use the sockets of net::tasks in a task of \
                         the world, or a non-blocking socket between calls of World::run_for";

/// Converts an errno into an error of the standard library.
#[cold]
fn error(errno: Errno) -> io::Error {
    match errno {
        Errno::EINTR => io::Error::new(io::ErrorKind::ConnectionAborted, errno),
        Errno::EDEADLK => io::Error::new(io::ErrorKind::Deadlock, SIMULATED),
        errno => errno.into(),
    }
}

/// Checks a timeout as the standard library does: `None` waits forever, zero is an error.
fn timeout(time: Option<Duration>) -> io::Result<Option<Duration>> {
    match time {
        Some(Duration::ZERO) => Err(io::Error::new(io::ErrorKind::InvalidInput, "cannot set a 0 duration timeout")),
        time => Ok(time),
    }
}

/// Returns the error for an option value of the wrong type, which cannot occur.
fn odd<T>() -> io::Result<T> {
    Err(error(Errno::EINVAL))
}
