//! TCP: two hosts on one thread, joined by a pair of ports.
//!
//! | row | one operation |
//! |---|---|
//! | `bulk.*` | a byte from `send` on one host to `recv` on the other, including both hosts' work |
//! | `rr.*` | a request and a response of one byte each |
//! | `bulk.*.two_cores` | as `bulk.*`, each host on its own thread and core: ticks of wall time |
//! | `connect_close` | a connection opened, accepted, and closed from both ends |

pub(super) mod bulk;
mod connect;
mod cores;
pub(crate) mod idle;
mod rr;

use anyhow::ensure;
use clock::{Clock, Strategy};
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
pub use socket::Domain;
use socket::{Calls, Errno, Fd, Opt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) use bulk::Ours;
pub use bulk::{BUFFER, BULK, Bulk, BulkRig, CHUNK, End};
pub use connect::ConnectRig;
pub use cores::{MakeEnd, TwoCores};
pub use idle::{Idle, idle_bytes};
pub use rr::RrRig;

/// Number of transactions in a trial.
pub const TRANSACTIONS: u64 = if cfg!(debug_assertions) { 1_000 } else { 2_500 };
/// Number of connections in a trial.
pub const CONNECTIONS: u64 = 2_000;

/// Link between the hosts.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Address family of the ends.
    pub family: Domain,
    /// Maximum packet size in bytes.
    pub mtu: u16,
    /// Set to omit checksums, since data that never leaves memory cannot be corrupted.
    pub offload: bool,
}

/// Two hosts, each with its end of a pair.
struct Two {
    family: Domain,
    hosts: [Host<Up>; 2],
}

impl Link {
    /// Returns a link with an MTU of 1500 bytes and checksums in software.
    pub fn plain(family: Domain) -> Link {
        Link { family, mtu: 1500, offload: false }
    }
}

fn addr(family: Domain, host: u8) -> IpAddr {
    match family {
        Domain::Inet => Ipv4Addr::new(10, 0, 0, host).into(),
        Domain::Inet6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host.into()).into(),
    }
}

/// Creates host `n`, 1 or 2, with the address 10.0.0.`n` or fd00::`n`, on the calling thread, which
/// must also run it: its pool belongs to that thread.
fn host(n: u8, link: Link, sysctl: &[(&str, i64)], pairs: &Pairs) -> anyhow::Result<Host<Up>> {
    let large = usize::from(link.mtu) > 4096;
    let mut config = HostConfig {
        name: format!("tcp{n}"),
        pool_buffers: if large { 512 } else { 4096 },
        pool_data: usize::from(link.mtu).max(2048),
        sysctl: sysctl.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        ..HostConfig::default()
    };
    config.clock = Strategy::TscScaled;
    config.sysctl.insert("net.inet6.ip6.dad_count".to_owned(), 0); // no other host is on the link
    let host = Host::new(&config, Clock::live(Strategy::TscScaled))?;
    let on = link.offload;
    let mut iface = IfaceConfig {
        mtu: Some(link.mtu),
        rxcsum: Some(on),
        ip4csum: false,
        udp4csum: Some(on),
        ..IfaceConfig::on(&format!("pair(mtu={},slots=1024,csum={}):p", link.mtu, if on { "on" } else { "off" }))
    };
    iface.add_address(addr(link.family, n), if link.family == Domain::Inet { 24 } else { 64 });
    host.add_port(&iface, pairs)?;
    Ok(host)
}

fn listen(calls: &Calls<'_, Up>, family: Domain, port: u16) -> anyhow::Result<Fd> {
    let fd = calls.stream_socket_of(family)?;
    calls.set_option(fd, Opt::NonBlocking(true))?;
    calls.bind(fd, SocketAddr::new(addr(family, 2), port))?;
    calls.listen(fd, 1024)?;
    Ok(fd)
}

fn begin(calls: &Calls<'_, Up>, family: Domain, port: u16) -> anyhow::Result<Fd> {
    let fd = calls.stream_socket_of(family)?;
    calls.set_option(fd, Opt::NonBlocking(true))?;
    match calls.connect(fd, SocketAddr::new(addr(family, 2), port)) {
        Err(Errno::EINPROGRESS) | Ok(()) => Ok(fd),
        Err(error) => Err(error.into()),
    }
}

/// Accepts a connection, if one is waiting.
fn accept(calls: &Calls<'_, Up>, listener: Fd) -> anyhow::Result<Option<Fd>> {
    match calls.accept(listener) {
        Ok((fd, _)) => {
            calls.set_option(fd, Opt::NonBlocking(true))?;
            calls.set_option(fd, Opt::NoDelay(true))?;
            Ok(Some(fd))
        }
        Err(Errno::EAGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn balanced(id: &str, host: &Host<Up>) -> anyhow::Result<()> {
    let audit = host.stack.audit(host.cx());
    ensure!(audit.imbalance() == 0, "{id}: frames unaccounted for: {audit:?}");
    Ok(())
}

impl Two {
    fn new(link: Link, sysctl: &[(&str, i64)]) -> anyhow::Result<Two> {
        let pairs = Pairs::new();
        Ok(Two { family: link.family, hosts: [host(1, link, sysctl, &pairs)?, host(2, link, sysctl, &pairs)?] })
    }

    fn step(&self) -> usize {
        self.hosts[0].step().frames + self.hosts[1].step().frames
    }

    fn calls(&self, at: usize) -> Calls<'_, Up> {
        let host = &self.hosts[at];
        Calls::new(&host.stack, host.cx())
    }

    fn listen(&self, port: u16) -> anyhow::Result<Fd> {
        listen(&self.calls(1), self.family, port)
    }

    fn begin(&self, port: u16) -> anyhow::Result<Fd> {
        begin(&self.calls(0), self.family, port)
    }

    fn accept(&self, listener: Fd) -> anyhow::Result<Fd> {
        for _ in 0..10_000 {
            self.step();
            if let Some(fd) = accept(&self.calls(1), listener)? {
                return Ok(fd);
            }
        }
        anyhow::bail!("the host received no connection")
    }

    /// Fills `ends` with connections, 25,000 per listener, which is fewer than the client's 55,536
    /// ports.
    fn connect_many(&self, ends: &mut [[Fd; 2]]) -> anyhow::Result<()> {
        for (chunk, port) in ends.chunks_mut(25_000).zip(6000..) {
            let listener = self.listen(port)?;
            for ends in chunk {
                *ends = [self.begin(port)?, self.accept(listener)?];
            }
        }
        Ok(())
    }

    fn balanced(&self, id: &str) -> anyhow::Result<()> {
        self.hosts.iter().try_for_each(|host| balanced(id, host))
    }
}

#[cfg(test)]
mod tests;
