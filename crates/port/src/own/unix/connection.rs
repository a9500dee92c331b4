//! The connection of a stream port, shared by the port's two halves: connects or accepts, detects
//! the end of a connection, and replaces it.
//!
//! Connections are numbered. A half whose connection has an old number switches to the current
//! connection. Either half connects or accepts, because some programs use only one of them.

use super::{StreamFrames, StreamSink, stream};
use crate::PortCounts;
use crate::os::epoll::Epoll;
use crate::os::unix::{self, SocketFile};
use crate::own::{OwnRx, OwnTx};
use buf::Pool;
use clock::{Duration, Instant};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Number of lost connections that are reported individually.
const REPORTED: usize = 8;
/// Interval after which a failed accept is attempted again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The connection of a port.
pub(super) struct Connection {
    /// Interval between attempts to connect; `None` if the port ends with its first connection.
    reconnect: Option<Duration>,
    pool: Pool,
    pub(super) counts: Arc<PortCounts>,
    /// Descriptors to sleep on: the socket of the connection, or the listening socket.
    ready: Epoll,
    /// Number of the connection, incremented when a connection starts and when it ends; 0 before
    /// the first connection.
    number: AtomicU64,
    /// Reason why the port has ended; an inner `None` if it ended normally.
    ended: OnceLock<Option<String>>,
    state: Mutex<State>,
}

/// Role of the socket.
enum Role {
    Client(PathBuf),
    Server {
        _file: SocketFile,
        listener: UnixListener,
        /// True while the listener is in the set of descriptors.
        is_watched: bool,
    },
    /// Role of a port that has ended.
    Over,
}

struct State {
    role: Role,
    /// Socket of the connection, kept to shut it down for both halves.
    socket: Option<UnixStream>,
    /// Halves of the current connection, until the halves of the port take them.
    rx: Option<OwnRx<StreamFrames>>,
    tx: Option<OwnTx<StreamSink>>,
    /// Time of the next attempt to connect or accept.
    next: Instant,
    /// Error of the last attempt to connect or accept; `None` if it succeeded.
    trouble: Option<String>,
    /// Reasons of the first connections that did not end normally.
    lost: Vec<String>,
    lost_more: u64,
}

impl Connection {
    fn new(role: Role, reconnect: Option<Duration>, pool: &Pool) -> io::Result<Connection> {
        let (socket, rx, tx, trouble, lost) = Default::default();
        let state = State { role, socket, rx, tx, next: Instant::ZERO, trouble, lost, lost_more: 0 };
        let counts = Arc::new(PortCounts::default());
        counts.link.set_up(false);
        Ok(Connection {
            reconnect,
            pool: pool.clone(),
            counts,
            ready: Epoll::new()?,
            number: AtomicU64::new(0),
            ended: OnceLock::new(),
            state: Mutex::new(state),
        })
    }

    /// Connects to `path`. If no process listens there and attempts are repeated, the link is down
    /// until one succeeds.
    pub(super) fn connect(path: &Path, reconnect: Option<Duration>, pool: &Pool) -> io::Result<Connection> {
        let connection = Connection::new(Role::Client(path.to_path_buf()), reconnect, pool)?;
        if path.symlink_metadata().is_ok_and(|meta| !meta.file_type().is_socket() && !meta.file_type().is_symlink()) {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the file is not a socket"));
        }
        match unix::connect(path) {
            Ok(socket) => connection.start(&mut connection.state(), socket)?,
            Err(error) if reconnect.is_some() && is_absent(&error) => {
                connection.state().trouble = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        Ok(connection)
    }

    /// Listens at `path`, and replaces the socket file of a dead process.
    pub(super) fn listen(path: &Path, reconnect: Option<Duration>, pool: &Pool) -> io::Result<Connection> {
        let (listener, file) = unix::listen(path)?;
        let connection = Connection::new(Role::Over, reconnect, pool)?;
        connection.ready.add(listener.as_fd())?;
        connection.state().role = Role::Server { listener, is_watched: true, _file: file };
        Ok(connection)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Returns the descriptor to sleep on; `None` if the port has ended.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.ended.get().is_none().then(|| self.ready.fd())
    }

    /// Returns the reason why the port has ended; an inner `None` if it ended normally.
    pub(super) fn ended(&self) -> Option<&Option<String>> {
        self.ended.get()
    }

    /// Returns whether frames to be sent must wait for a connection. This is the case before the
    /// first connection if the port ends with it.
    pub(super) fn is_awaited(&self) -> bool {
        self.reconnect.is_none() && self.number() == 0
    }

    /// Returns the time of the next attempt to connect or accept. Returns `None` if the link is up,
    /// if the port has ended, or if a connecting peer will make the descriptor readable.
    pub(super) fn next_attempt(&self) -> Option<Instant> {
        if self.counts.link.is_up() || self.ended.get().is_some() {
            return None;
        }
        let state = self.state();
        match &state.role {
            Role::Client(_) | Role::Server { is_watched: false, .. } => Some(state.next),
            Role::Server { .. } | Role::Over => None,
        }
    }

    /// Connects or accepts, if the link is down and an attempt is due.
    #[inline]
    pub(super) fn poll(&self, now: Instant) {
        if !self.counts.link.is_up() && self.ended.get().is_none() {
            self.attempt(&mut self.state(), now);
        }
    }

    #[cold]
    fn attempt(&self, state: &mut State, now: Instant) {
        if self.counts.link.is_up() || now < state.next {
            return; // the other half has connected, or no attempt is due
        }
        let connected = match &mut state.role {
            Role::Client(path) => unix::connect(path),
            Role::Server { listener, is_watched, .. } => {
                if !*is_watched {
                    *is_watched = self.ready.add(listener.as_fd()).is_ok();
                }
                match listener.accept() {
                    Ok((socket, _)) => Ok(socket),
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
                    Err(error) => Err(error),
                }
            }
            Role::Over => return,
        };
        if let Err(error) = connected.and_then(|socket| self.start(state, socket)) {
            state.trouble = Some(error.to_string());
            self.retry_later(state, now);
        }
    }

    fn retry_later(&self, state: &mut State, now: Instant) {
        match &mut state.role {
            Role::Client(_) => state.next = now.after(self.reconnect.unwrap_or(ACCEPT_AGAIN)),
            Role::Server { listener, is_watched, .. } => {
                // The listener is not watched until the next attempt, because the waiting peer
                // would keep it readable.
                self.ready.remove(listener.as_fd());
                *is_watched = false;
                state.next = now.after(ACCEPT_AGAIN);
            }
            Role::Over => {}
        }
    }

    /// Starts a connection on a connected socket.
    fn start(&self, state: &mut State, socket: UnixStream) -> io::Result<()> {
        let (source, sink) = stream(socket.try_clone()?)?;
        self.ready.add(socket.as_fd())?;
        if let Role::Server { listener, is_watched, .. } = &mut state.role {
            self.ready.remove(listener.as_fd());
            *is_watched = false;
        }
        state.rx = Some(OwnRx::new(source, self.pool.clone(), self.counts.clone()));
        state.tx = Some(OwnTx::new(sink, self.counts.clone()));
        state.socket = Some(socket);
        state.trouble = None;
        self.number.fetch_add(1, Ordering::AcqRel);
        self.counts.link.set_up(true);
        Ok(())
    }

    /// Ends the connection `number`, unless it has ended already. `why` is the reason; `None` if
    /// the connection ended normally. The receiving half may still take the frames that have
    /// arrived.
    #[cold]
    pub(super) fn end(&self, number: u64, why: Option<String>, now: Instant) {
        let state = &mut *self.state();
        if self.number() != number || !self.counts.link.is_up() {
            return;
        }
        self.number.fetch_add(1, Ordering::AcqRel);
        self.counts.link.set_up(false);
        state.tx = None;
        if let Some(socket) = state.socket.take() {
            self.ready.remove(socket.as_fd());
            let _ = socket.shutdown(Shutdown::Both); // fails if the peer has already closed it
        }
        let Some(interval) = self.reconnect else {
            state.role = Role::Over;
            _ = self.ended.set(why);
            return;
        };
        match &mut state.role {
            Role::Client(_) => state.next = now.after(interval),
            Role::Server { listener, is_watched, .. } => {
                *is_watched = self.ready.add(listener.as_fd()).is_ok();
                state.next = if *is_watched { Instant::ZERO } else { now.after(ACCEPT_AGAIN) };
            }
            Role::Over => {}
        }
        match why {
            Some(why) if state.lost.len() < REPORTED => state.lost.push(why),
            Some(_) => state.lost_more += 1,
            None => {}
        }
    }

    /// Returns the number of the current connection, and its receiving half if that was not taken
    /// yet.
    pub(super) fn take_rx(&self) -> (u64, Option<OwnRx<StreamFrames>>) {
        let mut state = self.state();
        (self.number(), state.rx.take())
    }

    /// Returns the number of the current connection, and its sending half if that was not taken
    /// yet.
    pub(super) fn take_tx(&self) -> (u64, Option<OwnTx<StreamSink>>) {
        let mut state = self.state();
        (self.number(), state.tx.take())
    }

    /// Returns the reasons of lost connections, and the error of the last attempt to
    /// connect or accept.
    pub(super) fn warnings(&self) -> Vec<String> {
        let state = self.state();
        let mut all: Vec<String> = state.lost.iter().map(|why| format!("connection ended: {why}")).collect();
        if state.lost_more > 0 {
            all.push(format!("{} more connections ended with an error", state.lost_more));
        }
        all.extend(state.trouble.iter().map(|why| format!("not connected: {why}")));
        all
    }
}

/// Returns whether an attempt to connect may succeed later: no process listens, or its queue is
/// full.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::WouldBlock)
}
