//! Socket calls on a descriptor, with arguments as Linux's C interface encodes them. Calls that
//! would block in the kernel block in [`Door::wait`].

mod chunks;
pub(crate) mod ready;
mod splice;

use crate::Errno;
use crate::addr::{self, Name};
use crate::door::{Chance, Door, State};
use crate::files::{File, Socket};
use crate::host;
use clock::{Duration, Instant};
use inet::tcp::SOCK_BIT;
use libc::{c_int, c_ulong};
use socket::{Opt, OptKind, RecvFlags};
use std::net::{Shutdown, SocketAddr};

pub(crate) type Done<T> = Result<T, Errno>;

/// Result of a receive call.
#[derive(Default)]
pub(crate) struct Received {
    pub bytes: Vec<u8>,
    /// Length returned to the caller. It is greater than the length of `bytes` if `MSG_TRUNC` has
    /// discarded data.
    pub len: usize,
    /// Address of the datagram's sender as a `struct sockaddr`; `None` for stream data.
    pub from: Option<Vec<u8>>,
    /// Control messages for `recvmsg`.
    pub control: Vec<Vec<u8>>,
    /// Flags returned by `recvmsg`.
    pub flags: c_int,
    /// True if the call continues until the buffer is full (`MSG_WAITALL`).
    fills: bool,
}

/// Requests of `ioctl` that exist in Linux only.
const SIOCOUTQNSD: c_ulong = 0x894b;
const SIOCATMARK: c_ulong = 0x8905;

const TCP_CM_INQ: c_int = 36;

/// Builds a control message: `struct cmsghdr` and data.
fn control(level: c_int, kind: c_int, says: &[u8]) -> Vec<u8> {
    let len = size_of::<libc::cmsghdr>() + says.len();
    let mut out = [&len.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes(), says].concat();
    out.resize(len.next_multiple_of(size_of::<usize>()), 0);
    out
}

fn raw(errno: socket::Errno) -> Errno {
    errno.raw()
}

/// Returns the deadline of a call with this timeout; `None` means no timeout.
fn deadline(now: Instant, timeout: Option<Duration>) -> Instant {
    timeout.map_or(Instant::NEVER, |timeout| now.after(timeout))
}

impl State {
    fn timeout(&self, token: c_int, kind: OptKind) -> Option<Duration> {
        let fd = self.files.get(token).ok()?.fd;
        match self.host.calls().option(fd, kind) {
            Ok(Opt::RecvTimeout(timeout) | Opt::SendTimeout(timeout)) => timeout,
            _ => None,
        }
    }

    /// Returns the time until which a call on `token` may block. For a non-blocking call, this is
    /// the current time.
    fn patience(&self, token: c_int, kind: OptKind, dont_wait: bool) -> Instant {
        let now = self.host.now();
        match self.files.get(token) {
            Ok(socket) if !socket.nonblocking && !dont_wait => deadline(now, self.timeout(token, kind)),
            _ => now,
        }
    }

    /// Returns the number by which the stack identifies the stream socket with descriptor `token`.
    pub fn stream(&self, token: c_int) -> Done<usize> {
        let fd = self.files.get(token)?.fd;
        if fd.is_stream() { Ok(fd.0 & !SOCK_BIT) } else { Err(libc::EOPNOTSUPP) }
    }
}

/// Returns the result of a call, or `None` if the call would block.
fn unless_would_block<T>(done: Done<T>) -> Option<Done<T>> {
    match done {
        Err(libc::EAGAIN) => None,
        done => Some(done),
    }
}

impl Door {
    /// Implements socket(2).
    pub fn socket(&self, domain: c_int, kind: c_int, protocol: c_int) -> Done<c_int> {
        let domain = addr::domain(domain).ok_or(libc::EAFNOSUPPORT)?;
        let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        let kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        self.enter(|state| {
            let calls = state.host.calls();
            let fd = match (kind, protocol) {
                (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => calls.stream_socket_of(domain).map_err(raw)?,
                (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => calls.socket_of(domain).map_err(raw)?,
                (libc::SOCK_STREAM | libc::SOCK_DGRAM, _) => return Err(libc::EPROTONOSUPPORT),
                _ => return Err(libc::ESOCKTNOSUPPORT),
            };
            calls.set_option(fd, Opt::NonBlocking(true)).map_err(raw)?;
            if fd.is_stream() {
                calls.set_option(fd, chunks::UNLIMITED).map_err(raw)?;
            }
            let socket = Socket::new(fd, domain, nonblocking);
            state.files.open(File::Socket(socket))
        })
    }

    /// Implements bind(2).
    pub fn bind(&self, token: c_int, name: &[u8]) -> Done<()> {
        self.enter(|state| {
            let socket = state.files.get(token)?;
            let Name::Addr(addr) = addr::parse(name)? else { return Err(libc::EAFNOSUPPORT) };
            host::own(&state.host, addr::on_wire(addr));
            state.host.calls().bind(socket.fd, addr).map(drop).map_err(raw)
        })
    }

    /// Implements listen(2).
    pub fn listen(&self, token: c_int, backlog: c_int) -> Done<()> {
        self.enter(|state| {
            let fd = state.files.get(token)?.fd;
            let backlog = u32::try_from(backlog).unwrap_or(u32::MAX); // Linux takes it as unsigned
            state.host.calls().listen(fd, backlog).map_err(raw)
        })
    }

    /// Implements accept(2). Returns the new descriptor and the peer's `struct sockaddr`.
    pub fn accept(&self, token: c_int) -> Done<(c_int, Vec<u8>)> {
        let attempt = move |state: &mut State, _| unless_would_block(state.accept(token));
        let until = move |state: &mut State| state.patience(token, OptKind::RecvTimeout, false);
        self.wait(until, attempt).unwrap_or(Err(libc::EAGAIN))
    }

    /// Implements connect(2).
    pub fn connect(&self, token: c_int, name: &[u8]) -> Done<()> {
        let name = name.to_vec();
        let mut requested = false;
        let attempt = move |state: &mut State, _| match std::mem::replace(&mut requested, true) {
            false => match state.connect(token, &name) {
                Err(libc::EINPROGRESS) => None,
                done => Some(done),
            },
            true => state.connected(token),
        };
        let until = move |state: &mut State| state.patience(token, OptKind::SendTimeout, false);
        self.wait(until, attempt).unwrap_or(Err(libc::EINPROGRESS))
    }

    /// Implements recvmsg(2) and related calls, for up to `len` bytes. `writable` states whether
    /// the caller's buffers can be written.
    pub fn recv(&self, token: c_int, len: usize, flags: c_int, writable: bool) -> Done<Received> {
        let peek = flags & libc::MSG_PEEK != 0 || !writable;
        let mut before: Vec<u8> = Vec::new();
        let attempt = move |state: &mut State, chance| {
            let mut got = match state.recv(token, len.saturating_sub(before.len()), flags, peek) {
                Err(libc::EAGAIN) if chance == Chance::More || before.is_empty() => return None,
                Err(errno) if before.is_empty() => return Some(Err(errno)),
                Err(_) => Received::default(), // the next call reports it
                Ok(got) if got.len > 0 && !writable => return Some(Err(libc::EFAULT)),
                Ok(got) => got,
            };
            let ended = got.len == 0;
            before.append(&mut got.bytes);
            if got.fills && !peek && !ended && before.len() < len {
                return None;
            }
            got.len = got.len.max(before.len());
            got.bytes = std::mem::take(&mut before);
            Some(Ok(got))
        };
        let dont_wait = flags & libc::MSG_DONTWAIT != 0;
        let until = move |state: &mut State| state.patience(token, OptKind::RecvTimeout, dont_wait);
        self.wait(until, attempt).unwrap_or(Err(libc::EAGAIN))
    }

    /// Implements sendmsg(2) and related calls.
    pub fn send(&self, token: c_int, bytes: Vec<u8>, flags: c_int, to: Option<&[u8]>) -> Done<usize> {
        let to = match to.map(addr::parse).transpose()? {
            Some(Name::Addr(to)) => Some(to),
            _ => None,
        };
        let (mut sent, mut waited) = (0, false);
        let attempt = move |state: &mut State, chance| loop {
            // A blocked writer is not woken while there is only little space.
            if std::mem::replace(&mut waited, true) && chance == Chance::More && state.is_starved(token) {
                return None;
            }
            let rest = bytes.get(sent..).unwrap_or_default();
            match state.send(token, rest, flags, to) {
                Ok(n) => sent += n,
                Err(libc::EAGAIN) if chance == Chance::More || sent == 0 => return None,
                Err(errno) if sent == 0 => return Some(Err(errno)),
                Err(_) => return Some(Ok(sent)), // the next call reports it
            }
            if sent == bytes.len() {
                return Some(Ok(sent));
            }
        };
        let dont_wait = flags & libc::MSG_DONTWAIT != 0;
        let until = move |state: &mut State| state.patience(token, OptKind::SendTimeout, dont_wait);
        self.wait(until, attempt).unwrap_or(Err(libc::EAGAIN))
    }

    /// Implements shutdown(2).
    pub fn shutdown(&self, token: c_int, how: c_int) -> Done<()> {
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(libc::EINVAL),
        };
        self.enter(|state| {
            let fd = state.files.get(token)?.fd;
            if !fd.is_stream() || how == Shutdown::Write {
                return state.host.calls().shutdown(fd, how).map_err(raw);
            }
            let calls = state.host.calls();
            calls.peer_addr(fd).map_err(raw)?;
            let written = if how == Shutdown::Both { calls.shutdown(fd, Shutdown::Write).map_err(raw) } else { Ok(()) };
            state.files.socket(token)?.shut_read = true;
            written
        })
    }

    /// Returns whether the descriptor belongs to this interface and not to the kernel.
    pub fn has(&self, token: c_int) -> bool {
        self.enter(|state| state.files.has(token))
    }

    /// Implements close(2), including `SO_LINGER`.
    pub fn close(&self, token: c_int) -> Done<()> {
        let fd = self.enter(|state| match state.files.get(token) {
            Ok(socket) => Ok(Some(socket.fd)),
            Err(libc::ENOTSOCK) => Ok(None),
            Err(errno) => Err(errno),
        })?;
        if let Some(fd) = fd.filter(|fd| fd.is_stream()) {
            let id = fd.0 & !SOCK_BIT;
            let linger = self.enter(|state| state.host.calls().option(fd, OptKind::Linger));
            if let Ok(Opt::Linger(Some(time))) = linger
                && !time.is_zero()
            {
                let mut begun = false;
                let attempt = move |state: &mut State, _| {
                    let (stack, cx) = (&state.host.stack, state.host.cx());
                    let lingers = || stack.with_sock(cx, id, |sock| sock.may_linger()) == Some(true);
                    if !std::mem::replace(&mut begun, true) && lingers() {
                        let _ = stack.tcp_shutdown(cx, id, false, true);
                    }
                    (!lingers()).then_some(())
                };
                self.wait(move |state| state.host.now().after(time), attempt);
            }
        }
        self.enter(|state| {
            state.files.close(token).ok_or(libc::EBADF)?;
            fd.map_or(Ok(()), |fd| state.host.calls().close(fd).map_err(raw))
        })
    }

    /// Implements fcntl(2): gets and sets the status flags.
    pub fn fcntl(&self, token: c_int, command: c_int, arg: c_int) -> Done<c_int> {
        self.enter(|state| {
            let socket = state.files.socket(token)?;
            match command {
                libc::F_GETFL if socket.nonblocking => Ok(libc::O_RDWR | libc::O_NONBLOCK),
                libc::F_GETFL => Ok(libc::O_RDWR),
                libc::F_SETFL => {
                    socket.nonblocking = arg & libc::O_NONBLOCK != 0;
                    Ok(0)
                }
                libc::F_GETFD => Ok(libc::FD_CLOEXEC),
                libc::F_SETFD => Ok(0),
                _ => Err(libc::EINVAL),
            }
        })
    }

    /// Returns whether the argument of an `ioctl` request is a pointer to an int.
    pub fn takes_int(&self, request: c_ulong) -> bool {
        matches!(request, libc::FIONBIO | libc::FIONREAD | libc::TIOCOUTQ | SIOCOUTQNSD | SIOCATMARK)
    }

    /// Implements ioctl(2). Returns the requested number. `given` is the value that the argument
    /// points to.
    pub fn ioctl(&self, token: c_int, request: c_ulong, given: Option<c_int>) -> Done<Option<c_int>> {
        self.enter(|state| {
            if request == libc::FIONBIO {
                state.files.socket(token)?.nonblocking = given.ok_or(libc::EFAULT)? != 0;
                return Ok(None);
            }
            let id = state.stream(token)?;
            let requested = |sock: &mut inet::tcp::Sock<lock::Light>| {
                let (unread, unacked) = sock.queues();
                match request {
                    _ if sock.is_listening() => Err(libc::EINVAL),
                    libc::FIONREAD => Ok(unread as c_int),
                    libc::TIOCOUTQ => Ok(unacked as c_int),
                    SIOCOUTQNSD => Ok(sock.tcb().map_or(0, |tcb| tcb.not_sent()) as c_int),
                    SIOCATMARK => Ok(sock.is_at_mark().into()),
                    _ => Err(libc::EINVAL),
                }
            };
            let answer = state.host.stack.with_sock(state.host.cx(), id, requested).ok_or(libc::EBADF)??;
            given.map_or(Err(libc::EFAULT), |_| Ok(Some(answer)))
        })
    }
}

impl State {
    fn accept(&mut self, token: c_int) -> Done<(c_int, Vec<u8>)> {
        let socket = self.files.get(token)?;
        let calls = self.host.calls();
        let (fd, peer) = calls.accept(socket.fd).map_err(raw)?;
        calls.set_option(fd, Opt::NonBlocking(true)).map_err(raw)?;
        let (lowat, send_buffer, recv_buffer) = (socket.lowat, socket.send_buffer, socket.recv_buffer);
        let child = Socket { lowat, send_buffer, recv_buffer, ..Socket::new(fd, socket.domain, false) };
        Ok((self.files.open(File::Socket(child))?, addr::emit(peer, socket.domain)))
    }

    fn connect(&mut self, token: c_int, name: &[u8]) -> Done<()> {
        let socket = self.files.get(token)?;
        let addr = match addr::parse(name)? {
            Name::Addr(addr) => addr,
            Name::Nobody => return self.host.calls().disconnect(socket.fd).map_err(raw),
        };
        self.host.set_neighbor(addr::on_wire(addr));
        let done = self.host.calls().connect(socket.fd, addr).map_err(raw);
        let socket = self.files.socket(token)?;
        let connecting = std::mem::replace(&mut socket.connecting, done == Err(libc::EINPROGRESS));
        // Linux: the first connect after the handshake returns success, the next one EISCONN.
        if connecting && done == Err(libc::EISCONN) { Ok(()) } else { done }
    }

    /// Returns the result of a connect; `None` while the connect is in progress.
    fn connected(&mut self, token: c_int) -> Option<Done<()>> {
        let id = match self.stream(token) {
            Ok(id) => id,
            Err(errno) => return Some(Err(errno)),
        };
        let state = |sock: &mut inet::tcp::Sock<lock::Light>| (sock.is_connected(), sock.take_error());
        let done = match self.host.stack.with_sock(self.host.cx(), id, state) {
            None => Err(libc::EBADF),
            Some((_, Some(error))) => Err(raw(error.into())),
            Some((true, None)) => Ok(()),
            Some((false, None)) => return None,
        };
        if let Ok(socket) = self.files.socket(token) {
            socket.connecting = false;
        }
        Some(done)
    }

    fn recv(&self, token: c_int, len: usize, flags: c_int, peek: bool) -> Done<Received> {
        let socket = self.files.get(token)?;
        if flags & libc::MSG_ERRQUEUE != 0 {
            return Err(libc::EAGAIN); // the queue is always empty
        }
        let stream = socket.fd.is_stream();
        let trunc = flags & libc::MSG_TRUNC != 0;
        let mut bytes = vec![0; len];
        let how = RecvFlags { peek, dont_wait: true, trunc: trunc && !stream, wait_all: false };
        let calls = self.host.calls();
        let (n, from) = match calls.recv_from_flags(socket.fd, &mut bytes, how) {
            Err(socket::Errno::EAGAIN) if socket.shut_read => return Ok(Received::default()),
            got => got.map_err(raw)?,
        };
        bytes.truncate(n);
        if stream && trunc && !peek {
            bytes.clear(); // Linux: MSG_TRUNC discards stream data
        }
        // Linux: if no data is left, the end of the stream is reported as one byte.
        let left = |sock: &mut inet::tcp::Sock<lock::Light>| match sock.queues().0 {
            0 => sock.has_peer_closed().into(),
            unread => unread as c_int,
        };
        let unread = |id| self.host.stack.with_sock(self.host.cx(), id, left);
        let inq = if stream && socket.inq { unread(socket.fd.0 & !SOCK_BIT) } else { None };
        let inq = inq.map(|n| control(libc::IPPROTO_TCP, TCP_CM_INQ, &n.to_ne_bytes()));
        Ok(Received {
            bytes,
            len: n,
            from: (!stream).then(|| addr::emit(from, socket.domain)),
            control: inq.into_iter().collect(),
            flags: 0,
            fills: stream && flags & libc::MSG_WAITALL != 0,
        })
    }

    fn send(&mut self, token: c_int, bytes: &[u8], flags: c_int, to: Option<SocketAddr>) -> Done<usize> {
        let socket = self.files.get(token)?;
        if socket.fd.is_stream() {
            return self.send_chunks(token, bytes, flags);
        }
        let calls = self.host.calls();
        match to {
            Some(to) => calls.send_to(socket.fd, bytes, &to).map_err(raw),
            None if flags & libc::MSG_OOB != 0 => Err(libc::EOPNOTSUPP),
            None => calls.send(socket.fd, bytes).map_err(raw),
        }
    }
}
