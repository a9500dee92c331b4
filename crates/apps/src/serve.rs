//! Driver that runs an application on stream sockets, on a single thread. The number of connections
//! is limited, and no call blocks except `poll`.
//!
//! A [`Server`] owns an [`App`] and the descriptors of its channels. [`Server::turn`] runs the
//! timers that are due, serves each channel that is ready, and polls. Each channel may move only a
//! limited number of bytes per turn, so that one peer cannot starve the others. The streams are
//! passed as an argument, so that a host's main loop can run several servers on one stack.
//!
//! When the application closes a connection, it lingers (RFC 9112 9.6): our side is shut down, and
//! for up to two seconds further data from the peer is read and discarded. Closing at once with
//! unread bytes would reset the connection and might destroy the last answer. The number, duration
//! and bytes of lingering connections are limited, too.

mod datagrams;
mod linger;

use crate::app::{Accept, Action, App, CHANS_MAX, Chan, Event};
use crate::streams::{Ends, Failure, Streams};
use linerate::stack::Instant;
use linger::Lingering;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum number of connections accepted from one listener per turn.
const ACCEPTS: usize = 16;
/// Maximum number of bytes read or sent on one channel per turn, after which other channels and the
/// ports are served. With a limit four times as high, four streams over TAP filled the kernel's
/// queue faster than it was read, and two thirds of the frames were dropped in that queue.
const TURN: usize = 128 * 1024;
/// Number of bytes per read call.
const READ: usize = 128 * 1024;
/// Maximum number of connections in the accept queue of a listener.
const BACKLOG: usize = 128;
/// Delay before the next accept after an accept has failed, for example because no descriptor was
/// free.
const STALL: Duration = Duration::from_millis(100);

stats::counters! {
    /// Counters of the driver of an application.
    pub struct ServeCounts at "apps.serve" {
        /// Connections accepted.
        accepted,
        /// Connections refused by the application.
        refused,
        /// Accepts that failed because no descriptor or no memory was left.
        accept_failed,
        /// Outgoing connections that were established for the application.
        connected,
        /// Connections that failed or that the peer reset.
        gone,
        /// Connections closed by the application.
        closed,
        /// Connections reset by the application.
        aborted,
        /// Lingering connections closed before the peer had stopped sending, because a limit was
        /// reached.
        linger_cut,
        /// Bytes read.
        bytes_in,
        /// Bytes sent.
        bytes_out,
        /// Datagrams that could not be sent, and were dropped.
        datagrams_failed,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Listener,
    Connecting,
    Stream,
    Datagrams,
}

/// State of a channel and its descriptor.
#[derive(Debug)]
struct Entry<F> {
    fd: F,
    kind: Kind,
    may_recv: bool,
    may_send: bool,
    is_queued: bool,
    at_eof: bool,
}

/// Role of a descriptor: listener of the service, channel of the application, or lingering
/// connection.
#[derive(Clone, Copy, Debug)]
enum Place {
    Service(usize),
    Chan(Chan),
    Linger,
}

/// A listener that the driver opened for the service, not requested by the application.
#[derive(Debug)]
struct Door<F> {
    fd: F,
    may_accept: bool,
    stalled: Option<Instant>,
}

/// The driver of an application, with the descriptors of its channels and listeners.
#[derive(Debug)]
pub struct Server<A, F> {
    pub app: A,
    pub counts: ServeCounts,
    doors: Vec<Door<F>>,
    entries: Vec<Option<Entry<F>>>,
    places: HashMap<F, Place>, // the keys are our own descriptors, which peers cannot choose
    run: VecDeque<Chan>,
    lingering: Lingering<F>,
    ready: Vec<F>,
    buffer: Vec<u8>,
}

impl<A: App, F: Copy + Eq + std::hash::Hash + std::fmt::Debug> Server<A, F> {
    /// Creates a server that listens at each of the addresses `at`.
    ///
    /// # Errors
    /// Returns the address at which the server cannot listen, and the reason.
    pub fn open<S: Streams<Fd = F>>(
        app: A,
        streams: &mut S,
        at: &[SocketAddr],
        now: Instant,
    ) -> Result<Server<A, F>, (SocketAddr, Failure)> {
        let mut server = Server {
            app,
            counts: ServeCounts::default(),
            doors: Vec::new(),
            entries: Vec::new(),
            places: HashMap::new(),
            run: VecDeque::new(),
            lingering: Lingering::default(),
            ready: Vec::new(),
            buffer: vec![0; READ],
        };
        for &at in at {
            match streams.listen(at, BACKLOG) {
                Ok(fd) => {
                    server.places.insert(fd, Place::Service(server.doors.len()));
                    server.doors.push(Door { fd, may_accept: true, stalled: None });
                }
                Err(failure) => {
                    server.doors.drain(..).for_each(|door| streams.close(door.fd));
                    return Err((at, failure));
                }
            }
        }
        server.act(streams, now);
        Ok(server)
    }

    /// Returns the local addresses of the service's listeners.
    pub fn at<S: Streams<Fd = F>>(&self, streams: &S) -> Vec<SocketAddr> {
        self.doors.iter().filter_map(|door| streams.local(door.fd).ok()).collect()
    }

    /// Returns the number of open channels.
    pub fn open_chans(&self) -> usize {
        self.entries.iter().flatten().count()
    }

    /// Returns the number of closed connections that still linger.
    pub fn lingering(&self) -> usize {
        self.lingering.len()
    }

    /// Runs one turn, which starts at `now`. The poll at its end waits at most `patience`, and does
    /// not wait if a channel or a listener still has pending work. Returns the number of calls made
    /// on channels.
    pub fn turn<S: Streams<Fd = F>>(&mut self, streams: &mut S, now: Instant, patience: Duration) -> usize {
        if self.app.next_timer().is_some_and(|at| at <= now) {
            self.app.on_timer(now);
            self.act(streams, now);
        }
        self.cut_lingering(streams, now);
        let mut worked = (0..self.doors.len()).map(|door| self.admit(streams, door, now)).sum();
        for _ in 0..self.run.len() {
            let Some(chan) = self.run.pop_front() else { break };
            worked += self.pump(streams, chan, now);
        }
        let is_busy = !self.run.is_empty() || self.doors.iter().any(|door| door.may_accept && door.stalled.is_none());
        let until = self.next_timer().map_or(patience, |at| at.since(now).min(patience));
        let mut ready = std::mem::take(&mut self.ready);
        streams.poll(&mut ready, if is_busy { Duration::ZERO } else { until });
        for fd in ready.drain(..) {
            self.on_ready(streams, fd);
        }
        self.ready = ready;
        worked
    }

    /// Returns whether a channel has pending work that does not depend on an event.
    pub fn is_runnable(&self) -> bool {
        !self.run.is_empty()
    }

    /// Returns the time at which the next turn must run even if no event occurs; `None` if there is
    /// no timer.
    pub fn next_timer(&self) -> Option<Instant> {
        let stalled = self.doors.iter().filter_map(|door| door.stalled);
        stalled.chain(self.app.next_timer()).chain(self.lingering.next_timer()).min()
    }

    /// Resets all connections and closes all listeners. Returns the application.
    pub fn close<S: Streams<Fd = F>>(mut self, streams: &mut S) -> A {
        self.doors.drain(..).for_each(|door| streams.close(door.fd));
        for entry in self.entries.drain(..).flatten() {
            let is_socket_only = matches!(entry.kind, Kind::Listener | Kind::Datagrams);
            if is_socket_only { streams.close(entry.fd) } else { streams.abort(entry.fd) }
        }
        self.lingering.drain(|fd| streams.close(fd));
        self.app
    }

    /// Checks the contract of [`crate::app`] when all channels are idle: no channel has pending
    /// work.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn check(&mut self, now: Instant) {
        for at in 0..self.entries.len() {
            let chan = Chan(at as u32);
            let Some(entry) = self.entry(chan).filter(|entry| entry.kind == Kind::Stream) else { continue };
            let (may_recv, may_send) = (entry.may_recv, entry.may_send);
            assert!(!may_send || self.app.output(chan, now).is_empty(), "{chan:?} has something to send");
            assert!(!may_recv || self.app.room(chan) == 0, "{chan:?} has room");
        }
    }

    fn entry(&mut self, chan: Chan) -> Option<&mut Entry<F>> {
        self.entries.get_mut(chan.0 as usize)?.as_mut()
    }

    fn on_ready<S: Streams<Fd = F>>(&mut self, streams: &mut S, fd: F) {
        match self.places.get(&fd) {
            Some(&Place::Service(door)) => {
                if let Some(door) = self.doors.get_mut(door) {
                    door.may_accept = true;
                }
            }
            Some(&Place::Chan(chan)) => {
                if let Some(entry) = self.entry(chan) {
                    (entry.may_recv, entry.may_send) = (!entry.at_eof, true);
                }
                self.queue(chan);
            }
            Some(Place::Linger) => self.discard_input(streams, fd),
            None => {}
        }
    }

    fn queue(&mut self, chan: Chan) {
        if let Some(entry) = self.entry(chan)
            && !entry.is_queued
        {
            entry.is_queued = true;
            self.run.push_back(chan);
        }
    }

    /// Assigns a descriptor to the channel `chan`. If the channel is already in use, which is a bug
    /// of the application, closes the descriptor and returns `false`.
    fn install<S: Streams<Fd = F>>(&mut self, streams: &mut S, chan: Chan, fd: F, kind: Kind) -> bool {
        debug_assert!(chan.0 < CHANS_MAX, "{chan:?}");
        let at = chan.0 as usize;
        if self.entries.len() <= at && chan.0 < CHANS_MAX {
            self.entries.resize_with(at + 1, || None);
        }
        let Some(place) = self.entries.get_mut(at).filter(|place| place.is_none()) else {
            debug_assert!(false, "{chan:?} is in use");
            streams.abort(fd);
            return false;
        };
        *place = Some(Entry { fd, kind, may_recv: true, may_send: true, is_queued: false, at_eof: false });
        self.places.insert(fd, Place::Chan(chan));
        self.queue(chan);
        true
    }

    fn remove(&mut self, chan: Chan) -> Option<Entry<F>> {
        let entry = self.entries.get_mut(chan.0 as usize)?.take()?;
        self.places.remove(&entry.fd);
        // A descriptor became free, so listeners whose accept failed may try again.
        self.doors.iter_mut().for_each(|door| door.stalled = None);
        Some(entry)
    }

    /// Accepts connections from a listener of the service; returns their number.
    fn admit<S: Streams<Fd = F>>(&mut self, streams: &mut S, at: usize, now: Instant) -> usize {
        for taken in 0..ACCEPTS {
            let Some(door) = self.doors.get_mut(at) else { return taken };
            if !door.may_accept || door.stalled.is_some_and(|until| until > now) {
                return taken;
            }
            door.stalled = None;
            match streams.accept(door.fd) {
                Ok((fd, ends)) => self.welcome(streams, None, fd, ends, now),
                Err(Failure::Again) => {
                    door.may_accept = false;
                    return taken;
                }
                Err(_) => {
                    door.stalled = Some(now.after(STALL));
                    self.counts.accept_failed.bump();
                    return taken;
                }
            }
        }
        ACCEPTS
    }

    fn welcome<S: Streams<Fd = F>>(&mut self, streams: &mut S, on: Option<Chan>, fd: F, ends: Ends, now: Instant) {
        match self.app.accept(on, ends, now) {
            Accept::Take(chan) => {
                self.counts.accepted.bump();
                self.install(streams, chan, fd, Kind::Stream);
            }
            Accept::Replace(old, new) => {
                if let Some(entry) = self.remove(old) {
                    self.counts.aborted.bump();
                    streams.abort(entry.fd);
                }
                self.counts.accepted.bump();
                self.install(streams, new, fd, Kind::Stream);
            }
            Accept::Refuse(words) => {
                self.counts.refused.bump();
                // A message that does not fit into the socket's empty send buffer is dropped.
                let reported = words.is_empty() || streams.send(fd, words).is_ok();
                if reported && !words.is_empty() { self.linger(streams, fd, now) } else { streams.abort(fd) }
            }
        }
        self.act(streams, now);
    }

    /// Serves a channel; returns the number of calls made on it.
    fn pump<S: Streams<Fd = F>>(&mut self, streams: &mut S, chan: Chan, now: Instant) -> usize {
        let Some(entry) = self.entry(chan) else { return 0 };
        entry.is_queued = false;
        match entry.kind {
            Kind::Listener => self.admit_to_own(streams, chan, now),
            Kind::Connecting => self.finish_connect(streams, chan, now),
            Kind::Stream => {
                let read = self.read(streams, chan, now);
                read + self.write(streams, chan, now)
            }
            Kind::Datagrams => {
                let read = self.read_datagrams(streams, chan, now);
                read + self.write_datagrams(streams, chan, now)
            }
        }
    }

    fn admit_to_own<S: Streams<Fd = F>>(&mut self, streams: &mut S, chan: Chan, now: Instant) -> usize {
        for taken in 0..ACCEPTS {
            let Some(entry) = self.entry(chan).filter(|entry| entry.kind == Kind::Listener) else { return taken };
            match streams.accept(entry.fd) {
                Ok((fd, ends)) => self.welcome(streams, Some(chan), fd, ends, now),
                Err(failure) => {
                    if failure != Failure::Again {
                        self.counts.accept_failed.bump();
                    }
                    return taken;
                }
            }
        }
        self.queue(chan);
        ACCEPTS
    }

    fn finish_connect<S: Streams<Fd = F>>(&mut self, streams: &mut S, chan: Chan, now: Instant) -> usize {
        let Some(entry) = self.entry(chan) else { return 0 };
        match streams.connected(entry.fd) {
            Ok(ends) => {
                (entry.kind, entry.may_recv, entry.may_send) = (Kind::Stream, true, true);
                self.counts.connected.bump();
                self.on_event(streams, chan, Event::Connected(ends), now);
                self.queue(chan);
            }
            Err(Failure::Again) => {}
            Err(failure) => self.lose(streams, chan, failure, now),
        }
        1
    }

    fn on_event<S: Streams<Fd = F>>(&mut self, streams: &mut S, chan: Chan, event: Event<'_>, now: Instant) {
        self.app.on_event(chan, event, now);
        self.act(streams, now);
    }

    /// Handles the failure of a connection: closes it and reports the failure to the application.
    fn lose<S: Streams<Fd = F>>(&mut self, streams: &mut S, chan: Chan, failure: Failure, now: Instant) {
        if let Some(entry) = self.remove(chan) {
            streams.close(entry.fd);
            self.counts.gone.bump();
            self.on_event(streams, chan, Event::Gone(failure), now);
        }
    }

    /// Returns the descriptor of a channel and how many bytes to read from it now. If the channel
    /// has used up its share of this turn, queues it for the next turn and returns `None`.
    fn next_read(&mut self, chan: Chan, left: usize) -> Option<(F, usize)> {
        let room = self.app.room(chan).min(self.buffer.len());
        let fd = self.entry(chan).filter(|entry| entry.may_recv && room > 0)?.fd;
        if left == 0 {
            self.queue(chan);
            return None;
        }
        Some((fd, room))
    }

    fn read<S: Streams<Fd = F>>(&mut self, streams: &mut S, chan: Chan, now: Instant) -> usize {
        let (mut left, mut calls) = (TURN, 0);
        loop {
            let Some((fd, room)) = self.next_read(chan, left) else { return calls };
            calls += 1;
            match streams.recv(fd, self.buffer.get_mut(..room).unwrap_or_default()) {
                Ok(0) => {
                    if let Some(entry) = self.entry(chan) {
                        (entry.may_recv, entry.at_eof) = (false, true);
                    }
                    self.on_event(streams, chan, Event::Eof, now);
                }
                Ok(n) => {
                    left = left.saturating_sub(n);
                    self.counts.bytes_in.add(n as u64);
                    self.app.on_event(chan, Event::Bytes(self.buffer.get(..n).unwrap_or_default()), now);
                    self.act(streams, now);
                }
                Err(Failure::Again) => {
                    if let Some(entry) = self.entry(chan) {
                        entry.may_recv = false;
                    }
                }
                Err(failure) => self.lose(streams, chan, failure, now),
            }
        }
    }

    fn write<S: Streams<Fd = F>>(&mut self, streams: &mut S, chan: Chan, now: Instant) -> usize {
        let (mut left, mut calls) = (TURN, 0);
        loop {
            let Some(entry) = self.entry(chan).filter(|entry| entry.may_send) else { return calls };
            let fd = entry.fd;
            let bytes = self.app.output(chan, now);
            if bytes.is_empty() {
                // The call of `output` may have queued actions, for example because reading a file
                // failed.
                self.act(streams, now);
                return calls;
            }
            if left == 0 {
                self.queue(chan);
                return calls;
            }
            calls += 1;
            match streams.send(fd, bytes) {
                Ok(n) => {
                    left = left.saturating_sub(n.max(1));
                    self.counts.bytes_out.add(n as u64);
                    self.app.sent(chan, n, now);
                    self.act(streams, now);
                    // After sending, the application may accept the next request, which is still in
                    // the socket's receive buffer.
                    if self.entry(chan).is_some_and(|entry| entry.may_recv) && self.app.room(chan) > 0 {
                        self.queue(chan);
                    }
                }
                Err(Failure::Again) => {
                    if let Some(entry) = self.entry(chan) {
                        entry.may_send = false;
                    }
                }
                Err(failure) => self.lose(streams, chan, failure, now),
            }
        }
    }

    /// Carries out the application's actions in the order in which they were queued.
    fn act<S: Streams<Fd = F>>(&mut self, streams: &mut S, now: Instant) {
        while let Some(action) = self.app.poll_action() {
            match action {
                Action::Listen(chan, at) => match streams.listen(at, ACCEPTS) {
                    Ok(fd) => {
                        let at = streams.local(fd).unwrap_or(at);
                        if self.install(streams, chan, fd, Kind::Listener) {
                            self.app.on_event(chan, Event::Listening(at), now);
                        }
                    }
                    Err(failure) => self.app.on_event(chan, Event::Gone(failure), now),
                },
                Action::Connect(chan, from, to) => match streams.connect(from, to) {
                    Ok(fd) => drop(self.install(streams, chan, fd, Kind::Connecting)),
                    Err(failure) => self.app.on_event(chan, Event::Gone(failure), now),
                },
                Action::ConnectWith(chan, from, to, options) => {
                    let options: Vec<_> = options.into_iter().flatten().collect();
                    match streams.connect_with(from, to, &options) {
                        Ok(fd) => drop(self.install(streams, chan, fd, Kind::Connecting)),
                        Err(failure) => self.app.on_event(chan, Event::Gone(failure), now),
                    }
                }
                Action::Bind(chan, at) => match streams.bind(at) {
                    Ok(fd) => {
                        let at = streams.local(fd).unwrap_or(at);
                        if self.install(streams, chan, fd, Kind::Datagrams) {
                            self.app.on_event(chan, Event::Bound(at), now);
                        }
                    }
                    Err(failure) => self.app.on_event(chan, Event::Gone(failure), now),
                },
                Action::Wake(chan) => self.queue(chan),
                Action::Shutdown(chan) => {
                    if let Some(entry) = self.entry(chan) {
                        // If the connection is gone, the next call on it reports the failure.
                        let _ = streams.shutdown(entry.fd);
                    }
                }
                Action::Close(chan) => self.end(streams, chan, now),
                Action::Abort(chan) => match self.remove(chan) {
                    Some(entry) if entry.kind == Kind::Datagrams => streams.close(entry.fd),
                    Some(entry) => {
                        self.counts.aborted.bump();
                        streams.abort(entry.fd);
                    }
                    None => {}
                },
                Action::Set(chan, option) => {
                    if let Some(entry) = self.entry(chan) {
                        // By contract, an option that the socket does not support is ignored.
                        let _ = streams.set(entry.fd, option);
                    }
                }
                Action::Info(chan) => {
                    let info = self.entry(chan).and_then(|entry| streams.info(entry.fd));
                    if let Some(info) = info {
                        self.app.on_event(chan, Event::Info(info), now);
                    }
                }
            }
        }
    }

    fn end<S: Streams<Fd = F>>(&mut self, streams: &mut S, chan: Chan, now: Instant) {
        let Some(entry) = self.remove(chan) else { return };
        if entry.kind != Kind::Stream {
            streams.close(entry.fd);
            return;
        }
        self.counts.closed.bump();
        if entry.at_eof { streams.close(entry.fd) } else { self.linger(streams, entry.fd, now) }
    }

    fn linger<S: Streams<Fd = F>>(&mut self, streams: &mut S, fd: F, now: Instant) {
        if streams.shutdown(fd).is_err() {
            streams.close(fd);
            return;
        }
        if let Some(oldest) = self.lingering.push(fd, now) {
            self.cut(streams, oldest);
        }
        self.places.insert(fd, Place::Linger);
        // No further event reports the data that has already arrived, so it is discarded now.
        self.discard_input(streams, fd);
    }

    fn discard_input<S: Streams<Fd = F>>(&mut self, streams: &mut S, fd: F) {
        if self.lingering.read(streams, fd, &mut self.buffer, &self.counts) {
            self.places.remove(&fd);
        }
    }

    fn cut_lingering<S: Streams<Fd = F>>(&mut self, streams: &mut S, now: Instant) {
        while let Some(fd) = self.lingering.pop_due(now) {
            self.cut(streams, fd);
        }
    }

    fn cut<S: Streams<Fd = F>>(&mut self, streams: &mut S, fd: F) {
        self.places.remove(&fd);
        self.counts.linger_cut.bump();
        streams.close(fd);
    }
}

#[cfg(test)]
mod tests;
