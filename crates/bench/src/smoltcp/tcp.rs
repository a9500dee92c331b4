//! The peer smoltcp 0.14 in `bench tcp`: two smoltcp hosts joined by a simulated wire. Measures
//! streams, transactions, connections, and the memory of an idle connection.
//!
//! smoltcp is configured for its best result, as for UDP: no features that the rows do not need,
//! CUBIC as in this stack, no timestamps option (which this stack sends), Nagle off, buffers of 256
//! KiB, and TIME-WAIT skipped. The fastest of several methods of calling is determined by trials in
//! each run.

use std::sync::{Arc, Barrier};

use ::smoltcp::iface::SocketHandle;
use ::smoltcp::socket::tcp::{CongestionControl, RecvError, Socket, SocketBuffer, State};
use ::smoltcp::socket::udp::{self, UdpMetadata};
use anyhow::{Context, anyhow, bail, ensure};
use lab::bench::IdlePeer;
use lab::rigs::{BUFFER, Bulk, CONNECTIONS, End, MakeEnd, TRANSACTIONS, TwoCores};
use lab::subject::{Reading, Subject, measure};

use super::Chosen;
use super::buffer;
use super::wire::{Host, Plug, Wire, address, plugs};
use crate::frame::Checksums;

/// Wire with an MTU of 1500 bytes; checksums are computed in software.
pub const SOFT: Wire = Wire { mtu: 1500, checksums: Checksums::Software };
/// Wire with an MTU of 1500 bytes; checksums are not computed.
pub const HARD: Wire = Wire { mtu: 1500, checksums: Checksums::Offloaded };
/// Wire with an MTU of the largest possible IPv4 packet; checksums are not computed.
pub const LARGE: Wire = Wire { mtu: 65_535, checksums: Checksums::Offloaded };

const PORT: u16 = 5001;
/// First local port of the client.
const LOCAL: u16 = 10_000;
/// Number of polling rounds after which a missing event is an error.
const PATIENCE: u32 = 1_000_000;

fn socket(recv: usize, send: usize) -> Socket<'static> {
    let mut socket = Socket::new(SocketBuffer::new(vec![0; recv]), SocketBuffer::new(vec![0; send]));
    socket.set_congestion_control(CongestionControl::Cubic);
    socket.set_nagle_enabled(false);
    socket
}

impl Host {
    fn tcp(&mut self, handle: SocketHandle) -> &mut Socket<'static> {
        self.sockets.get_mut(handle)
    }

    fn listen(&mut self, handle: SocketHandle) -> anyhow::Result<()> {
        self.tcp(handle).listen(PORT).map_err(|why| anyhow!("listen: {why}"))
    }

    fn connect(&mut self, handle: SocketHandle, local: u16) -> anyhow::Result<()> {
        let cx = self.iface.context();
        let socket = self.sockets.get_mut::<Socket>(handle);
        socket.connect(cx, (address(2), PORT), local).map_err(|why| anyhow!("connect: {why}"))
    }
}

/// Two hosts connected by a wire.
struct Pair([Host; 2]);

impl Pair {
    fn new(wire: Wire) -> anyhow::Result<Pair> {
        let [one, two] = plugs(wire);
        Ok(Pair([Host::new(1, one)?, Host::new(2, two)?]))
    }

    /// Polls both hosts until `done` returns true.
    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Pair) -> bool) -> anyhow::Result<()> {
        for _ in 0..PATIENCE {
            if done(self) {
                return Ok(());
            }
            for host in &mut self.0 {
                host.poll();
            }
        }
        bail!("smoltcp: no {what} after {PATIENCE} rounds")
    }

    /// Establishes a connection between a new socket on each host.
    fn join(&mut self, local: u16, buffer: usize) -> anyhow::Result<[SocketHandle; 2]> {
        let handles = [0, 1].map(|at: usize| self.0[at].sockets.add(socket(buffer, buffer)));
        self.0[1].listen(handles[1])?;
        self.0[0].connect(handles[0], local)?;
        let open = |pair: &mut Pair| (0..2).all(|at| pair.0[at].tcp(handles[at]).state() == State::Established);
        self.until("connection", open)?;
        Ok(handles)
    }
}

/// Method of driving a stream: the amount of data per round, and the time at which data is sent.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// Maximum number of bytes passed to the socket before the other host is polled.
    most: usize,
    /// True if `poll_egress` sends the data after each `send_slice`; false if only `poll` sends it.
    at_once: bool,
}

const WAYS: [Way; 6] = [
    Way { most: 16 << 10, at_once: false },
    Way { most: 16 << 10, at_once: true },
    Way { most: 64 << 10, at_once: false },
    Way { most: 64 << 10, at_once: true },
    Way { most: BUFFER, at_once: false },
    Way { most: BUFFER, at_once: true },
];

impl Way {
    fn how(self) -> String {
        let when = if self.at_once { ", poll_egress after each call" } else { "" };
        format!("{} KiB per round{when}", self.most >> 10)
    }
}

/// A smoltcp host and its end of a stream.
pub struct Smol {
    host: Host,
    handle: SocketHandle,
    way: Way,
    /// Number of bytes passed to the socket in this round.
    given: usize,
}

impl End for Smol {
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<usize> {
        let room = self.way.most - self.given;
        if room == 0 {
            return Ok(0);
        }
        let socket = self.host.tcp(self.handle);
        let sent = socket.send_slice(&bytes[..bytes.len().min(room)]).map_err(|why| anyhow!("send_slice: {why}"))?;
        self.given += sent;
        while self.way.at_once && self.host.poll_egress() {}
        Ok(sent)
    }

    #[inline]
    fn recv(&mut self, into: &mut [u8]) -> anyhow::Result<usize> {
        match self.host.tcp(self.handle).recv_slice(into) {
            Ok(n) => Ok(n),
            Err(RecvError::Finished | RecvError::InvalidState) => bail!("unexpected end of stream"),
        }
    }

    #[inline]
    fn turn(&mut self) -> bool {
        self.given = 0;
        self.host.poll()
    }
}

fn bulk(id: &str, wire: Wire) -> anyhow::Result<Bulk<Smol>> {
    let mut pair = Pair::new(wire)?;
    let handles = pair.join(LOCAL, BUFFER)?;
    let [one, two] = pair.0;
    let end = |host, handle| Smol { host, handle, way: WAYS[0], given: 0 };
    Ok(Bulk::between(id, [end(one, handles[0]), end(two, handles[1])]))
}

/// Creates a subject that transfers a stream on one thread, driven with the fastest method.
///
/// # Errors
/// The stream stalls, or the data received differs.
pub fn stream(id: &str, wire: Wire, chosen: &Chosen) -> anyhow::Result<Box<dyn Subject>> {
    let mut bulk = bulk(id, wire)?;
    let way = chosen.of(&WAYS, Way::how, |way| {
        bulk.ends()[0].way = way;
        bulk.measured(1 << 20)
    })?;
    bulk.ends()[0].way = way;
    Ok(Box::new(bulk))
}

/// Creates a subject that transfers a stream from one core to another.
///
/// # Errors
/// As for [`TwoCores::new`].
pub fn two_cores(id: &str, wire: Wire, cores: [usize; 2]) -> anyhow::Result<TwoCores> {
    let listening = Arc::new(Barrier::new(2));
    let end = |at: usize, plug: Plug| -> MakeEnd {
        let listening = listening.clone();
        Box::new(move || Ok(Box::new(crossing(at, plug, &listening)?)))
    };
    let [one, two] = plugs(wire);
    TwoCores::new(id, cores, [end(0, one), end(1, two)])
}

/// Describes how [`two_cores`] drives its stream.
pub fn two_cores_how() -> String {
    format!("{}, one host polled on each core", WAYS[2].how())
}

fn crossing(at: usize, plug: Plug, listening: &Barrier) -> anyhow::Result<Smol> {
    let mut host = Host::new(at as u8 + 1, plug)?;
    let handle = host.sockets.add(socket(BUFFER, BUFFER));
    let listens = if at == 1 { host.listen(handle) } else { Ok(()) };
    listening.wait();
    listens?;
    if at == 0 {
        host.connect(handle, LOCAL)?;
    }
    for _ in 0..PATIENCE {
        if host.tcp(handle).state() == State::Established {
            return Ok(Smol { host, handle, way: WAYS[2], given: 0 });
        }
        if !host.poll() {
            std::thread::yield_now();
        }
    }
    bail!("smoltcp: no connection between the cores")
}

/// Transport protocol of the transactions.
#[derive(Clone, Copy)]
enum Over {
    Tcp([SocketHandle; 2]),
    Udp([SocketHandle; 2]),
}

/// Measures transactions with one byte in each direction.
pub struct Rr {
    id: String,
    pair: Pair,
    over: Over,
    way: RrWay,
    /// Number of transactions in a trial.
    ops: u64,
}

/// Method of driving request-response transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RrWay {
    /// Calls `poll` after each send and before each receive.
    Poll,
    /// Calls `poll_egress` after each send, and `poll_ingress_single` before each receive.
    Half,
}

impl RrWay {
    fn how(self) -> String {
        match self {
            RrWay::Poll => "poll after each send and before each receive".to_owned(),
            RrWay::Half => "poll_egress after each send, poll_ingress_single before each receive".to_owned(),
        }
    }
}

/// Creates a subject that measures transactions over one TCP connection while `idle` other
/// connections are open.
///
/// # Errors
/// A response does not arrive.
pub fn rr_tcp(id: &str, idle: u16, chosen: &Chosen) -> anyhow::Result<Box<dyn Subject>> {
    let mut pair = Pair::new(SOFT)?;
    for n in 0..idle {
        pair.join(LOCAL + n, 64)?;
    }
    let over = Over::Tcp(pair.join(LOCAL + idle, 4096)?);
    rr(id, pair, over, TRANSACTIONS / (1 + u64::from(idle)), chosen)
}

/// Creates a subject that measures transactions over UDP.
///
/// # Errors
/// A response does not arrive.
pub fn rr_udp(id: &str, chosen: &Chosen) -> anyhow::Result<Box<dyn Subject>> {
    let mut pair = Pair::new(SOFT)?;
    let open = |at: usize, pair: &mut Pair| {
        let mut socket = udp::Socket::new(buffer(4), buffer(4));
        socket.bind(PORT).map_err(|why| anyhow!("bind: {why}"))?;
        anyhow::Ok(pair.0[at].sockets.add(socket))
    };
    let handles = [open(0, &mut pair)?, open(1, &mut pair)?];
    rr(id, pair, Over::Udp(handles), TRANSACTIONS, chosen)
}

fn rr(id: &str, pair: Pair, over: Over, ops: u64, chosen: &Chosen) -> anyhow::Result<Box<dyn Subject>> {
    let mut rr = Rr { id: id.to_owned(), pair, over, way: RrWay::Poll, ops: ops.max(16) };
    rr.run(4)?; // warm-up: the first transaction waits for neighbor resolution
    let way = chosen.of(&[RrWay::Poll, RrWay::Half], RrWay::how, |way| {
        rr.way = way;
        rr.trial()
    })?;
    rr.way = way;
    Ok(Box::new(rr))
}

impl Subject for Rr {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        self.run(self.ops)
    }
}

impl Rr {
    fn run(&mut self, times: u64) -> anyhow::Result<Reading> {
        let mut done = Ok(());
        let reading = measure(times, || {
            done = (0..times).try_for_each(|_| {
                self.pass(0, b'?')?;
                self.pass(1, b'!')
            });
        });
        done.with_context(|| self.id.clone())?;
        Ok(reading)
    }

    /// Sends one byte from host `at` to the other.
    #[inline(always)]
    fn pass(&mut self, at: usize, byte: u8) -> anyhow::Result<()> {
        self.send(at, &[byte])?;
        let (from, to) = (at, 1 - at);
        match self.way {
            RrWay::Poll => self.pair.0[from].poll(),
            RrWay::Half => self.pair.0[from].poll_egress(),
        };
        for _ in 0..PATIENCE {
            match self.way {
                RrWay::Poll => self.pair.0[to].poll(),
                RrWay::Half => self.pair.0[to].poll_ingress(),
            };
            let mut into = [0; 16];
            let n = self.recv(to, &mut into)?;
            if n > 0 {
                ensure!(into[..n] == [byte], "received {n} unexpected bytes: {:?}", &into[..n]);
                return Ok(());
            }
            self.pair.0[from].poll();
        }
        bail!("no byte received after {PATIENCE} rounds")
    }

    #[inline(always)]
    fn send(&mut self, at: usize, bytes: &[u8]) -> anyhow::Result<()> {
        let sockets = &mut self.pair.0[at].sockets;
        match self.over {
            Over::Tcp(handles) => {
                let sent = sockets.get_mut::<Socket>(handles[at]).send_slice(bytes);
                ensure!(sent == Ok(bytes.len()), "send_slice: {sent:?}");
            }
            Over::Udp(handles) => {
                let mut to = UdpMetadata::from((address(2 - at as u8), PORT));
                to.local_address = Some(address(at as u8 + 1).into());
                let sent = sockets.get_mut::<udp::Socket>(handles[at]).send_slice(bytes, to);
                sent.map_err(|why| anyhow!("send_slice: {why}"))?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn recv(&mut self, at: usize, into: &mut [u8]) -> anyhow::Result<usize> {
        let sockets = &mut self.pair.0[at].sockets;
        match self.over {
            Over::Tcp(handles) => {
                sockets.get_mut::<Socket>(handles[at]).recv_slice(into).map_err(|why| anyhow!("recv_slice: {why}"))
            }
            Over::Udp(handles) => match sockets.get_mut::<udp::Socket>(handles[at]).recv_slice(into) {
                Ok((n, _)) => Ok(n),
                Err(udp::RecvError::Exhausted) => Ok(0),
                Err(why) => bail!("recv_slice: {why}"),
            },
        }
    }
}

/// Opens and closes connections with the same two sockets each time, and without TIME-WAIT.
pub struct Connect {
    id: String,
    pair: Pair,
    handles: [SocketHandle; 2],
    local: u16,
}

impl Connect {
    /// Creates a subject with a socket on each host.
    ///
    /// # Errors
    /// A host cannot be created, or the first connection fails.
    pub fn new(id: &str) -> anyhow::Result<Connect> {
        let mut pair = Pair::new(SOFT)?;
        let handles = [0, 1].map(|at: usize| pair.0[at].sockets.add(socket(4096, 4096)));
        let mut connect = Connect { id: id.to_owned(), pair, handles, local: LOCAL };
        connect.once()?;
        Ok(connect)
    }

    fn state(&mut self, at: usize) -> State {
        self.pair.0[at].tcp(self.handles[at]).state()
    }

    /// Polls host `at` until its socket is in `state`. Polls the other host, too, after each
    /// attempt that does not reach `state`.
    #[inline(always)]
    fn run(&mut self, at: usize, state: State) -> anyhow::Result<()> {
        for _ in 0..PATIENCE {
            self.pair.0[at].poll();
            if self.state(at) == state {
                return Ok(());
            }
            self.pair.0[1 - at].poll();
        }
        bail!("{}: state {state} not reached", self.id)
    }

    fn once(&mut self) -> anyhow::Result<()> {
        let [client, server] = self.handles;
        self.local = if self.local == u16::MAX { LOCAL } else { self.local + 1 };
        self.pair.0[1].listen(server)?;
        self.pair.0[0].connect(client, self.local)?;
        self.pair.0[0].poll();
        self.run(1, State::SynReceived)?;
        self.run(0, State::Established)?;
        self.run(1, State::Established)?;
        self.pair.0[0].tcp(client).close();
        self.pair.0[0].poll();
        self.run(1, State::CloseWait)?;
        self.pair.0[1].tcp(server).close();
        self.pair.0[1].poll();
        self.run(0, State::TimeWait)?;
        self.run(1, State::Closed)?;
        // leaves TIME-WAIT, so that the next connect begins with a closed socket and sends no reset
        self.pair.0[0].tcp(client).abort();
        Ok(())
    }
}

impl Subject for Connect {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut done = Ok(());
        let reading = measure(CONNECTIONS, || done = (0..CONNECTIONS).try_for_each(|_| self.once()));
        done?;
        Ok(reading)
    }
}

/// Measures the memory of an idle connection: the growth of this process's resident memory while
/// `n` connections are established. The buffers are allocated before and are not included.
///
/// # Errors
/// A connection cannot be established.
pub fn idle(n: u16) -> anyhow::Result<IdlePeer> {
    const SMALL: usize = 64;
    let mut pair = Pair::new(SOFT)?;
    pair.join(LOCAL, SMALL)?;
    let mut sockets = Vec::with_capacity(4 * usize::from(n));
    sockets.extend((0..4 * n).map(|_| vec![1; SMALL]));
    let mut buffers = sockets.into_iter();
    lab::os::give_back_free_memory();
    let before = lab::os::resident()?;
    for local in 1..=n {
        let handles = [0, 1].map(|at: usize| {
            let mut both = || SocketBuffer::new(buffers.next().unwrap_or_default());
            pair.0[at].sockets.add(Socket::new(both(), both()))
        });
        pair.0[1].listen(handles[1])?;
        pair.0[0].connect(handles[0], LOCAL + local)?;
        let open = |pair: &mut Pair| (0..2).all(|at| pair.0[at].tcp(handles[at]).state() == State::Established);
        pair.until("connection", open)?;
    }
    let bytes = lab::os::resident()?.saturating_sub(before) as f64 / f64::from(2 * u32::from(n));
    let how = format!(
        "growth of resident memory over {n} connections, both ends counted, buffers not; the sockets are searched linearly"
    );
    Ok(IdlePeer { peer: "smoltcp".to_owned(), bytes, how })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_driving_a_stream_carries_what_was_sent() {
        for wire in [SOFT, HARD, LARGE] {
            let mut bulk = bulk("smoltcp.bulk", wire).unwrap();
            for way in WAYS {
                bulk.ends()[0].way = way;
                assert_eq!(bulk.measured(1 << 20).unwrap().ops, 1 << 20, "{wire:?} {way:?}");
            }
        }
    }

    #[test]
    fn a_stream_crosses_from_core_to_core() {
        let cores = lab::bench::both_cores(&lab::study::Options::default()).unwrap_or([0, 0]);
        let mut subject = two_cores("smoltcp.two", LARGE, cores).unwrap();
        assert!(subject.trial().unwrap().ticks > 0);
    }

    #[test]
    fn transactions_complete_over_tcp_and_udp() {
        let chosen = Chosen::default;
        for mut subject in [
            rr_tcp("rr", 0, &chosen()).unwrap(),
            rr_tcp("among", 20, &chosen()).unwrap(),
            rr_udp("udp", &chosen()).unwrap(),
        ] {
            assert!(subject.trial().unwrap().ticks > 0);
        }
    }

    #[test]
    fn local_ports_wrap_around() {
        let mut connect = Connect::new("connect").unwrap();
        connect.local = u16::MAX - 2;
        for _ in 0..6 {
            connect.once().unwrap();
        }
        assert_eq!(connect.local, LOCAL + 3);
    }

    /// Runs in a separate process, since memory freed by other tests would distort the result.
    #[test]
    fn an_idle_connection_weighs_more_than_nothing() {
        const ALONE: &str = "LINERATE_WEIGHED_ALONE";
        if std::env::var_os(ALONE).is_some() {
            let idle = idle(500).unwrap();
            assert!(idle.bytes > 100.0, "{}", idle.bytes);
            return;
        }
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["an_idle_connection_weighs_more_than_nothing", "--test-threads=1"]).env(ALONE, "1");
        let output = alone.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    }
}
