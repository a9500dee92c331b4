//! TCP: two hosts on one thread, joined by a pair of ports.
//!
//! | row | one operation |
//! |---|---|
//! | `bulk.*` | a byte written by `send`, carried, and copied out by `recv` at the other host, both hosts' work included |
//! | `rr.*` | one byte there and one back |
//! | `connect_close` | a connection opened, accepted, and closed from both ends |

use crate::subject::{Reading, Subject, measure};
use anyhow::{Context, ensure};
use clock::{Clock, Strategy};
use inet::iface::IfaceAddr;
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
use socket::{Calls, Errno, Fd, Opt};
use std::net::{Ipv4Addr, SocketAddr};

const BULK: usize = 8 << 20;
const CHUNK: usize = 64 << 10;
const BUFFER: usize = 256 << 10;
const TRANSACTIONS: u64 = 10_000;
const CONNECTIONS: u64 = 2_000;

/// What links the hosts.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The largest packet.
    pub mtu: u16,
    /// Checksums are left out: what never leaves memory cannot be corrupted.
    pub offload: bool,
}

/// Two hosts, each with its end of a pair.
struct Two {
    hosts: [Host<Up>; 2],
}

fn addr(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host)
}

impl Two {
    fn new(link: Link, sysctl: &[(&str, i64)]) -> anyhow::Result<Two> {
        let pairs = Pairs::new();
        let host = |n: u8| -> anyhow::Result<Host<Up>> {
            let large = usize::from(link.mtu) > 4096;
            let mut config = HostConfig {
                name: format!("tcp{n}"),
                pool_buffers: if large { 512 } else { 4096 },
                pool_data: usize::from(link.mtu).max(2048),
                sysctl: sysctl.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
                ..HostConfig::default()
            };
            config.clock = Strategy::TscScaled;
            let host = Host::new(&config, Clock::live(Strategy::TscScaled))?;
            let spec = format!("pair(mtu={},slots=1024,csum={}):p", link.mtu, if link.offload { "on" } else { "off" });
            let on = link.offload;
            let iface = IfaceConfig {
                addresses: vec![IfaceAddr { addr: addr(n), len: 24 }],
                mtu: Some(link.mtu),
                rxcsum: Some(on),
                ip4csum: false,
                udp4csum: Some(on),
                ..IfaceConfig::on(&spec)
            };
            host.add_port(&iface, &pairs)?;
            Ok(host)
        };
        Ok(Two { hosts: [host(1)?, host(2)?] })
    }

    fn step(&self) -> usize {
        self.hosts[0].step().frames + self.hosts[1].step().frames
    }

    fn calls(&self, at: usize) -> Calls<'_, Up> {
        let host = &self.hosts[at];
        Calls::new(&host.stack, host.cx())
    }

    fn listen(&self, port: u16) -> anyhow::Result<Fd> {
        let calls = self.calls(1);
        let fd = calls.stream_socket()?;
        calls.set_option(fd, Opt::NonBlocking(true))?;
        calls.bind(fd, SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))?;
        calls.listen(fd, 1024)?;
        Ok(fd)
    }

    fn begin(&self, port: u16) -> anyhow::Result<Fd> {
        let calls = self.calls(0);
        let fd = calls.stream_socket()?;
        calls.set_option(fd, Opt::NonBlocking(true))?;
        match calls.connect(fd, SocketAddr::from((addr(2), port))) {
            Err(Errno::EINPROGRESS) | Ok(()) => Ok(fd),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&self, listener: Fd) -> anyhow::Result<Fd> {
        for _ in 0..10_000 {
            self.step();
            let calls = self.calls(1);
            match calls.accept(listener) {
                Ok((fd, _)) => {
                    calls.set_option(fd, Opt::NonBlocking(true))?;
                    calls.set_option(fd, Opt::NoDelay(true))?;
                    return Ok(fd);
                }
                Err(Errno::EAGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        anyhow::bail!("no connection came")
    }

    fn balanced(&self, id: &str) -> anyhow::Result<()> {
        for host in &self.hosts {
            let audit = host.stack.audit(host.cx());
            ensure!(audit.imbalance() == 0, "{id}: {audit:?}");
        }
        Ok(())
    }
}

/// Bytes from one host to the other.
pub struct BulkRig {
    id: String,
    two: Two,
    fds: [Fd; 2],
    from: Vec<u8>,
    into: Vec<u8>,
}

impl BulkRig {
    /// One connection over `link`.
    ///
    /// # Errors
    /// A socket call's, or the port's.
    pub fn new(id: &str, link: Link) -> anyhow::Result<BulkRig> {
        let two = Two::new(link, &[])?;
        let listener = two.listen(5001)?;
        let client = two.begin(5001)?;
        let server = two.accept(listener)?;
        // Fixed buffers, as the peers have: what is under way then stays in the second-level cache.
        two.calls(0).set_option(client, Opt::SendBuffer(BUFFER))?;
        two.calls(1).set_option(server, Opt::RecvBuffer(BUFFER))?;
        let from = (0..CHUNK).map(|i| i as u8).collect();
        Ok(BulkRig { id: id.to_owned(), two, fds: [client, server], from, into: vec![0; CHUNK] })
    }

    fn carry(&mut self, bytes: usize) -> anyhow::Result<()> {
        let (mut sent, mut got, mut idle) = (0, 0, 0u32);
        while got < bytes {
            let calls = self.two.calls(0);
            while sent < bytes {
                match calls.send(self.fds[0], &self.from[..CHUNK.min(bytes - sent)]) {
                    Ok(n) => sent += n,
                    Err(Errno::EAGAIN | Errno::ENOBUFS) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            self.two.hosts[1].step();
            let calls = self.two.calls(1);
            let before = got;
            loop {
                match calls.recv(self.fds[1], &mut self.into) {
                    Ok(n) => got += n,
                    Err(Errno::EAGAIN) => break,
                    Err(error) => return Err(error.into()),
                }
                std::hint::black_box(&self.into);
            }
            self.two.hosts[0].step();
            idle = if got == before { idle + 1 } else { 0 };
            ensure!(idle < 10_000_000, "{}: stalled after {got} of {bytes}", self.id);
        }
        Ok(())
    }
}

impl Subject for BulkRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut done = Ok(());
        let reading = measure(BULK as u64, || done = self.carry(BULK));
        done?;
        self.two.balanced(&self.id)?;
        Ok(reading)
    }
}

/// One byte there, one byte back.
pub struct RrRig {
    id: String,
    two: Two,
    fds: [Fd; 2],
    /// Connections that do nothing.
    idle: Vec<[Fd; 2]>,
}

impl RrRig {
    /// A stream among `idle` idle ones.
    ///
    /// # Errors
    /// A socket call's, or the port's.
    pub fn tcp(id: &str, idle: usize) -> anyhow::Result<RrRig> {
        let two = Two::new(Link { mtu: 1500, offload: false }, &[])?;
        let mut others = Vec::with_capacity(idle);
        let mut listeners = Vec::new();
        for n in 0..idle {
            if n % 25_000 == 0 {
                listeners.push(two.listen(6000 + (n / 25_000) as u16)?);
            }
            let client = two.begin(6000 + (n / 25_000) as u16)?;
            let server = two.accept(*listeners.last().context("no listener")?)?;
            others.push([client, server]);
        }
        let listener = two.listen(5001)?;
        let client = two.begin(5001)?;
        let server = two.accept(listener)?;
        two.calls(0).set_option(client, Opt::NoDelay(true))?;
        Ok(RrRig { id: id.to_owned(), two, fds: [client, server], idle: others })
    }

    /// Datagrams.
    ///
    /// # Errors
    /// A socket call's, or the port's.
    pub fn udp(id: &str) -> anyhow::Result<RrRig> {
        let two = Two::new(Link { mtu: 1500, offload: false }, &[])?;
        let open = |at: usize| -> anyhow::Result<Fd> {
            let calls = two.calls(at);
            let fd = calls.socket()?;
            calls.set_option(fd, Opt::NonBlocking(true))?;
            calls.bind(fd, SocketAddr::from((addr(at as u8 + 1), 7000)))?;
            calls.connect(fd, SocketAddr::from((addr(2 - at as u8), 7000)))?;
            Ok(fd)
        };
        let fds = [open(0)?, open(1)?];
        // The first datagram waits for the neighbor's answer.
        two.calls(0).send(fds[0], b"?")?;
        while two.step() > 0 {}
        while two.calls(1).recv(fds[1], &mut [0; 16]).is_ok() {}
        Ok(RrRig { id: id.to_owned(), two, fds, idle: Vec::new() })
    }

    /// Connections that do nothing.
    pub fn idle(&self) -> usize {
        self.idle.len()
    }

    fn transact(&self, times: u64) -> anyhow::Result<()> {
        let mut client = self.two.calls(0);
        for _ in 0..times {
            client.send(self.fds[0], b"?")?;
            self.receive(1)?.send(self.fds[1], b"!")?;
            client = self.receive(0)?;
        }
        Ok(())
    }

    /// Runs one host until the byte is there; gives the calls of that round, as an event loop has them.
    fn receive(&self, at: usize) -> anyhow::Result<Calls<'_, Up>> {
        let mut byte = [0; 16];
        let host = &self.two.hosts[at];
        for _ in 0..100_000 {
            let calls = host.calls_at(host.step().now);
            match calls.recv(self.fds[at], &mut byte) {
                Ok(1) => return Ok(calls),
                Ok(n) => anyhow::bail!("{}: {n} bytes", self.id),
                Err(Errno::EAGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        anyhow::bail!("{}: no answer", self.id)
    }
}

impl Subject for RrRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut done = Ok(());
        let reading = measure(TRANSACTIONS, || done = self.transact(TRANSACTIONS));
        done?;
        self.two.balanced(&self.id)?;
        Ok(reading)
    }
}

/// Connections that are opened and closed.
pub struct ConnectRig {
    id: String,
    two: Two,
    listener: Fd,
}

impl ConnectRig {
    /// TIME-WAIT lasts 2 ms here, so that ports come round; its records are made and timed out like any.
    ///
    /// # Errors
    /// A socket call's, or the port's.
    pub fn new(id: &str) -> anyhow::Result<ConnectRig> {
        let two = Two::new(Link { mtu: 1500, offload: false }, &[("net.inet.tcp.msl", 1)])?;
        let listener = two.listen(5001)?;
        // The first one's SYN waits for the neighbor's answer.
        let (client, server) = (two.begin(5001)?, two.accept(listener)?);
        two.calls(0).close(client)?;
        two.calls(1).close(server)?;
        while two.step() > 0 {}
        Ok(ConnectRig { id: id.to_owned(), two, listener })
    }

    fn once(&self) -> anyhow::Result<()> {
        let [client_host, server_host] = &self.two.hosts;
        let client = self.two.begin(5001)?; // SYN
        server_host.step(); // SYN-ACK
        let client_calls = client_host.calls_at(client_host.step().now); // ACK
        let (server, _) = server_host.calls_at(server_host.step().now).accept(self.listener).context("accept")?;
        client_calls.close(client).context("close")?; // FIN
        let server_calls = server_host.calls_at(server_host.step().now); // ACK
        let end = server_calls.recv(server, &mut [0; 1]).context("the end")?;
        ensure!(end == 0, "{}: text where the end was expected", self.id);
        server_calls.close(server)?; // FIN
        client_host.step(); // ACK
        server_host.step();
        Ok(())
    }
}

impl Subject for ConnectRig {
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
        done?;
        self.two.balanced(&self.id)?;
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_come_and_go() {
        let rig = ConnectRig::new("connect_close").unwrap();
        for _ in 0..20_000 {
            rig.once().unwrap();
        }
        rig.two.balanced("connect_close").unwrap();
    }
}
