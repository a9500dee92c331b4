//! The far end, netserver's part: takes one control connection after the other, and does what each asks, a turn at a time.
//!
//! Who drives it decides about threads: [`Far::turn`] never waits unless the sockets of its test do. A near end whose control
//! connection is gone ends its test; so does one that says nothing while nothing moves, for it may have lost its power: there is one
//! near end at a time, and the next would wait for ever.

use super::control::{Ask, Order, Ready, Say, Talk, Tally};
use super::near::STALL;
use super::sockets::{PATIENCE, Pace, Setup, Sockets, Waits};
use super::{DATAGRAM_MAX, LENGTH_MAX, MESSAGE_MAX, Test};
use crate::streams::Failure;
use clock::{Duration, Instant};
use std::net::{Ipv4Addr, SocketAddr};

/// Turns with work to do between two looks at the control connection.
const ATTENTION: u32 = 64;
/// Calls of a turn, so that the other end has its turn too.
const QUANTUM: usize = 16;
/// The same of datagrams.
const DATAGRAMS: usize = 64;
/// How long a near end may say nothing before it asks for a test: the next one waits for [`PATIENCE`].
const SILENCE: Duration = Duration::from_secs(5);

/// A far end.
#[derive(Debug)]
pub struct Far<S: Sockets> {
    listener: S::Fd,
    talk: Option<Talk<S::Fd>>,
    work: Option<Work<S::Fd>>,
    buffer: Vec<u8>,
    turns: u32,
    /// When something was last asked, or moved.
    moved: Instant,
    /// Tests that came to their end.
    pub tests: u64,
}

/// A test under way.
#[derive(Debug)]
struct Work<F> {
    order: Order,
    listener: Option<F>,
    conn: Option<F>,
    /// Bytes of the message that is coming, or going.
    got: usize,
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
    /// As [`Sockets::listen`].
    pub fn open(sockets: &mut S, at: SocketAddr) -> Result<Far<S>, Failure> {
        let listener = sockets.listen(at, &Setup::default())?;
        Ok(Far { listener, talk: None, work: None, buffer: Vec::new(), turns: 0, moved: Instant::ZERO, tests: 0 })
    }

    /// Its L4 port.
    ///
    /// # Errors
    /// As [`Sockets::local`].
    pub fn port(&self, sockets: &S) -> Result<u16, Failure> {
        Ok(sockets.local(self.listener)?.port())
    }

    /// Is there a near end?
    pub fn has_company(&self) -> bool {
        self.talk.is_some()
    }

    /// When a near end that says nothing is given up.
    pub fn next_timer(&self) -> Option<Instant> {
        self.talk.as_ref()?;
        let patience = self.work.as_ref().map_or(SILENCE, |work| {
            // Its datagrams may all be lost: then nothing moves until its time is over and it asks for the figures.
            Duration::from_nanos(work.order.time_ns).min(LENGTH_MAX) + STALL + PATIENCE
        });
        Some(self.moved.after(patience))
    }

    /// Does what can be done now; says whether that was something.
    #[inline]
    pub fn turn(&mut self, sockets: &mut S, now: Instant) -> bool {
        self.turns = self.turns.wrapping_add(1);
        let busy = self.work.as_mut().is_some_and(|work| work.turn(sockets, &mut self.buffer, now));
        if busy {
            self.moved = now;
        }
        if !busy || self.turns.is_multiple_of(ATTENTION) {
            return self.attend(sockets, now) || busy;
        }
        true
    }

    /// A loop around [`Far::turn`], until `stop` says so.
    pub fn run(&mut self, sockets: &mut S, mut stop: impl FnMut(&Far<S>) -> bool) {
        let mut pace = Pace::Go;
        while !stop(self) {
            let now = sockets.step(pace);
            pace = if self.turn(sockets, now) { Pace::Go } else { Pace::Wait };
        }
    }

    #[cold]
    fn attend(&mut self, sockets: &mut S, now: Instant) -> bool {
        let Some(talk) = &mut self.talk else {
            self.talk = sockets.accept(self.listener).ok().map(Talk::new);
            self.moved = now;
            return self.talk.is_some();
        };
        let heard = match talk.flush(sockets) {
            Ok(()) => talk.hear::<S, Ask>(sockets),
            Err(why) => Err(why),
        };
        match heard {
            Ok(ask) => {
                self.moved = now;
                let say = self.obey(sockets, ask, now);
                if let Some(talk) = &mut self.talk {
                    talk.say(&say);
                    let _ = talk.flush(sockets); // what is left goes in a later turn
                }
                true
            }
            Err(Failure::Again) if self.next_timer().is_none_or(|at| now < at) => false,
            Err(_) => {
                self.end(sockets);
                if let Some(talk) = self.talk.take() {
                    sockets.close(talk.fd);
                }
                true
            }
        }
    }

    fn obey(&mut self, sockets: &mut S, ask: Ask, now: Instant) -> Say {
        match ask {
            Ask::Test(order) => {
                self.end(sockets);
                match self.begin(sockets, order, now) {
                    Ok(ready) => Say::Ready(ready),
                    Err(why) => Say::Refused(why),
                }
            }
            Ask::Results => {
                let Some(mut work) = self.work.take() else { return Say::Refused("no test is under way".to_owned()) };
                // What has arrived already counts.
                for _ in 0..1 << 20 {
                    if !work.order.test.is_udp() || !work.turn(sockets, &mut self.buffer, now) {
                        break;
                    }
                }
                self.tests += 1;
                let tally = std::mem::take(&mut work.tally);
                work.close(sockets);
                Say::Results(tally)
            }
        }
    }

    fn end(&mut self, sockets: &mut S) {
        if let Some(work) = self.work.take() {
            work.close(sockets);
        }
    }

    fn begin(&mut self, sockets: &mut S, order: Order, now: Instant) -> Result<Ready, String> {
        let most = if order.test.is_udp() { DATAGRAM_MAX } else { MESSAGE_MAX };
        if order.request > most || order.response > most {
            return Err(format!("messages of {} and {} bytes: at most {most}", order.request, order.response));
        }
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let setup = Setup {
            send_buffer: order.send_buffer,
            recv_buffer: order.recv_buffer,
            nodelay: order.nodelay,
            from: None,
            waits: Waits::Briefly,
        };
        let opened = match order.test.is_udp() {
            true => sockets.datagrams(any, None, &setup),
            false => sockets.listen(any, &setup),
        };
        let fd = opened.map_err(|why| format!("a socket for {}: {why}", order.test))?;
        let sizes = sockets.sizes(fd);
        let at = sockets.local(fd).map_err(|why| format!("{}: {why}", order.test))?;
        let or = |size: usize, buffer: usize| if size > 0 { size } else { buffer.clamp(1, most) };
        let (request, response) = (or(order.request, sizes.recv), or(order.response, sizes.send));
        self.buffer.clear();
        self.buffer.resize(request.max(response).max(if order.test.is_udp() { DATAGRAM_MAX } else { 1 }), b'n');
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
                // One connection of many that fails is the near end's to tell; one that is the test ends it.
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
        self.conn = Some(sockets.accept(listener)?);
        (self.got, self.to_send) = (0, 0);
        match self.order.test {
            // At once: the near end waits for nothing else, and one turn more would be the next round's.
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

    /// A request read, its response written; of TCP_CRR the end too.
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

    /// TCP_STREAM's receiver.
    fn sink<S: Sockets<Fd = F>>(&mut self, sockets: &mut S, fd: F, buffer: &mut [u8]) -> Result<(), Failure> {
        let into = buffer.get_mut(..self.order.request).unwrap_or_default();
        for at in 0..QUANTUM {
            match sockets.recv(fd, into) {
                Ok(0) => {
                    // The near end has waited for this: it has the last byte's arrival.
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

    /// TCP_MAERTS' sender.
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

    /// UDP_STREAM's receiver.
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

    /// UDP_RR's other end: whoever asks is answered, as netserver does by recvfrom and sendto.
    #[inline]
    fn echo<S: Sockets<Fd = F>>(&mut self, sockets: &mut S, fd: F, buffer: &mut [u8]) -> Result<(), Failure> {
        let (n, from, asked) = match sockets.recv_msg(fd, buffer) {
            Err(Failure::Refused) => return Ok(()), // what an earlier answer met
            received => received?,
        };
        self.tally.bytes += n as u64;
        self.tally.messages += 1;
        // An answer that cannot leave is a datagram lost.
        let _ = sockets.send_msg(fd, buffer.get(..self.order.response).unwrap_or_default(), from, asked);
        Ok(())
    }
}
