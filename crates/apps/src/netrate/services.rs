//! The far ends of the netrate tools. Each has a listener, a UDP socket, or both on one L4 port,
//! and echoes or discards received data.

use crate::netperf::session::Turn;
use crate::netperf::sockets::{Setup, Sockets, Waits};
use crate::slots::{Connection, Limits, Room, room};
use crate::streams::Failure;
use linerate::stack::Instant;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Default maximum number of connections.
pub(super) const CONNS_MAX: usize = 1024;
/// Number of bytes read at a time.
const CHUNK: usize = 64 << 10;
/// Maximum number of calls per turn on each socket.
const QUANTUM: usize = 16;
/// Size of netreceive's receive buffer in bytes.
const RECV_BUFFER: usize = 128 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `tcpreceive`: echoes data on connections. Usually only one connection is open at a time.
    EchoOne,
    /// `netreceive`: discards datagrams.
    TakeDatagrams,
    /// Far end of `juggle`: echoes datagrams and data on connections.
    EchoAll,
    /// `tcpp -s`: receives and discards data on connections until their end.
    TakeStreams,
}

impl Kind {
    fn echoes(self) -> bool {
        matches!(self, Kind::EchoOne | Kind::EchoAll)
    }
}

#[derive(Debug)]
struct Conn<F> {
    fd: F,
    unsent: Vec<u8>,
    peer: IpAddr,
    moved: Instant,
}

impl<F> Connection for Conn<F> {
    fn peer(&self) -> IpAddr {
        self.peer
    }

    fn moved(&self) -> Instant {
        self.moved
    }
}

#[derive(Debug)]
pub struct Services<S: Sockets> {
    kind: Kind,
    limits: Limits,
    listeners: Vec<S::Fd>,
    datagrams: Option<S::Fd>,
    conns: Vec<Conn<S::Fd>>,
    buffer: Vec<u8>,
    /// Number of datagrams received.
    pub received: u64,
    /// Number of connections that were served until they ended.
    pub served: u64,
    /// Number of connections closed on arrival because their peer already had the maximum number.
    pub refused: u64,
    /// Number of connections evicted to free a slot for another one, because they had been idle for
    /// longest.
    pub evicted: u64,
}

impl<S: Sockets> Services<S> {
    /// Opens the sockets of a service at the address `at`; L4 port 0 selects a free port. Returns
    /// the service and its port.
    ///
    /// # Errors
    /// The address is in use.
    pub fn open(sockets: &mut S, at: SocketAddr, kind: Kind, limits: Limits) -> Result<(Services<S>, u16), Failure> {
        let (mut listeners, mut datagrams, mut at) = (Vec::new(), None, at);
        if kind != Kind::TakeDatagrams {
            // If there is a UDP socket as well, no call may block, since the other socket would not
            // be served in the meantime.
            let waits = if kind == Kind::EchoOne { Waits::Briefly } else { Waits::Never };
            let fd = sockets.listen(at, &Setup { nodelay: true, waits, ..Setup::default() })?;
            at.set_port(sockets.local(fd)?.port());
            listeners.push(fd);
        }
        if matches!(kind, Kind::TakeDatagrams | Kind::EchoAll) {
            let waits = if kind == Kind::TakeDatagrams { Waits::Briefly } else { Waits::Never };
            let setup = Setup { recv_buffer: Some(RECV_BUFFER), waits, ..Setup::default() };
            let fd = sockets.datagrams(at, None, &setup)?;
            at.set_port(sockets.local(fd)?.port());
            datagrams = Some(fd);
        }
        let (conns, buffer) = (Vec::new(), vec![0; CHUNK]);
        let (received, served, refused, evicted) = (0, 0, 0, 0);
        let services =
            Services { kind, limits, listeners, datagrams, conns, buffer, received, served, refused, evicted };
        Ok((services, at.port()))
    }

    /// Opens a service as [`Services::open`] does, with `more` additional listeners on the next L4
    /// ports.
    ///
    /// # Errors
    /// One of the addresses is in use.
    pub fn open_several(
        sockets: &mut S,
        at: SocketAddr,
        kind: Kind,
        more: u16,
        limits: Limits,
    ) -> Result<(Services<S>, u16), Failure> {
        let (mut services, port) = Services::open(sockets, at, kind, limits)?;
        let setup = Setup { nodelay: true, waits: Waits::Never, ..Setup::default() };
        for next in 1..=more {
            let next = port.checked_add(next).ok_or(Failure::InUse);
            match next.and_then(|next| sockets.listen(SocketAddr::new(at.ip(), next), &setup)) {
                Ok(fd) => services.listeners.push(fd),
                Err(why) => {
                    services.listeners.iter().for_each(|fd| sockets.close(*fd));
                    return Err(why);
                }
            }
        }
        Ok((services, port))
    }

    /// Returns which slot is available for another connection from `peer`, or from any peer if it
    /// is `None`.
    fn room(&self, peer: Option<IpAddr>, now: Instant) -> Room {
        let numbered = self.conns.iter().enumerate().map(|(at, conn)| (at as u32, conn));
        let Limits { most, per_peer } = self.limits;
        match peer {
            Some(peer) => room(numbered, (most, per_peer), peer, now),
            None => room(numbered, (most, most), Ipv4Addr::UNSPECIFIED.into(), now),
        }
    }

    /// Accepts connections from the listeners. If all slots are taken, a new connection stays in
    /// the queue of its listener until an existing connection has been idle for
    /// [`crate::slots::IDLE_MIN`] and can be evicted.
    fn accept(&mut self, sockets: &mut S, now: Instant) -> bool {
        let mut came = false;
        for at in 0..self.listeners.len() {
            let is_full = self.conns.len() >= self.limits.most;
            if is_full && self.room(None, now) == Room::None {
                break;
            }
            // An error means that the accept queue is empty, or that the connection was reset.
            let Some(Ok((fd, peer))) = self.listeners.get(at).map(|listener| sockets.accept(*listener)) else {
                continue;
            };
            came = true;
            let peer = peer.ip();
            if is_full || self.conns.len() >= self.limits.per_peer {
                match self.room(Some(peer), now) {
                    Room::Free => {}
                    Room::Of(old) => {
                        sockets.close(self.conns.swap_remove(old as usize).fd);
                        self.evicted += 1;
                    }
                    Room::None => {
                        sockets.close(fd);
                        self.refused += 1;
                        continue;
                    }
                }
            }
            self.conns.push(Conn { fd, unsent: Vec::new(), peer, moved: now });
        }
        came
    }

    /// Serves all connections; returns whether there was anything to do.
    fn serve(&mut self, sockets: &mut S, now: Instant) -> bool {
        let (kind, buffer) = (self.kind, self.buffer.as_mut_slice());
        let (mut busy, served) = (false, &mut self.served);
        self.conns.retain_mut(|conn| {
            let done = conn.turn(sockets, kind, buffer);
            if done != Err(Failure::Again) {
                (busy, conn.moved) = (true, now);
            }
            let over = matches!(done, Err(why) if why != Failure::Again);
            if over {
                sockets.close(conn.fd);
                *served += 1;
            }
            !over
        });
        busy
    }

    /// Receives datagrams, and echoes or discards them. Returns whether there were any.
    fn datagram(&mut self, sockets: &mut S) -> bool {
        let Some(fd) = self.datagrams else { return false };
        for at in 0..QUANTUM {
            match sockets.recv_msg(fd, &mut self.buffer) {
                Ok((n, from, requested)) => {
                    self.received += 1;
                    if self.kind.echoes() {
                        // An echo that cannot be sent is treated as a lost datagram, so the error
                        // is ignored.
                        let _ = sockets.send_msg(fd, self.buffer.get(..n).unwrap_or_default(), from, requested);
                    }
                }
                Err(_) => return at > 0,
            }
        }
        true
    }
}

impl<F: Copy> Conn<F> {
    /// Serves the connection. Returns `Again` if there was nothing to do, and another error when
    /// the connection has ended.
    fn turn<S: Sockets<Fd = F>>(&mut self, sockets: &mut S, kind: Kind, buffer: &mut [u8]) -> Result<(), Failure> {
        for at in 0..QUANTUM {
            while !self.unsent.is_empty() {
                let n = sockets.send(self.fd, &self.unsent)?;
                self.unsent.drain(..n.min(self.unsent.len()));
            }
            match sockets.recv(self.fd, buffer) {
                Ok(0) => return Err(Failure::Gone),
                Ok(n) if kind.echoes() => self.unsent.extend_from_slice(buffer.get(..n).unwrap_or_default()),
                Ok(_) => {}
                Err(Failure::Again) if at > 0 => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
}

impl<S: Sockets> Turn<S> for Services<S> {
    fn turn(&mut self, sockets: &mut S, now: Instant) -> bool {
        let mut busy = self.datagram(sockets) | self.serve(sockets, now);
        // The slot of a connection that ends is freed in the same turn. Otherwise each connection
        // would need two turns, and a client that connects once per turn would fill the listener's
        // queue.
        for _ in 0..QUANTUM {
            if !self.accept(sockets, now) {
                break;
            }
            self.serve(sockets, now);
            busy = true;
        }
        busy
    }
}
