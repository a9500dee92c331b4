//! The calls. Each maps to one operation of `inet::udp`; waiting is the only thing added.

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

/// The sender of nothing.
const NOBODY: Peer = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Who sent a datagram.
pub type Peer = SocketAddr;

/// A datagram that [`Calls::recv_msg`] has copied out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Bytes copied; the rest of a longer datagram is discarded.
    pub len: usize,
    /// Its sender.
    pub from: Peer,
    /// Ancillary data that the socket requests.
    pub ancillary: Ancillary,
}

impl Message {
    /// Returns the address to which it was sent; unspecified if the socket does not request it.
    pub fn to(&self) -> IpAddr {
        self.ancillary.info.map_or(Ipv4Addr::UNSPECIFIED.into(), |info| info.addr)
    }
}

/// A host that the calling thread runs itself: what a call does while it waits.
pub trait Drive {
    /// Runs the host: input, timers, output. Waits for something to happen, but not past `until`. Says what time it is
    /// after; `None` when the host has been told to stop.
    fn drive(&self, until: Instant) -> Option<Instant>;

    /// A round without waiting, before the first of those that wait: it may bring what the caller waits for, and what the
    /// caller has done since the last round is known after it. Says what time it was; `None`, and no round, where waiting
    /// costs no real time.
    fn look(&self) -> Option<Instant> {
        None
    }
}

/// The calls of one thread in one stack.
pub struct Calls<'s, L: Locks> {
    pub(crate) stack: &'s Stack<L>,
    cx: Cell<Cx>,
    pub(crate) driver: Option<&'s dyn Drive>,
}

impl<'s, L: Locks> Calls<'s, L> {
    /// Calls into a stack that other threads keep going: waiting sleeps.
    #[inline(always)]
    pub fn new(stack: &'s Stack<L>, cx: Cx) -> Self {
        Calls { stack, cx: Cell::new(cx), driver: None }
    }

    /// Calls into a stack that this thread keeps going: waiting runs it.
    #[inline(always)]
    pub fn driving(stack: &'s Stack<L>, cx: Cx, driver: &'s dyn Drive) -> Self {
        Calls { stack, cx: Cell::new(cx), driver: Some(driver) }
    }

    /// The context in force.
    #[inline(always)]
    pub fn cx(&self) -> Cx {
        self.cx.get()
    }

    /// Moves the calls to a later time.
    #[inline(always)]
    pub fn set_now(&self, now: Instant) {
        self.cx.set(self.cx.get().at(now));
    }

    /// The stack underneath.
    pub fn stack(&self) -> &'s Stack<L> {
        self.stack
    }

    /// `socket(AF_INET, SOCK_DGRAM, 0)`.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn socket(&self) -> Result<Fd, Errno> {
        self.socket_of(Domain::Inet)
    }

    /// `socket(domain, SOCK_DGRAM, 0)`. One of [`Domain::Inet6`] that is bound to `::` or to nothing takes datagrams of both
    /// families, unless [`Opt::V6Only`](crate::Opt::V6Only) is set.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn socket_of(&self, domain: Domain) -> Result<Fd, Errno> {
        self.stack.udp_open(self.cx(), domain).map(Fd).ok_or(Errno::EMFILE)
    }

    /// `socket(domain, SOCK_DGRAM, IPPROTO_ICMP or IPPROTO_ICMPV6)`: sends echo requests, whose identifier is its port, and
    /// receives the replies to them. A request is written with its header; identifier and checksum are filled in.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn icmp_socket(&self, domain: Domain) -> Result<Fd, Errno> {
        self.stack.raw_open(self.cx(), domain, RawKind::Icmp).map(Fd).ok_or(Errno::EMFILE)
    }

    /// `socket(domain, SOCK_RAW, proto)`: receives a copy of each packet of `proto` for this host, of IPv4 with its header, and
    /// sends packets of `proto`. One of [`SEND_ONLY`](inet::raw::SEND_ONLY) receives none. Addresses have port 0.
    ///
    /// # Errors
    /// `EMFILE`, `EPROTONOSUPPORT` (protocol 0).
    pub fn raw_socket(&self, domain: Domain, proto: Proto) -> Result<Fd, Errno> {
        if proto == Proto(0) {
            return Err(Errno::EPROTONOSUPPORT);
        }
        self.stack.raw_open(self.cx(), domain, RawKind::Raw(proto)).map(Fd).ok_or(Errno::EMFILE)
    }

    /// `bind`; port 0 picks one. Says where it is bound.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (bound already), `EADDRINUSE`, `EADDRNOTAVAIL`, `EAFNOSUPPORT`.
    pub fn bind(&self, fd: Fd, addr: SocketAddr) -> Result<SocketAddr, Errno> {
        if let Some(id) = fd.sock() {
            return Ok(self.stack.tcp_bind(self.cx(), id, addr)?);
        }
        Ok(self.stack.udp_bind(self.cx(), fd.0, addr)?)
    }

    /// `connect`.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL`, `EADDRINUSE`, `EACCES` (broadcast), `ENETUNREACH`, `EAFNOSUPPORT`; of a stream `ECONNREFUSED`,
    /// `ETIMEDOUT`, `EHOSTUNREACH`, and `EINPROGRESS` if it does not wait.
    pub fn connect(&self, fd: Fd, addr: SocketAddr) -> Result<(), Errno> {
        if let Some(id) = fd.sock() {
            return self.stream_connect(id, addr);
        }
        Ok(self.stack.udp_connect(self.cx(), fd.0, addr)?)
    }

    /// `connect` to `AF_UNSPEC`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTCONN`, `EOPNOTSUPP` (a stream).
    pub fn disconnect(&self, fd: Fd) -> Result<(), Errno> {
        self.datagrams(fd)?;
        Ok(self.stack.udp_disconnect(self.cx(), fd.0)?)
    }

    /// `getsockname`.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn local_addr(&self, fd: Fd) -> Result<SocketAddr, Errno> {
        if let Some(id) = fd.sock() {
            return self.stream_local_addr(id);
        }
        self.stack.with_pcb(self.cx(), fd.0, |pcb| pcb.local_addr()).ok_or(Errno::EBADF)
    }

    /// `getpeername`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTCONN`.
    pub fn peer_addr(&self, fd: Fd) -> Result<SocketAddr, Errno> {
        if let Some(id) = fd.sock() {
            return self.stream_peer_addr(id);
        }
        self.stack.with_pcb(self.cx(), fd.0, |pcb| pcb.peer_addr()).ok_or(Errno::EBADF)?.ok_or(Errno::ENOTCONN)
    }

    /// `sendto`.
    ///
    /// # Errors
    /// `EBADF`, `EISCONN`, `EMSGSIZE`, `ENOBUFS`, `EACCES`, `EPIPE`, `ENETUNREACH`, `EHOSTUNREACH`, and what an earlier
    /// datagram met; of a raw or ICMP socket `EINVAL` for a message that it cannot send.
    #[inline(always)]
    pub fn send_to(&self, fd: Fd, payload: &[u8], to: &SocketAddr) -> Result<usize, Errno> {
        let result = match self.stack.udp_send(self.cx(), fd.0, payload, Some(to)) {
            Ok(n) => Ok(n),
            Err(SendError::NoSocket) => Err(self.not_sent_to(fd)),
            Err(error) => Err(error.into()),
        };
        sent(fd, result)
    }

    /// `sendmsg`: sends to `to`, or to where the socket is connected, with `ancillary` in place of the socket's options. An
    /// answer leaves from the address that was asked (RFC 1122 4.1.3.5) with [`Ancillary::source`].
    ///
    /// # Errors
    /// As [`Calls::send_to`]; `EADDRNOTAVAIL` for a source that is not an address of this host, `ENODEV` for an unknown iface,
    /// `EINVAL` for a time to live of 0 and for an iface that is not that of the link-local destination, `ENETUNREACH` if
    /// the route leaves by another iface.
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

    /// Why `sendto` found no datagram socket: a stream has its peer already, or none.
    #[cold]
    fn not_sent_to(&self, fd: Fd) -> Errno {
        let connected = |id| self.stack.with_sock(self.cx(), id, |sock| sock.is_connected());
        match fd.sock().and_then(connected) {
            Some(true) => Errno::EISCONN,
            Some(false) => Errno::ENOTCONN,
            None => Errno::EBADF,
        }
    }

    /// `EOPNOTSUPP` for a stream.
    #[inline(always)]
    pub(crate) fn datagrams(&self, fd: Fd) -> Result<(), Errno> {
        if fd.is_stream() { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
    }

    /// `send` on a connected socket. A stream that may wait takes all of it, one that may not as much as there is room for.
    ///
    /// # Errors
    /// As [`Calls::send_to`]; `EDESTADDRREQ` when not connected; of a stream `EAGAIN`, `EPIPE`, `ECONNRESET`, `ETIMEDOUT`.
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

    /// `send` with flags.
    ///
    /// # Errors
    /// As [`Calls::send`]; `EOPNOTSUPP`: urgent datagrams.
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

    /// `sockatmark`: is the next byte of a stream the one that its peer called urgent? A read stops there.
    ///
    /// # Errors
    /// `EBADF`, `EOPNOTSUPP` (a datagram socket).
    pub fn at_mark(&self, fd: Fd) -> Result<bool, Errno> {
        let id = fd.sock().ok_or(Errno::EOPNOTSUPP)?;
        self.stack.with_sock(self.cx(), id, |sock| sock.is_at_mark()).ok_or(Errno::EBADF)
    }

    /// `recv`: bytes of a stream, or a datagram whose sender nobody asks for. 0 bytes of a stream: the peer has sent all.
    ///
    /// # Errors
    /// As [`Calls::recv_from`]; of a stream `ENOTCONN`, `ECONNRESET`, `ETIMEDOUT`.
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

    /// Sends several datagrams at once (`sendmmsg`); says how many were sent.
    ///
    /// # Errors
    /// As [`Calls::send_to`], if not even the first was sent.
    pub fn send_burst<'a>(
        &self,
        fd: Fd,
        payloads: impl Iterator<Item = &'a [u8]>,
        to: Option<&SocketAddr>,
    ) -> Result<usize, Errno> {
        self.datagrams(fd)?;
        Ok(self.stack.udp_send_burst(self.cx(), fd.0, payloads, to)?)
    }

    /// Sends a payload that is in a frame of the stack's pool already: no copy.
    ///
    /// # Errors
    /// As [`Calls::send_to`]; the frame is gone then.
    pub fn send_frame(&self, fd: Fd, frame: Frame, to: Option<&SocketAddr>) -> Result<usize, Errno> {
        self.datagrams(fd)?;
        Ok(self.stack.udp_send_frame(self.cx(), fd.0, frame, to)?)
    }

    /// `recvfrom` into `into`: bytes copied, and who sent them. What does not fit is cut off.
    ///
    /// # Errors
    /// `EBADF`, `EAGAIN` (nothing there and no waiting, or waited long enough), `EINTR`, and what an earlier datagram met.
    /// After `shutdown` an empty queue reads as 0 bytes from `0.0.0.0:0`.
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

    /// `recvmsg`: as [`Calls::recv_from`], with the ancillary data that the socket requests ([`Opt::RecvPacketInfo`](crate::Opt),
    /// `RecvTtl`, `RecvTos`); none of a stream, or after `shutdown`.
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

    /// `recvfrom` with flags.
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

    /// The rest of a call that found no datagram, or that has flags: with waiting, and with its end
    /// in trace and ledger.
    #[cold]
    fn recv_slow(&self, fd: Fd, into: &mut [u8], flags: RecvFlags) -> Result<(usize, Peer), Errno> {
        let got = received(fd, self.recv_waiting(fd, into, flags), |(n, _)| *n);
        if !fd.is_stream() {
            // A stream's call is booked where it is read.
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

    /// Receives the frame itself: no copy. Dropping it returns its buffer.
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

    /// Receives up to `most` datagrams that are there now (`recvmmsg`), handing each to `each`; waits for the first.
    ///
    /// # Errors
    /// As [`Calls::recv_from`], if there was none.
    pub fn recv_burst(&self, fd: Fd, most: usize, mut each: impl FnMut(&[u8], Peer)) -> Result<usize, Errno> {
        self.datagrams(fd)?;
        self.stack.lap(self.cx());
        let mut burst = Burst::new();
        self.wait(fd, RecvFlags::default(), || match self.stack.udp_recv_burst(self.cx(), fd.0, most, &mut burst) {
            0 => None,
            _ => Some(()),
        })?;
        // Where another thread filled them, the lines come over together; and the buffers go home together.
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

    /// Asks `ready` until it gives something, waiting as the socket's options say.
    fn wait<T>(&self, fd: Fd, flags: RecvFlags, mut ready: impl FnMut() -> Option<T>) -> Result<T, Errno> {
        if let Some(found) = ready() {
            return Ok(found);
        }
        // One lock for all three questions: who spins on an empty socket would keep out whoever fills it.
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
                self.stack.lap(self.cx()); // sleep is in no stage
                found.unwrap_or(Err(Errno::EAGAIN))
            }
        }
    }

    /// A round before a wait, which is counted from then on: what was done since the last may have taken long.
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

    /// `getsockopt(SO_ERROR)`: takes the error that waits.
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

    /// `shutdown`.
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

    /// `close`: datagrams that were not read are dropped; a stream's peer gets what was sent, as `SO_LINGER` says.
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

/// Why nothing will come any more, or the error that waits (which is taken).
fn ended<L: Locks>(pcb: &mut Pcb<L>) -> Option<Errno> {
    match pcb.take_error() {
        Some(error) => Some(error.into()),
        None => (pcb.is_readable() && pcb.queued() == 0).then_some(Errno::EPIPE),
    }
}

/// The end of a send, for traces.
#[inline(always)]
fn sent(fd: Fd, result: Result<usize, Errno>) -> Result<usize, Errno> {
    match result {
        Ok(n) => trace::sendto_done(fd.0, n as isize),
        Err(errno) => trace::sendto_done(fd.0, -(errno as isize)),
    }
    result
}

/// The end of a receive, for traces; `bytes`: how many were received.
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
