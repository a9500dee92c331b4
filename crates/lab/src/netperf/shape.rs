//! Two hosts of a configuration file as the ends of a test (play), with all other hosts of the file
//! between them; all on one thread.

use super::{any, balanced};
use anyhow::Context;
use apps::netperf::session::{FarEnd, Play, Turn};
use apps::netperf::sockets::{Pace, Sockets};
use clock::Clock;
use inet::udp::Domain;
use lock::Up;
use node::Host;
use node::config::HostConfig;
use node::remote::Families;
use port::Pairs;
use programs::netperf::{OurSockets, Rest};
use std::net::{IpAddr, SocketAddr};

/// Hosts of a configuration file, two of which are the ends of a test.
#[derive(Clone, Debug)]
pub struct Shape {
    hosts: Vec<HostConfig>,
    near: usize,
    far: usize,
    address: IpAddr,
    warnings: Vec<String>,
}

impl Shape {
    /// Creates a shape in which `near` connects to the first address of `far` in `families`. By
    /// default the file's first host connects to its last. One thread steps all hosts
    /// ([`HostConfig::on_one_thread`]).
    ///
    /// # Errors
    /// No such host, the far host has no such address, or both are the same host.
    pub fn new(
        hosts: Vec<HostConfig>,
        families: Families,
        near: Option<&str>,
        far: Option<&str>,
    ) -> Result<Shape, String> {
        let place = |name: Option<&str>, otherwise: usize| match name {
            Some(name) => hosts.iter().position(|host| host.name == name).ok_or_else(|| {
                let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
                format!("unknown host '{name}': expected one of {}", names.join(", "))
            }),
            None => Ok(otherwise),
        };
        let (near, far) = (place(near, 0)?, place(far, hosts.len().saturating_sub(1))?);
        let ended = hosts.get(far).filter(|_| near != far).ok_or("a test needs two different hosts: name both")?;
        let four = || ended.ifaces.iter().flat_map(|iface| &iface.addresses).map(|own| IpAddr::V4(own.addr)).next();
        let six = || ended.ifaces.iter().flat_map(|iface| &iface.addresses6).map(|own| IpAddr::V6(own.addr)).next();
        let (address, kind) = match families {
            Families::V4 => (four(), " IPv4"),
            Families::V6 => (six(), " IPv6"),
            Families::Any => (four().or_else(six), ""),
        };
        let address = address.ok_or_else(|| format!("host '{}' has no{kind} address to connect to", ended.name))?;
        let single = hosts.iter().map(HostConfig::on_one_thread).map(|single| (single.config, single.warning));
        let (hosts, warnings): (_, Vec<_>) = single.unzip();
        Ok(Shape { hosts, near, far, address, warnings: warnings.into_iter().flatten().collect() })
    }

    /// Returns a sentence for each setting of the file that has no effect here.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the address of the far end.
    pub fn far_address(&self) -> IpAddr {
        self.address
    }

    /// Runs `play`. While the near end waits, all other hosts are stepped.
    ///
    /// # Errors
    /// A host cannot be created; an error of the play.
    pub fn run<P: Play>(&self, play: &mut P) -> anyhow::Result<()> {
        let pairs = Pairs::new();
        let build = |config| node::run::build::<Up>(config, &pairs, Clock::live(Default::default()));
        let hosts: Vec<Host<Up>> = self.hosts.iter().map(build).collect::<Result<_, _>>()?;
        let (Some(near), Some(far)) = (hosts.get(self.near), hosts.get(self.far)) else { return Ok(()) };
        let numbered = hosts.iter().enumerate();
        let others = numbered.filter(|(at, _)| ![self.near, self.far].contains(at));
        let between: Vec<&Host<Up>> = others.map(|(_, host)| host).collect();
        for host in [near, far] {
            let step = || hosts.iter().for_each(|host| _ = host.step());
            node::run::await_addresses(host, &mut |_| {}, step)?;
        }
        let mut there = OurSockets::new(far, Rest::Never);
        let listen = any(Domain::of(&SocketAddr::new(self.address, 0)), <P::Far as FarEnd>::PORT);
        let (mut end, port) = <P::Far>::open_for_one(&mut there, listen).context("cannot open the far end")?;
        let mut here = OurSockets::new(near, Rest::Never);
        let mut round = |here: &mut OurSockets<'_, Up>, pace| {
            // In the file's order, then backwards, so that a packet passes a chain of routers in
            // one round.
            between.iter().for_each(|host| _ = host.step());
            let now = there.step(Pace::Go);
            end.turn(&mut there, now);
            between.iter().rev().for_each(|host| _ = host.step());
            here.step(pace)
        };
        play.near(&mut here, &mut round, SocketAddr::from((self.address, port)))?;
        hosts.iter().try_for_each(balanced)
    }
}
