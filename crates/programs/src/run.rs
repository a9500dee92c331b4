//! Runs a host with one application: creates the host, runs the application until it ends or is
//! stopped, and audits the host's frame counters.

use crate::servers::Servers;
use crate::streams;
use apps::app::App;
use apps::date::Wall;
use apps::serve::{ServeCounts, Server};
use apps::streams::{Failure, Streams};
use clock::{Clock, Instant};
use dispatch::sandbox::{Sandbox, SandboxError};
use lock::{Heavy, Light, Locks, Up};
use node::Host;
use node::config::{HostConfig, ServiceConfig};
use node::control;
use node::figures::Collector;
use node::remote::{Families, LookupError, Remote};
use node::run::{Event, Outcome, Runner, Running};
use port::Pairs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum time for which the host sleeps without events; it bounds the delay of a stop request.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);
/// Time limit for closing the remaining connections after the application has ended or was stopped.
const FAREWELL: Duration = Duration::from_secs(2);

/// Reason why an application could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The host could not be created.
    #[error(transparent)]
    Build(#[from] node::run::BuildError),
    /// The control socket could not be opened.
    #[error("cannot open control socket {path}: {why}")]
    Control {
        /// Path of the socket.
        path: String,
        why: io::Error,
    },
    /// The host cannot report to the collector of figures.
    #[error("figures for metrics: {0}")]
    Figures(io::Error),
    /// A service of the host could not be opened.
    #[error("cannot open {} on port {}: {why}", service.kind, service.port.0)]
    Service { service: ServiceConfig, why: String },
    /// A program could not be started on the sockets of the host.
    #[error("cannot start {program}: {why}")]
    Start {
        /// Name of the program.
        program: String,
        why: io::Error,
    },
    /// The process could not enter the sandbox.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The name of the server to which a client connects could not be resolved.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The application could not listen on an address.
    #[error("cannot listen on {at}: {why}")]
    Listen {
        /// Local address and port on which the application could not listen.
        at: SocketAddr,
        why: Failure,
    },
}

/// Result of running an application.
#[derive(Debug)]
pub struct Ended<A> {
    /// The application, with its counters.
    pub app: A,
    /// Counters of the application's driver.
    pub counts: ServeCounts,
    /// Result of the host's audit, which compares the counters of received, sent and dropped
    /// frames.
    pub outcome: Outcome,
}

/// Runs an application on TCP port `port` of all addresses of a host created from `config`, on the
/// calling thread. The run ends on [`dispatch::request_stop`] (Ctrl-C, SIGTERM, or the control
/// command `stop`; see [`App::stop`]), when the host's ports have ended, or when `turned`, which is
/// called after each turn, returns `true`. Open connections then have a limited time to close.
///
/// `app` creates the application; its argument is the wall-clock time that corresponds to time 0 of
/// the host's clock. `each` receives events such as notices.
///
/// # Errors
/// [`RunError`].
pub fn run<A: App>(
    config: &HostConfig,
    port: u16,
    app: impl FnOnce(Wall) -> A,
    each: &mut dyn FnMut(&Event),
    turned: &mut dyn FnMut(&mut A) -> bool,
) -> Result<Ended<A>, RunError> {
    run_as(config, Role::Server(&[everywhere(port)]), None, &Sandbox::off(), |wall, _| app(wall), each, turned)
}

/// Role of the application: server or client.
#[derive(Clone, Copy, Debug)]
pub enum Role<'a> {
    /// Listens on these addresses.
    Server(&'a [SocketAddr]),
    /// Connects to this remote host at this L4 port, using an address of one of these families.
    Client(&'a Remote, u16, Families),
}

/// Returns the address `[::]` with this L4 port, on which a server accepts IPv4 and IPv6
/// connections.
pub fn everywhere(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))
}

/// Returns the unspecified address on which a server listens for the families that the flags `-4`
/// and `-6` select. With `-6` it serves both families, like any socket bound to `::`.
pub fn everywhere_of(families: Families, port: u16) -> SocketAddr {
    match families {
        Families::V4 => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
        Families::V6 | Families::Any => everywhere(port),
    }
}

/// Runs an application as [`run`] does, as a server or as a client according to `role`. `app` also
/// receives the resolved address of the server if the application is a client. The host reports its
/// figures to `collector`. The process enters `sandbox` once ports and control socket are open.
///
/// # Errors
/// [`RunError`].
pub fn run_as<A: App>(
    config: &HostConfig,
    role: Role<'_>,
    collector: Option<&Collector>,
    sandbox: &Sandbox,
    app: impl FnOnce(Wall, Option<SocketAddr>) -> A,
    each: &mut dyn FnMut(&Event),
    turned: &mut dyn FnMut(&mut A) -> bool,
) -> Result<Ended<A>, RunError> {
    stay_on_core(config, each);
    match config.locks.as_str() {
        "light" => live::<Light, A>(config, role, collector, sandbox, app, each, turned),
        "heavy" => live::<Heavy, A>(config, role, collector, sandbox, app, each, turned),
        _ => live::<Up, A>(config, role, collector, sandbox, app, each, turned),
    }
}

/// Pins the calling thread to the configured CPU core; passes a notice to `each` if that fails.
pub(crate) fn stay_on_core(config: &HostConfig, each: &mut dyn FnMut(&Event)) {
    if let Some(core) = config.core
        && let Err(why) = dispatch::pin_to_core(core)
    {
        each(&Event::Notice(format!("{}: cannot pin to CPU core {core}: {why}; running unpinned", config.name)));
    }
}

fn live<L: Locks, A: App>(
    config: &HostConfig,
    role: Role<'_>,
    collector: Option<&Collector>,
    sandbox: &Sandbox,
    app: impl FnOnce(Wall, Option<SocketAddr>) -> A,
    each: &mut dyn FnMut(&Event),
    turned: &mut dyn FnMut(&mut A) -> bool,
) -> Result<Ended<A>, RunError> {
    let pairs = Pairs::new();
    let host = node::run::build::<L>(config, &pairs, Clock::live(config.clock))?;
    collector.map_or(Ok(()), |collector| host.report_to(collector)).map_err(RunError::Figures)?;
    let (runner, programs) = runner(config, &host)?;
    let mut streams = streams::running(&host, runner, programs, &pairs);
    let (at, peer) = match role {
        Role::Server(at) => (at, None),
        Role::Client(peer, port, families) => {
            let notice = &mut |text| each(&Event::Notice(text));
            let poll = || streams.poll(&mut Vec::new(), Duration::from_millis(10));
            if let Err(why) = node::run::await_addresses(&host, notice, poll) {
                each(&Event::Notice(why.to_string()));
            }
            (&[][..], Some(host.resolve(peer, port, families)?))
        }
    };
    let app = app(wall(host.clock.now()), peer);
    let open = Server::open(app, &mut streams, at, host.clock.now());
    let mut server = open.map_err(|(at, why)| RunError::Listen { at, why })?;
    enter(sandbox, each)?;
    each(&Event::Running { name: config.name.clone(), control: config.control.clone() });
    let (mut until, mut is_stopping) = (Instant::NEVER, false);
    loop {
        let now = host.clock.now();
        if dispatch::stop_requested() && !std::mem::replace(&mut is_stopping, true) {
            until = if server.app.stop(now) { until.min(now.after(FAREWELL)) } else { now };
        }
        if streams.waits().runner().is_some_and(|runner| runner.is_over(now)) || now >= until {
            break;
        }
        server.turn(&mut streams, now, PATIENCE);
        streams.waits_mut().take_notices().into_iter().for_each(|text| each(&Event::Notice(text)));
        if turned(&mut server.app) || is_stopping {
            until = until.min(now.after(FAREWELL));
            if server.open_chans() == 0 && server.lingering() == 0 {
                break;
            }
        }
    }
    let over_and_lost = |runner: &Runner<L>| runner.is_over(host.clock.now()) && runner.has_lost_a_port();
    let lost_ports = streams.waits().runner().is_some_and(over_and_lost);
    let counts = std::mem::take(&mut server.counts);
    let app = server.close(&mut streams);
    streams.waits_mut().end_programs();
    drop(streams);
    node::run::farewell(&host, || false, &mut |text| each(&Event::Notice(text)));
    Ok(Ended { app, counts, outcome: Outcome { lost_ports, ..node::run::end(&host) } })
}

/// Opens the control socket and all services of `config`. The returned runner serves the datagram
/// services; the other services are returned as programs, which the caller runs in addition.
pub(crate) fn runner<'h, L: Locks>(
    config: &HostConfig,
    host: &'h Host<L>,
) -> Result<(Runner<L>, Running<'h>), RunError> {
    let bind = |path: &std::path::PathBuf| {
        control::HostServer::bind::<commands::All>(path)
            .map_err(|why| RunError::Control { path: path.display().to_string(), why })
    };
    let control = config.control.as_ref().map(bind).transpose()?;
    let failed = |service, why| RunError::Service { service, why };
    let runner = Runner::new(host, &config.services, control);
    let runner = runner.map_err(|(service, why)| failed(service, why.to_string()))?.stay(config.stay);
    let programs =
        Running::open(&Servers::LIVE, host, &config.services).map_err(|(service, why)| failed(service, why))?;
    Ok((runner, programs))
}

/// Enters the sandbox and passes its warnings to `each`.
pub(crate) fn enter(sandbox: &Sandbox, each: &mut dyn FnMut(&Event)) -> Result<(), SandboxError> {
    sandbox.enter()?.into_iter().for_each(|text| each(&Event::Notice(text.to_owned())));
    Ok(())
}

/// Returns the wall-clock time that corresponds to time 0 of the host's clock.
fn wall(now: Instant) -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(since.saturating_sub(now.since(Instant::ZERO)))
}
