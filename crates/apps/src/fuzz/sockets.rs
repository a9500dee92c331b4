//! Fuzzes the far ends (servers) of netperf and netrate, and the parsers for their replies, on
//! in-memory sockets.

use crate::netperf::control::{Ask, Say, Talk};
use crate::netperf::far;
use crate::netperf::session::Turn;
use crate::netperf::sockets::{Pace, Setup, Sizes, Sockets};
use crate::netrate::services::{Kind, Services};
use crate::slots::Limits;
use crate::streams::Failure;
use linerate::stack::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Maximum number of records executed per input.
const RECORDS: usize = 100;
/// Maximum number of connections per input.
const CONNS: usize = 12;
/// Maximum number of turns of the far end after each record of the input. A far end that is still
/// busy after that either sends endless data or has a bug.
const TURNS: usize = 200;
/// Maximum number of unread bytes that a connection buffers.
const WINDOW: usize = 3_000;

#[derive(Debug)]
enum Fd {
    /// A listener: its address, and the connections that are not accepted yet.
    Listener(SocketAddr, VecDeque<usize>),
    Stream(Stream),
    Datagrams(SocketAddr, VecDeque<Vec<u8>>),
}

#[derive(Debug, Default)]
struct Stream {
    input: VecDeque<u8>,
    output: usize,
    ended: bool,
    reset: bool,
}

/// In-memory sockets on which a far end runs.
#[derive(Debug, Default)]
struct Memory {
    now: Instant,
    next: usize,
    fds: BTreeMap<usize, Fd>,
    /// Descriptors of all connections, open or closed.
    conns: Vec<usize>,
}

impl Memory {
    fn open(&mut self, fd: Fd) -> usize {
        self.next += 1;
        self.fds.insert(self.next, fd);
        self.next
    }

    fn stream(&mut self, fd: usize) -> Result<&mut Stream, Failure> {
        match self.fds.get_mut(&fd) {
            Some(Fd::Stream(stream)) if stream.reset => Err(Failure::Gone),
            Some(Fd::Stream(stream)) => Ok(stream),
            _ => Err(Failure::Invalid),
        }
    }

    /// Connects to the listener with index `which` modulo the number of listeners.
    fn connect_to(&mut self, which: usize) {
        let listeners = self.fds.iter().filter(|(_, fd)| matches!(fd, Fd::Listener(..)));
        let listeners: Vec<usize> = listeners.map(|(number, _)| *number).collect();
        let Some(listener) = listeners.get(which % listeners.len().max(1)).copied() else { return };
        if self.conns.len() < CONNS {
            let conn = self.open(Fd::Stream(Stream::default()));
            self.conns.push(conn);
            if let Some(Fd::Listener(_, waiting)) = self.fds.get_mut(&listener) {
                waiting.push_back(conn);
            }
        }
    }
}

impl Sockets for Memory {
    type Fd = usize;

    fn step(&mut self, _: Pace) -> Instant {
        self.now
    }

    fn latest(&self) -> Instant {
        self.now
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn listen(&mut self, mut at: SocketAddr, _: &Setup) -> Result<usize, Failure> {
        if at.port() == 0 {
            at.set_port(40_000 + (self.next % 10_000) as u16);
        }
        Ok(self.open(Fd::Listener(at, VecDeque::new())))
    }

    fn accept(&mut self, listener: usize) -> Result<(usize, SocketAddr), Failure> {
        let fd = match self.fds.get_mut(&listener) {
            Some(Fd::Listener(_, waiting)) => waiting.pop_front().ok_or(Failure::Again)?,
            _ => return Err(Failure::Invalid),
        };
        Ok((fd, SocketAddr::from(([1, 0, 0, 2], 1024 + (fd % 4) as u16)))) // four peer ports
    }

    fn connect(&mut self, _: SocketAddr, _: &Setup) -> Result<usize, Failure> {
        Err(Failure::Refused)
    }

    fn connected(&mut self, _: usize) -> Result<(), Failure> {
        Err(Failure::Refused)
    }

    fn datagrams(&mut self, mut at: SocketAddr, _: Option<SocketAddr>, _: &Setup) -> Result<usize, Failure> {
        if at.port() == 0 {
            at.set_port(50_000 + (self.next % 10_000) as u16);
        }
        Ok(self.open(Fd::Datagrams(at, VecDeque::new())))
    }

    fn send(&mut self, fd: usize, bytes: &[u8]) -> Result<usize, Failure> {
        if let Some(Fd::Datagrams(..)) = self.fds.get(&fd) {
            return Ok(bytes.len());
        }
        let stream = self.stream(fd)?;
        let room = WINDOW.saturating_sub(stream.output).min(bytes.len());
        if room == 0 && !bytes.is_empty() {
            return Err(Failure::Again);
        }
        stream.output += room;
        Ok(room)
    }

    fn recv(&mut self, fd: usize, into: &mut [u8]) -> Result<usize, Failure> {
        if let Some(Fd::Datagrams(..)) = self.fds.get(&fd) {
            return self.recv_from(fd, into).map(|(n, _)| n);
        }
        let stream = self.stream(fd)?;
        if stream.input.is_empty() {
            return if stream.ended { Ok(0) } else { Err(Failure::Again) };
        }
        let n = into.len().min(stream.input.len());
        into.iter_mut().zip(stream.input.drain(..n)).for_each(|(to, byte)| *to = byte);
        Ok(n)
    }

    fn send_to(&mut self, fd: usize, bytes: &[u8], _: SocketAddr) -> Result<usize, Failure> {
        match self.fds.get(&fd) {
            Some(Fd::Datagrams(..)) => Ok(bytes.len()),
            _ => Err(Failure::Invalid),
        }
    }

    fn recv_from(&mut self, fd: usize, into: &mut [u8]) -> Result<(usize, SocketAddr), Failure> {
        let Some(Fd::Datagrams(_, waiting)) = self.fds.get_mut(&fd) else { return Err(Failure::Invalid) };
        let datagram = waiting.pop_front().ok_or(Failure::Again)?;
        let n = into.len().min(datagram.len());
        into[..n].copy_from_slice(&datagram[..n]);
        Ok((n, SocketAddr::from(([1, 0, 0, 2], 6_000))))
    }

    fn shutdown(&mut self, _: usize) {}

    fn close(&mut self, fd: usize) {
        assert!(self.fds.remove(&fd).is_some(), "{fd} is closed twice");
    }

    fn sizes(&self, _: usize) -> Sizes {
        Sizes { send: WINDOW, recv: WINDOW }
    }

    fn local(&self, fd: usize) -> Result<SocketAddr, Failure> {
        match self.fds.get(&fd) {
            Some(Fd::Listener(at, _) | Fd::Datagrams(at, _)) => Ok(*at),
            Some(Fd::Stream(_)) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1)),
            None => Err(Failure::Invalid),
        }
    }
}

/// Connection limits, low enough that inputs can reach them.
const LIMITS: Limits = Limits::shared_by_one(4);

/// Fuzzes a far end (the server of a test). The first byte of the input selects the kind of far
/// end; records follow. The first byte of a record selects an event (low three bits) and a
/// connection (the other bits); the second byte is a length. For events that send data, that many
/// bytes follow.
///
/// Invariants: Nothing panics. A turn without work returns `false`. No descriptor is closed twice.
/// Once all connections are gone and all timeouts have expired, only the far end's own descriptors
/// are open.
pub fn netperf(data: &[u8]) {
    let (&kind, data) = data.split_first().unwrap_or((&0, &[]));
    let (mut sockets, at) = (Memory::default(), SocketAddr::from(([1, 0, 0, 1], 6_000)));
    match kind % 5 {
        0 => {
            near(data);
            let end = far::Far::open(&mut sockets, at, LIMITS).unwrap();
            play(end, sockets, data);
        }
        kind => {
            let kinds = [Kind::EchoOne, Kind::TakeDatagrams, Kind::EchoAll, Kind::TakeStreams];
            let (end, _) = Services::open(&mut sockets, at, kinds[usize::from(kind) - 1], LIMITS).unwrap();
            play(end, sockets, data);
        }
    }
}

fn play<T: Turn<Memory>>(mut end: T, mut sockets: Memory, data: &[u8]) {
    let own = sockets.fds.len();
    let mut rest = data;
    for _ in 0..RECORDS {
        let [what, len, behind @ ..] = rest else { break };
        rest = behind;
        let conn = sockets.conns.get(usize::from(what >> 3) % sockets.conns.len().max(1)).copied().unwrap_or(0);
        match what & 7 {
            0 => sockets.connect_to(usize::from(*len)),
            1 | 2 => {
                let (bytes, behind) = rest.split_at(rest.len().min(usize::from(*len)));
                rest = behind;
                if let Ok(stream) = sockets.stream(conn) {
                    stream.input.extend(bytes.iter().take(WINDOW.saturating_sub(stream.input.len())));
                }
                if what & 7 == 2 {
                    let datagrams = sockets.fds.values_mut().filter_map(|fd| match fd {
                        Fd::Datagrams(_, waiting) if waiting.len() < 20 => Some(waiting),
                        _ => None,
                    });
                    datagrams.for_each(|waiting| waiting.push_back(bytes.to_vec()));
                }
            }
            3 => {
                if let Ok(stream) = sockets.stream(conn) {
                    stream.output = stream.output.saturating_sub(usize::from(*len) * 64);
                }
            }
            4 => {
                if let Ok(stream) = sockets.stream(conn) {
                    (stream.ended, stream.reset) = (true, len & 1 == 1);
                }
            }
            _ => sockets.now = sockets.now.after(Duration::from_millis(u64::from(*len) * 100)),
        }
        turns(&mut end, &mut sockets);
    }
    for fd in sockets.fds.values_mut() {
        if let Fd::Stream(stream) = fd {
            stream.reset = true;
        }
    }
    for _ in 0..20 {
        sockets.now = sockets.now.after(Duration::from_secs(10_000));
        turns(&mut end, &mut sockets);
    }
    let left = sockets.fds.values().filter(|fd| !matches!(fd, Fd::Stream(_))).count();
    assert_eq!(left, own, "leaked descriptors: {:?}", sockets.fds);
}

/// Runs turns of `end` until there is nothing to do, at most [`TURNS`].
fn turns<T: Turn<Memory>>(end: &mut T, sockets: &mut Memory) {
    for _ in 0..TURNS {
        let now = sockets.now;
        if !end.turn(sockets, now) {
            break;
        }
    }
}

/// Parses the input as replies that a near end (the client of a test) receives on its control
/// connection.
fn near(data: &[u8]) {
    let mut sockets = Memory::default();
    let mut stream = Stream { ended: true, ..Stream::default() };
    stream.input.extend(data);
    let fd = sockets.open(Fd::Stream(stream));
    let mut talk = Talk::new(fd);
    for _ in 0..64 {
        match talk.receive::<Memory, Say>(&mut sockets) {
            Ok(say) => talk.say(&say),
            Err(Failure::Invalid) => {}
            Err(_) => break,
        }
        if talk.receive::<Memory, Ask>(&mut sockets).is_err_and(|why| why == Failure::Gone) {
            break;
        }
    }
}
