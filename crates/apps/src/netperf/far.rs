//! The far end, equivalent to netserver: accepts control connections and serves the test of each,
//! one turn at a time.
//!
//! The caller selects the thread that runs the far end. [`Far::turn`] blocks only if the calls on a
//! test's sockets block. A test ends when its control connection ends, or when neither data nor
//! requests arrive for too long, for example after a power failure at the near end. [`Limits`]
//! bounds the number of near ends, in total and per address. If all slots are taken, the near end
//! that has been idle for longest is evicted.

use super::control::{Ask, Order, Ready, Say, Talk, Tally};
use super::near::STALL;
use super::sockets::{PATIENCE, Pace, Setup, Sockets, Waits};
use super::{DATAGRAM_MAX, LENGTH_MAX, MESSAGE_MAX, Test};
use crate::slots::{Connection, Limits, Room, Slots, room};
use crate::streams::{Failure, any_towards};
use linerate::stack::Instant;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Number of turns after which the control connections are checked even if data is being
/// transferred.
const ATTENTION: u32 = 64;
/// Maximum number of send and receive calls per turn, so that the near end gets its turn if it runs
/// on the same thread.
const QUANTUM: usize = 16;
/// Maximum number of datagrams received per turn.
const DATAGRAMS: usize = 64;
/// Maximum number of control connections accepted per turn.
const ACCEPTS: usize = 16;
/// Maximum time for which a control connection without a running test may send no request.
const SILENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Far<S: Sockets> {
    listener: S::Fd,
    limits: Limits,
    sessions: Slots<Session<S::Fd>>,
    buffer: Vec<u8>,
    turns: u32,
    /// Number of completed tests.
    pub tests: u64,
    /// Number of near ends (clients) refused because no slot was free, or because their address had
    /// too many connections.
    pub refused: u64,
    /// Number of near ends evicted to free a slot for another one, because they had been idle for
    /// longest.
    pub evicted: u64,
}

/// A near end's control connection and its test.
#[derive(Debug)]
struct Session<F> {
    peer: IpAddr,
    talk: Talk<F>,
    work: Option<Work<F>>,
    /// Time of the last request or data transfer.
    moved: Instant,
}

impl<F> Connection for Session<F> {
    fn peer(&self) -> IpAddr {
        self.peer
    }

    fn moved(&self) -> Instant {
        self.moved
    }
}

/// A running test.
#[derive(Debug)]
struct Work<F> {
    order: Order,
    listener: Option<F>,
    conn: Option<F>,
    /// Number of bytes received of the current message.
    got: usize,
    /// Number of bytes of the current message that are still to be sent.
    to_send: usize,
    until: Instant,
    left: u64,
    over: bool,
    tally: Tally,
}

impl<S: Sockets> Far<S> {
    /// Listens for control connections at `at`.
    ///
    /// # Errors
    /// The errors of [`Sockets::listen`].
    pub fn open(sockets: &mut S, at: SocketAddr, limits: Limits) -> Result<Far<S>, Failure> {
        let listener = sockets.listen(at, &Setup::default())?;
        let (sessions, buffer) = (Slots::new(limits.most), Vec::new());
        Ok(Far { listener, limits, sessions, buffer, turns: 0, tests: 0, refused: 0, evicted: 0 })
    }

    /// Returns the L4 port on which the far end listens for control connections.
    ///
    /// # Errors
    /// The errors of [`Sockets::local`].
    pub fn port(&self, sockets: &S) -> Result<u16, Failure> {
        Ok(sockets.local(self.listener)?.port())
    }

    /// Returns the number of connected near ends.
    pub fn near_ends(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the next time at which a silent near end is disconnected.
    pub fn next_timer(&self) -> Option<Instant> {
        self.sessions.iter().map(|(_, session)| session.expires()).min()
    }

    /// Serves all near ends as far as is possible without waiting; returns whether there was
    /// anything to do.
    #[inline]
    pub fn turn(&mut self, sockets: &mut S, now: Instant) -> bool {
        self.turns = self.turns.wrapping_add(1);
        let mut busy = false;
        for (_, session) in self.sessions.iter_mut() {
            if session.work.as_mut().is_some_and(|work| work.turn(sockets, &mut self.buffer, now)) {
                (session.moved, busy) = (now, true);
            }
        }
        if !busy || self.turns.is_multiple_of(ATTENTION) {
            return self.attend(sockets, now) || busy;
        }
        true
    }

    /// Runs [`Far::turn`] in a loop until `stop` returns `true`.
    pub fn run(&mut self, sockets: &mut S, mut stop: impl FnMut(&Far<S>) -> bool) {
        let mut pace = Pace::Go;
        while !stop(self) {
            let now = sockets.step(pace);
            pace = if self.turn(sockets, now) { Pace::Go } else { Pace::Wait };
        }
    }

    /// Accepts new control connections and serves the existing ones.
    #[cold]
    fn attend(&mut self, sockets: &mut S, now: Instant) -> bool {
        // With the kernel's sockets, an accept is a system call, so a test with data to transfer is
        // interrupted only in every 64th turn ([`Far::turn`]).
        let mut busy = self.accept(sockets, now);
        for at in 0..self.sessions.places() {
            busy |= self.attend_to(sockets, at, now);
        }
        busy
    }

    fn accept(&mut self, sockets: &mut S, now: Instant) -> bool {
        for accepted in 0..ACCEPTS {
            let Ok((fd, peer)) = sockets.accept(self.listener) else { return accepted > 0 };
            let peer = peer.ip();
            let Limits { most, per_peer } = self.limits;
            let room = room(self.sessions.iter(), (most, per_peer), peer, now);
            if let Room::Of(old) = room {
                self.end(sockets, old);
                self.evicted += 1;
            }
            let session = Session { peer, talk: Talk::new(fd), work: None, moved: now };
            if room == Room::None || self.sessions.insert(session).is_err() {
                let mut talk = Talk::new(fd);
                talk.say(&Say::Refused(format!("too many clients: at most {most}, {per_peer} per address")));
                let _ = talk.flush(sockets); // the line fits an empty send buffer, or the peer is gone
                // Closing with unread bytes would reset the connection, and the peer might lose
                // this line.
                let _ = sockets.recv(fd, &mut [0; 4096]);
                sockets.close(fd);
                self.refused += 1;
            }
        }
        true
    }

    /// Serves the control connection in slot `at`.
    fn attend_to(&mut self, sockets: &mut S, at: u32, now: Instant) -> bool {
        // A call that blocks for one near end would delay the others.
        let waits = if self.sessions.len() > 1 { Waits::Never } else { Waits::Briefly };
        let Some(session) = self.sessions.get_mut(at) else { return false };
        let heard = match session.talk.flush(sockets) {
            Ok(()) => session.talk.receive::<S, Ask>(sockets),
            Err(why) => Err(why),
        };
        match heard {
            Ok(ask) => {
                session.moved = now;
                let reply = match ask {
                    Ask::Test(order) => match session.begin(sockets, &mut self.buffer, order, (now, waits)) {
                        Ok(ready) => Say::Ready(ready),
                        Err(why) => Say::Refused(why),
                    },
                    Ask::Results => match session.results(sockets, &mut self.buffer, now) {
                        Some(tally) => {
                            self.tests += 1;
                            Say::Results(tally)
                        }
                        None => Say::Refused("no test is running".to_owned()),
                    },
                };
                session.talk.say(&reply);
                let _ = session.talk.flush(sockets); // what does not fit is sent in a later turn
                true
            }
            Err(Failure::Again) if now < session.expires() => false,
            Err(_) => {
                self.end(sockets, at);
                true
            }
        }
    }

    fn end(&mut self, sockets: &mut S, at: u32) {
        if let Some(mut session) = self.sessions.remove(at) {
            session.end(sockets);
            sockets.close(session.talk.fd);
        }
    }
}

impl<F: Copy> Session<F> {
    /// Returns the time at which the session is ended if neither requests nor data arrive.
    fn expires(&self) -> Instant {
        let patience = self.work.as_ref().map_or(SILENCE, |work| {
            // If all datagrams are lost, nothing arrives until the near end requests the results.
            Duration::from_nanos(work.order.time_ns).min(LENGTH_MAX) + STALL + PATIENCE
        });
        self.moved.after(patience)
    }

    fn end<S: Sockets<Fd = F>>(&mut self, sockets: &mut S) {
        if let Some(work) = self.work.take() {
            work.close(sockets);
        }
    }

    /// Ends the test and returns its counts; `None` if no test is running.
    fn results<S: Sockets<Fd = F>>(&mut self, sockets: &mut S, buffer: &mut [u8], now: Instant) -> Option<Tally> {
        let mut work = self.work.take()?;
        // Datagrams that have already arrived are counted, too.
        for _ in 0..1 << 20 {
            if !work.order.test.is_udp() || !work.turn(sockets, buffer, now) {
                break;
            }
        }
        let tally = std::mem::take(&mut work.tally);
        work.close(sockets);
        Some(tally)
    }

    /// Opens the sockets for the test that `order` describes. `buffer` is shared with other
    /// sessions and grows as needed.
    fn begin<S: Sockets<Fd = F>>(
        &mut self,
        sockets: &mut S,
        buffer: &mut Vec<u8>,
        order: Order,
        (now, waits): (Instant, Waits),
    ) -> Result<Ready, String> {
        self.end(sockets);
        let most = if order.test.is_udp() { DATAGRAM_MAX } else { MESSAGE_MAX };
        if order.request > most || order.response > most {
            return Err(format!("-r {},{}: must be at most {most} bytes each", order.request, order.response));
        }
        let any = any_towards(SocketAddr::new(self.peer, 0));
        let setup = Setup {
            send_buffer: order.send_buffer,
            recv_buffer: order.recv_buffer,
            nodelay: order.nodelay,
            from: None,
            waits,
        };
        let opened = match order.test.is_udp() {
            true => sockets.datagrams(any, None, &setup),
            false => sockets.listen(any, &setup),
        };
        let fd = opened.map_err(|why| format!("cannot open a socket for {}: {why}", order.test))?;
        let sizes = sockets.sizes(fd);
        let at = sockets.local(fd).map_err(|why| format!("{}: {why}", order.test))?;
        let or = |size: usize, buffer: usize| if size > 0 { size } else { buffer.clamp(1, most) };
        let (request, response) = (or(order.request, sizes.recv), or(order.response, sizes.send));
        let least = request.max(response).max(if order.test.is_udp() { DATAGRAM_MAX } else { 1 });
        buffer.resize(buffer.len().max(least), b'n');
        let until = now.after(Duration::from_nanos(order.time_ns));
        let left = if order.bytes > 0 { order.bytes } else { u64::MAX };
        let order = Order { request, response, ..order };
        let (listener, conn) = if order.test.is_udp() { (None, Some(fd)) } else { (Some(fd), None) };
        let (got, to_send) = (0, 0);
        self.work =
            Some(Work { order, listener, conn, got, to_send, until, left, over: false, tally: Tally::default() });
        Ok(Ready { port: at.port(), send_buffer: sizes.send, recv_buffer: sizes.recv, send_size: response })
    }
}

impl<F: Copy> Work<F> {
    fn close<S: Sockets<Fd = F>>(self, sockets: &mut S) {
        self.listener.into_iter().chain(self.conn).for_each(|fd| sockets.close(fd));
    }

    #[inline]
    fn turn<S: Sockets<Fd = F>>(&mut self, sockets: &mut S, buffer: &mut [u8], now: Instant) -> bool {
        if self.over {
            return false;
        }
        let done = match (self.conn, self.order.test) {
            (Some(fd), Test::TcpRr) => self.respond(sockets, fd, buffer),
            (Some(fd), Test::TcpStream) => self.sink(sockets, fd, buffer),
            (Some(fd), Test::UdpRr) => self.echo(sockets, fd, buffer),
            (Some(fd), Test::UdpStream) => self.collect(sockets, fd, buffer),
            (Some(fd), Test::TcpMaerts) => self.source(sockets, fd, buffer, now),
            (Some(fd), Test::TcpCrr) => self.respond(sockets, fd, buffer),
            (Some(_), Test::TcpCc) => {
                self.hang_up(sockets);
                Ok(())
            }
            (None, _) => self.accept(sockets),
        };
        match done {
            Ok(()) => true,
            Err(Failure::Again) => false,
            Err(why) => {
                // In TCP_CRR and TCP_CC the near end reports a failed connection. In other tests a
                // failed connection ends the test.
                if matches!(self.order.test, Test::TcpCrr | Test::TcpCc) {
                    self.hang_up(sockets);
                } else {
                    (self.over, self.tally.failed) = (true, Some(why.to_string()));
                }
                true
            }
        }
    }

    fn accept<S: Sockets<Fd = F>>(&mut self, sockets: &mut S) -> Result<(), Failure> {
        let Some(listener) = self.listener else { return Err(Failure::Again) };
        self.conn = Some(sockets.accept(listener)?.0);
        (self.got, self.to_send) = (0, 0);
        match self.order.test {
            // The connection is closed immediately: the near end waits for the close, and closing
            // in the next turn would delay it until the next round.
            Test::TcpCc => self.hang_up(sockets),
            Test::TcpMaerts => self.until = sockets.now().after(Duration::from_nanos(self.order.time_ns)),
            _ => {}
        }
        Ok(())
    }

    fn hang_up<S: Sockets<Fd = F>>(&mut self, sockets: &mut S) {
        if let Some(fd) = self.conn.take() {
            self.tally.messages += 1;
            sockets.close(fd);
        }
    }

    /// Receives a request and sends its response. In TCP_CRR, then closes the connection.
    #[inline]
    fn respond<S: Sockets<Fd = F>>(&mut self, sockets: &mut S, fd: F, buffer: &mut [u8]) -> Result<(), Failure> {
        let Order { request, response, .. } = self.order;
        if self.to_send > 0 {
            return self.send(sockets, fd, buffer);
        }
        let into = buffer.get_mut(..request - self.got).unwrap_or_default();
        match sockets.recv(fd, into)? {
            0 => {
                if self.order.test == Test::TcpCrr {
                    self.hang_up(sockets);
                }
                if self.order.test == Test::TcpRr {
                    sockets.shutdown(fd);
                    self.over = true;
                }
                return Ok(());
            }
            n => self.got += n,
        }
        self.tally.calls += 1;
        if self.got < request {
            return Ok(());
        }
        (self.got, self.to_send) = (0, response);
        self.tally.bytes += request as u64;
        self.send(sockets, fd, buffer)
    }

    #[inline]
    fn send<S: Sockets<Fd = F>>(&mut self, sockets: &mut S, fd: F, buffer: &[u8]) -> Result<(), Failure> {
        let n = sockets.send(fd, buffer.get(..self.to_send).unwrap_or_default())?;
        self.to_send -= n.min(self.to_send);
        if self.to_send == 0 {
            match self.order.test {
                Test::TcpCrr => self.hang_up(sockets),
                _ => self.tally.messages += 1,
            }
        }
        Ok(())
    }

    /// Receives and discards the bytes of TCP_STREAM.
    fn sink<S: Sockets<Fd = F>>(&mut self, sockets: &mut S, fd: F, buffer: &mut [u8]) -> Result<(), Failure> {
        let into = buffer.get_mut(..self.order.request).unwrap_or_default();
        for at in 0..QUANTUM {
            match sockets.recv(fd, into) {
                Ok(0) => {
                    // The near end waits for this shutdown, which proves that the last byte has
                    // arrived.
                    sockets.shutdown(fd);
                    self.over = true;
                    return Ok(());
                }
                Ok(n) => {
                    self.tally.bytes += n as u64;
                    self.tally.calls += 1;
                }
                Err(Failure::Again) if at > 0 => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Sends the bytes of TCP_MAERTS.
    fn source<S: Sockets<Fd = F>>(
        &mut self,
        sockets: &mut S,
        fd: F,
        buffer: &[u8],
        now: Instant,
    ) -> Result<(), Failure> {
        for at in 0..QUANTUM {
            if self.left == 0 || self.left == u64::MAX && now >= self.until {
                sockets.shutdown(fd);
                self.over = true;
                return Ok(());
            }
            if self.to_send == 0 {
                self.to_send = self.order.response.min(usize::try_from(self.left).unwrap_or(usize::MAX));
            }
            match sockets.send(fd, buffer.get(..self.to_send).unwrap_or_default()) {
                Ok(n) => {
                    self.to_send -= n.min(self.to_send);
                    self.tally.bytes += n as u64;
                    self.tally.messages += u64::from(self.to_send == 0);
                    self.tally.calls += 1;
                    if self.left != u64::MAX {
                        self.left = self.left.saturating_sub(n as u64);
                    }
                }
                Err(Failure::Again) if at > 0 => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Receives and discards the datagrams of UDP_STREAM.
    fn collect<S: Sockets<Fd = F>>(&mut self, sockets: &mut S, fd: F, buffer: &mut [u8]) -> Result<(), Failure> {
        for at in 0..DATAGRAMS {
            match sockets.recv(fd, buffer) {
                Ok(n) => {
                    self.tally.bytes += n as u64;
                    self.tally.messages += 1;
                }
                Err(Failure::Again) if at > 0 => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Sends the responses of UDP_RR. Like netserver, which uses recvfrom and sendto, it answers
    /// any sender.
    #[inline]
    fn echo<S: Sockets<Fd = F>>(&mut self, sockets: &mut S, fd: F, buffer: &mut [u8]) -> Result<(), Failure> {
        let (n, from, requested) = match sockets.recv_msg(fd, buffer) {
            // The error was caused by an earlier response: an ICMP message arrived, or ARP was not
            // answered.
            Err(Failure::Refused | Failure::HostUnreachable | Failure::NetUnreachable) => return Ok(()),
            received => received?,
        };
        self.tally.bytes += n as u64;
        self.tally.messages += 1;
        // A response that cannot be sent counts as a lost datagram, so the error is ignored.
        let _ = sockets.send_msg(fd, buffer.get(..self.order.response).unwrap_or_default(), from, requested);
        Ok(())
    }
}
