//! The control socket: words in, text out, for programs that configure and watch a running host.
//!
//! A request is one line of words, `-j` first for JSON; the answer is `ok <bytes>` or `error <bytes>` on a line of its
//! own, and then the bytes. A connection may carry many requests, one after the other:
//! ```text
//! arp -s 1.0.0.2 12:23:34:45:56:00        ok 0
//! -j ip route get 8.8.8.8                 ok 96
//!                                         [{"dst":"8.8.8.8","gateway":"1.0.0.2", ...
//! ifconfg                                 error 58
//!                                         unknown word 'ifconfg' (did you mean 'ifconfig'?); ...
//! ```
//! The [`Server`] belongs to the loop that runs the host and never waits: [`Server::fds`] is what the loop may sleep on,
//! [`Server::serve`] does what can be done now. Clients are strangers: lines, answers and clients have limits, each with
//! a counter in [`ControlCounts`].

pub(crate) mod client;
pub mod line;
mod peer;
mod socket;
#[cfg(test)]
mod tests;

pub use client::{Answer, Client, ControlError, path_of, request};

use crate::{Host, words};
use lock::Locks;
use peer::{Peer, Turn};
use port::Pairs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Clients served at a time.
pub const CLIENTS_MAX: usize = 16;
/// Bytes of a request line.
pub const LINE_MAX: usize = 64 * 1024;
/// Bytes of an answer.
pub const ANSWER_MAX: usize = 64 * 1024 * 1024;
/// How long a started line may stay unfinished, and how long an answer may stay unread.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Requests answered for one client before the others have their turn.
const TURN: usize = 16;

stats::counters! {
    /// The control socket.
    pub struct ControlCounts at "node.control" {
        /// Clients accepted.
        accepted,
        /// Requests answered.
        requests,
        /// Requests answered with an error.
        errors,
        /// Clients turned away: too many at once.
        refused,
        /// Clients ended: a line that is not text.
        garbage,
        /// Clients ended: a line longer than the limit.
        overlong,
        /// Clients ended: silent in the middle of a line.
        silent,
        /// Clients ended: did not read their answer.
        slow,
        /// Clients ended to make room: idle longest.
        evicted,
    }
}

/// The serving end of a control socket. Its file goes when it is dropped.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    identity: socket::Identity,
    clients: Vec<Peer>,
    /// What happened to its clients.
    pub counts: ControlCounts,
}

impl Server {
    /// Listens at `path`, for this user only. The socket file of a dead server is replaced, a live one is not.
    ///
    /// # Errors
    /// `AddrInUse` while another server answers there, `AlreadyExists` if `path` is not a socket, and the system's.
    pub fn bind(path: &Path) -> io::Result<Server> {
        let (listener, identity) = socket::listen(path)?;
        Ok(Server {
            listener,
            path: path.to_path_buf(),
            identity,
            clients: Vec::new(),
            counts: ControlCounts::default(),
        })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The listening descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// What to sleep on: readable when [`Server::serve`] has something to do. Clients that must first read their answer
    /// are not among them: see [`Server::is_writing`].
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let readers = self.clients.iter().filter(|client| !client.is_writing()).map(|client| client.stream.as_fd());
        std::iter::once(self.fd()).chain(readers).collect()
    }

    /// Does an answer wait for its client? Come back soon then, whatever is readable.
    pub fn is_writing(&self) -> bool {
        self.clients.iter().any(Peer::is_writing)
    }

    /// Clients connected now.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Accepts, reads, answers: all that can be done without waiting.
    pub fn serve<L: Locks>(&mut self, host: &Host<L>, pairs: &Pairs) {
        self.serve_with(host.clock.now(), |words, json| {
            words::run(host, pairs, words, json).map_err(|e| e.to_string())
        });
    }

    /// [`Server::serve`] with another vocabulary.
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

    /// Ends the client that has been idle longest, if any is between two requests.
    fn make_room(&mut self) -> bool {
        let idle = self.clients.iter().enumerate().filter(|(_, client)| client.is_idle());
        let Some((at, _)) = idle.min_by_key(|(_, client)| client.since) else { return false };
        self.clients.remove(at).refuse("idle, and others wait");
        self.counts.evicted.bump();
        true
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        socket::remove_ours(&self.path, self.identity);
    }
}
