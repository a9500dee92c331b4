//! Workload of the report rtems2014: FTP between two hosts on one thread, joined by a pair of
//! ports.
//! `/dev/zero` is downloaded, or data is uploaded to `/dev/null`.
//!
//! The server is that of `linerate ftpd`, the client `apps::ftp::client`. They use the socket calls
//! of their hosts. A trial is one session, which connects, logs in, and transfers [`warm_up`] bytes
//! before the clock starts, so that the windows are open. The [`Setup`] configures both hosts, and
//! the figure includes the work of both.

use crate::subject::{Reading, Subject, measure};
use anyhow::{Context, ensure};
use apps::files::Root;
use apps::ftp::client::{Client, Transfer};
use apps::ftp::{Config, Ftp};
use apps::serve::Server;
use apps::streams::net::Token;
use buf::Kind as PoolKind;
use clock::{Clock, Strategy};
use inet::iface::{Iface, IfaceKind, Offload};
use lock::{Heavy, Light, Locks, Up};
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use node::run::{Runner, Running};
use port::Pairs;
use programs::streams::{self, HostStreams};
use rung::LockKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use wire::checksum;

/// Bytes of each socket buffer, so that data in flight stays in the second-level cache.
pub const BUFFER: i64 = 256 << 10;
/// Maximum number of bytes transferred before the clock starts: eight windows.
const WARM: u64 = 2 << 20;
/// Time without progress after which a session fails.
const PATIENCE: Duration = Duration::from_secs(10);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const FTP: u16 = 21;

/// Direction of the transfer, as seen by the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Download by RETR of /dev/zero.
    Down,
    /// Upload by STOR to /dev/null.
    Up,
}

/// Configuration of both hosts; rows differ in these fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Kind of the hosts' locks.
    pub locks: LockKind,
    /// Strategy of the hosts' clock.
    pub clock: Strategy,
    /// Kind of the hosts' buffer pools.
    pub pool: PoolKind,
    /// Checksum routine, where checksums are computed in software.
    pub checksum: checksum::Kind,
    /// Set if checksums are left to the ports instead of computed in software.
    pub offload: bool,
    /// Maximum number of frames that are taken from a port per burst.
    pub burst: usize,
}

impl Setup {
    /// Returns the configuration of a host with this setup, without ports.
    pub fn host(&self, name: &str) -> HostConfig {
        let settings = ["recvspace", "recvbuf_max", "sendspace", "sendbuf_max"];
        let setting = |name| (format!("net.inet.tcp.{name}"), BUFFER);
        let mut sysctl: std::collections::BTreeMap<String, i64> = settings.into_iter().map(setting).collect();
        // TIME-WAIT lasts 2 ms, because hundreds of sessions follow each other.
        sysctl.insert("net.inet.tcp.msl".to_owned(), 1);
        HostConfig {
            name: name.to_owned(),
            locks: match self.locks {
                LockKind::Up => "up",
                LockKind::Light => "light",
                LockKind::Heavy => "heavy",
            }
            .to_owned(),
            clock: self.clock,
            pool_kind: self.pool,
            burst: self.burst,
            sysctl,
            ..HostConfig::default()
        }
    }

    /// Returns the configuration of a host with this setup and its end of the pair.
    fn paired(&self, name: &str, at: Ipv4Addr) -> anyhow::Result<HostConfig> {
        let mut config = self.host(name);
        let offload = if self.offload { "on" } else { "off" };
        config.ifaces.push(IfaceConfig::on(&format!("pair(mtu=1500,slots=1024,csum={offload}):p")));
        for (key, value) in [("addresses", format!("{at}/24").as_str()), ("udp4csum", offload), ("rxcsum", offload)] {
            config.set_iface(key, value).map_err(anyhow::Error::msg)?;
        }
        Ok(config)
    }
}

/// Returns the number of bytes that a trial of `bytes` bytes transfers as its warm-up.
pub const fn warm_up(bytes: u64) -> u64 {
    if bytes < WARM { bytes } else { WARM }
}

/// Creates the rig as a subject, with the kind of locks that `setup` selects.
///
/// # Errors
/// A host could not be created.
pub fn ftp_rig(id: &str, setup: Setup, way: Way, bytes: u64) -> anyhow::Result<Box<dyn FtpSubject>> {
    Ok(match setup.locks {
        LockKind::Up => Box::new(FtpRig::<Up>::new(id, setup, way, bytes)?),
        LockKind::Light => Box::new(FtpRig::<Light>::new(id, setup, way, bytes)?),
        LockKind::Heavy => Box::new(FtpRig::<Heavy>::new(id, setup, way, bytes)?),
    })
}

/// Properties of a rig, in addition to its trials.
pub trait FtpSubject: Subject {
    /// Returns the number of locks of the serving host, and the number of acquisitions so far.
    fn locks(&self) -> (usize, u64);
    /// Returns the configuration that the serving host uses.
    fn facts(&self) -> Facts;
}

/// Configuration that a running host uses. It shows whether the [`Setup`] took effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Kind of the host's locks.
    pub locks: &'static str,
    /// Strategy of the host's clock; it differs from the requested one where the TSC is not
    /// invariant.
    pub clock: Option<Strategy>,
    /// Kind of the host's buffer pool.
    pub pool: PoolKind,
    /// Checksum routine in force during the last trial.
    pub checksum: Option<checksum::Kind>,
    /// Checksums that the host's iface leaves to its port.
    pub offload: Offload,
    /// Maximum number of frames that are taken from a port per burst.
    pub burst: usize,
}

/// Rig of two hosts that run one FTP session in each trial.
struct FtpRig<L: Locks> {
    id: String,
    setup: Setup,
    way: Way,
    bytes: u64,
    pairs: Pairs,
    /// Hosts of the server and of the client.
    hosts: [Host<L>; 2],
    /// Checksum routine in force during the last trial.
    summed: Option<checksum::Kind>,
}

impl<L: Locks> FtpRig<L> {
    fn new(id: &str, setup: Setup, way: Way, bytes: u64) -> anyhow::Result<FtpRig<L>> {
        let pairs = Pairs::new();
        let host = |name: &str, at: Ipv4Addr| -> anyhow::Result<Host<L>> {
            let config = setup.paired(name, at)?;
            Ok(node::run::build(&config, &pairs, Clock::live(setup.clock))?)
        };
        let hosts = [host("server", SERVER)?, host("client", CLIENT)?];
        Ok(FtpRig { id: id.to_owned(), setup, way, bytes, pairs, hosts, summed: None })
    }

    fn transfer(&self) -> Transfer {
        match self.way {
            Way::Down => Transfer::Down { path: "/dev/zero", enough: self.end() },
            // Sends no more than the session's bytes. The receiver lags by up to a window, but has
            // all of them at the end.
            Way::Up => Transfer::Up { path: "/dev/null", bytes: self.end() },
        }
    }

    /// Number of bytes of a session.
    fn end(&self) -> u64 {
        warm_up(self.bytes) + self.bytes
    }

    fn balanced(&self) -> anyhow::Result<()> {
        for host in &self.hosts {
            let audit = host.stack.audit(host.cx());
            ensure!(audit.imbalance() == 0, "{}: frames unaccounted for: {audit:?}", self.id);
        }
        Ok(())
    }
}

/// One trial's session: the sockets of both hosts, the server and the client.
struct Session<'h, L: Locks> {
    streams: [HostStreams<'h, L>; 2],
    server: Server<Ftp, Token>,
    client: Server<Client, Token>,
    way: Way,
}

impl<'h, L: Locks> Session<'h, L> {
    fn begin(rig: &'h FtpRig<L>) -> anyhow::Result<Session<'h, L>> {
        let streams = |host: &'h Host<L>| -> anyhow::Result<HostStreams<'h, L>> {
            let runner = Runner::new(host, &[], None).map_err(|(_, why)| why)?;
            Ok(streams::running(host, runner, Running::default(), &rig.pairs))
        };
        let mut streams = [streams(&rig.hosts[0])?, streams(&rig.hosts[1])?];
        let at = SocketAddr::from((Ipv4Addr::UNSPECIFIED, FTP));
        let now = rig.hosts[0].clock.now();
        let server = Server::open(Ftp::new(Config::new(Root::devices())), &mut streams[0], &[at], now);
        let server = server.map_err(|(at, why)| anyhow::anyhow!("cannot start the server at {at}: {why}"))?;
        let now = rig.hosts[1].clock.now();
        let client = Client::new(SocketAddr::from((SERVER, FTP)), rig.transfer(), PATIENCE, now);
        let client = Server::open(client, &mut streams[1], &[], now).map_err(|(_, why)| why)?;
        Ok(Session { streams, server, client, way: rig.way })
    }

    fn turn(&mut self, hosts: &[Host<L>; 2]) {
        self.client.turn(&mut self.streams[1], hosts[1].clock.now(), Duration::ZERO);
        self.server.turn(&mut self.streams[0], hosts[0].clock.now(), Duration::ZERO);
    }

    /// Returns the bytes that have arrived at the receiving side.
    fn came(&self) -> u64 {
        match self.way {
            Way::Down => self.client.app.moved(),
            Way::Up => self.server.app.counts.bytes_in.get(),
        }
    }

    /// Runs both sides until `until` bytes have arrived, or the session is over.
    fn carry(&mut self, hosts: &[Host<L>; 2], until: u64) {
        while self.came() < until && self.client.app.outcome().is_none() {
            self.turn(hosts);
        }
    }

    /// Ends the session and its connections.
    fn end(mut self, hosts: &[Host<L>; 2]) -> anyhow::Result<()> {
        while self.client.app.outcome().is_none() || self.client.lingering() + self.server.lingering() > 0 {
            self.turn(hosts);
        }
        let client = self.client.close(&mut self.streams[1]);
        self.server.close(&mut self.streams[0]);
        drop(self.streams);
        while hosts[0].step().frames + hosts[1].step().frames > 0 {}
        client.outcome().context("the FTP session did not end")??;
        Ok(())
    }
}

impl<L: Locks> Subject for FtpRig<L> {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        // The process has one checksum routine, so each rig selects its own for the trial.
        let before = checksum::kind();
        checksum::select(self.setup.checksum)?;
        self.summed = Some(checksum::kind());
        let read = self.session();
        checksum::select(before)?;
        let reading = read.with_context(|| self.id.clone())?;
        self.balanced()?;
        Ok(reading)
    }
}

impl<L: Locks> FtpRig<L> {
    fn session(&self) -> anyhow::Result<Reading> {
        let mut session = Session::begin(self)?;
        session.carry(&self.hosts, warm_up(self.bytes));
        let from = session.came();
        let mut reading = measure(0, || session.carry(&self.hosts, self.end()));
        reading.ops = session.came() - from;
        session.end(&self.hosts)?;
        Ok(reading)
    }
}

impl<L: Locks> FtpSubject for FtpRig<L> {
    fn locks(&self) -> (usize, u64) {
        let used = self.hosts[0].stack.lock_use();
        (used.iter().map(|part| part.locks).sum(), used.iter().map(|part| part.acquisitions).sum())
    }

    fn facts(&self) -> Facts {
        let host = &self.hosts[0];
        let on_port = |iface: &&Iface<L>| iface.kind == IfaceKind::Ethernet;
        Facts {
            locks: L::NAME,
            clock: host.clock.strategy(),
            pool: host.stack.pool.stats().kind,
            checksum: self.summed,
            offload: host.stack.ifaces().find(on_port).map(|iface| iface.offload()).unwrap_or_default(),
            burst: host.burst(),
        }
    }
}

#[cfg(test)]
mod tests;
