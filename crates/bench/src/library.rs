//! `cargo xtask bench library`: compares calls of the library with the internal calls that they
//! use, and the library's asynchronous TCP sockets with tokio's own sockets over the kernel's
//! loopback.
//!
//! | row | one operation |
//! |---|---|
//! | `tasks.rtt` | write 1 byte, read the echo: one connection, one thread, current-thread runtime |
//! | `tasks.rtt64` | as `tasks.rtt`, over 64 connections at once |
//! | `library.send` | `UdpSocket::send_to` of 22 bytes on a local host with a `null:` port |
//! | `library.recv` | `UdpSocket::recv_from` of a datagram that `pktgen:` generates |
//! | `library.stream` | 64 bytes written at one end of a TCP connection over `pair:` and read at the other, both hosts on one thread |
//! | `policy.send` | `library.send` with a policy and its quotas, compared with no policy |
//! | `policy.recv` | `library.recv` with the same policy, compared with no policy |

use anyhow::{Context, bail};
use clock::Clock;
use lab::bench::ForeignRow;
use lab::side::Side;
use lab::study::Unit;
use lab::subject::{Reading, Subject, from_fn, measure};
use lab::timer;
use linerate::net::tokio::{TcpListener, TcpStream};
use linerate::net::{self, UdpSocket};
use linerate::policy::{Policy, Quota};
use linerate::{Driver, Host, HostBuilder, LocalHost};
use lock::Up;
use node::config::{HostConfig, IfaceConfig, NeighborConfig};
use port::Pairs;
use socket::{Errno, Opt};
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio::task::{JoinSet, LocalSet};
use wire::Mac;

/// Round trips of each connection in a trial.
const TRIPS: u64 = 1000;
/// Datagrams in a trial.
const DATAGRAMS: u64 = 20_000;
const MANY: usize = 64;

/// Unit of the rows `tasks.*`: microseconds, converted from ticks.
const MICROSECONDS: Unit = Unit { name: "us", of: |ticks| ticks * 1e6 / timer::rate().hz as f64 };

/// Returns the rows of `bench library`, each with its peer.
pub fn rows() -> Vec<ForeignRow> {
    let rtt = |id: &'static str, connections: usize| {
        let (ours, theirs) = (format!("tasks.{id}"), format!("kernel.tasks.{id}"));
        let mine = Side::new(ours.clone(), move || ours_of(&ours, connections));
        (mine, Side::new(theirs.clone(), move || kernels(&theirs, connections)))
    };
    let (one, one_kernel) = rtt("rtt", 1);
    let (many, many_kernel) = rtt("rtt64", MANY);
    let row = |side, title: &str, unit, others| ForeignRow { side, title: title.to_owned(), unit, others };
    vec![
        row(
            one,
            "a byte to an echo task and back, one connection over pair:, one thread",
            MICROSECONDS,
            vec![one_kernel],
        ),
        row(many, "the same per round trip, 64 connections at once", MICROSECONDS, vec![many_kernel]),
        row(
            calls("library.send", library_send),
            "UdpSocket::send_to of 22 bytes, null: port, clock read",
            Unit::TICKS,
            vec![calls("internal.library.send", internal_send)],
        ),
        row(
            calls("library.recv", library_recv),
            "UdpSocket::recv_from, which runs the host, frames of pktgen:",
            Unit::TICKS,
            vec![calls("internal.library.recv", internal_recv)],
        ),
        row(
            calls("library.stream", library_stream),
            "64 bytes through a TCP connection over pair:, write, rounds of both hosts, read",
            Unit::TICKS,
            vec![calls("internal.library.stream", internal_stream)],
        ),
        row(
            calls("policy.send", || send_to(Some(&policy()))),
            "library.send, with a policy of one flow and a quota",
            Unit::TICKS,
            vec![calls("off.policy.send", library_send)],
        ),
        row(
            calls("policy.recv", || recv_from(Some(&policy()))),
            "library.recv, with a policy of one flow and a quota",
            Unit::TICKS,
            vec![calls("off.policy.recv", library_recv)],
        ),
    ]
}

/// Subject that sends bytes to an echo server in the same runtime and reads them back, over one or
/// several connections.
struct Echo<S> {
    id: String,
    runtime: Runtime,
    tasks: LocalSet,
    streams: Vec<S>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + 'static> Subject for Echo<S> {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let streams = std::mem::take(&mut self.streams);
        let ops = TRIPS * streams.len() as u64;
        let trips = async {
            let mut clients = JoinSet::new();
            for mut stream in streams {
                clients.spawn_local(async move {
                    let mut byte = [0];
                    for n in 0..TRIPS {
                        stream.write_all(&[n as u8]).await?;
                        stream.read_exact(&mut byte).await?;
                        if byte != [n as u8] {
                            return Err(std::io::Error::other("another byte came back"));
                        }
                    }
                    Ok(stream)
                });
            }
            clients.join_all().await
        };
        let mut done = Vec::new();
        let reading = measure(ops, || done = self.tasks.block_on(&self.runtime, trips));
        self.streams = done.into_iter().collect::<Result<_, _>>()?;
        Ok(reading)
    }
}

async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut buf = [0; 64];
    while let Ok(n @ 1..) = stream.read(&mut buf).await {
        if stream.write_all(buf.get(..n).unwrap_or_default()).await.is_err() {
            return;
        }
    }
}

fn ours_of(id: &str, connections: usize) -> anyhow::Result<Echo<TcpStream<LocalHost>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (tasks, link) = (LocalSet::new(), format!("pair:{id}"));
    let host = |name: &str, addr: &str| Host::builder().name(name).port(&link).addr(addr).build_local();
    let (a, b) = (host("a", "10.0.0.1/24")?, host("b", "10.0.0.2/24")?);
    let driver = Driver::new([a.clone(), b.clone()]);
    tasks.spawn_local(async move { driver.run().await });
    let streams = tasks.block_on(&runtime, async {
        let listener = TcpListener::bind(&b, "10.0.0.2:7").await?;
        let mut streams = Vec::new();
        for _ in 0..connections {
            let stream = TcpStream::connect(&a, "10.0.0.2:7").await?;
            let (server, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            server.set_nodelay(true)?;
            tokio::task::spawn_local(echo(server));
            streams.push(stream);
        }
        std::io::Result::Ok(streams)
    })?;
    Ok(Echo { id: id.to_owned(), runtime, tasks, streams })
}

fn kernels(id: &str, connections: usize) -> anyhow::Result<Echo<tokio::net::TcpStream>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = LocalSet::new();
    let streams = tasks.block_on(&runtime, async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let mut streams = Vec::new();
        for _ in 0..connections {
            let stream = tokio::net::TcpStream::connect(listener.local_addr()?).await?;
            let (server, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            server.set_nodelay(true)?;
            tokio::task::spawn_local(echo(server));
            streams.push(stream);
        }
        std::io::Result::Ok(streams)
    })?;
    Ok(Echo { id: id.to_owned(), runtime, tasks, streams })
}

/// Returns a side whose trial calls a function [`DATAGRAMS`] times. `make` builds a host and
/// returns the function, which sends or receives one datagram and returns whether it succeeded.
fn calls<F>(id: &'static str, make: impl Fn() -> anyhow::Result<F> + 'static) -> Side
where
    F: FnMut() -> bool + 'static,
{
    Side::new(id, move || {
        // An indirect call, so that the compiler cannot inline short functions into the loop and
        // thereby favor them.
        let mut call: Box<dyn FnMut() -> bool> = black_box(Box::new(make()?));
        Ok(from_fn(id, move || {
            let mut failed = 0;
            let reading = measure(DATAGRAMS, || {
                for _ in 0..DATAGRAMS {
                    failed += u64::from(!call());
                }
            });
            if failed > 0 {
                bail!("{failed} of {DATAGRAMS} calls failed");
            }
            Ok(reading)
        }))
    })
}

/// Payload of a sent datagram, whose frame has 64 bytes without FCS.
const TEXT: [u8; 22] = [7; 22];
/// Destination of sent datagrams, a neighbor with a static entry.
const TO: ([u8; 4], u16) = ([10, 0, 0, 2], 9);
/// Address to which the generator sends.
const GENERATED: &str = "1.0.0.1:54321";

fn library_send() -> anyhow::Result<impl FnMut() -> bool> {
    send_to(None)
}

fn library_recv() -> anyhow::Result<impl FnMut() -> bool> {
    recv_from(None)
}

/// Returns a policy that allows all flows, with quotas that are never reached.
fn policy() -> Policy {
    let quota = Quota::rate(u64::MAX / 16).with_total(u64::MAX / 16);
    Policy::allow_all().upload(quota).download(quota)
}

/// Returns `host` with a policy for the port that was added last.
fn with(host: HostBuilder, policy: Option<&Policy>) -> HostBuilder {
    match policy {
        Some(policy) => host.policy(policy),
        None => host,
    }
}

fn send_to(policy: Option<&Policy>) -> anyhow::Result<impl FnMut() -> bool + use<>> {
    let host = Host::builder().port("null:n0").addr("10.0.0.1/24").neighbor(TO.0, [2, 0, 0, 0, 0, 2]);
    let host = with(host, policy);
    let (socket, to) = (UdpSocket::bind(&host.build_local()?, "10.0.0.1:9")?, SocketAddr::from(TO));
    Ok(move || socket.send_to(&TEXT, to).is_ok_and(|len| len == TEXT.len()))
}

fn recv_from(policy: Option<&Policy>) -> anyhow::Result<impl FnMut() -> bool + use<>> {
    let host = with(Host::builder().port("pktgen:pg0").addr("1.0.0.1/8"), policy).build_local()?;
    let (socket, mut buf) = (UdpSocket::bind(&host, GENERATED)?, [0; 2048]);
    Ok(move || black_box(socket.recv_from(&mut buf)).is_ok_and(|(len, _)| len > 0))
}

/// Returns a host of the crate `node`, without the library, with one interface.
fn internal(port: &str, addr: &str, neighbor: Option<NeighborConfig>) -> anyhow::Result<node::Host<Up>> {
    built(&Pairs::new(), port, addr, neighbor)
}

fn built(pairs: &Pairs, port: &str, addr: &str, neighbor: Option<NeighborConfig>) -> anyhow::Result<node::Host<Up>> {
    let mut iface = IfaceConfig::on(port);
    let (addr, len) = addr.split_once('/').context("an address with its length")?;
    iface.add_address(addr.parse()?, len.parse()?);
    let neighbors = neighbor.into_iter().collect();
    let config = HostConfig { ifaces: vec![iface], neighbors, ..HostConfig::default() };
    Ok(node::build(&config, pairs, Clock::live(config.clock))?)
}

fn internal_send() -> anyhow::Result<impl FnMut() -> bool> {
    let neighbor = NeighborConfig { addr: TO.0.into(), mac: Mac([2, 0, 0, 0, 0, 2]), dev: None };
    let (host, to) = (internal("null:n0", "10.0.0.1/24", Some(neighbor))?, SocketAddr::from(TO));
    let fd = host.calls().socket()?;
    host.calls().bind(fd, "10.0.0.1:9".parse()?)?;
    Ok(move || host.calls().send_to(fd, &TEXT, &to) == Ok(TEXT.len()))
}

fn internal_recv() -> anyhow::Result<impl FnMut() -> bool> {
    let (host, mut buf) = (internal("pktgen:pg0", "1.0.0.1/8", None)?, [0; 2048]);
    let fd = host.calls().socket()?;
    host.calls().bind(fd, GENERATED.parse()?)?;
    // The sender is part of the result, as for a program that uses it.
    Ok(move || black_box(host.calls().recv_from(fd, &mut buf)).is_ok_and(|(len, _)| len > 0))
}

/// Maximum number of rounds of both hosts until a connection is established.
const ROUNDS: usize = 100;
/// Address of the server of the rows `library.stream`.
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 7);
const BYTES: usize = 64;

fn library_stream() -> anyhow::Result<impl FnMut() -> bool> {
    let host = |name: &str, addr: &str| Host::builder().name(name).port("pair:library").addr(addr).build_local();
    let (a, b) = (host("a", "10.0.0.1/24")?, host("b", "10.0.0.2/24")?);
    let listener = net::TcpListener::bind(&b, SocketAddr::from(SERVER))?;
    listener.set_nonblocking(true)?;
    let mut client = net::TcpStream::begin_connect(&a, None, SERVER.into(), &[])?;
    let driver = Driver::new([a, b]);
    let accepted = (0..ROUNDS).find_map(|_| {
        driver.step();
        listener.accept().ok()
    });
    let (mut server, _) = accepted.context("no connection")?;
    server.set_nonblocking(true)?;
    client.set_nodelay(true)?;
    let (text, mut buf) = ([7; BYTES], [0; BYTES]);
    Ok(move || {
        let written = client.write(&text);
        driver.step();
        written.is_ok_and(|len| len == BYTES) && server.read(&mut buf).is_ok_and(|len| len == BYTES)
    })
}

fn internal_stream() -> anyhow::Result<impl FnMut() -> bool> {
    let pairs = Pairs::new();
    let (a, b) =
        (built(&pairs, "pair:library", "10.0.0.1/24", None)?, built(&pairs, "pair:library", "10.0.0.2/24", None)?);
    let listener = b.calls().stream_socket()?;
    b.calls().bind(listener, SERVER.into())?;
    b.calls().listen(listener, 1)?;
    let client = a.calls().stream_socket()?;
    a.calls().set_option(client, Opt::NonBlocking(true))?;
    b.calls().set_option(listener, Opt::NonBlocking(true))?;
    a.calls().set_option(client, Opt::NoDelay(true))?;
    match a.calls().connect(client, SERVER.into()) {
        Ok(()) | Err(Errno::EINPROGRESS) => {}
        Err(why) => bail!("connect: {why}"),
    }
    let accepted = (0..ROUNDS).find_map(|_| {
        a.step();
        b.step();
        b.calls().accept(listener).ok()
    });
    let (server, _) = accepted.context("no connection")?;
    b.calls().set_option(server, Opt::NonBlocking(true))?;
    let (text, mut buf) = ([7; BYTES], [0; BYTES]);
    Ok(move || {
        let written = a.calls().send(client, &text);
        a.step();
        b.step();
        written == Ok(BYTES) && b.calls().recv(server, &mut buf) == Ok(BYTES)
    })
}
