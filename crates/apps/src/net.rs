//! An in-memory network for tests. The program under test uses one end, which implements
//! [`Streams`]; the test controls the other end, called the far end.
//!
//! Bytes arrive at once. A connection buffers a limited number of bytes in each direction, so a
//! test simulates a slow reader by not reading. Readiness is edge-triggered and reported once: a
//! driver that misses an event stalls. With a seed, calls transfer fewer bytes than they could.

use crate::streams::{Ends, Failure, StreamInfo, StreamOption, Streams};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum number of queued datagrams per direction.
const DATAGRAMS_MAX: usize = 10_000;

/// The far end of a connection, controlled by the test.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Far(pub usize);

#[derive(Debug)]
pub(crate) struct Pipe {
    bytes: VecDeque<u8>,
    most: usize,
    is_shut: bool,
}

impl Pipe {
    fn new(most: usize) -> Pipe {
        Pipe { bytes: VecDeque::new(), most, is_shut: false }
    }
}

#[derive(Debug)]
pub(crate) struct Conn {
    ends: Ends,
    to_us: Pipe,
    to_far: Pipe,
    /// Set while the far end has not answered the program's connect yet.
    is_pending: bool,
    is_reset: bool,
    far_closed: bool,
    we_closed: bool,
}

#[derive(Debug)]
pub(crate) enum Sock {
    Listener { at: SocketAddr, waiting: VecDeque<usize> },
    Conn(usize),
    Datagrams { at: SocketAddr, came: VecDeque<(Ends, Vec<u8>)> },
}

#[derive(Debug, Default)]
pub struct Net {
    pub(crate) socks: BTreeMap<usize, Sock>,
    pub(crate) conns: Vec<Conn>,
    pub(crate) ready: BTreeSet<usize>,
    pub(crate) next_fd: usize,
    pub(crate) next_port: u16,
    /// Number of bytes that a new connection buffers in each direction; 0: 64 KiB.
    pub window: usize,
    /// Maximum number of descriptors; 0: unlimited.
    pub fds_max: usize,
    /// All socket options that the program has set.
    pub options: Vec<StreamOption>,
    /// TCP statistics that [`Streams::info`] returns.
    pub info: Option<StreamInfo>,
    /// Seed that selects where reads and writes are cut short; with 0 they are never cut short.
    pub seed: u64,
    /// Destinations of the program's connects that were refused.
    pub refused: Vec<SocketAddr>,
    /// Datagrams that the program has sent: source, destination, payload.
    pub datagrams: VecDeque<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// Number of queued datagrams at which sending fails until the test takes them. With 0, sending
    /// never fails, and datagrams beyond [`DATAGRAMS_MAX`] are dropped.
    pub datagrams_wait: usize,
    /// Addresses at which the far end accepts connections.
    pub far_listens: BTreeSet<SocketAddr>,
}

impl Net {
    fn fd(&mut self, sock: Sock) -> usize {
        self.next_fd += 1;
        self.socks.insert(self.next_fd, sock);
        self.ready.insert(self.next_fd);
        self.next_fd
    }

    fn fd_of(&self, conn: usize) -> Option<usize> {
        self.socks.iter().find(|(_, sock)| matches!(sock, Sock::Conn(c) if *c == conn)).map(|(fd, _)| *fd)
    }

    fn wake(&mut self, conn: usize) {
        if let Some(fd) = self.fd_of(conn) {
            self.ready.insert(fd);
        }
    }

    fn some(&mut self, n: usize) -> usize {
        if self.seed == 0 || n <= 1 {
            return n;
        }
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        1 + (self.seed >> 20) as usize % n
    }

    fn conn(&mut self, ends: Ends, is_pending: bool) -> usize {
        let most = if self.window == 0 { 64 * 1024 } else { self.window };
        let (to_us, to_far) = (Pipe::new(most), Pipe::new(most));
        self.conns.push(Conn { ends, to_us, to_far, is_pending, is_reset: false, far_closed: false, we_closed: false });
        self.conns.len() - 1
    }

    // Functions that the test calls at the far end.

    /// Connects from `from` to the program's listener at `to`; returns `None` if there is no such
    /// listener.
    pub fn connect_from(&mut self, from: SocketAddr, to: SocketAddr) -> Option<Far> {
        let (fd, _) = self.socks.iter().find(|(_, sock)| matches!(sock, Sock::Listener { at, .. } if *at == to))?;
        let fd = *fd;
        let conn = self.conn(Ends { local: to, peer: from }, false);
        let Some(Sock::Listener { waiting, .. }) = self.socks.get_mut(&fd) else { return None };
        waiting.push_back(conn);
        self.ready.insert(fd);
        Some(Far(conn))
    }

    /// Sends bytes from the far end; returns how many of them the connection accepted.
    pub fn far_send(&mut self, far: Far, bytes: &[u8]) -> usize {
        let conn = &mut self.conns[far.0];
        let n = bytes.len().min(conn.to_us.most.saturating_sub(conn.to_us.bytes.len()));
        if conn.is_reset || conn.to_us.is_shut {
            return 0;
        }
        conn.to_us.bytes.extend(&bytes[..n]);
        self.wake(far.0);
        n
    }

    /// Sends a datagram from the far end to the program's UDP sockets at that address.
    pub fn far_send_datagram(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        for (fd, sock) in &mut self.socks {
            if let Sock::Datagrams { at, came } = sock
                && at.port() == to.port()
                && came.len() < DATAGRAMS_MAX
            {
                came.push_back((Ends { local: SocketAddr::new(to.ip(), 0), peer: from }, bytes.to_vec()));
                self.ready.insert(*fd);
            }
        }
    }

    /// Discards all queued datagrams, so that sending is possible again.
    pub fn take_datagrams(&mut self) {
        self.datagrams.clear();
        let sockets = self.socks.iter().filter(|(_, sock)| matches!(sock, Sock::Datagrams { .. }));
        self.ready.extend(sockets.map(|(fd, _)| *fd));
    }

    /// Reads at most `most` bytes at the far end.
    pub fn far_recv(&mut self, far: Far, most: usize) -> Vec<u8> {
        let conn = &mut self.conns[far.0];
        let n = most.min(conn.to_far.bytes.len());
        let bytes = conn.to_far.bytes.drain(..n).collect();
        self.wake(far.0);
        bytes
    }

    /// Returns whether the far end has read all data and the program has shut down its side, or the
    /// connection was reset.
    #[cfg(test)]
    pub fn far_eof(&self, far: Far) -> bool {
        let conn = &self.conns[far.0];
        conn.is_reset || (conn.to_far.is_shut && conn.to_far.bytes.is_empty())
    }

    /// Returns how many bytes the far end can send on the connection now.
    #[cfg(test)]
    pub fn far_room(&self, far: Far) -> usize {
        let pipe = &self.conns[far.0].to_us;
        pipe.most.saturating_sub(pipe.bytes.len())
    }

    /// Returns both addresses of a connection.
    #[cfg(test)]
    pub fn ends_of(&self, far: Far) -> Ends {
        self.conns[far.0].ends
    }

    /// Returns whether the connection was reset.
    #[cfg(test)]
    pub fn is_reset(&self, far: Far) -> bool {
        self.conns[far.0].is_reset
    }

    /// Shuts down the sending side of the far end.
    pub fn far_shut(&mut self, far: Far) {
        self.conns[far.0].to_us.is_shut = true;
        self.wake(far.0);
    }

    /// Resets the connection from the far end.
    pub fn far_reset(&mut self, far: Far) {
        let conn = &mut self.conns[far.0];
        (conn.is_reset, conn.far_closed) = (true, true);
        self.wake(far.0);
    }

    /// Answers the program's pending connects: accepts those to addresses in `far_listens` and
    /// refuses the others. Returns the accepted connections.
    pub fn answer_connects(&mut self) -> Vec<Far> {
        let mut taken = Vec::new();
        for at in 0..self.conns.len() {
            let conn = &mut self.conns[at];
            if !conn.is_pending || conn.we_closed {
                continue;
            }
            conn.is_pending = false;
            if self.far_listens.contains(&conn.ends.peer) {
                taken.push(Far(at));
            } else {
                conn.is_reset = true;
                let to = conn.ends.peer;
                self.refused.push(to);
            }
            self.wake(at);
        }
        taken
    }

    /// Returns the number of bytes buffered in all connections.
    pub fn held(&self) -> usize {
        self.conns.iter().map(|conn| conn.to_us.bytes.len() + conn.to_far.bytes.len()).sum()
    }

    /// Returns the number of descriptors that the program has open.
    pub fn fds(&self) -> usize {
        self.socks.len()
    }

    /// Returns the addresses of the program's listeners.
    pub fn listeners(&self) -> Vec<SocketAddr> {
        let listeners = self.socks.values().filter_map(|sock| match sock {
            Sock::Listener { at, .. } => Some(*at),
            Sock::Conn(_) | Sock::Datagrams { .. } => None,
        });
        listeners.collect()
    }

    fn live(&mut self, fd: usize) -> Result<(usize, &mut Conn), Failure> {
        match self.socks.get(&fd) {
            Some(Sock::Conn(conn)) => {
                let at = *conn;
                Ok((at, &mut self.conns[at]))
            }
            _ => Err(Failure::Invalid),
        }
    }
}

impl Streams for Net {
    type Fd = usize;

    fn listen(&mut self, at: SocketAddr, _backlog: usize) -> Result<usize, Failure> {
        if self.fds_max > 0 && self.socks.len() >= self.fds_max {
            return Err(Failure::NoRoom);
        }
        let mut at = at;
        if at.port() == 0 {
            self.next_port = self.next_port.wrapping_add(1) % 10_000;
            at.set_port(40_000 + self.next_port);
        }
        if self.listeners().contains(&at) {
            return Err(Failure::InUse);
        }
        Ok(self.fd(Sock::Listener { at, waiting: VecDeque::new() }))
    }

    fn local(&self, fd: usize) -> Result<SocketAddr, Failure> {
        match self.socks.get(&fd) {
            Some(Sock::Listener { at, .. } | Sock::Datagrams { at, .. }) => Ok(*at),
            Some(Sock::Conn(conn)) => Ok(self.conns[*conn].ends.local),
            None => Err(Failure::Invalid),
        }
    }

    fn accept(&mut self, listener: usize) -> Result<(usize, Ends), Failure> {
        if self.fds_max > 0 && self.socks.len() >= self.fds_max {
            return Err(Failure::NoRoom);
        }
        let Some(Sock::Listener { waiting, .. }) = self.socks.get_mut(&listener) else { return Err(Failure::Invalid) };
        let conn = waiting.pop_front().ok_or(Failure::Again)?;
        let ends = self.conns[conn].ends;
        Ok((self.fd(Sock::Conn(conn)), ends))
    }

    fn connect(&mut self, from: SocketAddr, to: SocketAddr) -> Result<usize, Failure> {
        let conn = self.conn(Ends { local: from, peer: to }, true);
        Ok(self.fd(Sock::Conn(conn)))
    }

    fn bind(&mut self, at: SocketAddr) -> Result<usize, Failure> {
        let mut at = at;
        if at.port() == 0 {
            self.next_port = self.next_port.wrapping_add(1) % 10_000;
            at.set_port(40_000 + self.next_port);
        }
        Ok(self.fd(Sock::Datagrams { at, came: VecDeque::new() }))
    }

    fn send_to(&mut self, fd: usize, bytes: &[u8], ends: Ends) -> Result<(), Failure> {
        let Some(Sock::Datagrams { at, .. }) = self.socks.get(&fd) else { return Err(Failure::Invalid) };
        if self.datagrams_wait > 0 && self.datagrams.len() >= self.datagrams_wait {
            return Err(Failure::Again);
        }
        if self.datagrams.len() >= DATAGRAMS_MAX {
            return Err(Failure::NoRoom);
        }
        let local = ends.local.ip();
        let from = SocketAddr::new(if local.is_unspecified() { at.ip() } else { local }, at.port());
        self.datagrams.push_back((from, ends.peer, bytes.to_vec()));
        Ok(())
    }

    fn recv_from(&mut self, fd: usize, into: &mut [u8]) -> Result<(usize, Ends), Failure> {
        let Some(Sock::Datagrams { came, .. }) = self.socks.get_mut(&fd) else { return Err(Failure::Invalid) };
        let (ends, bytes) = came.pop_front().ok_or(Failure::Again)?;
        let n = bytes.len().min(into.len());
        into[..n].copy_from_slice(&bytes[..n]);
        Ok((n, ends))
    }

    fn connected(&mut self, fd: usize) -> Result<Ends, Failure> {
        match self.live(fd)? {
            (_, conn) if conn.is_reset => Err(Failure::Refused),
            (_, conn) if conn.is_pending => Err(Failure::Again),
            (_, conn) => Ok(conn.ends),
        }
    }

    fn send(&mut self, fd: usize, bytes: &[u8]) -> Result<usize, Failure> {
        assert!(!bytes.is_empty(), "empty send");
        let (at, conn) = self.live(fd)?;
        if conn.is_reset || conn.to_far.is_shut {
            return Err(Failure::Gone);
        }
        let room = conn.to_far.most.saturating_sub(conn.to_far.bytes.len());
        if room == 0 {
            return Err(Failure::Again);
        }
        let n = self.some(room.min(bytes.len()));
        self.conns[at].to_far.bytes.extend(&bytes[..n]);
        Ok(n)
    }

    fn recv(&mut self, fd: usize, into: &mut [u8]) -> Result<usize, Failure> {
        assert!(!into.is_empty(), "empty receive buffer");
        let (at, conn) = self.live(fd)?;
        if conn.is_reset {
            return Err(Failure::Gone);
        }
        if conn.to_us.bytes.is_empty() {
            return if conn.to_us.is_shut { Ok(0) } else { Err(Failure::Again) };
        }
        let n = into.len().min(conn.to_us.bytes.len());
        let n = self.some(n);
        for (place, byte) in into.iter_mut().zip(self.conns[at].to_us.bytes.drain(..n)) {
            *place = byte;
        }
        Ok(n)
    }

    fn shutdown(&mut self, fd: usize) -> Result<(), Failure> {
        let (_, conn) = self.live(fd)?;
        conn.to_far.is_shut = true;
        if conn.is_reset { Err(Failure::Gone) } else { Ok(()) }
    }

    fn close(&mut self, fd: usize) {
        if let Ok((_, conn)) = self.live(fd) {
            (conn.we_closed, conn.to_far.is_shut, conn.to_us.is_shut) = (true, true, true);
            // As in TCP, closing with unread bytes resets the connection.
            conn.is_reset |= !conn.to_us.bytes.is_empty();
        }
        if let Some(Sock::Listener { waiting, .. }) = self.socks.remove(&fd) {
            waiting.into_iter().for_each(|conn| self.conns[conn].is_reset = true);
        }
        self.ready.remove(&fd);
    }

    fn abort(&mut self, fd: usize) {
        if let Ok((_, conn)) = self.live(fd) {
            (conn.we_closed, conn.is_reset) = (true, true);
        }
        self.socks.remove(&fd);
        self.ready.remove(&fd);
    }

    fn set(&mut self, fd: usize, option: StreamOption) -> Result<(), Failure> {
        self.live(fd)?;
        self.options.push(option);
        Ok(())
    }

    fn info(&self, _fd: usize) -> Option<StreamInfo> {
        self.info
    }

    fn poll(&mut self, ready: &mut Vec<usize>, _timeout: Duration) {
        ready.extend(std::mem::take(&mut self.ready));
    }
}

/// An application and its driver on an in-memory network, with a clock that only the test advances.
#[derive(Debug)]
pub struct Rig<A> {
    pub net: Net,
    pub server: crate::serve::Server<A, usize>,
    pub now: linerate::stack::Instant,
    at: SocketAddr,
    next_port: u16,
}

impl<A: crate::app::App> Rig<A> {
    /// Creates a driver for an application that has no listener, such as a client.
    pub fn client_of(app: A, net: Net) -> Rig<A> {
        let mut net = net;
        let at = SocketAddr::from(([1, 0, 0, 2], 0));
        let now = linerate::stack::Instant::from_millis(1_000);
        let server = crate::serve::Server::open(app, &mut net, &[], now).expect("a server without listeners opens");
        Rig { net, server, now, at, next_port: 50_000 }
    }

    /// Creates a driver for an application that listens at 1.0.0.1, port 21.
    pub fn new(app: A, net: Net) -> Rig<A> {
        let mut net = net;
        let at = SocketAddr::from(([1, 0, 0, 1], 21));
        let now = linerate::stack::Instant::from_millis(1_000);
        let server = crate::serve::Server::open(app, &mut net, &[at], now).expect("a free address");
        Rig { net, server, now, at, next_port: 50_000 }
    }

    /// Connects a client from 1.0.0.2.
    pub fn client(&mut self) -> Far {
        self.client_from([1, 0, 0, 2])
    }

    /// Connects a client from the given IPv4 address.
    pub fn client_from(&mut self, ip: [u8; 4]) -> Far {
        self.next_port += 1;
        let from = SocketAddr::from((ip, self.next_port));
        let far = self.net.connect_from(from, self.at).expect("the service listens");
        self.run_until_idle();
        far
    }

    /// Runs turns until nothing is left to do. A service that sends without end becomes idle when
    /// the window of its connection is full.
    pub fn run_until_idle(&mut self) {
        for turn in 0.. {
            assert!(turn < 100_000, "did not settle");
            let worked = self.server.turn(&mut self.net, self.now, Duration::ZERO);
            if worked == 0 && !self.server.is_runnable() && self.net.ready.is_empty() {
                // One more turn is needed, since a turn polls for readiness only at its end.
                if self.server.turn(&mut self.net, self.now, Duration::ZERO) == 0 && !self.server.is_runnable() {
                    return;
                }
            }
        }
    }

    /// Advances the clock by `by` and runs the timers that expire in this time.
    pub fn pass(&mut self, by: Duration) {
        let until = self.now.after(by);
        while let Some(at) = self.server.next_timer().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.run_until_idle();
            if self.server.next_timer() == Some(at) {
                break; // a timer that is not served would loop forever here
            }
        }
        self.now = until;
        self.run_until_idle();
    }

    /// Sends all bytes from the client and runs turns; returns the text that the client can then
    /// read.
    #[cfg(test)]
    pub fn say(&mut self, far: Far, bytes: &[u8]) -> String {
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = self.net.far_send(far, rest);
            self.run_until_idle();
            if n == 0 {
                break;
            }
            rest = &rest[n..];
        }
        self.receive(far)
    }

    /// Returns the text that the client can read now.
    #[cfg(test)]
    pub fn receive(&mut self, far: Far) -> String {
        let mut heard = Vec::new();
        loop {
            self.run_until_idle();
            let some = self.net.far_recv(far, 1 << 20);
            if some.is_empty() || heard.len() > 1 << 22 {
                return String::from_utf8_lossy(&heard).into_owned();
            }
            heard.extend(some);
        }
    }
}
