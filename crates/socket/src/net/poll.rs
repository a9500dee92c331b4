//! Readiness of many sockets, for programs with one event loop.

use super::{IcmpSocket, Net, RawSocket, TcpListener, TcpStream, UdpSocket, error};
use crate::{Calls, Fd, Poller};
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::time::Duration;

/// Maximum number of sockets that one call of [`Poll::wait`] reports; the next call reports the
/// others.
const READY_MAX: usize = 1024;

/// Sockets that a [`Poll`] can watch. The trait is sealed.
pub trait Pollable<N: Net>: sealed::Descriptor<N> {}

mod sealed {
    use super::{Fd, Net};

    pub trait Descriptor<N: Net> {
        fn fd(&self) -> Fd;
        fn net(&self) -> &N;
    }
}

macro_rules! pollable {
    ($($name:ident),+) => { $(
        impl<N: Net> sealed::Descriptor<N> for $name<N> {
            fn fd(&self) -> Fd {
                self.0.fd
            }
            fn net(&self) -> &N {
                &self.0.net
            }
        }
        impl<N: Net> Pollable<N> for $name<N> {}
    )+ };
}

pollable!(TcpStream, TcpListener, UdpSocket, RawSocket);

impl<N: Net> sealed::Descriptor<N> for IcmpSocket<N> {
    fn fd(&self) -> Fd {
        sealed::Descriptor::fd(self.deref())
    }
    fn net(&self) -> &N {
        self.deref().net()
    }
}

impl<N: Net> Pollable<N> for IcmpSocket<N> {}

/// Waits for events of many sockets of one host on one thread. The program selects a token for each
/// socket, such as an index of its connections.
///
/// The sockets should be non-blocking. Each event is reported once, as by epoll(7) with `EPOLLET`:
/// a stream is reported if data or the end of data arrives, if space for sending becomes available
/// after a send that failed with `WouldBlock`, and if a connection is established or fails; a
/// listener if a connection waits; a datagram socket if it becomes readable. The program must then
/// repeat its calls until they fail with `WouldBlock`. A socket may be reported without an event,
/// and more than once. A socket that is ready when it is added is reported at once. A datagram that
/// could not be sent because the host has no free buffer causes no event; it has to be sent again
/// later.
///
/// A token may be reported once more after its socket was dropped, unless [`Poll::remove`] was
/// called before. A thread that runs its host itself runs it in [`Poll::wait`].
///
/// ```
/// use linerate_socket::net::{Alone, Poll, UdpSocket};
/// use std::time::Duration;
///
/// let host = &Alone::<lock::Up>::new("example")?;
/// let (a, b) = (UdpSocket::bind(&host, "127.0.0.1:0")?, UdpSocket::bind(&host, "127.0.0.1:0")?);
/// let poll = Poll::new(&host);
/// poll.add(&a, 1)?;
/// poll.add(&b, 2)?;
/// a.send_to(b"hello", b.local_addr()?)?;
/// let mut ready = Vec::new();
/// poll.wait(&mut ready, Some(Duration::from_secs(1)))?;
/// assert_eq!(ready, [2]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Poll<N: Net> {
    net: N,
    poller: Poller<N::Locks>,
    /// Tokens of the watched sockets, and the descriptors of the last events.
    state: RefCell<State>,
}

/// State of a [`Poll`]. Streams and other sockets are numbered separately, each with the lowest
/// free numbers, so a vector for each kind maps the numbers to tokens.
#[derive(Default)]
struct State {
    streams: Vec<Option<usize>>,
    others: Vec<Option<usize>>,
    found: Vec<usize>,
}

impl State {
    /// Returns the token of a descriptor. Adds an entry if there is none.
    fn token(&mut self, fd: Fd) -> Option<&mut Option<usize>> {
        let (tokens, at) = match fd.sock() {
            Some(id) => (&mut self.streams, id),
            None => (&mut self.others, fd.0),
        };
        if tokens.len() <= at {
            tokens.resize(at + 1, None);
        }
        tokens.get_mut(at)
    }
}

impl<N: Net + Clone> Poll<N> {
    /// Creates an empty set of sockets of a host.
    pub fn new(net: &N) -> Poll<N> {
        Poll { net: net.clone(), poller: Poller::default(), state: RefCell::default() }
    }
}

impl<N: Net> Poll<N> {
    /// Starts to watch a socket, until it is removed or closed. A socket has at most one `Poll`: if
    /// another `Poll` watched it, even through another handle, that one receives no further events.
    /// If this `Poll` already watches the socket, replaces its token.
    ///
    /// # Errors
    /// `InvalidInput` if the socket belongs to another host.
    pub fn add(&self, socket: &impl Pollable<N>, token: usize) -> io::Result<()> {
        let fd = self.own(socket)?;
        if let Some(place) = self.state.borrow_mut().token(fd) {
            *place = Some(token);
        }
        self.net.with(|calls| calls.watch(&self.poller, fd)).map_err(error)
    }

    /// Stops watching a socket.
    ///
    /// # Errors
    /// `InvalidInput` if the socket belongs to another host.
    pub fn remove(&self, socket: &impl Pollable<N>) -> io::Result<()> {
        let fd = self.own(socket)?;
        if let Some(place) = self.state.borrow_mut().token(fd) {
            *place = None;
        }
        self.net.with(|calls| calls.unwatch(fd)).map_err(error)
    }

    /// Waits until sockets have events, but at most for `timeout`. Appends the tokens of these
    /// sockets to `ready`, at most 1024 per call, or none if the timeout expires.
    ///
    /// # Errors
    /// `ConnectionAborted` if the host is stopped. `Deadlock` in a simulated host, whose time
    /// passes only outside this call.
    pub fn wait(&self, ready: &mut Vec<usize>, timeout: Option<Duration>) -> io::Result<()> {
        let before = ready.len();
        let waited = self.net.with(|calls| {
            self.poller.wait_until(calls, timeout, || {
                self.collect(calls, ready);
                (ready.len() > before).then_some(())
            })
        });
        waited.map(drop).map_err(error)
    }

    /// Appends the tokens of sockets that had an event, at most 1024. Does not wait, and does not
    /// run the host.
    pub fn take_ready(&self, ready: &mut Vec<usize>) {
        self.net.with(|calls| self.collect(calls, ready));
    }

    /// Appends the tokens of notified descriptors that are still watched.
    fn collect(&self, calls: &Calls<'_, N::Locks>, ready: &mut Vec<usize>) {
        let state = &mut *self.state.borrow_mut();
        let mut found = std::mem::take(&mut state.found);
        self.poller.ready(calls, READY_MAX, &mut found);
        ready.extend(found.drain(..).filter_map(|fd| *state.token(Fd(fd))?));
        state.found = found; // keeps its memory
    }

    /// Returns the descriptor of `socket`, or an error if the socket belongs to another host.
    fn own(&self, socket: &impl Pollable<N>) -> io::Result<Fd> {
        let place = |net: &N| net.with(|calls| std::ptr::from_ref(calls.stack()).addr());
        if place(&self.net) != place(socket.net()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket belongs to another host"));
        }
        Ok(socket.fd())
    }
}

impl<N: Net> fmt::Debug for Poll<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poll").finish_non_exhaustive()
    }
}
