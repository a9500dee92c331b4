//! Implements [`Streams`] with the sockets of the library, on a host of any kind.

use super::{Ends, Failure, StreamInfo, StreamOption, Streams, any_towards};
use linerate::net::{Ancillary, Errno, Net, Opt, Poll, Pollable, TcpListener, TcpStream, UdpSocket};
use slab::Slab;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::time::Duration;

/// Delay before retrying a send that failed because the buffer pool was empty.
const RETRY: Duration = Duration::from_millis(1);
/// Size of the receive buffer of UDP sockets in bytes, enough for about three milliseconds of
/// traffic at 10 Gbit/s.
const DATAGRAM_BUFFER: usize = 4 << 20;

/// Waits for events while no socket is ready, in [`Streams::poll`].
pub trait Wait<N: Net> {
    /// Appends the tokens of sockets with an event to `ready`. If there are none, waits for one,
    /// but at most for `timeout`.
    fn wait(&mut self, poll: &Poll<N>, ready: &mut Vec<Token>, timeout: Duration);
}

/// Waits as [`Poll::wait`] does: if the calling thread runs the host, runs the host meanwhile;
/// otherwise sleeps.
#[derive(Debug, Default)]
pub struct PollWait {
    error: Option<io::Error>,
}

impl<N: Net> Wait<N> for PollWait {
    fn wait(&mut self, poll: &Poll<N>, ready: &mut Vec<Token>, timeout: Duration) {
        self.error = poll.wait(ready, Some(timeout)).err();
    }
}

/// Number of a socket of a [`NetStreams`].
pub type Token = usize;

enum Socket<N: Net> {
    Listener(TcpListener<N>),
    Stream(TcpStream<N>),
    Datagrams(UdpSocket<N>),
}

/// Sockets of one host, used by the thread that runs the applications.
pub struct NetStreams<N: Net, W = PollWait> {
    net: N,
    poll: Poll<N>,
    sockets: Slab<Socket<N>>,
    /// Sockets that could not send because the buffer pool was empty. No event reports a freed
    /// buffer, so these sends are retried.
    starved: Vec<Token>,
    waits: W,
}

impl<N: Net + Clone> NetStreams<N> {
    /// Creates an empty set of sockets of `host`.
    pub fn new(host: &N) -> NetStreams<N> {
        NetStreams::waiting(host, PollWait::default())
    }
}

impl<N: Net> NetStreams<N> {
    /// Returns the reason why the last call of [`Streams::poll`] could not wait, for example that
    /// the host has ended. In this case the loop of the application should end, too.
    pub fn ended(&self) -> Option<&io::Error> {
        self.waits.error.as_ref()
    }
}

impl<N: Net + Clone, W> NetStreams<N, W> {
    /// Creates an empty set of sockets, whose [`Streams::poll`] waits by calling `waits`.
    pub fn waiting(net: &N, waits: W) -> NetStreams<N, W> {
        NetStreams { net: net.clone(), poll: Poll::new(net), sockets: Slab::new(), starved: Vec::new(), waits }
    }

    /// Returns the [`Wait`] that [`Streams::poll`] uses.
    pub fn waits(&self) -> &W {
        &self.waits
    }

    /// Returns the [`Wait`] that [`Streams::poll`] uses.
    pub fn waits_mut(&mut self) -> &mut W {
        &mut self.waits
    }
}

impl<N: Net, W> NetStreams<N, W> {
    /// Watches a socket and stores it under a token.
    fn keep<S: Pollable<N>>(&mut self, socket: S, kind: fn(S) -> Socket<N>) -> io::Result<Token> {
        let place = self.sockets.vacant_entry();
        let token = place.key();
        self.poll.add(&socket, token)?;
        place.insert(kind(socket));
        Ok(token)
    }

    fn stream(&self, token: Token) -> Result<&TcpStream<N>, Failure> {
        match self.sockets.get(token) {
            Some(Socket::Stream(stream)) => Ok(stream),
            _ => Err(Failure::Invalid),
        }
    }

    fn datagrams(&self, token: Token) -> Result<&UdpSocket<N>, Failure> {
        match self.sockets.get(token) {
            Some(Socket::Datagrams(socket)) => Ok(socket),
            _ => Err(Failure::Invalid),
        }
    }

    /// Schedules a retry for a socket that could not send because the buffer pool was empty.
    fn starve(&mut self, token: Token) -> Failure {
        if !self.starved.contains(&token) {
            self.starved.push(token);
        }
        Failure::Again
    }
}

/// Returns the options of a socket that is bound to `at`. Earlier connections on the L4 port may
/// still be in TIME-WAIT, as is usual on FTP's port 20.
fn reuse(at: SocketAddr) -> &'static [Opt] {
    if at.port() == 0 { &[] } else { &[Opt::ReuseAddr(true)] }
}

/// Converts an IPv4-mapped IPv6 address to IPv4; returns any other address unchanged.
fn plain(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::from((v4, addr.port())),
        IpAddr::V6(_) => addr,
    }
}

/// Returns the options of a stream for `option`.
fn options(option: StreamOption) -> Result<[Option<Opt>; 2], Failure> {
    Ok(match option {
        StreamOption::NoDelay(on) => [Some(Opt::NoDelay(on)), None],
        StreamOption::Buffers(bytes) => [Some(Opt::SendBuffer(bytes)), Some(Opt::RecvBuffer(bytes))],
        StreamOption::MaxSegment(mss) => [Some(Opt::MaxSegment(mss)), None],
        StreamOption::Tos(tos) => [Some(Opt::Tos(tos)), None],
        StreamOption::Congestion(name) => {
            let known = name.as_str().parse().map_err(|_| Failure::Invalid)?;
            [Some(Opt::Congestion(known)), None]
        }
    })
}

impl<N: Net + Clone, W: Wait<N>> Streams for NetStreams<N, W> {
    type Fd = Token;

    fn listen(&mut self, at: SocketAddr, backlog: usize) -> Result<Token, Failure> {
        let backlog = u32::try_from(backlog).unwrap_or(u32::MAX);
        let listener = TcpListener::bind_with(&self.net, at, reuse(at), backlog).map_err(failure)?;
        listener.set_nonblocking(true).map_err(failure)?;
        self.keep(listener, Socket::Listener).map_err(failure)
    }

    fn local(&self, token: Token) -> Result<SocketAddr, Failure> {
        match self.sockets.get(token) {
            Some(Socket::Listener(listener)) => listener.local_addr(),
            Some(Socket::Stream(stream)) => stream.local_addr(),
            Some(Socket::Datagrams(socket)) => socket.local_addr(),
            None => return Err(Failure::Invalid),
        }
        .map_err(failure)
    }

    fn accept(&mut self, listener: Token) -> Result<(Token, Ends), Failure> {
        loop {
            let Some(Socket::Listener(from)) = self.sockets.get(listener) else { return Err(Failure::Invalid) };
            let (stream, peer) = from.accept().map_err(failure)?;
            // A connection that was reset while it waited in the accept queue is skipped.
            let (Ok(()), Ok(local)) = (stream.set_nonblocking(true), stream.local_addr()) else { continue };
            if let Ok(token) = self.keep(stream, Socket::Stream) {
                return Ok((token, Ends { local: plain(local), peer: plain(peer) }));
            }
        }
    }

    fn connect(&mut self, from: SocketAddr, to: SocketAddr) -> Result<Token, Failure> {
        self.connect_with(from, to, &[])
    }

    fn connect_with(&mut self, from: SocketAddr, to: SocketAddr, with: &[StreamOption]) -> Result<Token, Failure> {
        let from = if from.ip().is_unspecified() { SocketAddr::new(any_towards(to).ip(), from.port()) } else { from };
        let local = (from.port() != 0 || !from.ip().is_unspecified()).then_some(from);
        let mut set = reuse(from).to_vec();
        for option in with {
            set.extend(options(*option)?.into_iter().flatten());
        }
        let stream = TcpStream::begin_connect(&self.net, local, to, &set).map_err(failure)?;
        self.keep(stream, Socket::Stream).map_err(failure)
    }

    fn bind(&mut self, at: SocketAddr) -> Result<Token, Failure> {
        let options = [Opt::NonBlocking(true), Opt::RecvPacketInfo(true)];
        let socket = UdpSocket::bind_with(&self.net, at, &options).map_err(failure)?;
        // One round of the host can deliver more datagrams than the default buffer holds. If this
        // size is refused, the buffer keeps the host's default.
        let _ = socket.set_option(Opt::RecvBuffer(DATAGRAM_BUFFER));
        self.keep(socket, Socket::Datagrams).map_err(failure)
    }

    fn send_to(&mut self, token: Token, bytes: &[u8], ends: Ends) -> Result<(), Failure> {
        let from = Ancillary::source(ends.local.ip());
        match self.datagrams(token)?.send_msg(bytes, ends.peer, &from) {
            Err(why) if Errno::of(&why) == Some(Errno::ENOBUFS) => Err(self.starve(token)),
            done => done.map(drop).map_err(failure),
        }
    }

    fn recv_from(&mut self, token: Token, into: &mut [u8]) -> Result<(usize, Ends), Failure> {
        let message = self.datagrams(token)?.recv_msg(into).map_err(failure)?;
        Ok((message.len, Ends { local: SocketAddr::from((message.to(), 0)), peer: plain(message.from) }))
    }

    fn connected(&mut self, token: Token) -> Result<Ends, Failure> {
        let stream = self.stream(token)?;
        if let Some(why) = stream.take_error().map_err(failure)? {
            return Err(failure(why));
        }
        match (stream.local_addr(), stream.peer_addr()) {
            (Ok(local), Ok(peer)) => Ok(Ends { local: plain(local), peer: plain(peer) }),
            (_, Err(why)) if why.kind() == ErrorKind::NotConnected => Err(Failure::Again),
            (Err(why), _) | (_, Err(why)) => Err(failure(why)),
        }
    }

    fn send(&mut self, token: Token, bytes: &[u8]) -> Result<usize, Failure> {
        self.stream(token)?.write(bytes).map_err(failure)
    }

    fn recv(&mut self, token: Token, into: &mut [u8]) -> Result<usize, Failure> {
        self.stream(token)?.read(into).map_err(failure)
    }

    fn shutdown(&mut self, token: Token) -> Result<(), Failure> {
        self.stream(token)?.shutdown(Shutdown::Write).map_err(failure)
    }

    fn close(&mut self, token: Token) {
        // Dropping the socket closes it, without waiting: SO_LINGER is not set.
        drop(self.sockets.try_remove(token));
    }

    fn abort(&mut self, token: Token) {
        if let Ok(stream) = self.stream(token) {
            let _ = stream.set_linger(Some(Duration::ZERO)); // fails only if the connection is gone
        }
        self.close(token);
    }

    fn set(&mut self, token: Token, option: StreamOption) -> Result<(), Failure> {
        let (stream, options) = (self.stream(token)?, options(option)?);
        options.into_iter().flatten().try_for_each(|opt| stream.set_option(opt)).map_err(failure)
    }

    fn info(&self, token: Token) -> Option<StreamInfo> {
        let info = self.stream(token).ok()?.info().ok()?;
        let us = |time: Duration| time.as_micros() as u64;
        Some(StreamInfo {
            retransmits: info.total_retrans.into(),
            snd_cwnd: info.cwnd_bytes.into(),
            snd_wnd: info.snd_wnd.into(),
            rtt_us: us(info.rtt),
            rttvar_us: us(info.rttvar),
            pmtu: info.pmtu.into(),
            mss: info.snd_mss.into(),
        })
    }

    fn poll(&mut self, ready: &mut Vec<Token>, timeout: Duration) {
        let timeout = if self.starved.is_empty() { timeout } else { timeout.min(RETRY) };
        self.waits.wait(&self.poll, ready, timeout);
        ready.append(&mut self.starved);
    }
}

fn failure(why: io::Error) -> Failure {
    Errno::of(&why).map_or(Failure::Invalid, failure_of)
}

/// Converts an error of a socket call.
pub fn failure_of(errno: Errno) -> Failure {
    match errno {
        Errno::EAGAIN | Errno::EINPROGRESS | Errno::EALREADY | Errno::EINTR => Failure::Again,
        Errno::ECONNREFUSED => Failure::Refused,
        Errno::EHOSTUNREACH => Failure::HostUnreachable,
        Errno::ENETUNREACH | Errno::ENETDOWN => Failure::NetUnreachable,
        Errno::ETIMEDOUT => Failure::TimedOut,
        Errno::EADDRINUSE => Failure::InUse,
        Errno::EMFILE | Errno::ENOBUFS => Failure::NoRoom,
        Errno::EPIPE | Errno::ECONNRESET | Errno::ENOTCONN => Failure::Gone,
        _ => Failure::Invalid,
    }
}

impl<N: Net, W> fmt::Debug for NetStreams<N, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetStreams").field("sockets", &self.sockets.len()).finish_non_exhaustive()
    }
}
