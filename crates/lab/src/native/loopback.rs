//! The kernel's TCP and UDP over loopback, both ends on one thread: peers of the rows of `bench
//! tcp`.

use crate::os;
use crate::rigs::{Bulk, End, MakeEnd, TwoCores};
use crate::subject::{Reading, Subject, measure};
use anyhow::{Context, ensure};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

const TRANSACTIONS: u64 = 2_000;
const CONNECTIONS: u64 = 300;
/// Number of descriptors reserved for other uses than the idle connections.
const KEPT: usize = 512;
/// Maximum number of connections per listener: the kernel's default range of local ports has
/// 28,232.
const PORTS: usize = 25_000;

fn any() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn joined() -> anyhow::Result<[TcpStream; 2]> {
    let listener = TcpListener::bind(any())?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    for end in [&client, &server] {
        end.set_nodelay(true)?;
        end.set_nonblocking(true)?;
    }
    Ok([client, server])
}

/// Bulk transfer with both ends on one thread; an operation is one transferred byte.
pub type LoopbackBulk = Bulk<TcpStream>;

impl LoopbackBulk {
    /// Opens one connection.
    ///
    /// # Errors
    /// A socket call failed.
    pub fn new(id: &str) -> anyhow::Result<LoopbackBulk> {
        Ok(Bulk::between(id, joined()?))
    }
}

/// Creates a bulk transfer from one core to another; an operation is one transferred byte.
///
/// # Errors
/// As [`TwoCores::new`].
pub fn two_cores(id: &str, cores: [usize; 2]) -> anyhow::Result<TwoCores> {
    let [client, server] = joined()?.map(|end| -> MakeEnd { Box::new(|| Ok(Box::new(end))) });
    TwoCores::new(id, cores, [client, server])
}

impl End for TcpStream {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<usize> {
        match self.write(bytes) {
            Ok(n) => Ok(n),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    fn recv(&mut self, into: &mut [u8]) -> anyhow::Result<usize> {
        match self.read(into) {
            Ok(n) => {
                ensure!(n > 0, "unexpected end of stream");
                Ok(n)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

enum Ends {
    Tcp([TcpStream; 2]),
    Udp([UdpSocket; 2]),
}

/// Subject that exchanges a request and a response of one byte each.
pub struct LoopbackRr {
    id: String,
    ends: Ends,
    idle: Vec<[TcpStream; 2]>,
}

impl LoopbackRr {
    /// Creates the subject over a TCP connection.
    ///
    /// # Errors
    /// A socket call failed.
    pub fn tcp(id: &str) -> anyhow::Result<LoopbackRr> {
        let ends = joined()?;
        for end in &ends {
            end.set_nonblocking(false)?;
        }
        Ok(LoopbackRr { id: id.to_owned(), ends: Ends::Tcp(ends), idle: Vec::new() })
    }

    /// Creates the subject over one TCP connection, while other connections are open and idle: as
    /// many as the process's descriptor limit allows, at most `most`.
    ///
    /// # Errors
    /// A socket call failed.
    pub fn among_idle(id: &str, most: usize) -> anyhow::Result<LoopbackRr> {
        let mut rr = LoopbackRr::tcp(id)?;
        let mut listener = None;
        for n in 0..LoopbackRr::most_idle(most) {
            if n % PORTS == 0 {
                listener = Some(TcpListener::bind(any())?);
            }
            let listener = listener.as_ref().context("no listener")?;
            let client = TcpStream::connect(listener.local_addr()?)?;
            rr.idle.push([client, listener.accept()?.0]);
        }
        Ok(rr)
    }

    /// Returns the number of idle connections that the process's descriptor limit allows, at most
    /// `most`.
    pub fn most_idle(most: usize) -> usize {
        most.min(os::most_descriptors().saturating_sub(KEPT) / 2)
    }

    /// Creates the subject with UDP datagrams.
    ///
    /// # Errors
    /// A socket call failed.
    pub fn udp(id: &str) -> anyhow::Result<LoopbackRr> {
        let ends = [UdpSocket::bind(any())?, UdpSocket::bind(any())?];
        ends[0].connect(ends[1].local_addr()?)?;
        ends[1].connect(ends[0].local_addr()?)?;
        Ok(LoopbackRr { id: id.to_owned(), ends: Ends::Udp(ends), idle: Vec::new() })
    }

    fn transact(&mut self) -> std::io::Result<()> {
        let mut byte = [0; 1];
        match &mut self.ends {
            Ends::Tcp([client, server]) => {
                client.write_all(b"?")?;
                server.read_exact(&mut byte)?;
                server.write_all(b"!")?;
                client.read_exact(&mut byte)?;
            }
            Ends::Udp([client, server]) => {
                client.send(b"?")?;
                server.recv(&mut byte)?;
                server.send(b"!")?;
                client.recv(&mut byte)?;
            }
        }
        if byte == *b"!" { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
    }
}

impl Subject for LoopbackRr {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut done = Ok(());
        let reading = measure(TRANSACTIONS, || {
            for _ in 0..TRANSACTIONS {
                done = self.transact();
                if done.is_err() {
                    break;
                }
            }
        });
        done.with_context(|| self.id.clone())?;
        Ok(reading)
    }
}

/// Subject that opens, accepts and closes a connection.
pub struct LoopbackConnect {
    id: String,
    listener: TcpListener,
}

impl LoopbackConnect {
    /// Creates a listener on loopback.
    ///
    /// # Errors
    /// A socket call failed.
    pub fn new(id: &str) -> anyhow::Result<LoopbackConnect> {
        Ok(LoopbackConnect { id: id.to_owned(), listener: TcpListener::bind(any())? })
    }

    /// Opens and closes one connection. The server's end closes last, and the client's end enters
    /// TIME-WAIT, as in our rig.
    fn once(&self) -> std::io::Result<()> {
        let client = TcpStream::connect(self.listener.local_addr()?)?;
        let (mut server, _) = self.listener.accept()?;
        drop(client);
        server.read(&mut [0; 1]).map(drop)
    }
}

impl Subject for LoopbackConnect {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut done = Ok(());
        let reading = measure(CONNECTIONS, || {
            for _ in 0..CONNECTIONS {
                done = self.once();
                if done.is_err() {
                    break;
                }
            }
        });
        done.with_context(|| self.id.clone())?;
        Ok(reading)
    }
}
