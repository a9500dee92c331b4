//! The kernel's TCP and UDP over loopback, both ends on one thread: what `bench tcp` puts beside ours.

use crate::subject::{Reading, Subject, measure};
use anyhow::{Context, ensure};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

const BULK: usize = 8 << 20;
const CHUNK: usize = 64 << 10;
const TRANSACTIONS: u64 = 2_000;
const CONNECTIONS: u64 = 300;

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

/// A byte carried.
pub struct LoopbackBulk {
    id: String,
    ends: [TcpStream; 2],
}

impl LoopbackBulk {
    /// One connection.
    ///
    /// # Errors
    /// A socket call's.
    pub fn new(id: &str) -> anyhow::Result<LoopbackBulk> {
        Ok(LoopbackBulk { id: id.to_owned(), ends: joined()? })
    }

    fn carry(&mut self) -> anyhow::Result<()> {
        let (from, mut into) = (vec![7u8; CHUNK], vec![0u8; CHUNK]);
        let (mut sent, mut got, mut idle) = (0, 0, 0u32);
        let [client, server] = &mut self.ends;
        while got < BULK {
            let before = got;
            while sent < BULK {
                match client.write(&from[..CHUNK.min(BULK - sent)]) {
                    Ok(n) => sent += n,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
            loop {
                match server.read(&mut into) {
                    Ok(n) => got += n,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
                std::hint::black_box(&into);
            }
            idle = if got == before { idle + 1 } else { 0 };
            ensure!(idle < 1_000_000, "stalled after {got} bytes");
        }
        Ok(())
    }
}

impl Subject for LoopbackBulk {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut done = Ok(());
        let reading = measure(BULK as u64, || done = self.carry());
        done?;
        Ok(reading)
    }
}

enum Ends {
    Tcp([TcpStream; 2]),
    Udp([UdpSocket; 2]),
}

/// A byte there and a byte back.
pub struct LoopbackRr {
    id: String,
    ends: Ends,
}

impl LoopbackRr {
    /// Over a connection.
    ///
    /// # Errors
    /// A socket call's.
    pub fn tcp(id: &str) -> anyhow::Result<LoopbackRr> {
        let ends = joined()?;
        for end in &ends {
            end.set_nonblocking(false)?;
        }
        Ok(LoopbackRr { id: id.to_owned(), ends: Ends::Tcp(ends) })
    }

    /// With datagrams.
    ///
    /// # Errors
    /// A socket call's.
    pub fn udp(id: &str) -> anyhow::Result<LoopbackRr> {
        let ends = [UdpSocket::bind(any())?, UdpSocket::bind(any())?];
        ends[0].connect(ends[1].local_addr()?)?;
        ends[1].connect(ends[0].local_addr()?)?;
        Ok(LoopbackRr { id: id.to_owned(), ends: Ends::Udp(ends) })
    }

    fn transact(&mut self) -> std::io::Result<()> {
        let mut byte = [0; 1];
        match &mut self.ends {
            Ends::Tcp([client, server]) => {
                client.write_all(b"?")?;
                server.read_exact(&mut byte)?;
                server.write_all(b"!")?;
                client.read_exact(&mut byte)
            }
            Ends::Udp([client, server]) => {
                client.send(b"?")?;
                server.recv(&mut byte)?;
                server.send(b"!")?;
                client.recv(&mut byte).map(drop)
            }
        }
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

/// A connection opened, accepted and closed.
pub struct LoopbackConnect {
    id: String,
    listener: TcpListener,
}

impl LoopbackConnect {
    /// A listener on loopback.
    ///
    /// # Errors
    /// A socket call's.
    pub fn new(id: &str) -> anyhow::Result<LoopbackConnect> {
        Ok(LoopbackConnect { id: id.to_owned(), listener: TcpListener::bind(any())? })
    }

    /// The server's end closes last, and the client's end meets TIME-WAIT, as in ours.
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
