//! Socket calls. Each call performs one operation of the stack (for datagrams, an operation of
//! `inet::udp`), and waits if the operation would block.

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

/// Sender address that is returned if there is no sender, such as after `shutdown`.
const NOBODY: Peer = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Address and L4 port of a peer.
pub type Peer = SocketAddr;

/// Result of [`Calls::recv_msg`]: a datagram copied into the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Number of bytes copied. The remaining bytes of a longer datagram are discarded.
    pub len: usize,
    /// Sender of the datagram.
    pub from: Peer,
    /// Ancillary data that the options of the socket request.
    pub ancillary: Ancillary,
}

impl Message {
    /// Returns the destination address of the datagram; unspecified unless
    /// [`Opt::RecvPacketInfo`](crate::Opt::RecvPacketInfo) is set.
    pub fn to(&self) -> IpAddr {
        self.ancillary.info.map_or(Ipv4Addr::UNSPECIFIED.into(), |info| info.addr)
    }
}

/// A host that the calling thread runs itself. A call that has to wait runs the host in the
/// meantime.
pub trait Drive {
    /// Runs one round of the host: input, timers, output. Waits until an event occurs, but not
    /// longer than `until`. Returns the time afterwards, or `None` if the call cannot wait any
    /// longer for the reason that [`Drive::refusal`] returns.
    fn drive(&self, until: Instant) -> Option<Instant>;

    /// Returns the error of a call that cannot wait: `EINTR` if the host is being stopped.
    fn refusal(&self) -> Errno {
        Errno::EINTR
    }

    /// Runs one round of the host without waiting. It is called once before a socket call starts to
    /// wait, since this round may already receive the data for which the call would wait. Returns
    /// the time of the round. This may be much later than the time of the previous round, if the
    /// caller did other work after it. On a host with virtual time, runs nothing and returns
    /// `None`.
    fn look(&self) -> Option<Instant> {
        None
    }
}

impl<D: Drive + ?Sized> Drive for &D {
    fn drive(&self, until: Instant) -> Option<Instant> {
        (**self).drive(until)
    }

    fn refusal(&self) -> Errno {
        (**self).refusal()
    }

    fn look(&self) -> Option<Instant> {
        (**self).look()
    }
}

/// The socket calls of one thread on one stack.
pub struct Calls<'s, L: Locks> {
    pub(crate) stack: &'s Stack<L>,
    cx: Cell<Cx>,
    pub(crate) driver: Option<&'s dyn Drive>,
}

impl<'s, L: Locks> Calls<'s, L> {
    /// Creates the socket calls of the current thread for a stack that other threads run. A call
    /// that has to wait sleeps.
    #[inline(always)]
    pub fn new(stack: &'s Stack<L>, cx: Cx) -> Self {
        Calls { stack, cx: Cell::new(cx), driver: None }
    }

    /// Creates the socket calls of the current thread for a stack that this thread runs itself. A
    /// call that has to wait runs `driver`.
    #[inline(always)]
    pub fn driving(stack: &'s Stack<L>, cx: Cx, driver: &'s dyn Drive) -> Self {
        Calls { stack, cx: Cell::new(cx), driver: Some(driver) }
    }

    /// Returns the current context: the running thread, and the current time of these calls.
    #[inline(always)]
    pub fn cx(&self) -> Cx {
        self.cx.get()
    }

    /// Advances the current time of these calls to `now`.
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
    /// echo requests whose identifier is the socket's port, and receives the replies to them. The
    /// caller writes each request with its ICMP header; the stack fills in identifier and checksum.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn icmp_socket(&self, domain: Domain) -> Result<Fd, Errno> {
        self.stack.raw_open(self.cx(), domain, RawKind::Icmp).map(Fd).ok_or(Errno::EMFILE)
    }

    /// Opens a raw socket: `socket(domain, SOCK_RAW, proto)`. It receives a copy of each packet of
    /// protocol `proto` that is addressed to this host (IPv4 packets with their header), and sends
    /// packets of this protocol. A socket of the protocol [`SEND_ONLY`](inet::raw::SEND_ONLY)
    /// receives none. All addresses have port 0.
    ///
    /// # Errors
    /// `EMFILE`, `EPROTONOSUPPORT` (protocol 0).
    pub fn raw_socket(&self, domain: Domain, proto: Proto) -> Result<Fd, Errno> {
        if proto == Proto(0) {
            return Err(Errno::EPROTONOSUPPORT);
        }
        self.stack.raw_open(self.cx(), domain, RawKind::Raw(proto)).map(Fd).ok_or(Errno::EMFILE)
    }

    /// Binds a socket to a local address (`bind`); port 0 selects a free port. Returns the bound
    /// address.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (bound already), `EADDRINUSE`, `EADDRNOTAVAIL`, `EAFNOSUPPORT`.
    pub fn bind(&self, fd: Fd, addr: SocketAddr) -> Result<SocketAddr, Errno> {
        if let Some(id) = fd.sock() {
            return Ok(self.stack.tcp_bind(self.cx(), id, addr)?);
        }
        Ok(self.stack.udp_bind(self.cx(), fd.0, addr)?)
    }

    /// Connects a stream, or sets the peer of a datagram socket (`connect`).
    ///
    /// # Errors
    /// `EBADF`, `EINVAL`, `EADDRINUSE`, `EACCES` (broadcast address), `ENETUNREACH`,
    /// `EAFNOSUPPORT`. For a stream also `ECONNREFUSED`, `ETIMEDOUT`, `EHOSTUNREACH`, and
    /// `EINPROGRESS` if the socket is non-blocking or its send timeout expires.
    #[inline(never)]
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

    /// Returns the local address and port (`getsockname`).
    ///
    /// # Errors
    /// `EBADF`.
    pub fn local_addr(&self, fd: Fd) -> Result<SocketAddr, Errno> {
        if let Some(id) = fd.sock() {
            return self.stream_local_addr(id);
        }
        self.stack.with_pcb(self.cx(), fd.0, |pcb| pcb.local_addr()).ok_or(Errno::EBADF)
    }

    /// Returns the address and port of the peer (`getpeername`).
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
    /// and the pending error of an earlier datagram. For a raw or ICMP socket also `EINVAL`, if it
    /// cannot send such a message.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn send_to(&self, fd: Fd, payload: &[u8], to: &SocketAddr) -> Result<usize, Errno> {
        let result = match self.stack.udp_send(self.cx(), fd.0, payload, Some(to)) {
            Ok(n) => Ok(n),
            Err(SendError::NoSocket) => Err(self.not_sent_to(fd)),
            Err(error) => Err(error.into()),
        };
        sent(fd, result)
    }

    /// Sends a datagram to `to`, or to the connected peer if `to` is `None` (`sendmsg`). The values
    /// in `ancillary` override the socket's options. With [`Ancillary::source`], a reply can be
    /// sent from the address to which the request was sent (RFC 1122 4.1.3.5).
    ///
    /// # Errors
    /// Those of [`Calls::send_to`]; `EADDRNOTAVAIL` if the source is not an address of this host,
    /// `ENODEV` if the iface does not exist, `EINVAL` for a time to live of 0 or if the iface
    /// differs from that of the link-local destination, `ENETUNREACH` if the route uses another
    /// iface.
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

    /// Returns the error of a `sendto` on a descriptor that is not a datagram socket: `EISCONN` or
    /// `ENOTCONN` for a stream, otherwise `EBADF`.
    #[cold]
    fn not_sent_to(&self, fd: Fd) -> Errno {
        let connected = |id| self.stack.with_sock(self.cx(), id, |sock| sock.is_connected());
        match fd.sock().and_then(connected) {
            Some(true) => Errno::EISCONN,
            Some(false) => Errno::ENOTCONN,
            None => Errno::EBADF,
        }
    }

    /// Returns the error `EOPNOTSUPP` if the descriptor is a stream socket.
    #[inline(always)]
    pub(crate) fn datagrams(&self, fd: Fd) -> Result<(), Errno> {
        if fd.is_stream() { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
    }

    /// Sends on a connected socket (`send`). A blocking stream sends all bytes; a non-blocking one
    /// sends as many as fit into its send buffer.
    ///
    /// # Errors
    /// Those of [`Calls::send_to`]; `EDESTADDRREQ` if the socket is not connected; for a stream
    /// `EAGAIN`, `EPIPE`, `ECONNRESET`, `ETIMEDOUT`.
    #[cfg_attr(not(debug_assertions), inline(always))]
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

    /// Sends on a connected socket with flags (`send`).
    ///
    /// # Errors
    /// Those of [`Calls::send`]; `EOPNOTSUPP` for urgent data on a datagram socket.
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

    /// Returns whether the next byte of a stream is the one that the peer marked as urgent
    /// (`sockatmark`). A read stops before this byte.
    ///
    /// # Errors
    /// `EBADF`, `EOPNOTSUPP` (a datagram socket).
    pub fn at_mark(&self, fd: Fd) -> Result<bool, Errno> {
        let id = fd.sock().ok_or(Errno::EOPNOTSUPP)?;
        self.stack.with_sock(self.cx(), id, |sock| sock.is_at_mark()).ok_or(Errno::EBADF)
    }

    /// Receives bytes from a stream, or a datagram without its sender (`recv`). From a stream, 0
    /// bytes mean that the peer has closed its side.
    ///
    /// # Errors
    /// Those of [`Calls::recv_from`]; for a stream also `ENOTCONN`, `ECONNRESET`, `ETIMEDOUT`.
    #[cfg_attr(not(debug_assertions), inline(always))]
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
    /// Those of [`Calls::send_to`], if no datagram was sent.
    pub fn send_burst<'a>(
        &self,
        fd: Fd,
        payloads: impl Iterator<Item = &'a [u8]>,
        to: Option<&SocketAddr>,
    ) -> Result<usize, Errno> {
        self.datagrams(fd)?;
        Ok(self.stack.udp_send_burst(self.cx(), fd.0, payloads, to)?)
    }

    /// Sends a datagram whose payload is already in a frame of the stack's pool, without copying
    /// it.
    ///
    /// # Errors
    /// Those of [`Calls::send_to`]. If the call fails, the frame is freed.
    pub fn send_frame(&self, fd: Fd, frame: Frame, to: Option<&SocketAddr>) -> Result<usize, Errno> {
        self.datagrams(fd)?;
        Ok(self.stack.udp_send_frame(self.cx(), fd.0, frame, to)?)
    }

    /// Receives a datagram into `into` (`recvfrom`). Returns the number of bytes copied, and the
    /// sender. The remaining bytes of a longer datagram are discarded.
    ///
    /// # Errors
    /// `EBADF`, `EAGAIN` (no datagram is queued, and the socket is non-blocking or its receive
    /// timeout has expired), `EINTR`, and the pending error of an earlier datagram. After
    /// `shutdown`, the call returns 0 bytes from `0.0.0.0:0` if no datagram is queued.
    #[cfg_attr(not(debug_assertions), inline(always))]
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

    /// Receives a datagram as [`Calls::recv_from`] does, with the ancillary data that the options
    /// of the socket enable ([`Opt::RecvPacketInfo`](crate::Opt), `RecvTtl`, `RecvTos`)
    /// (`recvmsg`). From a stream, or after `shutdown`, there is no ancillary data.
    ///
    /// # Errors
    /// Those of [`Calls::recv_from`].
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

    /// Receives a datagram, or bytes from a stream, with flags (`recvfrom`).
    ///
    /// # Errors
    /// Those of [`Calls::recv_from`].
    pub fn recv_from_flags(&self, fd: Fd, into: &mut [u8], flags: RecvFlags) -> Result<(usize, Peer), Errno> {
        if flags == RecvFlags::default() {
            return self.recv_from(fd, into);
        }
        self.stack.lap_at(self.cx(), || trace::recvfrom_start(fd.0, into.len()));
        self.recv_slow(fd, into, flags)
    }

    /// Slow path of a receive, used if no datagram was queued or flags are given: waits for a
    /// datagram. Records the end of the call in the trace and its CPU time in the cost statistics.
    #[cold]
    #[inline(never)]
    fn recv_slow(&self, fd: Fd, into: &mut [u8], flags: RecvFlags) -> Result<(usize, Peer), Errno> {
        let got = received(fd, self.recv_waiting(fd, into, flags), |(n, _)| *n);
        if !fd.is_stream() {
            // For a stream, the cost is recorded where its bytes are read.
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

    /// Receives a datagram in its frame, without copying it. Dropping the frame returns its buffer
    /// to the pool.
    ///
    /// # Errors
    /// Those of [`Calls::recv_from`]; `EPIPE` after `shutdown`.
    pub fn recv_frame(&self, fd: Fd) -> Result<Received, Errno> {
        self.datagrams(fd)?;
        self.stack.lap(self.cx());
        let received = self.wait(fd, RecvFlags::default(), || self.stack.udp_recv(self.cx(), fd.0));
        self.stack.resume(self.cx()).mark(Stage::Socket, 1);
        received
    }

    /// Receives up to `most` queued datagrams and passes each to `each` (`recvmmsg`). Waits only
    /// for the first one.
    ///
    /// # Errors
    /// Those of [`Calls::recv_from`], if no datagram was received.
    pub fn recv_burst(&self, fd: Fd, most: usize, mut each: impl FnMut(&[u8], Peer)) -> Result<usize, Errno> {
        self.datagrams(fd)?;
        self.stack.lap(self.cx());
        let mut burst = Burst::new();
        self.wait(fd, RecvFlags::default(), || match self.stack.udp_recv_burst(self.cx(), fd.0, most, &mut burst) {
            0 => None,
            _ => Some(()),
        })?;
        // Another thread may have filled the buffers, so their cache lines are not in this core's
        // cache. Prefetching loads them in parallel. The buffers are also returned to the pool
        // together.
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

    /// Calls `ready` until it returns a value. Waits between these attempts, unless `flags` or the
    /// options of the socket forbid it, and at most for the receive timeout.
    fn wait<T>(&self, fd: Fd, flags: RecvFlags, mut ready: impl FnMut() -> Option<T>) -> Result<T, Errno> {
        if let Some(found) = ready() {
            return Ok(found);
        }
        // Reads all three values under a single acquisition of the lock. Otherwise a reader that
        // polls an empty socket would keep out the thread that adds datagrams to it.
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
                let ended = || ended().or_else(|| self.stack.is_stopped().then_some(Errno::EINTR));
                let found = signal.wait_for(timeout, || ready().map(Ok).or_else(|| ended().map(Err)));
                self.stack.lap(self.cx()); // keeps the time asleep out of the cost statistics
                found.unwrap_or(Err(Errno::EAGAIN))
            }
        }
    }

    /// Runs one round before a wait and sets the time at which the timeout starts, since the caller
    /// may have worked for a long time since the last round.
    pub(crate) fn look(&self, driver: &dyn Drive) {
        if let Some(now) = driver.look() {
            self.set_now(now);
        }
    }

    pub(crate) fn wait_driving<T>(
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
            let now = driver.drive(until).ok_or_else(|| driver.refusal())?;
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

    /// Returns the pending error and clears it (`getsockopt(SO_ERROR)`).
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

    /// Shuts down one direction of a connection, or both (`shutdown`).
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

    /// Closes the socket (`close`). Unread datagrams are dropped. Data that a stream has sent is
    /// still delivered, unless `SO_LINGER` limits this.
    ///
    /// # Errors
    /// `EBADF`.
    #[inline(never)]
    pub fn close(&self, fd: Fd) -> Result<(), Errno> {
        if let Some(id) = fd.sock() {
            return self.stream_close(id);
        }
        if self.stack.udp_close(self.cx(), fd.0) { Ok(()) } else { Err(Errno::EBADF) }
    }
}

/// Returns the pending error and clears it. Without one, returns `EPIPE` if no further datagram can
/// arrive.
fn ended<L: Locks>(pcb: &mut Pcb<L>) -> Option<Errno> {
    match pcb.take_error() {
        Some(error) => Some(error.into()),
        None => (pcb.is_readable() && pcb.queued() == 0).then_some(Errno::EPIPE),
    }
}

/// Records the end of a send call in the trace.
#[cfg_attr(not(debug_assertions), inline(always))]
fn sent(fd: Fd, result: Result<usize, Errno>) -> Result<usize, Errno> {
    match result {
        Ok(n) => trace::sendto_done(fd.0, n as isize),
        Err(errno) => trace::sendto_done(fd.0, -(errno as isize)),
    }
    result
}

/// Records the end of a receive call in the trace; `bytes` returns the number of bytes received.
#[cfg_attr(not(debug_assertions), inline(always))]
fn received<T>(fd: Fd, result: Result<T, Errno>, bytes: impl Fn(&T) -> usize) -> Result<T, Errno> {
    match &result {
        Ok(got) => trace::recvfrom_done(fd.0, bytes(got) as isize),
        Err(errno) => trace::recvfrom_done(fd.0, -(*errno as isize)),
    }
    result
}

#[cfg_attr(not(debug_assertions), inline(always))]
fn copy_out(received: &Received, into: &mut [u8]) -> (usize, Peer) {
    let bytes = received.frame.bytes();
    let n = bytes.len().min(into.len());
    if let (Some(to), Some(from)) = (into.get_mut(..n), bytes.get(..n)) {
        to.copy_from_slice(from);
    }
    (n, received.from)
}
