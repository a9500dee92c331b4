//! Socket calls. Each maps to one operation of `inet::udp`; only waiting is added here.

use crate::{Errno, Fd, RecvFlags, SendFlags};
use buf::{Burst, Frame};
use clock::{Duration, Instant};
use inet::Stack;
use inet::raw::RawKind;
use inet::udp::{Ancillary, Domain, Pcb, Read, Received, SendError, sender};
use lock::{Cx, Locks};
use stats::{Stage, trace};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use wire::Proto;

/// Sender reported when there is none.
const NOBODY: Peer = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Address of a datagram's sender.
pub type Peer = SocketAddr;

/// Datagram copied out by [`Calls::recv_msg`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Bytes copied; the rest of a longer datagram is discarded.
    pub len: usize,
    /// Sender of the datagram.
    pub from: Peer,
    /// Ancillary data that the socket requests.
    pub ancillary: Ancillary,
}

impl Message {
    /// Returns the destination address; unspecified unless the socket requests packet information.
    pub fn to(&self) -> IpAddr {
        self.ancillary.info.map_or(Ipv4Addr::UNSPECIFIED.into(), |info| info.addr)
    }
}

/// Host that the calling thread runs itself. A call runs the host while it waits.
pub trait Drive {
    /// Runs the host: input, timers, output. Waits until something happens, but not past `until`.
    /// Returns the time afterwards, or `None` if the host is being stopped.
    fn drive(&self, until: Instant) -> Option<Instant>;

    /// Runs one round without waiting, before the rounds that wait. It may bring what the caller
    /// waits for, and it updates the time after the caller's own work. Returns the time of the
    /// round; `None`, without a round, where waiting costs no real time.
    fn look(&self) -> Option<Instant> {
        None
    }
}

/// Socket calls of one thread in one stack.
pub struct Calls<'s, L: Locks> {
    pub(crate) stack: &'s Stack<L>,
    cx: Cell<Cx>,
    pub(crate) driver: Option<&'s dyn Drive>,
}

impl<'s, L: Locks> Calls<'s, L> {
    /// Creates calls into a stack that other threads run: waiting sleeps.
    #[inline(always)]
    pub fn new(stack: &'s Stack<L>, cx: Cx) -> Self {
        Calls { stack, cx: Cell::new(cx), driver: None }
    }

    /// Creates calls into a stack that this thread runs: waiting runs it.
    #[inline(always)]
    pub fn driving(stack: &'s Stack<L>, cx: Cx, driver: &'s dyn Drive) -> Self {
        Calls { stack, cx: Cell::new(cx), driver: Some(driver) }
    }

    /// Returns the current context.
    #[inline(always)]
    pub fn cx(&self) -> Cx {
        self.cx.get()
    }

    /// Advances the time of the calls to `now`.
    #[inline(always)]
    pub fn set_now(&self, now: Instant) {
        self.cx.set(self.cx.get().at(now));
    }

    /// Returns the stack on which the calls operate.
    pub fn stack(&self) -> &'s Stack<L> {
        self.stack
    }

    /// Opens an IPv4 datagram socket: `socket(AF_INET, SOCK_DGRAM, 0)`.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn socket(&self) -> Result<Fd, Errno> {
        self.socket_of(Domain::Inet)
    }

    /// Opens a datagram socket: `socket(domain, SOCK_DGRAM, 0)`. A socket of [`Domain::Inet6`] that
    /// is unbound or bound to `::` receives datagrams of both families, unless
    /// [`Opt::V6Only`](crate::Opt::V6Only) is set.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn socket_of(&self, domain: Domain) -> Result<Fd, Errno> {
        self.stack.udp_open(self.cx(), domain).map(Fd).ok_or(Errno::EMFILE)
    }

    /// Opens an ICMP socket: `socket(domain, SOCK_DGRAM, IPPROTO_ICMP or IPPROTO_ICMPV6)`. It sends
    /// echo requests, with its port as identifier, and receives the replies. A request is written
    /// with its header; identifier and checksum are filled in.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn icmp_socket(&self, domain: Domain) -> Result<Fd, Errno> {
        self.stack.raw_open(self.cx(), domain, RawKind::Icmp).map(Fd).ok_or(Errno::EMFILE)
    }

    /// Opens a raw socket: `socket(domain, SOCK_RAW, proto)`. It receives a copy of each packet of
    /// `proto` for this host (IPv4 packets with their header) and sends packets of `proto`. One of
    /// [`SEND_ONLY`](inet::raw::SEND_ONLY) receives none. Addresses have port 0.
    ///
    /// # Errors
    /// `EMFILE`, `EPROTONOSUPPORT` (protocol 0).
    pub fn raw_socket(&self, domain: Domain, proto: Proto) -> Result<Fd, Errno> {
        if proto == Proto(0) {
            return Err(Errno::EPROTONOSUPPORT);
        }
        self.stack.raw_open(self.cx(), domain, RawKind::Raw(proto)).map(Fd).ok_or(Errno::EMFILE)
    }

    /// Binds to an address (`bind`); port 0 selects a free port. Returns the bound address.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (bound already), `EADDRINUSE`, `EADDRNOTAVAIL`, `EAFNOSUPPORT`.
    pub fn bind(&self, fd: Fd, addr: SocketAddr) -> Result<SocketAddr, Errno> {
        if let Some(id) = fd.sock() {
            return Ok(self.stack.tcp_bind(self.cx(), id, addr)?);
        }
        Ok(self.stack.udp_bind(self.cx(), fd.0, addr)?)
    }

    /// Connects to an address (`connect`).
    ///
    /// # Errors
    /// `EBADF`, `EINVAL`, `EADDRINUSE`, `EACCES` (broadcast), `ENETUNREACH`, `EAFNOSUPPORT`; for a
    /// stream `ECONNREFUSED`, `ETIMEDOUT`, `EHOSTUNREACH`, and `EINPROGRESS` if it is non-blocking
    /// or its send timeout expires.
    pub fn connect(&self, fd: Fd, addr: SocketAddr) -> Result<(), Errno> {
        if let Some(id) = fd.sock() {
            return self.stream_connect(id, addr);
        }
        Ok(self.stack.udp_connect(self.cx(), fd.0, addr)?)
    }

    /// Removes the peer of a datagram socket (`connect` to `AF_UNSPEC`).
    ///
    /// # Errors
    /// `EBADF`, `ENOTCONN`, `EOPNOTSUPP` (a stream).
    pub fn disconnect(&self, fd: Fd) -> Result<(), Errno> {
        self.datagrams(fd)?;
        Ok(self.stack.udp_disconnect(self.cx(), fd.0)?)
    }

    /// Returns the local address (`getsockname`).
    ///
    /// # Errors
    /// `EBADF`.
    pub fn local_addr(&self, fd: Fd) -> Result<SocketAddr, Errno> {
        if let Some(id) = fd.sock() {
            return self.stream_local_addr(id);
        }
        self.stack.with_pcb(self.cx(), fd.0, |pcb| pcb.local_addr()).ok_or(Errno::EBADF)
    }

    /// Returns the peer's address (`getpeername`).
    ///
    /// # Errors
    /// `EBADF`, `ENOTCONN`.
    pub fn peer_addr(&self, fd: Fd) -> Result<SocketAddr, Errno> {
        if let Some(id) = fd.sock() {
            return self.stream_peer_addr(id);
        }
        self.stack.with_pcb(self.cx(), fd.0, |pcb| pcb.peer_addr()).ok_or(Errno::EBADF)?.ok_or(Errno::ENOTCONN)
    }

    /// Sends a datagram to an address (`sendto`).
    ///
    /// # Errors
    /// `EBADF`, `EISCONN`, `EMSGSIZE`, `ENOBUFS`, `EACCES`, `EPIPE`, `ENETUNREACH`, `EHOSTUNREACH`,
    /// and the error reported for an earlier datagram; for a raw or ICMP socket `EINVAL` for a
    /// message that it cannot send.
    #[inline(always)]
    pub fn send_to(&self, fd: Fd, payload: &[u8], to: &SocketAddr) -> Result<usize, Errno> {
        let result = match self.stack.udp_send(self.cx(), fd.0, payload, Some(to)) {
            Ok(n) => Ok(n),
            Err(SendError::NoSocket) => Err(self.not_sent_to(fd)),
            Err(error) => Err(error.into()),
        };
        sent(fd, result)
    }

    /// Sends to `to`, or to the connected peer, with `ancillary` overriding the socket's options
    /// (`sendmsg`). With [`Ancillary::source`], a reply leaves from the address to which the
    /// request was sent (RFC 1122 4.1.3.5).
    ///
    /// # Errors
    /// As [`Calls::send_to`]; `EADDRNOTAVAIL` for a source that is not an address of this host,
    /// `ENODEV` for an unknown iface, `EINVAL` for a time to live of 0 and for an iface other than
    /// that of the link-local destination, `ENETUNREACH` if the route uses another iface.
    pub fn send_msg(
        &self,
        fd: Fd,
        payload: &[u8],
        to: Option<&SocketAddr>,
        ancillary: &Ancillary,
    ) -> Result<usize, Errno> {
        let result = match self.stack.udp_send_msg(self.cx(), fd.0, payload, to, ancillary) {
            Ok(n) => Ok(n),
            Err(SendError::NoSocket) => Err(self.not_sent_to(fd)),
            Err(error) => Err(error.into()),
        };
        sent(fd, result)
    }

    /// Returns the error of a `sendto` that found no datagram socket: `EISCONN` or `ENOTCONN` for a
    /// stream, otherwise `EBADF`.
    #[cold]
    fn not_sent_to(&self, fd: Fd) -> Errno {
        let connected = |id| self.stack.with_sock(self.cx(), id, |sock| sock.is_connected());
        match fd.sock().and_then(connected) {
            Some(true) => Errno::EISCONN,
            Some(false) => Errno::ENOTCONN,
            None => Errno::EBADF,
        }
    }

    /// Fails with `EOPNOTSUPP` for a stream.
    #[inline(always)]
    pub(crate) fn datagrams(&self, fd: Fd) -> Result<(), Errno> {
        if fd.is_stream() { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
    }

    /// Sends on a connected socket (`send`). A blocking stream sends everything, a non-blocking one
    /// as much as fits into its buffer.
    ///
    /// # Errors
    /// As [`Calls::send_to`]; `EDESTADDRREQ` when not connected; for a stream `EAGAIN`, `EPIPE`,
    /// `ECONNRESET`, `ETIMEDOUT`.
    #[inline(always)]
    pub fn send(&self, fd: Fd, payload: &[u8]) -> Result<usize, Errno> {
        let result = match fd.sock() {
            None => self.stack.udp_send(self.cx(), fd.0, payload, None).map_err(Errno::from),
            Some(id) => {
                trace::sendto_start(fd.0, payload.len());
                self.stream_send(id, payload, SendFlags::default())
            }
        };
        sent(fd, result)
    }

    /// Sends on a connected socket with flags.
    ///
    /// # Errors
    /// As [`Calls::send`]; `EOPNOTSUPP` for urgent data on a datagram socket.
    pub fn send_flags(&self, fd: Fd, payload: &[u8], flags: SendFlags) -> Result<usize, Errno> {
        match fd.sock() {
            None if flags.oob => Err(Errno::EOPNOTSUPP),
            None => self.send(fd, payload),
            Some(id) => {
                trace::sendto_start(fd.0, payload.len());
                sent(fd, self.stream_send(id, payload, flags))
            }
        }
    }

    /// Returns whether the next byte of a stream is the one marked urgent (`sockatmark`). A read
    /// stops there.
    ///
    /// # Errors
    /// `EBADF`, `EOPNOTSUPP` (a datagram socket).
    pub fn at_mark(&self, fd: Fd) -> Result<bool, Errno> {
        let id = fd.sock().ok_or(Errno::EOPNOTSUPP)?;
        self.stack.with_sock(self.cx(), id, |sock| sock.is_at_mark()).ok_or(Errno::EBADF)
    }

    /// Receives bytes of a stream, or a datagram without its sender (`recv`). 0 bytes from a
    /// stream: the peer has sent everything.
    ///
    /// # Errors
    /// As [`Calls::recv_from`]; for a stream `ENOTCONN`, `ECONNRESET`, `ETIMEDOUT`.
    #[inline(always)]
    pub fn recv(&self, fd: Fd, into: &mut [u8]) -> Result<usize, Errno> {
        match fd.sock() {
            None => self.recv_from(fd, into).map(|(n, _)| n),
            Some(id) => {
                trace::recvfrom_start(fd.0, into.len());
                received(fd, self.stream_recv(id, into, RecvFlags::default()), |n| *n)
            }
        }
    }

    /// Sends several datagrams at once (`sendmmsg`). Returns the number sent.
    ///
    /// # Errors
    /// As [`Calls::send_to`], if none was sent.
    pub fn send_burst<'a>(
        &self,
        fd: Fd,
        payloads: impl Iterator<Item = &'a [u8]>,
        to: Option<&SocketAddr>,
    ) -> Result<usize, Errno> {
        self.datagrams(fd)?;
        Ok(self.stack.udp_send_burst(self.cx(), fd.0, payloads, to)?)
    }

    /// Sends a payload that is already in a frame of the stack's pool, without a copy.
    ///
    /// # Errors
    /// As [`Calls::send_to`]. An error frees the frame.
    pub fn send_frame(&self, fd: Fd, frame: Frame, to: Option<&SocketAddr>) -> Result<usize, Errno> {
        self.datagrams(fd)?;
        Ok(self.stack.udp_send_frame(self.cx(), fd.0, frame, to)?)
    }

    /// Receives a datagram into `into` (`recvfrom`). Returns the bytes copied and the sender;
    /// excess bytes are discarded.
    ///
    /// # Errors
    /// `EBADF`, `EAGAIN` (no datagram, and the socket is non-blocking or its receive timeout has
    /// expired), `EINTR`, and the error reported for an earlier datagram. After `shutdown` an empty
    /// queue reads as 0 bytes from `0.0.0.0:0`.
    #[inline(always)]
    pub fn recv_from(&self, fd: Fd, into: &mut [u8]) -> Result<(usize, Peer), Errno> {
        let lap = self.stack.lap_at(self.cx(), || trace::recvfrom_start(fd.0, into.len()));
        match self.stack.udp_recv_into(self.cx(), fd.0, into) {
            Read::Datagram { copied, from } => {
                lap.mark_at(Stage::Socket, 1, || trace::recvfrom_done(fd.0, copied as isize));
                Ok((copied, from.into()))
            }
            Read::Nothing => {
                lap.mark_at(Stage::Socket, 1, || trace::recvfrom_done(fd.0, -(Errno::EAGAIN as isize)));
                Err(Errno::EAGAIN)
            }
            Read::Other => self.recv_slow(fd, into, RecvFlags::default()),
        }
    }

    /// Receives as [`Calls::recv_from`], with the ancillary data that the socket has enabled
    /// ([`Opt::RecvPacketInfo`](crate::Opt), `RecvTtl`, `RecvTos`); none from a stream, or after
    /// `shutdown` (`recvmsg`).
    ///
    /// # Errors
    /// As [`Calls::recv_from`].
    pub fn recv_msg(&self, fd: Fd, into: &mut [u8]) -> Result<Message, Errno> {
        let bare = |(len, from)| Message { len, from, ancillary: Ancillary::default() };
        if fd.is_stream() {
            return self.recv_from(fd, into).map(bare);
        }
        self.stack.lap_at(self.cx(), || trace::recvfrom_start(fd.0, into.len()));
        let got = match self.wait(fd, RecvFlags::default(), || self.stack.udp_recv(self.cx(), fd.0)) {
            Ok(got) => {
                let (len, from) = copy_out(&got, into);
                Ok(Message { len, from, ancillary: got.ancillary() })
            }
            Err(Errno::EPIPE) => Ok(bare((0, NOBODY))),
            Err(error) => Err(error),
        };
        let got = received(fd, got, |message| message.len);
        self.stack.resume(self.cx()).mark(Stage::Socket, 1);
        got
    }

    /// Receives a datagram or bytes of a stream with flags (`recvfrom`).
    ///
    /// # Errors
    /// As [`Calls::recv_from`].
    pub fn recv_from_flags(&self, fd: Fd, into: &mut [u8], flags: RecvFlags) -> Result<(usize, Peer), Errno> {
        if flags == RecvFlags::default() {
            return self.recv_from(fd, into);
        }
        self.stack.lap_at(self.cx(), || trace::recvfrom_start(fd.0, into.len()));
        self.recv_slow(fd, into, flags)
    }

    /// Slow path of a receive that found no datagram or has flags: waits, and records the end of
    /// the call in the trace and the cost ledger.
    #[cold]
    fn recv_slow(&self, fd: Fd, into: &mut [u8], flags: RecvFlags) -> Result<(usize, Peer), Errno> {
        let got = received(fd, self.recv_waiting(fd, into, flags), |(n, _)| *n);
        if !fd.is_stream() {
            // A stream's call is recorded where it is read.
            self.stack.resume(self.cx()).mark(Stage::Socket, 1);
        }
        got
    }

    fn recv_waiting(&self, fd: Fd, into: &mut [u8], flags: RecvFlags) -> Result<(usize, Peer), Errno> {
        if let Some(id) = fd.sock() {
            let n = self.stream_recv(id, into, flags)?;
            return Ok((n, self.stream_peer_addr(id).unwrap_or(NOBODY)));
        }
        if flags.peek {
            let (n, whole, from) = self.wait(fd, flags, || self.stack.udp_peek(self.cx(), fd.0, into))?;
            return Ok((if flags.trunc { whole } else { n }, from));
        }
        match self.wait(fd, flags, || self.stack.udp_recv(self.cx(), fd.0)) {
            Ok(received) => {
                let whole = received.frame.len();
                let (n, from) = copy_out(&received, into);
                Ok((if flags.trunc { whole } else { n }, from))
            }
            Err(Errno::EPIPE) => Ok((0, NOBODY)),
            Err(error) => Err(error),
        }
    }

    /// Receives the frame itself, without a copy. Dropping it returns its buffer.
    ///
    /// # Errors
    /// As [`Calls::recv_from`]; `EPIPE` after `shutdown`.
    pub fn recv_frame(&self, fd: Fd) -> Result<Received, Errno> {
        self.datagrams(fd)?;
        self.stack.lap(self.cx());
        let received = self.wait(fd, RecvFlags::default(), || self.stack.udp_recv(self.cx(), fd.0));
        self.stack.resume(self.cx()).mark(Stage::Socket, 1);
        received
    }

    /// Receives up to `most` available datagrams and passes each to `each` (`recvmmsg`); waits for
    /// the first.
    ///
    /// # Errors
    /// As [`Calls::recv_from`], if none was received.
    pub fn recv_burst(&self, fd: Fd, most: usize, mut each: impl FnMut(&[u8], Peer)) -> Result<usize, Errno> {
        self.datagrams(fd)?;
        self.stack.lap(self.cx());
        let mut burst = Burst::new();
        self.wait(fd, RecvFlags::default(), || match self.stack.udp_recv_burst(self.cx(), fd.0, most, &mut burst) {
            0 => None,
            _ => Some(()),
        })?;
        // If another thread filled the buffers, prefetching fetches their cache lines together. The
        // buffers are also returned together.
        burst.as_slice().iter().for_each(Frame::prefetch);
        let domain = self.stack.with_pcb(self.cx(), fd.0, |pcb| pcb.domain()).ok_or(Errno::EBADF)?;
        for frame in burst.as_slice() {
            if let Some(from) = sender(frame, domain) {
                each(frame.bytes(), from.into());
            }
        }
        let n = burst.len();
        drop(burst);
        self.stack.resume(self.cx()).mark(Stage::Socket, 1);
        Ok(n)
    }

    /// Calls `ready` until it returns a value, waiting as the socket's options require.
    fn wait<T>(&self, fd: Fd, flags: RecvFlags, mut ready: impl FnMut() -> Option<T>) -> Result<T, Errno> {
        if let Some(found) = ready() {
            return Ok(found);
        }
        // Acquires the lock once for all three values: a reader that polls an empty socket would
        // otherwise keep out the thread that fills it.
        let (nonblocking, timeout, error) = self
            .stack
            .with_pcb(self.cx(), fd.0, |pcb| (pcb.nonblocking, pcb.options.recv_timeout, ended(pcb)))
            .ok_or(Errno::EBADF)?;
        if let Some(error) = error {
            return Err(error);
        }
        if nonblocking || flags.dont_wait {
            return Err(Errno::EAGAIN);
        }
        let ended = || self.stack.with_pcb(self.cx(), fd.0, ended)?;
        match self.driver {
            Some(driver) => self.wait_driving(driver, timeout, ready, ended),
            None => {
                let signal = self.stack.with_pcb(self.cx(), fd.0, |pcb| pcb.signal()).ok_or(Errno::EBADF)?;
                let found = signal.wait_for(timeout, || ready().map(Ok).or_else(|| ended().map(Err)));
                self.stack.lap(self.cx()); // sleep belongs to no stage
                found.unwrap_or(Err(Errno::EAGAIN))
            }
        }
    }

    /// Runs one round before a wait and sets the time from which the timeout counts, since the
    /// caller's work since the last round may have taken long.
    pub(crate) fn look(&self, driver: &dyn Drive) {
        if let Some(now) = driver.look() {
            self.set_now(now);
        }
    }

    fn wait_driving<T>(
        &self,
        driver: &dyn Drive,
        timeout: Option<Duration>,
        mut ready: impl FnMut() -> Option<T>,
        ended: impl Fn() -> Option<Errno>,
    ) -> Result<T, Errno> {
        self.look(driver);
        let until = timeout.map_or(Instant::NEVER, |timeout| self.cx().now.after(timeout));
        if let Some(found) = ready() {
            return Ok(found);
        }
        loop {
            let now = driver.drive(until).ok_or(Errno::EINTR)?;
            self.set_now(now);
            if let Some(found) = ready() {
                return Ok(found);
            }
            if let Some(error) = ended() {
                return Err(error);
            }
            if now >= until {
                return Err(Errno::EAGAIN);
            }
        }
    }

    /// Takes the pending error (`getsockopt(SO_ERROR)`).
    ///
    /// # Errors
    /// `EBADF`.
    pub fn take_error(&self, fd: Fd) -> Result<Option<Errno>, Errno> {
        if let Some(id) = fd.sock() {
            let taken = self.stack.with_sock(self.cx(), id, |sock| sock.take_error());
            return Ok(taken.ok_or(Errno::EBADF)?.map(Errno::from));
        }
        let taken = self.stack.with_pcb(self.cx(), fd.0, |pcb| pcb.take_error());
        Ok(taken.ok_or(Errno::EBADF)?.map(Errno::from))
    }

    /// Shuts down one or both directions (`shutdown`).
    ///
    /// # Errors
    /// `EBADF`, `ENOTCONN`.
    pub fn shutdown(&self, fd: Fd, how: std::net::Shutdown) -> Result<(), Errno> {
        use std::net::Shutdown::{Both, Read, Write};
        if let Some(id) = fd.sock() {
            return self.stream_shutdown(id, how);
        }
        self.peer_addr(fd)?;
        let (read, write) = (matches!(how, Read | Both), matches!(how, Write | Both));
        Ok(self.stack.udp_shutdown(self.cx(), fd.0, read, write)?)
    }

    /// Closes the socket (`close`). Unread datagrams are dropped; a stream's sent data is still
    /// delivered, depending on `SO_LINGER`.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn close(&self, fd: Fd) -> Result<(), Errno> {
        if let Some(id) = fd.sock() {
            return self.stream_close(id);
        }
        if self.stack.udp_close(self.cx(), fd.0) { Ok(()) } else { Err(Errno::EBADF) }
    }
}

/// Returns the pending error, which is taken, or `EPIPE` if nothing more can arrive.
fn ended<L: Locks>(pcb: &mut Pcb<L>) -> Option<Errno> {
    match pcb.take_error() {
        Some(error) => Some(error.into()),
        None => (pcb.is_readable() && pcb.queued() == 0).then_some(Errno::EPIPE),
    }
}

/// Traces the end of a send.
#[inline(always)]
fn sent(fd: Fd, result: Result<usize, Errno>) -> Result<usize, Errno> {
    match result {
        Ok(n) => trace::sendto_done(fd.0, n as isize),
        Err(errno) => trace::sendto_done(fd.0, -(errno as isize)),
    }
    result
}

/// Traces the end of a receive; `bytes` returns the number of bytes received.
#[inline(always)]
fn received<T>(fd: Fd, result: Result<T, Errno>, bytes: impl Fn(&T) -> usize) -> Result<T, Errno> {
    match &result {
        Ok(got) => trace::recvfrom_done(fd.0, bytes(got) as isize),
        Err(errno) => trace::recvfrom_done(fd.0, -(*errno as isize)),
    }
    result
}

#[inline(always)]
fn copy_out(received: &Received, into: &mut [u8]) -> (usize, Peer) {
    let bytes = received.frame.bytes();
    let n = bytes.len().min(into.len());
    if let (Some(to), Some(from)) = (into.get_mut(..n), bytes.get(..n)) {
        to.copy_from_slice(from);
    }
    (n, received.from)
}
