//! The socket calls that a test uses, implemented by our hosts and by the kernel's sockets.
//!
//! [`crate::streams::Streams`] serves many stream connections and reports their readiness. In
//! contrast, this trait also supports datagrams and does not report readiness, since a test uses
//! one socket and waits for a known event. A call that cannot proceed returns [`Failure::Again`];
//! the caller then calls [`Sockets::step`] and retries.

use crate::streams::Failure;
use linerate::stack::Instant;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Options of a new socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Setup {
    /// Size of the send buffer in bytes (SO_SNDBUF); `None`: system default.
    pub send_buffer: Option<usize>,
    /// Size of the receive buffer in bytes (SO_RCVBUF); `None`: system default.
    pub recv_buffer: Option<usize>,
    /// True if the socket option TCP_NODELAY is set.
    pub nodelay: bool,
    /// Local address; `None`: selected by the system.
    pub from: Option<IpAddr>,
    /// Blocking behavior of calls on the socket.
    pub waits: Waits,
}

/// Blocking behavior of the calls on a socket. If one thread runs both ends, calls never block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Waits {
    /// Calls never block. Used for all sockets except the test's own, such as the control
    /// connection.
    #[default]
    Never,
    /// Calls block for a moment, like netperf's calls, and then return [`Failure::Again`].
    Briefly,
}

/// Sizes of a socket's buffers, as the system reports them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    /// Size of the send buffer in bytes.
    pub send: usize,
    /// Size of the receive buffer in bytes.
    pub recv: usize,
}

/// State of the caller of [`Sockets::step`]: it has more to do, or it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// The caller has more to do: `step` polls and returns at once.
    Go,
    /// The caller waits: `step` may let the thread sleep for a moment if there is no event.
    Wait,
}

/// Time limit for connecting, for a reply of the far end, and for the last bytes of a test.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for requesting the results so far after Ctrl-C.
const GRACE: Duration = Duration::from_millis(500);

/// Function that one end of a test calls while it waits. The function runs other work of the
/// thread, such as the other end of the test, or sleeps. It returns the time.
pub type Round<'r, S> = &'r mut dyn FnMut(&mut S, Pace) -> Instant;

/// The sockets of one end.
pub trait Sockets {
    type Fd: Copy + fmt::Debug;

    /// Runs one round of the host or kernel sockets; returns the time after it.
    fn step(&mut self, pace: Pace) -> Instant;

    /// Returns the time of the last round, or the current time if reading the clock is cheap.
    fn latest(&self) -> Instant;

    /// Reads the current time.
    fn now(&self) -> Instant;

    /// Opens a listener (`socket`, `bind`, `listen`); L4 port 0 selects a free port.
    ///
    /// # Errors
    /// `InUse`, `NoRoom`, `Invalid`.
    fn listen(&mut self, at: SocketAddr, setup: &Setup) -> Result<Self::Fd, Failure>;

    /// Accepts the next connection, which has the options of its listener. Returns it with the
    /// peer's address.
    ///
    /// # Errors
    /// `Again`, `NoRoom`.
    fn accept(&mut self, listener: Self::Fd) -> Result<(Self::Fd, SocketAddr), Failure>;

    /// Begins to connect; [`Sockets::connected`] returns the result.
    ///
    /// # Errors
    /// `Refused`, `HostUnreachable`, `NetUnreachable`, `InUse` (no L4 port is free to connect
    /// from), `NoRoom`, `Invalid`.
    fn connect(&mut self, to: SocketAddr, setup: &Setup) -> Result<Self::Fd, Failure>;

    /// Returns the result of [`Sockets::connect`].
    ///
    /// # Errors
    /// `Again` while it is in progress; `Refused`, `HostUnreachable`, `TimedOut`, `Gone`.
    fn connected(&mut self, fd: Self::Fd) -> Result<(), Failure>;

    /// Opens a datagram socket at `at`, connected to `to` if given.
    ///
    /// # Errors
    /// `InUse`, `NoRoom`, `Invalid`.
    fn datagrams(&mut self, at: SocketAddr, to: Option<SocketAddr>, setup: &Setup) -> Result<Self::Fd, Failure>;

    /// Sends the first part of `bytes` on a stream, or all of them as one datagram. Returns how
    /// many bytes were sent.
    ///
    /// # Errors
    /// `Again`, `Gone`; for a datagram also `NoRoom`, `Refused`.
    fn send(&mut self, fd: Self::Fd, bytes: &[u8]) -> Result<usize, Failure>;

    /// Receives bytes; a length of 0 is the end of a stream.
    ///
    /// # Errors
    /// `Again`, `Gone`; for a datagram socket also `Refused`.
    fn recv(&mut self, fd: Self::Fd, into: &mut [u8]) -> Result<usize, Failure>;

    /// Sends one datagram to `to`.
    ///
    /// # Errors
    /// `Again`, `NoRoom`, `Refused`, `Invalid`.
    fn send_to(&mut self, fd: Self::Fd, bytes: &[u8], to: SocketAddr) -> Result<usize, Failure>;

    /// Receives one datagram; returns its length and its sender.
    ///
    /// # Errors
    /// `Again`, `Refused`.
    fn recv_from(&mut self, fd: Self::Fd, into: &mut [u8]) -> Result<(usize, SocketAddr), Failure>;

    /// Receives one datagram; returns its length, its sender and its destination address. The
    /// destination is unspecified if the implementation does not report it.
    ///
    /// # Errors
    /// The errors of [`Sockets::recv_from`].
    fn recv_msg(&mut self, fd: Self::Fd, into: &mut [u8]) -> Result<(usize, SocketAddr, IpAddr), Failure> {
        self.recv_from(fd, into).map(|(n, from)| (n, from, Ipv4Addr::UNSPECIFIED.into()))
    }

    /// Sends one datagram to `to` from the local address `from`. If `from` is unspecified, or if
    /// the implementation cannot set it, the stack selects the address.
    ///
    /// # Errors
    /// The errors of [`Sockets::send_to`].
    fn send_msg(&mut self, fd: Self::Fd, bytes: &[u8], to: SocketAddr, _from: IpAddr) -> Result<usize, Failure> {
        self.send_to(fd, bytes, to)
    }

    /// Shuts down our sending side of a stream; data already sent is still delivered.
    fn shutdown(&mut self, fd: Self::Fd);

    /// Closes the descriptor; data already sent is still delivered.
    fn close(&mut self, fd: Self::Fd);

    /// Returns the sizes of the socket's buffers.
    fn sizes(&self, fd: Self::Fd) -> Sizes;

    /// Returns the local address and port.
    ///
    /// # Errors
    /// `Invalid`.
    fn local(&self, fd: Self::Fd) -> Result<SocketAddr, Failure>;
}

/// Repeats `ask` until it returns something other than `Again`. Returns `None` if `until` is
/// reached first, or shortly after a stop was requested.
///
/// # Errors
/// The error of `ask`, or no success within [`PATIENCE`].
pub fn wait<S: Sockets, T>(
    sockets: &mut S,
    round: Round<'_, S>,
    until: Instant,
    mut ask: impl FnMut(&mut S) -> Result<T, Failure>,
) -> anyhow::Result<Option<T>> {
    let mut began = None;
    loop {
        match ask(sockets) {
            Ok(found) => return Ok(Some(found)),
            Err(Failure::Again) => {}
            Err(why) => return Err(why.into()),
        }
        let now = round(sockets, Pace::Wait);
        let waited = now.since(*began.get_or_insert(now));
        if now >= until || (waited >= GRACE && dispatch::stop_requested()) {
            return Ok(None);
        }
        anyhow::ensure!(waited < PATIENCE, "timeout: no progress for {} seconds", PATIENCE.as_secs());
    }
}

/// Error text for [`Failure::InUse`] when connecting.
pub(crate) const NO_LOCAL_END: &str = "no local address and port: all ports are in use or in TIME-WAIT \
                                       (sysctl net.inet.tcp.msl), or this host does not have the address";

/// Connects to `to` and waits for the result; returns `None` in the same cases as [`wait`].
///
/// # Errors
/// The errors of [`Sockets::connect`], [`Sockets::connected`] and [`wait`], with the failed step as
/// context.
pub fn connect<S: Sockets>(
    sockets: &mut S,
    round: Round<'_, S>,
    until: Instant,
    to: SocketAddr,
    setup: &Setup,
) -> anyhow::Result<Option<S::Fd>> {
    let fd = match sockets.connect(to, setup) {
        Ok(fd) => fd,
        Err(Failure::InUse) => {
            anyhow::bail!("connect: {NO_LOCAL_END}")
        }
        Err(why) => return Err(anyhow::Error::new(why).context("connect")),
    };
    let done = wait(sockets, round, until, |sockets| sockets.connected(fd));
    match done {
        Ok(Some(())) => Ok(Some(fd)),
        Ok(None) => {
            sockets.close(fd);
            Ok(None)
        }
        Err(why) => {
            sockets.close(fd);
            Err(why.context("connect"))
        }
    }
}
