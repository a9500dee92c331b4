//! The calls that a test makes, whoever answers them: a host of ours, or the host kernel.
//!
//! Beside [`crate::streams::Streams`], which a server with many connections waits on, this has datagrams and no readiness: a
//! test has one socket and knows what it waits for. A call that cannot be carried out now is [`Failure::Again`]; then
//! [`Sockets::step`] is called, and the call again.

use crate::streams::Failure;
use clock::{Duration, Instant};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// What a socket is to be like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Setup {
    /// Bytes of send buffer (SO_SNDBUF); `None`: the system's choice.
    pub send_buffer: Option<usize>,
    /// Bytes of receive buffer (SO_RCVBUF).
    pub recv_buffer: Option<usize>,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// The address that it connects from; `None`: the system's choice.
    pub from: Option<IpAddr>,
    /// May its calls wait?
    pub waits: Waits,
}

/// May a socket's calls wait? Where a thread drives both ends none may, whatever is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Waits {
    /// Never: what is beside the test, its control connection.
    #[default]
    Never,
    /// For a moment, as netperf's blocking calls do: [`Failure::Again`] when it is over.
    Briefly,
}

/// Bytes of a socket's buffers, as the system says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    /// For sending.
    pub send: usize,
    /// For receiving.
    pub recv: usize,
}

/// Whether the caller has more to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// It has: look at what came, and come back.
    Go,
    /// It waits for something: the thread may sleep for a moment if nothing came.
    Wait,
}

/// How long connecting, an answer of the far end, and the last bytes may take.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The same once Ctrl-C was pressed: with it what there was is still fetched, if the far end lives.
const GRACE: Duration = Duration::from_millis(500);

/// What passes while an end waits: whoever shares its thread has a turn, or it rests.
pub type Round<'r, S> = &'r mut dyn FnMut(&mut S, Pace) -> Instant;

/// The sockets of one end.
pub trait Sockets {
    /// A descriptor.
    type Fd: Copy + fmt::Debug;

    /// A round of what carries the sockets; says what time it is.
    fn step(&mut self, pace: Pace) -> Instant;

    /// What time it was at the last round, or is: whichever costs less.
    fn latest(&self) -> Instant;

    /// What time it is, read now.
    fn now(&self) -> Instant;

    /// `socket`, `bind`, `listen`; L4 port 0 picks one.
    ///
    /// # Errors
    /// `InUse`, `NoRoom`, `Invalid`.
    fn listen(&mut self, at: SocketAddr, setup: &Setup) -> Result<Self::Fd, Failure>;

    /// The next connection, set up as its listener.
    ///
    /// # Errors
    /// `Again`, `NoRoom`.
    fn accept(&mut self, listener: Self::Fd) -> Result<(Self::Fd, SocketAddr), Failure>;

    /// Begins to connect; [`Sockets::connected`] says how it went.
    ///
    /// # Errors
    /// `Refused`, `HostUnreachable`, `NetUnreachable`, `InUse` (no L4 port is free to connect from), `NoRoom`, `Invalid`.
    fn connect(&mut self, to: SocketAddr, setup: &Setup) -> Result<Self::Fd, Failure>;

    /// How a connect went.
    ///
    /// # Errors
    /// `Again` while it is under way; `Refused`, `HostUnreachable`, `TimedOut`, `Gone`.
    fn connected(&mut self, fd: Self::Fd) -> Result<(), Failure>;

    /// A datagram socket at `at`, which talks to `to` alone if that is given.
    ///
    /// # Errors
    /// `InUse`, `NoRoom`, `Invalid`.
    fn datagrams(&mut self, at: SocketAddr, to: Option<SocketAddr>, setup: &Setup) -> Result<Self::Fd, Failure>;

    /// Sends the beginning of `bytes`, or one datagram; says how many bytes were taken.
    ///
    /// # Errors
    /// `Again`, `Gone`; of a datagram `NoRoom`, `Refused` too.
    fn send(&mut self, fd: Self::Fd, bytes: &[u8]) -> Result<usize, Failure>;

    /// Receives; 0 of a stream is its end.
    ///
    /// # Errors
    /// `Again`, `Gone`; of a datagram socket `Refused` too.
    fn recv(&mut self, fd: Self::Fd, into: &mut [u8]) -> Result<usize, Failure>;

    /// Sends one datagram to `to`.
    ///
    /// # Errors
    /// `Again`, `NoRoom`, `Refused`, `Invalid`.
    fn send_to(&mut self, fd: Self::Fd, bytes: &[u8], to: SocketAddr) -> Result<usize, Failure>;

    /// Receives a datagram, and says whose.
    ///
    /// # Errors
    /// `Again`, `Refused`.
    fn recv_from(&mut self, fd: Self::Fd, into: &mut [u8]) -> Result<(usize, SocketAddr), Failure>;

    /// Receives a datagram, its sender and the address to which it was sent; unspecified where the socket
    /// does not return it.
    ///
    /// # Errors
    /// As [`Sockets::recv_from`].
    fn recv_msg(&mut self, fd: Self::Fd, into: &mut [u8]) -> Result<(usize, SocketAddr, IpAddr), Failure> {
        self.recv_from(fd, into).map(|(n, from)| (n, from, Ipv4Addr::UNSPECIFIED.into()))
    }

    /// Sends one datagram to `to` from the address `from`; unspecified, or where the socket has no choice:
    /// the stack's.
    ///
    /// # Errors
    /// As [`Sockets::send_to`].
    fn send_msg(&mut self, fd: Self::Fd, bytes: &[u8], to: SocketAddr, _from: IpAddr) -> Result<usize, Failure> {
        self.send_to(fd, bytes, to)
    }

    /// Shuts our side of a stream; what was sent before still goes out.
    fn shutdown(&mut self, fd: Self::Fd);

    /// Gives the descriptor back; what was sent still goes out.
    fn close(&mut self, fd: Self::Fd);

    /// Its buffers.
    fn sizes(&self, fd: Self::Fd) -> Sizes;

    /// Where it is bound.
    ///
    /// # Errors
    /// `Invalid`.
    fn local(&self, fd: Self::Fd) -> Result<SocketAddr, Failure>;
}

/// Asks until the answer is not "again"; `None` when `until` has come or somebody wants an end.
///
/// # Errors
/// What the answer was instead; nothing for [`PATIENCE`].
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
        anyhow::ensure!(waited < PATIENCE, "nothing for {} seconds", PATIENCE.as_secs());
    }
}

/// A connection to `to`, or `None` as [`wait`] says.
///
/// # Errors
/// As [`Sockets::connect`], [`Sockets::connected`] and [`wait`], in a sentence.
pub fn connect<S: Sockets>(
    sockets: &mut S,
    round: Round<'_, S>,
    until: Instant,
    to: SocketAddr,
    setup: &Setup,
) -> anyhow::Result<Option<S::Fd>> {
    let fd = match sockets.connect(to, setup) {
        Ok(fd) => fd,
        Err(Failure::InUse) => anyhow::bail!(
            "no L4 port is left to connect from: the others are taken, or in TIME-WAIT (knob net.inet.tcp.msl)"
        ),
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
