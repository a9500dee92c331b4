//! Programs that run as part of a host's main loop: `iperf3` and `netserver`.

use crate::netperf::{OurSockets, Rest};
use crate::run::everywhere;
use crate::streams::{self, HostStreams};
use apps::iperf3::{self, COOKIE, Client, ClientConfig, CpuTimes, Iperf3, Params};
use apps::netperf::far::Far;
use apps::netperf::session::{self, FarEnd};
use apps::serve::Server;
use apps::slots::Limits;
use apps::streams::any_towards;
use apps::streams::net::Token;
use clock::Instant;
use lock::Locks;
use node::Host;
use node::config::{ServiceConfig, ServiceKind};
use node::remote::{Families, Remote};
use node::run::{Program, Programs};
use socket::resolve::Lookup;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

/// The programs available to hosts that a configuration file or command-line flags describe.
#[derive(Clone, Copy, Debug)]
pub struct Servers {
    /// Function that reads the CPU times for reports; `None`: reports omit them.
    cpu: Option<fn() -> CpuTimes>,
}

impl Servers {
    /// Programs for hosts that run in real time.
    pub const LIVE: Servers = Servers { cpu: Some(CpuTimes::of_process) };
    /// Programs for hosts in virtual time. They omit CPU times, so that runs with the same seed
    /// print the same output.
    pub const SIMULATED: Servers = Servers { cpu: None };
}

impl Programs for Servers {
    type Commands = commands::All;

    fn open<'h, L: Locks>(&self, host: &'h Host<L>, service: ServiceConfig) -> Result<Box<dyn Program + 'h>, String> {
        let at = everywhere(service.port.0);
        match service.kind {
            ServiceKind::Iperf3 => Ok(Box::new(Iperf3Server::open(host, at, self.cpu)?)),
            ServiceKind::Netserver => Ok(Box::new(Netserver::open(host, at)?)),
            kind @ (ServiceKind::Echo | ServiceKind::Discard) => {
                Err(format!("{kind} is a UDP service, which the host itself must serve"))
            }
        }
    }

    fn start<'h, L: Locks>(&self, host: &'h Host<L>, words: &[String]) -> Result<Box<dyn Program + 'h>, String> {
        match words.split_first() {
            Some((word, rest)) if word == "iperf3" => Ok(Box::new(Iperf3Client::start(host, rest, self.cpu)?)),
            _ => Err(format!("unknown program '{}': expected iperf3", words.join(" "))),
        }
    }
}

/// An iperf3 client, started through the control socket.
struct Iperf3Client<'h, L: Locks> {
    host: &'h Host<L>,
    streams: HostStreams<'h, L>,
    /// Pending lookup of the server's address, and the configuration of the test that starts after
    /// it.
    lookup: Option<(Lookup, ClientConfig)>,
    server: Option<Server<Client, Token>>,
    ended: Option<Result<(), String>>,
    output: String,
}

impl<'h, L: Locks> Iperf3Client<'h, L> {
    /// Parses `[-4|-6] HOST PORT INTERVAL-MS COOKIE text|json PARAMS`.
    fn start(
        host: &'h Host<L>,
        words: &[String],
        cpu: Option<fn() -> CpuTimes>,
    ) -> Result<Iperf3Client<'h, L>, String> {
        let (families, words) = match words.split_first() {
            Some((flag, rest)) if flag == "-4" => (Families::V4, rest),
            Some((flag, rest)) if flag == "-6" => (Families::V6, rest),
            _ => (Families::Any, words),
        };
        let [addr, port, interval, cookie, form, params] = words else {
            return Err("iperf3: expected [-4|-6] HOST PORT INTERVAL-MS COOKIE text|json PARAMS".into());
        };
        let bad = |what: &str, word: &str| format!("iperf3: invalid {what} '{word}'");
        let addr: Remote = addr.parse().map_err(|_| bad("address", addr))?;
        let port: u16 = port.parse().map_err(|_| bad("port", port))?;
        let calls = host.shared_calls();
        let mut lookup = Lookup::new(&calls, &addr.to_string(), port, families);
        if let Some(Err(why)) = lookup.turn(&calls) {
            return Err(format!("iperf3: {why}"));
        }
        let interval: u64 = interval.parse().map_err(|_| bad("interval", interval))?;
        let params = Params::parse(params.as_bytes()).map_err(|why| format!("iperf3: {why}"))?;
        let mut letters = [0; COOKIE];
        let room = letters.iter_mut().take(COOKIE - 1);
        if cookie.len() != COOKIE - 1 || !cookie.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(bad("cookie", cookie));
        }
        room.zip(cookie.bytes()).for_each(|(room, byte)| *room = byte);
        let unknown = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let config = ClientConfig {
            json: form == "json",
            interval: Duration::from_millis(interval),
            cpu,
            ..ClientConfig::new(params, unknown, letters)
        };
        let (streams, lookup) = (streams::beside(host), Some((lookup, config)));
        Ok(Iperf3Client { host, streams, lookup, server: None, ended: None, output: String::new() })
    }

    /// Starts the test once the server's address is known. Returns whether the lookup has ended in
    /// this call.
    fn begin(&mut self, now: Instant) -> bool {
        let Some((lookup, _)) = &mut self.lookup else { return false };
        let Some(found) = lookup.turn(&self.host.shared_calls()) else { return false };
        let Some((_, mut config)) = self.lookup.take() else { return false };
        let to = match found.map(|all| all.first().copied()) {
            Ok(Some(to)) => to,
            Ok(None) => return false, // not reached: a successful lookup returns an address
            Err(why) => {
                self.ended = Some(Err(why.to_string()));
                return true;
            }
        };
        (config.to, config.from) = (to, any_towards(to).ip());
        match Server::open(Client::new(config, now), &mut self.streams, &[], now) {
            Ok(server) => self.server = Some(server),
            Err((_, why)) => self.ended = Some(Err(why.to_string())),
        }
        true
    }
}

impl<L: Locks> Program for Iperf3Client<'_, L> {
    fn turn(&mut self, now: Instant) -> usize {
        self.streams.waits_mut().set_now(now);
        if self.begin(now) {
            return 1;
        }
        let Some(server) = &mut self.server else { return 0 };
        let worked = server.turn(&mut self.streams, now, Duration::ZERO);
        let worked = worked + server.turn(&mut self.streams, now, Duration::ZERO);
        self.output += &server.app.take_output();
        let result = server.app.result().map(|result| result.as_ref().map(|_| ()).map_err(|why| why.to_string()));
        // The last output is sent before the connection is closed.
        self.ended = result.filter(|_| server.open_chans() == 0 || worked == 0);
        worked + usize::from(server.is_runnable())
    }

    fn next_timer(&self) -> Option<Instant> {
        let lookup = self.lookup.as_ref().map(|(lookup, _)| lookup.next());
        lookup.or_else(|| self.server.as_ref().and_then(Server::next_timer))
    }

    fn take_output(&mut self) -> String {
        std::mem::take(&mut self.output)
    }

    fn ended(&self) -> Option<Result<(), String>> {
        self.ended.clone()
    }

    fn end(&mut self) {
        if let Some((mut lookup, _)) = self.lookup.take() {
            lookup.close(&self.host.shared_calls());
        }
        if let Some(server) = self.server.take() {
            server.close(&mut self.streams);
        }
    }
}

/// An iperf3 server. It reports only at the end of each test, since the interval reports of several
/// hosts would be mixed in one output.
struct Iperf3Server<'h, L: Locks> {
    streams: HostStreams<'h, L>,
    server: Option<Server<Iperf3, Token>>,
}

impl<'h, L: Locks> Iperf3Server<'h, L> {
    fn open(host: &'h Host<L>, at: SocketAddr, cpu: Option<fn() -> CpuTimes>) -> Result<Iperf3Server<'h, L>, String> {
        let mut streams = streams::beside(host);
        let app = Iperf3::new(iperf3::Config {
            interval: Duration::ZERO,
            cpu,
            datagrams_at: Some(at),
            ..iperf3::Config::default()
        });
        let opened = Server::open(app, &mut streams, &[at], host.clock.now());
        let server = opened.map_err(|(_, why)| why.to_string())?;
        Ok(Iperf3Server { streams, server: Some(server) })
    }
}

impl<L: Locks> Program for Iperf3Server<'_, L> {
    fn turn(&mut self, now: Instant) -> usize {
        self.streams.waits_mut().set_now(now);
        let Some(server) = &mut self.server else { return 0 };
        // A turn ends with a poll; the second turn handles the events of that poll before the host
        // sleeps.
        let worked = server.turn(&mut self.streams, now, Duration::ZERO);
        worked + server.turn(&mut self.streams, now, Duration::ZERO) + usize::from(server.is_runnable())
    }

    fn next_timer(&self) -> Option<Instant> {
        self.server.as_ref().and_then(Server::next_timer)
    }

    fn take_output(&mut self) -> String {
        self.server.as_mut().map(|server| server.app.take_output()).unwrap_or_default()
    }

    fn end(&mut self) {
        if let Some(server) = self.server.take() {
            server.close(&mut self.streams);
        }
    }
}

/// The far end of netperf (netserver).
struct Netserver<'h, L: Locks> {
    sockets: OurSockets<'h, L>,
    far: Far<OurSockets<'h, L>>,
}

impl<'h, L: Locks> Netserver<'h, L> {
    fn open(host: &'h Host<L>, at: SocketAddr) -> Result<Netserver<'h, L>, String> {
        let mut sockets = OurSockets::new(host, Rest::Never);
        let most = <session::Netserver as FarEnd>::CONNECTIONS;
        let limits = Limits { most, per_peer: most.div_ceil(2) };
        let far = Far::open(&mut sockets, at, limits).map_err(|why| why.to_string())?;
        Ok(Netserver { sockets, far })
    }
}

impl<L: Locks> Program for Netserver<'_, L> {
    fn turn(&mut self, _now: Instant) -> usize {
        let now = self.sockets.set_now();
        usize::from(self.far.turn(&mut self.sockets, now))
    }

    /// Returns the time at which a silent near end (the client) is disconnected. In all other
    /// cases, a test ends with its control connection or at the request of the near end.
    fn next_timer(&self) -> Option<Instant> {
        self.far.next_timer()
    }
}
