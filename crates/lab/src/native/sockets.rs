//! The host kernel's sockets as one end of the tests of `apps::netperf`.
//!
//! If an end has its own thread, its calls block briefly, like netperf's blocking calls. If one
//! thread drives both ends, no call blocks, and loopback has delivered everything when the call
//! returns.

use crate::os;
use apps::netperf::sockets::{Pace, Setup, Sizes, Sockets, Waits};
use apps::streams::Failure;
use clock::{Clock, Instant, Strategy};
use port::os::netns::Namespace;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Maximum time that a call blocks, and therefore the maximum by which a deadline is missed.
const MOMENT: Duration = Duration::from_millis(20);
/// Timeout of a connect.
const CONNECT: Duration = Duration::from_secs(5);
/// Duration of one sleep while a test waits for an event or a connect is pending. No descriptor
/// ends the sleep early.
const NAP: Duration = Duration::from_micros(200);
/// EADDRNOTAVAIL of a connect: no L4 port is left.
const NO_PORT: i32 = libc::EADDRNOTAVAIL;

/// Blocking mode of the calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Calls {
    /// Calls block for `MOMENT` where the test requests it.
    Wait,
    /// Calls never block: the same thread drives the other end.
    Return,
}

#[derive(Debug)]
enum Sock {
    Listener(TcpListener, Setup),
    Stream(TcpStream, Sizes),
    Datagrams(UdpSocket),
}

impl Sock {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Sock::Listener(listener, _) => listener.as_fd(),
            Sock::Stream(stream, _) => stream.as_fd(),
            Sock::Datagrams(socket) => socket.as_fd(),
        }
    }
}

/// The kernel's sockets, as an implementation of [`Sockets`].
#[derive(Debug)]
pub struct KernelSockets {
    calls: Calls,
    /// Namespace in which sockets are opened; `None` for the thread's own.
    home: Option<Namespace>,
    clock: Clock,
    fresh: Sizes,
    socks: Vec<Option<Sock>>,
    free: Vec<usize>,
}

impl KernelSockets {
    /// Creates an empty set of sockets.
    pub fn new(calls: Calls) -> KernelSockets {
        KernelSockets::at(None, calls)
    }

    /// Creates a set that opens its sockets in namespace `home`, whichever namespace the calling
    /// thread is in.
    pub fn within(home: Namespace, calls: Calls) -> KernelSockets {
        KernelSockets::at(Some(home), calls)
    }

    fn at(home: Option<Namespace>, calls: Calls) -> KernelSockets {
        let clock = Clock::live(Strategy::default());
        KernelSockets { calls, home, clock, fresh: fresh().unwrap_or_default(), socks: Vec::new(), free: Vec::new() }
    }

    fn keep(&mut self, sock: Sock) -> usize {
        let at = self.free.pop().unwrap_or(self.socks.len());
        if at == self.socks.len() {
            self.socks.push(None);
        }
        self.socks[at] = Some(sock);
        at
    }

    fn sock(&self, fd: usize) -> Result<&Sock, Failure> {
        self.socks.get(fd).and_then(Option::as_ref).ok_or(Failure::Invalid)
    }

    fn stream(&self, fd: usize) -> Result<&TcpStream, Failure> {
        if let Sock::Stream(stream, _) = self.sock(fd)? { Ok(stream) } else { Err(Failure::Invalid) }
    }

    fn socket(&self, fd: usize) -> Result<&UdpSocket, Failure> {
        if let Sock::Datagrams(socket) = self.sock(fd)? { Ok(socket) } else { Err(Failure::Invalid) }
    }

    fn at_home<T>(&self, open: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match &self.home {
            Some(home) => home.within(open)?,
            None => open(),
        }
    }

    fn waits(&self, setup: &Setup) -> bool {
        self.calls == Calls::Wait && setup.waits == Waits::Briefly
    }

    fn set_up(&self, stream: &TcpStream, setup: &Setup) -> io::Result<()> {
        if setup.nodelay {
            stream.set_nodelay(true)?;
        }
        if self.waits(setup) {
            stream.set_read_timeout(Some(MOMENT))?;
            return stream.set_write_timeout(Some(MOMENT));
        }
        stream.set_nonblocking(true)
    }

    fn open_datagrams(&self, at: SocketAddr, to: Option<SocketAddr>, setup: &Setup) -> io::Result<UdpSocket> {
        let socket = self.at_home(|| UdpSocket::bind(at))?;
        os::set_buffers(socket.as_fd(), setup.send_buffer, setup.recv_buffer)?;
        if let Some(to) = to {
            socket.connect(to)?;
        }
        match self.waits(setup) {
            true => socket.set_read_timeout(Some(MOMENT))?,
            false => socket.set_nonblocking(true)?,
        }
        Ok(socket)
    }
}

/// Waits until the stream is connected, at most [`CONNECT`], and makes its calls blocking.
fn connected(stream: TcpStream) -> io::Result<TcpStream> {
    let end = std::time::Instant::now() + CONNECT;
    while stream.peer_addr().is_err() {
        if let Some(why) = stream.take_error()? {
            return Err(why);
        }
        if std::time::Instant::now() > end {
            return Err(ErrorKind::TimedOut.into());
        }
        std::thread::sleep(NAP);
    }
    stream.set_nonblocking(false)?;
    Ok(stream)
}

impl Sockets for KernelSockets {
    type Fd = usize;

    fn step(&mut self, pace: Pace) -> Instant {
        // Sleeps only if the test waits and the thread does not drive both ends. Otherwise the
        // blocking calls wait, or the other end must run.
        if pace == Pace::Wait && self.calls == Calls::Wait {
            std::thread::sleep(NAP);
        }
        self.clock.now()
    }

    fn latest(&self) -> Instant {
        self.clock.now()
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn listen(&mut self, at: SocketAddr, setup: &Setup) -> Result<usize, Failure> {
        let open = || {
            let listener = self.at_home(|| TcpListener::bind(at))?;
            os::set_buffers(listener.as_fd(), setup.send_buffer, setup.recv_buffer)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = open().map_err(failure)?;
        Ok(self.keep(Sock::Listener(listener, *setup)))
    }

    fn accept(&mut self, listener: usize) -> Result<(usize, SocketAddr), Failure> {
        let Sock::Listener(socket, setup) = self.sock(listener)? else { return Err(Failure::Invalid) };
        if self.waits(setup) {
            // The result is ignored, since accept reports whether there is a connection.
            let _ = dispatch::wait_readable(&[socket.as_fd()], Some(MOMENT));
        }
        let (stream, peer) = socket.accept().map_err(failure)?;
        self.set_up(&stream, setup).map_err(failure)?;
        Ok((self.keep(Sock::Stream(stream, self.fresh)), peer))
    }

    fn connect(&mut self, to: SocketAddr, setup: &Setup) -> Result<usize, Failure> {
        let open = || {
            let stream = match self.calls {
                // A blocking connect would stop the other end, which the same thread drives, and
                // might then never complete.
                Calls::Return => self.at_home(|| os::begin_connect(to, setup.from))?,
                Calls::Wait if setup.from.is_some() => connected(self.at_home(|| os::begin_connect(to, setup.from))?)?,
                Calls::Wait => self.at_home(|| TcpStream::connect_timeout(&to, CONNECT))?,
            };
            os::set_buffers(stream.as_fd(), setup.send_buffer, setup.recv_buffer)?;
            self.set_up(&stream, setup)?;
            Ok(stream)
        };
        let stream = open().map_err(failure)?;
        let (mut sizes, now) = (self.fresh, os::buffers(stream.as_fd()));
        if setup.send_buffer.is_some() {
            sizes.send = now.0;
        }
        if setup.recv_buffer.is_some() {
            sizes.recv = now.1;
        }
        Ok(self.keep(Sock::Stream(stream, sizes)))
    }

    fn connected(&mut self, fd: usize) -> Result<(), Failure> {
        let stream = self.stream(fd)?;
        if self.calls == Calls::Wait {
            return Ok(());
        }
        match stream.peer_addr() {
            Ok(_) => Ok(()),
            Err(why) if why.kind() != ErrorKind::NotConnected => Err(failure(why)),
            Err(_) => Err(stream.take_error().map_err(failure)?.map_or(Failure::Again, failure)),
        }
    }

    fn datagrams(&mut self, at: SocketAddr, to: Option<SocketAddr>, setup: &Setup) -> Result<usize, Failure> {
        let socket = self.open_datagrams(at, to, setup).map_err(failure)?;
        Ok(self.keep(Sock::Datagrams(socket)))
    }

    fn send(&mut self, fd: usize, bytes: &[u8]) -> Result<usize, Failure> {
        match self.sock(fd)? {
            Sock::Stream(stream, _) => { stream }.write(bytes).map_err(failure),
            Sock::Datagrams(socket) => socket.send(bytes).map_err(failure),
            Sock::Listener(..) => Err(Failure::Invalid),
        }
    }

    fn recv(&mut self, fd: usize, into: &mut [u8]) -> Result<usize, Failure> {
        match self.sock(fd)? {
            Sock::Stream(stream, _) => { stream }.read(into).map_err(failure),
            Sock::Datagrams(socket) => socket.recv(into).map_err(failure),
            Sock::Listener(..) => Err(Failure::Invalid),
        }
    }

    fn send_to(&mut self, fd: usize, bytes: &[u8], to: SocketAddr) -> Result<usize, Failure> {
        self.socket(fd)?.send_to(bytes, to).map_err(failure)
    }

    fn recv_from(&mut self, fd: usize, into: &mut [u8]) -> Result<(usize, SocketAddr), Failure> {
        self.socket(fd)?.recv_from(into).map_err(failure)
    }

    fn shutdown(&mut self, fd: usize) {
        if let Ok(stream) = self.stream(fd) {
            let _ = stream.shutdown(Shutdown::Write); // fails if the connection is gone
        }
    }

    fn close(&mut self, fd: usize) {
        if self.socks.get_mut(fd).and_then(Option::take).is_some() {
            self.free.push(fd);
        }
    }

    fn sizes(&self, fd: usize) -> Sizes {
        match self.sock(fd) {
            // As in netperf, which reads the sizes before connecting; later the kernel enlarges
            // them.
            Ok(Sock::Stream(_, sizes)) => *sizes,
            Ok(sock) => {
                let (send, recv) = os::buffers(sock.fd());
                Sizes { send, recv }
            }
            Err(_) => Sizes::default(),
        }
    }

    fn local(&self, fd: usize) -> Result<SocketAddr, Failure> {
        let found = match self.sock(fd)? {
            Sock::Listener(listener, _) => listener.local_addr(),
            Sock::Stream(stream, _) => stream.local_addr(),
            Sock::Datagrams(socket) => socket.local_addr(),
        };
        found.map_err(failure)
    }
}

/// Returns the buffer sizes of a new, unconnected stream socket.
fn fresh() -> io::Result<Sizes> {
    let (send, recv) = os::buffers(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?.as_fd());
    Ok(Sizes { send, recv })
}

fn failure(why: io::Error) -> Failure {
    match why.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Failure::Again,
        _ if why.raw_os_error() == Some(NO_PORT) => Failure::InUse,
        _ if matches!(why.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM | libc::EMFILE)) => Failure::NoRoom,
        ErrorKind::ConnectionRefused => Failure::Refused,
        ErrorKind::TimedOut => Failure::TimedOut,
        ErrorKind::HostUnreachable => Failure::HostUnreachable,
        ErrorKind::NetworkUnreachable => Failure::NetUnreachable,
        ErrorKind::AddrInUse => Failure::InUse,
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::NotConnected => Failure::Gone,
        _ => Failure::Invalid,
    }
}
