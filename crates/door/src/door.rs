//! The sockets of the programs behind the filter.

mod answers;
mod files;

use crate::call::{Call, Place};
use crate::os::{self, Epoll, Id, Name, Notifications, Process};
use crate::pump::{BUFFER, Fate, Pump};
use answers::Answer;
use clock::Instant;
use files::Files;
use inet::udp::Domain;
use lock::Locks;
use slab::Slab;
use socket::{Calls, Errno, Fd, Opt, Poller};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::rc::Rc;
use std::time::Duration;

/// Token of the filter's descriptor in the epoll set; those of sockets are smaller.
const FILTER: u64 = u64::MAX;
/// Part of a token that is the index of a socket.
const INDEX: u64 = 0xffff_ffff;
/// Calls that one turn answers.
const CALLS_MAX: usize = 64;
/// Length of the queue of a listening token. The host's own queue has the length that the program
/// requests.
const BACKLOG: i32 = 4096;
/// Bytes that keep a token unwritable while its connection is being opened. With the smallest send
/// buffer, a token is writable only if fewer bytes wait.
const PLUG: [u8; 256] = [0; 256];
/// Send buffer of an open token.
const SEND_BUFFER: i32 = 212_992;
/// Interval at which sockets whose tokens are closed are removed.
const SWEEP: clock::Duration = clock::Duration::from_secs(1);
/// Error number of a call on a socket that the stack does not know.
type Failure = i32;

/// Programs behind a filter, and their sockets on a host. Used by the thread that runs the host.
pub struct Door<'s, L: Locks> {
    calls: Rc<Calls<'s, L>>,
    poller: Poller<L>,
    epoll: Epoll,
    notifications: Notifications,
    child: Child,
    /// The last process behind the filter has ended.
    is_over: bool,
    files: Files,
    /// Listener to which the tokens of clients are connected.
    hub: (OwnedFd, PathBuf),
    sockets: Slab<Socket>,
    by_inode: HashMap<u64, usize>,
    by_fd: HashMap<Fd, usize>,
    by_name: HashMap<Name, usize>,
    /// Sockets with more to do in the next turn.
    again: Vec<usize>,
    buffer: Vec<u8>,
    swept: Instant,
}

/// A socket of a program.
struct Socket {
    fd: Fd,
    /// Number that distinguishes sockets with the same index.
    number: u32,
    domain: Domain,
    /// Number of its token, once it is known.
    inode: Option<u64>,
    /// Name of the far end of an accepted connection, by which its token is recognized.
    name: Option<Name>,
    /// Descriptor by which a program has used its token last. The program may have closed it since.
    seen: Option<(Process, i32)>,
    /// A close resets the connection (SO_LINGER with a time of 0).
    resets: bool,
    /// The program has not seen yet that its connect has succeeded: it did not wait, or was
    /// interrupted. A further connect returns it.
    owes_result: bool,
    phase: Phase,
}

impl Socket {
    fn new(fd: Fd, number: u32, domain: Domain, phase: Phase) -> Socket {
        Socket { fd, number, domain, inode: None, name: None, seen: None, resets: false, owes_result: false, phase }
    }

    /// Resets the token of an open connection: the program reads what has arrived, and then gets
    /// ECONNRESET. A socket of the kernel does so if its peer is closed with unread bytes, so one
    /// is sent. Without a descriptor of the token, the program gets an end of file.
    fn reset_token(&self) {
        let Some((process, fd)) = self.seen else { return };
        if let Ok(token) = process.descriptor(fd)
            && os::inode(token.as_fd()).ok() == self.inode
        {
            let _ = os::write(token.as_fd(), &[0]); // fails only if the program has ended its direction
        }
    }
}

enum Phase {
    /// Neither connected nor listening.
    Idle,
    /// The connection could not be opened; the error is reported once.
    Failed(Option<Failure>),
    Connecting {
        token: OwnedFd,
        far: OwnedFd,
        /// The call that waits for the connection.
        waiting: Option<Id>,
    },
    Listening {
        path: PathBuf,
        waiting: VecDeque<Accept>,
        /// An accepted connection for which the token's queue has no space.
        stalled: Option<(Fd, OwnedFd, Name)>,
    },
    Open(Pump),
}

/// An accept(2) that waits.
struct Accept {
    id: Id,
    process: Process,
    token: OwnedFd,
    place: Place,
    flags: i32,
}

impl<'s, L: Locks> Door<'s, L> {
    /// Starts a program whose stream sockets are those of the host of `calls`.
    ///
    /// # Errors
    /// The program cannot be started, or the kernel does not permit the filter or the namespace.
    pub fn start(calls: &Rc<Calls<'s, L>>, command: &mut Command) -> io::Result<Door<'s, L>> {
        let mut files = Files::new()?;
        let (hub, path) = (os::socket(true)?, files.path());
        let named = |why| io::Error::other(format!("{}: {why}", path.display()));
        os::listen(hub.as_fd(), Some(&path), BACKLOG).map_err(named)?;
        let (child, notifications) = os::spawn(command)?;
        os::raise_descriptor_limit(); // after the start of the program, which keeps its limit
        let epoll = Epoll::new()?;
        epoll.add(notifications.as_fd(), FILTER, false)?;
        Ok(Door {
            calls: calls.clone(),
            poller: Poller::default(),
            epoll,
            notifications,
            child,
            is_over: false,
            files,
            hub: (hub, path),
            sockets: Slab::new(),
            by_inode: HashMap::new(),
            by_fd: HashMap::new(),
            by_name: HashMap::new(),
            again: Vec::new(),
            buffer: vec![0; BUFFER],
            swept: Instant::ZERO,
        })
    }

    /// Returns a descriptor that is readable when [`Door::turn`] has work.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Returns whether all processes behind the filter have ended.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Sends SIGTERM to the program.
    pub fn terminate(&mut self) {
        // A process that was waited for may not be signalled: its number may be reused.
        if matches!(self.child.try_wait(), Ok(None)) {
            Process::new(self.child.id()).terminate();
        }
    }

    /// Closes all sockets. Returns the exit status of the program; `None` if it has not ended.
    pub fn end(mut self) -> Option<ExitStatus> {
        let all: Vec<usize> = self.sockets.iter().map(|(index, _)| index).collect();
        all.into_iter().for_each(|index| self.remove(index));
        // The filter's last process has ended, so the program can be waited for at once.
        if self.is_over { self.child.wait().ok() } else { self.child.try_wait().ok().flatten() }
    }

    /// Answers calls and passes bytes. Returns the amount of work done.
    pub fn turn(&mut self, now: Instant) -> usize {
        let mut work = 0;
        for index in std::mem::take(&mut self.again) {
            work += usize::from(!self.is_stuck(index));
            self.progress(index, false);
        }
        for ready in self.epoll.take() {
            work += 1;
            match ready.token {
                FILTER if ready.has_ended => self.is_over = true,
                FILTER => self.answer_calls(),
                token => {
                    let index = (token & INDEX) as usize;
                    // The event may be that of an earlier socket with this index.
                    if self.sockets.get(index).is_some_and(|socket| self.token(index, socket.number) == token) {
                        self.progress(index, ready.has_ended);
                    }
                }
            }
        }
        let mut found = Vec::new();
        self.poller.ready(&self.calls, 1024, &mut found);
        work += found.len();
        for fd in found {
            if let Some(index) = self.by_fd.get(&Fd(fd)) {
                self.progress(*index, false);
            }
        }
        if now >= self.swept {
            self.swept = now.after(SWEEP);
            self.sweep();
            // Before Linux 6.11, a process has ended for the filter when it was waited for.
            let _ = self.child.try_wait();
        }
        work + self.again.iter().filter(|index| !self.is_stuck(**index)).count()
    }

    /// Returns whether a socket waits for the host or for the program, and is only tried again in
    /// case of a missing event.
    fn is_stuck(&self, index: usize) -> bool {
        match self.sockets.get(index).map(|socket| &socket.phase) {
            Some(Phase::Open(pump)) => pump.is_waiting() && !pump.has_more(),
            Some(Phase::Listening { stalled, .. }) => stalled.is_some(),
            _ => true,
        }
    }

    /// Returns the token of a socket in the epoll set.
    fn token(&self, index: usize, number: u32) -> u64 {
        u64::from(number) << 32 | index as u64 & INDEX
    }

    fn answer_calls(&mut self) {
        for _ in 0..CALLS_MAX {
            let Some(stopped) = self.notifications.next() else { return };
            let process = Process::new(stopped.tid);
            let answer = Call::of(&stopped).map_or(Answer::Kernel, |call| self.answer(stopped.id, process, call));
            match answer {
                Answer::Value(value) => _ = self.notifications.answer(stopped.id, Ok(value)),
                Answer::Error(errno) => _ = self.notifications.answer(stopped.id, Err(errno)),
                Answer::Kernel => self.notifications.proceed(stopped.id),
                Answer::Later => {}
            }
            if !self.notifications.is_pending() {
                return;
            }
        }
    }

    fn insert(&mut self, socket: Socket) -> usize {
        // A new socket accepts all options; the stack's calls never wait.
        let _ = self.calls.set_option(socket.fd, Opt::NonBlocking(true));
        // TCP_NODELAY of the program is answered by the filter, so it always has an effect.
        let _ = self.calls.set_option(socket.fd, Opt::NoDelay(true));
        let _ = self.calls.watch(&self.poller, socket.fd);
        let (fd, inode, name) = (socket.fd, socket.inode, socket.name);
        let index = self.sockets.insert(socket);
        self.by_fd.insert(fd, index);
        inode.map(|inode| self.by_inode.insert(inode, index));
        name.map(|name| self.by_name.insert(name, index));
        index
    }

    /// Closes a socket. Its token, if the program still has it, has ended.
    fn remove(&mut self, index: usize) {
        let Some(socket) = self.sockets.try_remove(index) else { return };
        self.by_fd.remove(&socket.fd);
        socket.inode.map(|inode| self.by_inode.remove(&inode));
        socket.name.map(|name| self.by_name.remove(&name));
        if socket.resets {
            self.abort(socket.fd);
        } else {
            let _ = self.calls.close(socket.fd);
        }
        if let Phase::Listening { path, waiting, stalled } = socket.phase {
            let _ = std::fs::remove_file(path);
            for accept in waiting {
                self.notifications.answer(accept.id, Err(libc::EINVAL));
            }
            if let Some((fd, ..)) = stalled {
                self.abort(fd);
            }
        }
    }

    /// Closes a connection with a reset.
    fn abort(&self, fd: Fd) {
        let _ = self.calls.set_option(fd, Opt::Linger(Some(Duration::ZERO)));
        let _ = self.calls.close(fd);
    }

    /// Returns the socket of a program's descriptor and a copy of its token; `None` if the
    /// descriptor is not a token.
    fn find(&mut self, process: Process, fd: i32) -> Option<(usize, OwnedFd)> {
        let token = process.descriptor(fd).ok()?;
        let inode = os::inode(token.as_fd()).ok()?;
        let index = match self.by_inode.get(&inode) {
            Some(index) => *index,
            // A token that the kernel has made for an accepted connection.
            None => *self.by_name.get(&os::peer_name(token.as_fd())?)?,
        };
        let socket = self.sockets.get_mut(index)?;
        (socket.inode, socket.seen) = (Some(inode), Some((process, fd)));
        self.by_inode.insert(inode, index);
        Some((index, token))
    }

    /// Continues whatever a socket waits for. `has_ended` is set if the program has closed its
    /// token.
    fn progress(&mut self, index: usize, has_ended: bool) {
        let Some(socket) = self.sockets.get_mut(index) else { return };
        match &mut socket.phase {
            Phase::Idle | Phase::Failed(_) => {}
            Phase::Connecting { .. } => self.progress_connect(index),
            Phase::Listening { .. } => self.progress_listener(index),
            Phase::Open(pump) => {
                if has_ended {
                    pump.close();
                }
                match pump.pass(&self.calls, socket.fd, &mut self.buffer) {
                    Fate::Alive if pump.has_more() || pump.is_waiting() => self.again.push(index),
                    Fate::Alive => {}
                    Fate::Over => self.remove(index),
                    Fate::Aborted => {
                        socket.resets = true;
                        self.remove(index);
                    }
                    Fate::Reset => {
                        socket.reset_token();
                        self.remove(index);
                    }
                }
            }
        }
    }

    fn progress_connect(&mut self, index: usize) {
        let Some(number) = self.sockets.get(index).map(|socket| socket.number) else { return };
        let event = self.token(index, number);
        let Some(socket) = self.sockets.get_mut(index) else { return };
        let mut done = match self.calls.connected(socket.fd) {
            Err(Errno::EAGAIN) => return,
            done => done,
        };
        let Phase::Connecting { token, far, waiting } = std::mem::replace(&mut socket.phase, Phase::Failed(None))
        else {
            return;
        };
        match done {
            Ok(()) => {
                os::set_option(token.as_fd(), libc::SO_SNDBUF, SEND_BUFFER);
                drop(token); // otherwise its end would not be noticed
                let mut plug = PLUG;
                let pulled = os::read(far.as_fd(), &mut plug).is_ok();
                if pulled && self.epoll.add(far.as_fd(), event, true).is_ok() {
                    socket.phase = Phase::Open(Pump::new(far));
                    self.again.push(index);
                } else {
                    done = Err(Errno::ENOBUFS); // no memory is left
                }
            }
            Err(_) => drop(far), // with the plug unread, which resets the token
        }
        let result = done.map(|()| 0).map_err(|why| why as i32);
        let is_seen = waiting.is_some_and(|id| self.notifications.answer(id, result));
        match result {
            Ok(_) => socket.owes_result = !is_seen,
            Err(why) => socket.phase = Phase::Failed((!is_seen).then_some(why)),
        }
    }

    /// Accepts connections of the host, and connects a far end to the token for each of them.
    fn progress_listener(&mut self, index: usize) {
        loop {
            let Some(socket) = self.sockets.get_mut(index) else { return };
            let (listener, domain) = (socket.fd, socket.domain);
            let Phase::Listening { path, stalled, .. } = &mut socket.phase else { return };
            let (fd, far, name) = match stalled.take() {
                Some(stalled) => stalled,
                None => {
                    let Ok((fd, _)) = self.calls.accept(listener) else { break };
                    let name = self.files.name();
                    match os::socket(true).and_then(|far| os::set_name(far.as_fd(), name).map(|()| far)) {
                        Ok(far) => (fd, far, name),
                        Err(_) => {
                            self.abort(fd); // no descriptors are left
                            continue;
                        }
                    }
                }
            };
            match os::connect(far.as_fd(), path) {
                Ok(()) => self.open(fd, domain, far, name),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    *stalled = Some((fd, far, name));
                    self.again.push(index);
                    break;
                }
                Err(_) => {
                    // The program has closed its listener.
                    self.abort(fd);
                    return self.remove(index);
                }
            }
        }
        self.serve_accepts(index);
    }

    /// Adds a connection that a listener has accepted.
    fn open(&mut self, fd: Fd, domain: Domain, far: OwnedFd, name: Name) {
        os::set_option(far.as_fd(), libc::SO_SNDBUF, SEND_BUFFER);
        let number = self.files.number();
        if self.epoll.add(far.as_fd(), self.token(self.sockets.vacant_key(), number), true).is_err() {
            return self.abort(fd);
        }
        let phase = Phase::Open(Pump::new(far));
        let index = self.insert(Socket { name: Some(name), ..Socket::new(fd, number, domain, phase) });
        self.again.push(index);
    }

    /// Removes sockets whose tokens the program has closed before they were connected.
    fn sweep(&mut self) {
        let may_be_closed = |socket: &Socket| !matches!(socket.phase, Phase::Open(_) | Phase::Connecting { .. });
        if !self.sockets.iter().any(|(_, socket)| may_be_closed(socket)) {
            return;
        }
        let Some(live) = live_inodes(Path::new("/proc/self/net/unix")) else { return };
        let is_closed = |socket: &Socket| socket.inode.is_some_and(|inode| !live.contains(&inode));
        let closed: Vec<usize> = self
            .sockets
            .iter()
            .filter(|(_, socket)| may_be_closed(socket) && is_closed(socket))
            .map(|(index, _)| index)
            .collect();
        closed.into_iter().for_each(|index| self.remove(index));
    }
}

/// Returns the numbers of all UNIX sockets of a network namespace.
fn live_inodes(path: &Path) -> Option<HashSet<u64>> {
    let bytes = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes); // names may have any bytes
    Some(text.lines().filter_map(|line| line.split_ascii_whitespace().nth(6)?.parse().ok()).collect())
}

impl<L: Locks> std::fmt::Debug for Door<'_, L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("sockets", &self.sockets.len()).finish_non_exhaustive()
    }
}
