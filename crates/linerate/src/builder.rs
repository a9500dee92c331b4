//! Builder of hosts.

use crate::background::{ControlSocket, OnWarning};
use crate::port::{ChannelPort, FrameSink, FrameSource, OpenPort};
use crate::{Error, Host, LocalHost, Offload, Tunnel, background, sim};
use ::port::spec::Spec;
use clock::Clock;
use inet::fib::{Prefix, Prefix6};
use inet::tunnel::Kind;
use lock::{Light, Locks, Up};
use node::OpenOwn;
use node::config::keys::Item;
use node::config::{HostConfig, IfaceConfig, NeighborConfig, RouteConfig};
use node::policy::Policy;
use node::run::{BuildError, build_with_own};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
#[cfg(any(feature = "commands", feature = "files"))]
use std::path::Path;
use std::rc::Rc;
use wire::Mac;

/// Configuration of a [`Host`] or [`LocalHost`].
///
/// [`HostBuilder::port`] adds an interface. The methods below it ([`addr`](HostBuilder::addr),
/// [`mac`](HostBuilder::mac), [`mtu`](HostBuilder::mtu) and others) configure the interface that
/// was added last. Invalid values are reported by `build`.
///
/// ```
/// use linerate::Host;
///
/// let host = Host::builder()
///     .name("web")
///     .port("pair:front").addr("192.0.2.10/24").addr("2001:db8::10/64")
///     .gateway("192.0.2.1")
///     .sysctl("net.inet.ip.ttl", 32)
///     .build()?;
/// assert_eq!(host.name(), "web");
/// # Ok::<(), linerate::Error>(())
/// ```
#[derive(Default)]
#[must_use = "a builder does nothing until it is built"]
pub struct HostBuilder {
    pub(crate) config: HostConfig,
    /// Ports that the caller implements, by the index of the interface in `config`.
    own: BTreeMap<usize, OpenOwn>,
    /// Policies of ports, by the index of the interface in `config`.
    policies: BTreeMap<usize, Policy>,
    /// IPv6 neighbors, each with the index of its interface. The interface's name may still change,
    /// so it is set when the host is built.
    neighbors6: Vec<(usize, NeighborConfig)>,
    /// Prefixes whose addresses are all treated as the host's own.
    locals: Vec<String>,
    control: Option<ControlSocket>,
    on_warning: Option<OnWarning>,
    /// The first invalid value.
    fault: Option<Error>,
}

impl std::fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Parses `ADDRESS/LENGTH`.
pub(crate) fn address(text: &str) -> Result<(IpAddr, u8), Error> {
    let parts = text.split_once('/').and_then(|(addr, len)| Some((addr.parse().ok()?, len.parse().ok()?)));
    let fits = |(addr, len): &(IpAddr, u8)| *len <= if addr.is_ipv4() { 32 } else { 128 };
    parts.filter(fits).ok_or_else(|| Error::Value {
        what: "address",
        value: text.to_owned(),
        expected: "an address with its prefix length, as in 10.0.0.2/24".to_owned(),
    })
}

/// Parses a destination (`10.0.0.0/8`, `default`) and a gateway into a route. `default` has the
/// family of the gateway.
pub(crate) fn route(to: &str, via: &str) -> Result<RouteConfig, Error> {
    let fault = |what, value: &str, expected: &str| Error::Value {
        what,
        value: value.to_owned(),
        expected: expected.to_owned(),
    };
    let gateway: IpAddr = via.parse().map_err(|_| fault("gateway", via, "an IP address as in 10.0.0.1 or fe80::1"))?;
    let (to, len) = match to {
        "default" if gateway.is_ipv4() => (Ipv4Addr::UNSPECIFIED.into(), 0),
        "default" => (Ipv6Addr::UNSPECIFIED.into(), 0),
        prefix => address(prefix)?,
    };
    let bad = |why: String| Error::Value { what: "destination", value: to.to_string(), expected: why };
    match (to, gateway) {
        (IpAddr::V4(to), IpAddr::V4(via)) => {
            let to = Prefix::new(to, len).map_err(|why| bad(format!("a prefix: {why}")))?;
            Ok(RouteConfig { to, via: Some(via), ..RouteConfig::default() })
        }
        (IpAddr::V6(to), IpAddr::V6(via)) => {
            let to = Prefix6::new(to, len).map_err(|why| bad(format!("a prefix: {why}")))?;
            Ok(RouteConfig { to6: Some(to), via6: Some(via), ..RouteConfig::default() })
        }
        _ => Err(fault("gateway", via, "an address of the destination's family")),
    }
}

/// Sets the traffic policies of the ports of a new host ([`crate::policy`]).
fn apply<L: Locks>(
    policies: BTreeMap<usize, Policy>,
    ifaces: &[IfaceConfig],
    node: &node::Host<L>,
) -> Result<(), Error> {
    for (at, policy) in policies {
        let is_it = |name: &str| ifaces.get(at).is_some_and(|config| config.is_named(name));
        let iface = node.stack.ifaces().into_iter().find(|iface| is_it(&iface.name));
        if !iface.as_ref().is_some_and(|iface| node.set_policy(iface.id, Some(&policy))) {
            let name = iface.map_or_else(|| at.to_string(), |iface| iface.name.clone());
            return Err(Error::rejected(format!("policy of {name}"), "the interface has no port"));
        }
    }
    Ok(())
}

impl HostBuilder {
    /// Reads the configuration from the first `[[host]]` of a TOML file (feature `files`), with the
    /// keys that `linerate keys` lists. The file's keys `locks`, `threads`, `stacks`, `core` and
    /// `service` have no effect here and are rejected.
    ///
    /// # Errors
    /// Returns [`Error::Config`] with the place in the file, and [`Error::Rejected`] for a key
    /// without effect, or for a control socket without the feature `commands`.
    #[cfg(feature = "files")]
    pub fn from_file(path: impl AsRef<Path>) -> Result<HostBuilder, Error> {
        let mut hosts = node::config::load(path.as_ref())?;
        let mut config = hosts.swap_remove(0); // a file without a host is an error
        let default = HostConfig::default();
        let without_effect = [
            ("locks", config.locks != default.locks),
            ("threads", config.threads != default.threads),
            ("stacks", config.stacks != default.stacks),
            ("core", config.core.is_some()),
            ("service", !config.services.is_empty()),
        ];
        let of_file = |key: &str| format!("{}: {key}", path.as_ref().display());
        if let Some((key, _)) = without_effect.iter().find(|(_, is_set)| *is_set) {
            let why = "has no effect on a host of the library; remove the key, or use 'linerate up'";
            return Err(Error::rejected(of_file(key), why));
        }
        let control = config.control.take();
        #[cfg(feature = "commands")]
        let control = control.map(ControlSocket::new);
        #[cfg(not(feature = "commands"))]
        let control = match control {
            None => None,
            Some(_) => {
                let why = "a control socket needs the feature 'commands' of the library";
                return Err(Error::rejected(of_file("control"), why));
            }
        };
        Ok(HostBuilder { config, control, ..HostBuilder::default() })
    }

    /// Sets the name, `host` by default.
    pub fn name(mut self, name: &str) -> HostBuilder {
        self.config.name = name.to_owned();
        self
    }

    /// Adds an interface on the port `spec`, such as `tap:tap0`, `pair:cable` or
    /// `impair(loss=1%):pair:cable` ([`port`](crate::port) lists the kinds).
    pub fn port(mut self, spec: &str) -> HostBuilder {
        self.config.ifaces.push(IfaceConfig::on(spec));
        self
    }

    /// Adds an interface called `name` on a port of your own that moves bursts of frames itself.
    /// `open` opens the port; its argument is the pool from which the port takes buffers for
    /// received frames. [`HostBuilder::frames`] is simpler.
    pub fn own_port<F, E>(self, name: &str, open: F) -> HostBuilder
    where
        F: FnOnce(&buf::Pool) -> Result<OpenPort, E> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.open_own(name, Box::new(move |pool, _| open(pool).map_err(std::io::Error::other)))
    }

    fn open_own(mut self, name: &str, open: OpenOwn) -> HostBuilder {
        self.own.insert(self.config.ifaces.len(), open);
        // The specification only gives the interface its name.
        self.config
            .ifaces
            .push(IfaceConfig { name: Some(name.to_owned()), ..IfaceConfig::on(&format!("null:{name}")) });
        self
    }

    /// Adds an interface called `name` whose frames come from `source` and go to `sink`.
    pub fn frames(self, name: &str, source: impl FrameSource + 'static, sink: impl FrameSink + 'static) -> HostBuilder {
        let port_name = name.to_owned();
        self.own_port(name, move |pool| Ok::<_, Infallible>(::port::own::port(&port_name, pool, source, sink)))
    }

    /// Adds an interface called `name` for IP packets without Ethernet headers, such as those of a
    /// VPN. The packets come from `source` and go to `sink`. The port itself answers the host's ARP
    /// requests and neighbor solicitations, and counts them as sent. Frames other than IPv4, IPv6
    /// and ARP are dropped and counted as errors. The descriptor of `source` is requested once,
    /// when the host is built. It must not change, and epoll(7) must support it. A source without a
    /// descriptor is polled.
    pub fn packets(
        self,
        name: &str,
        source: impl FrameSource + 'static,
        sink: impl FrameSink + 'static,
    ) -> HostBuilder {
        let port_name = name.to_owned();
        self.open_own(name, Box::new(move |pool, mac| ::port::own::packets(&port_name, mac, pool, source, sink)))
    }

    /// Adds an interface called `name` whose frames pass through a
    /// [`channel`](crate::port::channel).
    pub fn channel(self, name: &str, end: ChannelPort) -> HostBuilder {
        let port_name = name.to_owned();
        self.own_port(name, move |pool| Ok::<_, Infallible>(end.open(&port_name, pool)))
    }

    /// Changes the configuration of the interface that was added last.
    fn iface(mut self, change: impl FnOnce(&mut IfaceConfig) -> Result<(), Error>) -> HostBuilder {
        let changed = match self.config.ifaces.last_mut() {
            Some(iface) => change(iface),
            None => Err(Error::rejected("interface", "none was added: call port() before its addresses and settings")),
        };
        if let Err(why) = changed {
            self.fault.get_or_insert(why);
        }
        self
    }

    /// Adds an address with its prefix length to the interface, as in `10.0.0.2/24` or
    /// `fd00::2/64`.
    pub fn addr(self, addr: &str) -> HostBuilder {
        self.iface(|iface| {
            let (addr, len) = address(addr)?;
            iface.add_address(addr, len);
            Ok(())
        })
    }

    /// Configures the interface by DHCP: IPv4 address, routes and name servers (feature `dhcp`).
    #[cfg(feature = "dhcp")]
    pub fn dhcp(self) -> HostBuilder {
        self.iface(|iface| {
            iface.dhcp = true;
            Ok(())
        })
    }

    /// Configures the interface from router advertisements: IPv6 addresses, routes and name
    /// servers.
    pub fn autoconf(self) -> HostBuilder {
        self.iface(|iface| {
            iface.accept_rtadv = true;
            Ok(())
        })
    }

    /// Sends router advertisements with the IPv6 prefixes of the interface, from which the hosts on
    /// its link configure themselves ([`HostBuilder::autoconf`]). Building a host that is not a
    /// [`Router`](crate::Router) with it is an error.
    pub fn advertise(self) -> HostBuilder {
        self.iface(|iface| {
            iface.advertise = true;
            Ok(())
        })
    }

    /// Sets the name of the interface. The default is the name of its port.
    pub fn iface_name(self, name: &str) -> HostBuilder {
        self.iface(|iface| {
            iface.name = Some(name.to_owned());
            Ok(())
        })
    }

    /// Sets the MAC address. The default is a random, locally administered address.
    pub fn mac(self, mac: [u8; 6]) -> HostBuilder {
        self.iface(|iface| {
            iface.mac = Some(Mac(mac));
            Ok(())
        })
    }

    /// Sets the MTU in bytes. The default is the MTU of the port's device, or 1500.
    pub fn mtu(self, mtu: u16) -> HostBuilder {
        self.iface(|iface| {
            iface.mtu = Some(mtu);
            Ok(())
        })
    }

    /// Sets the policy for the stations behind the port: which flows they may open, and how much
    /// they may transfer ([`policy`](crate::policy)).
    pub fn policy(mut self, policy: &Policy) -> HostBuilder {
        if let Some(last) = self.config.ifaces.len().checked_sub(1) {
            self.policies.insert(last, policy.clone());
        }
        self.iface(|_| Ok(()))
    }

    /// Adds a default route through `gateway`.
    pub fn gateway(self, gateway: &str) -> HostBuilder {
        self.route("default", gateway)
    }

    /// Adds a route to `to` (`10.0.0.0/8`, `fd00::/8` or `default`) through the gateway `via`.
    pub fn route(mut self, to: &str, via: &str) -> HostBuilder {
        match route(to, via) {
            Ok(route) => self.config.routes.push(route),
            Err(why) => _ = self.fault.get_or_insert(why),
        }
        self
    }

    /// Receives the packets for all addresses of a prefix, such as `0.0.0.0/0` or `::/0`, as if
    /// they were the host's own. A [`TcpForwarder`](crate::net::TcpForwarder) needs this for each
    /// family. Senders need a route through this host, since it answers neither ARP requests nor
    /// neighbor solicitations for the prefix.
    pub fn local(mut self, prefix: &str) -> HostBuilder {
        self.locals.push(prefix.to_owned());
        self
    }

    /// Adds a static entry to the neighbor table. An IPv6 neighbor is on the link of the interface
    /// that was added last.
    pub fn neighbor(mut self, addr: impl Into<IpAddr>, mac: [u8; 6]) -> HostBuilder {
        let (addr, mac) = (addr.into(), Mac(mac));
        match self.config.ifaces.len().checked_sub(1) {
            Some(last) if addr.is_ipv6() => self.neighbors6.push((last, NeighborConfig { addr, mac, dev: None })),
            None if addr.is_ipv6() => return self.iface(|_| Ok(())), // reports that there is no interface
            _ => self.config.neighbors.push(NeighborConfig { addr, mac, dev: None }),
        }
        self
    }

    /// Sets whether the port performs the offload `what`. By default, the port splits segments and
    /// verifies received checksums if it can, computes TCP and UDP checksums if it splits segments,
    /// and does not compute IPv4 header checksums. Building the host fails if an offload is on that
    /// the port does not support.
    pub fn offload(self, what: Offload, on: bool) -> HostBuilder {
        self.iface(|iface| {
            match what {
                Offload::IpChecksum => iface.ip4csum = on,
                Offload::TransportChecksum => iface.udp4csum = Some(on),
                Offload::Segmentation => iface.tso4 = Some(on),
                Offload::ReceiveChecksum => iface.rxcsum = Some(on),
            }
            Ok(())
        })
    }

    /// Adds a tunnel. The methods for interfaces apply to it, such as [`addr`](HostBuilder::addr)
    /// for the inner address. Its name selects the kind and ends with a number: `gif0` (IP in IP),
    /// `gre0`, `etherip0`, `vxlan0`.
    ///
    /// ```
    /// use linerate::{Host, Tunnel};
    ///
    /// let ends = Tunnel::between([192, 0, 2, 1], [192, 0, 2, 2]).key(7);
    /// let host = Host::builder().port("pair:outer").addr("192.0.2.1/24");
    /// let host = host.tunnel("gre0", ends).addr("10.9.0.1/24").build()?;
    /// # Ok::<(), linerate::Error>(())
    /// ```
    pub fn tunnel(mut self, name: &str, ends: Tunnel) -> HostBuilder {
        let Some(kind) = Kind::of_name(name) else {
            self.fault.get_or_insert(Error::Value {
                what: "tunnel",
                value: name.to_owned(),
                expected: "gif, gre, etherip or vxlan with a number, as in gre0".to_owned(),
            });
            return self;
        };
        let (name, tunnel) = (Some(name.to_owned()), Some(kind));
        self.config.ifaces.push(IfaceConfig { name, tunnel, ends: ends.config(kind), ..IfaceConfig::default() });
        self
    }

    /// Adds a name server.
    pub fn dns(mut self, server: IpAddr) -> HostBuilder {
        self.config.dns.push(server);
        self
    }

    /// Adds a domain in which names without a dot are looked up.
    pub fn search(mut self, domain: &str) -> HostBuilder {
        self.config.search.push(domain.to_owned());
        self
    }

    /// Sets a sysctl to a number or a word, such as `net.inet.ip.ttl` to 32, or
    /// `net.inet.tcp.cc.algorithm` to `cubic`. docs/keys.md lists them.
    pub fn sysctl(mut self, name: &str, value: impl fmt::Display) -> HostBuilder {
        let set = self.config.set_sysctl(name, &Item::Word(value.to_string()));
        if let Err(why) = set {
            self.fault.get_or_insert(Error::rejected(format!("sysctl {name}"), why));
        }
        self
    }

    /// Sets the number of buffers for frames, by default 4096. Each has 2 KiB.
    pub fn buffers(mut self, buffers: usize) -> HostBuilder {
        self.config.pool_buffers = buffers;
        self
    }

    /// Sets the seed of all random values: MAC addresses, ports, sequence numbers. With a seed,
    /// these values can be predicted, so a host that strangers can reach must not have one.
    pub fn seed(mut self, seed: u64) -> HostBuilder {
        self.config.seed = Some(seed);
        self
    }

    /// Calls `report` in the host's thread with each warning, such as a port that has closed
    /// because its device was removed, or a duplicate MAC address. Only for a [`Host`].
    pub fn on_warning(mut self, report: impl FnMut(&str) + Send + 'static) -> HostBuilder {
        self.on_warning = Some(Box::new(report));
        self
    }

    /// Accepts the routes of a routing engine at `address`, a loopback address of the kernel: FRR's
    /// zebra connects to it and sends its routes by the Forwarding Plane Manager protocol. Only for
    /// a [`Host`], with ports on kernel devices.
    pub fn fpm(mut self, address: SocketAddr) -> HostBuilder {
        if !address.ip().is_loopback() {
            let why = "the protocol has no authentication: use a loopback address such as 127.0.0.1:2620";
            self.fault.get_or_insert(Error::rejected(format!("fpm {address}"), why));
        }
        self.config.fpm.listen = Some(address);
        self
    }

    /// Opens a control socket at `path`, which the commands `linerate ctl`, `ss`, `ifconfig` and
    /// others use (feature `commands`). Only for a [`Host`].
    #[cfg(feature = "commands")]
    pub fn control(mut self, path: impl AsRef<Path>) -> HostBuilder {
        self.control = Some(ControlSocket::new(path.as_ref().to_owned()));
        self
    }

    /// Returns the builder, or the error of its first invalid value.
    fn checked(mut self) -> Result<HostBuilder, Error> {
        for (at, neighbor) in std::mem::take(&mut self.neighbors6) {
            let name = |iface: &IfaceConfig| iface.name.clone().or_else(|| Some(Spec::parse(&iface.port).ok()?.name));
            let dev = self.config.ifaces.get(at).and_then(name); // the port is checked later
            self.config.neighbors.push(NeighborConfig { dev, ..neighbor });
        }
        let advertises = self.config.ifaces.iter().any(|iface| iface.advertise);
        if advertises && self.config.sysctl.get("net.inet6.ip6.forwarding") != Some(&1) {
            let why = "only a router sends router advertisements: use Router::builder()";
            self.fault.get_or_insert(Error::rejected("advertise", why));
        }
        self.fault.take().map_or(Ok(self), Err)
    }

    /// Returns the builder, or an error if a value was set that only a [`Host`] supports.
    fn without_thread(self) -> Result<HostBuilder, Error> {
        let what = match &self.control {
            Some(control) => format!("control socket {}", control.path.display()),
            None if self.on_warning.is_some() => "on_warning".to_owned(),
            None => match self.config.fpm.listen {
                Some(address) => format!("fpm.listen {address}"),
                None if self.config.has_mirrors() => "mirror".to_owned(),
                None => return self.checked(),
            },
        };
        Err(Error::rejected(what, "only a host in a thread of its own supports it: use build()"))
    }

    /// Builds the host and starts its thread.
    ///
    /// # Errors
    /// Returns an [`Error`] about the first invalid value, or a port that could not be opened.
    pub fn build(self) -> Result<Host, Error> {
        let HostBuilder { config, own, locals, policies, control, on_warning, .. } = self.checked()?;
        let config = HostConfig { locks: "light".to_owned(), stay: true, ..config };
        let pairs = crate::port::pairs();
        let node = build_with_own::<Light>(&config, pairs, Clock::live(config.clock), own)?;
        apply(policies, &config.ifaces, &node)?;
        let host = background::start(node, &config, control, on_warning)?;
        locals.iter().try_for_each(|prefix| host.add_local(prefix))?;
        Ok(host)
    }

    /// Builds a host that runs on its owner's thread.
    ///
    /// # Errors
    /// The errors of [`HostBuilder::build`]. Also [`Error::Rejected`] if a control socket or the
    /// report of warnings was requested.
    pub fn build_local(self) -> Result<LocalHost, Error> {
        let HostBuilder { config, own, locals, policies, .. } = self.without_thread()?;
        let node = build_with_own::<Up>(&config, crate::port::pairs(), Clock::live(config.clock), own)?;
        apply(policies, &config.ifaces, &node)?;
        let host = LocalHost::new(Rc::new(node));
        locals.iter().try_for_each(|prefix| host.add_local(prefix))?;
        Ok(host)
    }

    /// Adds the host to a simulation.
    ///
    /// # Errors
    /// The errors of [`HostBuilder::build_local`]. Also [`Error::World`] for a port that is not
    /// available on virtual time, and [`Error::Build`] for a port of your own.
    pub fn build_in(self, world: &mut sim::World) -> Result<LocalHost, Error> {
        let HostBuilder { config, own, locals, policies, .. } = self.without_thread()?;
        if !own.is_empty() {
            let why = BuildError::Config("a port of your own is not available in a simulation".to_owned());
            return Err(why.into());
        }
        let id = world.0.add_configured(&config)?;
        let host = LocalHost::new(world.0.handle(id));
        apply(policies, &config.ifaces, host.node())?;
        locals.iter().try_for_each(|prefix| host.add_local(prefix))?;
        Ok(host)
    }
}

impl Host {
    /// Returns a builder for a host without ports.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }
}
