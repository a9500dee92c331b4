//! `cargo xtask bench library`: the interface of the library, compared with the internal calls, and
//! sockets for tasks of tokio, compared with tokio's own over the kernel's loopback.
//!
//! | row | one operation |
//! |---|---|
//! | `tasks.rtt` | write 1 byte, read the echo: one connection, one thread, current-thread runtime |
//! | `tasks.rtt64` | the same over 64 connections at once |
//! | `library.send` | `UdpSocket::send_to` of 22 bytes on a local host with a `null:` port |
//! | `library.recv` | `UdpSocket::recv_from` of a datagram that `pktgen:` generates |

use anyhow::{Context, bail};
use lab::bench::ForeignRow;
use lab::side::Side;
use lab::study::Unit;
use lab::subject::{Reading, Subject, measure};
use lab::timer;
use linerate::net::Net;
use linerate::net::UdpSocket;
use linerate::net::tokio::{TcpListener, TcpStream};
use linerate::{Driver, Host, LocalHost};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio::task::{JoinSet, LocalSet};

/// Round trips of each connection in a trial.
const TRIPS: u64 = 1000;
/// Datagrams in a trial.
const DATAGRAMS: u64 = 20_000;
const MANY: usize = 64;

/// Microseconds, from ticks.
const MICROSECONDS: Unit = Unit { name: "us", of: |ticks| ticks * 1e6 / timer::rate().hz as f64 };

/// Returns the rows of the group.
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
            Side::new("library.send", || Send::new("library.send", Way::Library)),
            "UdpSocket::send_to of 22 bytes, null: port, clock read",
            Unit::TICKS,
            vec![Side::new("internal.library.send", || Send::new("internal.library.send", Way::Internal))],
        ),
        row(
            Side::new("library.recv", || Receive::new("library.recv", Way::Library)),
            "UdpSocket::recv_from, which runs the host, frames of pktgen:",
            Unit::TICKS,
            vec![Side::new("internal.library.recv", || Receive::new("internal.library.recv", Way::Internal))],
        ),
    ]
}

/// Connections to an echo server in the same runtime.
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

/// Interface through which a side makes its calls.
#[derive(Clone, Copy)]
enum Way {
    Library,
    /// The calls of `socket::Calls`, as the servers of the program make them.
    Internal,
}

/// Sends datagrams of 22 bytes to a neighbor with a static entry.
struct Send {
    id: &'static str,
    way: Way,
    host: LocalHost,
    socket: UdpSocket<LocalHost>,
}

impl Send {
    fn new(id: &'static str, way: Way) -> anyhow::Result<Send> {
        let builder = Host::builder().port("null:n0").addr("10.0.0.1/24");
        let host = builder.neighbor([10, 0, 0, 2].into(), [2, 0, 0, 0, 0, 2]).build_local()?;
        let socket = UdpSocket::bind(&host, "10.0.0.1:9")?;
        Ok(Send { id, way, host, socket })
    }
}

impl Subject for Send {
    fn id(&self) -> &str {
        self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let (to, text) = (std::net::SocketAddr::from(([10, 0, 0, 2], 9)), [7; 22]);
        let before = self.host.counter("inet.udp.sent").context("the counter exists")?;
        let mut failed = 0;
        let reading = measure(DATAGRAMS, || match self.way {
            Way::Library => {
                for _ in 0..DATAGRAMS {
                    failed += u64::from(self.socket.send_to(&text, to).is_err());
                }
            }
            Way::Internal => {
                for _ in 0..DATAGRAMS {
                    let sent = self.host.with(|calls| calls.send_to(self.socket.fd(), &text, &to));
                    failed += u64::from(sent.is_err());
                }
            }
        });
        let sent = self.host.counter("inet.udp.sent").context("the counter exists")? - before;
        if failed > 0 || sent != DATAGRAMS {
            bail!("{sent} of {DATAGRAMS} datagrams were sent, {failed} calls failed");
        }
        Ok(reading)
    }
}

/// Receives the datagrams of a generator.
struct Receive {
    id: &'static str,
    way: Way,
    host: LocalHost,
    socket: UdpSocket<LocalHost>,
}

impl Receive {
    fn new(id: &'static str, way: Way) -> anyhow::Result<Receive> {
        let host = Host::builder().port("pktgen:pg0").addr("1.0.0.1/8").build_local()?;
        let socket = UdpSocket::bind(&host, "1.0.0.1:54321")?;
        Ok(Receive { id, way, host, socket })
    }
}

impl Subject for Receive {
    fn id(&self) -> &str {
        self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let (mut buf, mut failed) = ([0; 2048], 0);
        let reading = measure(DATAGRAMS, || match self.way {
            Way::Library => {
                for _ in 0..DATAGRAMS {
                    failed += u64::from(self.socket.recv_from(&mut buf).is_err());
                }
            }
            Way::Internal => {
                for _ in 0..DATAGRAMS {
                    failed += u64::from(self.host.with(|calls| calls.recv_from(self.socket.fd(), &mut buf)).is_err());
                }
            }
        });
        if failed > 0 {
            bail!("{failed} calls failed");
        }
        Ok(reading)
    }
}
