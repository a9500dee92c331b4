//! Runs the hosts of a topology file in one process, from their start to the final audit. Each host
//! has its own thread, which can be pinned to a core.

mod beats;
mod error;
mod gate;
mod main_thread;
mod shared;

pub use error::{Unconfigured, UpError};
pub use shared::Event;

use super::programs::Running;
use super::{BuildError, IDLE, Outcome, Programs, Runner, build, build_sharded};
use crate::Host;
use crate::config::{ConfigFile, HostConfig, Network, ServiceConfig, SwitchFile};
use crate::control::{HostServer, SwitchServer};
use crate::figures::Collector;
use crate::reload::Participant;
use crate::service::{LONGEST, Service};
use crate::split::{self, Dispatcher, Shard};
use crate::switch::Switch;
use crate::topology::Topology;
use clock::{Clock, Duration, Instant};
use dispatch::sandbox::Sandbox;
use gate::Gate;
use lock::{Heavy, Light, Locks, Up};
use main_thread::attend;
use shared::{Report, Shared};
use socket::Poller;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};

/// Runs the hosts `configs` until [`dispatch::request_stop`] is called (by Ctrl-C, SIGTERM or the
/// command `stop`), with TCP services opened by `programs`. A host also ends when its ports have
/// ended, unless it is configured to stay. Calls `each` for each event. Returns the outcomes in the
/// order of `configs`.
///
/// # Errors
/// Returns an [`UpError`] after all threads have ended.
pub fn up_with<P: Programs + 'static>(
    configs: Vec<HostConfig>,
    programs: P,
    each: impl FnMut(&Event),
) -> Result<Vec<Outcome>, UpError> {
    up_network(Network { hosts: configs, ..Network::default() }, programs, None, &Sandbox::off(), None, false, each)
}

/// Runs hosts like [`up_with`], and the switches between them, until the last host has ended. Each
/// switch has its own thread. In the result, the outcomes of the switches follow the outcomes of
/// the hosts. All of them report to `collector`. The process enters `sandbox` when all ports are
/// open, before the first frame is processed. On SIGHUP, the hosts reload `file`, from which they
/// were started ([`dispatch::install_reload_handler`]). With `is_logging`, hosts report events for
/// logs ([`Event::Log`]).
///
/// # Errors
/// Returns an [`UpError`] after all threads have ended.
pub fn up_network<P: Programs + 'static>(
    network: Network,
    programs: P,
    collector: Option<Arc<Collector>>,
    sandbox: &Sandbox,
    file: Option<Arc<ConfigFile>>,
    is_logging: bool,
    mut each: impl FnMut(&Event),
) -> Result<Vec<Outcome>, UpError> {
    let (topology, nodes) = (Arc::new(Topology::of_network(&network)), network.parts());
    let Network { hosts: configs, switches, .. } = network;
    let (hosts, end) = (AtomicUsize::new(configs.len()), AtomicBool::new(false));
    let unfinished = AtomicUsize::new(0);
    let gate = Gate::default();
    let (pairs, reload, beats) = Default::default();
    let shared =
        Shared { pairs, topology, programs, collector, file, is_logging, reload, beats, hosts, unfinished, end, gate };
    let shared = Arc::new(shared);
    let (say, said) = channel();
    let mut threads = Vec::new();
    let mut failed = None;
    for config in configs {
        let (name, core, shared, say) = (config.name.clone(), config.core, shared.clone(), say.clone());
        let work = move |pin: Option<io::Error>| {
            let lived = live(&config, pin, &shared, &say);
            shared.hosts.fetch_sub(1, Ordering::Relaxed);
            let _ = say.send(Report::Ended(config.name)); // fails only when everything has ended
            lived
        };
        match dispatch::spawn_worker(&name, core, work) {
            Ok(thread) => threads.push((name, thread)),
            Err(why) => failed = Some(UpError::Thread { host: name, why: why.to_string() }),
        }
    }
    for file in switches {
        let (name, shared, say) = (file.name.clone(), shared.clone(), say.clone());
        match dispatch::spawn_worker(&name, None, move |_| switch(&file, &shared, &say).into_iter().collect()) {
            Ok(thread) => threads.push((name, thread)),
            Err(why) => failed = Some(UpError::Thread { host: name, why: why.to_string() }),
        }
    }
    drop(say);
    if failed.is_none() {
        failed = attend(&said, nodes, &shared, sandbox, &mut each);
    }
    if failed.is_some() {
        shared.end.store(true, Ordering::Relaxed);
    }
    shared.gate.open();
    let mut outcomes = Vec::new();
    for (name, thread) in threads {
        match thread.join() {
            Ok(outcome) => outcomes.extend(outcome),
            Err(_) => failed = failed.or(Some(UpError::Thread { host: name, why: "panicked".to_string() })),
        }
    }
    failed.map_or(Ok(outcomes), Err)
}

/// Body of the thread of a switch.
fn switch<P: Programs>(file: &SwitchFile, shared: &Shared<P>, say: &Sender<Report>) -> Option<Outcome> {
    let run = || {
        let switch =
            Switch::of_file::<P::Commands>(file, &shared.pairs, Clock::live(clock::Strategy::default()), None)?;
        let mut control = file
            .control
            .as_ref()
            .map(|path| SwitchServer::bind::<P::Commands>(path).map_err(control_error(&file.name, path)))
            .transpose()?;
        shared.collect_from(&file.name, |collector| switch.report_to(collector))?;
        let path = control.as_ref().map(|control| control.server.path().to_path_buf());
        let _ = say.send(Report::Running(Event::Running { name: file.name.clone(), control: path }));
        shared.gate.pass();
        let beat = shared.beats.add();
        let over = || {
            beat.note();
            shared.is_over() || shared.hosts.load(Ordering::Relaxed) == 0
        };
        Ok(switch.run_as_node(control.as_mut(), over)?)
    };
    run().map_err(|why| say.send(Report::Failed(why))).ok()
}

/// Body of the thread of a host.
fn live<P: Programs>(
    config: &HostConfig,
    pin: Option<io::Error>,
    shared: &Shared<P>,
    say: &Sender<Report>,
) -> Vec<Outcome> {
    if let (Some(why), Some(core)) = (pin, config.core) {
        let text = format!("{}: cannot pin to core {core}: {why}; running on any core", config.name);
        let _ = say.send(Report::Notice(text)); // fails only when everything has ended
    }
    let lived = match config.locks.as_str() {
        _ if config.stacks > 1 => live_split(config, shared, say),
        "light" => live_shared::<Light, P>(config, shared, say).map(|outcome| vec![outcome]),
        "heavy" => live_shared::<Heavy, P>(config, shared, say).map(|outcome| vec![outcome]),
        _ => prepare::<Up, P>(config, shared).and_then(|host| {
            let runner = runner::<_, P>(config, &host, &config.services)?;
            run(config, &host, runner, shared, say).map(|outcome| vec![outcome])
        }),
    };
    lived.map_err(|why| say.send(Report::Failed(why))).unwrap_or_default()
}

/// Runs a split host. This thread is the dispatcher, and each stack has a thread of its own.
fn live_split<P: Programs>(
    config: &HostConfig,
    shared: &Shared<P>,
    say: &Sender<Report>,
) -> Result<Vec<Outcome>, UpError> {
    let fault = |why| BuildError::Split { host: config.name.clone(), why };
    let (mut dispatcher, shards) = Dispatcher::open(config, &shared.pairs, Clock::live(config.clock)).map_err(fault)?;
    shared.collect_from(&config.name, |collector| dispatcher.report_to(collector))?;
    let (parts, living) = (split::parts(config), AtomicUsize::new(shards.len()));
    let mut outcomes = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut failed = None;
        for (part, shard) in parts.iter().zip(shards) {
            let end = Ends(&living);
            let live = move || {
                let _end = end;
                live_sharded(part, shard, shared, say).map_err(|why| say.send(Report::Failed(why))).ok()
            };
            match dispatch::spawn_scoped(scope, &part.name, live) {
                Ok(thread) => threads.push((part.name.clone(), thread)),
                Err(why) => failed = Some(UpError::Thread { host: part.name.clone(), why: why.to_string() }),
            }
        }
        // Even when the host is shutting down, its stacks wait for acknowledgments, and process
        // data from other hosts.
        let is_done = || shared.is_over() && shared.unfinished.load(Ordering::Acquire) == 0;
        let beat = shared.beats.add();
        let is_over = || {
            beat.note();
            is_done() || failed.is_some()
        };
        if failed.is_some() {
            shared.end.store(true, Ordering::Relaxed);
        }
        dispatcher.run(is_over, || living.load(Ordering::Acquire) == 0);
        let mut outcomes = Vec::new();
        for (host, thread) in threads {
            match thread.join() {
                Ok(outcome) => outcomes.extend(outcome),
                Err(_) => failed = Some(UpError::Thread { host, why: "panicked".to_string() }),
            }
        }
        failed.map_or(Ok(outcomes), Err)
    })?;
    outcomes.push(dispatcher.end());
    Ok(outcomes)
}

/// Guard that decrements the counter when the guard is dropped.
struct Ends<'a>(&'a AtomicUsize);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Body of the thread of one stack of a split host.
fn live_sharded<P: Programs>(
    part: &HostConfig,
    shard: Shard,
    shared: &Shared<P>,
    say: &Sender<Report>,
) -> Result<Outcome, UpError> {
    if let Some((core, Err(why))) = part.core.map(|core| (core, dispatch::pin_to_core(core))) {
        let text = format!("{}: cannot pin to core {core}: {why}; running on any core", part.name);
        let _ = say.send(Report::Notice(text)); // fails only when everything has ended
    }
    let host = build_sharded(part, Clock::live(part.clock), shard)?;
    host.set_topology(shared.topology.clone());
    if let Some(file) = &shared.file {
        host.set_file(file.clone());
    }
    shared.collect_from(&part.name, |collector| host.report_to(collector))?;
    let runner = runner::<_, P>(part, &host, &part.services)?;
    run(part, &host, runner, shared, say)
}

/// Runs a host with several threads. The first thread runs the host's loop. The other threads run
/// UDP services or netisr's workstreams, or receive from a part of the ports.
fn live_shared<L: Locks, P: Programs>(
    config: &HostConfig,
    shared: &Shared<P>,
    say: &Sender<Report>,
) -> Result<Outcome, UpError>
where
    Host<L>: Sync,
{
    let mut host = prepare::<L, P>(config, shared)?;
    let datagrams: Vec<_> = config.services.iter().copied().filter(|service| service.kind.is_datagrams()).collect();
    let helpers = (config.threads - 1).min(datagrams.len());
    host.stack.set_queue(host.cx(), Some(0)); // other threads use the queues of their parts
    let movers = if host.isr_threads() == 0 { config.threads - 1 - helpers } else { 0 };
    host.divide(1 + movers);
    if helpers == 0 && movers == 0 && host.isr_threads() == 0 {
        let runner = runner::<_, P>(config, &host, &config.services)?;
        return run(config, &host, runner, shared, say);
    }
    let (theirs, ours) = if helpers > 0 { (&*datagrams, &[][..]) } else { (&[][..], &*datagrams) };
    let calls = host.shared_calls();
    let open = |service| Service::open(&calls, service).map_err(|why| service_error(config, service, why));
    let services = theirs.iter().copied().map(open).collect::<Result<Vec<_>, _>>()?;
    let runner = runner::<_, P>(config, &host, ours)?;
    let over = AtomicBool::new(false);
    let end = || {
        over.store(true, Ordering::Relaxed);
        host.finish_isr();
    };
    std::thread::scope(|scope| {
        let mut threads = Threads::new();
        let helpers = (0..helpers).try_for_each(|helper| {
            let mine: Vec<Service> = services.iter().copied().skip(helper).step_by(helpers).collect();
            let (host, over) = (&host, &over);
            spawn(scope, &mut threads, format!("{}.{helper}", config.name), move || help(host, &mine, over))
        });
        let movers = helpers.and_then(|()| {
            (1..=movers).try_for_each(|part| {
                let (host, over, gate, say) = (&host, &over, &shared.gate, say.clone());
                spawn(scope, &mut threads, format!("{}.ports{part}", config.name), move || {
                    run_part(config, host, part, gate, over, &say);
                })
            })
        });
        let all = movers.and_then(|()| {
            (0..host.isr_threads()).try_for_each(|at| {
                let (host, say) = (&host, say.clone());
                spawn(scope, &mut threads, format!("{}.isr{at}", config.name), move || work(config, host, at, &say))
            })
        });
        if let Err(why) = all {
            end();
            return Err(UpError::Thread { host: config.name.clone(), why: why.to_string() });
        }
        // The other threads end before the audit, so that no counter changes during the audit.
        run_with(config, &host, runner, shared, say, || {
            end();
            for (name, thread) in threads {
                if thread.join().is_err() {
                    let _ = say.send(Report::Notice(format!(
                        "{name}: thread panicked; the frames it was processing are lost"
                    )));
                }
            }
        })
    })
}

type Threads<'scope> = Vec<(String, ScopedJoinHandle<'scope, ()>)>;

fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    threads: &mut Threads<'scope>,
    name: String,
    work: impl FnOnce() + Send + 'scope,
) -> io::Result<()> {
    let thread = dispatch::spawn_scoped(scope, &name, work)?;
    threads.push((name, thread));
    Ok(())
}

/// Interval at which [`run_part`] checks whether the start signal was given.
const GATE_LOOK: std::time::Duration = std::time::Duration::from_millis(2);

/// Receives from part `part` of the ports, from the start signal (`gate`) until `over` is set. If
/// the host is pinned to a core, this thread is pinned to core number `core + part`.
fn run_part<L: Locks>(
    config: &HostConfig,
    host: &Host<L>,
    part: usize,
    gate: &Gate,
    over: &AtomicBool,
    say: &Sender<Report>,
) {
    let is_over = || over.load(Ordering::Relaxed);
    if let Some(core) = config.core.map(|core| dispatch::core_at(core + part))
        && let Err(why) = dispatch::pin_to_core(core)
    {
        let text = format!("{}.ports{part}: cannot pin to core {core}: {why}; running on any core", config.name);
        let _ = say.send(Report::Notice(text)); // fails only when everything has ended
    }
    while !gate.is_open() && !is_over() {
        std::thread::sleep(GATE_LOOK); // if the start fails, `over` is set before the gate opens
    }
    host.run_part(part, is_over);
}

/// Runs a workstream of netisr, pinned to a core if configured.
fn work<L: Locks>(config: &HostConfig, host: &Host<L>, at: usize, say: &Sender<Report>) {
    let core = dispatch::core_at(at);
    let pinned = if config.isr.bind { dispatch::pin_to_core(core) } else { Ok(()) };
    if let Err(why) = pinned {
        let text = format!("{}.isr{at}: cannot pin to core {core}: {why}; running on any core", config.name);
        let _ = say.send(Report::Notice(text)); // fails only when everything has ended
    }
    if let Err(why) = host.run_isr(at) {
        let _ = say.send(Report::Notice(format!("{}.isr{at}: {why}", config.name)));
    }
}

/// Runs UDP services until `over` is set, sleeping while no datagrams arrive.
fn help<L: Locks>(host: &Host<L>, services: &[Service], over: &AtomicBool) {
    let (calls, poller) = (host.shared_calls(), Poller::default());
    let mut buffer = vec![0; LONGEST];
    for service in services {
        let _ = calls.watch(&poller, service.fd()); // cannot fail: they were opened above
    }
    while !over.load(Ordering::Relaxed) {
        calls.set_now(host.clock.now());
        let served: usize = services.iter().map(|service| service.serve(&calls, &mut buffer)).sum();
        if served == 0 {
            poller.wait(&calls, Some(Duration::from_millis(50)));
        }
    }
}

fn prepare<L: Locks, P>(config: &HostConfig, shared: &Shared<P>) -> Result<Host<L>, UpError> {
    let host = build(config, &shared.pairs, Clock::live(config.clock))?;
    host.set_topology(shared.topology.clone());
    if let Some(file) = &shared.file {
        host.set_file(file.clone());
    }
    shared.collect_from(&config.name, |collector| host.report_to(collector))?;
    Ok(host)
}

fn service_error(config: &HostConfig, service: ServiceConfig, why: impl ToString) -> UpError {
    let what = format!("{} on port {}", service.kind, service.port.0);
    UpError::Service { host: config.name.clone(), what, why: why.to_string() }
}

fn control_error(host: &str, path: &Path) -> impl FnOnce(io::Error) -> UpError {
    |why| UpError::Control { host: host.to_string(), path: path.display().to_string(), why }
}

fn runner<L: Locks, P: Programs>(
    config: &HostConfig,
    host: &Host<L>,
    services: &[ServiceConfig],
) -> Result<Runner<L>, UpError> {
    let bind = |path: &PathBuf| HostServer::bind::<P::Commands>(path).map_err(control_error(&config.name, path));
    let control = config.control.as_ref().map(bind).transpose()?;
    let runner = Runner::new(host, services, control);
    Ok(runner.map_err(|(service, why)| service_error(config, service, why))?.stay(config.stay))
}

fn run<L: Locks, P: Programs>(
    config: &HostConfig,
    host: &Host<L>,
    runner: Runner<L>,
    shared: &Shared<P>,
    say: &Sender<Report>,
) -> Result<Outcome, UpError> {
    run_with(config, host, runner, shared, say, || {})
}

/// Runs the host from its first round to its audit. `over` stops the host's other threads before
/// the audit.
fn run_with<L: Locks, P: Programs>(
    config: &HostConfig,
    host: &Host<L>,
    runner: Runner<L>,
    shared: &Shared<P>,
    say: &Sender<Report>,
    over: impl FnOnce(),
) -> Result<Outcome, UpError> {
    let opened = Running::open(&shared.programs, host, &config.services);
    let mut programs = match opened {
        Ok(programs) => programs,
        Err((service, why)) => {
            over();
            return Err(service_error(config, service, why));
        }
    };
    shared.unfinished.fetch_add(1, Ordering::AcqRel);
    let mut unfinished = Some(Ends(&shared.unfinished));
    let control = runner.control.as_ref().map(|control| control.server.path().to_path_buf());
    let _ = say.send(Report::Running(Event::Running { name: host.stack.name.clone(), control }));
    shared.gate.pass();
    let mut notice = |text| drop(say.send(Report::Notice(text)));
    let mut runner = runner.logging(shared.is_logging);
    let (beat, mut reloads) = (shared.beats.add(), Participant::default());
    while !shared.is_over() && !runner.is_over(host.clock.now()) {
        beat.note();
        if let Some(report) = reloads.turn(&shared.reload, host, &shared.pairs) {
            let _ = say.send(Report::Reload(report)); // fails only when everything has ended
        }
        let patience = programs.patience(|| host.clock.now(), IDLE);
        for event in runner.take_events() {
            let _ = say.send(Report::Log(event)); // fails only when everything has ended
        }
        runner.round_with(host, &shared.pairs, &mut notice, patience, &[], || programs.turn(host));
        programs.report(&mut |line| notice(format!("{}: {line}", config.name)));
    }
    programs.end();
    drop(beat);
    let is_needed = || {
        unfinished = None;
        shared.is_over() && shared.unfinished.load(Ordering::Acquire) > 0
    };
    farewell(host, is_needed, &mut notice);
    drop(unfinished);
    over();
    runner.report_warnings(host, &mut notice);
    Ok(Outcome { lost_ports: runner.is_over(host.clock.now()) && runner.has_lost_a_port(), ..end(host) })
}

/// Timeout of [`await_addresses`].
const ADDRESSES: Duration = Duration::from_secs(15);
/// Waiting time after which [`await_addresses`] reports what it waits for.
const WAIT_NOTICE: Duration = Duration::from_secs(2);

/// Runs `round` until the addresses of `host` are usable. IPv6 duplicate address detection takes a
/// second, and autoconfiguration and DHCP wait for the first router or lease. A client that
/// connects earlier has no source address. Calls `notice` with a line when the wait exceeds
/// [`WAIT_NOTICE`]. Returns early on Ctrl-C.
///
/// # Errors
/// Returns [`Unconfigured`] if an interface was not configured in time. The addresses that exist
/// can be used nevertheless.
pub fn await_addresses<L: Locks>(
    host: &Host<L>,
    notice: &mut dyn FnMut(String),
    mut round: impl FnMut(),
) -> Result<(), Unconfigured> {
    let began = host.clock.now();
    let (until, mut notice_at) = (began.after(ADDRESSES), began.after(WAIT_NOTICE));
    let without_router = || {
        let is_waiting = |iface: &&inet::iface::Iface<L>| {
            iface.accepts_rtadv(host.cx()) && iface.default_routers(host.cx()).is_empty()
        };
        host.stack.ifaces().find(is_waiting)
    };
    let without_lease = || host.dhcp().awaiting().and_then(|id| host.stack.iface(id));
    let name = |iface: &inet::iface::Iface<L>| (host.stack.name.clone(), iface.name.clone());
    while (host.stack.has_tentative(host.cx()) || without_lease().is_some()) && host.clock.now() < until {
        if dispatch::stop_requested() {
            return Ok(());
        }
        round();
        if host.clock.now() < notice_at {
            continue;
        }
        notice_at = Instant::NEVER;
        if let Some(iface) = without_router() {
            notice(format!("{}: {}: waiting for a router advertisement", host.stack.name, iface.name));
        }
        if let Some(iface) = without_lease() {
            notice(format!("{}: {}: waiting for a DHCP server", host.stack.name, iface.name));
        }
    }
    match (without_lease(), without_router()) {
        (Some(iface), _) => {
            let (host, iface) = name(iface);
            Err(Unconfigured::NoLease { host, iface })
        }
        (None, Some(iface)) => {
            let (host, iface) = name(iface);
            Err(Unconfigured::NoRouter { host, iface })
        }
        (None, None) => Ok(()),
    }
}

/// Shuts a host down within 2 s: sends written data and waits for its acknowledgment. Then keeps
/// running for other hosts while `is_needed` returns true. Calls `notice` with a message if
/// connections had to be reset. A second SIGINT or SIGTERM ends the process at once.
pub fn farewell<L: Locks>(host: &Host<L>, is_needed: impl FnMut() -> bool, notice: &mut dyn FnMut(String)) {
    const PATIENCE: Duration = Duration::from_secs(2);
    let left = host.shutdown_while(PATIENCE, is_needed);
    if left.is_empty() {
        return;
    }
    let (n, bytes): (usize, usize) = (left.len(), left.iter().map(|left| left.bytes).sum());
    let waited = PATIENCE.as_secs();
    notice(format!(
        "{}: {n} connections were reset with {bytes} bytes that their peers did not acknowledge within {waited} s",
        host.stack.name
    ));
}

/// Drops queued frames, and returns the outcome with the final audit.
pub fn end<L: Locks>(host: &Host<L>) -> Outcome {
    host.discard();
    let report = host.audit();
    let (rx, tx) = host.port_imbalance(&report);
    Outcome {
        name: host.stack.name.clone(),
        audit: host.audit_text(&report),
        imbalance: [report.imbalance(), rx, tx],
        lost_ports: false,
    }
}

#[cfg(test)]
mod tests;
