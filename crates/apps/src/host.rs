//! Runs applications on a host of our own stack. This module implements [`Streams`] with the socket
//! calls of that stack, on the thread that runs the host.
//!
//! [`HostStreams::poll`] is one iteration of the host's main loop. It runs one round of the host,
//! which also runs the timers, and then collects the events of the poller. If there are no events,
//! it sleeps. Incoming segments are therefore answered before the thread sleeps. [`run`] runs a
//! host with one application from start to end; [`Servers`] implements the services of the hosts in
//! a configuration file.

mod programs;
mod run;

pub use programs::Servers;
pub use run::{Ended, Role, RunError, everywhere, everywhere_of, run, run_as};
pub(crate) use run::{PATIENCE, enter, runner, stay_on_core};

use crate::streams::{Ends, Failure, StreamInfo, StreamOption, Streams, any_towards};
use clock::Instant;
use lock::Locks;
use node::Host;
use node::run::{Runner, Running};
use port::Pairs;
use socket::{Ancillary, Calls, Domain, Errno, Fd, Opt, Poller};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

/// Maximum number of ready descriptors that one call of [`Streams::poll`] returns; the next call
/// returns the others.
const READY: usize = 256;
/// Delay before retrying a send that failed because the buffer pool was empty.
const RETRY: Duration = Duration::from_millis(1);
/// Size of the receive buffer of UDP sockets in bytes, enough for about three milliseconds of
/// traffic at 10 Gbit/s.
const DATAGRAM_BUFFER: usize = 4 << 20;

/// The sockets of one host, used by the thread that runs the applications.
pub struct HostStreams<'h, L: Locks> {
    host: &'h Host<L>,
    calls: Calls<'h, L>,
    poller: Poller<L>,
    around: Option<Around<'h>>,
    reported: Vec<usize>,
    /// Descriptors that could not send because the buffer pool was empty. No event reports a freed
    /// buffer, so these sends are retried.
    starved: Vec<Fd>,
    notices: Vec<String>,
}

/// State needed to run the host's main loop in [`HostStreams::poll`]: the runner, the programs, and
/// the paired ports of this process.
struct Around<'h> {
    runner: Runner,
    programs: Running<'h>,
    pairs: &'h Pairs,
}

impl<'h, L: Locks> HostStreams<'h, L> {
    /// Creates the sockets of `host`. [`Streams::poll`] runs the host with `runner`, which also
    /// serves the host's datagram services and control socket.
    pub fn new(host: &'h Host<L>, runner: Runner, pairs: &'h Pairs) -> HostStreams<'h, L> {
        HostStreams::with_programs(host, runner, Running::default(), pairs)
    }

    /// Creates sockets as [`HostStreams::new`] does, and runs `programs` for the other services of
    /// the host.
    pub fn with_programs(
        host: &'h Host<L>,
        runner: Runner,
        programs: Running<'h>,
        pairs: &'h Pairs,
    ) -> HostStreams<'h, L> {
        HostStreams { around: Some(Around { runner, programs, pairs }), ..HostStreams::beside(host) }
    }

    /// Creates sockets on a `host` whose main loop runs elsewhere, so that [`Streams::poll`] never
    /// waits. The caller sets the time with [`HostStreams::set_now`] before each turn.
    pub fn beside(host: &'h Host<L>) -> HostStreams<'h, L> {
        let (calls, poller) = (host.calls(), Poller::default());
        let (reported, starved, notices) = Default::default();
        HostStreams { host, calls, poller, around: None, reported, starved, notices }
    }

    /// Sets the time that the following socket calls use.
    pub fn set_now(&mut self, now: Instant) {
        self.calls.set_now(now);
    }

    /// Returns the runner, if [`Streams::poll`] runs the host's main loop.
    pub fn runner(&self) -> Option<&Runner> {
        self.around.as_ref().map(|around| &around.runner)
    }

    /// Ends the programs that were passed to [`HostStreams::with_programs`].
    pub fn end_programs(&mut self) {
        if let Some(around) = &mut self.around {
            around.programs.end();
        }
    }

    /// Returns the pending notices about ports that have ended, and clears them.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Opens a non-blocking stream socket, and binds it if `at` has a specified address or port.
    fn open(&self, at: SocketAddr) -> Result<Fd, Errno> {
        let fd = self.calls.stream_socket_of(Domain::of(&at))?;
        self.or_close(fd, self.prepare(fd, at))
    }

    fn prepare(&self, fd: Fd, at: SocketAddr) -> Result<(), Errno> {
        self.calls.set_option(fd, Opt::NonBlocking(true))?;
        if at.port() != 0 {
            // Earlier connections on the L4 port may still be in TIME-WAIT, as is usual on FTP's
            // port 20.
            self.calls.set_option(fd, Opt::ReuseAddr(true))?;
        }
        if at.port() != 0 || !at.ip().is_unspecified() {
            self.calls.bind(fd, at)?;
        }
        Ok(())
    }

    /// Opens a non-blocking UDP socket and binds it to `at`.
    fn open_datagrams(&self, at: SocketAddr) -> Result<Fd, Errno> {
        let fd = self.calls.socket_of(Domain::of(&at))?;
        let begin = || {
            self.calls.set_option(fd, Opt::NonBlocking(true))?;
            self.calls.set_option(fd, Opt::RecvPacketInfo(true))?;
            self.calls.bind(fd, at)?;
            // One round of the host can deliver more datagrams than the default buffer holds. If
            // this size is refused, the buffer keeps the host's default.
            let _ = self.calls.set_option(fd, Opt::RecvBuffer(DATAGRAM_BUFFER));
            self.calls.watch(&self.poller, fd)
        };
        self.or_close(fd, begin())
    }

    fn begin_connect(&mut self, fd: Fd, to: SocketAddr, options: &[StreamOption]) -> Result<(), Failure> {
        for option in options {
            self.set(fd, *option)?;
        }
        self.calls.watch(&self.poller, fd).map_err(failure)?;
        match self.calls.connect(fd, to) {
            Err(Errno::EINPROGRESS) => Ok(()),
            done => done.map_err(failure),
        }
    }

    fn or_close(&self, fd: Fd, done: Result<(), Errno>) -> Result<Fd, Errno> {
        if done.is_err() {
            let _ = self.calls.close(fd); // opened above
        }
        done.map(|()| fd)
    }

    /// Schedules a retry for a descriptor that could not send because the buffer pool was empty.
    fn starve(&mut self, fd: Fd) -> Failure {
        if !self.starved.contains(&fd) {
            self.starved.push(fd);
        }
        Failure::Again
    }

    fn ends(&self, fd: Fd) -> Result<Ends, Errno> {
        Ok(Ends { local: plain(self.calls.local_addr(fd)?), peer: plain(self.calls.peer_addr(fd)?) })
    }
}

/// Converts an IPv4-mapped IPv6 address to IPv4; returns any other address unchanged.
fn plain(addr: SocketAddr) -> SocketAddr {
    match addr {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::from((v4, v6.port())),
            None => addr,
        },
        v4 => v4,
    }
}

impl<L: Locks> Streams for HostStreams<'_, L> {
    type Fd = Fd;

    fn listen(&mut self, at: SocketAddr, backlog: usize) -> Result<Fd, Failure> {
        let fd = self.open(at).map_err(failure)?;
        let begin = || {
            self.calls.listen(fd, u32::try_from(backlog).unwrap_or(u32::MAX))?;
            self.calls.watch(&self.poller, fd)
        };
        self.or_close(fd, begin()).map_err(failure)
    }

    fn local(&self, fd: Fd) -> Result<SocketAddr, Failure> {
        self.calls.local_addr(fd).map_err(failure)
    }

    fn accept(&mut self, listener: Fd) -> Result<(Fd, Ends), Failure> {
        loop {
            let (fd, peer) = self.calls.accept(listener).map_err(failure)?;
            // A connection that was reset while it waited in the accept queue is skipped.
            let begin = || {
                self.calls.set_option(fd, Opt::NonBlocking(true))?;
                self.calls.watch(&self.poller, fd)
            };
            let (begun, local) = (begin(), self.calls.local_addr(fd));
            match (self.or_close(fd, begun), local) {
                (Ok(fd), Ok(local)) => return Ok((fd, Ends { local: plain(local), peer: plain(peer) })),
                (Ok(fd), Err(_)) => drop(self.calls.close(fd)),
                (Err(_), _) => {}
            }
        }
    }

    fn connect(&mut self, from: SocketAddr, to: SocketAddr) -> Result<Fd, Failure> {
        self.connect_with(from, to, &[])
    }

    fn connect_with(&mut self, from: SocketAddr, to: SocketAddr, options: &[StreamOption]) -> Result<Fd, Failure> {
        let from = if from.ip().is_unspecified() { SocketAddr::new(any_towards(to).ip(), from.port()) } else { from };
        let fd = self.open(from).map_err(failure)?;
        let begun = self.begin_connect(fd, to, options);
        if begun.is_err() {
            let _ = self.calls.close(fd); // opened above
        }
        begun.map(|()| fd)
    }

    fn bind(&mut self, at: SocketAddr) -> Result<Fd, Failure> {
        self.open_datagrams(at).map_err(failure)
    }

    fn send_to(&mut self, fd: Fd, bytes: &[u8], ends: Ends) -> Result<(), Failure> {
        match self.calls.send_msg(fd, bytes, Some(&ends.peer), &Ancillary::source(ends.local.ip())) {
            Err(Errno::ENOBUFS) => Err(self.starve(fd)),
            done => done.map(drop).map_err(failure),
        }
    }

    fn recv_from(&mut self, fd: Fd, into: &mut [u8]) -> Result<(usize, Ends), Failure> {
        let message = self.calls.recv_msg(fd, into).map_err(failure)?;
        Ok((message.len, Ends { local: SocketAddr::from((message.to(), 0)), peer: plain(message.from) }))
    }

    fn connected(&mut self, fd: Fd) -> Result<Ends, Failure> {
        match self.calls.take_error(fd) {
            Ok(None) => {}
            Ok(Some(why)) | Err(why) => return Err(failure(why)),
        }
        match self.ends(fd) {
            Err(Errno::ENOTCONN) => Err(Failure::Again),
            known => known.map_err(failure),
        }
    }

    fn send(&mut self, fd: Fd, bytes: &[u8]) -> Result<usize, Failure> {
        self.calls.send(fd, bytes).map_err(failure)
    }

    fn recv(&mut self, fd: Fd, into: &mut [u8]) -> Result<usize, Failure> {
        self.calls.recv(fd, into).map_err(failure)
    }

    fn shutdown(&mut self, fd: Fd) -> Result<(), Failure> {
        self.calls.shutdown(fd, Shutdown::Write).map_err(failure)
    }

    fn close(&mut self, fd: Fd) {
        let _ = self.calls.close(fd); // never blocks: SO_LINGER is not set
    }

    fn abort(&mut self, fd: Fd) {
        let _ = self.calls.set_option(fd, Opt::Linger(Some(clock::Duration::ZERO)));
        let _ = self.calls.close(fd);
    }

    fn set(&mut self, fd: Fd, option: StreamOption) -> Result<(), Failure> {
        let set = |opt| self.calls.set_option(fd, opt).map_err(failure);
        match option {
            StreamOption::NoDelay(on) => set(Opt::NoDelay(on)),
            StreamOption::Buffers(bytes) => set(Opt::SendBuffer(bytes)).and_then(|()| set(Opt::RecvBuffer(bytes))),
            StreamOption::MaxSegment(mss) => set(Opt::MaxSegment(mss)),
            StreamOption::Tos(tos) => set(Opt::Tos(tos)),
            StreamOption::Congestion(name) => {
                let known = tcp::cc::Algorithm::ALL.into_iter().find(|known| known.name() == name.as_str());
                set(Opt::Congestion(known.ok_or(Failure::Invalid)?))
            }
        }
    }

    fn info(&self, fd: Fd) -> Option<StreamInfo> {
        let info = self.calls.tcp_info(fd).ok()?;
        let us = |time: clock::Duration| time.as_micros() as u64;
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

    fn poll(&mut self, ready: &mut Vec<Fd>, timeout: Duration) {
        let timeout = if self.starved.is_empty() { timeout } else { timeout.min(RETRY) };
        let HostStreams { host, calls, poller, around, reported, starved, notices } = self;
        let mut look = || {
            calls.set_now(host.clock.now());
            poller.ready(calls, READY, reported);
            reported.len()
        };
        match around {
            Some(Around { runner, programs, pairs }) => {
                let patience = programs.patience(|| host.clock.now(), timeout);
                let mut others = || look() + programs.turn(host);
                runner.round_with(host, pairs, &mut |text| notices.push(text), patience, &mut others);
                programs.report(&mut |line| notices.push(format!("{}: {line}", host.stack.name)));
            }
            None => _ = look(),
        }
        calls.set_now(host.clock.now());
        ready.extend(reported.drain(..).map(Fd));
        ready.append(starved);
    }
}

impl<L: Locks> std::fmt::Debug for HostStreams<'_, L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostStreams").field("host", &self.host).finish_non_exhaustive()
    }
}

pub(crate) fn failure(errno: Errno) -> Failure {
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
