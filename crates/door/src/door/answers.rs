//! The answers to the calls of programs.

use super::{Accept, BACKLOG, Door, Failure, PLUG, Phase, Socket};
use crate::address::{self, LEN_MAX};
use crate::call::{Call, Place};
use crate::options;
use crate::os::{self, Id, Name, Process};
use crate::pump::BUFFER;
use inet::udp::Domain;
use lock::Locks;
use socket::{Errno, Fd, Opt};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// A call that is answered now: with a value, with an error, or by the kernel.
pub(super) enum Answer {
    Value(i64),
    Error(Failure),
    Kernel,
    /// It has been answered, or waits.
    Later,
}

impl From<Errno> for Answer {
    fn from(error: Errno) -> Answer {
        Answer::Error(error as i32)
    }
}

impl From<io::Error> for Answer {
    fn from(error: io::Error) -> Answer {
        Answer::Error(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl<L: Locks> Door<'_, L> {
    /// Returns the answer to a call. Calls on descriptors that are not tokens are the kernel's.
    pub(super) fn answer(&mut self, id: Id, process: Process, call: Call) -> Answer {
        let done = match call {
            Call::Socket { family, kind, proto } => return self.socket(id, family, kind, proto),
            Call::Connect { fd, addr, len } => self.connect(id, process, fd, addr, len),
            Call::Bind { fd, addr, len } => self.bind(process, fd, addr, len),
            Call::Listen { fd, backlog } => self.listen(process, fd, backlog),
            Call::Accept { fd, place, flags } => self.accept(id, process, fd, place, flags),
            Call::LocalAddr { fd, place } => self.local_addr(process, fd, place),
            Call::PeerAddr { fd, place } => self.peer_addr(process, fd, place),
            Call::Option { fd, level, name, place } => self.option(process, fd, level, name, place),
            Call::SetOption { fd, level, name, addr, len } => self.set_option(process, fd, level, name, addr, len),
            Call::SendTo { fd, addr, len, flags } => self.send_to(process, fd, addr, len, flags),
        };
        done.unwrap_or(Answer::Kernel)
    }

    /// Opens a socket and its token.
    fn socket(&mut self, id: Id, family: i32, kind: i32, proto: i32) -> Answer {
        if !matches!(proto, 0 | libc::IPPROTO_TCP | libc::IPPROTO_MPTCP) {
            return Answer::Error(libc::EPROTONOSUPPORT);
        }
        let domain = if family == libc::AF_INET6 { Domain::Inet6 } else { Domain::Inet };
        let token = match os::socket(kind & libc::SOCK_NONBLOCK != 0) {
            Ok(token) => token,
            Err(why) => return why.into(),
        };
        let fd = match self.calls.stream_socket_of(domain) {
            Ok(fd) => fd,
            Err(why) => return why.into(),
        };
        let inode = os::inode(token.as_fd()).ok();
        let number = self.files.number();
        let index = self.insert(Socket { inode, ..Socket::new(fd, number, domain, Phase::Idle) });
        match self.notifications.answer_with(id, token.as_fd(), kind & libc::SOCK_CLOEXEC != 0) {
            Ok(()) => Answer::Later,
            Err(why) => {
                self.remove(index);
                why.into()
            }
        }
    }

    /// Reads a socket address of a program.
    fn read_address(process: Process, addr: u64, len: usize) -> Result<Option<SocketAddr>, Answer> {
        let mut bytes = [0; LEN_MAX];
        let part = bytes.get_mut(..len.min(LEN_MAX)).unwrap_or_default();
        let n = process.read(addr, part).map_err(Answer::from)?;
        Ok(address::parse(bytes.get(..n).unwrap_or_default()))
    }

    /// Writes a value and its length as getsockname(2) does: cut off at the program's length, and
    /// with its full length.
    fn write_value(process: Process, place: Place, bytes: &[u8]) -> Result<(), Answer> {
        let mut len = [0; 4];
        process.read_exact(place.len, &mut len).map_err(Answer::from)?;
        let space = usize::try_from(i32::from_ne_bytes(len)).map_err(|_| Answer::Error(libc::EINVAL))?;
        process.write(place.addr, bytes.get(..space).unwrap_or(bytes)).map_err(Answer::from)?;
        process.write(place.len, &(bytes.len() as u32).to_ne_bytes()).map_err(Answer::from)
    }

    fn connect(&mut self, id: Id, process: Process, fd: i32, addr: u64, len: usize) -> Option<Answer> {
        let (index, token) = self.find(process, fd)?;
        let to = match Self::read_address(process, addr, len) {
            Ok(Some(to)) => to,
            Ok(None) => return Some(Answer::Error(libc::EAFNOSUPPORT)),
            Err(answer) => return Some(answer),
        };
        let is_nonblocking = os::is_nonblocking(token.as_fd());
        let socket = self.sockets.get_mut(index)?;
        match &mut socket.phase {
            Phase::Idle => {}
            Phase::Connecting { .. } if is_nonblocking => return Some(Errno::EALREADY.into()),
            Phase::Connecting { waiting, .. } => {
                *waiting = Some(id); // the call was interrupted and is repeated
                return Some(Answer::Later);
            }
            Phase::Failed(why) => return Some(Answer::Error(why.take().unwrap_or(libc::ECONNABORTED))),
            Phase::Open(_) if std::mem::take(&mut socket.owes_result) => return Some(Answer::Value(0)),
            Phase::Open(_) | Phase::Listening { .. } => return Some(Errno::EISCONN.into()),
        }
        let fd = socket.fd;
        self.copy_options(fd, token.as_fd());
        match self.calls.connect(fd, to) {
            Ok(()) | Err(Errno::EINPROGRESS) => {}
            Err(why) => return Some(why.into()),
        }
        let name = self.files.name();
        let far = match Self::join(token.as_fd(), &self.hub, name) {
            Ok(far) => far,
            Err(why) => {
                self.remove(index); // the token is of no more use
                return Some(why.into());
            }
        };
        let socket = self.sockets.get_mut(index)?;
        let waiting = (!is_nonblocking).then_some(id);
        socket.phase = Phase::Connecting { token, far, waiting };
        self.progress(index, false);
        Some(if is_nonblocking { Errno::EINPROGRESS.into() } else { Answer::Later })
    }

    /// Sets the options that the program has set on the token.
    fn copy_options(&self, fd: Fd, token: BorrowedFd<'_>) {
        let is_set = |name| os::option(token, name) != 0;
        let opts = [
            Opt::ReuseAddr(is_set(libc::SO_REUSEADDR)),
            Opt::ReusePort(is_set(libc::SO_REUSEPORT)),
            Opt::KeepAlive(is_set(libc::SO_KEEPALIVE)),
        ];
        // A stream socket has these options, whatever its state.
        for opt in opts {
            let _ = self.calls.set_option(fd, opt);
        }
    }

    /// Connects a token to the hub, and makes it unwritable. Returns its far end.
    fn join(token: BorrowedFd<'_>, (hub, path): &(OwnedFd, PathBuf), name: Name) -> io::Result<OwnedFd> {
        os::set_option(token, libc::SO_SNDBUF, 0); // the kernel sets its minimum
        os::set_name(token, name)?;
        os::connect(token, path)?;
        loop {
            let far = os::accept(hub.as_fd(), true)?;
            // An earlier connection may be left, if no descriptor was free for its far end.
            if os::peer_name(far.as_fd()) == Some(name) {
                os::write(token, &PLUG)?;
                return Ok(far);
            }
        }
    }

    fn bind(&mut self, process: Process, fd: i32, addr: u64, len: usize) -> Option<Answer> {
        let (index, token) = self.find(process, fd)?;
        let at = match Self::read_address(process, addr, len) {
            Ok(Some(at)) => at,
            Ok(None) => return Some(Answer::Error(libc::EAFNOSUPPORT)),
            Err(answer) => return Some(answer),
        };
        self.sweep(); // the port may be that of a closed listener
        let fd = self.sockets.get(index)?.fd;
        self.copy_options(fd, token.as_fd());
        let done = self.calls.bind(fd, at);
        Some(done.map_or_else(Answer::from, |_| Answer::Value(0)))
    }

    fn listen(&mut self, process: Process, fd: i32, backlog: i32) -> Option<Answer> {
        let (index, token) = self.find(process, fd)?;
        let backlog = u32::try_from(backlog).unwrap_or(0).max(1);
        self.copy_options(self.sockets.get(index)?.fd, token.as_fd());
        let socket = self.sockets.get_mut(index)?;
        if let Err(why) = self.calls.listen(socket.fd, backlog) {
            return Some(why.into());
        }
        if let Phase::Idle = socket.phase {
            let path = self.files.path();
            if let Err(why) = os::listen(token.as_fd(), Some(&path), BACKLOG) {
                return Some(why.into());
            }
            socket.phase = Phase::Listening { path, waiting: VecDeque::new(), stalled: None };
        }
        Some(Answer::Value(0))
    }

    fn accept(&mut self, id: Id, process: Process, fd: i32, place: Place, flags: i32) -> Option<Answer> {
        let (index, token) = self.find(process, fd)?;
        let is_nonblocking = os::is_nonblocking(token.as_fd());
        let Phase::Listening { waiting, .. } = &mut self.sockets.get_mut(index)?.phase else {
            return Some(Answer::Error(libc::EINVAL));
        };
        waiting.push_back(Accept { id, process, token, place, flags });
        self.serve_accepts(index);
        let Phase::Listening { waiting, .. } = &mut self.sockets.get_mut(index)?.phase else { return None };
        if is_nonblocking && waiting.back().is_some_and(|accept| accept.id == id) {
            waiting.pop_back();
            return Some(Errno::EAGAIN.into());
        }
        Some(Answer::Later)
    }

    /// Answers waiting accepts as long as the token's queue has connections.
    pub(super) fn serve_accepts(&mut self, index: usize) {
        loop {
            let Some(Socket { phase: Phase::Listening { waiting, .. }, .. }) = self.sockets.get_mut(index) else {
                return;
            };
            let Some(accept) = waiting.pop_front() else { return };
            if !self.notifications.is_waiting(accept.id) {
                continue; // interrupted by a signal
            }
            match os::accept(accept.token.as_fd(), accept.flags & libc::SOCK_NONBLOCK != 0) {
                Ok(token) => self.give(&accept, token.as_fd()),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    waiting.push_front(accept);
                    return;
                }
                Err(why) => {
                    self.notifications.answer(accept.id, Err(why.raw_os_error().unwrap_or(libc::EIO)));
                }
            }
        }
    }

    /// Answers an accept with the token of a connection and the address of its peer.
    fn give(&mut self, accept: &Accept, token: BorrowedFd<'_>) {
        let index = os::peer_name(token).and_then(|name| self.by_name.get(&name).copied());
        let socket = index.and_then(|index| self.sockets.get(index));
        if let Some(socket) = socket
            && accept.place.addr != 0
        {
            let peer = self.calls.peer_addr(socket.fd).ok();
            let bytes = peer.map_or_else(Vec::new, |peer| address::encode(peer, socket.domain));
            if let Err(Answer::Error(why)) = Self::write_value(accept.process, accept.place, &bytes) {
                self.notifications.answer(accept.id, Err(why));
                return;
            }
        }
        // If this fails, the call was interrupted, and the connection ends with its token.
        let _ = self.notifications.answer_with(accept.id, token, accept.flags & libc::SOCK_CLOEXEC != 0);
    }

    fn local_addr(&mut self, process: Process, fd: i32, place: Place) -> Option<Answer> {
        let (index, _) = self.find(process, fd)?;
        let socket = self.sockets.get(index)?;
        let addr = self.calls.local_addr(socket.fd);
        Some(self.write_address(process, place, socket.domain, addr))
    }

    fn peer_addr(&mut self, process: Process, fd: i32, place: Place) -> Option<Answer> {
        let (index, _) = self.find(process, fd)?;
        let socket = self.sockets.get(index)?;
        let addr = match socket.phase {
            Phase::Open(_) => self.calls.peer_addr(socket.fd),
            _ => Err(Errno::ENOTCONN),
        };
        Some(self.write_address(process, place, socket.domain, addr))
    }

    fn write_address(&self, process: Process, place: Place, domain: Domain, addr: Result<SocketAddr, Errno>) -> Answer {
        match addr {
            Ok(addr) => match Self::write_value(process, place, &address::encode(addr, domain)) {
                Ok(()) => Answer::Value(0),
                Err(answer) => answer,
            },
            Err(why) => why.into(),
        }
    }

    fn option(&mut self, process: Process, fd: i32, level: i32, name: i32, place: Place) -> Option<Answer> {
        let (index, _) = self.find(process, fd)?;
        let socket = self.sockets.get_mut(index)?;
        let value = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => match &mut socket.phase {
                Phase::Failed(why) => why.take().unwrap_or(0),
                Phase::Connecting { .. } => 0,
                _ => return None, // an error of the token
            },
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => match socket.domain {
                Domain::Inet => libc::AF_INET,
                Domain::Inet6 => libc::AF_INET6,
            },
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_TCP,
            (libc::SOL_SOCKET, _) => return None, // the token has it
            (libc::IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_QUICKACK) => 1,
            (libc::IPPROTO_TCP, libc::TCP_CORK) => 0,
            _ => {
                let opt = options::kind(level, name).map(|kind| self.calls.option(socket.fd, kind));
                match opt {
                    Some(Ok(opt)) => options::value(&opt).unwrap_or(0),
                    Some(Err(why)) => return Some(why.into()),
                    None => return Some(Answer::Error(libc::ENOPROTOOPT)),
                }
            }
        };
        Some(match Self::write_value(process, place, &value.to_ne_bytes()) {
            Ok(()) => Answer::Value(0),
            Err(answer) => answer,
        })
    }

    fn set_option(
        &mut self,
        process: Process,
        fd: i32,
        level: i32,
        name: i32,
        addr: u64,
        len: usize,
    ) -> Option<Answer> {
        let (index, _) = self.find(process, fd)?;
        if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
            return self.set_linger(process, index, addr, len);
        }
        let mut bytes = [0; 4];
        if len < bytes.len() {
            return Some(Answer::Error(libc::EINVAL));
        }
        if let Err(why) = process.read_exact(addr, &mut bytes) {
            return Some(why.into());
        }
        let value = i32::from_ne_bytes(bytes);
        if options::is_hint(level, name) {
            return Some(Answer::Value(0));
        }
        let Some(kind) = options::kind(level, name) else { return Some(Answer::Error(libc::ENOPROTOOPT)) };
        let Some(opt) = options::of_value(kind, value) else { return Some(Answer::Error(libc::EINVAL)) };
        let done = self.calls.set_option(self.sockets.get(index)?.fd, opt);
        Some(done.map_or_else(Answer::from, |()| Answer::Value(0)))
    }

    /// Notes whether a close resets the connection; the token gets the option, too.
    fn set_linger(&mut self, process: Process, index: usize, addr: u64, len: usize) -> Option<Answer> {
        let mut bytes = [0; 8];
        if len >= bytes.len() && process.read_exact(addr, &mut bytes).is_ok() {
            let [on, seconds] = [0, 4].map(|at| bytes.get(at..at + 4).unwrap_or_default() != [0; 4]);
            self.sockets.get_mut(index)?.resets = on && !seconds;
        }
        None
    }

    /// Sends with an address, which TCP ignores.
    fn send_to(&mut self, process: Process, fd: i32, addr: u64, len: usize, flags: i32) -> Option<Answer> {
        let (_, token) = self.find(process, fd)?;
        let part = self.buffer.get_mut(..len.min(BUFFER)).unwrap_or_default();
        let n = match process.read(addr, part) {
            Ok(n) => n,
            Err(why) => return Some(why.into()),
        };
        let bytes = self.buffer.get(..n).unwrap_or_default();
        Some(
            os::send(token.as_fd(), bytes, flags & libc::MSG_OOB)
                .map_or_else(Answer::from, |n| Answer::Value(n as i64)),
        )
    }
}
