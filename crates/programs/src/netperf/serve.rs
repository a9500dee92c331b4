//! Runs one end of a test on a host that command-line flags configure. The other end is another
//! process or machine.

use super::{OurSockets, Rest};
use crate::run::{PATIENCE, RunError, enter, runner, stay_on_core};
use anyhow::Context;
use apps::netperf::session::{FarEnd, Play, Turn};
use apps::netperf::sockets::{Pace, Sockets};
use apps::slots::Limits;
use clock::Clock;
use dispatch::sandbox::Sandbox;
use lock::{Heavy, Light, Locks, Up};
use node::Host;
use node::config::HostConfig;
use node::figures::Collector;
use node::remote::{Families, Remote};
use node::run::{Event, Outcome};
use port::Pairs;
use std::net::SocketAddr;

/// Serves a far end at the address `at` on a host created from `config`. Returns after
/// [`dispatch::request_stop`] (Ctrl-C, or the control command `stop`), or when the ports of the
/// host have ended. The host reports its figures to `collector`. The process enters `sandbox` once
/// the far end listens.
///
/// # Errors
/// [`RunError`].
pub fn serve<A: FarEnd>(
    config: &HostConfig,
    at: SocketAddr,
    limits: Limits,
    collector: Option<&Collector>,
    sandbox: &Sandbox,
    each: &mut dyn FnMut(&Event),
) -> Result<Outcome, RunError> {
    stay_on_core(config, each);
    match config.locks.as_str() {
        "light" => live::<Light, A>(config, at, limits, collector, sandbox, each),
        "heavy" => live::<Heavy, A>(config, at, limits, collector, sandbox, each),
        _ => live::<Up, A>(config, at, limits, collector, sandbox, each),
    }
}

fn live<L: Locks, A: FarEnd>(
    config: &HostConfig,
    at: SocketAddr,
    limits: Limits,
    collector: Option<&Collector>,
    sandbox: &Sandbox,
    each: &mut dyn FnMut(&Event),
) -> Result<Outcome, RunError> {
    let pairs = Pairs::new();
    let host = node::run::build::<L>(config, &pairs, Clock::live(config.clock))?;
    collector.map_or(Ok(()), |collector| host.report_to(collector)).map_err(RunError::Figures)?;
    let (mut runner, mut programs) = runner(config, &host)?;
    let mut sockets = OurSockets::new(&host, Rest::Never);
    let (mut far, _) = A::open(&mut sockets, at, limits).map_err(|why| RunError::Listen { at, why })?;
    enter(sandbox, each)?;
    each(&Event::Running { name: config.name.clone(), control: config.control.clone() });
    while !dispatch::stop_requested() && !runner.is_over(host.clock.now()) {
        let patience = programs.patience(|| host.clock.now(), PATIENCE);
        let turn = || {
            let now = sockets.set_now();
            usize::from(far.turn(&mut sockets, now)) + programs.turn(&host)
        };
        runner.round_with(&host, &pairs, &mut |text| each(&Event::Notice(text)), patience, &[], turn);
        programs.report(&mut |line| each(&Event::Notice(format!("{}: {line}", config.name))));
    }
    programs.end();
    let lost_ports = runner.is_over(host.clock.now()) && runner.has_lost_a_port();
    drop((runner, programs));
    node::run::farewell(&host, || false, &mut |text| each(&Event::Notice(text)));
    Ok(Outcome { lost_ports, ..node::run::end(&host) })
}

/// Runs the near end of `play` on a host created from `config`. The far end is at the L4 port
/// `port` of the remote host `far`.
///
/// # Errors
/// The host could not be created, `far` has no address of `families`, or the test failed.
pub fn ask<P: Play>(
    play: &mut P,
    config: &HostConfig,
    far: &Remote,
    port: u16,
    families: Families,
) -> anyhow::Result<()> {
    let pairs = Pairs::new();
    let host: Host<Up> = node::run::build(config, &pairs, Clock::live(config.clock))?;
    let mut sockets = OurSockets::new(&host, Rest::Sleeps);
    let configured = node::run::await_addresses(&host, &mut |_| {}, || {
        sockets.step(Pace::Wait);
    });
    let at = host.resolve(far, port, families).map_err(anyhow::Error::from);
    let result = at.and_then(|at| play.near(&mut sockets, &mut |sockets, pace| sockets.step(pace), at));
    match configured {
        Err(why) => result.context(why), // probably the cause of the failure
        Ok(()) => result,
    }
}
