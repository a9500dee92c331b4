//! Control socket: receives commands and returns text, for programs that configure and monitor a
//! running host.
//!
//! A request is a line of words; a first word `-j` requests JSON. The answer is `ok <bytes>` or
//! `error <bytes>` on a line of its own, followed by that number of bytes. A client can send many
//! requests on one connection, one after the other:
//! ```text
//! arp -s 1.0.0.2 12:23:34:45:56:00        ok 0
//! -j ip route get 8.8.8.8                 ok 96
//!                                         [{"dst":"8.8.8.8","gateway":"1.0.0.2", ...
//! ifconfg                                 error 58
//!                                         unknown word 'ifconfg' (did you mean 'ifconfig'?); ...
//! ```
//! The loop that runs the host owns the [`Server`]. [`Server::serve_with`] never blocks; between
//! two calls the loop may sleep until one of [`Server::fds`] is readable. Clients are not trusted:
//! line length, answer length, number of clients and waiting times are limited. [`ControlCounts`]
//! has a counter for each limit.

pub(crate) mod client;
mod limits;
pub mod line;
mod peer;
#[cfg(test)]
mod tests;

pub use client::{Answer, Client, ControlError, path_of, request};
pub use limits::{ANSWER_MAX, CLIENTS_MAX, ControlCounts, LINE_MAX, PATIENCE};

use crate::Host;
use crate::switch::Switch;
use grammar::CommandError;
use lock::Locks;
use peer::{Peer, Turn};
use port::Pairs;
use port::os::unix::{SocketFile, listen};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// The commands that control sockets run. The crate `commands` has them all.
pub trait Commands: Copy + Send + Sync + 'static {
    /// Runs the command `words` on `host` and returns the output as text, or as JSON if `json` is
    /// set. `pairs` connects ports that the command creates.
    ///
    /// # Errors
    /// Returns a [`CommandError`] with the invalid word or the failure.
    fn host<L: Locks>(host: &Host<L>, pairs: &Pairs, words: &[&str], json: bool) -> Result<String, CommandError>;

    /// Runs the command `words` on `switch`, as [`Commands::host`] does.
    ///
    /// # Errors
    /// Returns a [`CommandError`] with the invalid word or the failure.
    fn bridge(switch: &Switch, words: &[&str], json: bool) -> Result<String, CommandError>;
}

/// A program without commands: each one is rejected.
#[derive(Clone, Copy, Debug)]
pub struct NoCommands;

impl Commands for NoCommands {
    fn host<L: Locks>(_: &Host<L>, _: &Pairs, words: &[&str], _: bool) -> Result<String, CommandError> {
        Err(without_commands(words))
    }

    fn bridge(_: &Switch, words: &[&str], _: bool) -> Result<String, CommandError> {
        Err(without_commands(words))
    }
}

fn without_commands(words: &[&str]) -> CommandError {
    let word = words.first().copied().unwrap_or_default();
    CommandError::failed(format!("{word}: this program was built without commands (feature 'commands')"))
}

/// Function that runs a command of a host ([`Commands::host`]).
type RunOnHost<L> = fn(&Host<L>, &Pairs, &[&str], bool) -> Result<String, CommandError>;

/// Function that runs a command of a bridge ([`Commands::bridge`]).
type RunOnBridge = fn(&Switch, &[&str], bool) -> Result<String, CommandError>;

/// Control socket of a host.
#[derive(Debug)]
pub struct HostServer<L: Locks> {
    /// The socket and its clients.
    pub server: Server,
    run: RunOnHost<L>,
}

impl<L: Locks> HostServer<L> {
    /// Listens at `path` as [`Server::bind`] does, and runs the commands `C`.
    ///
    /// # Errors
    /// Returns the errors of [`Server::bind`].
    pub fn bind<C: Commands>(path: &Path) -> io::Result<HostServer<L>> {
        Ok(HostServer { server: Server::bind(path)?, run: C::host })
    }

    /// Accepts clients, and reads and answers requests, as far as possible without blocking.
    pub fn serve(&mut self, host: &Host<L>, pairs: &Pairs) {
        let run = self.run;
        self.server
            .serve_with(host.clock.now(), |words, json| run(host, pairs, words, json).map_err(|why| why.to_string()));
    }
}

/// Control socket of a switch.
#[derive(Debug)]
pub struct SwitchServer {
    /// The socket and its clients.
    pub server: Server,
    run: RunOnBridge,
}

impl SwitchServer {
    /// Listens at `path` as [`Server::bind`] does, and runs the commands `C`.
    ///
    /// # Errors
    /// Returns the errors of [`Server::bind`].
    pub fn bind<C: Commands>(path: &Path) -> io::Result<SwitchServer> {
        Ok(SwitchServer { server: Server::bind(path)?, run: C::bridge })
    }

    /// Accepts clients, and reads and answers requests, as far as possible without blocking.
    pub fn serve(&mut self, switch: &Switch) {
        let run = self.run;
        let now = switch.clock.now();
        self.server.serve_with(now, |words, json| run(switch, words, json).map_err(|why| why.to_string()));
    }
}

/// Maximum number of steps (reads, requests, writes) for one client before the next client gets its
/// turn.
const TURN: usize = 16;

/// Server of a control socket. Dropping it removes the socket file.
#[derive(Debug)]
pub struct Server {
    file: SocketFile,
    listener: UnixListener,
    clients: Vec<Peer>,
    /// Counters of the socket and its clients.
    pub counts: ControlCounts,
}

impl Server {
    /// Listens at `path`, with access for this user only. Replaces the socket file of a server that
    /// has ended, but not of a running one.
    ///
    /// # Errors
    /// Returns `AddrInUse` if another server listens at `path`, `AlreadyExists` if `path` is not a
    /// socket, and errors of the system.
    pub fn bind(path: &Path) -> io::Result<Server> {
        let (listener, file) = listen(path)?;
        Ok(Server { listener, file, clients: Vec::new(), counts: ControlCounts::default() })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the listening descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Returns the descriptors to wait for: one of them is readable when [`Server::serve_with`] has
    /// work. Clients with an unread answer are not included (see [`Server::is_writing`]).
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let readers = self.clients.iter().filter(|client| !client.is_writing()).map(|client| client.stream.as_fd());
        std::iter::once(self.fd()).chain(readers).collect()
    }

    /// Returns whether an answer is not yet fully written. The caller must then call
    /// [`Server::serve_with`] again soon, even if no descriptor is readable.
    pub fn is_writing(&self) -> bool {
        self.clients.iter().any(Peer::is_writing)
    }

    /// Returns the number of connected clients.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Accepts clients, and reads and answers requests, as far as possible without blocking.
    /// `answer` runs a command; its arguments are the words of the command, and whether JSON is
    /// requested.
    pub fn serve_with(&mut self, now: clock::Instant, mut answer: impl FnMut(&[&str], bool) -> Result<String, String>) {
        self.accept(now);
        let counts = &self.counts;
        self.clients.retain_mut(|client| {
            for _ in 0..TURN {
                match client.turn(now, counts, &mut answer) {
                    Turn::Again => {}
                    Turn::Waits => return true,
                    Turn::Ended => return false,
                }
            }
            true
        });
    }

    fn accept(&mut self, now: clock::Instant) {
        for _ in 0..CLIENTS_MAX {
            let Ok((stream, _)) = self.listener.accept() else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.counts.accepted.bump();
            if self.clients.len() >= CLIENTS_MAX && !self.make_room() {
                self.counts.refused.bump();
                Peer::new(stream, now).refuse("too many clients; try again");
                continue;
            }
            self.clients.push(Peer::new(stream, now));
        }
    }

    /// Disconnects the client that has been idle longest between two requests. Returns `false` if
    /// every client is in the middle of a request.
    fn make_room(&mut self) -> bool {
        let idle = self.clients.iter().enumerate().filter(|(_, client)| client.is_idle());
        let Some((at, _)) = idle.min_by_key(|(_, client)| client.since) else { return false };
        self.clients.remove(at).refuse("disconnected: idle while other clients wait");
        self.counts.evicted.bump();
        true
    }
}
