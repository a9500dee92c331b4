//! Runs an application as a far end (the server of a test) on any [`Sockets`]: each turn serves its
//! listener and all its connections.
//!
//! [`Sockets`] do not report readiness, so each turn tries every connection. This is suitable for
//! tens of connections, not for thousands.

use super::AWAKE;
use crate::app::{Accept, Action, App, Chan, Event};
use crate::netperf::session::Turn;
use crate::netperf::sockets::{Setup, Sockets, Waits};
use crate::streams::{Ends, Failure};
use linerate::stack::Instant;
use std::net::SocketAddr;

/// Maximum number of connections accepted per turn.
const ACCEPTS: usize = 16;
/// Number of bytes read at a time.
const READ: usize = 64 * 1024;

/// An application that runs as a far end, with its listener and connections.
#[derive(Debug)]
pub struct Hosted<A, S: Sockets> {
    pub app: A,
    listener: S::Fd,
    local: SocketAddr,
    chans: Vec<Option<S::Fd>>,
    buffer: Vec<u8>,
    came: Instant,
}

impl<A: App, S: Sockets> Hosted<A, S> {
    /// Opens a listener for `app` at the address `at`; L4 port 0 selects a free port. Returns the
    /// far end and its port.
    ///
    /// # Errors
    /// The address is in use.
    pub fn open(sockets: &mut S, at: SocketAddr, app: A) -> Result<(Hosted<A, S>, u16), Failure> {
        let setup = Setup { nodelay: true, waits: Waits::Never, ..Setup::default() };
        let listener = sockets.listen(at, &setup)?;
        let local = sockets.local(listener)?;
        let (chans, buffer, came) = (Vec::new(), vec![0; READ], Instant::ZERO);
        Ok((Hosted { app, listener, local, chans, buffer, came }, local.port()))
    }

    fn accept(&mut self, sockets: &mut S, now: Instant) -> bool {
        for taken in 0..ACCEPTS {
            let Ok((fd, peer)) = sockets.accept(self.listener) else { return taken > 0 };
            let ends = Ends { local: self.local, peer };
            match self.app.accept(None, ends, now) {
                taken @ (Accept::Take(chan) | Accept::Replace(_, chan)) => {
                    if let Accept::Replace(old, _) = taken
                        && let Some(fd) = self.chans.get_mut(old.0 as usize).and_then(Option::take)
                    {
                        sockets.close(fd);
                    }
                    let at = chan.0 as usize;
                    if self.chans.len() <= at {
                        self.chans.resize(at + 1, None);
                    }
                    if let Some(place) = self.chans.get_mut(at) {
                        *place = Some(fd);
                    }
                }
                Accept::Refuse(_) => sockets.close(fd),
            }
            self.act(sockets);
        }
        true
    }

    /// Closes connections when the application requests this. Other actions are ignored, since
    /// socket options are set when a socket is created.
    fn act(&mut self, sockets: &mut S) {
        while let Some(action) = self.app.poll_action() {
            if let Action::Close(chan) | Action::Abort(chan) = action
                && let Some(fd) = self.chans.get_mut(chan.0 as usize).and_then(Option::take)
            {
                sockets.close(fd);
            }
        }
    }

    fn fd(&self, chan: Chan) -> Option<S::Fd> {
        self.chans.get(chan.0 as usize).copied().flatten()
    }

    /// Handles the failure of a connection: closes it and reports the failure to the application.
    fn lose(&mut self, sockets: &mut S, chan: Chan, why: Failure, now: Instant) {
        if let Some(fd) = self.chans.get_mut(chan.0 as usize).and_then(Option::take) {
            sockets.close(fd);
            self.app.on_event(chan, Event::Gone(why), now);
            self.act(sockets);
        }
    }

    fn read(&mut self, sockets: &mut S, chan: Chan, now: Instant) -> bool {
        let room = self.app.room(chan).min(READ);
        let (Some(fd), Some(into)) = (self.fd(chan).filter(|_| room > 0), self.buffer.get_mut(..room)) else {
            return false;
        };
        match sockets.recv(fd, into) {
            Err(Failure::Again) => return false,
            Err(why) => self.lose(sockets, chan, why, now),
            Ok(0) => {
                self.app.on_event(chan, Event::Eof, now);
                self.act(sockets);
                // The client has closed its side and sends no more requests, so unsent output is
                // discarded.
                self.lose(sockets, chan, Failure::Gone, now);
            }
            Ok(n) => {
                self.app.on_event(chan, Event::Bytes(self.buffer.get(..n).unwrap_or_default()), now);
                self.act(sockets);
            }
        }
        true
    }

    fn write(&mut self, sockets: &mut S, chan: Chan, now: Instant) -> bool {
        let Some(fd) = self.fd(chan) else { return false };
        let bytes = self.app.output(chan, now);
        if bytes.is_empty() {
            return false;
        }
        match sockets.send(fd, bytes) {
            Err(Failure::Again) => return false,
            Err(why) => self.lose(sockets, chan, why, now),
            Ok(n) => {
                self.app.sent(chan, n, now);
                self.act(sockets);
            }
        }
        true
    }
}

impl<A: App, S: Sockets> Turn<S> for Hosted<A, S> {
    fn turn(&mut self, sockets: &mut S, now: Instant) -> bool {
        if self.app.next_timer().is_some_and(|at| at <= now) {
            self.app.on_timer(now);
            self.act(sockets);
        }
        let mut busy = self.accept(sockets, now);
        for at in 0..self.chans.len() {
            let chan = Chan(at as u32);
            busy |= self.read(sockets, chan, now);
            busy |= self.write(sockets, chan, now);
        }
        if busy {
            self.came = now;
        }
        now.since(self.came) < AWAKE
    }
}
